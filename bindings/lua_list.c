/* Lists of locks and sessions, for people:
 *   client:list{kind="locks"|"sessions", ns=, path=, session=, over=, unsorted=, page=} -> list
 * `ns`: only this namespace; `path`: at it and below; `session`: the first digits of an id;
 * `over`: also closed and expired sessions; `unsorted`: in any order, which is faster; `page`: documents in a
 * page; see store.h. A list
 * (closable):
 *   :next() -> JSON array, or nil at the end
 *   .stale                  this client may not refresh, so newer entries may be missing
 *   :close()                at any time; waits until the server has closed it
 *   client:read_locks(ns, names) -> JSON array    those of these places that exist, in real time
 *   client:purge_sessions() -> number deleted, may there be more?    of sessions that ended more than a
 *                                 week ago; nothing on a store that does it by itself
 *   client:read_sessions(ns, ids) -> array of {session=, state=, lease_ms=, opened=, beat_at=, damaged=,
 *     and as JSON owner=, waiting=}, of those that exist, in real time */
#include "bindings/lua_list.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_client.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"

#include "store/table.h"

#include <string.h>

static const char list_name[] = "mortise.list";
static const char closed_text[] = "the list is closed";

enum { READ_MAX = 10000 };

typedef struct list_options {
  const char *kind, *ns, *path, *session;
  bool over, unsorted;
  int64_t page;
} list_options;

static const mt_option rows[] = {MT_TEXT_OPTION(list_options, kind),
                                 MT_TEXT_OPTION(list_options, ns),
                                 MT_TEXT_OPTION(list_options, path),
                                 MT_TEXT_OPTION(list_options, session),
                                 MT_FLAG_OPTION(list_options, over),
                                 MT_FLAG_OPTION(list_options, unsorted),
                                 MT_INT_OPTION(list_options, page, 1, MT_LIST_PAGE_MAX),
                                 MT_NO_OPTION};

typedef struct list_handle {
  mt_dependent dependent;
  mt_box *box;         /* NULL when closed */
  mt_lua_call *call;   /* the last call, until its listing was taken back; or NULL */
  mt_listing *listing; /* NULL while a call uses it */
  list_options o;      /* its strings are in user values */
  bool ended, stale;
} list_handle;

/* ---- A list --------------------------------------------------------------------------------- */

static void take_listing_back(mt_lua_call *call);

static void drop_list(mt_dependent *self) {
  list_handle *handle = MT_CONTAINER(self, list_handle, dependent);
  mt_undepend(&handle->dependent);
  if (handle->box && handle->listing) {
    mt_store *store = handle->box->client->store;
    store->locks->list_close(store, handle->listing);
  }
  handle->listing = NULL;
  handle->box = NULL;
}

static int collect_list(lua_State *L) {
  drop_list(&((list_handle *)lua_touserdata(L, 1))->dependent);
  return 0;
}

/* The call has ended or was cancelled: the handle takes the listing back. */
static void take_listing_back(mt_lua_call *call) {
  list_handle *handle = call->more;
  if (!handle) return;
  call->more = NULL;
  handle->call = NULL;
  handle->listing = call->r.list.listing;
  if (!handle->box && handle->listing) { /* the list was closed meanwhile */
    mt_store *store = call->box->client->store;
    store->locks->list_close(store, handle->listing);
    handle->listing = NULL;
  }
}

static void deinit_list_next(mt_lua_call *call) {
  mt_lock_list_deinit(&call->r.list);
  take_listing_back(call);
}

static int finish_list_next(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  list_handle *handle = call->more;
  handle->ended = !call->r.list.listing;
  handle->stale |= call->r.list.stale;
  take_listing_back(call);
  lua_pushstring(L, call->r.list.json); /* nil for NULL */
  mt_lock_list_deinit(&call->r.list);
  return 1;
}

/* The list at 1; raises an error if another task is using it. */
static list_handle *check_list_handle(lua_State *L) {
  list_handle *handle = luaL_checkudata(L, 1, list_name);
  if (handle->call) luaL_error(L, "the list is in use by another task");
  return handle;
}

