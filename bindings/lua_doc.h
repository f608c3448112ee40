/* Documents and pages of them, as userdata. */
#ifndef MT_LUA_DOC_H
#define MT_LUA_DOC_H

#include "bindings/bindings.h"

#include "base/buf.h"

MT_LJMP int mt_doc_open(lua_State *L); /* adds view to the table on the stack */
/* Appends what a view stands for; false where the value is no view. */
MT_LJMP bool mt_view_encode(lua_State *L, int index, mt_buf *out);
struct mt_page;
struct mt_doc;
/* A page on the stack that owns `*page` (moved: NULL afterwards). */
MT_LJMP void mt_page_push(lua_State *L, struct mt_page **page);
/* The view of one document of the page at `page`. */
MT_LJMP void mt_doc_push(lua_State *L, int page, const struct mt_doc *doc);

#endif
