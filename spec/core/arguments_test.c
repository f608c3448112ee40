/* Every public function of both libraries with arguments that are NULL or out of their range, and
 * what is freed with a client. The program is built with the leak sanitizer. */
#include <mortise/host.h>

#include <lauxlib.h>
#include <lua.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/mortise-arguments-XXXXXX";
static char store[64], ns[32];

typedef struct things {
  mortise_client *client;
  mortise_lock *lock;
  mortise_host *host;
} things;

static mortise_options options_for(const char *url) {
  mortise_options o;
  mortise_options_init(&o);
  o.store = url;
  return o;
}

static mortise_client *open_client(const char *url) {
  mortise_error err;
  mortise_options o = options_for(url);
  o.ns = ns;
  mortise_client *client = mortise_client_open(&o, &err);
  if (!client || mortise_client_init_tables(client, 0, &err)) fail_msg("%s", err.message);
  return client;
}

static mortise_lock *acquire(mortise_client *client, const char *path, int64_t wait_ms,
                             mortise_error *err) {
  const mortise_lock_request r = {
      .size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = &path, .n = 1, .wait_ms = wait_ms};
  return mortise_lock_acquire(client, &r, NULL, err);
}

static mortise_lock *held(mortise_client *client, const char *path) {
  mortise_error err;
  mortise_lock *lock = acquire(client, path, 5000, &err);
  if (!lock) fail_msg("%s", err.message);
  return lock;
}

static int set_up(void **state) {
  static things t;
  mortise_error err;
  if (!mkdtemp(folder)) return -1;
  snprintf(store, sizeof store, "sqlite:%s/store.db", folder);
  snprintf(ns, sizeof ns, "arguments-%d", (int)getpid());
  t.client = open_client(store);
  t.lock = held(t.client, "/held");
  t.host = mortise_host_new(NULL, &err);
  *state = &t;
  return t.host ? 0 : -1;
}

