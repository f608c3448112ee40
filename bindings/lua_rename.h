/* Renaming a tree of documents. */
#ifndef MT_LUA_RENAME_H
#define MT_LUA_RENAME_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_rename_class;
extern const luaL_Reg mt_rename_methods[]; /* of locks */

#endif
