#include "job/outside.h"

#include <stdio.h>

enum { OUTSIDE_TRIES = 14 /* a store may be without an answer for half a minute */ };

/* ---- Its end -------------------------------------------------------------------------------- */

static void free_rooms(mt_outside *o) {
  mt_writer_free(o->records);
  o->records = NULL;
  mt_claim_deinit(&o->claim);
  mt_steering_deinit(&o->steering);
  mt_keeper_deinit(&o->keeper);
  o->started = false;
}

static void keep_outside_error(mt_outside *o, const mortise_error *e) {
  if (!o->error.code) o->error = *e;
}

static void end_outside(mt_outside *o) {
  free_rooms(o);
  o->finished = true;
  o->done(o->ctx, o);
}

/* If the last write failed, the state is still the one of the write before. */
static void on_outside_written(void *ctx) {
  mt_outside *o = ctx;
  if (o->keeper.outcome != MT_OUTCOME_APPLIED) o->record.state = o->stood;
  keep_outside_error(o, &o->keeper.error);
  end_outside(o);
}

/* If the lock is lost, another process has the job or will take it, so this one must not write its document. */
void mt_outside_finish(mt_outside *o, mt_job_state state, const mortise_error *why) {
  mortise_error lost;
  if (!o->started || o->ending) return;
  if (why) keep_outside_error(o, why);
  o->ending = true;
  o->kept = NULL;
  mt_keeper_rest(&o->keeper);
  o->record.waits[0] = '\0';
  o->stood = o->record.state;
  o->record.state = state;
  snprintf(o->record.reason, sizeof o->record.reason, "%s", o->error.code ? o->error.message : "");
  if (o->permit->check(o->permit->lock, &lost) || o->error.code == MORTISE_LOCK_LOST) {
    o->record.state = o->stood;
    end_outside(o);
  } else {
    mt_keeper_write(&o->keeper, on_outside_written, o);
  }
}

void mt_outside_abandon(mt_outside *o) {
  if (o->started) free_rooms(o);
}

void mt_outside_deinit(mt_outside *o) {
  mt_job_record_deinit(&o->record);
}

/* ---- While the caller works ------------------------------------------------------------------ */

mortise_status mt_outside_stop(mt_outside *o, mortise_error *err) {
  mortise_error lost;
  if (!o->error.code && o->permit->check(o->permit->lock, &lost)) keep_outside_error(o, &lost);
  *err = o->error;
  return err->code;
}

void mt_outside_cancel(mt_outside *o, const mortise_error *why) {
  if (o->started && !o->ending) keep_outside_error(o, why);
}

const char *mt_outside_paused(const mt_outside *o) {
  if (o->steering.now.paused) return o->steering.now.by;
  return *o->why ? o->why : NULL;
}

void mt_outside_pause(mt_outside *o, const char *why) {
  snprintf(o->why, sizeof o->why, "%s", why ? *why ? why : "it is paused" : "");
}

mortise_status mt_outside_note(mt_outside *o, mt_slice work, mortise_error *err) {
  mt_buf_clear(&o->record.work);
  mt_buf_addslice(&o->record.work, work);
  return mt_buf_status(&o->record.work, "how far a job is", err);
}

void mt_outside_keep(mt_outside *o, void (*kept)(void *ctx, mt_outside *o)) {
  o->kept = kept;
  mt_keeper_checkpoint(&o->keeper);
}

static void on_outside_orders(void *ctx, const mt_control *orders) {
  mt_outside *o = ctx;
  mortise_error err;
  o->record.orders = orders->n;
  o->limits = orders->limits;
  if (!orders->cancelled) return;
  mt_error_set(&err, MORTISE_INTERRUPTED, "the job was cancelled by %s", orders->by);
  keep_outside_error(o, &err);
}

