/* Sends the writes of a session's holds to the store in batches and applies each answer to its
 * hold. */
#ifndef MT_LOCK_OUTBOX_H
#define MT_LOCK_OUTBOX_H

#include "lock/state.h"

/* A caller's release that waits for holds to be given back. */
typedef struct mt_pending_release {
  mt_release *r; /* NULL: the caller no longer waits */
  size_t left;
  mortise_error error;
} mt_pending_release;

struct mt_outbox {
  mt_hold *first, *last; /* READY holds of the current session, oldest first */
  size_t in_flight;      /* batches */
  int64_t paused_ms;     /* nothing is sent before then; 0: no pause */
  uint32_t troubles;     /* failed batches in a row */
  int64_t asked_ms;      /* when unanswered or failing requests began, or the last answer came */
  struct mt_batch *batches;
};

/* This hold may need a write; which one is decided when the batch is sent. */
void mt_outbox_kick(mt_manager *m, mt_hold *h);
/* The part, which is IN, waits for the hold's next write; with `enqueue` that write may queue the
 * session in the store. */
void mt_outbox_ask(mt_manager *m, mt_part *part, bool enqueue, bool once);
/* The part no longer waits for an answer. */
void mt_outbox_forget(mt_part *part);
/* Takes over the entry that a session, which was proven dead, has there for our job. The hook
 * `adopted` says when that is done; from now on the hold is a guard. False: something else is being
 * written there, try again. */
bool mt_outbox_adopt(mt_manager *m, mt_hold *h, const char *from);
void mt_outbox_flush(mt_manager *m);
int64_t mt_outbox_due(const mt_manager *m); /* when to flush; INT64_MAX: only after an answer */
bool mt_outbox_idle(const mt_manager *m);
/* Since when the store has not answered requests in flight or being retried; 0: there are none. */
int64_t mt_outbox_asked_ms(const mt_manager *m);
/* For a session that is given up: drops waiting holds and fails pending releases. Answers in flight
 * are ignored. */
void mt_outbox_abandon(mt_manager *m, const mortise_error *err);
void mt_outbox_deinit(mt_manager *m); /* cancels requests in flight */

/* The release waits for this hold too. */
void mt_pending_add(mt_pending_release *p, mt_hold *h);
/* One hold of a pending release is done; the last one completes it. */
void mt_pending_done(mt_hold *h, const mortise_error *err);

#endif
