/* The embedding interface: tasks, errors, interrupts, two hosts at once, memory running out. */
#include "host_fixture.h"

#include <lauxlib.h>
#include <lua.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "locales.h"

/* The thread sanitizer delivers signals at calls of the C library only. */
#ifdef __SANITIZE_THREAD__
#define FOR_EVER "while true do local t = {} end"
#else
#define FOR_EVER "while true do end"
#endif

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- Running -------------------------------------------------------------------------------- */

static void arguments_reach_a_script(void **state) {
  const char *args[] = {"one", "two"};
  mortise_error err;
  const char *code =
      "local a, b = ... assert(a == 'one' and b == 'two')"
      "assert(arg[0] == '=test' and arg[1] == 'one' and arg[2] == 'two' and #arg == 2)";
  assert_int_equal(mortise_host_run_string(*state, code, "=test", args, 2, &err), MORTISE_OK);
}

static void files_run_with_a_first_line_for_the_shell(void **state) {
  char name[] = "/tmp/mortise-host-XXXXXX";
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  static const char code[] = "#!/usr/bin/env mortise\nran = true error('here')";
  assert_int_equal(write(fd, code, sizeof code - 1), sizeof code - 1);
  close(fd);
  mortise_error err;
  assert_int_equal(mortise_host_run_file(*state, name, NULL, 0, &err), MORTISE_SCRIPT_ERROR);
  unlink(name);
  char expected[64];
  snprintf(expected, sizeof expected, "%s:2: here", name);
  assert_string_equal(err.message, expected);
  assert_int_equal(mortise_host_run_file(*state, name, NULL, 0, &err), MORTISE_SCRIPT_ERROR);
  assert_non_null(strstr(err.message, "cannot open"));
}

static void calls_give_results(void **state) {
  lua_State *L = mortise_host_state(*state);
  mortise_error err;
  luaL_loadstring(L,
                  "local a, b = ... require 'mortise.core'.sleep(1) return a + b, a * b, 'more'");
  lua_pushinteger(L, 6);
  lua_pushinteger(L, 7);
  assert_int_equal(mortise_host_call(*state, 2, 2, &err), MORTISE_OK);
  assert_int_equal(lua_gettop(L), 2);
  assert_int_equal(lua_tointeger(L, -2), 13);
  assert_int_equal(lua_tointeger(L, -1), 42);
  lua_settop(L, 0);
  luaL_loadstring(L, "error 'no'");
  assert_int_equal(mortise_host_call(*state, 0, 1, &err), MORTISE_SCRIPT_ERROR);
  assert_int_equal(lua_gettop(L), 0);
}

/* ---- Errors --------------------------------------------------------------------------------- */

static void errors_say_where(void **state) {
  mortise_error err;
  const char *code = "local function inner() local x = nil; return x.y end\n"
                     "local function outer() inner() end\nouter()";
  assert_int_equal(run(*state, code, &err), MORTISE_SCRIPT_ERROR);
  assert_int_equal(err.code, MORTISE_SCRIPT_ERROR);
  assert_non_null(strstr(err.message, "test:1: attempt to index"));
  assert_non_null(strstr(mortise_host_traceback(*state), "stack traceback:"));
  assert_non_null(strstr(mortise_host_traceback(*state), "test:2:"));
  passes(*state, "return 1");
  assert_int_equal(run(*state, "x = = 1", &err), MORTISE_SCRIPT_ERROR);
  assert_non_null(strstr(err.message, "test:1: unexpected symbol"));
}

static void error_objects_keep_their_code(void **state) {
  mortise_error err;
  const char *code = "local core = require 'mortise.core'"
                     "error(core.error{code = 'conflict', message = 'twice', retryable = true})";
  assert_int_equal(run(*state, code, &err), MORTISE_CONFLICT);
  assert_string_equal(err.message, "twice");
  assert_true(err.retryable);
  assert_int_equal(
      run(*state, "error(setmetatable({}, {__tostring = function() return 'own' end}))", &err),
      MORTISE_SCRIPT_ERROR);
  assert_string_equal(err.message, "own");
  assert_int_equal(run(*state, "error()", &err), MORTISE_SCRIPT_ERROR);
  assert_int_equal(run(*state, "error(setmetatable({}, {__tostring = error}))", &err),
                   MORTISE_SCRIPT_ERROR);
}

