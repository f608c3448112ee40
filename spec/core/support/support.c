#include "support/support.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t mt_test_seed(void) {
  static uint64_t seed;
  if (seed) return seed;
  const char *given = getenv("MORTISE_TEST_SEED");
  if (given) seed = strtoull(given, NULL, 0);
  while (!seed)
    if (mt_random_bytes(&seed, sizeof seed, NULL)) abort();
  printf("# MORTISE_TEST_SEED=0x%" PRIx64 "\n", seed);
  fflush(stdout);
  return seed;
}

mt_test_random mt_test_random_for(const char *name) {
  uint64_t state = mt_test_seed();
  for (; *name; name++) state = (state ^ (unsigned char)*name) * 0x100000001b3u;
  return (mt_test_random){state};
}

/* splitmix64: any state will do, also the same one plus one. */
uint64_t mt_test_next(mt_test_random *r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

size_t mt_test_below(mt_test_random *r, size_t n) {
  return (size_t)(mt_test_next(r) % n);
}

bool mt_test_chance(mt_test_random *r, unsigned percent) {
  return mt_test_below(r, 100) < percent;
}

void mt_test_fail(const char *file, int line, const char *condition, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  print_error("not so: %s\n  %s\n", condition, text);
  _fail(file, line);
  abort();
}

int64_t mt_test_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void mt_test_sleep_ms(int64_t ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&t, &t) && errno == EINTR) {
  }
}

mortise_status mt_test_pump(mt_store *s, mt_req *req) {
  return mt_store_wait(s, req, mt_clock_boot_ms() + MT_TEST_HANG_MS);
}
