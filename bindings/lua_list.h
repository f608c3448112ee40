/* Lists of locks and sessions. */
#ifndef MT_LUA_LIST_H
#define MT_LUA_LIST_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_list_class;
extern const luaL_Reg mt_list_methods[]; /* of clients */

#endif
