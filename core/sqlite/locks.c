/* The verbs of a lock batch: the same operations as the scripts on a server, in SQL inside one
 * transaction. */
#include "sqlite/locks.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "store/grant.h"

#include <stdio.h>

enum {
  CLOCK_EVERY = 32,
  ENTRIES_MAX = 1 << 20, /* at one path */
};

typedef struct entries {
  mt_lock_entry *list;
  size_t n, cap;
} entries;

typedef struct batch_run {
  mt_work *w;
  mt_lock_batch *r;
  mt_slice ns, session, job;
  uint64_t seq_no; /* of the last write */
  int64_t now_ms;
  size_t first; /* item of this transaction */
  mt_buf name;  /* of the place of the item at hand */
  entries holders, queue;
} batch_run;

/* ---- reading a document ---- */

static mt_mode mode_of(int64_t number) {
  return number > MT_NL && number <= MT_X ? (mt_mode)number : MT_NL;
}

void mt_locks_entry(sqlite3_stmt *stmt, bool queued, mt_lock_entry *out) {
  mt_entry_parts p = {.queued = queued, .bad = !mt_db_is_text(stmt, 0) || !mt_db_is_text(stmt, 4)};
  int64_t mode;
  p.session = mt_db_text(stmt, 0);
  p.job = mt_db_text(stmt, 4);
  p.bad |= !mt_db_integer(stmt, 1, &p.n);
  p.bad |= !mt_db_integer(stmt, 2, &mode);
  p.bad |= !mt_db_integer(stmt, 3, &p.time);
  p.mode = mode_of(mode);
  mt_entry_read(&p, out);
}

static mortise_status read_entries(batch_run *u, bool queued, entries *out, mortise_error *err) {
  mt_db *db = u->w->db;
  sqlite3_stmt *stmt = mt_db_stmt(db, queued ? LOCKS_QUEUE : LOCKS_HOLDERS);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  out->n = 0;
  for (;;) {
    bool more;
    mortise_status status = mt_db_step(db, stmt, &more, err);
    if (status || !more) {
      sqlite3_reset(stmt);
      return status;
    }
    if (!mt_grow((void **)&out->list, &out->cap, out->n + 1, sizeof *out->list, ENTRIES_MAX))
      return mt_error_memory(err);
    mt_locks_entry(stmt, queued, &out->list[out->n++]);
  }
}

static mortise_status read_document(batch_run *u, mortise_error *err) {
  mortise_status status = read_entries(u, false, &u->holders, err);
  return status ? status : read_entries(u, true, &u->queue, err);
}

static mt_lock_document document(const batch_run *u) {
  return (mt_lock_document){u->holders.list, u->queue.list, u->holders.n, u->queue.n};
}

static const mt_lock_entry *entry_find(const entries *list, const char *session) {
  return mt_lock_entry_of(list->list, list->n, session);
}

/* Reads the document's version; 0: no document. */
static mortise_status read_lock_version(batch_run *u, uint64_t *seq_no, mortise_error *err) {
  mt_db *db = u->w->db;
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_DOC_GET);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  bool row;
  mortise_status status = mt_db_step(db, stmt, &row, err);
  *seq_no = !status && row ? mt_db_u(stmt, 0) : 0;
  sqlite3_reset(stmt);
  return status;
}

/* ---- writing it ---- */

/* Runs a statement with the parameters (ns, name of the place) and, if given, the session. */
static mortise_status run_at(batch_run *u, size_t sql, mt_slice session, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, sql);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  if (session.p) mt_db_bind(stmt, 3, session);
  return mt_db_run(u->w->db, stmt, err);
}

/* Gives the document a new version, or deletes it if it is empty; this is the acknowledged
 * write. */
static mortise_status touch(batch_run *u, mt_lock_item *item, bool empty, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, empty ? LOCKS_DOC_DROP : LOCKS_DOC_PUT);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  if (!empty) mt_db_bind_u(stmt, 3, u->seq_no + 1);
  mortise_status status = mt_db_run(u->w->db, stmt, err);
  if (!status) item->version = mt_locks_version(++u->seq_no);
  return status;
}

