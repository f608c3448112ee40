/* Errors of mortise: a status that a call returns, and a caller-owned record with the details.
 *
 * Nothing in a mortise_error is allocated: it can be copied, dropped and reused freely. */
#ifndef MORTISE_ERROR_H
#define MORTISE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MORTISE_API __attribute__((visibility("default")))
#define MORTISE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MORTISE_API
#define MORTISE_PRINTF(fmt, args)
#endif

/* Each status with the name that scripts see (`err.code`) and the program's exit status. */
#define MORTISE_STATUS_LIST(X)                                                                     \
  X(OK, "ok", 0)                                                                                   \
  X(LOCK_TIMEOUT, "lock_timeout", 3)                                                               \
  X(LOCK_LOST, "lock_lost", 5)                                                                     \
  X(DEADLOCK, "deadlock", 3)                                                                       \
  X(ORPHANED_JOB, "orphaned_job", 6)                                                               \
  X(CONFLICT, "conflict", 1)                                                                       \
  X(UNAVAILABLE, "unavailable", 4)                                                                 \
  X(AUTH, "auth", 4)                                                                               \
  X(REJECTED, "rejected", 1)                                                                       \
  X(NOT_FOUND, "not_found", 1)                                                                     \
  X(UNSUPPORTED, "unsupported", 1)                                                                 \
  X(CORRUPT_TABLE, "corrupt_table", 4)                                                             \
  X(INTERRUPTED, "interrupted", 130)                                                               \
  X(INVALID_ARGUMENT, "invalid_argument", 2)                                                       \
  X(OUT_OF_MEMORY, "out_of_memory", 1)                                                             \
  X(SCRIPT_ERROR, "script_error", 1)

typedef enum mortise_status {
#define MORTISE_STATUS_ENUM(name, text, exit_status) MORTISE_##name,
  MORTISE_STATUS_LIST(MORTISE_STATUS_ENUM)
#undef MORTISE_STATUS_ENUM
} mortise_status;

enum { MORTISE_JOB_MAX = 256 /* bytes of a job's id */ };

/* One holder or waiter that blocked a lock. Strings are cut to fit and always terminated. */
typedef struct mortise_blocker {
  char path[256];
  char mode[4];       /* "IS" "IX" "S" "SIX" "X" */
  char session[33];   /* 128-bit id in hex */
  char host[64];
  char user[32];
  char program[64];
  char script[128];
  char job[MORTISE_JOB_MAX + 1];
  int64_t pid;
  int64_t since_ms;   /* store's clock, milliseconds since 1970; for people only */
  bool queued;        /* waits ahead of us in the queue; does not hold it yet */
  bool damaged;       /* no client has written its entry or its session so: nobody takes it over, a
                         person must break it; `session` may be any text then */
} mortise_blocker;

enum { MORTISE_BLOCKERS_SHOWN = 4 };

/* The sessions that blocked a lock; the first few in full. */
typedef struct mortise_blockers {
  size_t total; /* number of blockers seen */
  size_t shown; /* at most MORTISE_BLOCKERS_SHOWN */
  mortise_blocker list[MORTISE_BLOCKERS_SHOWN];
} mortise_blockers;

typedef struct mortise_error {
  mortise_status code;
  int http_status;     /* 0: no server answered */
  bool retryable;      /* the same call may succeed later and can safely be repeated */
  bool ambiguous;      /* the store may have applied it, or may still do so */
  char message[512];   /* one line that says what and where; never a secret */
  char type[96];       /* the server's own `error.type`, or "" */
  char reason[512];    /* the server's own `error.reason`, or "" */
} mortise_error;

/* The script's name of a status: "lock_timeout". Static storage. */
MORTISE_API const char *mortise_status_name(mortise_status status);

/* The exit status of the program for it: 0 done, 1 script error, 2 usage, 3 lock not had,
 * 4 store unavailable, 5 lock lost, 6 a job needs recovery, 130 interrupted. */
MORTISE_API int mortise_status_exit(mortise_status status);

#ifdef __cplusplus
}
#endif

#endif
