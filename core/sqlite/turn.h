/* The turnstile: who writes next, among all processes that share a file.
 *
 * Two locks on FILE.turn, which the kernel drops with the process: the gate and the room. A writer
 * takes the gate, waits there for the room, takes it and lets the gate go: one waits behind the
 * room, the others behind the gate, and no writer that leaves can come back before the one that
 * waits at the gate. SQLite's own busy handler lets a writer starve for seconds. */
#ifndef MT_SQLITE_TURN_H
#define MT_SQLITE_TURN_H

#include "base/error.h"

#include <sys/types.h>

#include <stdatomic.h>

/* How long a piece of work may wait, and whether its caller has given up meanwhile. */
typedef struct mt_patience {
  int64_t deadline_ms;    /* on mt_clock_boot_ms */
  atomic_bool *cancelled; /* NULL: nobody can */
} mt_patience;

/* OK, or INTERRUPTED where it was cancelled, or UNAVAILABLE past the deadline ("WHAT: timed out").
 */
mortise_status mt_patience_check(const mt_patience *p, const char *what, mortise_error *err);
/* Sleeps for about that long, not past the deadline. */
void mt_patience_sleep(const mt_patience *p, int64_t us);

typedef struct mt_turn {
  int fd; /* -1: closed */
  uint32_t dice;
} mt_turn;

/* `file` is FILE.turn; made with `mode` where it is missing; a link is not followed. */
mortise_status mt_turn_open(mt_turn *t, const char *file, mode_t mode, mortise_error *err);
void mt_turn_close(mt_turn *t);
/* Waits for the room. */
mortise_status mt_turn_enter(mt_turn *t, const char *file, const mt_patience *p,
                             mortise_error *err);
void mt_turn_leave(mt_turn *t);

#endif
