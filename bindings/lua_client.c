/* Clients. In `mortise.core`:
 *   open{store=, ns=, ...} -> client    the keys are the rows below; any other is an error
 *   options                       the rows of client/options.def, in its order: {member=, name=, word=,
 *                                 kind=, help=, default=, and of numbers least=, most=, range=, all
 *                                 as text too: default_text=, least_text=, most_text=}
 *   default_margin(lease_ms) -> ms       the default margin for a lease
 *   time_max                      the longest allowed time, in ms
 *   time_text(ms) -> string       "250ms", "90s": in the largest unit that divides it
 *   default_options() -> table    those of the host; nil if none
 * A client (closable; everything that uses it ends with it):
 *   :close()                      releases every lock, closes the session
 *   :url() -> string
 *   :namespace() -> string
 *   :init(print) -> {epoch=, created=, text=}   creates the lock tables; print: only says how
 *   :verify() -> {epoch=}         or corrupt_table, or not_found: run init. "" on an embedded store
 *                                 that has documents but never had locks
 *   :stats() -> {requests=, retries=, sent_bytes=, received_bytes=, conflicts=, unidentified=, lock_batches=,
 *                lock_items=, lock_conflicts=, denials=, waits=, takeovers=, janitor=, cleared=}
 *   :clear_the_dead()             what dead sessions left is removed as soon as they are proven dead, as long
 *                                 as a session is open; stats().cleared counts the entries
 *   and the methods in lua_store.c, lua_bulk.c, lua_scan.c, lua_list.c, lua_session.c, lua_lock.c,
 *   lua_break.c. */
#include "bindings/lua_client.h"

#include "bindings/await.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/task.h"

#include "base/mem.h"
#include "base/must.h"
#include "client/options.h"

#include <string.h>

static const char client_name[] = "mortise.client";

/* The client checks ranges, with better messages. */
#define ROW_TEXT(member) MT_TEXT_OPTION(mortise_options, member),
#define ROW_FILE(member) ROW_TEXT(member)
#define ROW_SECRET(member) ROW_TEXT(member)
#define ROW_TIME(member) MT_INT_OPTION(mortise_options, member, INT64_MIN, INT64_MAX),
#define ROW_SIZE(member) MT_SIZE_OPTION(mortise_options, member, 0, INT64_MAX),
#define ROW_FLAG(member) MT_FLAG_OPTION(mortise_options, member),
static const mt_option rows[] = {
#define OPTION(kind, member, ...) ROW_##kind(member)
#include "client/options.def"
#undef OPTION
    MT_NO_OPTION};

/* ---- Dependents ----------------------------------------------------------------------------- */

void mt_depend(mt_dependent **list, mt_dependent *d) {
  MT_MUST(!d->slot);
  d->next = *list;
  d->slot = list;
  if (d->next) d->next->slot = &d->next;
  *list = d;
}

void mt_undepend(mt_dependent *d) {
  if (!d->slot) return;
  *d->slot = d->next;
  if (d->next) d->next->slot = d->slot;
  d->slot = NULL;
}

void mt_drop_all(mt_dependent **list) {
  while (*list) {
    mt_dependent *d = *list;
    mt_undepend(d);
    d->drop(d);
  }
}

void mt_drop_of(mt_dependent **list, const mt_client_session *session) {
  for (mt_dependent *d = *list; d;) {
    if (d->of != session) {
      d = d->next;
      continue;
    }
    mt_undepend(d);
    d->drop(d); /* may drop others */
    d = *list;
  }
}

/* ---- The end of a client -------------------------------------------------------------------- */

static void on_client_closed(void *ctx) {
  mt_box *box = ctx;
  box->closed = true;
  mt_op *closer = box->closer;
  box->closer = NULL;
  if (closer) mt_op_done(closer);
}