static void errors_in_close_handlers_replace(void **state) {
  mortise_error err;
  const char *code = "local core = require 'mortise.core'\n"
                     "local x <close> = setmetatable({}, {__close = function(_, e)\n"
                     "  core.sleep(1) error('from close: ' .. e, 0) end})\n"
                     "core.sleep(1) error('body', 0)";
  assert_int_equal(run(*state, code, &err), MORTISE_SCRIPT_ERROR);
  assert_string_equal(err.message, "from close: script_error: body");
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static void sleeps_end_in_order(void **state) {
  passes(*state, "local core, order = require 'mortise.core', {}\n"
                 "local function at(ms) return core.spawn(function() core.sleep(ms)\n"
                 "  order[#order + 1] = ms return ms end) end\n"
                 "local tasks = {at(30), at(10), at(20)}\n"
                 "assert(tasks[1]:join() == 30 and tasks[2]:join() == 10)\n"
                 "assert(table.concat(order, ' ') == '10 20 30')");
}

static void parents_end_after_their_children(void **state) {
  mortise_error err;
  passes(*state, "local core = require 'mortise.core'\n"
                 "core.spawn(function() core.sleep(20) ended = true end)");
  passes(*state, "assert(ended)");
  assert_int_equal(run(*state,
                       "local core = require 'mortise.core'\n"
                       "core.spawn(function() core.sleep(1) error('child', 0) end) core.sleep(5)",
                       &err),
                   MORTISE_SCRIPT_ERROR);
  assert_string_equal(err.message, "child");
  assert_int_equal(
      run(*state,
          "local core = require 'mortise.core'\n"
          "core.spawn(function() local ok, e = pcall(core.sleep, 1e6) why = e.code end)\n"
          "core.sleep(1) error('parent', 0)",
          &err),
      MORTISE_SCRIPT_ERROR);
  assert_string_equal(err.message, "parent");
  passes(*state, "assert(why == 'interrupted')");
}

static void closing_a_task_joins_it(void **state) {
  passes(*state,
         "local core, n = require 'mortise.core', 0\n"
         "do local t <close> = core.spawn(function() core.sleep(5) n = 1 end) end\n"
         "assert(n == 1)\n"
         "local ok, e = pcall(function()\n"
         "  local t <close> = core.spawn(function() core.sleep(1e6) end) error('out', 0) end)\n"
         "assert(not ok and e == 'out')");
}

static void waits_work_where_a_yield_cannot(void **state) {
  passes(*state,
         "local core = require 'mortise.core'\n"
         "local numbers = coroutine.wrap(function() for i = 1, 3 do core.sleep(1)\n"
         "  coroutine.yield(i) end end)\n"
         "local sum = 0 for i in numbers do sum = sum + i end assert(sum == 6)\n"
         "local list = {3, 1, 2}\n"
         "table.sort(list, function(a, b) core.sleep(1) return a < b end) assert(list[1] == 1)\n"
         "assert(('ab'):gsub('.', function(c) core.sleep(1) return c:upper() end) == 'AB')\n"
         "local joined = coroutine.wrap(function()\n"
         "  return core.spawn(function() core.sleep(1) return 7 end):join() end)()\n"
         "assert(joined == 7)");
}

static void pumping_resumes_no_other_task(void **state) {
  passes(*state,
         "local core, other = require 'mortise.core', 0\n"
         "local t = core.spawn(function() for i = 1, 5 do core.sleep(1) other = i end end)\n"
         "core.sleep(0)\n"
         "local before, after = coroutine.wrap(function()\n"
         "  local b = other core.sleep(50) return b, other end)()\n"
         "assert(before == after) t:join() assert(other == 5)");
}

static void no_one_else_resumes_a_task(void **state) {
  passes(*state, "local core, co = require 'mortise.core'\n"
                 "local t = core.spawn(function() co = coroutine.running() core.sleep(20)\n"
                 "  return 'whole' end)\n"
                 "core.sleep(1) assert(coroutine.resume(co, 'forged'))\n"
                 "assert(t:join() == 'whole')\n"
                 "t = core.spawn(function() co = coroutine.running() core.sleep(1e6) end)\n"
                 "core.sleep(1) assert(coroutine.close(co))\n"
                 "collectgarbage() collectgarbage()\n"
                 "local ok, e = pcall(t.join, t) assert(not ok and tostring(e):find 'closed')");
}

static void a_task_cannot_wait_for_itself(void **state) {
  passes(*state, "local core, t = require 'mortise.core'\n"
                 "t = core.spawn(function() core.spawn(function() t:join() end):join() end)\n"
                 "local ok, e = pcall(t.join, t) assert(e.code == 'deadlock')");
}

static void tracked_coroutines_are_luas(void **state) {
  passes(*state,
         "local co = coroutine.create(function(a) local b = coroutine.yield(a + 1)\n"
         "  error({b}) end)\n"
         "assert(select(2, coroutine.resume(co, 1)) == 2)\n"
         "local ok, e = coroutine.resume(co, 5) assert(not ok and e[1] == 5)\n"
         "ok, e = coroutine.resume(co) assert(not ok and e == 'cannot resume dead coroutine')\n"
         "local f = coroutine.wrap(function() error 'inside' end)\n"
         "ok, e = pcall(f) assert(e:find 'test:%d+: inside')\n"
         "local closed f = coroutine.wrap(function()\n"
         "  local x <close> = setmetatable({}, {__close = function() closed = true end}) error 'x' "
         "end)\n"
         "pcall(f) assert(closed)\n"
         "assert(not pcall(coroutine.resume, 1)) assert(not pcall(coroutine.wrap, 1))");
}

/* ---- Interrupts ----------------------------------------------------------------------------- */

static void cjson_keeps_its_point(void **state) {
  static const char code[] =
      "local cjson = require 'cjson'\n"
      "assert(cjson == require 'cjson' and package.loaded.cjson == cjson)\n"
      "local function works(m)\n"
      "  assert(m.encode {1.5, 2.25} == '[1.5,2.25]', m.encode {1.5})\n"
      "  local t = m.decode '[1.5, -2.5e-3, 7]'\n"
      "  assert(t[1] == 1.5 and t[2] == -2.5e-3 and t[3] == 7 and #t == 3)\n"
      "end\n"
      "local safe = require 'cjson.safe'\n"
      "for _, m in ipairs {cjson, cjson.new(), cjson.new().new(), safe} do works(m) end\n"
      "local ok, why = pcall(function() cjson.decode '[1,5' end)\n"
      "assert(not ok and why:find '^test:10: Expected', why)\n"
      "assert(select('#', safe.decode '[') == 2)\n"
      "assert(cjson.null == mortise.null)\n"
      "local lua = os.setlocale() ~= 'C' and '1,5' or '1.5'\n"
      "assert(tostring(1.5) == lua)\n"
      "local before = os.setlocale()\n"
      "os.setlocale 'C' works(cjson) os.setlocale(before) works(cjson)\n";
  for (size_t i = 0; i < TEST_LOCALES; i++) {
    mortise_host *fresh = mortise_host_new(NULL, NULL);
    use_locale(test_locales[i]);
    passes(fresh, code);  /* loaded under this one */
    passes(*state, code); /* loaded under the first */
    mortise_host_free(fresh);
  }
  setlocale(LC_ALL, "C");
  passes(*state, "package.cpath = '' package.loaded.cjson = nil\n"
                 "local ok, why = pcall(require, 'cjson')\n"
                 "assert(not ok and why:find \"module 'cjson' not found\", why)\n"
                 "assert(package.preload.cjson)");
}

static void *interrupt_later(void *host) {
  usleep(50000);
  mortise_host_interrupt(host);
  return NULL;
}

static void interrupted(mortise_host *host, const char *code) {
  mortise_error err;
  pthread_t thread;
  int64_t start = now_ms();
  assert_int_equal(pthread_create(&thread, NULL, interrupt_later, host), 0);
  mortise_status status = run(host, code, &err);
  pthread_join(thread, NULL);
  assert_int_equal(status, MORTISE_INTERRUPTED);
  assert_true(now_ms() - start < 5000);
}

static void interrupts_reach_waiting_tasks(void **state) {
  interrupted(*state, "local core = require 'mortise.core'\n"
                      "local t = core.spawn(function() local ok, e = pcall(core.sleep, 1e6)\n"
                      "  first = e.code core.sleep(5) cleaned = true end)\n"
                      "local ok, e = pcall(core.sleep, 1e6) t:join() error(e)");
  passes(*state, "assert(first == 'interrupted' and cleaned)");
  interrupted(*state, "coroutine.wrap(function() require 'mortise.core'.sleep(1e6) end)()");
}

static void interrupts_reach_a_task_that_computes(void **state) {
  interrupted(*state, FOR_EVER);
  interrupted(*state, "coroutine.wrap(function() " FOR_EVER " end)()");
  interrupted(*state, "local co = coroutine.create(function() " FOR_EVER " end)\n"
                      "local ok, e = coroutine.resume(co) error(e)");
  interrupted(
      *state,
      "while true do local ok, e = pcall(function() for i = 1, 1e5 do local t = {} end end)\n"
      "  if not ok then error(e) end end");
  passes(*state, "for i = 1, 1e5 do end"); /* nothing is left armed */
}

static void interrupts_reach_a_thread_that_blocks_signals(void **state) {
  sigset_t all, before, after;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  interrupted(*state, FOR_EVER);
  interrupted(*state, "require 'mortise.core'.sleep(1e6)");
  pthread_sigmask(SIG_SETMASK, &before, &after);
  assert_int_equal(sigismember(&after, SIGURG), 1);
  assert_int_equal(sigismember(&after, SIGTERM), 1);
}

static atomic_int urgent;

static void on_urgent(int number) {
  (void)number;
  urgent++;
}

static void (*ours)(int, siginfo_t *, void *);

/* A program's handler that replaces ours and calls it. */
static void chain(int number, siginfo_t *info, void *context) {
  urgent++;
  ours(number, info, context);
}

static void interrupts_reach_a_program_with_a_handler_of_its_own(void **state) {
  struct sigaction found, action = {.sa_handler = SIG_IGN};
  sigaction(SIGURG, &action, &found);
  interrupted(*state, FOR_EVER);
  action.sa_handler = on_urgent;
  sigaction(SIGURG, &action, NULL);
  urgent = 0;
  interrupted(*state, FOR_EVER);
  assert_int_equal(urgent, 1); /* it is called as well */
  ours = found.sa_sigaction;
  action = (struct sigaction){.sa_sigaction = chain, .sa_flags = SA_SIGINFO};
  sigaction(SIGURG, &action, NULL);
  urgent = 0;
  interrupted(*state, FOR_EVER);
  assert_int_equal(urgent, 1);
  sigaction(SIGURG, &found, NULL);
}

static void interrupts_cannot_be_swallowed(void **state) {
  static const char *const loops[] = {
      "while true do pcall(function() " FOR_EVER " end) end",
      "while true do pcall(pcall, pcall, function() " FOR_EVER " end) end",
      "while true do pcall(core.sleep, 1e6) end",
      "while true do xpcall(function() " FOR_EVER " end, tostring) end",
      "while true do xpcall(error, function() " FOR_EVER " end) end",
      "while true do xpcall(function() " FOR_EVER " end, function() " FOR_EVER " end) end",
      "while true do xpcall(core.sleep, tostring, 1e6) end",
      "coroutine.wrap(function() while true do pcall(function() " FOR_EVER " end) end end)()",
      "while true do coroutine.resume(coroutine.create(function() " FOR_EVER " end)) end",
      "while true do coroutine.resume(coroutine.create(core.sleep), 1e6) end",
      "while true do pcall(coroutine.wrap(function() pcall(function() " FOR_EVER " end) end)) end",
      "core.spawn(function() while true do pcall(function() " FOR_EVER " end) end end):join()",
      "local t = core.spawn(function() while true do pcall(core.sleep, 1e6) end end)\n"
      "while true do pcall(t.join, t) end",
      "local bad = setmetatable({}, {__close = function() error 'another' end})\n"
      "while true do pcall(function() local x <close> = bad " FOR_EVER " end) end",
      "local t = {} while true do pcall(table.sort, {3, 1, 2}, function() " FOR_EVER " end) end",
  };
  mortise_host_set_patience(*state, 50);
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    char code[512];
    snprintf(code, sizeof code,
             "local core = require 'mortise.core'\n"
             "local x <close> = setmetatable({}, {__close = function() closed = %zu end}) %s",
             i, loops[i]);
    interrupted(*state, code);
    snprintf(code, sizeof code, "assert(closed == %zu)", i);
    passes(*state, code);
  }
}

