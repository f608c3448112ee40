/* Text, numbers and their order, independent of the locale. */
#ifndef MT_LUA_TEXT_H
#define MT_LUA_TEXT_H

#include "bindings/bindings.h"

#include "base/buf.h"

/* Pushes and returns the value as text, like luaL_tolstring but independent of the locale. */
MT_LJMP const char *mt_text_push(lua_State *L, int index);
/* A string argument; an integer is converted to its digits. */
MT_LJMP const char *mt_check_text(lua_State *L, int index, size_t *n);
MT_LJMP mt_slice mt_check_slice(lua_State *L, int index);
extern const luaL_Reg mt_text_functions[]; /* of the module */

#endif
