#include "base/json_scan.h"

#include <stdbool.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

mt_scan_masks mt_scan_block_plain(const char *p) {
  mt_scan_masks m = {0};
  for (unsigned i = 0; i < MT_SCAN_BLOCK; i++) {
    char c = p[i];
    m.quotes |= (uint64_t)(c == '"') << i;
    m.backslashes |= (uint64_t)(c == '\\') << i;
    m.opens |= (uint64_t)(c == '{' || c == '[') << i;
    m.closes |= (uint64_t)(c == '}' || c == ']') << i;
  }
  return m;
}

#ifdef __SSE2__
static inline uint64_t equal(__m128i bytes, char c) {
  return (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)));
}

static inline mt_scan_masks scan_block(const char *p) {
  mt_scan_masks m = {0};
#pragma GCC unroll 4
  for (unsigned i = 0; i < MT_SCAN_BLOCK; i += 16) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
    /* This bit is all in which '[' differs from '{', and ']' from '}'. */
    __m128i curly = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    m.quotes |= equal(bytes, '"') << i;
    m.backslashes |= equal(bytes, '\\') << i;
    m.opens |= equal(curly, '{') << i;
    m.closes |= equal(curly, '}') << i;
  }
  return m;
}
#else
static inline mt_scan_masks scan_block(const char *p) {
  return mt_scan_block_plain(p);
}
#endif

mt_scan_masks mt_scan_block(const char *p) {
  return scan_block(p);
}

/* What the bytes before a block leave to it. */
typedef struct carry {
  bool escapes;    /* the last byte was a backslash that escapes the next */
  uint64_t string; /* all ones inside a string, else 0 */
} carry;

/* The bytes that a backslash before them escapes. Of a run of backslashes every second one is escaped,
 * so these are taken in pairs; few blocks have any. */
static uint64_t escaped(uint64_t backslashes, bool *escapes) {
  uint64_t found = *escapes ? 1 : 0;
  backslashes &= ~found;
  *escapes = false;
  while (backslashes) {
    unsigned at = (unsigned)__builtin_ctzll(backslashes);
    if (at == MT_SCAN_BLOCK - 1) {
      *escapes = true;
      break;
    }
    found |= UINT64_C(2) << at;
    backslashes &= ~(UINT64_C(3) << at);
  }
  return found;
}

/* Each bit becomes the parity of itself and all below it: ones from an opening quote up to where it is
 * closed. */
static inline uint64_t parity(uint64_t bits) {
#pragma GCC unroll 6
  for (unsigned shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

/* The bytes that stand in strings. */
static inline uint64_t in_strings(const mt_scan_masks *m, carry *c) {
  uint64_t quotes = m->quotes;
  if (m->backslashes || c->escapes) quotes &= ~escaped(m->backslashes, &c->escapes);
  uint64_t in = parity(quotes) ^ c->string;
  c->string = in >> 63 ? UINT64_MAX : 0;
  return in;
}

const char *mt_scan_container(const char *p, const char *end) {
  carry c = {0};
  size_t depth = 0;
  for (; p < end; p += MT_SCAN_BLOCK) {
    char last[MT_SCAN_BLOCK];
    const char *block = p;
    if (end - p < MT_SCAN_BLOCK) {
      memset(last, ' ', sizeof last);
      memcpy(last, p, (size_t)(end - p));
      block = last;
    }
    mt_scan_masks m = scan_block(block);
    uint64_t outside = ~in_strings(&m, &c);
    for (uint64_t left = (m.opens | m.closes) & outside; left; left &= left - 1) {
      unsigned at = (unsigned)__builtin_ctzll(left);
      if (m.opens >> at & 1)
        depth++;
      else if (--depth == 0)
        return p + at + 1;
    }
  }
  return end;
}
