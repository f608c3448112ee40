/* Renaming a tree of documents, in C over their bytes:
 *   lock:rename{index=, field=, from=, to=, query=, page=, slices=, in_flight=, passes=, bytes=,
 *               strength=, stamp_field=, merge=, allow_empty=}
 *       -> rename, not yet started
 * `query` is another query (JSON text) that documents must match. If there are documents below
 * `to`, it raises conflict without `merge`; if there are none below `from`, not_found without
 * `allow_empty`. A rename:
 *   :run() -> result
 *       only once; raises what stopped it, or rejected or conflict if some documents could
 *       not be changed. Running another one finishes what this one left.
 *   :result() -> result
 *       at any time: {matched=, changed=, unchanged=, redone=, conflicts=, rejected=, unknown=,
 *       left=, beside=, passes=, bytes=, round_trips=, duration_ms=, rejects={{id=, type=, reason=}, ...}}
 *   :progress() -> changed, total      for other tasks while it runs
 *   :cancel()             makes run() raise interrupted once all requests are answered
 *   :settle()             waits for the requests of an interrupted run
 * Releasing the lock ends it. */
#include "bindings/lua_rename.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_client.h"
#include "bindings/lua_error.h"
#include "bindings/lua_lock.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"
#include "bindings/task.h"

#include "job/rename.h"

#include <string.h>

static const char rename_name[] = "mortise.rename";

typedef struct moving {
  mt_dependent dependent;
  mt_owned owned;
  mt_driver *driver;
  mt_permit permit;
  mt_rename rename;
  mt_op *runner; /* the operation that waits for its end, or NULL */
  uint64_t changed, total;
  bool started, ended;
} moving; /* user values: the lock, three strings it borrows */

/* ---- Its end -------------------------------------------------------------------------------- */

static void abandon_rename(moving *self) {
  mt_undepend(&self->dependent);
  if (mt_driver_forked(self->driver)) return;
  if (self->started && !self->ended) mt_change_abandon(&self->rename.change);
  self->ended = self->started;
}

static void drop_rename(mt_dependent *d) {
  moving *self = MT_CONTAINER(d, moving, dependent);
  if (self->runner)
    mt_op_stop(self->runner, "the lock was released");
  else
    abandon_rename(self);
}

static void end_rename(mt_owned *owned) {
  moving *self = MT_CONTAINER(owned, moving, owned);
  abandon_rename(self);
  mt_rename_deinit(&self->rename);
}

static int collect_rename(lua_State *L) {
  moving *self = lua_touserdata(L, 1);
  if (!mt_driver_forked(self->driver)) mt_owned_end(&self->owned);
  return 0;
}

static void on_rename_done(void *ctx, mt_change *change) {
  (void)change;
  moving *self = ctx;
  self->ended = true;
  mt_undepend(&self->dependent);
  mt_op *runner = self->runner;
  self->runner = NULL;
  if (runner) mt_op_done(runner);
}

static void on_rename_progress(void *ctx, mt_change *change, uint64_t changed, uint64_t total) {
  (void)change;
  moving *self = ctx;
  self->changed = changed;
  self->total = total;
}

/* ---- The result ----------------------------------------------------------------------------- */

static void push_reject(lua_State *L, const mt_reject *r) {
  lua_createtable(L, 0, 3);
  lua_pushstring(L, r->id);
  lua_setfield(L, -2, "id");
  lua_pushstring(L, r->type);
  lua_setfield(L, -2, "type");
  lua_pushstring(L, r->reason);
  lua_setfield(L, -2, "reason");
}

