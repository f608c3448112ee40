/* Requests over plain HTTP against servers that behave, and that do not. */
#include "base/clock.h"
#include "http_fixture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

static const char ok[] = "{\"ok\":true}";

static bool answer_ok(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  if (req->whole) test_answer(c, 200, ok);
  return true;
}

/* ---- plain requests ---- */

static bool echo(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  char first[512] = "";
  sscanf(req->head, "%511[^\r]", first);
  test_sendf(c, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(first) + 1 + req->n);
  test_sendf(c, "%s\n", first);
  test_send(c, req->body, req->n);
  return true;
}

static void run_echo(fixture *f, const char *method, const char *path, const char *body,
                     const char *wanted) {
  mt_http_req req = fixture_request(f, method, path, body);
  fixture_run(f, &req);
  assert_answer(&req, 200, wanted);
  mt_http_req_deinit(&req);
}

static void methods_and_bodies(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, echo, NULL);
  for (int round = 0; round < 2; round++) { /* handles are reused: no setting may persist */
    run_echo(&f, "POST", "/a/_doc", "{\"x\":1}", "POST /a/_doc HTTP/1.1\n{\"x\":1}");
    run_echo(&f, "GET", "/a/_search", "{}", "GET /a/_search HTTP/1.1\n{}");
    run_echo(&f, "GET", "/a?b=c", NULL, "GET /a?b=c HTTP/1.1\n");
    run_echo(&f, "PUT", "/a", NULL, "PUT /a HTTP/1.1\n");
    run_echo(&f, "DELETE", "/a", NULL, "DELETE /a HTTP/1.1\n");
    run_echo(&f, "POST", "/a/_refresh", NULL, "POST /a/_refresh HTTP/1.1\n");
    run_echo(&f, "DELETE", "/_search/scroll", "{}", "DELETE /_search/scroll HTTP/1.1\n{}");
    run_echo(&f, "GET", "/a/_doc/../%2E", NULL, "GET /a/_doc/../%2E HTTP/1.1\n");
  }
  assert_int_equal(test_server_requests(f.server), 16);
  assert_int_equal(test_server_connections(f.server), 1);
  mt_http_stats stats = mt_http_get_stats(f.http);
  assert_int_equal(stats.requests, 16);
  assert_int_equal(stats.retries, 0);
  assert_true(stats.sent_bytes > 16 * 40 && stats.received_bytes > 16 * 40);
  fixture_close(&f);
}

static bool head_only(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  bool head = !strncmp(req->head, "HEAD ", 5);
  test_sendf(c, "HTTP/1.1 %s\r\n\r\n", head ? "404 No\r\nContent-Length: 99" : "204 None");
  return true;
}

static void answers_without_a_body(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, head_only, NULL);
  mt_http_req head = fixture_request(&f, "HEAD", "/i", NULL);
  fixture_run(&f, &head);
  assert_answer(&head, 404, "");
  mt_http_req post = fixture_request(&f, "POST", "/i", "{}");
  fixture_run(&f, &post);
  assert_answer(&post, 204, "");
  assert_int_equal(test_server_connections(f.server), 1);
  mt_http_req_deinit(&head);
  mt_http_req_deinit(&post);
  fixture_close(&f);
}

static bool see_headers(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  bool ndjson = test_has(req, "\r\nContent-Type: application/x-ndjson\r\n");
  bool json = test_has(req, "\r\nContent-Type: application/json\r\n");
  bool id = test_has(req, "\r\nX-Opaque-Id: job-7/");
  bool none = !test_has(req, "Expect:") && !test_has(req, "Content-Encoding") &&
              !test_has(req, "Accept-Encoding") && !test_has(req, "Cookie") &&
              !test_has(req, "X-Opaque-Id: \r\n");
  char text[64];
  snprintf(text, sizeof text, "%s%s%s",
           ndjson ? "ndjson"
           : json ? "json"
                  : "-",
           id ? " id" : "", none ? "" : " more");
  test_answer(c, 200, text);
  return true;
}

