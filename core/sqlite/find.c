/* Finds matching documents by scanning all of them, or, if the query names ids or values of keyword
 * fields, only the candidates, which are checked again. Candidates are held in memory, so where there
 * are too many for that, it scans all documents, too. */
#include "sqlite/docs.h"

#include "base/mem.h"

#include <stdlib.h>

enum { LOOK_UP_EVERY = 512, CANDIDATES_MAX = 1 << 18, CANDIDATE_BYTES_MAX = 8 << 20 };

/* A document's text is validated once, when it is read from the file; all later code relies on
 * that. */
static mortise_status parse_source(mt_db *db, mt_row *row, mt_slice text, mortise_error *err) {
  if (!mt_json_parse(text, "the document", &row->source, NULL) &&
      row->source.type == MT_JSON_OBJECT)
    return MORTISE_OK;
  return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s is damaged: document %.*s is no JSON object",
                      db->file, (int)(row->id.n < 200 ? row->id.n : 200), row->id.p);
}

/* No client writes an id of another type or could ask for one. */
static mortise_status take_id(mt_db *db, sqlite3_stmt *stmt, mt_slice *out, mortise_error *err) {
  *out = mt_db_text(stmt, 0);
  if (mt_db_is_text(stmt, 0)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_CORRUPT_TABLE, "%s is damaged: a document's id is no text",
                      db->file);
}

mortise_status mt_docs_get(mt_db *db, int64_t idx, mt_slice id, mt_row *row, bool *found,
                           mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_GET);
  sqlite3_bind_int64(stmt, 1, idx);
  mt_db_bind(stmt, 2, id);
  mortise_status status = mt_db_step(db, stmt, found, err);
  if (status || !*found) return status;
  *row = (mt_row){.id = id, .seq_no = mt_db_u(stmt, 0)};
  if (sqlite3_column_type(stmt, 1) != SQLITE_NULL) row->routing = mt_db_text(stmt, 1);
  return parse_source(db, row, mt_db_text(stmt, 2), err);
}

mortise_status mt_docs_row(mt_db *db, sqlite3_stmt *stmt, bool source, mt_row *row, mortise_error *err) {
  *row = (mt_row){.seq_no = mt_db_u(stmt, 1)};
  mortise_status status = take_id(db, stmt, &row->id, err);
  if (sqlite3_column_type(stmt, 2) != SQLITE_NULL) row->routing = mt_db_text(stmt, 2);
  return status || !source ? status : parse_source(db, row, mt_db_text(stmt, 3), err);
}

/* ---- every document ---- */

static mortise_status look_at_all(mt_work *w, const mt_index *index, mt_query *q, mt_found_fn *use,
                                  void *ctx, mortise_error *err) {
  bool sources = mt_query_needs_source(q);
  sqlite3_stmt *stmt = mt_db_stmt(w->db, sources ? DOCS_ALL : DOCS_ALL_IDS);
  sqlite3_bind_int64(stmt, 1, index->idx);
  for (size_t i = 1;; i++) {
    bool more;
    mortise_status status = mt_db_step(w->db, stmt, &more, err);
    if (!status && more && i % LOOK_UP_EVERY == 0) status = mt_work_check(w, err);
    if (status || !more) return status;
    mt_row row;
    status = mt_docs_row(w->db, stmt, sources, &row, err);
    if (!status && mt_query_matches(q, &row)) status = use(ctx, &row, err);
    if (status) return status;
  }
}

/* ---- candidates ---- */

typedef struct candidates {
  mt_work *w;
  const mt_index *index;
  mt_buf text; /* the ids, concatenated */
  struct span {
    size_t at, n;
  } * ids;
  size_t n, cap;
  bool too_many;
} candidates;

static int field_number(void *ctx, mt_slice name) {
  const candidates *c = ctx;
  for (size_t i = 0; i < c->index->n_fields; i++)
    if (mt_slice_eq(name, mt_slice_of(c->index->fields[i]))) return (int)i;
  return -1;
}

