/* Documents, for programs in C: reading them, scanning, and requests as they are. */
#include "base/mem.h"
#include "base/pump.h"
#include "client/handles.h"
#include "client/options.h"

#include <stddef.h>

struct mortise_scan {
  mortise_client *client;
  mortise_scan *before, *next; /* of the client */
  mortise_scan_request request; /* its strings are in `text` */
  mt_scan *scan;                /* NULL: it was not opened yet */
  uint64_t total;
  mortise_op *op; /* that reads its next page; NULL: none */
  bool ended;
  char text[];
};

/* A request of the store, with a copy of what it borrows. */
typedef struct doc_op {
  mortise_op op;
  const struct doc_kind *kind;
  mt_req *req; /* in `of` */
  union {
    mt_mget get;
    mt_scan_open open;
    mt_scan_next next;
    mt_search search;
    mt_count count;
    mt_refresh refresh;
    mt_index_admin admin;
    mt_raw raw;
  } of;
  mortise_scan *scan; /* whose page it reads; or NULL */
  char *free;         /* in `text`: what is not taken */
  _Alignas(mt_slice) char text[];
} doc_op;

typedef struct doc_kind {
  /* Moves the result of a request that has succeeded; NULL: it has none. */
  mortise_status (*take)(doc_op *op, mortise_outcome *outcome);
  void (*drop)(doc_op *op); /* what was not moved; NULL: nothing */
} doc_kind;

/* ---- One request ------------------------------------------------------------------------------ */

static void end_reading(mortise_scan *scan) {
  mt_store *s = scan->client->store;
  scan->ended = true;
  scan->op = NULL;
  if (scan->scan) s->docs->scan_close(s, scan->scan);
  scan->scan = NULL;
}

static void take_back_doc_op(mortise_op *op) {
  doc_op *self = (doc_op *)op;
  mt_store_cancel(op->client->store, self->req);
  if (self->scan) end_reading(self->scan);
}

static void drop_doc_op(mortise_op *op) {
  doc_op *self = (doc_op *)op;
  if (self->kind->drop) self->kind->drop(self);
}

static const mt_handle_op_type requesting = {take_back_doc_op, drop_doc_op};

static void request_over(void *ctx, mt_req *req) {
  doc_op *op = ctx;
  mortise_outcome outcome = {.error = req->error};
  if (!req->error.code && op->kind->take && op->kind->take(op, &outcome)) mt_error_memory(&outcome.error);
  mt_handle_op_tell(&op->op, &outcome);
}

/* With room for copies of `bytes`. */
static doc_op *new_request(mortise_client *c, const doc_kind *kind, size_t bytes, mortise_done_fn *done, void *ctx,
                           mortise_error *err) {
  if (!done) {
    mt_handle_null("function `done`", err);
    return NULL;
  }
  doc_op *op = mt_handle_op_new(c, &requesting, sizeof *op + bytes, done, ctx, err);
  if (!op) return NULL;
  op->kind = kind;
  op->free = op->text;
  return op;
}

/* Its copy, with a NUL after it. */
static mt_slice keep_view(char **to, mortise_view view) {
  char *copy = *to;
  if (!view.p) return (mt_slice){NULL, 0};
  memcpy(copy, view.p, view.n);
  copy[view.n] = '\0';
  *to += view.n + 1;
  return (mt_slice){copy, view.n};
}

static mt_slice keep_text(char **to, const char *text) {
  return keep_view(to, mortise_view_of(text));
}

static size_t room_for(const char *text) {
  return text ? strlen(text) + 1 : 0;
}

/* The store to submit it to. */
static mt_store *make_ready(doc_op *op, mt_req *req, mt_done_fn *done) {
  op->req = req;
  req->done = done;
  req->ctx = op;
  return op->op.client->store;
}

/* ---- Pages ------------------------------------------------------------------------------------ */

struct mortise_page {
  mt_page *page; /* owned; or NULL */
  size_t n;
  mortise_doc docs[];
};

static mortise_view view_of_slice(mt_slice s) {
  return (mortise_view){s.p, s.n};
}

