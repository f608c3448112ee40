/* Taking over what a job's dead sessions hold at the places of a lock, before that is acquired, so that
 * the job's paths are never free in between (docs/protocol.md, "Jobs").
 *
 * The lock documents are read; each session that holds something there for the same job is proven
 * dead, as by a waiter; then its entries are replaced by ours, from the root to the leaves: the first
 * alone, so that of two who try only one goes on, then the others. The other one reads again. Nothing of it is believed: the
 * grants that follow are. A hold that was adopted is a guard until all of the lock is had, and is not
 * given back where it is not. */
#ifndef MT_LOCK_ADOPTION_H
#define MT_LOCK_ADOPTION_H

#include "lock/lock.h"

typedef struct mt_adoption mt_adoption;

typedef enum mt_adoption_state {
  MT_ADOPTION_BUSY = 0, /* a request is under way */
  MT_ADOPTION_WAITS,    /* for sessions that are not known to be dead */
  MT_ADOPTION_DONE,     /* nothing is left to be adopted */
  MT_ADOPTION_FAILED,
} mt_adoption_state;

/* Sends nothing before the first tick. The lock is bound to a session. `once`: a store that does not
 * answer is not asked again. NULL without memory. */
mt_adoption *mt_adoption_new(mt_lock *lock, bool once);
int64_t mt_adoption_due(const mt_adoption *ad);
void mt_adoption_tick(mt_adoption *ad);
void mt_adoption_look(mt_adoption *ad); /* looks again at its next tick, which is due */
/* The hook `adopted`: was this hold of it? */
void mt_adoption_answered(mt_adoption *ad, const mt_hold *h, const mortise_error *err);
mt_adoption_state mt_adoption_state_of(const mt_adoption *ad);
const mortise_error *mt_adoption_error(const mt_adoption *ad); /* FAILED */
/* WAITS: entries of sessions that are not known to be dead, owned by the caller; the part of the lock at whose
 * path the first of them stands, and the stripe. */
size_t mt_adoption_living(const mt_adoption *ad, mt_lock_entry **entries, size_t *part,
                          uint32_t *stripe);
void mt_adoption_free(mt_adoption *ad); /* NULL is fine */
/* All of the lock is had: what was adopted at its paths guards nothing any more. Where the lock has no part,
 * in another stripe, it is given back. */
void mt_adoption_settle(mt_lock *lock);

#endif
