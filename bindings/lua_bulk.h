/* Items of a bulk, for client:bulk and for the writer of a lock. */
#ifndef MT_LUA_BULK_H
#define MT_LUA_BULK_H

#include "bindings/bindings.h"

#include "store/store.h"

enum { MT_WRITES_MAX = 1000000 };

/* Reads the item on top of the stack (which may be replaced by a copy) and adds its strings to the
 * table at `keep`, which has `*kept` strings. */
MT_LJMP void mt_write_read(lua_State *L, mt_write *out, int keep, lua_Integer *kept);
/* Pushes the answer for an item. */
MT_LJMP void mt_write_push(lua_State *L, const mt_write *w);

extern const luaL_Reg mt_bulk_methods[]; /* of clients */

#endif
