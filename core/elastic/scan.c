/* Scans: sliced scrolls in index order; each slice reads one page ahead.
 *
 * A scroll shows the moment of its opening and returns each document once in a total order. A
 * missing shard, a time-out or a number of hits other than announced fails the scan. */
#include "elastic/page.h"

#include "base/mem.h"

#include <stdio.h>

/* One slice by default: to slice a single shard the server goes through all ids again for each page
 * (200,000 documents in pages of 1,000: 0.6 s in one slice, 5.9 s in two). */
enum { SLICES = 1, SLICES_MAX = 64, FREE_MS = 10000 };
#define KEEP "5m"

typedef struct slice {
  mt_scan *scan;
  mt_call *call;    /* the page being fetched */
  mt_page *page;    /* a page that came and was not taken yet */
  mt_buf scroll_id; /* raw, with quotes */
  uint64_t total, received;
  bool opened;
} slice;

struct mt_scan {
  mt_elastic *e;
  char *index;
  mt_scan_open *opening; /* NULL once all slices have answered */
  mt_scan_next *waiting;
  mt_timer timer; /* when `waiting` is delivered or given up */
  slice *slices;
  uint32_t n, turn;
  bool no_source;
  mortise_error error; /* ends the scan */
  mt_scan *prev, *next;
};

/* ---- Freeing -------------------------------------------------------------------------------- */

/* Frees the server's cursor in the background; if that fails, it expires with its keep-alive. */
static void free_cursor(slice *s) {
  if (!s->scroll_id.n) return;
  mt_call *c = mt_call_new(s->scan->e, NULL);
  if (c) {
    c->deadline_ms = mt_loop_now(c->e->store.loop) + FREE_MS;
    c->http.idempotent = true;
    mt_buf_adds(&c->path, "/_search/scroll");
    mt_buf_adds(&c->body, "{\"scroll_id\":[");
    mt_buf_addslice(&c->body, mt_buf_slice(&s->scroll_id));
    mt_buf_adds(&c->body, "]}");
    mt_call_send(c, "DELETE", mt_call_drop);
  }
  mt_buf_clear(&s->scroll_id);
}

static void end_slice(slice *s) {
  mt_call_drop(s->call);
  s->call = NULL;
  mt_page_free(s->page);
  s->page = NULL;
  free_cursor(s);
}

static void free_scan(mt_scan *scan) {
  mt_elastic *e = scan->e;
  for (uint32_t i = 0; scan->slices && i < scan->n; i++) {
    end_slice(&scan->slices[i]);
    mt_buf_deinit(&scan->slices[i].scroll_id);
  }
  mt_timer_stop(e->store.loop, &scan->timer);
  if (scan->prev)
    scan->prev->next = scan->next;
  else if (e->scans == scan)
    e->scans = scan->next;
  if (scan->next) scan->next->prev = scan->prev;
  mt_free(scan->slices);
  mt_free(scan->index);
  mt_free(scan);
}

void mt_elastic_scan_close(mt_store *s, mt_scan *scan) {
  (void)s;
  if (scan) free_scan(scan);
}

void mt_scans_free(mt_elastic *e) {
  while (e->scans) free_scan(e->scans);
}

/* ---- Giving pages out ----------------------------------------------------------------------- */

static void fetch(slice *s);

static slice *ready_slice(mt_scan *scan) {
  for (uint32_t i = 0; i < scan->n; i++) {
    slice *s = &scan->slices[(scan->turn + i) % scan->n];
    if (!s->page) continue;
    scan->turn = (scan->turn + i + 1) % scan->n;
    return s;
  }
  return NULL;
}

static bool at_end(const mt_scan *scan) {
  for (uint32_t i = 0; i < scan->n; i++)
    if (scan->slices[i].page || scan->slices[i].received < scan->slices[i].total) return false;
  return true;
}

static void finish_scan_next(mt_scan *scan) {
  mt_scan_next *r = scan->waiting;
  scan->waiting = NULL;
  mt_timer_stop(scan->e->store.loop, &scan->timer);
  mt_req_finish(&r->req); /* may close the scan */
}

/* Completes the waiting request if there is a page or an error. */
static void deliver_page(mt_scan *scan) {
  mt_scan_next *r = scan->waiting;
  if (!r) return;
  if (scan->error.code) {
    r->req.error = scan->error;
    finish_scan_next(scan);
    return;
  }
  slice *s = ready_slice(scan);
  if (s) {
    r->page = s->page;
    s->page = NULL;
    if (s->received < s->total) fetch(s);
  }
  if (s || at_end(scan)) finish_scan_next(scan);
}

