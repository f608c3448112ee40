/* A manager as its parts see it: what all of them share, the calls that lead up, time and chance.
 * Each part's own state is defined in its own header, and is nobody else's business. Which part may
 * call which is in tools/lint; what a part has to tell those above it goes through the hooks. */
#ifndef MT_LOCK_STATE_H
#define MT_LOCK_STATE_H

#include "lock/holds.h"
#include "lock/types.h"

struct mt_wait;

/* Calls that lead up. Any of them may end acquisitions, and with the session all of its holds. */
typedef struct mt_hooks {
  /* A write of `part` was answered: granted by `item`, denied by `item` (with who is in the way), or
   * not carried out for `err`, which is NULL in the two other cases. */
  void (*answered)(mt_part *part, const mt_lock_item *item, const mortise_error *err);
  /* Something was given back at a hold: those in line may come in. */
  void (*admit)(mt_manager *m, mt_hold *h);
  /* Will this part, which is let in and holds nothing yet, ask the store soon? */
  bool (*will_ask)(const mt_part *part);
  /* The store has failed for now: those who cannot wait give up. */
  void (*trouble)(mt_manager *m, const mortise_error *err);
  /* The session is dead: every lock of it is lost. */
  void (*session_lost)(mt_manager *m);
  /* A look at the sessions in the way is over: those who wait should look again. */
  void (*ended)(mt_manager *m);
  /* This wait must end: it is one of a cycle of `blockers`, which `err` says. */
  void (*deadlocked)(struct mt_wait *w, const mortise_blockers *blockers, const mortise_error *err);
} mt_hooks;

typedef enum mt_session_phase {
  MT_UNVERIFIED = 0, /* no session, and the lock table must be looked at first */
  MT_NO_SESSION,
  MT_VERIFYING,
  MT_OPENING,
  MT_OPEN,
  MT_ENDING, /* the old one is being closed before a new one is opened */
} mt_session_phase;

typedef enum mt_closing {
  MT_RUNNING = 0,
  MT_CLOSING,  /* nothing new is begun, and what is held is being given back */
  MT_LAST_END, /* the session's end is under way, which is bounded by itself */
  MT_CLOSED,
} mt_closing;

struct mt_manager {
  mt_store *store;
  const mt_env *env;
  char ns[65];
  char *owner_json;
  int64_t lease_ms, margin_ms, wait_ms;
  mt_manager_config config;
  mt_kin kin;
  const mt_hooks *hooks;
  mt_session_phase phase;
  mt_closing closing;
  mt_holds *holds; /* of the current session; NULL: none */
  mt_lock *locks;  /* that are granted, by `next` */
  mt_manager_stats stats;
  bool due_now;
  struct mt_waits *waits;
  struct mt_takeover *takeover;
  struct mt_outbox *outbox;
  struct mt_deadlock *deadlock;
};

typedef struct mt_waits mt_waits;
typedef struct mt_takeover mt_takeover;
typedef struct mt_outbox mt_outbox;
typedef struct mt_deadlock mt_deadlock;

static inline int64_t mt_manager_now(const mt_manager *m) {
  return m->env->now_ms(m->env->ctx);
}
/* Uniform jitter: between half of `ms` and `ms`. */
int64_t mt_manager_jitter(mt_manager *m, int64_t ms);
/* Asks for a tick as soon as possible. */
void mt_manager_soon(mt_manager *m);
bool mt_manager_session_alive(mt_manager *m);
/* Is it still the session that stands? */
bool mt_manager_believes(const mt_manager *m, const mt_holds *holds);

#endif
