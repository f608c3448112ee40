#include "bindings/sandbox_base.h"

#include "bindings/sandbox_budget.h"
#include "bindings/sandbox_strings.h"
#include "bindings/sandbox_tables.h"
#include "bindings/sandbox_text.h"

#include <lualib.h>

#include <stdio.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------- */

static int sandbox_tostring(lua_State *L) {
  luaL_checkany(L, 1);
  mt_sandbox_push_text(L, 1);
  return 1;
}

typedef struct line_printer {
  bool (*print)(void *ctx, mt_slice line);
  void *ctx;
} line_printer;

/* Upvalue: the printer. */
static int sandbox_print(lua_State *L) {
  const line_printer *to = lua_touserdata(L, lua_upvalueindex(1));
  int n = lua_gettop(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int i = 1; i <= n; i++) {
    if (i > 1) luaL_addchar(&b, '\t');
    mt_sandbox_push_text(L, i);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  mt_slice line;
  line.p = lua_tolstring(L, -1, &line.n);
  mt_budget_charge(L, line.n + 1);
  if (!to->print(to->ctx, line)) luaL_error(L, "print: it could not be printed");
  return 0;
}

/* ---- Errors ----------------------------------------------------------------------------------- */

static int finish_pcall(lua_State *L, int status, lua_KContext below) {
  mt_budget_pass(L, status);
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)below;
  lua_pushboolean(L, false);
  lua_insert(L, -2);
  return 2;
}

static int sandbox_pcall(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, true);
  lua_insert(L, 1);
  return finish_pcall(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_pcall), 0);
}

/* A script's handler is not called once the budget is over: it may be the hook that raised it, and Lua calls no hook
 * inside a hook, so that nothing would end a loop in the handler. */
static int call_handler(lua_State *L) {
  if (mt_budget_of(L)->over) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

static int sandbox_xpcall(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, call_handler, 1);
  lua_replace(L, 1);
  lua_pushboolean(L, true);
  lua_replace(L, 2);
  lua_insert(L, 3); /* handler, true, function, arguments */
  return finish_pcall(L, lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 1, 1, finish_pcall), 1);
}

/* ---- Tables, code, memory ---------------------------------------------------------------------- */

/* Lua runs finalizers without hooks, so that nothing would end one. */
static int sandbox_setmetatable(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) return luaL_error(L, "cannot change a protected metatable");
  if (lua_istable(L, 2)) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL) return luaL_error(L, "setmetatable: there is no `__gc` in a sandbox");
    mt_budget_note_metatable(L, 2);
  }
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

/* Lua's compiler compares each label with all others of a function. */
static void charge_code(lua_State *L, size_t n) {
  uint64_t part = n / 64;
  mt_budget_charge(L, n + part * part);
}

int mt_sandbox_load(lua_State *L, mt_slice code, const char *name) {
  return luaL_loadbufferx(L, code.p, code.n, name, "t");
}

/* Pushes all that the reader at 1 returns. */
static void push_pieces(lua_State *L) {
  luaL_Buffer b;
  size_t total = 0;
  luaL_buffinit(L, &b);
  for (;;) {
    lua_pushvalue(L, 1);
    lua_call(L, 0, 1);
    size_t n = 0;
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "reader function must return a string");
    if (!lua_isnil(L, -1)) lua_tolstring(L, -1, &n);
    if (!n) break;
    total += n;
    if (total > MT_SANDBOX_CODE_MAX) break;
    luaL_addvalue(&b);
  }
  lua_pop(L, 1);
  luaL_pushresult(&b);
}

static const char *optional_text(lua_State *L, int index, const char *otherwise) {
  return lua_isnoneornil(L, index) ? otherwise : mt_sandbox_check_text(L, index).p;
}

/* load(text or reader, name, mode, environment): text only, whatever the mode. */
static int sandbox_load(lua_State *L) {
  int has_environment = !lua_isnone(L, 4);
  const char *name = optional_text(L, 2, NULL), *mode = optional_text(L, 3, "bt");
  if (!strchr(mode, 't')) return luaL_error(L, "load: there is only text (mode \"t\") in a sandbox");
  lua_settop(L, 4);
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushvalue(L, 1);
    if (!name) name = lua_tostring(L, 1);
  } else {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    push_pieces(L);
    if (!name) name = "=(load)";
  }
  mt_slice code;
  code.p = lua_tolstring(L, 5, &code.n);
  if (code.n > MT_SANDBOX_CODE_MAX) return luaL_error(L, "load: a chunk is at most %d bytes", (int)MT_SANDBOX_CODE_MAX);
  charge_code(L, code.n);
  int status = mt_sandbox_load(L, code, name);
  mt_budget_pass(L, status);
  if (status != LUA_OK) {
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (has_environment) {
    lua_pushvalue(L, 4);
    if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
  }
  return 1;
}

