/* Queries and fields, looked at before a store is asked. */
#ifndef MT_LUA_QUERY_H
#define MT_LUA_QUERY_H

#include "bindings/bindings.h"

extern const luaL_Reg mt_query_functions[]; /* of the module */

#endif
