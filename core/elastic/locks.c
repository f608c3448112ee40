/* A batch of lock operations: one bulk of scripted updates, creates and deletes. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "elastic/answer.h"
#include "elastic/internal.h"

#include <stdio.h>

enum { LOCK_PATH_MAX = 4096 };

/* ---- Building ------------------------------------------------------------------------------- */

void mt_table_bulk_path(mt_call *c) {
  mt_buf_addc(&c->path, '/');
  mt_path_add(&c->path, mt_slice_of(c->e->table));
  mt_buf_adds(&c->path, "/_bulk?require_alias=true&");
  mt_bulk_add_filter(&c->path);
  mt_buf_adds(&c->path, ",items.*.get._source");
  mt_call_add_timeout(c, '&');
}

static void add_text(mt_buf *b, const char *key, mt_slice text) {
  mt_json_add_key(b, key);
  mt_json_add_string(b, text);
}

static void add_number(mt_buf *b, const char *key, uint64_t n) {
  mt_json_add_key(b, key);
  mt_buf_addu(b, n);
}

static void add_line(mt_buf *b, const char *action, const mt_lock_batch *r,
                     const mt_lock_item *item, mt_buf *id) {
  mt_buf_clear(id);
  mt_lock_id(id, r->ns, item->path);
  if (id->failed) b->failed = id->failed;
  mt_buf_adds(b, "{\"");
  mt_buf_adds(b, action);
  mt_buf_adds(b, "\":{\"_id\":");
  mt_json_add_string(b, mt_buf_slice(id));
  if (item->verb == MT_LOCK_DELETE) {
    add_number(b, "if_seq_no", item->if_version.seq_no);
    add_number(b, "if_primary_term", item->if_version.term);
  }
  mt_buf_adds(b, "}}\n");
}

static void begin_script(mt_buf *b, const char *id, const char *session) {
  mt_buf_adds(b, "{\"script\":{\"id\":\"");
  mt_buf_adds(b, id);
  mt_buf_adds(b, "\",\"params\":{");
  add_text(b, "session", mt_slice_of(session));
}

static void add_job(mt_buf *b, const mt_lock_batch *r) {
  if (r->job) add_text(b, "job", mt_slice_of(r->job));
}

static void add_document(mt_buf *b, const mt_lock_item *item) {
  mt_buf_adds(b, "{\"kind\":\"lock\"");
  add_text(b, "path", item->path);
}

static void add_create(mt_buf *b, const mt_lock_batch *r, const mt_lock_item *item) {
  add_document(b, item);
  mt_buf_adds(b, ",\"holders\":[{");
  add_text(b, "session", mt_slice_of(r->session));
  add_number(b, "n", item->n);
  add_text(b, "mode", mt_slice_of(mt_mode_name(item->mode)));
  /* No script runs, so it is this machine's time; for people only. */
  add_number(b, "since", (uint64_t)mt_clock_wall_ms());
  add_job(b, r);
  mt_buf_adds(b, "}],\"queue\":[]");
  if (item->leaf) {
    mt_buf_adds(b, ",\"sessions\":[");
    mt_json_add_string(b, mt_slice_of(r->session));
    mt_buf_addc(b, ']');
  }
  mt_buf_adds(b, "}\n");
}

/* A set never deletes, so the answer may be asked for parts of the document. */
static const char *fields_of(const mt_lock_item *item) {
  if (item->enqueue) return "\"holders\",\"queue\"";
  return item->ask_queue ? "\"blockers\",\"queue\"" : "\"blockers\"";
}

static void add_set(mt_buf *b, const mt_lock_batch *r, const mt_lock_item *item) {
  begin_script(b, MT_SCRIPT_SET, r->session);
  add_number(b, "n", item->n);
  add_text(b, "mode", mt_slice_of(mt_mode_name(item->mode)));
  if (item->fresh) mt_buf_adds(b, ",\"fresh\":true");
  if (item->leaf) mt_buf_adds(b, ",\"leaf\":true");
  if (item->enqueue) add_number(b, "enqueue", MT_QUEUE_LIFE_MS);
  add_job(b, r);
  mt_buf_adds(b, "}},\"_source\":[");
  mt_buf_adds(b, fields_of(item));
  mt_buf_adds(b, "],\"scripted_upsert\":true,\"upsert\":");
  add_document(b, item);
  mt_buf_adds(b, ",\"holders\":[],\"queue\":[]}}\n");
}

