/* Asking the cluster for its nodes: which are used, when it is asked, and what a failure changes. */
#include "base/clock.h"
#include "base/mem.h"
#include "http/internal.h"
#include "http_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char ok[] = "{\"ok\":true}";

enum { SERVERS = 3, TEXT_MAX = 2 << 20 };

/* Servers that answer alike: `status` and `text` to who asks for the nodes, "ok" to all others. */
typedef struct cluster {
  fixture f;
  pthread_mutex_t mutex;
  test_server *servers[SERVERS];
  uint16_t ports[SERVERS];
  char *text, head[8192]; /* of the last that asked for nodes */
  int status, wait_ms, slow_ms;
  bool echo, cut;
  const char *with_id; /* what who asks for nodes gets as id */
  atomic_uint asked;
  int warnings;
  char warned[1024];
} cluster;

static void on_line(void *ctx, mortise_log_level level, const char *line) {
  cluster *c = ctx;
  mt_buf_adds(&c->f.logged, line);
  mt_buf_addc(&c->f.logged, '\n');
  if (level != MORTISE_LOG_WARNING || !strstr(line, "sniffing")) return;
  c->warnings++;
  snprintf(c->warned, sizeof c->warned, "%s", line);
}

static void answer_with(test_conn *conn, const test_request *req, const cluster *c, int status, const char *id,
                        const char *body) {
  char own[400] = "";
  const char *line = strstr(req->head, "X-Opaque-Id: ");
  if (line) snprintf(own, sizeof own, "%.*s", (int)strcspn(line + 13, "\r"), line + 13);
  test_sendf(conn, "HTTP/1.1 %d Word\r\n%s%s%sContent-Length: %zu\r\n\r\n", status, c->echo ? "X-Opaque-Id: " : "",
             !c->echo ? "" : id ? id : own, c->echo ? "\r\n" : "", strlen(body));
  test_send(conn, body, strlen(body));
}

static bool serve(test_conn *conn, const test_request *req, void *ctx) {
  cluster *c = ctx;
  if (!req->whole) return false;
  if (!strstr(req->head, "/_nodes/http?")) {
    if (c->slow_ms && test_has(req, "/slow")) test_sleep(conn, c->slow_ms);
    answer_with(conn, req, c, 200, NULL, ok);
    return true;
  }
  c->asked++;
  pthread_mutex_lock(&c->mutex);
  char *text = strdup(c->text ? c->text : "");
  int status = c->status ? c->status : 200, wait_ms = c->wait_ms;
  bool cut = c->cut;
  const char *id = c->with_id;
  memcpy(c->head, req->head, sizeof c->head);
  pthread_mutex_unlock(&c->mutex);
  if (wait_ms) test_sleep(conn, wait_ms);
  if (!cut) answer_with(conn, req, c, status, id, text ? text : "");
  free(text);
  return !cut;
}

static void say_text(cluster *c, int status, const char *text) {
  pthread_mutex_lock(&c->mutex);
  free(c->text);
  c->text = strdup(text);
  c->status = status;
  pthread_mutex_unlock(&c->mutex);
}

/* The nodes of this mask, with a ruler of the cluster where nobody listens. */
static void say_nodes(cluster *c, unsigned mask) {
  char text[1024] = "{\"nodes\":{\"ruler\":{\"roles\":[\"master\"],\"http\":{\"publish_address\":\"127.0.0.1:1\"}}";
  for (size_t i = 0; i < SERVERS; i++) {
    size_t n = strlen(text);
    if (mask >> i & 1)
      snprintf(text + n, sizeof text - n,
               ",\"n%zu\":{\"roles\":[\"data\",\"master\"],\"http\":{\"publish_address\":\"127.0.0.1:%u\"}}", i, c->ports[i]);
  }
  strcat(text, "}}");
  say_text(c, 200, text);
}

static void cluster_start(cluster *c) {
  pthread_mutex_init(&c->mutex, NULL);
  for (size_t i = 0; i < SERVERS; i++) {
    c->servers[i] = test_server_start(0, NULL, serve, c);
    c->ports[i] = test_server_port(c->servers[i]);
  }
}

/* A client that knows the first. */
static void cluster_open(cluster *c) {
  cluster_start(c);
  snprintf(c->f.nodes, sizeof c->f.nodes, "http://127.0.0.1:%u", c->ports[0]);
  if (!c->f.config.nodes) c->f.config.nodes = c->f.nodes;
  c->f.config.sniff = true;
  fixture_open(&c->f, NULL, NULL);
  c->f.http->log = (mt_log){on_line, c};
}

