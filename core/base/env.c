#include "base/env.h"

#include "base/clock.h"

static int64_t system_now(void *ctx) {
  (void)ctx;
  return mt_clock_boot_ms();
}

static uint64_t system_random(void *ctx) {
  (void)ctx;
  uint64_t bits = 0;
  /* Once it has worked, getrandom(2) never fails for so few bytes. */
  while (mt_random_bytes(&bits, sizeof bits, NULL)) {}
  return bits;
}

const mt_env *mt_env_system(void) {
  static const mt_env env = {NULL, system_now, system_random};
  return &env;
}
