/* Clocks and randomness of the operating system. State machines do not call these but use an mt_env
 * (base/env.h). */
#ifndef MT_BASE_CLOCK_H
#define MT_BASE_CLOCK_H

#include "base/error.h"

/* Milliseconds of CLOCK_BOOTTIME, which runs while the machine is suspended and never goes back. */
int64_t mt_clock_boot_ms(void);
/* Microseconds of the same clock. */
int64_t mt_clock_boot_us(void);
/* Milliseconds since 1970; for people only, never for a decision about a lock. */
int64_t mt_clock_wall_ms(void);
/* Fills `out` with random bytes from the kernel; UNAVAILABLE if it has none. */
mortise_status mt_random_bytes(void *out, size_t n, mortise_error *err);

#endif
