/* Several nodes, and how often a request is sent. */
#include "base/clock.h"
#include "http/internal.h"
#include "http_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char ok[] = "{\"ok\":true}";

static bool answer_ok(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  if (req->whole) test_answer(c, 200, ok);
  return true;
}

/* Two servers, or a port without one where the handler is NULL. */
typedef struct pair {
  fixture f;
  test_server *a, *b;
  uint16_t port_a, port_b;
  char nodes[128];
} pair;

static void pair_open(pair *p, test_handler *a, test_handler *b, void *ctx) {
  p->a = a ? test_server_start(0, NULL, a, ctx) : NULL;
  p->b = b ? test_server_start(0, NULL, b, ctx) : NULL;
  p->port_a = a ? test_server_port(p->a) : test_free_port();
  p->port_b = b ? test_server_port(p->b) : test_free_port();
  snprintf(p->nodes, sizeof p->nodes, "http://127.0.0.1:%u,127.0.0.1:%u", p->port_a, p->port_b);
  p->f.config.nodes = p->nodes;
  fixture_open(&p->f, NULL, NULL);
}

static void pair_close(pair *p) {
  fixture_close(&p->f);
  test_server_stop(p->a);
  test_server_stop(p->b);
}

static void post(fixture *f, mt_http_req *req, bool idempotent) {
  *req = fixture_request(f, "POST", "/_bulk", "{}");
  req->idempotent = idempotent;
  fixture_run(f, req);
}

static int post_ok(fixture *f) {
  mt_http_req req;
  post(f, &req, false);
  assert_answer(&req, 200, ok);
  mt_http_req_deinit(&req);
  return req.answered_by;
}

static void in_turn(void **state) {
  (void)state;
  pair p = {0};
  pair_open(&p, answer_ok, answer_ok, NULL);
  for (int i = 0; i < 10; i++) assert_int_equal(post_ok(&p.f), i % 2);
  assert_int_equal(test_server_requests(p.a), 5);
  assert_int_equal(test_server_requests(p.b), 5);
  assert_int_equal(test_server_connections(p.a), 1);
  for (int i = 0; i < 3; i++) {
    mt_http_req req = fixture_request(&p.f, "GET", "/", NULL);
    req.node = 1;
    fixture_run(&p.f, &req);
    assert_int_equal(req.answered_by, 1);
    assert_non_null(strstr(p.nodes, strrchr(req.node_url, ':')));
    mt_http_req_deinit(&req);
  }
  pair_close(&p);
}

static void refused_goes_elsewhere_and_comes_back(void **state) {
  (void)state;
  pair p = {0};
  pair_open(&p, NULL, answer_ok, NULL);
  for (int i = 0; i < 6; i++) assert_int_equal(post_ok(&p.f), 1);
  assert_int_equal(test_server_requests(p.b), 6);
  assert_int_equal(mt_http_get_stats(p.f.http).retries, 1); /* skipped after the first */
  p.a = test_server_start(p.port_a, NULL, answer_ok, NULL);
  fixture_step_for(&p.f, 1050);
  int first = 0;
  for (int i = 0; i < 6; i++) first += post_ok(&p.f) == 0;
  assert_int_equal(first, 3);
  assert_int_equal(mt_http_get_stats(p.f.http).retries, 1);
  assert_non_null(strstr(p.f.logged.p, "is left out for"));
  assert_non_null(strstr(p.f.logged.p, "answers again"));
  pair_close(&p);
}

static void nobody_there(void **state) {
  (void)state;
  pair p = {.f.config = {.user = "user", .password = SECRET}};
  pair_open(&p, NULL, NULL, NULL);
  for (int i = 0; i < 3; i++) { /* also while both are skipped */
    mt_http_req req;
    post(&p.f, &req, false);
    assert_failed(&req, MORTISE_UNAVAILABLE, false, "connection refused");
    assert_true(req.error.retryable);
    assert_int_equal(req.answered_by, -1);
    mt_http_req_deinit(&req);
  }
  assert_int_equal(mt_http_get_stats(p.f.http).retries, 3);
  assert_int_equal(mt_http_get_stats(p.f.http).requests, 0);
  pair_close(&p);
}

