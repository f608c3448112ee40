/* The parts of core/http that need no network: lists of nodes, options, what a server's error says.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http/internal.h"
#include "http_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists of nodes ---- */

static void good_lists(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"http://127.0.0.1:9200", "http://127.0.0.1:9200"},
      {"HTTP://Host", "http://Host:9200"},
      {"https://host", "https://host:443"},
      {"http://host/", "http://host:9200"},
      {"https://a:9200,b:9201/prefix", "https://a:9200/prefix,https://b:9201/prefix"},
      {"https://a:1/p,b:2/q/", "https://a:1/p,https://b:2/q"},
      {"https://a:1/p,b:2", "https://a:1/p,https://b:2"},
      {"https://a,http://b,c", "https://a:443,http://b:9200,https://c:443"},
      {"http://[::1]:9200,[fe80::1]", "http://[::1]:9200,http://[fe80::1]:9200"},
      {"http://a.b-c_d.example.:65535", "http://a.b-c_d.example.:65535"},
      /* us-east-1.aws.found.io$cec6f261a74bf24ce33bb8811b84294f$c6c2ca6d042249af0cc7d7a9e9625743 */
      {"cloud:my-cluster:dXMtZWFzdC0xLmF3cy5mb3VuZC5pbyRjZWM2ZjI2MWE3NGJmMjRjZTMzYmI4ODExYjg0Mjk0ZiRjNmMyY2E2ZDA0M"
       "jI0OWFmMGNjN2Q3YTllOTYyNTc0Mw==",
       "https://cec6f261a74bf24ce33bb8811b84294f.us-east-1.aws.found.io:443"},
      /* host.io:9243$es:9244$kibana, host.io:9243$es, host.io$es$ */
      {"cloud:a:aG9zdC5pbzo5MjQzJGVzOjkyNDQka2liYW5h", "https://es.host.io:9244"},
      {"cloud:aG9zdC5pbzo5MjQzJGVz", "https://es.host.io:9243"},
      {"cloud:n:aG9zdC5pbyRlcyQ=", "https://es.host.io:443"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mt_nodes nodes;
    mortise_error err = {0};
    mortise_status status = mt_nodes_parse(&nodes, cases[i][0], &err);
    if (status) print_message("%s: %s\n", cases[i][0], err.message);
    assert_int_equal(status, MORTISE_OK);
    assert_string_equal(nodes.text, cases[i][1]);
    mt_nodes_deinit(&nodes);
  }
}

static void bad_lists(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "no node"},
      {"localhost:9200", "does not begin with"},
      {"//host", "host"},
      {"ftp://host", "scheme"},
      {"http://", "no host"},
      {"http://:9200", "no host"},
      {"http://a,,b", "node 2: it is empty"},
      {"http://a,", "node 2: it is empty"},
      {"http://a:0", "port is 0"},
      {"http://a:65536", "above 65535"},
      {"http://a:99999999999999999999", "above 65535"},
      {"http://a:", "port is empty"},
      {"http://a:" SECRET, "port is not a number"},
      {"http://a:9200x", "port is not a number"},
      {"http://a:-1", "port is not a number"},
      {"http://a b", "space"},
      {"http://a\n", "space"},
      {"http://a\xc3\xa4", "character"},
      {"http://a%41", "character"},
      {"http://a/?key=" SECRET, "query"},
      {"http://a#" SECRET, "query"},
      {"http://[::1", "']'"},
      {"http://[nonsense]:1", "IPv6"},
      {"http://[::1]9200", "follows"},
      {"http://user:" SECRET "@host:9200", "'@'"},
      {"http://" SECRET "@host", "'@'"},
      {"http://user:a," SECRET "@host", "'@'"},
      {"http://user:a/" SECRET "@host", "'@'"},
      {"http://user:a#" SECRET "@host", "'@'"},
      {"http://a,user:" SECRET "@b", "'@'"},
      {"cloud:", "base64"},
      {"cloud:name:", "base64"},
      {"cloud:name:x", "base64"},
      {"cloud:name:!!!!", "base64"},
      {"cloud:name:aG9zdC5pbw==", "no cluster"}, /* host.io */
      {"cloud:name:aG9zdC5pbyQ=", "no cluster"}, /* host.io$ */
      {"cloud:name:aCBzdCRlcw==", "space"},      /* h st$es */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mt_nodes nodes;
    mortise_error err = {0};
    mortise_status status = mt_nodes_parse(&nodes, cases[i][0], &err);
    if (status != MORTISE_INVALID_ARGUMENT || !strstr(err.message, cases[i][1]))
      print_message("%s: %s\n", cases[i][0], err.message);
    assert_int_equal(status, MORTISE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, cases[i][1]));
    assert_no_secret(err.message);
    mt_nodes_deinit(&nodes);
  }
}

