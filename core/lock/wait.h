/* The waits of this process: one for each acquisition under way, which at any time waits at one of
 * its places or nowhere; and what others are told of them. The session's board has the text, which
 * the heartbeat puts into the session's document. What stands there is taken down before it ceases
 * to be so, and written anew at the next tick (waits.c). */
#ifndef MT_LOCK_WAIT_H
#define MT_LOCK_WAIT_H

#include "lock/state.h"

typedef struct mt_wait {
  mt_manager *manager;
  mt_lock *lock;
  bool once, blocks_siblings; /* as in mt_acquire */
  uint64_t number;  /* of this wait; 0: it does not wait */
  size_t at;        /* the part where it waits */
  bool in_line;     /* for other tasks of this process; else for other sessions */
  bool line_is_new; /* it lined up since the last tick */
  int64_t since_ms, walk_ms; /* when it began; when to look for a cycle next */
  uint32_t walks;
  uint64_t poll_fence;        /* of its last acknowledged poll; those ahead of it stood there then */
  mt_lock_entry *blockers;    /* where it was denied, owned */
  size_t n_blockers;
  uint64_t published_version; /* of the board, in which it was told first; 0: it is not told */
  uint64_t visit; /* of a search among the tasks of this process (waits.c), as the two below */
  struct mt_wait *visit_from, *visit_next;
  struct mt_wait *prev, *next;
} mt_wait;

/* All acquisitions, also those that do not wait; the youngest first. */
struct mt_waits {
  mt_wait *first;
  mt_wait *cursor; /* the next that a walk over them visits, which may end any of them */
  uint64_t last_number, last_visit, last_told;
  bool lined_up;        /* somebody did since the last tick */
  bool published;       /* something is on the board */
  uint64_t publication; /* counts how often the board was taken down, from 1 on */
  int64_t publish_ms;   /* not before */
};

enum { MT_WAIT_MS = 1000 /* of waiting, before it is told and the graph is followed */ };

void mt_wait_link(mt_wait *w);
void mt_wait_unlink(mt_wait *w); /* it ends, and its blockers are freed */

/* It waits at lock->parts[at]; nothing happens while it goes on with the same wait. */
void mt_wait_begin(mt_wait *w, size_t at, bool in_line);
void mt_wait_end(mt_wait *w);
/* What is told of this wait has changed: told anew at the next tick. */
void mt_wait_changed(mt_wait *w);
/* The one that has this number; NULL: it is over. */
mt_wait *mt_wait_find(const mt_manager *m, uint64_t number);

/* Takes down what is on the board: some of it is about to be no longer so. */
void mt_waits_withdraw(mt_manager *m);

#endif
