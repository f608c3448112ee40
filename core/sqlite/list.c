/* Listing locks and sessions for people, page after page, and reading locks by path. */
#include "base/mem.h"
#include "sqlite/locks.h"

/* Where the next page begins: behind this key. */
struct mt_listing {
  mt_buf ns, key;
};

static void add_text(mt_buf *out, const char *key, mt_slice text) {
  mt_json_add_key(out, key);
  mt_json_add_string(out, text);
}

static void add_number(mt_buf *out, const char *key, sqlite3_stmt *stmt, int column) {
  mt_json_add_key(out, key);
  mt_buf_addi(out, sqlite3_column_int64(stmt, column));
}

static void open_item(mt_buf *out) {
  if (out->n && out->p[out->n - 1] == '}') mt_buf_addc(out, ',');
  mt_buf_addc(out, '{');
}

static mortise_status add_entries(mt_db *db, mt_slice ns, mt_slice path, bool queued, mt_buf *out,
                                  mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, queued ? LOCKS_QUEUE : LOCKS_HOLDERS);
  mt_db_bind(stmt, 1, ns);
  mt_db_bind(stmt, 2, path);
  mt_json_add_key(out, queued ? "queue" : "holders");
  mt_buf_addc(out, '[');
  for (;;) {
    bool more;
    mortise_status status = mt_db_step(db, stmt, &more, err);
    if (status) return status;
    if (!more) break;
    open_item(out);
    add_text(out, "session", mt_db_text(stmt, 0));
    add_number(out, "n", stmt, 1);
    add_text(out, "mode", mt_slice_of(mt_mode_name((mt_mode)sqlite3_column_int(stmt, 2))));
    add_number(out, queued ? "until" : "since", stmt, 3);
    mt_slice job = mt_db_text(stmt, 4);
    if (job.n) add_text(out, "job", job);
    mt_buf_addc(out, '}');
  }
  mt_buf_addc(out, ']');
  return MORTISE_OK;
}

static mortise_status add_lock(mt_db *db, mt_slice ns, mt_slice path, mt_buf *out,
                               mortise_error *err) {
  open_item(out);
  add_text(out, "ns", ns);
  add_text(out, "path", path);
  mortise_status status = add_entries(db, ns, path, false, out, err);
  if (!status) status = add_entries(db, ns, path, true, out, err);
  mt_buf_addc(out, '}');
  return status;
}

static const char *state_name(int state) {
  if (state == MT_SESSION_LIVE) return "live";
  if (state == MT_SESSION_BROKEN) return "broken";
  return state == MT_SESSION_CLOSED ? "closed" : "expired";
}

static void add_session(sqlite3_stmt *stmt, mt_buf *out) {
  open_item(out);
  add_text(out, "ns", mt_db_text(stmt, 0));
  add_text(out, "session", mt_db_text(stmt, 1));
  add_text(out, "state", mt_slice_of(state_name(sqlite3_column_int(stmt, 2))));
  add_number(out, "lease_ms", stmt, 3);
  add_number(out, "opened", stmt, 4);
  add_number(out, "beat_at", stmt, 5);
  mt_json_add_key(out, "owner"); /* both were checked when they were written */
  mt_buf_addslice(out, mt_db_text(stmt, 6));
  mt_json_add_key(out, "waiting");
  mt_buf_addslice(out, mt_db_text(stmt, 7));
  mt_buf_addc(out, '}');
}

/* ---- pages ---- */

static void remember(mt_listing *l, sqlite3_stmt *stmt) {
  mt_buf_clear(&l->ns);
  mt_buf_addslice(&l->ns, mt_db_text(stmt, 0));
  mt_buf_clear(&l->key);
  mt_buf_addslice(&l->key, mt_db_text(stmt, 1));
}

static sqlite3_stmt *prepare(mt_db *db, const mt_lock_list *r, uint64_t page) {
  bool locks = r->kind == MT_LIST_LOCKS;
  sqlite3_stmt *stmt = mt_db_stmt(db, locks ? LOCKS_LIST : LOCKS_LIST_SESSIONS);
  mt_db_bind(stmt, 1, r->listing->ns.n ? mt_buf_slice(&r->listing->ns) : MT_SLICE(""));
  mt_db_bind(stmt, 2, r->listing->key.n ? mt_buf_slice(&r->listing->key) : MT_SLICE(""));
  if (r->ns) mt_db_bind(stmt, 3, mt_slice_of(r->ns));
  if (locks && r->path.n > 1) mt_db_bind(stmt, 4, r->path);
  if (!locks) mt_db_bind_u(stmt, 4, r->over);
  if (r->session) mt_db_bind(stmt, 5, mt_slice_of(r->session));
  mt_db_bind_u(stmt, 6, page);
  return stmt;
}

