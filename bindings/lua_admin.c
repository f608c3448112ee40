/* Methods of a client that administer an index in use:
 *   :settings(index, json)        changes them: {"index.gc_deletes":"2d"}; null gives one its default again
 *   :block(index)                 no write is under way any more, and all fail until
 *   :unblock(index)
 *   :aliases(name) -> JSON text   {"INDEX":{"aliases":{"ALIAS":{...}}}}: the indices that an alias names, or an index
 *                                 with all its aliases; {} of nothing
 *   :alias_move(alias, from, to[, mark])  in one step, also where it was moved already; `from` nil: it is new; `to` nil:
 *                                 nothing has it any more; `mark`: an alias that `from` must have, and loses (store.h) */
#include "bindings/lua_admin.h"

#include "bindings/await.h"
#include "bindings/lua_client.h"
#include "bindings/lua_options.h"
#include "bindings/lua_text.h"
#include "bindings/op.h"

static int client_settings(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_slice body = mt_check_slice(L, 3);
  mt_lua_call *call = mt_lua_call_of(L, 3, NULL, NULL);
  call->r.admin.index = index;
  call->r.admin.body = body;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.admin.req);
  store->docs->settings(store, &call->r.admin);
  return mt_await(L, lua_gettop(L));
}

static int client_block(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, NULL, NULL);
  call->r.admin.index = index;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.admin.req);
  store->docs->block(store, &call->r.admin);
  return mt_await(L, lua_gettop(L));
}

static int client_unblock(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, NULL, NULL);
  call->r.admin.index = index;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.admin.req);
  store->docs->unblock(store, &call->r.admin);
  return mt_await(L, lua_gettop(L));
}

/* ---- Aliases -------------------------------------------------------------------------------- */

static int push_aliases(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  lua_pushstring(L, call->r.aliases.json);
  return 1;
}

static void deinit_aliases(mt_lua_call *call) {
  mt_aliases_deinit(&call->r.aliases);
}

static int client_aliases(lua_State *L) {
  mt_check_client(L, 1);
  const char *name = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, push_aliases, deinit_aliases);
  call->r.aliases.name = name;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.aliases.req);
  store->docs->aliases(store, &call->r.aliases);
  return mt_await(L, lua_gettop(L));
}

static int client_alias_move(lua_State *L) {
  mt_check_client(L, 1);
  const char *alias = mt_check_string(L, 2), *from = mt_opt_string(L, 3), *to = mt_opt_string(L, 4);
  const char *mark = mt_opt_string(L, 5);
  mt_lua_call *call = mt_lua_call_of(L, 5, NULL, NULL);
  call->r.alias_move.alias = alias;
  call->r.alias_move.from = from;
  call->r.alias_move.to = to;
  call->r.alias_move.mark = mark;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.alias_move.req);
  store->docs->alias_move(store, &call->r.alias_move);
  return mt_await(L, lua_gettop(L));
}

const luaL_Reg mt_admin_methods[] = {{"settings", client_settings}, {"block", client_block},
                                     {"unblock", client_unblock},   {"aliases", client_aliases},
                                     {"alias_move", client_alias_move}, {NULL, NULL}};
