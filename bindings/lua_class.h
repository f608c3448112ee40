/* What files that make userdata and tables for scripts share. */
#ifndef MT_LUA_CLASS_H
#define MT_LUA_CLASS_H

#include "bindings/bindings.h"

#include "base/buf.h"

/* The struct whose `member` this points to. */
#define MT_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* A metatable with these methods as __index, `__name` set and `metamethods` added; pushed. */
MT_LJMP void mt_class(lua_State *L, const char *name, const luaL_Reg *methods,
                      const luaL_Reg *metamethods);

/* The string at `index`, which keeps its bytes. */
mt_slice mt_slice_at(lua_State *L, int index);

/* Sets a field of the table on top of the stack. */
MT_LJMP void mt_set_integer(lua_State *L, const char *key, int64_t value);
MT_LJMP void mt_set_count(lua_State *L, const char *key, uint64_t value);
MT_LJMP void mt_set_text(lua_State *L, const char *key, const char *value); /* no field for "" */

#endif
