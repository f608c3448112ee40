/* For cmocka tests: a seeded generator, random JSON, and failing the n-th allocation.
 * MORTISE_TEST_SEED repeats a run; MORTISE_TEST_ROUNDS multiplies the rounds. */
#ifndef MORTISE_SPEC_PROPERTY_H
#define MORTISE_SPEC_PROPERTY_H

#include "base/buf.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* wants setjmp, stdarg and stddef before it */

typedef struct rng {
  uint64_t state;
} rng;

static inline uint64_t rng_next(rng *r) { /* splitmix64 */
  uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static inline size_t rng_below(rng *r, size_t n) {
  return (size_t)(rng_next(r) % n);
}

static inline bool rng_chance(rng *r, unsigned percent) {
  return rng_below(r, 100) < percent;
}

static inline uint64_t property_seed(void) {
  const char *seed = getenv("MORTISE_TEST_SEED");
  return seed ? strtoull(seed, NULL, 0) : 20240817;
}

static inline size_t property_rounds(size_t usual) {
  const char *times = getenv("MORTISE_TEST_ROUNDS");
  return usual * (times ? strtoull(times, NULL, 0) : 1);
}

/* ---- random JSON: valid, no member twice in one object ---- */

static inline void random_space(rng *r, mt_buf *out) {
  while (rng_chance(r, 12)) mt_buf_addc(out, " \n\t\r"[rng_below(r, 4)]);
}

static inline void random_string_body(rng *r, mt_buf *out) {
  static const char *const pieces[] = {"a",
                                       "bc",
                                       "x.y",
                                       " ",
                                       "\\\"",
                                       "\\\\",
                                       "\\/",
                                       "\\n",
                                       "\\t",
                                       "\\u0041",
                                       "\\u00e9",
                                       "\\u20AC",
                                       "\\ud83d\\ude00",
                                       "\xC3\xA9",
                                       "\xE2\x82\xAC",
                                       "\xF0\x9F\x98\x80",
                                       "long enough to pass the words of eight bytes ",
                                       "{",
                                       "]",
                                       ",",
                                       ":"};
  for (size_t n = rng_below(r, 5); n; n--)
    mt_buf_adds(out, pieces[rng_below(r, sizeof pieces / sizeof pieces[0])]);
}

static inline void random_scalar(rng *r, mt_buf *out) {
  static const char *const scalars[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "-0",
                                        "7",
                                        "-13",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "1234567890123456789",
                                        "0.5",
                                        "-2.25",
                                        "1e3",
                                        "1E-3",
                                        "6.02e+23",
                                        "\"\"",
                                        "[]",
                                        "{}"};
  if (rng_chance(r, 40)) {
    mt_buf_addc(out, '"');
    random_string_body(r, out);
    mt_buf_addc(out, '"');
  } else {
    mt_buf_adds(out, scalars[rng_below(r, sizeof scalars / sizeof scalars[0])]);
  }
}

static inline void random_json(rng *r, mt_buf *out, unsigned depth, bool object);

static inline void random_items(rng *r, mt_buf *out, unsigned depth, bool object) {
  for (size_t i = 0, n = rng_below(r, 6); i < n; i++) {
    if (i) mt_buf_addc(out, ',');
    random_space(r, out);
    if (object) {
      /* A letter of its own for each place keeps the names apart. */
      static const char *const names[6][2] = {{"a", "\\u0061"},  {"b", "b.c"}, {"c", "c\\/"},
                                              {"d", "\xC3\xA9"}, {"e", ""},    {"f", "f\\n"}};
      mt_buf_addf(out, "\"%s\"", names[i][rng_below(r, 2)]);
      random_space(r, out);
      mt_buf_addc(out, ':');
      random_space(r, out);
    }
    random_json(r, out, depth - 1, rng_chance(r, 50));
    random_space(r, out);
  }
}

static inline void random_json(rng *r, mt_buf *out, unsigned depth, bool object) {
  if (!depth || rng_chance(r, 40)) {
    random_scalar(r, out);
    return;
  }
  mt_buf_addc(out, object ? '{' : '[');
  random_items(r, out, depth, object);
  random_space(r, out);
  mt_buf_addc(out, object ? '}' : ']');
}

static inline void random_object(rng *r, mt_buf *out, unsigned depth) {
  mt_buf_addc(out, '{');
  random_items(r, out, depth, true);
  mt_buf_addc(out, '}');
}

/* ---- failing the n-th allocation ---- */

typedef struct nth {
  size_t left; /* allocations that still succeed */
  bool failed, for_good;
} nth;

static inline bool nth_allow(void *ctx, size_t size) {
  nth *n = ctx;
  (void)size;
  if (n->left) {
    n->left--;
    return true;
  }
  bool fails = n->for_good || !n->failed;
  n->failed = true;
  return !fails;
}

/* Runs `attempt` with the first, second, ... allocation failing, once and for good, until none of
 * them is reached any more. It returns the status it got. Says whether each failure was told. */
static inline bool each_allocation_told(mortise_status (*attempt)(void *ctx), void *ctx) {
  for (int for_good = 0; for_good < 2; for_good++)
    for (size_t i = 0;; i++) {
      nth n = {.left = i, .for_good = for_good};
      mt_mem_hook(nth_allow, &n);
      mortise_status status = attempt(ctx);
      mt_mem_hook(NULL, NULL);
      if (!n.failed && status == MORTISE_OK) break;
      if (!n.failed || status != MORTISE_OUT_OF_MEMORY) {
        fprintf(stderr, "allocation %zu failed: status %d\n", i, (int)status);
        return false;
      }
    }
  return true;
}

#endif
