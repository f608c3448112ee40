/* `table` of a sandbox. Its functions look at what is in a table itself, past `__index`, `__newindex` and `__len`: with
 * those, Lua's could go on for ever without an instruction. */
#ifndef MT_SANDBOX_TABLES_H
#define MT_SANDBOX_TABLES_H

#include "bindings/bindings.h"

MT_LJMP void mt_sandbox_open_tables(lua_State *L); /* sets the global */

#endif
