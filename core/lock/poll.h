/* When one that waits in a queue looks again: timing alone, without I/O.
 *
 * A waiter is before its turn by the number of waiters before it whose modes conflict with its own. From
 * how that number falls it learns how long a hand-off takes in the mean, and looks again when it expects to
 * be halfway to where it has to look often. Who is next, or next but one, looks after an eighth of the time
 * for which nothing has moved, so that it is late by an eighth of a hold at most. While nothing moves, each
 * pause is a fraction of the time that has passed, up to a limit that grows with the distance.
 *
 * A look is a read. It proves nothing, so it only makes the waiter ask the store for its place, or for
 * its turn, with a write; where that was in vain, the next such write has to wait, twice as long each
 * time. */
#ifndef MT_LOCK_POLL_H
#define MT_LOCK_POLL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mt_poll {
  uint32_t before; /* waiters before it that conflict, when last seen */
  uint32_t all;    /* all waiters before it */
  bool seen;       /* `before` is known */
  bool told; /* whoever is in its way will say when it leaves: looks are for when that is lost */
  int64_t moved_ms; /* when it last saw the queue move */
  int64_t pace_us;  /* for one hand-off, as far as it saw */
  int64_t vain_ms;  /* how long it has to wait after a write in vain */
  int64_t claim_ms; /* no write because of a look before then */
} mt_poll;

/* A wait begins. */
void mt_poll_begin(mt_poll *p, int64_t now_ms);
/* An answer has shown how many are before it. */
void mt_poll_seen(mt_poll *p, uint32_t before, uint32_t all, int64_t now_ms);
/* How long to wait for the next look. */
int64_t mt_poll_pause_ms(const mt_poll *p, int64_t now_ms);
/* How long a place should live, when one that lived for `place_ms` (0: there was none) took so long to be
 * written: where the store is so busy that writes take seconds, a place must not lapse before it is renewed. */
int64_t mt_poll_place_ms(int64_t place_ms, int64_t took_ms);
/* How long after one write of a place that lives for so long comes the next, and by how much that may vary. */
int64_t mt_poll_renew_ms(const mt_poll *p, int64_t place_ms, int64_t *spread_ms);
/* May it write now because its turn seems to have come? */
bool mt_poll_may_claim(const mt_poll *p, int64_t now_ms);
/* It did, and was not granted. */
void mt_poll_in_vain(mt_poll *p, int64_t now_ms);

#endif
