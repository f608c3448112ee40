/* Lua functions that interrupts must pass through. */
#ifndef MT_COROUTINE_H
#define MT_COROUTINE_H

#include "bindings/bindings.h"

/* Replaces coroutine.resume and wrap by versions that record the running coroutine, so that an
 * interrupt finds it; and these, pcall and xpcall by versions that do not catch a repeated
 * interrupt. */
MT_LJMP void mt_coroutine_track(lua_State *L);
MT_LJMP int mt_coroutine_catch(lua_State *L); /* (fn, handler, ...): xpcall that catches all */

#endif
