/* Locks:
 *   client:acquire(kind, index, paths, {mode=, wait_ms=, adopts=}) -> lock
 *       kind "tree" (paths), "global", "document" (index, ids) or "named" (category, names);
 *       `index` nil if it does not apply; `paths` an array; mode "exclusive", "shared" or "SIX"
 *   client:acquire_paths({{path, mode}, ...}, {wait_ms=, adopts=}) -> lock   any set of modes
 *       adopts: in a job's session (lua_session.c), first takes over what the job's dead sessions
 *       hold there
 *   core.lock_set(kind, index, paths) -> {{path=, mode="X"}, ...}    what an exclusive one takes
 *   client:holds(lock) -> boolean       does it belong to this client, and is it not released?
 * They wait (wait_ms, or the client's default; 0 tries once) and raise lock_timeout, deadlock, ...
 * with `blockers`. A lock (closable: released on every way out):
 *   :check()                     raises lock_lost past its deadline; no I/O
 *   :remaining() -> seconds      a float, 0 when it is lost
 *   :convert(mode, {wait_ms=})   all its paths, in place; stays as it was if it raises an error
 *   :release()                   raises lock_lost if it was lost meanwhile; may be called again
 *   .fence                       integer
 *   .epoch                       of its table, a string
 *   .paths, .modes               arrays of what was requested
 *   .released                    boolean
 * and the methods in lua_writer.c and lua_job.c. Using a released lock is an error. A lock that
 * is collected is released in the background.
 *
 * A lost lease is raised, once for each lock, at the next operation of the task that holds the lock
 * or of one of its descendants, or while one of them computes; whatever they are waiting for then
 * fails with it at once. */
#include "bindings/lua_lock.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/lua_session.h"
#include "bindings/op.h"
#include "bindings/task.h"

#include "lock/path.h"
#include "lock/plan.h"

#include <string.h>

static const char lock_name[] = "mortise.lock";

/* ---- The handle ----------------------------------------------------------------------------- */

static void drop_lock(mt_dependent *self) {
  mt_lock_handle *h = MT_CONTAINER(self, mt_lock_handle, dependent);
  mt_drop_all(&h->users);
  h->lock = NULL; /* the client releases it */
}

mt_lock_handle *mt_check_lock(lua_State *L, int index) {
  mt_lock_handle *h = luaL_checkudata(L, index, lock_name);
  mt_driver_get(L);
  if (!h->lock) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the lock was released");
  return h;
}

/* Releases the lock in the background. */
static void give_back(mt_lock *lock) {
  mt_manager *m = mt_lock_manager(lock);
  mt_release r = {.lock = lock};
  mt_manager_release(m, &r);
  mt_manager_release_forget(m, &r);
}

static int collect_lock(lua_State *L) {
  mt_lock_handle *h = lua_touserdata(L, 1);
  if (h->lock && mt_driver_forked(h->box->driver)) return 0;
  mt_drop_all(&h->users);
  mt_undepend(&h->dependent);
  if (h->lock && !h->dependent.of->guards) give_back(h->lock);
  h->lock = NULL;
  return 0;
}

bool mt_lock_is_lost(const mt_lock_handle *h, mortise_error *err) {
  return h->lock && mt_lock_check(h->lock, err);
}

/* ---- acquire -------------------------------------------------------------------------------- */

typedef struct acquire_op {
  mt_op op;
  mt_dependent dependent;
  mt_manager *manager;
  mt_acquire a;
  mortise_blockers blockers;
  mt_wants wants;
} acquire_op; /* anchors: the client or session, what the wants borrow, the handle */

static bool cancel_acquire(mt_op *op) {
  acquire_op *self = (acquire_op *)op;
  mt_undepend(&self->dependent);
  mt_manager_cancel(self->manager, &self->a);
  return false; /* a late grant is given back */
}

