/* `cjson` for the scripts of a host. cjson remembers the decimal point of the locale in which it is
 * loaded, and converts numbers with the C library: after os.setlocale it could write [1,5] for
 * {1.5}. So it is loaded, and its encode and decode run, in the locale "C", set for this thread and
 * only during the call. */
#include "bindings/lua_cjson.h"

#include "base/number.h"

/* Calls the function below `nargs` arguments; an error gets the caller's position, as if it had
 * been called directly. */
static void call(lua_State *L, int nargs, int nresults) {
  locale_t before = mt_locale_enter();
  int status = lua_pcall(L, nargs, nresults, 0);
  mt_locale_leave(before);
  if (status == LUA_OK) return;
  if (status == LUA_ERRRUN && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  lua_error(L);
}

/* upvalue: the function */
static int guarded(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static void guard(lua_State *L);

/* cjson.new: returns another instance of the module */
static int guarded_new(lua_State *L) {
  guarded(L);
  guard(L);
  return 1;
}

/* Replaces the functions of the module on top. */
static void guard(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"encode", guarded}, {"decode", guarded}, {"new", guarded_new}, {NULL, NULL}};
  if (lua_type(L, -1) != LUA_TTABLE) return;
  for (const luaL_Reg *f = functions; f->name; f++) {
    if (lua_getfield(L, -1, f->name) != LUA_TFUNCTION) {
      lua_pop(L, 1);
      continue;
    }
    lua_pushcclosure(L, f->func, 1);
    lua_setfield(L, -2, f->name);
  }
}

/* (name) -> module. upvalue: require, which finds the real module once this loader is removed. */
static int load_cjson(lua_State *L) {
  lua_settop(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushvalue(L, 1);
  lua_rawget(L, 2); /* this loader, to restore it if loading fails */
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  lua_rawset(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  locale_t before = mt_locale_enter();
  int status = lua_pcall(L, 1, 1, 0);
  mt_locale_leave(before);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 3);
  lua_rawset(L, 2);
  if (status != LUA_OK) return lua_error(L);
  guard(L);
  return 1;
}

void mt_cjson_preload(lua_State *L) {
  static const char *const names[] = {"cjson", "cjson.safe"};
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (size_t i = 0; i < 2; i++) {
    lua_getglobal(L, "require");
    lua_pushcclosure(L, load_cjson, 1);
    lua_setfield(L, -2, names[i]);
  }
  lua_pop(L, 1);
}
