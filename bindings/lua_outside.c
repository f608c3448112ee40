/* Jobs whose work is done in Lua (job/outside.h):
 *   lock:outside_job{verb="run", "resume" or "undo", id=, spec= (JSON text), rate=, patience_ms=, standing=} -> work
 *   :run() -> result           once it is called again after `finish`, or where nothing is to be done: raises what ended
 *                              it. At first it returns nothing: the job is the caller's, and the work may begin
 *   :told() -> {state=, attempts=, work= (JSON text), paused= (why), rate=, stop= (error)}   each nil where it is not so;
 *                              `stop` is what ends it. Waits for nothing
 *   :note(work, counts)        JSON text, and {total=, matched=, changed=, deleted=, unchanged=, conflicts=, rejected=},
 *                              of which those that are nil stay: written with the next checkpoint, within a second
 *   :checkpoint()              waits until they are written; raises what ends it
 *   :waits(why or nil)         what it waits for, for people
 *   :finish(state[, error])    "done", "stopped", "undoing" or "undone"; then `run` is to be called
 *   :pause(why or nil), :cancel(), :settle(), :progress(), :result()   as those of lua_work.h
 * Releasing the lock ends it at once, as if its process had died. */
#include "bindings/lua_outside.h"

#include "bindings/await.h"
#include "bindings/lua_error.h"
#include "bindings/lua_lock.h"
#include "bindings/lua_options.h"
#include "bindings/lua_text.h"
#include "bindings/op.h"
#include "bindings/task.h"

#include "base/clock.h"
#include "job/outside.h"

#include <string.h>

static const char outside_name[] = "mortise.outside";

typedef struct lua_outside {
  mt_outside job;
  mt_permit permit;
  mt_dependent dependent;
  mt_owned owned;
  mt_driver *driver;
  mt_op *runner; /* the operation that waits for it, or NULL */
  bool started, dropped;
} lua_outside; /* user values: the lock; its options, from which it borrows */

/* ---- Its end -------------------------------------------------------------------------------- */

static void abandon_outside(lua_outside *self) {
  mt_undepend(&self->dependent);
  if (!mt_driver_forked(self->driver)) mt_outside_abandon(&self->job);
}

static void drop_outside(mt_dependent *d) {
  lua_outside *self = MT_CONTAINER(d, lua_outside, dependent);
  mt_op *runner = self->runner;
  self->dropped = self->started && !self->job.finished;
  abandon_outside(self); /* it must not look at a lock that is gone */
  if (runner) mt_op_stop(runner, "the lock was released");
}

static void end_lua_outside(mt_owned *owned) {
  lua_outside *self = MT_CONTAINER(owned, lua_outside, owned);
  abandon_outside(self);
  mt_outside_deinit(&self->job);
}

static int collect_outside(lua_State *L) {
  lua_outside *self = lua_touserdata(L, 1);
  if (!mt_driver_forked(self->driver)) mt_owned_end(&self->owned);
  return 0;
}

static void wake_outside(lua_outside *self) {
  mt_op *runner = self->runner;
  self->runner = NULL;
  if (runner) mt_op_done(runner);
}

static void on_outside_ready(void *ctx, mt_outside *o) {
  (void)o;
  wake_outside(ctx);
}

static void on_outside_done(void *ctx, mt_outside *o) {
  lua_outside *self = ctx;
  (void)o;
  mt_undepend(&self->dependent);
  wake_outside(self);
}

/* ---- What is told --------------------------------------------------------------------------- */

static lua_outside *check_outside(lua_State *L) {
  mt_driver_get(L);
  return luaL_checkudata(L, 1, outside_name);
}

/* May its caller work on it still? */
static bool is_at_work(const lua_outside *self) {
  const mt_outside *o = &self->job;
  return o->is_ready && !o->ending && !o->finished && !self->dropped;
}

