#include "bindings/driver.h"

#include "bindings/lua_class.h"
#include "bindings/lua_error.h"

#include "base/must.h"
#include "base/process.h"
#include "client/shared.h"

#include <string.h>

static const char registry_key; /* the driver; false once it is gone */
static const char aux_key;      /* driver->aux */
static const char live_key;     /* a table: lightuserdata of a task -> its userdata */

static void link_owned(mt_owned **list, mt_owned *owned, void (*end)(mt_owned *self)) {
  MT_MUST(!owned->slot);
  owned->end = end;
  owned->next = *list;
  owned->slot = list;
  if (owned->next) owned->next->slot = &owned->next;
  *list = owned;
}

void mt_own(mt_driver *d, mt_owned *owned, void (*end)(mt_owned *self)) {
  link_owned(&d->owned, owned, end);
}

void mt_own_apart(mt_apart *apart, mt_owned *owned, void (*end)(mt_owned *self)) {
  link_owned(&apart->owned, owned, end);
}

void mt_owned_end(mt_owned *owned) {
  if (!owned->slot) return;
  *owned->slot = owned->next;
  if (owned->next) owned->next->slot = owned->slot;
  owned->slot = NULL;
  owned->end(owned);
}

/* Runs last of all our finalizers, since the driver was made first: operations, locks and clients
 * are gone, except those that finalizers made at the state's end. */
static int collect_driver(lua_State *L) {
  mt_driver *d = lua_touserdata(L, 1);
  if (!d->loop || mt_driver_forked(d)) return 0;
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &registry_key);
  while (d->owned) mt_owned_end(d->owned);
  if (d->boxes) d->hooks->at_end(d);
  mt_gate_free(d->gate);
  if (!d->shared) mt_loop_free(d->loop);
  d->loop = NULL;
  return 0;
}

void mt_driver_join(mt_driver *d, struct mortise_loop *shared) {
  mt_loop_free(d->loop);
  d->shared = shared;
  d->loop = shared->loop;
}

bool mt_driver_forked(const mt_driver *d) {
  return d->process != mt_process_number();
}

void mt_driver_check(const mt_driver *d, lua_State *L) {
  if (mt_driver_forked(d))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "mortise cannot be used here: %s",
                   mt_process_forked);
}

mt_driver *mt_driver_peek(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key);
  mt_driver *d = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return d;
}

/* Runs in the thread that runs Lua, possibly in a signal handler. */
static void look_for_requests(void *ctx) {
  const mt_driver *d = ctx;
  if (atomic_load(&d->asked) || atomic_load(&d->lost))
    lua_sethook(d->current, d->hooks->look, LUA_MASKCOUNT, 1);
}

void mt_driver_kick(mt_driver *d) {
  mt_loop_wake(d->loop);
  mt_gate_kick(d->gate);
}

static mt_driver *make_driver(lua_State *L) {
  static const luaL_Reg metamethods[] = {{"__gc", collect_driver}, {NULL, NULL}};
  mortise_error err;
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &live_key);
  mt_driver *d = lua_newuserdatauv(L, sizeof *d, 0);
  memset(d, 0, sizeof *d);
  mt_class(L, "mortise.driver", metamethods);
  lua_setmetatable(L, -2);
  d->aux = lua_newthread(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &aux_key);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  d->main = d->current = lua_tothread(L, -1);
  lua_pop(L, 1);
  d->process = mt_process_number();
  d->last_id = MT_MAIN_TASK;
  d->main_task = (mt_task){.driver = d, .id = MT_MAIN_TASK, .co = d->main, .phase = MT_TASK_BODY};
  d->again_ms = INT64_MAX;
  d->gate = mt_gate_new(look_for_requests, d, &err);
  if (!d->gate) mt_error_raise(L, &err);
  d->loop = mt_loop_new(&err);
  if (!d->loop) {
    mt_gate_free(d->gate);
    mt_error_raise(L, &err);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &registry_key);
  return d;
}

static const char apart_key;

void mt_apart_set(lua_State *L, mt_apart *apart) {
  lua_pushlightuserdata(L, apart);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &apart_key);
}

mt_apart *mt_apart_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &apart_key);
  mt_apart *apart = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return apart;
}

/* A finalizer must not make the driver: at the state's end nobody would free it, and other times
 * cannot be told apart. */
static void check_making(lua_State *L) {
  bool ended = lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key) == LUA_TBOOLEAN;
  lua_pop(L, 1);
  if (mt_apart_of(L))
    mt_error_throw(L, MORTISE_UNSUPPORTED, "this is not there in a sandbox");
  if (ended)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "mortise cannot be used here: the Lua state ends");
  if (lua_gc(L, LUA_GCISRUNNING) < 0)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "mortise cannot be loaded by a finalizer");
}

mt_driver *mt_driver_get(lua_State *L) {
  mt_driver *d = mt_driver_peek(L);
  if (!d) {
    luaL_checkstack(L, 8, NULL);
    check_making(L);
    d = make_driver(L);
  }
  mt_gate_bind(d->gate);
  return d;
}

mt_task *mt_driver_task(mt_driver *d) {
  return d->running ? d->running : &d->main_task;
}

void mt_task_ready(mt_task *task) {
  if (task->ready || mt_task_is_done(task)) return;
  mt_driver *d = task->driver;
  task->ready = true;
  task->next_ready = NULL;
  if (d->ready)
    d->ready_last->next_ready = task;
  else
    d->ready = task;
  d->ready_last = task;
}

void mt_driver_push_tasks(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &live_key);
}
