#include "bindings/sandbox_text.h"

#include "base/clock.h"

#include <stdio.h>

mt_slice mt_sandbox_check_text(lua_State *L, int index) {
  if (!lua_isstring(L, index)) luaL_typeerror(L, index, "string");
  mt_slice s;
  s.p = lua_tolstring(L, index, &s.n);
  return s;
}

/* Different for different objects, and tells nothing about where they are. */
static uint64_t disguise(lua_State *L, const void *p) {
  static const char secret_key;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &secret_key);
  uint64_t secret = (uint64_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (!secret) {
    mortise_error err;
    if (mt_random_bytes(&secret, sizeof secret, &err)) luaL_error(L, "%s", err.message);
    secret |= 1;
    lua_pushinteger(L, (lua_Integer)secret);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &secret_key);
  }
  uint64_t x = (uint64_t)(uintptr_t)p;
  for (int i = 0; i < 4; i++) { /* each step can be undone only by one who knows the secret */
    x ^= secret >> (7 * i);
    x *= secret;
    x ^= x >> 29;
  }
  return x;
}

void mt_sandbox_push_text(lua_State *L, int index) {
  if (luaL_callmeta(L, index, "__tostring")) {
    if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "'__tostring' must return a string");
    return;
  }
  switch (lua_type(L, index)) {
  case LUA_TNUMBER:
  case LUA_TSTRING:
    lua_pushvalue(L, index);
    lua_tolstring(L, -1, NULL);
    return;
  case LUA_TBOOLEAN:
    lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
    return;
  case LUA_TNIL:
    lua_pushliteral(L, "nil");
    return;
  default:
    break;
  }
  char number[24];
  snprintf(number, sizeof number, "%016llx", (unsigned long long)disguise(L, lua_topointer(L, index)));
  if (lua_type(L, index) == LUA_TLIGHTUSERDATA) {
    lua_pushstring(L, lua_touserdata(L, index) ? "userdata" : "null");
    return;
  }
  int type = luaL_getmetafield(L, index, "__name");
  bool named = type == LUA_TSTRING;
  if (type != LUA_TNIL && !named) lua_pop(L, 1);
  lua_pushfstring(L, "%s: 0x%s", named ? lua_tostring(L, -1) : luaL_typename(L, index), number);
  if (named) lua_remove(L, -2);
}
