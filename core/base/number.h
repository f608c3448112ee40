/* Numbers and letters in data, independent of the locale that the process or a script has set: the
 * decimal point is ".", and only ASCII letters have two cases. The C library's functions follow the
 * locale, so tools/lint forbids them in every other file. */
#ifndef MT_BASE_NUMBER_H
#define MT_BASE_NUMBER_H

#include "base/buf.h"

#include <locale.h>

enum { MT_NUMBER_TEXT = 32 };

/* The shortest decimal text that reads back as the same double: "1.5", "1e+300", "5.0" (always with
 * a point or an exponent), "-0.0"; of several that short the closest. `out` is terminated. Returns
 * its length, or 0 if `value` is not finite. */
size_t mt_number_text(double value, char out[MT_NUMBER_TEXT]);

/* Reads all of `text` as a JSON number, also with leading zeros or a trailing point, and rounds to
 * the nearest double. false, with `*out` unchanged, if it is not such a number, is out of range, or
 * (for more than 63 bytes) there is no memory. */
bool mt_number_read(mt_slice text, double *out);

/* Between the two calls this thread is in the locale "C", for libraries that read and write numbers
 * themselves. `before` is what mt_locale_enter returned. */
locale_t mt_locale_enter(void);
void mt_locale_leave(locale_t before);

/* "250ms", "90s", "1h", "64MiB": in the largest unit that divides it. Not for negative values. */
void mt_time_text(int64_t ms, char out[MT_NUMBER_TEXT]);
void mt_size_text(int64_t bytes, char out[MT_NUMBER_TEXT]);

static inline char mt_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}
/* Equal except for the case of ASCII letters. */
bool mt_slice_like(mt_slice a, mt_slice b);

#endif