/* Clean-up has its time, in a handler as after a pcall; after the end of a call nothing is
 * raised. */
static void interrupts_leave_time_to_clean_up(void **state) {
  interrupted(*state, "local core = require 'mortise.core'\n"
                      "local x <close> = setmetatable({}, {__close = function()\n"
                      "  core.sleep(20) for i = 1, 1e5 do end closed = true end})\n"
                      "local ok, e = pcall(core.sleep, 1e6)\n"
                      "assert(not pcall(error, 'a failure is caught as ever'))\n"
                      "core.sleep(20) for i = 1, 1e5 do end cleaned = true error(e)");
  passes(*state, "assert(cleaned and closed)");
  mortise_host_set_patience(*state, 30);
  interrupted(*state, "local core = require 'mortise.core'\n"
                      "pcall(core.sleep, 1e6) pcall(core.sleep, 1e6)");
  passes(*state, "require 'mortise.core'.sleep(100)\n"
                 "for i = 1, 100 do assert(not pcall(error)) end");
}

/* The owner of the loop can still catch the interrupt, and may go on once it has cleared it. */
static void interrupts_can_be_forgotten(void **state) {
  mortise_host_set_patience(*state, 30);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, interrupt_later, *state), 0);
  passes(*state, "local core = require 'mortise.core'\n"
                 "local ok, e = core.catch(function()\n"
                 "  while true do pcall(core.sleep, 1e6) end end,\n"
                 "  function(why) return why end)\n"
                 "assert(not ok and e.code == 'interrupted' and core.interrupted(true))\n"
                 "assert(not pcall(error)) core.sleep(100) for i = 1, 1e5 do end");
  pthread_join(thread, NULL);
}

