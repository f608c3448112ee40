#include "job/change.h"

#include "base/mem.h"
#include "base/pump.h"
#include "job/flow.h"
#include "job/known.h"
#include "job/retry.h"
#include "job/units.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  PAGES_AHEAD = 1, /* pages read ahead of those that are being written */
  PASSES = 8,
  SCANS_LOST_MAX = 8, /* how many scans may be lost in a row without a page */
  /* waits of 50 ms to 3.2 s, since a store may be busy for half a minute */
  TRIES = 14,
  PAGE_BYTES = 1 << 20, /* a page of more than twice as many bytes is read again in parts */
};

typedef struct change_op change_op;

struct change_op {
  mt_change *c;
  mt_writer *writer;
  mt_units units;
  mt_flow flow;
  mt_req *request; /* the one of those below that is under way */
  mt_describe describe;
  mt_refresh refresh;
  mt_count count;
  mt_scan_open open;
  mt_scan_next next;
  mt_scan *scan;
  mt_timer kick; /* reserved */
  mt_retry retry;
  void (*later)(change_op *o); /* sends again what `retry` waits for */
  mt_done_fn *count_done;
  uint32_t page;
  bool fixed_page;
  unsigned scans_lost;
  bool scanned, failed, counted, knowing;
  bool unopened;       /* matches are counted, but the first pass's scan is not open */
  bool curtailed;      /* more was set aside than may be */
  bool swept;          /* the store has done what it makes by itself */
  uint64_t swept_from; /* documents that matched before the sweep */
  bool again;          /* the pass begins again, with smaller pages or another scan */
  uint64_t settled_before, progress; /* documents finished before this pass; the last number told */
  uint64_t requests0, bytes0;
  int64_t started_ms;
};

static void finish_change(change_op *o);
static void pump_change(change_op *o);
static void refresh_index(change_op *o);
static void count_matches(change_op *o, mt_slice query, mt_done_fn *done);
static void count_again(change_op *o);
static void open_pass(change_op *o);
static void open_again(change_op *o);
static void on_beside(void *ctx, mt_req *req);
static bool count_swept(change_op *o);
static void on_first_counted(void *ctx, mt_req *req);

/* ---- Ending --------------------------------------------------------------------------------- */

static uint64_t store_bytes(const mt_store *s) {
  return s->stats.sent_bytes + s->stats.received_bytes;
}

/* Ends the change with this error as soon as the writes under way are answered. */
static void fail_op(change_op *o, const mortise_error *e) {
  if (o->failed) return;
  o->failed = o->units.stopped = true;
  o->c->error = *e;
  if (o->writer) mt_writer_stop(o->writer, e);
  if (o->c->journal) mt_writer_stop(o->c->journal->writer, e);
}

static void stop_knowing(change_op *o) {
  if (o->knowing) mt_known_stop(o->c->known);
  o->knowing = false;
}

static void free_change_op(change_op *o) {
  mt_store *s = o->c->store;
  stop_knowing(o);
  if (o->request) mt_store_cancel(s, o->request);
  mt_writer_free(o->writer);
  s->docs->scan_close(s, o->scan);
  mt_units_deinit(&o->units);
  mt_describe_deinit(&o->describe);
  if (o->c->sweep) mt_sweep_deinit(o->c->sweep);
  mt_timer_release(s->loop, &o->kick);
  mt_retry_deinit(&o->retry);
  mt_free(o);
}

static bool is_sweeping(const change_op *o) {
  return o->c->sweep && o->c->sweep->active;
}

static void finish_change(change_op *o) {
  mt_change *c = o->c;
  if (o->failed && o->request) {
    mt_store_cancel(c->store, o->request);
    o->request = NULL;
  }
  if (o->failed) stop_knowing(o);
  mt_units_step(&o->units); /* drops what was not sent yet */
  if (is_sweeping(o)) mt_sweep_stop(o->c->sweep);
  if (o->units.busy || o->request || o->knowing || is_sweeping(o)) return;
  if (o->failed) {
    if (!c->plan) mt_result_say_how_far(&c->result, &c->error);
    c->error.ambiguous = mt_change_applied(c);
  }
  c->result.round_trips = c->store->stats.requests - o->requests0;
  c->result.bytes = store_bytes(c->store) - o->bytes0;
  c->result.duration_ms = c->env->now_ms(c->env->ctx) - o->started_ms;
  c->op = NULL;
  free_change_op(o);
  MT_FINISH(c);
}

