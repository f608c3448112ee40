/* Reads JSON as slices of its bytes, and writes JSON. It builds no tree and decodes only what is
 * asked for; integers keep all 64 bits, and values that are not read are never changed. */
#ifndef MT_BASE_JSON_H
#define MT_BASE_JSON_H

#include "base/buf.h"

typedef enum mt_json_type {
  MT_JSON_NONE = 0, /* absent */
  MT_JSON_NULL,
  MT_JSON_FALSE,
  MT_JSON_TRUE,
  MT_JSON_NUMBER,
  MT_JSON_STRING,
  MT_JSON_ARRAY,
  MT_JSON_OBJECT,
} mt_json_type;

/* A value inside validated text. `raw` includes quotes or brackets, but no white space around. */
typedef struct mt_json {
  mt_json_type type;
  mt_slice raw;
} mt_json;

enum { MT_JSON_DEPTH = 512 };

/* Validates the whole text (RFC 8259; one value, at most MT_JSON_DEPTH deep). Strings may contain
 * any bytes but control characters: invalid UTF-8 passes, since the servers keep it. `root` borrows
 * from `text`. INVALID_ARGUMENT names `what` and the offset. */
mortise_status mt_json_parse(mt_slice text, const char *what, mt_json *root, mortise_error *err);

/* Steps through an object or array of validated text:
 *   mt_json_iter it = mt_json_items(value);
 *   while (mt_json_next(&it)) use(it.key, it.value);
 * Any other type has no items. */
typedef struct mt_json_iter {
  const char *p, *end;
  bool object;
  mt_slice key; /* objects only: raw, without quotes, escapes undecoded */
  mt_json value;
} mt_json_iter;

mt_json_iter mt_json_items(mt_json container);
bool mt_json_next(mt_json_iter *it);
/* Does the raw key, decoded, equal `name`? */
bool mt_json_key_is(mt_slice raw_key, mt_slice name);
size_t mt_json_count(mt_json container);

/* The first member of that name; NONE if there is none or `object` is not an object. */
mt_json mt_json_get(mt_json object, const char *name);
mt_json mt_json_member(mt_json object, mt_slice name);
/* Follows names through objects: mt_json_at(root, "hits", "total", "value", NULL). */
mt_json mt_json_at(mt_json object, ...) __attribute__((sentinel));

/* false if the value is not such a number (a fraction, an exponent, out of range). */
bool mt_json_int(mt_json value, int64_t *out);
bool mt_json_uint(mt_json value, uint64_t *out);
bool mt_json_double(mt_json value, double *out);
bool mt_json_bool(mt_json value, bool *out);

/* Appends the string with its escapes decoded to UTF-8 (a lone surrogate as three bytes); false if
 * the value is not a string. The caller checks `out` for failure. */
bool mt_json_text(mt_json value, mt_buf *out);
/* The same, cut to fit and terminated; "" if the value is not a string. Returns `out`. */
char *mt_json_copy(mt_json value, char *out, size_t size);
/* The bytes between the quotes; false if they contain an escape or the value is not a string. */
bool mt_json_plain(mt_json value, mt_slice *out);
bool mt_json_is(mt_json value, const char *text); /* a string that equals `text` */
/* The byte or the escape at *p, inside a string and before `end`, decoded as mt_json_text does it; *p
 * moves behind it. The number of its bytes. */
size_t mt_json_piece(const char **p, const char *end, char out[4]);

/* Appends `text` as a JSON string with quotes. Escapes control characters, '"' and '\\' and keeps
 * every other byte. */
void mt_json_add_string(mt_buf *out, mt_slice text);
/* Appends `,"name":`, without the comma after '{' or '['. `name` must need no escape. */
void mt_json_add_key(mt_buf *out, const char *name);
/* Append such a member: its name and its value. */
void mt_json_add_text(mt_buf *out, const char *name, mt_slice text);
void mt_json_add_int(mt_buf *out, const char *name, int64_t n);

#endif
