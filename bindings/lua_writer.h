/* Protected writes. */
#ifndef MT_LUA_WRITER_H
#define MT_LUA_WRITER_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_writer_class;
extern const luaL_Reg mt_writer_methods[]; /* of clients and locks */

#endif
