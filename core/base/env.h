/* The time and random bytes that a state machine is given, so that a simulator can drive the same
 * files that run in production. Memory comes from base/mem.h. */
#ifndef MT_BASE_ENV_H
#define MT_BASE_ENV_H

#include <stddef.h>
#include <stdint.h>

typedef struct mt_env {
  void *ctx;
  int64_t (*now_ms)(void *ctx); /* a clock that never goes back; the real one is CLOCK_BOOTTIME */
  uint64_t (*random)(void *ctx); /* 64 bits that nobody can guess */
} mt_env;

/* The operating system's, in static storage. Before using it, check once that mt_random_bytes
 * succeeds. */
const mt_env *mt_env_system(void);

#endif
