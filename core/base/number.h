/* Numbers and letters as data has them, whatever locale the process or a script has set: a decimal
 * point is a point, and only the 26 letters of ASCII have two cases. The C library's functions for
 * both follow the locale; tools/lint keeps them out of every other file. */
#ifndef MT_BASE_NUMBER_H
#define MT_BASE_NUMBER_H

#include "base/buf.h"

#include <locale.h>

enum { MT_NUMBER_TEXT = 32 };

/* The shortest decimal text that reads back as the same double: "1.5", "1e+300", "5.0" (always with
 * a point or an exponent), "-0.0"; of several of that length the closest. `out` is terminated.
 * Returns its length, 0 where `value` is not finite. */
size_t mt_number_text(double value, char out[MT_NUMBER_TEXT]);

/* Reads all of `text`, a number as JSON writes it, leading zeros and a last point allowed. The
 * nearest double. false, and `*out` as it was: it is no such number, it is beyond the doubles, or
 * (a text of more than 63 bytes) there is no memory. */
bool mt_number_read(mt_slice text, double *out);

/* From the one to the other this thread, alone, is in the locale "C", for a library that reads and
 * writes numbers itself. `before` is what entering returned. */
locale_t mt_locale_enter(void);
void mt_locale_leave(locale_t before);

/* "250ms", "90s", "1h", "64MiB": in the largest unit of which it is a whole number. Not below 0. */
void mt_time_text(int64_t ms, char out[MT_NUMBER_TEXT]);
void mt_size_text(int64_t bytes, char out[MT_NUMBER_TEXT]);

static inline char mt_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}
/* Equal but for the case of ASCII letters. */
bool mt_slice_like(mt_slice a, mt_slice b);

#endif