static void an_interrupt_between_calls_is_for_nobody(void **state) {
  mortise_host_interrupt(*state);
  passes(*state, "for i = 1, 1e5 do end require 'mortise.core'.sleep(10)");
  mortise_error err;
  assert_int_equal(run(*state, "error 'no'", &err), MORTISE_SCRIPT_ERROR);
  mortise_host_interrupt(*state);
  passes(*state, "for i = 1, 1e5 do end require 'mortise.core'.sleep(10)");
}

typedef struct bursts {
  mortise_host *host;
  _Atomic bool stop;
} bursts;

static void *interrupt_often(void *ctx) {
  bursts *b = ctx;
  while (!atomic_load(&b->stop)) mortise_host_interrupt(b->host);
  return NULL;
}

/* Each call, however short, succeeds or is interrupted; a call after the last interrupt
 * succeeds. */
static void interrupts_race_with_the_end_of_calls(void **state) {
  for (int round = 0; round < 10; round++) {
    bursts b = {.host = *state};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_often, &b), 0);
    for (int i = 0; i < 50; i++) {
      mortise_error err;
      mortise_status status = run(*state, "for i = 1, 50 do local t = {} end", &err);
      assert_true(status == MORTISE_OK || status == MORTISE_INTERRUPTED);
    }
    atomic_store(&b.stop, true);
    pthread_join(thread, NULL);
    passes(*state, "for i = 1, 1e4 do local t = {} end require 'mortise.core'.sleep(0)");
  }
}

