/* Lua values to and from JSON. */
#ifndef MT_LUA_JSON_H
#define MT_LUA_JSON_H

#include "bindings/bindings.h"

#include "base/json.h"

/* Appends the Lua value as JSON by the strict rules of lua_json.c. */
MT_LJMP void mt_json_encode(lua_State *L, int index, mt_buf *out);
/* Pushes a value of validated text; mt_json_push_scalar pushes only scalars (nil for NONE) and
 * returns false for arrays and objects, pushing nothing. */
MT_LJMP void mt_json_push(lua_State *L, mt_json value);
MT_LJMP bool mt_json_push_scalar(lua_State *L, mt_json value);
MT_LJMP void mt_json_push_key(lua_State *L, mt_slice raw_key);
MT_LJMP void mt_null_push(lua_State *L);
bool mt_null_is(lua_State *L, int index);
extern const luaL_Reg mt_json_functions[]; /* of the module, which also has `null` */

#endif
