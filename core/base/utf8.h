/* UTF-8 as RFC 3629 has it: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef MT_BASE_UTF8_H
#define MT_BASE_UTF8_H

#include "base/buf.h"

/* The length of the character that begins at p (of n > 0 bytes); 0 where there is no valid one. */
size_t mt_utf8_char(const char *p, size_t n);

/* The number of leading bytes that are whole valid characters: s.n when all are. */
size_t mt_utf8_valid(mt_slice s);

/* The length of the character that begins at p where it commands whoever shows it: a control (C0, DEL,
 * C1), a line separator, a mark of direction. 0 where it is none of these, or no character. */
size_t mt_utf8_command(const char *p, size_t n);

/* Text of others, made fit to be shown in one line, in place: what could command a terminal, end the
 * line or turn it around (control characters, marks of direction, line separators, bytes that are no
 * UTF-8) becomes "?", a line break or a tab a space. `s` is terminated. */
void mt_utf8_tame(char *s);

#endif
