/* Indices and single requests: methods of clients. */
#ifndef MT_LUA_STORE_H
#define MT_LUA_STORE_H

#include "bindings/bindings.h"

extern const luaL_Reg mt_store_methods[];

#endif
