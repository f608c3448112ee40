#include "base/utf8.h"

/* Table 3-7 of the Unicode standard. The bounds of the second byte exclude overlong forms (E0, F0),
 * surrogates (ED) and values above U+10FFFF (F4). */
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

/* The number of leading ASCII bytes, found eight at a time, since whole documents are checked. */
static size_t ascii(const char *p, size_t n) {
  size_t i = 0;
  for (uint64_t word; n - i >= sizeof word; i += sizeof word) {
    memcpy(&word, p + i, sizeof word);
    if (word & 0x8080808080808080u) break;
  }
  while (i < n && (unsigned char)p[i] < 0x80) i++;
  return i;
}

size_t mt_utf8_valid(mt_slice s) {
  size_t i = 0;
  while (i < s.n) {
    i += ascii(s.p + i, s.n - i);
    size_t length = i < s.n ? mt_utf8_char(s.p + i, s.n - i) : 0;
    if (!length) break;
    i += length;
  }
  return i;
}

static uint32_t decode_point(const unsigned char *u, size_t length) {
  uint32_t c = length > 1 ? u[0] & (0x7Fu >> length) : u[0];
  for (size_t i = 1; i < length; i++) c = c << 6 | (u[i] & 0x3F);
  return c;
}

static bool commands(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || (c >= 0x200E && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

size_t mt_utf8_command(const char *p, size_t n) {
  size_t length = mt_utf8_char(p, n);
  return length && commands(decode_point((const unsigned char *)p, length)) ? length : 0;
}

void mt_utf8_tame(char *s) {
  char *to = s;
  for (size_t left = strlen(s), length; left; s += length, left -= length) {
    length = mt_utf8_char(s, left);
    bool bad = !length || commands(decode_point((const unsigned char *)s, length));
    if (!length) length = 1;
    if (bad)
      *to++ = *s == '\n' || *s == '\r' || *s == '\t' ? ' ' : '?';
    else
      for (size_t i = 0; i < length; i++) *to++ = s[i];
  }
  *to = '\0';
}

const char *mt_utf8_quote(mt_slice path) {
  return path.n && path.p[path.n - 1] == ' ' ? "\"" : "";
}
