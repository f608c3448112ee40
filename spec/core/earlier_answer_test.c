/* The answer to an earlier request, without an id that tells which request it belongs to: a write
 * that is no newer than what was acknowledged before proves nothing, nor does a refusal without any
 * write, and the connection that it came over is not used again. The server is hostile, the store
 * is the real one. */
#include "elastic/elastic.h"
#include "http_fixture.h"
#include "store/order.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>

static const char sid[] = "0123456789abcdef0123456789abcdef";

#define SET_A                                                                                      \
  ((mt_lock_item){                                                                                 \
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/a"), .n = 3, .mode = MT_X, .fresh = true})
#define SAID(id, result, version)                                                                  \
  "{\"update\":{\"_id\":\"default:" id "\",\"status\":200,\"result\":\"" result "\"," version "}}"
#define SEQ(n) "\"_seq_no\":" #n ",\"_primary_term\":1"
#define LATER_TERM "\"_seq_no\":0,\"_primary_term\":2"
#define BLOCKED                                                                                    \
  ",\"get\":{\"_source\":{\"blockers\":[{\"session\":\"ffffffffffffffffffffffffffffffff\","        \
  "\"n\":1,\"mode\":\"X\"}]}}"
#define SESSION_SAID(version) SAID("@0123456789abcdef0123456789abcdef", "updated", version)

typedef struct script {
  bool says_whose;
  int status; /* 0: 200 */
  const char *items;
} script;

typedef struct stage {
  script script;
  mt_loop *loop;
  test_server *server;
  mt_store *store;
} stage;

/* The first one opens the session, with fence 20 of term 1. */
static bool serve(test_conn *conn, const test_request *req, void *ctx) {
  const script *s = ctx;
  const bool first = req->number == 1;
  char body[2048], id[400] = "";
  const char *line = strstr(req->head, "X-Opaque-Id: ");
  if (s->says_whose && line) snprintf(id, sizeof id, "%.*s\r\n", (int)strcspn(line, "\r"), line);
  snprintf(body, sizeof body, "{\"items\":[%s]}", first ? SESSION_SAID(SEQ(20)) : s->items);
  test_sendf(conn, "HTTP/1.1 %d Word\r\n%sContent-Length: %zu\r\n\r\n%s",
             s->status && !first ? s->status : 200, id, strlen(body), body);
  return true;
}

static mt_session_write write_session(stage *s, mt_session_verb verb) {
  mt_session_write w = {
      .verb = verb,
      .ns = "default",
      .session = sid,
      .lease_ms = 60000,
      .if_version = {verb == MT_SESSION_EXPIRE ? 20 : 0, verb == MT_SESSION_EXPIRE}};
  s->store->locks->session(s->store, &w);
  mt_store_wait(s->store, &w.req, -1);
  return w;
}

static void open_stage(stage *s, script what) {
  char url[64];
  mortise_error err = {0};
  *s = (stage){.script = what};
  s->loop = mt_loop_new(&err);
  s->server = test_server_start(0, NULL, serve, &s->script);
  assert_true(s->loop && s->server);
  snprintf(url, sizeof url, "http://127.0.0.1:%u", test_server_port(s->server));
  const mt_http_config config = {.nodes = url};
  s->store = mt_elastic_open(s->loop, &config, NULL, NULL, &err);
  assert_non_null(s->store);
  assert_int_equal(write_session(s, MT_SESSION_OPEN).result, MT_SESSION_ACKED);
}

static void close_stage(stage *s) {
  mt_store_close(s->store);
  mt_loop_free(s->loop);
  test_server_stop(s->server);
}

/* Does one more request go over another connection? */
static bool leaves_connection(stage *s) {
  unsigned before = test_server_connections(s->server);
  write_session(s, MT_SESSION_CLOSE);
  return test_server_connections(s->server) > before;
}

static mt_lock_batch ask(stage *s, mt_lock_item *items, size_t n) {
  mt_lock_batch r = {.ns = "default", .session = sid, .items = items, .n = n};
  s->store->locks->batch(s->store, &r);
  mt_store_wait(s->store, &r.req, -1);
  return r;
}

static void expect_batch(script what, mt_lock_item item, mt_lock_result result, bool proven) {
  stage s;
  open_stage(&s, what);
  mt_lock_batch r = ask(&s, &item, 1);
  if (item.result != result || r.proven != proven)
    fail_msg("%s: result %d, proven %d", what.items, item.result, r.proven);
  bool disbelieved = result == MT_LOCK_NO_ANSWER;
  assert_int_equal(r.req.error.code, disbelieved ? MORTISE_UNAVAILABLE : MORTISE_OK);
  assert_int_equal(r.req.error.ambiguous, disbelieved);
  if (proven == leaves_connection(&s)) fail_msg("%s: the connection", what.items);
  mt_lock_batch_deinit(&r);
  close_stage(&s);
}

/* ---- locks ---- */

static void a_grant_is_newer(void **state) {
  (void)state;
  for (int id = 0; id < 2; id++) {
    expect_batch((script){id, 0, SAID("/a", "updated", SEQ(21))}, SET_A, MT_LOCK_ACKED, true);
    expect_batch((script){id, 0, SAID("/a", "updated", LATER_TERM)}, SET_A, MT_LOCK_ACKED, true);
    expect_batch((script){id, 0, SAID("/a", "updated", SEQ(20))}, SET_A, MT_LOCK_NO_ANSWER, false);
    expect_batch((script){id, 0, SAID("/a", "updated", SEQ(5))}, SET_A, MT_LOCK_NO_ANSWER, false);
  }
}

static void so_is_what_is_given_back(void **state) {
  (void)state;
  static const mt_lock_verb verbs[] = {MT_LOCK_RELEASE, MT_LOCK_EVICT, MT_LOCK_DELETE};
  for (size_t i = 0; i < 3; i++) {
    mt_lock_item item = {
        .verb = verbs[i], .place.path = MT_SLICE("/a"), .n = 3, .if_version = {20, 1}};
    if (verbs[i] == MT_LOCK_EVICT) item.session = sid;
    expect_batch((script){.items = SAID("/a", "deleted", SEQ(21))}, item, MT_LOCK_ACKED, true);
    expect_batch((script){.items = SAID("/a", "deleted", SEQ(20))}, item, MT_LOCK_NO_ANSWER, false);
  }
}

/* An answer belongs to one request: if one item is old, the others belong to another request
 * too. */
static void one_old_item_is_enough(void **state) {
  (void)state;
  stage s;
  mt_lock_item items[] = {SET_A, SET_A};
  items[1].place.path = MT_SLICE("/b");
  open_stage(&s,
             (script){.items = SAID("/a", "updated", SEQ(30)) "," SAID("/b", "updated", SEQ(20))});
  mt_lock_batch r = ask(&s, items, 2);
  assert_int_equal(items[0].result, MT_LOCK_NO_ANSWER);
  assert_int_equal(items[1].result, MT_LOCK_NO_ANSWER);
  assert_true(r.req.error.ambiguous && !r.proven);
  close_stage(&s);
}

/* A denial has no version of its own. */
static void a_refusal_proves_nothing(void **state) {
  (void)state;
  const char *denied = SAID("/a", "noop", SEQ(7) BLOCKED);
  expect_batch((script){.items = denied}, SET_A, MT_LOCK_DENIED, false);
  expect_batch((script){.items = denied, .says_whose = true}, SET_A, MT_LOCK_DENIED, true);
}

static void beside_a_new_write_it_does(void **state) {
  (void)state;
  stage s;
  mt_lock_item items[] = {SET_A, SET_A};
  items[1].place.path = MT_SLICE("/b");
  open_stage(
      &s, (script){.items = SAID("/a", "updated", SEQ(30)) "," SAID("/b", "noop", SEQ(7) BLOCKED)});
  mt_lock_batch r = ask(&s, items, 2);
  assert_int_equal(items[0].result, MT_LOCK_ACKED);
  assert_int_equal(items[1].result, MT_LOCK_DENIED);
  assert_true(r.proven);
  mt_lock_batch_deinit(&r);
  close_stage(&s);
}

/* Believing it would end the session. */
static void that_a_hold_is_gone_must_be_proven(void **state) {
  (void)state;
  const char *gone = SAID("/a", "noop", SEQ(7));
  expect_batch((script){.items = gone}, SET_A, MT_LOCK_NO_ANSWER, false);
  expect_batch((script){.items = gone, .says_whose = true}, SET_A, MT_LOCK_STALE, true);
}

static void neither_does_a_refusal_of_all(void **state) {
  (void)state;
  for (int id = 0; id < 2; id++) {
    stage s;
    mt_lock_item item = SET_A;
    open_stage(&s, (script){.status = 429, .items = "", .says_whose = id});
    mt_lock_batch r = ask(&s, &item, 1);
    assert_true(r.req.error.retryable && !r.req.error.ambiguous);
    assert_int_equal(r.proven, id);
    assert_int_equal(leaves_connection(&s), !id);
    close_stage(&s);
  }
}

/* Nothing was sent, so nothing may have been applied. */
static void what_was_not_sent_is_known(void **state) {
  (void)state;
  stage s;
  mt_lock_item item = SET_A;
  open_stage(&s, (script){0});
  mt_lock_batch r = {.ns = "default", .session = sid, .items = &item, .n = 1};
  item.place.path = MT_SLICE("no path");
  s.store->locks->batch(s.store, &r);
  mt_store_wait(s.store, &r.req, -1);
  assert_int_equal(r.req.error.code, MORTISE_INVALID_ARGUMENT);
  assert_true(r.proven);
  close_stage(&s);
}

/* ---- sessions ---- */

static void a_beat_is_newer(void **state) {
  (void)state;
  static const mt_session_verb verbs[] = {MT_SESSION_BEAT, MT_SESSION_CLOSE, MT_SESSION_PROVE,
                                          MT_SESSION_BREAK, MT_SESSION_EXPIRE};
  static const struct {
    const char *items;
    bool acked;
  } cases[] = {
      {SESSION_SAID(SEQ(21)), true}, {SESSION_SAID(SEQ(20)), false}, {SESSION_SAID(SEQ(3)), false}};
  for (size_t i = 0; i < 5 * 3; i++) {
    stage s;
    open_stage(&s, (script){.items = cases[i % 3].items});
    mt_session_write w = write_session(&s, verbs[i / 3]);
    assert_int_equal(w.result, cases[i % 3].acked ? MT_SESSION_ACKED : MT_SESSION_NO_ANSWER);
    assert_int_equal(w.req.error.ambiguous, !cases[i % 3].acked);
    assert_int_equal(leaves_connection(&s), !cases[i % 3].acked);
    close_stage(&s);
  }
}

/* The opened session's document is new, so a recreated table is not compared with the old one. */
static void an_opening_begins_anew(void **state) {
  (void)state;
  stage s;
  mt_lock_item item = SET_A;
  open_stage(&s, (script){.items = SESSION_SAID(SEQ(3))});
  assert_int_equal(write_session(&s, MT_SESSION_OPEN).result, MT_SESSION_ACKED);
  s.script.items = SAID("/a", "updated", SEQ(4));
  ask(&s, &item, 1);
  assert_int_equal(item.result, MT_LOCK_ACKED);
  item = SET_A; /* the same once more */
  ask(&s, &item, 1);
  assert_int_equal(item.result, MT_LOCK_NO_ANSWER);
  close_stage(&s);
}

/* If two sessions are opened at once, neither resets what the other, or a batch, has shown. */
static void openings_at_once_lose_nothing(void **state) {
  (void)state;
  mt_order o = {0};
  const mt_session_write open = {.verb = MT_SESSION_OPEN};
  mt_lock_item item = {.result = MT_LOCK_ACKED, .version = {.term = 1, .seq_no = 20}};
  mt_lock_batch batch = {.items = &item, .n = 1};
  uint64_t first = mt_order_ask_session(&o, &open);
  assert_true(mt_order_judge(&o, mt_order_ask(&o), &batch, false));
  uint64_t second = mt_order_ask_session(&o, &open);
  assert_true(mt_order_judge_session(&o, first, MT_SESSION_OPEN, (mt_version){10, 1}));
  assert_int_equal(mt_order_ask(&o), mt_version_fence(item.version));
  assert_true(mt_order_judge_session(&o, second, MT_SESSION_OPEN, (mt_version){3, 1}));
  assert_int_equal(mt_order_ask(&o), mt_version_fence((mt_version){10, 1})); /* a recreated table */
}

/* The write is new, but on another session's document. */
static void a_beat_is_of_its_session(void **state) {
  (void)state;
  stage s;
  open_stage(&s, (script){.items = SAID("@ffffffffffffffffffffffffffffffff", "updated", SEQ(21))});
  mt_session_write w = write_session(&s, MT_SESSION_BEAT);
  assert_int_equal(w.result, MT_SESSION_NO_ANSWER);
  assert_true(w.req.error.ambiguous);
  close_stage(&s);
}

/* ---- documents ---- */

/* The write is new, but on another document. */
static void a_write_is_of_its_document(void **state) {
  (void)state;
  stage s;
  mt_write write = {.kind = MT_WRITE_INDEX, .id = MT_SLICE("1"), .body = MT_SLICE("{}")};
  mt_bulk r = {.index = "x", .items = &write, .n = 1};
  open_stage(&s, (script){.items = "{\"index\":{\"_id\":\"2\",\"status\":200,"
                                   "\"result\":\"updated\"," SEQ(21) "}}"});
  s.store->docs->bulk(s.store, &r);
  mt_store_wait(s.store, &r.req, -1);
  assert_int_equal(write.result, MT_WRITE_NONE);
  assert_true(r.req.error.ambiguous);
  close_stage(&s);
}

/* A write that compared with a version has a newer version itself. */
static void a_write_is_newer_than_what_it_compared_with(void **state) {
  (void)state;
  static const struct {
    const char *items;
    bool applied;
  } cases[] = {
      {"{\"index\":{\"_id\":\"1\",\"status\":200,\"result\":\"updated\"," SEQ(21) "}}", true},
      {"{\"index\":{\"_id\":\"1\",\"status\":200,\"result\":\"updated\"," SEQ(20) "}}", false}};
  for (size_t i = 0; i < 2; i++) {
    stage s;
    mt_write write = {
        .kind = MT_WRITE_INDEX, .id = MT_SLICE("1"), .body = MT_SLICE("{}"), .if_version = {20, 1}};
    mt_bulk r = {.index = "x", .items = &write, .n = 1};
    open_stage(&s, (script){.items = cases[i].items});
    s.store->docs->bulk(s.store, &r);
    mt_store_wait(s.store, &r.req, -1);
    assert_int_equal(write.result, cases[i].applied ? MT_WRITE_APPLIED : MT_WRITE_NONE);
    assert_int_equal(r.req.error.ambiguous, !cases[i].applied);
    assert_int_equal(leaves_connection(&s), !cases[i].applied);
    close_stage(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_grant_is_newer),
      cmocka_unit_test(so_is_what_is_given_back),
      cmocka_unit_test(one_old_item_is_enough),
      cmocka_unit_test(a_refusal_proves_nothing),
      cmocka_unit_test(beside_a_new_write_it_does),
      cmocka_unit_test(that_a_hold_is_gone_must_be_proven),
      cmocka_unit_test(neither_does_a_refusal_of_all),
      cmocka_unit_test(what_was_not_sent_is_known),
      cmocka_unit_test(a_beat_is_newer),
      cmocka_unit_test(an_opening_begins_anew),
      cmocka_unit_test(openings_at_once_lose_nothing),
      cmocka_unit_test(a_beat_is_of_its_session),
      cmocka_unit_test(a_write_is_of_its_document),
      cmocka_unit_test(a_write_is_newer_than_what_it_compared_with),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
