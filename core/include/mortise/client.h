/* libmortise: locks on trees of documents in Elasticsearch, OpenSearch or an embedded store. Here: clients, their options,
 * and the loops that they run in; lock.h has their locks.
 *
 * A client belongs to the thread that uses it; different threads use different clients. Strings are
 * copied. Functions return MORTISE_OK or a status whose details are in the caller's `err` (which
 * may be NULL). Unless said otherwise, an argument that is NULL or out of range is INVALID_ARGUMENT
 * and nothing is changed. */
#ifndef MORTISE_CLIENT_H
#define MORTISE_CLIENT_H

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

/* Of the library: "0.1.0", and as MORTISE_VERSION_NUMBER. */
MORTISE_API const char *mortise_version(void);
MORTISE_API int mortise_version_number(void);

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

/* ---- The caller's loop ---------------------------------------------------------------------------------------------
 *
 * A program that has an event loop of its own gives its clients a mortise_loop: it waits for the loop's descriptor beside
 * its others, at most as long as the loop's time-out says, and then calls mortise_loop_step, which never waits. What is
 * started (`..._start`) is told from there. A loop belongs to the thread that steps it, as do all its clients; those that
 * name the same store share its connections, and one thread of the library keeps the leases of all clients of a process.
 */
typedef struct mortise_loop mortise_loop;

/* Owned: mortise_loop_free. NULL with `err`. */
MORTISE_API mortise_loop *mortise_loop_new(mortise_error *err);
/* Frees it, after the clients that it still has, as mortise_client_free does. Not from a callback. NULL is fine. */
MORTISE_API void mortise_loop_free(mortise_loop *loop);
/* Readable when there is something to do; the same for the loop's life. For poll, epoll and the like; read nothing from
 * it. -1 for NULL. */
MORTISE_API int mortise_loop_fd(const mortise_loop *loop);
/* How long to wait for the descriptor at most, in ms, until mortise_loop_step is due; -1: no limit. It changes with each
 * call that starts something: ask before each wait. */
MORTISE_API int mortise_loop_timeout_ms(mortise_loop *loop);
/* Does what is due and calls back. Waits for nothing; where nothing is due, it does nothing. INVALID_ARGUMENT in a
 * callback, or in a forked process. */
MORTISE_API mortise_status mortise_loop_step(mortise_loop *loop, mortise_error *err);
/* Makes the descriptor readable. From any thread or signal handler. NULL is fine. */
MORTISE_API void mortise_loop_wake(mortise_loop *loop);

typedef struct mortise_client mortise_client;
typedef struct mortise_lock mortise_lock;
typedef struct mortise_page mortise_page;     /* write.h */
typedef struct mortise_answer mortise_answer; /* write.h */

/* What was started and has not ended. It ends by exactly one of: a call of its `done`, or mortise_op_cancel. */
typedef struct mortise_op mortise_op;

/* Valid during the call. Later versions may make it longer. */
typedef struct mortise_outcome {
  mortise_error error; /* code MORTISE_OK: it is done */
  mortise_lock *lock;  /* that was acquired, owned: mortise_lock_release; or that was converted, or is as it was; or NULL */
  const mortise_blockers *blockers; /* of a lock that was not had; else there are none in it */
  mortise_page *page;     /* that was read, owned: mortise_page_free; NULL at the end of a scan */
  mortise_answer *answer; /* owned: mortise_answer_free */
  uint64_t count;
} mortise_outcome;

/* Called once, from mortise_loop_step, or while a blocking call of the same loop waits; never from inside the call that
 * started it. It may start, cancel and free anything but the loop; calls that would wait are INVALID_ARGUMENT there. */
typedef void mortise_done_fn(void *ctx, const mortise_outcome *outcome);

/* Ends it without a call of its `done`; `op` is gone. An acquisition that the store grants after all is given back, a
 * conversion leaves the lock as it is, or as it has become; a release and a closing go on. NULL is fine. */
MORTISE_API void mortise_op_cancel(mortise_op *op);

/* ---- Options -------------------------------------------------------------------------------------------------------
 *
 * Structs that later versions may make longer begin with their size, which their `_init` sets: a program that was built
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
  mortise_loop *loop;         /* that the client belongs to, and that must outlive it; NULL: one of its own */
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
  bool sniff;                 /* ask the cluster for its nodes, and use those; not with aws, unix_socket, "cloud:" */
  const char *program;        /* who we are, for people */
  const char *script;
  const char *job;
} mortise_options;

/* mortise_options_init(mortise_options *options); NULL is fine. */
#define mortise_options_init(options) mortise_options_init_size(options, sizeof(mortise_options))
MORTISE_API void mortise_options_init_size(mortise_options *options, size_t size);

/* Opens a store; sends nothing and creates no file yet. Owned: mortise_client_free. NULL with
 * `err`: INVALID_ARGUMENT if `options` are invalid, for example the store malformed. */
MORTISE_API mortise_client *mortise_client_open(const mortise_options *options, mortise_error *err);

/* Releases every lock, closes the session (each within the request time-out) and frees the client
 * with its locks. What was started and is under way ends with INTERRUPTED. In a callback of its loop it does not wait, as
 * mortise_client_close_start. NULL is fine. */
MORTISE_API void mortise_client_free(mortise_client *client);

/* The same without waiting. The client and its locks must not be used any more; what was started ends with INTERRUPTED,
 * then `done` (which may be NULL) is called, without an error, and the client is gone. NULL with `err`, and nothing is
 * closed: INVALID_ARGUMENT. */
MORTISE_API mortise_op *mortise_client_close_start(mortise_client *client, mortise_done_fn *done, void *ctx,
                                                   mortise_error *err);

/* Creates the lock table, in `stripes` (1 to 64; 0: the default), and the index of jobs, where they are missing. A
 * lock table that has another number of stripes than is asked for gets that while nobody uses it; where someone does,
 * and embedded once it was used, that is an INVALID_ARGUMENT. */
MORTISE_API mortise_status mortise_client_init_tables(mortise_client *client, uint32_t stripes,
                                                      mortise_error *err);

#ifdef __cplusplus
}
#endif

#endif
