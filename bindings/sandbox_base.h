/* The functions of Lua that a script which is not trusted finds: those that cannot harm, and replacements of those
 * that could. What is different from Lua's own is in docs/sandbox.md. */
#ifndef MT_SANDBOX_BASE_H
#define MT_SANDBOX_BASE_H

#include "bindings/bindings.h"

#include "base/buf.h"

enum { MT_SANDBOX_CODE_MAX = 256 << 10 }; /* bytes of what `load` takes */

/* Sets the globals of a new state, of which the budget is bound. `print` gets each line. */
MT_LJMP void mt_sandbox_open(lua_State *L, bool (*print)(void *ctx, mt_slice line), void *ctx);
/* Pushes the main function of a text, or Lua's message about it. -> Lua's status */
int mt_sandbox_load(lua_State *L, mt_slice code, const char *name);
/* `mortise.ask` of inside.lua: what it is given is what the sandbox asks for, and it returns the answer. One that runs
 * within coroutines of the script passes through them. Only `top`, the coroutine in which the script was begun, gets it
 * out of the state: it is suspended with the values, and mt_sandbox_is_asking. */
MT_LJMP int mt_sandbox_ask(lua_State *L);
typedef struct mt_sandbox_asking {
  lua_State *top;
  bool asking; /* what is suspended asks for something, and does not just yield */
  int closing; /* coroutines that are being closed, one by a __close of the other */
} mt_sandbox_asking;
/* The state's own. */
mt_sandbox_asking *mt_sandbox_asking_of(lua_State *L);

#endif
