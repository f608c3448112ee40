/* What one session holds: the places with an entry of its in the store, and, for each, the tasks of
 * this process that share it (the first of the two levels).
 *
 * A hold is one place. A part is one task's share in it, or its wish for one. Parts of tasks that
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
  mt_place place;       /* its path borrows from the lock's text */
  mt_hold *hold;        /* NULL while it is OUT */
  struct mt_lock *lock; /* whose part it is */
  uint64_t task;        /* the lock's */
  uint32_t index;       /* among the lock's parts, which stand in one array in the total order */
  mt_mode mode;
  mt_part_state state;
  bool target;          /* asked for by name, not as an ancestor: takes a fence of its own */
  bool asking;          /* in the hold's `asks`: waits for the next write */
  bool enqueue;         /* may that write put the session in the queue? */
  bool once;            /* who asks tries but once, so a denial must say who is in the way */
  mt_part *prev, *next; /* in the hold's `in` or `line` */
  mt_part *next_ask;
};

typedef struct mt_parts {
  mt_part *first, *last;
} mt_parts;

/* What the store has of us at a place, as far as its answers tell. */
typedef enum mt_hold_state {
  MT_HOLD_NONE = 0,       /* nothing */
  MT_HOLD_CREATED,        /* one create by us, nothing since: may be deleted by its version */
  MT_HOLD_WRITTEN,        /* what the last acknowledged grant says */
  MT_HOLD_UNSURE,         /* a write of ours has had no answer, or waits in the queue there */
  MT_HOLD_UNSURE_SURPLUS, /* and more than our tasks hold may stand there, which none relies on */
} mt_hold_state;

/* The write of a hold; one at a time for each place. */
typedef enum mt_send_state {
  MT_SEND_IDLE = 0,
  MT_SEND_READY, /* waits in the outbox */
  MT_SEND_SENT,
} mt_send_state;

struct mt_hold {
  mt_hold *next_in_bucket;
  uint64_t hash;
  mt_hold_state state;
  mt_mode mode;        /* acknowledged, and relied on; MT_NL: nothing */
  uint64_t n;          /* number of the last write that was sent and may be there */
  uint64_t released_n; /* the largest number that a release was sent with: never used again */
  mt_version version;  /* of the last acknowledged grant */
  int64_t written_ms;  /* when that answer came */
  bool contended;      /* another session waits: only tasks inside pass */
  /* The write under way (outbox.c). */
  mt_send_state send;
  mt_lock_verb verb;
  mt_mode asked_mode;
  bool asked_enqueue;
  char evict[MT_SESSION_ID]; /* "" or the dead session to evict next */
  uint32_t tries;
  mt_part *serving; /* parts that this write answers, by next_ask */
  mt_hold *next_out;
  struct mt_pending_release *pending_release; /* that waits for this hold, or NULL */
  /* Tasks. */
  uint32_t counts[MT_MODES]; /* of `in`, by mode */
  mt_parts in, line;
  mt_part *asks, *last_ask;
  uint32_t stripe;
  size_t path_n;
  char path[];
};

static inline mt_place mt_hold_place(const mt_hold *h) {
  return (mt_place){{h->path, h->path_n}, h->stripe};
}

/* All that one session holds. */
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

/* The hold of that place, made when missing; NULL without memory. */
mt_hold *mt_holds_get(mt_holds *t, mt_place place);
/* Room for so many more, at once: moving what is there is slow, and each chain met is a miss of the
 * cache. */
void mt_holds_expect(mt_holds *t, size_t more);
/* Forgets a hold that nobody shares, wants, or may still have in the store. */
void mt_holds_drop_if_idle(mt_holds *t, mt_hold *h);

typedef struct mt_kin {
  bool (*inherits)(void *ctx, uint64_t holder, uint64_t task);
  void *ctx;
} mt_kin;

/* From settled to unsure; what is unsure stays as it is. */
void mt_hold_doubt(mt_hold *h);
/* Others may have changed the document: it cannot be deleted by its version any more. */
void mt_hold_touched(mt_hold *h);
bool mt_hold_is_unsure(const mt_hold *h);
/* Nothing of ours stands there any more. */
void mt_hold_clear(mt_hold *h);

/* May this part come in now? Not past a share of an unrelated task that conflicts; not past one in
 * line that conflicts; not into a contended hold; unless its task is inside already, when only the
 * shares count. */
bool mt_hold_admits(const mt_hold *h, const mt_part *part, const mt_kin *kin);
void mt_hold_enter(mt_part *part);   /* OUT or LINED -> IN; part->hold is set */
void mt_hold_line_up(mt_part *part); /* OUT -> LINED, at the end */
void mt_hold_leave(mt_part *part);   /* -> OUT, from wherever it was; part->hold becomes NULL */
/* The first in line that may come in now; NULL when none. */
mt_part *mt_hold_next(const mt_hold *h, const mt_kin *kin);
/* Least upper bound of the shares, and of those among them that the store has acknowledged. */
mt_mode mt_hold_shared_mode(const mt_hold *h);
mt_mode mt_hold_held_mode(const mt_hold *h);

/* The parts that keep one in line from coming in, by the same rule as mt_hold_admits. A hold that
 * another session waits for keeps out all who are not inside: then all inside are in the way. */
typedef struct mt_blocking {
  const mt_kin *kin;
  const mt_part *part, *next;
  bool in, must_line_up, all;
} mt_blocking;

mt_blocking mt_blocking_begin(const mt_part *part, const mt_kin *kin);
const mt_part *mt_blocking_next(mt_blocking *b); /* NULL: that was all */

#endif
