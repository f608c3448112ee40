/* What a program allows its scripts: libraries, memory from an allocator of its own, instructions. */
#include "host_fixture.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOWED = 2000000 };

static mortise_host *make(const mortise_host_options *options) {
  mortise_error err;
  mortise_host *host = mortise_host_make(options, &err);
  if (!host) fail_msg("%s", err.message);
  return host;
}

/* ---- Libraries ---------------------------------------------------------------------------------- */

static void libraries_are_those_asked_for(void **state) {
  (void)state;
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.libraries = MORTISE_LIB_TABLE | MORTISE_LIB_STRING | MORTISE_LIB_MATH;
  mortise_host *host = make(&options);
  passes(host, "assert(table.concat{'a', 'b'} == 'ab' and math.max(1, 2) == 2 and ('x'):rep(2) == 'xx')\n"
               "for _, name in ipairs {'io', 'os', 'package', 'require', 'debug', 'coroutine', 'utf8', 'dofile', 'loadfile',\n"
               "  'cjson'} do assert(_G[name] == nil, name) end");
  passes(host, "local t = mortise.spawn(function() mortise.sleep(0.01) return 7 end) assert(t:join() == 7)");
  passes(host, "tostring, pairs, next, type = nil\n" /* mortise's own files have theirs */
               "local t = mortise.spawn(function() return mortise.version end) assert(t:join())");
  mortise_host_free(host);
}