static mortise_status put_holder(batch_run *u, const mt_lock_item *item, mt_mode mode,
                                 int64_t since_ms, mt_slice job, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, LOCKS_HOLDER_PUT);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  mt_db_bind(stmt, 3, u->session);
  mt_db_bind_u(stmt, 4, item->n);
  sqlite3_bind_int(stmt, 5, (int)mode);
  sqlite3_bind_int64(stmt, 6, since_ms);
  mt_db_bind(stmt, 7, job);
  return mt_db_run(u->w->db, stmt, err);
}

/* A new place is after all others, since numbers only grow. */
static mortise_status put_waiter(batch_run *u, const mt_lock_item *item, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, LOCKS_QUEUE_PUT);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  mt_db_bind(stmt, 3, u->session);
  mt_db_bind_u(stmt, 4, item->n);
  sqlite3_bind_int(stmt, 5, (int)item->mode);
  sqlite3_bind_int64(stmt, 6, u->now_ms + mt_lock_item_place_ms(item));
  mt_db_bind(stmt, 7, u->job);
  mt_db_bind_u(stmt, 8, u->seq_no + 1);
  return mt_db_run(u->w->db, stmt, err);
}

/* Each write drops expired waiters from the queue. */
static mortise_status purge_queue(batch_run *u, mortise_error *err) {
  bool any = false;
  for (size_t i = 0; i < u->queue.n; i++) any |= !mt_waiter_alive(&u->queue.list[i], u->now_ms);
  if (!any) return MORTISE_OK;
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, LOCKS_QUEUE_PURGE);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  sqlite3_bind_int64(stmt, 3, u->now_ms);
  return mt_db_run(u->w->db, stmt, err);
}

static mortise_status set_lock_result(mt_lock_item *item, mt_lock_result what) {
  item->result = what;
  return MORTISE_OK;
}

static mortise_status acked(mt_lock_item *item, mortise_status status) {
  if (!status) item->result = MT_LOCK_ACKED;
  return status;
}

/* ---- set ---- */

static mortise_status append_blocker(mt_lock_item *item, const mt_lock_entry *e,
                                     mortise_error *err) {
  size_t n = item->n_blockers;
  if (!(n & (n - 1))) { /* 0 or a power of two: full */
    void *grown = mt_realloc(item->blockers, (n ? n * 2 : 1) * sizeof *item->blockers);
    if (!grown) return mt_error_memory(err);
    item->blockers = grown;
  }
  item->blockers[item->n_blockers++] = *e;
  return MORTISE_OK;
}

static mortise_status tell_blockers(const mt_lock_document *doc, const mt_grant_request *r,
                                    mt_lock_item *item, mortise_error *err) {
  const mt_lock_entry *e = NULL;
  mortise_status status = MORTISE_OK;
  while (!status && item->n_blockers < MT_BLOCKERS_MAX && (e = mt_grant_blocker(doc, r, e)))
    status = append_blocker(item, e, err);
  return status;
}

static mortise_status write_grant(batch_run *u, mt_lock_item *item, const mt_grant *g,
                                  mortise_error *err) {
  mortise_status status = MORTISE_OK;
  if (!g->again) status = put_holder(u, item, g->mode, g->since_ms, u->job, err);
  if (!status && g->place) status = run_at(u, LOCKS_QUEUE_DROP, u->session, err);
  return status;
}

static mortise_status item_set(batch_run *u, mt_lock_item *item, mortise_error *err) {
  mortise_status status = read_document(u, err);
  if (status) return status;
  mt_lock_document doc = document(u);
  mt_grant_request r = {.session = u->r->session,
                        .n = item->n,
                        .mode = item->mode,
                        .fresh = item->fresh,
                        .enqueue = item->enqueue,
                        .now_ms = u->now_ms};
  mt_grant g = mt_grant_decide(&doc, &r);
  bool granted = g.result == MT_LOCK_ACKED, queued = g.result == MT_LOCK_QUEUED;
  if (queued || g.result == MT_LOCK_DENIED) status = tell_blockers(&doc, &r, item, err);
  if (!status && granted) status = write_grant(u, item, &g, err);
  if (!status && queued) status = put_waiter(u, item, err);
  if (!status && (granted || queued)) status = purge_queue(u, err);
  if (!status && (granted || queued)) status = touch(u, item, false, err);
  if (!status && queued) item->ahead = mt_grant_ahead(&doc, &r);
  if (!status && granted && item->ask_queue) item->contended = mt_grant_contended(&doc, &r, g.mode);
  return status ? status : set_lock_result(item, g.result);
}

