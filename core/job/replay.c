#include "job/replay.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MARK_MAX = 1024, PAGES_MAX = 4096 };

/* ---- A batch and its documents --------------------------------------------------------------- */

static void finish_read(mt_batch_read *r, const mortise_error *e) {
  r->busy = false;
  if (e) r->error = *e;
  r->done(r->ctx, r);
}

static void fail_read(mt_batch_read *r, const mortise_error *e) {
  mortise_error err = *e;
  mt_error_prefix(&err, "reading batch %s of the journal", r->id);
  finish_read(r, &err);
}

static void fetch_documents(mt_batch_read *r);

static bool keep_page(mt_batch_read *r) {
  if (!mt_grow((void **)&r->pages, &r->cap_pages, r->n_pages + 1, sizeof *r->pages, PAGES_MAX))
    return false;
  r->pages[r->n_pages++] = r->mget.page;
  r->mget.page = NULL;
  return true;
}

static void on_documents(void *ctx, mt_req *req) {
  mt_batch_read *r = ctx;
  mt_page *page = r->mget.page;
  mortise_error err = req->error;
  if (!err.code && page->n != r->asked)
    mt_error_set(&err, MORTISE_UNAVAILABLE, "another number of documents was answered");
  if (!err.code && !keep_page(r)) mt_error_memory(&err);
  if (err.code) {
    mt_mget_deinit(&r->mget);
    fail_read(r, &err);
    return;
  }
  for (size_t i = 0; i < r->asked; i++) r->docs[r->places[i]] = page->docs[i];
  fetch_documents(r);
}

/* Is the document in this place wanted, and not requested yet? Then its index is not set, which it is even if it was
 * not found. */
static bool is_to_be_read(const mt_batch_read *r, size_t i) {
  bool moves = r->batch.entries[i % r->batch.n].kind == MT_JOURNAL_MOVE;
  return moves == r->pairs && (moves || i < r->batch.n) && !r->docs[i].index.p;
}

static bool is_told_by_version(const mt_journal_entry *e, const mt_doc *doc) {
  bool once = e->kind == MT_JOURNAL_INDEX && e->revision && doc->revision == e->revision + 1;
  return !doc->found || once || mt_version_equal(doc->version, e->before);
}

/* The versions of all are known; the sources of these are to be read. False: there are none. */
static bool doubt_documents(mt_batch_read *r) {
  bool any = false;
  r->versions = false;
  for (size_t i = 0; i < r->batch.n; i++) {
    if (!r->docs[i].index.p || is_told_by_version(&r->batch.entries[i], &r->docs[i])) continue;
    r->docs[i] = (mt_doc){0};
    any = true;
  }
  return any;
}

/* A request reads from one index only: the index of the first entry that was not read yet. */
static void fetch_documents(mt_batch_read *r) {
  mt_slice index = {NULL, 0};
  r->asked = 0;
  for (size_t i = 0; i < 2 * r->batch.n; i++) {
    const mt_journal_entry *e = &r->batch.entries[i % r->batch.n];
    if (!is_to_be_read(r, i)) continue;
    if (!index.p) index = e->index;
    if (!mt_slice_eq(index, e->index)) continue;
    r->docs[i].index = e->index;
    r->ids[r->asked] = i < r->batch.n ? e->id : e->to;
    r->routing[r->asked] = e->routing;
    r->places[r->asked++] = i;
  }
  if (!r->asked) {
    if (r->versions && doubt_documents(r))
      fetch_documents(r);
    else
      finish_read(r, NULL);
    return;
  }
  snprintf(r->index, sizeof r->index, "%.*s", (int)(index.n < 255 ? index.n : 255), index.p);
  r->mget = (mt_mget){.req = {.done = on_documents, .ctx = r, .idempotent = true},
                      .index = r->index,
                      .ids = r->ids,
                      .routing = r->routing,
                      .n = r->asked,
                      .no_source = r->versions};
  r->of.store->docs->mget(r->of.store, &r->mget);
}

static mortise_status make_batch_arrays(mt_batch_read *r, mortise_error *err) {
  size_t n = r->batch.n ? 2 * r->batch.n : 1;
  r->docs = mt_calloc(n, sizeof *r->docs);
  r->ids = mt_calloc(n, sizeof *r->ids);
  r->routing = mt_calloc(n, sizeof *r->routing);
  r->places = mt_calloc(n, sizeof *r->places);
  return r->docs && r->ids && r->routing && r->places ? MORTISE_OK : mt_error_memory(err);
}

/* Is it a mark that closes an attempt, and not a batch? */
static bool is_mark(mt_slice source) {
  mt_json root;
  return !mt_json_parse(source, "a document of the journal", &root, NULL) &&
         mt_json_is(mt_json_get(root, "kind"), "end");
}

static void on_batch_fetched(void *ctx, mt_req *req) {
  mt_batch_read *r = ctx;
  mortise_error err = req->error;
  const mt_doc *doc = r->mget.page && r->mget.page->n == 1 ? &r->mget.page->docs[0] : NULL;
  if (!err.code && !doc)
    mt_error_set(&err, MORTISE_UNAVAILABLE, "another number of documents was answered");
  if (!err.code && doc->found && !is_mark(doc->source)) {
    r->found = true;
    r->version = doc->version;
    if (!mt_journal_decode(doc->source, &r->batch, &err)) make_batch_arrays(r, &err);
  }
  mt_mget_deinit(&r->mget);
  if (err.code)
    fail_read(r, &err);
  else if (r->no_documents)
    finish_read(r, NULL);
  else
    fetch_documents(r);
}

