/* An answer belongs to its request: what a server or a proxy sends unasked is never taken for
 * one. */
#include "http_fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct script {
  const char *extra; /* put on the connection after the first answer */
  int wait_ms;       /* between the two */
  bool echo;         /* answers have the id of their request */
  bool close;
  int status;          /* of later answers; 0: 200 */
  const char *with_id; /* the id that later answers have instead; "": none */
} script;

static const char right[] = "{\"count\":1}", wrong[] = "{\"count\":666}";

static void answer(test_conn *conn, int status, const char *id, const char *body) {
  test_sendf(conn, "HTTP/1.1 %d Word\r\n%s%s%sContent-Length: %zu\r\n\r\n%s", status,
             id[0] ? "x-opaque-id: " : "", id, id[0] ? "\r\n" : "", strlen(body), body);
}

static void id_of(const test_request *req, char out[400]) {
  const char *line = strstr(req->head, "X-Opaque-Id: ");
  out[0] = '\0';
  if (line) snprintf(out, 400, "%.*s", (int)strcspn(line + 13, "\r"), line + 13);
}

static bool serve(test_conn *conn, const test_request *req, void *ctx) {
  const script *s = ctx;
  char id[400];
  id_of(req, id);
  bool first = req->number == 1;
  const char *said = !s->echo ? "" : first || !s->with_id ? id : s->with_id;
  answer(conn, first || !s->status ? 200 : s->status, said, right);
  if (first && s->extra) {
    test_sleep(conn, s->wait_ms);
    test_send(conn, s->extra, strlen(s->extra));
    return !s->close;
  }
  return true;
}

/* Two requests, with time between them for unasked bytes. The second is in `second`. */
static void run_two(const script *s, fixture *f, mt_http_req *second, int between_ms) {
  fixture_open(f, serve, (void *)s);
  mt_http_req first = fixture_request(f, "POST", "/x/_count", "{}");
  fixture_run(f, &first);
  assert_answer(&first, 200, right);
  mt_http_req_deinit(&first);
  fixture_step_for(f, between_ms);
  *second = fixture_request(f, "POST", "/x/_count", "{}");
  fixture_run(f, second);
}

static void close_two(fixture *f, mt_http_req *second) {
  mt_http_req_deinit(second);
  fixture_close(f);
}

/* ---- bytes on an idle connection ---- */

static void one_answer_too_many(void **state) {
  (void)state;
  char extra[200];
  snprintf(extra, sizeof extra, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(wrong),
           wrong);
  for (int echo = 0; echo < 2; echo++) {
    for (int wait = 0; wait < 2; wait++) {
      fixture f = {0};
      mt_http_req second;
      const script s = {.extra = extra, .wait_ms = wait * 50, .echo = echo};
      run_two(&s, &f, &second, 200);
      assert_answer(&second, 200, right);
      assert_int_equal(test_server_requests(f.server), 2);
      assert_int_equal(test_server_connections(f.server), 2);
      close_two(&f, &second);
    }
  }
}

/* HAProxy and others end an idle connection with a 408. Nobody has read the request. */
static void timeout_of_an_idle_connection(void **state) {
  (void)state;
  fixture f = {0};
  mt_http_req second;
  const script s = {.extra = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n"
                             "Connection: close\r\n\r\n",
                    .close = true};
  run_two(&s, &f, &second, 100);
  assert_answer(&second, 200, right);
  assert_int_equal(test_server_requests(f.server), 2);
  close_two(&f, &second);
}

static void closed_while_idle(void **state) {
  (void)state;
  fixture f = {0};
  mt_http_req second;
  const script s = {.extra = "", .close = true};
  run_two(&s, &f, &second, 100);
  assert_answer(&second, 200, right);
  assert_int_equal(test_server_requests(f.server), 2);
  close_two(&f, &second);
}

/* Several connections are spoilt at once: none of them is used again. */
static atomic_int spoilt;

static bool serve_spoilt(test_conn *conn, const test_request *req, void *ctx) {
  (void)ctx;
  char id[400], extra[200];
  id_of(req, id);
  bool first = atomic_fetch_add(&spoilt, 1) < 4;
  if (first) test_sleep(conn, 50); /* so that each has a connection of its own */
  answer(conn, 200, id, right);
  snprintf(extra, sizeof extra, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(wrong),
           wrong);
  if (first) test_send(conn, extra, strlen(extra));
  return true;
}