static void headers(void **state) {
  (void)state;
  fixture f = {0};
  f.config.gzip_min = 16;
  fixture_open(&f, see_headers, NULL);
  static char large[100001];
  memset(large, 'x', sizeof large - 1);
  mt_http_req plain = fixture_request(&f, "POST", "/", large); /* local: never compressed */
  fixture_run(&f, &plain);
  assert_answer(&plain, 200, "json");
  mt_http_req all = fixture_request(&f, "POST", "/_bulk", "{}\n");
  all.content_type = "application/x-ndjson";
  all.opaque_id = "job-7";
  fixture_run(&f, &all);
  assert_answer(&all, 200, "ndjson id");
  mt_http_req again = fixture_request(&f, "GET", "/", NULL);
  fixture_run(&f, &again);
  assert_answer(&again, 200, "-");
  mt_http_req_deinit(&plain);
  mt_http_req_deinit(&all);
  mt_http_req_deinit(&again);
  fixture_close(&f);
}

static void refused_requests(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, answer_ok, NULL);
  const char *const bad[][2] = {{"PATCH", "/"},       {"GET", "a"},          {"GET", ""},
                                {"GET", "/a b"},      {"GET", "/a\r\nX: y"}, {"GET", "/\xc3\xa4"},
                                {"GET\r\nX: y", "/"}, {"GET", "/a#b"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mt_http_req req = fixture_request(&f, bad[i][0], bad[i][1], NULL);
    fixture_run(&f, &req);
    assert_failed(&req, MORTISE_INVALID_ARGUMENT, false, "");
    mt_http_req_deinit(&req);
  }
  mt_http_req id = fixture_request(&f, "GET", "/", NULL);
  id.opaque_id = "a\r\nX-Evil: 1";
  fixture_run(&f, &id);
  assert_failed(&id, MORTISE_INVALID_ARGUMENT, false, "X-Opaque-Id");
  mt_http_req node = fixture_request(&f, "GET", "/", NULL);
  node.node = 1;
  fixture_run(&f, &node);
  assert_failed(&node, MORTISE_INVALID_ARGUMENT, false, "no node 1");
  mt_http_req late = fixture_request(&f, "GET", "/", NULL);
  late.deadline_ms = mt_loop_now(f.loop) - 1;
  fixture_run(&f, &late);
  assert_failed(&late, MORTISE_UNAVAILABLE, false, "time was over");
  assert_int_equal(test_server_connections(f.server), 0);
  fixture_close(&f);
}

static void the_environment_names_no_proxy(void **state) {
  (void)state;
  static const char *const names[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
  for (size_t i = 0; i < 4; i++) setenv(names[i], "http://127.0.0.1:9", 1);
  fixture f = {0};
  fixture_open(&f, answer_ok, NULL);
  mt_http_req req = fixture_request(&f, "GET", "/", NULL);
  fixture_run(&f, &req);
  assert_answer(&req, 200, ok);
  mt_http_req_deinit(&req);
  fixture_close(&f);
  for (size_t i = 0; i < 4; i++) unsetenv(names[i]);
}

/* ---- broken answers ---- */

static bool send_raw(test_conn *c, const test_request *req, void *ctx) {
  if (req->whole) test_sendf(c, "%s", (const char *)ctx);
  return false;
}

static void cut_answers(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *says;
  } cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"errors\":fal", "cut off"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", "cut off"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n", "cut off"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"", "cut off"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "cut off"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ""},
      {"HTTP/1.1 200 OK\r\nContent-Le", ""},
      {"HTTP/1.1 200 OK\r\n", "cut off"},
      {"HTTP/1.1 200 OK\r\n\r\n{\"no\":\"end said\"}", "cut off"},
      {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}", ""},
      {"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}", ""},
      {"HTTP/1.1 20", ""},
      {"", "closed before an answer"},
      {"SSH-2.0-OpenSSH_9\r\n", "does not speak HTTP"},
      {"{\"json\":\"but no HTTP\"}\n", "does not speak HTTP"},
      {"HTTP/9.9 200 OK\r\n\r\n", "does not speak HTTP"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f = {.config = {.user = "user", .password = SECRET}};
    fixture_open(&f, send_raw, (void *)(uintptr_t)cases[i].bytes);
    mt_http_req req = fixture_request(&f, "POST", "/_bulk", "{}");
    fixture_run(&f, &req);
    if (!req.error.code) print_message("taken for whole: %s\n", cases[i].bytes);
    assert_failed(&req, MORTISE_UNAVAILABLE, true, cases[i].says);
    assert_false(req.error.retryable);
    assert_int_equal(test_server_requests(f.server), 1);
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
}

