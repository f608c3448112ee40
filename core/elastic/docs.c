/* Document calls of one request each. */
#include "elastic/page.h"

#include "base/mem.h"
#include "base/utf8.h"

/* ---- Indices -------------------------------------------------------------------------------- */

static void on_index_created(mt_call *c) {
  mt_index_admin *r = (mt_index_admin *)c->req;
  if (mt_call_check(c, "create index", r->index) &&
      !strcmp(r->req.error.type, "resource_already_exists_exception"))
    r->req.error.code = MORTISE_CONFLICT;
  mt_call_finish(c);
}

void mt_elastic_index_create(mt_store *s, mt_index_admin *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !mt_call_index(c, r->index, true)) return;
  mt_buf_addslice(&c->body, r->body);
  mt_call_send(c, "PUT", on_index_created);
}

static void on_index_dropped(mt_call *c) {
  if (mt_call_ok(c, "drop index", ((mt_index_admin *)c->req)->index)) mt_call_finish(c);
}

void mt_elastic_index_drop(mt_store *s, mt_index_admin *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !mt_call_index(c, r->index, true)) return;
  mt_call_send(c, "DELETE", on_index_dropped);
}

/* ---- Get by id ------------------------------------------------------------------------------ */

static mortise_status say_unread(const mt_mget *r, mt_json error, mortise_error *err) {
  char type[96], reason[256];
  mt_json_copy(mt_json_get(error, "type"), type, sizeof type);
  mt_json_copy(mt_json_get(error, "reason"), reason, sizeof reason);
  mortise_status code = MORTISE_UNAVAILABLE;
  if (!strcmp(type, "index_not_found_exception")) code = MORTISE_NOT_FOUND;
  /* An alias of several indices, or a missing routing. */
  if (!strcmp(type, "illegal_argument_exception") || !strcmp(type, "routing_missing_exception"))
    code = MORTISE_REJECTED;
  mt_error_set(err, code, "get from %s: %s: %s", r->index, type, reason);
  memcpy(err->type, type, sizeof type);
  memcpy(err->reason, reason, sizeof reason);
  return code;
}

static mortise_status read_docs(const mt_mget *r, mt_page *page, mt_json root, mortise_error *err) {
  size_t cap = 0;
  for (mt_json_iter it = mt_json_items(mt_json_get(root, "docs")); mt_json_next(&it);) {
    mt_json error = mt_json_get(it.value, "error");
    if (error.type) return say_unread(r, error, err);
    if (mt_page_add(page, &cap, it.value, r->no_source, err)) return err->code;
    if (page->n <= r->n && !mt_slice_eq(page->docs[page->n - 1].id, r->ids[page->n - 1]))
      return mt_error_set(err, MORTISE_UNAVAILABLE,
                          "get from %s: what answered is not understood: "
                          "document %zu is not the one that was asked for",
                          r->index, page->n);
  }
  if (page->n == r->n) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE,
                      "get from %s: %zu documents asked for, %zu answered", r->index, r->n,
                      page->n);
}

static void on_mget(mt_call *c) {
  mt_mget *r = (mt_mget *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "get from", r->index)) return;
  if (!mt_call_json(c, "the answer to a get", &root)) return;
  r->page = mt_page_take(c);
  if (!r->page)
    mt_error_memory(&r->req.error);
  else if (read_docs(r, r->page, root, &r->req.error))
    mt_mget_deinit(r);
  mt_call_finish(c);
}

/* False if an id is invalid, since it would fail the whole request. */
static bool build_mget(mt_buf *b, const mt_mget *r) {
  mt_buf_adds(b, "{\"docs\":[");
  for (size_t i = 0; i < r->n; i++) {
    if (!r->ids[i].n || mt_utf8_valid(r->ids[i]) != r->ids[i].n) return false;
    mt_buf_adds(b, i ? ",{\"_id\":" : "{\"_id\":");
    mt_json_add_string(b, r->ids[i]);
    if (r->routing && r->routing[i].p) {
      mt_buf_adds(b, ",\"routing\":");
      mt_json_add_string(b, r->routing[i]);
    }
    mt_buf_adds(b, "}");
  }
  mt_buf_adds(b, "]}");
  return true;
}

