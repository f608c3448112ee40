/* What a state machine may know of the world: the time and random bytes, given to it, so that a
 * simulator can drive the very files that run in production. Memory comes from base/mem.h. */
#ifndef MT_BASE_ENV_H
#define MT_BASE_ENV_H

#include <stddef.h>
#include <stdint.h>

typedef struct mt_env {
  void *ctx;
  int64_t (*now_ms)(void *ctx); /* a clock that never goes back; the real one is CLOCK_BOOTTIME */
  uint64_t (*random)(void *ctx); /* 64 bits that nobody can guess */
} mt_env;

/* The operating system's. Static storage. Who uses it has seen mt_random_bytes succeed. */
const mt_env *mt_env_system(void);

#endif