static void one_node_means_that_node(void **state) {
  (void)state;
  pair p = {0};
  pair_open(&p, NULL, answer_ok, NULL);
  mt_http_req req = fixture_request(&p.f, "GET", "/", NULL);
  req.node = 0;
  req.idempotent = true;
  fixture_run(&p.f, &req);
  char wanted[64];
  snprintf(wanted, sizeof wanted, "http://127.0.0.1:%u: connection refused", p.port_a);
  assert_failed(&req, MORTISE_UNAVAILABLE, false, wanted);
  assert_int_equal(test_server_requests(p.b), 0);
  mt_http_req_deinit(&req);
  pair_close(&p);
}

static void unknown_name(void **state) {
  (void)state;
  fixture f = {.config = {.nodes = "http://no-such-host.invalid:9200", .connect_ms = 4000}};
  fixture_open(&f, NULL, NULL);
  mt_http_req req;
  post(&f, &req, false);
  assert_failed(&req, MORTISE_UNAVAILABLE, false, "http://no-such-host.invalid:9200");
  mt_http_req_deinit(&req);
  fixture_close(&f);
}

/* Closes without an answer, or resets, for those numbers of requests whose bit is in the mask. */
typedef struct breaks {
  unsigned mask;
  bool reset;
} breaks;

static bool maybe_break(test_conn *c, const test_request *req, void *ctx) {
  const breaks *b = ctx;
  if (!req->whole) return false;
  if (!(b->mask >> req->number & 1)) return answer_ok(c, req, NULL);
  if (b->reset) test_reset(c);
  return false;
}

static void a_broken_request_is_not_sent_again(void **state) {
  (void)state;
  for (int reset = 0; reset < 2; reset++) {
    breaks b = {.mask = 1 << 1, .reset = reset};
    pair p = {.f.config = {.api_key = SECRET}};
    pair_open(&p, maybe_break, answer_ok, &b);
    mt_http_req req;
    post(&p.f, &req, false);
    assert_failed(&req, MORTISE_UNAVAILABLE, true, "before an answer");
    assert_false(req.error.retryable);
    mt_http_req_deinit(&req);
    fixture_step_for(&p.f, 50);
    assert_int_equal(test_server_requests(p.a), 1);
    assert_int_equal(test_server_requests(p.b), 0);
    assert_int_equal(post_ok(&p.f), 1);
    assert_int_equal(post_ok(&p.f), 1); /* the first is skipped */
    pair_close(&p);
  }
}

static void an_idempotent_one_is(void **state) {
  (void)state;
  breaks b = {.mask = 1 << 1};
  pair p = {0};
  pair_open(&p, maybe_break, answer_ok, &b);
  mt_http_req req;
  post(&p.f, &req, true);
  assert_answer(&req, 200, ok);
  assert_int_equal(req.answered_by, 1);
  assert_int_equal(mt_http_get_stats(p.f.http).retries, 1);
  mt_http_req_deinit(&req);
  pair_close(&p);
}

/* An earlier attempt was sent, though the last was not: still ambiguous. */
static void ambiguity_sticks(void **state) {
  (void)state;
  breaks b = {.mask = 1 << 1};
  pair p = {0};
  pair_open(&p, maybe_break, NULL, &b);
  mt_http_req req;
  post(&p.f, &req, true);
  assert_failed(&req, MORTISE_UNAVAILABLE, true, "connection refused");
  assert_true(req.error.retryable); /* the caller said that it may be sent twice */
  mt_http_req_deinit(&req);
  pair_close(&p);
}

static bool always(void *ctx) {
  (void)ctx;
  return true;
}

/* libcurl's own resend: the connection has served a request before, and breaks on the second. */
static void libcurl_does_not_send_twice(void **state) {
  (void)state;
  static char large[400001];
  memset(large, 'x', sizeof large - 1);
  for (int kind = 0; kind < 8; kind++) {
    bool idempotent = kind & 1, with_hook = kind & 4;
    breaks b = {.mask = 1 << 2, .reset = kind & 2};
    fixture f = {0};
    fixture_open(&f, maybe_break, &b);
    post_ok(&f);
    mt_http_req req = fixture_request(&f, "POST", "/", with_hook ? large : "{}");
    req.idempotent = idempotent;
    if (with_hook) req.may_send = always;
    fixture_run(&f, &req);
    if (idempotent)
      assert_answer(&req, 200, ok);
    else
      assert_failed(&req, MORTISE_UNAVAILABLE, true, "before an answer");
    mt_http_req_deinit(&req);
    fixture_step_for(&f, 30);
    assert_int_equal(test_server_requests(f.server), idempotent ? 3 : 2);
    assert_int_equal(mt_http_get_stats(f.http).retries, 0);
    fixture_close(&f);
  }
}

