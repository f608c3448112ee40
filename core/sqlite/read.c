/* Reads documents by id, counts and scans them. */
#include "sqlite/docs.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- mget ---- */

mortise_status mt_docs_mget(mt_work *w, mt_req *req, mortise_error *err) {
  mt_mget *r = (mt_mget *)(void *)req;
  mt_index index = {0};
  mt_pager pager = {0};
  r->page = NULL;
  mortise_status status = mt_work_read(w, err);
  if (!status) status = mt_index_need(w->db, r->index, &index, err);
  if (!status) status = mt_pager_init(&pager, index.name, err);
  for (size_t i = 0; !status && i < r->n; i++) {
    mt_row row;
    bool found = false;
    status = mt_docs_get(w->db, index.idx, r->ids[i], &row, &found, err);
    mt_version version = found ? mt_docs_version(row.seq_no) : (mt_version){0};
    if (!status)
      status = mt_pager_add(&pager, r->ids[i], found ? &row : NULL, version, r->no_source, err);
  }
  if (!status) r->page = mt_pager_take(&pager);
  mt_pager_deinit(&pager);
  mt_index_deinit(&index);
  return status;
}

/* ---- count ---- */

static mortise_status count_one(void *ctx, const mt_row *row, mortise_error *err) {
  (void)row;
  (void)err;
  ++*(uint64_t *)ctx;
  return MORTISE_OK;
}

mortise_status mt_docs_count(mt_work *w, mt_req *req, mortise_error *err) {
  mt_count *r = (mt_count *)(void *)req;
  mt_index index = {0};
  mt_query *q = NULL;
  uint64_t count = 0;
  mortise_status status = mt_query_new(r->query, &q, err);
  if (!status) status = mt_work_read(w, err);
  if (!status) status = mt_index_need(w->db, r->index, &index, err);
  if (!status) status = mt_docs_find(w, &index, q, count_one, &count, err);
  r->count = status ? 0 : count;
  mt_index_deinit(&index);
  mt_query_free(q);
  return status;
}

/* ---- scan ----
 * A long read would keep the log from being moved into the file, so a scan remembers which
 * documents matched at its opening, each with its seq_no, and reads them page by page. */

enum { PAGE_BYTES = 1 << 20, LIST_HELD = 256 << 10, LIST_LEAST = 16 << 10, ENTRY_HEAD = 12 };

struct mt_scan {
  char name[MT_INDEX_NAME_MAX + 1];
  int64_t idx;
  mt_query *query;
  mt_buf list; /* for each hit: seq_no (8 bytes), length of the id (4 bytes), the id */
  size_t at;   /* in the list, of the next hit */
  FILE *
      file; /* a longer list stands here, and the next part of it in `list`; NULL: all of it does */
  uint64_t total;
  uint32_t page;
  bool no_source;
};

void mt_docs_scan_free(mt_scan *scan) {
  if (!scan) return;
  mt_query_free(scan->query);
  mt_buf_deinit(&scan->list);
  if (scan->file) fclose(scan->file);
  mt_free(scan);
}

static mortise_status spill_list(mt_scan *scan, mortise_error *err) {
  if (!scan->file) scan->file = tmpfile();
  if (!scan->file || fwrite(scan->list.p, 1, scan->list.n, scan->file) != scan->list.n)
    return mt_error_set(err, MORTISE_UNAVAILABLE,
                        "scan %s: the list of ids cannot be kept in a temporary file: %s",
                        scan->name, strerror(errno));
  mt_buf_clear(&scan->list);
  return MORTISE_OK;
}

/* Reads the next part of the list if little is left of the last one. */
static mortise_status refill_list(mt_scan *scan, mortise_error *err) {
  size_t left = scan->list.n - scan->at;
  if (!scan->file || left >= LIST_LEAST) return MORTISE_OK;
  if (!mt_buf_room(&scan->list, LIST_HELD))
    return mt_buf_status(&scan->list, "the scan's list of ids", err);
  memmove(scan->list.p, scan->list.p + scan->at, left);
  scan->at = 0;
  scan->list.n = left + fread(scan->list.p + left, 1, LIST_HELD - left, scan->file);
  if (!ferror(scan->file)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE, "scan %s: the list of ids cannot be read: %s",
                      scan->name, strerror(errno));
}

static mortise_status end_list(mt_scan *scan, mortise_error *err) {
  if (!scan->file) return MORTISE_OK;
  mortise_status status = spill_list(scan, err);
  if (!status) rewind(scan->file);
  return status;
}

