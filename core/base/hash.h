/* SHA-256 (libcrypto's). */
#ifndef MT_BASE_HASH_H
#define MT_BASE_HASH_H

#include "base/buf.h"

/* Hex digest, 64 digits and a NUL. false when the library refuses. */
bool mt_sha256_hex(mt_slice data, char out[65]);

#endif
