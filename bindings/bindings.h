/* C <-> Lua: the rules of all files here. No policy: that is stdlib's.
 *
 * A binding that waits does this:
 *   ... read the arguments ...
 *   count_op *op = mt_lua_op_new(L, sizeof *op, anchors, &count_type);  -- safe values, metatable
 *   ... fill the core's request, anchor what it borrows in user values ...
 *   mt_box *box = mt_check_client(L, 1);  -- the handle, last of all that gets L
 *   mt_op_start(&op->op);  store->docs->count(store, &op->request);  -- the resource
 *   return mt_await(L, index_of_op);
 * and its completion callback says mt_op_done(&op->op). Completions never resume Lua: they mark a
 * task ready, and the driver resumes it.
 *
 * The rule of handles. Whatever gets L may run code of a script: a metamethod or, at any allocation,
 * a finalizer, which may close every handle, also the one whose call this is, and change every table.
 * So what a handle stands for (a client's box, a lock, a writer, a scan) is used from its fetch to the
 * next call that gets L, and no further: after that it is fetched again, which raises where it was
 * closed. tools/lint looks for breaches; it knows the calls that only look and allocate nothing.
 * Results stand in the operation, which scripts do not see. Only the bytes of a page are read between
 * calls that get L: they are pinned (lua_doc.c).
 * What is borrowed of a Lua value is kept by a stack slot, an anchor or a table of our own, never by a
 * table of the script's: options are read from a copy (mt_options_read).
 *
 * MT_LJMP marks what may leave by longjmp (any Lua error): hold nothing across it that no userdata
 * owns. */
#ifndef MT_BINDINGS_H
#define MT_BINDINGS_H

#include <lauxlib.h>
#include <lua.h>

#define MT_LJMP /* may longjmp */

#endif
