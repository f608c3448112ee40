#include "sqlite/turn.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GATE = 0, ROOM = 1 };

mortise_status mt_patience_check(const mt_patience *p, const char *what, mortise_error *err) {
  if (p->cancelled && atomic_load_explicit(p->cancelled, memory_order_acquire))
    return mt_error_set(err, MORTISE_INTERRUPTED, "%s: cancelled", what);
  if (mt_clock_boot_ms() >= p->deadline_ms)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: timed out", what);
  return MORTISE_OK;
}

void mt_patience_sleep(const mt_patience *p, int64_t us) {
  int64_t left = (p->deadline_ms - mt_clock_boot_ms()) * 1000;
  if (us > left) us = left;
  if (us <= 0) return;
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&t, NULL); /* a signal ends it early, and the caller checks again */
}

mortise_status mt_turn_open(mt_turn *t, const char *file, mode_t mode, mortise_error *err) {
  t->fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
  if (t->fd < 0 && errno == ELOOP)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is a symbolic link: remove it", file);
  if (t->fd < 0)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot open %s: %s", file, strerror(errno));
  t->dice = (uint32_t)mt_clock_boot_us() ^ (uint32_t)getpid() * 2654435761u;
  return MORTISE_OK;
}

void mt_turn_close(mt_turn *t) {
  if (t->fd >= 0) close(t->fd);
  t->fd = -1;
}

/* Like flock these locks belong to the open file description, but each covers one byte. */
static int place_lock(const mt_turn *t, int place, short type) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
  int failed;
  do failed = fcntl(t->fd, F_OFD_SETLK, &lock);
  while (failed && errno == EINTR);
  return failed ? errno : 0;
}

/* A time between half of `us` and `us`, so that sleepers do not stay in step. */
static int64_t jitter(mt_turn *t, int64_t us) {
  t->dice = t->dice * 1664525u + 1013904223u;
  return us / 2 + (int64_t)(t->dice >> 8) % (us / 2 + 1);
}

/* Only one process waits for the room, so it may poll often. Many may wait for the gate: the longer
 * one has waited, the more often it polls, so it is likely to be next. */
static int64_t pause_us(int place, int64_t waited_us) {
  if (place == ROOM) return waited_us < 5000 ? 100 : 300;
  if (waited_us < 5000) return 500;
  return waited_us < 100000 ? 2000 : waited_us < 200000 ? 700 : 200;
}

static mortise_status wait_for(mt_turn *t, int place, const char *file, const mt_patience *p,
                               mortise_error *err) {
  int64_t since_us = mt_clock_boot_us();
  for (;;) {
    int failed = place_lock(t, place, F_WRLCK);
    if (!failed) return MORTISE_OK;
    if (failed != EAGAIN && failed != EACCES)
      return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot lock %s: %s", file, strerror(failed));
    mortise_status status = mt_patience_check(p, "waiting for other writers", err);
    if (status) {
      mt_error_prefix(err, "%s", file);
      return status;
    }
    mt_patience_sleep(p, jitter(t, pause_us(place, mt_clock_boot_us() - since_us)));
  }
}

mortise_status mt_turn_enter(mt_turn *t, const char *file, const mt_patience *p,
                             mortise_error *err) {
  mortise_status status = wait_for(t, GATE, file, p, err);
  if (status) return status;
  status = wait_for(t, ROOM, file, p, err);
  place_lock(t, GATE, F_UNLCK);
  return status;
}

void mt_turn_leave(mt_turn *t) {
  place_lock(t, ROOM, F_UNLCK);
}
