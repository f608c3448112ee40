/* Documents of sessions: written by scripts, read by id. */
#include "base/mem.h"
#include "elastic/answer.h"
#include "elastic/internal.h"

#include <stdio.h>

/* ---- Writing -------------------------------------------------------------------------------- */

static const char *const verbs[] = {
    [MT_SESSION_OPEN] = "open",     [MT_SESSION_BEAT] = "beat",   [MT_SESSION_CLOSE] = "close",
    [MT_SESSION_EXPIRE] = "expire", [MT_SESSION_PROVE] = "prove", [MT_SESSION_BREAK] = "break",
};

static bool creates(const mt_session_write *r) {
  return r->verb == MT_SESSION_EXPIRE && !r->if_version.term;
}

static bool add_json_param(mt_buf *b, const char *key, mt_slice json, mt_slice fallback,
                           mt_json_type type) {
  mt_json value;
  if (!json.n) json = fallback;
  if (mt_json_parse(json, key, &value, NULL) || value.type != type) return false;
  mt_json_add_key(b, key);
  size_t at = b->n;
  mt_buf_addslice(b, json);
  for (char *p = b->p + at; !b->failed && p < b->p + b->n; p++)
    if (*p == '\n' || *p == '\r') *p = ' ';
  return true;
}

/* Records an unknown session as an expired one. */
static void add_expired(mt_buf *b, const mt_session_write *r) {
  mt_buf_addf(b,
              "{\"kind\":\"session\",\"owner\":{},\"lease_ms\":%lld,\"state\":\"expired\","
              "\"waiting\":[]}\n",
              (long long)r->lease_ms);
}

static bool add_session_script(mt_buf *b, const mt_session_write *r) {
  bool open = r->verb == MT_SESSION_OPEN, good = true;
  mt_buf_addf(b, "{\"script\":{\"id\":\"%s\",\"params\":{\"verb\":\"%s\"", MT_SCRIPT_SESSION,
              verbs[r->verb]);
  if (open) {
    mt_buf_addf(b, ",\"lease\":%lld", (long long)r->lease_ms);
    good = add_json_param(b, "owner", r->owner, MT_SLICE("{}"), MT_JSON_OBJECT);
  } else if (r->verb == MT_SESSION_BEAT) {
    good = add_json_param(b, "waiting", r->waiting, MT_SLICE("[]"), MT_JSON_ARRAY);
  } else if (r->verb == MT_SESSION_BREAK && r->by.n) {
    good = add_json_param(b, "by", r->by, MT_SLICE("{}"), MT_JSON_OBJECT);
  }
  mt_buf_adds(b, "}}");
  if (open) mt_buf_adds(b, ",\"scripted_upsert\":true,\"upsert\":{}");
  if (r->verb == MT_SESSION_BEAT) mt_buf_adds(b, ",\"_source\":[\"state\",\"owner.broken_by\"]");
  mt_buf_adds(b, "}\n");
  return good;
}

static bool build_session_write(mt_buf *b, const mt_session_write *r) {
  mt_buf_adds(b, creates(r) ? "{\"create\":{\"_id\":\"" : "{\"update\":{\"_id\":\"");
  mt_session_id(b, r->ns, r->session); /* validated, so nothing is escaped */
  mt_buf_addc(b, '"');
  if (r->if_version.term && r->verb == MT_SESSION_EXPIRE)
    mt_buf_addf(b, ",\"if_seq_no\":%llu,\"if_primary_term\":%llu",
                (unsigned long long)r->if_version.seq_no, (unsigned long long)r->if_version.term);
  mt_buf_adds(b, "}}\n");
  if (!creates(r)) return add_session_script(b, r);
  add_expired(b, r);
  return true;
}