/* ---- the other verbs ---- */

/* Entries without a document row count too, since they say that somebody holds something. */
static mortise_status lock_exists(batch_run *u, bool *there, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, LOCKS_DOC_ANY);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  bool row;
  mortise_status status = mt_db_step(u->w->db, stmt, &row, err);
  *there = !status && row && sqlite3_column_int(stmt, 0);
  sqlite3_reset(stmt);
  return status;
}

static mortise_status create_lock(batch_run *u, mt_lock_item *item, mortise_error *err) {
  bool there;
  mortise_status status = lock_exists(u, &there, err);
  if (status) return status;
  if (there) return set_lock_result(item, MT_LOCK_EXISTS);
  status = put_holder(u, item, item->mode, u->now_ms, u->job, err);
  if (!status) status = touch(u, item, false, err);
  return acked(item, status);
}

static mortise_status delete_lock(batch_run *u, mt_lock_item *item, mortise_error *err) {
  uint64_t seq_no;
  mortise_status status = read_lock_version(u, &seq_no, err);
  if (status) return status;
  if (!seq_no || item->if_version.seq_no != seq_no || item->if_version.term != 1)
    return set_lock_result(item, MT_LOCK_CONFLICT);
  status = run_at(u, LOCKS_HOLDERS_CLEAR, (mt_slice){0}, err);
  if (!status) status = run_at(u, LOCKS_QUEUE_CLEAR, (mt_slice){0}, err);
  if (!status) status = touch(u, item, true, err);
  return acked(item, status);
}

static bool is_left_empty(const batch_run *u) {
  if (u->holders.n) return false;
  for (size_t i = 0; i < u->queue.n; i++)
    if (mt_waiter_alive(&u->queue.list[i], u->now_ms)) return false;
  return true;
}

/* Removes an entry of the document as it was read, and of the table. */
static mortise_status drop_entry(batch_run *u, entries *list, const mt_lock_entry *e,
                                 mt_slice session, mortise_error *err) {
  size_t i = (size_t)(e - list->list);
  memmove(&list->list[i], &list->list[i + 1], (--list->n - i) * sizeof *list->list);
  return run_at(u, list == &u->queue ? LOCKS_QUEUE_DROP : LOCKS_HOLDER_DROP, session, err);
}

/* Of one session: its hold and place with numbers up to `n`; a hold for a job only if `guard`. */
static mortise_status drop_entries_of(batch_run *u, const char *session, uint64_t n, bool guard,
                                      mortise_error *err) {
  const mt_lock_entry *hold = entry_find(&u->holders, session),
                      *place = entry_find(&u->queue, session);
  mt_slice whose = mt_slice_of(session);
  mortise_status status = MORTISE_OK;
  if (hold && hold->n <= n && (!*hold->job || guard))
    status = drop_entry(u, &u->holders, hold, whose, err);
  if (!status && place && place->n <= n) status = drop_entry(u, &u->queue, place, whose, err);
  return status;
}

/* Those of `session` and of the item's others, in one write. */
static mortise_status remove_entries(batch_run *u, mt_lock_item *item, const char *session,
                                     uint64_t n, bool guard, mortise_error *err) {
  mortise_status status = read_document(u, err);
  if (status) return status;
  size_t had = u->holders.n + u->queue.n;
  status = drop_entries_of(u, session, n, guard, err);
  for (size_t i = 0; !status && i < item->n_others; i++)
    status = drop_entries_of(u, item->others[i], n, guard, err);
  if (status) return status;
  if (u->holders.n + u->queue.n == had) return set_lock_result(item, MT_LOCK_ABSENT);
  status = purge_queue(u, err);
  if (!status) status = touch(u, item, is_left_empty(u), err);
  return acked(item, status);
}