static void too_long_lists(void **state) {
  (void)state;
  char text[20000] = "http://a";
  mt_nodes nodes;
  mortise_error err;
  for (int i = 1; i < 64; i++) strcat(text, ",a");
  assert_int_equal(mt_nodes_parse(&nodes, text, &err), MORTISE_OK);
  assert_int_equal(nodes.n, 64);
  mt_nodes_deinit(&nodes);
  strcat(text, ",a");
  assert_int_equal(mt_nodes_parse(&nodes, text, &err), MORTISE_INVALID_ARGUMENT);
  mt_nodes_deinit(&nodes);
  memset(text + 7, 'a', sizeof text - 8);
  assert_int_equal(mt_nodes_parse(&nodes, text, &err), MORTISE_INVALID_ARGUMENT);
  mt_nodes_deinit(&nodes);
  text[8000] = '\0';
  assert_int_equal(mt_nodes_parse(&nodes, text, &err), MORTISE_INVALID_ARGUMENT);
  mt_nodes_deinit(&nodes);
}

/* Random lists of critical pieces never crash, and a password never shows. */
static void any_list(void **state) {
  (void)state;
  static const char *const pieces[] = {"http://", "https://", "a",   ":", "9200", ",", "/",
                                       "[",       "]",        "::1", "@", SECRET, "?", "#",
                                       " ",       "%",        ".",   "-", "\x80"};
  srand(11);
  for (int i = 0; i < 20000; i++) {
    char text[256] = "";
    for (int k = rand() % 9; k >= 0; k--)
      strcat(text, pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)]);
    mt_nodes nodes;
    mortise_error err = {0};
    mortise_status status = mt_nodes_parse(&nodes, text, &err);
    if (status && (strchr(text, '@') || strchr(text, '?'))) assert_no_secret(err.message);
    if (!status) {
      assert_null(strchr(text, '@'));
      mt_nodes again; /* the printed list means the same */
      assert_int_equal(mt_nodes_parse(&again, nodes.text, &err), MORTISE_OK);
      assert_string_equal(again.text, nodes.text);
      mt_nodes_deinit(&again);
    }
    mt_nodes_deinit(&nodes);
  }
}

static void loopback(void **state) {
  (void)state;
  static const char *const local[] = {"localhost", "LOCALHOST",   "a.localhost",
                                      "127.0.0.1", "127.200.3.4", "::1"};
  static const char *const far[] = {
      "0.0.0.0",           "10.0.0.1",     "128.0.0.1", "localhost.example",
      "127.0.0.1.example", "notlocalhost", "::2",       "es"};
  for (size_t i = 0; i < sizeof local / sizeof *local; i++) assert_true(mt_host_is_local(local[i]));
  for (size_t i = 0; i < sizeof far / sizeof *far; i++) assert_false(mt_host_is_local(far[i]));
}

/* ---- options ---- */

static void bad_options(void **state) {
  (void)state;
  static const struct {
    mt_http_config config;
    const char *says;
  } cases[] = {
      {{.user = "user"}, "without password"},
      {{.password = SECRET}, "without user"},
      {{.user = "user", .password = ""}, "password is empty"},
      {{.user = "us:er", .password = SECRET}, "':'"},
      {{.user = "user", .password = SECRET "\r\nX: y"}, "character"},
      {{.user = "user", .password = SECRET, .bearer = SECRET}, "more than one way"},
      {{.api_key = SECRET, .bearer = SECRET}, "more than one way"},
      {{.api_key = SECRET "\n"}, "api_key holds"},
      {{.bearer = SECRET "\x7f"}, "bearer holds"},
      {{.bearer = ""}, "bearer is empty"},
      {{.ca_file = "/no/such/ca.pem"}, "ca_file /no/such/ca.pem: No such file"},
      {{.cert_file = "/no/such/c.pem"}, "cert_file"},
      {{.key_file = "/dev/null"}, "without cert_file"},
      {{.nodes = "http://user:" SECRET "@a"}, "'@'"},
  };
  mt_loop *loop = mt_loop_new(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mt_http_config config = cases[i].config;
    if (!config.nodes) config.nodes = "http://127.0.0.1:9200";
    mortise_error err = {0};
    assert_null(mt_http_new(loop, &config, NULL, &err));
    if (!strstr(err.message, cases[i].says)) print_message("%s\n", err.message);
    assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, cases[i].says));
    assert_no_secret(err.message);
  }
  mt_loop_free(loop);
}