/* ---- Two at once ---------------------------------------------------------------------------- */

static void *live(void *result) {
  mortise_error err;
  mortise_host *host = mortise_host_new(NULL, &err);
  const char *code = "local core, sum = require 'mortise.core', 0\n"
                     "local tasks = {}\n"
                     "for i = 1, 200 do tasks[i] = core.spawn(function() core.sleep(i % 5)\n"
                     "  return core.view(core.json{n = i}).n end) end\n"
                     "for i = 1, 200 do sum = sum + tasks[i]:join() end\n"
                     "assert(sum == 20100) " FOR_EVER;
  pthread_t thread;
  if (!host || pthread_create(&thread, NULL, interrupt_later, host)) return NULL;
  *(mortise_status *)result = run(host, code, &err);
  pthread_join(thread, NULL);
  mortise_host_free(host);
  return NULL;
}

static void hosts_do_not_touch_each_other(void **state) {
  (void)state;
  enum { HOSTS = 3 };
  pthread_t threads[HOSTS];
  mortise_status results[HOSTS] = {MORTISE_OK, MORTISE_OK, MORTISE_OK};
  for (int i = 0; i < HOSTS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, live, &results[i]), 0);
  for (int i = 0; i < HOSTS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < HOSTS; i++) assert_int_equal(results[i], MORTISE_INTERRUPTED);
}