/* Drops the first damaged entry, whose session may be of any type. */
static mortise_status drop_damaged(batch_run *u, bool queued, bool *dropped, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, queued ? LOCKS_QUEUE : LOCKS_HOLDERS);
  mt_lock_entry e = {0};
  bool more = true;
  mortise_status status = MORTISE_OK;
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  while (!status && more && !e.damaged) {
    status = mt_db_step(u->w->db, stmt, &more, err);
    if (!status && more) mt_locks_entry(stmt, queued, &e);
  }
  *dropped = !status && e.damaged;
  sqlite3_value *session = *dropped ? sqlite3_value_dup(sqlite3_column_value(stmt, 0)) : NULL;
  sqlite3_reset(stmt);
  if (!*dropped) return status;
  if (!session) return mt_error_memory(err);
  stmt = mt_db_stmt(u->w->db, queued ? LOCKS_QUEUE_DROP : LOCKS_HOLDER_DROP);
  mt_db_bind(stmt, 1, u->ns);
  mt_db_bind(stmt, 2, mt_buf_slice(&u->name));
  sqlite3_bind_value(stmt, 3, session);
  sqlite3_value_free(session);
  status = mt_db_run(u->w->db, stmt, err);
  if (status || sqlite3_changes(u->w->db->handle) == 1) return status;
  return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s: a damaged entry cannot be removed",
                      u->w->db->file);
}

static mortise_status remove_damaged(batch_run *u, mt_lock_item *item, mortise_error *err) {
  bool any = false, dropped = true;
  mortise_status status = MORTISE_OK;
  for (int queued = 0; queued < 2; queued++, dropped = true)
    while (!status && dropped) {
      status = drop_damaged(u, queued, &dropped, err);
      any |= dropped;
    }
  if (!status && !any) return set_lock_result(item, MT_LOCK_ABSENT);
  if (!status) status = read_document(u, err);
  if (!status) status = purge_queue(u, err);
  if (!status) status = touch(u, item, is_left_empty(u), err);
  return acked(item, status);
}

static mortise_status adopt_entry(batch_run *u, mt_lock_item *item, mortise_error *err) {
  mortise_status status = read_document(u, err);
  if (status) return status;
  mt_slice from = mt_slice_of(item->session);
  const mt_lock_entry *mine = entry_find(&u->holders, u->r->session),
                      *theirs = entry_find(&u->holders, item->session);
  if (mine && mine->n > item->n) return set_lock_result(item, MT_LOCK_STALE);
  if (!theirs && !(mine && mine->n == item->n)) return set_lock_result(item, MT_LOCK_ABSENT);
  if (theirs) {
    /* The join of both modes conflicts only with what one of them conflicts with. */
    mt_mode mode = mine ? mt_mode_join(mine->mode, theirs->mode) : theirs->mode;
    mt_slice job = u->job.n ? u->job : mt_slice_of(theirs->job);
    status = put_holder(u, item, mode, u->now_ms, job, err);
    if (!status) status = run_at(u, LOCKS_HOLDER_DROP, from, err);
    if (!status) status = run_at(u, LOCKS_QUEUE_DROP, from, err);
  }
  if (!status) status = purge_queue(u, err);
  if (!status) status = touch(u, item, false, err);
  return acked(item, status);
}

/* ---- batches ---- */

static bool fits_integer(uint64_t n) {
  return n <= INT64_MAX;
}