static int sandbox_collectgarbage(lua_State *L) {
  const char *what = optional_text(L, 1, "collect");
  if (strcmp(what, "count")) return luaL_error(L, "collectgarbage: a sandbox has only \"count\"");
  lua_pushnumber(L, (lua_Number)mt_budget_of(L)->memory / 1024);
  return 1;
}

/* ---- Coroutines ------------------------------------------------------------------------------- */

static const char asking_key;

enum { COROUTINE_STEPS = 100 }; /* making one, or going into it */

mt_sandbox_asking *mt_sandbox_asking_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &asking_key);
  mt_sandbox_asking *a = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return a;
}

static void check_waiting(lua_State *L) {
  if (!lua_isyieldable(L))
    luaL_error(L, "the store cannot be asked from within a comparison of table.sort, a replacement of gsub, a metamethod, "
                  "an iterator or a __close");
}

int mt_sandbox_ask(lua_State *L) {
  check_waiting(L);
  mt_sandbox_asking_of(L)->asking = true;
  return lua_yield(L, lua_gettop(L));
}

static int sandbox_yield(lua_State *L) {
  if (L == mt_sandbox_asking_of(L)->top) luaL_error(L, "attempt to yield from outside a coroutine");
  return lua_yield(L, lua_gettop(L));
}

static int sandbox_create(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  mt_budget_charge(L, COROUTINE_STEPS);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  return 1;
}

/* NULL: it can be, as far as is seen here. */
static const char *why_not_resumed(lua_State *L, lua_State *co) {
  if (co == L) return "cannot resume non-suspended coroutine";
  return lua_status(co) == LUA_OK && !lua_gettop(co) ? "cannot resume dead coroutine" : NULL;
}

/* Resumes it with the `nargs` values on top of L. -> its status; *n values are then on top of co. */
static int run_coroutine(lua_State *L, lua_State *co, int nargs, int *n) {
  mt_budget *b = mt_budget_of(L);
  mt_budget_charge(L, COROUTINE_STEPS);
  if (!lua_checkstack(co, nargs)) luaL_error(L, "too many arguments to resume");
  lua_xmove(L, co, nargs);
  b->running = co;
  int status = lua_resume(co, L, nargs, n);
  b->running = L;
  mt_budget_pass(L, status);
  return status;
}

/* Runs its pending __close handlers. Lua does not count how deep such calls are nested, and the C stack is not
 * endless. -> Lua's status; the error is on top of co */
static int reset_coroutine(lua_State *L, lua_State *co) {
  enum { NESTED_MAX = 32 };
  mt_sandbox_asking *a = mt_sandbox_asking_of(L);
  if (a->closing >= NESTED_MAX) luaL_error(L, "C stack overflow");
  mt_budget *b = mt_budget_of(L);
  a->closing++;
  b->running = co;
  int status = lua_resetthread(co);
  b->running = L;
  a->closing--;
  if (status != LUA_OK && !lua_gettop(co)) lua_pushnil(co);
  return status;
}

static int after_asking(lua_State *L, int status, lua_KContext below);

/* What is below the values of this call on L: `resume` has the coroutine and true there, `wrap` the coroutine. */
static int went_on(lua_State *L, lua_State *co, int status, int n, int below) {
  if (status != LUA_OK && status != LUA_YIELD) {
    bool is_wrap = below == 1;
    if (is_wrap) mt_budget_pass(L, reset_coroutine(L, co)); /* its __close handlers */
    lua_xmove(co, L, 1);
    if (is_wrap) {
      if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
      }
      return lua_error(L);
    }
    lua_pushboolean(L, false);
    lua_insert(L, -2);
    return 2;
  }
  if (!lua_checkstack(L, n + 1)) {
    lua_pop(co, n);
    luaL_error(L, "too many results to resume");
  }
  lua_xmove(co, L, n);
  mt_sandbox_asking *a = mt_sandbox_asking_of(L);
  if (status == LUA_YIELD && a->asking) { /* it goes past us */
    a->asking = lua_isyieldable(L);
    check_waiting(L);
    return lua_yieldk(L, n, below, after_asking);
  }
  return lua_gettop(L) - below + (below == 2);
}

/* The answer is on top of L. */
static int after_asking(lua_State *L, int status, lua_KContext below) {
  (void)status;
  lua_State *co = lua_tothread(L, 1);
  int n = 0;
  status = run_coroutine(L, co, lua_gettop(L) - (int)below, &n);
  return went_on(L, co, status, n, (int)below);
}

