/* Transforms that change the values of a field. */
#include "transform/parts.h"

#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Calls `change` with a value, or with each element of an array, however deep. */
typedef const char *change_fn(mt_work_on *w, mt_json value);

static const char *each_element(mt_work_on *w, mt_json value, change_fn *change, size_t depth) {
  const char *why = NULL;
  if (value.type != MT_JSON_ARRAY) return change(w, value);
  if (depth == MT_JSON_DEPTH) return "is nested too deep";
  for (mt_json_iter it = mt_json_items(value); !why && mt_json_next(&it);)
    why = each_element(w, it.value, change, depth + 1);
  return why;
}

/* ---- replace_prefix ------------------------------------------------------------------------- */

/* The place behind the path `prefix`; NULL if the text does not begin with it or it ends inside a
 * segment. */
static const char *after_path(const char *p, const char *end, mt_slice prefix) {
  const char *rest = mt_text_after(p, end, prefix);
  if (!rest || rest == end || *rest == '/') return rest;
  return mt_text_after(rest, end, MT_SLICE("/")) ? rest : NULL;
}

static const char *replace_path(mt_work_on *w, mt_json value) {
  const mt_list_step *s = w->step;
  if (value.type != MT_JSON_STRING) return NULL;
  const char *start = value.raw.p + 1, *end = mt_end_of(value) - 1;
  const char *rest = after_path(start, end, s->from);
  if (!rest) return NULL;
  if (s->below.p && after_path(rest, end, s->below)) return "would begin with `from` again";
  mt_patch_skip(&w->patch, start, rest);
  mt_buf_addslice(w->patch.out, s->to_raw);
  if (!s->to_raw.n && rest == end) mt_buf_addc(w->patch.out, '/');
  return NULL;
}

static const char *replace_at(void *ctx, const mt_member *place) {
  return each_element(ctx, place->value, replace_path, 0);
}

const char *mt_do_replace_prefix(mt_work_on *w) {
  return mt_each_place(w->root, &w->step->field, replace_at, w);
}

/* ---- cast ----------------------------------------------------------------------------------- */

enum { NUMBER_TEXT_MAX = 63 };

/* The number in a string, copied to `copy`; NONE if there is none. */
static mt_json spelled_number(mt_json string, char copy[NUMBER_TEXT_MAX + 1]) {
  mt_json number;
  const char *p = string.raw.p + 1, *end = mt_end_of(string) - 1;
  size_t n = 0;
  while (p < end && n <= NUMBER_TEXT_MAX) {
    char piece[4];
    if (mt_json_piece(&p, end, piece) != 1) return (mt_json){0};
    copy[n++] = piece[0];
  }
  if (p < end || n > NUMBER_TEXT_MAX) return (mt_json){0};
  /* JSON allows white space around a value; a number has none. */
  if (mt_json_parse((mt_slice){copy, n}, "", &number, NULL) || number.raw.n != n) number.type = 0;
  return number.type == MT_JSON_NUMBER ? number : (mt_json){0};
}

/* A whole number of 64 bits. */
static bool whole_number(mt_json number, int64_t *out) {
  double d;
  if (mt_is_integer(number)) return mt_json_int(number, out);
  if (!mt_json_double(number, &d) || d < -0x1p63 || d >= 0x1p63) return false;
  *out = (int64_t)d;
  return (double)*out == d;
}

/* The nearest double; of an integer, only an equal one. */
static bool exact(mt_json number, double *out) {
  int64_t n;
  if (!mt_is_integer(number)) return mt_json_double(number, out);
  if (!mt_json_int(number, &n)) return false;
  *out = (double)n;
  return *out < 0x1p63 && (int64_t)*out == n;
}

static void instead(mt_work_on *w, mt_json value) {
  mt_patch_skip(&w->patch, value.raw.p, mt_end_of(value));
}

static const char *to_integer(mt_work_on *w, mt_json value) {
  char copy[NUMBER_TEXT_MAX + 1];
  int64_t n;
  mt_json number = value.type == MT_JSON_STRING ? spelled_number(value, copy) : value;
  if (number.type != MT_JSON_NUMBER || !whole_number(number, &n)) return "is no integer";
  if (value.type == MT_JSON_NUMBER && mt_is_integer(value)) return NULL;
  instead(w, value);
  mt_buf_addi(w->patch.out, n);
  return NULL;
}

static const char *to_float(mt_work_on *w, mt_json value) {
  char copy[NUMBER_TEXT_MAX + 1], text[MT_NUMBER_TEXT];
  double d;
  mt_json number = value.type == MT_JSON_STRING ? spelled_number(value, copy) : value;
  if (number.type != MT_JSON_NUMBER || !exact(number, &d)) return "is no float";
  if (value.type == MT_JSON_NUMBER && !mt_is_integer(value)) return NULL;
  instead(w, value);
  mt_buf_add(w->patch.out, text, mt_number_text(d, text));
  return NULL;
}

static size_t significant_digits(const char *text) {
  size_t n = 0;
  for (const char *p = text; *p; p++)
    if (n ? *p >= '0' && *p <= '9' : *p >= '1' && *p <= '9') n++;
  size_t length = strlen(text);
  return n && length > 2 && !strcmp(text + length - 2, ".0") ? n - 1 : n;
}

