/* Where a container ends: 64 bytes at a time, each as one bit of a few masks, so that neither the number
 * nor the length of the strings inside decides how long it takes. */
#ifndef MT_BASE_JSON_SCAN_H
#define MT_BASE_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

enum { MT_SCAN_BLOCK = 64 };

/* Bit i tells of byte i. */
typedef struct mt_scan_masks {
  uint64_t quotes, backslashes, opens, closes;
} mt_scan_masks;

/* Reads MT_SCAN_BLOCK bytes. The first is the fastest that this machine has, the second is C alone. */
mt_scan_masks mt_scan_block(const char *p);
mt_scan_masks mt_scan_block_plain(const char *p);

/* Behind the bracket that closes the one at `p`, in validated text; `end` where there is none. No byte
 * from `end` on is read. */
const char *mt_scan_container(const char *p, const char *end);

#endif
