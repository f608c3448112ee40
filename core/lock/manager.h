/* The lock manager of one process: one session in the store, many tasks here.
 *
 * A state machine: it starts no thread, reads no clock but mt_env's, and never blocks. Its owner
 * calls mt_manager_tick when mt_manager_due says so, and tells it what the heartbeat learns. */
#ifndef MT_LOCK_MANAGER_H
#define MT_LOCK_MANAGER_H

#include "base/env.h"
#include "lock/session.h"
#include "store/store.h"

#include <mortise/mortise.h>

typedef struct mt_manager mt_manager;
typedef struct mt_lock mt_lock;
struct mt_convert;

typedef struct mt_manager_config {
  const char *ns;
  mt_session_config session; /* owner, lease, margin */
  int64_t wait_ms;           /* default wait of an acquisition */
  /* Does a hold of task `holder` stand for `task` too (the same, or one above it)? */
  bool (*inherits)(void *ctx, uint64_t holder, uint64_t task);
  /* The owner must start (true), or stop and join (false), the heartbeat of `session`. Stopping
   * returns only when nothing of it is under way any more, or will be believed. */
  mortise_status (*heartbeat)(void *ctx, bool start, mt_session *session, mortise_error *err);
  /* Is the owner of this session known dead (same host, boot and pid namespace, pid gone or
   * started at another time)? */
  bool (*known_dead)(void *ctx, const char *owner_json);
  /* May be NULL: there is something new for the heartbeat to tell; it has become due sooner. */
  void (*nudge)(void *ctx);
  /* May be NULL: told of each acquisition that waits, and of the end of its wait. */
  void (*notice)(void *ctx, const mortise_notice *notice);
  /* The time at which to call mt_manager_tick has changed. */
  void (*due_changed)(void *ctx);
  void *ctx;
} mt_manager_config;

/* The store's lock table stays the owner's. NULL with `err`. */
mt_manager *mt_manager_new(mt_store *store, const mt_env *env, const mt_manager_config *config,
                           mortise_error *err);
/* After mt_manager_close has finished, or to abandon everything to the lease. */
void mt_manager_free(mt_manager *m);

int64_t mt_manager_due(const mt_manager *m); /* on env's clock; INT64_MAX: nothing to do */
void mt_manager_tick(mt_manager *m);

typedef struct mt_want {
  mt_slice path; /* checked (mt_path_check) */
  mt_mode mode;
} mt_want;

/* An acquisition in the caller's memory. The manager copies `wants` and adds the intention locks on
 * the ancestors. */
typedef struct mt_acquire {
  void (*done)(void *ctx, struct mt_acquire *a);
  void *ctx;
  const mt_want *wants;
  size_t n;
  uint64_t task;       /* who in this process */
  int64_t wait_ms;     /* 0: try once; -1: the manager's default */
  bool alone;          /* the caller pumps: waiting for another task of ours is a DEADLOCK */
  mt_lock *lock;       /* out, owned by the manager until released */
  mortise_error error; /* out */
  void *op;            /* the manager's, as is `next` */
  struct mt_acquire *next;
} mt_acquire;

/* `done` is called from mt_manager_tick or from the store's completions, never from in here. */
void mt_manager_acquire(mt_manager *m, mt_acquire *a);
/* `done` is not called; what is granted late is given back. */
void mt_manager_cancel(mt_manager *m, mt_acquire *a);

typedef struct mt_release {
  void (*done)(void *ctx, struct mt_release *r);
  void *ctx;
  mt_lock *lock;       /* in; gone when this is submitted, whatever the outcome */
  mortise_error error; /* out: LOCK_LOST when the lease ran out while it was held; UNAVAILABLE when
                          it is not acknowledged yet (and tried again in the background) */
  void *op;            /* the manager's, as is `next` */
  struct mt_release *next;
} mt_release;

/* Stops believing in the lock at once, then gives its holds back; retried in the background until
 * acknowledged or the lease has passed. */
void mt_manager_release(mt_manager *m, mt_release *r);
/* The caller's memory is its own again; the release itself goes on. */
void mt_manager_release_forget(mt_manager *m, mt_release *r);

/* A conversion of a held lock, in the caller's memory: all its targets in another mode. */
typedef struct mt_convert {
  void (*done)(void *ctx, struct mt_convert *c);
  void *ctx;
  mt_lock *lock;       /* in: stays valid; its targets' modes and its fence change */
  mt_mode mode;        /* in: of each target */
  int64_t wait_ms;     /* in: as mt_acquire's */
  bool alone;          /* in: as mt_acquire's */
  mortise_error error; /* out */
  bool asking;         /* the manager's, as all below */
  mt_acquire acquire;
  mt_release lowering;
} mt_convert;

/* What is held both before and after is never given up in between, and the lock's fence never
 * shrinks. Asking for more than it has waits like an acquisition and has a new fence; any error
 * (LOCK_TIMEOUT, DEADLOCK, LOCK_LOST, ...) leaves the lock as it was. Where the new modes are
 * covered by the old ones it takes effect at once, whatever the outcome; `done` follows the
 * store's acknowledgement, and UNAVAILABLE means that others are let in only later.
 * INVALID_ARGUMENT while another conversion of the lock is under way. `done` is never called from
 * in here. */
void mt_manager_convert(mt_manager *m, mt_convert *c);
/* `done` is not called. What was being asked for is given back; the lock stays as it is. */
void mt_manager_convert_cancel(mt_manager *m, mt_convert *c);

/* Ends everything: cancels acquisitions with INTERRUPTED, gives back every hold, stops the
 * heartbeat, closes the session. Bounded by `deadline_ms`. */
void mt_manager_close(mt_manager *m, int64_t deadline_ms, void (*done)(void *ctx), void *ctx);

/* OK, or LOCK_LOST: the deadline has passed or the session was expired. No I/O. */
mortise_status mt_lock_check(const mt_lock *lock, mortise_error *err);
int64_t mt_lock_remaining_ms(const mt_lock *lock);
uint64_t mt_lock_fence(const mt_lock *lock);
size_t mt_lock_targets(const mt_lock *lock, const mt_want **wants); /* borrowed */
mt_manager *mt_lock_manager(const mt_lock *lock);
mt_session *mt_lock_session(const mt_lock *lock); /* borrowed; its atomics may be read anywhere */

typedef struct mt_manager_stats {
  uint64_t batches;   /* lock requests sent */
  uint64_t items;     /* in them */
  uint64_t conflicts; /* version conflicts sent again */
  uint64_t denials;
  uint64_t waits;     /* acquisitions that waited */
  uint64_t takeovers; /* sessions expired by us */
} mt_manager_stats;
mt_manager_stats mt_manager_get_stats(const mt_manager *m);
/* The lock table's when the session of the locks held now was opened. */
mt_epoch mt_manager_epoch(const mt_manager *m);
mt_session *mt_manager_session(mt_manager *m); /* NULL before the first lock */
/* Since when the store has not answered the lock requests that are under way, or being sent again;
 * 0: there are none. */
int64_t mt_manager_asked_ms(const mt_manager *m);

#endif