static bool send_slowly(test_conn *c, const test_request *req, void *ctx) {
  (void)req, (void)ctx;
  const char *text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\nX-Trailer: 1\r\n\r\n";
  for (; *text; text++) test_send(c, text, 1);
  return true;
}

static void chunks_in_pieces(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, send_slowly, NULL);
  for (int i = 0; i < 3; i++) {
    mt_http_req req = fixture_request(&f, "GET", "/", NULL);
    fixture_run(&f, &req);
    assert_answer(&req, 200, "{\"a\":1}");
    mt_http_req_deinit(&req);
  }
  assert_int_equal(test_server_connections(f.server), 1);
  fixture_close(&f);
}

static bool send_large(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  static const char block[1000] = "x";
  bool chunked = test_has(req, "/chunked");
  size_t n = strtoul(strstr(req->head, "n=") + 2, NULL, 10);
  if (chunked)
    test_sendf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  else
    test_sendf(c, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", n);
  for (size_t left = n; left;) {
    size_t part = left < sizeof block ? left : sizeof block;
    if (chunked) test_sendf(c, "%zx\r\n", part);
    test_send(c, block, part);
    if (chunked) test_sendf(c, "\r\n");
    left -= part;
  }
  if (chunked) test_sendf(c, "0\r\n\r\n");
  return true;
}

static void answer_cap(void **state) {
  (void)state;
  static const struct {
    const char *path;
    bool fits;
  } cases[] = {{"/length?n=100000", true},   {"/length?n=100001", false},
               {"/chunked?n=100000", true},  {"/chunked?n=100001", false},
               {"/length?n=9000000", false}, {"/chunked?n=9000000", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f = {.config = {.answer_max = 100000}};
    fixture_open(&f, send_large, NULL);
    mt_http_req req = fixture_request(&f, "GET", cases[i].path, NULL);
    fixture_run(&f, &req);
    if (cases[i].fits) {
      assert_answer(&req, 200, NULL);
      assert_int_equal(req.answer.n, 100000);
      assert_true(req.answer.cap <= 100001);
    } else {
      assert_failed(&req, MORTISE_REJECTED, true, "larger than 100000 bytes");
    }
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
}

static bool refuse_early(test_conn *c, const test_request *req, void *ctx) {
  (void)req, (void)ctx;
  test_answer(c, 413, "{\"error\":\"too large\"}");
  return false;
}

static void redirect_is_no_answer(void **state) {
  (void)state;
  fixture f = {.config = {.bearer = SECRET}};
  fixture_open(&f, send_raw,
               "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  mt_http_req req = fixture_request(&f, "POST", "/", "{}");
  fixture_run(&f, &req);
  assert_answer(&req, 302, "");
  mortise_error err;
  assert_int_equal(mt_http_status(&req, "a bulk", &err), MORTISE_REJECTED);
  assert_non_null(strstr(err.message, "redirect"));
  assert_int_equal(test_server_requests(f.server), 1);
  mt_http_req_deinit(&req);
  fixture_close(&f);
}

static void early_refusal_is_heard(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, refuse_early, NULL);
  mt_http_req req = fixture_request(&f, "POST", "/", "{}");
  fixture_run(&f, &req);
  assert_answer(&req, 413, "{\"error\":\"too large\"}");
  mt_http_req_deinit(&req);
  fixture_close(&f);
}

/* ---- time ---- */

static bool answer_late(test_conn *c, const test_request *req, void *ctx) {
  const int *ms = ctx;
  if (req->whole) {
    test_sleep(c, *ms);
    test_answer(c, 200, ok);
  }
  return true;
}

static bool answer_half(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  if (!test_has(req, "/half")) return answer_ok(c, req, NULL);
  test_sendf(c, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"half\":");
  test_sleep(c, 5000);
  return false;
}

static void deadline_cuts(void **state) {
  (void)state;
  for (int half = 0; half < 2; half++) {
    fixture f = {0};
    int ms = 4000;
    fixture_open(&f, half ? answer_half : answer_late, &ms);
    mt_http_req req = fixture_request(&f, "POST", half ? "/half" : "/", "{}");
    req.deadline_ms = mt_loop_now(f.loop) + 150;
    int64_t start = mt_clock_boot_ms();
    fixture_run(&f, &req);
    int64_t took = mt_clock_boot_ms() - start;
    assert_failed(&req, MORTISE_UNAVAILABLE, true, "no complete answer in time");
    assert_true(took >= 149 && took < 2000);
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
}

/* A listener whose queue is full: the kernel drops new connections, so connecting hangs. */
static int deaf[4];

static uint16_t deaf_port(void) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof at;
  deaf[0] = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(deaf[0], (struct sockaddr *)&at, n), 0);
  assert_int_equal(listen(deaf[0], 0), 0);
  assert_int_equal(getsockname(deaf[0], (struct sockaddr *)&at, &n), 0);
  for (int i = 1; i < 4; i++) {
    deaf[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)!connect(deaf[i], (struct sockaddr *)&at, n);
  }
  return ntohs(at.sin_port);
}

static void deaf_close(void) {
  for (int i = 0; i < 4; i++) close(deaf[i]);
}

static void connecting_has_its_own_time(void **state) {
  (void)state;
  char nodes[64];
  snprintf(nodes, sizeof nodes, "http://127.0.0.1:%u", deaf_port());
  fixture f = {.config = {.nodes = nodes, .connect_ms = 150}};
  fixture_open(&f, NULL, NULL);
  mt_http_req req = fixture_request(&f, "POST", "/", "{}");
  int64_t start = mt_clock_boot_ms();
  fixture_run(&f, &req);
  assert_failed(&req, MORTISE_UNAVAILABLE, false, "no connection within 150 ms");
  assert_true(req.error.retryable);
  assert_true(mt_clock_boot_ms() - start < 2000);
  mt_http_req_deinit(&req);
  mt_http_req cut = fixture_request(&f, "POST", "/", "{}");
  cut.deadline_ms = mt_loop_now(f.loop) + 50;
  fixture_run(&f, &cut);
  assert_failed(&cut, MORTISE_UNAVAILABLE, false, "no connection in time");
  mt_http_req_deinit(&cut);
  fixture_close(&f);
  deaf_close();
}

static void waiting_for_a_connection_is_not_connecting(void **state) {
  (void)state;
  int ms = 300;
  fixture f = {.config = {.connections = 1, .connect_ms = 100}};
  fixture_open(&f, answer_late, &ms);
  mt_http_req a = fixture_request(&f, "GET", "/", NULL), b = fixture_request(&f, "GET", "/", NULL);
  mt_http_submit(f.http, &a);
  mt_http_submit(f.http, &b);
  fixture_wait(&f, (mt_http_req *[]){&a, &b}, 2);
  assert_answer(&a, 200, ok);
  assert_answer(&b, 200, ok);
  assert_int_equal(test_server_connections(f.server), 1);
  mt_http_req_deinit(&a);
  mt_http_req_deinit(&b);
  fixture_close(&f);
}

/* ---- cancel ---- */

static void cancel_in_every_phase(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, answer_half, NULL);
  for (int phase = 0; phase < 6; phase++) {
    mt_http_req req = fixture_request(&f, "POST", phase < 5 ? "/half" : "bad", "{}");
    mt_http_submit(f.http, &req);
    for (int i = 0; i < phase && phase < 4; i++) mt_loop_step(f.loop, 5, NULL);
    if (phase == 4) fixture_step_for(&f, 100);
    mt_http_cancel(f.http, &req);
    mt_http_cancel(f.http, &req);
    mt_http_req_deinit(&req);
    fixture_step_for(&f, 10);
    assert_false(fixture_done(&req));
    mt_http_req good = fixture_request(&f, "GET", "/", NULL);
    fixture_run(&f, &good);
    assert_answer(&good, 200, ok);
    mt_http_cancel(f.http, &good); /* it has ended: nothing happens */
    mt_http_req_deinit(&good);
  }
  mt_http_req last = fixture_request(&f, "POST", "/half", "{}");
  mt_http_submit(f.http, &last);
  fixture_step_for(&f, 20);
  fixture_close(&f); /* cancels it */
  mt_http_req_deinit(&last);
}

typedef struct chain {
  fixture *f;
  mt_http_req next, *victim;
  int done;
} chain;

static void on_next(void *ctx, mt_http_req *req) {
  (void)req;
  ((chain *)ctx)->done++;
}

/* From inside `done`: cancel another, submit one more, and pump until it is done. */
static void on_first(void *ctx, mt_http_req *req) {
  chain *c = ctx;
  (void)req;
  mt_http_cancel(c->f->http, c->victim);
  mt_http_submit(c->f->http, &c->next);
  mt_loop_pump(c->f->loop, &c->next.finished, mt_clock_boot_ms() + 10000, NULL);
  c->done += 10;
}

static void inside_done(void **state) {
  (void)state;
  int ms = 30;
  fixture f = {0};
  fixture_open(&f, answer_late, &ms);
  mt_http_req victim = fixture_request(&f, "GET", "/v", NULL);
  chain c = {.f = &f, .victim = &victim};
  mt_http_req first = fixture_request(&f, "GET", "/1", NULL);
  first.done = on_first;
  first.ctx = &c;
  c.next = fixture_request(&f, "GET", "/2", NULL);
  c.next.done = on_next;
  c.next.ctx = &c;
  mt_http_submit(f.http, &first);
  mt_http_submit(f.http, &victim);
  mt_loop_pump(f.loop, &first.finished, mt_clock_boot_ms() + 10000, NULL);
  assert_int_equal(c.done, 11);
  assert_answer(&c.next, 200, ok);
  mt_http_req_deinit(&first);
  mt_http_req_deinit(&victim);
  mt_http_req_deinit(&c.next);
  fixture_close(&f);
}

/* ---- a lease that runs out ---- */

typedef struct lease {
  int asked, until; /* says no from the call numbered `until` */
} lease;

static bool still_held(void *ctx) {
  lease *l = *(lease **)ctx;
  return ++l->asked < l->until;
}

typedef struct held {
  lease *lease; /* first: what still_held reads */
  int done;
} held;

static void on_held(void *ctx, mt_http_req *req) {
  (void)req;
  ((held *)ctx)->done++;
}

static void run_held(fixture *f, mt_http_req *req, lease *l, mt_slice body) {
  held h = {.lease = l};
  *req = fixture_request(f, "POST", "/_bulk", NULL);
  req->body = body;
  req->may_send = still_held;
  req->done = on_held;
  req->ctx = &h;
  mt_http_submit(f->http, req);
  mt_loop_pump(f->loop, &req->finished, mt_clock_boot_ms() + 10000, NULL);
  assert_int_equal(h.done, 1);
}

static bool check_body(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  if (!req->whole) return false;
  for (size_t i = 0; i < req->n; i++)
    if (req->body[i] != (char)('a' + i % 23)) return false;
  return answer_ok(c, req, NULL);
}

static void held_back(void **state) {
  (void)state;
  static char bytes[3 << 20];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)('a' + i % 23);
  static const size_t sizes[] = {0, 2, 16384, 16385, 300000, sizeof bytes};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    fixture f = {0};
    fixture_open(&f, check_body, NULL);
    mt_slice body = {sizes[i] ? bytes : NULL, sizes[i]};
    mt_http_req req;
    lease always = {.until = 1000}, never = {.until = 1}, middle = {.until = 2};
    run_held(&f, &req, &always, body);
    assert_answer(&req, 200, ok);
    assert_int_equal(always.asked, sizes[i] ? 2 : 1);
    mt_http_req_deinit(&req);
    run_held(&f, &req, &never, body);
    assert_failed(&req, MORTISE_LOCK_LOST, false, "no longer held");
    mt_http_req_deinit(&req);
    run_held(&f, &req, &middle, body);
    if (sizes[i])
      assert_failed(&req, MORTISE_LOCK_LOST, sizes[i] > 16384, "no longer held");
    else
      assert_answer(&req, 200, ok);
    mt_http_req_deinit(&req);
    run_held(&f, &req, &always, body);
    assert_answer(&req, 200, ok);
    mt_http_req_deinit(&req);
    fixture_step_for(&f, 20);
    assert_int_equal(test_server_requests(f.server), sizes[i] ? 2 : 3);
    fixture_close(&f);
  }
}

