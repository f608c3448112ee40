/* Documents of sessions. */
#include "sqlite/locks.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>

/* Sessions that ended this long ago may be deleted: a missing session counts as expired once it has
 * been written as expired. */
enum { PURGE_AFTER_MS = 7 * 24 * 3600 * 1000 };

typedef struct row {
  bool found, bad;        /* bad: a column has another type */
  mt_session_state state; /* MISSING: unknown */
  mt_slice owner, waiting;
  int64_t lease_ms, opened_ms, beat_ms;
  uint64_t seq_no;
} row;

void mt_locks_session_parts(sqlite3_stmt *stmt, int first, mt_session_parts *out) {
  int64_t state;
  *out =
      (mt_session_parts){.bad = !mt_db_is_text(stmt, first + 1) || !mt_db_is_text(stmt, first + 5)};
  out->owner = mt_db_text(stmt, first + 1);
  out->waiting = mt_db_text(stmt, first + 5);
  bool is_number = mt_db_integer(stmt, first, &state);
  out->bad |= !is_number;
  out->bad |= !mt_db_integer(stmt, first + 2, &out->lease_ms);
  out->bad |= !mt_db_integer(stmt, first + 3, &out->opened_ms);
  out->bad |= !mt_db_integer(stmt, first + 4, &out->beat_ms);
  if (is_number && state >= MT_SESSION_LIVE && state <= MT_SESSION_BROKEN)
    out->state = (mt_session_state)state;
}

/* The row's slices point into the statement until its next use. */
static mortise_status read_row(mt_db *db, const char *ns, const char *session, row *out,
                               mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_SESSION_GET);
  mt_db_bind(stmt, 1, mt_slice_of(ns));
  mt_db_bind(stmt, 2, mt_slice_of(session));
  *out = (row){.waiting = MT_SLICE("[]")};
  mortise_status status = mt_db_step(db, stmt, &out->found, err);
  if (status || !out->found) return status;
  mt_session_parts p;
  int64_t seq_no;
  mt_locks_session_parts(stmt, 0, &p);
  *out = (row){.found = true,
               .bad = p.bad,
               .state = p.state,
               .owner = p.owner,
               .waiting = p.waiting,
               .lease_ms = p.lease_ms,
               .opened_ms = p.opened_ms,
               .beat_ms = p.beat_ms};
  out->bad |= !mt_db_integer(stmt, 6, &seq_no);
  out->seq_no = (uint64_t)seq_no;
  return MORTISE_OK;
}

static mortise_status put_session_row(mt_db *db, const mt_session_write *r, const row *what,
                                      mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_SESSION_PUT);
  mt_db_bind(stmt, 1, mt_slice_of(r->ns));
  mt_db_bind(stmt, 2, mt_slice_of(r->session));
  sqlite3_bind_int(stmt, 3, (int)what->state);
  mt_db_bind(stmt, 4, what->owner);
  sqlite3_bind_int64(stmt, 5, what->lease_ms);
  sqlite3_bind_int64(stmt, 6, what->opened_ms);
  sqlite3_bind_int64(stmt, 7, what->beat_ms);
  mt_db_bind(stmt, 8, what->waiting);
  mt_db_bind_u(stmt, 9, what->seq_no);
  return mt_db_run(db, stmt, err);
}

static bool open_row(const mt_session_write *r, row *s, int64_t now_ms) {
  if (s->found) { /* a repeated opening is written again */
    bool same = s->state == MT_SESSION_LIVE && s->lease_ms == r->lease_ms &&
                mt_slice_eq(s->owner, r->owner);
    s->beat_ms = now_ms;
    return same;
  }
  s->state = MT_SESSION_LIVE;
  s->owner = r->owner;
  s->lease_ms = r->lease_ms;
  s->opened_ms = s->beat_ms = now_ms;
  return true;
}

static bool expire_row(const mt_session_write *r, row *s, int64_t now_ms) {
  bool create = r->if_version.term == 0;
  if (create == s->found) return false;
  if (!create && (r->if_version.seq_no != s->seq_no || r->if_version.term != 1)) return false;
  if (create) {
    s->lease_ms = r->lease_ms;
    s->owner = r->owner.n ? r->owner : MT_SLICE("{}");
    s->opened_ms = s->beat_ms = now_ms;
  }
  s->state = MT_SESSION_EXPIRED;
  return true;
}

/* Appends who breaks it to the owner object. The caller checks `text` for failure. */
static void add_breaker(const mt_session_write *r, row *s, mt_buf *text) {
  if (!r->by.n || !s->owner.n) return;
  mt_buf_add(text, s->owner.p, s->owner.n - 1); /* an object without white space around */
  mt_json_add_key(text, "broken_by");
  mt_buf_addslice(text, r->by);
  mt_buf_addc(text, '}');
  s->owner = mt_buf_slice(text);
}

/* Says for people why a beat was refused. */
static void note_refused_row(mt_session_write *r, const row *s) {
  mt_json owner;
  r->found = s->found ? s->state : MT_SESSION_MISSING;
  if (s->found && !mt_json_parse(s->owner, "the owner", &owner, NULL))
    mt_session_breaker(owner, r->breaker, sizeof r->breaker);
}