static void explain_failed_session(mt_elastic *e, const mt_session_write *r, const mt_answer *a,
                                   mortise_error *err) {
  char type[96], reason[512];
  mt_answer_text(a->cause_type.n ? a->cause_type : a->type, type, sizeof type);
  mt_answer_text(a->cause_reason.n ? a->cause_reason : a->reason, reason, sizeof reason);
  mortise_status code = MORTISE_REJECTED;
  if (strstr(reason, "unable to find script"))
    code = MORTISE_CORRUPT_TABLE;
  else if (mt_answer_blocked(a) || a->status == 429 || a->status >= 500)
    code = MORTISE_UNAVAILABLE;
  else if (a->status == 401 || a->status == 403)
    code = MORTISE_AUTH;
  mt_error_set(err, code, "lock table \"%s\", %s of session %.32s: status %d: %s: %.300s%s",
               e->table, verbs[r->verb], r->session, a->status, type, reason,
               code == MORTISE_CORRUPT_TABLE ? ": run `mortise init`" : "");
  err->http_status = a->status;
  err->ambiguous = mt_answer_unsure(a);
  err->retryable = mt_answer_busy(a);
  snprintf(err->type, sizeof err->type, "%s", type);
  snprintf(err->reason, sizeof err->reason, "%s", reason);
}

static void note_refusal(mt_session_write *r, const mt_answer *a) {
  mt_json source;
  if (!a->source.n || mt_json_parse(a->source, "the answer", &source, NULL)) return;
  mt_slice state;
  bool plain = mt_json_plain(mt_json_get(source, "state"), &state);
  r->found = plain ? mt_session_state_of(state) : MT_SESSION_MISSING;
  mt_session_breaker(mt_json_get(source, "owner"), r->breaker, sizeof r->breaker);
}

static void classify_session_write(mt_elastic *e, mt_session_write *r, const mt_answer *a) {
  bool missing =
      a->applied == MT_APPLIED_NOT_FOUND || mt_answer_is(a->type, "document_missing_exception");
  if (mt_answer_written(a)) {
    r->result = MT_SESSION_ACKED;
    r->version = a->version;
  } else if (a->status < 300 || missing) {
    r->result = MT_SESSION_REFUSED;
    if (r->verb == MT_SESSION_BEAT) note_refusal(r, a);
  } else if (a->status == 409 && r->verb == MT_SESSION_EXPIRE) {
    r->result = MT_SESSION_REFUSED;
  } else if (a->status == 409) {
    explain_failed_session(e, r, a, &r->req.error);
    r->req.error.code = MORTISE_CONFLICT;
    r->req.error.retryable = true;
  } else if (mt_answer_is(a->type, "index_not_found_exception")) {
    mt_table_gone(e, &r->req.error);
  } else {
    explain_failed_session(e, r, a, &r->req.error);
  }
}

enum { TRIES = 4 };

/* A version conflict of a scripted update: it was not applied and never will be. */
static bool conflicted(const mt_session_write *r, const mt_answer *a) {
  return a->status == 409 && r->verb != MT_SESSION_EXPIRE;
}

/* Only a write with its version, or a clear refusal, proves anything. */
static bool is_clear_answer(const mt_answer *a) {
  return a->status >= 300 || a->applied == MT_APPLIED_NOOP || a->applied == MT_APPLIED_NOT_FOUND ||
         mt_answer_written(a);
}

/* Reads the next item, which must be for this session and have a clear result. */
static bool read_session_item(mt_answers *answers, const char *ns, const char *session,
                              mt_answer *a) {
  mt_buf id;
  mt_buf_init(&id, MT_ID_MAX);
  mt_session_id(&id, ns, session);
  bool good = mt_answers_next(answers, a) && !id.failed && mt_answer_is_of(a, mt_buf_slice(&id)) &&
              is_clear_answer(a);
  mt_buf_deinit(&id);
  return good;
}

static bool is_last_item(mt_answers *answers) {
  mt_answer more;
  return !mt_answers_next(answers, &more) && !answers->failed;
}

