/* Who comes after this session at a place, as far as they have said so, and telling them when it leaves.
 *
 * A waiter tells the session whose entry is the last in its way (those that hold, if none of those is in
 * the queue) that it waits; that one says, once it has left the place and the store has acknowledged it,
 * that it is gone. So a hand-off takes one message from one process to the next, and no look at the store.
 *
 * Such a hint is no grant, and nobody relies on one: it may be lost, late or forged. To have heard one only
 * means to ask the store sooner (poll.h bounds how often). */
#ifndef MT_LOCK_SUCCESSOR_H
#define MT_LOCK_SUCCESSOR_H

#include "lock/state.h"

/* Says to the session of entry `e` at this place that ours comes after it; false: it cannot be told, and
 * will tell nothing. */
bool mt_successor_register(mt_manager *m, const mt_hold *h, const mt_lock_entry *e);
/* Our entry there is gone: tells all who wait for that. */
void mt_successors_tell(mt_manager *m, mt_hold *h);
/* Another session says that it comes after us. */
void mt_successor_heard(mt_manager *m, const mt_hint *hint);

#endif
