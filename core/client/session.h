/* One session of a client: a manager, its heartbeat, and its place in the client's loop. Each has a lease of its own, so
 * that the loss of one does not affect the others. */
#ifndef MT_CLIENT_SESSION_H
#define MT_CLIENT_SESSION_H

#include "client/shared.h"
#include "lock/manager.h"

#include <mortise/lock.h>

/* Callbacks of a client's host. All may be NULL. */
typedef struct mt_client_hooks {
  bool (*inherits)(void *ctx, uint64_t holder, uint64_t task); /* as in mt_manager_config */
  void (*lost)(void *ctx); /* a session was lost; from the loop, the heartbeats' thread, or both */
  void *ctx;
} mt_client_hooks;

/* What the sessions of a client stand on. Borrowed by each until it is freed. */
typedef struct mt_session_base {
  mortise_loop *shared;
  mt_loop *loop; /* its */
  mt_store *store;
  const mortise_options *options;
  const mt_client_hooks *hooks;
  struct mt_identity *identity; /* of this process */
  void (*closed)(void *ctx); /* one of them has closed; last in its event */
  void *ctx;
} mt_session_base;

typedef struct mt_client_session {
  const mt_session_base *base;
  mt_manager *manager;
  char *owner;            /* JSON, owned: this process, and the job */
  struct mt_pulse *pulse; /* the heartbeat, or NULL */
  mt_hearer hearer;       /* without a session it does not listen */
  uint64_t number;        /* of the client's sessions, from 0 on */
  mt_timer tick;
  mt_post lost; /* the pulse tells the loop that the session is dead */
  bool guards;  /* a job's: what it holds guards the job's paths */
  bool closing, closed;
  void (*done)(void *ctx); /* of the closing; NULL: nobody asks any more */
  void *ctx;
  struct mt_client_session *next; /* the client's */
} mt_client_session;

/* Made without I/O: the tables are verified, and the session's document written, before its first
 * grant. `job`: the id of the job that it belongs to, or NULL for the client's own session. Owned:
 * mt_client_session_free. NULL with `err`. */
mt_client_session *mt_client_session_make(const mt_session_base *base, uint64_t number,
                                          const char *job, mortise_error *err);
/* Gives back all its locks, or with `keep_guard` leaves what a job's session holds in the store, where it
 * guards the job's paths until it is adopted; then ends it. Bounded by the client's time-out of a
 * request. Once. */
void mt_client_session_close(mt_client_session *s, bool keep_guard, void (*done)(void *ctx),
                             void *ctx);
/* `done` is not called; the closing goes on. */
void mt_client_session_forget(mt_client_session *s);
void mt_client_session_free(
    mt_client_session *s); /* with nothing said to the store; NULL is fine */

/* The time since which the store has not answered it; 0: it has answered. */
int64_t mt_client_session_asked_ms(const mt_client_session *s, int64_t now);
/* The time left of its lease; -1: it never had one. */
int64_t mt_client_session_left_ms(const mt_client_session *s, int64_t now);

#endif
