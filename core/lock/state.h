/* The manager as its parts see it: shared state, hooks, time and randomness. Each part's own state
 * is defined and used only in its own header and file. CONTRIBUTING.md says which part may call
 * which; calls to higher parts go through the hooks. */
#ifndef MT_LOCK_STATE_H
#define MT_LOCK_STATE_H

#include "lock/holds.h"
#include "lock/types.h"
#include "store/grant.h"

struct mt_wait;

/* Calls to higher parts. Each may end acquisitions, or the session with all its holds. */
typedef struct mt_hooks {
  /* A write of `part` was answered: granted if both are NULL, denied if `item` is set (it has the
   * blockers), failed if `err` is set. */
  void (*answered)(mt_part *part, const mt_lock_item *item, const mortise_error *err);
  /* Something was given back at a hold: parts in line may be admitted. */
  void (*admit)(mt_manager *m, mt_hold *h);
  /* Will this part, which is IN but not yet HELD, ask the store soon? */
  bool (*will_ask)(const mt_part *part);
  /* A request to the store failed: acquisitions that cannot wait longer give up. */
  void (*trouble)(mt_manager *m, const mortise_error *err);
  /* The session is dead and all its locks are lost. */
  void (*session_lost)(mt_manager *m);
  /* A look at the place of this wait has ended; NULL: nothing was seen. */
  void (*looked)(struct mt_wait *w, const mt_lock_document *doc);
  /* A look at the blocking sessions has ended: waiting acquisitions should check again. */
  void (*ended)(mt_manager *m);
  /* The adoption at this hold is done, or given up for `err`. */
  void (*adopted)(mt_manager *m, const mt_hold *h, const mortise_error *err);
  /* The adoption before this lock has moved on by itself. */
  void (*adoption_moved)(struct mt_lock *lock);
  /* This wait is a deadlock's victim; `blockers` and `err` describe the cycle. */
  void (*deadlocked)(struct mt_wait *w, const mortise_blockers *blockers, const mortise_error *err);
} mt_hooks;

typedef enum mt_session_phase {
  MT_UNVERIFIED = 0, /* no session, and the lock table must be verified first */
  MT_NO_SESSION,
  MT_VERIFYING,
  MT_OPENING,
  MT_OPEN,
  MT_ENDING, /* the old session is being closed */
} mt_session_phase;

typedef enum mt_closing {
  MT_RUNNING = 0,
  MT_CLOSING,  /* nothing new may begin; what is held is being given back */
  MT_LAST_END, /* the session is being closed, with a deadline of its own */
  MT_CLOSED,
} mt_closing;

struct mt_manager {
  mt_store *store;
  const mt_env *env;
  char ns[65];
  char *owner_json;
  char *job; /* or NULL */
  uint32_t stripes; /* of the table, as it was last verified; 0: never */
  int64_t lease_ms, margin_ms, wait_ms;
  mt_manager_config config;
  mt_kin kin;
  const mt_hooks *hooks;
  mt_session_phase phase;
  mt_closing closing;
  mt_holds *holds; /* of the current session, or NULL */
  mt_lock *locks;  /* granted ones, linked by `next` */
  mt_manager_stats stats;
  int64_t place_ms; /* how long a place in a queue lives now (poll.h) */
  bool due_now;
  struct mt_waits *waits;
  struct mt_takeover *takeover;
  struct mt_janitor *janitor;
  struct mt_outbox *outbox;
  struct mt_looks *looks;
  struct mt_deadlock *deadlock;
};

typedef struct mt_waits mt_waits;
typedef struct mt_takeover mt_takeover;
typedef struct mt_outbox mt_outbox;
typedef struct mt_looks mt_looks;
typedef struct mt_deadlock mt_deadlock;

static inline int64_t mt_manager_now(const mt_manager *m) {
  return m->env->now_ms(m->env->ctx);
}
/* A uniformly random time between half of `ms` and `ms`. */
int64_t mt_manager_jitter(mt_manager *m, int64_t ms);
/* Asks for a tick as soon as possible. */
void mt_manager_soon(mt_manager *m);
bool mt_manager_session_alive(mt_manager *m);
/* Do these holds belong to the current, open session? */
bool mt_manager_believes(const mt_manager *m, const mt_holds *holds);

#endif