static void warns_of_clear_text(void **state) {
  (void)state;
  fixture f = {.config = {.nodes = "http://es.example,http://127.0.0.1", .bearer = SECRET}};
  fixture_open(&f, NULL, NULL);
  assert_non_null(strstr(f.logged.p, "http://es.example:9200: the credentials go"));
  assert_null(strstr(f.logged.p, "127.0.0.1"));
  fixture_close(&f);
}

/* ---- what a server says ---- */

typedef struct said {
  int status;
  const char *body;
  mortise_status code;
  bool ambiguous;
  const char *type, *reason, *message;
} said;

static const said errors[] = {
    {409,
     "{\"error\":{\"root_cause\":[{\"type\":\"version_conflict_engine_exception\",\"reason\":"
     "\"[1]: version conflict\"}],\"type\":\"version_conflict_engine_exception\",\"reason\":\"[1]: "
     "version conflict\"},\"status\":409}",
     MORTISE_CONFLICT, false, "version_conflict_engine_exception", "[1]: version conflict",
     "a write: http://a:9200 answered 409: version_conflict_engine_exception: [1]: version "
     "conflict"},
    {404, "{\"_index\":\"i\",\"found\":false}", MORTISE_NOT_FOUND, false, "", "",
     "a write: http://a:9200 answered 404"},
    {404, "{\"error\":\"alias [x] missing\",\"status\":404}", MORTISE_NOT_FOUND, false, "",
     "alias [x] missing", "answered 404: alias [x] missing"},
    {400,
     "{\"error\":{\"type\":\"illegal_argument_exception\",\"reason\":\"failed to execute script\","
     "\"caused_by\":{\"type\":\"script_exception\",\"reason\":\"runtime error\",\"caused_by\":{"
     "\"type\":\"null_pointer_exception\",\"reason\":\"cannot \\\"x\\\"\"}}}}",
     MORTISE_REJECTED, false, "illegal_argument_exception",
     "failed to execute script: runtime error: cannot \"x\"", "cannot \"x\""},
    {400, "{\"error\":{\"root_cause\":[{\"type\":\"a_type\",\"reason\":\"a reason\"}]}}",
     MORTISE_REJECTED, false, "a_type", "a reason", "a_type: a reason"},
    {400,
     "{\"error\":{\"root_cause\":[{\"type\":\"r\",\"reason\":\"the "
     "first\"},{\"reason\":\"other\"}],"
     "\"type\":\"t\",\"reason\":\"it failed\"}}",
     MORTISE_REJECTED, false, "t", "it failed: the first", "t: it failed: the first"},
    {400,
     "{\"error\":{\"root_cause\":[{\"type\":\"script_exception\",\"reason\":\"runtime error\"}],"
     "\"type\":\"search_phase_execution_exception\",\"reason\":\"all shards "
     "failed\",\"failed_shards\":"
     "[{\"shard\":0,\"reason\":{\"type\":\"script_exception\",\"reason\":\"runtime "
     "error\",\"caused_by\":"
     "{\"type\":\"arithmetic_exception\",\"reason\":\"/ by zero\"}}}]}}",
     MORTISE_REJECTED, false, "search_phase_execution_exception",
     "all shards failed: runtime error: / by zero", "all shards failed: runtime error: / by zero"},
    {503,
     "{\"error\":{\"root_cause\":[],\"type\":\"search_phase_execution_exception\",\"reason\":\"all "
     "shards failed\",\"failed_shards\":[]}}",
     MORTISE_UNAVAILABLE, true, "search_phase_execution_exception", "all shards failed",
     "all shards failed"},
    {401, "Unauthorized", MORTISE_AUTH, false, "", "Unauthorized", "answered 401: Unauthorized"},
    {403,
     "{\"error\":{\"type\":\"security_exception\",\"reason\":\"action [indices:data/write/bulk] is "
     "unauthorized for user [u] with effective roles [r] on indices [i], this action is granted by "
     "the index privileges [create_doc,create,delete,index,write,all]\"}}",
     MORTISE_AUTH, false, "security_exception", NULL,
     "missing right indices:data/write/bulk (granted by the index privileges "
     "[create_doc,create,delete,index,write,all])"},
    {403,
     "{\"error\":{\"type\":\"security_exception\",\"reason\":\"no permissions for "
     "[indices:data/write/index] and User [name=u, backend_roles=[]]\"}}",
     MORTISE_AUTH, false, "security_exception", NULL, "missing right indices:data/write/index"},
    {403, "{\"error\":{\"type\":\"cluster_block_exception\",\"reason\":\"index [i] blocked\"}}",
     MORTISE_UNAVAILABLE, false, "cluster_block_exception", "index [i] blocked", "index [i] blocked"},
    {408, "", MORTISE_UNAVAILABLE, true, "", "", "answered 408"},
    {413, "", MORTISE_REJECTED, false, "", "", "answered 413"},
    {429, "{\"error\":{\"type\":\"es_rejected_execution_exception\",\"reason\":\"full\"}}",
     MORTISE_UNAVAILABLE, false, "es_rejected_execution_exception", "full", "answered 429"},
    {500, "{\"error\":{\"type\":\"x\",\"reason\":null}}", MORTISE_UNAVAILABLE, true, "x", "",
     "answered 500: x"},
    {502, "<html>\n<title>Bad Gateway</title>", MORTISE_UNAVAILABLE, true, "", "<html>",
     "answered 502: <html>"},
    {503, "{\"error\":", MORTISE_UNAVAILABLE, true, "", "{\"error\":", "answered 503"},
    {504, "", MORTISE_UNAVAILABLE, true, "", "", "answered 504"},
    {301, "", MORTISE_REJECTED, false, "", "", "answered 301: a redirect"},
    {500, "[1,2]", MORTISE_UNAVAILABLE, true, "", "", "answered 500"},
    {500, "{\"error\":[{\"type\":\"x\"}]}", MORTISE_UNAVAILABLE, true, "", "", "answered 500"},
};