static void on_outside_note(void *ctx) {
  mt_outside *o = ctx;
  mt_job_record *r = &o->record;
  const char *paused = mt_outside_paused(o);
  mt_steering_look(&o->steering);
  if (o->steering.now.n) r->orders = o->steering.now.n;
  if (o->steering.now.paused)
    snprintf(r->waits, sizeof r->waits, "paused by %s", paused);
  else if (paused)
    snprintf(r->waits, sizeof r->waits, "%s", paused);
  r->speed = mt_tally_speed(&o->speed, o->env->now_ms(o->env->ctx), r->counts.matched);
}

static void on_outside_kept(void *ctx) {
  mt_outside *o = ctx;
  void (*kept)(void *, mt_outside *) = o->kept;
  o->kept = NULL;
  keep_outside_error(o, &o->keeper.error);
  if (kept) kept(o->ctx, o);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static void begin_outside(void *ctx) {
  mt_outside *o = ctx;
  keep_outside_error(o, &o->keeper.error);
  if (o->error.code) {
    end_outside(o);
    return;
  }
  o->is_ready = true;
  mt_keeper_tick(&o->keeper);
  o->ready(o->ctx, o);
}

/* It was cancelled while it was claimed. */
static void leave_outside(mt_outside *o) {
  bool began = mt_job_record_began(&o->record);
  mt_outside_finish(o, o->verb == MT_JOB_UNDO ? MT_JOB_UNDOING : began ? MT_JOB_STOPPED : MT_JOB_UNDONE, NULL);
}

static void on_outside_claimed(void *ctx, mt_claim *c) {
  mt_outside *o = ctx;
  bool cancelled = o->error.code != MORTISE_OK;
  keep_outside_error(o, &c->error);
  if (c->error.code || c->over)
    end_outside(o);
  else if (cancelled)
    leave_outside(o);
  else if (o->verb == MT_JOB_RESUME && mt_job_record_attempt(&o->record, &o->error))
    end_outside(o);
  else if (o->verb == MT_JOB_RESUME)
    mt_keeper_write(&o->keeper, begin_outside, o);
  else
    begin_outside(o);
}

static void set_up_outside(mt_outside *o) {
  o->steering = (mt_steering){.store = o->store,
                              .table = o->table,
                              .ns = o->ns,
                              .job = o->id,
                              .session = o->permit->session->id,
                              .changed = on_outside_orders,
                              .ctx = o};
  o->keeper = (mt_keeper){.note = on_outside_note,
                          .kept = on_outside_kept,
                          .ctx = o,
                          .store = o->store,
                          .permit = o->permit,
                          .table = o->table,
                          .ns = o->ns,
                          .job = o->id,
                          .record = &o->record,
                          .wall_ms = o->wall_ms,
                          .every_ms = o->checkpoint_ms};
  o->claim = (mt_claim){.done = on_outside_claimed,
                        .ctx = o,
                        .verb = o->verb,
                        .standing = o->standing,
                        .spec = o->spec,
                        .keeper = &o->keeper,
                        .steering = &o->steering,
                        .of = {o->store, o->table, o->ns, o->id},
                        .outside = true};
}

mortise_status mt_outside_start(mt_outside *o, mortise_error *err) {
  mt_writer_config one = {.tries = OUTSIDE_TRIES,
                          .patience_ms = o->patience_ms,
                          .auth_ends = true,
                          .docs = 1,
                          .in_flight = 1};
  mt_job_record_init(&o->record);
  mt_error_clear(&o->error);
  mortise_status status = mt_job_check_id(mt_slice_of(o->id), err);
  if (status) return status;
  snprintf(o->record.ns, sizeof o->record.ns, "%s", o->ns);
  snprintf(o->record.id, sizeof o->record.id, "%s", o->id);
  set_up_outside(o);
  status = mt_keeper_init(&o->keeper, err);
  if (!status) o->records = mt_writer_new(o->store, o->env, o->permit, &one, err);
  if (status || !o->records) {
    mt_keeper_deinit(&o->keeper);
    return err->code;
  }
  o->keeper.writer = o->claim.journal = o->claim.documents = o->records;
  o->started = true;
  mt_claim_start(&o->claim);
  return MORTISE_OK;
}
