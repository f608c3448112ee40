/* Who waits for whom in this process: finds cycles among its tasks and publishes the waits for
 * others. */
#ifndef MT_LOCK_WAITS_H
#define MT_LOCK_WAITS_H

#include "lock/wait.h"

/* Publishes the waits older than MT_WAIT_MS; false if there are none. */
bool mt_waits_publish(mt_manager *m);
/* Renders the text as it would be now, without publishing it. The caller checks `out->failed`. */
void mt_waits_render(const mt_manager *m, mt_buf *out);
/* Does its task hold a lock while it waits? In every cycle at least one does. */
bool mt_wait_is_nested(const mt_wait *w);
/* The victim of a cycle through `w` among tasks of this process, its youngest nested wait, or NULL.
 * Describes the cycle in `all` and `err`. */
mt_wait *mt_waits_local_cycle(mt_manager *m, mt_wait *w, mortise_blockers *all, mortise_error *err);

#endif