static void what_a_server_says(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    const said *s = &errors[i];
    mt_http_req req = {.status = s->status, .node_url = "http://a:9200"};
    mt_buf_init(&req.answer, 1 << 20);
    mt_buf_adds(&req.answer, s->body);
    mortise_error err;
    assert_int_equal(mt_http_status(&req, "a write", &err), s->code);
    if (!strstr(err.message, s->message)) print_message("%s\n", err.message);
    assert_int_equal(err.code, s->code);
    assert_int_equal(err.http_status, s->status);
    assert_int_equal(err.ambiguous, s->ambiguous);
    bool blocked = !strcmp(s->type, "cluster_block_exception");
    assert_int_equal(err.retryable, s->status == 429 || blocked);
    assert_string_equal(err.type, s->type);
    if (s->reason) assert_string_equal(err.reason, s->reason);
    assert_non_null(strstr(err.message, s->message));
    assert_int_equal(mt_http_status(&req, "a write", NULL), s->code);
    mt_http_req_deinit(&req);
  }
}

static void fine_and_failed_requests(void **state) {
  (void)state;
  mortise_error err;
  mt_http_req req = {.status = 201};
  assert_int_equal(mt_http_status(&req, "a write", &err), MORTISE_OK);
  assert_int_equal(err.code, MORTISE_OK);
  req = (mt_http_req){.error = {.code = MORTISE_LOCK_LOST, .message = "held back"}};
  assert_int_equal(mt_http_status(&req, "a write", &err), MORTISE_LOCK_LOST);
  assert_string_equal(err.message, "held back");
}

static void long_reasons_are_cut(void **state) {
  (void)state;
  char body[5000] = "{\"error\":{\"type\":\"";
  for (int i = 0; i < 40; i++) strcat(body, "long_type_");
  strcat(body, "\",\"reason\":\"action [");
  for (int i = 0; i < 100; i++) strcat(body, "indices:long/");
  strcat(body, "] granted by the everything\"}}");
  for (int status = 400; status < 404; status++) {
    mt_http_req req = {.status = status, .node_url = "http://a:9200"};
    mt_buf_init(&req.answer, 1 << 20);
    mt_buf_adds(&req.answer, body);
    mortise_error err;
    mt_http_status(&req, "a write", &err);
    assert_true(strlen(err.message) < sizeof err.message && strlen(err.reason) < sizeof err.reason);
    assert_non_null(strstr(err.message, "answered"));
    mt_http_req_deinit(&req);
  }
}

/* ---- no memory ---- */

static int left;

static bool fail_nth(void *ctx, size_t size) {
  (void)size;
  bool once = *(bool *)ctx;
  left--;
  return once ? left != 0 : left > 0;
}

static const char answer[] = "{\"ok\":true}";

static bool answer_ok(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  if (req->whole) test_answer(c, 200, answer);
  return true;
}

static void on_done(void *ctx, mt_http_req *req) {
  (void)req;
  ++*(int *)ctx;
}

/* The n-th allocation fails, once or from then on: an error or an answer, never a crash, a leak or
 * a request that does not end. */
