#include "job/job.h"

#include "base/mem.h"
#include "base/pump.h"
#include "job/control.h"
#include "job/keeper.h"
#include "job/known.h"
#include "job/revert.h"
#include "job/strategy.h"
#include "job/tally.h"
#include "job/undo.h"
#include "job/unit.h"

#include <inttypes.h>
#include <stdio.h>

/* A store may be without an answer for half a minute. */
enum { TRIES = 14 };

/* CLAIMING -> CHANGING -> ENDING, or CLAIMING -> UNDOING -> (REVERTING ->) ENDING; each may be left for ENDING. */
typedef enum job_phase {
  JOB_CLAIMING, /* also while the attempt's first document is written */
  JOB_CHANGING,
  JOB_UNDOING,   /* by the journal */
  JOB_REVERTING, /* by the opposite change */
  JOB_ENDING,    /* only the job's document is still to be written */
} job_phase;

/* What the change waits for before its first write. */
typedef enum job_hold {
  JOB_HELD_BY_NOTHING,
  JOB_CHOOSING,   /* until it is decided who makes it */
  JOB_ANNOUNCING, /* then, until the job's document says how it is undone */
} job_hold;

typedef struct job_op {
  mt_job *j;
  job_phase phase;
  mt_writer *records, *batches, *restores;
  mt_journal_of of;
  mt_unit_journal journal;
  mt_keeper keeper;
  mt_claim claim;
  mt_tally noted;
  mt_launch launch;
  mt_undo undo;
  mt_revert revert;
  /* the callback that the change had */
  mortise_status (*counted)(mt_change *c, mortise_error *err);
  mt_steering steering;
  mt_job_state stood; /* the state before the last write */
  bool paused;
  char why[MT_JOB_WAITS_MAX]; /* it is paused */
  bool may_invert;            /* this attempt is the first one, and the opposite change can undo it */
  bool inverse_now;           /* and is to: nothing is journaled that it restores */
  bool was_loose;             /* `loose` before this attempt */
  job_hold hold;
} job_op;

static void stop_work(job_op *o);
static void hold_or_go_on(job_op *o);

/* ---- Ending --------------------------------------------------------------------------------- */

static void free_job_op(job_op *o) {
  mt_writer_free(o->records);
  mt_writer_free(o->batches);
  if (o->phase == JOB_CHANGING) mt_change_abandon(o->j->change);
  mt_launch_deinit(&o->launch);
  mt_revert_abandon(&o->revert);
  mt_writer_free(o->restores);
  mt_undo_deinit(&o->undo);
  mt_claim_deinit(&o->claim);
  mt_steering_deinit(&o->steering);
  mt_keeper_deinit(&o->keeper);
  mt_free(o);
}

static void finish_job(job_op *o) {
  mt_job *j = o->j;
  j->op = NULL;
  free_job_op(o);
  MT_FINISH(j);
}

static void keep_error(job_op *o, const mortise_error *e) {
  if (!o->j->error.code) o->j->error = *e;
}

/* `e` may be no error. */
static void fail_job(job_op *o, const mortise_error *e) {
  keep_error(o, e);
  finish_job(o);
}

/* ---- The end -------------------------------------------------------------------------------- */

/* If the last write failed, the state is still the one of the write before. */
static void on_last_record(void *ctx) {
  job_op *o = ctx;
  if (o->keeper.outcome != MT_OUTCOME_APPLIED) o->j->record.state = o->stood;
  fail_job(o, &o->keeper.error);
}

/* If the lock is lost, another process has the job or will take it, so this one must not write its document. */
static void end_as(job_op *o, mt_job_state state) {
  mt_job *j = o->j;
  mortise_error lost;
  o->phase = JOB_ENDING;
  mt_keeper_rest(&o->keeper);
  j->record.waits[0] = '\0';
  if (j->record.state != state) o->stood = j->record.state;
  j->record.state = state;
  bool accepts = j->verb == MT_JOB_ACCEPT && state == MT_JOB_DONE;
  snprintf(j->record.reason, sizeof j->record.reason, "%s",
           j->error.code ? j->error.message : accepts ? j->accepted : "");
  if (j->permit->check(j->permit->lock, &lost) || j->error.code == MORTISE_LOCK_LOST)
    finish_job(o);
  else
    mt_keeper_write(&o->keeper, on_last_record, o);
}

