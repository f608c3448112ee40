/* Jobs (core/job/job.h), and what one would do:
 *   lock:job{verb=, id=, spec=, index=, query=, transforms=, field=, from=, to=, merge=, allow_empty=,
 *            page=, in_flight=} -> job, not yet started
 *       verb "run", "resume" or "undo"; `spec` is kept in a new job's document (JSON text, as `query` and
 *       `transforms`). The change is a list of transforms, or renames the tree `from` in `field`; undoing
 *       needs none. A rename checks as lock:rename does, until something of it was journaled.
 *   client:plan_job{index=, ...} -> job    of which nothing is written: `changed` is how many would be
 *   client:jobs_index() -> name            of the index that holds jobs and their journals
 *   core.job_table() -> JSON               that index's settings and mappings
 *   core.job_id_check(id)                  raises invalid_argument
 *   core.change_check{transforms=, field=, from=, to=}    raises what such a change would
 *   core.transforms                        their names
 * A job:
 *   :run() -> result             only once; raises what stopped it
 *   :result() -> result          at any time: lua_rename.c's, and {state=, reason=, attempts=, began=};
 *                                `began`: something may have been changed, by any attempt
 *   :progress() -> changed, total
 *   :cancel()                    makes run() raise interrupted once all requests are answered
 *   :settle()                    waits for the end of an interrupted run
 * Releasing the lock ends it at once, as if its process had died. */
#include "bindings/lua_job.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_client.h"
#include "bindings/lua_error.h"
#include "bindings/lua_lock.h"
#include "bindings/lua_options.h"
#include "bindings/lua_rename.h"
#include "bindings/op.h"
#include "bindings/task.h"

#include "base/clock.h"
#include "job/job.h"
#include "job/rename.h"

#include <string.h>

static const char job_name[] = "mortise.working";

typedef struct working {
  mt_dependent dependent;
  mt_owned owned;
  mt_driver *driver;
  mt_permit permit;
  mt_transforms list; /* of a change that is no rename */
  mt_rename rename;   /* its change is that of a list, too */
  mortise_status (*counted)(mt_change *c, mortise_error *err); /* the rename's own */
  mt_job job;
  mt_op *runner; /* the operation that waits for its end, or NULL */
  uint64_t changed, total;
  bool plan, started, ended;
} working; /* user values: the lock or client, the options that it borrows */

/* ---- Its end -------------------------------------------------------------------------------- */

static void abandon_job(working *self) {
  mt_undepend(&self->dependent);
  if (mt_driver_forked(self->driver)) return;
  if (self->started && !self->ended) {
    if (self->plan)
      mt_change_abandon(&self->rename.change);
    else
      mt_job_abandon(&self->job);
  }
  self->ended = self->started;
}

static void drop_job(mt_dependent *d) {
  working *self = MT_CONTAINER(d, working, dependent);
  mt_op *runner = self->runner;
  abandon_job(self); /* it must not look at a lock that is gone */
  if (runner) mt_op_stop(runner, "the lock was released");
}

static void end_job(mt_owned *owned) {
  working *self = MT_CONTAINER(owned, working, owned);
  abandon_job(self);
  mt_job_deinit(&self->job);
  mt_rename_deinit(&self->rename);
  mt_transforms_deinit(&self->list);
}

static int collect_job(lua_State *L) {
  working *self = lua_touserdata(L, 1);
  if (!mt_driver_forked(self->driver)) mt_owned_end(&self->owned);
  return 0;
}

static void on_end(working *self) {
  self->ended = true;
  mt_undepend(&self->dependent);
  mt_op *runner = self->runner;
  self->runner = NULL;
  if (runner) mt_op_done(runner);
}

static void on_job(void *ctx, mt_job *j) {
  (void)j;
  on_end(ctx);
}

static void on_plan(void *ctx, mt_change *c) {
  (void)c;
  on_end(ctx);
}

