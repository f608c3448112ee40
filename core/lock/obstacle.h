/* Who is in the way of an acquisition that waits, and what its caller is told of them. */
#ifndef MT_LOCK_OBSTACLE_H
#define MT_LOCK_OBSTACLE_H

#include "lock/wait.h"

/* Lists those in the way at the place where it waits. */
void mt_obstacles(const mt_wait *w, mortise_blockers *all);
/* Lists them and sets the error LOCK_TIMEOUT, which describes the first. */
void mt_obstacle_timeout(const mt_wait *w, mortise_blockers *all, mortise_error *err);

/* One of them that guards a job and whose session is dead, or NULL. */
const mt_lock_entry *mt_obstacle_orphan(const mt_wait *w);
/* Lists them, `orphan` first, and sets the error ORPHANED_JOB, which describes it. */
void mt_obstacle_orphaned(const mt_wait *w, const mt_lock_entry *orphan, mortise_blockers *all,
                          mortise_error *err);

#endif
