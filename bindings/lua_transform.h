/* Lists of transforms, applied one document at a time. */
#ifndef MT_LUA_TRANSFORM_H
#define MT_LUA_TRANSFORM_H

#include "bindings/lua_class.h"

extern const mt_lua_class mt_transformer_class;
extern const luaL_Reg mt_transformer_functions[]; /* of the module */

#endif
