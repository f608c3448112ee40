/* Values of fields, and their comparison. */
#include "base/number.h"
#include "query/query.h"

/* ---- scalars as text ---- */

static bool has(mt_slice s, char c) {
  return memchr(s.p, c, s.n) != NULL;
}

/* Normalises "1.50" to "1.5", "2.0" to "2", "-0.0" to "0". Exact for any number of digits. */
static mt_slice plain_decimal(mt_slice raw) {
  if (has(raw, '.')) {
    while (raw.p[raw.n - 1] == '0') raw.n--;
    if (raw.p[raw.n - 1] == '.') raw.n--;
  }
  if (raw.n == 2 && raw.p[0] == '-' && raw.p[1] == '0') return MT_SLICE("0");
  return raw;
}

/* Normalises a number with an exponent via a double. */
static bool exponent_text(mt_json value, mt_buf *scratch, mt_slice *out) {
  double d;
  if (!mt_json_double(value, &d)) {
    *out = value.raw; /* too large to compare: equal only to itself */
    return true;
  }
  char text[MT_NUMBER_TEXT];
  mt_buf_clear(scratch);
  if (d >= -9e18 && d <= 9e18 && d == (double)(int64_t)d)
    mt_buf_addi(scratch, (int64_t)d);
  else
    mt_buf_add(scratch, text, mt_number_text(d, text));
  if (scratch->failed) return false;
  *out = mt_buf_slice(scratch);
  return true;
}

static bool string_text(mt_json value, mt_buf *scratch, mt_slice *out) {
  if (mt_json_plain(value, out)) return true;
  mt_buf_clear(scratch);
  mt_json_text(value, scratch);
  *out = mt_buf_slice(scratch);
  return !scratch->failed;
}

bool mt_scalar_text(mt_json value, mt_buf *scratch, mt_slice *out) {
  switch (value.type) {
  case MT_JSON_STRING:
    return string_text(value, scratch, out);
  case MT_JSON_NUMBER:
    if (has(value.raw, 'e') || has(value.raw, 'E')) return exponent_text(value, scratch, out);
    *out = plain_decimal(value.raw);
    return true;
  case MT_JSON_TRUE:
  case MT_JSON_FALSE:
    *out = value.raw;
    return true;
  default:
    return false;
  }
}

/* ---- order ---- */

/* Only JSON numbers count, not "0x10", "inf" or " 1". */
static bool as_number(mt_slice text, long double *out) {
  mt_json number;
  char first = text.n ? text.p[0] : 'x';
  if (first != '-' && (first < '0' || first > '9')) return false;
  if (mt_json_parse(text, "", &number, NULL) || number.raw.n != text.n) return false;
  /* long double holds every 64-bit integer; a fraction is read as a double. */
  int64_t i;
  uint64_t u;
  double d;
  if (mt_json_int(number, &i))
    *out = i;
  else if (mt_json_uint(number, &u))
    *out = u;
  else if (mt_json_double(number, &d))
    *out = d;
  else
    return false;
  return true;
}

int mt_scalar_cmp(mt_slice a, mt_slice b) {
  long double x, y;
  bool a_is = as_number(a, &x), b_is = as_number(b, &y);
  if (a_is && b_is && x != y) return x < y ? -1 : 1;
  if (a_is != b_is) return a_is ? -1 : 1;
  return a_is ? 0 : mt_slice_cmp(a, b);
}

/* ---- fields ---- */

static bool each_scalar(mt_json value, mt_field_fn *use, void *ctx) {
  if (value.type == MT_JSON_ARRAY) {
    for (mt_json_iter it = mt_json_items(value); mt_json_next(&it);)
      if (each_scalar(it.value, use, ctx)) return true;
    return false;
  }
  if (value.type == MT_JSON_NULL || value.type == MT_JSON_OBJECT) return false;
  return use(ctx, value);
}

/* The rest of `name` after `key` and a dot; {NULL, 0} if it does not begin so. */
static mt_slice behind_key(mt_slice name, mt_slice key) {
  for (size_t i = 0; i < name.n; i++)
    if (name.p[i] == '.' && mt_json_key_is(key, (mt_slice){name.p, i}))
      return (mt_slice){name.p + i + 1, name.n - i - 1};
  return (mt_slice){0};
}

static bool each_at(mt_json value, mt_slice name, mt_field_fn *use, void *ctx) {
  bool dots = has(name, '.');
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it);) {
    bool container = it.value.type == MT_JSON_OBJECT || it.value.type == MT_JSON_ARRAY;
    if (!it.object) {
      if (container && each_at(it.value, name, use, ctx)) return true;
      continue;
    }
    if (mt_json_key_is(it.key, name) && each_scalar(it.value, use, ctx)) return true;
    if (!dots || !container) continue;
    mt_slice rest = behind_key(name, it.key);
    if (rest.n && each_at(it.value, rest, use, ctx)) return true;
  }
  return false;
}

bool mt_field_each(mt_json source, mt_slice name, mt_field_fn *use, void *ctx) {
  static const char suffix[] = ".keyword";
  size_t n = sizeof suffix - 1;
  if (!name.n) return false;
  if (each_at(source, name, use, ctx)) return true;
  if (name.n <= n || memcmp(name.p + name.n - n, suffix, n) != 0) return false;
  return each_at(source, (mt_slice){name.p, name.n - n}, use, ctx);
}
