/* A state of its own for a script that is not trusted. */
#ifndef MT_LUA_SANDBOX_H
#define MT_LUA_SANDBOX_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_sandbox_class;
extern const luaL_Reg mt_sandbox_functions[]; /* of the module */

#endif
