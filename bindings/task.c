/* Tasks: how they begin and end, who waits for them, and what stops them.
 *
 * A task's coroutine runs `task_main`, which calls the body under xpcall with a traceback handler
 * (so that __close handlers may wait) and then waits for the task's children: concurrency is
 * structured. Its results, or its error, stay on its coroutine's stack for whoever joins it. */
#include "bindings/task.h"

#include "bindings/driver.h"
#include "bindings/lua_error.h"

const char mt_task_name[] = "mortise.task";

/* ---- Making and ending a task --------------------------------------------------------------- */

static mt_task **bucket(mt_driver *d, uint64_t id) {
  return &d->buckets[id % MT_TASK_BUCKETS];
}

static mt_task *task_find(mt_driver *d, uint64_t id) {
  mt_task *task = *bucket(d, id);
  while (task && task->id != id) task = task->next_in_bucket;
  return task;
}

bool mt_task_inherits(void *ctx, uint64_t holder, uint64_t task) {
  if (holder == task) return true;
  for (mt_task *t = task_find(ctx, task); t; t = t->parent)
    if (t->id == holder) return true;
  return false;
}

static void link_task(mt_driver *d, mt_task *task, mt_task *parent) {
  task->id = ++d->last_id;
  task->parent = parent;
  parent->unfinished++;
  task->next_child = parent->children;
  if (parent->children) parent->children->prev_child = task;
  parent->children = task;
  mt_task **slot = bucket(d, task->id);
  task->next_in_bucket = *slot;
  *slot = task;
}

static void unlink_child(mt_task *task) {
  if (task->prev_child)
    task->prev_child->next_child = task->next_child;
  else
    task->parent->children = task->next_child;
  if (task->next_child) task->next_child->prev_child = task->prev_child;
}

static void unlink_task(mt_task *task) {
  unlink_child(task);
  mt_task **slot = bucket(task->driver, task->id);
  while (*slot != task) slot = &(*slot)->next_in_bucket;
  *slot = task->next_in_bucket;
  task->phase = MT_TASK_DROPPED;
}

static void task_drop(mt_task *task) {
  lua_State *L = task->driver->aux;
  unlink_task(task);
  mt_driver_push_tasks(L);
  lua_pushnil(L);
  lua_rawsetp(L, -2, task); /* the key exists, so this allocates nothing */
  lua_pop(L, 1);
}

/* A failed child that nobody joined is kept by its parent, which fails with its error at the
 * end. */
static mt_task *failed_child(const mt_task *task) {
  for (mt_task *child = task->children; child; child = child->next_child)
    if (child->phase == MT_TASK_DONE && child->failed && !child->joined) return child;
  return NULL;
}

static void drop_children(mt_task *task) {
  while (task->children) task_drop(task->children);
}

static void stop_children(mt_task *task, const char *why) {
  for (mt_task *child = task->children; child; child = child->next_child) mt_task_stop(child, why);
}

static int end_task(lua_State *L, int status, lua_KContext context) {
  (void)status;
  mt_task *task = (mt_task *)context;
  task->phase = MT_TASK_ENDING;
  if (task->stop) stop_children(task, task->stop);
  task->stop = NULL;
  if (task->unfinished) return lua_yieldk(L, 0, context, end_task);
  mt_task *child = task->failed ? NULL : failed_child(task);
  if (child) {
    lua_settop(L, 1);
    task->failed = true;
    mt_task_results(L, child);
  }
  drop_children(task);
  return lua_gettop(L) - 1;
}

static int end_body(lua_State *L, int status, lua_KContext context) {
  mt_task *task = (mt_task *)context;
  task->failed = status != LUA_OK && status != LUA_YIELD;
  if (task->failed) stop_children(task, "the task that started it failed");
  return end_task(L, LUA_OK, context);
}

static int return_stack(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

void mt_task_check(lua_State *L, mt_driver *d) {
  mt_task *task = mt_driver_task(d);
  const char *why = task->stop;
  task->stop = NULL;
  if (why) {
    mortise_error err;
    mt_op_read_stop(d, why, &err);
    mt_error_raise(L, &err);
  }
  if (atomic_load(&d->lost)) d->hooks->check(L, d);
}

static int call_checked(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  mt_task_check(L, d);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, return_stack);
  return return_stack(L, LUA_OK, 0);
}

