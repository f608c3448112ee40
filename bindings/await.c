/* See bindings.h for how a binding waits. */
#include "bindings/await.h"

#include "bindings/lua_error.h"
#include "bindings/op.h"
#include "bindings/pump.h"
#include "bindings/task.h"

static int finish_stopped(lua_State *L, mt_op *op) {
  mortise_error err;
  mt_op_read_stop(op->driver, op->stop, &err);
  err.ambiguous = op->applied;
  if (op->type->stopped) return op->type->stopped(L, op, &err);
  mt_error_raise(L, &err);
}

/* One finisher for the direct return and for the return after a yield, as lbaselib's finishpcall.
 */
static int finish_op(lua_State *L, int index) {
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
  return finish_op(L, (int)index);
}

static bool may_yield(lua_State *L, const mt_driver *d) {
  return d->running && d->running->co == L && lua_isyieldable(L);
}

bool mt_alone(lua_State *L, const mt_driver *d) {
  return (d->running && !may_yield(L, d)) || (d->pumps && d->pumps->task != &d->main_task);
}

int mt_await(lua_State *L, int index) {
  mt_op *op = lua_touserdata(L, index);
  mt_driver *d = op->driver;
  if (!op->checked) mt_task_check(L, d); /* the op's __gc takes it back when this raises */
  if (!may_yield(L, d)) {
    mt_pump_op(d, op);
    return finish_op(L, index);
  }
  if (op->done) return finish_op(L, index);
  op->task = d->running;
  d->running->op = op;
  return lua_yieldk(L, 0, index, resumed);
}
