/* What one session holds: the paths with an entry of its in the store, and, for each, the tasks of
 * this process that share it (the first of the two levels).
 *
 * A hold is one path. A part is one task's share in it, or its wish for one. Parts of tasks that
 * are not related exclude each other by the same matrix as sessions do; wishes wait in line. This
 * file knows nothing of the store: it keeps the book. */
#ifndef MT_LOCK_HOLDS_H
#define MT_LOCK_HOLDS_H

#include "lock/session.h"
#include "store/store.h"

typedef struct mt_hold mt_hold;
typedef struct mt_part mt_part;

typedef enum mt_part_state {
  MT_PART_OUT = 0, /* no share */
  MT_PART_LINED,   /* waits in the hold's line for other tasks */
  MT_PART_IN,      /* admitted here; the store may not know yet */
  MT_PART_HELD,    /* and covered by an acknowledged write */
} mt_part_state;

struct mt_part {
  mt_slice path;        /* borrows from the lock's text */
  mt_hold *hold;        /* NULL while it is OUT */
  struct mt_lock *lock; /* whose part it is */
  mt_mode mode;
  mt_part_state state;
  bool target;          /* asked for by name, not as an ancestor: takes a fence of its own */
  bool asking;          /* in the hold's `asks`: waits for the next write */
  bool enqueue;         /* may that write put the session in the queue? */
  mt_part *prev, *next; /* in the hold's `in` or `line` */
  mt_part *next_ask;
};

typedef struct mt_parts {
  mt_part *first, *last;
} mt_parts;

/* What is asked of the store for a hold next; one at a time for each path. */
typedef enum mt_hold_duty {
  MT_DUTY_NONE = 0,
  MT_DUTY_READY, /* waits in the outbox */
  MT_DUTY_SENT,
} mt_hold_duty;

struct mt_hold {
  mt_hold *next_in_bucket;
  uint64_t hash;
  /* What the store acknowledged. */
  mt_mode mode;        /* MT_NL: nothing is believed there */
  uint64_t n;          /* number of the last write that was sent and may be there */
  uint64_t released_n; /* the largest number that a release was sent with: never used again */
  mt_version version;  /* of the last acknowledged grant */
  int64_t written_ms;  /* when that answer came */
  bool untouched;      /* one create by us, nothing since: may be deleted by its version */
  bool unsettled;      /* a write of ours has had no answer, or waits in the queue there */
  bool contended;      /* another session waits: only tasks inside pass */
  bool rest;           /* more than the tasks inside hold may stand there, unbelieved */
  /* The write under way (outbox.c). */
  mt_hold_duty duty;
  mt_lock_verb verb;
  mt_mode asked_mode;
  bool asked_enqueue;
  char evict[MT_SESSION_ID]; /* "" or the dead session to evict next */
  uint32_t tries;
  mt_part *serving; /* parts that this write answers, by next_ask */
  mt_hold *next_out;
  struct mt_giving *giving; /* the release that waits for this hold, or NULL */
  /* Tasks. */
  uint32_t counts[MT_MODES]; /* of `in`, by mode */
  mt_parts in, line;
  mt_part *asks, *last_ask;
  size_t path_n;
  char path[];
};

static inline mt_slice mt_hold_path(const mt_hold *h) {
  return (mt_slice){h->path, h->path_n};
}

/* The table of one session. */
typedef struct mt_holds {
  mt_session session;
  bool replace; /* a grant of it was ambiguous: end it as soon as it holds nothing */
  size_t refs;  /* locks, batches and the manager */
  size_t n;
  size_t buckets; /* a power of two */
  mt_hold **bucket;
  uint64_t last_n; /* the session's counter */
} mt_holds;

mt_holds *mt_holds_new(const mt_env *env, const char *ns, int64_t lease_ms, int64_t margin_ms);
void mt_holds_ref(mt_holds *t);
void mt_holds_unref(mt_holds *t); /* frees it with the last; NULL is fine */

/* The hold of that path, made when missing; NULL without memory. */
mt_hold *mt_holds_get(mt_holds *t, mt_slice path);
/* Room for so many more, at once: moving what is there is slow, and each chain met is a miss of the
 * cache. */
void mt_holds_expect(mt_holds *t, size_t more);
/* Forgets a hold that nobody shares, wants, or may still have in the store. */
void mt_holds_drop_if_idle(mt_holds *t, mt_hold *h);

typedef struct mt_kin {
  bool (*inherits)(void *ctx, uint64_t holder, uint64_t task);
  void *ctx;
} mt_kin;

/* May this part come in now? Not past a share of an unrelated task that conflicts; not past one in
 * line that conflicts; not into a contended hold; unless its task is inside already, when only the
 * shares count. */
bool mt_hold_admits(const mt_hold *h, const mt_part *part, const mt_kin *kin);
void mt_hold_enter(mt_part *part);   /* OUT or LINED -> IN; part->hold is set */
void mt_hold_line_up(mt_part *part); /* OUT -> LINED, at the end */
void mt_hold_leave(mt_part *part);   /* -> OUT, from wherever it was; part->hold becomes NULL */
/* The first in line that may come in now; NULL when none. */
mt_part *mt_hold_next(const mt_hold *h, const mt_kin *kin);
/* Least upper bound of the shares. */
mt_mode mt_hold_shared_mode(const mt_hold *h);

#endif
