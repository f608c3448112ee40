/* Against real servers: MORTISE_TEST_URLS (plain ones), and the variables that tools/server writes
 * for a secured one. What is not set is skipped. */
#include "http_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *need(const char *name) {
  const char *value = getenv(name);
  if (value && *value) return value;
  print_message("%s is not set\n", name);
  skip();
  return "";
}

/* The first line of the file that the variable names. */
static const char *need_file(const char *name) {
  static char lines[4][4096];
  static unsigned next;
  const char *path = need(name);
  char *line = lines[next++ % 4];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof lines[0], file));
  fclose(file);
  line[strcspn(line, "\r\n")] = '\0';
  return line;
}

static void run(fixture *f, mt_http_req *req, const char *method, const char *path,
                const char *body) {
  *req = fixture_request(f, method, path, body);
  req->deadline_ms = mt_loop_now(f->loop) + 10000;
  fixture_run(f, req);
}

static void works(const mt_http_config *config) {
  fixture f = {.config = *config};
  fixture_open(&f, NULL, NULL);
  mt_http_req req;
  run(&f, &req, "GET", "/", NULL);
  assert_answer(&req, 200, NULL);
  assert_non_null(strstr(req.answer.p, "cluster_uuid"));
  mt_http_req_deinit(&req);
  fixture_close(&f);
}

static void plain(void **state) {
  (void)state;
  char urls[1024], *rest = urls;
  snprintf(urls, sizeof urls, "%s", need("MORTISE_TEST_URLS"));
  for (char *url; (url = strsep(&rest, ","));) {
    fixture f = {.config.nodes = url};
    fixture_open(&f, NULL, NULL);
    mt_http_req req;
    mortise_error err;
    run(&f, &req, "GET", "/spec-http-none/_doc/1", NULL);
    assert_int_equal(mt_http_status(&req, "a get", &err), MORTISE_NOT_FOUND);
    assert_string_equal(err.type, "index_not_found_exception");
    mt_http_req_deinit(&req);
    run(&f, &req, "POST", "/spec-http-none/_search", "{\"query\":");
    assert_int_equal(mt_http_status(&req, "a search", &err), MORTISE_REJECTED);
    assert_true(err.reason[0]);
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
}

static mt_http_config secured(void) {
  return (mt_http_config){.nodes = need("MORTISE_TEST_URL"), .ca_file = need("MORTISE_TEST_CA")};
}

static void ways_of_authentication(void **state) {
  (void)state;
  mt_http_config basic = secured(), key = secured(), both = secured();
  basic.user = both.user = need("MORTISE_TEST_RW_USER");
  basic.password = both.password = need_file("MORTISE_TEST_RW_PASSWORD_FILE");
  works(&basic);
  key.api_key = need_file("MORTISE_TEST_API_KEY_FILE");
  works(&key);
  both.cert_file = need("MORTISE_TEST_CERT");
  both.key_file = need("MORTISE_TEST_KEY");
  works(&both);
}

static void a_bearer_token(void **state) {
  (void)state;
  mt_http_config config = secured();
  config.bearer = need_file("MORTISE_TEST_BEARER_FILE");
  fixture f = {.config = config};
  fixture_open(&f, NULL, NULL);
  mt_http_req req;
  char path[256];
  snprintf(path, sizeof path, "/%s/_search", need("MORTISE_TEST_BEARER_INDEX"));
  run(&f, &req, "GET", path, NULL);
  assert_int_equal(req.error.code, MORTISE_OK);
  assert_true(req.status == 200 || req.status == 404);
  mt_http_req_deinit(&req);
  fixture_close(&f);
}

static void refused_by_the_server(void **state) {
  (void)state;
  mt_http_config wrong = secured(), nobody = secured();
  wrong.user = need("MORTISE_TEST_RW_USER");
  wrong.password = SECRET;
  mt_http_config *configs[] = {&wrong, &nobody};
  for (int i = 0; i < 2; i++) {
    fixture f = {.config = *configs[i]};
    fixture_open(&f, NULL, NULL);
    mt_http_req req;
    mortise_error err;
    run(&f, &req, "GET", "/", NULL);
    assert_int_equal(mt_http_status(&req, "the opening", &err), MORTISE_AUTH);
    assert_int_equal(err.http_status, 401);
    assert_no_secret(err.message);
    assert_no_secret(err.reason);
    mt_http_req_deinit(&req);
    fixture_close(&f);
  }
}

static void the_missing_right_is_named(void **state) {
  (void)state;
  mt_http_config reader = secured();
  reader.user = need("MORTISE_TEST_RO_USER");
  reader.password = need_file("MORTISE_TEST_RO_PASSWORD_FILE");
  fixture f = {.config = reader};
  fixture_open(&f, NULL, NULL);
  mt_http_req req;
  mortise_error err;
  run(&f, &req, "PUT", "/mortise-locks/_doc/spec-http", "{}");
  assert_int_equal(mt_http_status(&req, "a write", &err), MORTISE_AUTH);
  assert_int_equal(err.http_status, 403);
  assert_non_null(strstr(err.message, "missing right indices:"));
  mt_http_req_deinit(&req);
  fixture_close(&f);
}

static void the_authority_is_checked(void **state) {
  (void)state;
  mt_http_config config = secured();
  config.ca_file = NULL;
  config.user = "user";
  config.password = SECRET;
  fixture f = {.config = config};
  fixture_open(&f, NULL, NULL);
  mt_http_req req;
  run(&f, &req, "GET", "/", NULL);
  assert_failed(&req, MORTISE_AUTH, false, "certificate");
  mt_http_req_deinit(&req);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain),
      cmocka_unit_test(ways_of_authentication),
      cmocka_unit_test(a_bearer_token),
      cmocka_unit_test(refused_by_the_server),
      cmocka_unit_test(the_missing_right_is_named),
      cmocka_unit_test(the_authority_is_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
