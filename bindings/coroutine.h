/* Functions of Lua's that an interrupt must pass. */
#ifndef MT_COROUTINE_H
#define MT_COROUTINE_H

#include "bindings/bindings.h"

/* Replaces coroutine.resume and wrap by ones that say which coroutine runs, so that an interrupt
 * finds it, and these, pcall and xpcall by ones that do not catch one that insists. */
MT_LJMP void mt_coroutine_track(lua_State *L);
MT_LJMP int mt_coroutine_catch(lua_State *L); /* (fn, handler, ...): xpcall that catches all */

#endif
