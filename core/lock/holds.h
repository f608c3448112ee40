/* What one session holds: the places where the store has an entry of it, and for each place the
 * tasks of this process that share it (the first of the two levels).
 *
 * A hold is the session's state at one place. A part is one task's share of it, or its request for
 * one. Parts of unrelated tasks exclude each other by the same matrix as sessions do; requests wait
 * in line. This file only keeps the records; it makes no requests to the store. */
#ifndef MT_LOCK_HOLDS_H
#define MT_LOCK_HOLDS_H

#include "lock/session.h"
#include "store/store.h"

typedef struct mt_hold mt_hold;
struct mt_successors;
typedef struct mt_part mt_part;

typedef enum mt_part_state {
  MT_PART_OUT = 0, /* no share */
  MT_PART_LINED,   /* waits in the hold's line behind other tasks */
  MT_PART_IN,      /* admitted here; the store may not know yet */
  MT_PART_HELD,    /* admitted, and covered by an acknowledged write */
} mt_part_state;

struct mt_part {
  mt_place place;       /* its path borrows from the lock's text */
  mt_hold *hold;        /* NULL while it is OUT */
  struct mt_lock *lock; /* whose part it is */
  uint64_t task;        /* the lock's */
  uint32_t index;       /* among the lock's parts, which stand in one array in the total order */
  mt_mode mode;
  mt_part_state state;
  bool last;            /* of the lock's parts */
  bool target;          /* named by the caller, not an ancestor: needs a fence of its own */
  bool asking;          /* in the hold's `asks` or `serving`: waits for a write's answer */
  bool enqueue;         /* may that write queue the session? */
  bool once;            /* a single try, so a denial must name the blockers */
  mt_part *prev, *next; /* in the hold's `in` or `line` */
  mt_part *next_ask;
};

typedef struct mt_parts {
  mt_part *first, *last;
} mt_parts;

/* Our entry in the store at a place, as far as its answers tell. */
typedef enum mt_hold_state {
  MT_HOLD_NONE = 0,       /* nothing */
  MT_HOLD_CREATED,        /* created by us and not written since: may be deleted by its version */
  MT_HOLD_WRITTEN,        /* as the last acknowledged grant left it */
  MT_HOLD_UNSURE,         /* a write of ours was not answered, or we are queued there */
  MT_HOLD_UNSURE_SURPLUS, /* and it may list a stronger mode than our tasks hold; never relied on */
} mt_hold_state;

/* The state of a hold's write; at most one at a time. */
typedef enum mt_send_state {
  MT_SEND_IDLE = 0,
  MT_SEND_READY, /* waits in the outbox */
  MT_SEND_SENT,
} mt_send_state;

struct mt_hold {
  mt_hold *next_in_bucket;
  uint64_t hash;
  mt_hold_state state;
  mt_mode mode;        /* acknowledged and relied on; MT_NL: none */
  uint64_t n;          /* number of the last write that was sent and may have been applied */
  uint64_t released_n; /* the largest number sent in a release; never used again */
  uint64_t left_n;     /* our entries numbered up to this are gone, as the store has acknowledged */
  struct mt_successors *successors; /* owned, or NULL (successor.h) */
  mt_version version;  /* of the last acknowledged grant */
  int64_t written_ms;  /* when that answer came */
  bool contended;      /* another session waits: only tasks that already share it are admitted */
  /* The write in flight (outbox.c). */
  mt_send_state send;
  mt_lock_verb verb;
  mt_mode asked_mode;
  bool asked_enqueue;
  char evict[MT_SESSION_ID]; /* the dead session to evict next, or "" */
  bool adopts;               /* that one's entry is taken over, not evicted */
  bool guard; /* holds what was adopted: not given back before all of the job's lock is had */
  mt_mode adopted; /* with `guard`: the mode that it had as it was read */
  uint32_t tries;
  mt_part *serving; /* parts that this write answers, by next_ask */
  mt_hold *next_out;
  struct mt_pending_release *pending_release; /* waits for this hold to be given back; NULL: none */
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
  bool replace; /* one of its grants was ambiguous: end the session once it holds nothing */
  size_t refs;  /* locks, batches and the manager */
  size_t n;
  size_t buckets; /* a power of two */
  mt_hold **bucket;
  uint64_t last_n; /* the session's counter */
} mt_holds;

mt_holds *mt_holds_new(const mt_env *env, const char *ns, uint64_t address, int64_t lease_ms, int64_t margin_ms);
void mt_holds_ref(mt_holds *t);
void mt_holds_unref(mt_holds *t); /* the last one frees it; NULL is fine */

/* Finds or makes the hold of that place; NULL without memory. */
mt_hold *mt_holds_get(mt_holds *t, mt_place place);
mt_hold *mt_holds_at(const mt_holds *t, mt_place place); /* NULL: none */
/* The hold of the place with this hash, which is FNV-1a of the path's bytes, in 64 bits, XOR that shifted
 * right by 29 bits, plus the stripe; NULL: none. */
mt_hold *mt_holds_find(const mt_holds *t, uint64_t hash);
/* Makes room for `more` holds at once: rehashing is slow, since each chain visited is a cache
 * miss. */
void mt_holds_expect(mt_holds *t, size_t more);
/* Frees the hold if no part shares or wants it and the store has no entry of ours there. */
void mt_holds_drop_if_idle(mt_holds *t, mt_hold *h);

typedef struct mt_kin {
  bool (*inherits)(void *ctx, uint64_t holder, uint64_t task);
  void *ctx;
} mt_kin;

/* Makes a settled hold UNSURE; keeps an unsure one as it is. */
void mt_hold_doubt(mt_hold *h);
/* Another session may have changed the document, so it cannot be deleted by its version any
 * more. */
void mt_hold_touched(mt_hold *h);
bool mt_hold_is_unsure(const mt_hold *h);
/* The store has no entry of ours there any more. */
void mt_hold_clear(mt_hold *h);

/* May this part be admitted now? Not beside a conflicting share of an unrelated task, not past a
 * conflicting part in line, and not into a contended hold. If its task already has a share, only
 * the shares count. */
bool mt_hold_admits(const mt_hold *h, const mt_part *part, const mt_kin *kin);
void mt_hold_enter(mt_part *part);   /* OUT or LINED -> IN; part->hold is set */
void mt_hold_line_up(mt_part *part); /* OUT -> LINED, at the end */
void mt_hold_leave(mt_part *part);   /* any state -> OUT; sets part->hold to NULL */
/* The first part in line that may be admitted now, or NULL. */
mt_part *mt_hold_next(const mt_hold *h, const mt_kin *kin);
/* Least upper bound of all shares; of only the acknowledged ones. */
mt_mode mt_hold_shared_mode(const mt_hold *h);
mt_mode mt_hold_held_mode(const mt_hold *h);

/* Iterates over the parts that block a part in line, by the rule of mt_hold_admits. In a contended
 * hold every share blocks a task that has none. */
typedef struct mt_blocking {
  const mt_kin *kin;
  const mt_part *part, *next;
  bool in, must_line_up, all;
} mt_blocking;

mt_blocking mt_blocking_begin(const mt_part *part, const mt_kin *kin);
const mt_part *mt_blocking_next(mt_blocking *b); /* NULL: that was all */

#endif
