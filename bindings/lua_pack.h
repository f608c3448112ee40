/* Text made small. */
#ifndef MT_LUA_PACK_H
#define MT_LUA_PACK_H

#include "bindings/bindings.h"

extern const luaL_Reg mt_pack_functions[]; /* of the module */

#endif
