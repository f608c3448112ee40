/* Locks, for programs in C: what is started and told from the loop, and upon that the calls that wait. */
#include "base/mem.h"
#include "client/handles.h"
#include "client/options.h"
#include "job/record.h"

#include <stddef.h>

typedef struct lock_op {
  mortise_op op;
  union {
    mt_acquire acquire;
    mt_convert convert;
    mt_release release;
  } of;
  mortise_lock *lock;        /* an acquisition's, to be filled, owned; a conversion's; NULL: it was released meanwhile */
  mortise_blockers blockers; /* of an acquisition or a conversion; a release ends before it */
} lock_op;

/* ---- Handles ---------------------------------------------------------------------------------- */

static void link_lock(mortise_lock *lock) {
  mortise_client *c = lock->client;
  lock->next = c->locks;
  if (lock->next) lock->next->before = lock;
  c->locks = lock;
}

/* Its writers have ended. */
static void free_lock(mortise_lock *lock) {
  if (lock->next) lock->next->before = lock->before;
  *(lock->before ? &lock->before->next : &lock->client->locks) = lock->next;
  mt_free(lock);
}

void mt_lock_handles_free(mortise_lock **locks) {
  while (*locks) {
    mt_writer_handles_free(&(*locks)->writers);
    free_lock(*locks);
  }
}

/* Its writers must not look at a lock that is gone; their handles stay, for their owners to free. */
static void end_writers_of(mortise_lock *lock) {
  mortise_error error;
  if (!lock->writers) return;
  mt_error_set(&error, MORTISE_LOCK_LOST, "the lock was released");
  mt_writer_handles_end(lock->client, &lock->writers, &error);
}

/* Of an acquisition or a conversion. */
static void tell_lock(lock_op *op, const mortise_error *error, mortise_lock *lock) {
  mt_handle_op_tell(&op->op, &(mortise_outcome){.error = *error, .lock = lock, .blockers = &op->blockers});
}

/* ---- Acquiring -------------------------------------------------------------------------------- */

static void acquisition_over(void *ctx, mt_acquire *a) {
  lock_op *op = ctx;
  mortise_lock *lock = op->lock;
  op->lock = NULL;
  if (a->lock) {
    lock->lock = a->lock;
    const mt_epoch epoch = mt_manager_epoch(mt_lock_manager(a->lock));
    memcpy(lock->epoch, epoch.id, sizeof lock->epoch);
    link_lock(lock);
  } else {
    mt_free(lock);
    lock = NULL;
  }
  tell_lock(op, &a->error, lock);
}

static mt_manager *manager_of(const mortise_op *op) {
  return op->client->own->manager; /* it is there since something was asked of it */
}

static void take_back_acquisition(mortise_op *op) {
  mt_manager_cancel(manager_of(op), &((lock_op *)op)->of.acquire);
}

static void drop_acquisition(mortise_op *op) {
  mt_free(((lock_op *)op)->lock);
}

static const mt_handle_op_type acquiring = {take_back_acquisition, drop_acquisition};

static lock_op *new_acquisition(mortise_client *c, mortise_done_fn *done, void *ctx, mortise_error *err) {
  lock_op *op = mt_handle_op_new(c, &acquiring, sizeof *op, done, ctx, err);
  if (!op) return NULL;
  op->lock = mt_calloc(1, sizeof *op->lock);
  if (op->lock) {
    op->lock->client = c;
    return op;
  }
  mt_error_memory(err);
  mt_handle_op_free(&op->op);
  return NULL;
}

/* `waits`: the thread does, so that it cannot give back what another of its locks has. */
static mortise_op *begin_acquisition(mortise_client *c, const mortise_lock_request *request, bool waits,
                                     mortise_done_fn *done, void *ctx, mortise_error *err) {
  mt_wants wants;
  mortise_lock_request taken;
  if (mt_client_request_take(&taken, request, err)) return NULL;
  mt_manager *m = mt_client_manager(c, err);
  if (!m || mt_wants_make(&taken, &wants, err)) return NULL;
  lock_op *op = new_acquisition(c, done, ctx, err);
  if (op) {
    op->of.acquire = (mt_acquire){.done = acquisition_over,
                                  .ctx = op,
                                  .wants = wants.wants,
                                  .n = wants.n,
                                  .task = taken.task || waits ? taken.task : UINT64_MAX - c->last_task++,
                                  .wait_ms = taken.wait_ms,
                                  .blocks_siblings = waits,
                                  .blockers = &op->blockers};
    mt_manager_acquire(m, &op->of.acquire);
  }
  mt_wants_deinit(&wants);
  return op ? &op->op : NULL;
}

