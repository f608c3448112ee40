/* Who waits for whom in this process: cycles among its tasks, and the text that tells others. */
#ifndef MT_LOCK_WAITS_H
#define MT_LOCK_WAITS_H

#include "lock/wait.h"

/* Tells of the waits that have lasted; false when there are none. */
bool mt_waits_publish(mt_manager *m);
/* The text as it would be now, for nobody else; its failure is the caller's to check. */
void mt_waits_render(const mt_manager *m, mt_buf *out);
/* Does it wait while its task holds a lock? Of a cycle at least one does. */
bool mt_wait_is_nested(const mt_wait *w);
/* The youngest nested one of a cycle among tasks of this process that goes through `w`; NULL when
 * there is none. Says the cycle in the last two. */
mt_wait *mt_waits_local_cycle(mt_manager *m, mt_wait *w, mortise_blockers *all, mortise_error *err);

#endif
