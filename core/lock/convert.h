/* Conversion: a held lock changes its modes without ever giving up what both the old and the new
 * modes cover. */
#ifndef MT_LOCK_CONVERT_H
#define MT_LOCK_CONVERT_H

#include "lock/manager.h"

/* The lock's fence never shrinks. An upgrade waits like an acquisition and yields a new fence; any
 * error (LOCK_TIMEOUT, DEADLOCK, LOCK_LOST, ...) leaves the lock as it was. A downgrade takes
 * effect at once, whatever the outcome; `done` follows the store's acknowledgement, and UNAVAILABLE
 * means that others are admitted only later. INVALID_ARGUMENT while another conversion of the lock
 * is running. Never calls `done` itself. */
void mt_manager_convert(mt_manager *m, mt_convert *c);
/* Gives back what was being asked for and leaves the lock as it is; does not call `done`. */
void mt_manager_convert_cancel(mt_manager *m, mt_convert *c);

#endif
