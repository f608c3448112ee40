#include "bindings/lua_class.h"

void mt_class(lua_State *L, const char *name, const luaL_Reg *metamethods) {
  if (!luaL_newmetatable(L, name)) return;
  luaL_setfuncs(L, metamethods, 0);
  lua_pushliteral(L, "the metatable is not for scripts");
  lua_setfield(L, -2, "__metatable");
}

static const char class_key; /* key in a metatable: its mt_lua_class */

void mt_class_open(lua_State *L, const mt_lua_class *c, const luaL_Reg *const *more) {
  mt_class(L, c->name, c->metamethods);
  lua_pushlightuserdata(L, (void *)c);
  lua_rawsetp(L, -2, &class_key);
  lua_newtable(L);
  luaL_setfuncs(L, c->methods, 0);
  for (; *more; more++) luaL_setfuncs(L, *more, 0);
  if (c->index) lua_pushcclosure(L, c->index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

const mt_lua_class *mt_class_of(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index)) return NULL;
  lua_rawgetp(L, -1, &class_key);
  const mt_lua_class *c = lua_touserdata(L, -1);
  lua_pop(L, 2);
  return c;
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
  if (!value || !value[0]) return;
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}
