/* A lock: a set of parts, one for each place, in the total order. Callers use the functions, the
 * files of this folder its members too. */
#ifndef MT_LOCK_LOCK_H
#define MT_LOCK_LOCK_H

#include "lock/outbox.h"

struct mt_lock {
  mt_manager *manager;
  mt_holds *holds; /* of the session in which it is held; NULL before that is open */
  uint64_t task;
  mt_part *parts; /* in the total order (mt_place_cmp) */
  size_t n;
  mt_want *wants; /* what was asked for, normalised; borrows from `text` */
  size_t n_wants;
  char *text;
  uint64_t fence;
  size_t unanswered; /* parts that ask */
  bool granted;
  struct mt_wait *wait; /* of its acquisition, while it is under way */
  uint64_t publication; /* the last one of our waits that names it (wait.h) */
  /* It is about to be released; NULL: nobody wants to know. */
  void (*on_release)(mt_lock *lock);
  void *on_release_ctx;
  mt_lock *prev, *next; /* the manager's */
};

/* With the parts that are wanted, none of them shared yet; bound to no session, and unknown to the
 * manager. NULL with `err`. */
mt_lock *mt_lock_new(mt_manager *m, const mt_acquire *a, mortise_error *err);
/* All of it is held: from now on it is the manager's. */
void mt_lock_granted(mt_lock *lock);
/* Gives back the parts from `from` on, last first; `pending` (or NULL) counts what is waited for. */
void mt_lock_give_back(mt_lock *lock, size_t from, mt_pending_release *pending);
void mt_lock_free(mt_lock *lock); /* NULL is fine */

/* OK, or LOCK_LOST: the deadline has passed or the session was expired. No I/O. */
mortise_status mt_lock_check(const mt_lock *lock, mortise_error *err);
int64_t mt_lock_remaining_ms(const mt_lock *lock);
uint64_t mt_lock_fence(const mt_lock *lock);
size_t mt_lock_targets(const mt_lock *lock, const mt_want **wants); /* borrowed */
mt_manager *mt_lock_manager(const mt_lock *lock);
mt_session *mt_lock_session(const mt_lock *lock); /* borrowed; its atomics may be read anywhere */

#endif
