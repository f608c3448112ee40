/* The lock manager's insides, shared by manager.c, attempt.c, convert.c, outbox.c,
 * waits.c, deadlock.c and takeover.c.
 */
#ifndef MT_LOCK_INTERNAL_H
#define MT_LOCK_INTERNAL_H

#include "lock/lock.h"
#include "lock/waitgraph.h"

/* ---- An acquisition under way (attempt.c) --------------------------------------------------- */

typedef enum mt_attempt_phase {
  MT_PHASE_READY = 0, /* goes on at the next tick, once the session is open */
  MT_PHASE_LINE,      /* waits for other tasks of this process at parts[entered] */
  MT_PHASE_STORE,     /* its writes are under way */
  MT_PHASE_QUEUE,     /* waits for other sessions at parts[pos], polls at `poll_ms` */
} mt_attempt_phase;

typedef struct mt_attempt {
  mt_acquire *a;
  mt_lock *lock;
  mt_attempt_phase phase;
  size_t pos;        /* parts before it are held */
  size_t entered;    /* parts before it are shared in this process */
  size_t unanswered; /* writes of this round without an answer */
  size_t denied;     /* first part denied in this round; SIZE_MAX: none */
  int64_t deadline_ms, poll_ms, backoff_ms;
  bool try_once, alone, waited;
  bool start;              /* the session is open: begin */
  bool untold;             /* denied without a word about who is in the way */
  mortise_error error;     /* of this round */
  mt_lock_entry *blockers; /* at the first denied part, owned */
  size_t n_blockers;
  uint32_t ahead;   /* living entries before mine in the queue there */
  int64_t asked_ms; /* when its place in the queue was asked for last */
  int64_t kept_ms;  /* when the last that was answered was; 0: none in this wait */
  uint64_t polled;  /* the fence of that write: what stood before it stood there then */
  int64_t since_ms, tell_ms; /* when it began; when to tell next that it waits */
  uint64_t told;             /* its number for the one who is told; 0: not told yet */
  /* Its wait, while it waits for others (waits.c). */
  uint64_t wait; /* a number of its own; 0: it does not wait */
  size_t wait_at;
  int64_t wait_since_ms, walk_ms; /* when it began; when to look for a cycle next */
  uint32_t walks;
  bool line_is_new; /* it lined up since the last tick */
  uint64_t shown;   /* the board's version in which it was told first; 0: it is not told */
  uint64_t visit;   /* of the search among the tasks of this process, as the two below */
  struct mt_attempt *visit_from, *visit_next;
  struct mt_attempt *prev, *next;
} mt_attempt;

/* A write of `part` was answered: OK (held), LOCK_TIMEOUT (denied; `blockers` borrowed), or an
 * error. */
void mt_attempt_answer(mt_part *part, const mt_lock_item *denied, const mortise_error *err);
void mt_attempt_session_open(mt_manager *m);
void mt_attempt_session_failed(mt_manager *m, const mortise_error *err);
/* Something changed that those who wait for a dead session should look at again. */
void mt_attempt_poke(mt_manager *m);
void mt_attempt_fail_table(mt_manager *m, const mt_holds *t, const mortise_error *err);
/* The store has failed for now: those who cannot wait give up. */
void mt_attempt_trouble(mt_manager *m, const mortise_error *err);
void mt_attempt_tick(mt_attempt *at, int64_t now);
int64_t mt_attempt_due(const mt_attempt *at);
mortise_status mt_attempt_new(mt_manager *m, mt_acquire *a, mortise_error *err);
/* Gives back what it had and frees it, its lock included; the caller is not told. */
void mt_attempt_abandon(mt_attempt *at);
void mt_attempt_fail(mt_attempt *at, const mortise_error *err);
/* Lets in who may come in at a hold, after a share was given back there. */
void mt_attempt_admit(mt_manager *m, mt_hold *h);

/* ---- Writes to the store (outbox.c) --------------------------------------------------------- */

/* A caller's release that waits for its holds to be given back. */
typedef struct mt_giving {
  mt_release *r; /* NULL: nobody asks any more */
  size_t left;
  mortise_error error;
} mt_giving;

