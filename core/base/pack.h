/* Bytes made small enough to be kept in a JSON string: compressed (zstd's), then base64 (libcrypto's). */
#ifndef MT_BASE_PACK_H
#define MT_BASE_PACK_H

#include "base/buf.h"

/* What is kept from one packing to the next; NULL at first, one for each thread. */
typedef struct mt_packer mt_packer;
void mt_packer_free(mt_packer *packer); /* NULL is fine */

/* Appends the text of `bytes`, without quotes. What it makes of a given text may differ from release to
 * release. OUT_OF_MEMORY, or REJECTED where `out` is too small or `bytes` has more than 1 GiB. */
mortise_status mt_pack(mt_packer **packer, mt_slice bytes, mt_buf *out, mortise_error *err);

/* Appends the bytes that were packed. INVALID_ARGUMENT where `text` was not made by mt_pack, or was
 * changed since, which a checksum tells;
 * REJECTED where they are more than `out` may hold. */
mortise_status mt_unpack(mt_slice text, mt_buf *out, mortise_error *err);

#endif