/* The first function of every task's coroutine: (body, ...). */
static int task_main(lua_State *L) {
  mt_task *task = mt_driver_get(L)->running;
  lua_pushcfunction(L, mt_error_traceback);
  lua_insert(L, 1);
  lua_pushcfunction(L, call_checked);
  lua_insert(L, 2);
  int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, (lua_KContext)task, end_body);
  return end_body(L, status, (lua_KContext)task);
}

mt_task *mt_task_spawn(lua_State *L, mt_driver *d, int nargs) {
  luaL_checkstack(L, 6, NULL);
  mt_task *task = lua_newuserdatauv(L, sizeof *task, 1);
  *task = (mt_task){.driver = d, .nargs = nargs + 1};
  luaL_setmetatable(L, mt_task_name);
  lua_insert(L, -(nargs + 2));
  task->co = lua_newthread(L);
  lua_setiuservalue(L, -(nargs + 3), 1);
  if (!lua_checkstack(task->co, nargs + 8)) luaL_error(L, "too many arguments for a task");
  mt_driver_push_tasks(L);
  lua_pushvalue(L, -(nargs + 3));
  lua_rawsetp(L, -2, task);
  lua_pop(L, 1);
  lua_pushcfunction(task->co, task_main);
  lua_xmove(L, task->co, nargs + 1);
  link_task(d, task, mt_driver_task(d));
  mt_task_ready(task);
  return task;
}

static const char taken_text[] = "the task's coroutine was closed or finished by someone else";

int mt_task_results(lua_State *L, mt_task *task) {
  if (task->killed) {
    mortise_error e;
    mt_error_set(&e, MORTISE_SCRIPT_ERROR, "%s", task->killed);
    mt_error_push(L, &e);
    return 1;
  }
  int n = task->nresults;
  if (lua_status(task->co) != LUA_OK || lua_gettop(task->co) != n)
    mt_error_throw(L, MORTISE_SCRIPT_ERROR, "%s", taken_text);
  luaL_checkstack(L, n + 1, "too many results of a task");
  if (!lua_checkstack(task->co, 1)) mt_error_throw(L, MORTISE_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < n; i++) {
    lua_pushvalue(task->co, -n);
    lua_xmove(task->co, L, 1); /* the first is at -n again, and the copy is gone */
    lua_rotate(task->co, -n, -1);
  }
  return n;
}

void mt_task_seen(mt_task *task) {
  task->joined = true;
  if (task->phase == MT_TASK_DONE) task_drop(task);
}

/* ---- Joining -------------------------------------------------------------------------------- */

typedef struct mt_join {
  mt_op op;
  mt_task *target;
  struct mt_join *next;
  bool quiet; /* does not raise the task's error */
} mt_join;

static bool cancel_join(mt_op *op) {
  mt_join *join = (mt_join *)op;
  mt_join **slot = &join->target->waiters;
  while (*slot && *slot != join) slot = &(*slot)->next;
  if (*slot) *slot = join->next;
  return false;
}

static int finish_join(lua_State *L, mt_op *op, int index) {
  (void)index;
  mt_join *join = (mt_join *)op;
  mt_task_seen(join->target);
  if (join->quiet) return 0;
  int n = mt_task_results(L, join->target);
  return join->target->failed ? lua_error(L) : n;
}

static const mt_op_type join_type = {cancel_join, finish_join, NULL, false, NULL};

mt_task *mt_join_target(const mt_op *op) {
  return op->type == &join_type ? ((const mt_join *)op)->target : NULL;
}

static void wake_joins(mt_task *task) {
  while (task->waiters) {
    mt_join *join = task->waiters;
    task->waiters = join->next;
    mt_op_done(&join->op);
  }
}

void mt_join_push(lua_State *L, mt_task *task, int index, bool quiet) {
  mt_join *join = mt_lua_op_new(L, sizeof *join, 1, &join_type);
  join->target = task;
  join->quiet = quiet;
  mt_op_anchor(L, -1, 1, index);
  mt_op_start(&join->op);
  if (mt_task_is_done(task)) {
    mt_op_done(&join->op);
    return;
  }
  join->next = task->waiters;
  task->waiters = join;
}

/* ---- Its end -------------------------------------------------------------------------------- */