static int begin_list_next(lua_State *L, bool end) {
  lua_getiuservalue(L, 1, 1);
  mt_lua_call *call = mt_lua_call_new(L, 2, finish_list_next, deinit_list_next);
  mt_op_anchor(L, -1, 2, 1);
  list_handle *handle = check_list_handle(L);
  if (!handle->box && end) return 0;
  if (!handle->box) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s", closed_text);
  mt_lock_list *r = &call->r.list;
  r->kind = strcmp(handle->o.kind, "locks") != 0 ? MT_LIST_SESSIONS : MT_LIST_LOCKS;
  r->ns = handle->o.ns;
  r->path = mt_slice_of(handle->o.path);
  r->session = handle->o.session;
  r->over = handle->o.over;
  r->unsorted = handle->o.unsorted;
  r->page = (uint32_t)handle->o.page;
  r->end = end;
  r->listing = handle->listing;
  handle->listing = NULL;
  handle->call = call;
  call->more = handle;
  mt_store *store = mt_lua_call_start(call, handle->box, &r->req);
  store->locks->list(store, r);
  return mt_await(L, lua_gettop(L));
}

static int list_next(lua_State *L) {
  mt_driver_get(L);
  lua_settop(L, 1);
  const list_handle *handle = check_list_handle(L);
  if (!handle->box) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s", closed_text);
  return handle->ended ? 0 : begin_list_next(L, false);
}

static int list_close(lua_State *L) {
  lua_settop(L, 1);
  list_handle *handle = check_list_handle(L);
  bool open = handle->box && handle->listing && !handle->ended;
  handle->ended = true;
  return open ? begin_list_next(L, true) : 0;
}

static int list_index(lua_State *L) {
  const list_handle *handle = luaL_checkudata(L, 1, list_name);
  if (lua_type(L, 2) == LUA_TSTRING && !strcmp(lua_tostring(L, 2), "stale")) {
    lua_pushboolean(L, handle->stale);
    return 1;
  }
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  return 1;
}

/* Keeps the text for the life of the handle, independently of the table it came from. */
static void anchor_text(lua_State *L, const char **text, int slot) {
  lua_pushstring(L, *text);
  *text = lua_tostring(L, -1);
  lua_setiuservalue(L, -2, slot);
}

static int client_list(lua_State *L) {
  mt_check_client(L, 1);
  lua_settop(L, 2);
  list_options o = {.kind = "locks"};
  mt_options_read(L, 2, rows, &o, "list");
  if (strcmp(o.kind, "locks") != 0 && strcmp(o.kind, "sessions") != 0)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "list: kind is locks or sessions");
  list_handle *handle = lua_newuserdatauv(L, sizeof *handle, 5);
  *handle = (list_handle){.dependent.drop = drop_list, .o = o};
  luaL_setmetatable(L, list_name);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  anchor_text(L, &handle->o.kind, 2);
  anchor_text(L, &handle->o.ns, 3);
  anchor_text(L, &handle->o.path, 4);
  anchor_text(L, &handle->o.session, 5);
  mt_box *box = mt_check_client(L, 1);
  handle->box = box;
  mt_depend(&box->dependents, &handle->dependent);
  return 1;
}

/* ---- By key --------------------------------------------------------------------------------- */

/* Copies the strings of the array at 3 into a table of our own at 4, which nobody else changes. */
static size_t copy_strings(lua_State *L) {
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lua_Integer n = luaL_len(L, 3);
  if (n < 0 || n > READ_MAX) luaL_error(L, "at most %d at once", READ_MAX);
  lua_newtable(L);
  for (lua_Integer i = 1; i <= n; i++) {
    size_t length;
    if (lua_geti(L, 3, i) != LUA_TSTRING) luaL_error(L, "number %I is no string", i);
    if (strlen(lua_tolstring(L, -1, &length)) != length)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "number %lld has a zero byte", (long long)i);
    lua_seti(L, 4, i);
  }
  return (size_t)n;
}

static const char *text_in_list(lua_State *L, size_t i, size_t *n) {
  lua_geti(L, 4, (lua_Integer)i + 1);
  const char *text = lua_tolstring(L, -1, n);
  lua_pop(L, 1);
  return text;
}

static int push_locks(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  lua_pushstring(L, call->r.lock_read.json);
  return 1;
}

