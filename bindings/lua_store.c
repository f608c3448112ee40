/* Methods of a client about indices and single requests (JSON goes in and out as text):
 *   :describe(index) -> {exists=, source_disabled=, source_filtered=, source_synthetic=,
 *       final_pipeline=, data_stream=, excludes_vectors=, shards=, name=, json=, unfit=}
 *       `unfit` says why whole documents must not be written into it; nil where they may
 *   :index_create(index[, body])      conflict if it exists
 *   :index_drop(index)                not_found if it does not
 *   :mget(index, ids[, routing[, no_source]]) -> array of documents, false for a missing one; `routing`
 *       is an array parallel to `ids`, with false or "" for none. Real-time
 *   :count(index[, query]) -> integer, exact
 *   :refresh(index)                   all shards, or an error
 *   :search(index, body) -> answer
 *   :raw(method, path[, body[, content_type[, whole]]]) -> status, answer      unsupported on sqlite; `whole`: its
 *       answer is waited for also after an interrupt (op.h) */
#include "bindings/lua_store.h"

#include "bindings/await.h"
#include "bindings/lua_client.h"
#include "bindings/lua_doc.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/lua_text.h"
#include "bindings/op.h"

#include "job/change.h"

static mt_slice opt_slice(lua_State *L, int index) {
  return lua_isnoneornil(L, index) ? (mt_slice){NULL, 0} : mt_check_slice(L, index);
}

/* ---- describe ------------------------------------------------------------------------------- */

static void set_boolean(lua_State *L, const char *key, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

static int push_describe(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_describe *r = &call->r.describe;
  lua_createtable(L, 0, 11);
  set_boolean(L, "exists", r->exists);
  set_boolean(L, "source_disabled", r->source_disabled);
  set_boolean(L, "source_filtered", r->source_filtered);
  set_boolean(L, "source_synthetic", r->source_synthetic);
  set_boolean(L, "final_pipeline", r->final_pipeline);
  set_boolean(L, "data_stream", r->data_stream);
  set_boolean(L, "excludes_vectors", r->excludes_vectors);
  lua_pushinteger(L, r->shards);
  lua_setfield(L, -2, "shards");
  lua_pushstring(L, r->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, r->json);
  lua_setfield(L, -2, "json");
  mortise_error err;
  if (r->exists && mt_change_fit(r, &err)) {
    lua_pushstring(L, err.message);
    lua_setfield(L, -2, "unfit");
  }
  return 1;
}

static void deinit_describe(mt_lua_call *call) {
  mt_describe_deinit(&call->r.describe);
}

static int client_describe(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, push_describe, deinit_describe);
  call->r.describe.index = index;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.describe.req);
  store->docs->describe(store, &call->r.describe);
  return mt_await(L, lua_gettop(L));
}

/* ---- index_create, index_drop, refresh, count ----------------------------------------------- */

static int client_index_create(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  lua_settop(L, 3);
  mt_slice body = opt_slice(L, 3);
  mt_lua_call *call = mt_lua_call_of(L, 3, NULL, NULL);
  call->r.admin.index = index;
  call->r.admin.body = body;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.admin.req);
  store->docs->index_create(store, &call->r.admin);
  return mt_await(L, lua_gettop(L));
}

static int client_index_drop(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, NULL, NULL);
  call->r.admin.index = index;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.admin.req);
  store->docs->index_drop(store, &call->r.admin);
  return mt_await(L, lua_gettop(L));
}

static int client_refresh(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, NULL, NULL);
  call->r.refresh.index = index;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.refresh.req);
  store->docs->refresh(store, &call->r.refresh);
  return mt_await(L, lua_gettop(L));
}

static int push_count(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  lua_pushinteger(L, (lua_Integer)call->r.count.count);
  return 1;
}

static int client_count(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  lua_settop(L, 3);
  mt_slice query = opt_slice(L, 3);
  mt_lua_call *call = mt_lua_call_of(L, 3, push_count, NULL);
  call->r.count.index = index;
  call->r.count.query = query;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.count.req);
  store->docs->count(store, &call->r.count);
  return mt_await(L, lua_gettop(L));
}

/* ---- search, raw ---------------------------------------------------------------------------- */

static int push_search(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  lua_pushlstring(L, call->r.search.answer, call->r.search.answer_n);
  return 1;
}

static void deinit_search(mt_lua_call *call) {
  mt_search_deinit(&call->r.search);
}

static int client_search(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_slice body = mt_check_slice(L, 3);
  mt_lua_call *call = mt_lua_call_of(L, 3, push_search, deinit_search);
  call->r.search.index = index;
  call->r.search.body = body;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.search.req);
  store->docs->search(store, &call->r.search);
  return mt_await(L, lua_gettop(L));
}

