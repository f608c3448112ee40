/* Errors as scripts see them, to and from Lua. */
#ifndef MT_LUA_ERROR_H
#define MT_LUA_ERROR_H

#include "bindings/bindings.h"

#include <mortise/error.h>

/* Pushes the error object. */
MT_LJMP void mt_error_push(lua_State *L, const mortise_error *e);
/* Raises it. */
MT_LJMP _Noreturn void mt_error_raise(lua_State *L, const mortise_error *e);
/* The same, of a lock that was not had, with those who were in the way. */
MT_LJMP _Noreturn void mt_error_raise_blocked(lua_State *L, const mortise_error *e,
                                              const mortise_blockers *all);
MT_LJMP _Noreturn void mt_error_throw(lua_State *L, mortise_status code, const char *fmt, ...)
    MORTISE_PRINTF(3, 4);
bool mt_error_is(lua_State *L, int index); /* one of our objects? raises nothing */
/* What the value at `index` says, as a C error; strings become SCRIPT_ERROR. */
MT_LJMP void mt_error_read(lua_State *L, int index, mortise_error *out);
/* A message handler for xpcall: strings become objects, a traceback is added once. */
MT_LJMP int mt_error_traceback(lua_State *L);
extern const luaL_Reg mt_error_functions[]; /* of the module */

#endif