/* ---- compression ---- */

static bool check_gzip(test_conn *c, const test_request *req, void *ctx) {
  const mt_slice *wanted = ctx;
  if (!test_has(req, "\r\nAccept-Encoding: gzip\r\n")) return false;
  if (!test_has(req, "\r\nContent-Encoding: gzip\r\n")) {
    test_answer(c, 200, "plain");
    return true;
  }
  char *out = malloc(wanted->n + 1);
  z_stream z = {.next_in = (Bytef *)req->body,
                .avail_in = (uInt)req->n,
                .next_out = (Bytef *)out,
                .avail_out = (uInt)wanted->n + 1};
  bool same = out && inflateInit2(&z, 31) == Z_OK && inflate(&z, Z_FINISH) == Z_STREAM_END &&
              z.total_out == wanted->n && !memcmp(out, wanted->p, wanted->n);
  inflateEnd(&z);
  free(out);
  test_answer(c, 200, same ? "same" : "differs");
  return true;
}

static void gzip_request(fixture *f, mt_slice body, bool held_too, const char *wanted) {
  lease always = {.until = 1000};
  mt_http_req req = fixture_request(f, "POST", "/_bulk", NULL);
  req.body = body;
  if (held_too) {
    run_held(f, &req, &always, body);
  } else {
    fixture_run(f, &req);
  }
  assert_answer(&req, 200, wanted);
  mt_http_req_deinit(&req);
}