static void deinit_acquire(mt_op *op) {
  acquire_op *self = (acquire_op *)op;
  mt_undepend(&self->dependent);
  if (self->a.lock && !self->a.adopts) give_back(self->a.lock);
  self->a.lock = NULL;
  mt_wants_deinit(&self->wants);
}

static void drop_acquire(mt_dependent *d) {
  acquire_op *self = MT_CONTAINER(d, acquire_op, dependent);
  mt_op_stop(&self->op, "the client was closed");
  self->op.stop = "the client was closed";
  self->a.lock = NULL;
}

/* The targets of the lock whose handle is at `handle`; none if it was released meanwhile. */
static size_t targets(lua_State *L, int handle, const mt_want **wants) {
  const mt_lock_handle *h = lua_touserdata(L, handle);
  return h->lock ? mt_lock_targets(h->lock, wants) : 0;
}

static void push_targets(lua_State *L, int handle) {
  const mt_want *wants;
  int n = (int)targets(L, handle, &wants);
  lua_createtable(L, n, 0);
  lua_createtable(L, n, 0);
  for (size_t i = 0; i < targets(L, handle, &wants); i++) {
    mt_mode mode = wants[i].mode;
    lua_pushlstring(L, wants[i].path.p, wants[i].path.n);
    lua_rawseti(L, -3, (lua_Integer)i + 1);
    lua_pushstring(L, mt_mode_name(mode));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setiuservalue(L, handle, 3);
  lua_setiuservalue(L, handle, 2);
}

static int finish_acquire(lua_State *L, mt_op *op, int index) {
  acquire_op *self = (acquire_op *)op;
  mt_undepend(&self->dependent);
  if (self->a.error.code) mt_error_raise_blocked(L, &self->a.error, &self->blockers);
  lua_getiuservalue(L, index, 3);
  int handle = lua_gettop(L);
  mt_lock_handle *h = lua_touserdata(L, handle);
  h->lock = self->a.lock;
  self->a.lock = NULL;
  h->fence = mt_lock_fence(h->lock);
  mt_depend(&h->box->locks, &h->dependent);
  push_targets(L, handle);
  return 1;
}

static const mt_op_type acquire_type = {cancel_acquire, finish_acquire, deinit_acquire, false,
                                        NULL};

static void on_acquired(void *ctx, mt_acquire *a) {
  (void)a;
  mt_op_done(ctx);
}

typedef struct lock_options {
  const char *mode;
  int64_t wait_ms;
  bool adopts;
} lock_options;

static const mt_option rows[] = {MT_INT_OPTION(lock_options, wait_ms, 0, MORTISE_TIME_MAX_MS),
                                 MT_TEXT_OPTION(lock_options, mode),
                                 MT_FLAG_OPTION(lock_options, adopts), MT_NO_OPTION};

/* NULL: exclusive. */
static mortise_lock_mode check_mode(lua_State *L, const char *name) {
  static const char *const names[] = {"exclusive", "shared", "SIX"};
  if (!name) return MORTISE_EXCLUSIVE;
  for (int i = 0; i < 3; i++)
    if (!strcmp(name, names[i])) return (mortise_lock_mode)i;
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a mode is exclusive, shared or SIX, not %.40s",
                 name);
}

/* Pushes the operation and then the handle; `borrowed` is the index of what they borrow from. */
static acquire_op *new_acquire(lua_State *L, int borrowed) {
  acquire_op *self = mt_lua_op_new(L, sizeof *self, 3, &acquire_type);
  int op = lua_gettop(L);
  self->dependent.drop = drop_acquire;
  mt_lock_handle *h = lua_newuserdatauv(L, sizeof *h, 3);
  *h = (mt_lock_handle){.dependent.drop = drop_lock};
  h->task = mt_driver_task(self->op.driver)->id;
  luaL_setmetatable(L, lock_name);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  mt_op_anchor(L, op, 1, 1);
  mt_op_anchor(L, op, 2, borrowed);
  mt_op_anchor(L, op, 3, -1);
  return self;
}

