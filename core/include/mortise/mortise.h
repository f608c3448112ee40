/* libmortise: locks on trees of documents in Elasticsearch, OpenSearch or an embedded store.
 *
 * A client belongs to the thread that uses it; different threads use different clients. Strings
 * given are copied. Functions return MORTISE_OK or a status whose detail is in the caller's `err`
 * (which may be NULL). An argument that is NULL or out of its range, and is not said to be allowed,
 * is INVALID_ARGUMENT and changes nothing. */
#ifndef MORTISE_H
#define MORTISE_H

#include <mortise/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mortise_log_level {
  MORTISE_LOG_DEBUG,
  MORTISE_LOG_INFO,
  MORTISE_LOG_WARNING
} mortise_log_level;

/* One line, no newline, no secret. May come from the heartbeat's thread. */
typedef void mortise_log_fn(void *ctx, mortise_log_level level, const char *line);

typedef enum mortise_notice_kind {
  MORTISE_NOTICE_WAITING,   /* a lock has been waited for, for a second or longer */
  MORTISE_NOTICE_WAIT_OVER, /* that wait has ended, whether it was had or not */
  MORTISE_NOTICE_NO_ANSWER, /* the store has not answered for a second or longer; it is asked again */
  MORTISE_NOTICE_ANSWERS    /* it does again; or, with lease_ms 0, nothing is left to ask it for */
} mortise_notice_kind;

/* What keeps a client from going on, for people. Strings are cut to fit, always terminated. */
typedef struct mortise_notice {
  mortise_notice_kind kind;
  uint64_t wait;  /* which one, of several at a time; 0: not of a wait */
  int64_t for_ms; /* how long it has lasted */
  char path[256]; /* what is waited for: one path of the lock, that which is not had */
  char mode[4];   /* in which mode */
  bool here;      /* another task of this process has it */
  const mortise_blockers
      *blockers;     /* who is in the way; NULL where that is unknown; for the call only */
  const char *store; /* who does not answer; for the call only */
  int64_t lease_ms;  /* what is left of the session's lease; -1: no lock was ever had */
} mortise_notice;

/* Called from inside calls of the client, in their thread: first after a second, then every second,
 * and when it is over. It must not use the client. */
typedef void mortise_notice_fn(void *ctx, const mortise_notice *notice);

#define MORTISE_TIME_MAX_MS INT64_C(31622400000) /* 366 days: no time is longer */

/* Every option has a default, which mortise_options_init sets; docs/operations.md lists them with what
 * each may be. An option that the kind of store has no use for is ignored. Strings are borrowed until
 * mortise_client_open returns; NULL is the default of that string. */
typedef struct mortise_options {
  const char *store;          /* "http(s)://HOST[:PORT][,...]" or "sqlite:FILE"; required */
  const char *ns;             /* namespace of the locks, [a-z0-9_-]{1,64}; not NULL */
  const char *table;          /* alias of the lock table on a server */
  int64_t lease_ms;           /* how long a lock outlives its process */
  int64_t margin_ms;          /* before a lease's end it counts as lost; -1: a part of the lease */
  int64_t wait_ms;            /* of a lock whose request says -1 */
  int64_t request_ms;         /* time-out of a request */
  int64_t connect_ms;         /* time-out of a connection */
  size_t answer_max;          /* in bytes; a larger answer is REJECTED */
  const char *user;           /* basic authentication, with `password` */
  const char *password;
  const char *api_key;        /* the encoded form, or */
  const char *bearer;         /* a token */
  const char *ca_file;        /* PEM; NULL: the system's trust */
  const char *cert_file;      /* client certificate, PEM */
  const char *key_file;
  bool insecure;              /* do not check the server's certificate */
  const char *program;        /* who we are, for people */
  const char *script;
  const char *job;
  mortise_log_fn *log;
  void *log_ctx;
  mortise_notice_fn *notice;
  void *notice_ctx;
} mortise_options;

/* NULL is fine, and nothing is done. */
MORTISE_API void mortise_options_init(mortise_options *options);

typedef struct mortise_client mortise_client;
typedef struct mortise_lock mortise_lock;

