#include "base/clock.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

static int64_t read_us(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t); /* fails only for a clock that the kernel lacks, which it does not */
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t mt_clock_boot_us(void) {
  return read_us(CLOCK_BOOTTIME);
}

int64_t mt_clock_boot_ms(void) {
  return read_us(CLOCK_BOOTTIME) / 1000;
}

int64_t mt_clock_wall_ms(void) {
  return read_us(CLOCK_REALTIME) / 1000;
}

mortise_status mt_random_bytes(void *out, size_t n, mortise_error *err) {
  char *p = out;
  while (n) {
    ssize_t got = getrandom(p, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return mt_error_set(err, MORTISE_UNAVAILABLE, "the kernel gave no random bytes");
    p += got;
    n -= (size_t)got;
  }
  return MORTISE_OK;
}