/* Takes `page`, also where there is no memory: NULL. */
static mortise_page *wrap_page(mt_page *page) {
  size_t n = page ? page->n : 0;
  mortise_page *out = mt_calloc(1, sizeof *out + n * sizeof *out->docs);
  if (!out) {
    mt_page_free(page);
    return NULL;
  }
  out->page = page;
  out->n = n;
  for (size_t i = 0; i < n; i++) {
    const mt_doc *doc = &page->docs[i];
    out->docs[i] = (mortise_doc){.index = view_of_slice(doc->index),
                                 .id = view_of_slice(doc->id),
                                 .routing = view_of_slice(doc->routing),
                                 .source = view_of_slice(doc->source),
                                 .seq_no = doc->version.seq_no,
                                 .term = doc->version.term,
                                 .found = doc->found};
  }
  return out;
}

void mortise_page_free(mortise_page *page) {
  if (!page) return;
  mt_page_free(page->page);
  mt_free(page);
}

size_t mortise_page_count(const mortise_page *page) {
  return page ? page->n : 0;
}

const mortise_doc *mortise_page_doc(const mortise_page *page, size_t i) {
  return page && i < page->n ? &page->docs[i] : NULL;
}

/* ---- Values ------------------------------------------------------------------------------------ */

/* A member of the whole name before one by its parts. */
static mt_json find_value(const mortise_doc *doc, const char *field) {
  mt_json at = {MT_JSON_NONE, {NULL, 0}};
  if (!doc || !doc->source.n || !field) return at;
  at = (mt_json){MT_JSON_OBJECT, {doc->source.p, doc->source.n}};
  for (mt_slice rest = mt_slice_of(field);;) {
    mt_json whole = mt_json_member(at, rest);
    if (whole.type != MT_JSON_NONE || !memchr(rest.p, '.', rest.n)) return whole;
    at = mt_json_member(at, mt_slice_cut(&rest, '.'));
  }
}

bool mortise_doc_value(const mortise_doc *doc, const char *field, mortise_view *json) {
  mt_json value = find_value(doc, field);
  if (value.type == MT_JSON_NONE || !json) return false;
  *json = view_of_slice(value.raw);
  return true;
}

bool mortise_doc_text(const mortise_doc *doc, const char *field, char *out, size_t size) {
  mt_json value = find_value(doc, field);
  if (value.type != MT_JSON_STRING || !out || !size) return false;
  mt_buf text;
  mt_buf_init(&text, size - 1);
  bool fits = mt_json_text(value, &text) && !text.failed && !(text.n && memchr(text.p, '\0', text.n));
  if (fits) {
    if (text.n) memcpy(out, text.p, text.n);
    out[text.n] = '\0';
  }
  mt_buf_deinit(&text);
  return fits;
}

bool mortise_doc_int(const mortise_doc *doc, const char *field, int64_t *out) {
  return out && mt_json_int(find_value(doc, field), out);
}

bool mortise_doc_double(const mortise_doc *doc, const char *field, double *out) {
  return out && mt_json_double(find_value(doc, field), out);
}

/* ---- Reading by id ------------------------------------------------------------------------------ */

void mortise_get_request_init_size(mortise_get_request *r, size_t size) {
  mt_struct_give(r, &(mortise_get_request){.size = size}, size, sizeof *r);
}

static mortise_status take_get(doc_op *op, mortise_outcome *outcome) {
  outcome->page = wrap_page(op->of.get.page);
  op->of.get.page = NULL;
  return outcome->page ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
}

static void drop_get(doc_op *op) {
  mt_mget_deinit(&op->of.get);
}

static const doc_kind getting = {take_get, drop_get};

static bool check_get(const mortise_get_request *r, mortise_error *err) {
  if (!r->index || !r->ids)
    mt_handle_null(r->index ? "array of ids" : "index", err);
  else if (!r->n || r->n > MORTISE_GET_MAX)
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "1 to %d ids, not %zu", (int)MORTISE_GET_MAX, r->n);
  else
    return true;
  return false;
}

