/* The interface for programs in C: what is started and told from the loop, and upon that the calls that wait. */
#include "base/mem.h"
#include "base/pump.h"
#include "client/client.h"
#include "client/options.h"
#include "job/record.h"

struct mortise_lock {
  mortise_client *client;
  mt_lock *lock;               /* the manager's */
  mortise_lock *before, *next; /* of the client */
  void (*lost)(void *ctx, mortise_lock *lock); /* NULL: nobody asks, or it was told */
  void *lost_ctx;
  size_t conversions; /* operations of the client that have it as their `lock` */
  char epoch[sizeof(mt_epoch)];
};

typedef enum mt_op_kind { MT_OP_ACQUIRE, MT_OP_CONVERT, MT_OP_RELEASE, MT_OP_END } mt_op_kind;

struct mortise_op {
  mt_op_kind kind;
  mortise_client *client;
  mortise_done_fn *done;
  void *ctx;
  union {
    mt_acquire acquire;
    mt_convert convert;
    mt_release release;
  } of;
  mortise_lock *lock;        /* an acquisition's, to be filled, owned; a conversion's; NULL: it was released meanwhile */
  mortise_op *before, *next; /* of the client */
  mortise_blockers blockers; /* of an acquisition or a conversion; others end before it */
};

/* ---- What may be called ---------------------------------------------------------------------- */

static mortise_status is_null(const char *what, mortise_error *err) {
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the %s is NULL", what);
}

mortise_status mt_client_check(const mortise_client *c, bool waits, mortise_error *err) {
  mt_error_clear(err);
  if (!c) return is_null("client", err);
  mortise_status forked = mt_shared_check(c->shared, "the client", err);
  if (forked) return forked;
  if (c->ending) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client is being closed");
  return waits ? mt_shared_check_wait(c->shared, err) : MORTISE_OK;
}

/* Only a loop that the program steps can tell it. */
static mortise_status check_start(const mortise_client *c, mortise_error *err) {
  mortise_status status = mt_client_check(c, false, err);
  if (status || !c->alone) return status;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client has no loop that the program steps: mortise_options.loop");
}

/* ---- Handles ---------------------------------------------------------------------------------- */

static void link_lock(mortise_lock *lock) {
  mortise_client *c = lock->client;
  lock->next = c->locks;
  if (lock->next) lock->next->before = lock;
  c->locks = lock;
}

static void free_lock(mortise_lock *lock) {
  if (lock->next) lock->next->before = lock->before;
  *(lock->before ? &lock->before->next : &lock->client->locks) = lock->next;
  mt_free(lock);
}

/* Only it has room for them. */
static bool has_blockers(mt_op_kind kind) {
  return kind == MT_OP_ACQUIRE || kind == MT_OP_CONVERT;
}

static mortise_op *new_op(mortise_client *c, mt_op_kind kind, mortise_done_fn *done, void *ctx, mortise_error *err) {
  mortise_op *op = mt_calloc(1, has_blockers(kind) ? sizeof *op : offsetof(mortise_op, blockers));
  if (!op) {
    mt_error_memory(err);
    return NULL;
  }
  op->kind = kind;
  op->client = c;
  op->done = done;
  op->ctx = ctx;
  op->next = c->ops;
  if (op->next) op->next->before = op;
  c->ops = op;
  return op;
}

static void unlink_op(mortise_op *op) {
  if (op->next) op->next->before = op->before;
  *(op->before ? &op->before->next : &op->client->ops) = op->next;
}

static void free_op(mortise_op *op) {
  unlink_op(op);
  mt_free(op);
}

/* Of an unlinked operation that is over: tells its outcome, in which `lock` may be NULL, and frees it. */
static void tell_unlinked(mortise_op *op, const mortise_error *error, mortise_lock *lock) {
  static const mortise_blockers nobody;
  const mortise_outcome outcome = {
      .error = *error, .lock = lock, .blockers = has_blockers(op->kind) ? &op->blockers : &nobody};
  if (op->done) op->done(op->ctx, &outcome);
  mt_free(op);
}

static void tell(mortise_op *op, const mortise_error *error, mortise_lock *lock) {
  unlink_op(op);
  tell_unlinked(op, error, lock);
}

/* ---- Acquiring -------------------------------------------------------------------------------- */

static void acquisition_over(void *ctx, mt_acquire *a) {
  mortise_op *op = ctx;
  mortise_lock *lock = op->lock;
  if (a->lock) {
    lock->lock = a->lock;
    const mt_epoch epoch = mt_manager_epoch(mt_lock_manager(a->lock));
    memcpy(lock->epoch, epoch.id, sizeof lock->epoch);
    link_lock(lock);
  } else {
    mt_free(lock);
    lock = NULL;
  }
  tell(op, &a->error, lock);
}