static mortise_status add_to_list(void *ctx, const mt_row *row, mortise_error *err) {
  mt_scan *scan = ctx;
  uint32_t n = (uint32_t)row->id.n;
  mt_buf_add(&scan->list, &row->seq_no, sizeof row->seq_no);
  mt_buf_add(&scan->list, &n, sizeof n);
  mt_buf_addslice(&scan->list, row->id);
  scan->total++;
  mortise_status status = mt_buf_status(&scan->list, "the scan's list of ids", err);
  return !status && scan->list.n > LIST_HELD ? spill_list(scan, err) : status;
}

static mortise_status fill_scan(mt_work *w, mt_scan_open *r, mt_scan *scan, mortise_error *err) {
  mt_index index = {0};
  mt_buf_init(&scan->list, LIST_HELD * 3);
  mortise_status status = mt_query_new(r->query, &scan->query, err);
  if (!status) status = mt_work_read(w, err);
  if (!status) status = mt_index_need(w->db, r->index, &index, err);
  memcpy(scan->name, index.name, sizeof scan->name);
  if (!status) status = mt_docs_find(w, &index, scan->query, add_to_list, scan, err);
  if (!status) status = end_list(scan, err);
  scan->idx = index.idx;
  mt_index_deinit(&index);
  return status;
}

mortise_status mt_docs_scan_open(mt_work *w, mt_req *req, mortise_error *err) {
  mt_scan_open *r = (mt_scan_open *)(void *)req;
  r->scan = NULL;
  r->total = 0;
  mt_scan *scan = mt_calloc(1, sizeof *scan);
  if (!scan) return mt_error_memory(err);
  scan->page = r->page ? r->page : MT_SCAN_PAGE;
  scan->no_source = r->no_source;
  mortise_status status = fill_scan(w, r, scan, err);
  if (status) {
    mt_docs_scan_free(scan);
    return status;
  }
  r->scan = scan;
  r->total = scan->total;
  return MORTISE_OK;
}

/* Is the next hit whole in the part of the list that is held? */
static bool has_next_id(const mt_scan *scan, size_t at) {
  uint32_t n;
  if (scan->list.n - at < ENTRY_HEAD) return false;
  memcpy(&n, scan->list.p + at + sizeof(uint64_t), sizeof n);
  return scan->list.n - at - ENTRY_HEAD >= n;
}

static mt_slice next_id(const mt_scan *scan, size_t *at, uint64_t *seq_no) {
  uint32_t n;
  memcpy(seq_no, scan->list.p + *at, sizeof *seq_no);
  memcpy(&n, scan->list.p + *at + sizeof *seq_no, sizeof n);
  mt_slice id = {scan->list.p + *at + sizeof *seq_no + sizeof n, n};
  *at += sizeof *seq_no + sizeof n + n;
  return id;
}

/* A document that changed since the opening is returned in its newest form if it still matches;
 * otherwise, or if it was deleted, it is not found and has its version at the opening. */
static mortise_status add_to_page(mt_work *w, mt_scan *scan, mt_pager *pager, mt_slice id,
                                  uint64_t seq_no, mortise_error *err) {
  mt_row row;
  bool found;
  mortise_status status = mt_docs_get(w->db, scan->idx, id, &row, &found, err);
  if (status) return status;
  if (found && row.seq_no != seq_no) found = mt_query_matches(scan->query, &row);
  mt_version version = mt_docs_version(found ? row.seq_no : seq_no);
  return mt_pager_add(pager, id, found ? &row : NULL, version, scan->no_source, err);
}

static mortise_status same_index(mt_work *w, const mt_scan *scan, mortise_error *err) {
  mt_index index;
  mortise_status status = mt_index_need(w->db, scan->name, &index, err);
  if (!status && index.idx != scan->idx)
    status =
        mt_error_set(err, MORTISE_NOT_FOUND, "index `%s` was dropped during the scan", scan->name);
  mt_index_deinit(&index);
  return status;
}

mortise_status mt_docs_scan_next(mt_work *w, mt_req *req, mortise_error *err) {
  mt_scan_next *r = (mt_scan_next *)(void *)req;
  mt_scan *scan = r->scan;
  mt_pager pager = {0};
  r->page = NULL;
  mortise_status status = refill_list(scan, err);
  if (status || scan->at >= scan->list.n) return status;
  status = mt_work_read(w, err);
  if (!status) status = same_index(w, scan, err);
  if (!status) status = mt_pager_init(&pager, scan->name, err);
  size_t at = scan->at;
  for (uint32_t i = 0; !status && i < scan->page && has_next_id(scan, at); i++) {
    if (pager.page->bytes.n > PAGE_BYTES) break;
    uint64_t seq_no;
    mt_slice id = next_id(scan, &at, &seq_no);
    status = add_to_page(w, scan, &pager, id, seq_no, err);
  }
  if (!status) {
    scan->at = at;
    r->page = mt_pager_take(&pager);
  }
  mt_pager_deinit(&pager);
  return status;
}