static void fail_scan(mt_scan *scan, const mortise_error *why) {
  if (scan->error.code) return;
  scan->error = *why;
  for (uint32_t i = 0; i < scan->n; i++) end_slice(&scan->slices[i]);
  if (!scan->opening) {
    deliver_page(scan);
    return;
  }
  mt_scan_open *r = scan->opening;
  r->req.error = *why;
  free_scan(scan);
  mt_req_finish(&r->req);
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static mortise_status read_opening(slice *s, mt_json hits, mortise_error *err) {
  mt_json total = mt_json_get(hits, "total");
  if (!mt_json_uint(mt_json_get(total, "value"), &s->total) ||
      !mt_json_is(mt_json_get(total, "relation"), "eq"))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "scan %s: the answer has no exact total",
                        s->scan->index);
  s->opened = true;
  return MORTISE_OK;
}

static mortise_status keep_cursor(slice *s, mt_json root, mortise_error *err) {
  mt_json id = mt_json_get(root, "_scroll_id");
  if (id.type != MT_JSON_STRING)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "scan %s: the answer has no cursor",
                        s->scan->index);
  mt_buf_clear(&s->scroll_id);
  mt_buf_addslice(&s->scroll_id, id.raw);
  return mt_buf_status(&s->scroll_id, "a scan's cursor", err);
}

static mortise_status read_slice_hits(slice *s, mt_page *page, mt_json hits, mortise_error *err) {
  size_t cap = 0;
  for (mt_json_iter it = mt_json_items(mt_json_get(hits, "hits")); mt_json_next(&it);)
    if (mt_page_add(page, &cap, it.value, s->scan->no_source, err)) return err->code;
  s->received += page->n;
  if (s->received > s->total || (!page->n && s->received < s->total))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "scan %s: %llu of %llu documents came",
                        s->scan->index, (unsigned long long)s->received,
                        (unsigned long long)s->total);
  return MORTISE_OK;
}

static mortise_status read_slice_page(slice *s, mt_call *c, mortise_error *err) {
  mt_json root;
  const char *index = s->scan->index;
  if (mt_json_parse(mt_buf_slice(&c->http.answer), "a scan's page", &root, err)) {
    err->code = MORTISE_UNAVAILABLE;
    return err->code;
  }
  mt_json hits = mt_json_get(root, "hits");
  if (keep_cursor(s, root, err) || mt_shards_check(root, "scan", index, err)) return err->code;
  if (!s->opened && read_opening(s, hits, err)) return err->code;
  mt_page *page = mt_page_take(c);
  if (!page) return mt_error_memory(err);
  if (!read_slice_hits(s, page, hits, err) && page->n)
    s->page = page;
  else
    mt_page_free(page);
  return err->code;
}

static void opened(mt_scan *scan) {
  mt_scan_open *r = scan->opening;
  uint64_t total = 0;
  for (uint32_t i = 0; i < scan->n; i++) {
    if (!scan->slices[i].opened) return;
    total += scan->slices[i].total;
  }
  scan->opening = NULL;
  r->scan = scan;
  r->total = total;
  mt_req_finish(&r->req);
}

static void on_slice_page(mt_call *c) {
  slice *s = c->state;
  mt_scan *scan = s->scan;
  mortise_error err;
  mt_error_clear(&err);
  char what[300];
  snprintf(what, sizeof what, "scan %.250s", scan->index);
  if (!mt_http_status(&c->http, what, &err)) read_slice_page(s, c, &err);
  mt_call_drop(c);
  s->call = NULL;
  if (err.code) {
    fail_scan(scan, &err);
    return;
  }
  if (s->received == s->total) free_cursor(s);
  if (scan->opening)
    opened(scan);
  else
    deliver_page(scan);
}

/* `c` belongs to no request: if it cannot be sent, nobody would be told. */
static mortise_status send_page(slice *s, mt_call *c, mortise_error *err) {
  if (mt_call_status(c, err)) {
    mt_call_drop(c);
    return err->code;
  }
  s->call = c;
  c->state = s;
  mt_call_send(c, "POST", on_slice_page);
  return MORTISE_OK;
}