static void gzip_body(void **state) {
  (void)state;
  static char text[3 << 20], noise[100000];
  uint32_t x = 7;
  for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)((x = x * 1664525 + 1013904223) >> 24);
  for (size_t i = 0; i < sizeof text; i++) text[i] = "{\"index\":{\"_id\":\"7\"}}\n"[i % 22];
  mt_slice wanted = {text, sizeof text};
  fixture f = {.config = {.gzip_min = 1000}};
  fixture_open_far(&f, check_gzip, &wanted);
  for (int held_too = 0; held_too < 2; held_too++) {
    wanted.n = sizeof text;
    gzip_request(&f, wanted, held_too, "same");
    wanted.n = 1000;
    gzip_request(&f, wanted, held_too, "same");
    wanted.n = 999;
    gzip_request(&f, wanted, held_too, "plain");
    gzip_request(&f, (mt_slice){noise, sizeof noise}, held_too, "plain");
  }
  fixture_close(&f);
}

/* ---- authentication ---- */

static bool check_auth(test_conn *c, const test_request *req, void *ctx) {
  const char *wanted = ctx;
  bool same = *wanted ? test_has(req, wanted) : !test_has(req, "Authorization");
  if (same)
    test_answer(c, 200, ok);
  else
    test_answer(c, 401, "{\"error\":\"who are you\"}");
  return true;
}

