/* The JSON reader against jansson. Known differences: ours keeps bytes that are not UTF-8 and lone
 * surrogates, has no limits of numbers, allows NUL in keys, and goes MT_JSON_DEPTH deep; jansson
 * does not see a NUL between two values. */
#include "base/json.h"

#include "fuzz.h"

#include <jansson.h>
#include <math.h>

enum { TEXT_MAX = 1 << 22 };

static bool deeper(mt_slice text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.n; i++) {
    char c = text.p[i];
    if (in_string && c == '\\')
      i++;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{') && ++depth > MT_JSON_DEPTH)
      return true;
    else if (!in_string && (c == ']' || c == '}') && depth)
      depth--;
  }
  return false;
}

static bool known_difference(const json_error_t *e) {
  enum json_error_code code = json_error_code(e);
  return code == json_error_invalid_utf8 || code == json_error_numeric_overflow ||
         code == json_error_null_byte_in_key || strstr(e->text, "invalid Unicode") ||
         strstr(e->text, "too big") || strstr(e->text, "overflow");
}

static void compare(mt_json mine, json_t *theirs);

static void compare_text(mt_json mine, json_t *theirs) {
  mt_buf text;
  char small[8];
  mt_slice plain;
  mt_buf_init(&text, TEXT_MAX);
  MUST(mt_json_text(mine, &text) && !text.failed);
  MUST(text.n == json_string_length(theirs));
  MUST(!text.n || !memcmp(text.p, json_string_value(theirs), text.n));
  if (mt_json_plain(mine, &plain)) MUST(mt_slice_eq(plain, mt_buf_slice(&text)));
  MUST(strlen(mt_json_copy(mine, small, sizeof small)) < sizeof small);
  mt_buf again;
  mt_buf_init(&again, TEXT_MAX);
  mt_json_add_string(&again, mt_buf_slice(&text));
  mt_json root;
  MUST(!mt_json_parse(mt_buf_slice(&again), "it", &root, NULL) && root.type == MT_JSON_STRING);
  mt_buf_deinit(&again);
  mt_buf_deinit(&text);
}

static void compare_number(mt_json mine, json_t *theirs) {
  int64_t whole;
  double real;
  MUST(mt_json_double(mine, &real));
  if (json_is_integer(theirs))
    MUST(mt_json_int(mine, &whole) && whole == json_integer_value(theirs));
  else
    MUST(!mt_json_int(mine, &whole) && !(fabs(real - json_real_value(theirs)) > 0));
}

static void compare_object(mt_json mine, json_t *theirs) {
  size_t n = 0;
  bool same = mt_json_count(mine) == json_object_size(theirs); /* otherwise a name occurs twice */
  for (mt_json_iter it = mt_json_items(mine); mt_json_next(&it); n++) {
    char quoted[256];
    mt_buf name;
    int length =
        snprintf(quoted, sizeof quoted, "\"%.*s\"", it.key.n < 250 ? (int)it.key.n : 0, it.key.p);
    mt_json key;
    if (!same || it.key.n >= 250) continue;
    mt_buf_init(&name, TEXT_MAX);
    MUST(!mt_json_parse((mt_slice){quoted, (size_t)length}, "it", &key, NULL));
    MUST(mt_json_text(key, &name) && mt_json_key_is(it.key, mt_buf_slice(&name)));
    json_t *value = json_object_getn(theirs, name.p ? name.p : "", name.n);
    MUST(value);
    compare(it.value, value);
    mt_buf_deinit(&name);
  }
  MUST(n == mt_json_count(mine));
}

static void compare_array(mt_json mine, json_t *theirs) {
  size_t n = 0;
  for (mt_json_iter it = mt_json_items(mine); mt_json_next(&it);)
    compare(it.value, json_array_get(theirs, n++));
  MUST(n == json_array_size(theirs));
}

static void compare(mt_json mine, json_t *theirs) {
  static const mt_json_type types[] = {
      [JSON_OBJECT] = MT_JSON_OBJECT,  [JSON_ARRAY] = MT_JSON_ARRAY, [JSON_STRING] = MT_JSON_STRING,
      [JSON_INTEGER] = MT_JSON_NUMBER, [JSON_REAL] = MT_JSON_NUMBER, [JSON_TRUE] = MT_JSON_TRUE,
      [JSON_FALSE] = MT_JSON_FALSE,    [JSON_NULL] = MT_JSON_NULL,
  };
  MUST(theirs && mine.type == types[json_typeof(theirs)]);
  if (mine.type == MT_JSON_OBJECT) compare_object(mine, theirs);
  if (mine.type == MT_JSON_ARRAY) compare_array(mine, theirs);
  if (mine.type == MT_JSON_STRING) compare_text(mine, theirs);
  if (mine.type == MT_JSON_NUMBER) compare_number(mine, theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mt_slice text = fuzz_slice(data, n);
  json_error_t why;
  mt_json root;
  mortise_error err;
  json_t *theirs = json_loadb(text.p ? text.p : "", n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
  mortise_status status = mt_json_parse(text, "it", &root, &err);
  if (theirs)
    MUST(status == MORTISE_OK || deeper(text) || memchr(text.p, 0, n));
  else if (!status)
    MUST(known_difference(&why));
  if (!status) MUST(fuzz_within(root.raw, text) && root.raw.n);
  if (!status && theirs) compare(root, theirs);
  json_decref(theirs);
  return 0;
}
