/* Changes a sound answer of a server in one place. */
#ifndef MT_SPEC_HOSTILE_CHANGE_H
#define MT_SPEC_HOSTILE_CHANGE_H

#include "support/support.h"

#define SID "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"
#define ENTRY(session, n)                                                                          \
  "{\"session\":\"" session "\",\"n\":" n ",\"mode\":\"X\",\"since\":1700000000000,\"job\":\"j\"}"

void change_init(void); /* before the others */
void change_end(void);
/* Append `text`, JSON, with one value removed, doubled or replaced; or with some bytes that are others, or missing. */
void change_value(mt_buf *out, const char *text, mt_test_random *r);
void change_bytes(mt_buf *out, const char *text, mt_test_random *r);

#endif