static int start_acquire(lua_State *L, acquire_op *self, const mt_want *wants, size_t n,
                         const lock_options *o) {
  bool alone = mt_alone(L, self->op.driver);
  mt_task_check(L, self->op.driver);
  mt_lock_handle *h = lua_touserdata(L, -1);
  mt_client_session *session;
  mt_box *box = mt_check_session(L, 1, &session);
  h->box = box;
  h->dependent.of = self->dependent.of = session;
  self->manager = session->manager;
  self->a = (mt_acquire){.done = on_acquired,
                         .ctx = self,
                         .wants = wants,
                         .n = n,
                         .task = mt_driver_task(box->driver)->id,
                         .wait_ms = o->wait_ms,
                         .adopts = o->adopts,
                         .blocks_siblings = alone,
                         .blockers = &self->blockers};
  mt_depend(&box->dependents, &self->dependent);
  mt_op_start(&self->op);
  mt_manager_acquire(self->manager, &self->a);
  return mt_await(L, lua_gettop(L) - 1);
}

/* Pushes a table that keeps the strings of the array at `from`, and a block of pointers to them. */
static const char **push_strings(lua_State *L, int from, size_t *n) {
  lua_Integer count = lua_isnoneornil(L, from) ? 0 : luaL_len(L, from);
  luaL_argcheck(L, count >= 0 && count <= 10000000, from, "too many");
  lua_createtable(L, (int)count + 1, 0);
  int keep = lua_gettop(L);
  const char **strings = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *strings, 0);
  for (lua_Integer i = 1; i <= count; i++) {
    size_t length;
    if (lua_geti(L, from, i) != LUA_TSTRING)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "item %lld is a %s, not a string", (long long)i,
                     luaL_typename(L, -1));
    strings[i - 1] = lua_tolstring(L, -1, &length);
    if (strlen(strings[i - 1]) != length)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "item %lld has a zero byte", (long long)i);
    lua_rawseti(L, keep, i);
  }
  lua_rawseti(L, keep, count + 1);
  *n = (size_t)count;
  return strings;
}

static int client_acquire(lua_State *L) {
  static const char *const kinds[] = {"tree", "global", "document", "named", NULL};
  mt_client_session *session;
  mt_check_session(L, 1, &session);
  mortise_lock_request request = {.kind = (mortise_lock_kind)luaL_checkoption(L, 2, NULL, kinds)};
  request.index = mt_opt_string(L, 3);
  if (!lua_isnoneornil(L, 4)) luaL_checktype(L, 4, LUA_TTABLE);
  lua_settop(L, 5);
  lock_options o = {.wait_ms = -1};
  mt_options_read(L, 5, rows, &o, "acquire");
  request.mode = check_mode(L, o.mode);
  request.wait_ms = o.wait_ms;
  request.paths = push_strings(L, 4, &request.n);
  acquire_op *self = new_acquire(L, 6);
  mortise_error err;
  if (mt_wants_make(&request, &self->wants, &err)) mt_error_raise(L, &err);
  return start_acquire(L, self, self->wants.wants, self->wants.n, &o);
}

