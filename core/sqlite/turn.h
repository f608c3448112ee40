/* The turnstile decides who writes next among all processes that share a file.
 *
 * It has two locks on FILE.turn, the gate and the room, which the kernel releases when the process
 * ends. A writer takes the gate, waits for the room while it holds the gate, takes the room and
 * releases the gate. So one writer waits for the room and all others for the gate, and a writer
 * that leaves cannot overtake the one that holds the gate. SQLite's own busy handler lets a writer
 * starve for seconds. */
#ifndef MT_SQLITE_TURN_H
#define MT_SQLITE_TURN_H

#include "base/error.h"

#include <sys/types.h>

#include <stdatomic.h>

/* How long a piece of work may wait, and whether its caller has given up. */
typedef struct mt_patience {
  int64_t deadline_ms;    /* on mt_clock_boot_ms */
  atomic_bool *cancelled; /* NULL: cannot be cancelled */
} mt_patience;

/* OK, INTERRUPTED if cancelled, or UNAVAILABLE past the deadline ("WHAT: timed out"). */
mortise_status mt_patience_check(const mt_patience *p, const char *what, mortise_error *err);
/* Sleeps for about `us`, but not past the deadline. */
void mt_patience_sleep(const mt_patience *p, int64_t us);

typedef struct mt_turn {
  int fd; /* -1: closed */
  uint32_t dice;
} mt_turn;

/* `file` is FILE.turn; created with `mode` if missing. Does not follow a link. */
mortise_status mt_turn_open(mt_turn *t, const char *file, mode_t mode, mortise_error *err);
void mt_turn_close(mt_turn *t);
/* Waits until this process may write. */
mortise_status mt_turn_enter(mt_turn *t, const char *file, const mt_patience *p,
                             mortise_error *err);
void mt_turn_leave(mt_turn *t);

#endif
