/* Tasks as scripts see them. */
#ifndef MT_LUA_TASK_H
#define MT_LUA_TASK_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_task_class;
extern const luaL_Reg mt_task_functions[]; /* of the module */

#endif