static void finish_task(mt_task *task) {
  mt_task *parent = task->parent;
  task->phase = MT_TASK_DONE;
  task->op = NULL;
  if (--parent->unfinished == 0 && parent->phase == MT_TASK_ENDING) mt_task_ready(parent);
  bool wanted = task->waiters != NULL || task->joined;
  wake_joins(task);
  /* Keep a failure that nobody has seen, for its parent. */
  if (wanted || !task->failed || parent == &task->driver->main_task) task_drop(task);
}

/* Stops its children and hands them to its parent; only needed if the task ended irregularly. */
static void bequeath(mt_task *task, const char *why) {
  mt_task *heir = task->parent;
  stop_children(task, why);
  while (task->children) {
    mt_task *child = task->children;
    unlink_child(child);
    child->parent = heir;
    child->prev_child = NULL;
    child->next_child = heir->children;
    if (heir->children) heir->children->prev_child = child;
    heir->children = child;
    if (!mt_task_is_done(child)) heir->unfinished++;
  }
  task->unfinished = 0;
}

void mt_task_kill(mt_task *task) {
  bequeath(task, taken_text);
  task->failed = true;
  task->killed = taken_text;
  finish_task(task);
}

void mt_task_end(mt_task *task, int status, int n) {
  if (status != LUA_OK) { /* out of memory outside the body's xpcall */
    lua_resetthread(task->co);
    n = 1;
    task->failed = true;
    bequeath(task, "the task that started it failed");
  }
  task->nresults = n;
  finish_task(task);
}

/* ---- Stopping ------------------------------------------------------------------------------- */

/* The operation that it is waiting for, or NULL. */
static mt_op *awaited(const mt_task *task) {
  if (task->op) return task->op;
  for (mt_pump *pump = task->driver->pumps; pump; pump = pump->outer)
    if (pump->task == task && pump->op && !pump->op->done) return pump->op;
  return NULL;
}

static void wake(mt_task *task, const char *why) {
  mt_op *op = awaited(task);
  if (!op) return;
  task->woken = task->driver->wakes;
  mt_op_stop(op, why);
}

bool mt_tasks_wake(mt_driver *d, uint64_t holder, bool told, const char *why) {
  const mt_task *its = holder == MT_MAIN_TASK ? &d->main_task : task_find(d, holder);
  for (int i = 0; i < MT_TASK_BUCKETS; i++)
    for (mt_task *task = d->buckets[i]; task; task = task->next_in_bucket)
      if ((task != its || !told) && mt_task_inherits(d, holder, task->id)) wake(task, why);
  if (its == &d->main_task && !told) wake(&d->main_task, why);
  return its && its->woken == d->wakes;
}

static void stop_task(mt_task *task, const char *why, bool now) {
  if (mt_task_is_done(task)) return;
  mt_op *op = awaited(task);
  if (op && (now || !op->whole)) {
    mt_op_stop(op, why);
    return;
  }
  task->stop = why;
  if (task->phase == MT_TASK_ENDING) mt_task_ready(task);
}

void mt_task_stop(mt_task *task, const char *why) {
  stop_task(task, why, false);
}

void mt_task_stop_now(mt_task *task, const char *why) {
  stop_task(task, why, true);
}

/* The one after `task` below `top`, parents first; NULL: there is no more. */
static mt_task *next_below(const mt_task *top, mt_task *task) {
  if (task->children) return task->children;
  while (task != top && !task->next_child) task = task->parent;
  return task == top ? NULL : task->next_child;
}

void mt_task_stop_tree(mt_task *top, const char *why, const mt_task *running) {
  for (mt_task *task = top; task; task = next_below(top, task))
    if (task != running && !mt_task_is_done(task)) mt_task_stop(task, why);
}

void mt_tasks_stop(mt_driver *d, const char *why, const mt_task *running, bool again) {
  for (int i = 0; i < MT_TASK_BUCKETS; i++)
    for (mt_task *task = d->buckets[i]; task; task = task->next_in_bucket) {
      const mt_op *op = awaited(task);
      if (task != running && !(again && op && op->type->gives_back)) stop_task(task, why, again);
    }
  for (mt_pump *pump = d->pumps; pump; pump = pump->outer) {
    if (!pump->op || pump->task != &d->main_task || pump->task == running) continue;
    if (pump->op->whole && !again)
      d->main_task.stop = why;
    else
      mt_op_stop(pump->op, why);
  }
}