static void mget(mt_call *c) {
  mt_mget *r = (mt_mget *)c->req;
  if (!mt_call_index(c, r->index, true)) return;
  mt_server v = c->e->server;
  bool vectors = !v.opensearch && (v.major > 9 || (v.major == 9 && v.minor >= 2));
  mt_buf_adds(&c->path, r->no_source ? "/_mget?_source=false"
                        : vectors    ? "/_mget?_source_exclude_vectors=false"
                                     : "/_mget");
  if (!build_mget(&c->body, r)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "get from %s: an id is empty or no UTF-8", r->index);
    return;
  }
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_mget);
}

void mt_elastic_mget(mt_store *s, mt_mget *r) {
  mt_elastic *e = mt_elastic_of(s);
  r->page = NULL;
  mt_call *c = mt_call_new(e, &r->req);
  if (!c) return;
  if (!r->n) {
    r->page = mt_calloc(1, sizeof *r->page);
    if (!r->page) mt_error_memory(&r->req.error);
    mt_call_finish_soon(c);
    return;
  }
  mt_server_need(c, mget);
}

/* ---- Counting and searching ----------------------------------------------------------------- */

static void on_count(mt_call *c) {
  mt_count *r = (mt_count *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "count in", r->index)) return;
  if (!mt_call_json(c, "the answer to a count", &root)) return;
  if (mt_shards_check(root, "count in", r->index, &r->req.error)) {
    if (mt_call_repeat(c)) return;
  } else if (!mt_json_uint(mt_json_get(root, "count"), &r->count)) {
    mt_error_set(&r->req.error, MORTISE_UNAVAILABLE, "count in %s: no number in the answer",
                 r->index);
  }
  mt_call_finish(c);
}

void mt_elastic_count(mt_store *s, mt_count *r) {
  r->count = 0;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !mt_call_index(c, r->index, false)) return;
  mt_buf_adds(&c->path, "/_count");
  if (r->query.n) {
    mt_buf_adds(&c->body, "{\"query\":");
    mt_buf_addslice(&c->body, r->query);
    mt_buf_adds(&c->body, "}");
  }
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_count);
}

static void on_refresh(mt_call *c) {
  mt_refresh *r = (mt_refresh *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "refresh", r->index)) return;
  if (!mt_call_json(c, "the answer to a refresh", &root)) return;
  if (mt_shards_check(root, "refresh", r->index, &r->req.error) && mt_call_repeat(c)) return;
  mt_call_finish(c);
}

void mt_elastic_refresh(mt_store *s, mt_refresh *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !mt_call_index(c, r->index, false)) return;
  mt_buf_adds(&c->path, "/_refresh");
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_refresh);
}

static void take_answer(mt_call *c, char **answer, size_t *n) {
  *answer = mt_buf_take(&c->http.answer, n);
  if (!*answer) mt_error_memory(&c->req->error);
}

static void on_search(mt_call *c) {
  mt_search *r = (mt_search *)c->req;
  if (!mt_call_ok(c, "search in", r->index)) return;
  take_answer(c, &r->answer, &r->answer_n);
  mt_call_finish(c);
}

void mt_elastic_search(mt_store *s, mt_search *r) {
  r->answer = NULL;
  r->answer_n = 0;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !mt_call_index(c, r->index, false)) return;
  mt_buf_adds(&c->path, "/_search?allow_partial_search_results=false");
  mt_buf_addslice(&c->body, r->body);
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_search);
}

/* ---- Any request ---------------------------------------------------------------------------- */

/* A complete answer of any status counts as success. */
static void on_raw(mt_call *c) {
  mt_raw *r = (mt_raw *)c->req;
  r->status = c->http.status;
  if (c->http.error.code)
    r->req.error = c->http.error;
  else
    take_answer(c, &r->answer, &r->answer_n);
  mt_call_finish(c);
}

void mt_elastic_raw(mt_store *s, mt_raw *r) {
  r->answer = NULL;
  r->answer_n = 0;
  r->status = 0;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (!r->path || r->path[0] != '/') {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "a request's path begins with \"/\"");
    return;
  }
  mt_buf_adds(&c->path, r->path);
  mt_buf_addslice(&c->body, r->body);
  c->http.content_type = r->content_type;
  mt_call_send(c, r->method, on_raw);
}
