/* The heartbeat's thread, with its own loop and its own store (so its own connection), so that a
 * script that computes for a minute keeps its locks. */
#ifndef MT_CLIENT_PULSE_H
#define MT_CLIENT_PULSE_H

#include "lock/session.h"
#include "store/store.h"

typedef struct mt_pulse mt_pulse;

typedef struct mt_pulse_config {
  /* Opens the thread's store on its loop; called once before the thread starts. */
  mt_store *(*open_store)(void *ctx, mt_loop *loop, mortise_error *err);
  void (*lost)(void *ctx); /* called once from the thread when the session is dead */
  void *ctx;
} mt_pulse_config;

/* Starts the heartbeat of `session`, which must outlive it. NULL with `err`. */
mt_pulse *mt_pulse_start(mt_session *session, const mt_pulse_config *config, const mt_env *env,
                         mortise_error *err);
/* The session's board has changed: it beats soon. NULL is fine. */
void mt_pulse_nudge(mt_pulse *pulse);
/* Stops and joins the thread; no beat is in flight afterwards. NULL is fine. */
void mt_pulse_stop(mt_pulse *pulse);

#endif