void mt_result_push(lua_State *L, const mt_change_result *r) {
  lua_createtable(L, 0, 14);
  mt_set_count(L, "matched", r->matched);
  mt_set_count(L, "changed", r->changed);
  mt_set_count(L, "unchanged", r->unchanged);
  mt_set_count(L, "redone", r->redone);
  mt_set_count(L, "conflicts", r->conflicts);
  mt_set_count(L, "rejected", r->rejected);
  mt_set_count(L, "unknown", r->unknown);
  mt_set_count(L, "left", r->left);
  mt_set_count(L, "beside", r->beside);
  mt_set_count(L, "passes", r->passes);
  mt_set_count(L, "bytes", r->bytes);
  mt_set_count(L, "round_trips", r->round_trips);
  mt_set_integer(L, "duration_ms", r->duration_ms);
  size_t n = r->rejected < MT_REJECTS_SHOWN ? (size_t)r->rejected : (size_t)MT_REJECTS_SHOWN;
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    push_reject(L, &r->rejects[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "rejects");
}

static moving *check_rename(lua_State *L) {
  mt_driver_get(L);
  return luaL_checkudata(L, 1, rename_name);
}

static int rename_result(lua_State *L) {
  mt_result_push(L, &check_rename(L)->rename.change.result);
  return 1;
}

static int rename_progress(lua_State *L) {
  const moving *self = check_rename(L);
  lua_pushinteger(L, (lua_Integer)self->changed);
  lua_pushinteger(L, (lua_Integer)self->total);
  return 2;
}

static int rename_cancel(lua_State *L) {
  moving *self = check_rename(L);
  if (self->started && !self->ended) mt_change_cancel(&self->rename.change);
  return 0;
}

/* ---- run ------------------------------------------------------------------------------------ */

typedef struct rename_run_op {
  mt_op op;
  moving *moving;
} rename_run_op;

/* What was sent is not undone: `settle` waits for it before the lock is released. */
static bool cancel_rename_run(mt_op *op) {
  moving *self = ((rename_run_op *)op)->moving;
  self->runner = NULL;
  if (!self->ended) mt_change_cancel(&self->rename.change);
  return mt_change_applied(&self->rename.change);
}

static int finish_rename_run(lua_State *L, mt_op *op, int index) {
  (void)index;
  const mt_change *change = &((rename_run_op *)op)->moving->rename.change;
  if (change->error.code) mt_error_raise(L, &change->error);
  mt_result_push(L, &change->result);
  return 1;
}

static const mt_op_type rename_run_type = {cancel_rename_run, finish_rename_run, NULL, false, NULL};

static int finish_rename_settle(lua_State *L, mt_op *op, int index) {
  (void)L, (void)op, (void)index;
  return 0;
}

static const mt_op_type rename_settle_type = {cancel_rename_run, finish_rename_settle, NULL, false,
                                              NULL};

/* The rename at 1; raises an error if another task is waiting for it. */
static moving *check_idle_rename(lua_State *L) {
  moving *self = check_rename(L);
  if (self->runner) luaL_error(L, "the rename is in use by another task");
  return self;
}

static int rename_settle(lua_State *L) {
  const moving *it = check_idle_rename(L);
  if (!it->started || it->ended) return 0;
  lua_settop(L, 1);
  mt_task_check(L, mt_driver_get(L));
  rename_run_op *op = mt_lua_op_new(L, sizeof *op, 1, &rename_settle_type);
  mt_op_anchor(L, -1, 1, 1);
  op->op.checked = true;
  moving *self = check_idle_rename(L);
  if (self->ended) return 0;
  op->moving = self;
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

static moving *check_unstarted_rename(lua_State *L) {
  moving *self = check_idle_rename(L);
  if (self->started) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a rename runs once");
  if (!self->dependent.slot) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the lock was released");
  return self;
}

static int rename_run(lua_State *L) {
  check_unstarted_rename(L);
  lua_settop(L, 1);
  mt_task_check(L, mt_driver_get(L));
  rename_run_op *op = mt_lua_op_new(L, sizeof *op, 1, &rename_run_type);
  mt_op_anchor(L, -1, 1, 1);
  op->op.checked = true;
  moving *self = check_unstarted_rename(L);
  op->moving = self;
  mortise_error err;
  if (mt_change_start(&self->rename.change, &err)) mt_error_raise(L, &err);
  self->started = true;
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

/* ---- rename --------------------------------------------------------------------------------- */

typedef struct rename_options {
  const char *index, *field, *from, *to, *query, *strength, *stamp_field;
  int64_t page, slices, in_flight, passes, bytes;
  bool merge, allow_empty;
} rename_options;

static const mt_option rows[] = {MT_TEXT_OPTION(rename_options, index),
                                 MT_TEXT_OPTION(rename_options, field),
                                 MT_TEXT_OPTION(rename_options, from),
                                 MT_TEXT_OPTION(rename_options, to),
                                 MT_TEXT_OPTION(rename_options, query),
                                 MT_TEXT_OPTION(rename_options, strength),
                                 MT_TEXT_OPTION(rename_options, stamp_field),
                                 MT_INT_OPTION(rename_options, page, 1, MT_SCAN_PAGE_MAX),
                                 MT_INT_OPTION(rename_options, slices, 1, 1024),
                                 MT_INT_OPTION(rename_options, in_flight, 1, MT_WRITER_LANES),
                                 MT_INT_OPTION(rename_options, passes, 1, 1000),
                                 MT_INT_OPTION(rename_options, bytes, 1, 1 << 30),
                                 MT_FLAG_OPTION(rename_options, merge),
                                 MT_FLAG_OPTION(rename_options, allow_empty),
                                 MT_NO_OPTION};

static rename_options read_rename_options(lua_State *L, int index) {
  rename_options o = {0};
  mt_options_read(L, index, rows, &o, "rename");
  if (!o.index || !o.field || !o.from || !o.to)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "rename: index, field, from and to are needed");
  return o;
}

static void set_up_rename(moving *self, const mt_lock_handle *lock, const rename_options *o) {
  mt_change *c = &self->rename.change;
  c->done = on_rename_done;
  c->progress = on_rename_progress;
  c->ctx = self;
  c->store = lock->box->client->store;
  c->env = mt_env_system();
  self->permit = mt_manager_permit(lock->lock);
  c->permit = &self->permit;
  c->options.page = (uint32_t)o->page;
  c->options.slices = (uint32_t)o->slices;
  c->options.in_flight = (uint32_t)o->in_flight;
  c->options.passes = (uint32_t)o->passes;
  c->options.bytes = (size_t)o->bytes;
  if (o->strength && !strcmp(o->strength, "stamp")) c->options.strength = MT_STRENGTH_STAMP;
}

static int lock_rename(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  mt_check_lock(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  const rename_options o = read_rename_options(L, 2);
  moving *self = lua_newuserdatauv(L, sizeof *self, 4);
  *self = (moving){.dependent.drop = drop_rename, .driver = d};
  luaL_setmetatable(L, rename_name);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 3, 1);
  const char *index = lua_pushstring(L, o.index); /* the copied options end with this call */
  lua_setiuservalue(L, 3, 2);
  const char *query = lua_pushstring(L, o.query);
  lua_setiuservalue(L, 3, 3);
  const char *stamp_field = lua_pushstring(L, o.stamp_field);
  lua_setiuservalue(L, 3, 4);
  mortise_error err;
  mt_lock_handle *lock = mt_check_lock(L, 1);
  if (mt_rename_init(&self->rename, mt_slice_of(o.field), mt_slice_of(o.from), mt_slice_of(o.to),
                     &err))
    mt_error_raise(L, &err);
  mt_own(d, &self->owned, end_rename);
  set_up_rename(self, lock, &o);
  self->rename.also = mt_slice_of(query);
  self->rename.merge = o.merge;
  self->rename.allow_empty = o.allow_empty;
  self->rename.change.index = index;
  self->rename.change.options.stamp_field = stamp_field;
  mt_depend(&lock->users, &self->dependent);
  return 1;
}

const luaL_Reg mt_rename_methods[] = {{"rename", lock_rename}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"run", rename_run},           {"result", rename_result},
                                   {"progress", rename_progress}, {"cancel", rename_cancel},
                                   {"settle", rename_settle},     {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", collect_rename}, {NULL, NULL}};
const mt_lua_class mt_rename_class = {rename_name, methods, metamethods, NULL, NULL};
