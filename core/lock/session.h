/* One session: its identity, its deadline, its heartbeat.
 *
 * The heartbeat's thread and the manager's share the atomics and the board, which has a mutex; all
 * else belongs to one of them. */
#ifndef MT_LOCK_SESSION_H
#define MT_LOCK_SESSION_H

#include "base/env.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct mt_session_config {
  const char
      *owner_json; /* JSON object: host, boot, pidns, pid, start, user, program, script, job */
  int64_t lease_ms, margin_ms;
  uint64_t address; /* the half of the session's id by which hints find it; 0: random, as the other half is */
} mt_session_config;

/* What this process publishes of its waits (waits.c): the manager writes it, the heartbeat sends
 * it. The mutex is only held for a few instructions. */
typedef struct mt_board {
  pthread_mutex_t lock;
  char *text; /* owned JSON objects, separated by commas; NULL: nobody waits */
  size_t n;
  uint64_t version;       /* grows with each change of the text */
  uint64_t acked_version; /* of the text in the last acknowledged beat */
  uint64_t acked_fence;   /* that beat's fence */
} mt_board;

enum { MT_BOARD_MAX = 32 << 10 };

/* Why a session ended, as far as this process knows; whoever sees it first sets it. */
typedef enum mt_session_end {
  MT_END_UNKNOWN = 0,
  MT_END_BEING_SAID,
  MT_END_LEASE,   /* past its deadline */
  MT_END_BROKEN,  /* by hand; `breaker` says by whom */
  MT_END_EXPIRED, /* by another process, taking over */
  MT_END_CLOSED,
} mt_session_end;

typedef struct mt_session {
  char id[MT_SESSION_ID];
  char ns[65];
  int64_t lease_ms, margin_ms;
  /* Holds may be relied on up to this time of the env's clock; 0 before the session was opened. It
   * only grows. */
  _Atomic int64_t deadline_ms;
  /* The session is over: its deadline passed, or the store said that it is no longer live. Never
   * unset. */
  _Atomic bool lost;
  unsigned process; /* mt_process_number of its owner: in a forked child the session is dead */
  _Atomic int end;  /* mt_session_end */
  char breaker[MT_SESSION_BREAKER];
  _Atomic uint64_t beats; /* acknowledged */
  _Atomic int64_t asked_ms; /* when the first unanswered beat was sent; 0: none */
  mt_board board;
} mt_session;

/* Gives it a new identity; does not open it in the store. `address`: as in mt_session_config. */
void mt_session_init(mt_session *s, const mt_env *env, const char *ns, uint64_t address, int64_t lease_ms,
                     int64_t margin_ms);
void mt_session_deinit(mt_session *s);

/* Takes ownership of the text; NULL clears the board. Returns the board's version, which changes
 * only if the text does. */
uint64_t mt_board_put(mt_session *s, char *text, size_t n);

/* Is the deadline past, or the session lost? Once true it stays true, whatever the network says
 * later. Any thread. */
bool mt_session_dead(mt_session *s, int64_t now_ms);
/* Why a dead session ended, as in "its lease (60000 ms) ran out". Any thread. */
void mt_session_why(const mt_session *s, char *out, size_t size);
/* After an acknowledged beat or opening, extends the deadline, counted from `sent_ms`. Does nothing
 * for a dead session. */
void mt_session_extend(mt_session *s, int64_t sent_ms, int64_t now_ms);

/* The heartbeat of one session, a state machine on its own store and thread. It writes the
 * session's document every sixth of the lease, sooner after a failure, and every MT_BOARD_BEAT_MS
 * while there is text on the board. */
enum { MT_BOARD_BEAT_MS = 300 };

typedef struct mt_heartbeat {
  void (*answered)(void *ctx); /* a beat has ended, so its next is due at another time; may be NULL */
  void *ctx;
  mt_session *session;
  mt_store *store;
  const mt_env *env;
  mt_session_write write;
  int64_t due_ms;
  int64_t sent_ms;
  uint32_t failures; /* in a row */
  bool busy;
  mt_buf waiting;         /* the waiting list of this beat */
  uint64_t board_version; /* of the text in `waiting` */
  uint64_t fence;         /* of the last acknowledged beat; 0: none yet */
  mortise_error error;    /* of the last failure, for the log */
} mt_heartbeat;

void mt_heartbeat_init(mt_heartbeat *h, mt_session *session, mt_store *store, const mt_env *env);
/* INT64_MAX while a beat is in flight or after the session was lost. A change of the board makes it
 * sooner, so ask again then. */
int64_t mt_heartbeat_due(const mt_heartbeat *h);
void mt_heartbeat_tick(mt_heartbeat *h);
void mt_heartbeat_deinit(mt_heartbeat *h); /* cancels the beat in flight */

#endif
