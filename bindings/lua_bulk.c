/* Writing documents:
 *   client:bulk(index or nil, items[, refresh]) -> array of answers, one for each item
 * An item is {kind="create" | "index" | "update" | "delete", id=, index=, routing=, body=, seq_no=,
 * term=, external_gte=, skip_pipeline=}: `body` is JSON text or a document view; {"doc": ...} for an update;
 * `index` if it differs from the call's; `seq_no` and `term` together write only that version;
 * `external_gte`, of an index or a delete, is its own (store.h).
 * Without an id (create, index) the server makes one. Any other key is an error.
 * An answer is {result="applied" | "noop" | "conflict" | "missing" | "busy" | "rejected", status=
 * (201: it was created), seq_no=, term=, type=, reason=, standing=}. The call raises an error if the whole request
 * failed. It is never split: keep batches to about a thousand small documents. */
#include "bindings/lua_bulk.h"

#include "bindings/await.h"
#include "bindings/lua_buf.h"
#include "bindings/lua_class.h"
#include "bindings/lua_client.h"
#include "bindings/lua_doc.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"

#include <string.h>

static const char *const kinds[] = {"create", "index", "update", "delete", NULL};
static const char *const results[] = {"none",    "applied", "noop",    "conflict",
                                      "missing", "busy",    "rejected"};

typedef struct fields {
  const char *kind, *id, *index, *routing, *body; /* never read: only declares the allowed names */
  int64_t seq_no, term, external_gte;
  bool skip_pipeline, of_source;
} fields;

static const mt_option rows[] = {MT_TEXT_OPTION(fields, kind),
                                 MT_TEXT_OPTION(fields, id),
                                 MT_TEXT_OPTION(fields, index),
                                 MT_TEXT_OPTION(fields, routing),
                                 MT_TEXT_OPTION(fields, body),
                                 MT_INT_OPTION(fields, seq_no, 0, INT64_MAX),
                                 MT_INT_OPTION(fields, term, 0, INT64_MAX),
                                 MT_INT_OPTION(fields, external_gte, 0, INT64_MAX),
                                 MT_FLAG_OPTION(fields, skip_pipeline),
                                 MT_FLAG_OPTION(fields, of_source),
                                 MT_NO_OPTION};

/* Reads a string field of the item on top and keeps it in the table at `keep`. */
static mt_slice keep_string(lua_State *L, const char *key, int keep, lua_Integer *kept) {
  mt_slice s = {NULL, 0};
  if (lua_getfield(L, -1, key) == LUA_TSTRING) {
    s.p = lua_tolstring(L, -1, &s.n);
    lua_rawseti(L, keep, ++*kept);
  } else {
    lua_pop(L, 1);
  }
  return s;
}

/* Replaces a view in `body` by its text, in a copy of the item on top. */
static void flatten_body(lua_State *L) {
  int item = lua_gettop(L);
  if (lua_getfield(L, item, "body") != LUA_TUSERDATA) {
    lua_pop(L, 1);
    return;
  }
  mt_options_copy(L, item);
  mt_buf *b = mt_buf_push(L, (size_t)1 << 30);
  if (!mt_view_encode(L, -2, b))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the body of an item is JSON text or a document");
  mt_buf_check(L, b, "the body");
  lua_pushlstring(L, b->p, b->n);
  lua_setfield(L, item, "body");
  lua_settop(L, item);
}

static mt_write_kind kind_of(lua_State *L, const char *name) {
  for (int i = 0; name && kinds[i]; i++)
    if (!strcmp(name, kinds[i])) return (mt_write_kind)i;
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                 "the kind of an item is create, index, update or delete");
}

void mt_write_read(lua_State *L, mt_write *out, int keep, lua_Integer *kept) {
  fields f = {0};
  if (lua_type(L, -1) != LUA_TTABLE)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "an item is a table, not a %s",
                   luaL_typename(L, -1));
  flatten_body(L);
  mt_options_fill(L, -1, rows, &f, "bulk item");
  *out = (mt_write){.kind = kind_of(L, f.kind),
                    .external_gte = (uint64_t)f.external_gte,
                    .skip_pipeline = f.skip_pipeline};
  out->id = keep_string(L, "id", keep, kept);
  out->index = keep_string(L, "index", keep, kept);
  out->routing = keep_string(L, "routing", keep, kept);
  out->body = keep_string(L, "body", keep, kept);
  out->if_version = (mt_version){(uint64_t)f.seq_no, (uint64_t)f.term};
  if (out->kind != MT_WRITE_DELETE && !out->body.p)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "an item to %s needs a body", kinds[out->kind]);
  if (!out->id.p && (out->kind == MT_WRITE_UPDATE || out->kind == MT_WRITE_DELETE))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "an item to %s needs an id", kinds[out->kind]);
  lua_getfield(L, -1, "seq_no");
  if (!lua_isnil(L, -1) != (f.term > 0))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "an item has both seq_no and term, or neither");
  lua_pop(L, 1);
}

void mt_write_push(lua_State *L, const mt_write *w) {
  lua_createtable(L, 0, 6);
  lua_pushstring(L, results[w->result]);
  lua_setfield(L, -2, "result");
  lua_pushinteger(L, w->status);
  lua_setfield(L, -2, "status");
  if (w->version.term) {
    lua_pushinteger(L, (lua_Integer)w->version.seq_no);
    lua_setfield(L, -2, "seq_no");
    lua_pushinteger(L, (lua_Integer)w->version.term);
    lua_setfield(L, -2, "term");
  }
  if (w->standing) {
    lua_pushinteger(L, (lua_Integer)w->standing);
    lua_setfield(L, -2, "standing");
  }
  mt_set_text(L, "type", w->type);
  mt_set_text(L, "reason", w->reason);
}

static int push_bulk(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  lua_createtable(L, (int)call->r.bulk.n, 0);
  for (size_t i = 0; i < call->r.bulk.n; i++) {
    mt_write_push(L, &call->r.bulk.items[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int client_bulk(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_opt_string(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 4);
  lua_Integer n = luaL_len(L, 3), kept = 0;
  luaL_argcheck(L, n >= 0 && n <= MT_WRITES_MAX, 3, "too many items");
  if (!n) {
    lua_newtable(L);
    return 1;
  }
  lua_newtable(L);
  mt_write *items = lua_newuserdatauv(L, (size_t)n * sizeof *items, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, 3, i);
    mt_write_read(L, &items[i - 1], 5, &kept);
    lua_pop(L, 1);
  }
  mt_lua_call *call = mt_lua_call_new(L, 1, push_bulk, NULL);
  mt_op_anchor(L, -1, 2, 2);
  mt_op_anchor(L, -1, 3, 5);
  mt_op_anchor(L, -1, 4, 6);
  call->r.bulk.index = index;
  call->r.bulk.items = items;
  call->r.bulk.n = (size_t)n;
  call->r.bulk.refresh = lua_toboolean(L, 4);
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.bulk.req);
  store->docs->bulk(store, &call->r.bulk);
  return mt_await(L, lua_gettop(L));
}

const luaL_Reg mt_bulk_methods[] = {{"bulk", client_bulk}, {NULL, NULL}};
