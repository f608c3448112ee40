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

/* Text that all lines of a request share is rendered once, since a batch may have thousands. */
typedef struct frame {
  mt_buf text;     /* of the slices below */
  mt_slice id;     /* "NS: */
  mt_slice whose;  /* "session":"SESSION" */
  mt_slice since;  /* of a new holder, to the end of the list */
  mt_slice leaf;   /* ,"sessions":["SESSION"] */
  mt_buf name;     /* of the item's place */
  mt_buf quoted;   /* the same as JSON */
  size_t name_max; /* a longer name is hashed in the id */
} frame;

static void add(mt_buf *b, mt_slice s) {
  mt_buf_addslice(b, s);
}

static void add_uint(mt_buf *b, mt_slice key, uint64_t n) {
  add(b, key);
  mt_buf_addu(b, n);
}

static void add_job(mt_buf *b, const mt_lock_batch *r) {
  if (r->job) mt_json_add_text(b, "job", mt_slice_of(r->job));
}

static void frame_init(frame *f, const mt_lock_batch *r) {
  mt_buf *b = &f->text;
  size_t ends[4];
  mt_buf_init(b, MT_PATH_BUF_MAX);
  mt_buf_init(&f->name, MT_PATH_BUF_MAX);
  mt_buf_init(&f->quoted, MT_PATH_BUF_MAX);
  f->name_max = MT_ID_MAX - strlen(r->ns) - 1;
  mt_buf_addf(b, "\"%s:", r->ns); /* both are validated, so nothing is escaped */
  ends[0] = b->n;
  mt_buf_addf(b, "\"session\":\"%s\"", r->session);
  ends[1] = b->n;
  /* No script runs here, so this is our machine's time; for people only. */
  mt_buf_addf(b, ",\"since\":%lld", (long long)mt_clock_wall_ms());
  add_job(b, r);
  add(b, MT_SLICE("}],\"queue\":[]"));
  ends[2] = b->n;
  mt_buf_addf(b, ",\"sessions\":[\"%s\"]", r->session);
  ends[3] = b->n;
  f->id = (mt_slice){b->p, ends[0]};
  f->whose = (mt_slice){b->p + ends[0], ends[1] - ends[0]};
  f->since = (mt_slice){b->p + ends[1], ends[2] - ends[1]};
  f->leaf = (mt_slice){b->p + ends[2], ends[3] - ends[2]};
}

static void frame_deinit(frame *f) {
  mt_buf_deinit(&f->text);
  mt_buf_deinit(&f->name);
  mt_buf_deinit(&f->quoted);
}

static void add_lock_id(mt_buf *b, const frame *f, const mt_lock_batch *r,
                        const mt_lock_item *item) {
  if (f->name.n <= f->name_max) {
    add(b, f->id);
    mt_buf_add(b, f->quoted.p + 1, f->quoted.n - 1); /* the opening quote is before the namespace */
    return;
  }
  mt_buf id;
  mt_buf_init(&id, MT_ID_MAX);
  mt_lock_id(&id, r->ns, item->place);
  if (id.failed) b->failed = id.failed;
  mt_json_add_string(b, mt_buf_slice(&id));
  mt_buf_deinit(&id);
}

/* The members that identify the document. */
static void add_document(mt_buf *b, const frame *f) {
  add(b, MT_SLICE("{\"kind\":\"lock\",\"path\":"));
  add(b, mt_buf_slice(&f->quoted));
}

static void begin_script(mt_buf *b, const char *id, mt_slice whose) {
  mt_buf_adds(b, "}}\n{\"script\":{\"id\":\"");
  mt_buf_adds(b, id);
  mt_buf_adds(b, "\",\"params\":{");
  add(b, whose);
}

static void add_mode(mt_buf *b, mt_mode mode) {
  add(b, MT_SLICE(",\"mode\":\""));
  mt_buf_adds(b, mt_mode_name(mode));
  mt_buf_addc(b, '"');
}

static void add_create(mt_buf *b, const frame *f, const mt_lock_item *item) {
  add(b, MT_SLICE("}}\n"));
  add_document(b, f);
  add(b, MT_SLICE(",\"holders\":[{"));
  add(b, f->whose);
  add_uint(b, MT_SLICE(",\"n\":"), item->n);
  add_mode(b, item->mode);
  add(b, f->since);
  if (item->leaf) add(b, f->leaf);
  add(b, MT_SLICE("}\n"));
}

