#include "job/strategy.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  SAMPLE = 20,
  SAMPLE_MAX = 2 << 20,
  /* Bytes of a document. Interpolated, not measured: the server had 0.92 times the client's speed with small documents,
   * and 1.19 times with documents of 3 to 5 kB. */
  SERVER_FROM = 1500,
  /* Of a page of the server's, so many bytes at most where the documents are alike; and so many documents. Measured with
   * small documents: in pages of 1,000, which is the server's default, 1.05 of the time. */
  PAGE_BYTES = 8 << 20,
  PAGE_MOST = 5000,
  PAGE_LEAST = 10,
};

const char *mt_strategy_name(mt_strategy strategy) {
  static const char *const names[] = {"client", "server", "auto"};
  return names[strategy];
}

/* ---- Deciding --------------------------------------------------------------------------------- */

static const char *why_not(bool listed, bool inverse, bool ids) {
  return ids       ? "documents get other ids, for which the server has no request"
         : !listed ? "only a change that has an exact inverse can be made by the server"
         : !inverse
             ? "its undo needs a journal, which the server does not keep; a rename into a tree "
               "that holds no documents, without a query, needs none"
             : NULL;
}

/* Of a choice that the documents' size does not make: `why` is why the server may not. */
static mt_choice chosen_by_rule(mt_strategy asked, const char *why) {
  mt_choice c = {.strategy = asked == MT_STRATEGY_SERVER && !why ? MT_STRATEGY_SERVER : MT_STRATEGY_CLIENT};
  snprintf(c.why, sizeof c.why, "%s",
           asked == MT_STRATEGY_CLIENT   ? "the default"
           : asked == MT_STRATEGY_SERVER ? "as asked for"
           : why                         ? why
                                         : "nothing matches");
  return c;
}

static mt_choice chosen_by_size(size_t bytes) {
  mt_choice c = {.strategy = bytes >= SERVER_FROM ? MT_STRATEGY_SERVER : MT_STRATEGY_CLIENT};
  snprintf(c.why, sizeof c.why,
           "documents have about %zu bytes; the server is taken from %d bytes on", bytes,
           SERVER_FROM);
  return c;
}

mt_choice mt_strategy_foresee(mt_strategy asked, bool listed, const mt_change *planned,
                              uint64_t bytes) {
  uint64_t n = planned->result.changed;
  const char *why = why_not(listed, planned->reversible, planned->ids);
  if (asked == MT_STRATEGY_AUTO && !why && n) return chosen_by_size((size_t)(bytes / n));
  mt_choice c = chosen_by_rule(asked, why);
  if (asked != MT_STRATEGY_SERVER || !why || !planned->result.matched) return c;
  c.refused = true;
  snprintf(c.why, sizeof c.why, "%s", why);
  return c;
}

static void take_choice(mt_launch *l, mt_choice c) {
  mt_job_record *r = l->record;
  l->change->sweeps = c.strategy == MT_STRATEGY_SERVER;
  snprintf(r->strategy, sizeof r->strategy, "%s", mt_strategy_name(c.strategy));
  snprintf(r->strategy_why, sizeof r->strategy_why, "%s", c.why);
}

/* ---- A sample --------------------------------------------------------------------------------- */

/* The average of what was found; false where there is none. */
static bool sample_size(const mt_search *search, size_t *out) {
  mt_json root;
  size_t n = 0, bytes = 0;
  mt_slice answer = {search->answer, search->answer_n};
  if (mt_json_parse(answer, "a sample", &root, NULL)) return false;
  for (mt_json_iter it = mt_json_items(mt_json_at(root, "hits", "hits", NULL)); mt_json_next(&it);
       n++)
    bytes += mt_json_get(it.value, "_source").raw.n;
  *out = n ? bytes / n : 0;
  return n > 0;
}

/* 0: not known. What exceeds an answer is as large as it would have been at least. */
static size_t size_of_sample(const mt_search *search) {
  const mortise_error *e = &search->req.error;
  size_t bytes = 0;
  if (e->code == MORTISE_REJECTED && e->http_status < 400) return SAMPLE_MAX / SAMPLE;
  return !e->code && sample_size(search, &bytes) ? bytes : 0;
}

static uint32_t page_of(size_t bytes) {
  size_t n = PAGE_BYTES / bytes;
  return (uint32_t)(n < PAGE_LEAST ? PAGE_LEAST : n > PAGE_MOST ? PAGE_MOST : n);
}

