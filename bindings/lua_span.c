/* Reading one shard by sequence numbers, and copying what was read (store.h):
 *   client:shards(index) -> {primary=, uuid=, settings=, {term=, max_seq_no=, local_checkpoint=, global_checkpoint=, docs=}, ...}
 *       shard K is at K + 1; `term` is nil where it cannot be had; `index` is no alias
 *   client:intervals(index, shard, from, to[, {primary=, width=}]) -> array of counts, their sum, array of sums of hashes
 *       of the numbers [from, to), in at most 8,192 rows: the first is row from // width; `primary` as shards says
 *   client:range(index, shard, from, to[, {primary=, no_source=, revisions=}]) -> page     at most 10,000 numbers;
 *       with `revisions` its documents have their `_version`
 *   client:find(index, shard, ids[, {primary=, revisions=}]) -> page     those that have one of at most 1,024 ids, without source
 *   client:range_end(index)       nobody reads it by numbers any more
 *   client:copy(index, page[, base]) -> {copied=, conflicts=, others=}
 *       writes all documents of a page of any client into `index`, with external_gte versions made of theirs, above `base`;
 *       `conflicts` are documents of which a later copy stands there; `others` is an array of answers as of bulk,
 *       each with `at`, the document's place in the page, for those that were not written
 * And in `mortise.core`:
 *   numbers_hash(array of numbers) -> what a row of `intervals` would have as its sum of hashes */
#include "bindings/lua_span.h"

#include "bindings/await.h"
#include "bindings/lua_bulk.h"
#include "bindings/lua_class.h"
#include "bindings/lua_client.h"
#include "bindings/lua_doc.h"
#include "bindings/lua_options.h"
#include "bindings/op.h"

/* ---- shards --------------------------------------------------------------------------------- */

static int push_shards(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_shards *r = &call->r.shards;
  lua_createtable(L, (int)r->n, 2);
  lua_pushboolean(L, r->primary);
  lua_setfield(L, -2, "primary");
  lua_pushstring(L, r->uuid);
  lua_setfield(L, -2, "uuid");
  mt_set_integer(L, "settings", (int64_t)r->settings);
  for (size_t i = 0; i < r->n; i++) {
    const mt_shard *s = &r->shards[i];
    lua_createtable(L, 0, 5);
    if (s->term) mt_set_integer(L, "term", (int64_t)s->term);
    mt_set_integer(L, "max_seq_no", s->max_seq_no);
    mt_set_integer(L, "local_checkpoint", s->local_checkpoint);
    mt_set_integer(L, "global_checkpoint", s->global_checkpoint);
    mt_set_integer(L, "docs", (int64_t)s->docs);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static void deinit_shards(mt_lua_call *call) {
  mt_shards_deinit(&call->r.shards);
}

static int client_shards(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, push_shards, deinit_shards);
  call->r.shards.index = index;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.shards.req);
  store->docs->shards(store, &call->r.shards);
  return mt_await(L, lua_gettop(L));
}

static int client_range_end(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  mt_lua_call *call = mt_lua_call_of(L, 2, NULL, NULL);
  call->r.admin.index = index;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.admin.req);
  store->docs->range_end(store, &call->r.admin);
  return mt_await(L, lua_gettop(L));
}

/* ---- intervals, range ----------------------------------------------------------------------- */

typedef struct span_options {
  int64_t width;
  bool primary, no_source, revisions;
} span_options;

static const mt_option interval_rows[] = {MT_INT_OPTION(span_options, width, 1, INT64_MAX),
                                          MT_FLAG_OPTION(span_options, primary), MT_NO_OPTION};
static const mt_option range_rows[] = {MT_FLAG_OPTION(span_options, primary), MT_FLAG_OPTION(span_options, no_source),
                                       MT_FLAG_OPTION(span_options, revisions), MT_NO_OPTION};

/* Arguments 2 to 6; the index's name stays at 2. */
static mt_span read_span(lua_State *L, const mt_option *rows, span_options *o, const char *what) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  lua_Integer shard = luaL_checkinteger(L, 3), from = luaL_checkinteger(L, 4), to = luaL_checkinteger(L, 5);
  luaL_argcheck(L, shard >= 0 && shard <= INT32_MAX, 3, "no number of a shard");
  luaL_argcheck(L, from >= 0, 4, "it is negative");
  luaL_argcheck(L, to >= 0, 5, "it is negative");
  lua_settop(L, 6);
  mt_options_read(L, 6, rows, o, what);
  return (mt_span){index, (uint32_t)shard, o->primary, (uint64_t)from, (uint64_t)to};
}