static void start_closing(mt_box *box) {
  if (box->closing || mt_driver_forked(box->driver)) return;
  box->closing = true;
  mt_drop_all(&box->dependents);
  mt_drop_all(&box->locks);
  mt_client_close(box->client, on_client_closed, box);
}

/* Frees closed clients; not callable from the loop's callbacks. */
static void sweep(mt_driver *d) {
  if (mt_driver_forked(d)) return;
  for (mt_box **slot = &d->boxes; *slot;) {
    mt_box *box = *slot;
    if (!box->closed) {
      slot = &box->next;
      continue;
    }
    *slot = box->next;
    mt_client_free(box->client);
    if (atomic_load(&box->lost)) atomic_fetch_sub(&d->lost, 1);
    mt_free(box);
  }
}

void mt_client_close_all(mt_driver *d) {
  if (mt_driver_forked(d)) return;
  for (mt_box *box = d->boxes; box; box = box->next) start_closing(box);
  sweep(d);
  while (d->boxes && !mt_loop_step(d->loop, -1, NULL)) sweep(d);
  for (mt_box *box = d->boxes; box; box = box->next) box->closed = true; /* the loop has failed */
  sweep(d);
}

static void on_lost(void *ctx) { /* in the heartbeat's thread */
  mt_box *box = ctx;
  if (!atomic_exchange(&box->lost, true)) atomic_fetch_add(&box->driver->lost, 1);
  mt_driver_kick(box->driver);
}

typedef struct close_op {
  mt_op op;
  mt_box *box;
} close_op;

static bool cancel_client_close(mt_op *op) { /* closing continues without us */
  mt_box *box = ((close_op *)op)->box;
  if (box->closer == op) box->closer = NULL;
  return true;
}

static int finish_client_close(lua_State *L, mt_op *op, int index) {
  (void)L;
  (void)index;
  sweep(op->driver);
  return 0;
}

static const mt_op_type client_close_type = {cancel_client_close, finish_client_close, NULL, true,
                                             NULL};

static int client_close(lua_State *L) {
  mt_handle *handle = luaL_checkudata(L, 1, client_name);
  if (!handle->box) return 0;
  close_op *op = mt_lua_op_new(L, sizeof *op, 0, &client_close_type);
  handle = lua_touserdata(L, 1);
  if (!handle->box) return 0; /* meanwhile */
  op->box = handle->box;
  handle->box = NULL;
  mt_op_start(&op->op);
  op->box->closer = &op->op;
  start_closing(op->box);
  return mt_await(L, lua_gettop(L));
}

