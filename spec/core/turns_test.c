/* Hosts in a loop of the program's: scripts that go on from its steps, beside one another and beside clients in C. */
#include "lock_fixture.h"

#include <lauxlib.h>
#include <lua.h>
#include <mortise/host.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static mt_test_place place; /* of the running group */

enum { PATIENCE_MS = MT_TEST_PATIENCE_MS };

static mortise_loop *loop;

static bool poll_until(const bool *flag, int64_t ms) {
  return mt_test_poll_until(loop, flag, ms, NULL);
}

static void pass_time(int64_t ms) {
  const bool never = false;
  poll_until(&never, ms);
}

static int open_loop(void **state) {
  (void)state;
  loop = mortise_loop_new(NULL);
  return loop ? 0 : -1;
}

static int close_loop(void **state) {
  (void)state;
  mortise_loop_free(loop); /* with what a test has left in it */
  mt_test_expect_empty(&place);
  return 0;
}

static mortise_options options_of(void) {
  return mt_test_options(&place, loop);
}

static mortise_host *new_host(void) {
  mortise_error err;
  const mortise_options options = options_of();
  mortise_host *host = mortise_host_new(&options, &err);
  MT_CHECK(host, "%s", err.message);
  return host;
}

typedef struct ran {
  bool over, frees;
  int n, nresults;
  char first[200];
  mortise_error error;
  mortise_host *host;
} ran;

static void note_run(void *ctx, mortise_host *host, int nresults, const mortise_error *error) {
  ran *r = ctx;
  lua_State *L = mortise_host_state(host);
  r->n++;
  r->nresults = nresults;
  r->error = *error;
  if (nresults) snprintf(r->first, sizeof r->first, "%s", luaL_tolstring(L, -nresults, NULL));
  r->over = true;
  if (r->frees) mortise_host_free(host);
}

static mortise_run *start(ran *r, mortise_host *host, const char *code, const char *argument) {
  mortise_error err;
  const char *const args[] = {argument};
  bool frees = r->frees;
  *r = (ran){.host = host, .frees = frees};
  mortise_run *run = mortise_host_start_string(host, code, "=script", args, argument ? 1 : 0, note_run, r, &err);
  MT_CHECK(run, "%s", err.message);
  assert_false(r->over);
  return run;
}

static void finish(ran *r) {
  assert_true(poll_until(&r->over, PATIENCE_MS));
  MT_CHECK(!r->error.code, "%s\n%s", r->error.message, mortise_host_traceback(r->host));
}

/* ---- Beside one another ------------------------------------------------------------------------ */

static const char locked_script[] =
    "local path = ...\n"
    "return mortise.with_tree_lock(path, function(lock)\n"
    "  lock:check() mortise.sleep(0.05) lock:check()\n"
    "  return path, lock.fence\n"
    "end)\n";

static void test_many_scripts(void **state) {
  (void)state;
  enum { HOSTS = 3, EACH = 40 };
  static ran all[HOSTS][EACH];
  mortise_host *host[HOSTS];
  for (int h = 0; h < HOSTS; h++) host[h] = new_host();
  for (int h = 0; h < HOSTS; h++)
    for (int i = 0; i < EACH; i++) {
      char path[32];
      snprintf(path, sizeof path, "/turns/%d", (i * HOSTS + h) % 60); /* each twice: they wait for one another */
      start(&all[h][i], host[h], locked_script, path);
    }
  for (int h = 0; h < HOSTS; h++)
    for (int i = 0; i < EACH; i++) {
      finish(&all[h][i]);
      assert_int_equal(all[h][i].nresults, 2);
      assert_int_equal(strncmp(all[h][i].first, "/turns/", 7), 0);
      assert_int_equal(lua_gettop(mortise_host_state(host[h])), 0);
    }
  pass_time(20);
  for (int h = 0; h < HOSTS; h++)
    for (int i = 0; i < EACH; i++) assert_int_equal(all[h][i].n, 1);
  for (int h = 0; h < HOSTS; h++) mortise_host_free(host[h]);
}