static size_t room_for_get(const mortise_get_request *r) {
  size_t bytes = 2 * r->n * sizeof(mt_slice) + room_for(r->index);
  for (size_t i = 0; i < r->n; i++) bytes += r->ids[i].n + 1 + (r->routing ? r->routing[i].n + 1 : 0);
  return bytes;
}

static mortise_op *begin_get(mortise_client *c, const mortise_get_request *given, mortise_done_fn *done, void *ctx,
                             mortise_error *err) {
  mortise_get_request r;
  mortise_get_request_init(&r);
  if (mt_struct_take(&r, sizeof r, given, offsetof(mortise_get_request, no_source), "mortise_get_request", err) ||
      !check_get(&r, err))
    return NULL;
  doc_op *op = new_request(c, &getting, room_for_get(&r), done, ctx, err);
  if (!op) return NULL;
  mt_slice *ids = (mt_slice *)(void *)op->free, *routing = ids + r.n;
  op->free = (char *)(routing + r.n);
  for (size_t i = 0; i < r.n; i++) {
    ids[i] = keep_view(&op->free, r.ids[i]);
    if (!ids[i].p) ids[i] = MT_SLICE("");
    if (r.routing) routing[i] = keep_view(&op->free, r.routing[i]);
  }
  op->of.get = (mt_mget){.index = keep_text(&op->free, r.index).p,
                         .ids = ids,
                         .routing = r.routing ? routing : NULL,
                         .n = r.n,
                         .no_source = r.no_source};
  mt_store *s = make_ready(op, &op->of.get.req, request_over);
  s->docs->mget(s, &op->of.get);
  return &op->op;
}

mortise_op *mortise_get_start(mortise_client *c, const mortise_get_request *request, mortise_done_fn *done, void *ctx,
                              mortise_error *err) {
  return mt_handle_check_start(c, err) ? NULL : begin_get(c, request, done, ctx, err);
}

mortise_page *mortise_get(mortise_client *c, const mortise_get_request *request, mortise_error *err) {
  mt_waited w = {0};
  if (mt_client_check(c, true, err)) return NULL;
  mt_waited_for(c, begin_get(c, request, mt_waited_keep, &w, err), &w, err);
  return w.outcome.page;
}

/* ---- Scanning ----------------------------------------------------------------------------------- */

void mortise_scan_request_init_size(mortise_scan_request *r, size_t size) {
  mt_struct_give(r, &(mortise_scan_request){.size = size}, size, sizeof *r);
}

static bool check_scan_request(const mortise_scan_request *r, mortise_error *err) {
  enum { SLICES_MAX = 1024 };
  if (!r->index)
    mt_handle_null("index", err);
  else if (r->page > MT_SCAN_PAGE_MAX)
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a page has at most %d documents, not %u", (int)MT_SCAN_PAGE_MAX, r->page);
  else if (r->slices > SLICES_MAX)
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "at most %d slices, not %u", (int)SLICES_MAX, r->slices);
  else
    return true;
  return false;
}

mortise_scan *mortise_scan_new(mortise_client *c, const mortise_scan_request *given, mortise_error *err) {
  mortise_scan_request r;
  mortise_scan_request_init(&r);
  if (mt_client_check(c, false, err) ||
      mt_struct_take(&r, sizeof r, given, offsetof(mortise_scan_request, page), "mortise_scan_request", err) ||
      !check_scan_request(&r, err))
    return NULL;
  mortise_scan *scan = mt_calloc(1, sizeof *scan + room_for(r.index) + room_for(r.query));
  if (!scan) {
    mt_error_memory(err);
    return NULL;
  }
  char *free = scan->text;
  scan->request = r;
  scan->request.index = keep_text(&free, r.index).p;
  scan->request.query = keep_text(&free, r.query).p;
  scan->client = c;
  scan->next = c->scans;
  if (scan->next) scan->next->before = scan;
  c->scans = scan;
  return scan;
}

uint64_t mortise_scan_total(const mortise_scan *scan) {
  return scan ? scan->total : 0;
}

static mortise_status take_scan_page(doc_op *op, mortise_outcome *outcome) {
  if (!op->of.next.page) return MORTISE_OK;
  outcome->page = wrap_page(op->of.next.page);
  op->of.next.page = NULL;
  return outcome->page ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
}

