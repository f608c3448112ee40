#include "transform/parts.h"

#include "base/number.h"

#include <string.h>

const char *mt_text_after(const char *p, const char *end, mt_slice text) {
  for (size_t done = 0; done < text.n;) {
    char piece[4];
    if (p == end) return NULL;
    size_t n = mt_json_piece(&p, end, piece);
    if (n > text.n - done || memcmp(piece, text.p + done, n) != 0) return NULL;
    done += n;
  }
  return p;
}

const char *mt_text_find(const char *p, const char *end, mt_slice text, const char **behind) {
  if (p < end && !memchr(p, '\\', (size_t)(end - p))) {
    const char *found = memmem(p, (size_t)(end - p), text.p, text.n);
    *behind = found ? found + text.n : NULL;
    return found;
  }
  while (p < end) {
    char piece[4];
    *behind = mt_text_after(p, end, text);
    if (*behind) return p;
    mt_json_piece(&p, end, piece);
  }
  return NULL;
}

static bool same_text(mt_slice a, mt_slice b) {
  if (mt_slice_eq(a, b)) return true;
  const char *p = a.p, *q = b.p, *a_end = a.p + a.n, *b_end = b.p + b.n;
  while (p < a_end && q < b_end) {
    char x[4], y[4];
    if (*p != '\\' && *q != '\\') {
      if (*p++ != *q++) return false;
      continue;
    }
    /* An escape in one may be several bytes in the other. */
    bool escaped = *p == '\\';
    size_t n = escaped ? mt_json_piece(&p, a_end, x) : mt_json_piece(&q, b_end, x);
    for (size_t i = 0; i < n;) {
      if (escaped ? q == b_end : p == a_end) return false;
      size_t m = escaped ? mt_json_piece(&q, b_end, y) : mt_json_piece(&p, a_end, y);
      if (m > n - i || memcmp(x + i, y, m) != 0) return false;
      i += m;
    }
  }
  return p == a_end && q == b_end;
}

bool mt_is_integer(mt_json number) {
  for (size_t i = 0; i < number.raw.n; i++)
    if (strchr(".eE", number.raw.p[i])) return false;
  return true;
}

/* Each integer has one spelling, except 0. */
static bool same_number(mt_json a, mt_json b) {
  double x, y;
  int64_t m, n;
  bool integer = mt_is_integer(a);
  if (integer != mt_is_integer(b)) return false;
  if (integer) return mt_json_int(a, &m) && mt_json_int(b, &n) && m == n;
  return mt_json_double(a, &x) && mt_json_double(b, &y) && memcmp(&x, &y, sizeof x) == 0;
}

static bool same_items(mt_json a, mt_json b) {
  mt_json_iter x = mt_json_items(a), y = mt_json_items(b);
  for (;;) {
    bool more = mt_json_next(&x);
    if (mt_json_next(&y) != more) return false;
    if (!more) return true;
    if (!mt_same_value(x.value, y.value)) return false;
  }
}

/* Starts behind the last member found, which is usually the right place. */
static bool find_member(mt_json_iter *at, mt_json object, mt_slice key) {
  mt_json_iter from = *at;
  while (mt_json_next(at))
    if (same_text(at->key, key)) return true;
  for (*at = mt_json_items(object); at->p < from.p && mt_json_next(at);)
    if (same_text(at->key, key)) return true;
  return false;
}

static bool same_members(mt_json a, mt_json b) {
  if (mt_json_count(a) != mt_json_count(b)) return false;
  mt_json_iter y = mt_json_items(b);
  for (mt_json_iter x = mt_json_items(a); mt_json_next(&x);)
    if (!find_member(&y, b, x.key) || !mt_same_value(x.value, y.value)) return false;
  return true;
}

bool mt_same_value(mt_json a, mt_json b) {
  if (a.type != b.type) return false;
  if (mt_slice_eq(a.raw, b.raw)) return true;
  switch (a.type) {
  case MT_JSON_NUMBER:
    return same_number(a, b);
  case MT_JSON_STRING:
    return same_text(mt_inside(a), mt_inside(b));
  case MT_JSON_ARRAY:
    return same_items(a, b);
  case MT_JSON_OBJECT:
    return same_members(a, b);
  default:
    return true;
  }
}