static void cluster_stop(cluster *c) {
  for (size_t i = 0; i < SERVERS; i++) test_server_stop(c->servers[i]);
  free(c->text);
  pthread_mutex_destroy(&c->mutex);
}

static void cluster_close(cluster *c) {
  fixture_close(&c->f);
  cluster_stop(c);
}

static void settle(cluster *c) {
  int64_t until = mt_clock_boot_ms() + 5000;
  while (c->f.http->sniff.busy && mt_clock_boot_ms() < until) mt_loop_step(c->f.loop, 50, NULL);
  assert_false(c->f.http->sniff.busy);
}

/* The port of who answered. */
static int post(cluster *c) {
  mt_http_req req = fixture_request(&c->f, "POST", "/_bulk", "{}");
  fixture_run(&c->f, &req);
  assert_answer(&req, 200, ok);
  int port = atoi(strrchr(req.node_url, ':') + 1);
  mt_http_req_deinit(&req);
  return port;
}

/* As if the time had come. */
static void next_turn(cluster *c) {
  c->f.http->sniff.due_ms = 0;
  post(c);
  settle(c);
}

/* The same of a cluster whose nodes nobody may be sent to: all go to the first, which was named. */
static void next_turn_at_the_first(cluster *c) {
  c->f.http->sniff.due_ms = 0;
  for (size_t i = 1; i < c->f.http->nodes.n; i++) c->f.http->nodes.v[i].dead_until_ms = INT64_MAX;
  post(c);
  settle(c);
}

static void assert_posts(cluster *c, int a, int b, int third) {
  int counts[SERVERS] = {0};
  for (int i = 0; i < a + b + third; i++) {
    int port = post(c);
    for (size_t k = 0; k < SERVERS; k++) counts[k] += port == c->ports[k];
  }
  assert_int_equal(counts[0], a);
  assert_int_equal(counts[1], b);
  assert_int_equal(counts[2], third);
}

/* ---- Which nodes are used ------------------------------------------------------------------- */

static void nodes_found_are_used(void **state) {
  (void)state;
  cluster c = {.echo = true, .f.config = {.user = "user", .password = SECRET}};
  cluster_open(&c);
  say_nodes(&c, 7);
  assert_int_equal(post(&c), c.ports[0]);
  settle(&c);
  assert_posts(&c, 3, 3, 3);
  settle(&c);
  assert_int_equal(c.asked, 1);
  assert_int_equal(c.warnings, 0);
  assert_int_equal(mt_http_get_stats(c.f.http).retries, 0); /* the ruler was not tried */
  assert_int_equal(c.f.http->nodes.n, 3);
  assert_non_null(strstr(c.f.logged.p, "is a node of the cluster"));
  assert_true(!strncmp(c.head, "GET /_nodes/http?", 17));
  assert_non_null(strstr(c.head, "\r\nX-Opaque-Id: "));
  assert_non_null(strstr(c.head, "\r\nAuthorization: Basic " SECRET_CODED "\r\n"));
  cluster_close(&c);
}

static void not_unless_asked_for(void **state) {
  (void)state;
  cluster c = {0};
  cluster_open(&c);
  say_nodes(&c, 7);
  mt_http_free(c.f.http);
  c.f.config.sniff = false;
  c.f.http = mt_http_new(c.f.loop, &c.f.config, NULL, NULL);
  assert_posts(&c, 5, 0, 0);
  assert_int_equal(c.asked, 0);
  cluster_close(&c);
}

static void what_has_left_is_a_last_resort(void **state) {
  (void)state;
  cluster c = {0};
  cluster_open(&c);
  say_nodes(&c, 3);
  next_turn(&c);
  assert_posts(&c, 2, 2, 0);
  say_nodes(&c, 4); /* both have left, the one that was named and the one that was found */
  next_turn(&c);
  assert_posts(&c, 0, 0, 6);
  assert_non_null(strstr(c.f.logged.p, "it is used where no other is left"));
  test_server_stop(c.servers[2]);
  c.servers[2] = NULL;
  assert_posts(&c, 2, 2, 0);
  say_nodes(&c, 2); /* one comes back */
  next_turn(&c);
  assert_posts(&c, 0, 4, 0);
  cluster_close(&c);
}

