/* The waits of this process, one for each acquisition in progress, which waits at one of its places
 * or nowhere. They are published on the session's board, and the heartbeat writes the board into
 * the session's document. The board is cleared before anything on it stops being true, and
 * rewritten at the next tick (waits.c). */
#ifndef MT_LOCK_WAIT_H
#define MT_LOCK_WAIT_H

#include "lock/state.h"

typedef enum mt_look {
  MT_LOOK_NONE = 0,
  MT_LOOK_WANTED,
  MT_LOOK_SENT,
} mt_look;

typedef struct mt_wait {
  mt_manager *manager;
  mt_lock *lock;
  bool once, blocks_siblings; /* as in mt_acquire */
  uint64_t number;            /* names this wait; 0: it does not wait */
  size_t at;                  /* index of the part where it waits */
  uint32_t stripe;            /* of the part's path: that of the part, but where it adopts any */
  bool adopts;                /* until those that have something there are dead, in whatever mode */
  bool in_line;               /* waits for tasks of this process, not for other sessions */
  bool line_is_new; /* it lined up since the last tick */
  mt_look look;     /* at its place (look.h) */
  int64_t since_ms, walk_ms; /* when it began; when to search for a cycle next */
  uint32_t walks;
  uint64_t poll_fence;     /* of its last acknowledged poll, when those ahead of it were there */
  mt_lock_entry *blockers; /* who denied it, owned */
  size_t n_blockers;
  uint64_t published_version; /* the board's version that first showed it; 0: not published */
  uint64_t visit;             /* state of a search in this process (waits.c), like the two below */
  struct mt_wait *visit_from, *visit_next;
  struct mt_wait *prev, *next;
} mt_wait;

/* All acquisitions in progress, waiting or not, youngest first. */
struct mt_waits {
  mt_wait *first;
  mt_wait *cursor; /* the next one to visit, for a loop whose body may end any of them */
  uint64_t last_number, last_visit, last_told;
  bool lined_up;        /* somebody lined up since the last tick */
  bool published;       /* something is on the board */
  uint64_t publication; /* starts at 1 and grows whenever the board is cleared */
  int64_t publish_ms;   /* do not publish before */
  int64_t crowded_ms;   /* until then others are expected where all stripes are wanted */
};

enum { MT_WAIT_MS = 1000 /* after this time a wait is published and a cycle is searched for */ };

void mt_wait_link(mt_wait *w);
void mt_wait_unlink(mt_wait *w); /* also frees its blockers */

/* It waits at the path of lock->parts[at], in that stripe; does nothing if it already waits there. */
void mt_wait_begin(mt_wait *w, size_t at, uint32_t stripe, bool in_line);
void mt_wait_end(mt_wait *w);
/* What is published of this wait has changed: publish again at the next tick. */
void mt_wait_changed(mt_wait *w);
/* The wait with this number; NULL: it is over. */
mt_wait *mt_wait_find(const mt_manager *m, uint64_t number);

/* Clears the board, because something on it is about to stop being true. */
void mt_waits_withdraw(mt_manager *m);

#endif