static mortise_status run_item(batch_run *u, mt_lock_item *item, mortise_error *err) {
  bool needs_mode = item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_SET;
  if (!item->place.path.n || item->place.path.n > MT_SQLITE_TEXT_MAX ||
      item->place.stripe >= MT_STRIPES_MAX || !fits_integer(item->n) ||
      (needs_mode && (item->mode <= MT_NL || item->mode > MT_X))) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a lock item has no place, no mode or no number");
    return set_lock_result(item, MT_LOCK_FAILED);
  }
  mt_buf_clear(&u->name);
  mt_place_add_name(&u->name, item->place);
  if (mt_buf_status(&u->name, "the name of a place", err)) return err->code;
  switch (item->verb) {
  case MT_LOCK_CREATE:
    return create_lock(u, item, err);
  case MT_LOCK_SET:
    return item_set(u, item, err);
  case MT_LOCK_RELEASE:
    return remove_entries(u, item, u->r->session, item->n, true, err);
  case MT_LOCK_DELETE:
    return delete_lock(u, item, err);
  case MT_LOCK_EVICT:
    return item->session ? remove_entries(u, item, item->session, INT64_MAX, item->guard, err)
                         : remove_damaged(u, item, err);
  default:
    return adopt_entry(u, item, err);
  }
}

static void forget_result(mt_lock_item *item) {
  mt_free(item->blockers);
  item->blockers = NULL;
  item->n_blockers = 0;
  item->result = MT_LOCK_NO_ANSWER;
  item->version = (mt_version){0};
  item->ahead = 0;
  item->contended = false;
}

static mortise_status run_lock_items(batch_run *u, size_t *end, mortise_error *err) {
  mt_lock_batch *r = u->r;
  mortise_status status = mt_work_write(u->w, err);
  if (!status) status = mt_locks_seq_load(u->w->db, &u->seq_no, err);
  uint64_t before = u->seq_no;
  u->now_ms = mt_clock_wall_ms();
  size_t i = u->first;
  while (!status && i < r->n) {
    status = run_item(u, &r->items[i++], err);
    if (i % CLOCK_EVERY == 0 && mt_db_slice_over(u->w->db)) break;
  }
  if (!status && u->seq_no != before) {
    status = mt_locks_seq_store(u->w->db, u->seq_no, err);
    if (!status) status = mt_work_commit(u->w, err);
  }
  mt_db_end(u->w->db);
  for (size_t k = u->first; status && k < i; k++) forget_result(&r->items[k]);
  *end = i;
  return status;
}

static mortise_status check_batch(const mt_lock_batch *r, mortise_error *err) {
  mortise_status status = mt_locks_check(r->ns, r->session, err);
  mt_slice job = mt_slice_of(r->job);
  if (!status && (job.n > MT_JOB_MAX || mt_utf8_valid(job) != job.n))
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                          "a job's id is UTF-8 and has %d bytes at most", MT_JOB_MAX);
  for (size_t i = 0; !status && i < r->n; i++) {
    const mt_lock_item *item = &r->items[i];
    if ((item->verb == MT_LOCK_EVICT && item->session) || item->verb == MT_LOCK_ADOPT)
      status = mt_locks_check(r->ns, item->session, err);
    for (size_t k = 0; !status && k < item->n_others; k++)
      status = mt_locks_check(r->ns, item->others[k], err);
  }
  return status;
}

mortise_status mt_locks_batch(mt_work *w, mt_req *req, mortise_error *err) {
  mt_lock_batch *r = (mt_lock_batch *)(void *)req;
  batch_run u = {.w = w, .r = r, .ns = mt_slice_of(r->ns), .session = mt_slice_of(r->session)};
  u.job = mt_slice_of(r->job ? r->job : "");
  mt_buf_init(&u.name, (size_t)2 * MT_SQLITE_TEXT_MAX);
  r->proven = true;
  for (size_t i = 0; i < r->n; i++) forget_result(&r->items[i]);
  mortise_status status = check_batch(r, err);
  while (!status && u.first < r->n) status = run_lock_items(&u, &u.first, err);
  for (size_t i = 0; !status && i < r->n; i++)
    if (r->items[i].result == MT_LOCK_FAILED) status = err ? err->code : MORTISE_INVALID_ARGUMENT;
  mt_buf_deinit(&u.name);
  mt_free(u.holders.list);
  mt_free(u.queue.list);
  return status;
}