/* Called after the job's document was written. True if that failed or the job was cancelled: then the job ends. */
static bool may_not_begin(job_op *o, mt_job_state as) {
  keep_error(o, &o->keeper.error);
  if (!o->j->error.code) return false;
  if (o->keeper.outcome == MT_OUTCOME_APPLIED)
    end_as(o, as);
  else
    finish_job(o);
  return true;
}

/* ---- Checkpoints ---------------------------------------------------------------------------- */

static void note_progress(job_op *o) {
  mt_job *j = o->j;
  mt_tally_note(&o->noted, &j->record, j->change, &o->journal, j->env->now_ms(j->env->ctx));
}

/* Who paused it; or why the store lets it do nothing. */
static void note_waits(job_op *o) {
  const mt_control *orders = &o->steering.now;
  mt_job_record *r = &o->j->record;
  bool reverts = o->phase == JOB_REVERTING;
  const mt_change *c = o->phase == JOB_CHANGING ? o->j->change : NULL;
  const char *store = reverts ? mt_revert_waits(&o->revert) : c ? mt_change_waits(c) : NULL;
  if (!store) store = mt_writer_waits(o->restores);
  if (!store) store = mt_writer_waits(o->batches);
  if (!store) store = mt_writer_waits(o->records);
  if (orders->paused)
    snprintf(r->waits, sizeof r->waits, "paused by %s", orders->by);
  else if (o->paused || !store)
    snprintf(r->waits, sizeof r->waits, "%s", o->why);
  else
    snprintf(r->waits, sizeof r->waits, "waits for the store: %.200s", store);
}

static void on_note(void *ctx) {
  job_op *o = ctx;
  note_waits(o);
  mt_steering_look(&o->steering);
  /* They may have been read before the record was, where the job was taken over in a race. */
  if (o->steering.now.n) o->j->record.orders = o->steering.now.n;
  if (o->phase == JOB_CHANGING) {
    note_progress(o);
    mt_launch_note(&o->launch);
  }
  if (o->phase == JOB_REVERTING) o->j->record.loose = o->revert.loose;
}

/* If another process has written the job's document, the job is no longer ours and the work ends. */
static void on_kept(void *ctx) {
  job_op *o = ctx;
  keep_error(o, &o->keeper.error);
  if (o->j->error.code) {
    mt_keeper_rest(&o->keeper);
    stop_work(o);
  } else {
    if (o->hold == JOB_ANNOUNCING) o->hold = JOB_HELD_BY_NOTHING;
    hold_or_go_on(o); /* this may end the job */
  }
}

/* The change is held until the job's document says how it is undone. */
static void announce(void *ctx) {
  job_op *o = ctx;
  o->hold = JOB_ANNOUNCING;
  hold_or_go_on(o);
  mt_keeper_checkpoint(&o->keeper);
}

/* ---- Changing ------------------------------------------------------------------------------- */

/* The change knows nothing of them. */
static void add_unsure(job_op *o) {
  mortise_error err;
  uint64_t n = o->j->record.counts.unsure;
  if (!n) return;
  o->j->result.conflicts += n;
  o->j->result.matched += n;
  mt_error_set(&err, MORTISE_CONFLICT,
               "%" PRIu64
               " documents that were being written when the job's process ended have been changed "
               "by others since, and nobody can tell whether the job had changed them before: they "
               "stay as they are (`jobs show %s --conflicts` lists them)",
               n, o->j->id);
  keep_error(o, &err);
}

/* `failed`: whatever the change says. Where more was set aside than may be, somebody has to decide. */
static mt_job_state end_of_change(job_op *o, const mt_change *c, bool failed, bool nothing) {
  mt_job_record *r = &o->j->record;
  uint64_t aside = r->counts.conflicts + r->counts.rejected;
  bool is_short = c->end == MT_CHANGE_SHORT;
  failed |= c->error.code && c->end == MT_CHANGE_CUT_OFF;
  if (!failed && !aside) return MT_JOB_DONE;
  if (nothing) return MT_JOB_UNDONE;
  if (failed) return MT_JOB_STOPPED;
  if (!is_short && !mt_bound_exceeded(&c->bound, aside, c->result.matched + c->beyond))
    return MT_JOB_DONE;
  snprintf(r->halted, sizeof r->halted, "%s", is_short ? "short" : "whole");
  return MT_JOB_STOPPED;
}