static void deinit_locks(mt_lua_call *call) {
  mt_lock_read_deinit(&call->r.lock_read);
}

/* Anchors what the call borrows: the namespace at 2, the strings at 4, the array at 5. */
static void anchor(lua_State *L) {
  mt_op_anchor(L, -1, 2, 2);
  mt_op_anchor(L, -1, 3, 4);
  mt_op_anchor(L, -1, 4, 5);
}

static int client_read_locks(lua_State *L) {
  mt_check_client(L, 1);
  const char *ns = mt_check_string(L, 2);
  size_t n = copy_strings(L);
  mt_place *places = lua_newuserdatauv(L, (n ? n : 1) * sizeof *places, 0);
  for (size_t i = 0; i < n; i++) {
    mt_slice name;
    name.p = text_in_list(L, i, &name.n);
    places[i] = mt_place_of_name(name);
  }
  mt_lua_call *call = mt_lua_call_new(L, 1, push_locks, deinit_locks);
  anchor(L);
  call->r.lock_read.ns = ns;
  call->r.lock_read.places = places;
  call->r.lock_read.n = n;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.lock_read.req);
  store->locks->lock_read(store, &call->r.lock_read);
  return mt_await(L, lua_gettop(L));
}

static void push_session(lua_State *L, const mt_session_doc *doc) {
  lua_createtable(L, 0, 8);
  mt_set_text(L, "session", doc->session);
  mt_set_text(L, "state", mt_session_state_name(doc->state));
  mt_set_integer(L, "lease_ms", doc->lease_ms);
  mt_set_integer(L, "opened", doc->opened_ms);
  mt_set_integer(L, "beat_at", doc->beat_ms);
  mt_set_text(L, "owner", doc->owner);
  mt_set_text(L, "waiting", doc->waiting);
  if (!doc->damaged) return;
  lua_pushboolean(L, true);
  lua_setfield(L, -2, "damaged");
}

static int push_sessions(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_session_read *r = &call->r.session_read;
  lua_Integer n = 0;
  lua_newtable(L);
  for (size_t i = 0; r->docs && i < r->n; i++) {
    if (r->docs[i].state == MT_SESSION_MISSING) continue;
    push_session(L, &r->docs[i]);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static void deinit_sessions(mt_lua_call *call) {
  mt_session_read_deinit(&call->r.session_read);
}

static int client_read_sessions(lua_State *L) {
  mt_check_client(L, 1);
  const char *ns = mt_check_string(L, 2);
  size_t n = copy_strings(L), length;
  const char **ids = lua_newuserdatauv(L, (n ? n : 1) * sizeof *ids, 0);
  for (size_t i = 0; i < n; i++) ids[i] = text_in_list(L, i, &length);
  mt_lua_call *call = mt_lua_call_new(L, 1, push_sessions, deinit_sessions);
  anchor(L);
  call->r.session_read.ns = ns;
  call->r.session_read.ids = ids;
  call->r.session_read.n = n;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.session_read.req);
  store->locks->session_read(store, &call->r.session_read);
  return mt_await(L, lua_gettop(L));
}

static int push_purged(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  lua_pushinteger(L, (lua_Integer)call->r.session_purge.purged);
  lua_pushboolean(L, call->r.session_purge.more);
  return 2;
}

static int client_purge_sessions(lua_State *L) {
  if (!mt_check_client(L, 1)->client->store->locks->session_purge) return 0;
  mt_lua_call *call = mt_lua_call_new(L, 1, push_purged, NULL);
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.session_purge.req);
  store->locks->session_purge(store, &call->r.session_purge);
  return mt_await(L, lua_gettop(L));
}

const luaL_Reg mt_list_methods[] = {{"list", client_list},
                                    {"read_locks", client_read_locks},
                                    {"read_sessions", client_read_sessions},
                                    {"purge_sessions", client_purge_sessions},
                                    {NULL, NULL}};

static const luaL_Reg list_methods[] = {{"next", list_next}, {"close", list_close}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {
    {"__gc", collect_list}, {"__close", list_close}, {NULL, NULL}};
const mt_lua_class mt_list_class = {list_name, list_methods, metamethods, list_index, NULL};
