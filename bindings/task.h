/* Tasks: how they begin and end, who waits for them, and what stops them. */
#ifndef MT_TASK_H
#define MT_TASK_H

#include "bindings/op.h"

extern const char mt_task_name[];
/* Pops a function and its `nargs` arguments, makes a task of them, and pushes it. */
MT_LJMP mt_task *mt_task_spawn(lua_State *L, mt_driver *d, int nargs);
/* Called by whoever resumes it: mt_task_end when its coroutine has ended with `n` values on its
 * stack or an error, mt_task_kill when its coroutine was taken over by others. */
void mt_task_end(mt_task *task, int status, int n);
void mt_task_kill(mt_task *task);
/* Marks its result as handled, so that its failure does not fail its parent. */
void mt_task_seen(mt_task *task);
/* Pushes the results of a finished task, or the error of a failed one, and returns their number. */
MT_LJMP int mt_task_results(lua_State *L, mt_task *task);
/* Raises what was postponed for the running task: an interrupt, a cancellation, a lost lease.
 * mt_await does so too, except for an op that is `checked`: an op that cannot be undone is checked
 * before it is submitted, so that the error never hides something in flight. */
MT_LJMP void mt_task_check(lua_State *L, mt_driver *d);
void mt_task_stop(mt_task *task, const char *why);
/* The same, also where it waits for an operation that is `whole`. */
void mt_task_stop_now(mt_task *task, const char *why);
/* Stops `top` and all that it has started, but `running`. */
void mt_task_stop_tree(mt_task *top, const char *why, const mt_task *running);
/* Stops all tasks except `running`, and what the program waits for outside tasks; with `again`,
 * operations that give something back continue. */
void mt_tasks_stop(mt_driver *d, const char *why, const mt_task *running, bool again);
/* Ends the current waits of the descendants of `holder` and, unless `told`, of `holder` itself. Was
 * `holder` waiting, now or earlier in the same pass? */
bool mt_tasks_wake(mt_driver *d, uint64_t holder, bool told, const char *why);
/* Is `holder` the same task as `task` or an ancestor, so that its locks count for `task`? `ctx` is
 * the driver. */
bool mt_task_inherits(void *ctx, uint64_t holder, uint64_t task);

/* Pushes a started operation that waits for the task at `index`. It returns the task's results or
 * raises its error; with `quiet` it does neither. */
MT_LJMP void mt_join_push(lua_State *L, mt_task *task, int index, bool quiet);
mt_task *mt_join_target(const mt_op *op); /* the task that a join waits for; NULL for other ops */

#endif
