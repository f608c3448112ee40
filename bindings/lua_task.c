/* Tasks as scripts see them. In `mortise.core`:
 *   spawn(fn, ...) -> task     starts it; it runs when its starter waits. A task ends after the
 *                              tasks it started; if one of them fails and is not joined, so does it
 *   sleep(ms)                  for at least that long; 0 lets others run
 *   now_ms() -> integer        a clock that never goes back, for durations
 *   wall_ms() -> integer       milliseconds since 1970, for people
 *   interrupted([clear]) -> boolean   was this program asked to stop? `true` clears it
 *   interrupt()                like ^C: raises `interrupted` in every waiting task and here
 *   catch(fn, handler, ...)    xpcall that, unlike a script's in a host, also catches repeated
 *                              interrupts
 *   running() -> integer       number of the running task; 1 outside of tasks
 * A task:
 *   :join() -> ...             returns its results or raises its error, each time
 *   :cancel()                  raises `interrupted` at its current or next wait
 *   :done() -> boolean, failed
 *   .id, tostring; <close> joins it, after cancelling it if left by an error */
#include "bindings/lua_task.h"

#include "bindings/await.h"
#include "bindings/coroutine.h"
#include "bindings/driver.h"
#include "bindings/interrupt.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"
#include "bindings/task.h"

#include "base/clock.h"

static mt_task *check_task(lua_State *L) {
  return mt_check_self(L, mt_task_name, "task");
}

/* ---- join ----------------------------------------------------------------------------------- */

/* Raises DEADLOCK if `task` cannot end before the running one. Since a task waits for its children
 * at its end, this is so if it waits, through any joins, for an ancestor of the running task. */
static void check_circle(lua_State *L, mt_driver *d, const mt_task *task) {
  uint64_t us = mt_driver_task(d)->id;
  for (const mt_task *at = task; at && !mt_task_is_done(at);
       at = at->op ? mt_join_target(at->op) : NULL)
    if (mt_task_inherits(d, at->id, us))
      mt_error_throw(L, MORTISE_DEADLOCK, "a task cannot wait for %s",
                     at == task ? "its own end" : "one that waits for it");
}

static int join_task(lua_State *L, bool quiet) {
  mt_driver *d = mt_driver_get(L);
  mt_task *task = check_task(L);
  check_circle(L, d, task);
  mt_join_push(L, task, 1, quiet);
  return mt_await(L, lua_gettop(L));
}

static int task_join(lua_State *L) {
  lua_settop(L, 1);
  return join_task(L, false);
}

static int task_close(lua_State *L) {
  mt_task *task = check_task(L);
  bool failing = !lua_isnoneornil(L, 2);
  lua_settop(L, 1);
  if (failing) mt_task_stop(task, "the task was cancelled");
  return join_task(L, failing);
}

static int task_cancel(lua_State *L) {
  mt_task_stop(check_task(L), "the task was cancelled");
  return 0;
}

static int task_done(lua_State *L) {
  const mt_task *task = check_task(L);
  lua_pushboolean(L, mt_task_is_done(task));
  lua_pushboolean(L, mt_task_is_done(task) && task->failed);
  return 2;
}

static int task_tostring(lua_State *L) {
  const mt_task *task = check_task(L);
  const char *state = !mt_task_is_done(task) ? "running" : task->failed ? "failed" : "done";
  lua_pushfstring(L, "task %I (%s)", (LUAI_UACINT)task->id, state);
  return 1;
}

static int task_index(lua_State *L) {
  const mt_task *task = check_task(L);
  const char *key = lua_tostring(L, 2);
  if (key && key[0] == 'i' && key[1] == 'd' && !key[2]) {
    lua_pushinteger(L, (lua_Integer)task->id);
    return 1;
  }
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  return 1;
}

/* ---- sleep ---------------------------------------------------------------------------------- */

typedef struct sleep_op {
  mt_op op;
  mt_timer timer;
} sleep_op;

static bool cancel_sleep(mt_op *op) {
  mt_timer_stop(op->driver->loop, &((sleep_op *)op)->timer);
  return false;
}

static int finish_sleep(lua_State *L, mt_op *op, int index) {
  (void)L;
  (void)op;
  (void)index;
  return 0;
}

static void wake_sleeper(void *ctx) {
  mt_op_done(ctx);
}

static const mt_op_type sleep_type = {cancel_sleep, finish_sleep, NULL, false, NULL};

static int core_sleep(lua_State *L) {
  lua_Number ms = luaL_checknumber(L, 1);
  luaL_argcheck(L, ms >= 0 && ms <= 1e15, 1, "milliseconds, not negative");
  mortise_error err;
  sleep_op *op = mt_lua_op_new(L, sizeof *op, 0, &sleep_type);
  mt_loop *loop = op->op.driver->loop;
  op->timer.fire = wake_sleeper;
  op->timer.ctx = op;
  if (mt_timer_start(loop, &op->timer, mt_loop_now(loop) + (int64_t)ms, &err))
    mt_error_raise(L, &err);
  mt_op_start(&op->op);
  return mt_await(L, lua_gettop(L));
}

/* ---- the module's functions ----------------------------------------------------------------- */

static int core_spawn(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  mt_task_spawn(L, mt_driver_get(L), lua_gettop(L) - 1);
  return 1;
}

static int core_now_ms(lua_State *L) {
  lua_pushinteger(L, mt_clock_boot_ms());
  return 1;
}

static int core_wall_ms(lua_State *L) {
  lua_pushinteger(L, mt_clock_wall_ms());
  return 1;
}

static int core_interrupted(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  lua_pushboolean(L, d->interrupted);
  if (lua_toboolean(L, 1)) mt_interrupt_forget(d);
  return 1;
}

static int core_interrupt(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  mt_interrupt_deliver(d, mt_driver_task(d));
  mt_error_throw(L, MORTISE_INTERRUPTED, "%s", mt_interrupted_text);
}

static int core_running(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mt_driver_task(mt_driver_get(L))->id);
  return 1;
}

const luaL_Reg mt_task_functions[] = {{"spawn", core_spawn},
                                      {"sleep", core_sleep},
                                      {"now_ms", core_now_ms},
                                      {"wall_ms", core_wall_ms},
                                      {"interrupted", core_interrupted},
                                      {"interrupt", core_interrupt},
                                      {"running", core_running},
                                      {"catch", mt_coroutine_catch},
                                      {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"join", task_join}, {"cancel", task_cancel}, {"done", task_done}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {
    {"__close", task_close}, {"__tostring", task_tostring}, {NULL, NULL}};
const mt_lua_class mt_task_class = {mt_task_name, methods, metamethods, task_index, NULL};