/* Opens a store; nothing is sent and no file is made yet. Owned: mortise_client_free. NULL with
 * `err`: INVALID_ARGUMENT where `options` cannot be right, a malformed store included. */
MORTISE_API mortise_client *mortise_client_open(const mortise_options *options, mortise_error *err);

/* Releases every hold, closes the session (each bounded by the request time-out) and frees the
 * client, its locks included. NULL is fine. */
MORTISE_API void mortise_client_free(mortise_client *client);

/* Creates the lock tables where they are missing. */
MORTISE_API mortise_status mortise_client_init_tables(mortise_client *client, mortise_error *err);

typedef enum mortise_lock_kind {
  MORTISE_LOCK_TREE,      /* `paths`: each with all below it */
  MORTISE_LOCK_GLOBAL,    /* "/" */
  MORTISE_LOCK_DOCUMENT,  /* `index` and `paths` = ids */
  MORTISE_LOCK_NAMED      /* `index` = category, `paths` = names */
} mortise_lock_kind;

/* What a lock does to those of others on the same path; those on paths below it follow. */
typedef enum mortise_lock_mode {
  MORTISE_EXCLUSIVE = 0, /* X: excludes them all */
  MORTISE_SHARED,        /* S: beside others that are shared */
  MORTISE_SIX            /* shared, with the intention of exclusive locks below: others may read
                            below it, under locks of their own, what is not locked there */
} mortise_lock_mode;

typedef struct mortise_lock_request {
  mortise_lock_kind kind;
  const char *index;
  const char *const *paths;
  size_t n;
  mortise_lock_mode mode;
  int64_t wait_ms; /* -1: the client's default; 0: try once; at most MORTISE_TIME_MAX_MS */
} mortise_lock_request;

/* Waits until all are held. Owned: mortise_lock_release. NULL with `err`: LOCK_TIMEOUT (whose message
 * names the first who is in the way, and `blockers`, which may be NULL, says who they are),
 * INVALID_ARGUMENT, UNAVAILABLE, AUTH, CORRUPT_TABLE, ... */
MORTISE_API mortise_lock *mortise_lock_acquire(mortise_client *client,
                                               const mortise_lock_request *request,
                                               mortise_blockers *blockers, mortise_error *err);

/* Gives all of the lock's paths the mode `mode`, in place: what is held both before and after is
 * never given up in between, and the fence never shrinks.
 *
 * To a stronger mode (shared to SIX or exclusive, SIX to exclusive) it waits like an acquisition,
 * `wait_ms` likewise, and passes the queue; the lock has a new, larger fence. Any error leaves the
 * lock as it was: LOCK_TIMEOUT (with blockers), DEADLOCK, LOCK_LOST, UNAVAILABLE, ... To a weaker
 * one it never waits for others and takes effect at once; UNAVAILABLE says only that they are let
 * in later, since the store has not heard of it yet. To the one it has, nothing is done. */
MORTISE_API mortise_status mortise_lock_convert(mortise_lock *lock, mortise_lock_mode mode,
                                                int64_t wait_ms, mortise_blockers *blockers,
                                                mortise_error *err);

/* Gives it back and frees it, whatever the outcome; a failure leaves the hold to be given back
 * later, or to its lease. NULL is fine. */
MORTISE_API mortise_status mortise_lock_release(mortise_lock *lock, mortise_error *err);

/* OK while the lock is held for sure; LOCK_LOST past the deadline. No I/O. The two below it are 0
 * for NULL. */
MORTISE_API mortise_status mortise_lock_check(const mortise_lock *lock, mortise_error *err);
MORTISE_API int64_t mortise_lock_remaining_ms(const mortise_lock *lock);
/* Larger than that of any earlier holder of a conflicting lock, within one epoch of the table. */
MORTISE_API uint64_t mortise_lock_fence(const mortise_lock *lock);

/* Normalises a path (see docs): a trailing "/" is dropped. `out` holds at least 4097 bytes. */
MORTISE_API mortise_status mortise_path_normalise(const char *path, char *out, mortise_error *err);

/* "0.1.0" */
MORTISE_API const char *mortise_version(void);

#ifdef __cplusplus
}
#endif

#endif
