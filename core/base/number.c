#include "base/number.h"

#include "base/mem.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* The locale "C" is built in, so this allocates nothing and reads no file. */
static locale_t c_locale;

static void make_c_locale(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t mt_locale_enter(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_c_locale);
  return uselocale(c_locale);
}

void mt_locale_leave(locale_t before) {
  uselocale(before);
}

/* ---- writing ---- */

static bool reads_back(const char *text, double value) {
  return strtod(text, NULL) == value;
}

/* Doubles are twice as dense below a power of two as above it. So the nearest text of 16 digits may
 * read as the next lower double, while the next higher text still reads as this number. */
static bool try_above(double value, char *out) {
  snprintf(out, MT_NUMBER_TEXT - 2, "%#.16g", value); /* keeps trailing zeros */
  char *last = strchr(out, 'e');
  last = (last ? last : out + strlen(out)) - 1;
  if (*last < '0' || *last > '8') return false;
  ++*last;
  return reads_back(out, value);
}

static void shortest(double value, char *out) {
  /* Any text of 15 digits survives conversion to a double, except a subnormal one, which has fewer
   * bits. */
  int digits = fabs(value) < DBL_MIN ? 1 : 15;
  for (; digits <= 17; digits++) {
    snprintf(out, MT_NUMBER_TEXT - 2, "%.*g", digits, value);
    if (reads_back(out, value) || (digits == 16 && try_above(value, out))) return;
  }
}

size_t mt_number_text(double value, char out[MT_NUMBER_TEXT]) {
  out[0] = '\0';
  if (!isfinite(value)) return 0;
  locale_t before = mt_locale_enter();
  shortest(value, out);
  mt_locale_leave(before);
  if (!strpbrk(out, ".e")) strcat(out, ".0"); /* so that it is read back as a float */
  return strlen(out);
}

/* ---- reading ---- */

static size_t digits_at(mt_slice text, size_t i) {
  size_t n = 0;
  while (i + n < text.n && text.p[i + n] >= '0' && text.p[i + n] <= '9') n++;
  return n;
}

static bool is_number_text(mt_slice text) {
  size_t i = text.n && text.p[0] == '-', n = digits_at(text, i);
  if (!n) return false;
  i += n;
  if (i < text.n && text.p[i] == '.') i += 1 + digits_at(text, i + 1);
  if (i < text.n && mt_lower(text.p[i]) == 'e') {
    i++;
    if (i < text.n && (text.p[i] == '+' || text.p[i] == '-')) i++;
    n = digits_at(text, i);
    if (!n) return false;
    i += n;
  }
  return i == text.n;
}

bool mt_number_read(mt_slice text, double *out) {
  char small[64];
  char *copy = small;
  if (!is_number_text(text)) return false;
  if (text.n >= sizeof small && !(copy = mt_alloc(text.n + 1))) return false;
  memcpy(copy, text.p, text.n);
  copy[text.n] = '\0';
  locale_t before = mt_locale_enter();
  double n = strtod(copy, NULL);
  mt_locale_leave(before);
  if (copy != small) mt_free(copy);
  if (!isfinite(n)) return false;
  *out = n;
  return true;
}

/* ---- times and sizes ---- */

typedef struct unit {
  const char *name;
  int64_t is;
} unit;

/* The last unit is 1. */
static void in_units(int64_t value, const unit *u, char out[MT_NUMBER_TEXT]) {
  while (value % u->is) u++;
  snprintf(out, MT_NUMBER_TEXT, "%lld%s", (long long)(value / u->is), u->name);
}

void mt_time_text(int64_t ms, char out[MT_NUMBER_TEXT]) {
  static const unit units[] = {
      {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
  in_units(ms, ms ? units : units + 3, out);
}

void mt_size_text(int64_t bytes, char out[MT_NUMBER_TEXT]) {
  static const unit units[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}};
  in_units(bytes, bytes ? units : units + 3, out);
}

/* ---- letters ---- */

bool mt_slice_like(mt_slice a, mt_slice b) {
  if (a.n != b.n) return false;
  for (size_t i = 0; i < a.n; i++)
    if (mt_lower(a.p[i]) != mt_lower(b.p[i])) return false;
  return true;
}
