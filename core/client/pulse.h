/* Heartbeats. One thread of the process sends those of all its sessions, on a loop and with stores (so connections) of its
 * own, so that a script that computes for a minute keeps its locks. No heartbeat waits behind another's: the thread never
 * blocks. It lives as long as there is a pulse. */
#ifndef MT_CLIENT_PULSE_H
#define MT_CLIENT_PULSE_H

#include "lock/session.h"

typedef struct mt_pulse mt_pulse;

typedef struct mt_pulse_config {
  const mortise_options *options; /* of the store; only for the call */
  void (*lost)(void *ctx);        /* called once from the thread when the session is dead; must not wait */
  void *ctx;
} mt_pulse_config;

/* Starts the heartbeat of `session`, which must outlive it. NULL with `err`. */
mt_pulse *mt_pulse_start(mt_session *session, const mt_pulse_config *config, const mt_env *env,
                         mortise_error *err);
/* The session's board has changed: it beats soon. NULL is fine. */
void mt_pulse_nudge(mt_pulse *pulse);
/* No beat is in flight afterwards. NULL is fine. */
void mt_pulse_stop(mt_pulse *pulse);

#endif
