/* The right to write while a lock is held: all that those who write need of it. */
#ifndef MT_LOCK_PERMIT_H
#define MT_LOCK_PERMIT_H

#include "lock/session.h"

typedef struct mt_permit {
  const void *lock; /* borrowed: what the three are asked of */
  mortise_status (*check)(const void *lock, mortise_error *err); /* OK, or LOCK_LOST. No I/O */
  int64_t (*remaining_ms)(const void *lock);
  uint64_t (*fence)(const void *lock); /* grows where the lock is converted to more */
  mt_session *session; /* borrowed: whose lock it is; any thread may ask whether it is dead */
  mt_epoch epoch;      /* of its lock table */
} mt_permit;

#endif