/* An idle connection that its server has closed is not used: the request is sent once and
 * succeeds. */
static bool close_after(test_conn *c, const test_request *req, void *ctx) {
  answer_ok(c, req, ctx);
  return false;
}

static void closed_while_idle(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, close_after, NULL);
  for (int i = 0; i < 10; i++) {
    assert_int_equal(post_ok(&f), 0);
    fixture_step_for(&f, 10);
  }
  assert_int_equal(test_server_requests(f.server), 10);
  assert_int_equal(test_server_connections(f.server), 10);
  fixture_close(&f);
}

static bool unavailable(test_conn *c, const test_request *req, void *ctx) {
  (void)req, (void)ctx;
  test_answer(c, 503,
              "{\"error\":{\"type\":\"cluster_block_exception\",\"reason\":\"no master\"}}");
  return true;
}

static void a_503_is_an_answer(void **state) {
  (void)state;
  pair p = {0};
  pair_open(&p, unavailable, answer_ok, NULL);
  mt_http_req req;
  post(&p.f, &req, true);
  assert_int_equal(req.error.code, MORTISE_OK);
  assert_int_equal(req.status, 503);
  assert_int_equal(test_server_requests(p.b), 0);
  mortise_error err;
  assert_int_equal(mt_http_status(&req, "a bulk", &err), MORTISE_UNAVAILABLE);
  assert_true(err.ambiguous && err.retryable);
  mt_http_req_deinit(&req);
  for (int i = 0; i < 4; i++) assert_int_equal(post_ok(&p.f), 1); /* skipped for a while */
  pair_close(&p);
}

static bool wait_a_little(test_conn *c, const test_request *req, void *ctx) {
  test_sleep(c, 20);
  return answer_ok(c, req, ctx);
}

static void many_at_once(void **state) {
  (void)state;
  enum { N = 60 };
  pair p = {.f.config = {.connections = 4}};
  pair_open(&p, wait_a_little, wait_a_little, NULL);
  mt_http_req reqs[N], *all[N];
  for (int i = 0; i < N; i++) {
    reqs[i] = fixture_request(&p.f, "POST", "/", "{}");
    all[i] = &reqs[i];
    mt_http_submit(p.f.http, &reqs[i]);
  }
  fixture_wait(&p.f, all, N);
  for (int i = 0; i < N; i++) {
    assert_answer(&reqs[i], 200, ok);
    mt_http_req_deinit(&reqs[i]);
  }
  assert_int_equal(test_server_requests(p.a), N / 2);
  assert_int_equal(test_server_requests(p.b), N / 2);
  assert_int_equal(test_server_connections(p.a), 4);
  assert_int_equal(test_server_connections(p.b), 4);
  pair_close(&p);
}

/* A request that ran out of time in our own queue does not mark its node as failed. */
static bool wait_longer(test_conn *c, const test_request *req, void *ctx) {
  test_sleep(c, 400);
  return answer_ok(c, req, ctx);
}

static void our_own_queue_is_not_the_nodes_fault(void **state) {
  (void)state;
  pair p = {.f.config = {.connections = 1}};
  pair_open(&p, wait_longer, answer_ok, NULL);
  mt_http_req slow = fixture_request(&p.f, "POST", "/", "{}");
  mt_http_req queued = fixture_request(&p.f, "POST", "/", "{}");
  slow.node = queued.node = 0;
  queued.deadline_ms = mt_loop_now(p.f.loop) + 100;
  mt_http_submit(p.f.http, &slow);
  fixture_step_for(&p.f, 20);
  mt_http_submit(p.f.http, &queued);
  fixture_wait(&p.f, (mt_http_req *[]){&queued}, 1);
  assert_failed(&queued, MORTISE_UNAVAILABLE, false, "no connection in time");
  assert_true(!p.f.logged.n || !strstr(p.f.logged.p, "is left out"));
  fixture_wait(&p.f, (mt_http_req *[]){&slow}, 1);
  assert_answer(&slow, 200, ok);
  assert_int_equal(test_server_requests(p.a), 1);
  mt_http_req_deinit(&slow);
  mt_http_req_deinit(&queued);
  pair_close(&p);
}