mortise_op *mortise_lock_acquire_start(mortise_client *c, const mortise_lock_request *request, mortise_done_fn *done,
                                       void *ctx, mortise_error *err) {
  if (mt_handle_check_start(c, err)) return NULL;
  if (done) return begin_acquisition(c, request, false, done, ctx, err);
  mt_handle_null("function `done`, which gets the lock,", err);
  return NULL;
}

/* ---- Converting ------------------------------------------------------------------------------- */

static void conversion_over(void *ctx, mt_convert *c) {
  lock_op *op = ctx;
  if (op->lock) op->lock->conversions--;
  tell_lock(op, &c->error, op->lock);
}

static void take_back_conversion(mortise_op *op) {
  lock_op *self = (lock_op *)op;
  mt_manager_convert_cancel(manager_of(op), &self->of.convert);
  if (self->lock) self->lock->conversions--;
}

static const mt_handle_op_type converting = {.take_back = take_back_conversion};

static mortise_op *begin_mode_change(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms, bool waits,
                                     mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (mt_wants_check(mode, wait_ms, err)) return NULL;
  lock_op *op = mt_handle_op_new(lock->client, &converting, sizeof *op, done, ctx, err);
  if (!op) return NULL;
  op->lock = lock;
  lock->conversions++;
  op->of.convert = (mt_convert){.done = conversion_over,
                                .ctx = op,
                                .lock = lock->lock,
                                .mode = mt_wants_mode(mode),
                                .wait_ms = wait_ms,
                                .blocks_siblings = waits,
                                .blockers = &op->blockers};
  mt_manager_convert(mt_lock_manager(lock->lock), &op->of.convert);
  return &op->op;
}

mortise_op *mortise_lock_convert_start(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms,
                                       mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (!lock) {
    mt_handle_null("lock", err);
    return NULL;
  }
  return mt_handle_check_start(lock->client, err) ? NULL : begin_mode_change(lock, mode, wait_ms, false, done, ctx, err);
}

/* ---- Releasing -------------------------------------------------------------------------------- */

static void release_over(void *ctx, mt_release *r) {
  mt_handle_op_fail(ctx, &r->error);
}

static void forget_release(mortise_op *op) {
  mt_manager_release_forget(manager_of(op), &((lock_op *)op)->of.release);
}

static const mt_handle_op_type releasing = {.take_back = forget_release};

/* The handle is gone at once, also for conversions of it, which end with LOCK_LOST. */
static void drop_handle(mortise_lock *lock) {
  for (mortise_op *op = lock->client->ops; op && lock->conversions; op = op->next) {
    lock_op *self = (lock_op *)op;
    if (op->type != &converting || self->lock != lock) continue;
    self->lock = NULL;
    lock->conversions--;
  }
  free_lock(lock);
}

static mortise_op *begin_release(mortise_lock *lock, mortise_done_fn *done, void *ctx, mortise_error *err) {
  lock_op *op = mt_handle_op_new(lock->client, &releasing, offsetof(lock_op, blockers), done, ctx, err);
  if (!op) return NULL;
  end_writers_of(lock);
  op->of.release = (mt_release){.done = release_over, .ctx = op, .lock = lock->lock};
  mt_manager_release(mt_lock_manager(lock->lock), &op->of.release);
  drop_handle(lock);
  return &op->op;
}

mortise_op *mortise_lock_release_start(mortise_lock *lock, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (!lock) {
    mt_handle_null("lock", err);
    return NULL;
  }
  return mt_handle_check_start(lock->client, err) ? NULL : begin_release(lock, done, ctx, err);
}

/* ---- Losing ------------------------------------------------------------------------------------ */

static void tell_losses(void *ctx) {
  mortise_client *c = ctx;
  for (mortise_lock *lock = c->locks; lock;) {
    void (*lost)(void *, mortise_lock *) = lock->lost;
    if (!lost || !mt_lock_check(lock->lock, NULL)) {
      lock = lock->next;
      continue;
    }
    lock->lost = NULL;
    lost(lock->lost_ctx, lock);
    lock = c->locks; /* it may have released any */
  }
}

static void client_lost(void *ctx) { /* perhaps in the heartbeats' thread */
  mortise_client *c = ctx;
  mt_loop_post(c->loop, &c->lost);
}

void mt_client_hook(mortise_client *c) {
  c->lost = (mt_post){.run = tell_losses, .ctx = c};
  c->hooks = (mt_client_hooks){.lost = client_lost, .ctx = c};
}