/* ---- The end of a host ---------------------------------------------------------------------- */

static char folder[64], store[96], heard[1024];

static void hear(void *ctx, mortise_log_level level, const char *line) {
  (void)ctx;
  size_t n = strlen(heard);
  if (level == MORTISE_LOG_WARNING) snprintf(heard + n, sizeof heard - n, "%s\n", line);
}

static mortise_host *host_with_store(void) {
  mortise_error err;
  mortise_options options;
  mortise_options_init(&options);
  options.store = store;
  options.log = hear;
  mortise_host *host = mortise_host_new(&options, &err);
  if (!host) fail_msg("%s", err.message);
  return host;
}

/* What a script left unfinished. */
static void its_end_finishes_writers(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/mortise-host-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(store, sizeof store, "sqlite:%s/x.db", folder);
  mortise_host *host = host_with_store();
  passes(host, "w = mortise.acquire{tree = '/a'}:bulk 'i' w:index('x', {n = 1})");
  passes(host, "w:index('y', {n = 2})"); /* a host may run more than one */
  mortise_host_free(host);
  assert_string_equal(heard, "");
  host = host_with_store();
  passes(host, "assert(mortise.count 'i' == 2)");
  passes(host, "do mortise.acquire{tree = '/a', wait = 0}:bulk('i'):index('z', {n = 1}) end "
               "collectgarbage() collectgarbage()");
  assert_non_null(strstr(heard, "test:1: writer on i: 1 item not sent: nothing refers to it"));
  assert_non_null(strstr(heard, "test:1: the lock on /a was never released; it was given back"));
  heard[0] = 0;
  passes(host, "w = mortise.acquire{tree = '/a', wait = '5s'}:bulk 'i' "
               "local doc = mortise.get('i', 'x') mortise.update('i', 'x', {n = 5}) "
               "doc.n = 6 w:save(doc)");
  mortise_host_free(host);
  assert_non_null(strstr(heard, "conflict"));
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void scripts_have_a_bound(void **state) {
  mortise_host *host = *state;
  mortise_error err;
  assert_int_equal(mortise_host_memory(host), 0);
  mortise_host_set_memory_max(host, (size_t)8 << 20);
  size_t before = mortise_host_memory(host);
  assert_in_range(before, 50000, 4000000);
  assert_int_equal(run(host, "local t = {} for i = 1, 1e9 do t[i] = {i} end", &err), MORTISE_OUT_OF_MEMORY);
  assert_non_null(strstr(err.message, "8388608"));
  assert_int_equal(run(host, "local s = ('x'):rep(1 << 30)", &err), MORTISE_OUT_OF_MEMORY);
  passes(host, "local ok, e = pcall(string.rep, 'x', 1 << 24) assert(not ok and e == 'not enough memory')");
  passes(host, "local t = {} for i = 1, 10000 do t[i] = i end"); /* it goes on */
  assert_true(mortise_host_memory(host) <= (size_t)8 << 20);
  mortise_host_set_memory_max(host, 0);
  passes(host, "assert(#('x'):rep(1 << 24) == 1 << 24)");
  mortise_host_set_memory_max(host, 1); /* less than it has: nothing more */
  assert_int_equal(run(host, "return {}", &err), MORTISE_OUT_OF_MEMORY);
  mortise_host_set_memory_max(host, 0);
  passes(host, "collectgarbage()");
  mortise_host_set_memory_max(NULL, 1);
  assert_int_equal(mortise_host_memory(NULL), 0);
}

static char printed[200];

static void keep_line(void *ctx, const char *line, size_t n) {
  size_t at = strlen(printed);
  snprintf(printed + at, sizeof printed - at, "%s%.*s;", (const char *)ctx, (int)n, line);
}

static void print_goes_to_the_program(void **state) {
  mortise_host *host = *state;
  mortise_error err;
  assert_int_equal(mortise_host_set_print(host, keep_line, ">", &err), MORTISE_OK);
  passes(host, "print('a', 1, nil, 1.5) print() print(setmetatable({}, {__tostring = function() return 'it' end}))");
  assert_string_equal(printed, ">a\t1\tnil\t1.5;>;>it;");
  assert_int_equal(run(host, "print(setmetatable({}, {__tostring = function() error 'no' end}))", &err),
                   MORTISE_SCRIPT_ERROR);
  assert_int_equal(mortise_host_set_print(host, NULL, NULL, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_host_set_print(NULL, keep_line, NULL, &err), MORTISE_INVALID_ARGUMENT);
}

typedef struct limit {
  lua_Alloc real;
  void *ctx;
  size_t used, max;
} limit;

static void *limited(void *ctx, void *p, size_t old, size_t size) {
  limit *l = ctx;
  size_t before = p ? old : 0;
  if (size > before && l->used + size - before > l->max) return NULL;
  void *q = l->real(l->ctx, p, old, size);
  if (q || !size) l->used += size - before;
  return q;
}

/* At every limit: success or a clean error, and a host that still works. */
static void memory_may_run_out_anywhere(void **state) {
  mortise_host *host = *state;
  lua_State *L = mortise_host_state(host);
  limit l = {.used = 0};
  l.real = lua_getallocf(L, &l.ctx);
  const char *code = "local core = require 'mortise.core'\n"
                     "local tasks = {}\n"
                     "for i = 1, 20 do tasks[i] = core.spawn(function(...) core.sleep(0)\n"
                     "  local v = core.view(core.json{n = i, list = {1, 2, 3}})\n"
                     "  v.name = ('x'):rep(i * 10) return v:_source(), ... end, i) end\n"
                     "for i = 1, 20 do local s = tasks[i]:join() assert(#s > 10) end";
  size_t failures = 0, done = 0;
  for (size_t max = 0; max < 400000; max += max < 8000 ? 97 : 1999) {
    mortise_error err;
    lua_gc(L, LUA_GCCOLLECT);
    l.used = 0;
    l.max = max;
    lua_setallocf(L, limited, &l);
    mortise_status status = run(host, code, &err);
    lua_setallocf(L, l.real, l.ctx);
    lua_settop(L, 0);
    if (status == MORTISE_OK)
      done++;
    else
      failures++;
    if (status && status != MORTISE_OUT_OF_MEMORY)
      fail_msg("limit %zu: %s: %s", max, mortise_status_name(status), err.message);
  }
  assert_true(failures > 0 && done > 0);
  passes(host, code);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(cjson_keeps_its_point),
      TEST(arguments_reach_a_script),
      TEST(files_run_with_a_first_line_for_the_shell),
      TEST(calls_give_results),
      TEST(errors_say_where),
      TEST(error_objects_keep_their_code),
      TEST(errors_in_close_handlers_replace),
      TEST(sleeps_end_in_order),
      TEST(parents_end_after_their_children),
      TEST(closing_a_task_joins_it),
      TEST(waits_work_where_a_yield_cannot),
      TEST(pumping_resumes_no_other_task),
      TEST(no_one_else_resumes_a_task),
      TEST(a_task_cannot_wait_for_itself),
      TEST(tracked_coroutines_are_luas),
      TEST(interrupts_reach_waiting_tasks),
      TEST(interrupts_reach_a_task_that_computes),
      TEST(interrupts_reach_a_thread_that_blocks_signals),
      TEST(interrupts_reach_a_program_with_a_handler_of_its_own),
      TEST(interrupts_cannot_be_swallowed),
      TEST(interrupts_leave_time_to_clean_up),
      TEST(interrupts_can_be_forgotten),
      TEST(an_interrupt_between_calls_is_for_nobody),
      TEST(interrupts_race_with_the_end_of_calls),
      cmocka_unit_test(hosts_do_not_touch_each_other),
      cmocka_unit_test(its_end_finishes_writers),
      TEST(scripts_have_a_bound),
      TEST(print_goes_to_the_program),
      TEST(memory_may_run_out_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