/* A path's stripes follow one another. */
static int push_plan(lua_State *L) {
  const mt_plan *plan = lua_touserdata(L, 1);
  lua_Integer n = 0;
  lua_createtable(L, (int)plan->n, 0);
  for (size_t i = 0; i < plan->n; i++) {
    const struct mt_plan_row *row = &plan->rows[i];
    if (i && mt_slice_eq(row->place.path, row[-1].place.path)) continue;
    lua_createtable(L, 0, 2);
    lua_pushlstring(L, row->place.path.p, row->place.path.n);
    lua_setfield(L, -2, "path");
    lua_pushstring(L, mt_mode_name(row->mode));
    lua_setfield(L, -2, "mode");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static int core_lock_set(lua_State *L) {
  static const char *const kinds[] = {"tree", "global", "document", "named", NULL};
  mortise_lock_request request = {.kind = (mortise_lock_kind)luaL_checkoption(L, 1, NULL, kinds)};
  mortise_error err;
  mt_plan plan = {0};
  mt_wants wants = {0};
  request.index = mt_opt_string(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  request.paths = push_strings(L, 3, &request.n);
  mortise_status status = mt_wants_make(&request, &wants, &err);
  if (!status) status = mt_plan_make(wants.wants, wants.n, 1, &plan, &err);
  lua_pushcfunction(L, push_plan);
  lua_pushlightuserdata(L, &plan);
  bool bad = !status && lua_pcall(L, 1, 1, 0);
  mt_plan_deinit(&plan);
  mt_wants_deinit(&wants);
  if (status) mt_error_raise(L, &err);
  return bad ? lua_error(L) : 1;
}

/* Reads and pops the entry {path, mode} on top of the stack; the table at `keep` keeps its path. */
static void read_want(lua_State *L, mt_want *out, int keep, lua_Integer i) {
  mortise_error err;
  mt_slice mode, path = {NULL, 0};
  bool has_mode = false;
  if (lua_type(L, -1) == LUA_TTABLE) {
    if (lua_geti(L, -1, 2) == LUA_TSTRING) {
      mode.p = lua_tolstring(L, -1, &mode.n);
      has_mode = mt_mode_parse(mode, &out->mode);
    }
    lua_pop(L, 1);
    if (lua_geti(L, -1, 1) == LUA_TSTRING) path.p = lua_tolstring(L, -1, &path.n);
    lua_rawseti(L, keep, i);
  }
  if (!path.p || !has_mode)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                   "entry %lld is not {path, mode} with a mode of IS, IX, S, SIX, X", (long long)i);
  if (mt_path_check(path, &out->path, &err)) mt_error_raise(L, &err);
  lua_pop(L, 1);
}

static int client_acquire_paths(lua_State *L) {
  mt_client_session *session;
  mt_check_session(L, 1, &session);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 3);
  lock_options o = {.wait_ms = -1};
  mt_options_read(L, 3, rows, &o, "acquire_paths");
  lua_Integer n = luaL_len(L, 2);
  luaL_argcheck(L, n >= 1 && n <= 10000000, 2, "one entry at least");
  lua_createtable(L, (int)n + 1, 0);
  mt_want *wants = lua_newuserdatauv(L, (size_t)n * sizeof *wants, 0);
  lua_pushvalue(L, -1);
  lua_rawseti(L, 4, n + 1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, 2, i);
    read_want(L, &wants[i - 1], 4, i);
  }
  acquire_op *self = new_acquire(L, 4);
  return start_acquire(L, self, wants, (size_t)n, &o);
}

/* ---- convert -------------------------------------------------------------------------------- */

typedef struct convert_op {
  mt_op op;
  mt_dependent dependent; /* of the lock: ends before the lock is released */
  mt_manager *manager;
  mt_convert c;
  mortise_blockers blockers;
} convert_op; /* anchors: the lock */

static bool cancel_convert(mt_op *op) {
  convert_op *self = (convert_op *)op;
  mt_undepend(&self->dependent);
  mt_manager_convert_cancel(self->manager, &self->c);
  return false;
}

static void deinit_convert(mt_op *op) {
  mt_undepend(&((convert_op *)op)->dependent);
}

static void drop_convert(mt_dependent *d) {
  convert_op *self = MT_CONTAINER(d, convert_op, dependent);
  mt_op_stop(&self->op, "the lock was released");
}

static int finish_convert(lua_State *L, mt_op *op, int index) {
  convert_op *self = (convert_op *)op;
  mt_undepend(&self->dependent);
  lua_getiuservalue(L, index, 1);
  mt_lock_handle *h = lua_touserdata(L, -1);
  if (h->lock) { /* lowered even if the store has not acknowledged it yet */
    h->fence = mt_lock_fence(h->lock);
    push_targets(L, lua_gettop(L));
  }
  if (self->c.error.code) mt_error_raise_blocked(L, &self->c.error, &self->blockers);
  return 0;
}