static bool is_bound_passed(const change_op *o) {
  const mt_change *c = o->c;
  return !c->plan && mt_bound_exceeded(&c->bound, c->result.rejected, c->result.matched + c->beyond);
}

/* Is what still matches what was set aside, or, where it matches on, what the last pass saw to? */
static bool is_rest_aside(const change_op *o) {
  const mt_change_result *r = &o->c->result;
  uint64_t seen = o->units.idle + mt_result_settled(r) - o->settled_before;
  return r->left <= r->rejected + r->conflicts + (o->c->matches_on ? seen : 0);
}

static mt_change_end reached_end(const change_op *o) {
  const mt_change_result *r = &o->c->result;
  if (!(r->rejected + r->conflicts) || r->unknown) return MT_CHANGE_CUT_OFF;
  if (o->curtailed) return MT_CHANGE_SHORT;
  return is_rest_aside(o) ? MT_CHANGE_WHOLE : MT_CHANGE_CUT_OFF;
}

/* The change ran to its end. It fails if some documents could not be changed; of a plan that is what it says. */
static void conclude(change_op *o) {
  mt_change *c = o->c;
  mt_change_result *r = &c->result;
  if (c->known && !o->curtailed) r->matched = mt_result_settled(r) + r->conflicts + r->rejected;
  c->end = reached_end(o);
  bool good = c->plan || !mt_result_check(r, o->curtailed, o->units.idle > 0, &c->error);
  if (good && c->concluded) c->concluded(c, &c->error);
  finish_change(o);
}