static bool read_session_answer(const mt_session_write *r, mt_slice text, mt_answer *a) {
  mt_answers answers;
  mt_answers_init(&answers, text);
  return read_session_item(&answers, r->ns, r->session, a) && is_last_item(&answers);
}

static void on_session(mt_call *c) {
  mt_session_write *r = (mt_session_write *)c->req;
  mt_answer a = {0};
  bool failed = mt_call_check(c, "lock table", c->e->table) != MORTISE_OK;
  bool good = !failed && read_session_answer(r, mt_buf_slice(&c->http.answer), &a);
  bool written = good && mt_answer_written(&a);
  if (written) good = mt_order_judge_session(&c->e->order, c->after, r->verb, a.version);
  if (!good || !(written || c->http.identified)) mt_call_distrust(c);
  if (failed) {
    mt_call_finish(c);
    return;
  }
  if (!good) {
    mt_error_set(&r->req.error, MORTISE_UNAVAILABLE,
                 "the answer to the write of a session is not understood");
    r->req.error.ambiguous = true;
    r->req.error.retryable = false;
  } else if (conflicted(r, &a) && ++c->tries < TRIES) {
    c->e->store.stats.conflicts++;
    mt_call_send(c, "POST", on_session);
    return;
  } else {
    classify_session_write(c->e, r, &a);
  }
  mt_call_finish(c);
}

static void begin_session_write(mt_session_write *r) {
  r->result = MT_SESSION_NO_ANSWER;
  r->version = (mt_version){0};
  r->found = MT_SESSION_MISSING;
  r->breaker[0] = '\0';
}

void mt_elastic_session(mt_store *s, mt_session_write *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  begin_session_write(r);
  if (!c) return;
  if ((unsigned)r->verb > MT_SESSION_BREAK || !mt_ns_valid(r->ns) ||
      !mt_session_valid(r->session) || !build_session_write(&c->body, r)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT,
                  "a session's write needs a namespace, an id, an owner that is a JSON object and "
                  "a waiting list that is a JSON array");
    return;
  }
  mt_table_bulk_path(c);
  c->after = mt_order_ask_session(&c->e->order, r);
  mt_call_send(c, "POST", on_session);
}

/* ---- Writing several ------------------------------------------------------------------------ */

/* With `e` it also fills in the results; otherwise it only looks whether all items are as they must be,
 * and whether one was written. */
static bool read_sessions_answer(mt_elastic *e, mt_session_batch *r, mt_slice text, uint64_t after,
                                 bool *written) {
  mt_answers answers;
  mt_answer a;
  mt_answers_init(&answers, text);
  for (size_t i = 0; i < r->n; i++) {
    mt_session_write *w = &r->writes[i];
    if (!read_session_item(&answers, r->ns, w->session, &a)) return false;
    bool wrote = mt_answer_written(&a);
    *written |= wrote;
    if (!e && wrote && !mt_version_is_after(a.version, after)) return false;
    if (e && wrote) mt_order_judge_session(&e->order, after, w->verb, a.version);
    if (e && !conflicted(w, &a)) classify_session_write(e, w, &a);
  }
  return is_last_item(&answers);
}

static void on_sessions(mt_call *c) {
  mt_session_batch *r = (mt_session_batch *)c->req;
  bool written = false;
  bool failed = mt_call_check(c, "lock table", c->e->table) != MORTISE_OK;
  mt_slice text = mt_buf_slice(&c->http.answer);
  bool good = !failed && read_sessions_answer(NULL, r, text, c->after, &written);
  if (!good || !(written || c->http.identified)) mt_call_distrust(c);
  if (good) {
    read_sessions_answer(c->e, r, text, c->after, &written);
  } else if (!failed) {
    mt_error_set(&r->req.error, MORTISE_UNAVAILABLE,
                 "the answer to the writes of sessions is not understood");
    r->req.error.ambiguous = true;
    r->req.error.retryable = false;
  }
  mt_call_finish(c);
}

