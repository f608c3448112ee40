/* Tasks, for the module. */
#ifndef MT_LUA_TASK_H
#define MT_LUA_TASK_H

#include "bindings/bindings.h"

MT_LJMP int mt_task_open(lua_State *L); /* adds spawn, sleep, ... to the table on the stack */

#endif
