/* JSON to and from Lua values. In `mortise.core`:
 *   json(value) -> string         strict: strings, numbers, booleans, null, views, and tables that
 *                                 are a sequence or have only string keys (written in byte order).
 *                                 Integers are exact, other numbers the shortest that reads back;
 *                                 NaN and infinities, mixed keys, holes and an empty plain table
 *                                 are errors
 *   json_decode(string) -> value  integers of 64 bits stay integers; arrays and objects are marked
 *                                 so that [] and {} survive json()
 *   json_quote(string) -> string  as a JSON string
 *   null                          JSON's null (the same value as cjson.null)
 *   array(table), object(table) -> table   marks it, so that it may be empty */
#include "bindings/lua_json.h"

#include "bindings/lua_buf.h"
#include "bindings/lua_class.h"
#include "bindings/lua_error.h"
#include "bindings/lua_text.h"

#include "base/json.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 128, TEXT_MAX = 1 << 30 };

static const char array_name[] = "mortise.array";
static const char object_name[] = "mortise.object";

/* ---- null, array, object -------------------------------------------------------------------- */

void mt_null_push(lua_State *L) {
  lua_pushlightuserdata(L, NULL);
}

bool mt_null_is(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TLIGHTUSERDATA && !lua_touserdata(L, index);
}

static bool has_class(lua_State *L, int index, const char *name) {
  if (!lua_getmetatable(L, index)) return false;
  luaL_getmetatable(L, name);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

static void set_class(lua_State *L, const char *name) {
  if (luaL_newmetatable(L, name)) {
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
  }
  lua_setmetatable(L, -2);
}

mt_json_mark mt_json_mark_of(lua_State *L, int index) {
  if (has_class(L, index, array_name)) return MT_JSON_MARK_ARRAY;
  return has_class(L, index, object_name) ? MT_JSON_MARK_OBJECT : MT_JSON_MARK_NONE;
}

void mt_json_set_mark(lua_State *L, mt_json_mark mark) {
  if (mark) set_class(L, mark == MT_JSON_MARK_ARRAY ? array_name : object_name);
}

/* ---- Lua to JSON ---------------------------------------------------------------------------- */

static void encode(lua_State *L, int index, mt_buf *out, int depth);

static void encode_float(lua_State *L, lua_Number value, mt_buf *out) {
  char text[MT_NUMBER_TEXT];
  if (!isfinite(value))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "JSON has no %s",
                   isnan(value) ? "NaN" : "infinity");
  mt_buf_add(out, text, mt_number_text(value, text));
}

static void encode_number(lua_State *L, int index, mt_buf *out) {
  if (lua_isinteger(L, index))
    mt_buf_addi(out, lua_tointeger(L, index));
  else
    encode_float(L, lua_tonumber(L, index), out);
}

static void encode_array(lua_State *L, int index, lua_Unsigned n, mt_buf *out, int depth) {
  mt_buf_addc(out, '[');
  for (lua_Unsigned i = 1; i <= n; i++) {
    if (i > 1) mt_buf_addc(out, ',');
    lua_rawgeti(L, index, (lua_Integer)i);
    encode(L, lua_gettop(L), out, depth);
    lua_pop(L, 1);
  }
  mt_buf_addc(out, ']');
}

static int by_bytes(const void *a, const void *b) {
  return mt_slice_cmp(*(const mt_slice *)a, *(const mt_slice *)b);
}

/* Adds up the lengths of the `n` keys, which must be strings. */
static size_t measure_keys(lua_State *L, int index, size_t n) {
  size_t bytes = 0, length;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || !n--)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                     "a table for JSON is a sequence or has string keys, not both");
    lua_tolstring(L, -2, &length);
    bytes += length;
  }
  return bytes;
}

/* Pushes a block with copies of the keys in byte order, since a finalizer may change the table. */
static mt_slice *push_keys(lua_State *L, int index, size_t *n) {
  size_t left = measure_keys(L, index, *n), i = 0;
  mt_slice *keys = lua_newuserdatauv(L, *n * sizeof *keys + left + 1, 0);
  char *p = (char *)(keys + *n);
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1), i++) {
    mt_slice key = {NULL, 0};
    if (lua_type(L, -2) == LUA_TSTRING) key.p = lua_tolstring(L, -2, &key.n);
    if (!key.p || i == *n || key.n > left)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a table for JSON changes while it is read");
    memcpy(p, key.p, key.n);
    keys[i] = (mt_slice){p, key.n};
    p += key.n;
    left -= key.n;
  }
  *n = i;
  qsort(keys, *n, sizeof *keys, by_bytes);
  return keys;
}

static void encode_object(lua_State *L, int index, size_t n, mt_buf *out, int depth) {
  const mt_slice *keys = push_keys(L, index, &n);
  mt_buf_addc(out, '{');
  for (size_t i = 0; i < n; i++) {
    if (i) mt_buf_addc(out, ',');
    mt_json_add_string(out, keys[i]);
    mt_buf_addc(out, ':');
    lua_pushlstring(L, keys[i].p, keys[i].n);
    lua_rawget(L, index);
    encode(L, lua_gettop(L), out, depth);
    lua_pop(L, 1);
  }
  mt_buf_addc(out, '}');
  lua_pop(L, 1);
}

static size_t count_members(lua_State *L, int index) {
  size_t n = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) n++;
  return n;
}

