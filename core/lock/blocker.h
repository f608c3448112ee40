/* Descriptions of blockers, for people. */
#ifndef MT_LOCK_BLOCKER_H
#define MT_LOCK_BLOCKER_H

#include "store/store.h"

/* What one member of a cycle waits for; the next member blocks it. */
typedef struct mt_step {
  mt_slice path;
  mt_mode mode;
  const char *session, *owner; /* of the waiting member itself; `owner` is JSON or NULL */
  bool queued;                 /* the next member is not a holder, only ahead in the queue */
} mt_step;

/* Adds the session of `entry` at `path`: a holder, or a waiter if `entry->queued`. All blockers are
 * counted, the first MORTISE_BLOCKERS_SHOWN are listed. `owner_json` may be NULL. */
void mt_blocker_add(mortise_blockers *all, mt_slice path, const mt_lock_entry *entry,
                    const char *owner_json);

/* Describes the cycle to its first member, whose session is `own`, with the error DEADLOCK. */
void mt_blocker_cycle(const char *own, const mt_step *steps, size_t n, mortise_blockers *all,
                      mortise_error *err);

#endif