static void fetch(slice *s) {
  mt_call *c = mt_call_new(s->scan->e, NULL);
  if (!c) {
    mt_error_memory(&s->scan->error);
    return;
  }
  mt_buf_adds(&c->path, "/_search/scroll");
  mt_buf_adds(&c->body, "{\"scroll\":\"" KEEP "\",\"scroll_id\":");
  mt_buf_addslice(&c->body, mt_buf_slice(&s->scroll_id));
  mt_buf_adds(&c->body, "}");
  send_page(s, c, &s->scan->error);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static void add_search(mt_buf *b, const mt_scan *scan, const mt_scan_open *r, uint32_t i) {
  mt_server v = scan->e->server;
  mt_buf_addf(b,
              "{\"size\":%u,\"sort\":[\"_doc\"],\"track_total_hits\":true,"
              "\"seq_no_primary_term\":true",
              r->page ? r->page : MT_SCAN_PAGE);
  if (r->revisions) mt_buf_adds(b, ",\"version\":true");
  if (scan->n > 1) mt_buf_addf(b, ",\"slice\":{\"id\":%u,\"max\":%u}", i, scan->n);
  if (r->no_source)
    mt_buf_adds(b, ",\"_source\":false");
  else if (!v.opensearch && (v.major > 9 || (v.major == 9 && v.minor >= 2)))
    mt_buf_adds(b, ",\"_source\":{\"exclude_vectors\":false}");
  if (r->query.n) {
    mt_buf_adds(b, ",\"query\":");
    mt_buf_addslice(b, r->query);
  }
  mt_buf_adds(b, "}");
}

static mortise_status open_slice(mt_scan *scan, const mt_scan_open *r, mt_slice path, uint32_t i,
                                 mortise_error *err) {
  slice *s = &scan->slices[i];
  s->scan = scan;
  mt_buf_init(&s->scroll_id, 1 << 20);
  mt_call *c = mt_call_new(scan->e, NULL);
  if (!c) return mt_error_memory(err);
  if (r->req.deadline_ms) c->deadline_ms = r->req.deadline_ms;
  c->http.idempotent = true; /* at worst a cursor remains until its keep-alive ends */
  mt_buf_addslice(&c->path, path);
  mt_buf_adds(&c->path, "/_search?scroll=" KEEP "&allow_partial_search_results=false");
  add_search(&c->body, scan, r, i);
  return send_page(s, c, err);
}

static void wait_again(void *ctx) {
  mt_scan *scan = ctx;
  mt_scan_next *r = scan->waiting;
  if (!r) return;
  int64_t deadline_ms = r->req.deadline_ms;
  if (deadline_ms && deadline_ms <= mt_loop_now(scan->e->store.loop)) {
    mt_error_set(&r->req.error, MORTISE_UNAVAILABLE, "scan %s: no page came in time", scan->index);
    finish_scan_next(scan);
    return;
  }
  /* Start the timer before delivering, since `done` may close the scan. Without a deadline the
   * page's own time-out ends the wait. */
  if (deadline_ms) mt_timer_start(scan->e->store.loop, &scan->timer, deadline_ms, NULL);
  deliver_page(scan);
}

static mt_scan *new_scan(mt_elastic *e, const mt_scan_open *r) {
  mt_scan *scan = mt_calloc(1, sizeof *scan);
  if (!scan) return NULL;
  scan->e = e;
  scan->n = r->slices ? r->slices : SLICES;
  scan->no_source = r->no_source;
  scan->index = mt_strdup(r->index);
  scan->slices = mt_calloc(scan->n, sizeof *scan->slices);
  scan->timer = (mt_timer){.fire = wait_again, .ctx = scan};
  scan->next = e->scans;
  if (scan->next) scan->next->prev = scan;
  e->scans = scan;
  for (uint32_t i = 0; scan->slices && i < scan->n; i++) scan->slices[i].scan = scan;
  if (scan->index && scan->slices) return scan;
  free_scan(scan);
  return NULL;
}

static void submit_scan(mt_call *c) {
  mt_scan_open *r = (mt_scan_open *)c->req;
  if (!mt_call_index(c, r->index, false)) return;
  mt_scan *scan = new_scan(c->e, r);
  mortise_error *err = &r->req.error;
  mt_error_clear(err);
  if (!scan) mt_error_memory(err);
  for (uint32_t i = 0; !err->code && i < scan->n; i++)
    open_slice(scan, r, mt_buf_slice(&c->path), i, err);
  if (err->code) {
    if (scan) free_scan(scan);
    mt_call_finish_soon(c);
    return;
  }
  scan->opening = r;
  c->req = NULL;
  r->req.op = scan;
  mt_call_drop(c);
}

void mt_elastic_scan_open(mt_store *s, mt_scan_open *r) {
  r->scan = NULL;
  r->total = 0;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (r->page > MT_SCAN_PAGE_MAX || r->slices > SLICES_MAX) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT,
                  "scan %s: a page of %u in %u slices; at most %d in %d are possible", r->index,
                  r->page, r->slices, MT_SCAN_PAGE_MAX, SLICES_MAX);
    return;
  }
  mt_server_need(c, submit_scan);
}

void mt_elastic_scan_next(mt_store *s, mt_scan_next *r) {
  mt_scan *scan = r->scan;
  r->page = NULL;
  r->req.finished = false;
  mt_error_clear(&r->req.error);
  r->req.op = scan;
  scan->waiting = r;
  if (mt_timer_start(s->loop, &scan->timer, mt_loop_now(s->loop), &r->req.error)) {
    scan->waiting = NULL;
    mt_req_soon(scan->e, &r->req);
  }
}

bool mt_scan_forget(mt_elastic *e, mt_req *req) {
  for (mt_scan *scan = e->scans; scan; scan = scan->next) {
    if (scan->opening && &scan->opening->req == req) {
      free_scan(scan);
      return true;
    }
    if (scan->waiting && &scan->waiting->req == req) {
      scan->waiting = NULL;
      return true;
    }
  }
  return false;
}
