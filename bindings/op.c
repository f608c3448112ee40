#include "bindings/op.h"

#include "bindings/lua_class.h"

#include "base/error.h"

#include <string.h>

static const char op_name[] = "mortise.operation";

/* The op's coroutine or state was closed while it waited, so the task cannot continue. */
static void end_op(mt_owned *owned) {
  mt_op *op = MT_CONTAINER(owned, mt_op, owned);
  if (op->started && !op->done) op->type->cancel(op);
  op->done = true;
  if (op->task) {
    op->task->op = NULL;
    mt_task_ready(op->task);
    op->task = NULL;
  }
  if (op->type->deinit) op->type->deinit(op);
}

static int collect_op(lua_State *L) {
  mt_op *op = lua_touserdata(L, 1);
  if (!mt_driver_forked(op->driver)) mt_owned_end(&op->owned);
  return 0;
}

void *mt_lua_op_new(lua_State *L, size_t size, int anchors, const mt_op_type *type) {
  static const luaL_Reg metamethods[] = {{"__gc", collect_op}, {NULL, NULL}};
  mt_driver *d = mt_driver_get(L);
  mt_driver_check(d, L);
  mt_op *op = lua_newuserdatauv(L, size, anchors);
  memset(op, 0, size);
  op->type = type;
  op->driver = d;
  mt_class(L, op_name, metamethods);
  lua_setmetatable(L, -2);
  mt_own(d, &op->owned, end_op);
  return op;
}

void mt_op_anchor(lua_State *L, int op, int slot, int value) {
  op = lua_absindex(L, op);
  lua_pushvalue(L, value);
  lua_setiuservalue(L, op, slot);
}

void mt_op_start(mt_op *op) {
  op->started = true;
}

void mt_op_done(mt_op *op) {
  op->done = true;
  mt_task *task = op->task;
  op->task = NULL;
  if (!task) return;
  task->op = NULL;
  mt_task_ready(task);
}

void mt_op_stop(mt_op *op, const char *why) {
  if (!op->started || op->done) return;
  op->stop = why;
  op->applied = mt_driver_forked(op->driver) || op->type->cancel(op);
  mt_op_done(op);
}

const char mt_lost_text[] = "the lock was lost";

void mt_op_read_stop(mt_driver *d, const char *why, mortise_error *out) {
  if (why == mt_lost_text)
    d->hooks->read(d, out);
  else
    mt_error_set(out, MORTISE_INTERRUPTED, "%s", why);
}