static void only_what_require_finds(void **state) {
  (void)state;
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.libraries = MORTISE_LIB_PACKAGE | MORTISE_LIB_TABLE;
  mortise_host *host = make(&options);
  passes(host, "assert(require 'table' == table and require 'mortise' == mortise)\n"
               "for _, name in ipairs {'io', 'os', 'debug', 'utf8'} do assert(not pcall(require, name), name) end");
  mortise_host_free(host);
  options.libraries = MORTISE_LIB_ALL;
  host = make(&options);
  passes(host, "assert(io.open and os.time and debug.getinfo and require 'cjson' and coroutine.wrap and utf8.char)");
  mortise_host_free(host);
  mortise_host_free(make(NULL));
  mortise_error err;
  options.libraries = MORTISE_LIB_ALL + 1;
  assert_null(mortise_host_make(&options, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  options.size = 0;
  assert_null(mortise_host_make(&options, &err));
}

/* ---- An allocator -------------------------------------------------------------------------------- */

typedef struct heap {
  size_t bytes, calls, fails_at, fails; /* that many from there on */
} heap;

static void *allocate(void *ctx, void *old, size_t before, size_t after) {
  heap *h = ctx;
  size_t had = old ? before : 0;
  if (!after) {
    free(old);
    h->bytes -= had;
    return NULL;
  }
  if (after > had && ++h->calls >= h->fails_at && h->calls < h->fails_at + h->fails) return NULL;
  void *new = realloc(old, after);
  if (new) h->bytes += after - had;
  return new;
}

static void its_allocator_has_all(void **state) {
  (void)state;
  heap h = {0};
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.allocate = allocate;
  options.allocate_ctx = &h;
  mortise_host *host = make(&options);
  size_t idle = h.bytes;
  assert_true(idle > 10000);
  passes(host, "kept = ('x'):rep(3000000) warn('@on') warn('') warn('@off')");
  assert_true(h.bytes > idle + 1000000);
  mortise_host_free(host);
  assert_int_equal(h.bytes, 0);
}

/* A host's life. -> 0: it was not made, 1: its script failed, 2: it ran. `made` is how often it had called before the script. */
static int live_in(heap *h, size_t *made) {
  mortise_error err;
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.allocate = allocate;
  options.allocate_ctx = h;
  mortise_host *host = mortise_host_make(&options, &err);
  *made = h->calls;
  mortise_status status = err.code;
  if (host)
    status = run(host, "local t = {} for i = 1, 50 do t[i] = mortise.spawn(function() mortise.sleep(0)\n"
                       "  return ('x'):rep(i) end) end for i = 1, 50 do assert(#t[i]:join() == i) end", &err);
  if (status && status != MORTISE_OUT_OF_MEMORY) fail_msg("%zu: %s: %s", h->fails_at, mortise_status_name(status), err.message);
  mortise_host_free(host);
  assert_int_equal(h->bytes, 0);
  return host ? 1 + (status == MORTISE_OK) : 0;
}

/* It fails at the n-th call, for three: the host is made or not, its script ends or says why, and nothing is left. */
static void its_allocator_may_fail_anywhere(void **state) {
  (void)state;
  enum { STEPS = 150 };
  heap whole = {0};
  size_t made, counts[3] = {0}, unused;
  assert_int_equal(live_in(&whole, &made), 2);
  for (size_t n = 1; n < whole.calls; n += n < made ? 1 + made / STEPS : 1 + (whole.calls - made) / STEPS) {
    heap h = {.fails_at = n, .fails = 3};
    counts[live_in(&h, &unused)]++;
  }
  if (counts[0] < 10 || counts[1] < 10) fail_msg("%zu not made, %zu failed, %zu ran", counts[0], counts[1], counts[2]);
}

/* ---- A state of the program's own ------------------------------------------------------------------ */

static void count_lines(void *ctx, const char *line, size_t n) {
  (void)line;
  *(size_t *)ctx += n;
}

static void plain_lua(lua_State *L, const char *code) {
  if (luaL_dostring(L, code)) fail_msg("%s", lua_tostring(L, -1));
  lua_settop(L, 0);
}

static void a_state_of_the_programs(void **state) {
  (void)state;
  mortise_error err;
  size_t printed = 0;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  plain_lua(L, "mine = 'kept' saved = print");
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.state = L;
  for (int round = 0; round < 3; round++) {
    mortise_host *host = make(&options);
    assert_ptr_equal(mortise_host_state(host), L);
    assert_null(mortise_host_make(&options, &err)); /* it has one */
    assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
    assert_int_equal(mortise_host_set_print(host, count_lines, &printed, NULL), MORTISE_OK);
    mortise_host_set_memory_max(host, 64 << 20);
    mortise_host_set_instructions_max(host, ALLOWED);
    passes(host, "assert(mine == 'kept') print 'four' theirs = print\n"
                 "local t = mortise.spawn(function() mortise.sleep(0.001) return 1 end) assert(t:join() == 1)");
    assert_int_equal(run(host, "while true do pcall(function() while true do end end) end", &err), MORTISE_INTERRUPTED);
    assert_int_equal(run(host, "local s = ('x'):rep(80 * 1024 * 1024) return s", &err), MORTISE_OUT_OF_MEMORY);
    assert_int_equal(lua_gettop(L), 0);
    mortise_host_free(host);
    plain_lua(L, "assert(print == saved and mine == 'kept') theirs 'to nobody' for i = 1, 3000000 do end\n"
                 "assert(#('x'):rep(80 * 1024 * 1024) > 0)");
  }
  assert_int_equal(printed, 3 * 4);
  lua_close(L);
}

static void what_cannot_be_attached(void **state) {
  (void)state;
  mortise_error err;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.state = lua_newthread(L);
  assert_null(mortise_host_make(&options, &err));
  assert_non_null(strstr(err.message, "coroutine"));
  options.state = L;
  options.libraries = MORTISE_LIB_TABLE;
  assert_null(mortise_host_make(&options, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  options.libraries = MORTISE_LIB_ALL;
  plain_lua(L, "return 1");
  mortise_options client; /* whose loop is not that of what the state has done before */
  mortise_options_init(&client);
  client.loop = mortise_loop_new(&err);
  options.client = &client;
  lua_pushcfunction(L, mortise_host_open_libs);
  lua_call(L, 0, 0);
  assert_null(mortise_host_make(&options, &err));
  assert_non_null(strstr(err.message, "a loop of its own"));
  lua_close(L);
  mortise_loop_free(client.loop);
}

static void note_ran(void *ctx, mortise_host *host, int nresults, const mortise_error *error) {
  (void)host, (void)nresults;
  *(mortise_status *)ctx = error->code;
}

/* Freed with a script under way, and closed before the loop. */
static void attached_in_a_loop(void **state) {
  (void)state;
  mortise_error err;
  mortise_status first = MORTISE_LOCK_LOST, second = MORTISE_LOCK_LOST;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  mortise_options client;
  mortise_options_init(&client);
  client.loop = mortise_loop_new(&err);
  mortise_host_options options;
  mortise_host_options_init(&options);
  options.client = &client;
  options.state = L;
  mortise_host *host = make(&options);
  assert_non_null(mortise_host_start_string(host, "mortise.sleep(0.001)", "=one", NULL, 0, note_ran, &first, &err));
  assert_non_null(mortise_host_start_string(host, "mortise.sleep(1000)", "=two", NULL, 0, note_ran, &second, &err));
  for (int i = 0; i < 100000 && first != MORTISE_OK; i++) assert_int_equal(mortise_loop_step(client.loop, &err), MORTISE_OK);
  assert_int_equal(first, MORTISE_OK);
  mortise_host_free(host);
  assert_int_equal(second, MORTISE_INTERRUPTED);
  lua_close(L);
  mortise_loop_free(client.loop);
}

/* ---- Instructions -------------------------------------------------------------------------------- */

static void ends(mortise_host *host, const char *code) {
  mortise_error err;
  mortise_status status = run(host, code, &err);
  if (status != MORTISE_INTERRUPTED || !strstr(err.message, "2000000 instructions"))
    fail_msg("%s: %s: %s", code, mortise_status_name(status), err.message);
}

static void instructions_are_bounded(void **state) {
  mortise_host *host = *state;
  mortise_host_set_instructions_max(host, ALLOWED);
  static const char *const never_ending[] = {
      "while true do end",
      "while true do pcall(function() while true do end end) end",
      "while true do pcall(error, 'x') end",
      "while true do xpcall(function() while true do end end, function() while true do end end) end",
      "while true do coroutine.wrap(function() for i = 1, 500 do end end)() end",
      "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
      "local function f() local co = coroutine.create(f) while true do coroutine.resume(co) end end f()",
      "while true do mortise.spawn(function() for i = 1, 300 do end end) mortise.sleep(0) end",
      "local t = {} for i = 1, 8 do t[i] = mortise.spawn(function() while true do pcall(mortise.sleep, 0) end end) end t[1]:join()",
      "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
      "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
      "table.sort({1, 2, 3}, function() while true do end end)",
      "string.gsub('abc', '.', function() while true do end end)",
      "for _ in function() while true do end end do end",
      "load('while true do end')()",
      "while true do load('return 1')() end",
      "local function f() return pcall(f) end while true do f() end",
  };
  for (size_t i = 0; i < sizeof never_ending / sizeof *never_ending; i++) {
    ends(host, never_ending[i]);
    passes(host, "for i = 1, 100000 do end"); /* the next one has its own */
  }
  mortise_host_set_instructions_max(host, 0);
  passes(host, "for i = 1, 3000000 do end");
}

static void a_script_that_is_bounded_works_as_before(void **state) {
  mortise_host *host = *state;
  mortise_host_set_instructions_max(host, ALLOWED);
  passes(host, "local ok, why = pcall(error, 'mine') assert(not ok and why == 'mine')\n"
               "local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end)\n"
               "assert(co(1) == 2 and co(4) == 8)\n"
               "local n = 0 for i = 1, 100 do mortise.spawn(function() mortise.sleep(0) n = n + 1 end) end\n"
               "mortise.sleep(0.05) assert(n == 100)");
}

static void a_close_handler_has_some(void **state) {
  mortise_host *host = *state;
  mortise_host_set_instructions_max(host, ALLOWED);
  ends(host, "local x <close> = setmetatable({}, {__close = function() for i = 1, 10000 do end closed = true end})\n"
             "while true do pcall(function() while true do end end) end");
  passes(host, "assert(closed)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(libraries_are_those_asked_for),
      cmocka_unit_test(only_what_require_finds),
      cmocka_unit_test(its_allocator_has_all),
      cmocka_unit_test(its_allocator_may_fail_anywhere),
      cmocka_unit_test(a_state_of_the_programs),
      cmocka_unit_test(what_cannot_be_attached),
      cmocka_unit_test(attached_in_a_loop),
      cmocka_unit_test_setup_teardown(instructions_are_bounded, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_script_that_is_bounded_works_as_before, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_close_handler_has_some, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
