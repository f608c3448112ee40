#include "bindings/lua_class.h"

void mt_class(lua_State *L, const char *name, const luaL_Reg *methods,
              const luaL_Reg *metamethods) {
  if (!luaL_newmetatable(L, name)) return;
  if (metamethods) luaL_setfuncs(L, metamethods, 0);
  if (methods) {
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
  }
  lua_pushliteral(L, "the metatable is not for scripts");
  lua_setfield(L, -2, "__metatable");
}

mt_slice mt_slice_at(lua_State *L, int index) {
  mt_slice s;
  s.p = lua_tolstring(L, index, &s.n);
  return s;
}

void mt_set_integer(lua_State *L, const char *key, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

void mt_set_count(lua_State *L, const char *key, uint64_t value) {
  mt_set_integer(L, key, (int64_t)value);
}

void mt_set_text(lua_State *L, const char *key, const char *value) {
  if (!value[0]) return;
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}