/* Applies the verb to the row; false if its state forbids it. `text` owns new text in the row. */
static bool change_row(const mt_session_write *r, row *s, mt_buf *text, int64_t now_ms) {
  bool live = s->found && s->state == MT_SESSION_LIVE;
  bool broken = s->found && s->state == MT_SESSION_BROKEN;
  switch (r->verb) {
  case MT_SESSION_OPEN:
    return open_row(r, s, now_ms);
  case MT_SESSION_BEAT:
    s->beat_ms = now_ms;
    s->waiting = r->waiting.n ? r->waiting : MT_SLICE("[]");
    return live;
  case MT_SESSION_CLOSE:
    s->state = MT_SESSION_CLOSED;
    s->waiting = MT_SLICE("[]");
    return live || broken;
  case MT_SESSION_EXPIRE:
    return expire_row(r, s, now_ms);
  case MT_SESSION_BREAK:
    s->state = MT_SESSION_BROKEN;
    if (live) add_breaker(r, s, text);
    return live;
  default:
    return s->found &&
           (s->state == MT_SESSION_EXPIRED || s->state == MT_SESSION_CLOSED); /* PROVE */
  }
}

static mortise_status check_write(const mt_session_write *r, mortise_error *err) {
  mt_json json;
  mortise_status status = mt_locks_check(r->ns, r->session, err);
  if (!status && r->owner.n) status = mt_json_parse(r->owner, "the session's owner", &json, err);
  if (!status && r->waiting.n) status = mt_json_parse(r->waiting, "the waiting list", &json, err);
  if (!status && r->by.n) status = mt_json_parse(r->by, "who breaks it", &json, err);
  if (!status && r->verb == MT_SESSION_OPEN && !r->owner.n)
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a session needs an owner");
  return status;
}

static mortise_status purge_sessions(mt_db *db, const mt_session_write *r, int64_t now_ms,
                                     mortise_error *err) {
  if (r->verb != MT_SESSION_OPEN) return MORTISE_OK;
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_SESSION_PURGE);
  mt_db_bind(stmt, 1, mt_slice_of(r->ns));
  sqlite3_bind_int64(stmt, 2, now_ms - PURGE_AFTER_MS);
  return mt_db_run(db, stmt, err);
}

static mortise_status run_session_write(mt_work *w, mt_session_write *r, mt_buf *text,
                                        mortise_error *err) {
  int64_t now_ms = mt_clock_wall_ms();
  row s;
  uint64_t seq_no = 0;
  mortise_status status = check_write(r, err);
  if (!status) status = mt_work_write(w, err);
  if (!status) status = purge_sessions(w->db, r, now_ms, err);
  if (!status) status = read_row(w->db, r->ns, r->session, &s, err);
  if (status) return status;
  row before = s;
  if (!change_row(r, &s, text, now_ms)) {
    if (r->verb == MT_SESSION_BEAT) note_refused_row(r, &before);
    r->result = MT_SESSION_REFUSED;
    return MORTISE_OK;
  }
  status = mt_buf_status(text, "the session's owner", err);
  if (!status) status = mt_locks_seq_load(w->db, &seq_no, err);
  s.seq_no = ++seq_no;
  if (!status) status = put_session_row(w->db, r, &s, err);
  if (!status) status = mt_locks_seq_store(w->db, seq_no, err);
  if (!status) status = mt_work_commit(w, err);
  if (status) return status;
  r->result = MT_SESSION_ACKED;
  r->version = mt_locks_version(seq_no);
  return MORTISE_OK;
}

mortise_status mt_locks_session(mt_work *w, mt_req *req, mortise_error *err) {
  mt_session_write *r = (mt_session_write *)(void *)req;
  mt_buf text;
  r->result = MT_SESSION_NO_ANSWER;
  r->version = (mt_version){0};
  r->found = MT_SESSION_MISSING;
  r->breaker[0] = '\0';
  mt_buf_init(&text, MT_SQLITE_TEXT_MAX);
  mortise_status status = run_session_write(w, r, &text, err);
  mt_buf_deinit(&text);
  return status;
}

/* ---- reading ---- */

static mortise_status fill_doc(const row *s, mt_session_doc *doc, mortise_error *err) {
  if (!s->found) return MORTISE_OK;
  const mt_session_parts parts = {.bad = s->bad,
                                  .state = s->state,
                                  .lease_ms = s->lease_ms,
                                  .opened_ms = s->opened_ms,
                                  .beat_ms = s->beat_ms,
                                  .owner = s->owner,
                                  .waiting = s->waiting};
  doc->version = mt_locks_version(s->seq_no);
  return mt_session_read_parts(&parts, doc) ? MORTISE_OK : mt_error_memory(err);
}

mortise_status mt_locks_session_read(mt_work *w, mt_req *req, mortise_error *err) {
  mt_session_read *r = (mt_session_read *)(void *)req;
  r->docs = NULL;
  mortise_status status = mt_work_read(w, err);
  if (status) return status;
  r->docs = mt_calloc(r->n, sizeof *r->docs);
  if (!r->docs) return mt_error_memory(err);
  for (size_t i = 0; !status && i < r->n; i++) {
    row s = {0};
    status = mt_locks_check(r->ns, r->ids[i], err);
    if (status) break;
    memcpy(r->docs[i].session, r->ids[i], MT_SESSION_ID);
    status = read_row(w->db, r->ns, r->ids[i], &s, err);
    if (!status) status = fill_doc(&s, &r->docs[i], err);
  }
  if (status) mt_session_read_deinit(r);
  return status;
}