typedef struct mt_outbox {
  mt_hold *first, *last; /* of the current table, READY, in the order they came */
  size_t in_flight;      /* batches */
  int64_t paused_ms;     /* nothing is sent before; 0: no trouble */
  uint32_t troubles;     /* failed batches in a row */
  int64_t asked_ms;      /* what is under way, or failed, was sent then, or answered last */
  struct mt_batch *batches;
} mt_outbox;

/* Something about this hold may have to be written; decided when it is sent. */
void mt_outbox_kick(mt_manager *m, mt_hold *h);
void mt_outbox_flush(mt_manager *m);
int64_t mt_outbox_due(const mt_manager *m); /* when to flush; INT64_MAX: not before an answer */
bool mt_outbox_idle(const mt_manager *m);
/* Drops what waits, and ceases to believe what is under way (of a table that is given up). */
void mt_outbox_abandon(mt_manager *m, const mortise_error *err);
void mt_outbox_deinit(mt_manager *m); /* cancels what is under way */
void mt_giving_done(mt_hold *h, const mortise_error *err);
/* Takes a part out of the asking and the served: its answer is no longer wanted. */
void mt_outbox_forget(mt_part *part);

/* ---- Who waits for whom (waits.c, deadlock.c) ------------------------------------------------ */

/* What one member of a cycle waits for; the next member has it. */
typedef struct mt_step {
  mt_slice path;
  mt_mode mode;
  const char *session, *owner; /* of the member itself; owner's JSON or NULL */
  bool queued;                 /* the next one only stands before it in the queue */
} mt_step;

typedef struct mt_cycle_member {
  char session[MT_SESSION_ID];
  uint64_t wait, key; /* mt_graph_edge to the next */
} mt_cycle_member;

typedef struct mt_deadlock {
  uint64_t last_wait, last_visit;
  bool lined_up;
  bool shown;         /* something is on the board */
  int64_t compose_ms; /* not before */
  /* The walk under way. */
  bool busy;
  mt_graph *graph; /* NULL: none is under way */
  uint64_t wait;   /* of whom */
  const char *ids[MT_GRAPH_SESSIONS];
  size_t index[MT_GRAPH_SESSIONS]; /* of the graph's sessions that are being read */
  uint32_t rounds;
  mt_session_read read;
  /* The cycle that was seen once; 0: none. The first member is `wait` of our own session. */
  size_t members;
  mt_cycle_member cycle[MT_CYCLE_MAX];
  uint64_t fence; /* the latest of the writes that showed it */
  int64_t again_ms;
  uint32_t tries;
} mt_deadlock;

enum { MT_WAIT_MS = 1000 /* of waiting, before it is told and the graph is followed */ };

/* It waits for others at parts[at]; nothing happens while it goes on with the same wait. */
void mt_wait_begin(mt_attempt *at, size_t part);
void mt_wait_end(mt_attempt *at);
/* What is told of these waits has changed: told anew at the next tick. */
void mt_wait_changed(mt_attempt *at);
/* Takes down what is on the board: some of it is about to be no longer so. */
void mt_waits_withdraw(mt_manager *m);
/* Tells of the waits that have lasted; false when there are none. */
bool mt_waits_publish(mt_manager *m);
/* The text on the board as it would be now; its failure is the caller's to check. */
void mt_waits_compose(mt_manager *m, mt_buf *out, bool show);
/* Does it wait while its task holds a lock? Of a cycle at least one does. */
bool mt_wait_is_nested(const mt_attempt *at);
mt_attempt *mt_waits_find(const mt_manager *m, uint64_t wait);
/* The youngest nested one of a cycle among tasks of this process that goes through `at`; NULL when
 * there is none. Says the cycle in `err`. */
mt_attempt *mt_waits_local_cycle(mt_manager *m, mt_attempt *at, mortise_error *err);

int64_t mt_deadlock_due(const mt_manager *m);
void mt_deadlock_tick(mt_manager *m);
void mt_deadlock_deinit(mt_manager *m);
/* DEADLOCK: the first of the steps is told. */
void mt_deadlock_say(mt_manager *m, const mt_step *steps, size_t n, mortise_error *err);

/* ---- Dead sessions (takeover.c) ------------------------------------------------------------- */

