/* Jobs. */
#ifndef MT_LUA_JOB_H
#define MT_LUA_JOB_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_job_class;
extern const luaL_Reg mt_job_methods[];      /* of locks */
extern const luaL_Reg mt_job_plan_methods[]; /* of clients */
extern const luaL_Reg mt_job_functions[];
void mt_job_transforms_push(lua_State *L); /* the module's `transforms` */

#endif
