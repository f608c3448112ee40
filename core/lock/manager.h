/* The lock manager of one process: one session in the store, many tasks here.
 *
 * A state machine: it starts no thread, reads no clock but mt_env's, and never blocks. Its owner
 * calls mt_manager_tick when mt_manager_due says so and runs the heartbeat. */
#ifndef MT_LOCK_MANAGER_H
#define MT_LOCK_MANAGER_H

#include "lock/lock.h"
#include "lock/permit.h"

/* Borrows the store. NULL with `err`. */
mt_manager *mt_manager_new(mt_store *store, const mt_env *env, const mt_manager_config *config,
                           mortise_error *err);
/* Call it after mt_manager_close has finished; otherwise what is held ends with the lease. */
void mt_manager_free(mt_manager *m);

int64_t mt_manager_due(const mt_manager *m); /* on env's clock; INT64_MAX: nothing to do */
void mt_manager_tick(mt_manager *m);

/* `done` is called from mt_manager_tick or a store completion, never from inside this call. */
void mt_manager_acquire(mt_manager *m, mt_acquire *a);
/* Does not call `done`; a late grant is given back. */
void mt_manager_cancel(mt_manager *m, mt_acquire *a);

/* Stops relying on the lock at once, then gives its holds back, retrying in the background until
 * that is acknowledged or the lease has passed. */
void mt_manager_release(mt_manager *m, mt_release *r);
/* Returns the request's memory to the caller; the release itself continues. */
void mt_manager_release_forget(mt_manager *m, mt_release *r);
/* Calls the release's `done` at the next tick. */
void mt_manager_tell_release(mt_manager *m, mt_release *r);

/* A hint has come for its session; anyone may have sent it. */
void mt_manager_hinted(mt_manager *m, const mt_hint *hint);

/* Valid until the lock is released. */
mt_permit mt_manager_permit(const mt_lock *lock);

/* Fails acquisitions with INTERRUPTED, gives back every hold, stops the heartbeat and closes the
 * session, in no longer than until `deadline_ms`. */
void mt_manager_close(mt_manager *m, int64_t deadline_ms, void (*done)(void *ctx), void *ctx);

/* As mt_manager_close, but what is held for the job stays in the store, where it guards the job's
 * paths until it is adopted. */
void mt_manager_leave(mt_manager *m, int64_t deadline_ms, void (*done)(void *ctx), void *ctx);

/* While its session is open, what dead sessions left is cleared away as soon as they are proven dead,
 * not a little at a time; `stats.cleared` counts it. */
void mt_manager_clear_the_dead(mt_manager *m);

mt_manager_stats mt_manager_get_stats(const mt_manager *m);
/* The lock table's epoch when the current session was opened. */
mt_epoch mt_manager_epoch(const mt_manager *m);
mt_session *mt_manager_session(mt_manager *m); /* NULL before the first lock */
/* Since when the store has not answered lock requests that are in flight or being retried; 0: there
 * are none. */
int64_t mt_manager_asked_ms(const mt_manager *m);

#endif
