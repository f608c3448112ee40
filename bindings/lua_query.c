/* Queries and fields, looked at before a store is asked. In `mortise.core`:
 *   query_check(json)     raises `unsupported` for a clause that the embedded store does not know either, which are those
 *                         that can run scripts and read other indices, and `rejected` for one that is wrong
 *   field_values(json, name) -> list      the scalars of the field in a document's source, wherever they are in it;
 *                         false for one that is no text */
#include "bindings/lua_query.h"

#include "bindings/lua_error.h"
#include "bindings/lua_json.h"
#include "bindings/lua_text.h"

#include "query/query.h"

static int core_query_check(lua_State *L) {
  mt_query *query = NULL;
  mortise_error err;
  mortise_status bad = mt_query_new(mt_check_slice(L, 1), &query, &err);
  mt_query_free(query);
  if (bad) mt_error_raise(L, &err);
  return 0;
}

typedef struct field_walk {
  mt_json *values;
  size_t n, max;
} field_walk;

static bool note_value(void *ctx, mt_json value) {
  field_walk *walk = ctx;
  if (walk->n < walk->max) walk->values[walk->n] = value;
  walk->n++;
  return false;
}

static int core_field_values(lua_State *L) {
  mt_slice text = mt_check_slice(L, 1), name = mt_check_slice(L, 2);
  mt_json root;
  mortise_error err;
  if (mt_json_parse(text, "the document", &root, &err)) mt_error_raise(L, &err);
  field_walk count = {NULL, 0, 0};
  mt_field_each(root, name, note_value, &count);
  field_walk walk = {lua_newuserdatauv(L, (count.n + 1) * sizeof *walk.values, 0), 0, count.n};
  mt_field_each(root, name, note_value, &walk);
  lua_createtable(L, (int)walk.n, 0);
  for (size_t i = 0; i < walk.n; i++) {
    if (walk.values[i].type != MT_JSON_STRING)
      lua_pushboolean(L, false);
    else
      mt_json_push_scalar(L, walk.values[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

const luaL_Reg mt_query_functions[] = {
    {"query_check", core_query_check}, {"field_values", core_field_values}, {NULL, NULL}};