static int tear_down(void **state) {
  char command[64];
  things *t = *state;
  mortise_host_free(t->host);
  mortise_client_free(t->client);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

/* ---- Functions ------------------------------------------------------------------------------ */

static const char *const a_path[] = {"/a"}, *const no_name[] = {"/a", NULL};

static mortise_status ask(const things *t, mortise_lock_request r, mortise_error *err) {
  mortise_lock *lock = mortise_lock_acquire(t->client, &r, NULL, err);
  if (lock) fail_msg("there is a lock");
  return err ? err->code : MORTISE_INVALID_ARGUMENT;
}

#define REQUEST(...) ask(t, (mortise_lock_request){.size = sizeof(mortise_lock_request), __VA_ARGS__}, err)
#define PATHS .paths = a_path, .n = 1

/* Each row is a check, named by its own text. */
#define ROWS(ROW)                                                                                  \
  ROW(open_null, mortise_client_open(NULL, err) ? MORTISE_OK : code_of(err))                       \
  ROW(init_null, mortise_client_init_tables(NULL, 0, err))                                         \
  ROW(acquire_null, mortise_lock_acquire(t->client, NULL, NULL, err) ? MORTISE_OK : code_of(err))  \
  ROW(acquire_of_null, acquire(NULL, "/a", 0, err) ? MORTISE_OK : code_of(err))                    \
  ROW(kind_below, REQUEST(.kind = (mortise_lock_kind)-1, PATHS))                                   \
  ROW(kind_above, REQUEST(.kind = (mortise_lock_kind)(MORTISE_LOCK_NAMED + 1), PATHS))             \
  ROW(mode_below, REQUEST(.mode = (mortise_lock_mode)-1, PATHS))                                   \
  ROW(mode_above, REQUEST(.mode = (mortise_lock_mode)(MORTISE_SIX + 1), PATHS))                    \
  ROW(global_mode, REQUEST(.kind = MORTISE_LOCK_GLOBAL, .mode = (mortise_lock_mode)9))             \
  ROW(wait_below, REQUEST(.wait_ms = -2, PATHS))                                                   \
  ROW(wait_least, REQUEST(.wait_ms = INT64_MIN, PATHS))                                            \
  ROW(wait_above, REQUEST(.wait_ms = MORTISE_TIME_MAX_MS + 1, PATHS))                              \
  ROW(wait_most, REQUEST(.wait_ms = INT64_MAX, PATHS))                                             \
  ROW(no_paths, REQUEST(.paths = NULL, .n = 1))                                                    \
  ROW(none, REQUEST(.paths = a_path, .n = 0))                                                      \
  ROW(a_path_null, REQUEST(.paths = no_name, .n = 2))                                              \
  ROW(a_name_null, REQUEST(.kind = MORTISE_LOCK_NAMED, .index = "c", .paths = no_name, .n = 2))    \
  ROW(no_index, REQUEST(.kind = MORTISE_LOCK_DOCUMENT, .index = NULL, PATHS))                      \
  ROW(empty_index, REQUEST(.kind = MORTISE_LOCK_DOCUMENT, .index = "", PATHS))                     \
  ROW(no_category, REQUEST(.kind = MORTISE_LOCK_NAMED, PATHS))                                     \
  ROW(bad_path, acquire(t->client, "a", 0, err) ? MORTISE_OK : code_of(err))                       \
  ROW(convert_null, mortise_lock_convert(NULL, MORTISE_SHARED, 0, NULL, err))                      \
  ROW(convert_mode, mortise_lock_convert(t->lock, (mortise_lock_mode)3, 0, NULL, err))             \
  ROW(convert_mode_below, mortise_lock_convert(t->lock, (mortise_lock_mode)-1, 0, NULL, err))      \
  ROW(convert_wait, mortise_lock_convert(t->lock, MORTISE_SHARED, -2, NULL, err))                  \
  ROW(convert_wait_most, mortise_lock_convert(t->lock, MORTISE_SHARED, INT64_MAX, NULL, err))      \
  ROW(check_null, mortise_lock_check(NULL, err))                                                   \
  ROW(normalise_null, mortise_path_normalise(NULL, path, err))                                     \
  ROW(normalise_into_null, mortise_path_normalise("/a", NULL, err))                                \
  ROW(normalise_bad, mortise_path_normalise("", path, err))                                        \
  ROW(file_of_null, mortise_host_run_file(NULL, "x.lua", NULL, 0, err))                            \
  ROW(file_null, mortise_host_run_file(t->host, NULL, NULL, 0, err))                               \
  ROW(file_arguments, mortise_host_run_file(t->host, "x.lua", NULL, 1, err))                       \
  ROW(file_argument, mortise_host_run_file(t->host, "x.lua", no_name, 2, err))                     \
  ROW(code_of_null, mortise_host_run_string(NULL, "", "=x", NULL, 0, err))                         \
  ROW(code_null, mortise_host_run_string(t->host, NULL, "=x", NULL, 0, err))                       \
  ROW(code_name, mortise_host_run_string(t->host, "", NULL, NULL, 0, err))                         \
  ROW(code_arguments, mortise_host_run_string(t->host, "", "=x", NULL, 1, err))                    \
  ROW(code_argument, mortise_host_run_string(t->host, "", "=x", no_name, 2, err))                  \
  ROW(call_of_null, mortise_host_call(NULL, 0, 0, err))                                            \
  ROW(call_nothing, mortise_host_call(t->host, 0, 0, err))                                         \
  ROW(call_arguments, mortise_host_call(t->host, -1, 0, err))                                      \
  ROW(call_results, call_with(t->host, -2, err))                                                   \
  ROW(call_many_results, call_with(t->host, 1 << 30, err))

static mortise_status code_of(const mortise_error *err) {
  return err ? err->code : MORTISE_INVALID_ARGUMENT;
}

/* Leaves the function on the stack. */
static mortise_status call_with(mortise_host *host, int nresults, mortise_error *err) {
  lua_State *L = mortise_host_state(host);
  lua_getglobal(L, "type");
  mortise_status status = mortise_host_call(host, 0, nresults, err);
  assert_int_equal(lua_gettop(L), 1);
  lua_settop(L, 0);
  return status;
}

#define FUNCTION(name, expression)                                                                 \
  static mortise_status name(const things *t, mortise_error *err) {                                \
    char path[4097];                                                                               \
    (void)t;                                                                                       \
    (void)path;                                                                                    \
    return expression;                                                                             \
  }
ROWS(FUNCTION)

static void functions_refuse_bad_arguments(void **state) {
  static const struct {
    const char *name;
    mortise_status (*call)(const things *t, mortise_error *err);
  } rows[] = {
#define NAMED(name, expression) {#name, name},
      ROWS(NAMED)};
  const things *t = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    mortise_error err = {.code = MORTISE_OK};
    mortise_status status = rows[i].call(t, &err);
    if (status != MORTISE_INVALID_ARGUMENT || err.code != status || !err.message[0])
      fail_msg("%s: %s: %s", rows[i].name, mortise_status_name(status), err.message);
    assert_int_equal(rows[i].call(t, NULL), MORTISE_INVALID_ARGUMENT);
  }
  assert_int_equal(mortise_lock_check(t->lock, NULL), MORTISE_OK); /* nothing was changed */
}

