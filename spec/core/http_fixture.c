#include "http_fixture.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static void on_log(void *ctx, mortise_log_level level, const char *line) {
  (void)level;
  mt_buf_adds(ctx, line);
  mt_buf_addc(ctx, '\n');
}

void fixture_open(fixture *f, test_handler *handler, void *ctx) {
  mortise_error err;
  mt_buf_init(&f->logged, 1 << 20);
  f->loop = mt_loop_new(&err);
  assert_non_null(f->loop);
  if (handler) f->server = test_server_start(0, NULL, handler, ctx);
  if (f->server && !f->config.nodes) {
    snprintf(f->nodes, sizeof f->nodes, "http://127.0.0.1:%u", test_server_port(f->server));
    f->config.nodes = f->nodes;
  }
  mt_log log = {on_log, &f->logged};
  f->http = mt_http_new(f->loop, &f->config, &log, &err);
  if (!f->http) print_message("%s\n", err.message);
  assert_non_null(f->http);
}

void fixture_open_far(fixture *f, test_handler *handler, void *ctx) {
  f->server = test_server_start(0, NULL, handler, ctx);
  snprintf(f->nodes, sizeof f->nodes, "http://0.0.0.0:%u", test_server_port(f->server));
  f->config.nodes = f->nodes;
  fixture_open(f, NULL, NULL);
}

void fixture_close(fixture *f) {
  if (f->logged.n) assert_no_secret(f->logged.p);
  assert_no_secret(mt_http_url(f->http));
  mt_http_free(f->http);
  mt_loop_free(f->loop);
  test_server_stop(f->server);
  mt_buf_deinit(&f->logged);
}

static void on_done(void *ctx, mt_http_req *req) {
  (void)req;
  ++*(int *)ctx;
}

/* Each test has few requests; their marks are kept here, so that a request is a plain value. */
static int marks[64];
static size_t next_mark;

mt_http_req fixture_request(fixture *f, const char *method, const char *path, const char *body) {
  int *mark = &marks[next_mark++ % 64];
  *mark = 0;
  return (mt_http_req){.done = on_done,
                       .ctx = mark,
                       .method = method,
                       .path = path,
                       .body = mt_slice_of(body),
                       .deadline_ms = mt_loop_now(f->loop) + 5000,
                       .node = -1};
}

bool fixture_done(const mt_http_req *req) {
  assert_true(*(int *)req->ctx <= 1);
  return *(int *)req->ctx;
}

void fixture_wait(fixture *f, mt_http_req *const *reqs, size_t n) {
  int64_t until = mt_clock_boot_ms() + 10000;
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(mt_loop_pump(f->loop, &reqs[i]->finished, until, NULL), MORTISE_OK);
    assert_true(fixture_done(reqs[i]));
  }
}

void fixture_run(fixture *f, mt_http_req *req) {
  mt_http_submit(f->http, req);
  assert_false(fixture_done(req));
  fixture_wait(f, &req, 1);
}

void fixture_step_for(fixture *f, int64_t ms) {
  int64_t until = mt_clock_boot_ms() + ms;
  for (int64_t left; (left = until - mt_clock_boot_ms()) > 0;)
    assert_int_equal(mt_loop_step(f->loop, left, NULL), MORTISE_OK);
}

void assert_no_secret(const char *text) {
  assert_null(strstr(text, SECRET));
  assert_null(strstr(text, SECRET_CODED));
  assert_null(strstr(text, "Authorization"));
}

void assert_failed(const mt_http_req *req, mortise_status code, bool ambiguous, const char *says) {
  const mortise_error *e = &req->error;
  if (e->code != code || e->ambiguous != ambiguous || !strstr(e->message, says))
    print_message("%s, %s: %s\n", mortise_status_name(e->code),
                  e->ambiguous ? "ambiguous" : "not sent", e->message);
  assert_int_equal(e->code, code);
  assert_int_equal(e->ambiguous, ambiguous);
  assert_non_null(strstr(e->message, says));
  assert_int_equal(req->status, 0);
  assert_int_equal(req->answer.n, 0);
  assert_no_secret(e->message);
  assert_no_secret(e->reason);
}

void assert_answer(const mt_http_req *req, int status, const char *text) {
  if (req->error.code) print_message("%s\n", req->error.message);
  assert_int_equal(req->error.code, MORTISE_OK);
  assert_int_equal(req->status, status);
  if (text) {
    assert_int_equal(req->answer.n, strlen(text));
    assert_memory_equal(req->answer.p ? req->answer.p : "", text, strlen(text));
  }
}
