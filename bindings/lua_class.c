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
