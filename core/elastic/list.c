/* Listing locks and sessions for people, and reading locks by path.
 *
 * A listing is a scroll: every server supports it, it shows one moment, and it returns each
 * document once. The scroll is cleared after the last page and after an error, since servers limit
 * their number. */
#include "elastic/page.h"

#include "base/mem.h"

#include <stdio.h>

enum { LIST_BYTES = 256 * 1024 * 1024, SCROLL_ID_MAX = 1 << 20, END_MS = 2000 };
#define KEEP "2m"

struct mt_listing {
  mt_elastic *e;
  mt_buf scroll_id; /* raw, with quotes */
  uint64_t total, received;
  mortise_error error; /* of the page, kept while the scroll is being cleared */
  mt_listing *prev, *next;
};

/* ---- What is shown -------------------------------------------------------------------------- */

/* Splits an _id at "NS:"; false unless the namespace is `only` (NULL: any). */
static bool in_namespace(const char *only, mt_slice id, mt_slice *ns, mt_slice *rest) {
  const char *colon = memchr(id.p, ':', id.n);
  if (!colon) return false;
  *ns = (mt_slice){id.p, (size_t)(colon - id.p)};
  *rest = (mt_slice){colon + 1, id.n - ns->n - 1};
  return rest->n && (!only || mt_slice_eq(*ns, mt_slice_of(only)));
}

/* Appends the name of the document's place, which its _id determines, not its content. If the _id has a hash,
 * the `path` in the document counts if it has that hash. */
static bool name_of_id(const char *ns, mt_slice rest, mt_json path, mt_buf *out) {
  if (*rest.p == '/') {
    mt_buf_addslice(out, rest);
    return true;
  }
  mt_buf id;
  mt_buf_init(&id, 4 * MT_ID_MAX);
  size_t before = out->n;
  bool good = mt_json_text(path, out) && !out->failed;
  if (good) mt_lock_id(&id, ns, mt_place_of_name((mt_slice){out->p + before, out->n - before}));
  size_t prefix = strlen(ns) + 1;
  good = good && id.n > prefix && mt_slice_eq((mt_slice){id.p + prefix, id.n - prefix}, rest);
  mt_buf_deinit(&id);
  if (good) return true;
  mt_buf_cut(out, before);
  mt_buf_addslice(out, rest);
  return false;
}

static void add_listed_lock(mt_buf *out, mt_json source, mt_slice ns, mt_place place, bool sound) {
  mt_buf_adds(out, out->n && out->p[out->n - 1] == '}' ? ",{\"ns\":" : "{\"ns\":");
  mt_json_add_string(out, ns);
  mt_place_add_json(out, place);
  mt_json_add_key(out, "holders");
  mt_entries_add_json(out, sound ? mt_json_get(source, "holders") : (mt_json){0}, false);
  mt_json_add_key(out, "queue");
  mt_entries_add_json(out, mt_json_get(source, "queue"), true);
  mt_buf_addc(out, '}');
}

static void add_hit_lock(mt_buf *out, mt_json source, mt_slice ns, mt_slice rest) {
  char name[MT_ID_MAX];
  mt_buf place;
  mt_buf_init(&place, LIST_BYTES);
  snprintf(name, sizeof name, "%.*s", (int)ns.n, ns.p);
  bool sound = name_of_id(name, rest, mt_json_get(source, "path"), &place);
  if (place.failed) out->failed = place.failed;
  add_listed_lock(out, source, ns, mt_place_of_name(mt_buf_slice(&place)), sound);
  mt_buf_deinit(&place);
}

/* `rest` is "@ID". An invalid session id is skipped: nobody uses it and it blocks nobody. */
static void add_listed_session(mt_buf *out, const mt_lock_list *r, mt_json source, mt_slice ns,
                               mt_slice rest) {
  mt_session_doc doc = {0};
  mt_slice begins = mt_slice_of(r->session);
  snprintf(doc.session, sizeof doc.session, "%.*s", (int)rest.n - 1, rest.p + 1);
  if (rest.n != MT_SESSION_ID || !mt_session_valid(doc.session) ||
      (begins.n && memcmp(doc.session, begins.p, begins.n) != 0))
    return;
  if (mt_session_read_json(source, &doc))
    mt_session_add(out, ns, &doc);
  else
    out->failed = MORTISE_OUT_OF_MEMORY;
  mt_session_doc_deinit(&doc);
}

