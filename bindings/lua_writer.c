/* Protected writes:
 *   lock:writer(index or nil, {strength="cas", stamp_field=, docs=, bytes=, in_flight=, tries=,
 *                              backoff_ms=})      strength: cas, stamp or none, see write/writer.h
 *   client:writer(index or nil, {...})      the same without a lock, unprotected
 * A writer (closable; it ends with its lock) sends batches of items (see lua_bulk.c) in requests of
 * at most `docs` items and `bytes`, sends nothing past the lock's deadline, and retries what failed
 * without being applied:
 *   :write(items[, {refresh=, exact=}]) -> answers, err
 *                                   an answer for each item: {outcome="applied" | "already" |
 *                                   "conflict" | "rejected" | "none", dirty=, doubted=, result=,
 *                                   status=, seq_no=, term=, type=, reason=}. err is nil if each item has
 *                                   an outcome, else what stopped it (lock_lost, unavailable ...);
 *                                   items with "none" were not done or, if `dirty`, may have been
 *   :close()                        what is in flight may still be applied
 * With strength "stamp" an item may have of_source = true: its body was made from the whole source
 * at seq_no and term. A conflict of type "stamped" met a later holder's stamp.
 *
 * Several tasks may share one writer; a task that is interrupted while it waits closes it. No two
 * items of one batch may write the same document. */
#include "bindings/lua_writer.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_bulk.h"
#include "bindings/lua_client.h"
#include "bindings/lua_error.h"
#include "bindings/lua_lock.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"
#include "bindings/task.h"

#include "write/writer.h"

#include <string.h>

static const char writer_name[] = "mortise.writer";
static const char closed_text[] = "the writer was closed";

typedef struct writer {
  mt_dependent dependent;
  mt_writer *w;         /* NULL: closed */
  mt_dependent *writes; /* in progress */
  mt_driver *driver;
} writer; /* user values: the client or lock, the index */

static const char *const outcomes[MT_OUTCOMES] = {"none", "applied", "already", "conflict",
                                                  "rejected"};

/* ---- The end of a writer -------------------------------------------------------------------- */

static void close_writer(writer *self) {
  mt_writer *w = mt_driver_forked(self->driver) ? NULL : self->w;
  self->w = NULL;
  mt_undepend(&self->dependent);
  mt_writer_free(w);
  mt_drop_all(&self->writes);
}

static void drop_writer(mt_dependent *d) {
  close_writer(MT_CONTAINER(d, writer, dependent));
}

static int writer_close(lua_State *L) {
  close_writer(luaL_checkudata(L, 1, writer_name));
  return 0;
}

/* ---- write ---------------------------------------------------------------------------------- */

typedef struct write_op {
  mt_op op;
  mt_dependent dependent;
  writer *writer;
  mt_write_batch batch;
} write_op; /* anchors: the writer, strings, items */

/* Was any of it applied, or may it have been? */
static bool is_applied(const mt_write_batch *b) {
  return b->dirty || b->counts[MT_OUTCOME_APPLIED];
}

/* A single batch cannot be cancelled, so this closes the writer. */
static bool cancel_write(mt_op *op) {
  write_op *self = (write_op *)op;
  mt_undepend(&self->dependent);
  close_writer(self->writer);
  return is_applied(&self->batch);
}

static void drop_write(mt_dependent *d) {
  write_op *self = MT_CONTAINER(d, write_op, dependent);
  mt_op_stop(&self->op, closed_text);
}

static void push_answer(lua_State *L, const mt_item *item) {
  mt_write_push(L, &item->write);
  lua_pushstring(L, outcomes[item->outcome]);
  lua_setfield(L, -2, "outcome");
  lua_pushboolean(L, item->dirty);
  lua_setfield(L, -2, "dirty");
  lua_pushboolean(L, item->doubted);
  lua_setfield(L, -2, "doubted");
}

static int finish_write(lua_State *L, mt_op *op, int index) {
  (void)index;
  const mt_write_batch *b = &((write_op *)op)->batch;
  lua_createtable(L, (int)b->n, 0);
  for (size_t i = 0; i < b->n; i++) {
    push_answer(L, &b->items[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  if (!b->error.code) return 1;
  mortise_error err = b->error;
  err.ambiguous |= is_applied(b); /* for the whole call */
  mt_error_push(L, &err);
  return 2;
}

/* Returns the answers received until then, and the error. */
static int stopped_write(lua_State *L, mt_op *op, const mortise_error *why) {
  ((write_op *)op)->batch.error = *why;
  return finish_write(L, op, 0);
}

static void deinit_write(mt_op *op) {
  mt_undepend(&((write_op *)op)->dependent);
}

static const mt_op_type write_type = {cancel_write, finish_write, deinit_write, false,
                                      stopped_write};

static void on_written(void *ctx, mt_write_batch *b) {
  (void)b;
  write_op *self = ctx;
  mt_undepend(&self->dependent);
  mt_op_done(&self->op);
}

/* Pushes a table that keeps the strings, then the block of items. */
static mt_item *push_items(lua_State *L, int from, lua_Integer n) {
  lua_Integer kept = 0;
  lua_newtable(L);
  int keep = lua_gettop(L);
  mt_item *items = lua_newuserdatauv(L, (size_t)n * sizeof *items + 1, 0);
  memset(items, 0, (size_t)n * sizeof *items);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, from, i);
    if (lua_istable(L, -1)) {
      lua_getfield(L, -1, "of_source");
      items[i - 1].of_source = lua_toboolean(L, -1);
      lua_pop(L, 1);
    }
    mt_write_read(L, &items[i - 1].write, keep, &kept);
    if (items[i - 1].write.external_gte)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "an item of a writer has no external_gte: the lock protects it");
    lua_pop(L, 1);
  }
  return items;
}