static void a_node_that_comes_back_is_no_longer_left_out(void **state) {
  (void)state;
  cluster c = {0};
  cluster_open(&c);
  say_nodes(&c, 3);
  next_turn(&c);
  test_server_stop(c.servers[1]);
  c.servers[1] = NULL;
  assert_posts(&c, 4, 0, 0);
  say_nodes(&c, 1);
  next_turn(&c);
  c.servers[1] = test_server_start(c.ports[1], NULL, serve, &c);
  say_nodes(&c, 3);
  next_turn(&c);
  assert_posts(&c, 2, 2, 0);
  cluster_close(&c);
}

static bool is_used(const cluster *c, const char *url) {
  for (size_t i = 0; i < c->f.http->nodes.n; i++)
    if (!strcmp(c->f.http->nodes.v[i].url, url)) return !c->f.http->nodes.v[i].spare;
  return false;
}

static void roles_and_addresses(void **state) {
  (void)state;
  static const struct {
    const char *node;
    bool used;
  } rows[] = {
      {"\"roles\":[\"data\"],\"http\":{\"publish_address\":\"10.0.0.1:9200\"}", true},
      {"\"roles\":[\"data_hot\",\"master\"],\"http\":{\"publish_address\":\"10.0.0.2:9200\"}", true},
      {"\"roles\":[],\"http\":{\"publish_address\":\"10.0.0.3:9200\"}", true},
      {"\"http\":{\"publish_address\":\"10.0.0.4:9200\"}", true},
      {"\"roles\":[\"remote_cluster_client\"],\"http\":{\"publish_address\":\"10.0.0.5:9200\"}", true},
      {"\"roles\":[\"cluster_manager\",\"ingest\"],\"http\":{\"publish_address\":\"10.0.0.6:9200\"}", true},
      {"\"roles\":[\"master\"],\"http\":{\"publish_address\":\"10.0.0.7:9200\"}", false},
      {"\"roles\":[\"cluster_manager\"],\"http\":{\"publish_address\":\"10.0.0.8:9200\"}", false},
      {"\"roles\":[\"master\",\"voting_only\"],\"http\":{\"publish_address\":\"10.0.0.9:9200\"}", false},
      {"\"roles\":[\"master\",\"remote_cluster_client\"],\"http\":{\"publish_address\":\"10.0.0.10:9200\"}", false},
      {"\"roles\":[\"data\"]", false},
      {"\"roles\":[\"data\"],\"http\":{\"publish_address\":11}", false},
      {"\"roles\":[\"data\"],\"http\":{\"publish_address\":\"0.0.0.0:9212\"}", false},
      {"\"roles\":[\"data\"],\"http\":{\"publish_address\":\"[::]:9213\"}", false},
      {"\"roles\":[\"data\"],\"http\":{\"publish_address\":\"10.0.0.14\"}", false},
  };
  enum { ROWS = sizeof rows / sizeof *rows };
  char text[ROWS * 128] = "{\"nodes\":{";
  for (size_t i = 0; i < ROWS; i++) {
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "%s\"%zu\":{%s}", i ? "," : "", i, rows[i].node);
  }
  strcat(text, "}}");
  cluster c = {0};
  cluster_open(&c);
  say_text(&c, 200, text);
  next_turn(&c);
  size_t used = 0;
  for (size_t i = 0; i < ROWS; i++) {
    char url[64];
    used += rows[i].used;
    snprintf(url, sizeof url, "http://10.0.0.%zu:9200", i + 1);
    if (is_used(&c, url) != rows[i].used) fail_msg("%s", rows[i].node);
  }
  assert_int_equal(c.f.http->nodes.n, used + 1);
  assert_true(c.f.http->nodes.v[0].spare); /* which was named, and is none of them */
  cluster_close(&c);
}

