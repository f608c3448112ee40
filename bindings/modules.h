/* The modules that `require` finds. */
#ifndef MT_MODULES_H
#define MT_MODULES_H

#include "bindings/bindings.h"

#include <mortise/error.h>

/* Puts every module of ours into package.preload, unless one of that name is already there. */
MT_LJMP void mt_modules_preload(lua_State *L);

/* Our files, once they are loaded, see the globals as they are now, whatever becomes of them. */
MT_LJMP void mt_modules_seclude(lua_State *L);

/* The functions that `require` calls in mortise.so. */
MORTISE_API int luaopen_mortise(lua_State *L);
MORTISE_API int luaopen_mortise_core(lua_State *L);

#endif
