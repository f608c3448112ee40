/* Lua's own number conversions, string order and letter case follow the process's locale, which a
 * script may set. These functions do not. In `mortise.core`:
 *   number(text) -> number        decimal, as in JSON; nil if it is not a number. A 64-bit whole
 *                                 number is an integer
 *   tostring(value) -> string     like Lua's, but a float is the shortest text that reads back
 *   lower(string) -> string       only of ASCII letters
 *   sha256(string) -> string      64 hex digits
 *   before(a, b) -> boolean       two strings, by their bytes
 * All other code uses these or takes only strings (tools/lint). */
#include "bindings/lua_text.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/number.h"

#include <math.h>

const char *mt_text_push(lua_State *L, int index) {
  char text[MT_NUMBER_TEXT];
  bool is_float = lua_type(L, index) == LUA_TNUMBER && !lua_isinteger(L, index);
  if (!is_float || !isfinite(lua_tonumber(L, index))) return luaL_tolstring(L, index, NULL);
  return lua_pushlstring(L, text, mt_number_text(lua_tonumber(L, index), text));
}

const char *mt_check_text(lua_State *L, int index, size_t *n) {
  if (lua_type(L, index) != LUA_TSTRING && !lua_isinteger(L, index))
    luaL_typeerror(L, index, "string");
  return lua_tolstring(L, index, n);
}

mt_slice mt_check_slice(lua_State *L, int index) {
  mt_slice s;
  s.p = mt_check_text(L, index, &s.n);
  return s;
}

static int core_number(lua_State *L) {
  mt_slice text = mt_check_slice(L, 1);
  mt_json number = {MT_JSON_NUMBER, text};
  int64_t whole;
  double value;
  if (!mt_number_read(text, &value))
    lua_pushnil(L);
  else if (mt_json_int(number, &whole))
    lua_pushinteger(L, whole);
  else
    lua_pushnumber(L, value);
  return 1;
}

static int core_tostring(lua_State *L) {
  luaL_checkany(L, 1);
  mt_text_push(L, 1);
  return 1;
}

static int core_sha256(lua_State *L) {
  char out[65];
  if (!mt_sha256_hex(mt_check_slice(L, 1), out)) return luaL_error(L, "out of memory");
  lua_pushstring(L, out);
  return 1;
}

static int core_lower(lua_State *L) {
  mt_slice s = mt_check_slice(L, 1);
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, s.n);
  for (size_t i = 0; i < s.n; i++) out[i] = mt_lower(s.p[i]);
  luaL_pushresultsize(&b, s.n);
  return 1;
}

static int core_before(lua_State *L) {
  lua_pushboolean(L, mt_slice_cmp(mt_check_slice(L, 1), mt_check_slice(L, 2)) < 0);
  return 1;
}

const luaL_Reg mt_text_functions[] = {{"number", core_number},
                                      {"tostring", core_tostring},
                                      {"lower", core_lower},
                                      {"sha256", core_sha256},
                                      {"before", core_before},
                                      {NULL, NULL}};
