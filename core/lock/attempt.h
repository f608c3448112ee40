/* An acquisition under way. It visits its parts in the total order, waits at one place at a time
 * and holds nothing beyond that place, so no two acquisitions can wait for each other. First the
 * other tasks of this process must admit it, then it asks the store for all parts at once; after a
 * denial it gives back every later part and queues at the denied place. */
#ifndef MT_LOCK_ATTEMPT_H
#define MT_LOCK_ATTEMPT_H

#include "lock/adoption.h"
#include "lock/lock.h"
#include "lock/poll.h"
#include "lock/wait.h"

typedef enum mt_attempt_phase {
  MT_PHASE_NO_SESSION = 0, /* waits for the session to be open */
  MT_PHASE_READY,          /* continues at the next tick */
  MT_PHASE_LINE,           /* waits for other tasks of this process at parts[entered] */
  MT_PHASE_STORE,          /* its writes are in flight */
  MT_PHASE_ADOPT,          /* takes over what dead sessions hold for its job */
  MT_PHASE_QUEUE,          /* waits for other sessions at parts[pos] */
} mt_attempt_phase;

typedef struct mt_attempt {
  mt_wait wait; /* the first member, so that a wait can be cast to its attempt */
  mt_acquire *a;
  mt_adoption *adoption; /* in MT_PHASE_ADOPT */
  bool adopted;          /* that is over */
  unsigned looks;        /* of the adoption, at sessions that may live */
  mt_attempt_phase phase;
  size_t pos;     /* parts before it are held */
  size_t entered; /* parts before it are admitted in this process */
  size_t denied;  /* first part denied in this round; SIZE_MAX: none */
  int64_t deadline_ms;
  int64_t poll_ms; /* when to ask for its turn or its place, by a write */
  int64_t look_ms; /* when to look, by a read */
  mt_poll poll;
  bool claims; /* it asks because its turn seemed to have come */
  bool waited;
  bool blockers_unknown; /* the denial did not name the blockers */
  mortise_error error;   /* of this round */
  int64_t asked_ms;      /* when it last asked for its place in the queue */
  int64_t kept_ms;       /* when the last answered such request was sent; 0: none yet */
  int64_t place_ms;      /* for how long that keeps it */
  int64_t since_ms, tell_ms; /* when it began; when to send the next notice */
  uint64_t notice_id;        /* names its wait in notices; 0: no notice was sent */
} mt_attempt;

/* Starts an acquisition; sets `a->op` to the attempt. */
mortise_status mt_attempt_new(mt_manager *m, mt_acquire *a, mortise_error *err);
/* Gives back what it has acquired and frees it with its lock; does not call `done`. */
void mt_attempt_abandon(mt_attempt *at);

int64_t mt_attempts_due(const mt_manager *m);
void mt_attempts_tick(mt_manager *m);
void mt_attempts_fail(mt_manager *m, const mortise_error *err); /* all of them */
void mt_attempts_abandon(mt_manager *m);

/* For attempts that wait for the session: it is open, could not be opened, was lost, or is being
 * replaced before they have begun. */
void mt_attempts_session_open(mt_manager *m);
/* Acquisitions that wait for a session fail with this error. With `passing`, those that can wait go on waiting. */
void mt_attempts_session_failed(mt_manager *m, const mortise_error *err, bool passing);
void mt_attempts_session_lost(mt_manager *m, const mt_holds *holds, const mortise_error *err);
void mt_attempts_unbind(mt_manager *m, mt_holds *holds);

/* Hooks called by lower parts (state.h). */
/* Whoever was before this session at that place says that it has left. */
void mt_attempts_hinted(mt_manager *m, uint64_t place);
void mt_attempt_looked(mt_wait *w, const mt_lock_document *doc);
void mt_attempt_answered(mt_part *part, const mt_lock_item *denied, const mortise_error *err);
void mt_attempt_admit(mt_manager *m, mt_hold *h);
bool mt_attempt_will_ask(const mt_part *part);
void mt_attempts_trouble(mt_manager *m, const mortise_error *err);
void mt_attempts_ended(mt_manager *m);
void mt_attempt_adopted(mt_manager *m, const mt_hold *h, const mortise_error *err);
void mt_attempt_adoption_moved(mt_lock *lock);
void mt_attempt_deadlocked(mt_wait *w, const mortise_blockers *blockers, const mortise_error *err);

#endif
