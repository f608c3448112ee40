/* Sessions: a client has one of its own, and opens others beside it, each with its own lease.
 *   client:session() -> {id=, ns=, remaining_ms=, lease_ms=, beats=, lost=} or nil before the first lock
 *   client:open_session(job) -> session     for the job of this id; nothing is sent yet
 * A session (closable; the client's end is its own, too):
 *   :info()                      as client:session()
 *   :acquire(...), :acquire_paths(...)      as a client's (lua_lock.c), but in this session
 *   :close()                     gives back its locks and ends it; again is fine
 *   :leave()                     ends it, and leaves what it holds as the job's guard, which is adopted
 *                                by acquire(..., {adopts = true}) in another session of the same job
 * A block that is left by an error, the collector and the client's end leave the guard, too. */
#include "bindings/lua_session.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"

#include <string.h>

static const char session_name[] = "mortise.session";

mt_box *mt_check_session(lua_State *L, int index, mt_client_session **session) {
  mt_session_handle *handle = luaL_testudata(L, index, session_name);
  if (!handle) {
    mt_box *box = mt_check_client(L, index);
    mortise_error err;
    if (!mt_client_manager(box->client, &err)) mt_error_raise(L, &err);
    *session = box->client->own;
    return box;
  }
  mt_driver_check(mt_driver_get(L), L);
  if (!handle->session) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the session is closed");
  *session = handle->session;
  return handle->box;
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void begin_session_close(mt_session_handle *handle, bool keep_guard, void (*done)(void *ctx),
                                void *ctx) {
  mt_client_session *s = handle->session;
  mt_undepend(&handle->dependent);
  handle->session = NULL;
  mt_drop_of(&handle->box->dependents, s);
  mt_drop_of(&handle->box->locks, s);
  mt_client_session_close(s, keep_guard, done, ctx);
}

/* The client ends, and with it this. */
static void drop_session(mt_dependent *self) {
  MT_CONTAINER(self, mt_session_handle, dependent)->session = NULL;
}

typedef struct session_close_op {
  mt_op op;
  mt_dependent dependent;
  mt_client_session *session;
} session_close_op; /* anchor: the session's handle */

static bool cancel_session_close(mt_op *op) { /* it goes on without us */
  session_close_op *self = (session_close_op *)op;
  mt_undepend(&self->dependent);
  mt_client_session_forget(self->session);
  return true;
}

static void drop_close(mt_dependent *self) {
  mt_op_stop(&MT_CONTAINER(self, session_close_op, dependent)->op, "the client was closed");
}

static int finish_session_close(lua_State *L, mt_op *op, int index) {
  (void)L;
  (void)index;
  mt_undepend(&((session_close_op *)op)->dependent);
  return 0;
}

static void deinit_close(mt_op *op) {
  mt_undepend(&((session_close_op *)op)->dependent);
}

static const mt_op_type session_close_type = {cancel_session_close, finish_session_close,
                                              deinit_close, true, NULL};

static void on_session_closed(void *ctx) {
  mt_op_done(ctx);
}

static int await_session_close(lua_State *L, bool keep_guard) {
  mt_session_handle *handle = luaL_checkudata(L, 1, session_name);
  if (!handle->session || mt_driver_forked(handle->box->driver)) return 0;
  session_close_op *self = mt_lua_op_new(L, sizeof *self, 1, &session_close_type);
  mt_op_anchor(L, -1, 1, 1);
  handle = lua_touserdata(L, 1);
  if (!handle->session) return 0; /* meanwhile */
  self->session = handle->session;
  self->dependent.drop = drop_close;
  mt_op_start(&self->op);
  begin_session_close(handle, keep_guard, on_session_closed, self);
  mt_depend(&handle->box->dependents, &self->dependent);
  return mt_await(L, lua_gettop(L));
}

static int session_close(lua_State *L) {
  return await_session_close(L, false);
}

static int session_leave(lua_State *L) {
  return await_session_close(L, true);
}

static int leave_block(lua_State *L) {
  return await_session_close(L, !lua_isnoneornil(L, 2));
}

static int collect_session(lua_State *L) {
  mt_session_handle *handle = lua_touserdata(L, 1);
  if (handle->session && !mt_driver_forked(handle->box->driver))
    begin_session_close(handle, true, NULL, NULL);
  return 0;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static int client_open_session(lua_State *L) {
  mt_check_client(L, 1);
  const char *job = mt_check_string(L, 2);
  mt_session_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
  *handle = (mt_session_handle){.dependent.drop = drop_session};
  luaL_setmetatable(L, session_name);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  mortise_error err;
  handle->box = mt_check_client(L, 1);
  mt_client_sweep(handle->box->client);
  handle->session = mt_client_session_new(handle->box->client, job, &err);
  if (!handle->session) mt_error_raise(L, &err);
  mt_depend(&handle->box->dependents, &handle->dependent);
  return 1;
}

/* ---- Looking at it -------------------------------------------------------------------------- */

static int push_info(lua_State *L, mt_session *s) {
  if (!s) return 0;
  char id[sizeof s->id], ns[sizeof s->ns];
  memcpy(id, s->id, sizeof id);
  memcpy(ns, s->ns, sizeof ns);
  int64_t left = atomic_load(&s->deadline_ms) - mt_env_system()->now_ms(NULL);
  int64_t lease_ms = s->lease_ms;
  uint64_t beats = atomic_load(&s->beats);
  bool lost = atomic_load(&s->lost);
  lua_createtable(L, 0, 6);
  lua_pushstring(L, id);
  lua_setfield(L, -2, "id");
  lua_pushstring(L, ns);
  lua_setfield(L, -2, "ns");
  mt_set_integer(L, "remaining_ms", left > 0 ? left : 0);
  mt_set_integer(L, "lease_ms", lease_ms);
  mt_set_count(L, "beats", beats);
  lua_pushboolean(L, lost);
  lua_setfield(L, -2, "lost");
  return 1;
}

static int client_session(lua_State *L) {
  const mt_client_session *own = mt_check_client(L, 1)->client->own;
  return push_info(L, own ? mt_manager_session(own->manager) : NULL);
}

static int session_info(lua_State *L) {
  mt_client_session *s;
  luaL_checkudata(L, 1, session_name);
  mt_check_session(L, 1, &s);
  return push_info(L, mt_manager_session(s->manager));
}

const luaL_Reg mt_session_methods[] = {
    {"session", client_session}, {"open_session", client_open_session}, {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"close", session_close}, {"leave", session_leave}, {"info", session_info}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {
    {"__gc", collect_session}, {"__close", leave_block}, {NULL, NULL}};
const mt_lua_class mt_session_class = {session_name, methods, metamethods, NULL, NULL};
