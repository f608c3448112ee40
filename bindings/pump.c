/* Resuming tasks, and waiting without a yield.
 *
 * Which tasks may be resumed by a pump: outside every task, all; in a task that cannot yield (a
 * generator, a sort callback), only the task that it joins and that task's descendants. */
#include "bindings/pump.h"

#include "bindings/interrupt.h"
#include "bindings/task.h"

/* ---- Resuming ------------------------------------------------------------------------------- */

static void resume(mt_driver *d, mt_task *task) {
  bool first = task->phase == MT_TASK_NEW;
  if (first) task->phase = MT_TASK_BODY;
  if (!first && lua_status(task->co) != LUA_YIELD) {
    mt_task_kill(task);
    return;
  }
  lua_State *from = d->current;
  mt_task *outer = d->running;
  int n = 0;
  d->running = task;
  d->current = task->co;
  mt_interrupt_arm(d, task->co);
  if (first) mt_interrupt_charge(d);
  int status = lua_resume(task->co, from, first ? task->nargs : 0, &n);
  d->current = from;
  d->running = outer;
  if (status == LUA_YIELD) {
    lua_pop(task->co, n);
    if (!task->op && task->phase == MT_TASK_BODY)
      mt_task_ready(task); /* a bare coroutine.yield lets others run first */
    return;
  }
  mt_task_end(task, status, n);
}

/* May this task be resumed while the running one pumps for `joined` (NULL: for something else)? */
static bool may_run(mt_driver *d, const mt_task *joined, const mt_task *task) {
  if (!d->running) return true;
  return joined && mt_task_inherits(d, joined->id, task->id);
}

static mt_task *take_ready(mt_driver *d, const mt_task *joined, const mt_task *last) {
  mt_task *before = NULL;
  for (mt_task *task = d->ready; task; before = task, task = task->next_ready) {
    if (may_run(d, joined, task)) {
      *(before ? &before->next_ready : &d->ready) = task->next_ready;
      if (d->ready_last == task) d->ready_last = before;
      task->ready = false;
      return task;
    }
    if (task == last) return NULL;
  }
  return NULL;
}

/* What a pump waits for: an operation or a task. */
typedef struct until {
  const mt_op *op;
  const mt_task *task;
} until;

static bool is_wait_over(until what) {
  return what.op ? what.op->done : mt_task_is_done(what.task);
}

/* Resumes the tasks that are ready now; those that they make ready follow after a loop step. */
static void run_ready(mt_driver *d, const mt_task *joined, until what) {
  const mt_task *last = d->ready_last;
  mt_task *task = NULL;
  while (!is_wait_over(what) && task != last && (task = take_ready(d, joined, last)))
    resume(d, task);
}

static bool runnable(mt_driver *d, const mt_task *joined) {
  for (const mt_task *task = d->ready; task; task = task->next_ready)
    if (may_run(d, joined, task)) return true;
  return false;
}

/* ---- Waiting without a yield ---------------------------------------------------------------- */

/* One turn: runs ready tasks, then steps the loop. false if the loop fails. */
static bool turn(mt_driver *d, const mt_task *joined, until what) {
  if (mt_interrupt_due(d)) mt_interrupt_deliver(d, NULL);
  if (atomic_load(&d->lost)) d->hooks->wake(d);
  run_ready(d, joined, what);
  if (is_wait_over(what)) return true;
  if (mt_driver_forked(d)) return false;
  int64_t wait = runnable(d, joined) ? 0 : mt_interrupt_patience(d);
  return mt_loop_step(d->loop, wait, NULL) == MORTISE_OK;
}

void mt_pump_turn(mt_driver *d) {
  if (mt_interrupt_due(d)) mt_interrupt_deliver(d, NULL);
  if (atomic_load(&d->lost)) d->hooks->wake(d);
  const mt_task *last = d->ready_last;
  mt_task *task = NULL;
  while (task != last && (task = take_ready(d, NULL, last))) resume(d, task);
}

int64_t mt_pump_wait(const mt_driver *d) {
  return d->ready || atomic_load(&d->asked) ? 0 : mt_interrupt_patience(d);
}

void mt_pump_op(mt_driver *d, mt_op *op) {
  mt_pump frame = {op, mt_driver_task(d), d->pumps};
  mt_task *joined = mt_join_target(op);
  d->pumps = &frame;
  while (!op->done)
    if (!turn(d, joined, (until){.op = op})) mt_op_stop(op, "the event loop failed");
  d->pumps = frame.outer;
}

void mt_pump_task(mt_driver *d, mt_task *task) {
  mt_pump frame = {NULL, mt_driver_task(d), d->pumps};
  d->pumps = &frame;
  task->joined = true;
  while (!mt_task_is_done(task))
    if (!turn(d, task, (until){.task = task})) mt_task_stop_now(task, "the event loop failed");
  d->pumps = frame.outer;
}