/* Is there another pass as long as documents match? Not for a plan, since it changes nothing. */
static bool repeats(const mt_change *c) {
  return c->until_none && !c->plan;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* False if the change is ending, so that nothing may be started. */
static bool may_go_on(change_op *o) {
  mortise_error err;
  const mt_permit *permit = o->c->permit;
  if (!o->failed && permit && permit->check(permit->lock, &err)) fail_op(o, &err);
  return !o->failed;
}

static void send_request(change_op *o, mt_req *req, mt_done_fn *done) {
  *req = (mt_req){.done = done, .ctx = o};
  o->request = req;
}

/* To be called first with each answer. False if the request failed or the change is ending. */
static bool arrived(change_op *o, mt_req *req, const char *what) {
  o->request = NULL;
  if (req->error.code && !o->failed) {
    mt_error_prefix(&req->error, "%s", what);
    fail_op(o, &req->error);
  }
  return may_go_on(o);
}

static void on_retry(void *ctx) {
  change_op *o = ctx;
  if (may_go_on(o))
    o->later(o);
  else
    finish_change(o);
}

/* To be called before `arrived`. True: the request is sent again when the store may have time for it. */
static bool waits_out(change_op *o, const mt_req *req, void (*again)(change_op *o)) {
  if (o->failed || !mt_retry_after(&o->retry, &req->error)) return false;
  o->request = NULL;
  o->later = again;
  return true;
}

const char *mt_change_waits(const mt_change *c) {
  const change_op *o = c->op;
  const char *why = o ? mt_retry_why(&o->retry) : NULL;
  return why || !o || !o->writer ? why : mt_writer_waits(o->writer);
}

mortise_status mt_change_fit(const mt_describe *d, mortise_error *err) {
  const char *name = d->name[0] ? d->name : d->index;
  const char *why = d->data_stream       ? "is a data stream, whose documents must not be rewritten"
                    : d->source_disabled ? "keeps no _source"
                    : d->source_filtered ? "leaves fields out of _source: a rewrite would lose them"
                    : d->source_synthetic ? "has a synthetic _source, which is not what was written"
                    : d->final_pipeline   ? "has a final_pipeline, which would run on each rewrite"
                                          : NULL;
  if (!d->exists) return mt_error_set(err, MORTISE_NOT_FOUND, "there is no index %s", d->index);
  if (why) return mt_error_set(err, MORTISE_UNSUPPORTED, "index %s %s", name, why);
  return MORTISE_OK;
}

static void on_described(void *ctx, mt_req *req) {
  change_op *o = ctx;
  mt_change *c = o->c;
  mortise_error err;
  if (arrived(o, req, "describing the index")) {
    mortise_status status = mt_change_fit(&o->describe, &err);
    if (!status && c->described) status = c->described(c, &o->describe, &err);
    if (status) fail_op(o, &err);
  }
  mt_describe_deinit(&o->describe);
  if (o->failed)
    finish_change(o);
  else
    refresh_index(o);
}

static void describe_index(change_op *o) {
  o->describe = (mt_describe){.index = o->c->index};
  send_request(o, &o->describe.req, on_described);
  o->c->store->docs->describe(o->c->store, &o->describe);
}

/* A pass looks at every document again, so what the last pass set aside or left is counted anew. */
static void start_pass(change_op *o) {
  mt_change_result *r = &o->c->result;
  r->passes++;
  r->looks++;
  r->rejected = r->conflicts = 0;
  if (o->c->known) r->unchanged = 0;
  o->units.idle = 0;
  o->settled_before = mt_result_settled(r);
}

static void end_scan(change_op *o) {
  o->scanned = true;
  o->c->store->docs->scan_close(o->c->store, o->scan);
  o->scan = NULL;
}

/* Begins the pass again, if passes may be repeated. */
static bool restart_pass(change_op *o) {
  bool repeated = o->c->until_none || o->c->known;
  if (!repeated || o->failed) return false;
  o->request = NULL;
  o->again = true;
  end_scan(o);
  pump_change(o);
  return true;
}

static bool begin_smaller(change_op *o, uint32_t page) {
  if (o->page == 1) return false;
  o->page = page > 1 ? page : 1;
  return restart_pass(o);
}

/* A scan is lost with the node that has its cursor. */
static bool try_another_scan(change_op *o, const mortise_error *e) {
  bool lost = e->code == MORTISE_UNAVAILABLE || e->code == MORTISE_NOT_FOUND;
  return lost && !o->c->plan && o->scans_lost++ < SCANS_LOST_MAX && restart_pass(o);
}

/* A page of large documents may be larger than an answer may be. */
static bool try_smaller(change_op *o, const mortise_error *e) {
  bool too_large = e->code == MORTISE_REJECTED && e->http_status < 400;
  return too_large && begin_smaller(o, o->page / 4);
}

/* Several pages are in memory at once, so a page must not have too many bytes. */
static bool page_is_heavy(change_op *o, mt_page *page) {
  if (o->fixed_page || page->bytes.n <= 2 * (size_t)PAGE_BYTES || page->n < 2) return false;
  if (!begin_smaller(o, (uint32_t)(page->n * PAGE_BYTES / page->bytes.n))) return false;
  mt_page_free(page);
  return true;
}

/* It is known how many documents match; no page was read yet. */
static void all_counted(change_op *o) {
  mortise_error err;
  o->counted = true;
  if (o->c->counted && o->c->counted(o->c, &err)) fail_op(o, &err);
  pump_change(o);
}

static void on_beside(void *ctx, mt_req *req) {
  change_op *o = ctx;
  if (waits_out(o, req, count_again)) return;
  if (!arrived(o, req, "counting what is there already")) {
    finish_change(o);
    return;
  }
  o->c->result.beside = o->count.count;
  all_counted(o);
}

static void count_again(change_op *o) {
  count_matches(o, o->count.query, o->count_done);
}

static void count_matches(change_op *o, mt_slice query, mt_done_fn *done) {
  o->count = (mt_count){.index = o->c->index, .query = query};
  o->count_done = done;
  send_request(o, &o->count.req, done);
  o->c->store->docs->count(o->c->store, &o->count);
}

static uint64_t matched(const change_op *o) {
  if (!o->c->matches_on) return o->settled_before + o->open.total;
  return o->open.total > o->settled_before ? o->open.total : o->settled_before;
}

static void on_open(void *ctx, mt_req *req) {
  change_op *o = ctx;
  if (!req->error.code) o->scan = o->open.scan;
  if (req->error.code && try_smaller(o, &req->error)) return;
  if (waits_out(o, req, open_again)) return;
  if (!arrived(o, req, "opening the scan")) {
    finish_change(o);
    return;
  }
  o->c->result.matched = matched(o);
  if (o->counted)
    pump_change(o);
  else if (o->c->beside.n)
    count_matches(o, o->c->beside, on_beside);
  else
    all_counted(o);
}

static void open_again(change_op *o) {
  o->again = true;
  open_pass(o);
}

static void open_pass(change_op *o) {
  mt_change *c = o->c;
  bool first = !c->known || c->known->part == 0; /* of the pass's scans */
  if (o->again && first) c->result.passes--;
  o->again = o->scanned = false;
  if (first) start_pass(o);
  o->open = (mt_scan_open){
      .index = c->index,
      .query = c->query,
      .page = o->page,
      .slices = c->options.slices,
      .revisions = c->journal != NULL};
  send_request(o, &o->open.req, on_open);
  c->store->docs->scan_open(c->store, &o->open);
}

/* ---- What the store does by itself ------------------------------------------------------------- */

/* Before it is known whether the store or this process makes the first pass. */
static void on_first_counted(void *ctx, mt_req *req) {
  change_op *o = ctx;
  if (waits_out(o, req, count_again)) return;
  if (!arrived(o, req, "counting what matches")) {
    finish_change(o);
    return;
  }
  o->unopened = true;
  o->c->result.matched = o->swept_from = o->count.count;
  if (o->c->beside.n)
    count_matches(o, o->c->beside, on_beside);
  else
    all_counted(o);
}

static void on_sweep_progress(void *ctx, mt_sweep *w) {
  change_op *o = ctx;
  uint64_t done = mt_result_settled(&o->c->result) + w->state.updated;
  if (!o->c->progress || done <= o->progress) return;
  o->progress = done;
  o->c->progress(o->c->ctx, o->c, done, o->c->result.matched);
}

static void on_sweep_end(void *ctx, mt_sweep *w) {
  change_op *o = ctx;
  if (w->error.code) fail_op(o, &w->error);
  if (o->failed) o->c->result.changed += w->state.updated;
  if (may_go_on(o))
    refresh_index(o);
  else
    finish_change(o);
}

/* Where it did not look at all, or its numbers are lost, what matches no longer was changed. True: there is more
 * for it to do. */
static bool count_swept(change_op *o) {
  const mt_sweep *w = o->c->sweep;
  mt_change_result *r = &o->c->result;
  uint64_t gone = o->swept_from > r->left ? o->swept_from - r->left : 0;
  r->changed += w->state.complete && w->state.updated < gone ? w->state.updated : gone;
  r->unchanged += w->state.complete && w->state.updated < gone ? gone - w->state.updated : 0;
  bool more = (w->again && gone) || w->stopping;
  o->swept = !r->left || !more;
  o->swept_from = r->left;
  return !o->swept;
}

/* Left to itself, a server makes a slice of each shard: with one shard it would work at one page at a time, and wait
 * for its own reading before it writes. */
static uint32_t slices_of_sweep(const change_op *o) {
  if (o->c->options.slices) return o->c->options.slices;
  return o->describe.shards > 1 ? 0 : 2;
}

static void start_sweep(change_op *o) {
  mt_sweep *w = o->c->sweep;
  mortise_error err;
  if (!o->c->result.passes) start_pass(o);
  w->done = on_sweep_end;
  w->progress = on_sweep_progress;
  w->ctx = o;
  w->index = o->c->index;
  w->query = o->c->query;
  w->slices = slices_of_sweep(o);
  o->c->asked_store = true;
  if (!mt_sweep_start(w, &err)) return;
  fail_op(o, &err);
  finish_change(o);
}

/* The first pass, by whoever makes it; true where it is not the turn of the pages. */
static bool sweeps_now(change_op *o) {
  if (!o->unopened || o->swept) return false;
  if (is_sweeping(o)) {
    if (o->units.paused) mt_sweep_stop(o->c->sweep);
  } else if (!o->units.paused && o->c->sweeps) {
    start_sweep(o);
  } else if (!o->units.paused) {
    o->unopened = false;
    open_pass(o);
  }
  return true;
}

/* Did the pass look at all documents that match, and find nothing to change? The query may find more documents
 * than the transform changes. A pass without a write then proves that nothing is left to do. */
static bool only_idle(const change_op *o) {
  const mt_change_result *r = &o->c->result;
  return o->c->transform.decides && o->units.idle && o->units.idle == o->open.total && !r->rejected;
}

/* Another pass helps if documents were missed, but not if it would only set the same ones aside again. */
static bool worth_a_pass(const change_op *o) {
  const mt_change_result *r = &o->c->result;
  uint32_t most = o->c->options.passes ? o->c->options.passes : PASSES;
  if (!r->left || r->passes >= most) return false;
  return r->conflicts || r->left > r->rejected + o->units.idle ||
         (o->c->transform.decides && o->units.idle && !r->rejected);
}

static void on_matches_counted(void *ctx, mt_req *req) {
  change_op *o = ctx;
  if (waits_out(o, req, count_again)) return;
  if (!arrived(o, req, "counting what is left")) {
    finish_change(o);
    return;
  }
  o->c->result.left = o->count.count;
  if (o->c->sweeps && !o->swept && count_swept(o))
    pump_change(o);
  else if (worth_a_pass(o))
    open_pass(o);
  else
    conclude(o);
}

static void on_known(void *ctx, mt_known *k) {
  change_op *o = ctx;
  o->knowing = false;
  if (k->error.code) fail_op(o, &k->error);
  if (may_go_on(o))
    open_pass(o);
  else
    finish_change(o);
}

static void find_known(change_op *o) {
  mt_known *k = o->c->known;
  if (o->again) k->part = 0; /* a part is not counted apart from those before it */
  k->done = on_known;
  k->ctx = o;
  k->last = o->c->journal->next;
  o->knowing = true;
  mt_known_start(k);
}

/* All documents are looked at once more for each part of what is known; and where some were in conflict, from
 * the beginning, since a search says best whether those still match. */
static bool looks_again(change_op *o) {
  mt_known *k = o->c->known;
  uint32_t most = o->c->options.passes ? o->c->options.passes : PASSES;
  if (!k) return false;
  if (++k->part < k->parts) return true;
  k->part = 0;
  return o->c->result.conflicts && o->c->result.passes < most;
}

static void on_index_refreshed(void *ctx, mt_req *req) {
  change_op *o = ctx;
  if (waits_out(o, req, refresh_index)) return;
  if (!arrived(o, req, "refreshing the index"))
    finish_change(o);
  else if (o->c->known)
    find_known(o);
  else if (o->c->result.passes && !o->again)
    count_matches(o, o->c->query, on_matches_counted);
  else if (o->c->sweep && !o->counted)
    count_matches(o, o->c->query, on_first_counted);
  else
    open_pass(o);
}

/* Searches do not see what was written since the last refresh. */
static void refresh_index(change_op *o) {
  mt_change *c = o->c;
  o->refresh = (mt_refresh){.index = c->index};
  send_request(o, &o->refresh.req, on_index_refreshed);
  c->store->docs->refresh(c->store, &o->refresh);
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static void tell_progress(change_op *o) {
  mt_change *c = o->c;
  uint64_t done = mt_result_settled(&c->result);
  if (done > c->result.matched) done = c->result.matched;
  if (!c->progress || done <= o->progress) return;
  o->progress = done;
  c->progress(c->ctx, c, done, c->result.matched);
}

static void on_page_scanned(void *ctx, mt_req *req);

static void scan_next_page(change_op *o) {
  o->next = (mt_scan_next){.scan = o->scan};
  send_request(o, &o->next.req, on_page_scanned);
  o->c->store->docs->scan_next(o->c->store, &o->next);
}

static void on_page_scanned(void *ctx, mt_req *req) {
  change_op *o = ctx;
  mt_page *page = o->next.page;
  if (try_smaller(o, &req->error) || try_another_scan(o, &req->error)) return;
  o->scans_lost = 0;
  if (!arrived(o, req, "scanning")) {
    mt_page_free(page);
    finish_change(o);
    return;
  }
  if (!page) {
    end_scan(o);
    pump_change(o);
    return;
  }
  if (page_is_heavy(o, page)) return;
  mt_units_take(&o->units, page);
  if (o->c->offered) o->c->offered(o->c);
  /* The server fetches the next page while this one is changed. */
  bool reads_on = !o->c->peeks && !is_bound_passed(o);
  if (mt_units_room(&o->units) && !o->units.paused && reads_on) scan_next_page(o);
  mt_units_step(&o->units);
  tell_progress(o);
  pump_change(o);
}

static void on_unit_written(void *ctx) {
  tell_progress(ctx);
  pump_change(ctx);
}

static void kick_after(change_op *o, int64_t ms) {
  mt_loop *loop = o->c->store->loop;
  mt_timer_start(loop, &o->kick, mt_loop_now(loop) + ms, NULL);
}

static bool has_peeked(const change_op *o) {
  return o->c->peeks && o->c->preview->n == MT_PREVIEW_SAMPLES;
}

/* Starts whatever can be started. To be called at the end of each event. */
static void pump_change(change_op *o) {
  mt_units_step(&o->units);
  if (!may_go_on(o)) {
    finish_change(o);
    return;
  }
  int64_t wait_ms = mt_units_wait_ms(&o->units);
  if (wait_ms) kick_after(o, wait_ms);
  if (o->request || o->retry.waits || o->knowing || sweeps_now(o)) return;
  if (!o->scanned && has_peeked(o)) end_scan(o);
  if (!o->scanned && is_bound_passed(o)) {
    o->curtailed = true;
    end_scan(o);
  }
  if (!o->scanned && mt_units_room(&o->units) && !o->units.paused) scan_next_page(o);
  if (!o->scanned || o->units.busy) return;
  if (o->curtailed) {
    conclude(o);
    return;
  }
  bool until_none = repeats(o->c), idle = until_none && !o->again && only_idle(o);
  if (idle) o->c->result.left = 0;
  if ((until_none && !idle) || (o->c->known && o->again) || looks_again(o))
    refresh_index(o);
  else
    conclude(o);
}

/* ---- Starting and stopping ------------------------------------------------------------------ */

static void on_failed(void *ctx, const mortise_error *e) {
  fail_op(ctx, e);
}

/* The change was cancelled or resumed, or has waited as long as its pace demands. */
static void on_change_kick(void *ctx) {
  pump_change(ctx);
}

/* Takes effect with the next page and the next request. */
static void keep_pace(change_op *o) {
  o->units.most = o->flow.concurrency + PAGES_AHEAD;
  if (o->writer) mt_writer_pace(o->writer, o->flow.docs, o->flow.concurrency);
}

static void on_sent(void *ctx, const mt_sent *sent) {
  change_op *o = ctx;
  o->c->result.refused += sent->refused;
  if (mt_flow_answered(&o->flow, sent)) keep_pace(o);
}

static mortise_status make_change_op(change_op *o, mortise_error *err) {
  mt_change *c = o->c;
  mt_writer_config config = {.docs = o->page,
                             .bytes = c->options.bytes,
                             .strength = c->options.strength,
                             .stamp_field = c->options.stamp_field,
                             .in_flight = MT_WRITER_LANES,
                             .tries = TRIES,
                             .patience_ms = c->options.patience_ms,
                             .auth_ends = true,
                             .sent = on_sent,
                             .sent_ctx = o};
  mt_flow_init(&o->flow, o->page);
  mt_flow_fix_concurrency(&o->flow, c->options.in_flight);
  mt_flow_fix_docs(&o->flow, c->options.page);
  o->units = (mt_units){.index = c->index,
                        .transform = c->transform,
                        .journal = c->plan ? NULL : c->journal,
                        .preview = c->plan ? c->preview : NULL,
                        .result = &c->result,
                        .env = c->env,
                        .outside = c->offered != NULL,
                        .known = c->known,
                        .within = c->within,
                        .ids = c->ids,
                        .idle_matches = c->until_none,
                        .failed = on_failed,
                        .written = on_unit_written,
                        .ctx = o};
  mortise_status status = mt_units_init(&o->units, MT_WRITER_LANES + PAGES_AHEAD, err);
  if (status) return status;
  o->kick = (mt_timer){.fire = on_change_kick, .ctx = o};
  o->retry = (mt_retry){.again = on_retry,
                              .ctx = o,
                              .loop = c->store->loop,
                              .env = c->env,
                              .most_ms = c->plan ? 0 : c->options.patience_ms};
  if (mt_timer_reserve(c->store->loop, &o->kick, err)) return MORTISE_OUT_OF_MEMORY;
  if (mt_retry_init(&o->retry, err)) return MORTISE_OUT_OF_MEMORY;
  if (!c->plan) o->writer = mt_writer_new(c->store, c->env, c->permit, &config, err);
  if (!c->plan && !o->writer) return err->code;
  keep_pace(o);
  o->units.sink = c->plan ? mt_sink_plan() : mt_sink_writer(o->writer);
  return MORTISE_OK;
}

mortise_status mt_change_start(mt_change *c, mortise_error *err) {
  mortise_error local;
  if (!err) err = &local;
  c->finished = false;
  memset(&c->result, 0, sizeof c->result);
  c->asked_store = false;
  c->end = MT_CHANGE_CUT_OFF;
  mt_error_clear(&c->error);
  mt_error_clear(err);
  if (c->ids && !c->journal && !c->plan)
    return mt_error_set(err, MORTISE_UNSUPPORTED, "documents get other ids only in a job");
  change_op *o = mt_calloc(1, sizeof *o);
  if (!o) return mt_error_memory(err);
  o->c = c;
  o->page = c->options.page ? c->options.page : MT_SCAN_PAGE;
  o->fixed_page = c->options.page > 0;
  o->requests0 = c->store->stats.requests;
  o->bytes0 = store_bytes(c->store);
  o->started_ms = c->env->now_ms(c->env->ctx);
  mortise_status status = make_change_op(o, err);
  if (status) {
    free_change_op(o);
    return status;
  }
  c->op = o;
  if (c->known) c->known->part = 0;
  describe_index(o);
  return MORTISE_OK;
}

/* Goes on from the loop, because `done` must not be called from within a call of the user. */
static void kick(change_op *o) {
  kick_after(o, 0);
}

void mt_change_pause(mt_change *c, bool paused) {
  change_op *o = c->op;
  if (!o || o->units.paused == paused) return;
  o->units.paused = paused;
  if (!paused || is_sweeping(o)) kick(o);
}

void mt_change_limit(mt_change *c, mt_limits limits) {
  change_op *o = c->op;
  if (!o) return;
  mt_pace_set(&o->units.pace, limits);
  kick(o);
}

void mt_change_stop(mt_change *c, const mortise_error *why) {
  change_op *o = c->op;
  if (!o || o->failed) return;
  fail_op(o, why);
  kick(o);
}

void mt_change_cancel(mt_change *c) {
  mortise_error err;
  mt_error_set(&err, MORTISE_INTERRUPTED, "the change was interrupted");
  mt_change_stop(c, &err);
}

mt_unit *mt_change_page(mt_change *c) {
  change_op *o = c->op;
  return o ? mt_units_to_patch(&o->units) : NULL;
}

void mt_change_page_done(mt_change *c, mt_unit *page) {
  mt_unit_patched(page);
  kick(c->op);
}

void mt_change_abandon(mt_change *c) {
  change_op *o = c->op;
  if (!o) return;
  mt_writer_free(o->writer);
  o->writer = NULL;
  mt_units_abandon(&o->units);
  free_change_op(o);
  c->op = NULL;
}

bool mt_change_applied(const mt_change *c) {
  const change_op *o = c->op;
  if (c->plan) return false;
  if (c->asked_store) return true;
  return c->result.changed || c->result.deleted || c->result.unknown ||
         (o && (o->units.busy || is_sweeping(o)));
}

size_t mt_change_open_batches(const mt_change *c, uint64_t *numbers, size_t n) {
  const change_op *o = c->op;
  return o ? mt_units_open(&o->units, numbers, n) : 0;
}
