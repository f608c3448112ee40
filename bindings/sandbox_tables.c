#include "bindings/sandbox_tables.h"

#include "bindings/sandbox_budget.h"
#include "bindings/sandbox_text.h"

#include <lualib.h>

#include <limits.h>
#include <string.h>

/* Is it a table? Otherwise it is an array of a document, whose length and items take bounded time. */
static bool check_list(lua_State *L, int index) {
  if (lua_type(L, index) == LUA_TUSERDATA) return false;
  luaL_checktype(L, index, LUA_TTABLE);
  return true;
}

static lua_Integer list_length(lua_State *L, int index, bool plain) {
  return plain ? (lua_Integer)lua_rawlen(L, index) : luaL_len(L, index);
}

static int push_item(lua_State *L, int index, bool plain, lua_Integer i) {
  return plain ? lua_rawgeti(L, index, i) : lua_geti(L, index, i);
}

/* ---- concat ----------------------------------------------------------------------------------- */

static void add_listed(lua_State *L, luaL_Buffer *b, bool plain, lua_Integer i) {
  int type = push_item(L, 1, plain, i);
  if (type != LUA_TSTRING && type != LUA_TNUMBER)
    luaL_error(L, "invalid value (at index %I) in table for 'concat'", (LUAI_UACINT)i);
  luaL_addvalue(b);
}

static int list_concat(lua_State *L) {
  bool plain = check_list(L, 1);
  mt_slice between = MT_SLICE("");
  if (!lua_isnoneornil(L, 2)) between = mt_sandbox_check_text(L, 2);
  lua_Integer first = luaL_optinteger(L, 3, 1);
  lua_Integer last = lua_isnoneornil(L, 4) ? list_length(L, 1, plain) : luaL_checkinteger(L, 4);
  lua_settop(L, 2);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (lua_Integer i = first; i <= last; i++) {
    mt_budget_charge(L, 1 + between.n / 16);
    add_listed(L, &b, plain, i);
    if (i == last) break;
    luaL_addlstring(&b, between.p, between.n);
  }
  luaL_pushresult(&b);
  return 1;
}

/* ---- insert, remove, move ---------------------------------------------------------------------- */

static void shift(lua_State *L, int from, lua_Integer first, lua_Integer last, int to, lua_Integer at) {
  mt_budget_charge(L, (uint64_t)(last - first) + 1);
  bool up = at <= first || at > last || from != to;
  for (lua_Integer i = 0; i <= last - first; i++) {
    lua_Integer k = up ? i : last - first - i;
    lua_rawgeti(L, from, first + k);
    lua_rawseti(L, to, at + k);
  }
}

static int list_insert(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer end = (lua_Integer)lua_rawlen(L, 1) + 1, at = end;
  if (lua_gettop(L) == 3) {
    at = luaL_checkinteger(L, 2);
    luaL_argcheck(L, at >= 1 && at <= end, 2, "position out of bounds");
    if (at < end) shift(L, 1, at, end - 1, 1, at + 1);
  } else if (lua_gettop(L) != 2) {
    return luaL_error(L, "wrong number of arguments to 'insert'");
  }
  lua_rawseti(L, 1, at);
  return 0;
}

static int list_remove(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer size = (lua_Integer)lua_rawlen(L, 1), at = luaL_optinteger(L, 2, size);
  if (lua_gettop(L) >= 2 && at != size) luaL_argcheck(L, size + 1 == at || (at >= 1 && at <= size), 2, "position out of bounds");
  lua_rawgeti(L, 1, at);
  if (at < size) shift(L, 1, at + 1, size, 1, at);
  lua_pushnil(L);
  lua_rawseti(L, 1, at < size ? size : at);
  return 1;
}

static int list_move(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3), at = luaL_checkinteger(L, 4);
  int to = lua_isnoneornil(L, 5) ? 1 : 5;
  luaL_checktype(L, to, LUA_TTABLE);
  if (last >= first) {
    luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
    luaL_argcheck(L, at <= LUA_MAXINTEGER - (last - first + 1) + 1, 4, "destination wrap around");
    shift(L, 1, first, last, lua_rawequal(L, 1, to) ? 1 : to, at);
  }
  lua_pushvalue(L, to);
  return 1;
}

/* ---- pack, unpack ------------------------------------------------------------------------------ */

static int list_unpack(lua_State *L) {
  bool plain = check_list(L, 1);
  lua_Integer first = luaL_optinteger(L, 2, 1);
  lua_Integer last = lua_isnoneornil(L, 3) ? list_length(L, 1, plain) : luaL_checkinteger(L, 3);
  if (first > last) return 0;
  lua_Unsigned n = (lua_Unsigned)last - (lua_Unsigned)first;
  if (n >= INT_MAX) return luaL_error(L, "too many results to unpack");
  mt_budget_charge(L, n + 1);
  if (!lua_checkstack(L, (int)n + 1)) return luaL_error(L, "too many results to unpack");
  for (lua_Unsigned i = 0; i <= n; i++) push_item(L, 1, plain, (lua_Integer)((lua_Unsigned)first + i));
  return (int)n + 1;
}

/* ---- sort ------------------------------------------------------------------------------------- */

/* Strings are compared byte by byte in one instruction. */
static int compare_counted(lua_State *L) {
  size_t a = lua_type(L, 1) == LUA_TSTRING ? lua_rawlen(L, 1) : 0, b = lua_type(L, 2) == LUA_TSTRING ? lua_rawlen(L, 2) : 0;
  mt_budget_charge(L, 1 + (a < b ? a : b) / 16);
  lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
  return 1;
}

/* Upvalue: Lua's sort, which gets a copy. */
static int list_sort(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  luaL_argcheck(L, n < INT_MAX, 1, "array too big");
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  mt_budget_charge(L, 2 * (uint64_t)n);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawseti(L, 3, i);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 3);
  if (lua_isnil(L, 2))
    lua_pushcfunction(L, compare_counted);
  else
    lua_pushvalue(L, 2);
  lua_call(L, 2, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 3, i);
    lua_rawseti(L, 1, i);
  }
  return 0;
}

void mt_sandbox_open_tables(lua_State *L) {
  static const luaL_Reg own[] = {{"concat", list_concat}, {"insert", list_insert}, {"remove", list_remove},
                                 {"move", list_move},     {"unpack", list_unpack}, {NULL, NULL}};
  luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 1);
  luaL_setfuncs(L, own, 0);
  lua_getfield(L, -1, "sort");
  lua_pushcclosure(L, list_sort, 1);
  lua_setfield(L, -2, "sort");
  lua_pop(L, 1);
}
