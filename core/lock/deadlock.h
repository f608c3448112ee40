/* Deadlocks. A waiter needs all its blockers to leave, so every cycle of waiters is a deadlock, and
 * the youngest of a cycle gives way, of those that hold a lock while they wait: a call for itself
 * goes through all paths in one order, so there is always such a one, and only its holder can undo
 * the knot by giving something back. Each looks only for cycles in which it is that one. One among
 * the tasks of this process is found from memory when a task lines up. One through other sessions
 * is looked for by one that has waited for a second, in the documents of the sessions it waits for,
 * and of those that they wait for; its own side is always taken from memory.
 *
 * What was read is of different moments, so a cycle that was seen need never have stood all at
 * once. It counts when it is seen again, each wait and each hold the same, in documents that say
 * ("after") that they were written by somebody who had the acknowledgement of a write that came
 * later than all of the first reading. At the moment of the last write of the first reading all
 * those waits and holds stood together then; and who waits for one that waits goes on waiting, so
 * they stand until one of them gives up. A place in a queue is kept by polling: one that may have
 * passed has another wait's number, and its place must have been confirmed by a write since.
 *
 * Only its own wait is ended for it, so nothing need be proven by a write. */
#ifndef MT_LOCK_DEADLOCK_H
#define MT_LOCK_DEADLOCK_H

#include "lock/state.h"
#include "lock/waitgraph.h"

typedef struct mt_cycle_member {
  char session[MT_SESSION_ID];
  uint64_t wait, key; /* mt_graph_edge to the next */
} mt_cycle_member;

typedef enum mt_deadlock_phase {
  MT_DEADLOCK_IDLE = 0,
  MT_DEADLOCK_WALKING,    /* the sessions in the way are being read into `graph` */
  MT_DEADLOCK_SEEN,       /* a cycle was seen once, and is looked for again at `again_ms` */
  MT_DEADLOCK_CONFIRMING, /* that second reading is under way, into `graph` */
} mt_deadlock_phase;

struct mt_deadlock {
  mt_deadlock_phase phase;
  uint64_t wait;   /* for whom it walks: the number of a wait of ours */
  mt_graph *graph; /* while it is reading */
  const char *ids[MT_GRAPH_SESSIONS];
  size_t index[MT_GRAPH_SESSIONS]; /* of the graph's sessions that are being read */
  uint32_t rounds;
  mt_session_read read;
  /* The cycle that was seen once. The first member is `wait` of our own session. */
  size_t members;
  mt_cycle_member cycle[MT_CYCLE_MAX];
  uint64_t fence; /* the latest of the writes that showed it */
  int64_t again_ms;
  uint32_t tries;
};

int64_t mt_deadlock_due(const mt_manager *m);
void mt_deadlock_tick(mt_manager *m);
void mt_deadlock_deinit(mt_manager *m);

#endif