static void add_release(mt_buf *b, const mt_lock_batch *r, const mt_lock_item *item) {
  bool evict = item->verb == MT_LOCK_EVICT;
  begin_script(b, MT_SCRIPT_RELEASE, evict ? item->session : r->session);
  if (!evict) add_number(b, "n", item->n);
  mt_buf_adds(b, "}}}\n");
}

static void add_adopt(mt_buf *b, const mt_lock_batch *r, const mt_lock_item *item) {
  begin_script(b, MT_SCRIPT_ADOPT, r->session);
  add_number(b, "n", item->n);
  add_text(b, "from", mt_slice_of(item->session));
  add_job(b, r);
  mt_buf_adds(b, "}},\"_source\":[\"blockers\"]}\n");
}

static void add_item(mt_buf *b, const mt_lock_batch *r, const mt_lock_item *item, mt_buf *id) {
  switch (item->verb) {
  case MT_LOCK_CREATE:
    add_line(b, "create", r, item, id);
    add_create(b, r, item);
    break;
  case MT_LOCK_SET:
    add_line(b, "update", r, item, id);
    add_set(b, r, item);
    break;
  case MT_LOCK_RELEASE:
  case MT_LOCK_EVICT:
    add_line(b, "update", r, item, id);
    add_release(b, r, item);
    break;
  case MT_LOCK_ADOPT:
    add_line(b, "update", r, item, id);
    add_adopt(b, r, item);
    break;
  case MT_LOCK_DELETE:
    add_line(b, "delete", r, item, id);
    break;
  }
}

/* One bad item would fail the whole request, so the whole request is refused before it is sent. */
static mortise_status check_item(const mt_lock_item *item, size_t i, mortise_error *err) {
  bool grants = item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_SET;
  bool theirs = item->verb == MT_LOCK_EVICT || item->verb == MT_LOCK_ADOPT;
  const char *wrong = NULL;
  if (!item->path.n || *item->path.p != '/' || item->path.n > LOCK_PATH_MAX ||
      mt_utf8_valid(item->path) != item->path.n)
    wrong = "its path is no path";
  else if (item->n > INT64_MAX)
    wrong = "its number is too large";
  else if (grants && (item->mode <= MT_NL || item->mode > MT_X))
    wrong = "its mode is no mode";
  else if (theirs && !mt_session_valid(item->session))
    wrong = "the session it is about is no session";
  else if (item->verb == MT_LOCK_DELETE && !item->if_version.term)
    wrong = "it has no version to compare with";
  else if ((unsigned)item->verb > MT_LOCK_ADOPT)
    wrong = "its verb is unknown";
  if (!wrong) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "lock item %zu: %s", i, wrong);
}

static mortise_status check(const mt_lock_batch *r, mortise_error *err) {
  if (!mt_ns_valid(r->ns))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "\"%.80s\" is no namespace",
                        r->ns ? r->ns : "");
  if (!mt_session_valid(r->session))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "\"%.80s\" is no session",
                        r->session ? r->session : "");
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; i < r->n && !status; i++) status = check_item(&r->items[i], i, err);
  return status;
}

/* ---- The answer ----------------------------------------------------------------------------- */

static int64_t number_of(mt_json entry, const char *key) {
  int64_t value;
  return mt_json_int(mt_json_get(entry, key), &value) ? value : 0;
}

static bool read_entry(mt_json entry, mt_lock_entry *out) {
  *out = (mt_lock_entry){0};
  mt_slice mode;
  int64_t n = number_of(entry, "n");
  if (!mt_json_plain(mt_json_get(entry, "mode"), &mode) || !mt_mode_parse(mode, &out->mode) ||
      n < 0)
    return false;
  mt_json_copy(mt_json_get(entry, "session"), out->session, sizeof out->session);
  mt_json_copy(mt_json_get(entry, "job"), out->job, sizeof out->job);
  out->n = (uint64_t)n;
  out->since_ms = number_of(entry, "since");
  out->queued = mt_json_get(entry, "until").type != MT_JSON_NONE;
  return true;
}

