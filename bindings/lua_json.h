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
/* What a table is marked as, so that it may be empty. */
typedef enum mt_json_mark { MT_JSON_MARK_NONE, MT_JSON_MARK_ARRAY, MT_JSON_MARK_OBJECT } mt_json_mark;
mt_json_mark mt_json_mark_of(lua_State *L, int index);
MT_LJMP void mt_json_set_mark(lua_State *L, mt_json_mark mark); /* of the table on top */
extern const luaL_Reg mt_json_functions[]; /* of the module, which also has `null` */

#endif
