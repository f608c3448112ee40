/* Documents and pages of them, as userdata. */
#ifndef MT_LUA_DOC_H
#define MT_LUA_DOC_H

#include "bindings/lua_class.h"

#include "base/buf.h"

extern const mt_lua_class mt_view_class;
extern const mt_lua_class mt_page_class;
extern const luaL_Reg mt_doc_functions[]; /* of the module */
/* Appends the view's JSON; false if the value is not a view. */
MT_LJMP bool mt_view_encode(lua_State *L, int index, mt_buf *out);
struct mt_page;
struct mt_doc;
/* Pushes a page that takes ownership of `*page` and sets it to NULL. */
MT_LJMP void mt_page_push(lua_State *L, struct mt_page **page);
/* The page at `index`, which must not be closed. */
MT_LJMP struct mt_page *mt_check_page(lua_State *L, int index);
/* Pushes the view of one document of the page at index `page`. */
MT_LJMP void mt_doc_push(lua_State *L, int page, const struct mt_doc *doc);

#endif