/* `out` gets the page; *full: there may be more. */
static mortise_status read_page(mt_db *db, const mt_lock_list *r, mt_buf *out, bool *full,
                                mortise_error *err) {
  uint64_t page = r->page ? r->page : MT_LIST_PAGE, n = 0;
  sqlite3_stmt *stmt = prepare(db, r, page);
  for (;; n++) {
    bool more;
    mortise_status status = mt_db_step(db, stmt, &more, err);
    if (status) return status;
    if (!more) break;
    if (r->kind == MT_LIST_SESSIONS)
      add_session(stmt, out);
    else
      status = add_lock(db, mt_db_text(stmt, 0), mt_db_text(stmt, 1), out, err);
    if (status) return status;
    if (n + 1 == page) remember(r->listing, stmt);
  }
  *full = n == page;
  return mt_buf_status(&r->listing->key, "the list's place", err);
}

static mortise_status open_listing(mt_lock_list *r, mortise_error *err) {
  if (r->listing) return MORTISE_OK;
  if (r->page > MT_LIST_PAGE_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a list's page of %u; at most %d", r->page,
                        MT_LIST_PAGE_MAX);
  r->listing = mt_calloc(1, sizeof *r->listing);
  if (!r->listing) return mt_error_memory(err);
  mt_buf_init(&r->listing->ns, MT_SQLITE_TEXT_MAX);
  mt_buf_init(&r->listing->key, MT_SQLITE_TEXT_MAX);
  return MORTISE_OK;
}

void mt_locks_listing_free(mt_listing *listing) {
  if (!listing) return;
  mt_buf_deinit(&listing->ns);
  mt_buf_deinit(&listing->key);
  mt_free(listing);
}

static mortise_status take_json(mt_buf *out, char **json, mortise_error *err) {
  mt_buf_addc(out, ']');
  mortise_status status = mt_buf_status(out, "the list", err);
  if (!status) *json = mt_buf_take(out, NULL);
  return status;
}

mortise_status mt_locks_list(mt_work *w, mt_req *req, mortise_error *err) {
  mt_lock_list *r = (mt_lock_list *)(void *)req;
  bool full = false;
  mt_buf out;
  r->json = NULL;
  r->stale = false;
  mortise_status status = r->end ? MORTISE_OK : open_listing(r, err);
  if (!status && !r->end) {
    mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
    mt_buf_addc(&out, '[');
    status = mt_work_read(w, err);
    if (!status) status = read_page(w->db, r, &out, &full, err);
    if (!status) status = take_json(&out, &r->json, err);
    mt_buf_deinit(&out);
  }
  if (!full || status) {
    mt_locks_listing_free(r->listing);
    r->listing = NULL;
  }
  return status;
}

/* ---- by path ---- */

static mortise_status is_there(mt_db *db, mt_slice ns, mt_slice path, bool *found,
                               mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_DOC_GET);
  mt_db_bind(stmt, 1, ns);
  mt_db_bind(stmt, 2, path);
  return mt_db_step(db, stmt, found, err);
}

mortise_status mt_locks_read(mt_work *w, mt_req *req, mortise_error *err) {
  mt_lock_read *r = (mt_lock_read *)(void *)req;
  mt_slice ns = mt_slice_of(r->ns);
  mt_buf out;
  r->json = NULL;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  mt_buf_addc(&out, '[');
  mortise_status status = mt_work_read(w, err);
  for (size_t i = 0; !status && i < r->n; i++) {
    bool found;
    status = is_there(w->db, ns, r->paths[i], &found, err);
    if (!status && found) status = add_lock(w->db, ns, r->paths[i], &out, err);
  }
  if (!status) status = take_json(&out, &r->json, err);
  mt_buf_deinit(&out);
  return status;
}

/* ---- where nothing was ever locked ---- */

static mortise_status empty(mt_work *w, mt_req *req, char **json, mortise_error *err) {
  *json = NULL;
  if (mt_file_is_missing(w->documents)) return mt_work_missing(w, req, err);
  *json = mt_strdup("[]");
  return *json ? MORTISE_OK : mt_error_memory(err);
}

mortise_status mt_locks_list_missing(mt_work *w, mt_req *req, mortise_error *err) {
  mt_lock_list *r = (mt_lock_list *)(void *)req;
  mt_locks_listing_free(r->listing);
  r->listing = NULL;
  r->stale = false;
  return empty(w, req, &r->json, err);
}

mortise_status mt_locks_read_missing(mt_work *w, mt_req *req, mortise_error *err) {
  return empty(w, req, &((mt_lock_read *)(void *)req)->json, err);
}