static void null_is_fine_where_it_is_said(void **state) {
  (void)state;
  mortise_options_init(NULL);
  mortise_client_free(NULL);
  mortise_host_free(NULL);
  mortise_host_interrupt(NULL);
  mortise_host_set_patience(NULL, 1);
  mortise_host_allow_exit(NULL, true);
  assert_int_equal(mortise_lock_release(NULL, NULL), MORTISE_OK);
  assert_true(mortise_lock_remaining_ms(NULL) == 0);
  assert_true(mortise_lock_fence(NULL) == 0);
  assert_null(mortise_host_state(NULL));
  assert_string_equal(mortise_host_traceback(NULL), "");
  assert_string_equal(mortise_status_name((mortise_status)-1), "unknown");
  assert_string_equal(mortise_status_name((mortise_status)99), "unknown");
  assert_int_equal(mortise_status_exit((mortise_status)-1), 1);
}

/* ---- Options -------------------------------------------------------------------------------- */

/* Neither a client nor a host accepts the options, and both give the same reason. */
static void refused(const mortise_options *o, const char *what) {
  mortise_error client, host;
  memset(&client, 1, sizeof client);
  memset(&host, 2, sizeof host);
  if (mortise_client_open(o, &client)) fail_msg("%s: there is a client", what);
  if (client.code != MORTISE_INVALID_ARGUMENT || !client.message[0])
    fail_msg("%s: %s: %s", what, mortise_status_name(client.code), client.message);
  assert_null(mortise_client_open(o, NULL));
  if (!o->store) return;
  if (mortise_host_new(o, &host)) fail_msg("%s: there is a host", what);
  assert_int_equal(host.code, client.code);
  assert_string_equal(host.message, client.message);
  assert_null(mortise_host_new(o, NULL));
}

static void accepted(const mortise_options *o, const char *what) {
  mortise_error err;
  mortise_client *client = mortise_client_open(o, &err);
  if (!client) fail_msg("%s: %s", what, err.message);
  mortise_client_free(client);
  mortise_host *host = mortise_host_new(o, &err);
  if (!host) fail_msg("%s: %s", what, err.message);
  mortise_host_free(host);
}