mortise_status mortise_lock_on_lost(mortise_lock *lock, void (*lost)(void *ctx, mortise_lock *lock), void *ctx,
                                    mortise_error *err) {
  if (!lock) return mt_handle_null("lock", err);
  mortise_status status = mt_handle_check_start(lock->client, err);
  if (status) return status;
  lock->lost = lost;
  lock->lost_ctx = ctx;
  mt_loop_post(lock->client->loop, &lock->client->lost); /* it may be lost already */
  return MORTISE_OK;
}

/* ---- Opening ------------------------------------------------------------------------ */

mortise_client *mortise_client_open(const mortise_options *options, mortise_error *err) {
  mortise_options taken;
  return mt_client_options_take(&taken, options, err) ? NULL : mt_client_open(&taken, NULL, NULL, err);
}

/* The index that holds jobs; there already is fine. */
static mortise_status init_jobs(mortise_client *c, mortise_error *err) {
  mt_index_admin create = {.index = c->jobs, .body = mt_job_table()};
  c->store->docs->index_create(c->store, &create);
  mortise_status status = mt_store_wait(c->store, &create.req, -1);
  if (status == MORTISE_CONFLICT) return MORTISE_OK;
  if (err) *err = create.req.error;
  return status;
}

mortise_status mortise_client_init_tables(mortise_client *c, uint32_t stripes, mortise_error *err) {
  mortise_status bad = mt_client_check(c, true, err);
  if (bad) return bad;
  mt_locks_admin init = {.wanted = stripes};
  c->store->locks->init(c->store, &init);
  mortise_status status = mt_store_wait(c->store, &init.req, -1);
  if (err) *err = init.req.error;
  mt_locks_admin_deinit(&init);
  return status ? status : init_jobs(c, err);
}

/* ---- Calls that wait ----------------------------------------------------------------------------- */

mortise_lock *mortise_lock_acquire(mortise_client *c, const mortise_lock_request *request,
                                   mortise_blockers *blockers, mortise_error *err) {
  mt_waited w = {.blockers = blockers};
  if (blockers) *blockers = (mortise_blockers){0};
  if (mt_client_check(c, true, err)) return NULL;
  mt_waited_for(c, begin_acquisition(c, request, true, mt_waited_keep, &w, err), &w, err);
  return w.outcome.lock;
}

mortise_status mortise_lock_convert(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms,
                                    mortise_blockers *blockers, mortise_error *err) {
  mt_waited w = {.blockers = blockers};
  mortise_error ours;
  if (!err) err = &ours;
  if (blockers) *blockers = (mortise_blockers){0};
  if (!lock) return mt_handle_null("lock", err);
  mortise_client *c = lock->client;
  mortise_status bad = mt_client_check(c, true, err);
  if (bad) return bad;
  return mt_waited_for(c, begin_mode_change(lock, mode, wait_ms, true, mt_waited_keep, &w, err), &w, err);
}

/* Releases it with no memory, or in a callback: nobody waits for the store's acknowledgement. */
static mortise_status release_unheard(mortise_lock *lock, mortise_error *err) {
  mortise_status status = mt_lock_check(lock->lock, err);
  mt_release r = {.lock = lock->lock};
  mt_manager *m = mt_lock_manager(lock->lock);
  end_writers_of(lock);
  mt_manager_release(m, &r);
  mt_manager_release_forget(m, &r);
  drop_handle(lock);
  return status;
}

mortise_status mortise_lock_release(mortise_lock *lock, mortise_error *err) {
  mt_waited w = {0};
  mortise_error ours;
  if (!err) err = &ours;
  mt_error_clear(err);
  if (!lock) return MORTISE_OK;
  mortise_client *c = lock->client;
  if (mt_shared_check(c->shared, "the client", NULL)) return mt_lock_check(lock->lock, err);
  if (c->ending || mt_shared_busy(c->shared)) return release_unheard(lock, err);
  mortise_op *op = begin_release(lock, mt_waited_keep, &w, err);
  return op ? mt_waited_for(c, op, &w, err) : release_unheard(lock, err);
}

/* ---- What a lock says ----------------------------------------------------------------------------- */

mortise_status mortise_lock_check(const mortise_lock *lock, mortise_error *err) {
  return lock ? mt_lock_check(lock->lock, err) : mt_handle_null("lock", err);
}

int64_t mortise_lock_remaining_ms(const mortise_lock *lock) {
  return lock ? mt_lock_remaining_ms(lock->lock) : 0;
}

uint64_t mortise_lock_fence(const mortise_lock *lock) {
  return lock ? mt_lock_fence(lock->lock) : 0;
}

const char *mortise_lock_epoch(const mortise_lock *lock) {
  return lock ? lock->epoch : "";
}

int mortise_version_number(void) {
  return MORTISE_VERSION_NUMBER;
}

const char *mortise_version(void) {
  return MORTISE_VERSION;
}