static void published_addresses(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"10.0.0.1:9200", "https://10.0.0.1:9200/be/hind"},
      {"es1/10.0.0.1:9201", "https://es1:9201/be/hind"},
      {"es1.example.org/[2001:db8::7]:9200", "https://es1.example.org:9200/be/hind"},
      {"[2001:db8::7]:9200", "https://[2001:db8::7]:9200/be/hind"},
      {"/10.0.0.1:9200", NULL},
      {"es1/", NULL},
      {"es1/10.0.0.1", NULL},
      {"es1:9/10.0.0.1:9200", NULL},
      {"es1/10.0.0.1:9200/path", NULL},
      {"es1/10.0.0.1:9200/", NULL},
      {"es 1/10.0.0.1:9200", NULL},
      {"user:" SECRET "@es1/10.0.0.1:9200", NULL},
      {"10.0.0.1:9200?x", NULL},
      {"http://10.0.0.1:9200", NULL},
      {"10.0.0.1:0", NULL},
      {"10.0.0.1:99999", NULL},
      {"10.0.0.1:", NULL},
      {":9200", NULL},
      {"2001:db8::7:9200", NULL},
      {"[2001:db8::7", NULL},
      {"a,b:9200", NULL},
      {"", NULL},
  };
  mt_nodes nodes;
  mortise_error err;
  assert_int_equal(mt_nodes_parse(&nodes, "https://gateway:443/be/hind,http://other:1/x", &err), MORTISE_OK);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mt_node node;
    mortise_status status = mt_node_published(&node, mt_slice_of(rows[i][0]), &nodes.v[0], &err);
    if (status != (rows[i][1] ? MORTISE_OK : MORTISE_INVALID_ARGUMENT)) fail_msg("%s", rows[i][0]);
    if (status) {
      assert_no_secret(err.message);
      continue;
    }
    assert_string_equal(node.url, rows[i][1]);
    assert_true(node.tls && !node.named && !node.spare);
    mt_free(node.url);
  }
  mt_node node;
  assert_int_equal(mt_node_published(&node, (mt_slice){"es1\0/10.0.0.1:9200", 18}, &nodes.v[0], &err),
                   MORTISE_INVALID_ARGUMENT);
  mt_nodes_deinit(&nodes);
}

/* A loopback address of another machine would lead to a stranger on this one. */
static void a_far_nodes_loopback_is_not_ours(void **state) {
  (void)state;
  cluster c = {.f.config = {.bearer = SECRET}};
  char nodes[64];
  cluster_start(&c);
  snprintf(nodes, sizeof nodes, "http://0.0.0.0:%u", c.ports[0]);
  c.f.config.nodes = nodes;
  c.f.config.sniff = true;
  fixture_open(&c.f, NULL, NULL);
  c.f.http->log = (mt_log){on_line, &c};
  say_nodes(&c, 7);
  next_turn(&c);
  assert_int_equal(c.f.http->nodes.n, 1);
  assert_int_equal(c.warnings, 1);
  assert_non_null(strstr(c.warned, "it would be of this machine"));
  assert_null(strstr(c.f.logged.p, "10.0.0.1"));
  say_text(&c, 200, "{\"nodes\":{\"a\":{\"http\":{\"publish_address\":\"10.0.0.1:9200\"}}}}");
  next_turn(&c);
  assert_int_equal(c.f.http->nodes.n, 2);
  assert_non_null(strstr(c.f.logged.p, "http://10.0.0.1:9200: the credentials go over the network in clear text"));
  cluster_close(&c);
}

/* ---- When it is asked ----------------------------------------------------------------------- */

static void a_failed_node_causes_one_more(void **state) {
  (void)state;
  cluster c = {0};
  cluster_open(&c);
  say_nodes(&c, 7);
  next_turn(&c);
  const mt_sniff *s = &c.f.http->sniff;
  assert_int_equal(s->due_ms - s->asked_ms, MT_SNIFF_EVERY_MS);
  test_server_stop(c.servers[2]);
  c.servers[2] = NULL;
  say_nodes(&c, 3);
  assert_posts(&c, 5, 4, 0);
  for (int i = 0; i < 3; i++) { /* it fails again and again */
    c.f.http->nodes.v[2].dead_until_ms = 0;
    for (int k = 0; k < 6; k++) post(&c);
  }
  assert_true(c.f.http->nodes.v[2].failures >= 3);
  assert_int_equal(c.asked, 1);
  assert_int_equal(s->due_ms - s->asked_ms, MT_SNIFF_AGAIN_MS);
  next_turn(&c);
  for (int i = 0; i < 10; i++) post(&c);
  settle(&c);
  assert_int_equal(c.asked, 2);
  assert_true(c.f.http->nodes.v[2].spare);
  assert_int_equal(s->due_ms - s->asked_ms, MT_SNIFF_EVERY_MS);
  cluster_close(&c);
}

