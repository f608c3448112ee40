/* Jobs whose work is done in Lua. */
#ifndef MT_LUA_OUTSIDE_H
#define MT_LUA_OUTSIDE_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_outside_class;
extern const luaL_Reg mt_outside_lock_methods[];

#endif
