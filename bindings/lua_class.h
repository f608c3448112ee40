/* What files that make userdata and tables for scripts share. */
#ifndef MT_LUA_CLASS_H
#define MT_LUA_CLASS_H

#include "bindings/bindings.h"

/* A metatable with these methods as __index, `__name` set and `metamethods` added; pushed. */
MT_LJMP void mt_class(lua_State *L, const char *name, const luaL_Reg *methods,
                      const luaL_Reg *metamethods);

#endif