static void on_job_progress(void *ctx, mt_job *j, uint64_t changed, uint64_t total) {
  (void)j;
  working *self = ctx;
  self->changed = changed;
  self->total = total;
}

/* ---- Looking at it -------------------------------------------------------------------------- */

static working *check_job_handle(lua_State *L) {
  mt_driver_get(L);
  return luaL_checkudata(L, 1, job_name);
}

static const mt_change_result *job_result_now(const working *self) {
  bool changes = self->plan || (self->job.change && !self->ended);
  return changes ? &self->rename.change.result : &self->job.result;
}

static void push_result(lua_State *L, const working *self) {
  const mt_job_record *r = &self->job.record;
  mt_result_push(L, job_result_now(self));
  lua_pushstring(L, mt_job_state_name(r->state));
  lua_setfield(L, -2, "state");
  lua_pushstring(L, r->reason);
  lua_setfield(L, -2, "reason");
  mt_set_count(L, "attempts", r->attempts);
  lua_pushboolean(L, self->job.began);
  lua_setfield(L, -2, "began");
}

static int job_result(lua_State *L) {
  push_result(L, check_job_handle(L));
  return 1;
}

static int job_progress(lua_State *L) {
  const working *self = check_job_handle(L);
  const mt_job_record *r = &self->job.record;
  bool undoes = self->job.verb == MT_JOB_UNDO;
  lua_pushinteger(L, (lua_Integer)(undoes ? r->counts.restored : self->changed));
  lua_pushinteger(L, (lua_Integer)(undoes ? r->counts.changed : self->total));
  return 2;
}

static void cancel_job(working *self) {
  if (!self->started || self->ended) return;
  if (self->plan)
    mt_change_cancel(&self->rename.change);
  else
    mt_job_cancel(&self->job);
}

static int job_cancel(lua_State *L) {
  cancel_job(check_job_handle(L));
  return 0;
}

/* ---- run ------------------------------------------------------------------------------------ */

typedef struct job_run_op {
  mt_op op;
  working *working;
} job_run_op;

/* What was sent is not undone: `settle` waits for it before the lock is released. */
static bool cancel_job_run(mt_op *op) {
  working *self = ((job_run_op *)op)->working;
  self->runner = NULL;
  cancel_job(self);
  return !self->plan;
}

static int finish_job_run(lua_State *L, mt_op *op, int index) {
  (void)index;
  const working *self = ((job_run_op *)op)->working;
  const mortise_error *e = self->plan ? &self->rename.change.error : &self->job.error;
  if (e->code) mt_error_raise(L, e);
  push_result(L, self);
  return 1;
}

static const mt_op_type job_run_type = {cancel_job_run, finish_job_run, NULL, false, NULL};

static int finish_job_settle(lua_State *L, mt_op *op, int index) {
  (void)L, (void)op, (void)index;
  return 0;
}

static const mt_op_type job_settle_type = {cancel_job_run, finish_job_settle, NULL, false, NULL};

/* The job at 1; raises an error if another task is waiting for it. */
static working *check_idle_job(lua_State *L) {
  working *self = check_job_handle(L);
  if (self->runner) luaL_error(L, "the job is in use by another task");
  return self;
}

