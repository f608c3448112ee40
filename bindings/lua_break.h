/* Breaking a session's locks by hand. */
#ifndef MT_LUA_BREAK_H
#define MT_LUA_BREAK_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_breaking_class;
extern const luaL_Reg mt_break_methods[]; /* of clients */

#endif