static void on_changed(void *ctx, mt_change *c) {
  job_op *o = ctx;
  mt_job *j = o->j;
  mt_job_record *r = &j->record;
  o->phase = JOB_ENDING;
  note_progress(o);
  c->counted = o->counted;
  j->began |= o->journal.next > 0 || mt_change_applied(c);
  r->counts.conflicts = c->result.conflicts + r->counts.unsure;
  r->counts.rejected = c->result.rejected;
  mt_job_mark(r->aside, r->attempts, c->result.looks);
  mt_job_balance(r, c->matches_on && (!c->error.code || c->end == MT_CHANGE_WHOLE));
  j->result = c->result;
  bool failed = j->error.code != MORTISE_OK;
  if (c->error.code) keep_error(o, &c->error);
  if (o->inverse_now && !mt_change_applied(c)) r->inverse = false;
  bool unsure = mt_launch_end(&o->launch) || o->was_loose || c->result.unknown;
  r->loose = r->inverse && j->error.code && unsure;
  add_unsure(o);
  bool nothing = !mt_job_record_began(r) && !o->journal.next; /* then there is nothing to undo */
  end_as(o, end_of_change(o, c, failed, nothing));
}

/* It is known who makes the change: the store keeps no journal. Any other keeps one, unless it is asked not to. */
static void on_decided(void *ctx) {
  job_op *o = ctx;
  mt_job_record *r = &o->j->record;
  o->inverse_now = o->may_invert && (o->j->unlisted || o->j->change->sweeps);
  r->inverse |= o->inverse_now;
  r->loose |= r->inverse;
  o->journal.only_inexact = r->inverse;
  if (r->inverse) {
    announce(o);
  } else {
    o->hold = JOB_HELD_BY_NOTHING;
    hold_or_go_on(o);
  }
}

/* Before the first write the job's document must say whether the opposite change undoes this one, and how many documents
 * match, because nobody could find it out afterwards. An earlier attempt may have said it already. */
static mortise_status on_change_counted(mt_change *c, mortise_error *err) {
  job_op *o = c->ctx;
  mt_job_record *r = &o->j->record;
  uint64_t matched = c->result.matched;
  mortise_status status = o->counted ? o->counted(c, err) : MORTISE_OK;
  if (status) return status;
  o->j->counted = true;
  o->may_invert = !o->j->began && c->reversible && o->j->inverse.apply && matched;
  o->launch.invertible = r->inverse || o->may_invert;
  bool chooses = o->launch.invertible && matched;
  bool must_say = o->may_invert || (c->matches_on && matched > r->total);
  if (must_say || !r->total) r->total = matched;
  if (r->inverse) {
    mt_job_count_earlier(r, matched);
    c->beyond = r->counts.changed;
  }
  if (chooses) {
    o->hold = JOB_CHOOSING;
    hold_or_go_on(o);
  }
  status = mt_launch_decide(&o->launch, err);
  if (!status && !chooses && must_say) announce(o);
  return status;
}

static void on_change_progress(void *ctx, mt_change *c, uint64_t changed, uint64_t total) {
  mt_job *j = ((job_op *)ctx)->j;
  (void)c;
  j->progress(j->ctx, j, changed, total);
}

