/* The writes of a session's holds to the store, gathered into batches; what each answer means for
 * its hold. */
#ifndef MT_LOCK_OUTBOX_H
#define MT_LOCK_OUTBOX_H

#include "lock/state.h"

/* A caller's release that waits for its holds to be given back. */
typedef struct mt_pending_release {
  mt_release *r; /* NULL: nobody asks any more */
  size_t left;
  mortise_error error;
} mt_pending_release;

struct mt_outbox {
  mt_hold *first, *last; /* of the current session, READY, in the order they came */
  size_t in_flight;      /* batches */
  int64_t paused_ms;     /* nothing is sent before; 0: no trouble */
  uint32_t troubles;     /* failed batches in a row */
  int64_t asked_ms;      /* what is under way, or failed, was sent then, or answered last */
  struct mt_batch *batches;
};

/* Something about this hold may have to be written; decided when it is sent. */
void mt_outbox_kick(mt_manager *m, mt_hold *h);
/* The part, which is let in, waits for the hold's next write; `enqueue`: it may wait in the store's
 * queue. */
void mt_outbox_ask(mt_manager *m, mt_part *part, bool enqueue, bool once);
/* Its answer is no longer wanted. */
void mt_outbox_forget(mt_part *part);
void mt_outbox_flush(mt_manager *m);
int64_t mt_outbox_due(const mt_manager *m); /* when to flush; INT64_MAX: not before an answer */
bool mt_outbox_idle(const mt_manager *m);
/* Since when the store has not answered what is under way, or being sent again; 0: nothing is. */
int64_t mt_outbox_asked_ms(const mt_manager *m);
/* Drops what waits, and ceases to believe what is under way (of a session that is given up). */
void mt_outbox_abandon(mt_manager *m, const mortise_error *err);
void mt_outbox_deinit(mt_manager *m); /* cancels what is under way */

/* The release waits for this hold too. */
void mt_pending_add(mt_pending_release *p, mt_hold *h);
/* That much of a pending release is done; with the last it is told. */
void mt_pending_done(mt_hold *h, const mortise_error *err);

#endif