static int push_raw_answer(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  lua_pushinteger(L, call->r.raw.status);
  lua_pushlstring(L, call->r.raw.answer, call->r.raw.answer_n);
  return 2;
}

static void deinit_raw(mt_lua_call *call) {
  mt_raw_deinit(&call->r.raw);
}

static int client_raw(lua_State *L) {
  mt_check_client(L, 1);
  const char *method = mt_check_string(L, 2);
  const char *path = mt_check_string(L, 3);
  mt_slice body = opt_slice(L, 4);
  const char *type = mt_opt_string(L, 5);
  bool whole = lua_toboolean(L, 6);
  lua_settop(L, 5);
  lua_createtable(L, 2, 0); /* keeps two strings in one anchor */
  for (int i = 4; i <= 5; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, 6, i - 3);
  }
  lua_replace(L, 4);
  mt_lua_call *call = mt_lua_call_of(L, 4, push_raw_answer, deinit_raw);
  call->op.whole = whole;
  call->r.raw.method = method;
  call->r.raw.path = path;
  call->r.raw.body = body;
  call->r.raw.content_type = type;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.raw.req);
  store->docs->raw(store, &call->r.raw);
  return mt_await(L, lua_gettop(L));
}

/* ---- mget ----------------------------------------------------------------------------------- */

static int push_mget(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  size_t n = call->r.mget.page ? call->r.mget.page->n : 0;
  const mt_doc *docs = n ? call->r.mget.page->docs : NULL;
  lua_createtable(L, (int)n, 0);
  if (!n) return 1;
  mt_page_push(L, &call->r.mget.page);
  for (size_t i = 0; i < n; i++) {
    mt_doc_push(L, -1, &docs[i]);
    lua_rawseti(L, -3, (lua_Integer)i + 1);
  }
  lua_pop(L, 1);
  return 1;
}

static void deinit_mget(mt_lua_call *call) {
  mt_mget_deinit(&call->r.mget);
}

enum { IDS_MAX = 1000000 };

/* Pushes a block of slices of the strings in the array at `from` and adds the strings to the table
 * at `keep`. */
static mt_slice *push_slices(lua_State *L, int from, lua_Integer n, int keep, bool optional) {
  mt_slice *slices = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *slices, 0);
  lua_Integer kept = (lua_Integer)lua_rawlen(L, keep);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, from, i);
    slices[i - 1] = (mt_slice){NULL, 0};
    if (lua_type(L, -1) == LUA_TSTRING) {
      slices[i - 1].p = lua_tolstring(L, -1, &slices[i - 1].n);
      if (optional && !slices[i - 1].n) slices[i - 1].p = NULL;
      lua_rawseti(L, keep, ++kept);
      continue;
    }
    if (!optional || lua_toboolean(L, -1))
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "item %lld is a %s, not a string", (long long)i,
                     luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return slices;
}

static int client_mget(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  bool no_source = lua_toboolean(L, 5);
  lua_settop(L, 4);
  lua_Integer n = luaL_len(L, 3);
  luaL_argcheck(L, n >= 0 && n <= IDS_MAX, 3, "too many ids");
  lua_newtable(L);
  const mt_slice *ids = push_slices(L, 3, n, 5, false);
  const mt_slice *routing = NULL;
  lua_rawseti(L, 5, (lua_Integer)lua_rawlen(L, 5) + 1);
  if (!lua_isnil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    routing = push_slices(L, 4, n, 5, true);
    lua_rawseti(L, 5, (lua_Integer)lua_rawlen(L, 5) + 1);
  }
  mt_lua_call *call = mt_lua_call_new(L, 1, push_mget, deinit_mget);
  mt_op_anchor(L, -1, 2, 2);
  mt_op_anchor(L, -1, 3, 5);
  call->r.mget.index = index;
  call->r.mget.ids = ids;
  call->r.mget.routing = routing;
  call->r.mget.n = (size_t)n;
  call->r.mget.no_source = no_source;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.mget.req);
  store->docs->mget(store, &call->r.mget);
  return mt_await(L, lua_gettop(L));
}

const luaL_Reg mt_store_methods[] = {{"describe", client_describe},
                                     {"index_create", client_index_create},
                                     {"index_drop", client_index_drop},
                                     {"mget", client_mget},
                                     {"count", client_count},
                                     {"refresh", client_refresh},
                                     {"search", client_search},
                                     {"raw", client_raw},
                                     {NULL, NULL}};
