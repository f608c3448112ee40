/* Looking at the places where acquisitions wait: a real-time read of their lock documents, which costs
 * a server a fraction of the write that keeps a place. One read at a time is under way; it serves all
 * waits that want one. What it shows proves nothing; the hook `looked` gets it. */
#ifndef MT_LOCK_LOOK_H
#define MT_LOCK_LOOK_H

#include "lock/lock.h"
#include "lock/wait.h"

enum { MT_LOOK_PLACES = 64 };

struct mt_looks {
  mt_lock_read read;
  bool busy;
  char *text; /* the paths in flight, owned */
  mt_place places[MT_LOOK_PLACES];
  mt_lock_entry *entries; /* of one document, owned */
  size_t cap;
};

/* This wait is read with the next request. */
void mt_look_want(mt_wait *w);
void mt_looks_flush(mt_manager *m);
void mt_looks_deinit(mt_manager *m); /* cancels the request in flight */

#endif