static void numbers_are_in_their_range(void **state) {
  (void)state;
#define NUMBER(field) #field, offsetof(mortise_options, field)
  static const struct {
    const char *name;
    size_t offset;
    int64_t values[4], fine[3];
  } rows[] = {
      {NUMBER(lease_ms), {INT64_MIN, 0, 999, 3600001}, {3000, 60000, 3600000}},
      {NUMBER(margin_ms), {INT64_MIN, -2, 20001, INT64_MAX}, {-1, 0, 20000}},
      {NUMBER(wait_ms),
       {INT64_MIN, -1, MORTISE_TIME_MAX_MS + 1, INT64_MAX},
       {0, 1, MORTISE_TIME_MAX_MS}},
      {NUMBER(request_ms), {INT64_MIN, -1, 0, MORTISE_TIME_MAX_MS + 1}, {1, 2, 60000}},
      {NUMBER(connect_ms), {INT64_MIN, -1, 0, MORTISE_TIME_MAX_MS + 1}, {1, 2, 60000}},
      {NUMBER(answer_max), {0, 1, 512, 1023}, {1024, 4096, 1 << 30}},
  };
  const char *const urls[] = {store, "http://127.0.0.1:1"};
  for (size_t u = 0; u < 2; u++)
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
      for (size_t k = 0; k < 4; k++) {
        mortise_options o = options_for(urls[u]);
        memcpy((char *)&o + rows[i].offset, &rows[i].values[k], sizeof(int64_t));
        refused(&o, rows[i].name);
      }
      for (size_t k = 0; k < 3; k++) {
        mortise_options o = options_for(urls[u]);
        memcpy((char *)&o + rows[i].offset, &rows[i].fine[k], sizeof(int64_t));
        accepted(&o, rows[i].name);
      }
    }
}

static void a_store_that_is_none_is_refused_at_once(void **state) {
  (void)state;
  static const char *const none[] = {NULL,
                                     "",
                                     "sqlite:",
                                     "sqlite",
                                     "/tmp/store.db",
                                     "ftp://host",
                                     "http:/host",
                                     "http://",
                                     "https://",
                                     "http://host:99999",
                                     "http://host:",
                                     "http://[::1",
                                     "http://a b",
                                     "http://a,",
                                     "http://a:x",
                                     "http//host",
                                     "es://host:9200",
                                     "redis://h",
                                     "http://a,ftp://b"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    const mortise_options o = options_for(none[i]);
    refused(&o, none[i] ? none[i] : "NULL");
  }
  const mortise_options without = options_for(NULL);
  mortise_error err;
  mortise_host *host = mortise_host_new(&without, &err); /* what the configuration says */
  assert_non_null(host);
  mortise_host_free(host);
}

/* A program that was built with an older header has shorter structs. Each is at the end of its memory here. */
static void older_structs_work(void **state) {
  (void)state;
  mortise_error err;
  for (size_t n = offsetof(mortise_options, ns); n <= sizeof(mortise_options); n += sizeof(void *)) {
    mortise_options *o = malloc(n);
    assert_non_null(o);
    mortise_options_init_size(o, n);
    assert_int_equal(o->size, n);
    o->store = "http://127.0.0.1:1";
    mortise_client *client = mortise_client_open(o, &err);
    if (!client) fail_msg("%zu bytes: %s", n, err.message);
    mortise_client_free(client);
    free(o);
  }
  mortise_options o = options_for("http://127.0.0.1:1");
  const size_t bad[] = {0, 1, offsetof(mortise_options, ns) - 1, sizeof o + 1, SIZE_MAX};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    o.size = bad[i];
    assert_null(mortise_client_open(&o, &err));
    assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
    if (!strstr(err.message, "mortise_options")) fail_msg("%s", err.message);
  }
  assert_int_equal(mortise_version_number(), MORTISE_VERSION_NUMBER);
}

