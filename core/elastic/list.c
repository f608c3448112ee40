/* Listing locks and sessions for people: as a search sees them, the first ten thousand of each. */
#include "base/mem.h"
#include "elastic/internal.h"

enum { LIST_MAX = 10000, LIST_BYTES = 256 * 1024 * 1024 };

/* The part of an _id behind "NS:" (of any namespace where `ns` is NULL). */
static bool in_namespace(const mt_lock_list *r, mt_slice id, mt_slice *ns, mt_slice *rest) {
  const char *colon = memchr(id.p, ':', id.n);
  if (!colon) return false;
  *ns = (mt_slice){id.p, (size_t)(colon - id.p)};
  *rest = (mt_slice){colon + 1, id.n - ns->n - 1};
  return !r->ns || mt_slice_eq(*ns, mt_slice_of(r->ns));
}

static void add_member(mt_buf *out, mt_json source, const char *key) {
  mt_json value = mt_json_get(source, key);
  mt_json_add_key(out, key);
  mt_buf_addslice(out, value.type ? value.raw : MT_SLICE("null"));
}

static void add_lock(mt_buf *out, mt_json source, mt_slice ns, mt_slice rest) {
  (void)rest;
  mt_buf_adds(out, "{\"ns\":");
  mt_json_add_string(out, ns);
  add_member(out, source, "path");
  add_member(out, source, "holders");
  add_member(out, source, "queue");
  mt_buf_adds(out, "}");
}

static void add_session(mt_buf *out, mt_json source, mt_slice ns, mt_slice rest) {
  static const char *const keys[] = {"state", "lease_ms", "opened", "beat_at", "owner", "waiting"};
  mt_buf_adds(out, "{\"ns\":");
  mt_json_add_string(out, ns);
  mt_json_add_key(out, "session");
  mt_json_add_string(out, (mt_slice){rest.p + 1, rest.n - 1});
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) add_member(out, source, keys[i]);
  mt_buf_adds(out, "}");
}

static void add_hits(mt_buf *out, const mt_lock_list *r, mt_json answer,
                     void (*add)(mt_buf *out, mt_json source, mt_slice ns, mt_slice rest)) {
  mt_buf id;
  mt_buf_init(&id, 4 * MT_ID_MAX);
  mt_buf_adds(out, "[");
  for (mt_json_iter it = mt_json_items(mt_json_at(answer, "hits", "hits", NULL));
       mt_json_next(&it);) {
    mt_slice ns, rest;
    mt_buf_clear(&id);
    if (!mt_json_text(mt_json_get(it.value, "_id"), &id)) continue;
    if (id.failed) out->failed = id.failed;
    if (!in_namespace(r, mt_buf_slice(&id), &ns, &rest) || !rest.n) continue;
    if (out->n && out->p[out->n - 1] != '[') mt_buf_addc(out, ',');
    add(out, mt_json_get(it.value, "_source"), ns, rest);
  }
  mt_buf_adds(out, "]");
  mt_buf_deinit(&id);
}

static bool failed_search(mt_call *c, mt_json answer) {
  char type[96], reason[256];
  mt_json error = mt_json_get(answer, "error");
  if (!error.type && answer.type) return false;
  mt_json_copy(mt_json_get(error, "type"), type, sizeof type);
  if (!strcmp(type, "index_not_found_exception"))
    mt_table_gone(c->e, &c->req->error);
  else
    mt_error_set(&c->req->error, MORTISE_UNAVAILABLE, "listing lock table \"%s\": %s: %s",
                 c->e->table, type,
                 mt_json_copy(mt_json_get(error, "reason"), reason, sizeof reason));
  return true;
}

static void on_list(mt_call *c) {
  mt_lock_list *r = (mt_lock_list *)c->req;
  mt_json root, answers[2] = {0};
  if (!mt_call_ok(c, "list lock table", c->e->table)) return;
  if (!mt_call_json(c, "the answer to a listing", &root)) return;
  mt_json_iter it = mt_json_items(mt_json_get(root, "responses"));
  for (size_t i = 0; i < 2 && mt_json_next(&it); i++) answers[i] = it.value;
  if (!failed_search(c, answers[0]) && !failed_search(c, answers[1])) {
    mt_buf out;
    mt_buf_init(&out, LIST_BYTES);
    mt_buf_adds(&out, "{\"locks\":");
    add_hits(&out, r, answers[0], add_lock);
    mt_buf_adds(&out, ",\"sessions\":");
    add_hits(&out, r, answers[1], add_session);
    mt_buf_adds(&out, "}");
    if (!mt_buf_status(&out, "the list of locks", &r->req.error)) r->json = mt_buf_take(&out, NULL);
    mt_buf_deinit(&out);
  }
  mt_call_finish(c);
}

/* Who may only read cannot refresh, and sees what a search sees. */
static void on_refreshed(mt_call *c) {
  mortise_status status = mt_call_check(c, "refresh lock table", c->e->table);
  if (status && status != MORTISE_AUTH) {
    if (status == MORTISE_NOT_FOUND) mt_table_gone(c->e, &c->req->error);
    mt_call_finish(c);
    return;
  }
  mt_error_clear(&c->req->error);
  mt_call_again(c);
  mt_buf_addf(&c->path, "/%s/_msearch", c->e->table);
  mt_buf_addf(&c->body,
              "{}\n{\"size\":%d,\"query\":{\"term\":{\"kind\":\"lock\"}},\"sort\":[\"path\"]}\n"
              "{}\n{\"size\":%d,\"query\":{\"term\":{\"kind\":\"session\"}},"
              "\"sort\":[{\"state\":\"desc\"},{\"beat_at\":\"desc\"}]}\n",
              LIST_MAX, LIST_MAX);
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_list);
}

void mt_elastic_list(mt_store *s, mt_lock_list *r) {
  r->json = NULL;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (r->ns && !mt_ns_valid(r->ns)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "\"%.80s\" is no namespace", r->ns);
    return;
  }
  mt_buf_addf(&c->path, "/%s/_refresh", c->e->table);
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_refreshed);
}
