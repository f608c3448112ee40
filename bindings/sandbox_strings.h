/* `string` of a sandbox: Lua's, where each function counts for the bytes it goes through, and none tells an
 * address. */
#ifndef MT_SANDBOX_STRINGS_H
#define MT_SANDBOX_STRINGS_H

#include "bindings/bindings.h"

/* Sets the global `string`, and the metatable of strings. */
MT_LJMP void mt_sandbox_open_strings(lua_State *L);

#endif