/* The same of a request: what it does not have is as mortise_lock_request_init says. */
static void older_requests_work(void **state) {
  const things *t = *state;
  mortise_error err;
  for (size_t n = offsetof(mortise_lock_request, mode); n <= sizeof(mortise_lock_request); n += sizeof(void *)) {
    mortise_lock_request *r = malloc(n);
    assert_non_null(r);
    mortise_lock_request_init_size(r, n);
    r->paths = (const char *[]){"/older"};
    r->n = 1;
    mortise_lock *lock = mortise_lock_acquire(t->client, r, NULL, &err);
    if (!lock) fail_msg("%zu bytes: %s", n, err.message);
    assert_int_equal(mortise_lock_release(lock, &err), MORTISE_OK);
    free(r);
  }
  mortise_lock_request r = {.paths = (const char *[]){"/older"}, .n = 1};
  assert_null(mortise_lock_acquire(t->client, &r, NULL, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  if (!strstr(err.message, "mortise_lock_request_init")) fail_msg("%s", err.message);
  mortise_lock_request_init(NULL);
}

static void strings_are_what_they_must_be(void **state) {
  (void)state;
#define STRING(field) #field, offsetof(mortise_options, field)
  static const struct {
    const char *name;
    size_t offset;
    const char *value;
  } rows[] = {
      {STRING(ns), NULL},
      {STRING(ns), ""},
      {STRING(ns), "Upper"},
      {STRING(ns), "a/b"},
      {STRING(ns), "12345678901234567890123456789012345678901234567890123456789012345"},
      {STRING(table), ""},
      {STRING(table), "a/b"},
      {STRING(table), "Upper"},
      {STRING(user), "anna"},
      {STRING(password), "without a user"},
      {STRING(api_key), ""},
      {STRING(bearer), "a\nb"},
      {STRING(api_key_command), ""},
      {STRING(bearer_command), ""},
      {STRING(aws_region), "us-east-1"},
      {STRING(ca_file), "/nonexistent/ca.pem"},
      {STRING(cert_file), "/nonexistent/cert.pem"},
      {STRING(key_file), "/nonexistent/key.pem"},
      {STRING(proxy), ""},
      {STRING(proxy), "proxy:3128"},
      {STRING(proxy), "http://proxy"},
      {STRING(proxy), "http://proxy:3128/path"},
      {STRING(proxy), "http://ann:pass@proxy:3128"},
      {STRING(unix_socket), ""},
      {STRING(unix_socket), "/a-name-of-a-socket-that-is-longer-than-any-that-the-system-takes-which-is-a-hundred-and-"
                            "seven-bytes-at-most-as-everybody-knows"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    mortise_options o = options_for("https://127.0.0.1:1");
    memcpy((char *)&o + rows[i].offset, &rows[i].value, sizeof rows[i].value);
    refused(&o, rows[i].name);
  }
}

static void what_is_wrong_begins_with_the_options_name(void **state) {
  (void)state;
  enum { ROWS = 15 };
  mortise_options o[ROWS];
  for (size_t i = 0; i < ROWS; i++) o[i] = options_for("https://127.0.0.1:1");
  o[0].lease_ms = 0;
  o[1].lease_ms = 3600001;
  o[2].margin_ms = -2;
  o[3].margin_ms = 20001;
  o[4].wait_ms = -1;
  o[5].request_ms = 0;
  o[6].answer_max = 1023;
  o[7].ns = "Upper";
  o[8].table = "a/b";
  o[9].user = "anna";
  o[10].store = "https://127.0.0.1:99999";
  o[11].store = "sqlite:";
  for (size_t i = 12; i < ROWS; i++) o[i].sniff = true;
  o[12].unix_socket = "/run/search.sock";
  o[13].aws = true;
  o[14].store = "cloud:here:ZXhhbXBsZSRlcw==";
  static const char *const said[] = {
      "lease_ms: a time from 1s to 1h, not 0s",
      "lease_ms: a time from 1s to 1h, not 3600001ms",
      "margin_ms: a time from 0s to 20m, or -1, not -2",
      "margin_ms: at most a third of the lease, 20s, not 20001ms",
      "wait_ms: a time from 0s to 366d, not -1",
      "request_ms: a time from 1ms to 366d, not 0s",
      "answer_max: a size of 1KiB or more, not 1023",
      "ns: 1 to 64 of a-z 0-9 _ -, not \"Upper\"",
      "table: 1 to 200 of a-z 0-9 - _ . that begin with a letter or digit, not \"a/b\"",
      "user is given without password",
      "store: URL of node 1 (127.0.0.1): its port is above 65535",
      "store: `sqlite:` names no file",
      "sniff is given with unix_socket: there all nodes are behind one address, and none can be reached at its own",
      "sniff is given with aws: there all nodes are behind one address, and none can be reached at its own",
      "sniff is given with a cloud's id: there all nodes are behind one address, and none can be reached at its own",
  };
  for (size_t i = 0; i < ROWS; i++) {
    mortise_error err;
    assert_null(mortise_client_open(&o[i], &err));
    assert_string_equal(err.message, said[i]);
  }
}

static void a_store_in_a_file_ignores_what_is_for_servers(void **state) {
  (void)state;
  mortise_options o = options_for(store);
  o.table = "no such Table";
  o.connect_ms = 1;
  o.answer_max = SIZE_MAX;
  o.user = "anna";
  o.api_key = o.bearer = "";
  o.ca_file = o.key_file = "/nonexistent/file";
  o.insecure = o.sniff = o.aws = true;
  accepted(&o, "a store in a file");
}

static void null_is_the_default(void **state) {
  (void)state;
  mortise_options o = options_for("http://127.0.0.1:1");
  o.table = o.program = NULL;
  accepted(&o, "NULL");
}

/* ---- What a client frees -------------------------------------------------------------------- */

static void frees_its_locks(const char *url) {
  mortise_error err;
  mortise_client *client = open_client(url), *other = open_client(url);
  held(client, "/a");
  mortise_lock *middle = held(client, "/b"), *last = held(client, "/c");
  held(client, "/d");
  assert_null(acquire(other, "/a", 0, &err)); /* a failure leaves nothing behind */
  assert_int_equal(err.code, MORTISE_LOCK_TIMEOUT);
  assert_null(acquire(other, "not a path", 0, &err));
  assert_int_equal(mortise_lock_release(middle, &err), MORTISE_OK);
  assert_int_equal(mortise_lock_release(last, &err), MORTISE_OK);
  held(client, "/b");
  mortise_client_free(client);
  static const char *const paths[] = {"/a", "/b", "/c", "/d"};
  for (size_t i = 0; i < 4; i++) held(other, paths[i]);
  mortise_client_free(other);
}

/* The embedded store, and the first server of MORTISE_TEST_URLS. */
static void a_client_frees_its_locks(void **state) {
  (void)state;
  const char *urls = getenv("MORTISE_TEST_URLS");
  char first[256];
  frees_its_locks(store);
  if (!urls || !*urls) return;
  snprintf(first, sizeof first, "%.*s", (int)strcspn(urls, ","), urls);
  frees_its_locks(first);
}

/* The child exits like a program of its own, with what it inherited. */
static _Noreturn void be_child(mortise_client *client, mortise_lock *lock) {
  bool refused =
      mortise_lock_convert(lock, MORTISE_SHARED, 0, NULL, NULL) == MORTISE_INVALID_ARGUMENT &&
      mortise_client_init_tables(client, 0, NULL) == MORTISE_INVALID_ARGUMENT &&
      mortise_lock_check(lock, NULL) == MORTISE_LOCK_LOST;
  mortise_lock_release(lock, NULL);
  mortise_client_free(client);
  _exit(refused ? 0 : 1);
}

static void a_lock_taken_before_a_fork_is_freed_after_it(void **state) {
  (void)state;
  int status;
  mortise_client *client = open_client(store);
  mortise_lock *lock = held(client, "/a");
  held(client, "/b");
  pid_t child = fork();
  if (!child) be_child(client, lock);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(mortise_lock_check(lock, NULL), MORTISE_OK);
  mortise_client_free(client);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_refuse_bad_arguments),
      cmocka_unit_test(null_is_fine_where_it_is_said),
      cmocka_unit_test(numbers_are_in_their_range),
      cmocka_unit_test(a_store_that_is_none_is_refused_at_once),
      cmocka_unit_test(older_structs_work),
      cmocka_unit_test(older_requests_work),
      cmocka_unit_test(strings_are_what_they_must_be),
      cmocka_unit_test(what_is_wrong_begins_with_the_options_name),
      cmocka_unit_test(a_store_in_a_file_ignores_what_is_for_servers),
      cmocka_unit_test(null_is_the_default),
      cmocka_unit_test(a_client_frees_its_locks),
      cmocka_unit_test(a_lock_taken_before_a_fork_is_freed_after_it),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
