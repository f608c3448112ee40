/* Settings, the write block and aliases of indices. */
#ifndef MT_LUA_ADMIN_H
#define MT_LUA_ADMIN_H

#include "bindings/bindings.h"

extern const luaL_Reg mt_admin_methods[]; /* of clients */

#endif