/* A set never deletes, so the answer may include parts of the document. For that the server parses
 * again what it has just written (a seventh of its work for a tree lock), so first grants ask only
 * for blockers. */
static const char *fields_of(const mt_lock_item *item) {
  if (item->enqueue) return "\"blockers\",\"holders\",\"queue\"";
  return item->ask_queue ? "\"blockers\",\"queue\"" : "\"blockers\"";
}

static void add_set(mt_buf *b, const frame *f, const mt_lock_batch *r, const mt_lock_item *item) {
  begin_script(b, MT_SCRIPT_SET, f->whose);
  add_uint(b, MT_SLICE(",\"n\":"), item->n);
  add_mode(b, item->mode);
  if (item->fresh) mt_buf_adds(b, ",\"fresh\":true");
  if (item->leaf) mt_buf_adds(b, ",\"leaf\":true");
  if (item->enqueue) add_uint(b, MT_SLICE(",\"enqueue\":"), mt_lock_item_place_ms(item));
  add_job(b, r);
  mt_buf_adds(b, "}}");
  if (!item->brief) {
    mt_buf_adds(b, ",\"_source\":[");
    mt_buf_adds(b, fields_of(item));
    mt_buf_addc(b, ']');
  }
  mt_buf_adds(b, ",\"scripted_upsert\":true,\"upsert\":");
  add_document(b, f);
  mt_buf_adds(b, ",\"holders\":[],\"queue\":[]}}\n");
}

static void add_release(mt_buf *b, const frame *f, const mt_lock_item *item) {
  begin_script(b, MT_SCRIPT_RELEASE, f->whose);
  add_uint(b, MT_SLICE(",\"n\":"), item->n);
  mt_buf_adds(b, "}}}\n");
}

static void add_evict(mt_buf *b, const mt_lock_item *item) {
  begin_script(b, MT_SCRIPT_RELEASE, (mt_slice){0});
  if (item->session)
    mt_json_add_text(b, "session", mt_slice_of(item->session));
  else
    mt_buf_adds(b, "\"damaged\":true");
  if (item->n_others) {
    mt_buf_adds(b, ",\"others\":[");
    for (size_t i = 0; i < item->n_others; i++) {
      mt_buf_adds(b, i ? ",\"" : "\""); /* ids are validated, so nothing is escaped */
      mt_buf_adds(b, item->others[i]);
      mt_buf_addc(b, '"');
    }
    mt_buf_addc(b, ']');
  }
  if (item->session && item->guard) mt_buf_adds(b, ",\"guard\":true");
  mt_buf_adds(b, "}}}\n");
}

static void add_adopt(mt_buf *b, const frame *f, const mt_lock_batch *r, const mt_lock_item *item) {
  begin_script(b, MT_SCRIPT_ADOPT, f->whose);
  add_uint(b, MT_SLICE(",\"n\":"), item->n);
  mt_json_add_text(b, "from", mt_slice_of(item->session));
  add_job(b, r);
  mt_buf_adds(b, "}},\"_source\":[\"blockers\"]}\n");
}

static void add_delete(mt_buf *b, const mt_lock_item *item) {
  add_uint(b, MT_SLICE(",\"if_seq_no\":"), item->if_version.seq_no);
  add_uint(b, MT_SLICE(",\"if_primary_term\":"), item->if_version.term);
  add(b, MT_SLICE("}}\n"));
}

static const mt_slice openings[] = {
    [MT_LOCK_CREATE] = MT_SLICE("{\"create\":{\"_id\":"),
    [MT_LOCK_SET] = MT_SLICE("{\"update\":{\"_id\":"),
    [MT_LOCK_RELEASE] = MT_SLICE("{\"update\":{\"_id\":"),
    [MT_LOCK_DELETE] = MT_SLICE("{\"delete\":{\"_id\":"),
    [MT_LOCK_EVICT] = MT_SLICE("{\"update\":{\"_id\":"),
    [MT_LOCK_ADOPT] = MT_SLICE("{\"update\":{\"_id\":"),
};

