/* Preloaded into a client: its clocks are wrong by what the file MORTISE_SKEW says, three numbers
 * of nanoseconds that may change at any moment: the wall clock's, CLOCK_MONOTONIC's,
 * CLOCK_BOOTTIME's. CLOCK_MONOTONIC_RAW stays right, for the recorder. Only what goes through the C
 * library's functions is changed: time-outs inside the kernel are durations and stay so. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The C library's headers declare these with `nonnull` and the like. */
EXPORT int clock_gettime(clockid_t clock, struct timespec *t);
EXPORT int gettimeofday(struct timeval *restrict t, void *restrict zone);
EXPORT time_t time(time_t *t);

static const int64_t second = 1000000000;

typedef struct skews {
  _Atomic int64_t wall, monotonic, boot;
} skews;

static _Atomic(skews *) table;

__attribute__((constructor)) static void map_table(void) {
  const char *name = getenv("MORTISE_SKEW");
  int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof(skews), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) atomic_store(&table, (skews *)at);
}

static int64_t skew_of(clockid_t clock) {
  skews *s = atomic_load(&table);
  if (!s) return 0;
  switch (clock) {
  case CLOCK_REALTIME:
  case CLOCK_REALTIME_COARSE:
    return atomic_load(&s->wall);
  case CLOCK_MONOTONIC:
  case CLOCK_MONOTONIC_COARSE:
    return atomic_load(&s->monotonic);
  case CLOCK_BOOTTIME:
    return atomic_load(&s->boot);
  default:
    return 0;
  }
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  long failed = syscall(SYS_clock_gettime, clock, t);
  if (failed) return (int)failed;
  int64_t skew = skew_of(clock);
  int64_t ns = t->tv_nsec + skew % second;
  t->tv_sec += (time_t)(skew / second);
  if (ns < 0 || ns >= second) t->tv_sec += ns < 0 ? -1 : 1;
  t->tv_nsec = (long)((ns + second) % second);
  return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