static void start_change(void *ctx) {
  job_op *o = ctx;
  mt_job *j = o->j;
  mt_change *c = j->change;
  mortise_error err;
  if (may_not_begin(o, MT_JOB_STOPPED)) return;
  o->journal = (mt_unit_journal){.writer = o->batches,
                                 .index = j->table,
                                 .ns = j->ns,
                                 .job = j->id,
                                 .attempt = j->record.attempts,
                                 .lister = o->records,
                                 .inverse = j->inverse};
  c->done = on_changed;
  c->ctx = o;
  c->progress = j->progress ? on_change_progress : NULL;
  c->journal = &o->journal;
  o->counted = c->counted;
  c->counted = on_change_counted;
  c->bound = j->bound;
  c->beyond = c->matches_on || c->known ? 0 : j->record.counts.matched;
  if (c->known) c->known->of = o->of;
  if (c->known) c->known->record = &j->record;
  o->launch = (mt_launch){.decided = on_decided,
                          .ctx = o,
                          .asked = j->strategy,
                          .list = j->inverse.apply ? j->list : NULL,
                          .table = j->table,
                          .change = c,
                          .record = &j->record};
  if (mt_launch_ready(&o->launch, &err) || mt_change_start(c, &err)) {
    c->counted = o->counted;
    keep_error(o, &err);
    end_as(o, MT_JOB_STOPPED);
    return;
  }
  o->phase = JOB_CHANGING;
  mt_change_limit(c, j->limits);
  hold_or_go_on(o);
  mt_keeper_tick(&o->keeper);
}

/* ---- Undoing -------------------------------------------------------------------------------- */

static void end_undo(job_op *o, bool whole) {
  mt_job *j = o->j;
  if (!j->error.code && j->result.conflicts + j->result.rejected)
    mt_error_set(&j->error, j->result.rejected ? MORTISE_REJECTED : MORTISE_CONFLICT,
                 "%" PRIu64 " documents were changed by others since and stay as they are; %" PRIu64
                 " could not be written",
                 j->result.conflicts, j->result.rejected);
  end_as(o, whole ? MT_JOB_UNDONE : MT_JOB_UNDOING);
}

/* It has also run to its end if some documents could not be changed back. */
static void on_reverted(void *ctx, mt_revert *v) {
  job_op *o = ctx;
  mt_job *j = o->j;
  bool whole = !v->error.code || j->result.conflicts + j->result.rejected;
  if (!whole) keep_error(o, &v->error);
  j->record.loose = v->loose;
  j->record.counts.restored += v->back->result.changed;
  end_undo(o, whole && !j->error.code);
}

static void start_revert(job_op *o) {
  mt_job *j = o->j;
  mortise_error err;
  if (!j->touch || !j->back) {
    mt_error_set(&err, MORTISE_UNSUPPORTED,
                 "job %s is undone by the opposite change, which is not given", j->id);
    keep_error(o, &err);
    end_undo(o, false);
    return;
  }
  o->revert = (mt_revert){.done = on_reverted,
                          .ctx = o,
                          .touch = j->touch,
                          .back = j->back,
                          .loose = j->record.loose,
                          .result = &j->result,
                          .paused = o->paused || o->steering.now.paused};
  o->phase = JOB_REVERTING;
  mt_revert_start(&o->revert);
}

static void on_journal_undone(void *ctx, mt_undo *u) {
  job_op *o = ctx;
  mt_job *j = o->j;
  bool whole = !j->record.undo_attempt;
  if (u->error.code) keep_error(o, &u->error);
  if (whole && j->record.inverse && !j->error.code)
    start_revert(o);
  else
    end_undo(o, whole && !j->record.inverse);
}

static void start_undo(void *ctx) {
  job_op *o = ctx;
  mt_job *j = o->j;
  if (may_not_begin(o, MT_JOB_UNDOING)) return;
  o->undo =
      (mt_undo){.done = on_journal_undone,
                .ctx = o,
                .of = o->of,
                .writer = o->restores,
                .record = &j->record,
                .listing = {.writer = o->restores, .table = j->table, .ns = j->ns, .job = j->id},
                .inverse = j->inverse,
                .forward = j->inverse.apply ? mt_transform_list(j->list) : (mt_transform){0},
                .result = &j->result};
  o->phase = JOB_UNDOING;
  hold_or_go_on(o);
  mt_keeper_tick(&o->keeper);
  mt_undo_start(&o->undo);
}

static void stop_work(job_op *o) {
  if (o->phase == JOB_CLAIMING) {
    o->claim.stopped = true;
  } else if (o->phase == JOB_CHANGING) {
    mt_change_cancel(o->j->change);
  } else if (o->phase == JOB_UNDOING) {
    o->undo.stopped = true;
    mt_undo_go_on(&o->undo);
  } else if (o->phase == JOB_REVERTING) {
    mt_revert_cancel(&o->revert);
  }
}

