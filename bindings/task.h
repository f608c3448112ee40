/* Tasks: how one begins and ends, who waits for it, and what stops it. */
#ifndef MT_TASK_H
#define MT_TASK_H

#include "bindings/op.h"

extern const char mt_task_name[];
/* Makes a task of the function below `nargs` arguments, all taken off the stack; pushes it. */
MT_LJMP mt_task *mt_task_spawn(lua_State *L, mt_driver *d, int nargs);
/* For who resumes it: its coroutine has ended with `n` values on its stack, or by an error; or it is no
 * longer its own, which ends it too. */
void mt_task_end(mt_task *task, int status, int n);
void mt_task_kill(mt_task *task);
/* Someone knows how it ended, or will: its failure is not its parent's any more. */
void mt_task_seen(mt_task *task);
/* Pushes the results of a finished task and returns their number; of a failed one the error. */
MT_LJMP int mt_task_results(lua_State *L, mt_task *task);
/* Raises what was postponed for the running task: an interrupt, a cancellation, a lost lease.
 * mt_await does it too, but for an op that is `checked`: what cannot be taken back is checked
 * before it is submitted, so that the error knows of nothing that is under way. */
MT_LJMP void mt_task_check(lua_State *L, mt_driver *d);
void mt_task_stop(mt_task *task, const char *why);
/* Stops all tasks and what the program outside of them waits for, but for `running`; `again`: nor those
 * that give something back. */
void mt_tasks_stop(mt_driver *d, const char *why, const mt_task *running, bool again);
/* Ends what the tasks below `holder` wait for just now and, unless it was told, what `holder`
 * waits for. Was `holder` among them, now or earlier in the same pass? */
bool mt_tasks_wake(mt_driver *d, uint64_t holder, bool told, const char *why);
/* Does a hold of task `holder` stand for `task` too: the same, or one above it? `ctx` the driver.
 */
bool mt_task_inherits(void *ctx, uint64_t holder, uint64_t task);

/* Pushes an operation under way that waits for the task at `index`. Its results are the task's, or its
 * error raised; `quiet`: none. */
MT_LJMP void mt_join_push(lua_State *L, mt_task *task, int index, bool quiet);
mt_task *mt_join_target(const mt_op *op); /* whom a join waits for; NULL for other ops */

#endif