void mt_elastic_session_batch(mt_store *s, mt_session_batch *r) {
  mt_elastic *e = mt_elastic_of(s);
  for (size_t i = 0; i < r->n; i++) begin_session_write(&r->writes[i]);
  mt_call *c = mt_call_new(e, &r->req);
  if (!c) return;
  bool good = mt_ns_valid(r->ns) && r->n;
  for (size_t i = 0; good && i < r->n; i++) {
    mt_session_write *w = &r->writes[i];
    w->ns = r->ns;
    good = (w->verb == MT_SESSION_EXPIRE || w->verb == MT_SESSION_PROVE) &&
           mt_session_valid(w->session) && build_session_write(&c->body, w);
  }
  if (!good) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT,
                  "several sessions are only expired, or proven to have ended");
    return;
  }
  mt_table_bulk_path(c);
  c->after = mt_order_ask(&e->order);
  mt_call_send(c, "POST", on_sessions);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* Reads the version; false if it is invalid or the answer is about another session. */
static bool read_doc_version(mt_json answer, mt_slice id, mt_session_doc *out) {
  mt_version v;
  char text[MT_ID_MAX];
  mt_json_copy(mt_json_get(answer, "_id"), text, sizeof text);
  if (!mt_slice_eq(mt_slice_of(text), id)) return false;
  if (!mt_json_uint(mt_json_get(answer, "_seq_no"), &v.seq_no) || v.seq_no > MT_SEQ_NO_MAX ||
      !mt_json_uint(mt_json_get(answer, "_primary_term"), &v.term) || !v.term ||
      v.term > MT_TERM_MAX)
    return false;
  out->version = v;
  return true;
}

static mortise_status session_not_understood(const mt_session_doc *doc, mortise_error *err) {
  return mt_error_set(err, MORTISE_UNAVAILABLE,
                      "what answered to a read of session %s is not understood", doc->session);
}

static mortise_status read_doc(const mt_session_read *r, mt_json answer, mt_session_doc *out,
                               mortise_error *err) {
  bool found;
  mt_buf id;
  if (!mt_json_bool(mt_json_get(answer, "found"), &found)) return session_not_understood(out, err);
  if (!found) return MORTISE_OK;
  mt_buf_init(&id, MT_ID_MAX);
  mt_session_id(&id, r->ns, out->session);
  mt_json source = mt_json_get(answer, "_source");
  bool good = !id.failed && read_doc_version(answer, mt_buf_slice(&id), out);
  mt_buf_deinit(&id);
  if (!good || source.type != MT_JSON_OBJECT) return session_not_understood(out, err);
  return mt_session_read_json(source, out) ? MORTISE_OK : mt_error_memory(err);
}

static mortise_status read_doc_error(const mt_elastic *e, mt_json error, mortise_error *err) {
  char type[96], reason[256];
  if (mt_json_is(mt_json_get(error, "type"), "index_not_found_exception")) {
    mt_table_gone(e, err);
    return err->code;
  }
  return mt_error_set(err, MORTISE_UNAVAILABLE, "reading sessions from lock table \"%s\": %s: %s",
                      e->table, mt_json_copy(mt_json_get(error, "type"), type, sizeof type),
                      mt_json_copy(mt_json_get(error, "reason"), reason, sizeof reason));
}

mortise_status mt_table_read_sessions(const mt_elastic *e, mt_session_read *r, mt_json root,
                                      mortise_error *err) {
  mt_json_iter it = mt_json_items(mt_json_get(root, "docs"));
  size_t i = 0;
  while (i < r->n && mt_json_next(&it)) {
    mt_json error = mt_json_get(it.value, "error");
    if (error.type) return read_doc_error(e, error, err);
    if (read_doc(r, it.value, &r->docs[i++], err)) return err->code;
  }
  if (i < r->n || mt_json_next(&it))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%zu sessions were read, another number came",
                        r->n);
  return MORTISE_OK;
}