static bool add_list_hit(mt_buf *out, const mt_lock_list *r, mt_json hit, mt_buf *id) {
  mt_slice ns, rest;
  mt_json source = mt_json_get(hit, "_source");
  mt_buf_clear(id);
  if (!mt_json_text(mt_json_get(hit, "_id"), id)) return false;
  if (id->failed) out->failed = id->failed;
  if (id->failed || !in_namespace(r->ns, mt_buf_slice(id), &ns, &rest)) return true;
  bool session = *rest.p == '@';
  if (session != (r->kind == MT_LIST_SESSIONS)) return true;
  if (session)
    add_listed_session(out, r, source, ns, rest);
  else
    add_hit_lock(out, source, ns, rest);
  return true;
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static mortise_status end_array(mt_buf *out, char **json, mortise_error *err) {
  mt_buf_addc(out, ']');
  if (!mt_buf_status(out, "a page of the list", err)) *json = mt_buf_take(out, NULL);
  mt_buf_deinit(out);
  return err->code;
}

static mortise_status list_hits(mt_lock_list *r, mt_json hits, mortise_error *err) {
  mt_buf out, id;
  uint64_t n = 0;
  mt_buf_init(&out, LIST_BYTES);
  mt_buf_init(&id, 4 * MT_ID_MAX);
  mt_buf_addc(&out, '[');
  bool good = true;
  for (mt_json_iter it = mt_json_items(mt_json_get(hits, "hits")); good && mt_json_next(&it); n++)
    good = add_list_hit(&out, r, it.value, &id);
  mt_buf_deinit(&id);
  if (!good) {
    mt_buf_deinit(&out);
    return mt_error_set(err, MORTISE_UNAVAILABLE,
                        "listing lock table \"%s\": what answered is not understood: a document "
                        "without an id",
                        r->listing->e->table);
  }
  if (end_array(&out, &r->json, err)) return err->code;
  mt_listing *l = r->listing;
  l->received += n;
  if (l->received <= l->total && (n || l->received == l->total)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE,
                      "listing lock table \"%s\": %llu of %llu documents came", l->e->table,
                      (unsigned long long)l->received, (unsigned long long)l->total);
}

static mortise_status read_list_page(mt_call *c, mortise_error *err) {
  mt_lock_list *r = (mt_lock_list *)c->req;
  mt_listing *l = r->listing;
  mt_json root;
  if (mt_json_parse(mt_buf_slice(&c->http.answer), "a page of the list", &root, err)) {
    err->code = MORTISE_UNAVAILABLE;
    return err->code;
  }
  mt_json id = mt_json_get(root, "_scroll_id"), hits = mt_json_get(root, "hits");
  mt_json total = mt_json_get(hits, "total");
  bool first = !l->scroll_id.n;
  mt_buf_clear(&l->scroll_id);
  if (id.type == MT_JSON_STRING) mt_buf_addslice(&l->scroll_id, id.raw);
  if (mt_buf_status(&l->scroll_id, "a list's cursor", err)) return err->code;
  if (mt_shards_check(root, "listing lock table", l->e->table, err)) return err->code;
  if (!l->scroll_id.n || (first && (!mt_json_uint(mt_json_get(total, "value"), &l->total) ||
                                    !mt_json_is(mt_json_get(total, "relation"), "eq"))))
    return mt_error_set(err, MORTISE_UNAVAILABLE,
                        "listing lock table \"%s\": the answer has no cursor or no exact total",
                        l->e->table);
  return list_hits(r, hits, err);
}

static void free_listing(mt_listing *l) {
  if (!l) return;
  if (l->prev)
    l->prev->next = l->next;
  else
    l->e->listings = l->next;
  if (l->next) l->next->prev = l->prev;
  mt_buf_deinit(&l->scroll_id);
  mt_free(l);
}

void mt_listings_free(mt_elastic *e) {
  while (e->listings) free_listing(e->listings);
}

static mt_listing *new_listing(mt_elastic *e) {
  mt_listing *l = mt_calloc(1, sizeof *l);
  if (!l) return NULL;
  l->e = e;
  l->next = e->listings;
  if (l->next) l->next->prev = l;
  e->listings = l;
  mt_buf_init(&l->scroll_id, SCROLL_ID_MAX);
  return l;
}

static void on_ended(mt_call *c) {
  mt_lock_list *r = (mt_lock_list *)c->req;
  r->req.error = r->listing->error; /* a scroll that could not be cleared expires by itself */
  free_listing(r->listing);
  r->listing = NULL;
  mt_call_finish(c);
}

static void send_end(mt_call *c, const mt_listing *l, void (*answered)(mt_call *c)) {
  mt_call_again(c);
  mt_buf_adds(&c->path, "/_search/scroll");
  mt_buf_adds(&c->body, "{\"scroll_id\":[");
  mt_buf_addslice(&c->body, mt_buf_slice(&l->scroll_id));
  mt_buf_adds(&c->body, "]}");
  c->http.idempotent = true;
  mt_call_send(c, "DELETE", answered);
}

/* Waits until the scroll is cleared, since a program that exits next would not send the request. */
static void end_listing(mt_call *c) {
  mt_listing *l = ((mt_lock_list *)c->req)->listing;
  int64_t soon = mt_loop_now(c->e->store.loop) + END_MS;
  if (c->deadline_ms < soon) c->deadline_ms = soon;
  if (l->scroll_id.n)
    send_end(c, l, on_ended);
  else
    on_ended(c);
}

static void on_list_page(mt_call *c) {
  mt_lock_list *r = (mt_lock_list *)c->req;
  mt_listing *l = r->listing;
  mortise_status status = mt_call_check(c, "listing lock table", c->e->table);
  l->error = r->req.error;
  if (status == MORTISE_NOT_FOUND && !l->scroll_id.n) mt_table_gone(c->e, &l->error);
  if (status == MORTISE_NOT_FOUND && l->scroll_id.n) l->error.code = MORTISE_UNAVAILABLE;
  if (!status) status = read_list_page(c, &l->error);
  if (status) mt_lock_list_deinit(r);
  r->req.error = l->error;
  if (status || l->received == l->total)
    end_listing(c);
  else
    mt_call_finish(c);
}

/* ---- The request ---------------------------------------------------------------------------- */

static void add_term(mt_buf *b, const char *kind, const char *field, mt_slice value,
                     const char *more) {
  mt_buf_addf(b, "{\"%s\":{\"%s\":", kind, field);
  if (!*more) {
    mt_json_add_string(b, value);
  } else {
    mt_buf longer;
    mt_buf_init(&longer, value.n + 2);
    mt_buf_addslice(&longer, value);
    mt_buf_adds(&longer, more);
    if (longer.failed) b->failed = longer.failed;
    mt_json_add_string(b, mt_buf_slice(&longer));
    mt_buf_deinit(&longer);
  }
  mt_buf_adds(b, "}}");
}

/* Only a target has `sessions`, and then all who hold something there are among them. */
static void add_holders(mt_buf *b, const mt_lock_list *r) {
  mt_buf_adds(b, ",{\"bool\":{\"minimum_should_match\":1,\"should\":[{\"bool\":{\"must_not\":[{"
                 "\"exists\":{\"field\":\"sessions\"}}]}},{\"terms\":{\"sessions\":[");
  for (size_t i = 0; i < r->n_holders; i++) {
    if (i) mt_buf_addc(b, ',');
    mt_json_add_string(b, mt_slice_of(r->holders[i]));
  }
  mt_buf_adds(b, "]}}]}}");
}

static void add_query(mt_buf *b, const mt_lock_list *r) {
  bool locks = r->kind == MT_LIST_LOCKS;
  /* A lock is any document that is not a session or has a path, since one with a missing or wrong
   * `kind` still blocks others. */
  mt_buf_adds(b, locks ? "{\"bool\":{\"filter\":[{\"match_all\":{}}" : "{\"bool\":{\"filter\":[");
  if (!locks) add_term(b, "term", "kind", MT_SLICE("session"), "");
  if (locks && r->path.n > 1) {
    mt_buf_adds(b, ",{\"bool\":{\"minimum_should_match\":1,\"should\":[");
    add_term(b, "term", "path", r->path, "");
    mt_buf_addc(b, ',');
    add_term(b, "prefix", "path", r->path, "/");
    mt_buf_adds(b, "]}}");
  }
  if (locks && r->session) {
    mt_buf_addc(b, ',');
    add_term(b, "prefix", "sessions", mt_slice_of(r->session), "");
  }
  if (locks && r->n_holders) add_holders(b, r);
  mt_buf_adds(b, "],\"must_not\":[");
  if (locks) {
    mt_buf_adds(b, "{\"bool\":{\"must_not\":[{\"exists\":{\"field\":\"path\"}}],\"filter\":[");
    add_term(b, "term", "kind", MT_SLICE("session"), "");
    mt_buf_adds(b, "]}}");
  }
  if (!locks && !r->over) mt_buf_adds(b, "{\"terms\":{\"state\":[\"closed\",\"expired\"]}}");
  mt_buf_adds(b, "]}}");
}

/* Without the right to refresh, the listing shows what searches see now. */
static void on_list_refreshed(mt_call *c) {
  mt_lock_list *r = (mt_lock_list *)c->req;
  mortise_status status = mt_call_check(c, "refresh lock table", c->e->table);
  if (status && status != MORTISE_AUTH) {
    if (status == MORTISE_NOT_FOUND) mt_table_gone(c->e, &r->req.error);
    r->listing->error = r->req.error;
    end_listing(c);
    return;
  }
  r->stale = status == MORTISE_AUTH;
  mt_error_clear(&r->req.error);
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_search?scroll=" KEEP "&allow_partial_search_results=false",
              c->e->table);
  mt_buf_addf(&c->body, "{\"size\":%u,\"track_total_hits\":true,\"sort\":[\"%s\"],\"query\":",
              r->page ? r->page : MT_LIST_PAGE,
              r->kind == MT_LIST_LOCKS && !r->unsorted ? "path" : "_doc");
  add_query(&c->body, r);
  mt_buf_addc(&c->body, '}');
  c->http.idempotent = true; /* at worst a cursor remains until its keep-alive ends */
  mt_call_send(c, "POST", on_list_page);
}