static void nobody_is_asked_before_one_answers(void **state) {
  (void)state;
  cluster c = {0};
  cluster_open(&c);
  say_nodes(&c, 7);
  test_server_stop(c.servers[0]);
  c.servers[0] = NULL;
  for (int i = 0; i < 3; i++) {
    mt_http_req req = fixture_request(&c.f, "GET", "/", NULL);
    fixture_run(&c.f, &req);
    assert_failed(&req, MORTISE_UNAVAILABLE, false, "connection refused");
    mt_http_req_deinit(&req);
  }
  assert_false(c.f.http->sniff.busy);
  assert_int_equal(c.f.http->sniff.asked_ms, 0);
  c.servers[0] = test_server_start(c.ports[0], NULL, serve, &c);
  post(&c);
  settle(&c);
  assert_int_equal(c.f.http->nodes.n, 3);
  cluster_close(&c);
}

/* Neither for an answer, nor for a connection. */
static void nothing_waits_for_it(void **state) {
  (void)state;
  cluster c = {.wait_ms = 2000, .f.config = {.connections = 1}};
  cluster_open(&c);
  say_nodes(&c, 3);
  int64_t before = mt_clock_boot_ms();
  assert_posts(&c, 20, 0, 0);
  assert_true(c.f.http->sniff.busy);
  assert_true(mt_clock_boot_ms() - before < 1900);
  assert_int_equal(test_server_connections(c.servers[0]), 2);
  settle(&c);
  assert_posts(&c, 2, 2, 0);
  cluster_close(&c);
}

static void while_others_are_under_way(void **state) {
  (void)state;
  enum { N = 12 };
  cluster c = {.slow_ms = 300, .wait_ms = 60};
  cluster_open(&c);
  say_nodes(&c, 7);
  mt_http_req reqs[N], *all[N];
  size_t left = 0;
  post(&c);
  assert_true(c.f.http->sniff.busy);
  for (int i = 0; i < N; i++) {
    reqs[i] = fixture_request(&c.f, "POST", "/slow", "{}");
    mt_http_submit(c.f.http, &reqs[i]);
    if (i == N / 2) settle(&c);
  }
  say_nodes(&c, 2); /* what answers is none of the cluster any more */
  next_turn(&c);
  for (int i = 0; i < N; i++) {
    if (i % 3 == 0)
      mt_http_cancel(c.f.http, &reqs[i]);
    else
      all[left++] = &reqs[i];
  }
  fixture_wait(&c.f, all, left);
  for (size_t i = 0; i < left; i++) assert_answer(all[i], 200, ok);
  for (int i = 0; i < N; i++) mt_http_req_deinit(&reqs[i]);
  assert_posts(&c, 0, 4, 0);
  cluster_close(&c);
}

static void freed_while_it_is_asked(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    cluster c = {.wait_ms = 2000};
    cluster_open(&c);
    say_nodes(&c, 7);
    post(&c);
    assert_true(c.f.http->sniff.busy);
    if (i) fixture_step_for(&c.f, i * 20);
    cluster_close(&c);
  }
}

/* ---- What a failure changes ----------------------------------------------------------------- */

typedef struct failure {
  int status;
  const char *text, *says;
} failure;

static const failure failures[] = {
    {403, "{\"error\":{\"type\":\"security_exception\",\"reason\":\"no permissions for [cluster:monitor/nodes/info] and User "
          "[name=u]\"}}", "missing right cluster:monitor/nodes/info"},
    {403, "{\"error\":{\"type\":\"security_exception\",\"reason\":\"action [cluster:monitor/nodes/info] is unauthorized for "
          "user [u], this action is granted by the cluster privileges [monitor,manage,all]\"}}",
     "missing right cluster:monitor/nodes/info (granted by the cluster privileges [monitor"},
    {403, "<html>Forbidden", "this needs the right cluster:monitor/nodes/info"},
    {401, "{}", "this needs the right cluster:monitor/nodes/info"},
    {404, "{}", "answered 404"},
    {302, "", "a redirect"},
    {429, "{}", "answered 429"},
    {500, "{\"error\":\"two\\nlines\"}", "two"},
    {503, "{}", "answered 503"},
    {200, "", "what answered"},
    {200, "{", "what answered"},
    {200, "<html>", "what answered"},
    {200, "[]", "there are no nodes"},
    {200, "{}", "there are no nodes"},
    {200, "{\"nodes\":[]}", "there are no nodes"},
    {200, "{\"nodes\":{}}", "of the 0 nodes"},
    {200, "{\"nodes\":{\"a\":42,\"b\":{\"http\":[]}}}", "of the 2 nodes"},
    {200, "{\"nodes\":{\"a\":{\"http\":{\"publish_address\":\"nonsense\"}},\"b\":{\"http\":{\"publish_address\":\"user:" SECRET
          "@a:1\"}}}}", "of the 2 nodes"},
    {200, "{\"nodes\":{\"a\":{\"roles\":[\"master\"],\"http\":{\"publish_address\":\"10.0.0.1:1\"}}}}", "of the 1 nodes"},
};