static const mt_op_type convert_type = {cancel_convert, finish_convert, deinit_convert, false,
                                        NULL};

static void on_converted(void *ctx, mt_convert *c) {
  (void)c;
  mt_op_done(ctx);
}

static int lock_convert(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  mt_check_lock(L, 1);
  mortise_lock_mode mode = check_mode(L, mt_check_string(L, 2));
  lua_settop(L, 3);
  lock_options o = {.wait_ms = -1};
  mt_options_read(L, 3, rows, &o, "convert");
  mt_task_check(L, d);
  convert_op *self = mt_lua_op_new(L, sizeof *self, 1, &convert_type);
  mt_op_anchor(L, -1, 1, 1);
  bool alone = mt_alone(L, d);
  mt_lock_handle *h = mt_check_lock(L, 1);
  self->manager = mt_lock_manager(h->lock);
  self->dependent.drop = drop_convert;
  self->c = (mt_convert){.done = on_converted,
                         .ctx = self,
                         .lock = h->lock,
                         .mode = mt_wants_mode(mode),
                         .wait_ms = o.wait_ms,
                         .blocks_siblings = alone,
                         .blockers = &self->blockers};
  mt_depend(&h->users, &self->dependent);
  mt_op_start(&self->op);
  mt_manager_convert(self->manager, &self->c);
  return mt_await(L, lua_gettop(L));
}

/* ---- release -------------------------------------------------------------------------------- */

typedef struct release_op {
  mt_op op;
  mt_dependent dependent;
  mt_manager *manager;
  mt_release r;
  bool quiet; /* another error is being raised */
} release_op;

static bool cancel_release(mt_op *op) { /* the release continues without us */
  release_op *self = (release_op *)op;
  mt_undepend(&self->dependent);
  mt_manager_release_forget(self->manager, &self->r);
  return true;
}

static void deinit_release(mt_op *op) {
  mt_undepend(&((release_op *)op)->dependent);
}

static void drop_release(mt_dependent *d) {
  release_op *self = MT_CONTAINER(d, release_op, dependent);
  mt_op_stop(&self->op, "the client was closed");
}

static int finish_release(lua_State *L, mt_op *op, int index) {
  (void)index;
  release_op *self = (release_op *)op;
  mt_undepend(&self->dependent);
  if (self->r.error.code && !self->quiet) mt_error_raise(L, &self->r.error);
  return 0;
}

static const mt_op_type release_type = {cancel_release, finish_release, deinit_release, true, NULL};

static void on_released(void *ctx, mt_release *r) {
  (void)r;
  mt_op_done(ctx);
}

/* The release is submitted before any error may be raised, so that an interrupt cannot keep the
 * lock. */
static int release_lock(lua_State *L, bool quiet) {
  mt_lock_handle *h = luaL_checkudata(L, 1, lock_name);
  if (!h->lock) return 0;
  mt_driver *d = mt_driver_get(L);
  h = lua_touserdata(L, 1);
  if (mt_driver_forked(d)) { /* the parent still has it */
    mortise_error err;
    mt_lock_check(h->lock, &err);
    mt_undepend(&h->dependent);
    h->lock = NULL;
    if (!quiet) mt_error_raise(L, &err);
    return 0;
  }
  release_op *self = mt_lua_op_new(L, sizeof *self, 1, &release_type);
  lua_getiuservalue(L, 1, 1);
  lua_setiuservalue(L, -2, 1);
  h = lua_touserdata(L, 1);
  if (!h->lock) return 0; /* released meanwhile */
  self->manager = mt_lock_manager(h->lock);
  self->dependent.of = h->dependent.of;
  self->quiet = quiet;
  self->dependent.drop = drop_release;
  self->r = (mt_release){.done = on_released, .ctx = self, .lock = h->lock};
  mt_drop_all(&h->users);
  mt_undepend(&h->dependent);
  h->lock = NULL;
  mt_depend(&h->box->dependents, &self->dependent);
  mt_op_start(&self->op);
  mt_manager_release(self->manager, &self->r);
  return mt_await(L, lua_gettop(L));
}

