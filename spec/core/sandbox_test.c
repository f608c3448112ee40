/* Scripts of a program's that are not trusted: what a host lets them do, and what is left when memory is refused. */
#include "host_fixture.h"

#include "base/mem.h"

#include <lauxlib.h>
#include <lua.h>
#include <string.h>
#include <unistd.h>

static void store_path(char *out, size_t size, const char *name) {
  snprintf(out, size, "sqlite:/tmp/mortise-sandbox-%ld-%s.db", (long)getpid(), name);
}

static void remove_store(const char *store) {
  static const char *const parts[] = {"", "-wal", "-shm"};
  char file[256];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(file, sizeof file, "%s%s", store + strlen("sqlite:"), parts[i]);
    unlink(file);
  }
}

static mortise_host *make_sandboxed(const mortise_sandbox_options *sandbox, const mortise_options *client, mortise_error *err) {
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.client = client;
  options.sandbox = sandbox;
  return mortise_host_make(&options, err);
}

static void fails_with(mortise_host *host, const char *code, mortise_status status, const char *text) {
  mortise_error err;
  assert_int_equal(run(host, code, &err), status);
  if (!strstr(err.message, text)) fail_msg("%s: %s", code, err.message);
}

static void note_line(void *ctx, const char *line, size_t n) {
  snprintf(ctx, 100, "%.*s", (int)n, line);
}

static void scripts_get_what_they_are_allowed(void **state) {
  (void)state;
  char store[128], line[100] = "";
  store_path(store, sizeof store, "allowed");
  mortise_error err;
  mortise_options client;
  mortise_options_init(&client);
  client.store = store;
  const char *rules[] = {"read fs", "write fs under /a", "lock /a"};
  mortise_sandbox_options sandbox;
  mortise_sandbox_options_init(&sandbox);
  sandbox.allow = rules;
  sandbox.allow_n = 3;
  mortise_host *host = make_sandboxed(&sandbox, &client, &err);
  if (!host) fail_msg("%s", err.message);
  assert_int_equal(mortise_host_set_print(host, note_line, line, &err), MORTISE_OK);
  passes(host, "mortise.with_tree_lock('/a', function() mortise.index('fs', '1', {path = '/a/1'}) end)\n"
               "print(mortise.get('fs', '1').path .. '\\27')");
  assert_string_equal(line, "/a/1\\x1b");
  fails_with(host, "mortise.index('fs', '2', {path = '/b'})", MORTISE_AUTH, "only what is under /a");
  fails_with(host, "mortise.acquire {tree = '/b'}", MORTISE_AUTH, "may not lock /b");
  fails_with(host, "os.exit()", MORTISE_SCRIPT_ERROR, "nil value (global 'os')");
  fails_with(host, "while true do pcall(function() while true do end end) end", MORTISE_SCRIPT_ERROR, "out of instructions");
  fails_with(host, "x = = 1", MORTISE_SCRIPT_ERROR, "unexpected symbol");
  passes(host, "assert(x == nil) x = 1");
  passes(host, "assert(x == nil)"); /* each has a state of its own */
  const char *args[] = {"one", "two"};
  assert_int_equal(mortise_host_run_string(host, "print(arg[0], ..., #arg)", "=named", args, 2, &err), MORTISE_OK);
  assert_string_equal(line, "named\tone\t2");
  assert_int_equal(mortise_host_run_file(host, "/nowhere/at/all.lua", NULL, 0, &err), MORTISE_INVALID_ARGUMENT);
  lua_State *L = mortise_host_state(host);
  assert_int_equal(luaL_loadstring(L, "return mortise.count('fs') + (os and 1)"), LUA_OK); /* the program's own */
  assert_int_equal(mortise_host_call(host, 0, 1, &err), MORTISE_OK);
  assert_int_equal(lua_tointeger(L, -1), 2);
  mortise_host_free(host);
  remove_store(store);
}

static void limits_are_the_programs(void **state) {
  (void)state;
  mortise_error err;
  mortise_sandbox_options sandbox;
  mortise_sandbox_options_init(&sandbox);
  sandbox.memory_max = 2 << 20;
  sandbox.instructions_max = 100000;
  sandbox.time_max_ms = 5000;
  mortise_host *host = make_sandboxed(&sandbox, NULL, &err);
  if (!host) fail_msg("%s", err.message);
  fails_with(host, "while true do end", MORTISE_SCRIPT_ERROR, "out of instructions: it may carry out 100000");
  fails_with(host, "local s = ('x'):rep(4000000)", MORTISE_SCRIPT_ERROR, "out of ");
  fails_with(host, "mortise.sleep(60)", MORTISE_SCRIPT_ERROR, "out of time: it may take 5000 ms");
  passes(host, "for i = 1, 1000 do end");
  mortise_host_free(host);
}

