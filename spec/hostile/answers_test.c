/* Answers of a server, changed in one place: for each kind of request a sound answer is taken apart,
 * one value or byte of it changed, and the store that asked reads it. Whatever comes, nothing crashes,
 * the request ends, and nothing is believed that the answer does not say: an error says what is wrong.
 *
 *   answers_test [SECONDS]    MORTISE_TEST_SEED repeats a run; without SECONDS a few */
#include "change.h"

#include "base/clock.h"
#include "base/mem.h"
#include "elastic/elastic.h"
#include "elastic/internal.h"
#include "support/support.h"
#include "transform/transform.h"

#include "../core/http_server.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARDS "\"_shards\":{\"total\":1,\"successful\":1,\"skipped\":0,\"failed\":0}"
#define WRITTEN(op, id, status, result, seq)                                                       \
  "{\"" op "\":{\"_id\":\"" id "\",\"status\":" status ",\"result\":\"" result                     \
  "\",\"_seq_no\":" seq ",\"_primary_term\":1}}"
#define REFUSED(op, id, status, type)                                                              \
  "{\"" op "\":{\"_id\":\"" id "\",\"status\":" status ",\"error\":{\"type\":\"" type              \
  "\",\"reason\":\"why\",\"caused_by\":{\"type\":\"t\",\"reason\":\"r\"}}}}"
#define WAITER(session, n)                                                                         \
  "{\"session\":\"" session "\",\"n\":" n ",\"mode\":\"X\",\"until\":1700000000000}"
#define LOCK                                                                                       \
  "{\"kind\":\"lock\",\"path\":\"/a\",\"holders\":[" ENTRY(OTHER, "4") "],\"queue\":[" WAITER(     \
      OTHER, "5") "]}"
#define SESSION                                                                                    \
  "{\"kind\":\"session\",\"owner\":{\"host\":\"h\",\"pid\":1},\"lease_ms\":60000,"                 \
  "\"state\":\"live\",\"opened\":1700000000000,\"beat_at\":1700000000000,"                         \
  "\"waiting\":[{\"after\":5}]}"
#define DOC(id, seq)                                                                               \
  "{\"_index\":\"x\",\"_id\":\"" id "\",\"_seq_no\":" seq                                          \
  ",\"_primary_term\":1,\"found\":true,\"_routing\":\"r\",\"_source\":{\"path\":\"/a\\n\"}}"
#define HITS(total, hits)                                                                          \
  "{\"_scroll_id\":\"c1\",\"timed_out\":false," SHARDS ",\"hits\":{\"total\":{\"value\":" total    \
  ",\"relation\":\"eq\"},\"hits\":[" hits "]}}"
#define HIT(id, source)                                                                            \
  "{\"_index\":\"i\",\"_id\":\"" id "\",\"_seq_no\":7,\"_primary_term\":1,\"_source\":" source "}"

/* ---- The server ----------------------------------------------------------------------------- */

/* What it sends: `answers` in turn, those from `last` on again and again. Changed while nothing is
 * under way. */
static struct {
  pthread_mutex_t lock;
  char *answers[4];
  size_t n[4], at, last;
} says = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char info[] = "{\"version\":{\"distribution\":\"opensearch\",\"number\":\"2.19.4\"}}";

static bool answer(test_conn *conn, const test_request *req, void *ctx) {
  (void)ctx;
  bool home = !strncmp(req->head, "GET / ", 6), cursor = !strncmp(req->head, "DELETE /_search", 15);
  pthread_mutex_lock(&says.lock);
  size_t at = says.at;
  bool own = !cursor && (!home || says.last == 0);
  if (own && says.at < says.last) says.at++;
  const char *others = home ? info : "{\"succeeded\":true}";
  size_t n = own ? says.n[at] : strlen(others);
  char *text = malloc(n + 1);
  if (text) memcpy(text, own ? says.answers[at] : others, n);
  pthread_mutex_unlock(&says.lock);
  if (!text) return false;
  test_sendf(conn,
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", n);
  test_send(conn, text, n);
  free(text);
  return true;
}

static void show_answers(void) {
  for (size_t i = 0; i <= says.last; i++)
    fprintf(stderr, "# answered: %.*s\n", says.n[i] < 3000 ? (int)says.n[i] : 3000,
            says.answers[i]);
}

#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) show_answers();                                                              \
    MT_CHECK(condition, __VA_ARGS__);                                                              \
  } while (0)