static int sandbox_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  const char *why = why_not_resumed(L, co);
  if (why) {
    lua_pushboolean(L, false);
    lua_pushstring(L, why);
    return 2;
  }
  lua_pushboolean(L, true);
  lua_insert(L, 2);
  int n = 0;
  int status = run_coroutine(L, co, lua_gettop(L) - 2, &n);
  return went_on(L, co, status, n, 2);
}

/* Upvalue: the coroutine. */
static int call_wrap(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_State *co = lua_tothread(L, 1);
  const char *why = why_not_resumed(L, co);
  if (why) {
    lua_pushstring(L, why); /* without a place, like Lua's */
    return lua_error(L);
  }
  int n = 0;
  int status = run_coroutine(L, co, lua_gettop(L) - 1, &n);
  return went_on(L, co, status, n, 1);
}

static int sandbox_wrap(lua_State *L) {
  sandbox_create(L);
  lua_pushcclosure(L, call_wrap, 1);
  return 1;
}

static const char *coroutine_status(lua_State *L, lua_State *co) {
  lua_Debug ar;
  if (L == co) return "running";
  switch (lua_status(co)) {
  case LUA_YIELD:
    return "suspended";
  case LUA_OK:
    if (lua_getstack(co, 0, &ar)) return "normal";
    return lua_gettop(co) ? "suspended" : "dead";
  default:
    return "dead";
  }
}

/* Its __close handlers may ask nothing: nothing resumes them. */
static int sandbox_close(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  const char *status = coroutine_status(L, co);
  if (strcmp(status, "suspended") && strcmp(status, "dead")) return luaL_error(L, "cannot close a %s coroutine", status);
  mt_budget_charge(L, COROUTINE_STEPS);
  int ended = reset_coroutine(L, co);
  if (ended == LUA_OK) {
    lua_pushboolean(L, true);
    return 1;
  }
  mt_budget_pass(L, ended);
  lua_pushboolean(L, false);
  lua_xmove(co, L, 1);
  return 2;
}

static void open_coroutines(lua_State *L) {
  static const luaL_Reg own[] = {{"create", sandbox_create}, {"resume", sandbox_resume}, {"wrap", sandbox_wrap},
                                 {"yield", sandbox_yield},   {"close", sandbox_close},   {NULL, NULL}};
  mt_sandbox_asking *a = lua_newuserdatauv(L, sizeof *a, 0);
  *a = (mt_sandbox_asking){NULL, false, 0};
  lua_rawsetp(L, LUA_REGISTRYINDEX, &asking_key);
  luaL_requiref(L, LUA_COLIBNAME, luaopen_coroutine, 1);
  luaL_setfuncs(L, own, 0);
  lua_pop(L, 1);
}

/* ---- All of it -------------------------------------------------------------------------------- */

static void take_away(lua_State *L, const char *const *names) {
  for (; *names; names++) {
    lua_pushnil(L);
    lua_setglobal(L, *names);
  }
}

void mt_sandbox_open(lua_State *L, bool (*print)(void *ctx, mt_slice line), void *ctx) {
  static const luaL_Reg own[] = {{"pcall", sandbox_pcall},
                                 {"xpcall", sandbox_xpcall},
                                 {"setmetatable", sandbox_setmetatable},
                                 {"load", sandbox_load},
                                 {"collectgarbage", sandbox_collectgarbage},
                                 {"tostring", sandbox_tostring},
                                 {NULL, NULL}};
  static const char *const absent[] = {"dofile", "loadfile", "warn", "require", NULL};
  static const char *const of_text[] = {"tonumber", NULL};
  static const char *const of_utf8[] = {"char", "codepoint", "len", "offset", NULL};
  luaL_requiref(L, LUA_GNAME, luaopen_base, 1);
  luaL_setfuncs(L, own, 0);
  mt_budget_count(L, of_text);
  line_printer *to = lua_newuserdatauv(L, sizeof *to, 0);
  *to = (line_printer){print, ctx};
  lua_pushcclosure(L, sandbox_print, 1);
  lua_setfield(L, -2, "print");
  take_away(L, absent);
  luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
  luaL_requiref(L, LUA_UTF8LIBNAME, luaopen_utf8, 1);
  mt_budget_count(L, of_utf8);
  lua_pop(L, 3);
  open_coroutines(L);
  mt_sandbox_open_strings(L);
  mt_sandbox_open_tables(L);
  /* What was loaded would lead to Lua's own functions. */
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
}
