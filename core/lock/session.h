/* One session: its identity, its deadline, its heartbeat.
 *
 * The deadline is shared by two threads (the heartbeat writes, everyone reads), so it is atomic;
 * all else belongs to one of them. */
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
} mt_session_config;

/* What the process says of its waits (deadlock.c): the manager writes it, the heartbeat sends it.
 * The lock is held for a few instructions at a time. */
typedef struct mt_board {
  pthread_mutex_t lock;
  char *text; /* JSON objects with commas between, owned; NULL: nobody waits */
  size_t n;
  uint64_t version;       /* of the text; grows with each change */
  uint64_t acked_version; /* of the text in the last acknowledged beat */
  uint64_t acked_fence;   /* that write's place in the order of the table */
} mt_board;

enum { MT_BOARD_MAX = 32 << 10 };

/* Why a session ended, as far as this process knows; it is said once, by whoever saw it first. */
typedef enum mt_session_end {
  MT_END_UNKNOWN = 0,
  MT_END_BEING_SAID,
  MT_END_LEASE,   /* past its deadline */
  MT_END_BROKEN,  /* by hand; `breaker` says by whom */
  MT_END_EXPIRED, /* another process took over */
  MT_END_CLOSED,
} mt_session_end;

typedef struct mt_session {
  char id[MT_SESSION_ID];
  char ns[65];
  int64_t lease_ms, margin_ms;
  /* Holds are believed up to this time on the env's clock; 0 before the session was opened. Only
   * grows until it is lost. */
  _Atomic int64_t deadline_ms;
  /* An acknowledged answer said that it is no longer live. Never unset. */
  _Atomic bool lost;
  unsigned process; /* mt_process_number of whose it is: in a child of it, it is dead */
  _Atomic int end;  /* mt_session_end */
  char breaker[MT_SESSION_BREAKER];
  _Atomic uint64_t beats; /* acknowledged */
  _Atomic int64_t asked_ms; /* the first beat was sent then that nobody has answered; 0: none */
  mt_board board;
} mt_session;

/* A new identity; not opened yet. */
void mt_session_init(mt_session *s, const mt_env *env, const char *ns, int64_t lease_ms,
                     int64_t margin_ms);
void mt_session_deinit(mt_session *s);

/* Takes the text; NULL takes down what is there. Returns the board's version, which is a new one
 * only when the text differs. */
uint64_t mt_board_put(mt_session *s, char *text, size_t n);

/* Past the deadline, or lost? Once true it stays true: what was given up is never believed again,
 * whatever the network says later. Any thread. */
bool mt_session_dead(mt_session *s, int64_t now_ms);
/* "its lease (60000 ms) ran out", and the like, of a dead session. Any thread. */
void mt_session_why(const mt_session *s, char *out, size_t size);
/* An acknowledged heartbeat (or opening), sent at `sent_ms` and answered at `now_ms`, extends the
 * deadline, counted from the moment it was sent. Does nothing for a dead session. */
void mt_session_extend(mt_session *s, int64_t sent_ms, int64_t now_ms);

/* The heartbeat of one session, a state machine on its own store and thread: every sixth of the
 * lease it writes the session's document, sooner again after a failure, and while there is
 * something on the board every MT_BOARD_BEAT_MS. */
enum { MT_BOARD_BEAT_MS = 300 };

typedef struct mt_heartbeat {
  mt_session *session;
  mt_store *store;
  const mt_env *env;
  mt_session_write write;
  int64_t due_ms;
  int64_t sent_ms;
  uint32_t failures; /* in a row */
  bool busy;
  mt_buf waiting;         /* what this beat says */
  uint64_t board_version; /* of the text in it */
  uint64_t fence;         /* of the last acknowledged beat; 0: none yet */
  mortise_error error;    /* of the last failure, for the log */
} mt_heartbeat;

void mt_heartbeat_init(mt_heartbeat *h, mt_session *session, mt_store *store, const mt_env *env);
/* INT64_MAX while a beat is under way or after the session was lost. Sooner once the board has
 * changed: who waits asks again then. */
int64_t mt_heartbeat_due(const mt_heartbeat *h);
void mt_heartbeat_tick(mt_heartbeat *h);
void mt_heartbeat_deinit(mt_heartbeat *h); /* cancels what is under way */

#endif
