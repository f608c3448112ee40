/* Changes every document that matches, on the worker: a scan, the transforms, and writes with
 * compare-and-set, page by page. */
#include "sqlite/docs.h"

#include "base/clock.h"
#include "base/mem.h"
#include "transform/transform.h"

#include <stdio.h>

typedef struct change_run {
  mt_work *w;
  mt_update_by_query *r;
  mt_scan *scan;
  mt_buf bodies;
  mt_write *items;
  size_t cap, n;
} change_run;

static void end_incomplete(mt_server_task_state *state, const char *type, const char *reason) {
  snprintf(state->type, sizeof state->type, "%s", type);
  snprintf(state->reason, sizeof state->reason, "%s", reason);
}

/* Appends a changed document to `bodies`, which may still move. */
static mortise_status change_one(change_run *u, const mt_doc *doc, mortise_error *err) {
  size_t before = u->bodies.n;
  mt_transformed how = MT_UNCHANGED;
  if (doc->found) how = mt_transforms_apply(u->r->transforms, doc->source, &u->bodies, NULL);
  mortise_status status = mt_buf_status(&u->bodies, "a page of changed documents", err);
  if (status) return status;
  if (how == MT_CHANGED)
    u->items[u->n++] = (mt_write){.kind = MT_WRITE_INDEX,
                                  .index = doc->index,
                                  .id = doc->id,
                                  .routing = doc->routing,
                                  .body = {NULL, u->bodies.n - before},
                                  .if_version = doc->version};
  else
    u->r->state.noops++;
  return MORTISE_OK;
}

static mortise_status change_page(change_run *u, const mt_page *page, mortise_error *err) {
  u->n = 0;
  mt_buf_clear(&u->bodies);
  if (!mt_grow((void **)&u->items, &u->cap, page->n, sizeof *u->items, SIZE_MAX / sizeof *u->items))
    return mt_error_memory(err);
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; !status && i < page->n; i++) status = change_one(u, &page->docs[i], err);
  const char *p = u->bodies.p;
  for (size_t i = 0; i < u->n; p += u->items[i++].body.n) u->items[i].body.p = p;
  return status;
}

/* False if a document was refused, or the index is blocked: a server ends there too. */
static bool count_writes(change_run *u) {
  mt_server_task_state *state = &u->r->state;
  bool refused = false;
  for (size_t i = 0; i < u->n; i++) {
    const mt_write *item = &u->items[i];
    state->updated += item->result == MT_WRITE_APPLIED;
    state->conflicts += item->result == MT_WRITE_CONFLICT;
    if (item->result != MT_WRITE_REJECTED && item->result != MT_WRITE_BUSY) continue;
    if (!refused) end_incomplete(state, item->type, item->reason);
    refused = true;
  }
  return !refused;
}

/* One page; `*more` says whether there may be another. */
static mortise_status run_page(change_run *u, bool *more, mortise_error *err) {
  mt_scan_next next = {.scan = u->scan};
  mortise_status status = mt_docs_scan_next(u->w, &next.req, err);
  mt_db_end(u->w->db);
  *more = !status && next.page;
  if (!*more) return status;
  status = change_page(u, next.page, err);
  mt_bulk bulk = {.index = u->r->index, .items = u->items, .n = u->n};
  if (!status && u->n) {
    status = mt_docs_bulk(u->w, &bulk.req, err);
    *more = count_writes(u);
  }
  mt_page_free(next.page);
  return status;
}

static mortise_status run_pages(change_run *u, mortise_error *err) {
  mt_update_by_query *r = u->r;
  bool more = true;
  int64_t end_ms = mt_clock_boot_ms() + r->most_ms;
  while (more) {
    if (r->most_ms && mt_clock_boot_ms() >= end_ms) {
      end_incomplete(&r->state, "time", "as long as it may take in one request");
      return MORTISE_OK;
    }
    if (r->not_after_ms && mt_clock_wall_ms() >= r->not_after_ms) {
      end_incomplete(&r->state, "illegal_state_exception", "not after the time that was set");
      return MORTISE_OK;
    }
    mortise_status status = run_page(u, &more, err);
    if (status && r->state.updated) err->ambiguous = true; /* earlier pages are committed */
    if (status) return status;
  }
  r->state.complete = !r->state.type[0];
  return MORTISE_OK;
}

/* A server reports a missing index as the end of its task. */
static mortise_status end_without_index(mt_server_task_state *state, const mortise_error *err) {
  if (strcmp(err->type, "index_not_found_exception") != 0) return err->code;
  end_incomplete(state, err->type, err->message);
  return MORTISE_OK;
}

mortise_status mt_docs_update_by_query(mt_work *w, mt_req *req, mortise_error *err) {
  mt_update_by_query *r = (mt_update_by_query *)(void *)req;
  change_run u = {.w = w, .r = r};
  r->task[0] = '\0';
  r->state = (mt_server_task_state){.phase = MT_SERVER_TASK_ENDED};
  mt_scan_open open = {.index = r->index, .query = r->query, .page = r->batch};
  mortise_status status = mt_docs_scan_open(w, &open.req, err);
  mt_db_end(w->db);
  if (status) return end_without_index(&r->state, err);
  u.scan = open.scan;
  r->state.total = open.total;
  mt_buf_init(&u.bodies, MT_SQLITE_TEXT_MAX);
  status = run_pages(&u, err);
  mt_docs_scan_free(u.scan);
  mt_buf_deinit(&u.bodies);
  mt_free(u.items);
  return status;
}

mortise_status mt_docs_task(mt_work *w, mt_req *req, mortise_error *err) {
  mt_server_task *r = (mt_server_task *)(void *)req;
  (void)w, (void)err;
  r->state = (mt_server_task_state){0};
  return MORTISE_OK;
}

mortise_status mt_docs_task_find(mt_work *w, mt_req *req, mortise_error *err) {
  mt_server_task_find *r = (mt_server_task_find *)(void *)req;
  (void)w, (void)err;
  r->tasks = NULL;
  r->n = 0;
  return MORTISE_OK;
}