static void assert_unchanged(cluster *c, const char *says) {
  if (!strstr(c->warned, says)) fail_msg("%s, not %s", c->warned, says);
  assert_non_null(strstr(c->warned, "sniffing: the nodes stay as they are"));
  assert_null(strchr(c->warned, '\n'));
  assert_int_equal(c->f.http->nodes.n, 1);
  assert_false(c->f.http->nodes.v[0].spare);
  assert_int_equal(c->f.http->nodes.v[0].failures, 0);
  assert_null(strstr(c->f.logged.p, "is left out"));
}

static void a_failure_changes_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
    cluster c = {.f.config = {.api_key = SECRET}};
    cluster_open(&c);
    say_text(&c, failures[i].status, failures[i].text);
    next_turn(&c);
    assert_unchanged(&c, failures[i].says);
    next_turn(&c);
    assert_int_equal(c.warnings, 1); /* not again */
    say_nodes(&c, 7);
    next_turn(&c);
    assert_int_equal(c.f.http->nodes.n, 3);
    say_text(&c, failures[i].status, failures[i].text);
    next_turn(&c);
    assert_int_equal(c.warnings, 2);
    for (size_t k = 0; k < 3; k++) assert_false(c.f.http->nodes.v[k].spare);
    assert_posts(&c, 2, 2, 2);
    cluster_close(&c);
  }
}

static void nor_does_silence(void **state) {
  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    cluster c = {.wait_ms = cut ? 0 : 1000, .cut = cut, .f.config = {.request_ms = 200}};
    cluster_open(&c);
    say_nodes(&c, 7);
    next_turn(&c);
    assert_unchanged(&c, cut ? "before an answer" : "no complete answer in time");
    assert_posts(&c, 3, 0, 0);
    cluster_close(&c);
  }
}

static void nor_does_an_answer_that_is_too_large(void **state) {
  (void)state;
  char *text = calloc(1, TEXT_MAX);
  assert_non_null(text);
  memset(text, ' ', MT_SNIFF_ANSWER_MAX + 1);
  cluster c = {0};
  cluster_open(&c);
  say_text(&c, 200, text);
  next_turn(&c);
  assert_unchanged(&c, "larger than 1048576 bytes");
  free(text);
  cluster_close(&c);
}

static void nor_does_anothers_answer(void **state) {
  (void)state;
  cluster c = {.echo = true, .with_id = "another-1"};
  cluster_open(&c);
  say_nodes(&c, 7);
  next_turn(&c);
  assert_unchanged(&c, "X-Opaque-Id is another's");
  pthread_mutex_lock(&c.mutex);
  c.with_id = NULL;
  pthread_mutex_unlock(&c.mutex);
  next_turn(&c);
  assert_int_equal(c.f.http->nodes.n, 3);
  cluster_close(&c);
}

/* Pieces of an answer in any order: never a node that is none. */
static void any_answer(void **state) {
  (void)state;
  static const char *const pieces[] = {
      "{", "}", "[", "]", ",", ":", "\"nodes\"", "\"nodes\":{", "\"a\":{", "\"http\":{", "\"roles\":[\"master\"]", "\"\\u0000\"",
      "\"publish_address\":\"10.0.0.1:92\"", "\"publish_address\":\"a/b/[::1]:9\"", "\"publish_address\":\"\\u0000:1\"", "}}}"};
  cluster c = {0};
  cluster_open(&c);
  srand(7);
  for (int i = 0; i < 200; i++) {
    char text[512] = "{\"nodes\":{\"a\":{";
    for (int k = rand() % 9; k >= 0; k--) strcat(text, pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)]);
    say_text(&c, 200, text);
    next_turn_at_the_first(&c);
    for (size_t k = 1; k < c.f.http->nodes.n; k++) assert_string_equal(c.f.http->nodes.v[k].url, "http://10.0.0.1:92");
    mt_buf_clear(&c.f.logged);
  }
  cluster_close(&c);
}

