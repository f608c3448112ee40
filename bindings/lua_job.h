/* Jobs, changes under a lock, and plans of both. */
#ifndef MT_LUA_JOB_H
#define MT_LUA_JOB_H

#include "bindings/lua_class.h"

extern const luaL_Reg mt_job_lock_methods[];
extern const luaL_Reg mt_job_client_methods[];
extern const luaL_Reg mt_job_functions[];
void mt_job_transforms_push(lua_State *L); /* the module's `transforms` */

#endif
