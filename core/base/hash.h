/* SHA-256 (libcrypto's). */
#ifndef MT_BASE_HASH_H
#define MT_BASE_HASH_H

#include "base/buf.h"

/* Writes two digits for each byte, and a NUL. */
void mt_hex(const unsigned char *bytes, size_t n, char *out);
/* Writes 64 hex digits and a NUL. false if the library fails. */
bool mt_sha256_hex(mt_slice data, char out[65]);

#endif
