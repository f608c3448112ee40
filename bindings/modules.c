/* `mortise` and its parts, for `require`: the C module `mortise.core`, and the Lua files of stdlib,
 * compiled in. `stdlib/mortise/cli.lua` is `mortise.cli`. */
#include "bindings/modules.h"

#include "bindings/driver.h"
#include "bindings/lua_core.h"

#include "embedded.h"

#include <lua.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

extern const char lua_ident[] __attribute__((weak)); /* a Lua may hide it */

extern const mt_embedded mt_stdlib[];
extern const mt_bytecode mt_stdlib_bytecode[];
extern const char mt_stdlib_lua[];

/* Bytecode is read by the very release of Lua that made it; another one is given the text. Lua's own check
 * tells other sizes of its types, but no releases. */
static bool is_compiled_for_this_lua(void) {
  return lua_ident && !strcmp(lua_ident, mt_stdlib_lua);
}

/* Pushes the file's main function, or an error. -> Lua's status */
static int push_chunk(lua_State *L, int i) {
  if (is_compiled_for_this_lua()) {
    const mt_bytecode *code = &mt_stdlib_bytecode[i];
    int status = luaL_loadbufferx(L, (const char *)code->p, code->n, "=stdlib", "b");
    if (status != LUA_ERRSYNTAX) return status;
    lua_pop(L, 1);
  }
  char chunk[128];
  snprintf(chunk, sizeof chunk, "@%s", mt_stdlib[i].name);
  return luaL_loadbufferx(L, mt_stdlib[i].text, mt_stdlib[i].n, chunk, "t");
}

static const char secluded_key; /* the globals of mortise's own files; or nil: the state's */

void mt_modules_seclude(lua_State *L) {
  lua_newtable(L);
  lua_pushglobaltable(L);
  for (lua_pushnil(L); lua_next(L, -2);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, LUA_GNAME);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &secluded_key);
}

/* A loader's upvalue is the number of its file. */
static int load_embedded(lua_State *L) {
  if (push_chunk(L, (int)lua_tointeger(L, lua_upvalueindex(1))) != LUA_OK) return lua_error(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &secluded_key) != LUA_TTABLE || !lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

/* "mortise/cli.lua" to "mortise.cli" */
static void push_module_name(lua_State *L, const char *file) {
  luaL_gsub(L, file, "/", ".");
  size_t n;
  const char *dotted = lua_tolstring(L, -1, &n);
  size_t end = n > 4 && !strcmp(dotted + n - 4, ".lua") ? n - 4 : n;
  lua_pushlstring(L, dotted, end);
  lua_remove(L, -2);
}

/* Registers the loader on top for the module named below it, unless one is already there. */
static void preload(lua_State *L, int table) {
  lua_pushvalue(L, -2);
  bool there = lua_rawget(L, table) != LUA_TNIL;
  lua_pop(L, 1);
  if (there)
    lua_pop(L, 2);
  else
    lua_rawset(L, table);
}

void mt_modules_preload(lua_State *L) {
  luaL_checkstack(L, 8, NULL);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  int table = lua_gettop(L);
  lua_pushliteral(L, "mortise.core");
  lua_pushcfunction(L, mt_core_open);
  preload(L, table);
  for (int i = 0; mt_stdlib[i].name; i++) {
    push_module_name(L, mt_stdlib[i].name);
    lua_pushinteger(L, i);
    lua_pushcclosure(L, load_embedded, 1);
    preload(L, table);
  }
  lua_settop(L, table - 1);
}

/* For `require "mortise"` in any Lua 5.4: the value of stdlib/mortise.lua. */
int luaopen_mortise(lua_State *L) {
  mt_driver_get(L); /* the first userdata, so it is finalised last */
  mt_modules_preload(L);
  for (int i = 0; mt_stdlib[i].name; i++)
    if (!strcmp(mt_stdlib[i].name, "mortise.lua")) {
      lua_pushinteger(L, i);
      lua_pushcclosure(L, load_embedded, 1);
      lua_pushliteral(L, "mortise");
      lua_call(L, 1, 1);
      return 1;
    }
  return luaL_error(L, "stdlib/mortise.lua was not compiled in");
}

/* For using stdlib's files from a folder instead of those compiled in, as tests do. */
int luaopen_mortise_core(lua_State *L) {
  return mt_core_open(L);
}