static void drop_scan_page(doc_op *op) {
  mt_page_free(op->of.next.page);
}

static const doc_kind paging = {NULL, drop_scan_page};

/* A page that could not be handed over would be left out, so that is its end, too. */
static void page_over(void *ctx, mt_req *req) {
  doc_op *op = ctx;
  mortise_outcome outcome = {.error = req->error};
  if (!req->error.code && take_scan_page(op, &outcome)) mt_error_memory(&outcome.error);
  op->scan->op = NULL;
  if (!outcome.page) end_reading(op->scan);
  mt_handle_op_tell(&op->op, &outcome);
}

static void read_scan_page(doc_op *op) {
  op->kind = &paging;
  op->of.next = (mt_scan_next){.scan = op->scan->scan};
  mt_store *s = make_ready(op, &op->of.next.req, page_over);
  s->docs->scan_next(s, &op->of.next);
}

static void scan_opened(void *ctx, mt_req *req) {
  doc_op *op = ctx;
  op->scan->scan = op->of.open.scan;
  op->scan->total = op->of.open.total;
  if (!req->error.code) {
    read_scan_page(op);
    return;
  }
  end_reading(op->scan);
  request_over(ctx, req);
}

static const doc_kind opening = {NULL, NULL};

static void open_scan(doc_op *op) {
  const mortise_scan_request *r = &op->scan->request;
  op->of.open = (mt_scan_open){.index = r->index,
                               .query = mt_slice_of(r->query),
                               .page = r->page,
                               .slices = r->slices,
                               .no_source = r->no_source};
  mt_store *s = make_ready(op, &op->of.open.req, scan_opened);
  s->docs->scan_open(s, &op->of.open);
}

static mortise_op *begin_scan_next(mortise_scan *scan, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (scan->ended || scan->op) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                 scan->ended ? "the scan has ended" : "the next page of the scan is under way");
    return NULL;
  }
  doc_op *op = new_request(scan->client, &opening, 0, done, ctx, err);
  if (!op) return NULL;
  op->scan = scan;
  scan->op = &op->op;
  if (scan->scan)
    read_scan_page(op);
  else
    open_scan(op);
  return &op->op;
}

mortise_op *mortise_scan_next_start(mortise_scan *scan, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (!scan) {
    mt_handle_null("scan", err);
    return NULL;
  }
  return mt_handle_check_start(scan->client, err) ? NULL : begin_scan_next(scan, done, ctx, err);
}

mortise_page *mortise_scan_next(mortise_scan *scan, mortise_error *err) {
  mt_waited w = {0};
  if (!scan) {
    mt_handle_null("scan", err);
    return NULL;
  }
  if (mt_client_check(scan->client, true, err)) return NULL;
  mt_waited_for(scan->client, begin_scan_next(scan, mt_waited_keep, &w, err), &w, err);
  return w.outcome.page;
}

static void free_scan_handle(mortise_scan *scan) {
  if (scan->op) mortise_op_cancel(scan->op);
  end_reading(scan);
  if (scan->next) scan->next->before = scan->before;
  *(scan->before ? &scan->before->next : &scan->client->scans) = scan->next;
  mt_free(scan);
}

void mt_scan_handles_free(mortise_scan **scans) {
  while (*scans) free_scan_handle(*scans);
}

void mortise_scan_free(mortise_scan *scan) {
  if (scan && !mt_shared_check(scan->client->shared, "the client", NULL)) free_scan_handle(scan);
}

/* ---- Answers ------------------------------------------------------------------------------------ */

/* Takes `body`, also where there is no memory: NULL. */
static mortise_answer *wrap_answer(int status, char **body, size_t n) {
  mortise_answer *answer = mt_calloc(1, sizeof *answer);
  if (answer) {
    *answer = (mortise_answer){.status = status, .body = *body, .body_n = n};
    *body = NULL;
  }
  return answer;
}

void mortise_answer_free(mortise_answer *answer) {
  if (!answer) return;
  mt_free(answer->body);
  mt_free(answer);
}

