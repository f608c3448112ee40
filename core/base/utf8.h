/* UTF-8 as RFC 3629 has it: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef MT_BASE_UTF8_H
#define MT_BASE_UTF8_H

#include "base/buf.h"

/* The length of the character that begins at p (of n > 0 bytes); 0 where there is no valid one. */
size_t mt_utf8_char(const char *p, size_t n);

/* The number of leading bytes that are whole valid characters: s.n when all are. */
size_t mt_utf8_valid(mt_slice s);

#endif