static int outside_told(lua_State *L) {
  lua_outside *self = check_outside(L);
  const mt_job_record *r = &self->job.record;
  mortise_error stop;
  mt_error_clear(&stop);
  if (self->dropped)
    mt_error_set(&stop, MORTISE_INTERRUPTED, "the lock was released");
  else if (is_at_work(self))
    mt_outside_stop(&self->job, &stop);
  lua_createtable(L, 0, 6);
  mt_set_text(L, "state", mt_job_state_name(r->state));
  mt_set_count(L, "attempts", r->attempts);
  if (r->work.n) {
    lua_pushlstring(L, r->work.p, r->work.n);
    lua_setfield(L, -2, "work");
  }
  mt_set_text(L, "paused", is_at_work(self) ? mt_outside_paused(&self->job) : NULL);
  if (self->job.limits.rate) mt_set_integer(L, "rate", self->job.limits.rate);
  if (stop.code) {
    mt_error_push(L, &stop);
    lua_setfield(L, -2, "stop");
  }
  return 1;
}

static void push_outside_result(lua_State *L, const mt_outside *o) {
  const mt_job_record *r = &o->record;
  lua_createtable(L, 0, 10);
  mt_set_count(L, "matched", r->counts.matched);
  mt_set_count(L, "changed", r->counts.changed);
  mt_set_count(L, "deleted", r->counts.deleted);
  mt_set_count(L, "unchanged", r->counts.unchanged);
  mt_set_count(L, "conflicts", r->counts.conflicts);
  mt_set_count(L, "rejected", r->counts.rejected);
  mt_set_count(L, "refused", 0);
  mt_set_count(L, "attempts", r->attempts);
  mt_set_text(L, "state", mt_job_state_name(r->state));
  mt_set_text(L, "reason", r->reason);
  lua_pushboolean(L, mt_job_record_began(r));
  lua_setfield(L, -2, "began");
}

static int outside_result(lua_State *L) {
  push_outside_result(L, &check_outside(L)->job);
  return 1;
}

static int outside_progress(lua_State *L) {
  const mt_outside *o = &check_outside(L)->job;
  const mt_job_record *r = &o->record;
  lua_pushinteger(L, (lua_Integer)r->counts.matched);
  lua_pushinteger(L, (lua_Integer)r->total);
  lua_pushinteger(L, (lua_Integer)r->counts.conflicts);
  lua_pushinteger(L, (lua_Integer)r->counts.rejected);
  if (o->limits.rate)
    lua_pushinteger(L, o->limits.rate);
  else
    lua_pushnil(L);
  if (*r->waits)
    lua_pushstring(L, r->waits);
  else
    lua_pushnil(L);
  return 6;
}

/* ---- What the caller says ------------------------------------------------------------------- */

static void read_outside_count(lua_State *L, const char *name, uint64_t *out) {
  if (lua_getfield(L, 3, name) != LUA_TNIL) *out = (uint64_t)luaL_checkinteger(L, -1);
  lua_pop(L, 1);
}

static int outside_note(lua_State *L) {
  lua_outside *self = check_outside(L);
  mt_slice work = mt_check_slice(L, 2);
  mt_job_record *r = &self->job.record;
  mortise_error err;
  luaL_checktype(L, 3, LUA_TTABLE);
  if (!is_at_work(self)) return 0;
  read_outside_count(L, "total", &r->total);
  read_outside_count(L, "matched", &r->counts.matched);
  read_outside_count(L, "changed", &r->counts.changed);
  read_outside_count(L, "deleted", &r->counts.deleted);
  read_outside_count(L, "unchanged", &r->counts.unchanged);
  read_outside_count(L, "conflicts", &r->counts.conflicts);
  read_outside_count(L, "rejected", &r->counts.rejected);
  if (mt_outside_note(&self->job, work, &err)) mt_error_raise(L, &err);
  return 0;
}

static int outside_waits(lua_State *L) {
  lua_outside *self = check_outside(L);
  mt_job_record *r = &self->job.record;
  const char *why = lua_isnoneornil(L, 2) ? "" : mt_check_string(L, 2);
  snprintf(r->waits, sizeof r->waits, "%s", why);
  return 0;
}

static int outside_pause(lua_State *L) {
  lua_outside *self = check_outside(L);
  mt_outside_pause(&self->job, lua_isnoneornil(L, 2) ? NULL : mt_check_string(L, 2));
  return 0;
}

static void cancel_outside(lua_outside *self) {
  mortise_error err;
  if (self->dropped) return;
  mt_error_set(&err, MORTISE_INTERRUPTED, "the job was interrupted");
  mt_outside_cancel(&self->job, &err);
}

