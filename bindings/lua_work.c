#include "bindings/lua_work.h"

#include "bindings/await.h"
#include "bindings/lua_doc.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/lua_text.h"
#include "bindings/lua_view.h"
#include "bindings/op.h"
#include "bindings/task.h"

#include "job/unit.h"

#include <inttypes.h>

static const char work_name[] = "mortise.work";

/* ---- Its end -------------------------------------------------------------------------------- */

static void abandon_work(mt_lua_work *self) {
  mt_undepend(&self->dependent);
  self->unit = NULL;
  if (mt_driver_forked(self->driver)) return;
  if (self->started && !self->ended) {
    if (self->kind == MT_WORK_JOB)
      mt_job_abandon(&self->job);
    else if (self->kind == MT_WORK_OUTLOOK)
      mt_outlook_deinit(&self->outlook);
    else
      mt_change_abandon(&self->rename.change);
  }
  self->ended = self->started;
}

static void drop_work(mt_dependent *d) {
  mt_lua_work *self = MT_CONTAINER(d, mt_lua_work, dependent);
  mt_op *runner = self->runner;
  self->dropped = self->started && !self->ended;
  abandon_work(self); /* it must not look at a lock that is gone */
  if (runner) mt_op_stop(runner, "the lock was released");
}

static void end_work(mt_owned *owned) {
  mt_lua_work *self = MT_CONTAINER(owned, mt_lua_work, owned);
  abandon_work(self);
  mt_job_deinit(&self->job);
  mt_outlook_deinit(&self->outlook);
  mt_preview_deinit(&self->preview);
  mt_known_deinit(&self->known);
  mt_within_deinit(&self->within);
  mt_rename_deinit(&self->rename);
  mt_rename_deinit(&self->back);
  mt_transforms_deinit(&self->inverse);
  mt_transforms_deinit(&self->list);
}

static int collect_work(lua_State *L) {
  mt_lua_work *self = lua_touserdata(L, 1);
  if (!mt_driver_forked(self->driver)) mt_owned_end(&self->owned);
  return 0;
}

static void wake_runner(mt_lua_work *self) {
  mt_op *runner = self->runner;
  self->runner = NULL;
  if (runner) mt_op_done(runner);
}

static void on_work_end(mt_lua_work *self) {
  self->ended = true;
  self->unit = NULL;
  mt_undepend(&self->dependent);
  wake_runner(self);
}

static void on_job_end(void *ctx, mt_job *j) {
  (void)j;
  on_work_end(ctx);
}

static void on_outlook_end(void *ctx, mt_outlook *o) {
  (void)o;
  on_work_end(ctx);
}

static void on_change_end(void *ctx, mt_change *c) {
  (void)c;
  on_work_end(ctx);
}

static void note_work_progress(mt_lua_work *self, uint64_t changed, uint64_t total) {
  self->changed = changed;
  self->total = total;
}

static void on_job_progress(void *ctx, mt_job *j, uint64_t changed, uint64_t total) {
  (void)j;
  note_work_progress(ctx, changed, total);
}

