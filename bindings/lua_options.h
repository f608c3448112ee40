/* Arguments of a method, and options of a call from a script's table. */
#ifndef MT_LUA_OPTIONS_H
#define MT_LUA_OPTIONS_H

#include "bindings/bindings.h"

#include <stddef.h>
#include <stdint.h>

/* The first argument, which must be a userdata of this class; otherwise the error says to call the
 * method with a colon on a `what`. */
MT_LJMP void *mt_check_self(lua_State *L, const char *name, const char *what);
/* A string argument; INVALID_ARGUMENT if it has a zero byte. */
MT_LJMP const char *mt_check_string(lua_State *L, int index);
MT_LJMP const char *mt_opt_string(lua_State *L, int index); /* NULL for none and nil */

typedef enum mt_option_type {
  MT_OPTION_STRING, /* const char *, borrowed from the table */
  MT_OPTION_INT,    /* int64_t */
  MT_OPTION_SIZE,   /* size_t */
  MT_OPTION_BOOL,   /* bool */
} mt_option_type;

typedef struct mt_option {
  const char *name;
  size_t offset; /* in the struct to be filled */
  mt_option_type type;
  int64_t min, max; /* of a number */
} mt_option;

/* Rows for the members of a struct; the last is MT_NO_OPTION. */
#define MT_TEXT_OPTION(type, field)                                                                \
  { #field, offsetof(type, field), MT_OPTION_STRING, 0, 0 }
#define MT_FLAG_OPTION(type, field)                                                                \
  { #field, offsetof(type, field), MT_OPTION_BOOL, 0, 0 }
#define MT_INT_OPTION(type, field, min, max)                                                       \
  { #field, offsetof(type, field), MT_OPTION_INT, min, max }
#define MT_SIZE_OPTION(type, field, min, max)                                                      \
  { #field, offsetof(type, field), MT_OPTION_SIZE, min, max }
#define MT_NO_OPTION                                                                               \
  { NULL, 0, MT_OPTION_BOOL, 0, 0 }

/* Fills `out` from the table at `index` (nil or none: does nothing) and replaces the table by a
 * copy of our own, which keeps the strings. An unknown name is an INVALID_ARGUMENT that suggests a
 * similar one; `what` names the call. `rows` ends with MT_NO_OPTION. */
MT_LJMP void mt_options_read(lua_State *L, int index, const mt_option *rows, void *out,
                             const char *what);
/* The two halves of mt_options_read, for a table. Without a copy the strings are valid only until
 * the next call that takes L. */
MT_LJMP void mt_options_copy(lua_State *L, int index);
MT_LJMP void mt_options_fill(lua_State *L, int index, const mt_option *rows, void *out,
                             const char *what);

#endif