static void on_sample(void *ctx, mt_req *req) {
  mt_launch *l = ctx;
  (void)req;
  l->busy = false;
  size_t bytes = size_of_sample(&l->search);
  if (bytes) l->sweep.page = page_of(bytes);
  if (l->asked == MT_STRATEGY_AUTO)
    take_choice(l, bytes ? chosen_by_size(bytes)
                         : (mt_choice){.why = "no sample of documents was had"});
  l->decided(l->ctx);
}

static void measure(mt_launch *l) {
  mt_buf_clear(&l->sample);
  mt_buf_addf(&l->sample, "{\"size\":%d,\"query\":", SAMPLE);
  mt_buf_addslice(&l->sample,
                  l->change->query.n ? l->change->query : MT_SLICE("{\"match_all\":{}}"));
  mt_buf_adds(&l->sample, "}");
  l->search = (mt_search){.req = {.done = on_sample, .ctx = l, .idempotent = true},
                          .index = l->change->index,
                          .body = mt_buf_slice(&l->sample)};
  l->busy = true;
  l->change->store->docs->search(l->change->store, &l->search);
}

mortise_status mt_launch_decide(mt_launch *l, mortise_error *err) {
  uint64_t matched = l->change->result.matched;
  const char *why = why_not(l->list, l->invertible, l->change->ids);
  if (l->asked == MT_STRATEGY_SERVER && why && matched)
    return mt_error_set(err, MORTISE_UNSUPPORTED, "strategy \"server\": %s", why);
  take_choice(l, chosen_by_rule(l->asked, why));
  if (!l->invertible || !matched) return MORTISE_OK;
  if (l->asked != MT_STRATEGY_CLIENT && !why)
    measure(l);
  else
    l->decided(l->ctx);
  return MORTISE_OK;
}

/* ---- The sweep -------------------------------------------------------------------------------- */

mortise_status mt_launch_ready(mt_launch *l, mortise_error *err) {
  mt_job_record *r = l->record;
  mt_change *c = l->change;
  mt_buf_init(&l->id, MT_JOB_NAME_MAX + 128);
  mt_buf_init(&l->sample, SAMPLE_MAX);
  l->ready = true;
  c->sweep = NULL;
  c->sweeps = false;
  if (l->asked == MT_STRATEGY_CLIENT || !l->list) return MORTISE_OK;
  mortise_status status = mt_sweep_name(l->name, l->table, r->ns, r->id, err);
  mt_job_record_id(&l->id, r->ns, r->id);
  mt_buf_addc(&l->id, '\0');
  if (!status) status = mt_buf_status(&l->id, "a job's id", err);
  snprintf(l->path, sizeof l->path, "body.gate.a%zu", r->attempts);
  l->sweep = (mt_sweep){.store = c->store,
                        .env = c->env,
                        .permit = c->permit,
                        .transforms = l->list,
                        .name = l->name,
                        .gate = {l->table, l->id.p, l->path}};
  c->sweep = &l->sweep;
  return status;
}

void mt_launch_note(mt_launch *l) {
  mt_job_record *r = l->record;
  r->gate = l->change->sweeps ? r->attempts : 0;
  r->sweeps |= l->change->sweeps;
  r->swept = l->sweep.active ? l->sweep.state.updated : 0;
  if (!l->sweep.task[0]) return;
  snprintf(r->task, sizeof r->task, "%s", l->sweep.task);
  r->not_after_ms = l->sweep.not_after_ms;
}

/* Nothing is decided any more. */
static void drop_sample(mt_launch *l) {
  if (l->busy) mt_store_cancel(l->change->store, &l->search.req);
  l->busy = false;
}

bool mt_launch_end(mt_launch *l) {
  mt_job_record *r = l->record;
  drop_sample(l);
  bool unsure = l->change->sweep && l->sweep.unsure;
  mt_launch_note(l);
  r->gate = 0;
  r->sweeps = unsure;
  if (!unsure) r->task[0] = '\0';
  return unsure;
}

mortise_status mt_launch_quell(mt_quell *q, const char *table, const mt_job_record *r,
                               mortise_error *err) {
  q->task = r->task;
  q->not_after_ms = r->not_after_ms;
  mortise_status status = mt_sweep_name(q->name, table, r->ns, r->id, err);
  return status ? status : mt_quell_start(q, err);
}

void mt_launch_deinit(mt_launch *l) {
  if (!l->ready) return;
  drop_sample(l);
  mt_search_deinit(&l->search);
  mt_sweep_deinit(&l->sweep);
  mt_buf_deinit(&l->id);
  mt_buf_deinit(&l->sample);
  l->ready = false;
}
