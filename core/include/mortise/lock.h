/* Locks of a client: on trees, documents and names, in any mode. What is said at the top of client.h holds here too. */
#ifndef MORTISE_LOCK_H
#define MORTISE_LOCK_H

#include <mortise/client.h>

#ifdef __cplusplus
extern "C" {
#endif

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
  uint64_t task;   /* who asks, by a number of the program's own: what a task holds does not stand in its own way. 0: the
                      client's thread in a call that blocks; whoever starts something is somebody else each time */
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

/* The same without waiting. `request` and what it borrows may go afterwards. NULL with `err`, and `done` is not called:
 * INVALID_ARGUMENT, OUT_OF_MEMORY. */
MORTISE_API mortise_op *mortise_lock_acquire_start(mortise_client *client, const mortise_lock_request *request,
                                                   mortise_done_fn *done, void *ctx, mortise_error *err);

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

/* The same without waiting. A release meanwhile ends it with LOCK_LOST. */
MORTISE_API mortise_op *mortise_lock_convert_start(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms,
                                                   mortise_done_fn *done, void *ctx, mortise_error *err);

/* Releases the lock and frees it, whatever the outcome; after a failure it is released
 * later, or ends with its lease. In a callback of its loop it does not wait for the store, and tells only whether the lock
 * was held until now. NULL is fine. */
MORTISE_API mortise_status mortise_lock_release(mortise_lock *lock, mortise_error *err);

/* The same without waiting: the lock is gone at once; `done` (which may be NULL) has what mortise_lock_release returns.
 * Where NULL is returned with `err`, nothing is released: INVALID_ARGUMENT, OUT_OF_MEMORY. */
MORTISE_API mortise_op *mortise_lock_release_start(mortise_lock *lock, mortise_done_fn *done, void *ctx,
                                                   mortise_error *err);

/* OK while the lock is certainly held; LOCK_LOST past the deadline. No I/O. Both from any thread, as long as the lock is
 * not released. What follows returns 0, or "", for NULL. */
MORTISE_API mortise_status mortise_lock_check(const mortise_lock *lock, mortise_error *err);
MORTISE_API int64_t mortise_lock_remaining_ms(const mortise_lock *lock);
/* Larger than the fence of any earlier holder of a conflicting lock in the same epoch of the
 * table. */
MORTISE_API uint64_t mortise_lock_fence(const mortise_lock *lock);
/* The epoch of the lock table: another after it was lost and made anew. Borrowed from the lock. */
MORTISE_API const char *mortise_lock_epoch(const mortise_lock *lock);

/* `lost` is called once when the lock is lost, at the latest when its lease ends: from mortise_loop_step, or while a
 * blocking call of its client waits. NULL takes it back. A thread that waits for neither asks mortise_lock_check. */
MORTISE_API mortise_status mortise_lock_on_lost(mortise_lock *lock, void (*lost)(void *ctx, mortise_lock *lock),
                                                void *ctx, mortise_error *err);

/* Normalises a path (see docs): drops a trailing "/". `out` has room for at least 4097 bytes. */
MORTISE_API mortise_status mortise_path_normalise(const char *path, char *out, mortise_error *err);

#ifdef __cplusplus
}
#endif

#endif