static mortise_op *new_acquisition(mortise_client *c, mortise_done_fn *done, void *ctx, mortise_error *err) {
  mortise_op *op = new_op(c, MT_OP_ACQUIRE, done, ctx, err);
  if (!op) return NULL;
  op->lock = mt_calloc(1, sizeof *op->lock);
  if (op->lock) {
    op->lock->client = c;
    return op;
  }
  mt_error_memory(err);
  free_op(op);
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
  mortise_op *op = new_acquisition(c, done, ctx, err);
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
  return op;
}

mortise_op *mortise_lock_acquire_start(mortise_client *c, const mortise_lock_request *request, mortise_done_fn *done,
                                       void *ctx, mortise_error *err) {
  if (check_start(c, err)) return NULL;
  if (done) return begin_acquisition(c, request, false, done, ctx, err);
  is_null("function `done`, which gets the lock,", err);
  return NULL;
}

/* ---- Converting ------------------------------------------------------------------------------- */

static void conversion_over(void *ctx, mt_convert *c) {
  mortise_op *op = ctx;
  if (op->lock) op->lock->conversions--;
  tell(op, &c->error, op->lock);
}

static mortise_op *begin_mode_change(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms, bool waits,
                                 mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (mt_wants_check(mode, wait_ms, err)) return NULL;
  mortise_op *op = new_op(lock->client, MT_OP_CONVERT, done, ctx, err);
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
  return op;
}

mortise_op *mortise_lock_convert_start(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms,
                                       mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (!lock) {
    is_null("lock", err);
    return NULL;
  }
  return check_start(lock->client, err) ? NULL : begin_mode_change(lock, mode, wait_ms, false, done, ctx, err);
}

/* ---- Releasing -------------------------------------------------------------------------------- */

static void release_over(void *ctx, mt_release *r) {
  mortise_op *op = ctx;
  tell(op, &r->error, NULL);
}

/* The handle is gone at once, also for conversions of it, which end with LOCK_LOST. */
static void drop_handle(mortise_lock *lock) {
  for (mortise_op *op = lock->client->ops; op && lock->conversions; op = op->next) {
    if (op->kind != MT_OP_CONVERT || op->lock != lock) continue;
    op->lock = NULL;
    lock->conversions--;
  }
  free_lock(lock);
}

static mortise_op *begin_release(mortise_lock *lock, mortise_done_fn *done, void *ctx, mortise_error *err) {
  mortise_op *op = new_op(lock->client, MT_OP_RELEASE, done, ctx, err);
  if (!op) return NULL;
  op->of.release = (mt_release){.done = release_over, .ctx = op, .lock = lock->lock};
  mt_manager_release(mt_lock_manager(lock->lock), &op->of.release);
  drop_handle(lock);
  return op;
}

mortise_op *mortise_lock_release_start(mortise_lock *lock, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (!lock) {
    is_null("lock", err);
    return NULL;
  }
  return check_start(lock->client, err) ? NULL : begin_release(lock, done, ctx, err);
}

/* ---- Ending what was started ------------------------------------------------------------------- */

/* Takes it back from whoever carries it out. */
static void take_back(mortise_op *op) {
  mt_manager *m = op->client->own ? op->client->own->manager : NULL;
  switch (op->kind) {
  case MT_OP_ACQUIRE:
    mt_manager_cancel(m, &op->of.acquire);
    mt_free(op->lock);
    op->lock = NULL;
    break;
  case MT_OP_CONVERT:
    mt_manager_convert_cancel(m, &op->of.convert);
    if (op->lock) op->lock->conversions--;
    break;
  case MT_OP_RELEASE:
    mt_manager_release_forget(m, &op->of.release);
    break;
  case MT_OP_END:
    op->client->end_op = NULL;
    break;
  }
}

void mortise_op_cancel(mortise_op *op) {
  if (!op || mt_shared_check(op->client->shared, "the client", NULL)) return;
  take_back(op);
  free_op(op);
}

void mt_client_end_ops(mortise_client *c) {
  mortise_error error;
  mt_error_set(&error, MORTISE_INTERRUPTED, "the client was closed");
  mortise_op **link = &c->ops;
  while (*link) {
    mortise_op *op = *link;
    if (op == c->end_op) { /* it is told last */
      link = &op->next;
      continue;
    }
    take_back(op);
    tell(op, &error, NULL);
    link = &c->ops; /* what was called may have cancelled others */
  }
  while (c->locks) free_lock(c->locks);
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
  if (!lock) return is_null("lock", err);
  mortise_status status = check_start(lock->client, err);
  if (status) return status;
  lock->lost = lost;
  lock->lost_ctx = ctx;
  mt_loop_post(lock->client->loop, &lock->client->lost); /* it may be lost already */
  return MORTISE_OK;
}

/* ---- Opening and closing ------------------------------------------------------------------------ */

