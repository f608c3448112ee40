/* The module `mortise.core`. */
#ifndef MT_LUA_CORE_H
#define MT_LUA_CORE_H

#include "bindings/bindings.h"

MT_LJMP int mt_core_open(lua_State *L); /* for package.preload */

#endif
