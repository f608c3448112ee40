/* Options of a call, described by a table of {name, offset, type, range}. */
#include "bindings/lua_options.h"

#include "bindings/lua_error.h"
#include "bindings/lua_text.h"

#include <string.h>

enum { NAME_MAX_SHOWN = 40 };

/* ---- Arguments -------------------------------------------------------------------------------- */

const char *mt_check_string(lua_State *L, int index) {
  size_t n;
  const char *text = mt_check_text(L, index, &n);
  if (strlen(text) != n)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "argument %d has a zero byte", index);
  return text;
}

const char *mt_opt_string(lua_State *L, int index) {
  return lua_isnoneornil(L, index) ? NULL : mt_check_string(L, index);
}

void *mt_check_self(lua_State *L, const char *name, const char *what) {
  void *self = luaL_testudata(L, 1, name);
  if (self) return self;
  lua_Debug ar;
  bool known = lua_getstack(L, 0, &ar) && lua_getinfo(L, "n", &ar) && ar.name && *ar.name != '?';
  const char *method = known ? ar.name : "METHOD";
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s is called with a colon: %s:%s(...)", method, what,
                 method);
}

/* ---- Options -------------------------------------------------------------------------------- */

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Levenshtein's distance of two short names. */
static size_t distance(const char *a, const char *b) {
  size_t row[NAME_MAX_SHOWN + 1];
  size_t n = strlen(b);
  if (n > NAME_MAX_SHOWN || strlen(a) > NAME_MAX_SHOWN) return NAME_MAX_SHOWN;
  for (size_t j = 0; j <= n; j++) row[j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n; j++) {
      size_t above = row[j];
      size_t change = diagonal + (a[i - 1] != b[j - 1]);
      row[j] = smaller(change, smaller(row[j - 1], above) + 1);
      diagonal = above;
    }
  }
  return row[n];
}

static const char *nearest(const mt_option *rows, const char *name) {
  const char *best = NULL;
  size_t least = strlen(name) / 3 + 2;
  for (; rows->name; rows++) {
    size_t d = distance(name, rows->name);
    if (d >= least) continue;
    least = d;
    best = rows->name;
  }
  return best;
}

static _Noreturn void unknown(lua_State *L, const mt_option *rows, const char *name,
                              const char *what) {
  const char *near = nearest(rows, name);
  if (near)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: unknown option \"%.*s\"; did you mean \"%s\"?",
                   what, NAME_MAX_SHOWN, name, near);
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: unknown option \"%.*s\"", what, NAME_MAX_SHOWN,
                 name);
}

static _Noreturn void wrong_type(lua_State *L, const mt_option *row, const char *wanted,
                                 const char *what) {
  mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: option \"%s\" is a %s, not a %s", what,
                 row->name, wanted, luaL_typename(L, -1));
}

static int64_t read_integer(lua_State *L, const mt_option *row, const char *what) {
  int is_integer;
  int64_t value = lua_tointegerx(L, -1, &is_integer);
  if (!is_integer || lua_type(L, -1) != LUA_TNUMBER) wrong_type(L, row, "whole number", what);
  if (value < row->min || value > row->max)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: option \"%s\" is from %lld to %lld", what,
                   row->name, (long long)row->min, (long long)row->max);
  return value;
}

/* The copied table keeps the string. */
static const char *read_string(lua_State *L, const mt_option *row, const char *what) {
  size_t n;
  if (lua_type(L, -1) != LUA_TSTRING) wrong_type(L, row, "string", what);
  const char *text = lua_tolstring(L, -1, &n);
  if (strlen(text) != n)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: option \"%s\" has a zero byte", what,
                   row->name);
  return text;
}

/* Stores the value on top of the stack. */
static void option_set(lua_State *L, const mt_option *row, void *out, const char *what) {
  char *place = (char *)out + row->offset;
  switch (row->type) {
  case MT_OPTION_STRING:
    *(const char **)place = read_string(L, row, what);
    break;
  case MT_OPTION_INT:
    *(int64_t *)place = read_integer(L, row, what);
    break;
  case MT_OPTION_SIZE:
    *(size_t *)place = (size_t)read_integer(L, row, what);
    break;
  case MT_OPTION_BOOL:
    if (lua_type(L, -1) != LUA_TBOOLEAN) wrong_type(L, row, "boolean", what);
    *(bool *)place = lua_toboolean(L, -1);
    break;
  }
}

void mt_options_copy(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_newtable(L);
  int copy = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, copy);
  }
  lua_replace(L, index);
}

void mt_options_read(lua_State *L, int index, const mt_option *rows, void *out, const char *what) {
  if (lua_isnoneornil(L, index)) return;
  if (lua_type(L, index) != LUA_TTABLE)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: options are a table, not a %s", what,
                   luaL_typename(L, index));
  luaL_checkstack(L, 6, NULL);
  mt_options_copy(L, index);
  mt_options_fill(L, index, rows, out, what);
}

void mt_options_fill(lua_State *L, int index, const mt_option *rows, void *out, const char *what) {
  index = lua_absindex(L, index);
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "%s: the name of an option is a string", what);
    const char *name = lua_tostring(L, -2);
    const mt_option *row = rows;
    while (row->name && strcmp(row->name, name)) row++;
    if (!row->name) unknown(L, rows, name, what);
    option_set(L, row, out, what);
  }
}
