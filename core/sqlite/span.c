/* Reading an index by sequence numbers: it is one shard, all of whose copies are one.
 *
 * Documents are stored by id. So the first reading makes an SQL index by number of this index's documents alone, in one
 * transaction, for which other writers wait; from then on each write to them costs an entry more, until range_end. An
 * older program maintains it, too, and needs to know nothing of it. */
#include "sqlite/docs.h"

#include "base/mem.h"

#include <stdio.h>

enum { LOOK_UP_EVERY = 4096, SPAN_SQL_MAX = 256 };

/* Its WHERE must be a constant, so these statements cannot be prepared in advance. */
#define NUMBERS "numbers_%lld"

static mortise_status prepare_span(mt_db *db, const char *form, int64_t idx, sqlite3_stmt **out, mortise_error *err) {
  char text[SPAN_SQL_MAX];
  long long n = idx;
  snprintf(text, sizeof text, form, n, n);
  int code = sqlite3_prepare_v2(db->handle, text, -1, out, NULL);
  return code ? mt_db_fail(db, code, err) : MORTISE_OK;
}

/* ---- The SQL index -------------------------------------------------------------------------- */

static mortise_status run_span(mt_db *db, const char *form, int64_t idx, bool *row, mortise_error *err) {
  sqlite3_stmt *stmt = NULL;
  mortise_status status = prepare_span(db, form, idx, &stmt, err);
  if (!status) status = mt_db_step(db, stmt, row, err);
  sqlite3_finalize(stmt);
  return status;
}

/* In transactions of its own: those who asked only read. */
static mortise_status make_numbers(mt_work *w, int64_t idx, mortise_error *err) {
  bool row;
  mortise_status status = mt_db_write(w->db, &w->patience, err);
  if (!status)
    status = run_span(w->db, "CREATE INDEX IF NOT EXISTS " NUMBERS " ON docs(seq_no) WHERE idx = %lld", idx, &row, err);
  if (!status) status = mt_db_commit(w->db, err);
  mt_db_end(w->db);
  return status;
}

/* Is there an index of that name, and are its documents found by number? */
static mortise_status look_up_span(mt_work *w, const char *name, mt_index *index, bool *made, mortise_error *err) {
  mortise_status status = mt_work_read(w, err);
  if (!status) status = mt_index_need(w->db, name, index, err);
  if (!status)
    status = run_span(w->db, "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = '" NUMBERS "'", index->idx,
                      made, err);
  return status;
}

/* Begins to read. The index may have been made anew since its SQL index was. */
static mortise_status begin_span(mt_work *w, const char *name, mt_index *index, mortise_error *err) {
  bool made = false;
  mortise_status status = look_up_span(w, name, index, &made, err);
  while (!status && !made) {
    int64_t idx = index->idx;
    mt_index_deinit(index);
    mt_db_end(w->db);
    status = make_numbers(w, idx, err);
    if (!status) status = look_up_span(w, name, index, &made, err);
  }
  return status;
}

mortise_status mt_docs_range_end(mt_work *w, mt_req *req, mortise_error *err) {
  mt_index_admin *r = (mt_index_admin *)(void *)req;
  mt_index index = {0};
  mortise_status status = mt_work_write(w, err);
  if (!status) status = mt_index_need(w->db, r->index, &index, err);
  if (!status) status = mt_span_drop(w->db, index.idx, err);
  mt_index_deinit(&index);
  return status ? status : mt_work_commit(w, err);
}

mortise_status mt_span_drop(mt_db *db, int64_t idx, mortise_error *err) {
  bool row;
  return run_span(db, "DROP INDEX IF EXISTS " NUMBERS, idx, &row, err);
}

/* ---- The shard ------------------------------------------------------------------------------ */

mortise_status mt_docs_shards(mt_work *w, mt_req *req, mortise_error *err) {
  mt_shards *r = (mt_shards *)(void *)req;
  mt_index index = {0};
  sqlite3_stmt *stmt = NULL;
  bool row;
  r->primary = false;
  r->settings = 0;
  r->uuid[0] = '\0';
  r->shards = NULL;
  r->n = 0;
  mortise_status status = mt_work_read(w, err);
  if (!status) status = mt_index_need(w->db, r->index, &index, err);
  if (!status && strcmp(index.name, r->index) != 0)
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "shards of %s: it is an alias: name the index itself", r->index);
  if (!status) status = prepare_span(w->db, "SELECT count(*) FROM docs WHERE idx = %lld", index.idx, &stmt, err);
  if (!status) status = mt_db_step(w->db, stmt, &row, err);
  if (!status) r->shards = mt_calloc(1, sizeof *r->shards);
  if (!status && !r->shards) status = mt_error_memory(err);
  if (!status) {
    int64_t last = (int64_t)index.next_seq_no - 1;
    r->shards[r->n++] = (mt_shard){1, last, last, last, mt_db_u(stmt, 0)};
    snprintf(r->uuid, sizeof r->uuid, "%lld", (long long)index.idx); /* no other index ever has it */
  }
  sqlite3_finalize(stmt);
  mt_index_deinit(&index);
  return status;
}

/* ---- Numbers -------------------------------------------------------------------------------- */

typedef struct span_run {
  mt_index index;
  sqlite3_stmt *stmt;
  size_t rows;
} span_run;