/* Instructions are each script's own: what one uses up is nothing to the others, and its lock is given back. */
static void test_one_uses_up_its_instructions(void **state) {
  (void)state;
  enum { OTHERS = 8 };
  ran spends = {0}, others[OTHERS] = {{0}}, after = {0};
  mortise_host *host = new_host();
  mortise_host_set_instructions_max(host, 3000000);
  start(&spends, host, "mortise.with_tree_lock('/spent', function()\n"
                       "  while true do pcall(function() for i = 1, 100000 do end mortise.sleep(0) end) end end)", NULL);
  for (int i = 0; i < OTHERS; i++)
    start(&others[i], host, "for i = 1, 10 do for j = 1, 20000 do end mortise.sleep(0.01) end return ...", "mine");
  for (int i = 0; i < OTHERS; i++) {
    finish(&others[i]);
    assert_string_equal(others[i].first, "mine");
  }
  assert_true(poll_until(&spends.over, PATIENCE_MS));
  assert_int_equal(spends.error.code, MORTISE_INTERRUPTED);
  MT_CHECK(strstr(spends.error.message, "3000000 instructions"), "%s", spends.error.message);
  start(&after, host, locked_script, "/spent");
  finish(&after);
  mortise_host_free(host);
}

static void test_errors_are_told(void **state) {
  (void)state;
  mortise_error err;
  ran r = {0};
  mortise_host *host = new_host();
  start(&r, host, "mortise.sleep(0.01) error {code = 'mine', message = 'so it is'}", NULL);
  assert_true(poll_until(&r.over, PATIENCE_MS));
  assert_int_equal(r.error.code, MORTISE_SCRIPT_ERROR);
  start(&r, host, "local function inner() mortise.sleep(0.01) error 'within' end inner()", NULL);
  assert_true(poll_until(&r.over, PATIENCE_MS));
  assert_non_null(strstr(mortise_host_traceback(host), "inner"));
  assert_null(mortise_host_start_string(host, "this is no Lua", "=bad", NULL, 0, note_run, &r, &err));
  assert_int_equal(err.code, MORTISE_SCRIPT_ERROR);
  assert_null(mortise_host_start_file(host, "/nowhere.lua", NULL, 0, note_run, &r, &err));
  assert_null(mortise_host_start_string(host, NULL, "=bad", NULL, 0, note_run, &r, &err));
  assert_null(mortise_host_start_call(host, 0, note_run, &r, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  mortise_options alone = options_of();
  alone.loop = NULL;
  mortise_host *blocking = mortise_host_new(&alone, &err);
  assert_null(mortise_host_start_string(blocking, "return 1", "=one", NULL, 0, note_run, &r, &err));
  assert_non_null(strstr(err.message, "loop"));
  mortise_host_free(blocking);
  mortise_run_cancel(NULL);
  lua_State *L = mortise_host_state(host);
  lua_getglobal(L, "tostring");
  lua_pushinteger(L, 42);
  r = (ran){.host = host};
  assert_non_null(mortise_host_start_call(host, 1, note_run, &r, &err));
  assert_int_equal(lua_gettop(L), 0);
  finish(&r);
  assert_string_equal(r.first, "42");
}

/* ---- Cancelling, interrupting ------------------------------------------------------------------ */

static const char holding_script[] =
    "mortise.with_tree_lock(..., function() held = true mortise.sleep(3600) end)";

static bool is_held(mortise_host *host) {
  lua_State *L = mortise_host_state(host);
  lua_getglobal(L, "held");
  bool held = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return held;
}

static void test_a_cancelled_script_gives_back(void **state) {
  (void)state;
  ran holds = {0}, waits = {0}, other = {0};
  mortise_host *host = new_host();
  mortise_run *holder = start(&holds, host, holding_script, "/cancel");
  while (!is_held(host)) pass_time(1);
  mortise_run *waiter = start(&waits, host, locked_script, "/cancel/below");
  start(&other, host, locked_script, "/cancel/beside");
  pass_time(50);
  assert_false(other.over);
  mortise_run_cancel(waiter); /* while it waits for its lock */
  mortise_run_cancel(holder);
  finish(&other);
  pass_time(50);
  assert_int_equal(holds.n + waits.n, 0);
}

static void *interrupt_soon(void *ctx) {
  mt_test_sleep_ms(100);
  mortise_host_interrupt(ctx);
  return NULL;
}

/* The thread sanitizer delivers signals at calls of the C library only. */
#ifdef __SANITIZE_THREAD__
#define FOR_EVER "while true do local t = {} end"
#else
#define FOR_EVER "while true do end"
#endif

/* Whatever a script does, and whatever it catches. */
static void test_interrupts(void **state) {
  (void)state;
  static const char *const scripts[] = {
      FOR_EVER,
      "while true do pcall(function() " FOR_EVER " end) end",
      "while true do pcall(mortise.sleep, 0.001) end",
      "mortise.with_tree_lock('/interrupts', function() mortise.sleep(3600) end)",
      "local co = coroutine.wrap(function() while true do pcall(mortise.sleep, 1) end end) co() mortise.sleep(3600)",
  };
  mortise_host *host = new_host(), *beside = new_host();
  mortise_host_set_patience(host, 100);
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    pthread_t thread;
    ran r = {0}, other = {0};
    start(&r, host, scripts[i], NULL);
    start(&other, beside, "mortise.sleep(0.3) return 'beside'", NULL);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, host), 0);
    assert_true(poll_until(&r.over, PATIENCE_MS));
    pthread_join(thread, NULL);
    MT_CHECK(r.error.code == MORTISE_INTERRUPTED, "script %zu: %s", i, r.error.message);
    finish(&other);
  }
  ran after = {0}; /* it does nothing between scripts */
  mortise_host_interrupt(host);
  start(&after, host, "mortise.sleep(0.01) return 'after'", NULL);
  finish(&after);
}