static bool add_blocker(mt_lock_item *item, const mt_lock_entry *entry) {
  if (item->n_blockers == MT_BLOCKERS_MAX) return true;
  if (!item->blockers) item->blockers = mt_calloc(MT_BLOCKERS_MAX, sizeof *item->blockers);
  if (!item->blockers) return false;
  item->blockers[item->n_blockers++] = *entry;
  return true;
}

/* What the script found in the way. */
static bool read_blockers(mt_lock_item *item, mt_json list) {
  mt_lock_entry entry;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);)
    if (!read_entry(it.value, &entry) || !add_blocker(item, &entry)) return false;
  return true;
}

/* Of a document that was just written: the entries in my way, all of them alive, as the script saw
 * them. `*mine`: I stand in the list. */
static bool read_others(const mt_lock_batch *r, mt_lock_item *item, mt_json list, bool *mine) {
  mt_lock_entry entry;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    if (!read_entry(it.value, &entry)) return false;
    if (!strcmp(entry.session, r->session)) {
      *mine = true;
      if (entry.queued) return true;
      continue;
    }
    if (entry.queued) item->ahead++;
    if (!mt_mode_compatible(entry.mode, item->mode) && !add_blocker(item, &entry)) return false;
  }
  return true;
}

static bool in_queue(const mt_lock_batch *r, mt_json queue) {
  for (mt_json_iter it = mt_json_items(queue); mt_json_next(&it);)
    if (mt_json_is(mt_json_get(it.value, "session"), r->session)) return true;
  return false;
}

static bool read_contended(const mt_lock_batch *r, mt_lock_item *item, mt_json queue) {
  mt_lock_entry entry;
  for (mt_json_iter it = mt_json_items(queue); mt_json_next(&it);) {
    if (!read_entry(it.value, &entry)) return false;
    item->contended |=
        strcmp(entry.session, r->session) != 0 && !mt_mode_compatible(entry.mode, item->mode);
  }
  return true;
}

static bool read_set(const mt_lock_batch *r, mt_lock_item *item, const mt_answer *a) {
  mt_json source = {0};
  if (a->source.n && mt_json_parse(a->source, "the answer", &source, NULL)) return false;
  if (a->applied == MT_APPLIED_NOOP) {
    mt_json blockers = mt_json_get(source, "blockers");
    item->result = blockers.type ? MT_LOCK_DENIED : MT_LOCK_STALE;
    return read_blockers(item, blockers);
  }
  mt_json queue = mt_json_get(source, "queue");
  item->version = a->version;
  item->result = item->enqueue && in_queue(r, queue) ? MT_LOCK_QUEUED : MT_LOCK_ACKED;
  if (item->result == MT_LOCK_ACKED) return !item->ask_queue || read_contended(r, item, queue);
  /* One that holds something here passes the queue: only holders are in its way. */
  bool holding = false, placed = false;
  if (!read_others(r, item, mt_json_get(source, "holders"), &holding)) return false;
  size_t n = item->n_blockers;
  if (!read_others(r, item, queue, &placed)) return false;
  if (holding) item->n_blockers = n;
  return true;
}

static mt_lock_result noop_of(const mt_lock_item *item, const mt_answer *a) {
  return item->verb == MT_LOCK_ADOPT && a->source.n > 2 ? MT_LOCK_STALE : MT_LOCK_ABSENT;
}

static bool read_applied(const mt_lock_batch *r, mt_lock_item *item, const mt_answer *a) {
  if (item->verb == MT_LOCK_SET) return read_set(r, item, a);
  item->result = a->applied == MT_APPLIED_NOOP ? noop_of(item, a) : MT_LOCK_ACKED;
  if (item->result == MT_LOCK_ACKED) item->version = a->version;
  return true;
}

void mt_table_gone(const mt_elastic *e, mortise_error *err) {
  mt_error_set(err, MORTISE_CORRUPT_TABLE,
               "the lock table is gone: there is no alias \"%s\" on %s (run `mortise init`)",
               e->table, e->store.url);
  err->http_status = 404;
}