static void four_spoilt_connections(void **state) {
  (void)state;
  enum { N = 4 };
  fixture f = {0};
  mt_http_req r[N], *all[N];
  fixture_open(&f, serve_spoilt, NULL);
  atomic_store(&spoilt, 0);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < N; i++) {
      r[i] = fixture_request(&f, "POST", "/", "{}");
      all[i] = &r[i];
      mt_http_submit(f.http, &r[i]);
    }
    fixture_wait(&f, all, N);
    for (int i = 0; i < N; i++) {
      assert_answer(&r[i], 200, right);
      mt_http_req_deinit(&r[i]);
    }
    fixture_step_for(&f, 100);
  }
  assert_int_equal(test_server_requests(f.server), 2 * N);
  fixture_close(&f);
}

/* ---- answers that say whose they are ---- */

static void the_answer_of_another_request(void **state) {
  (void)state;
  fixture f = {0};
  mt_http_req second;
  const script s = {.echo = true, .with_id = "0123456789abcdef-1"};
  run_two(&s, &f, &second, 0);
  assert_failed(&second, MORTISE_UNAVAILABLE, true, "not the answer to this request");
  close_two(&f, &second);
}

static bool answer_as_another(test_conn *conn, const test_request *req, void *ctx) {
  (void)req;
  (void)ctx;
  answer(conn, 200, "0123456789abcdef-1", right);
  return true;
}

/* From a node that has not answered before. */
static void a_first_answer_of_another_request(void **state) {
  (void)state;
  fixture f = {0};
  fixture_open(&f, answer_as_another, NULL);
  mt_http_req r = fixture_request(&f, "POST", "/x/_count", "{}");
  fixture_run(&f, &r);
  assert_failed(&r, MORTISE_UNAVAILABLE, true, "not the answer to this request");
  mt_http_req_deinit(&r);
  fixture_close(&f);
}

/* An id that is a prefix of another one does not match it, nor the reverse. */
static void an_id_that_only_begins_alike(void **state) {
  (void)state;
  fixture f = {0};
  mt_http_req second;
  const script s = {.echo = true, .with_id = "0"};
  run_two(&s, &f, &second, 0);
  assert_failed(&second, MORTISE_UNAVAILABLE, true, "not the answer to this request");
  close_two(&f, &second);
}

/* From a node whose answers had it. */
static void an_answer_without(void **state) {
  (void)state;
  static const struct {
    int status;
    bool believed;
  } cases[] = {{200, false}, {201, false}, {302, false}, {408, false},
               {400, true},  {413, true},  {429, true},  {502, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f = {0};
    mt_http_req second;
    const script s = {.echo = true, .with_id = "", .status = cases[i].status};
    run_two(&s, &f, &second, 0);
    if (cases[i].believed)
      assert_answer(&second, cases[i].status, right);
    else
      assert_failed(&second, MORTISE_UNAVAILABLE, true, "is missing");
    close_two(&f, &second);
  }
}

/* The statistics show that something strips the ids. */
static void a_node_that_never_says(void **state) {
  (void)state;
  fixture f = {0};
  mt_http_req second;
  const script s = {0};
  run_two(&s, &f, &second, 0);
  assert_answer(&second, 200, right);
  assert_int_equal(mt_http_get_stats(f.http).unidentified, 2);
  close_two(&f, &second);
}

typedef struct ids {
  char seen[3][400];
} ids;

static bool keep_ids(test_conn *conn, const test_request *req, void *ctx) {
  ids *all = ctx;
  if (req->number <= 3) id_of(req, all->seen[req->number - 1]);
  answer(conn, 200, all->seen[req->number - 1], right);
  return true;
}

/* Each request has its own id, which begins with the caller's. */
static void every_request_has_its_own(void **state) {
  (void)state;
  fixture f = {0};
  ids all = {0};
  fixture_open(&f, keep_ids, &all);
  for (int i = 0; i < 3; i++) {
    mt_http_req r = fixture_request(&f, "GET", "/", NULL);
    if (i == 2) r.opaque_id = "job-7";
    fixture_run(&f, &r);
    assert_answer(&r, 200, right);
    mt_http_req_deinit(&r);
  }
  assert_true(strlen(all.seen[0]) >= 18);
  assert_string_not_equal(all.seen[0], all.seen[1]);
  assert_memory_equal(all.seen[2], "job-7/", 6);
  assert_string_not_equal(all.seen[2] + 6, all.seen[1]);
  assert_int_equal(mt_http_get_stats(f.http).unidentified, 0);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_answer_too_many),
      cmocka_unit_test(timeout_of_an_idle_connection),
      cmocka_unit_test(closed_while_idle),
      cmocka_unit_test(four_spoilt_connections),
      cmocka_unit_test(the_answer_of_another_request),
      cmocka_unit_test(a_first_answer_of_another_request),
      cmocka_unit_test(an_id_that_only_begins_alike),
      cmocka_unit_test(an_answer_without),
      cmocka_unit_test(a_node_that_never_says),
      cmocka_unit_test(every_request_has_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