/* ---- What an answer says, as another parser reads it ----------------------------------------- */

static json_t *said; /* the changed answer; NULL: no JSON, or more than that parser reads */
static bool sound;   /* nothing was changed */

static const char *text_of(json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static bool number_in(json_t *object, const char *key, json_int_t least, json_int_t most) {
  json_t *value = json_object_get(object, key);
  return json_is_integer(value) && json_integer_value(value) >= least &&
         json_integer_value(value) <= most;
}

static json_t *item_of(size_t i) {
  json_t *item = json_array_get(json_object_get(said, "items"), i), *value;
  const char *key;
  json_object_foreach(item, key, value) return value;
  return NULL;
}

/* Does the answer say that this item's document, and no other, was written? `said` may be NULL only
 * where bytes were changed. */
static bool says_written(size_t i, const char *id, bool with_version) {
  json_t *item = item_of(i);
  const char *result = text_of(item, "result");
  if (!said || number_in(item, "status", 409, 429)) return true; /* it was sent again */
  return !strcmp(text_of(item, "_id"), id) && number_in(item, "status", 200, 299) &&
         (!strcmp(result, "created") || !strcmp(result, "updated") ||
          (!strcmp(result, "deleted") && !with_version)) &&
         (!with_version || (number_in(item, "_seq_no", 0, (json_int_t)MT_SEQ_NO_MAX) &&
                            number_in(item, "_primary_term", 1, (json_int_t)MT_TERM_MAX)));
}

/* ---- The requests --------------------------------------------------------------------------- */

enum { PATIENCE_MS = 3000 };

static mt_loop *loop;
static mt_store *store;
static const char *kind; /* for messages */

static mortise_status finish(mt_req *req) {
  int64_t end = mt_clock_boot_ms() + 20000;
  mortise_status status = mt_store_wait(store, req, end);
  CHECK(mt_clock_boot_ms() < end, "%s does not end", kind);
  CHECK(!status || req->error.message[0], "%s: an error without words", kind);
  CHECK(!sound || !status, "%s: a sound answer is an error: %s", kind, req->error.message);
  return status;
}

static mt_req patient(void) {
  return (mt_req){.deadline_ms = mt_loop_now(loop) + PATIENCE_MS};
}

static void ask_bulk(void) {
  mt_write items[4] = {
      {.kind = MT_WRITE_CREATE, .id = MT_SLICE("a"), .body = MT_SLICE("{}")},
      {.kind = MT_WRITE_INDEX, .id = MT_SLICE("b"), .body = MT_SLICE("{}")},
      {.kind = MT_WRITE_UPDATE, .id = MT_SLICE("c"), .body = MT_SLICE("{\"doc\":{}}")},
      {.kind = MT_WRITE_DELETE, .id = MT_SLICE("d")}};
  static const char *const ids[] = {"a", "b", "c", "d"};
  mt_bulk r = {.req = patient(), .index = "x", .items = items, .n = 4};
  store->docs->bulk(store, &r);
  finish(&r.req);
  for (size_t i = 0; i < 4; i++)
    CHECK(items[i].result != MT_WRITE_APPLIED || says_written(i, ids[i], false),
          "bulk: item %zu was not applied", i);
}

static void check_page(const mt_page *page) {
  for (size_t i = 0; page && i < page->n; i++) {
    mt_json root;
    const mt_doc *doc = &page->docs[i];
    CHECK(doc->id.n && doc->version.seq_no <= MT_SEQ_NO_MAX && doc->version.term <= MT_TERM_MAX,
          "%s: a document without an id, or of an impossible version", kind);
    if (doc->source.p)
      CHECK(!mt_json_parse(doc->source, "it", &root, NULL) && root.type == MT_JSON_OBJECT,
            "%s: a source that is none", kind);
  }
}

static void ask_mget(void) {
  const mt_slice ids[] = {MT_SLICE("a"), MT_SLICE("b")};
  mt_mget r = {.req = patient(), .index = "x", .ids = ids, .n = 2};
  store->docs->mget(store, &r);
  if (!finish(&r.req)) {
    CHECK(r.page->n == 2, "mget: %zu documents", r.page->n);
    for (size_t i = 0; i < 2; i++)
      CHECK(mt_slice_eq(r.page->docs[i].id, ids[i]), "mget: another document");
    check_page(r.page);
  }
  mt_mget_deinit(&r);
}

/* An answer that misses shards may be asked for again: then the last answer counts. */
static bool last_says_count(uint64_t n) {
  json_t *last =
      json_loadb(says.answers[says.last], says.n[says.last], JSON_REJECT_DUPLICATES, NULL);
  const json_t *count = json_object_get(last, "count");
  bool so = json_is_integer(count) && json_integer_value(count) == (json_int_t)n;
  json_decref(last);
  return so;
}

static void ask_range(void) {
  mt_range r = {.req = patient(), .span = {.index = "x", .from = 5, .to = 9}};
  store->docs->range(store, &r);
  if (!finish(&r.req)) {
    check_page(r.page);
    for (size_t i = 0; i < r.page->n; i++) {
      mt_version v = r.page->docs[i].version;
      CHECK(v.term && v.seq_no >= 5 && v.seq_no < 9, "range: a number of others");
    }
  } else {
    CHECK(!r.page, "range: an error with a page");
  }
  mt_range_deinit(&r);
}

static void ask_intervals(void) {
  mt_intervals r = {.req = patient(), .span = {.index = "x", .from = 3, .to = 29}, .width = 8};
  store->docs->intervals(store, &r);
  uint64_t sum = 0;
  if (!finish(&r.req)) {
    for (size_t i = 0; i < r.n; i++) sum += r.counts[i];
    CHECK(sum == r.total, "intervals: their sum");
  }
  mt_intervals_deinit(&r);
}

static void ask_shards(void) {
  mt_shards r = {.req = patient(), .index = "x"};
  store->docs->shards(store, &r);
  bool good = !finish(&r.req);
  CHECK(!good || (r.shards && r.n), "shards: without shards");
  for (size_t i = 0; good && i < r.n; i++) CHECK(r.shards[i].term <= MT_TERM_MAX, "shards: a term out of range");
  mt_shards_deinit(&r);
}

static void ask_block(void) {
  mt_index_admin r = {.req = patient(), .index = "x"};
  store->docs->block(store, &r);
  json_t *first = json_array_get(json_object_get(said, "indices"), 0);
  if (finish(&r.req) || !first) return; /* of none it asks again */
  CHECK(json_is_true(json_object_get(first, "blocked")), "block: nothing was blocked");
}

static void ask_aliases(void) {
  mt_aliases r = {.req = patient(), .name = "x"};
  store->docs->aliases(store, &r);
  CHECK(finish(&r.req) || r.json, "aliases: no answer");
  mt_aliases_deinit(&r);
}

static void ask_move(void) {
  mt_alias_move r = {.req = patient(), .alias = "al", .from = "x", .to = "y"};
  store->docs->alias_move(store, &r);
  finish(&r.req);
}

static void ask_count(void) {
  mt_count r = {.req = patient(), .index = "x"};
  store->docs->count(store, &r);
  if (!finish(&r.req) && said)
    CHECK((json_int_t)r.count == json_integer_value(json_object_get(said, "count")) ||
              last_says_count(r.count),
          "count: another number");
}

static void ask_scan(void) {
  mt_scan_open r = {.req = patient(), .index = "x"};
  store->docs->scan_open(store, &r);
  if (finish(&r.req)) return;
  uint64_t n = 0;
  for (bool more = true; more && n <= 100;) {
    mt_scan_next next = {.req = patient(), .scan = r.scan};
    store->docs->scan_next(store, &next);
    more = !finish(&next.req) && next.page;
    if (!next.req.error.code && !next.page) CHECK(n == r.total, "scan: documents are missing");
    n += next.page ? next.page->n : 0;
    check_page(next.page);
    mt_page_free(next.page);
  }
  store->docs->scan_close(store, r.scan);
}

static void ask_by_query(void) {
  mt_transforms list;
  MT_CHECK(!mt_transforms_parse(&list, MT_SLICE("[{\"remove\":{\"field\":\"a\"}}]"), NULL),
           "a list");
  mt_update_by_query r = {.req = patient(), .index = "x", .transforms = &list};
  store->docs->update_by_query(store, &r);
  if (!finish(&r.req))
    CHECK(!said || !strcmp(r.task, text_of(said, "task")), "another task: %s", r.task);
  mt_transforms_deinit(&list);
}

static bool says_count(json_t *counts, const char *key, uint64_t is) {
  return number_in(counts, key, (json_int_t)is, (json_int_t)is);
}

static void ask_task(void) {
  mt_server_task r = {.req = patient(), .task = "node-1:7"};
  store->docs->task(store, &r);
  if (finish(&r.req) || !said) return;
  const mt_server_task_state *s = &r.state;
  json_t *task = json_object_get(said, "task"), *end = json_object_get(said, "response");
  CHECK(!strcmp(text_of(task, "node"), "node-1") && number_in(task, "id", 7, 7), "another task");
  CHECK(json_is_boolean(json_object_get(said, "completed")) &&
            (s->phase == MT_SERVER_TASK_ENDED) == json_is_true(json_object_get(said, "completed")),
        "phase %d", (int)s->phase);
  if (s->complete)
    CHECK(says_count(end, "total", s->total) && says_count(end, "updated", s->updated) &&
              says_count(end, "noops", s->noops) &&
              s->updated + s->noops + s->conflicts == s->total &&
              !json_array_size(json_object_get(end, "failures")),
          "complete, and does not say so");
}

static void ask_tasks(void) {
  mt_server_task_find r = {.req = patient(), .name = "job"};
  store->docs->task_find(store, &r);
  if (!finish(&r.req) && said) {
    json_t *tasks = json_object_get(said, "tasks");
    CHECK(json_is_array(tasks) && r.n <= json_array_size(tasks), "%zu tasks", r.n);
    CHECK(!json_array_size(json_object_get(said, "node_failures")), "not all nodes answered");
    for (size_t i = 0; i < r.n; i++) CHECK(strchr(r.tasks[i], ':'), "no id: %s", r.tasks[i]);
  }
  mt_server_task_find_deinit(&r);
}

static void ask_refresh(void) {
  mt_refresh r = {.req = patient(), .index = "x"};
  store->docs->refresh(store, &r);
  finish(&r.req);
}

static void ask_describe(void) {
  mt_describe r = {.req = patient(), .index = "x"};
  store->docs->describe(store, &r);
  finish(&r.req);
  CHECK(memchr(r.name, '\0', sizeof r.name), "describe: a name without an end");
  mt_describe_deinit(&r);
}

static void ask_info(void) {
  mt_scan_open r = {.req = patient(), .index = "x"};
  bool was_sound = sound;
  sound = false; /* the scan gets the same answer, which does not suit it */
  store->docs->scan_open(store, &r);
  finish(&r.req);
  if (r.scan) store->docs->scan_close(store, r.scan);
  sound = was_sound;
}

static void ask_verify(void) {
  mt_locks_admin r = {.req = patient()};
  store->locks->verify(store, &r);
  finish(&r.req);
  CHECK(memchr(r.epoch.id, '\0', sizeof r.epoch.id), "verify: an epoch without an end");
  mt_locks_admin_deinit(&r);
}

static void ask_session(void) {
  mt_session_write r = {.req = patient(),
                        .verb = MT_SESSION_OPEN,
                        .ns = "default",
                        .session = SID,
                        .owner = MT_SLICE("{}"),
                        .lease_ms = 60000};
  store->locks->session(store, &r);
  finish(&r.req);
  CHECK(r.result != MT_SESSION_ACKED || says_written(0, "default:@" SID, true),
        "a session is open that was not written");
}

static void ask_sessions(void) {
  static const char *const ids[] = {SID, OTHER};
  mt_session_read r = {.req = patient(), .ns = "default", .ids = ids, .n = 2};
  store->locks->session_read(store, &r);
  if (!finish(&r.req))
    for (size_t i = 0; i < 2; i++) {
      const mt_session_doc *doc = &r.docs[i];
      char id[64];
      snprintf(id, sizeof id, "default:@%s", ids[i]);
      json_t *answered = json_array_get(json_object_get(said, "docs"), i);
      CHECK(!said || doc->state == MT_SESSION_MISSING || !strcmp(text_of(answered, "_id"), id),
            "another session's document");
      CHECK(doc->state == MT_SESSION_MISSING ||
                (doc->lease_ms > 0 && doc->lease_ms <= MT_LEASE_MAX_MS && doc->version.term),
            "a lease of %lld ms", (long long)doc->lease_ms);
    }
  mt_session_read_deinit(&r);
}

static void check_entry(const mt_lock_entry *e) {
  CHECK(memchr(e->session, '\0', sizeof e->session) && e->mode > MT_NL && e->mode <= MT_X,
        "an entry that is none");
  CHECK(e->damaged != mt_session_valid(e->session), "an entry of \"%s\", %s", e->session,
        e->damaged ? "damaged" : "sound");
}

static bool stands_in(json_t *list, const char *session) {
  size_t i;
  json_t *e;
  json_array_foreach(list, i, e) if (!strcmp(text_of(e, "session"), session)) return true;
  return false;
}

static void ask_locks(void) {
  mt_lock_item items[] = {
      {.verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/a"), .n = 1, .mode = MT_X},
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/b"), .n = 2, .mode = MT_X, .fresh = true},
      {.verb = MT_LOCK_SET,
       .place.path = MT_SLICE("/c"),
       .n = 3,
       .mode = MT_X,
       .fresh = true,
       .enqueue = true},
      {.verb = MT_LOCK_SET,
       .place.path = MT_SLICE("/d"),
       .n = 4,
       .mode = MT_X,
       .fresh = true,
       .enqueue = true},
      {.verb = MT_LOCK_RELEASE, .place.path = MT_SLICE("/e"), .n = 5},
      {.verb = MT_LOCK_EVICT, .place.path = MT_SLICE("/f"), .session = OTHER},
      {.verb = MT_LOCK_ADOPT, .place.path = MT_SLICE("/g"), .n = 6, .session = OTHER}};
  enum { ITEMS = sizeof items / sizeof *items };
  static const char *const ids[] = {"default:/a", "default:/b", "default:/c", "default:/d",
                                    "default:/e", "default:/f", "default:/g"};
  mt_lock_batch r = {.req = patient(), .ns = "default", .session = SID, .items = items, .n = ITEMS};
  store->locks->batch(store, &r);
  finish(&r.req);
  for (size_t i = 0; i < ITEMS; i++) {
    const mt_lock_item *item = &items[i];
    bool grants =
        item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_SET || item->verb == MT_LOCK_ADOPT;
    bool believed = item->result == MT_LOCK_ACKED || item->result == MT_LOCK_QUEUED;
    CHECK(!believed || says_written(i, ids[i], grants), "item %zu was not written", i);
    json_t *source = json_object_get(json_object_get(item_of(i), "get"), "_source");
    if (said && item->enqueue && item->result == MT_LOCK_ACKED)
      CHECK(stands_in(json_object_get(source, "holders"), SID), "item %zu holds nothing", i);
    for (size_t k = 0; k < item->n_blockers; k++) check_entry(&item->blockers[k]);
  }
  mt_lock_batch_deinit(&r);
}

static void check_rows(const char *json, bool locks) {
  mt_json whole;
  json_t *rows = json ? json_loads(json, JSON_ALLOW_NUL, NULL) : json_array(), *row, *e;
  size_t i, k;
  CHECK(!json ||
            (!mt_json_parse(mt_slice_of(json), "it", &whole, NULL) && whole.type == MT_JSON_ARRAY),
        "a list that is none: %.300s", json);
  json_array_foreach(rows, i, row) {
    CHECK(json_is_string(json_object_get(row, "ns")), "a row without a namespace");
    if (!locks) {
      CHECK(mt_session_valid(text_of(row, "session")), "a row without a session");
      CHECK(number_in(row, "lease_ms", 1, MT_LEASE_MAX_MS), "a row without a lease");
      continue;
    }
    CHECK(json_is_string(json_object_get(row, "path")), "a row without a path");
    for (int queue = 0; queue < 2; queue++) {
      json_t *list = json_object_get(row, queue ? "queue" : "holders");
      CHECK(json_is_array(list), "a row without lists");
      json_array_foreach(list, k, e) CHECK(json_is_string(json_object_get(e, "session")) &&
                                               json_is_integer(json_object_get(e, "n")) &&
                                               json_is_string(json_object_get(e, "mode")),
                                           "an entry that is none");
    }
  }
  json_decref(rows);
}

static void ask_list(mt_list_kind what) {
  mt_lock_list r = {.kind = what};
  for (int pages = 0; pages < 5; pages++) {
    r.req = patient();
    store->locks->list(store, &r);
    mortise_status status = finish(&r.req);
    if (!status) check_rows(r.json, what == MT_LIST_LOCKS);
    mt_lock_list_deinit(&r);
    if (status || !r.listing) break;
  }
  store->locks->list_close(store, r.listing);
}

static void ask_list_locks(void) {
  ask_list(MT_LIST_LOCKS);
}

static void ask_list_sessions(void) {
  ask_list(MT_LIST_SESSIONS);
}

static void ask_lock_read(void) {
  const mt_place places[] = {{MT_SLICE("/a"), 0}, {MT_SLICE("/b"), 0}};
  mt_lock_read r = {.req = patient(), .ns = "default", .places = places, .n = 2};
  store->locks->lock_read(store, &r);
  if (!finish(&r.req)) check_rows(r.json, true);
  mt_lock_read_deinit(&r);
}

#define TASK(headers)                                                                              \
  "{\"node\":\"node-1\",\"id\":7,\"action\":\"indices:data/write/update/byquery\",\"status\":{"    \
  "\"total\":9,\"updated\":5,\"noops\":3,\"version_conflicts\":1},\"cancelled\":false" headers "}"

#define TABLE                                                                                      \
  "{\"mortise-locks-000001\":{\"aliases\":{\"mortise-locks\":{\"is_hidden\":true}},\"mappings\":"  \
  "{\"dynamic\":\"strict\",\"_meta\":{\"format\":1,\"epoch\":\"" SID                               \
  "\",\"uuid\":\"U\"},\"properties\":{\"kind\":{\"type\":\"keyword\"},\"path\":{\"type\":"         \
  "\"keyword\"},\"holders\":{\"type\":\"object\",\"enabled\":false},\"queue\":{\"type\":"          \
  "\"object\",\"enabled\":false},\"sessions\":{\"type\":\"keyword\"},\"owner\":{\"type\":"         \
  "\"object\",\"enabled\":false},\"lease_ms\":{\"type\":\"long\"},\"state\":{\"type\":"            \
  "\"keyword\"},\"opened\":{\"type\":\"date\",\"format\":\"epoch_millis\"},\"beat_at\":{"          \
  "\"type\":\"date\",\"format\":\"epoch_millis\"},\"waiting\":{\"type\":\"object\","               \
  "\"enabled\":false}}},\"settings\":{\"index\":{\"number_of_shards\":\"1\","                      \
  "\"auto_expand_replicas\":\"0-1\",\"hidden\":\"true\",\"translog\":{\"durability\":"             \
  "\"request\"},\"uuid\":\"U\",\"number_of_replicas\":\"0\"}}}}"

#define TERMS "{\"metadata\":{\"indices\":{\"x\":{\"primary_terms\":{\"0\":2}}}}}"
#define ALIASES "{\"x\":{\"aliases\":{\"al\":{\"filter\":{\"term\":{\"a\":1}},\"is_write_index\":true}}}}"

/* Each with the answers that it gets in turn, the last again and again; one of them is changed. */
static const struct {
  const char *name;
  void (*ask)(void);
  const char *answers[4];
} requests[] = {
    {"bulk",
     ask_bulk,
     {"{\"items\":[" WRITTEN("create", "a", "201", "created", "5") "," WRITTEN(
         "index", "b", "200", "updated",
         "6") "," REFUSED("update", "c", "409",
                          "version_conflict_engine_exception") "," WRITTEN("delete", "d", "200",
                                                                           "deleted", "7") "]}"}},
    {"mget", ask_mget, {"{\"docs\":[" DOC("a", "5") "," DOC("b", "6") "]}"}},
    {"range", ask_range, {HITS("2", DOC("a", "5") "," DOC("b", "8"))}},
    {"intervals",
     ask_intervals,
     {"{\"timed_out\":false," SHARDS ",\"hits\":{\"total\":{\"value\":9,\"relation\":\"eq\"}},\"aggregations\":{"
      "\"rows\":{\"buckets\":[{\"key\":0.0,\"doc_count\":4,\"sum\":{\"value\":1.5E12}},"
      "{\"key\":16.0,\"doc_count\":5,\"sum\":{\"value\":7.0}}]}}}"}},
    {"shards",
     ask_shards,
     {"{\"x\":{\"settings\":{\"index\":{\"uuid\":\"U\",\"number_of_shards\":\"1\"}}}}", TERMS,
      "{" SHARDS ",\"indices\":{\"x\":{\"shards\":{\"0\":[{\"routing\":{\"state\":\"STARTED\",\"primary\":true},"
      "\"docs\":{\"count\":3},\"seq_no\":{\"max_seq_no\":4,\"local_checkpoint\":4,\"global_checkpoint\":4}}]}}}}",
      TERMS}},
    {"block",
     ask_block,
     {"{\"acknowledged\":true,\"shards_acknowledged\":true,\"indices\":[{\"name\":\"x\",\"blocked\":true}]}"}},
    {"aliases", ask_aliases, {ALIASES}},
    {"move of an alias", ask_move, {ALIASES, "{\"acknowledged\":true}"}},
    {"count", ask_count, {"{\"count\":42," SHARDS "}"}},
    {"scan", ask_scan, {HITS("3", DOC("a", "5") "," DOC("b", "6")), HITS("3", DOC("c", "7"))}},
    {"update by query", ask_by_query, {"{\"task\":\"node-1:7\"}"}},
    {"task",
     ask_task,
     {"{\"completed\":true,\"task\":" TASK(
         "") ",\"response\":{\"total\":9,\"updated\":5,\"noops\":3,"
             "\"version_conflicts\":1,\"timed_out\":false,\"failures\":[]}}"}},
    {"tasks",
     ask_tasks,
     {"{\"tasks\":[" TASK(",\"headers\":{\"X-Opaque-Id\":\"job/1\"}") "," TASK(
         ",\"headers\":{\"X-Opaque-Id\":\"other/1\"}") "," TASK("") "],\"node_failures\":[]}"}},
    {"refresh", ask_refresh, {"{" SHARDS "}"}},
    {"describe", ask_describe, {TABLE}},
    {"info",
     ask_info,
     {"{\"version\":{\"distribution\":\"opensearch\",\"number\":\"2.19.4\"},\"tagline\":\"The "
      "OpenSearch Project\"}"}},
    {"verify", ask_verify, {TABLE}},
    {"session",
     ask_session,
     {"{\"items\":[" WRITTEN("update", "default:@" SID, "201", "created", "9") "]}"}},
    {"sessions",
     ask_sessions,
     {"{\"docs\":[" HIT("default:@" SID, SESSION ",\"found\":true") "," HIT(
         "default:@" OTHER, SESSION ",\"found\":true") "]}"}},
    {"locks",
     ask_locks,
     {"{\"items\":[" WRITTEN(
         "create", "default:/a", "201", "created",
         "5") ","
              "{\"update\":{\"_id\":\"default:/"
              "b\",\"status\":200,\"result\":\"noop\",\"get\":{\"_source\":{\"blockers\":"
              "[" ENTRY(OTHER,
                        "1") "]}}}},"
                             "{\"update\":{\"_id\":\"default:/"
                             "c\",\"status\":200,\"result\":\"updated\",\"_seq_no\":6,"
                             "\"_"
                             "primary_term\":1,\"get\":{\"_source\":{\"holders\":"
                             "[" ENTRY(OTHER, "1") "],\"queue\":[" WAITER(
                                 SID,
                                 "3") "]}}}},"
                                      "{\"update\":{\"_id\":\"default:/"
                                      "d\",\"status\":200,\"result\":\"updated\",\"_seq_"
                                      "no\":7,"
                                      "\"_primary_term\":1,\"get\":{\"_source\":{"
                                      "\"holders\":"
                                      "[" ENTRY(SID, "4") "],\"queue\":[]}}}}," WRITTEN(
                                          "update", "default:/e", "200", "deleted",
                                          "8") "," WRITTEN("update", "default:/f", "200", "noop",
                                                           "9") "," WRITTEN("update", "default:/g",
                                                                            "200", "updated",
                                                                            "10") "]}"}},
    {"list of locks",
     ask_list_locks,
     {"{" SHARDS "}", HITS("2", HIT("default:/a", LOCK)), HITS("2", HIT("default:/b", LOCK))}},
    {"list of sessions",
     ask_list_sessions,
     {"{" SHARDS "}", HITS("1", HIT("default:@" SID, SESSION))}},
    {"read of locks",
     ask_lock_read,
     {"{\"docs\":[" HIT("default:/a",
                        LOCK ",\"found\":true") ",{\"_id\":\"default:/b\",\"found\":false}]}"}},
};

enum { REQUESTS = sizeof requests / sizeof *requests, STORE_LIFE = 4 };

/* ---- Running -------------------------------------------------------------------------------- */

static test_server *server;

static void open_store(void) {
  char url[64];
  mortise_error err = {0};
  server = test_server_start(0, NULL, answer, NULL);
  snprintf(url, sizeof url, "http://127.0.0.1:%u", test_server_port(server));
  loop = mt_loop_new(&err);
  CHECK(loop, "%s", err.message);
  const mt_http_config config = {
      .nodes = url, .connect_ms = 2000, .request_ms = PATIENCE_MS, .answer_max = 1 << 24};
  store = mt_elastic_open(loop, &config, "mortise-locks", NULL, &err);
  CHECK(store, "%s", err.message);
}

static void close_store(void) {
  mt_store_close(store);
  mt_loop_free(loop);
  test_server_stop(server);
}

static size_t count_answers(size_t request) {
  size_t n = 0;
  while (n < 4 && requests[request].answers[n]) n++;
  return n;
}

/* `changed`: which of its answers; SIZE_MAX: none. */
static void prepare(size_t request, size_t changed, mt_test_random *r) {
  size_t n = count_answers(request);
  pthread_mutex_lock(&says.lock);
  says.at = 0;
  says.last = strcmp(requests[request].name, "info") != 0 ? n - 1 : 0;
  if (n == 1 && says.last == 0) says.last = strcmp(requests[request].name, "info") ? 1 : 0;
  for (size_t i = 0; i < 4; i++) {
    mt_buf b;
    mt_buf_init(&b, 1 << 24);
    const char *text = i < n ? requests[request].answers[i] : requests[request].answers[n - 1];
    if (i == changed && mt_test_chance(r, 80))
      change_value(&b, text, r);
    else if (i == changed)
      change_bytes(&b, text, r);
    else
      mt_buf_adds(&b, text);
    free(says.answers[i]);
    says.n[i] = b.n;
    says.answers[i] = malloc(b.n + 1);
    CHECK(says.answers[i], "memory");
    memcpy(says.answers[i], b.p ? b.p : "", b.n);
    says.answers[i][b.n] = '\0';
    mt_buf_deinit(&b);
  }
  pthread_mutex_unlock(&says.lock);
  size_t at = changed < 4 ? changed : 0;
  said = json_loadb(says.answers[at], says.n[at], JSON_REJECT_DUPLICATES, NULL);
  sound = changed == SIZE_MAX;
}

static void run_one(uint64_t number, mt_test_random *r) {
  size_t request = number < REQUESTS ? number : mt_test_below(r, REQUESTS);
  size_t changed = number < REQUESTS ? SIZE_MAX : mt_test_below(r, count_answers(request));
  kind = requests[request].name;
  prepare(request, changed, r);
  requests[request].ask();
  json_decref(said);
}

static int seconds = 5;

static void answers_are_not_believed(void **state) {
  (void)state;
  mt_test_random r = mt_test_random_for("answers");
  int64_t end = mt_test_ns() + seconds * (int64_t)1000000000;
  uint64_t n = 0;
  open_store();
  for (; n < REQUESTS || mt_test_ns() < end; n++) {
    if (n < REQUESTS || n % STORE_LIFE == 0 || !strcmp(kind, "info")) { /* each knows an order */
      close_store();
      open_store();
    }
    run_one(n, &r);
  }
  close_store();
  for (size_t i = 0; i < 4; i++) free(says.answers[i]);
  printf("# %llu answers\n", (unsigned long long)n);
}

int main(int argc, char **argv) {
  if (argc > 1) seconds = atoi(argv[1]);
  change_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_are_not_believed)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  change_end();
  return failed;
}
