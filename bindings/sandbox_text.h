/* Text in a sandbox: arguments as Lua's own functions take them, values as text that tells no address. */
#ifndef MT_SANDBOX_TEXT_H
#define MT_SANDBOX_TEXT_H

#include "bindings/bindings.h"

#include "base/buf.h"

/* A string, or a number, which becomes one. */
MT_LJMP mt_slice mt_sandbox_check_text(lua_State *L, int index);
/* Pushes what `tostring` returns. */
MT_LJMP void mt_sandbox_push_text(lua_State *L, int index);

#endif