/* ---- Its end ------------------------------------------------------------------------------------ */

static void test_freed_in_a_callback(void **state) {
  (void)state;
  ran r = {.frees = true};
  mortise_host *host = new_host(), *other = new_host();
  start(&r, host, locked_script, "/freed");
  assert_true(poll_until(&r.over, PATIENCE_MS));
  pass_time(100);
  ran second = {0};
  start(&second, other, locked_script, "/freed");
  finish(&second);
}

static void test_freed_while_it_runs(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++) {
    ran r = {0}, stubborn = {0}, last = {.frees = true};
    mortise_host *host = new_host();
    mortise_host_set_patience(host, 50);
    start(&r, host, holding_script, "/running");
    start(&stubborn, host, "while true do pcall(mortise.sleep, 10) end", NULL);
    while (!is_held(host)) pass_time(1);
    if (way == 0) {
      mortise_host_free(host);
    } else {
      start(&last, host, "return 1", NULL); /* frees it from its callback */
      assert_true(poll_until(&last.over, PATIENCE_MS) && poll_until(&r.over, PATIENCE_MS));
      assert_true(poll_until(&stubborn.over, PATIENCE_MS));
      pass_time(100);
    }
    assert_int_equal(r.n, 1);
    assert_int_equal(r.error.code, MORTISE_INTERRUPTED);
    assert_int_equal(stubborn.n, 1);
  }
}

/* The loop's end is theirs. */
static void test_freed_with_the_loop(void **state) {
  (void)state;
  static ran r[2];
  for (int i = 0; i < 2; i++) {
    mortise_host *host = new_host();
    start(&r[i], host, holding_script, i ? "/loop/a" : "/loop/b");
    while (!is_held(host)) pass_time(1);
  }
  mortise_loop_free(loop);
  for (int i = 0; i < 2; i++) assert_true(r[i].n == 1 && r[i].error.code == MORTISE_INTERRUPTED);
  assert_int_equal(open_loop(NULL), 0);
}

/* ---- With C ------------------------------------------------------------------------------------- */

static mortise_lock *taken;