static void next_page(mt_call *c, const mt_listing *l) {
  mt_buf_adds(&c->path, "/_search/scroll");
  mt_buf_adds(&c->body, "{\"scroll\":\"" KEEP "\",\"scroll_id\":");
  mt_buf_addslice(&c->body, mt_buf_slice(&l->scroll_id));
  mt_buf_adds(&c->body, "}");
  mt_call_send(c, "POST", on_list_page); /* never sent twice, which would skip a page */
}

static bool is_prefix(const char *session) {
  size_t n = strspn(session, "0123456789abcdef");
  return !session[n] && n < MT_SESSION_ID;
}

static bool list_is_fit(const mt_lock_list *r) {
  return (!r->ns || mt_ns_valid(r->ns)) && r->page <= MT_LIST_PAGE_MAX &&
         (!r->session || is_prefix(r->session));
}

/* Opens a new listing, also after an opening that was cancelled before it had a cursor. */
static void begin_listing(mt_call *c, mt_lock_list *r) {
  free_listing(r->listing);
  r->listing = r->end ? NULL : new_listing(c->e);
  if (!r->listing) {
    if (!r->end) mt_error_memory(&r->req.error);
    mt_call_finish_soon(c);
    return;
  }
  mt_buf_addf(&c->path, "/%s/_refresh", c->e->table);
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_list_refreshed);
}

