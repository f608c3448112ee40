/* Scans:
 *   client:scan(index, {query=, page=, slices=, no_source=}) -> scan   `query` is JSON text
 * Returns every matching document once, as of its opening; fails rather than skip one. A scan
 * (closable):
 *   .total            exact number of documents to come
 *   :next() -> page   nil at the end; a page is #page, page[i], page:close() (lua_doc.c)
 *   :close()          at any time; the server's cursor is freed in the background */
#include "bindings/lua_scan.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_client.h"
#include "bindings/lua_doc.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"

#include <string.h>

static const char scan_name[] = "mortise.scan";

typedef struct scan_handle {
  mt_dependent dependent;
  mt_box *box;   /* NULL when closed */
  mt_scan *scan; /* NULL also at its end */
  uint64_t total;
  mt_lua_call *next; /* the call for its last page, or NULL */
} scan_handle;

typedef struct scan_options {
  const char *query;
  int64_t page, slices;
  bool no_source;
} scan_options;

static const mt_option rows[] = {MT_TEXT_OPTION(scan_options, query),
                                 MT_INT_OPTION(scan_options, page, 1, MT_SCAN_PAGE_MAX),
                                 MT_INT_OPTION(scan_options, slices, 1, 1024),
                                 MT_FLAG_OPTION(scan_options, no_source), MT_NO_OPTION};

static void close_scan(scan_handle *handle) {
  mt_undepend(&handle->dependent);
  if (handle->box && handle->scan && !mt_driver_forked(handle->box->driver)) {
    mt_store *store = handle->box->client->store;
    store->docs->scan_close(store, handle->scan);
  }
  handle->scan = NULL;
  handle->box = NULL;
}

static void drop_scan(mt_dependent *self) {
  close_scan(MT_CONTAINER(self, scan_handle, dependent));
}

/* Is a page being fetched? False after it failed or was cancelled. */
static bool is_page_under_way(const scan_handle *handle) {
  return handle->next && handle->next->op.started && !handle->next->op.done;
}

static int scan_close(lua_State *L) {
  scan_handle *handle = luaL_checkudata(L, 1, scan_name);
  if (is_page_under_way(handle))
    luaL_error(L, "the scan is in use by another task: its next page is under way");
  close_scan(handle);
  return 0;
}

static int collect_scan(lua_State *L) {
  close_scan(lua_touserdata(L, 1));
  return 0;
}

/* ---- next ----------------------------------------------------------------------------------- */

static int push_page(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  if (!call->r.scan_next.page) return 0;
  mt_page_push(L, &call->r.scan_next.page);
  return 1;
}

static void deinit_scan_next(mt_lua_call *call) {
  scan_handle *handle = call->more;
  if (handle && handle->next == call) handle->next = NULL;
  mt_page_free(call->r.scan_next.page);
}

static scan_handle *check_scan(lua_State *L) {
  scan_handle *handle = luaL_checkudata(L, 1, scan_name);
  if (!handle->box) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the scan is closed");
  if (is_page_under_way(handle)) luaL_error(L, "the scan is in use by another task");
  return handle;
}

static int scan_next(lua_State *L) {
  mt_driver_get(L);
  lua_settop(L, 1);
  check_scan(L);
  lua_getiuservalue(L, 1, 1);
  mt_lua_call *call = mt_lua_call_new(L, 2, push_page, deinit_scan_next);
  mt_op_anchor(L, -1, 2, 1);
  scan_handle *handle = check_scan(L);
  call->r.scan_next.scan = handle->scan;
  call->more = handle;
  handle->next = call;
  mt_store *store = mt_lua_call_start(call, handle->box, &call->r.scan_next.req);
  store->docs->scan_next(store, &call->r.scan_next);
  return mt_await(L, lua_gettop(L));
}

static int scan_index(lua_State *L) {
  const scan_handle *handle = luaL_checkudata(L, 1, scan_name);
  if (lua_type(L, 2) == LUA_TSTRING && !strcmp(lua_tostring(L, 2), "total")) {
    lua_pushinteger(L, (lua_Integer)handle->total);
    return 1;
  }
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  return 1;
}

/* ---- scan ----------------------------------------------------------------------------------- */

/* Returns the handle that was made before the scan was opened. */
static int finish_open(lua_State *L, mt_lua_call *call, int index) {
  lua_getiuservalue(L, index, 4);
  scan_handle *handle = lua_touserdata(L, -1);
  handle->box = call->box;
  handle->scan = call->r.scan_open.scan;
  handle->total = call->r.scan_open.total;
  call->r.scan_open.scan = NULL;
  mt_depend(&call->box->dependents, &handle->dependent);
  return 1;
}

/* Closes a scan that was opened but not handed over. */
static void deinit_open(mt_lua_call *call) {
  mt_scan *scan = call->r.scan_open.scan;
  mt_store *store = scan ? call->box->client->store : NULL;
  if (store) store->docs->scan_close(store, scan);
}

static int client_scan(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  lua_settop(L, 3);
  scan_options o = {0};
  mt_options_read(L, 3, rows, &o, "scan");
  lua_pushstring(L, o.query); /* a copy, since the table may change */
  lua_replace(L, 3);
  scan_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
  *handle = (scan_handle){.dependent.drop = drop_scan};
  luaL_setmetatable(L, scan_name);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 4, 1);
  mt_lua_call *call = mt_lua_call_new(L, 1, finish_open, deinit_open);
  for (int i = 2; i <= 4; i++) mt_op_anchor(L, -1, i, i);
  call->r.scan_open.index = index;
  call->r.scan_open.query = mt_slice_of(lua_tostring(L, 3));
  call->r.scan_open.page = (uint32_t)o.page;
  call->r.scan_open.slices = (uint32_t)o.slices;
  call->r.scan_open.no_source = o.no_source;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.scan_open.req);
  store->docs->scan_open(store, &call->r.scan_open);
  return mt_await(L, lua_gettop(L));
}

const luaL_Reg mt_scan_methods[] = {{"scan", client_scan}, {NULL, NULL}};

static const luaL_Reg scan_methods[] = {{"next", scan_next}, {"close", scan_close}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {
    {"__gc", collect_scan}, {"__close", scan_close}, {NULL, NULL}};
const mt_lua_class mt_scan_class = {scan_name, scan_methods, metamethods, scan_index, NULL};
