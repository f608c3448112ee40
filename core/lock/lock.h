/* A lock: a set of parts, one for each place, in the total order. Only the files of this folder use
 * its members directly. */
#ifndef MT_LOCK_LOCK_H
#define MT_LOCK_LOCK_H

#include "lock/outbox.h"

struct mt_lock {
  mt_manager *manager;
  mt_holds *holds; /* of the session that holds it; NULL before that is open */
  uint64_t task;
  mt_part *parts; /* in the total order (mt_place_cmp) */
  size_t n;
  uint32_t stripes; /* for a table with so many */
  mt_want *wants; /* the targets, normalised; paths borrow from `text` */
  size_t n_wants;
  char *text;
  uint64_t fence;
  size_t unanswered; /* parts that wait for an answer */
  bool granted;
  struct mt_wait *wait; /* of its acquisition; NULL once that is over */
  uint64_t publication; /* the last publication of our waits that names it (wait.h) */
  /* Called before it is released; may be NULL. */
  void (*on_release)(mt_lock *lock);
  void *on_release_ctx;
  mt_lock *prev, *next; /* in the manager's list */
};

/* Makes the lock with all its parts OUT; it belongs to no session yet and is not in the manager's
 * list. NULL with `err`. */
mt_lock *mt_lock_new(mt_manager *m, const mt_acquire *a, mortise_error *err);
/* Binds it to the session of `holds`; all its parts are OUT. Each of its intentions gets a stripe. */
mortise_status mt_lock_bind(mt_lock *lock, mt_holds *holds, mortise_error *err);
/* An intention stands in any one stripe: where `like` has it; or where this session has one already; or in
 * the session's own. All parts are OUT. `like` may be NULL. */
void mt_lock_choose_stripes(mt_lock *lock, const mt_lock *like);
/* All parts are held: adds it to the manager's list. */
void mt_lock_granted(mt_lock *lock);
/* Gives back the parts from index `from` on, last first; `pending` (or NULL) counts the holds to
 * wait for. */
void mt_lock_give_back(mt_lock *lock, size_t from, mt_pending_release *pending);
void mt_lock_free(mt_lock *lock); /* NULL is fine */

/* OK, or LOCK_LOST: the deadline has passed or the session was expired. No I/O. */
mortise_status mt_lock_check(const mt_lock *lock, mortise_error *err);
int64_t mt_lock_remaining_ms(const mt_lock *lock);
uint64_t mt_lock_fence(const mt_lock *lock);
size_t mt_lock_targets(const mt_lock *lock, const mt_want **wants); /* borrowed */
mt_manager *mt_lock_manager(const mt_lock *lock);
mt_session *mt_lock_session(const mt_lock *lock); /* borrowed; any thread may read its atomics */

#endif