static int push_intervals(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_intervals *r = &call->r.intervals;
  lua_createtable(L, (int)r->n, 0);
  for (size_t i = 0; i < r->n; i++) {
    lua_pushinteger(L, (lua_Integer)r->counts[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushinteger(L, (lua_Integer)r->total);
  lua_createtable(L, (int)r->n, 0);
  for (size_t i = 0; i < r->n; i++) {
    lua_pushinteger(L, (lua_Integer)r->sums[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 3;
}

static void deinit_intervals(mt_lua_call *call) {
  mt_intervals_deinit(&call->r.intervals);
}

static int client_intervals(lua_State *L) {
  span_options o = {0};
  mt_span span = read_span(L, interval_rows, &o, "intervals");
  mt_lua_call *call = mt_lua_call_new(L, 1, push_intervals, deinit_intervals);
  mt_op_anchor(L, -1, 2, 2);
  call->r.intervals.span = span;
  call->r.intervals.width = (uint64_t)o.width;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.intervals.req);
  store->docs->intervals(store, &call->r.intervals);
  return mt_await(L, lua_gettop(L));
}

static int push_range(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  mt_page_push(L, &call->r.range.page);
  return 1;
}

static void deinit_range(mt_lua_call *call) {
  mt_range_deinit(&call->r.range);
}

static int client_range(lua_State *L) {
  span_options o = {0};
  mt_span span = read_span(L, range_rows, &o, "range");
  mt_lua_call *call = mt_lua_call_new(L, 1, push_range, deinit_range);
  mt_op_anchor(L, -1, 2, 2);
  call->r.range.span = span;
  call->r.range.no_source = o.no_source;
  call->r.range.revisions = o.revisions;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.range.req);
  store->docs->range(store, &call->r.range);
  return mt_await(L, lua_gettop(L));
}

static int client_find(lua_State *L) {
  span_options o = {0};
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  lua_Integer shard = luaL_checkinteger(L, 3);
  luaL_argcheck(L, shard >= 0 && shard <= INT32_MAX, 3, "no number of a shard");
  luaL_checktype(L, 4, LUA_TTABLE);
  lua_Integer n = luaL_len(L, 4);
  luaL_argcheck(L, n >= 0 && n <= MT_SPAN_ROW, 4, "too many ids");
  lua_settop(L, 5);
  mt_options_read(L, 5, range_rows, &o, "find");
  lua_newtable(L);
  mt_slice *ids = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *ids, 0);
  lua_rawseti(L, 6, n + 1);
  for (lua_Integer i = 1; i <= n; i++) {
    luaL_argcheck(L, lua_geti(L, 4, i) == LUA_TSTRING, 4, "an id is a string");
    ids[i - 1].p = lua_tolstring(L, -1, &ids[i - 1].n);
    lua_rawseti(L, 6, i);
  }
  mt_lua_call *call = mt_lua_call_new(L, 1, push_range, deinit_range);
  mt_op_anchor(L, -1, 2, 2);
  mt_op_anchor(L, -1, 3, 6);
  call->r.range.span = (mt_span){.index = index, .shard = (uint32_t)shard, .primary = o.primary};
  call->r.range.ids = ids;
  call->r.range.n_ids = (size_t)n;
  call->r.range.no_source = true;
  call->r.range.revisions = o.revisions;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.range.req);
  store->docs->range(store, &call->r.range);
  return mt_await(L, lua_gettop(L));
}

static int core_numbers_hash(lua_State *L) {
  uint64_t sum = 0;
  luaL_checktype(L, 1, LUA_TTABLE);
  for (lua_Integer i = 1, n = luaL_len(L, 1); i <= n; i++) {
    lua_geti(L, 1, i);
    sum += mt_span_hash((uint64_t)luaL_checkinteger(L, -1));
    lua_pop(L, 1);
  }
  lua_pushinteger(L, (lua_Integer)sum);
  return 1;
}

/* ---- copy ----------------------------------------------------------------------------------- */

static int push_copy(lua_State *L, mt_lua_call *call, int index) {
  (void)index;
  const mt_bulk *r = &call->r.bulk;
  int64_t copied = 0, conflicts = 0;
  lua_createtable(L, 0, 3);
  lua_newtable(L);
  for (size_t i = 0; i < r->n; i++) {
    const mt_write *w = &r->items[i];
    copied += w->result == MT_WRITE_APPLIED;
    conflicts += w->result == MT_WRITE_CONFLICT;
    if (w->result == MT_WRITE_APPLIED || w->result == MT_WRITE_CONFLICT) continue;
    mt_write_push(L, w);
    mt_set_integer(L, "at", (int64_t)i + 1);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  lua_setfield(L, -2, "others");
  mt_set_integer(L, "copied", copied);
  mt_set_integer(L, "conflicts", conflicts);
  return 1;
}

static void deinit_copy(mt_lua_call *call) {
  mt_page_free(call->more);
}

static int client_copy(lua_State *L) {
  mt_check_client(L, 1);
  const char *index = mt_check_string(L, 2);
  size_t n = mt_check_page(L, 3)->n;
  lua_Integer base = luaL_optinteger(L, 4, 0);
  luaL_argcheck(L, base >= 0, 4, "it is negative");
  lua_settop(L, 3);
  mt_write *items = lua_newuserdatauv(L, (n + 1) * sizeof *items, 0);
  mt_lua_call *call = mt_lua_call_new(L, 1, push_copy, deinit_copy);
  mt_op_anchor(L, -1, 2, 2);
  mt_op_anchor(L, -1, 3, 4);
  mt_page *page = call->more = mt_page_share(mt_check_page(L, 3)); /* which may be closed meanwhile */
  for (size_t i = 0; i < n; i++) items[i] = mt_write_copy(&page->docs[i], (uint64_t)base);
  call->r.bulk.index = index;
  call->r.bulk.items = items;
  call->r.bulk.n = n;
  call->r.bulk.copies = true;
  mt_store *store = mt_lua_call_start(call, mt_check_client(L, 1), &call->r.bulk.req);
  store->docs->bulk(store, &call->r.bulk);
  return mt_await(L, lua_gettop(L));
}

const luaL_Reg mt_span_methods[] = {{"shards", client_shards},       {"intervals", client_intervals},
                                    {"range", client_range},         {"range_end", client_range_end},
                                    {"find", client_find},           {"copy", client_copy},
                                    {NULL, NULL}};
const luaL_Reg mt_span_functions[] = {{"numbers_hash", core_numbers_hash}, {NULL, NULL}};
