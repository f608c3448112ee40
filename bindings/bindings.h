/* C <-> Lua: the rules for all files here. They contain no policy, which is in stdlib.
 *
 * A binding that waits does this:
 *   ... read the arguments ...
 *   count_op *op = mt_lua_op_new(L, sizeof *op, anchors, &count_type);  -- safe values, metatable
 *   ... fill the core's request, anchor what it borrows in user values ...
 *   mt_box *box = mt_check_client(L, 1);  -- the handle, last of all that gets L
 *   mt_op_start(&op->op);  store->docs->count(store, &op->request);  -- the resource
 *   return mt_await(L, index_of_op);
 * and its completion callback calls mt_op_done(&op->op). Completions never resume Lua: they mark a
 * task ready, and the driver resumes it.
 *
 * The rule of handles. Any call that takes L may run script code: a metamethod or, at any
 * allocation, a finalizer, which may close every handle, even the one being called, and change
 * every table. So what a handle refers to (a client's box, a lock, a writer, a scan) may be used
 * only from its fetch to the next call that takes L; after that it must be fetched again, which
 * raises an error if it was closed. tools/lint looks for violations; it knows the calls that only
 * look and allocate nothing. Results are kept in the operation, which scripts do not see. Only a
 * page's bytes are read across calls that take L: they are pinned (lua_doc.c).
 * Memory borrowed from a Lua value is kept alive by a stack slot, an anchor or a table of our own,
 * never by a table of the script: options are read from a copy (mt_options_read).
 *
 * MT_LJMP marks functions that may leave by longjmp (any Lua error): hold nothing across them that
 * no userdata owns. */
#ifndef MT_BINDINGS_H
#define MT_BINDINGS_H

#include <lauxlib.h>
#include <lua.h>

#define MT_LJMP /* may longjmp */

#endif