static mortise_status take_search(doc_op *op, mortise_outcome *outcome) {
  enum { FOUND = 200 };
  outcome->answer = wrap_answer(FOUND, &op->of.search.answer, op->of.search.answer_n);
  return outcome->answer ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
}

static void drop_search(doc_op *op) {
  mt_search_deinit(&op->of.search);
}

static mortise_status take_raw(doc_op *op, mortise_outcome *outcome) {
  outcome->answer = wrap_answer(op->of.raw.status, &op->of.raw.answer, op->of.raw.answer_n);
  return outcome->answer ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
}

static void drop_raw(doc_op *op) {
  mt_raw_deinit(&op->of.raw);
}

static mortise_status take_counted(doc_op *op, mortise_outcome *outcome) {
  outcome->count = op->of.count.count;
  return MORTISE_OK;
}

static const doc_kind searching = {take_search, drop_search}, raw_requesting = {take_raw, drop_raw},
                      counting = {take_counted, NULL}, plain = {NULL, NULL};

/* ---- Requests of an index, and a text ------------------------------------------------------------- */

typedef void submit_fn(doc_op *op, const char *index, mt_slice text);

static mortise_op *begin_of_index(mortise_client *c, const doc_kind *kind, submit_fn *submit, const char *index,
                                  const char *text, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (!index) {
    mt_handle_null("index", err);
    return NULL;
  }
  doc_op *op = new_request(c, kind, room_for(index) + room_for(text), done, ctx, err);
  if (!op) return NULL;
  const char *copy = keep_text(&op->free, index).p;
  submit(op, copy, keep_text(&op->free, text));
  return &op->op;
}

static mortise_op *start_of_index(mortise_client *c, const doc_kind *kind, submit_fn *submit, const char *index,
                                  const char *text, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (mt_handle_check_start(c, err)) return NULL;
  return begin_of_index(c, kind, submit, index, text, done, ctx, err);
}

static mortise_status wait_of_index(mortise_client *c, const doc_kind *kind, submit_fn *submit, const char *index,
                                    const char *text, mt_waited *w, mortise_error *err) {
  mortise_error ours;
  if (!err) err = &ours;
  mortise_status bad = mt_client_check(c, true, err);
  if (bad) return bad;
  return mt_waited_for(c, begin_of_index(c, kind, submit, index, text, mt_waited_keep, w, err), w, err);
}

static void submit_search(doc_op *op, const char *index, mt_slice text) {
  op->of.search = (mt_search){.index = index, .body = text};
  mt_store *s = make_ready(op, &op->of.search.req, request_over);
  s->docs->search(s, &op->of.search);
}

mortise_op *mortise_search_start(mortise_client *c, const char *index, const char *body, mortise_done_fn *done, void *ctx,
                                 mortise_error *err) {
  return start_of_index(c, &searching, submit_search, index, body, done, ctx, err);
}

mortise_answer *mortise_search(mortise_client *c, const char *index, const char *body, mortise_error *err) {
  mt_waited w = {0};
  wait_of_index(c, &searching, submit_search, index, body, &w, err);
  return w.outcome.answer;
}

static void submit_count(doc_op *op, const char *index, mt_slice text) {
  op->of.count = (mt_count){.index = index, .query = text};
  mt_store *s = make_ready(op, &op->of.count.req, request_over);
  s->docs->count(s, &op->of.count);
}

mortise_op *mortise_count_start(mortise_client *c, const char *index, const char *query, mortise_done_fn *done, void *ctx,
                                mortise_error *err) {
  return start_of_index(c, &counting, submit_count, index, query, done, ctx, err);
}

mortise_status mortise_count(mortise_client *c, const char *index, const char *query, uint64_t *count, mortise_error *err) {
  mt_waited w = {0};
  if (!count) return mt_handle_null("count", err);
  mortise_status status = wait_of_index(c, &counting, submit_count, index, query, &w, err);
  if (!status) *count = w.outcome.count;
  return status;
}

