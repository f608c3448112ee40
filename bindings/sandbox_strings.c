#include "bindings/sandbox_strings.h"

#include "bindings/sandbox_budget.h"
#include "bindings/sandbox_pattern.h"
#include "bindings/sandbox_text.h"

#include <lualib.h>

#include <string.h>

/* ---- Functions that need more than to be counted ----------------------------------------------- */

/* rep(s, n, separator) */
static int sandbox_rep(lua_State *L) {
  mt_slice s = mt_sandbox_check_text(L, 1), between = MT_SLICE("");
  lua_Integer times = luaL_checkinteger(L, 2);
  if (!lua_isnoneornil(L, 3)) between = mt_sandbox_check_text(L, 3);
  if (times <= 0 || s.n + between.n == 0) { /* Lua's goes round `times` times for nothing, too */
    lua_pushliteral(L, "");
    return 1;
  }
  size_t each = s.n + between.n;
  if (each < s.n || (lua_Unsigned)times > (SIZE_MAX >> 1) / each) return luaL_error(L, "resulting string too large");
  size_t total = each * (size_t)times - between.n;
  mt_budget_charge_bytes(L, total + 16 * (size_t)times);
  luaL_Buffer b;
  char *out = luaL_buffinitsize(L, &b, total);
  for (lua_Integer i = 0; i < times; i++) {
    memcpy(out, s.p, s.n);
    out += s.n;
    if (i + 1 == times) break;
    memcpy(out, between.p, between.n);
    out += between.n;
  }
  luaL_pushresultsize(&b, total);
  return 1;
}

static bool has_address(mt_slice format) {
  const char *end = format.p + format.n;
  for (const char *p = format.p; p < end; p++) {
    if (*p != '%') continue;
    p++;
    while (p < end && strchr("-+ #0123456789.", *p) && *p) p++;
    if (p < end && *p == 'p') return true;
  }
  return false;
}

/* Upvalue: Lua's format, which would tell addresses. */
static int sandbox_format(lua_State *L) {
  if (has_address(mt_sandbox_check_text(L, 1))) return luaL_error(L, "format: there is no %%p in a sandbox");
  for (int i = lua_gettop(L); i > 1; i--) {
    int type = lua_type(L, i);
    if (type < LUA_TTABLE && type != LUA_TLIGHTUSERDATA) continue;
    mt_sandbox_push_text(L, i);
    lua_replace(L, i);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

/* ---- The library ------------------------------------------------------------------------------ */

/* Counts for what the operators of strings do, like "10" + 1, and keeps the metatable from scripts. */
static void guard_strings(lua_State *L) {
  static const char *const operators[] = {"__add", "__sub", "__mul", "__mod", "__pow", "__div", "__idiv", "__unm", NULL};
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  mt_budget_count(L, operators);
  lua_pushliteral(L, "the metatable is not for scripts");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 2);
}

void mt_sandbox_open_strings(lua_State *L) {
  static const char *const counted[] = {"byte",     "char", "len",    "lower", "pack",
                                        "packsize", "reverse", "sub", "unpack", "upper", NULL};
  luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 1);
  mt_budget_count(L, counted);
  luaL_setfuncs(L, mt_pattern_functions, 0);
  lua_getfield(L, -1, "format");
  mt_budget_push_counted(L, lua_tocfunction(L, -1));
  lua_pushcclosure(L, sandbox_format, 1);
  lua_setfield(L, -3, "format");
  lua_pop(L, 1);
  lua_pushcfunction(L, sandbox_rep);
  lua_setfield(L, -2, "rep");
  lua_pushnil(L);
  lua_setfield(L, -2, "dump");
  lua_pop(L, 1);
  guard_strings(L);
}
