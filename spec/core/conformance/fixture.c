#include "conformance/conformance.h"

#include <stdio.h>

const char mt_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const char mt_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const char mt_c[] = "cccccccccccccccccccccccccccccccc";
const char mt_d[] = "0123456789abcdef0123456789abcdef";

static const char mappings[] =
    "\"mappings\":{\"dynamic\":false,\"properties\":{\"path\":{\"type\":\"keyword\"},"
    "\"tag\":{\"type\":\"keyword\"},\"opt\":{\"type\":\"keyword\"},\"n\":{\"type\":\"long\"},"
    "\"sub\":{\"properties\":{\"k\":{\"type\":\"keyword\"}}}}}";

mortise_status mt_create_index(mt_fixture *f, const char *index, const char *body) {
  mt_index_admin r = {.index = index, .body = mt_slice_of(body)};
  f->s->docs->index_create(f->s, &r);
  return mt_test_pump(f->s, &r.req);
}

mortise_status mt_drop_index(mt_fixture *f, const char *index) {
  mt_index_admin r = {.index = index};
  f->s->docs->index_drop(f->s, &r);
  return mt_test_pump(f->s, &r.req);
}

void mt_make_index(mt_fixture *f, unsigned shards) {
  char body[1024];
  snprintf(body, sizeof body,
           "{\"settings\":{\"number_of_shards\":%u,\"number_of_replicas\":0,"
           "\"refresh_interval\":\"30s\"},%s}",
           shards, mappings);
  mt_index_admin r = {.index = f->index, .body = mt_slice_of(body)};
  f->s->docs->index_create(f->s, &r);
  MT_OK(f, r);
  f->index_made = true;
}

mt_write mt_write_of(mt_write_kind kind, const char *id, const char *body) {
  return (mt_write){.kind = kind, .id = mt_slice_of(id), .body = mt_slice_of(body)};
}

void mt_bulk_run(mt_fixture *f, mt_write *items, size_t n) {
  mt_bulk r = {.index = f->index, .items = items, .n = n};
  f->s->docs->bulk(f->s, &r);
  MT_OK(f, r);
}

mt_write mt_write_one(mt_fixture *f, mt_write item) {
  mt_bulk_run(f, &item, 1);
  return item;
}

void mt_refresh_index(mt_fixture *f) {
  mt_refresh r = {.index = f->index};
  f->s->docs->refresh(f->s, &r);
  MT_OK(f, r);
}

uint64_t mt_count_of(mt_fixture *f, const char *query) {
  mt_count r = {.index = f->index, .query = mt_slice_of(query)};
  f->s->docs->count(f->s, &r);
  MT_OK(f, r);
  return r.count;
}