static void encode_table(lua_State *L, int index, mt_buf *out, int depth) {
  if (depth >= DEPTH_MAX)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a table for JSON is at most %d deep (a cycle?)",
                   DEPTH_MAX);
  mt_buf_check(L, out, "the JSON text"); /* tables within tables may make much of little */
  luaL_checkstack(L, 8, NULL);
  size_t members = count_members(L, index);
  lua_Unsigned n = lua_rawlen(L, index);
  if (members == 0 && !has_class(L, index, array_name) && !has_class(L, index, object_name))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                   "an empty table may be [] or {}: say mortise.array{} or mortise.object{}");
  if (has_class(L, index, array_name) || (n > 0 && n == members)) {
    if (n != members)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "an array for JSON has holes or other keys");
    encode_array(L, index, n, out, depth + 1);
  } else {
    encode_object(L, index, members, out, depth + 1);
  }
}

static bool encode_userdata(lua_State *L, int index, mt_buf *out) {
  const mt_lua_class *c = mt_class_of(L, index);
  return c && c->encode && c->encode(L, index, out);
}

static void encode(lua_State *L, int index, mt_buf *out, int depth) {
  size_t n;
  const char *p;
  switch (lua_type(L, index)) {
  case LUA_TSTRING:
    p = lua_tolstring(L, index, &n);
    mt_json_add_string(out, (mt_slice){p, n});
    return;
  case LUA_TNUMBER:
    encode_number(L, index, out);
    return;
  case LUA_TBOOLEAN:
    mt_buf_adds(out, lua_toboolean(L, index) ? "true" : "false");
    return;
  case LUA_TTABLE:
    encode_table(L, index, out, depth);
    return;
  default:
    if (mt_null_is(L, index)) {
      mt_buf_adds(out, "null");
      return;
    }
    if (encode_userdata(L, index, out)) return;
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "JSON has no %s", luaL_typename(L, index));
  }
}

void mt_json_encode(lua_State *L, int index, mt_buf *out) {
  encode(L, lua_absindex(L, index), out, 0);
}

/* ---- JSON to Lua ---------------------------------------------------------------------------- */

static void push_text(lua_State *L, mt_json value) {
  mt_slice plain;
  if (mt_json_plain(value, &plain)) {
    lua_pushlstring(L, plain.p, plain.n);
    return;
  }
  mt_buf *b = mt_buf_push(L, value.raw.n + 1);
  mt_json_text(value, b);
  mt_buf_check(L, b, "the string");
  lua_pushlstring(L, b->p ? b->p : "", b->n);
  lua_remove(L, -2);
}

static void push_number(lua_State *L, mt_json value) {
  int64_t i;
  double d = value.raw.p[0] == '-' ? -HUGE_VAL : HUGE_VAL; /* out of range of doubles, like 1e999 */
  if (mt_json_int(value, &i)) {
    lua_pushinteger(L, i);
    return;
  }
  mt_json_double(value, &d);
  lua_pushnumber(L, d);
}

bool mt_json_push_scalar(lua_State *L, mt_json value) {
  switch (value.type) {
  case MT_JSON_NULL:
    mt_null_push(L);
    return true;
  case MT_JSON_FALSE:
  case MT_JSON_TRUE:
    lua_pushboolean(L, value.type == MT_JSON_TRUE);
    return true;
  case MT_JSON_NUMBER:
    push_number(L, value);
    return true;
  case MT_JSON_STRING:
    push_text(L, value);
    return true;
  case MT_JSON_NONE:
    lua_pushnil(L);
    return true;
  default:
    return false;
  }
}

void mt_json_push_key(lua_State *L, mt_slice key) {
  if (!key.n || !memchr(key.p, '\\', key.n))
    lua_pushlstring(L, key.p, key.n);
  else /* in the text it is enclosed in quotes */
    push_text(L, (mt_json){MT_JSON_STRING, {key.p - 1, key.n + 2}});
}

void mt_json_push(lua_State *L, mt_json value) {
  if (mt_json_push_scalar(L, value)) return;
  luaL_checkstack(L, 8, "JSON is too deep"); /* mt_json_parse bounds the depth */
  lua_newtable(L);
  lua_Integer i = 0;
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it);) {
    if (it.object) mt_json_push_key(L, it.key);
    mt_json_push(L, it.value);
    if (it.object)
      lua_rawset(L, -3);
    else
      lua_rawseti(L, -2, ++i);
  }
  set_class(L, value.type == MT_JSON_ARRAY ? array_name : object_name);
}

/* ---- the module's functions ----------------------------------------------------------------- */

static int core_json(lua_State *L) {
  luaL_checkany(L, 1);
  mt_buf *b = mt_buf_push(L, TEXT_MAX);
  mt_json_encode(L, 1, b);
  mt_buf_check(L, b, "the JSON text");
  lua_pushlstring(L, b->p, b->n);
  return 1;
}

static int core_json_decode(lua_State *L) {
  size_t n;
  const char *p = mt_check_text(L, 1, &n);
  mt_json root;
  mortise_error err;
  if (mt_json_parse((mt_slice){p, n}, "the text", &root, &err)) mt_error_raise(L, &err);
  mt_json_push(L, root);
  return 1;
}

static int core_json_quote(lua_State *L) {
  size_t n;
  const char *p = mt_check_text(L, 1, &n);
  mt_buf *b = mt_buf_push(L, TEXT_MAX);
  mt_json_add_string(b, (mt_slice){p, n});
  mt_buf_check(L, b, "the string");
  lua_pushlstring(L, b->p, b->n);
  return 1;
}

static int mark(lua_State *L, const char *name) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  set_class(L, name);
  return 1;
}

static int core_array(lua_State *L) {
  return mark(L, array_name);
}

static int core_object(lua_State *L) {
  return mark(L, object_name);
}

const luaL_Reg mt_json_functions[] = {
    {"json", core_json},   {"json_decode", core_json_decode}, {"json_quote", core_json_quote},
    {"array", core_array}, {"object", core_object},           {NULL, NULL}};