static void end_in_a_step(void *ctx) {
  mortise_client *c = ctx;
  mt_client_end_ops(c);
  mortise_op *op = c->end_op;
  if (op) unlink_op(op);
  c->end_op = NULL;
  mt_client_free(c);
  static const mortise_error none;
  if (op) tell_unlinked(op, &none, NULL);
}

static void post_end(mortise_client *c, void (*run)(void *ctx)) {
  c->end = (mt_post){.run = run, .ctx = c};
  mt_loop_post(c->loop, &c->end);
}

static void client_closed(void *ctx) {
  post_end(ctx, end_in_a_step);
}

/* In a step, because it tells what is under way that it is over. */
static void close_in_a_step(void *ctx) {
  mt_client_close(ctx, client_closed, ctx);
}

mortise_client *mortise_client_open(const mortise_options *options, mortise_error *err) {
  mortise_options taken;
  return mt_client_options_take(&taken, options, err) ? NULL : mt_client_open(&taken, NULL, NULL, err);
}

void mt_client_end(mortise_client *c) {
  if (c->ending) return;
  c->ending = true;
  post_end(c, close_in_a_step);
}

mortise_op *mortise_client_close_start(mortise_client *c, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (check_start(c, err)) return NULL;
  c->end_op = new_op(c, MT_OP_END, done, ctx, err);
  if (c->end_op) mt_client_end(c);
  return c->end_op;
}

void mortise_client_free(mortise_client *c) {
  if (!c || mt_shared_check(c->shared, "the client", NULL) || c->ending) return;
  if (mt_shared_busy(c->shared)) {
    mt_client_end(c);
    return;
  }
  bool over = false;
  c->ending = true;
  mt_client_close(c, mt_flag_set, &over);
  mt_loop_pump(c->loop, &over, -1, NULL);
  mt_client_free(c);
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

typedef struct waited {
  bool over;
  mortise_error error;
  mortise_lock *lock;
  mortise_blockers *blockers; /* the caller's, or NULL */
} waited;

static void keep_outcome(void *ctx, const mortise_outcome *outcome) {
  waited *w = ctx;
  w->over = true;
  w->error = outcome->error;
  w->lock = outcome->lock;
  if (w->blockers) *w->blockers = *outcome->blockers;
}

/* Of a NULL op, `err` has the error already. */
static mortise_status wait_for_op(mortise_client *c, mortise_op *op, waited *w, mortise_error *err) {
  if (!op) return err ? err->code : MORTISE_INVALID_ARGUMENT;
  if (mt_loop_pump(c->loop, &w->over, -1, &w->error)) mortise_op_cancel(op);
  if (err) *err = w->error;
  return w->error.code;
}

mortise_lock *mortise_lock_acquire(mortise_client *c, const mortise_lock_request *request,
                                   mortise_blockers *blockers, mortise_error *err) {
  waited w = {.blockers = blockers};
  if (blockers) *blockers = (mortise_blockers){0};
  if (mt_client_check(c, true, err)) return NULL;
  wait_for_op(c, begin_acquisition(c, request, true, keep_outcome, &w, err), &w, err);
  return w.lock;
}

mortise_status mortise_lock_convert(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms,
                                    mortise_blockers *blockers, mortise_error *err) {
  waited w = {.blockers = blockers};
  mortise_error ours;
  if (!err) err = &ours;
  if (blockers) *blockers = (mortise_blockers){0};
  if (!lock) return is_null("lock", err);
  mortise_client *c = lock->client;
  mortise_status bad = mt_client_check(c, true, err);
  if (bad) return bad;
  return wait_for_op(c, begin_mode_change(lock, mode, wait_ms, true, keep_outcome, &w, err), &w, err);
}

/* Releases it with no memory, or in a callback: nobody waits for the store's acknowledgement. */
static mortise_status release_unheard(mortise_lock *lock, mortise_error *err) {
  mortise_status status = mt_lock_check(lock->lock, err);
  mt_release r = {.lock = lock->lock};
  mt_manager *m = mt_lock_manager(lock->lock);
  mt_manager_release(m, &r);
  mt_manager_release_forget(m, &r);
  drop_handle(lock);
  return status;
}

mortise_status mortise_lock_release(mortise_lock *lock, mortise_error *err) {
  waited w = {0};
  mortise_error ours;
  if (!err) err = &ours;
  mt_error_clear(err);
  if (!lock) return MORTISE_OK;
  mortise_client *c = lock->client;
  if (mt_shared_check(c->shared, "the client", NULL)) return mt_lock_check(lock->lock, err);
  if (c->ending || mt_shared_busy(c->shared)) return release_unheard(lock, err);
  mortise_op *op = begin_release(lock, keep_outcome, &w, err);
  return op ? wait_for_op(c, op, &w, err) : release_unheard(lock, err);
}

/* ---- What a lock says ----------------------------------------------------------------------------- */

mortise_status mortise_lock_check(const mortise_lock *lock, mortise_error *err) {
  return lock ? mt_lock_check(lock->lock, err) : is_null("lock", err);
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
