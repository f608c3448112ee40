#include "bindings/sandbox_copy.h"

#include "bindings/lua_buf.h"
#include "bindings/lua_error.h"
#include "bindings/lua_json.h"

#include <limits.h>
#include <string.h>

enum { DEEP_MAX = 128 };

typedef enum copied {
  COPIED_NIL,
  COPIED_FALSE,
  COPIED_TRUE,
  COPIED_INTEGER,
  COPIED_FLOAT,
  COPIED_STRING, /* its length, its bytes */
  COPIED_NULL,
  COPIED_TABLE, /* keys and values, COPIED_END */
  COPIED_ARRAY,
  COPIED_OBJECT,
  COPIED_ERROR,
  COPIED_END,
} copied;

/* ---- Packing ---------------------------------------------------------------------------------- */

static void pack_value(lua_State *L, int index, mt_buf *out, int deep);

static void pack_bytes(mt_buf *out, copied what, const void *p, size_t n) {
  mt_buf_addc(out, (char)what);
  mt_buf_add(out, p, n);
}

static void pack_number(lua_State *L, int index, mt_buf *out) {
  lua_Integer whole = lua_tointeger(L, index);
  lua_Number number = lua_tonumber(L, index);
  if (lua_isinteger(L, index))
    pack_bytes(out, COPIED_INTEGER, &whole, sizeof whole);
  else
    pack_bytes(out, COPIED_FLOAT, &number, sizeof number);
}

static copied kind_of_table(lua_State *L, int index) {
  if (mt_error_is(L, index)) return COPIED_ERROR;
  mt_json_mark mark = mt_json_mark_of(L, index);
  if (mark) return mark == MT_JSON_MARK_ARRAY ? COPIED_ARRAY : COPIED_OBJECT;
  if (lua_getmetatable(L, index))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a table with a metatable cannot go into a sandbox, nor out of one");
  return COPIED_TABLE;
}

static void pack_table(lua_State *L, int index, mt_buf *out, int deep) {
  if (deep >= DEEP_MAX)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a table that goes into a sandbox, or out of one, is at most %d deep (a cycle?)",
                   DEEP_MAX);
  mt_buf_check(L, out, "what goes into the sandbox, or out of it,"); /* tables within tables may make much of little */
  luaL_checkstack(L, 8, NULL);
  mt_buf_addc(out, (char)kind_of_table(L, index));
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    int value = lua_gettop(L);
    pack_value(L, value - 1, out, deep + 1);
    pack_value(L, value, out, deep + 1);
  }
  mt_buf_addc(out, COPIED_END);
}

static void pack_value(lua_State *L, int index, mt_buf *out, int deep) {
  size_t n;
  const char *p;
  switch (lua_type(L, index)) {
  case LUA_TNIL:
    mt_buf_addc(out, COPIED_NIL);
    return;
  case LUA_TBOOLEAN:
    mt_buf_addc(out, lua_toboolean(L, index) ? COPIED_TRUE : COPIED_FALSE);
    return;
  case LUA_TNUMBER:
    pack_number(L, index, out);
    return;
  case LUA_TSTRING:
    p = lua_tolstring(L, index, &n);
    pack_bytes(out, COPIED_STRING, &n, sizeof n);
    mt_buf_add(out, p, n);
    return;
  case LUA_TTABLE:
    pack_table(L, index, out, deep);
    return;
  default:
    if (!mt_null_is(L, index))
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a %s cannot go into a sandbox, nor out of one", luaL_typename(L, index));
    mt_buf_addc(out, COPIED_NULL);
  }
}

void mt_copy_pack(lua_State *L, int first, int n, mt_buf *out) {
  for (int i = 0; i < n; i++) pack_value(L, first + i, out, 0);
  mt_buf_check(L, out, "what goes into the sandbox, or out of it,");
}

/* ---- Unpacking -------------------------------------------------------------------------------- */

static void take_bytes(mt_slice *in, void *out, size_t n) {
  memcpy(out, in->p, n);
  *in = (mt_slice){in->p + n, in->n - n};
}

static copied take_kind(mt_slice *in) {
  char kind;
  take_bytes(in, &kind, 1);
  return (copied)kind;
}

static void unpack_value(lua_State *L, copied kind, mt_slice *in);

static void unpack_table(lua_State *L, copied kind, mt_slice *in) {
  luaL_checkstack(L, 8, NULL);
  lua_newtable(L);
  for (copied key = take_kind(in); key != COPIED_END; key = take_kind(in)) {
    unpack_value(L, key, in);
    unpack_value(L, take_kind(in), in);
    lua_rawset(L, -3);
  }
  if (kind == COPIED_ERROR)
    mt_error_set_class(L);
  else if (kind != COPIED_TABLE)
    mt_json_set_mark(L, kind == COPIED_ARRAY ? MT_JSON_MARK_ARRAY : MT_JSON_MARK_OBJECT);
}

static void unpack_value(lua_State *L, copied kind, mt_slice *in) {
  lua_Integer whole;
  lua_Number number;
  size_t n;
  switch (kind) {
  case COPIED_FALSE:
  case COPIED_TRUE:
    lua_pushboolean(L, kind == COPIED_TRUE);
    return;
  case COPIED_INTEGER:
    take_bytes(in, &whole, sizeof whole);
    lua_pushinteger(L, whole);
    return;
  case COPIED_FLOAT:
    take_bytes(in, &number, sizeof number);
    lua_pushnumber(L, number);
    return;
  case COPIED_STRING:
    take_bytes(in, &n, sizeof n);
    lua_pushlstring(L, in->p, n);
    *in = (mt_slice){in->p + n, in->n - n};
    return;
  case COPIED_NULL:
    mt_null_push(L);
    return;
  case COPIED_TABLE:
  case COPIED_ARRAY:
  case COPIED_OBJECT:
  case COPIED_ERROR:
    unpack_table(L, kind, in);
    return;
  default:
    lua_pushnil(L);
  }
}

int mt_copy_unpack(lua_State *L, mt_slice packed) {
  int n = 0;
  for (; packed.n; n++) {
    luaL_checkstack(L, 8, "too many values");
    unpack_value(L, take_kind(&packed), &packed);
  }
  return n;
}
