#include "base/utf8.h"

/* The second byte carries the bounds: no overlong form (E0, F0), no surrogate (ED), nothing above
 * U+10FFFF (F4). Rows of table 3-7 of the Unicode standard. */
static const struct {
  unsigned char first, last, low, high;
  size_t length;
} rows[] = {
    {0x00, 0x7F, 0x00, 0x00, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

size_t mt_utf8_char(const char *p, size_t n) {
  const unsigned char *u = (const unsigned char *)p;
  size_t row = 0;
  while (row < sizeof rows / sizeof rows[0] && (u[0] < rows[row].first || u[0] > rows[row].last))
    row++;
  if (row == sizeof rows / sizeof rows[0] || rows[row].length > n) return 0;
  if (rows[row].length > 1 && (u[1] < rows[row].low || u[1] > rows[row].high)) return 0;
  for (size_t i = 2; i < rows[row].length; i++)
    if ((u[i] & 0xC0) != 0x80) return 0;
  return rows[row].length;
}

size_t mt_utf8_valid(mt_slice s) {
  size_t i = 0;
  while (i < s.n) {
    if ((unsigned char)s.p[i] < 0x80) {
      i++;
      continue;
    }
    size_t length = mt_utf8_char(s.p + i, s.n - i);
    if (!length) break;
    i += length;
  }
  return i;
}