/* ---- Orders --------------------------------------------------------------------------------- */

/* A pause holds up neither the finishing of what a former owner had under way nor the end of the job. */
static void hold_or_go_on(job_op *o) {
  bool held = o->paused || o->steering.now.paused;
  if (o->phase == JOB_ENDING) return;
  note_waits(o);
  if (o->phase == JOB_CHANGING) mt_change_pause(o->j->change, held || o->hold);
  mt_revert_pause(&o->revert, held);
  o->undo.paused = held;
  if (o->phase == JOB_UNDOING && !held) mt_undo_go_on(&o->undo);
}

static void cancel_job(job_op *o, const mortise_error *why) {
  if (!o || o->phase == JOB_ENDING) return;
  keep_error(o, why);
  stop_work(o);
}

static void on_orders(void *ctx, const mt_control *orders) {
  job_op *o = ctx;
  mortise_error err;
  o->j->record.orders = orders->n;
  o->j->limits = orders->limits;
  if (o->phase == JOB_CHANGING) mt_change_limit(o->j->change, orders->limits);
  if (orders->cancelled) {
    mt_error_set(&err, MORTISE_INTERRUPTED, "the job was cancelled by %s", orders->by);
    cancel_job(o, &err);
  } else {
    hold_or_go_on(o); /* this may end the job */
  }
}

/* ---- Beginning ------------------------------------------------------------------------------ */

/* Nothing of it is under way. */
static void accept_job(job_op *o) {
  const mt_job_record *r = &o->j->record;
  mt_change_result *result = &o->j->result;
  *result = (mt_change_result){0};
  result->matched = r->counts.matched;
  result->changed = r->counts.changed;
  result->deleted = r->counts.deleted;
  result->unchanged = r->counts.unchanged;
  result->conflicts = r->counts.conflicts;
  result->rejected = r->counts.rejected;
  end_as(o, MT_JOB_DONE);
}

static void begin_attempt(job_op *o) {
  mortise_error err;
  mt_job_record *r = &o->j->record;
  r->halted[0] = '\0';
  mt_job_count_anew(r);
  if (o->j->change->known) { /* the function is asked about them once more */
    r->counts.matched -= r->counts.unchanged;
    r->counts.unchanged = 0;
  }
  if (mt_job_record_attempt(r, &err))
    fail_job(o, &err);
  else
    mt_keeper_write(&o->keeper, start_change, o);
}

static void begin_undo(job_op *o) {
  mt_job_record *r = &o->j->record;
  r->batches[r->attempts - 1] = o->claim.end;
  r->n_also = 0;
  r->undo_attempt = r->attempts;
  r->undo_number = r->batches[r->attempts - 1];
  r->counts.unsure = 0; /* the journal lists them, so they are looked at like all others */
  mt_job_count_anew(r);
  snprintf(r->aside, sizeof r->aside, MT_UNDO_MARK);
  mt_keeper_write(&o->keeper, start_undo, o);
}

static void on_job_claimed(void *ctx, mt_claim *c) {
  job_op *o = ctx;
  const mt_job_record *r = &o->j->record;
  o->j->began = c->began;
  o->was_loose = c->verb != MT_JOB_RUN && r->loose;
  if (c->verb == MT_JOB_RUN && !c->error.code)
    start_change(o);
  else if (c->error.code || c->over)
    fail_job(o, &c->error);
  else if (r->undo_attempt)
    start_undo(o);
  else if (c->verb == MT_JOB_UNDO)
    begin_undo(o);
  else if (c->verb == MT_JOB_ACCEPT)
    accept_job(o);
  else
    begin_attempt(o);
}

/* ---- Starting and stopping ------------------------------------------------------------------ */