static mortise_status add_candidate(void *ctx, mt_slice id, mortise_error *err) {
  candidates *c = ctx;
  c->too_many |= c->n == CANDIDATES_MAX || c->text.n + id.n > CANDIDATE_BYTES_MAX;
  if (c->too_many) return MORTISE_OK;
  if (!mt_grow((void **)&c->ids, &c->cap, c->n + 1, sizeof *c->ids, CANDIDATES_MAX))
    return mt_error_memory(err);
  c->ids[c->n++] = (struct span){c->text.n, id.n};
  mt_buf_addslice(&c->text, id);
  return mt_buf_status(&c->text, "the list of ids", err);
}

static mortise_status add_by_value(void *ctx, int field, mt_slice text, bool prefix,
                                   mortise_error *err) {
  candidates *c = ctx;
  if (text.n > MT_ENTRY_MAX) text.n = MT_ENTRY_MAX;
  sqlite3_stmt *stmt = mt_db_stmt(c->w->db, prefix ? DOCS_ENTRY_FROM : DOCS_ENTRY_IS);
  sqlite3_bind_int64(stmt, 1, c->index->idx);
  sqlite3_bind_int(stmt, 2, field);
  mt_db_bind(stmt, 3, text);
  for (size_t i = 1;; i++) {
    bool more;
    mortise_status status = mt_db_step(c->w->db, stmt, &more, err);
    if (!status && more && i % LOOK_UP_EVERY == 0) status = mt_work_check(c->w, err);
    if (status || !more || c->too_many || (prefix && !mt_slice_starts(mt_db_text(stmt, 1), text))) {
      sqlite3_reset(stmt);
      return status;
    }
    mt_slice id;
    status = take_id(c->w->db, stmt, &id, err);
    if (!status) status = add_candidate(c, id, err);
    if (status) return status;
  }
}

static int order_ids(const void *a, const void *b, void *ctx) {
  const struct span *x = a, *y = b;
  const char *text = ((const candidates *)ctx)->text.p;
  return mt_slice_cmp((mt_slice){text + x->at, x->n}, (mt_slice){text + y->at, y->n});
}

static mortise_status check_candidates(candidates *c, mt_query *q, mt_found_fn *use, void *ctx,
                                       mortise_error *err) {
  if (c->n) qsort_r(c->ids, c->n, sizeof *c->ids, order_ids, c);
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; !status && i < c->n; i++) {
    if (i && order_ids(&c->ids[i - 1], &c->ids[i], c) == 0) continue;
    if (i % LOOK_UP_EVERY == LOOK_UP_EVERY - 1) status = mt_work_check(c->w, err);
    mt_row row;
    bool found = false;
    mt_slice id = {c->text.p + c->ids[i].at, c->ids[i].n};
    if (!status) status = mt_docs_get(c->w->db, c->index->idx, id, &row, &found, err);
    if (!status && found && mt_query_matches(q, &row)) status = use(ctx, &row, err);
  }
  return status;
}

mortise_status mt_docs_find(mt_work *w, const mt_index *index, mt_query *q, mt_found_fn *use,
                            void *ctx, mortise_error *err) {
  candidates c = {.w = w, .index = index};
  mt_narrow n = {.ctx = &c, .field = field_number, .id = add_candidate, .value = add_by_value};
  if (!mt_query_can_narrow(q, &n)) return look_at_all(w, index, q, use, ctx, err);
  mt_buf_init(&c.text, CANDIDATE_BYTES_MAX);
  mortise_status status = mt_query_narrow(q, &n, err);
  bool too_many = c.too_many;
  if (!status && !too_many) status = check_candidates(&c, q, use, ctx, err);
  mt_buf_deinit(&c.text);
  mt_free(c.ids);
  return status || !too_many ? status : look_at_all(w, index, q, use, ctx, err);
}
