/* Conversion: a lock that is held gets other modes, and what is held before and after is never
 * given up in between. */
#ifndef MT_LOCK_CONVERT_H
#define MT_LOCK_CONVERT_H

#include "lock/manager.h"

/* The lock's fence never shrinks. Asking for more than it has waits like an acquisition and has a
 * new fence; any error (LOCK_TIMEOUT, DEADLOCK, LOCK_LOST, ...) leaves the lock as it was. Where the
 * new modes are covered by the old ones it takes effect at once, whatever the outcome; `done` follows
 * the store's acknowledgement, and UNAVAILABLE means that others are let in only later.
 * INVALID_ARGUMENT while another conversion of the lock is under way. `done` is never called from
 * in here. */
void mt_manager_convert(mt_manager *m, mt_convert *c);
/* `done` is not called. What was being asked for is given back; the lock stays as it is. */
void mt_manager_convert_cancel(mt_manager *m, mt_convert *c);

#endif
