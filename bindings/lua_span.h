/* Reading one shard by sequence numbers, and copying what was read. */
#ifndef MT_LUA_SPAN_H
#define MT_LUA_SPAN_H

#include "bindings/bindings.h"

extern const luaL_Reg mt_span_methods[]; /* of clients */
extern const luaL_Reg mt_span_functions[]; /* of the module */

#endif
