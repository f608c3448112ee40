/* The right to write while a lock is held: all that writers need to know of the lock. */
#ifndef MT_LOCK_PERMIT_H
#define MT_LOCK_PERMIT_H

#include "lock/session.h"

typedef struct mt_permit {
  const void *lock; /* borrowed; the argument of the functions below */
  mortise_status (*check)(const void *lock, mortise_error *err); /* OK, or LOCK_LOST. No I/O */
  int64_t (*remaining_ms)(const void *lock);
  uint64_t (*fence)(const void *lock); /* grows when the lock is upgraded */
  mt_session *session;                 /* borrowed; any thread may ask whether it is dead */
  mt_epoch epoch;      /* of its lock table */
  const char *owner;   /* JSON object of whose it is (session.h), borrowed; or NULL */
} mt_permit;

#endif
