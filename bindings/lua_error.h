/* Error objects, to and from Lua. */
#ifndef MT_LUA_ERROR_H
#define MT_LUA_ERROR_H

#include "bindings/bindings.h"

#include <mortise/error.h>

/* Pushes the error object. */
MT_LJMP void mt_error_push(lua_State *L, const mortise_error *e);
/* Raises it. */
MT_LJMP _Noreturn void mt_error_raise(lua_State *L, const mortise_error *e);
/* The same for a lock that was not granted, with its blockers. */
MT_LJMP _Noreturn void mt_error_raise_blocked(lua_State *L, const mortise_error *e,
                                              const mortise_blockers *all);
MT_LJMP _Noreturn void mt_error_throw(lua_State *L, mortise_status code, const char *fmt, ...)
    MORTISE_PRINTF(3, 4);
/* Makes an error object of the table on top, which has its fields. */
MT_LJMP void mt_error_set_class(lua_State *L);
bool mt_error_is(lua_State *L, int index); /* one of our objects? never raises */
/* Reads the value at `index` as a C error; strings become SCRIPT_ERROR. */
MT_LJMP void mt_error_read(lua_State *L, int index, mortise_error *out);
/* A message handler for xpcall: turns strings into objects and adds a traceback once. */
MT_LJMP int mt_error_traceback(lua_State *L);
extern const luaL_Reg mt_error_functions[]; /* of the module */

#endif
