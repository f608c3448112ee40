/* Renaming a tree of documents. */
#ifndef MT_LUA_RENAME_H
#define MT_LUA_RENAME_H

#include "bindings/lua_class.h"

#include "job/result.h"

/* Pushes a table of what a change has done, as a rename's result. */
void mt_result_push(lua_State *L, const mt_change_result *r);

extern const mt_lua_class mt_rename_class;
extern const luaL_Reg mt_rename_methods[]; /* of locks */

#endif