/* A client for each thread, as the heartbeat has one. */
static void *post_many(void *ctx) {
  mt_http_config config = {.nodes = ctx};
  mt_loop *loop = mt_loop_new(NULL);
  mt_http *http = mt_http_new(loop, &config, NULL, NULL);
  long good = 0;
  for (int i = 0; http && i < 50; i++) {
    mt_http_req req = {.method = "POST", .path = "/", .node = -1};
    mt_http_submit(http, &req);
    mt_loop_pump(loop, &req.finished, mt_clock_boot_ms() + 5000, NULL);
    good += req.status == 200;
    mt_http_req_deinit(&req);
  }
  mt_http_free(http);
  mt_loop_free(loop);
  return (void *)good;
}

static void one_client_a_thread(void **state) {
  (void)state;
  test_server *server = test_server_start(0, NULL, answer_ok, NULL);
  char nodes[64];
  snprintf(nodes, sizeof nodes, "http://localhost:%u", test_server_port(server));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, post_many, nodes), 0);
  for (int i = 0; i < 4; i++) {
    void *good = NULL;
    pthread_join(threads[i], &good);
    assert_int_equal((long)good, 50);
  }
  test_server_stop(server);
}

/* ---- the rule itself, without a network ---- */

static void backoff_doubles_to_a_minute(void **state) {
  (void)state;
  mt_nodes nodes;
  mortise_error err;
  assert_int_equal(mt_nodes_parse(&nodes, "http://a,b,c", &err), MORTISE_OK);
  nodes.seed = 42;
  int64_t now = 1000000, delay = 1000;
  for (int i = 0; i < 12; i++) {
    assert_true(mt_nodes_failed(&nodes, 0, now));
    int64_t left_out = nodes.v[0].dead_until_ms - now;
    assert_true(left_out <= delay && left_out > delay * 3 / 4);
    assert_false(mt_nodes_failed(&nodes, 0, now)); /* under way together: once */
    assert_int_equal(nodes.v[0].dead_until_ms - now, left_out);
    for (int k = 0; k < 6; k++) assert_int_not_equal(mt_nodes_pick(&nodes, now, 0), 0);
    now = nodes.v[0].dead_until_ms;
    delay = delay * 2 > 60000 ? 60000 : delay * 2;
  }
  assert_true(mt_nodes_answered(&nodes, 0));
  assert_false(mt_nodes_answered(&nodes, 0));
  assert_true(mt_nodes_failed(&nodes, 0, now));
  assert_true(nodes.v[0].dead_until_ms - now <= 1000);
  mt_nodes_deinit(&nodes);
}

static void when_all_are_out_the_first_to_return(void **state) {
  (void)state;
  mt_nodes nodes;
  mortise_error err;
  assert_int_equal(mt_nodes_parse(&nodes, "http://a,b,c", &err), MORTISE_OK);
  nodes.v[0].dead_until_ms = 300;
  nodes.v[1].dead_until_ms = 200;
  nodes.v[2].dead_until_ms = 400;
  assert_int_equal(mt_nodes_pick(&nodes, 100, 0), 1);
  assert_int_equal(mt_nodes_pick(&nodes, 100, 2), 0);
  assert_int_equal(mt_nodes_pick(&nodes, 100, 3), 2);
  assert_int_equal(mt_nodes_pick(&nodes, 100, 7), -1);
  assert_int_equal(mt_nodes_pick(&nodes, 250, 0), 1);
  mt_nodes_deinit(&nodes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_turn),
      cmocka_unit_test(refused_goes_elsewhere_and_comes_back),
      cmocka_unit_test(nobody_there),
      cmocka_unit_test(one_node_means_that_node),
      cmocka_unit_test(unknown_name),
      cmocka_unit_test(a_broken_request_is_not_sent_again),
      cmocka_unit_test(an_idempotent_one_is),
      cmocka_unit_test(ambiguity_sticks),
      cmocka_unit_test(libcurl_does_not_send_twice),
      cmocka_unit_test(closed_while_idle),
      cmocka_unit_test(a_503_is_an_answer),
      cmocka_unit_test(many_at_once),
      cmocka_unit_test(our_own_queue_is_not_the_nodes_fault),
      cmocka_unit_test(one_client_a_thread),
      cmocka_unit_test(backoff_doubles_to_a_minute),
      cmocka_unit_test(when_all_are_out_the_first_to_return),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