/* Says, in the batch's error, why an item was refused. The first one counts. */
static void say_failed(const mt_elastic *e, const mt_lock_item *item, const mt_answer *a,
                       mortise_error *err) {
  char type[96], reason[512], path[128];
  if (err->code) return;
  mt_answer_text(a->cause_type.n ? a->cause_type : a->type, type, sizeof type);
  mt_answer_text(a->cause_reason.n ? a->cause_reason : a->reason, reason, sizeof reason);
  snprintf(path, sizeof path, "%.*s", (int)(item->path.n < 120 ? item->path.n : 120), item->path.p);
  bool script = strstr(reason, "unable to find script");
  if (script)
    mt_error_set(err, MORTISE_CORRUPT_TABLE, "lock table \"%s\": %s: run `mortise init`", e->table,
                 reason);
  else
    mt_error_set(err,
                 a->status == 401 || a->status == 403 ? MORTISE_AUTH
                 : a->status >= 500                   ? MORTISE_UNAVAILABLE
                                                      : MORTISE_REJECTED,
                 "lock table \"%s\", path %s: status %d: %s: %.300s", e->table, path, a->status,
                 type, reason);
  err->http_status = a->status;
  err->ambiguous = mt_answer_unsure(a);
  err->retryable = false;
  snprintf(err->type, sizeof err->type, "%s", type);
  snprintf(err->reason, sizeof err->reason, "%s", reason);
}

static mt_lock_result refused(mt_elastic *e, mt_lock_item *item, const mt_answer *a,
                              mortise_error *err) {
  if (mt_answer_busy(a)) return MT_LOCK_BUSY;
  bool missing =
      a->applied == MT_APPLIED_NOT_FOUND || mt_answer_is(a->type, "document_missing_exception");
  if (missing) return item->verb == MT_LOCK_SET ? MT_LOCK_STALE : MT_LOCK_ABSENT;
  if (a->status == 409 && item->verb == MT_LOCK_CREATE) return MT_LOCK_EXISTS;
  if (a->status == 409) {
    e->store.stats.conflicts++;
    return MT_LOCK_CONFLICT;
  }
  if (mt_answer_is(a->type, "index_not_found_exception"))
    mt_table_gone(e, err);
  else
    say_failed(e, item, a, err);
  return mt_answer_unsure(a) ? MT_LOCK_NO_ANSWER : MT_LOCK_FAILED;
}

static void disbelieve(mt_lock_batch *r) {
  for (size_t i = 0; i < r->n; i++) r->items[i].result = MT_LOCK_NO_ANSWER;
  mt_error_set(&r->req.error, MORTISE_UNAVAILABLE,
               "the answer to a batch of %zu lock operations is not understood", r->n);
  r->req.error.ambiguous = true;
  r->req.error.retryable = false;
}

static void read_answer(mt_elastic *e, mt_lock_batch *r, mt_slice text) {
  mt_answers answers;
  mt_answer a;
  mt_answers_init(&answers, text);
  for (size_t i = 0; i < r->n; i++) {
    mt_lock_item *item = &r->items[i];
    bool good = mt_answers_next(&answers, &a);
    if (good && a.status < 300)
      good = read_applied(r, item, &a);
    else if (good)
      item->result = refused(e, item, &a, &r->req.error);
    if (good) continue;
    disbelieve(r);
    return;
  }
  if (mt_answers_next(&answers, &a) || answers.failed) disbelieve(r);
}

static void on_batch(mt_call *c) {
  mt_lock_batch *r = (mt_lock_batch *)c->req;
  if (!mt_call_ok(c, "lock table", c->e->table)) return;
  read_answer(c->e, r, mt_buf_slice(&c->http.answer));
  mt_call_finish(c);
}

static void clear_items(mt_lock_batch *r) {
  for (size_t i = 0; i < r->n; i++) {
    mt_lock_item *item = &r->items[i];
    mt_free(item->blockers);
    item->blockers = NULL;
    item->n_blockers = 0;
    item->result = MT_LOCK_NO_ANSWER;
    item->version = (mt_version){0};
    item->ahead = 0;
    item->contended = false;
  }
}

void mt_elastic_batch(mt_store *s, mt_lock_batch *r) {
  mt_elastic *e = mt_elastic_of(s);
  mt_call *c = mt_call_new(e, &r->req);
  clear_items(r);
  if (!c) return;
  if (check(r, &r->req.error) || !r->n) {
    mt_call_finish_soon(c);
    return;
  }
  mt_table_bulk_path(c);
  mt_buf id;
  mt_buf_init(&id, MT_ID_MAX);
  for (size_t i = 0; i < r->n; i++) add_item(&c->body, r, &r->items[i], &id);
  mt_buf_deinit(&id);
  mt_call_send(c, "POST", on_batch);
}
