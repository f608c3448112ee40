/* Operations, and waiting for one: see bindings.h. */
#include "bindings/await.h"

#include "bindings/lua_class.h"
#include "bindings/lua_error.h"
#include "bindings/task.h"

#include "base/error.h"

#include <string.h>

static const char op_name[] = "mortise.operation";

/* The op's coroutine was closed under it, or its state: the task cannot go on. */
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

static void read_stop(mt_driver *d, const char *why, mortise_error *out) {
  if (why == mt_lost_text)
    d->hooks->read(d, out);
  else
    mt_error_set(out, MORTISE_INTERRUPTED, "%s", why);
}

static int finish_stopped(lua_State *L, mt_op *op) {
  mortise_error err;
  read_stop(op->driver, op->stop, &err);
  err.ambiguous = op->applied;
  if (op->type->stopped) return op->type->stopped(L, op, &err);
  mt_error_raise(L, &err);
}

/* One finisher for the direct return and for the return after a yield, as lbaselib's finishpcall.
 */
static int finish(lua_State *L, int index) {
  mt_op *op = lua_touserdata(L, index);
  if (op->stop) return finish_stopped(L, op);
  return op->type->finish(L, op, index);
}

static int resumed(lua_State *L, int status, lua_KContext index) {
  (void)status;
  mt_op *op = lua_touserdata(L, (int)index);
  mt_driver *d = op->driver;
  /* A script resumed a task's coroutine by hand: not its turn, it goes on waiting. */
  if (!op->done || !d->running || d->running->co != L) return lua_yieldk(L, 0, index, resumed);
  return finish(L, (int)index);
}

static bool may_yield(lua_State *L, const mt_driver *d) {
  return d->running && d->running->co == L && lua_isyieldable(L);
}

bool mt_alone(lua_State *L, const mt_driver *d) {
  return (d->running && !may_yield(L, d)) || (d->pumps && d->pumps->task != &d->main_task);
}

void mt_await_check(lua_State *L, mt_driver *d) {
  mt_task *task = mt_driver_task(d);
  const char *why = task->stop;
  task->stop = NULL;
  if (why) {
    mortise_error err;
    read_stop(d, why, &err);
    mt_error_raise(L, &err);
  }
  if (atomic_load(&d->lost)) d->hooks->check(L, d);
}

int mt_await(lua_State *L, int index) {
  mt_op *op = lua_touserdata(L, index);
  mt_driver *d = op->driver;
  if (!op->checked) mt_await_check(L, d); /* the op's __gc takes it back when this raises */
  if (!may_yield(L, d)) {
    mt_driver_pump(d, op);
    return finish(L, index);
  }
  if (op->done) return finish(L, index);
  op->task = d->running;
  d->running->op = op;
  return lua_yieldk(L, 0, index, resumed);
}
