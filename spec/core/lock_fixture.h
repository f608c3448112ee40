/* Clients of a real store for the lock manager's tests: several in one thread, pumped in turn. */
#ifndef MT_SPEC_LOCK_FIXTURE_H
#define MT_SPEC_LOCK_FIXTURE_H

#include "client/client.h"
#include "support/support.h"
#include "write/writer.h"

/* A client with a loop of its own. */
typedef struct mt_test_client {
  mortise_client *client;
  mt_manager *manager;
  mortise_blockers blockers; /* of the last mt_test_take */
} mt_test_client;

/* `lease_ms` 0: the default. Fails the test when it cannot. */
mt_test_client mt_test_client_open(const mt_test_place *place, int64_t lease_ms);
void mt_test_client_close(mt_test_client *c);

/* An acquisition or a release under way. */
typedef struct mt_test_op {
  mt_test_client *client;
  mt_acquire acquire;
  mortise_blockers blockers;
  mt_release release;
  mt_wants wants;
} mt_test_op;

/* Begins to acquire one tree path. */
void mt_test_acquire(mt_test_op *op, mt_test_client *c, const char *path, bool shared,
                     uint64_t task, int64_t wait_ms);
void mt_test_release(mt_test_op *op, mt_test_client *c, mt_lock *lock);

/* Steps all clients until `*flag` or for `ms`; returns the flag. */
bool mt_test_pump_until(mt_test_client *clients, size_t n, const bool *flag, int64_t ms);

/* Acquire and wait, at most 30 s: the lock, or NULL with `err`. */
mt_lock *mt_test_take(mt_test_client *clients, size_t n, size_t who, const char *path, bool shared,
                      int64_t wait_ms, mortise_error *err);
mortise_status mt_test_give(mt_test_client *clients, size_t n, size_t who, mt_lock *lock);

/* Ends the session with this id by hand, as `mortise locks break --session` does. */
void mt_test_break(const mt_test_place *place, const char *session);

enum { MT_TEST_PATIENCE_MS = 60000 };

/* What a patient program says of the place, in a loop of its own or (NULL) none; and a client of such a one, `lease_ms` 0: the
 * default. */
mortise_options mt_test_options(const mt_test_place *place, mortise_loop *loop);
mortise_client *mt_test_open(const mt_test_place *place, mortise_loop *loop, int64_t lease_ms);

/* Steps a program's loop as it waits for it with poll, until `*flag` or for `ms`; returns the flag. `stepping` (or NULL) is
 * true meanwhile, during each step. */
bool mt_test_poll_until(mortise_loop *loop, const bool *flag, int64_t ms, bool *stepping);

/* No lock document and no live session is left in the table. */
void mt_test_expect_empty(const mt_test_place *place);

/* Of the documents in `store`, under the lock; NULL: unprotected. */
mt_writer *mt_test_writer(mt_store *store, const mt_lock *lock, const mt_writer_config *config,
                          mortise_error *err);

#endif