typedef struct mt_seen {
  char id[MT_SESSION_ID];
  mt_version version;
  int64_t since_ms; /* arrival of the first answer with this version */
  int64_t lease_ms;
  mt_session_state state;
  bool known;  /* read at least once */
  bool dead;   /* proven by an acknowledged write of ours */
  char *owner; /* owned JSON, or NULL */
} mt_seen;

enum { MT_SEEN_MAX = 1024, MT_LOOK_MAX = 64 };

typedef struct mt_takeover {
  mt_seen *seen;
  size_t n, cap;
  bool busy;
  int64_t next_ms; /* not before */
  const char *ids[MT_LOOK_MAX];
  char id_text[MT_LOOK_MAX][MT_SESSION_ID];
  size_t n_ids;
  size_t at; /* which of them is being written */
  mt_session_read read;
  mt_session_write write;
} mt_takeover;

/* Looks at the sessions that block waiting attempts, unless it did so a moment ago; ends those that
 * are dead, then pokes the attempts. `now` overrides the pause. */
void mt_takeover_look(mt_manager *m, const mt_lock_entry *entries, size_t n, bool at_once);
bool mt_takeover_busy(const mt_manager *m);
bool mt_takeover_dead(const mt_manager *m, const char *session);
/* Has each of these been read at least once since it was first met? */
bool mt_takeover_known(const mt_manager *m, const mt_lock_entry *entries, size_t n);
const char *mt_takeover_owner(const mt_manager *m, const char *session); /* JSON or NULL */
void mt_takeover_deinit(mt_manager *m);

/* ---- The manager (manager.c) ---------------------------------------------------------------- */

typedef enum mt_session_phase {
  MT_NO_SESSION = 0,
  MT_VERIFYING,
  MT_OPENING,
  MT_OPEN,
  MT_ENDING, /* the old one is being closed before a new one is opened */
} mt_session_phase;

struct mt_manager {
  mt_store *store;
  const mt_env *env;
  char ns[65];
  char *owner_json;
  int64_t lease_ms, margin_ms, wait_ms;
  mt_manager_config config;
  mt_kin kin;
  mt_session_phase phase;
  bool verified;
  bool closing, closed;
  mt_holds *table; /* of the current session; NULL: none */
  mt_locks_admin verify;
  mt_epoch epoch;         /* of the table in which the current session was opened */
  mt_session_write write; /* open and close of our own session */
  int64_t write_sent_ms, phase_ms; /* when verifying or opening began */
  uint64_t last_told;              /* wait */
  mt_lock *locks;
  mt_attempt *attempts;
  mt_attempt *cursor;   /* the next that a walk over them visits */
  mt_acquire *refused;  /* acquisitions that could not begin, to be told at the next tick */
  mt_release *released; /* releases that had nothing to write, likewise */
  mt_outbox outbox;
  mt_takeover takeover;
  mt_deadlock deadlock;
  bool due_now;
  int64_t close_deadline_ms;
  void (*close_done)(void *ctx);
  void *close_ctx;
  mt_manager_stats stats;
};

static inline int64_t mt_manager_now(const mt_manager *m) {
  return m->env->now_ms(m->env->ctx);
}
/* Asks for a tick as soon as possible. */
void mt_manager_soon(mt_manager *m);
/* The session is dead: every lock of it is lost, every attempt under it fails. */
void mt_manager_session_lost(mt_manager *m);
bool mt_manager_session_alive(mt_manager *m);
void mt_lock_free(mt_lock *lock);
/* Gives back the parts from `from` on, last first; `giving` (or NULL) counts what is waited for. */
void mt_lock_give_back(mt_lock *lock, size_t from, mt_giving *giving);
/* Calls the release's `done` at the next tick. */
void mt_manager_tell_release(mt_manager *m, mt_release *r);
/* A lock with the parts that are wanted, none of them shared yet, unknown to the manager and bound
 * to no table. NULL with `err`. */
mt_lock *mt_lock_new(mt_manager *m, const mt_acquire *a, mortise_error *err);
/* The lock is about to go: a conversion of it fails with LOCK_LOST (convert.c). */
void mt_convert_lock_released(mt_manager *m, mt_lock *lock);
/* Uniform jitter: between half of `ms` and `ms`. */
int64_t mt_manager_jitter(mt_manager *m, int64_t ms);

#endif
