/* What the targets share. Each is one function LLVMFuzzerTestOneInput (libFuzzer's manual). */
#ifndef MT_SPEC_FUZZ_H
#define MT_SPEC_FUZZ_H

#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What must hold, in every build. */
#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition);                   \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

static inline mt_slice fuzz_slice(const uint8_t *data, size_t n) {
  return (mt_slice){(const char *)data, n};
}

/* Does the part lie inside the whole, or is it empty? */
static inline bool fuzz_within(mt_slice part, mt_slice whole) {
  return !part.n || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

/* Cuts the text at the first `mark`: what was before it; `rest` begins behind it. */
static inline mt_slice fuzz_cut(mt_slice *rest, char mark) {
  const char *at = rest->n ? memchr(rest->p, mark, rest->n) : NULL;
  size_t n = at ? (size_t)(at - rest->p) : rest->n;
  mt_slice before = {rest->p, n};
  *rest = at ? (mt_slice){at + 1, rest->n - n - 1} : (mt_slice){NULL, 0};
  return before;
}

#endif
