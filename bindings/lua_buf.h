/* A buffer of base/buf.h as a userdata, so that an error frees it. */
#ifndef MT_LUA_BUF_H
#define MT_LUA_BUF_H

#include "bindings/bindings.h"

#include "base/buf.h"

/* Pushes a buffer that __gc frees. */
MT_LJMP mt_buf *mt_buf_push(lua_State *L, size_t max);
/* Raises an error if the buffer failed. */
MT_LJMP void mt_buf_check(lua_State *L, const mt_buf *b, const char *what);

#endif
