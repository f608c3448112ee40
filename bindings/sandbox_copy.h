/* Plain values as bytes, from one Lua state to another: nil, booleans, numbers, strings, null, errors, and tables of
 * those, with their marks as arrays or objects. The states share nothing. */
#ifndef MT_SANDBOX_COPY_H
#define MT_SANDBOX_COPY_H

#include "bindings/bindings.h"

#include "base/buf.h"

/* Appends the n values from index `first` on. Raises what cannot be copied, or what does not fit into `out`. */
MT_LJMP void mt_copy_pack(lua_State *L, int first, int n, mt_buf *out);
/* Pushes them. -> how many */
MT_LJMP int mt_copy_unpack(lua_State *L, mt_slice packed);

#endif