void mt_elastic_list(mt_store *s, mt_lock_list *r) {
  r->json = NULL;
  r->req.idempotent = false;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (!list_is_fit(r)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT,
                  "a list's namespace or session is none, or its page is larger than %d",
                  MT_LIST_PAGE_MAX);
  } else if (r->listing && r->listing->scroll_id.n) {
    mt_error_clear(&r->listing->error);
    if (r->end)
      end_listing(c);
    else
      next_page(c, r->listing);
  } else {
    begin_listing(c, r);
  }
}

void mt_elastic_list_close(mt_store *s, mt_listing *l) {
  mt_call *c = l && l->scroll_id.n ? mt_call_new(mt_elastic_of(s), NULL) : NULL;
  if (c) send_end(c, l, mt_call_drop);
  free_listing(l);
}

/* ---- By place -------------------------------------------------------------------------------- */

static bool is_of_place(const mt_lock_read *r, mt_place place, mt_json answer) {
  mt_buf want, got;
  mt_buf_init(&want, 4 * MT_ID_MAX);
  mt_buf_init(&got, 4 * MT_ID_MAX);
  mt_lock_id(&want, r->ns, place);
  bool same = mt_json_text(mt_json_get(answer, "_id"), &got) && !want.failed && !got.failed &&
              mt_slice_eq(mt_buf_slice(&want), mt_buf_slice(&got));
  mt_buf_deinit(&want);
  mt_buf_deinit(&got);
  return same;
}