static void add_lock_operation(mt_buf *b, frame *f, const mt_lock_batch *r,
                               const mt_lock_item *item) {
  mt_buf_clear(&f->name);
  mt_buf_clear(&f->quoted);
  mt_place_add_name(&f->name, item->place);
  mt_json_add_string(&f->quoted, mt_buf_slice(&f->name));
  if (f->name.failed || f->quoted.failed || f->text.failed) {
    b->failed = MORTISE_OUT_OF_MEMORY; /* both have room for any path and name */
    return;
  }
  add(b, openings[item->verb]);
  add_lock_id(b, f, r, item);
  switch (item->verb) {
  case MT_LOCK_CREATE:
    add_create(b, f, item);
    break;
  case MT_LOCK_SET:
    add_set(b, f, r, item);
    break;
  case MT_LOCK_RELEASE:
    add_release(b, f, item);
    break;
  case MT_LOCK_EVICT:
    add_evict(b, item);
    break;
  case MT_LOCK_ADOPT:
    add_adopt(b, f, r, item);
    break;
  case MT_LOCK_DELETE:
    add_delete(b, item);
    break;
  }
}

/* Of further sessions to be evicted: only beside a first one, and each a session. */
static bool others_are_valid(const mt_lock_item *item) {
  if (item->n_others && (item->verb != MT_LOCK_EVICT || !item->session)) return false;
  for (size_t i = 0; i < item->n_others; i++)
    if (!mt_session_valid(item->others[i])) return false;
  return true;
}

/* One bad item would fail the whole request, so it is refused before it is sent. */
static mortise_status check_item(const mt_lock_item *item, size_t i, mortise_error *err) {
  bool grants = item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_SET;
  bool theirs =
      item->verb == MT_LOCK_ADOPT || (item->verb == MT_LOCK_EVICT && item->session != NULL);
  const char *wrong = NULL;
  if (!item->place.path.n || *item->place.path.p != '/' || item->place.path.n > LOCK_PATH_MAX ||
      mt_utf8_valid(item->place.path) != item->place.path.n)
    wrong = "its path is no path";
  else if (item->place.stripe >= MT_STRIPES_MAX)
    wrong = "no path has such a stripe";
  else if (item->n > INT64_MAX)
    wrong = "its number is too large";
  else if (grants && (item->mode <= MT_NL || item->mode > MT_X))
    wrong = "its mode is no mode";
  else if ((theirs && !mt_session_valid(item->session)) || !others_are_valid(item))
    wrong = "the session it is about is no session";
  else if (item->verb == MT_LOCK_DELETE && !item->if_version.term)
    wrong = "it has no version to compare with";
  else if ((unsigned)item->verb > MT_LOCK_ADOPT)
    wrong = "its verb is unknown";
  if (!wrong) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "lock item %zu: %s", i, wrong);
}

static mortise_status batch_check(const mt_lock_batch *r, mortise_error *err) {
  if (!mt_ns_valid(r->ns))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "\"%.80s\" is no namespace",
                        r->ns ? r->ns : "");
  if (r->job && strlen(r->job) > MT_JOB_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a job's id has %d bytes at most",
                        MT_JOB_MAX);
  if (!mt_session_valid(r->session))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "\"%.80s\" is no session",
                        r->session ? r->session : "");
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; i < r->n && !status; i++) status = check_item(&r->items[i], i, err);
  return status;
}

/* ---- The answer ----------------------------------------------------------------------------- */

static bool note_blocker(mt_lock_item *item, const mt_lock_entry *entry) {
  if (item->n_blockers == MT_BLOCKERS_MAX) return true;
  if (!item->blockers) item->blockers = mt_calloc(MT_BLOCKERS_MAX, sizeof *item->blockers);
  if (!item->blockers) return false;
  item->blockers[item->n_blockers++] = *entry;
  return true;
}

/* Only waiters have `until`. */
static void read_param_entry(mt_json entry, mt_lock_entry *out) {
  mt_entry_read_json(entry, mt_json_get(entry, "until").type != MT_JSON_NONE, out);
}

/* Reads the blockers that the script found. */
static bool read_denial(mt_lock_item *item, mt_json list) {
  mt_lock_entry entry;
  if (list.type && list.type != MT_JSON_ARRAY) return false;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    read_param_entry(it.value, &entry);
    if (!note_blocker(item, &entry)) return false;
  }
  return true;
}

/* Reads blockers from the entries of a document just written, in which all waiters are alive. Sets
 * `*mine` if our session is in the list. */
static bool read_others(const mt_lock_batch *r, mt_lock_item *item, mt_json list, bool *mine) {
  mt_lock_entry entry;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    read_param_entry(it.value, &entry);
    if (!entry.damaged && !strcmp(entry.session, r->session)) {
      *mine = true;
      if (entry.queued) return true;
      continue;
    }
    if (entry.queued) item->ahead++;
    if (!mt_mode_compatible(entry.mode, item->mode) && !note_blocker(item, &entry)) return false;
  }
  return true;
}