static int collect_client(lua_State *L) {
  mt_handle *handle = lua_touserdata(L, 1);
  if (handle->box) start_closing(handle->box);
  handle->box = NULL;
  return 0;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static bool inherits_locks(void *ctx, uint64_t holder, uint64_t task) {
  const mt_box *box = ctx;
  return mt_task_inherits(box->driver, holder, task);
}

static int core_open(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  mt_driver_check(d, L);
  mortise_options options;
  mortise_error err;
  mortise_options_init(&options);
  if (d->defaults) {
    options.log = d->defaults->log;
    options.log_ctx = d->defaults->log_ctx;
    options.notice = d->defaults->notice;
    options.notice_ctx = d->defaults->notice_ctx;
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  mt_options_read(L, 1, rows, &options, "open");
  sweep(d);
  mt_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->box = NULL;
  luaL_setmetatable(L, client_name);
  mt_box *box = mt_calloc(1, sizeof *box);
  if (!box) mt_error_throw(L, MORTISE_OUT_OF_MEMORY, "out of memory");
  box->driver = d;
  const mt_client_hooks hooks = {inherits_locks, on_lost, box};
  options.loop = d->shared;
  box->client = mt_client_open(&options, d->shared ? NULL : d->loop, &hooks, &err);
  if (!box->client) {
    mt_free(box);
    mt_error_raise(L, &err);
  }
  box->next = d->boxes;
  d->boxes = box;
  handle->box = box;
  return 1;
}

mt_box *mt_check_client(lua_State *L, int index) {
  const mt_handle *handle = luaL_checkudata(L, index, client_name);
  mt_driver_check(mt_driver_get(L), L);
  if (!handle->box) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the client is closed");
  return handle->box;
}

static void push_option(lua_State *L, const mt_option *row, const mortise_options *options) {
  const char *place = (const char *)options + row->offset;
  switch (row->type) {
  case MT_OPTION_STRING:
    lua_pushstring(L, *(const char *const *)place); /* nil for NULL */
    break;
  case MT_OPTION_INT:
    lua_pushinteger(L, *(const int64_t *)place);
    break;
  case MT_OPTION_SIZE:
    lua_pushinteger(L, (lua_Integer) * (const size_t *)place & INT64_MAX);
    break;
  case MT_OPTION_BOOL:
    lua_pushboolean(L, *(const bool *)place);
    break;
  }
}

static int core_default_options(lua_State *L) {
  const mortise_options *options = mt_driver_get(L)->defaults;
  if (!options || !options->store) return 0;
  lua_newtable(L);
  for (const mt_option *row = rows; row->name; row++) {
    push_option(L, row, options);
    lua_setfield(L, -2, row->name);
  }
  return 1;
}

/* ---- The options, described ------------------------------------------------------------------ */

static int core_time_text(lua_State *L) {
  char text[MT_NUMBER_TEXT];
  int64_t ms = luaL_checkinteger(L, 1);
  luaL_argcheck(L, ms >= 0, 1, "below 0");
  mt_time_text(ms, text);
  lua_pushstring(L, text);
  return 1;
}

static int core_default_margin(lua_State *L) {
  lua_pushinteger(L, mt_margin_default(luaL_checkinteger(L, 1)));
  return 1;
}

static void set_option_number(lua_State *L, const mt_client_option *row, const char *key,
                              int64_t value) {
  char text[MT_NUMBER_TEXT];
  mt_client_option_show(row, value, text);
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
  lua_pushfstring(L, "%s_text", key);
  lua_pushstring(L, text);
  lua_rawset(L, -3);
}

/* A default below the least is internal and not shown. */
static void set_option_range(lua_State *L, const mt_client_option *row, int64_t initial) {
  char range[MT_OPTION_RANGE];
  mt_client_option_range(row, range);
  mt_set_text(L, "range", range);
  set_option_number(L, row, "least", row->least);
  if (row->most) set_option_number(L, row, "most", row->most);
  if (initial >= row->least) set_option_number(L, row, "default", initial);
}

static void push_row(lua_State *L, int i, const mortise_options *defaults) {
  static const char *const kinds[] = {"text", "file", "secret", "time", "size", "flag"};
  const mt_client_option *row = &mt_client_option_rows[i];
  lua_createtable(L, 0, 12);
  mt_set_text(L, "member", row->member);
  mt_set_text(L, "name", row->name);
  mt_set_text(L, "word", row->word ? row->word : row->name);
  mt_set_text(L, "kind", kinds[row->kind]);
  mt_set_text(L, "help", row->help);
  push_option(L, &rows[i], defaults);
  if (!lua_isinteger(L, -1)) {
    lua_setfield(L, -2, "default");
    return;
  }
  int64_t initial = lua_tointeger(L, -1);
  lua_pop(L, 1);
  set_option_range(L, row, initial);
}

void mt_client_options_push(lua_State *L) {
  mortise_options defaults;
  mortise_options_init(&defaults);
  lua_createtable(L, MT_CLIENT_OPTIONS, 0);
  for (int i = 0; i < MT_CLIENT_OPTIONS; i++) {
    push_row(L, i, &defaults);
    lua_rawseti(L, -2, i + 1);
  }
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* Must run while the client exists, since freeing an answer may need it. */
static void end_call(mt_lua_call *call) {
  if (call->deinit) call->deinit(call);
  call->deinit = NULL;
}

static bool cancel_call(mt_op *op) {
  mt_lua_call *call = (mt_lua_call *)op;
  mt_undepend(&call->dependent);
  bool applied = mt_store_cancel(call->box->client->store, call->req);
  end_call(call);
  return applied;
}

static int finish_call(lua_State *L, mt_op *op, int index) {
  mt_lua_call *call = (mt_lua_call *)op;
  mt_undepend(&call->dependent);
  if (!call->req->error.code) return call->push ? call->push(L, call, index) : 0;
  const mortise_error err = call->req->error;
  end_call(call);
  mt_error_raise(L, &err);
}

static void deinit_call(mt_op *op) {
  mt_lua_call *call = (mt_lua_call *)op;
  mt_undepend(&call->dependent);
  end_call(call);
}

static const mt_op_type call_type = {cancel_call, finish_call, deinit_call, false, NULL};

static const char closed_text[] = "the client was closed";

static void drop_call(mt_dependent *self) {
  mt_lua_call *call = MT_CONTAINER(self, mt_lua_call, dependent);
  mt_op_stop(&call->op, closed_text);
  if (!call->op.stop) { /* it was answered, but the answer was not read yet */
    call->op.stop = closed_text;
    call->op.applied = mt_req_applied(call->req);
  }
  end_call(call);
}

static void on_store_answer(void *ctx, mt_req *req) {
  (void)req;
  mt_op_done(ctx);
}

mt_lua_call *mt_lua_call_new(lua_State *L, int client,
                             int (*push)(lua_State *L, mt_lua_call *call, int index),
                             void (*deinit)(mt_lua_call *call)) {
  client = lua_absindex(L, client);
  mt_task_check(L, mt_driver_get(L)); /* check before it is sent, since a write cannot be undone */
  mt_lua_call *call = mt_lua_op_new(L, sizeof *call, MT_CALL_ANCHORS, &call_type);
  call->op.checked = true;
  call->push = push;
  call->deinit = deinit;
  call->dependent.drop = drop_call;
  mt_op_anchor(L, -1, 1, client);
  return call;
}

mt_lua_call *mt_lua_call_of(lua_State *L, int arguments, int (*push)(lua_State *L, mt_lua_call *call, int index),
                            void (*deinit)(mt_lua_call *call)) {
  MT_MUST(arguments <= MT_CALL_ANCHORS);
  lua_settop(L, arguments);
  mt_lua_call *call = mt_lua_call_new(L, 1, push, deinit);
  for (int i = 2; i <= arguments; i++) mt_op_anchor(L, -1, i, i);
  return call;
}

mt_store *mt_lua_call_start(mt_lua_call *call, mt_box *box, mt_req *req) {
  call->box = box;
  call->req = req;
  req->done = on_store_answer;
  req->ctx = call;
  mt_depend(&box->dependents, &call->dependent);
  mt_op_start(&call->op);
  return box->client->store;
}

/* ---- The lock tables ------------------------------------------------------------------------ */

static int push_admin(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_locks_admin *r = &call->r.locks_admin;
  lua_createtable(L, 0, 4);
  mt_set_integer(L, "stripes", r->stripes);
  lua_pushstring(L, r->epoch.id);
  lua_setfield(L, -2, "epoch");
  lua_pushboolean(L, r->created);
  lua_setfield(L, -2, "created");
  lua_pushstring(L, r->text);
  lua_setfield(L, -2, "text");
  return 1;
}

static void deinit_admin(mt_lua_call *call) {
  mt_locks_admin_deinit(&call->r.locks_admin);
}

typedef struct init_options {
  bool print;
  int64_t stripes;
} init_options;

static const mt_option init_rows[] = {MT_FLAG_OPTION(init_options, print),
                                      MT_INT_OPTION(init_options, stripes, 1, MT_STRIPES_MAX),
                                      MT_NO_OPTION};

static int client_init(lua_State *L) {
  init_options o = {0};
  mt_check_client(L, 1);
  mt_options_read(L, 2, init_rows, &o, "init");
  mt_lua_call *call = mt_lua_call_new(L, 1, push_admin, deinit_admin);
  call->r.locks_admin.print = o.print;
  call->r.locks_admin.wanted = (uint32_t)o.stripes;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.locks_admin.req);
  store->locks->init(store, &call->r.locks_admin);
  return mt_await(L, lua_gettop(L));
}

static int client_verify(lua_State *L) {
  mt_check_client(L, 1);
  mt_lua_call *call = mt_lua_call_new(L, 1, push_admin, deinit_admin);
  call->r.locks_admin.look = true;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.locks_admin.req);
  store->locks->verify(store, &call->r.locks_admin);
  return mt_await(L, lua_gettop(L));
}

/* ---- Looking at it -------------------------------------------------------------------------- */

static void add_stats(mt_manager_stats *sum, mt_manager_stats one) {
  sum->batches += one.batches;
  sum->items += one.items;
  sum->conflicts += one.conflicts;
  sum->denials += one.denials;
  sum->waits += one.waits;
  sum->takeovers += one.takeovers;
  sum->janitor += one.janitor;
  sum->cleared += one.cleared;
}

static int client_stats(lua_State *L) {
  const mortise_client *client = mt_check_client(L, 1)->client;
  const mt_store_stats s = client->store->stats;
  mt_manager_stats m = {0};
  for (const mt_client_session *each = client->sessions; each; each = each->next)
    add_stats(&m, mt_manager_get_stats(each->manager));
  lua_createtable(L, 0, 14);
  mt_set_count(L, "requests", s.requests);
  mt_set_count(L, "retries", s.retries);
  mt_set_count(L, "sent_bytes", s.sent_bytes);
  mt_set_count(L, "received_bytes", s.received_bytes);
  mt_set_count(L, "conflicts", s.conflicts);
  mt_set_count(L, "unidentified", s.unidentified);
  mt_set_count(L, "lock_batches", m.batches);
  mt_set_count(L, "lock_items", m.items);
  mt_set_count(L, "lock_conflicts", m.conflicts);
  mt_set_count(L, "denials", m.denials);
  mt_set_count(L, "waits", m.waits);
  mt_set_count(L, "takeovers", m.takeovers);
  mt_set_count(L, "janitor", m.janitor);
  mt_set_count(L, "cleared", m.cleared);
  return 1;
}

static int client_clear_the_dead(lua_State *L) {
  const mortise_client *client = mt_check_client(L, 1)->client;
  for (mt_client_session *each = client->sessions; each; each = each->next)
    mt_manager_clear_the_dead(each->manager);
  return 0;
}

static int client_namespace(lua_State *L) {
  lua_pushstring(L, mt_client_options(mt_check_client(L, 1)->client)->ns);
  return 1;
}

static int client_url(lua_State *L) {
  lua_pushstring(L, mt_check_client(L, 1)->client->store->url);
  return 1;
}

static int client_tostring(lua_State *L) {
  const mt_handle *handle = luaL_checkudata(L, 1, client_name);
  if (handle->box)
    lua_pushfstring(L, "client of %s", handle->box->client->store->url);
  else
    lua_pushliteral(L, "client (closed)");
  return 1;
}

const luaL_Reg mt_client_functions[] = {{"open", core_open},
                                        {"default_margin", core_default_margin},
                                        {"time_text", core_time_text},
                                        {"default_options", core_default_options},
                                        {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"close", client_close},         {"url", client_url},
    {"init", client_init},           {"verify", client_verify},
    {"stats", client_stats},         {"clear_the_dead", client_clear_the_dead},
    {"namespace", client_namespace}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", collect_client},
                                       {"__close", client_close},
                                       {"__tostring", client_tostring},
                                       {NULL, NULL}};
const mt_lua_class mt_client_class = {client_name, methods, metamethods, NULL, NULL};