static void submit_refresh(doc_op *op, const char *index, mt_slice text) {
  (void)text;
  op->of.refresh = (mt_refresh){.index = index};
  mt_store *s = make_ready(op, &op->of.refresh.req, request_over);
  s->docs->refresh(s, &op->of.refresh);
}

mortise_op *mortise_refresh_start(mortise_client *c, const char *index, mortise_done_fn *done, void *ctx, mortise_error *err) {
  return start_of_index(c, &plain, submit_refresh, index, NULL, done, ctx, err);
}

mortise_status mortise_refresh(mortise_client *c, const char *index, mortise_error *err) {
  mt_waited w = {0};
  return wait_of_index(c, &plain, submit_refresh, index, NULL, &w, err);
}

static void submit_create(doc_op *op, const char *index, mt_slice text) {
  op->of.admin = (mt_index_admin){.index = index, .body = text};
  mt_store *s = make_ready(op, &op->of.admin.req, request_over);
  s->docs->index_create(s, &op->of.admin);
}

mortise_op *mortise_index_create_start(mortise_client *c, const char *index, const char *body, mortise_done_fn *done,
                                       void *ctx, mortise_error *err) {
  return start_of_index(c, &plain, submit_create, index, body, done, ctx, err);
}

mortise_status mortise_index_create(mortise_client *c, const char *index, const char *body, mortise_error *err) {
  mt_waited w = {0};
  return wait_of_index(c, &plain, submit_create, index, body, &w, err);
}

static void submit_drop(doc_op *op, const char *index, mt_slice text) {
  (void)text;
  op->of.admin = (mt_index_admin){.index = index};
  mt_store *s = make_ready(op, &op->of.admin.req, request_over);
  s->docs->index_drop(s, &op->of.admin);
}

mortise_op *mortise_index_drop_start(mortise_client *c, const char *index, mortise_done_fn *done, void *ctx,
                                     mortise_error *err) {
  return start_of_index(c, &plain, submit_drop, index, NULL, done, ctx, err);
}

mortise_status mortise_index_drop(mortise_client *c, const char *index, mortise_error *err) {
  mt_waited w = {0};
  return wait_of_index(c, &plain, submit_drop, index, NULL, &w, err);
}

/* ---- Any request -------------------------------------------------------------------------------- */

void mortise_raw_request_init_size(mortise_raw_request *r, size_t size) {
  mt_struct_give(r, &(mortise_raw_request){.size = size}, size, sizeof *r);
}

static mortise_op *begin_raw(mortise_client *c, const mortise_raw_request *given, mortise_done_fn *done, void *ctx,
                             mortise_error *err) {
  mortise_raw_request r;
  mortise_raw_request_init(&r);
  if (mt_struct_take(&r, sizeof r, given, offsetof(mortise_raw_request, body), "mortise_raw_request", err)) return NULL;
  if (!r.method || !r.path) {
    mt_handle_null(r.method ? "path" : "method", err);
    return NULL;
  }
  size_t bytes = room_for(r.method) + room_for(r.path) + r.body.n + 1 + room_for(r.content_type);
  doc_op *op = new_request(c, &raw_requesting, bytes, done, ctx, err);
  if (!op) return NULL;
  op->of.raw = (mt_raw){.method = keep_text(&op->free, r.method).p,
                        .path = keep_text(&op->free, r.path).p,
                        .body = keep_view(&op->free, r.body),
                        .content_type = keep_text(&op->free, r.content_type).p};
  mt_store *s = make_ready(op, &op->of.raw.req, request_over);
  s->docs->raw(s, &op->of.raw);
  return &op->op;
}

mortise_op *mortise_raw_start(mortise_client *c, const mortise_raw_request *request, mortise_done_fn *done, void *ctx,
                              mortise_error *err) {
  return mt_handle_check_start(c, err) ? NULL : begin_raw(c, request, done, ctx, err);
}

mortise_answer *mortise_raw(mortise_client *c, const mortise_raw_request *request, mortise_error *err) {
  mt_waited w = {0};
  if (mt_client_check(c, true, err)) return NULL;
  mt_waited_for(c, begin_raw(c, request, mt_waited_keep, &w, err), &w, err);
  return w.outcome.answer;
}