static void wrong_options_are_refused(void **state) {
  (void)state;
  mortise_error err;
  const char *rules[] = {"read everything please", NULL};
  mortise_sandbox_options sandbox;
  mortise_sandbox_options_init(&sandbox);
  sandbox.allow_n = 1;
  assert_null(make_sandboxed(&sandbox, NULL, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  sandbox.allow = rules;
  assert_null(make_sandboxed(&sandbox, NULL, &err));
  assert_non_null(strstr(err.message, "is none of: read INDEX"));
  rules[0] = "read fs";
  sandbox.allow_n = 2;
  assert_null(make_sandboxed(&sandbox, NULL, &err));
  assert_non_null(strstr(err.message, "rule 1 of `allow` is NULL"));
  sandbox.allow_n = 1;
  sandbox.memory_max = 1000;
  assert_null(make_sandboxed(&sandbox, NULL, &err));
  assert_non_null(strstr(err.message, "from 1MB to 1GB"));
  sandbox.memory_max = 0;
  sandbox.time_max_ms = -1;
  assert_null(make_sandboxed(&sandbox, NULL, &err));
  sandbox.time_max_ms = 0;
  sandbox.size = 1;
  assert_null(make_sandboxed(&sandbox, NULL, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
}

typedef struct ran {
  mortise_status code;
  int results;
} ran;

static void note_run(void *ctx, mortise_host *host, int nresults, const mortise_error *error) {
  (void)host;
  *(ran *)ctx = (ran){error->code, nresults};
}

/* Beside one another in the caller's loop, while one waits and one is cancelled. */
static void many_in_a_loop(void **state) {
  (void)state;
  enum { MANY = 20 };
  mortise_error err;
  ran over[MANY];
  mortise_options client;
  mortise_options_init(&client);
  client.loop = mortise_loop_new(&err);
  mortise_sandbox_options sandbox;
  mortise_sandbox_options_init(&sandbox);
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.client = &client;
  options.sandbox = &sandbox;
  options.libraries = MORTISE_LIB_STRING;
  mortise_host *host = mortise_host_make(&options, &err);
  if (!host) fail_msg("%s", err.message);
  mortise_run *long_one = mortise_host_start_string(host, "mortise.sleep(50)", "=long", NULL, 0, NULL, NULL, &err);
  for (int i = 0; i < MANY; i++) {
    over[i].code = MORTISE_LOCK_LOST;
    const char *code = i % 2 ? "mortise.sleep(0.01) return 1" : "mortise.sleep(0.01) error 'x'";
    assert_non_null(mortise_host_start_string(host, code, "=s", NULL, 0, note_run, &over[i], &err));
  }
  mortise_run_cancel(long_one);
  for (int i = 0; i < MANY; i++) {
    for (int k = 0; k < 100000 && over[i].code == MORTISE_LOCK_LOST; k++)
      assert_int_equal(mortise_loop_step(client.loop, &err), MORTISE_OK);
    assert_int_equal(over[i].code, i % 2 ? MORTISE_OK : MORTISE_SCRIPT_ERROR);
    assert_int_equal(over[i].results, 0);
  }
  mortise_host_free(host);
  mortise_loop_free(client.loop);
}

/* ---- Memory that is refused ---------------------------------------------------------------------- */

static size_t calls, fails_at;

static bool allow(void *ctx, size_t size) {
  (void)ctx, (void)size;
  return ++calls != fails_at;
}

static const char busy[] =
    "local t = {} for i = 1, 50 do t[i] = mortise.json {a = i, b = {('x'):rep(i)}} end\n"
    "local v = mortise.view(t[50]) v.c = {1, 2} v.a = v.a + 1\n"
    "local co = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(t[i]:gsub('%d', '%0%0')) end end)\n"
    "for i = 1, 5 do t[i] = co() end\n"
    "table.sort(t) print(#table.concat(t, ','), mortise.now() > 0, v)\n";

/* At the n-th time: the script ends, or says why, and nothing is left. */
static void memory_may_fail_anywhere(void **state) {
  (void)state;
  char line[100];
  mortise_error err;
  mortise_sandbox_options sandbox;
  mortise_sandbox_options_init(&sandbox);
  mortise_host *host = make_sandboxed(&sandbox, NULL, &err);
  if (!host) fail_msg("%s", err.message);
  assert_int_equal(mortise_host_set_print(host, note_line, line, &err), MORTISE_OK);
  fails_at = calls = 0;
  mt_mem_hook(allow, NULL);
  mortise_status status = run(host, busy, &err);
  mt_mem_hook(NULL, NULL);
  if (status) fail_msg("%s", err.message);
  size_t whole = calls, failed = 0;
  for (size_t n = 1; n <= whole; n += 1 + whole / 400) {
    calls = 0;
    fails_at = n;
    mt_mem_hook(allow, NULL);
    status = run(host, busy, &err);
    mt_mem_hook(NULL, NULL);
    if (status && status != MORTISE_OUT_OF_MEMORY && status != MORTISE_SCRIPT_ERROR)
      fail_msg("%zu: %s: %s", n, mortise_status_name(status), err.message);
    failed += status != MORTISE_OK;
  }
  assert_true(failed > 100);
  passes(host, busy);
  mortise_host_free(host);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scripts_get_what_they_are_allowed), cmocka_unit_test(limits_are_the_programs),
      cmocka_unit_test(wrong_options_are_refused),         cmocka_unit_test(many_in_a_loop),
      cmocka_unit_test(memory_may_fail_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