static void refused_where_nodes_are_behind_one_address(void **state) {
  (void)state;
  static const struct {
    mt_http_config config;
    const char *says;
  } rows[] = {
      {{.nodes = "http://a:9200", .unix_socket = "/run/search.sock"}, "sniff is given with unix_socket: "},
      {{.nodes = "https://search.us-east-1.es.amazonaws.com", .aws = true}, "sniff is given with aws: "},
      {{.nodes = "cloud:here:ZXhhbXBsZSRlcw=="}, "sniff is given with a cloud's id: "},
  };
  mt_loop *loop = mt_loop_new(NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mt_http_config config = rows[i].config;
    mortise_error err = {0};
    config.sniff = true;
    assert_null(mt_http_new(loop, &config, NULL, &err));
    assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
    if (strstr(err.message, rows[i].says) != err.message) fail_msg("%s", err.message);
    assert_non_null(strstr(err.message, "behind one address"));
  }
  mt_loop_free(loop);
}

/* ---- Places, without a network -------------------------------------------------------------- */

static size_t find_many(mt_nodes *nodes, size_t first, size_t n, uint64_t busy, int64_t now_ms, mt_nodes_change *change) {
  mt_node *found = mt_calloc(n, sizeof *found);
  for (size_t i = 0; i < n; i++) {
    char address[64];
    snprintf(address, sizeof address, "10.0.%zu.%zu:9200", (first + i) / 256, (first + i) % 256);
    assert_int_equal(mt_node_published(&found[i], mt_slice_of(address), &nodes->v[0], NULL), MORTISE_OK);
  }
  *change = mt_nodes_found(nodes, found, n, busy, 1000, now_ms);
  mt_free(found);
  return (size_t)__builtin_popcountll(change->come);
}

static void places_are_kept_while_they_are_used(void **state) {
  (void)state;
  mt_nodes nodes;
  mt_nodes_change change;
  mortise_error err;
  assert_int_equal(mt_nodes_parse(&nodes, "http://a,b", &err), MORTISE_OK);
  nodes.seed = 42;
  assert_int_equal(mt_nodes_widen(&nodes, &err), MORTISE_OK);
  assert_int_equal(find_many(&nodes, 0, 60, 0, 5000, &change), 60);
  assert_int_equal(change.gone, 3);
  assert_int_equal(find_many(&nodes, 10, 60, 0, 6000, &change), 2); /* ten more: for two there is a place */
  assert_int_equal(change.over, 8);
  assert_int_equal(nodes.n, MT_NODES_MAX);
  const char *url = nodes.v[2].url; /* of the first that has left */
  assert_string_equal(url, "http://10.0.0.0:9200");
  assert_int_equal(find_many(&nodes, 10, 60, 0, 6999, &change), 0); /* their URLs may be in use still */
  assert_ptr_equal(nodes.v[2].url, url);
  assert_int_equal(find_many(&nodes, 10, 60, 4, 7000, &change), 8); /* eight of ten; one is busy */
  assert_int_equal(change.over, 0);
  assert_ptr_equal(nodes.v[2].url, url);
  assert_true(nodes.v[0].named && nodes.v[0].spare && nodes.v[1].named && nodes.v[1].spare);
  assert_string_equal(nodes.v[0].url, "http://a:9200");
  /* Twice the same address is one node. */
  assert_int_equal(find_many(&nodes, 10, 1, 0, 7001, &change), 0);
  mt_node twice[2] = {0};
  for (size_t i = 0; i < 2; i++)
    assert_int_equal(mt_node_published(&twice[i], MT_SLICE("10.9.9.9:1"), &nodes.v[0], &err), MORTISE_OK);
  change = mt_nodes_found(&nodes, twice, 2, 0, 1000, 9000);
  assert_int_equal(__builtin_popcountll(change.come), 1);
  assert_int_equal(nodes.n, MT_NODES_MAX);
  mt_nodes_deinit(&nodes);
}

static void more_than_fit(void **state) {
  (void)state;
  char text[100 * 64] = "{\"nodes\":{";
  for (size_t i = 0; i < 80; i++) {
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "%s\"%zu\":{\"http\":{\"publish_address\":\"10.0.0.%zu:9\"}}", i ? "," : "", i, i);
  }
  strcat(text, "}}");
  cluster c = {0};
  cluster_open(&c);
  say_text(&c, 200, text);
  for (int i = 0; i < 2; i++) next_turn_at_the_first(&c);
  assert_int_equal(c.f.http->nodes.n, MT_NODES_MAX);
  assert_int_equal(c.warnings, 1);
  assert_non_null(strstr(c.warned, "of the cluster's nodes 17 are not used: 64 are the most"));
  cluster_close(&c);
}

