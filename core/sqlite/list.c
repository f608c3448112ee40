/* Lists locks and sessions for people, page by page, and reads locks by place. */
#include "base/mem.h"
#include "sqlite/locks.h"

#include <stdio.h>

/* The next page begins after this key. */
struct mt_listing {
  mt_buf ns, key;
};

static void open_object(mt_buf *out) {
  if (out->n && out->p[out->n - 1] == '}') mt_buf_addc(out, ',');
  mt_buf_addc(out, '{');
}

static mortise_status add_entries(mt_db *db, mt_slice ns, mt_slice name, bool queued, mt_buf *out,
                                  mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, queued ? LOCKS_QUEUE : LOCKS_HOLDERS);
  mt_db_bind(stmt, 1, ns);
  mt_db_bind(stmt, 2, name);
  mt_json_add_key(out, queued ? "queue" : "holders");
  mt_buf_addc(out, '[');
  for (;;) {
    bool more;
    mt_lock_entry entry;
    mortise_status status = mt_db_step(db, stmt, &more, err);
    if (status) return status;
    if (!more) break;
    mt_locks_entry(stmt, queued, &entry);
    mt_entry_add(out, &entry);
  }
  mt_buf_addc(out, ']');
  return MORTISE_OK;
}

static mortise_status append_lock(mt_db *db, mt_slice ns, mt_slice name, mt_buf *out,
                                  mortise_error *err) {
  open_object(out);
  mt_json_add_text(out, "ns", ns);
  mt_place_add_json(out, mt_place_of_name(name));
  mortise_status status = add_entries(db, ns, name, false, out, err);
  if (!status) status = add_entries(db, ns, name, true, out, err);
  mt_buf_addc(out, '}');
  return status;
}

/* A row with an invalid session id is skipped: nobody uses it and it blocks nobody. */
static mortise_status append_session(sqlite3_stmt *stmt, mt_buf *out, mortise_error *err) {
  mt_session_doc doc = {0};
  mt_session_parts parts;
  mt_slice id = mt_db_text(stmt, 1);
  snprintf(doc.session, sizeof doc.session, "%.*s", (int)id.n, id.p);
  if (id.n != MT_SESSION_ID - 1 || !mt_session_valid(doc.session)) return MORTISE_OK;
  mt_locks_session_parts(stmt, 2, &parts);
  bool read = mt_session_read_parts(&parts, &doc);
  if (read) mt_session_add(out, mt_db_text(stmt, 0), &doc);
  mt_session_doc_deinit(&doc);
  return read ? MORTISE_OK : mt_error_memory(err);
}

/* ---- pages ---- */

static void remember_last_row(mt_listing *l, sqlite3_stmt *stmt) {
  mt_buf_clear(&l->ns);
  mt_buf_addslice(&l->ns, mt_db_text(stmt, 0));
  mt_buf_clear(&l->key);
  mt_buf_addslice(&l->key, mt_db_text(stmt, 1));
}

static sqlite3_stmt *prepare_list(mt_db *db, const mt_lock_list *r, uint64_t page) {
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

/* Reads one page into `out`; *full: there may be more. */
static mortise_status append_page(mt_db *db, const mt_lock_list *r, mt_buf *out, bool *full,
                                  mortise_error *err) {
  uint64_t page = r->page ? r->page : MT_LIST_PAGE, n = 0;
  sqlite3_stmt *stmt = prepare_list(db, r, page);
  for (;; n++) {
    bool more;
    mortise_status status = mt_db_step(db, stmt, &more, err);
    if (status) return status;
    if (!more) break;
    if (r->kind == MT_LIST_SESSIONS)
      status = append_session(stmt, out, err);
    else
      status = append_lock(db, mt_db_text(stmt, 0), mt_db_text(stmt, 1), out, err);
    if (status) return status;
    if (n + 1 == page) remember_last_row(r->listing, stmt);
  }
  *full = n == page;
  return mt_buf_status(&r->listing->key, "the list's place", err);
}

static mortise_status open_list(mt_lock_list *r, mortise_error *err) {
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

static mortise_status close_array(mt_buf *out, char **json, mortise_error *err) {
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
  mortise_status status = r->end ? MORTISE_OK : open_list(r, err);
  if (!status && !r->end) {
    mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
    mt_buf_addc(&out, '[');
    status = mt_work_read(w, err);
    if (!status) status = append_page(w->db, r, &out, &full, err);
    if (!status) status = close_array(&out, &r->json, err);
    mt_buf_deinit(&out);
  }
  if (!full || status) {
    mt_locks_listing_free(r->listing);
    r->listing = NULL;
  }
  return status;
}

/* ---- by place ---- */

static mortise_status is_there(mt_db *db, mt_slice ns, mt_slice name, bool *found,
                               mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, LOCKS_DOC_ANY);
  mt_db_bind(stmt, 1, ns);
  mt_db_bind(stmt, 2, name);
  bool row;
  mortise_status status = mt_db_step(db, stmt, &row, err);
  *found = !status && row && sqlite3_column_int(stmt, 0);
  return status;
}

mortise_status mt_locks_read(mt_work *w, mt_req *req, mortise_error *err) {
  mt_lock_read *r = (mt_lock_read *)(void *)req;
  mt_slice ns = mt_slice_of(r->ns);
  mt_buf out, name;
  r->json = NULL;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  mt_buf_init(&name, (size_t)2 * MT_SQLITE_TEXT_MAX);
  mt_buf_addc(&out, '[');
  mortise_status status = mt_work_read(w, err);
  for (size_t i = 0; !status && i < r->n; i++) {
    bool found = false;
    mt_buf_clear(&name);
    mt_place_add_name(&name, r->places[i]);
    status = mt_buf_status(&name, "the name of a place", err);
    if (!status) status = is_there(w->db, ns, mt_buf_slice(&name), &found, err);
    if (!status && found) status = append_lock(w->db, ns, mt_buf_slice(&name), &out, err);
  }
  if (!status) status = close_array(&out, &r->json, err);
  mt_buf_deinit(&name);
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