static int lock_release(lua_State *L) {
  return release_lock(L, false);
}

static int lock_close(lua_State *L) {
  return release_lock(L, !lua_isnoneornil(L, 2));
}

/* ---- Looking at it -------------------------------------------------------------------------- */

static int lock_check(lua_State *L) {
  mortise_error err;
  mt_lock_handle *h = mt_check_lock(L, 1);
  if (!mt_lock_check(h->lock, &err)) return 0;
  h->told = true;
  mt_error_raise(L, &err);
}

static int lock_remaining(lua_State *L) {
  int64_t ms = mt_lock_remaining_ms(mt_check_lock(L, 1)->lock);
  lua_pushnumber(L, ms > 0 ? (lua_Number)ms / 1000 : 0);
  return 1;
}

static int client_holds(lua_State *L) {
  const mt_lock_handle *h = luaL_testudata(L, 2, lock_name);
  const mt_box *box = mt_check_client(L, 1);
  lua_pushboolean(L, h && h->lock && h->box == box);
  return 1;
}

static int lock_index(lua_State *L) {
  const mt_lock_handle *h = luaL_checkudata(L, 1, lock_name);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (!strcmp(key, "fence"))
    lua_pushinteger(L, (lua_Integer)h->fence);
  else if (!strcmp(key, "paths"))
    lua_getiuservalue(L, 1, 2);
  else if (!strcmp(key, "modes"))
    lua_getiuservalue(L, 1, 3);
  else if (!strcmp(key, "released"))
    lua_pushboolean(L, !h->lock);
  else if (!strcmp(key, "epoch") && h->lock)
    lua_pushstring(L, mt_manager_epoch(mt_lock_manager(h->lock)).id);
  else {
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
  }
  return 1;
}

static int lock_tostring(lua_State *L) {
  luaL_checkudata(L, 1, lock_name);
  lua_getiuservalue(L, 1, 2);
  lua_Integer n = lua_type(L, -1) == LUA_TTABLE ? luaL_len(L, -1) : 0;
  if (n) lua_geti(L, -1, 1);
  const char *path = n ? lua_tostring(L, -1) : "nothing";
  const mt_lock_handle *h = lua_touserdata(L, 1);
  const char *state = !h->lock ? " (released)" : mt_lock_is_lost(h, NULL) ? " (lost)" : "";
  if (n > 1)
    lua_pushfstring(L, "lock on %s and %I more%s", path, (LUAI_UACINT)(n - 1), state);
  else
    lua_pushfstring(L, "lock on %s%s", path, state);
  return 1;
}

const luaL_Reg mt_lock_functions[] = {{"lock_set", core_lock_set}, {NULL, NULL}};
const luaL_Reg mt_acquire_methods[] = {
    {"acquire", client_acquire}, {"acquire_paths", client_acquire_paths}, {NULL, NULL}};
const luaL_Reg mt_holds_methods[] = {{"holds", client_holds}, {NULL, NULL}};

static const luaL_Reg lock_methods[] = {{"check", lock_check},
                                        {"remaining", lock_remaining},
                                        {"convert", lock_convert},
                                        {"release", lock_release},
                                        {NULL, NULL}};
static const luaL_Reg metamethods[] = {
    {"__gc", collect_lock}, {"__close", lock_close}, {"__tostring", lock_tostring}, {NULL, NULL}};
const mt_lua_class mt_lock_class = {lock_name, lock_methods, metamethods, lock_index, NULL};
