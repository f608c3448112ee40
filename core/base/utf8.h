/* UTF-8 by RFC 3629: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef MT_BASE_UTF8_H
#define MT_BASE_UTF8_H

#include "base/buf.h"

/* The length of the character at p (of n > 0 bytes); 0 if it is not valid. */
size_t mt_utf8_char(const char *p, size_t n);

/* The number of leading bytes that are whole valid characters; s.n if all are. */
size_t mt_utf8_valid(mt_slice s);

/* The length of the character at p if it is a control character (C0, DEL, C1), a line separator or
 * a directional mark; otherwise 0. */
size_t mt_utf8_command(const char *p, size_t n);

/* Makes other people's text safe to show in one line, in place: control characters, directional
 * marks, line separators and invalid UTF-8 become "?", a line break or tab becomes a space. `s` is
 * terminated. */
void mt_utf8_tame(char *s);

/* The quote before and after a path in a message: the end of one that ends with a blank could not be seen.
 * A format has MT_QUOTED for it, and its arguments MT_QUOTED_OF. */
const char *mt_utf8_quote(mt_slice path);
#define MT_QUOTED "%s%.*s%s"
#define MT_QUOTED_OF(path) mt_utf8_quote(path), (int)(path).n, (path).p, mt_utf8_quote(path)

/* A character that is printed as it is: most are, and need no closer look. */
static inline bool mt_utf8_plain(char c) {
  return c >= 0x20 && c < 0x7F;
}

#endif