static void on_work_progress(void *ctx, mt_change *c, uint64_t changed, uint64_t total) {
  (void)c;
  note_work_progress(ctx, changed, total);
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

static void push_change_counts(lua_State *L, const mt_change_result *r) {
  lua_createtable(L, 0, 14);
  mt_set_count(L, "matched", r->matched);
  mt_set_count(L, "changed", r->changed);
  mt_set_count(L, "deleted", r->deleted);
  mt_set_count(L, "unchanged", r->unchanged);
  mt_set_count(L, "redone", r->redone);
  mt_set_count(L, "conflicts", r->conflicts);
  mt_set_count(L, "rejected", r->rejected);
  mt_set_count(L, "unknown", r->unknown);
  mt_set_count(L, "kept", r->left);
  mt_set_count(L, "beside", r->beside);
  mt_set_count(L, "refused", r->refused);
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

static void push_strategy(lua_State *L, const char *strategy, const char *why) {
  lua_pushstring(L, strategy);
  lua_setfield(L, -2, "strategy");
  lua_pushstring(L, why);
  lua_setfield(L, -2, "strategy_reason");
}

static void push_job_state(lua_State *L, const mt_job *j) {
  lua_pushstring(L, mt_job_state_name(j->record.state));
  lua_setfield(L, -2, "state");
  lua_pushstring(L, j->record.reason);
  lua_setfield(L, -2, "reason");
  lua_pushstring(L, j->record.halted);
  lua_setfield(L, -2, "halted");
  if (j->record.strategy[0]) push_strategy(L, j->record.strategy, j->record.strategy_why);
  mt_set_count(L, "attempts", j->record.attempts);
  lua_pushboolean(L, j->began);
  lua_setfield(L, -2, "began");
  lua_pushboolean(L, j->yielded);
  lua_setfield(L, -2, "yielded");
}

static void push_preview(lua_State *L, const mt_preview *p) {
  mt_set_count(L, "bytes", p->bytes);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '[');
  luaL_addlstring(&b, p->samples.p ? p->samples.p : "", p->samples.n);
  luaL_addchar(&b, ']');
  luaL_pushresult(&b);
  lua_setfield(L, -2, "samples");
  if (!p->identifies) return;
  char identity[33];
  snprintf(identity, sizeof identity, "%016" PRIx64 "%016" PRIx64, p->identity[0], p->identity[1]);
  lua_pushstring(L, identity);
  lua_setfield(L, -2, "identity");
}

static void push_foretold(lua_State *L, const mt_lua_work *self) {
  const mt_job *j = &self->job;
  push_preview(L, &self->preview);
  if (j->strategy == MT_STRATEGY_CLIENT) return;
  mt_choice c =
      mt_strategy_foresee(j->strategy, j->list, &self->rename.change, self->preview.bytes);
  push_strategy(L, mt_strategy_name(c.strategy), c.why);
  lua_pushboolean(L, c.refused);
  lua_setfield(L, -2, "strategy_refused");
}

/* A job has its change's as its own once it has ended, and where it undoes there is no change. */
static const mt_change_result *work_result_now(const mt_lua_work *self) {
  bool is_job = self->kind == MT_WORK_JOB;
  bool own = is_job && (self->ended || !self->job.change);
  return own ? &self->job.result : &self->rename.change.result;
}

static void push_outlook(lua_State *L, const mt_outlook *o) {
  lua_createtable(L, 0, 2);
  mt_set_count(L, "changed", o->result.changed);
  mt_set_count(L, "kept", o->result.conflicts);
}

static void push_work_result(lua_State *L, const mt_lua_work *self) {
  if (self->kind == MT_WORK_OUTLOOK) {
    push_outlook(L, &self->outlook);
    return;
  }
  push_change_counts(L, work_result_now(self));
  if (self->kind == MT_WORK_JOB) push_job_state(L, &self->job);
  if (self->kind == MT_WORK_PLAN) push_foretold(L, self);
}

static mt_lua_work *check_work(lua_State *L) {
  mt_driver_get(L);
  return luaL_checkudata(L, 1, work_name);
}

static int work_result(lua_State *L) {
  push_work_result(L, check_work(L));
  return 1;
}

static void push_limit(lua_State *L, uint32_t limit) {
  if (limit)
    lua_pushinteger(L, limit);
  else
    lua_pushnil(L);
}

static int work_progress(lua_State *L) {
  mt_lua_work *self = check_work(L);
  const mt_job_record *r = &self->job.record;
  bool undoes = self->kind == MT_WORK_JOB && self->job.verb == MT_JOB_UNDO;
  lua_pushinteger(L, (lua_Integer)(undoes ? r->counts.restored : self->changed));
  lua_pushinteger(L, (lua_Integer)(undoes ? r->counts.changed : self->total));
  lua_pushinteger(L, (lua_Integer)work_result_now(self)->conflicts);
  lua_pushinteger(L, (lua_Integer)work_result_now(self)->rejected);
  push_limit(L, undoes ? 0 : self->job.limits.rate);
  const char *waits = self->kind == MT_WORK_JOB ? mt_job_waits(&self->job) : "";
  if (*waits)
    lua_pushstring(L, waits);
  else
    lua_pushnil(L);
  return 6;
}

static void cancel_work(mt_lua_work *self) {
  if (!self->started || self->ended) return;
  if (self->kind == MT_WORK_JOB)
    mt_job_cancel(&self->job);
  else if (self->kind == MT_WORK_OUTLOOK)
    abandon_work(self); /* it only reads */
  else
    mt_change_cancel(&self->rename.change);
}

static int work_counts(lua_State *L) {
  const mt_lua_work *self = check_work(L);
  if (!self->job.counted) return 0;
  lua_pushinteger(L, (lua_Integer)self->rename.change.result.matched);
  lua_pushinteger(L, (lua_Integer)self->rename.change.result.beside);
  return 2;
}

static int work_pause(lua_State *L) {
  mt_lua_work *self = check_work(L);
  const char *why = lua_isnoneornil(L, 2) ? NULL : mt_check_string(L, 2);
  if (self->kind == MT_WORK_JOB && self->started && !self->ended) mt_job_pause(&self->job, why);
  return 0;
}

static int work_yield(lua_State *L) {
  mt_lua_work *self = check_work(L);
  if (self->kind == MT_WORK_JOB && self->started && !self->ended) mt_job_yield(&self->job);
  return 0;
}

static int work_cancel(lua_State *L) {
  cancel_work(check_work(L));
  return 0;
}

/* ---- run ------------------------------------------------------------------------------------ */

typedef struct work_run_op {
  mt_op op;
  mt_lua_work *work;
} work_run_op;

/* What was sent is not undone: `settle` waits for it before the lock is released. */
static bool cancel_work_run(mt_op *op) {
  mt_lua_work *self = ((work_run_op *)op)->work;
  self->runner = NULL;
  cancel_work(self);
  return self->kind == MT_WORK_JOB || mt_change_applied(&self->rename.change);
}

static const mortise_error *error_of_work(const mt_lua_work *self) {
  if (self->kind == MT_WORK_JOB) return &self->job.error;
  return self->kind == MT_WORK_OUTLOOK ? &self->outlook.error : &self->rename.change.error;
}

static int push_work_end(lua_State *L, const mt_lua_work *self) {
  if (self->dropped) mt_error_throw(L, MORTISE_INTERRUPTED, "the lock was released");
  const mortise_error *e = error_of_work(self);
  if (e->code) mt_error_raise(L, e);
  push_work_result(L, self);
  return 1;
}

static int finish_work_run(lua_State *L, mt_op *op, int index) {
  (void)index;
  const mt_lua_work *self = ((work_run_op *)op)->work;
  return self->ended ? push_work_end(L, self) : 0;
}

static const mt_op_type work_run_type = {cancel_work_run, finish_work_run, NULL, false, NULL};

static int finish_work_settle(lua_State *L, mt_op *op, int index) {
  (void)L, (void)op, (void)index;
  return 0;
}

static const mt_op_type work_settle_type = {cancel_work_run, finish_work_settle, NULL, false, NULL};

/* The one at 1; raises an error if another task is waiting for it. */
static mt_lua_work *check_idle_work(lua_State *L) {
  mt_lua_work *self = check_work(L);
  if (self->runner) luaL_error(L, "the change is in use by another task");
  return self;
}

static bool is_by_function(const mt_lua_work *self) {
  return self->rename.change.offered != NULL;
}

static void end_unit(mt_lua_work *self) {
  mt_unit *unit = self->unit;
  self->unit = NULL;
  if (unit) mt_change_page_done(&self->rename.change, unit);
}

static int work_settle(lua_State *L) {
  mt_lua_work *it = check_idle_work(L);
  if (!it->started || it->ended) return 0;
  if (is_by_function(it)) { /* it would wait for the function */
    cancel_work(it);
    end_unit(it);
  }
  lua_settop(L, 1);
  mt_task_check(L, mt_driver_get(L));
  work_run_op *op = mt_lua_op_new(L, sizeof *op, 1, &work_settle_type);
  mt_op_anchor(L, -1, 1, 1);
  op->op.checked = true;
  mt_lua_work *self = check_idle_work(L);
  if (self->ended) return 0;
  op->work = self;
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

/* To be run now; one by a function also after each page. */
static mt_lua_work *check_runnable_work(lua_State *L) {
  mt_lua_work *self = check_idle_work(L);
  if (self->started && is_by_function(self)) return self;
  if (self->started) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a change runs once");
  if (!self->dependent.slot) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the lock was released");
  return self;
}

static mortise_status start_work(mt_lua_work *self, mortise_error *err) {
  if (self->started) return MORTISE_OK;
  if (self->kind == MT_WORK_JOB) return mt_job_start(&self->job, err);
  if (self->kind == MT_WORK_OUTLOOK) {
    mt_outlook_start(&self->outlook);
    return MORTISE_OK;
  }
  return mt_change_start(&self->rename.change, err);
}

/* Does a page wait for the function? */
static bool has_page(mt_lua_work *self) {
  if (self->unit) return true;
  if (self->started && !self->ended) self->unit = mt_change_page(&self->rename.change);
  self->asked = false;
  return self->unit != NULL;
}

static int work_run(lua_State *L) {
  check_runnable_work(L);
  lua_settop(L, 1);
  mt_task_check(L, mt_driver_get(L));
  work_run_op *op = mt_lua_op_new(L, sizeof *op, 1, &work_run_type);
  mt_op_anchor(L, -1, 1, 1);
  op->op.checked = true;
  mt_lua_work *self = check_runnable_work(L);
  if (self->ended) return push_work_end(L, self);
  if (has_page(self)) return 0;
  op->work = self;
  mortise_error err;
  if (start_work(self, &err)) mt_error_raise(L, &err);
  self->started = true;
  self->runner = &op->op;
  mt_op_start(&op->op);
  return mt_await(L, 2);
}

/* ---- What a function makes of a page --------------------------------------------------------- */

/* Pushes what keeps the page's documents, made at the first of them. */
static mt_page_box *push_page_box(lua_State *L) {
  if (lua_getiuservalue(L, 1, 3) == LUA_TNIL) {
    lua_pop(L, 1);
    mt_page *none = NULL;
    mt_page_push(L, &none);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, 3);
  }
  return lua_touserdata(L, -1);
}

/* The page's documents raise an error from now on. */
static void close_page_box(lua_State *L, mt_page_box *box) {
  box->closed = true;
  if (!box->pins) mt_owned_end(&box->owned);
  lua_pushnil(L);
  lua_setiuservalue(L, 1, 3);
}

static int work_doc(lua_State *L) {
  check_work(L);
  lua_settop(L, 1);
  mt_page_box *box = push_page_box(L);
  mt_lua_work *self = check_work(L);
  const mt_doc *doc = self->unit ? mt_unit_next(self->unit) : NULL;
  if (!doc) {
    end_unit(self);
    close_page_box(L, box);
    return 0;
  }
  self->asked = true;
  if (!box->page) box->page = mt_page_share(self->unit->page);
  mt_doc_push(L, 2, doc);
  return 1;
}

static int work_put(lua_State *L) {
  static const char *const names[] = {"keep", "change", "delete", "reject", NULL};
  static const mt_transformed hows[] = {MT_UNCHANGED, MT_CHANGED, MT_DELETED, MT_ASIDE};
  check_work(L);
  mt_transformed how = hows[luaL_checkoption(L, 2, NULL, names)];
  bool has_text = how == MT_CHANGED || how == MT_ASIDE;
  mt_slice text = has_text ? mt_check_slice(L, 3) : (mt_slice){NULL, 0};
  mortise_error err;
  mt_error_clear(&err);
  if (how == MT_ASIDE) mt_error_set(&err, MORTISE_REJECTED, "%.400s", text.p);
  mt_lua_work *self = check_work(L);
  if (self->unit && self->asked) mt_unit_put(self->unit, how, text, &err);
  self->asked = false;
  return 0;
}

static int work_fail(lua_State *L) {
  mortise_error err;
  luaL_checkany(L, 2);
  mt_error_read(L, 2, &err);
  mt_lua_work *self = check_work(L);
  if (!self->started || self->ended) return 0;
  if (self->kind == MT_WORK_JOB)
    mt_job_stop(&self->job, &err);
  else
    mt_change_stop(&self->rename.change, &err);
  end_unit(self);
  return 0;
}

static void on_page_offered(mt_change *c) {
  wake_runner(MT_CONTAINER(c, mt_lua_work, rename.change));
}

void mt_work_by_function(mt_lua_work *self) {
  mt_change *c = &self->rename.change;
  c->offered = on_page_offered;
  if (self->kind == MT_WORK_JOB) c->known = &self->known;
}

/* ---- Making one ----------------------------------------------------------------------------- */

mt_lua_work *mt_work_new(lua_State *L, mt_driver *d, mt_work_kind kind) {
  mt_lua_work *self = lua_newuserdatauv(L, sizeof *self, 3);
  *self = (mt_lua_work){.kind = kind, .dependent.drop = drop_work, .driver = d};
  mt_job_record_init(&self->job.record);
  mt_preview_init(&self->preview);
  luaL_setmetatable(L, work_name);
  for (int i = 1; i <= 2; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, -2, i);
  }
  mt_own(d, &self->owned, end_work);
  return self;
}

void mt_work_ready(mt_lua_work *self, mt_dependent **of) {
  mt_change *c = &self->rename.change;
  if (self->kind == MT_WORK_JOB) {
    self->job.done = on_job_end;
    self->job.progress = on_job_progress;
    self->job.ctx = self;
  } else if (self->kind == MT_WORK_OUTLOOK) {
    self->outlook.done = on_outlook_end;
    self->outlook.ctx = self;
  } else {
    c->done = on_change_end;
    c->progress = on_work_progress;
    c->ctx = self;
  }
  mt_depend(of, &self->dependent);
}

static const luaL_Reg methods[] = {
    {"run", work_run},       {"result", work_result}, {"progress", work_progress},
    {"counts", work_counts}, {"pause", work_pause},   {"cancel", work_cancel},
    {"yield", work_yield},   {"settle", work_settle}, {"doc", work_doc},
    {"put", work_put},       {"fail", work_fail},     {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", collect_work}, {NULL, NULL}};
const mt_lua_class mt_work_class = {work_name, methods, metamethods, NULL, NULL};