static mortise_status read_locks(const mt_call *c, mt_lock_read *r, mt_json root,
                                 mortise_error *err) {
  size_t n = 0;
  mt_buf out;
  mt_buf_init(&out, LIST_BYTES);
  mt_buf_addc(&out, '[');
  for (mt_json_iter it = mt_json_items(mt_json_get(root, "docs")); mt_json_next(&it); n++) {
    bool found = false;
    mt_json error = mt_json_get(it.value, "error");
    bool asked = n < r->n && is_of_place(r, r->places[n], it.value);
    if (error.type && !err->code) {
      char type[96], reason[256];
      mt_error_set(err, MORTISE_UNAVAILABLE, "reading lock table \"%s\": %s: %s", c->e->table,
                   mt_json_copy(mt_json_get(error, "type"), type, sizeof type),
                   mt_json_copy(mt_json_get(error, "reason"), reason, sizeof reason));
      if (!strcmp(type, "index_not_found_exception")) mt_table_gone(c->e, err);
    }
    if (!err->code && (!asked || !mt_json_bool(mt_json_get(it.value, "found"), &found)))
      mt_error_set(
          err, MORTISE_UNAVAILABLE,
          "reading lock table \"%s\": what answered is not understood: document %zu is not "
          "the one that was asked for",
          c->e->table, n + 1);
    if (found)
      add_listed_lock(&out, mt_json_get(it.value, "_source"), mt_slice_of(r->ns), r->places[n],
                      true);
  }
  if (n != r->n && !err->code)
    mt_error_set(err, MORTISE_UNAVAILABLE, "%zu locks were read, %zu came", r->n, n);
  if (!err->code) return end_array(&out, &r->json, err);
  mt_buf_deinit(&out);
  return err->code;
}

static void on_locks_read(mt_call *c) {
  mt_lock_read *r = (mt_lock_read *)c->req;
  mt_json root;
  if (mt_call_check(c, "read lock table", c->e->table)) {
    if (c->http.status == 404) mt_table_gone(c->e, &r->req.error);
    mt_call_finish(c);
    return;
  }
  if (!mt_call_json(c, "the answer to a read of locks", &root)) return;
  read_locks(c, r, root, &r->req.error);
  mt_call_finish(c);
}

void mt_elastic_lock_read(mt_store *s, mt_lock_read *r) {
  r->json = NULL;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (!mt_ns_valid(r->ns) || !r->n) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "locks are read by a namespace and places");
    return;
  }
  mt_buf id;
  mt_buf_init(&id, MT_PATH_BUF_MAX);
  mt_buf_addf(&c->path, "/%s/_mget", c->e->table);
  mt_buf_adds(&c->body, "{\"ids\":[");
  for (size_t i = 0; i < r->n; i++) {
    mt_buf_clear(&id);
    mt_lock_id(&id, r->ns, r->places[i]);
    if (id.failed) c->body.failed = id.failed;
    if (i) mt_buf_addc(&c->body, ',');
    mt_json_add_string(&c->body, mt_buf_slice(&id));
  }
  mt_buf_adds(&c->body, "]}");
  mt_buf_deinit(&id);
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_locks_read);
}
