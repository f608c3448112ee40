/* Secrets from a command, and signatures. That a server takes them is tested by spec/program/secrets_spec.lua. */
#include "access/secret.h"
#include "access/sign.h"
#include "base/clock.h"
#include "property.h"

#include <curl/curl.h>
#include <unistd.h>

static mt_loop *loop;
static size_t changes;

static int set_up(void **state) {
  (void)state;
  changes = 0;
  loop = mt_loop_new(NULL);
  return loop ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  mt_loop_free(loop);
  return 0;
}

static void on_change(void *ctx) {
  (void)ctx;
  changes++;
}

static mt_secret *secret_of(const char *command) {
  const mt_secret_config config = {.command = command, .changed = on_change};
  mt_secret *s = mt_secret_new(loop, &config, NULL, NULL);
  assert_non_null(s);
  return s;
}

/* The secret, once it is there; NULL: it cannot be had. */
static const mt_credentials *wait_for_secret(mt_secret *s) {
  const mt_credentials *c = NULL;
  mortise_error err;
  size_t before = changes;
  int64_t until = mt_clock_boot_ms() + 20000;
  assert_int_equal(mt_secret_get(s, &c, &err), MORTISE_OK);
  while (!c && changes == before && mt_clock_boot_ms() < until) assert_int_equal(mt_loop_step(loop, 100, NULL), MORTISE_OK);
  if (!c && !mt_secret_error(s)->code) assert_int_equal(mt_secret_get(s, &c, &err), MORTISE_OK);
  return c;
}

static void a_command_gives_its_first_line(void **state) {
  (void)state;
  static const char *const commands[] = {"printf abc", "echo abc", "printf 'abc\\r\\nsecond\\n'", "echo 'abc  '",
                                         "sleep 0.1; echo abc; exec 1>&-; sleep 0.1"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    mt_secret *s = secret_of(commands[i]);
    const mt_credentials *c = wait_for_secret(s);
    if (!c) fail_msg("%s: %s", commands[i], mt_secret_error(s)->message);
    assert_string_equal(c->secret, "abc");
    mt_secret_free(s);
  }
}

static void a_command_that_fails_is_named(void **state) {
  (void)state;
  static const struct {
    const char *command, *says;
  } rows[] = {{"exit 3", "ended with status 3"},          {"kill -9 $$", "ended by signal 9"},
              {"true", "prints nothing"},                 {"printf 'two words'", "prints no secret"},
              {"printf '\\001'", "prints no secret"},     {"head -c 20000 /dev/zero | tr '\\0' a", "prints no secret"},
              {"head -c 99999 /dev/zero", "more than 64"}, {"/nonexistent/command", "ended with status 127"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mt_secret *s = secret_of(rows[i].command);
    assert_null(wait_for_secret(s));
    const mortise_error *e = mt_secret_error(s);
    if (!strstr(e->message, rows[i].says) || !strstr(e->message, rows[i].command))
      fail_msg("%s: %s", rows[i].command, e->message);
    assert_int_equal(e->code, MORTISE_UNAVAILABLE);
    assert_true(e->retryable);
    mt_secret_free(s);
  }
}

/* One that is refused is fetched anew, but not a second one within 5 seconds. */
static void one_that_is_refused_is_fetched_again(void **state) {
  (void)state;
  mt_secret *s = secret_of("echo $$");
  const mt_credentials *c = wait_for_secret(s);
  assert_non_null(c);
  uint64_t round = c->round;
  assert_false(mt_secret_refused(s, round)); /* fetched a moment ago */
  assert_ptr_equal(wait_for_secret(s), c);
  assert_int_equal(c->round, round);
  assert_true(mt_secret_refused(s, round - 1)); /* there is another already */
  sleep(6);
  assert_int_equal(mt_loop_step(loop, 0, NULL), MORTISE_OK);
  assert_true(mt_secret_refused(s, round));
  c = wait_for_secret(s);
  assert_non_null(c);
  assert_true(c->round > round);
  mt_secret_free(s);
}

/* Freeing waits neither for the command nor for what it has started. */
static void a_fetch_is_given_up_at_once(void **state) {
  (void)state;
  char name[] = "/tmp/mortise-access-XXXXXX", command[160];
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  close(fd);
  snprintf(command, sizeof command, "(sleep 2; rm -f %s) & sleep 1000", name);
  int64_t from = mt_clock_boot_ms();
  mt_secret *s = secret_of(command);
  const mt_credentials *c = NULL;
  assert_int_equal(mt_secret_get(s, &c, NULL), MORTISE_OK);
  assert_null(c);
  usleep(300000);
  mt_secret_free(s);
  assert_true(mt_clock_boot_ms() - from < 1900);
  sleep(3);
  assert_int_equal(access(name, F_OK), 0);
  unlink(name);
}

/* What botocore 1.29 signs. */
static void signatures_are_amazons(void **state) {
  (void)state;
  char many[1001] = "";
  memset(many, 'x', 1000);
  const struct {
    const char *method, *host, *target, *body, *session, *region, *signature;
  } rows[] = {
      {"GET", "search.example", "/", "", "", "us-east-1",
       "45d5e993e7ce31bacf302701b286d0cd4fbe4aa04a3c852af4e6e51994b5e6e4"},
      {"POST", "search.example:9200", "/fs,a*/_search?b=2&a=1&a-b=&pretty", "{\"query\":{}}", "", "us-east-1",
       "4e7266f2276e6fdd0bf1c5f0e3f9332b493e136ca7c638caea0c344e283fd9b6"},
      {"PUT", "[::1]:9200", "/i/_doc/%c3%bc%20%2F%25?routing=a%2Bb+c&refresh=true", many, "session/+=", "eu-central-1",
       "17f6284e9da94a2d40417caf91fa0e4df5a7da13547d67224f05e05e506c2090"},
      {"DELETE", "h", "/a~b%5Fc-d.e/%E2%82%AC", "", "", "us-east-1",
       "204b00efe9424bab220d4e5d86dbb21cefa2e23fadabd9464b26cbb0711c5c13"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mt_buf target, out;
    size_t n = 0;
    mt_buf_init(&target, 4096);
    mt_buf_init(&out, 65536);
    mt_sign_target(mt_slice_of(rows[i].target), &target);
    const mt_sign s = {.method = rows[i].method,
                       .host = mt_slice_of(rows[i].host),
                       .target = mt_buf_slice(&target),
                       .body = mt_slice_of(rows[i].body),
                       .id = "AKIDEXAMPLE",
                       .secret = "secret/of+the key",
                       .session = rows[i].session,
                       .region = rows[i].region,
                       .service = "es",
                       .at_s = 1795687872 /* 2026-11-26T10:11:12Z */};
    assert_int_equal(mt_sign_request(&s, &out, &n, NULL), MORTISE_OK);
    assert_int_equal(n, *rows[i].session ? 4 : 3);
    const char *at = strstr(out.p, "Signature=");
    assert_non_null(at);
    assert_string_equal(at + strlen("Signature="), rows[i].signature);
    mt_buf_deinit(&target);
    mt_buf_deinit(&out);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_command_gives_its_first_line),       TEST(a_command_that_fails_is_named),
      TEST(one_that_is_refused_is_fetched_again), TEST(a_fetch_is_given_up_at_once),
      TEST(signatures_are_amazons),
  };
  return curl_global_init(CURL_GLOBAL_DEFAULT) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