static void note_lock(void *ctx, const mortise_outcome *outcome) {
  MT_CHECK(outcome->lock, "%s", outcome->error.message);
  taken = outcome->lock;
  *(bool *)ctx = true;
}

static int call_what_waits(lua_State *L) {
  mortise_error err;
  mortise_host *host = lua_touserdata(L, lua_upvalueindex(1));
  assert_int_equal(mortise_host_run_string(host, "return 1", "=inner", NULL, 0, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_loop_step(loop, &err), MORTISE_INVALID_ARGUMENT);
  mortise_loop_free(loop); /* does nothing here */
  return 0;
}

static void test_with_a_client_in_c(void **state) {
  (void)state;
  mortise_error err;
  bool had = false;
  ran r = {0}, waits = {0};
  const mortise_options options = options_of();
  mortise_client *client = mortise_client_open(&options, &err);
  mortise_host *host = new_host();
  start(&r, host, holding_script, "/both");
  while (!is_held(host)) pass_time(1);
  const char *path = "/both/below";
  mortise_lock_request request;
  mortise_lock_request_init(&request);
  request.paths = &path;
  request.n = 1;
  assert_non_null(mortise_lock_acquire_start(client, &request, note_lock, &had, &err));
  pass_time(100);
  assert_false(had);
  mortise_host_interrupt(host);
  assert_true(poll_until(&had, PATIENCE_MS));
  start(&waits, host, locked_script, "/both");
  pass_time(100);
  assert_false(waits.over);
  assert_non_null(mortise_lock_release_start(taken, NULL, NULL, NULL));
  finish(&waits);
  lua_State *L = mortise_host_state(host);
  lua_pushlightuserdata(L, host);
  lua_pushcclosure(L, call_what_waits, 1);
  lua_setglobal(L, "waits");
  start(&r, host, "waits() mortise.sleep(0.01) waits()", NULL);
  finish(&r);
  assert_int_equal(mortise_host_run_string(host, "mortise.with_tree_lock('/both', function() end)", "=now", NULL, 0, &err),
                   MORTISE_OK); /* outside it may */
  mortise_client_free(client);
}

/* A script's lost lock is told to it, whoever steps. */
static void test_a_lost_lock_is_told(void **state) {
  (void)state;
  ran r = {0};
  mortise_error err;
  mortise_options options = options_of();
  options.lease_ms = 1500;
  mortise_host *host = mortise_host_new(&options, &err);
  MT_CHECK(host, "%s", err.message);
  start(&r, host,
        "local ok, e = pcall(mortise.with_tree_lock, '/gone', function()\n"
        "  id = mortise.session().id held = true mortise.sleep(3600)\n"
        "end) return not ok and e.code",
        NULL);
  while (!is_held(host)) pass_time(1);
  lua_State *L = mortise_host_state(host);
  lua_getglobal(L, "id");
  char id[64];
  snprintf(id, sizeof id, "%s", lua_tostring(L, -1));
  lua_pop(L, 1);
  mt_test_break(&place, id);
  finish(&r);
  assert_string_equal(r.first, "lock_lost");
}

static int init_turns_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

#define IN_A_LOOP(test) cmocka_unit_test_setup_teardown(test, open_loop, close_loop)

int main(void) {
  static const struct CMUnitTest tests[] = {
      IN_A_LOOP(test_many_scripts),
      IN_A_LOOP(test_one_uses_up_its_instructions),
      IN_A_LOOP(test_errors_are_told),
      IN_A_LOOP(test_a_cancelled_script_gives_back),
      IN_A_LOOP(test_interrupts),
      IN_A_LOOP(test_freed_in_a_callback),
      IN_A_LOOP(test_freed_while_it_runs),
      IN_A_LOOP(test_freed_with_the_loop),
      IN_A_LOOP(test_with_a_client_in_c),
      IN_A_LOOP(test_a_lost_lock_is_told),
  };
  return mt_test_each_place(&place, "turns", tests, sizeof tests / sizeof tests[0], init_turns_table);
}