/* Is our session in that list, with a number of at least `least`? */
static bool stands_in(const mt_lock_batch *r, mt_json list, uint64_t least) {
  mt_lock_entry entry;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    read_param_entry(it.value, &entry);
    if (!entry.damaged && !strcmp(entry.session, r->session) && entry.n >= least) return true;
  }
  return false;
}

static bool read_contended(const mt_lock_batch *r, mt_lock_item *item, mt_json queue) {
  mt_lock_entry entry;
  for (mt_json_iter it = mt_json_items(queue); mt_json_next(&it);) {
    read_param_entry(it.value, &entry);
    item->contended |=
        strcmp(entry.session, r->session) != 0 && !mt_mode_compatible(entry.mode, item->mode);
  }
  return true;
}

/* If the item may be queued, the document tells whether it was granted. */
static mt_lock_result written_set(const mt_lock_batch *r, const mt_lock_item *item,
                                  mt_json source) {
  if (!item->enqueue) return MT_LOCK_ACKED;
  if (stands_in(r, mt_json_get(source, "queue"), 0)) return MT_LOCK_QUEUED;
  return stands_in(r, mt_json_get(source, "holders"), item->n) ? MT_LOCK_ACKED : MT_LOCK_NO_ANSWER;
}

static bool read_set(const mt_lock_batch *r, mt_lock_item *item, const mt_answer *a) {
  mt_json source = {0};
  if (a->source.n && mt_json_parse(a->source, "the answer", &source, NULL)) return false;
  if (a->applied == MT_APPLIED_NOOP) {
    mt_json blockers = mt_json_get(source, "blockers");
    item->result = blockers.type || item->brief ? MT_LOCK_DENIED : MT_LOCK_STALE;
    return read_denial(item, blockers);
  }
  mt_json queue = mt_json_get(source, "queue");
  item->version = a->version;
  item->result = written_set(r, item, source);
  if (!item->result) return false;
  if (item->result == MT_LOCK_ACKED) return !item->ask_queue || read_contended(r, item, queue);
  /* A session that holds something here passes the queue, so only holders block it. */
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

/* Does the answer state the item's result and, for a write, its version? Anything less is not
 * believed. */
static bool says_all(const mt_lock_item *item, const mt_answer *a) {
  bool grants =
      item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_SET || item->verb == MT_LOCK_ADOPT;
  if (a->applied == MT_APPLIED_NOOP) return item->verb != MT_LOCK_CREATE;
  if (grants) return mt_answer_written(a);
  return a->applied != MT_APPLIED_NONE && a->applied != MT_APPLIED_NOT_FOUND && a->version.term;
}

static bool read_applied_lock(const mt_lock_batch *r, mt_lock_item *item, const mt_answer *a) {
  if (!says_all(item, a)) return false;
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

/* Sets the batch's error from the first refused item. */
static void explain_failed_item(const mt_elastic *e, const mt_lock_item *item, const mt_answer *a,
                                mortise_error *err) {
  char type[96], reason[512], path[128];
  if (err->code) {
    err->ambiguous |= mt_answer_unsure(a);
    return;
  }
  mt_answer_text(a->cause_type.n ? a->cause_type : a->type, type, sizeof type);
  mt_answer_text(a->cause_reason.n ? a->cause_reason : a->reason, reason, sizeof reason);
  snprintf(path, sizeof path, "%.*s", (int)(item->place.path.n < 120 ? item->place.path.n : 120),
           item->place.path.p);
  bool script = strstr(reason, "unable to find script");
  if (script)
    mt_error_set(err, MORTISE_CORRUPT_TABLE, "lock table \"%s\": %s: run `mortise init`", e->table,
                 reason);
  else
    mt_error_set(err,
                 mt_answer_blocked(a) || mt_answer_busy(a) || a->status >= 500 ? MORTISE_UNAVAILABLE
                 : a->status == 401 || a->status == 403                        ? MORTISE_AUTH
                                                                               : MORTISE_REJECTED,
                 "lock table \"%s\", path %s: status %d: %s: %.300s", e->table, path, a->status,
                 type, reason);
  err->http_status = a->status;
  err->ambiguous = mt_answer_unsure(a);
  err->retryable = false;
  snprintf(err->type, sizeof err->type, "%s", type);
  snprintf(err->reason, sizeof err->reason, "%s", reason);
}

static mt_lock_result result_of_refusal(mt_elastic *e, mt_lock_item *item, const mt_answer *a,
                                        mt_lock_batch *r) {
  if (mt_answer_busy(a)) {
    explain_failed_item(e, item, a, &r->busy);
    return MT_LOCK_BUSY;
  }
  bool missing =
      a->applied == MT_APPLIED_NOT_FOUND || mt_answer_is(a->type, "document_missing_exception");
  if (missing) return item->verb == MT_LOCK_SET ? MT_LOCK_STALE : MT_LOCK_ABSENT;
  if (a->status == 409 && item->verb == MT_LOCK_CREATE) return MT_LOCK_EXISTS;
  if (a->status == 409) {
    e->store.stats.conflicts++;
    return MT_LOCK_CONFLICT;
  }
  if (mt_answer_is(a->type, "index_not_found_exception"))
    mt_table_gone(e, &r->req.error);
  else
    explain_failed_item(e, item, a, &r->req.error);
  return mt_answer_unsure(a) ? MT_LOCK_NO_ANSWER : MT_LOCK_FAILED;
}

static void disbelieve_batch(mt_lock_batch *r) {
  r->proven = false;
  for (size_t i = 0; i < r->n; i++) r->items[i].result = MT_LOCK_NO_ANSWER;
  mt_error_set(&r->req.error, MORTISE_UNAVAILABLE,
               "the answer to a batch of %zu lock operations is not understood", r->n);
  r->req.error.ambiguous = true;
  r->req.error.retryable = false;
}

/* Is the id the usual plain "NS:PATH"? */
static bool is_plainly_of(const mt_lock_batch *r, const mt_lock_item *item, mt_slice id) {
  size_t n = strlen(r->ns);
  return id.n == n + item->place.path.n + 3 && id.p[0] == '"' && id.p[n + 1] == ':' &&
         !memcmp(id.p + 1, r->ns, n) &&
         !memcmp(id.p + n + 2, item->place.path.p, item->place.path.n);
}

static bool is_answer_of(mt_buf *id, const mt_lock_batch *r, const mt_lock_item *item,
                         const mt_answer *a) {
  if (is_plainly_of(r, item, a->id)) return true;
  mt_buf_clear(id);
  mt_lock_id(id, r->ns, item->place);
  return !id->failed && mt_answer_is_of(a, mt_buf_slice(id));
}

void mt_table_read_batch(mt_elastic *e, mt_lock_batch *r, uint64_t after, mt_slice text,
                         bool identified) {
  mt_answers answers;
  mt_answer a;
  mt_buf id;
  mt_buf_init(&id, MT_ID_MAX);
  mt_answers_init(&answers, text);
  bool good = true;
  for (size_t i = 0; i < r->n && good; i++) {
    mt_lock_item *item = &r->items[i];
    good = mt_answers_next(&answers, &a) && is_answer_of(&id, r, item, &a);
    if (good && a.status < 300)
      good = read_applied_lock(r, item, &a);
    else if (good)
      item->result = result_of_refusal(e, item, &a, r);
  }
  mt_buf_deinit(&id);
  good = good && !mt_answers_next(&answers, &a) && !answers.failed;
  if (!good || !mt_order_judge(&e->order, after, r, identified)) disbelieve_batch(r);
}

static void on_lock_batch(mt_call *c) {
  mt_lock_batch *r = (mt_lock_batch *)c->req;
  r->proven = c->http.identified || !c->http.status;
  if (!mt_call_check(c, "lock table", c->e->table))
    mt_table_read_batch(c->e, r, c->after, mt_buf_slice(&c->http.answer), c->http.identified);
  if (!r->proven) mt_call_distrust(c);
  mt_call_finish(c);
}

static void clear_items(mt_lock_batch *r) {
  r->proven = true;
  mt_error_clear(&r->busy);
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
  if (batch_check(r, &r->req.error) || !r->n) {
    mt_call_finish_soon(c);
    return;
  }
  mt_table_bulk_path(c);
  frame f;
  frame_init(&f, r);
  for (size_t i = 0; i < r->n; i++) add_lock_operation(&c->body, &f, r, &r->items[i]);
  frame_deinit(&f);
  c->after = mt_order_ask(&e->order);
  mt_call_send(c, "POST", on_lock_batch);
}