bool mt_get(mt_fixture *f, mt_slice id, mt_buf *source, mt_version *version) {
  mt_mget r = {.index = f->index, .ids = &id, .n = 1};
  f->s->docs->mget(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(r.page && r.page->n == 1, "one answer for one id");
  mt_doc *doc = &r.page->docs[0];
  bool found = doc->found;
  MT_CHECK(mt_slice_eq(doc->id, id), "asked for %.*s, got %.*s", (int)id.n, id.p, (int)doc->id.n,
           doc->id.p);
  if (found && source) mt_buf_addslice(source, doc->source);
  if (found && version) *version = doc->version;
  mt_mget_deinit(&r);
  return found;
}

bool mt_same_json(mt_slice a, const char *b) {
  json_t *x = json_loadb(a.p, a.n, JSON_DECODE_ANY, NULL);
  json_t *y = json_loads(b, JSON_DECODE_ANY, NULL);
  bool same = x && y && json_equal(x, y);
  json_decref(x);
  json_decref(y);
  return same;
}

static void fill_some(mt_fixture *f, size_t from, size_t n) {
  static char ids[500][16], bodies[500][160];
  mt_write items[500];
  for (size_t i = 0; i < n; i++) {
    size_t k = from + i;
    snprintf(ids[i], sizeof ids[i], "d%zu", k);
    snprintf(bodies[i], sizeof bodies[i], "{\"path\":\"/dir/d%zu\",\"n\":%zu,\"tag\":\"t%zu\"%s%s}",
             k, k, k % 5, k % 3 ? "" : ",\"opt\":\"yes\"",
             k % 2 ? "" : ",\"sub\":{\"k\":\"even\"}");
    items[i] = mt_write_of(MT_WRITE_CREATE, ids[i], bodies[i]);
  }
  mt_bulk_run(f, items, n);
  for (size_t i = 0; i < n; i++)
    MT_CHECK(items[i].result == MT_WRITE_APPLIED, "%s: %d %s %s", ids[i], items[i].status,
             items[i].type, items[i].reason);
}

void mt_fill(mt_fixture *f, size_t n) {
  for (size_t i = 0; i < n; i += 500) fill_some(f, i, n - i < 500 ? n - i : 500);
  mt_refresh_index(f);
}

const char *mt_lock_result_name(mt_lock_result result) {
  static const char *const names[] = {"NO_ANSWER", "ACKED",  "QUEUED",   "DENIED", "STALE",
                                      "EXISTS",    "ABSENT", "CONFLICT", "BUSY",   "FAILED"};
  return (size_t)result < sizeof names / sizeof *names ? names[result] : "?";
}

/* Every grant in the table gets a larger fence than any before it, whatever the path. */
static void check_fence(mt_fixture *f, const mt_lock_item *item) {
  bool grants =
      item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_SET || item->verb == MT_LOCK_ADOPT;
  if (item->result != MT_LOCK_ACKED || !grants) return;
  uint64_t fence = mt_version_fence(item->version);
  MT_CHECK(item->version.term >= 1, "a version has a term");
  MT_CHECK(fence > f->last_fence, "fence %llu after %llu", (unsigned long long)fence,
           (unsigned long long)f->last_fence);
  f->last_fence = fence;
}

mt_lock_result mt_lock(mt_fixture *f, const char *session, mt_lock_item item) {
  mt_lock_batch last = {.items = &f->item, .n = 1};
  mt_lock_batch_deinit(&last);
  f->item = item;
  mt_lock_batch r = {.ns = f->ns, .session = session, .items = &f->item, .n = 1};
  f->s->locks->batch(f->s, &r);
  MT_OK(f, r);
  check_fence(f, &f->item);
  return f->item.result;
}

mt_lock_result mt_set(mt_fixture *f, const char *session, const char *path, uint64_t n,
                      mt_mode mode) {
  return mt_lock(f, session,
                 (mt_lock_item){.verb = MT_LOCK_SET,
                                .place.path = mt_slice_of(path),
                                .n = n,
                                .mode = mode,
                                .fresh = true});
}

mt_lock_result mt_set_again(mt_fixture *f, const char *session, const char *path, uint64_t n,
                            mt_mode mode) {
  return mt_lock(
      f, session,
      (mt_lock_item){.verb = MT_LOCK_SET, .place.path = mt_slice_of(path), .n = n, .mode = mode});
}

mt_lock_result mt_set_queue(mt_fixture *f, const char *session, const char *path, uint64_t n,
                            mt_mode mode) {
  return mt_lock(f, session,
                 (mt_lock_item){.verb = MT_LOCK_SET,
                                .place.path = mt_slice_of(path),
                                .n = n,
                                .mode = mode,
                                .fresh = true,
                                .enqueue = true});
}

mt_lock_result mt_make(mt_fixture *f, const char *session, const char *path, uint64_t n,
                       mt_mode mode) {
  return mt_lock(
      f, session,
      (mt_lock_item){
          .verb = MT_LOCK_CREATE, .place.path = mt_slice_of(path), .n = n, .mode = mode});
}

mt_lock_result mt_release(mt_fixture *f, const char *session, const char *path, uint64_t n) {
  return mt_lock(f, session,
                 (mt_lock_item){.verb = MT_LOCK_RELEASE, .place.path = mt_slice_of(path), .n = n});
}

mt_lock_result mt_delete(mt_fixture *f, const char *session, const char *path, mt_version version) {
  return mt_lock(f, session,
                 (mt_lock_item){.verb = MT_LOCK_DELETE,
                                .place.path = mt_slice_of(path),
                                .if_version = version});
}

mt_lock_result mt_evict(mt_fixture *f, const char *session, const char *path, const char *dead) {
  return mt_lock(
      f, session,
      (mt_lock_item){.verb = MT_LOCK_EVICT, .place.path = mt_slice_of(path), .session = dead});
}

mt_lock_result mt_adopt(mt_fixture *f, const char *session, const char *path, uint64_t n,
                        const char *from) {
  return mt_lock(
      f, session,
      (mt_lock_item){
          .verb = MT_LOCK_ADOPT, .place.path = mt_slice_of(path), .n = n, .session = from});
}

bool mt_blocked_by(const mt_fixture *f, const char *session, mt_mode mode, bool queued) {
  for (size_t i = 0; i < f->item.n_blockers; i++) {
    const mt_lock_entry *e = &f->item.blockers[i];
    if (!strcmp(e->session, session) && e->mode == mode && e->queued == queued) return true;
  }
  return false;
}

json_t *mt_list_pages(mt_fixture *f, mt_lock_list r) {
  json_t *all = json_array();
  do {
    f->s->locks->list(f->s, &r);
    MT_OK(f, r);
    json_error_t err;
    json_t *page = json_loads(r.json, 0, &err);
    MT_CHECK(page, "the list is no JSON: %s in %.600s", err.text, r.json);
    MT_CHECK(json_array_size(page) <= (r.page ? r.page : MT_LIST_PAGE), "a page is too long");
    json_array_extend(all, page);
    json_decref(page);
    mt_lock_list_deinit(&r);
    memset(&r.req, 0, sizeof r.req);
  } while (r.listing);
  return all;
}

json_t *mt_list(mt_fixture *f, const char *ns) {
  json_t *list = json_object();
  json_object_set_new(list, "locks", mt_list_pages(f, (mt_lock_list){.ns = ns}));
  mt_lock_list sessions = {.kind = MT_LIST_SESSIONS, .ns = ns, .over = true};
  json_object_set_new(list, "sessions", mt_list_pages(f, sessions));
  return list;
}

bool mt_listed(mt_fixture *f, const char *path) {
  json_t *list = mt_list(f, f->ns), *lock;
  size_t i, seen = 0;
  json_array_foreach(json_object_get(list, "locks"), i, lock) {
    const char *at = json_string_value(json_object_get(lock, "path"));
    seen += at && !strcmp(at, path);
  }
  json_decref(list);
  MT_CHECK(seen <= 1, "%s is listed %zu times", path, seen);
  return seen == 1;
}

mt_session_result mt_session_do(mt_fixture *f, mt_session_write w, mt_version *version) {
  if (!w.ns) w.ns = f->ns;
  f->s->locks->session(f->s, &w);
  MT_OK(f, w);
  MT_CHECK(w.result == MT_SESSION_ACKED || w.result == MT_SESSION_REFUSED, "result %d", w.result);
  if (w.result == MT_SESSION_ACKED)
    MT_CHECK(w.version.term >= 1, "an acknowledged write has a version");
  if (version && w.result == MT_SESSION_ACKED) *version = w.version;
  return w.result;
}