static int job_settle(lua_State *L) {
  const working *it = check_idle_job(L);
  if (!it->started || it->ended) return 0;
  lua_settop(L, 1);
  mt_task_check(L, mt_driver_get(L));
  job_run_op *op = mt_lua_op_new(L, sizeof *op, 1, &job_settle_type);
  mt_op_anchor(L, -1, 1, 1);
  op->op.checked = true;
  working *self = check_idle_job(L);
  if (self->ended) return 0;
  op->working = self;
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

static working *check_unstarted_job(lua_State *L) {
  working *self = check_idle_job(L);
  if (self->started) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a job runs once");
  if (!self->dependent.slot) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the lock was released");
  return self;
}

static int job_run(lua_State *L) {
  check_unstarted_job(L);
  lua_settop(L, 1);
  mt_task_check(L, mt_driver_get(L));
  job_run_op *op = mt_lua_op_new(L, sizeof *op, 1, &job_run_type);
  mt_op_anchor(L, -1, 1, 1);
  op->op.checked = true;
  working *self = check_unstarted_job(L);
  op->working = self;
  mortise_error err;
  mortise_status status =
      self->plan ? mt_change_start(&self->rename.change, &err) : mt_job_start(&self->job, &err);
  if (status) mt_error_raise(L, &err);
  self->started = true;
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

/* ---- Making one ----------------------------------------------------------------------------- */

typedef struct job_options {
  const char *verb, *id, *spec, *index, *query, *transforms, *field, *from, *to;
  int64_t page, in_flight;
  bool merge, allow_empty;
} job_options;

static const mt_option rows[] = {MT_TEXT_OPTION(job_options, verb),
                                 MT_TEXT_OPTION(job_options, id),
                                 MT_TEXT_OPTION(job_options, spec),
                                 MT_TEXT_OPTION(job_options, index),
                                 MT_TEXT_OPTION(job_options, query),
                                 MT_TEXT_OPTION(job_options, transforms),
                                 MT_TEXT_OPTION(job_options, field),
                                 MT_TEXT_OPTION(job_options, from),
                                 MT_TEXT_OPTION(job_options, to),
                                 MT_INT_OPTION(job_options, page, 1, MT_SCAN_PAGE_MAX),
                                 MT_INT_OPTION(job_options, in_flight, 1, MT_WRITER_LANES),
                                 MT_FLAG_OPTION(job_options, merge),
                                 MT_FLAG_OPTION(job_options, allow_empty),
                                 MT_NO_OPTION};

/* What an attempt before has moved lies below `to`, and may be all there was below `from`. */
static mortise_status count_resumed(mt_change *c, mortise_error *err) {
  working *self = MT_CONTAINER(c, working, rename.change);
  self->rename.merge |= self->job.began;
  self->rename.allow_empty |= self->job.began;
  return self->counted(c, err);
}

static mortise_status set_change(working *self, const job_options *o, mortise_error *err) {
  mt_change *c = &self->rename.change;
  if (o->transforms) {
    mortise_status status = mt_transforms_parse(&self->list, mt_slice_of(o->transforms), err);
    if (status) return status;
    c->transform = mt_transform_once(&self->list);
    c->until_none = c->matches_on = true;
    c->query = mt_slice_of(o->query);
    return MORTISE_OK;
  }
  mortise_status status = mt_rename_init(&self->rename, mt_slice_of(o->field), mt_slice_of(o->from),
                                         mt_slice_of(o->to), err);
  if (status) return status;
  self->rename.also = mt_slice_of(o->query);
  self->rename.merge = o->merge;
  self->rename.allow_empty = o->allow_empty;
  self->counted = c->counted;
  c->counted = count_resumed;
  return MORTISE_OK;
}

static bool has_change(const job_options *o) {
  return o->transforms || (o->field && o->from && o->to);
}

/* Pushes one that is not set up, for the lock or client at 1 and the options at 2. */
static working *new_job(lua_State *L, mt_driver *d, job_options *o) {
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  mt_options_read(L, 2, rows, o, "job");
  working *self = lua_newuserdatauv(L, sizeof *self, 2);
  *self = (working){.dependent.drop = drop_job, .driver = d};
  mt_job_record_init(&self->job.record);
  luaL_setmetatable(L, job_name);
  for (int i = 1; i <= 2; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, 3, i);
  }
  mt_own(d, &self->owned, end_job);
  return self;
}

/* Unless it undoes, which needs no change. */
static void make_change(lua_State *L, working *self, const job_options *o) {
  mortise_error err;
  if (self->job.verb == MT_JOB_UNDO) return;
  if (!o->index || !has_change(o))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: an index and a change are needed");
  if (set_change(self, o, &err)) mt_error_raise(L, &err);
}

static void set_up_job(working *self, const job_options *o, const mortise_client *client) {
  mt_change *c = &self->rename.change;
  c->store = client->store;
  c->env = mt_env_system();
  c->index = o->index;
  c->options.page = (uint32_t)o->page;
  c->options.in_flight = (uint32_t)o->in_flight;
}

static mt_job_verb check_verb(lua_State *L, const char *name) {
  static const char *const names[] = {"run", "resume", "undo"};
  for (int i = 0; name && i < 3; i++)
    if (!strcmp(name, names[i])) return (mt_job_verb)i;
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: verb is run, resume or undo");
}

static int lock_job(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mt_check_lock(L, 1);
  working *self = new_job(L, d, &o);
  self->job.verb = check_verb(L, o.verb);
  if (!o.id) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: an id is needed");
  make_change(L, self, &o);
  mt_lock_handle *lock = mt_check_lock(L, 1);
  const mortise_client *client = lock->box->client;
  set_up_job(self, &o, client);
  self->permit = mt_manager_permit(lock->lock);
  self->rename.change.permit = &self->permit;
  self->job.done = on_job;
  self->job.ctx = self;
  self->job.store = client->store;
  self->job.env = mt_env_system();
  self->job.permit = &self->permit;
  self->job.table = client->jobs;
  self->job.ns = mt_client_options(client)->ns;
  self->job.id = o.id;
  self->job.spec = mt_slice_of(o.spec);
  self->job.change = self->job.verb == MT_JOB_UNDO ? NULL : &self->rename.change;
  self->job.progress = on_job_progress;
  self->job.wall_ms = mt_clock_wall_ms;
  mt_depend(&lock->users, &self->dependent);
  return 1;
}

static int client_plan_job(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mt_check_client(L, 1);
  working *self = new_job(L, d, &o);
  make_change(L, self, &o);
  mt_box *box = mt_check_client(L, 1);
  self->plan = true;
  set_up_job(self, &o, box->client);
  self->rename.change.plan = true;
  self->rename.change.done = on_plan;
  self->rename.change.ctx = self;
  mt_depend(&box->dependents, &self->dependent);
  return 1;
}

/* ---- Checks, and the index ------------------------------------------------------------------ */

static int client_jobs_index(lua_State *L) {
  lua_pushstring(L, mt_check_client(L, 1)->client->jobs);
  return 1;
}

static int core_job_table(lua_State *L) {
  mt_slice body = mt_job_table();
  lua_pushlstring(L, body.p, body.n);
  return 1;
}

static int core_job_id_check(lua_State *L) {
  mortise_error err;
  if (mt_job_check_id(mt_slice_of(mt_check_string(L, 1)), &err)) mt_error_raise(L, &err);
  return 0;
}

/* By making one, which is thrown away. */
static int core_change_check(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  job_options o = {0};
  mortise_error err;
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_insert(L, 1);
  working *self = new_job(L, d, &o);
  if (!has_change(&o)) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "job: a change is needed");
  if (set_change(self, &o, &err)) mt_error_raise(L, &err);
  return 0;
}

void mt_job_transforms_push(lua_State *L) {
  const char *name;
  lua_newtable(L);
  for (size_t i = 0; (name = mt_transform_name(i)); i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

const luaL_Reg mt_job_methods[] = {{"job", lock_job}, {NULL, NULL}};
const luaL_Reg mt_job_plan_methods[] = {
    {"plan_job", client_plan_job}, {"jobs_index", client_jobs_index}, {NULL, NULL}};
const luaL_Reg mt_job_functions[] = {{"job_table", core_job_table},
                                     {"job_id_check", core_job_id_check},
                                     {"change_check", core_change_check},
                                     {NULL, NULL}};

static const luaL_Reg methods[] = {{"run", job_run},           {"result", job_result},
                                   {"progress", job_progress}, {"cancel", job_cancel},
                                   {"settle", job_settle},     {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", collect_job}, {NULL, NULL}};
const mt_lua_class mt_job_class = {job_name, methods, metamethods, NULL, NULL};
