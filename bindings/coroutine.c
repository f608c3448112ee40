/* coroutine.resume and wrap that record the running coroutine, for our own hosts, so that the
 * interrupt hook finds a script's coroutines. They, pcall and xpcall behave like Lua's, except that
 * a repeated interrupt (interrupt.c) passes through them. */
#include "bindings/coroutine.h"

#include "bindings/driver.h"
#include "bindings/interrupt.h"

/* Resumes `co` with the `nargs` values on top of L; returns the number of results, which are left
 * on L, or -1 with the error on L. */
static int resume_tracked(lua_State *L, lua_State *co, int nargs) {
  mt_driver *d = mt_driver_get(L);
  int n = 0;
  if (!lua_checkstack(co, nargs)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_State *before = d->current;
  lua_xmove(L, co, nargs);
  d->current = co;
  mt_interrupt_arm(d, co);
  if (lua_status(co) == LUA_OK) mt_interrupt_charge(d);
  int status = lua_resume(co, L, nargs, &n);
  d->current = before;
  mt_interrupt_arm(d, L);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  if (!lua_checkstack(L, n + 1)) {
    lua_pop(co, n);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, n);
  return n;
}

static int tracked_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  int n = resume_tracked(L, co, lua_gettop(L) - 1);
  if (n < 0) mt_interrupt_pass(L);
  lua_pushboolean(L, n >= 0);
  lua_insert(L, -((n < 0 ? 1 : n) + 1));
  return (n < 0 ? 1 : n) + 1;
}

static int call_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int n = resume_tracked(L, co, lua_gettop(L));
  if (n >= 0) return n;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) { /* runs its pending __close handlers */
    if (lua_resetthread(co) != LUA_OK) lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int tracked_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}

/* There are `below` values below the results; after a failure only the error counts. */
static int finish_catch(lua_State *L, int status, lua_KContext below) {
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)below;
  lua_pushboolean(L, false);
  lua_insert(L, -2);
  return 2;
}

static int finish_protected(lua_State *L, int status, lua_KContext below) {
  if (status != LUA_OK && status != LUA_YIELD) mt_interrupt_pass(L);
  return finish_catch(L, status, below);
}

static int protected_call(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, true); /* the first result of a successful call */
  lua_insert(L, 1);
  int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_protected);
  return finish_protected(L, status, 0);
}

/* A script's handler is not called for an interrupt: the hook that raised it is still running, and
 * Lua does not call hooks inside hooks, so nothing could end a loop in the handler. */
static int handle(lua_State *L) {
  if (mt_interrupt_is(L)) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

/* Reorders (fn, handler, ...) to handler, true, fn, ..., so that only the handler is below the
 * results. */
static int call_handled(lua_State *L, lua_KFunction finish) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushboolean(L, true);
  lua_pushvalue(L, 1);
  lua_copy(L, 2, 1);
  lua_remove(L, 2);
  lua_rotate(L, 2, 2);
  return finish(L, lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 1, 1, finish), 1);
}

static int handled_call(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, handle, 1);
  lua_replace(L, 2);
  return call_handled(L, finish_protected);
}

int mt_coroutine_catch(lua_State *L) {
  return call_handled(L, finish_catch);
}

void mt_coroutine_track(lua_State *L) {
  lua_register(L, "pcall", protected_call);
  lua_register(L, "xpcall", handled_call);
  if (lua_getglobal(L, "coroutine") == LUA_TTABLE) {
    lua_pushcfunction(L, tracked_resume);
    lua_setfield(L, -2, "resume");
    lua_pushcfunction(L, tracked_wrap);
    lua_setfield(L, -2, "wrap");
  }
  lua_pop(L, 1);
}