static mortise_status check_span_bounds(const mt_span *span, uint64_t units, uint64_t most, mortise_error *err) {
  if (span->from > span->to || span->to > MT_SEQ_NO_MAX + 1 || units > most)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "numbers %llu to %llu of %s are too many at once",
                        (unsigned long long)span->from, (unsigned long long)span->to, span->index);
  if (!span->shard) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE, "numbers of %s: there is no shard %u", span->index, span->shard);
}

static mortise_status begin_run(span_run *u, mt_work *w, const mt_span *span, const char *form, mortise_error *err) {
  *u = (span_run){.stmt = NULL};
  mortise_status status = begin_span(w, span->index, &u->index, err);
  if (!status) status = prepare_span(w->db, form, u->index.idx, &u->stmt, err);
  if (status) return status;
  mt_db_bind_u(u->stmt, 1, span->from);
  mt_db_bind_u(u->stmt, 2, span->to);
  return MORTISE_OK;
}

static mortise_status next_row(span_run *u, mt_work *w, bool *row, mortise_error *err) {
  mortise_status status = ++u->rows % LOOK_UP_EVERY ? MORTISE_OK : mt_work_check(w, err);
  return status ? status : mt_db_step(w->db, u->stmt, row, err);
}

static void end_run(span_run *u) {
  sqlite3_finalize(u->stmt);
  mt_index_deinit(&u->index);
}

mortise_status mt_docs_intervals(mt_work *w, mt_req *req, mortise_error *err) {
  mt_intervals *r = (mt_intervals *)(void *)req;
  span_run u = {0};
  bool row = true;
  if (!r->width) r->width = MT_SPAN_ROW;
  uint64_t first = r->span.from / r->width;
  uint64_t rows = r->span.to > r->span.from ? (r->span.to - 1) / r->width - first + 1 : 0;
  r->counts = r->sums = NULL;
  r->total = r->n = 0;
  mortise_status status = mt_span_width_check(r, err);
  if (!status) status = check_span_bounds(&r->span, rows, MT_SPAN_ROWS_MAX, err);
  if (!status) status = mt_intervals_alloc(r, rows, err);
  if (status) return status;
  status = begin_run(&u, w, &r->span,
                     "SELECT seq_no FROM docs INDEXED BY " NUMBERS
                     " WHERE idx = %lld AND seq_no >= ?1 AND seq_no < ?2",
                     err);
  while (!status && row) {
    status = next_row(&u, w, &row, err);
    if (status || !row) break;
    uint64_t number = mt_db_u(u.stmt, 0), at = number / r->width - first;
    r->counts[at]++;
    r->sums[at] += mt_span_hash(number);
    r->total++;
  }
  end_run(&u);
  return status;
}

static mortise_status add_found(mt_db *db, const mt_range *r, int64_t idx, mt_pager *pager, const mt_row *row,
                                mt_slice id, mortise_error *err) {
  mortise_status status = mt_pager_add(pager, id, row, mt_docs_version(row->seq_no), r->no_source, err);
  if (status || !r->revisions) return status;
  return mt_docs_seal(db, idx, id, &pager->page->docs[pager->page->n - 1].revision, err);
}

static mortise_status read_ids(mt_work *w, mt_range *r, mortise_error *err) {
  mt_index index = {0};
  mt_pager pager = {0};
  mortise_status status = mt_work_read(w, err);
  if (!status) status = mt_index_need(w->db, r->span.index, &index, err);
  if (!status) status = mt_pager_init(&pager, index.name, err);
  for (size_t i = 0; !status && i < r->n_ids; i++) {
    mt_row row;
    bool found = false;
    status = mt_docs_get(w->db, index.idx, r->ids[i], &row, &found, err);
    if (!status && found) status = add_found(w->db, r, index.idx, &pager, &row, r->ids[i], err);
  }
  if (!status) r->page = mt_pager_take(&pager);
  mt_pager_deinit(&pager);
  mt_index_deinit(&index);
  return status;
}

mortise_status mt_docs_range(mt_work *w, mt_req *req, mortise_error *err) {
  mt_range *r = (mt_range *)(void *)req;
  span_run u = {0};
  mt_pager pager = {0};
  bool more = true;
  r->page = NULL;
  mortise_status status = mt_range_ids_check(r, err);
  if (!status) status = check_span_bounds(&r->span, r->span.to - r->span.from, MT_SPAN_DOCS_MAX, err);
  if (status) return status;
  if (r->ids) return read_ids(w, r, err);
  status = begin_run(&u, w, &r->span,
                     "SELECT id, seq_no, routing, source FROM docs INDEXED BY " NUMBERS
                     " WHERE idx = %lld AND seq_no >= ?1 AND seq_no < ?2 ORDER BY seq_no",
                     err);
  if (!status) status = mt_pager_init(&pager, u.index.name, err);
  while (!status && more) {
    mt_row doc;
    status = next_row(&u, w, &more, err);
    if (status || !more) break;
    status = mt_docs_row(w->db, u.stmt, !r->no_source, &doc, err);
    if (!status) status = add_found(w->db, r, u.index.idx, &pager, &doc, doc.id, err);
  }
  if (!status) r->page = mt_pager_take(&pager);
  mt_pager_deinit(&pager);
  end_run(&u);
  return status;
}