static void on_docs_read(mt_call *c) {
  mt_session_read *r = (mt_session_read *)c->req;
  mt_json root;
  if (mt_call_check(c, "lock table", c->e->table)) {
    if (c->http.status == 404) mt_table_gone(c->e, &r->req.error);
    mt_call_finish(c);
    return;
  }
  if (!mt_call_json(c, "the answer to a read of sessions", &root)) return;
  if (mt_table_read_sessions(c->e, r, root, &r->req.error)) {
    mt_session_read_deinit(r);
  }
  mt_call_finish(c);
}

static bool prepare_docs(mt_session_read *r) {
  r->docs = mt_calloc(r->n ? r->n : 1, sizeof *r->docs);
  for (size_t i = 0; r->docs && i < r->n; i++) {
    if (!mt_session_valid(r->ids[i])) return false;
    strcpy(r->docs[i].session, r->ids[i]);
  }
  return r->docs != NULL;
}

void mt_elastic_session_read(mt_store *s, mt_session_read *r) {
  mt_elastic *e = mt_elastic_of(s);
  r->docs = NULL;
  mt_call *c = mt_call_new(e, &r->req);
  if (!c) return;
  if (!mt_ns_valid(r->ns) || !prepare_docs(r)) {
    mt_session_read_deinit(r);
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "a session's id or its namespace is none");
    return;
  }
  if (!r->n) {
    mt_call_finish_soon(c);
    return;
  }
  mt_buf_addc(&c->path, '/');
  mt_path_add(&c->path, mt_slice_of(e->table));
  mt_buf_adds(&c->path, "/_mget");
  mt_buf_adds(&c->body, "{\"ids\":[");
  for (size_t i = 0; i < r->n; i++) {
    mt_buf_adds(&c->body, i ? ",\"" : "\"");
    mt_session_id(&c->body, r->ns, r->ids[i]);
    mt_buf_addc(&c->body, '"');
  }
  mt_buf_adds(&c->body, "]}");
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_docs_read);
}

/* ---- Purging -------------------------------------------------------------------------------- */

enum { PURGE_MOST = 2000 }; /* so that the request ends in time */

static void on_purged(mt_call *c) {
  mt_session_purge *r = (mt_session_purge *)c->req;
  mt_json root;
  uint64_t found = 0;
  bool late = false;
  if (!mt_call_ok(c, "purge lock table", c->e->table)) return;
  if (!mt_call_json(c, "the answer to a purge of sessions", &root)) return;
  bool good = mt_json_uint(mt_json_get(root, "deleted"), &r->purged) &&
              mt_json_uint(mt_json_get(root, "total"), &found) &&
              mt_json_bool(mt_json_get(root, "timed_out"), &late) && !late;
  mt_json_iter failures = mt_json_items(mt_json_get(root, "failures"));
  if (!good || mt_json_next(&failures)) {
    mt_call_error(c, MORTISE_UNAVAILABLE, "not all sessions that ended long ago were purged");
    return;
  }
  r->more = found >= PURGE_MOST && r->purged;
  mt_call_finish(c);
}

/* A missing session counts as expired once it has been written as expired. */
void mt_elastic_session_purge(mt_store *s, mt_session_purge *r) {
  r->purged = 0;
  r->more = false;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  mt_buf_addc(&c->path, '/');
  mt_path_add(&c->path, mt_slice_of(c->e->table));
  mt_buf_addf(&c->path, "/_delete_by_query?conflicts=proceed&refresh=true&max_docs=%d", PURGE_MOST);
  mt_buf_adds(&c->body, "{\"query\":{\"bool\":{\"filter\":[{\"term\":{\"kind\":\"session\"}},"
                        "{\"terms\":{\"state\":[\"closed\",\"expired\"]}},"
                        "{\"range\":{\"beat_at\":{\"lt\":\"now-7d\"}}}]}}}");
  mt_call_send(c, "POST", on_purged);
}
