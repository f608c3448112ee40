/* Helpers for files that make userdata and tables for scripts. */
#ifndef MT_LUA_CLASS_H
#define MT_LUA_CLASS_H

#include "bindings/bindings.h"

#include "base/buf.h"

/* The struct whose `member` this points to. */
#define MT_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* Pushes the metatable of that name with these metamethods, made at the first call. */
MT_LJMP void mt_class(lua_State *L, const char *name, const luaL_Reg *metamethods);

/* A class that scripts see: its metatable is made when the module is opened. */
typedef struct mt_lua_class {
  const char *name;
  const luaL_Reg *methods, *metamethods;
  lua_CFunction index; /* __index, with the table of methods as upvalue; NULL: that table itself */
  bool (*encode)(lua_State *L, int index, mt_buf *out); /* appends a value as JSON; NULL: none */
} mt_lua_class;

/* Makes its metatable; `more` lists methods that other files add and ends with NULL. */
MT_LJMP void mt_class_open(lua_State *L, const mt_lua_class *c, const luaL_Reg *const *more);
/* The class of the userdata at `index`; NULL for other values and foreign userdata. */
const mt_lua_class *mt_class_of(lua_State *L, int index);

/* The string at `index`; the Lua value owns the bytes. */
mt_slice mt_slice_at(lua_State *L, int index);

/* Sets a field of the table on top of the stack. */
MT_LJMP void mt_set_integer(lua_State *L, const char *key, int64_t value);
MT_LJMP void mt_set_count(lua_State *L, const char *key, uint64_t value);
/* No field for NULL or "". */
MT_LJMP void mt_set_text(lua_State *L, const char *key, const char *value);

#endif
