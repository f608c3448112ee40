/* Who stands in the way, as people are shown it. */
#ifndef MT_LOCK_BLOCKER_H
#define MT_LOCK_BLOCKER_H

#include "store/store.h"

/* What one member of a cycle of waits waits for; the next member has it. */
typedef struct mt_step {
  mt_slice path;
  mt_mode mode;
  const char *session, *owner; /* of the member itself; owner's JSON or NULL */
  bool queued;                 /* the next one only stands before it in the queue */
} mt_step;

/* One more: the holder, or with `queued` the waiter, of `entry` at `path`; all that fit are shown,
 * all are counted. `owner_json` may be NULL. */
void mt_blocker_add(mortise_blockers *all, mt_slice path, const mt_lock_entry *entry,
                    const char *owner_json);

/* DEADLOCK: the first of the steps, whose session is `own`, is told of all of them. */
void mt_blocker_cycle(const char *own, const mt_step *steps, size_t n, mortise_blockers *all,
                      mortise_error *err);

#endif
