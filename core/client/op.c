/* Operations of the interface in C: what was started and is told from the loop, and how a call waits for one. */
#include "base/mem.h"
#include "base/pump.h"
#include "client/handles.h"

/* ---- What may be called ---------------------------------------------------------------------- */

mortise_status mt_handle_null(const char *what, mortise_error *err) {
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the %s is NULL", what);
}

mortise_status mt_client_check(const mortise_client *c, bool waits, mortise_error *err) {
  mt_error_clear(err);
  if (!c) return mt_handle_null("client", err);
  mortise_status forked = mt_shared_check(c->shared, "the client", err);
  if (forked) return forked;
  if (c->ending) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client is being closed");
  return waits ? mt_shared_check_wait(c->shared, err) : MORTISE_OK;
}

mortise_status mt_handle_check_start(const mortise_client *c, mortise_error *err) {
  mortise_status status = mt_client_check(c, false, err);
  if (status || !c->alone) return status;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client has no loop that the program steps: mortise_options.loop");
}

/* ---- From its start to its end ---------------------------------------------------------------- */

void *mt_handle_op_new(mortise_client *c, const mt_handle_op_type *type, size_t size, mortise_done_fn *done, void *ctx,
                       mortise_error *err) {
  mortise_op *op = mt_calloc(1, size);
  if (!op) {
    mt_error_memory(err);
    return NULL;
  }
  op->type = type;
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

static void free_unlinked(mortise_op *op) {
  if (op->type->deinit) op->type->deinit(op);
  mt_free(op);
}

void mt_handle_op_free(mortise_op *op) {
  unlink_op(op);
  free_unlinked(op);
}

/* Of an unlinked one, whose client may be gone. */
static void tell_unlinked(mortise_op *op, const mortise_outcome *outcome) {
  static const mortise_blockers nobody;
  mortise_outcome whole = *outcome;
  if (!whole.blockers) whole.blockers = &nobody;
  if (op->done) op->done(op->ctx, &whole);
  free_unlinked(op);
}

void mt_handle_op_tell(mortise_op *op, const mortise_outcome *outcome) {
  unlink_op(op);
  tell_unlinked(op, outcome);
}

void mt_handle_op_fail(mortise_op *op, const mortise_error *error) {
  mt_handle_op_tell(op, &(mortise_outcome){.error = *error});
}

void mortise_op_cancel(mortise_op *op) {
  if (!op || mt_shared_check(op->client->shared, "the client", NULL)) return;
  op->type->take_back(op);
  mt_handle_op_free(op);
}

/* ---- The end of a client ----------------------------------------------------------------------- */

static void end_writers(mortise_client *c) {
  mortise_error error;
  mt_error_set(&error, MORTISE_INTERRUPTED, "the client was closed");
  for (mortise_lock *lock = c->locks; lock; lock = lock->next) mt_writer_handles_end(c, &lock->writers, &error);
  mt_writer_handles_end(c, &c->writers, &error);
}

static void tell_all(mortise_client *c) {
  mortise_error error;
  mt_error_set(&error, MORTISE_INTERRUPTED, "the client was closed");
  mortise_op **link = &c->ops;
  while (*link) {
    mortise_op *op = *link;
    if (op == c->end_op) { /* it is told last */
      link = &op->next;
      continue;
    }
    op->type->take_back(op);
    mt_handle_op_fail(op, &error);
    link = &c->ops; /* what was called may have cancelled others */
  }
}

void mt_client_end_ops(mortise_client *c) {
  tell_all(c);
  mt_scan_handles_free(&c->scans);
  mt_writer_handles_free(&c->writers);
  mt_lock_handles_free(&c->locks);
}

static void forget_end(mortise_op *op) {
  op->client->end_op = NULL;
}

static const mt_handle_op_type ending = {.take_back = forget_end};

static void end_in_a_step(void *ctx) {
  mortise_client *c = ctx;
  mt_client_end_ops(c);
  mortise_op *op = c->end_op;
  if (op) unlink_op(op);
  c->end_op = NULL;
  mt_client_free(c);
  if (op) tell_unlinked(op, &(mortise_outcome){.lock = NULL});
}

static void post_end(mortise_client *c, void (*run)(void *ctx)) {
  c->end = (mt_post){.run = run, .ctx = c};
  mt_loop_post(c->loop, &c->end);
}

static void client_closed(void *ctx) {
  post_end(ctx, end_in_a_step);
}

/* Writers first, whose locks go. */
static void close_with_writers(mortise_client *c, void (*done)(void *ctx), void *ctx) {
  end_writers(c);
  mt_client_close(c, done, ctx);
}

/* In a step, because it tells what is under way that it is over. */
static void close_in_a_step(void *ctx) {
  close_with_writers(ctx, client_closed, ctx);
}

void mt_client_end(mortise_client *c) {
  if (c->ending) return;
  c->ending = true;
  post_end(c, close_in_a_step);
}

mortise_op *mortise_client_close_start(mortise_client *c, mortise_done_fn *done, void *ctx, mortise_error *err) {
  if (mt_handle_check_start(c, err)) return NULL;
  c->end_op = mt_handle_op_new(c, &ending, sizeof *c->end_op, done, ctx, err);
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
  close_with_writers(c, mt_flag_set, &over);
  mt_loop_pump(c->loop, &over, -1, NULL);
  mt_client_free(c);
}

/* ---- Calls that wait ----------------------------------------------------------------------------- */

void mt_waited_keep(void *ctx, const mortise_outcome *outcome) {
  mt_waited *w = ctx;
  w->over = true;
  w->outcome = *outcome;
  if (w->blockers) *w->blockers = *outcome->blockers;
}

mortise_status mt_waited_for(mortise_client *c, mortise_op *op, mt_waited *w, mortise_error *err) {
  if (!op) return err ? err->code : MORTISE_INVALID_ARGUMENT;
  mortise_error *error = &w->outcome.error;
  if (mt_loop_pump(c->loop, &w->over, -1, error)) mortise_op_cancel(op);
  if (err) *err = *error;
  return error->code;
}