static mortise_status make_writers(job_op *o, mortise_error *err) {
  const mt_job *j = o->j;
  mt_writer_config back = {.tries = TRIES, .patience_ms = j->patience_ms, .auth_ends = true};
  mt_writer_config one = back, many = back;
  one.docs = MT_JOB_UNITS_MAX;
  one.in_flight = 1;
  many.docs = 1;
  many.in_flight = MT_WRITER_LANES;
  o->records = mt_writer_new(j->store, j->env, j->permit, &one, err);
  o->batches = o->records ? mt_writer_new(j->store, j->env, j->permit, &many, err) : NULL;
  o->restores = o->batches ? mt_writer_new(j->store, j->env, j->permit, &back, err) : NULL;
  return o->restores ? MORTISE_OK : err->code;
}

static void set_up_rooms(job_op *o) {
  mt_job *j = o->j;
  o->of = (mt_journal_of){j->store, j->table, j->ns, j->id};
  o->steering = (mt_steering){.store = j->store,
                              .table = j->table,
                              .ns = j->ns,
                              .job = j->id,
                              .session = j->permit->session->id,
                              .changed = on_orders,
                              .ctx = o};
  o->keeper = (mt_keeper){.note = on_note,
                          .kept = on_kept,
                          .ctx = o,
                          .store = j->store,
                          .permit = j->permit,
                          .table = j->table,
                          .ns = j->ns,
                          .job = j->id,
                          .record = &j->record,
                          .wall_ms = j->wall_ms,
                          .every_ms = j->checkpoint_ms};
  o->claim = (mt_claim){.done = on_job_claimed,
                        .ctx = o,
                        .verb = j->verb,
                        .standing = j->standing,
                        .spec = j->spec,
                        .keeper = &o->keeper,
                        .steering = &o->steering,
                        .of = o->of,
                        .change = j->change};
}

static mortise_status make_job_op(job_op *o, mortise_error *err) {
  mt_job_record *r = &o->j->record;
  snprintf(r->ns, sizeof r->ns, "%s", o->j->ns);
  snprintf(r->id, sizeof r->id, "%s", o->j->id);
  o->paused = o->j->waits_at_start;
  set_up_rooms(o);
  mortise_status status = mt_keeper_init(&o->keeper, err);
  if (!status) status = make_writers(o, err);
  o->keeper.writer = o->claim.journal = o->records;
  o->claim.documents = o->restores;
  return status;
}

mortise_status mt_job_start(mt_job *j, mortise_error *err) {
  mortise_error local;
  if (!err) err = &local;
  mt_error_clear(err);
  mt_error_clear(&j->error);
  memset(&j->result, 0, sizeof j->result);
  j->finished = j->yielded = false;
  j->began = j->verb != MT_JOB_RUN; /* until the document is read */
  mt_job_record_init(&j->record);
  mortise_status status = mt_job_check_id(mt_slice_of(j->id), err);
  if (status) return status;
  job_op *o = mt_calloc(1, sizeof *o);
  if (!o) return mt_error_memory(err);
  o->j = j;
  status = make_job_op(o, err);
  if (status) {
    free_job_op(o);
    return status;
  }
  j->op = o;
  mt_claim_start(&o->claim);
  return MORTISE_OK;
}

void mt_job_pause(mt_job *j, const char *why) {
  job_op *o = j->op;
  if (!o) return;
  o->paused = why != NULL;
  snprintf(o->why, sizeof o->why, "%s", why ? why : "");
  hold_or_go_on(o);
}

const char *mt_job_waits(mt_job *j) {
  job_op *o = j->op;
  if (o && o->phase != JOB_ENDING) note_waits(o);
  return j->record.waits;
}

void mt_job_yield(mt_job *j) {
  mortise_error err;
  mt_error_set(&err, MORTISE_INTERRUPTED, "others are let in, who wait for its paths");
  j->yielded = j->op && !j->error.code;
  cancel_job(j->op, &err);
}

void mt_job_cancel(mt_job *j) {
  mortise_error err;
  mt_error_set(&err, MORTISE_INTERRUPTED, "the job was interrupted");
  cancel_job(j->op, &err);
}

void mt_job_stop(mt_job *j, const mortise_error *why) {
  cancel_job(j->op, why);
}

void mt_job_abandon(mt_job *j) {
  job_op *o = j->op;
  if (!o) return;
  j->op = NULL;
  free_job_op(o);
}

void mt_job_deinit(mt_job *j) {
  mt_job_record_deinit(&j->record);
}
