/* Breaking a session's locks by hand:
 *   client:break_session(id, guards) -> breaking    `id` in full; it proceeds while anything waits. `guards`: what
 *       it holds for a job goes too
 *   client:clear_damaged(path) -> breaking  removes only the damaged entries there
 * A breaking (closable; closing aborts it if it has not ended):
 * - :progress() -> {phase=, marked=, gone=, lease_ms=, left_ms=, evicted=}; raises the error that
 *   ended it. The phase is "looking", "waiting" (left_ms), "ending", "evicting" or "done".
 * - :close() */
#include "bindings/lua_break.h"

#include "bindings/driver.h"
#include "bindings/lua_client.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/task.h"

#include "client/breaker.h"

static const char breaking_name[] = "mortise.breaking";

typedef struct breaking_handle {
  mt_dependent dependent;
  mt_driver *driver;
  mt_breaker *breaker; /* NULL when closed */
} breaking_handle;

static void close_breaking(breaking_handle *handle) {
  mt_undepend(&handle->dependent);
  if (handle->driver && mt_driver_forked(handle->driver)) return;
  mt_breaker_free(handle->breaker);
  handle->breaker = NULL;
}

static void drop_breaking(mt_dependent *self) {
  close_breaking(MT_CONTAINER(self, breaking_handle, dependent));
}

static int breaking_close(lua_State *L) {
  close_breaking(luaL_checkudata(L, 1, breaking_name));
  return 0;
}

static int breaking_progress(lua_State *L) {
  static const char *const names[] = {[MT_BREAKING_LOOKING] = "looking",
                                      [MT_BREAKING_WAITING] = "waiting",
                                      [MT_BREAKING_ENDING] = "ending",
                                      [MT_BREAKING_EVICTING] = "evicting",
                                      [MT_BREAKING_DONE] = "done"};
  const breaking_handle *handle = luaL_checkudata(L, 1, breaking_name);
  if (!handle->breaker) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the breaking was closed");
  const mt_breaking b = *mt_breaker_state(handle->breaker);
  if (b.phase == MT_BREAKING_FAILED) mt_error_raise(L, &b.error);
  int64_t left = b.until_ms - mt_env_system()->now_ms(NULL);
  lua_createtable(L, 0, 6);
  lua_pushstring(L, names[b.phase]);
  lua_setfield(L, -2, "phase");
  lua_pushboolean(L, b.marked);
  lua_setfield(L, -2, "marked");
  lua_pushboolean(L, b.gone);
  lua_setfield(L, -2, "gone");
  mt_set_integer(L, "lease_ms", b.lease_ms);
  mt_set_integer(L, "left_ms", b.phase == MT_BREAKING_WAITING && left > 0 ? left : 0);
  mt_set_count(L, "evicted", b.evicted);
  return 1;
}

static int start_breaking(lua_State *L, bool is_session) {
  mt_check_client(L, 1);
  const char *what = mt_check_string(L, 2);
  bool guards = lua_toboolean(L, 3);
  mortise_error err;
  mt_driver *d = mt_driver_get(L);
  mt_task_check(L, d);
  breaking_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
  *handle = (breaking_handle){.dependent.drop = drop_breaking, .driver = d};
  luaL_setmetatable(L, breaking_name);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  mt_box *box = mt_check_client(L, 1);
  handle->breaker = is_session
                        ? mt_breaker_start(box->client, what, guards, &err)
                        : mt_breaker_clear(box->client, what, &err);
  if (!handle->breaker) mt_error_raise(L, &err);
  mt_depend(&box->dependents, &handle->dependent);
  return 1;
}

static int client_break_session(lua_State *L) {
  return start_breaking(L, true);
}

static int client_clear_damaged(lua_State *L) {
  return start_breaking(L, false);
}

const luaL_Reg mt_break_methods[] = {
    {"break_session", client_break_session}, {"clear_damaged", client_clear_damaged}, {NULL, NULL}};

static const luaL_Reg breaking_methods[] = {
    {"progress", breaking_progress}, {"close", breaking_close}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {
    {"__gc", breaking_close}, {"__close", breaking_close}, {NULL, NULL}};
const mt_lua_class mt_breaking_class = {breaking_name, breaking_methods, metamethods, NULL, NULL};
