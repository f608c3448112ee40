/* libmortise: locks on trees of documents in Elasticsearch, OpenSearch or an embedded store.
 *
 * A client belongs to the thread that uses it; different threads use different clients. Strings are
 * copied. Functions return MORTISE_OK or a status whose details are in the caller's `err` (which
 * may be NULL). Unless said otherwise, an argument that is NULL or out of range is INVALID_ARGUMENT
 * and nothing is changed. */
#ifndef MORTISE_H
#define MORTISE_H

#include <mortise/error.h>

/* The version of this header; mortise_version_number tells that of the library. Before 1.0 another MINOR is another
 * library (libmortise.so.0.MINOR); PATCH changes nothing that is declared here. */
#define MORTISE_VERSION_MAJOR 0
#define MORTISE_VERSION_MINOR 1
#define MORTISE_VERSION_PATCH 0
#define MORTISE_VERSION_NUMBER                                                                     \
  (MORTISE_VERSION_MAJOR * 1000000 + MORTISE_VERSION_MINOR * 1000 + MORTISE_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mortise_log_level {
  MORTISE_LOG_DEBUG,
  MORTISE_LOG_INFO,
  MORTISE_LOG_WARNING
} mortise_log_level;

/* Gets one line without newline or secrets. May be called from the heartbeat's thread. */
typedef void mortise_log_fn(void *ctx, mortise_log_level level, const char *line);

typedef enum mortise_notice_kind {
  MORTISE_NOTICE_WAITING,   /* a call has waited for a lock for a second or longer */
  MORTISE_NOTICE_WAIT_OVER, /* that wait has ended, with or without the lock */
  MORTISE_NOTICE_NO_ANSWER, /* the store has not answered for a second or longer; it is retried */
  MORTISE_NOTICE_ANSWERS    /* it answers again; or, if lease_ms is 0, nothing is left to ask for */
} mortise_notice_kind;

/* What a client is waiting for, for people. Strings are cut to fit and always terminated. */
typedef struct mortise_notice {
  mortise_notice_kind kind;
  uint64_t wait;  /* identifies the wait; 0: not about a wait */
  int64_t for_ms; /* how long it has lasted */
  char path[256]; /* the path of the lock that it waits for */
  char mode[4];   /* the mode that it waits for */
  bool here;      /* another task of this process blocks it */
  const mortise_blockers *blockers; /* NULL: unknown; valid only during the call */
  const char *store;                /* which store does not answer; valid only during the call */
  int64_t lease_ms; /* the rest of the session's lease; -1: it has held no lock yet */
} mortise_notice;

/* Called inside calls of the client, on their thread: after a second, then every second, and at the
 * end. It must not use the client. */
typedef void mortise_notice_fn(void *ctx, const mortise_notice *notice);

#define MORTISE_TIME_MAX_MS INT64_C(31622400000) /* 366 days, the longest time */

/* Structs that later versions may make longer begin with their size, which their `_init` sets: a program that was built
 * with a shorter one goes on to work, with the defaults of what it does not know.
 *
 * mortise_options_init sets every option's default; docs/operations.md lists the options with their
 * ranges. An option that the kind of store does not use is ignored. Strings are borrowed until
 * mortise_client_open returns; NULL means the default. */
typedef struct mortise_options {
  size_t size;
  mortise_log_fn *log;
  void *log_ctx;
  mortise_notice_fn *notice;
  void *notice_ctx;
  const char *store;          /* "http(s)://HOST[:PORT][,...]", "cloud:ID" or "sqlite:FILE"; required */
  const char *ns;             /* namespace of the locks, [a-z0-9_-]{1,64}; not NULL */
  const char *table;          /* alias of the lock table on a server */
  int64_t lease_ms;           /* how long a lock outlives its process */
  int64_t margin_ms;          /* a lease counts as lost this long before its end; -1: default */
  int64_t wait_ms;            /* for lock requests with wait_ms -1 */
  bool no_hints; /* tell no process of this machine that a lock is free, and hear of none */
  int64_t request_ms;         /* time-out of a request */
  int64_t connect_ms;         /* time-out of a connection */
  size_t answer_max;          /* in bytes; a larger answer is REJECTED */
  const char *user;           /* basic authentication, with `password` */
  const char *password;
  const char *api_key;        /* the encoded form, or */
  const char *bearer;         /* a token, or */
  const char *api_key_command; /* carried out by /bin/sh; its output's first line is the key, or */
  const char *bearer_command; /* the token, or */
  bool aws;                   /* sign requests, with the credentials of Amazon's own programs */
  const char *aws_region;     /* NULL: the store's name says it, or the environment */
  const char *ca_file;        /* PEM; NULL: the system's trust */
  const char *cert_file;      /* client certificate, PEM */
  const char *key_file;
  bool insecure;              /* do not check the server's certificate */
  const char *proxy;          /* "http(s)://HOST:PORT", or "none"; NULL: as the environment says */
  const char *unix_socket;    /* connect there, whatever the store's host is */
  const char *program;        /* who we are, for people */
  const char *script;
  const char *job;
} mortise_options;

/* mortise_options_init(mortise_options *options); NULL is fine. */
#define mortise_options_init(options) mortise_options_init_size(options, sizeof(mortise_options))
MORTISE_API void mortise_options_init_size(mortise_options *options, size_t size);

typedef struct mortise_client mortise_client;
typedef struct mortise_lock mortise_lock;

/* Opens a store; sends nothing and creates no file yet. Owned: mortise_client_free. NULL with
 * `err`: INVALID_ARGUMENT if `options` are invalid, for example the store malformed. */
MORTISE_API mortise_client *mortise_client_open(const mortise_options *options, mortise_error *err);

/* Releases every lock, closes the session (each within the request time-out) and frees the client
 * with its locks. NULL is fine. */
MORTISE_API void mortise_client_free(mortise_client *client);

/* Creates the lock table, in `stripes` (1 to 64; 0: the default), and the index of jobs, where they are missing. A
 * lock table that has another number of stripes than is asked for gets that while nobody uses it; where someone does,
 * and embedded once it was used, that is an INVALID_ARGUMENT. */
MORTISE_API mortise_status mortise_client_init_tables(mortise_client *client, uint32_t stripes,
                                                      mortise_error *err);

typedef enum mortise_lock_kind {
  MORTISE_LOCK_TREE,     /* `paths`, each with everything below it */
  MORTISE_LOCK_GLOBAL,   /* "/" */
  MORTISE_LOCK_DOCUMENT, /* `index` and `paths` = ids */
  MORTISE_LOCK_NAMED     /* `index` = category, `paths` = names */
} mortise_lock_kind;

/* What a lock excludes on its path and, accordingly, below it. */
typedef enum mortise_lock_mode {
  MORTISE_EXCLUSIVE = 0, /* X: excludes all other locks */
  MORTISE_SHARED,        /* S: allows other shared locks */
  MORTISE_SIX            /* shared, with the intention of exclusive locks below: others may take
                            shared locks below it on what is not locked exclusively there */
} mortise_lock_mode;

typedef struct mortise_lock_request {
  size_t size; /* sizeof(mortise_lock_request) */
  mortise_lock_kind kind;
  const char *index;
  const char *const *paths;
  size_t n;
  mortise_lock_mode mode;
  int64_t wait_ms; /* -1: the client's default; 0: try once; at most MORTISE_TIME_MAX_MS */
} mortise_lock_request;

/* mortise_lock_request_init(mortise_lock_request *request): exclusive, of a tree, with the client's wait. NULL is fine. */
#define mortise_lock_request_init(request) mortise_lock_request_init_size(request, sizeof(mortise_lock_request))
MORTISE_API void mortise_lock_request_init_size(mortise_lock_request *request, size_t size);

/* Waits until all paths are locked. Owned: mortise_lock_release. NULL with `err`: LOCK_TIMEOUT (the
 * message names the first blocker; `blockers`, which may be NULL, lists them), INVALID_ARGUMENT,
 * UNAVAILABLE, AUTH, CORRUPT_TABLE, ... */
MORTISE_API mortise_lock *mortise_lock_acquire(mortise_client *client,
                                               const mortise_lock_request *request,
                                               mortise_blockers *blockers, mortise_error *err);

/* Converts all of the lock's paths to `mode` in place: what both the old and the new mode cover is
 * never given up, and the fence never shrinks.
 *
 * Conversion to a stronger mode (shared to SIX or exclusive, SIX to exclusive) waits like an
 * acquisition, up to `wait_ms`, but passes the queue, and gives the lock a new, larger fence. Any
 * error leaves the lock as it was: LOCK_TIMEOUT (with blockers), DEADLOCK, LOCK_LOST, UNAVAILABLE,
 * ... Conversion to a weaker mode never waits for others and takes effect at once; UNAVAILABLE only
 * means that others are admitted later, since the store does not know of it yet. Conversion to the
 * same mode does nothing. */
MORTISE_API mortise_status mortise_lock_convert(mortise_lock *lock, mortise_lock_mode mode,
                                                int64_t wait_ms, mortise_blockers *blockers,
                                                mortise_error *err);

/* Releases the lock and frees it, whatever the outcome; after a failure it is released
 * later, or ends with its lease. NULL is fine. */
MORTISE_API mortise_status mortise_lock_release(mortise_lock *lock, mortise_error *err);

/* OK while the lock is certainly held; LOCK_LOST past the deadline. No I/O. The two functions below
 * return 0 for NULL. */
MORTISE_API mortise_status mortise_lock_check(const mortise_lock *lock, mortise_error *err);
MORTISE_API int64_t mortise_lock_remaining_ms(const mortise_lock *lock);
/* Larger than the fence of any earlier holder of a conflicting lock in the same epoch of the
 * table. */
MORTISE_API uint64_t mortise_lock_fence(const mortise_lock *lock);

/* Normalises a path (see docs): drops a trailing "/". `out` has room for at least 4097 bytes. */
MORTISE_API mortise_status mortise_path_normalise(const char *path, char *out, mortise_error *err);

/* Of the library: "0.1.0", and as MORTISE_VERSION_NUMBER. */
MORTISE_API const char *mortise_version(void);
MORTISE_API int mortise_version_number(void);

#ifdef __cplusplus
}
#endif

#endif
