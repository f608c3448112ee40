#include "store/place.h"

#include <string.h>

/* Between a path and its stripe; the root is itself half of it. */
static const char mark[] = "//";

void mt_place_add_name(mt_buf *out, mt_place place) {
  mt_buf_addslice(out, place.path);
  if (place.stripe) mt_buf_addf(out, "%s%u", place.path.n > 1 ? mark : mark + 1, place.stripe);
}

/* Reads the stripe that ends the name, in one or two digits; 0: there is none. */
static uint32_t read_stripe(mt_slice name, size_t *digits) {
  size_t n = 0;
  while (n < 3 && n < name.n && name.p[name.n - n - 1] >= '0' && name.p[name.n - n - 1] <= '9') n++;
  *digits = n;
  const char *p = name.p + name.n - n;
  if (n == 1) return (uint32_t)(p[0] - '0');
  return n == 2 && *p != '0' ? (uint32_t)(10 * (p[0] - '0') + p[1] - '0') : 0;
}

mt_place mt_place_of_name(mt_slice name) {
  size_t digits;
  uint32_t stripe = read_stripe(name, &digits);
  bool marked = stripe && stripe < MT_STRIPES_MAX && name.n >= digits + 2 &&
                memcmp(name.p + name.n - digits - 2, mark, 2) == 0;
  if (!marked) return (mt_place){name, 0};
  size_t n = name.n - digits - 2;
  return (mt_place){{name.p, n ? n : 1}, stripe};
}

uint32_t mt_place_stripes(mt_slice path, uint32_t of_table) {
  bool hot = path.n <= 1 || !memchr(path.p + 1, '/', path.n - 1);
  return hot && of_table > 1 ? of_table : 1;
}

uint32_t mt_place_stripe_of(const char *session, uint32_t stripes) {
  uint32_t sum = 0;
  for (const char *p = session; *p; p++) sum = sum * 31 + (unsigned char)*p;
  return sum % stripes;
}

void mt_place_add_json(mt_buf *out, mt_place place) {
  mt_json_add_text(out, "path", place.path);
  if (place.stripe) mt_buf_addf(out, ",\"stripe\":%u", place.stripe);
}

bool mt_place_read_json(mt_json lock, mt_buf *text, mt_place *out) {
  size_t at = text->n;
  uint64_t stripe = 0;
  mt_json member = mt_json_get(lock, "stripe");
  if (member.type && (!mt_json_uint(member, &stripe) || stripe >= MT_STRIPES_MAX)) return false;
  if (!mt_json_text(mt_json_get(lock, "path"), text) || text->failed) return false;
  *out = (mt_place){{text->p + at, text->n - at}, (uint32_t)stripe};
  return true;
}
