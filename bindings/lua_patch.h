/* What was assigned to a document. `root` is the document at index `at`, and its page is pinned. A
 * finalizer may assign to the same document at any allocation: so nothing is allocated between a
 * look at the patches and what is done of it. */
#ifndef MT_LUA_PATCH_H
#define MT_LUA_PATCH_H

#include "bindings/lua_view.h"

/* Does an assignment decide the field `name`? Then its value (NONE: removed) and, pushed, the text
 * it lies in. Otherwise nothing is pushed. */
MT_LJMP bool mt_patch_find(lua_State *L, const mt_view *root, int at, mt_slice name,
                           mt_json *value);
/* Assigns JSON text ({NULL, 0}: removes) to the field whose name is at index `name`. */
MT_LJMP void mt_patch_set(lua_State *L, mt_view *root, int at, int name, mt_slice text);
/* The document with all that was assigned; pushes what keeps its bytes. */
MT_LJMP mt_json mt_patch_apply(lua_State *L, const mt_view *root, int at);
/* Adds {[name] = text or false} to the table on top of the stack. */
MT_LJMP void mt_patch_list(lua_State *L, const mt_view *root, int at);

#endif