void mt_batch_read_start(mt_batch_read *r) {
  r->busy = true;
  r->own = mt_journal_id(r->id, r->of.ns, r->of.job, r->attempt, r->number);
  r->mget = (mt_mget){.req = {.done = on_batch_fetched, .ctx = r, .idempotent = true},
                      .index = r->of.table,
                      .ids = &r->own,
                      .n = 1};
  r->of.store->docs->mget(r->of.store, &r->mget);
}

void mt_batch_read_deinit(mt_batch_read *r) {
  if (r->busy) mt_store_cancel(r->of.store, &r->mget.req);
  mt_mget_deinit(&r->mget);
  mt_journal_batch_deinit(&r->batch);
  for (size_t i = 0; i < r->n_pages; i++) mt_page_free(r->pages[i]);
  mt_free(r->pages);
  mt_free(r->docs);
  mt_free(r->ids);
  mt_free(r->routing);
  mt_free(r->places);
  *r = (mt_batch_read){0};
}

/* ---- The end of an attempt ------------------------------------------------------------------- */

static void finish_attempt_close(mt_attempt_close *c, const mortise_error *e) {
  if (e) {
    c->error = *e;
    mt_error_prefix(&c->error, "closing attempt %" PRIu64 " of job %s", c->attempt, c->of.job);
  }
  c->done(c->ctx, c);
}

static void next_window(mt_attempt_close *c);

/* The store refused to create these documents because they exist. A shard copy that does not find one lags behind. */
static void on_taken(void *ctx, mt_req *req) {
  mt_attempt_close *c = ctx;
  mortise_error err = req->error;
  const mt_page *page = c->mget.page;
  uint64_t last = 0; /* the number of the last batch plus 1; 0: there is none */
  c->reading = false;
  for (size_t i = 0; !err.code && i < c->mget.n; i++) {
    const mt_doc *doc = &page->docs[i];
    uint64_t number = strtoull(strrchr(c->taken[i].p, ':') + 1, NULL, 10);
    if (!doc->found)
      mt_error_set(&err, MORTISE_UNAVAILABLE, "%s was there and is not found", c->taken[i].p);
    else if (!is_mark(doc->source))
      last = number + 1;
  }
  mt_mget_deinit(&c->mget);
  if (err.code) {
    finish_attempt_close(c, &err);
  } else if (last) {
    c->end = last;
    next_window(c);
  } else {
    finish_attempt_close(c, NULL);
  }
}

static void read_taken(mt_attempt_close *c, size_t n) {
  c->mget = (mt_mget){.req = {.done = on_taken, .ctx = c, .idempotent = true},
                      .index = c->of.table,
                      .ids = c->taken,
                      .n = n};
  c->reading = true;
  c->of.store->docs->mget(c->of.store, &c->mget);
}

static void on_marked(void *ctx, mt_write_batch *b) {
  mt_attempt_close *c = ctx;
  mortise_error err = b->error;
  size_t n = 0;
  for (size_t i = 0; !err.code && i < MT_JOB_UNITS_MAX; i++) {
    const mt_item *item = &c->items[i];
    if (item->outcome == MT_OUTCOME_CONFLICT)
      c->taken[n++] = item->write.id;
    else if (item->outcome != MT_OUTCOME_APPLIED)
      mt_error_set(&err, MORTISE_REJECTED, "%s", item->write.reason);
  }
  if (err.code)
    finish_attempt_close(c, &err);
  else if (n)
    read_taken(c, n);
  else
    finish_attempt_close(c, NULL);
}

/* Closes the MT_JOB_UNITS_MAX numbers after the last batch that is known. */
static void next_window(mt_attempt_close *c) {
  for (size_t i = 0; i < MT_JOB_UNITS_MAX; i++) {
    mt_slice id = mt_journal_id(c->ids[i], c->of.ns, c->of.job, c->attempt, c->end + i);
    c->items[i] = (mt_item){.write = {.kind = MT_WRITE_CREATE,
                                      .id = id,
                                      .body = mt_buf_slice(&c->mark),
                                      .skip_pipeline = true}};
  }
  c->batch = (mt_write_batch){
      .done = on_marked, .ctx = c, .index = c->of.table, .items = c->items, .n = MT_JOB_UNITS_MAX};
  mt_writer_submit(c->writer, &c->batch);
}

mortise_status mt_attempt_close_start(mt_attempt_close *c, mortise_error *err) {
  mt_buf_init(&c->mark, MARK_MAX);
  mt_buf_addf(&c->mark, "{\"kind\":\"end\",\"ns\":\"%s\",\"job\":\"%s\"}", c->of.ns, c->of.job);
  mortise_status status = mt_buf_status(&c->mark, "a mark of the journal", err);
  if (status) return status;
  c->end = c->from;
  next_window(c);
  return MORTISE_OK;
}

void mt_attempt_close_deinit(mt_attempt_close *c) {
  if (c->reading) mt_store_cancel(c->of.store, &c->mget.req);
  mt_mget_deinit(&c->mget);
  mt_buf_deinit(&c->mark);
}
