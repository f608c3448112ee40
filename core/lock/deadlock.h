/* Deadlocks. A waiter needs all its blockers to leave, so every cycle of waiters is a deadlock, and
 * the victim is the youngest member that holds a lock while it waits. There is always such a
 * member, because each call on its own takes its paths in one total order; and only its holder can
 * break the cycle by giving something back. Each wait looks only for cycles of which it is the
 * victim. A cycle among the tasks of this process is found in memory when a task lines up. A cycle
 * through other sessions is searched for after a second of waiting, in the documents of the
 * sessions that it waits for, of those that they wait for, and so on; this session's own waits are
 * always taken from memory.
 *
 * The documents are read at different moments, so a cycle that was seen need never have existed at
 * any one moment. It counts only when a second reading shows the same waits and the same holds, in
 * documents that say ("after") that their writer already had the acknowledgement of a write no
 * earlier than any document of the first reading. Then all those waits and holds existed together
 * at the moment of the last write that the first reading showed; and since each of them waits for
 * another, they last until one gives up. A place in a queue is kept by polling: if it may have
 * expired, its wait gets a new number, and a write since the first reading must have confirmed it.
 *
 * Only the searcher's own wait is ended, so no write has to prove the cycle. */
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
  MT_DEADLOCK_WALKING,    /* the blocking sessions are being read into `graph` */
  MT_DEADLOCK_SEEN,       /* a cycle was seen once; the second reading starts at `again_ms` */
  MT_DEADLOCK_CONFIRMING, /* the second reading fills `graph` */
} mt_deadlock_phase;

struct mt_deadlock {
  mt_deadlock_phase phase;
  uint64_t wait;   /* the number of our wait for which it searches */
  mt_graph *graph; /* NULL unless it is reading */
  const char *ids[MT_GRAPH_SESSIONS];
  size_t index[MT_GRAPH_SESSIONS]; /* their places in the graph */
  uint32_t rounds;
  mt_session_read read;
  /* The cycle that was seen once. The first member is `wait` of our own session. */
  size_t members;
  mt_cycle_member cycle[MT_CYCLE_MAX];
  uint64_t fence; /* the latest write that the first reading showed */
  int64_t again_ms;
  uint32_t tries;
};

int64_t mt_deadlock_due(const mt_manager *m);
void mt_deadlock_tick(mt_manager *m);
void mt_deadlock_deinit(mt_manager *m);

#endif