/* False if it has no one form in decimals: a double keeps 15 digits, not more. */
static bool decimals(mt_json number, char text[MT_NUMBER_TEXT]) {
  double d;
  if (!mt_json_double(number, &d)) return false;
  double size = fabs(d);
  if (size > 0 && (size < 0.0001 || size >= 1e15)) return false;
  mt_number_text(size > 0 ? d : 0, text);
  return significant_digits(text) <= 15;
}

static const char *to_string(mt_work_on *w, mt_json value) {
  char text[MT_NUMBER_TEXT];
  mt_slice is = value.raw;
  if (value.type == MT_JSON_STRING) return NULL;
  if (value.type == MT_JSON_NUMBER && !mt_is_integer(value)) {
    if (!decimals(value, text)) return "is no string";
    is = mt_slice_of(text);
  } else if (value.type == MT_JSON_NUMBER) {
    if (mt_slice_eq(is, MT_SLICE("-0"))) is = MT_SLICE("0");
  } else if (value.type != MT_JSON_TRUE && value.type != MT_JSON_FALSE) {
    return "is no string";
  }
  instead(w, value);
  mt_json_add_string(w->patch.out, is);
  return NULL;
}

static const char *to_boolean(mt_work_on *w, mt_json value) {
  if (value.type == MT_JSON_TRUE || value.type == MT_JSON_FALSE) return NULL;
  bool yes = mt_json_is(value, "true");
  if (!yes && !mt_json_is(value, "false")) return "is no boolean";
  instead(w, value);
  mt_buf_adds(w->patch.out, yes ? "true" : "false");
  return NULL;
}

static const char *cast_one(mt_work_on *w, mt_json value) {
  static change_fn *const casts[] = {[MT_CAST_INTEGER] = to_integer,
                                     [MT_CAST_FLOAT] = to_float,
                                     [MT_CAST_STRING] = to_string,
                                     [MT_CAST_BOOLEAN] = to_boolean};
  return value.type == MT_JSON_NULL ? NULL : casts[w->step->cast](w, value);
}

static const char *cast_at(void *ctx, const mt_member *place) {
  return each_element(ctx, place->value, cast_one, 0);
}

const char *mt_do_cast(mt_work_on *w) {
  return mt_each_place(w->root, &w->step->field, cast_at, w);
}

/* ---- split, join ---------------------------------------------------------------------------- */

static void add_quoted(mt_buf *out, const char *from, const char *to) {
  mt_buf_addc(out, '"');
  mt_buf_add(out, from, (size_t)(to - from));
  mt_buf_addc(out, '"');
}

static const char *split_at(void *ctx, const mt_member *place) {
  mt_work_on *w = ctx;
  mt_json value = place->value;
  if (value.type == MT_JSON_NULL || value.type == MT_JSON_ARRAY) return NULL;
  if (value.type != MT_JSON_STRING) return "is no string";
  instead(w, value);
  mt_buf *out = w->patch.out;
  mt_slice text = mt_inside(value);
  const char *p = text.p, *end = text.p + text.n, *behind, *by;
  mt_buf_addc(out, '[');
  for (; (by = mt_text_find(p, end, w->step->by, &behind)); p = behind) {
    add_quoted(out, p, by);
    mt_buf_addc(out, ',');
  }
  if (text.n) add_quoted(out, p, end);
  mt_buf_addc(out, ']');
  return NULL;
}

const char *mt_do_split(mt_work_on *w) {
  return mt_each_place(w->root, &w->step->field, split_at, w);
}

/* Would `by`, appended to the text, be found before its end? "a," followed by ",," is split after "a". */
static bool runs_into(mt_slice text, mt_slice by) {
  const char *p = text.p, *end = text.p + text.n;
  char piece[4];
  for (; p < end; mt_json_piece(&p, end, piece)) {
    size_t done = 0;
    for (const char *q = p; q < end && done < by.n;) {
      size_t n = mt_json_piece(&q, end, piece);
      if (n > by.n - done || memcmp(piece, by.p + done, n) != 0) break;
      done += n;
      if (q == end && !memcmp(by.p + done, by.p, by.n - done)) return true;
    }
  }
  return false;
}

/* Joins only what a split gives back: [""] would come back as []. */
static const char *check_elements(mt_json array, mt_slice by) {
  const char *behind;
  size_t left = mt_json_count(array);
  bool only = left == 1;
  for (mt_json_iter it = mt_json_items(array); mt_json_next(&it);) {
    if (it.value.type != MT_JSON_STRING) return "has an element that is no string";
    mt_slice text = mt_inside(it.value);
    bool last = --left == 0;
    if (mt_text_find(text.p, text.p + text.n, by, &behind) || (only && !text.n) ||
        (!last && by.n > 1 && runs_into(text, by)))
      return "would be split otherwise";
  }
  return NULL;
}

static const char *join_at(void *ctx, const mt_member *place) {
  mt_work_on *w = ctx;
  mt_json value = place->value;
  if (value.type == MT_JSON_NULL || value.type == MT_JSON_STRING) return NULL;
  if (value.type != MT_JSON_ARRAY) return "is no array";
  const char *why = check_elements(value, w->step->by);
  if (why) return why;
  instead(w, value);
  mt_buf *out = w->patch.out;
  bool first = true;
  mt_buf_addc(out, '"');
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it); first = false) {
    if (!first) mt_buf_addslice(out, w->step->by_raw);
    mt_buf_addslice(out, mt_inside(it.value));
  }
  mt_buf_addc(out, '"');
  return NULL;
}

const char *mt_do_join(mt_work_on *w) {
  return mt_each_place(w->root, &w->step->field, join_at, w);
}