static int outside_cancel(lua_State *L) {
  cancel_outside(check_outside(L));
  return 0;
}

static mt_job_state check_end_state(lua_State *L, int index) {
  static const char *const names[] = {"done", "stopped", "undoing", "undone", NULL};
  static const mt_job_state states[] = {MT_JOB_DONE, MT_JOB_STOPPED, MT_JOB_UNDOING, MT_JOB_UNDONE};
  return states[luaL_checkoption(L, index, NULL, names)];
}

static int outside_finish(lua_State *L) {
  lua_outside *self = check_outside(L);
  mt_job_state state = check_end_state(L, 2);
  mortise_error err;
  bool failed = !lua_isnoneornil(L, 3);
  if (failed) mt_error_read(L, 3, &err);
  if (is_at_work(self)) mt_outside_finish(&self->job, state, failed ? &err : NULL);
  return 0;
}

/* ---- Waiting for it ------------------------------------------------------------------------- */

typedef struct outside_op {
  mt_op op;
  lua_outside *work;
} outside_op;

/* What is under way is not undone; its document says how far it is. */
static bool cancel_outside_wait(mt_op *op) {
  lua_outside *self = ((outside_op *)op)->work;
  self->runner = NULL;
  self->job.kept = NULL;
  cancel_outside(self);
  return true;
}

static int push_outside_end(lua_State *L, const lua_outside *self) {
  if (self->dropped) mt_error_throw(L, MORTISE_INTERRUPTED, "the lock was released");
  if (self->job.error.code) mt_error_raise(L, &self->job.error);
  push_outside_result(L, &self->job);
  return 1;
}

static int finish_outside_run(lua_State *L, mt_op *op, int index) {
  (void)index;
  const lua_outside *self = ((outside_op *)op)->work;
  return self->job.finished || self->dropped ? push_outside_end(L, self) : 0;
}

static int finish_outside_keep(lua_State *L, mt_op *op, int index) {
  const lua_outside *self = ((outside_op *)op)->work;
  (void)index;
  if (self->dropped) mt_error_throw(L, MORTISE_INTERRUPTED, "the lock was released");
  if (self->job.error.code) mt_error_raise(L, &self->job.error);
  return 0;
}

static const mt_op_type run_type = {cancel_outside_wait, finish_outside_run, NULL, false, NULL};
static int finish_outside_settle(lua_State *L, mt_op *op, int index) {
  (void)L, (void)op, (void)index;
  return 0;
}

static const mt_op_type settle_type = {cancel_outside_wait, finish_outside_settle, NULL, false, NULL};
static const mt_op_type keep_type = {cancel_outside_wait, finish_outside_keep, NULL, false, NULL};

/* Pushes an operation that is to wait for the one at 1. */
static outside_op *new_wait(lua_State *L, const mt_op_type *type) {
  lua_settop(L, 1);
  mt_task_check(L, mt_driver_get(L));
  outside_op *op = mt_lua_op_new(L, sizeof *op, 1, type);
  mt_op_anchor(L, -1, 1, 1);
  op->op.checked = true;
  op->work = check_outside(L);
  if (op->work->runner) luaL_error(L, "the job is in use by another task");
  return op;
}

static void start_outside(lua_State *L, lua_outside *self) {
  mortise_error err;
  if (!self->dependent.slot) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the lock was released");
  if (mt_outside_start(&self->job, &err)) mt_error_raise(L, &err);
  self->started = true;
}

