/* Assignments to a document. `root` is the document at index `at`, and its page is pinned. At any
 * allocation a finalizer may assign to the same document, so nothing is allocated between reading
 * the patches and acting on them. */
#ifndef MT_LUA_PATCH_H
#define MT_LUA_PATCH_H

#include "bindings/lua_view.h"

/* Does an assignment determine the field `name`? If so, sets its value (NONE: removed) and pushes
 * the text that contains it; otherwise pushes nothing. */
MT_LJMP bool mt_patch_find(lua_State *L, const mt_view *root, int at, mt_slice name,
                           mt_json *value);
/* Assigns JSON text ({NULL, 0}: removes) to the field whose name is at index `name`. */
MT_LJMP void mt_patch_set(lua_State *L, mt_view *root, int at, int name, mt_slice text);
/* The document with all assignments applied; pushes the object that keeps its bytes. */
MT_LJMP mt_json mt_patch_apply(lua_State *L, const mt_view *root, int at);
/* Adds {[name] = text or false} to the table on top of the stack. */
MT_LJMP void mt_patch_list(lua_State *L, const mt_view *root, int at);

#endif
