/* The requests and results of a lock manager; manager.h has the functions. */
#ifndef MT_LOCK_TYPES_H
#define MT_LOCK_TYPES_H

#include "lock/plan.h"
#include "lock/session.h"

#include <mortise/mortise.h>

typedef struct mt_manager mt_manager;
typedef struct mt_lock mt_lock;

typedef enum mt_hint_kind {
  MT_HINT_WAITS, /* `from` comes after the entry numbered `n` of `to` */
  MT_HINT_GONE,  /* `from` has left the place where `to` waits */
} mt_hint_kind;

/* What one session says to another on the same machine (successor.h). Nothing relies on it. */
typedef struct mt_hint {
  mt_hint_kind kind;
  char to[MT_SESSION_ID], from[MT_SESSION_ID];
  uint64_t place; /* as mt_holds_find's */
  uint64_t n;
} mt_hint;

typedef struct mt_manager_config {
  const char *ns;
  const char *job;           /* its locks guard this job's paths (adoption.h); NULL: none */
  mt_session_config session; /* owner, lease, margin */
  int64_t wait_ms;           /* default wait of an acquisition */
  /* Does a hold of task `holder` also count for `task`: is it the same task or an ancestor? */
  bool (*inherits)(void *ctx, uint64_t holder, uint64_t task);
  /* Starts (true), or stops and joins (false), the heartbeat of `session`. After stopping, no beat
   * may be in flight or its answer be used. */
  mortise_status (*heartbeat)(void *ctx, bool start, mt_session *session, mortise_error *err);
  /* Is the owner known to be dead (same host, boot and pid namespace; pid gone or started at
   * another time)? */
  bool (*known_dead)(void *ctx, const char *owner_json);
  /* May be NULL. The board has changed, so the heartbeat is due sooner. */
  void (*nudge)(void *ctx);
  /* May be NULL. Called while an acquisition waits and when its wait ends. */
  void (*notice)(void *ctx, const mortise_notice *notice);
  /* May be NULL. Sends a hint, without waiting; false: nobody gets it. */
  bool (*hint)(void *ctx, const mt_hint *hint);
  /* The time at which to call mt_manager_tick has changed. */
  void (*due_changed)(void *ctx);
  void *ctx;
} mt_manager_config;

/* An acquisition, in the caller's memory. The manager copies `wants` and adds the intention locks
 * on ancestors. */
typedef struct mt_acquire {
  void (*done)(void *ctx, struct mt_acquire *a); /* in, as base/pump.h says, as is `finished` */
  void *ctx;
  bool finished;
  const mt_want *wants;
  size_t n;
  uint64_t task;       /* who in this process */
  int64_t wait_ms;     /* 0: try once; -1: the manager's default */
  bool adopts;         /* takes over first what dead sessions hold there for the manager's job; one
                          at a time */
  bool gives; /* with `adopts`, of a job that is over: gives back what it takes over, and acquires
                          nothing. `lock` is NULL */
  bool blocks_siblings; /* the caller pumps, so waiting for a sibling task is a DEADLOCK */
  mt_lock *lock;       /* out, owned by the manager until released */
  mortise_error error; /* out */
  mortise_blockers *blockers; /* out, on LOCK_TIMEOUT, DEADLOCK and
                                 ORPHANED_JOB (the orphan is the first); may be NULL */
  void *op;            /* the manager's, as is `next` */
  struct mt_acquire *next;
} mt_acquire;

typedef struct mt_release {
  void (*done)(void *ctx, struct mt_release *r); /* as mt_acquire's */
  void *ctx;
  bool finished;
  mt_lock *lock;       /* in; invalid once this is submitted, whatever the outcome */
  mortise_error error; /* out: LOCK_LOST when the lease ran out while it was held; UNAVAILABLE when
                          it is not acknowledged yet (and tried again in the background) */
  void *op;            /* the manager's, as is `next` */
  struct mt_release *next;
} mt_release;

/* A conversion of a held lock, in the caller's memory: all its targets in another mode. */
typedef struct mt_convert {
  void (*done)(void *ctx, struct mt_convert *c); /* as mt_acquire's */
  void *ctx;
  bool finished;
  mt_lock *lock;       /* in: stays valid; its targets' modes and its fence change */
  mt_mode mode;        /* in: of each target */
  int64_t wait_ms;     /* in: as mt_acquire's */
  bool blocks_siblings; /* in: as mt_acquire's, as is the next */
  mortise_blockers *blockers;
  mortise_error error; /* out */
  bool asking;         /* the manager's, as all below */
  mt_acquire acquire;
  mt_release lowering;
} mt_convert;

typedef struct mt_manager_stats {
  uint64_t batches;   /* lock requests sent */
  uint64_t items;     /* in them */
  uint64_t conflicts; /* version conflicts sent again */
  uint64_t denials;
  uint64_t waits;     /* acquisitions that waited */
  uint64_t takeovers; /* sessions expired by us */
  uint64_t janitor;   /* requests of the janitor */
  uint64_t cleared;   /* entries of the dead that it removed */
} mt_manager_stats;

#endif