static int outside_run(lua_State *L) {
  outside_op *op = new_wait(L, &run_type);
  lua_outside *self = op->work;
  if (self->job.finished || self->dropped) return push_outside_end(L, self);
  if (is_at_work(self)) return 0;
  if (!self->started) start_outside(L, self);
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

static int outside_settle(lua_State *L) {
  lua_outside *now = check_outside(L);
  if (!now->started || now->job.finished || now->dropped) return 0;
  outside_op *op = new_wait(L, &settle_type);
  lua_outside *self = op->work;
  cancel_outside(self);
  if (is_at_work(self))
    mt_outside_finish(&self->job, self->job.verb == MT_JOB_UNDO ? MT_JOB_UNDOING : MT_JOB_STOPPED, NULL);
  if (self->job.finished || self->dropped) return 0;
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

static void wake_keeper(void *ctx, mt_outside *o) {
  (void)o;
  wake_outside(ctx);
}

static int outside_checkpoint(lua_State *L) {
  outside_op *op = new_wait(L, &keep_type);
  lua_outside *self = op->work;
  mortise_error err;
  if (self->dropped) mt_error_throw(L, MORTISE_INTERRUPTED, "the lock was released");
  if (!is_at_work(self)) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the job is not at work");
  if (mt_outside_stop(&self->job, &err)) mt_error_raise(L, &err);
  self->runner = &op->op;
  mt_op_start(&op->op);
  mt_outside_keep(&self->job, wake_keeper);
  return mt_await(L, 2);
}

/* ---- Making one ----------------------------------------------------------------------------- */

typedef struct outside_options {
  const char *verb, *id, *spec;
  int64_t rate, patience_ms;
  bool standing;
} outside_options;

static const mt_option outside_rows[] = {MT_TEXT_OPTION(outside_options, verb),
                                         MT_TEXT_OPTION(outside_options, id),
                                         MT_TEXT_OPTION(outside_options, spec),
                                         MT_INT_OPTION(outside_options, rate, 1, UINT32_MAX),
                                         MT_INT_OPTION(outside_options, patience_ms, 0, INT32_MAX),
                                         MT_FLAG_OPTION(outside_options, standing),
                                         MT_NO_OPTION};

static mt_job_verb check_outside_verb(lua_State *L, const char *verb) {
  if (verb && !strcmp(verb, "run")) return MT_JOB_RUN;
  if (verb && !strcmp(verb, "resume")) return MT_JOB_RESUME;
  if (verb && !strcmp(verb, "undo")) return MT_JOB_UNDO;
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: verb is run, resume or undo");
}

static lua_outside *new_outside(lua_State *L, mt_driver *d) {
  lua_outside *self = lua_newuserdatauv(L, sizeof *self, 2);
  *self = (lua_outside){.dependent.drop = drop_outside, .driver = d};
  mt_job_record_init(&self->job.record);
  luaL_setmetatable(L, outside_name);
  for (int i = 1; i <= 2; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, -2, i);
  }
  mt_own(d, &self->owned, end_lua_outside);
  return self;
}

static int lock_outside_job(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  outside_options o = {0};
  mt_check_lock(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  mt_options_read(L, 2, outside_rows, &o, "job");
  mt_job_verb verb = check_outside_verb(L, o.verb);
  if (!o.id) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: an id is needed");
  lua_outside *self = new_outside(L, d);
  mt_lock_handle *lock = mt_check_lock(L, 1);
  const mortise_client *client = lock->box->client;
  self->permit = mt_manager_permit(lock->lock);
  self->job = (mt_outside){.ready = on_outside_ready,
                           .done = on_outside_done,
                           .ctx = self,
                           .verb = verb,
                           .standing = o.standing,
                           .store = client->store,
                           .env = mt_env_system(),
                           .permit = &self->permit,
                           .table = client->jobs,
                           .ns = mt_client_options(client)->ns,
                           .id = o.id,
                           .spec = mt_slice_of(o.spec ? o.spec : ""),
                           .wall_ms = mt_clock_wall_ms,
                           .patience_ms = o.patience_ms,
                           .limits.rate = (uint32_t)o.rate,
                           .record = self->job.record};
  mt_depend(&lock->users, &self->dependent);
  return 1;
}

const luaL_Reg mt_outside_lock_methods[] = {{"outside_job", lock_outside_job}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"run", outside_run},           {"told", outside_told},
                                   {"note", outside_note},         {"checkpoint", outside_checkpoint},
                                   {"waits", outside_waits},       {"finish", outside_finish},
                                   {"pause", outside_pause},       {"cancel", outside_cancel},
                                   {"settle", outside_settle},     {"progress", outside_progress},
                                   {"result", outside_result},     {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", collect_outside}, {NULL, NULL}};
const mt_lua_class mt_outside_class = {outside_name, methods, metamethods, NULL, NULL};