static void a_spare_one_comes_after_all_others(void **state) {
  (void)state;
  mt_nodes nodes;
  mortise_error err;
  assert_int_equal(mt_nodes_parse(&nodes, "http://a,b,c,d", &err), MORTISE_OK);
  nodes.v[0].spare = nodes.v[2].spare = true;
  for (int i = 0; i < 4; i++) assert_int_equal(mt_nodes_pick(&nodes, 100, 0), i % 2 ? 3 : 1);
  nodes.v[1].dead_until_ms = 200;
  assert_int_equal(mt_nodes_pick(&nodes, 100, 0), 3);
  assert_int_equal(mt_nodes_pick(&nodes, 100, 8), 0);
  nodes.v[3].dead_until_ms = 300;
  assert_int_equal(mt_nodes_pick(&nodes, 100, 0), 2);
  assert_int_equal(mt_nodes_pick(&nodes, 100, 0), 0);
  assert_int_equal(mt_nodes_pick(&nodes, 100, 5), 1);
  nodes.v[0].dead_until_ms = 150;
  nodes.v[2].dead_until_ms = 160;
  assert_int_equal(mt_nodes_pick(&nodes, 100, 0), 0);
  assert_int_equal(mt_nodes_pick(&nodes, 100, 15), -1);
  mt_nodes_deinit(&nodes);
}

/* ---- Without memory ------------------------------------------------------------------------- */

static int left;

static bool fail_nth(void *ctx, size_t size) {
  (void)size;
  left--;
  return *(bool *)ctx ? left != 0 : left > 0;
}

static void ask_without_memory(const mt_http_config *config, int nth, bool once) {
  mt_loop *loop = mt_loop_new(NULL);
  left = nth;
  mt_mem_hook(fail_nth, &once);
  mt_http *http = mt_http_new(loop, config, NULL, NULL);
  for (int i = 0; http && i < 3; i++) {
    mt_http_req req = {.method = "POST", .path = "/", .node = -1};
    mt_http_submit(http, &req);
    mt_loop_pump(loop, &req.finished, mt_clock_boot_ms() + 5000, NULL);
    assert_true(req.finished && (req.error.code || req.status == 200));
    mt_http_req_deinit(&req);
    int64_t until = mt_clock_boot_ms() + 5000;
    while (http->sniff.busy && mt_clock_boot_ms() < until) mt_loop_step(loop, 50, NULL);
    assert_false(http->sniff.busy);
    http->sniff.due_ms = 0;
  }
  if (http) assert_true(http->nodes.n == 1 || http->nodes.n == 3);
  if (http && once) assert_int_equal(http->nodes.n, 3);
  mt_mem_hook(NULL, NULL);
  mt_http_free(http);
  mt_loop_free(loop);
}

static void without_memory(void **state) {
  (void)state;
  for (int once = 0; once < 2; once++) {
    for (int nth = 1; nth < 50; nth++) {
      cluster c = {0};
      char nodes[64];
      cluster_start(&c);
      say_nodes(&c, 7);
      snprintf(nodes, sizeof nodes, "http://127.0.0.1:%u", c.ports[0]);
      const mt_http_config config = {.nodes = nodes, .sniff = true};
      ask_without_memory(&config, nth, once);
      cluster_stop(&c);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nodes_found_are_used),
      cmocka_unit_test(not_unless_asked_for),
      cmocka_unit_test(what_has_left_is_a_last_resort),
      cmocka_unit_test(a_node_that_comes_back_is_no_longer_left_out),
      cmocka_unit_test(roles_and_addresses),
      cmocka_unit_test(published_addresses),
      cmocka_unit_test(a_far_nodes_loopback_is_not_ours),
      cmocka_unit_test(a_failed_node_causes_one_more),
      cmocka_unit_test(nobody_is_asked_before_one_answers),
      cmocka_unit_test(nothing_waits_for_it),
      cmocka_unit_test(while_others_are_under_way),
      cmocka_unit_test(freed_while_it_is_asked),
      cmocka_unit_test(a_failure_changes_nothing),
      cmocka_unit_test(nor_does_silence),
      cmocka_unit_test(nor_does_an_answer_that_is_too_large),
      cmocka_unit_test(nor_does_anothers_answer),
      cmocka_unit_test(any_answer),
      cmocka_unit_test(refused_where_nodes_are_behind_one_address),
      cmocka_unit_test(places_are_kept_while_they_are_used),
      cmocka_unit_test(more_than_fit),
      cmocka_unit_test(a_spare_one_comes_after_all_others),
      cmocka_unit_test(without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