static writer *check_writer(lua_State *L) {
  writer *w = luaL_checkudata(L, 1, writer_name);
  if (!w->w) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s", closed_text);
  return w;
}

typedef struct batch_options {
  bool refresh, exact;
} batch_options;

static const mt_option batch_rows[] = {MT_FLAG_OPTION(batch_options, refresh),
                                       MT_FLAG_OPTION(batch_options, exact), MT_NO_OPTION};

static int writer_write(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  check_writer(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 3);
  batch_options o = {0};
  mt_options_read(L, 3, batch_rows, &o, "write");
  lua_settop(L, 2);
  lua_Integer n = luaL_len(L, 2);
  luaL_argcheck(L, n >= 0 && n <= MT_WRITES_MAX, 2, "too many items");
  mt_item *items = push_items(L, 2, n);
  if (!n) return 1; /* returns the empty table */
  mt_task_check(L, d);
  write_op *op = mt_lua_op_new(L, sizeof *op, 3, &write_type);
  mt_op_anchor(L, -1, 1, 1);
  mt_op_anchor(L, -1, 2, 3);
  mt_op_anchor(L, -1, 3, 4);
  lua_getiuservalue(L, 1, 2);
  op->batch.index = lua_tostring(L, -1); /* kept by the writer */
  lua_pop(L, 1);
  op->op.checked = true;
  op->dependent.drop = drop_write;
  op->batch.done = on_written;
  op->batch.ctx = op;
  op->batch.items = items;
  op->batch.refresh = o.refresh;
  op->batch.exact = o.exact;
  op->batch.n = (size_t)n;
  writer *w = check_writer(L);
  op->writer = w;
  mt_writer_submit(w->w, &op->batch);
  mt_depend(&w->writes, &op->dependent);
  mt_op_start(&op->op);
  return mt_await(L, lua_gettop(L));
}

/* ---- writer --------------------------------------------------------------------------------- */

typedef struct writer_options {
  const char *strength, *stamp_field;
  int64_t docs, bytes, in_flight, tries, backoff_ms;
} writer_options;

static const mt_option rows[] = {MT_TEXT_OPTION(writer_options, strength),
                                 MT_TEXT_OPTION(writer_options, stamp_field),
                                 MT_INT_OPTION(writer_options, docs, 1, MT_WRITER_DOCS_MAX),
                                 MT_INT_OPTION(writer_options, bytes, 1024, 1 << 30),
                                 MT_INT_OPTION(writer_options, in_flight, 1, MT_WRITER_LANES),
                                 MT_INT_OPTION(writer_options, tries, 1, 100),
                                 MT_INT_OPTION(writer_options, backoff_ms, 1, 60000),
                                 MT_NO_OPTION};

static mt_strength strength_of(lua_State *L, const char *name) {
  static const char *const names[] = {
      [MT_STRENGTH_CAS] = "cas", [MT_STRENGTH_STAMP] = "stamp", [MT_STRENGTH_NONE] = "none"};
  for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return (mt_strength)i;
  if (name)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                   "writer: option \"strength\" is cas, stamp or none");
  return MT_STRENGTH_CAS;
}

static mt_writer_config read_config(lua_State *L, int index) {
  writer_options o = {0};
  mt_options_read(L, index, rows, &o, "writer");
  return (mt_writer_config){.docs = (uint32_t)o.docs,
                            .bytes = (size_t)o.bytes,
                            .in_flight = (uint32_t)o.in_flight,
                            .tries = (uint32_t)o.tries,
                            .backoff_ms = o.backoff_ms,
                            .strength = strength_of(L, o.strength),
                            .stamp_field = o.stamp_field};
}

/* The lock at 1, or NULL if it is a client. */
static mt_lock_handle *check_owner(lua_State *L) {
  if (luaL_testudata(L, 1, mt_lock_class.name)) return mt_check_lock(L, 1);
  mt_check_client(L, 1);
  return NULL;
}

static int make_writer(lua_State *L) {
  mt_driver *d = mt_driver_get(L);
  check_owner(L);
  mt_opt_string(L, 2);
  lua_settop(L, 3);
  const mt_writer_config config = read_config(L, 3);
  writer *self = lua_newuserdatauv(L, sizeof *self, 2);
  *self = (writer){.dependent.drop = drop_writer, .driver = d};
  luaL_setmetatable(L, writer_name);
  for (int i = 1; i <= 2; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, 4, i);
  }
  mortise_error err;
  mt_lock_handle *lock = check_owner(L);
  mt_box *box = lock ? lock->box : mt_check_client(L, 1);
  mt_permit permit = lock ? mt_manager_permit(lock->lock) : (mt_permit){0};
  self->w =
      mt_writer_new(box->client->store, mt_env_system(), lock ? &permit : NULL, &config, &err);
  if (!self->w) mt_error_raise(L, &err);
  mt_depend(lock ? &lock->users : &box->dependents, &self->dependent);
  return 1;
}

const luaL_Reg mt_writer_methods[] = {{"writer", make_writer}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"write", writer_write}, {"close", writer_close}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {
    {"__gc", writer_close}, {"__close", writer_close}, {NULL, NULL}};
const mt_lua_class mt_writer_class = {writer_name, methods, metamethods, NULL, NULL};
