/* Scans. */
#ifndef MT_LUA_SCAN_H
#define MT_LUA_SCAN_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_scan_class;
extern const luaL_Reg mt_scan_methods[]; /* of clients */

#endif