static void one_request(const mt_http_config *config, int nth, bool once) {
  mortise_error err = {0};
  mt_loop *loop = mt_loop_new(NULL);
  left = nth;
  mt_mem_hook(fail_nth, &once);
  mt_http *http = mt_http_new(loop, config, NULL, &err);
  int done = 0;
  mt_http_req req = {.done = on_done, .ctx = &done, .method = "POST", .path = "/", .node = -1};
  req.body = MT_SLICE("{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}");
  req.deadline_ms = mt_loop_now(loop) + 1000;
  if (http) {
    mt_http_submit(http, &req);
    mt_loop_pump(loop, &req.finished, mt_clock_boot_ms() + 5000, NULL);
    assert_int_equal(done, 1);
    if (req.error.code)
      assert_non_null(req.error.message[0] ? req.error.message : NULL);
    else
      assert_int_equal(req.status, 200);
  } else {
    assert_int_not_equal(err.code, MORTISE_OK);
  }
  mt_mem_hook(NULL, NULL);
  mt_http_req_deinit(&req);
  mt_http_free(http);
  mt_loop_free(loop);
}

static void without_memory(void **state) {
  (void)state;
  test_server *server = test_server_start(0, NULL, answer_ok, NULL);
  char nodes[64];
  snprintf(nodes, sizeof nodes, "http://0.0.0.0:%u", test_server_port(server));
  mt_http_config config = {.nodes = nodes, .user = "user", .password = SECRET, .gzip_min = 10};
  for (int nth = 1; nth < 30; nth++)
    for (int once = 0; once < 2; once++) one_request(&config, nth, once);
  test_server_stop(server);
}

/* ---- an option that libcurl does not take ---- */

CURLMcode __real_curl_multi_setopt(CURLM *handle, CURLMoption option, ...);
CURLMcode __wrap_curl_multi_setopt(CURLM *handle, CURLMoption option, ...);

static int refused; /* which allocation from now on; 0: none */

CURLMcode __wrap_curl_multi_setopt(CURLM *handle, CURLMoption option, ...) {
  bool number = (int)option < CURLOPTTYPE_OBJECTPOINT;
  va_list args;
  va_start(args, option);
  long value = number ? va_arg(args, long) : 0;
  void *pointer = number ? NULL : va_arg(args, void *);
  va_end(args);
  if (refused && !--refused) return CURLM_UNKNOWN_OPTION;
  return number ? __real_curl_multi_setopt(handle, option, value)
                : __real_curl_multi_setopt(handle, option, pointer);
}

static mortise_status ask_once(mt_loop *loop, mt_http *http) {
  mt_http_req req = {.method = "GET", .path = "/", .node = -1};
  mt_http_submit(http, &req);
  mt_loop_pump(loop, &req.finished, mt_clock_boot_ms() + 5000, NULL);
  mortise_status status = req.error.code;
  assert_true(req.finished && (status || req.status == 200));
  mt_http_req_deinit(&req);
  return status;
}

/* A handle is set up completely or not at all: the next request tries again. */
static void refused_options(void **state) {
  (void)state;
  test_server *server = test_server_start(0, NULL, answer_ok, NULL);
  char nodes[64];
  snprintf(nodes, sizeof nodes, "http://localhost:%u", test_server_port(server));
  mt_http_config config = {.nodes = nodes};
  mt_loop *loop = mt_loop_new(NULL);
  mt_http *http = NULL;
  mortise_error err;
  int n = 0;
  do {
    refused = ++n;
    http = mt_http_new(loop, &config, NULL, &err);
    if (!http) assert_int_equal(err.code, MORTISE_UNSUPPORTED);
  } while (!http);
  assert_true(n > 5);
  for (int at = 1; at < n; at++) {
    refused = at;
    assert_int_equal(mt_multi_renew(http, &err), MORTISE_UNSUPPORTED);
    assert_null(http->multi.handle);
    refused = at;
    assert_int_equal(ask_once(loop, http), MORTISE_UNSUPPORTED);
    assert_int_equal(ask_once(loop, http), MORTISE_OK);
  }
  mt_http_free(http);
  mt_loop_free(loop);
  test_server_stop(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_lists),
      cmocka_unit_test(bad_lists),
      cmocka_unit_test(too_long_lists),
      cmocka_unit_test(any_list),
      cmocka_unit_test(loopback),
      cmocka_unit_test(bad_options),
      cmocka_unit_test(warns_of_clear_text),
      cmocka_unit_test(what_a_server_says),
      cmocka_unit_test(fine_and_failed_requests),
      cmocka_unit_test(long_reasons_are_cut),
      cmocka_unit_test(without_memory),
      cmocka_unit_test(refused_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