static void authorization(void **state) {
  (void)state;
  static const struct {
    mt_http_config config;
    const char *line;
  } cases[] = {
      {{.user = "user", .password = SECRET}, "\r\nAuthorization: Basic " SECRET_CODED "\r\n"},
      {{.user = "elastic", .password = "ch\xc3\xa4nge:me"},
       "\r\nAuthorization: Basic ZWxhc3RpYzpjaMOkbmdlOm1l\r\n"},
      {{.api_key = SECRET}, "\r\nAuthorization: ApiKey " SECRET "\r\n"},
      {{.bearer = SECRET}, "\r\nAuthorization: Bearer " SECRET "\r\n"},
      {{0}, ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f = {.config = cases[i].config};
    fixture_open(&f, check_auth, (void *)(uintptr_t)cases[i].line);
    for (int k = 0; k < 2; k++) {
      mt_http_req req = fixture_request(&f, "POST", "/", "{}");
      fixture_run(&f, &req);
      assert_answer(&req, 200, ok);
      mt_http_req_deinit(&req);
    }
    fixture_close(&f);
  }
}

/* ---- the trace ---- */

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static bool check_trace(test_conn *c, const test_request *req, void *ctx) {
  const char *wanted = ctx;
  bool same = *wanted ? test_has(req, wanted) : !test_has(req, "traceparent");
  test_answer(c, same ? 200 : 400, ok);
  return true;
}

static void the_environments_trace_is_passed_on(void **state) {
  (void)state;
  static const struct {
    const char *value, *line, *api_key;
  } cases[] = {
      {TRACE, "\r\ntraceparent: " TRACE "\r\n", NULL},
      {TRACE, "\r\ntraceparent: " TRACE "\r\n", SECRET},
      {NULL, "", NULL},
      {"", "", NULL},
      {TRACE "0", "", NULL},
      {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "", NULL},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7\r\nx", "", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (cases[i].value)
      setenv("TRACEPARENT", cases[i].value, 1);
    else
      unsetenv("TRACEPARENT");
    fixture f = {.config = {.api_key = cases[i].api_key}};
    fixture_open(&f, check_trace, (void *)(uintptr_t)cases[i].line);
    mt_http_req req = fixture_request(&f, "POST", "/", "{}");
    fixture_run(&f, &req);
    assert_answer(&req, 200, ok);
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
  unsetenv("TRACEPARENT");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_environments_trace_is_passed_on),
      cmocka_unit_test(methods_and_bodies),
      cmocka_unit_test(answers_without_a_body),
      cmocka_unit_test(headers),
      cmocka_unit_test(refused_requests),
      cmocka_unit_test(the_environment_names_no_proxy),
      cmocka_unit_test(cut_answers),
      cmocka_unit_test(chunks_in_pieces),
      cmocka_unit_test(answer_cap),
      cmocka_unit_test(redirect_is_no_answer),
      cmocka_unit_test(early_refusal_is_heard),
      cmocka_unit_test(deadline_cuts),
      cmocka_unit_test(connecting_has_its_own_time),
      cmocka_unit_test(waiting_for_a_connection_is_not_connecting),
      cmocka_unit_test(cancel_in_every_phase),
      cmocka_unit_test(inside_done),
      cmocka_unit_test(held_back),
      cmocka_unit_test(gzip_body),
      cmocka_unit_test(authorization),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
