/* An acquisition under way: it goes along its parts in the total order and waits at one place at a
 * time, with nothing held behind that place: so no two acquisitions can wait for each other. First
 * it is let in by the other tasks of this process, then it asks the store for all at once; a denial
 * gives back all that came after, and it queues there. */
#ifndef MT_LOCK_ATTEMPT_H
#define MT_LOCK_ATTEMPT_H

#include "lock/lock.h"
#include "lock/wait.h"

typedef enum mt_attempt_phase {
  MT_PHASE_NO_SESSION = 0, /* waits for the session to be open */
  MT_PHASE_READY,          /* goes on at the next tick */
  MT_PHASE_LINE,           /* waits for other tasks of this process at parts[entered] */
  MT_PHASE_STORE,          /* its writes are under way */
  MT_PHASE_QUEUE,          /* waits for other sessions at parts[pos], polls at `poll_ms` */
} mt_attempt_phase;

typedef struct mt_attempt {
  mt_wait wait; /* the first: a wait is of an attempt */
  mt_acquire *a;
  mt_attempt_phase phase;
  size_t pos;     /* parts before it are held */
  size_t entered; /* parts before it are shared in this process */
  size_t denied;  /* first part denied in this round; SIZE_MAX: none */
  int64_t deadline_ms, poll_ms, backoff_ms;
  bool waited;
  bool blockers_unknown; /* denied without a word about who is in the way */
  mortise_error error;   /* of this round */
  uint32_t ahead;        /* living entries before mine in the queue there */
  int64_t asked_ms;      /* when its place in the queue was asked for last */
  int64_t kept_ms;       /* when the last that was answered was; 0: none in this wait */
  int64_t since_ms, tell_ms; /* when it began; when to tell next that it waits */
  uint64_t notice_id;        /* of its wait in notices; 0: none was given */
} mt_attempt;

/* Begins it; `a->op` is the attempt. */
mortise_status mt_attempt_new(mt_manager *m, mt_acquire *a, mortise_error *err);
/* Gives back what it had and frees it, its lock included; the caller is not told. */
void mt_attempt_abandon(mt_attempt *at);

int64_t mt_attempts_due(const mt_manager *m);
void mt_attempts_tick(mt_manager *m);
void mt_attempts_fail(mt_manager *m, const mortise_error *err); /* all of them */
void mt_attempts_abandon(mt_manager *m);

/* The session is open for those that wait for it; or it could not be opened; or it was lost, or is
 * given up before they have begun. */
void mt_attempts_session_open(mt_manager *m);
void mt_attempts_session_failed(mt_manager *m, const mortise_error *err);
void mt_attempts_session_lost(mt_manager *m, const mt_holds *holds, const mortise_error *err);
void mt_attempts_unbind(mt_manager *m, mt_holds *holds);

/* The hooks of the parts below (state.h). */
void mt_attempt_answered(mt_part *part, const mt_lock_item *denied, const mortise_error *err);
void mt_attempt_admit(mt_manager *m, mt_hold *h);
bool mt_attempt_will_ask(const mt_part *part);
void mt_attempts_trouble(mt_manager *m, const mortise_error *err);
void mt_attempts_ended(mt_manager *m);
void mt_attempt_deadlocked(mt_wait *w, const mortise_blockers *blockers, const mortise_error *err);

#endif
