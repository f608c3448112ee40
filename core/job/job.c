#include "job/job.h"

#include "base/mem.h"
#include "base/pump.h"
#include "job/control.h"
#include "job/known.h"
#include "job/replay.h"
#include "job/revert.h"
#include "job/settle.h"
#include "job/undo.h"
#include "job/unit.h"

#include <inttypes.h>
#include <stdio.h>

/* A store may be without an answer for half a minute. */
enum { TRIES = 14, CHECKPOINT_MS = 1000, RECORD_MAX = 32 << 20, CLAIMS_MAX = 8 };

typedef struct mt_settled {
  uint64_t changed, deleted, unchanged;
} mt_settled;

typedef struct job_op {
  mt_job *j;
  mt_writer *records, *batches, *restores;
  mt_journal_of of;
  mt_unit_journal journal;
  mt_attempt_close close;
  mt_settle settle;  /* finishes the batches that the closed attempt had under way */
  unsigned claims;   /* how often a write of the former owner came in between */
  mt_undo undo;
  mt_revert revert;
  /* the callback that the change had */
  mortise_status (*counted)(mt_change *c, mortise_error *err);
  mt_steering steering;
  mt_mget mget;
  mt_timer tick; /* reserved */
  /* The write of the job's document that is under way, and the function to call after it. */
  void (*written)(struct job_op *o);
  mt_write_batch batch;
  mt_item item;
  mt_buf body, id;
  mt_slice ids[1];
  mt_settled noted;   /* the part of the change's result that the document already counts */
  mt_job_state stood; /* the state before the last write */
  bool reading, checkpointing, changing, undoing, reverting, ended, paused;
  char why[MT_JOB_WAITS_MAX]; /* it is paused */
  bool inverse_now; /* this attempt is the first one that the opposite change can undo */
  bool was_loose;   /* `loose` before this attempt */
  bool announcing;  /* the change waits until the job's document says how it is undone */
  bool again;       /* the document must be written once more */
} job_op;

static void stop_work(job_op *o);
static void hold_or_go_on(job_op *o);
static void on_begun(job_op *o);
static void read_record(job_op *o);

/* ---- Ending --------------------------------------------------------------------------------- */

static void free_job_op(job_op *o) {
  mt_store *s = o->j->store;
  if (o->reading) mt_store_cancel(s, &o->mget.req);
  mt_mget_deinit(&o->mget);
  mt_writer_free(o->records);
  mt_writer_free(o->batches);
  if (o->changing) mt_change_abandon(o->j->change);
  mt_revert_abandon(&o->revert);
  mt_writer_free(o->restores);
  mt_undo_deinit(&o->undo);
  mt_settle_deinit(&o->settle);
  mt_attempt_close_deinit(&o->close);
  mt_steering_deinit(&o->steering);
  mt_timer_release(s->loop, &o->tick);
  mt_buf_deinit(&o->body);
  mt_buf_deinit(&o->id);
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

static void fail_job(job_op *o, const mortise_error *e) {
  keep_error(o, e);
  finish_job(o);
}

/* ---- The job's document --------------------------------------------------------------------- */

static void on_record(void *ctx, mt_write_batch *b) {
  job_op *o = ctx;
  mt_job *j = o->j;
  mortise_error err = b->error;
  bool first = o->item.write.kind == MT_WRITE_CREATE;
  o->checkpointing = false;
  if (!err.code && o->item.outcome == MT_OUTCOME_CONFLICT)
    mt_error_set(&err, first ? MORTISE_CONFLICT : MORTISE_LOCK_LOST,
                 first ? "there is a job %s already" : "job %s was taken over by another process",
                 j->id);
  else if (!err.code && o->item.outcome != MT_OUTCOME_APPLIED)
    mt_error_set(&err, MORTISE_REJECTED, "the document of job %s cannot be written: %s", j->id,
                 o->item.write.reason);
  if (err.code)
    keep_error(o, &err);
  else
    j->record.version = o->item.write.version;
  o->written(o);
}

static mortise_status encode_record(job_op *o, mortise_error *err) {
  mt_job *j = o->j;
  mt_job_record *r = &j->record;
  snprintf(r->session, sizeof r->session, "%s", j->permit->session->id);
  r->updated_ms = j->wall_ms ? j->wall_ms() : 0;
  if (!r->created_ms) r->created_ms = r->updated_ms;
  mt_buf_clear(&o->body);
  mt_job_record_encode(r, &o->body);
  return mt_buf_status(&o->body, "a job's document", err);
}

/* Calls `written` when the outcome is known; j->error tells it. */
static void write_record(job_op *o, void (*written)(job_op *o)) {
  mt_job *j = o->j;
  mortise_error err;
  o->written = written;
  if (encode_record(o, &err)) {
    keep_error(o, &err);
    written(o);
    return;
  }
  bool first = !j->record.version.term;
  o->item = (mt_item){.write = {.kind = first ? MT_WRITE_CREATE : MT_WRITE_INDEX,
                                .id = mt_buf_slice(&o->id),
                                .body = mt_buf_slice(&o->body),
                                .if_version = j->record.version,
                                .skip_pipeline = true},
                      .of_source = true};
  o->batch = (mt_write_batch){.done = on_record,
                              .ctx = o,
                              .index = j->table,
                              .items = &o->item,
                              .n = 1,
                              .again = mt_again_itself};
  mt_writer_submit(o->records, &o->batch);
}

/* ---- The end -------------------------------------------------------------------------------- */

/* If the last write failed, the state is still the one of the write before. */
static void on_last_record(job_op *o) {
  if (o->item.outcome != MT_OUTCOME_APPLIED) o->j->record.state = o->stood;
  finish_job(o);
}

/* If the lock is lost, another process has the job or will take it, so this one must not write its document. */
static void end_as(job_op *o, mt_job_state state) {
  mt_job *j = o->j;
  mortise_error lost;
  o->ended = true;
  mt_timer_stop(j->store->loop, &o->tick);
  j->record.waits[0] = '\0';
  if (j->record.state != state) o->stood = j->record.state;
  j->record.state = state;
  snprintf(j->record.reason, sizeof j->record.reason, "%s", j->error.code ? j->error.message : "");
  if (j->permit->check(j->permit->lock, &lost) || j->error.code == MORTISE_LOCK_LOST)
    finish_job(o);
  else if (!o->checkpointing)
    write_record(o, on_last_record);
  /* else on_checkpoint will call this again */
}

/* Called after the job's document was written. True if that failed or the job was cancelled: then the job ends. */
static bool may_not_begin(job_op *o, mt_job_state as) {
  if (!o->j->error.code) return false;
  if (o->item.outcome == MT_OUTCOME_APPLIED)
    end_as(o, as);
  else
    finish_job(o);
  return true;
}

/* ---- Checkpoints ---------------------------------------------------------------------------- */

/* Every batch of the journal is accounted for, except those that the units are still working on. */
static void note_progress(job_op *o) {
  mt_job_record *r = &o->j->record;
  const mt_change_result *now = &o->j->change->result;
  uint64_t open[MT_JOB_UNITS_MAX], least = o->journal.next;
  size_t n = mt_change_open_batches(o->j->change, open, MT_JOB_UNITS_MAX);
  for (size_t i = 0; i < o->journal.n_doubtful && n < MT_JOB_UNITS_MAX; i++)
    open[n++] = o->journal.doubtful[i];
  for (size_t i = 0; i < n; i++)
    if (open[i] < least) least = open[i];
  r->batches[r->attempts - 1] = least;
  r->n_also = 0;
  for (uint64_t k = least; k < o->journal.next; k++) {
    bool is_open = false;
    for (size_t i = 0; i < n; i++) is_open |= open[i] == k;
    if (!is_open && r->n_also < MT_JOB_UNITS_MAX) r->also[r->n_also++] = k;
  }
  mt_settled so_far = {now->changed - o->journal.doubtful_changed,
                       now->deleted - o->journal.doubtful_deleted,
                       now->unchanged - o->journal.doubtful_unchanged};
  r->counts.changed += so_far.changed - o->noted.changed;
  r->counts.deleted += so_far.deleted - o->noted.deleted;
  r->counts.unchanged += so_far.unchanged - o->noted.unchanged;
  r->counts.matched = r->counts.changed + r->counts.deleted + r->counts.unchanged;
  o->noted = so_far;
}

static void start_tick(job_op *o) {
  mt_loop *loop = o->j->store->loop;
  int64_t every = o->j->checkpoint_ms ? o->j->checkpoint_ms : CHECKPOINT_MS;
  mt_timer_start(loop, &o->tick, mt_loop_now(loop) + every, NULL);
}

static void checkpoint(job_op *o);

/* If another process has written the job's document, the job is no longer ours and the work ends. */
static void on_checkpoint(job_op *o) {
  if (o->ended) {
    end_as(o, o->j->record.state);
    return;
  }
  if (o->j->error.code) {
    stop_work(o);
  } else if (o->again) {
    checkpoint(o);
  } else {
    o->announcing = false;
    start_tick(o);
    hold_or_go_on(o); /* this may end the job */
  }
}

static void checkpoint(job_op *o) {
  mt_timer_stop(o->j->store->loop, &o->tick);
  mt_steering_look(&o->steering);
  if (o->changing) note_progress(o);
  if (o->reverting) o->j->record.loose = o->revert.loose;
  o->again = false;
  o->checkpointing = true;
  write_record(o, on_checkpoint);
}

static void on_tick(void *ctx) {
  checkpoint(ctx);
}

/* The change is held until the job's document says how it is undone. */
static void announce(job_op *o) {
  o->announcing = true;
  hold_or_go_on(o);
  if (o->checkpointing)
    o->again = true;
  else
    checkpoint(o);
}

/* ---- Changing ------------------------------------------------------------------------------- */

static void report_others(job_op *o) {
  mortise_error err;
  o->j->result.conflicts += o->settle.others;
  mt_error_set(
      &err, MORTISE_CONFLICT,
      "%" PRIu64
      " documents that were being written when the job's process ended have been changed by "
      "others since: they stay as they are",
      o->settle.others);
  keep_error(o, &err);
}

static void on_changed(void *ctx, mt_change *c) {
  job_op *o = ctx;
  mt_job *j = o->j;
  mt_job_record *r = &j->record;
  o->changing = false;
  note_progress(o);
  c->counted = o->counted;
  j->began |= o->journal.next > 0 || mt_change_applied(c);
  r->counts.conflicts = c->result.conflicts + o->settle.others;
  r->counts.rejected = c->result.rejected;
  mt_job_mark(r->aside, r->attempts, c->result.looks);
  mt_job_balance(r, c->matches_on && !c->error.code);
  j->result = c->result;
  if (c->error.code) keep_error(o, &c->error);
  if (o->inverse_now && !mt_change_applied(c)) r->inverse = false;
  r->loose = r->inverse && j->error.code && (o->was_loose || c->result.unknown);
  if (o->settle.others) report_others(o);
  bool nothing = !mt_job_record_began(r) && !o->journal.next; /* then there is nothing to undo */
  end_as(o, !j->error.code ? MT_JOB_DONE : nothing ? MT_JOB_UNDONE : MT_JOB_STOPPED);
}

/* Without a journal, what matched at first and matches no longer counts as changed by an earlier attempt. */
static void count_earlier(mt_job_record *r, uint64_t matched) {
  r->counts.changed = r->total > matched ? r->total - matched : 0;
  r->counts.unchanged = 0;
}

/* Before the first write the job's document must say whether the opposite change undoes this one, and how many documents
 * match, because nobody could find it out afterwards. An earlier attempt may have said it already. */
static mortise_status on_change_counted(mt_change *c, mortise_error *err) {
  job_op *o = c->ctx;
  mt_job_record *r = &o->j->record;
  uint64_t matched = c->result.matched, said = r->total;
  mortise_status status = o->counted ? o->counted(c, err) : MORTISE_OK;
  if (status) return status;
  o->j->counted = true;
  o->inverse_now = !o->j->began && c->reversible && o->j->inverse.apply && matched;
  r->inverse |= o->inverse_now;
  o->journal.only_inexact = r->inverse;
  if (o->inverse_now || (c->matches_on && matched > r->total)) r->total = matched;
  if (r->inverse) count_earlier(r, matched);
  bool loose = r->inverse && matched;
  r->loose |= loose;
  if (!loose && r->total == said) return MORTISE_OK;
  announce(o);
  return MORTISE_OK;
}

static void on_change_progress(void *ctx, mt_change *c, uint64_t changed, uint64_t total) {
  mt_job *j = ((job_op *)ctx)->j;
  (void)c;
  j->progress(j->ctx, j, changed, total);
}

static void start_change(job_op *o) {
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
  if (c->known) c->known->of = o->of;
  if (c->known) c->known->record = &j->record;
  if (mt_change_start(c, &err)) {
    c->counted = o->counted;
    keep_error(o, &err);
    end_as(o, MT_JOB_STOPPED);
    return;
  }
  o->changing = true;
  mt_change_limit(c, j->limits);
  hold_or_go_on(o);
  start_tick(o);
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
  o->reverting = false;
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
  o->reverting = true;
  mt_revert_start(&o->revert);
}

static void on_journal_undone(void *ctx, mt_undo *u) {
  job_op *o = ctx;
  mt_job *j = o->j;
  bool whole = !j->record.undo_attempt;
  o->undoing = false;
  if (u->error.code) keep_error(o, &u->error);
  if (whole && j->record.inverse && !j->error.code)
    start_revert(o);
  else
    end_undo(o, whole && !j->record.inverse);
}

static void start_undo(job_op *o) {
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
                .forward = j->forward,
                .result = &j->result};
  o->undoing = true;
  hold_or_go_on(o);
  start_tick(o);
  mt_undo_start(&o->undo);
}

static void stop_work(job_op *o) {
  if (o->changing) {
    mt_change_cancel(o->j->change);
  } else if (o->undoing) {
    o->undo.stopped = true;
    mt_undo_go_on(&o->undo);
  } else if (o->reverting) {
    mt_revert_cancel(&o->revert);
  }
}

/* ---- Orders --------------------------------------------------------------------------------- */

/* A pause holds up neither the finishing of what a former owner had under way nor the end of the job. */
static void hold_or_go_on(job_op *o) {
  const mt_control *orders = &o->steering.now;
  mt_job_record *r = &o->j->record;
  bool held = o->paused || orders->paused;
  snprintf(r->waits, sizeof r->waits, "%s", o->why);
  if (orders->paused) snprintf(r->waits, sizeof r->waits, "paused by %s", orders->by);
  if (o->changing) mt_change_pause(o->j->change, held || o->announcing);
  mt_revert_pause(&o->revert, held);
  o->undo.paused = held;
  if (o->undoing && !held) mt_undo_go_on(&o->undo);
}

static void cancel_job(job_op *o, const mortise_error *why) {
  if (!o || o->ended) return;
  keep_error(o, why);
  stop_work(o);
}

static void on_orders(void *ctx, const mt_control *orders) {
  job_op *o = ctx;
  mortise_error err;
  o->j->record.orders = orders->n;
  o->j->limits = orders->limits;
  if (o->changing) mt_change_limit(o->j->change, orders->limits);
  if (orders->cancelled) {
    mt_error_set(&err, MORTISE_INTERRUPTED, "the job was cancelled by %s", orders->by);
    cancel_job(o, &err);
  } else {
    hold_or_go_on(o); /* this may end the job */
  }
}

/* ---- Taking it over ------------------------------------------------------------------------- */

/* The document of a new job says what the caller says. */
static mortise_status start_attempt(job_op *o, mortise_error *err) {
  mt_job_record *r = &o->j->record;
  mt_buf_clear(&r->text);
  mt_buf_addslice(&r->text, o->j->spec.n ? o->j->spec : MT_SLICE("{}"));
  r->spec = mt_buf_slice(&r->text);
  r->state = MT_JOB_RUNNING;
  mortise_status status = mt_buf_status(&r->text, "what the job is", err);
  return status ? status : mt_job_record_attempt(r, err);
}

static void begin_attempt(job_op *o) {
  mortise_error err;
  mt_job_record *r = &o->j->record;
  mt_job_count_anew(r);
  if (o->j->change->known) { /* the function is asked about them once more */
    r->counts.matched -= r->counts.unchanged;
    r->counts.unchanged = 0;
  }
  if (mt_job_record_attempt(&o->j->record, &err))
    fail_job(o, &err);
  else
    write_record(o, start_change);
}

static void begin_undo(job_op *o) {
  mt_job_record *r = &o->j->record;
  r->batches[r->attempts - 1] = o->close.end;
  r->n_also = 0;
  r->undo_attempt = r->attempts;
  r->undo_number = r->batches[r->attempts - 1];
  mt_job_count_anew(r);
  snprintf(r->aside, sizeof r->aside, MT_UNDO_MARK);
  write_record(o, start_undo);
}

static void on_settled(void *ctx, mt_settle *settle) {
  job_op *o = ctx;
  mortise_error err = settle->error;
  if (err.code)
    fail_job(o, &err);
  else
    begin_attempt(o);
}

static void settle_attempt(job_op *o) {
  o->settle = (mt_settle){.done = on_settled,
                          .ctx = o,
                          .of = o->of,
                          .writer = o->restores,
                          .journal = o->records,
                          .record = &o->j->record,
                          .end = o->close.end,
                          .change = o->j->change,
                          .result = &o->j->result};
  mt_settle_start(&o->settle);
}

static void on_attempt_closed(void *ctx, mt_attempt_close *c) {
  job_op *o = ctx;
  const mt_job_record *r = &o->j->record;
  if (c->error.code) {
    fail_job(o, &c->error);
    return;
  }
  o->j->began = c->end > 0 || r->inverse;
  for (size_t i = 0; i + 1 < r->attempts; i++) o->j->began |= r->batches[i] > 0;
  if (o->j->verb == MT_JOB_UNDO)
    begin_undo(o);
  else
    settle_attempt(o);
}

/* From here on the former owner cannot write the job's document any more. If one of its writes came in between,
 * the document is read again first. */
static void on_claimed(job_op *o) {
  mt_job *j = o->j;
  mt_job_record *r = &j->record;
  mortise_error err;
  if (o->item.outcome == MT_OUTCOME_CONFLICT && o->claims++ < CLAIMS_MAX) {
    mt_error_clear(&j->error);
    read_record(o);
    return;
  }
  if (j->error.code) {
    finish_job(o);
    return;
  }
  if (r->undo_attempt) { /* it was being undone, so all of its attempts are closed */
    j->began = true;
    start_undo(o);
    return;
  }
  o->close = (mt_attempt_close){.done = on_attempt_closed,
                                .ctx = o,
                                .of = o->of,
                                .writer = o->records,
                                .attempt = r->attempts,
                                .from = r->batches[r->attempts - 1]};
  if (mt_attempt_close_start(&o->close, &err)) fail_job(o, &err);
}

/* Is there nothing left to do? */
static bool is_over(const mt_job *j) {
  mt_job_state state = j->record.state;
  if (j->standing) return state == MT_JOB_DONE || state == MT_JOB_UNDONE;
  return state == (j->verb == MT_JOB_UNDO ? MT_JOB_UNDONE : MT_JOB_DONE);
}

static void claim(job_op *o) {
  mt_job *j = o->j;
  mt_job_record *r = &j->record;
  mt_job_state next = j->verb == MT_JOB_UNDO ? MT_JOB_UNDOING : MT_JOB_RUNNING;
  mortise_error err;
  if (is_over(j)) {
    finish_job(o);
    return;
  }
  if (!mt_job_record_may(r, next)) {
    mt_error_set(&err, MORTISE_CONFLICT, "job %s is %s: it cannot be %s", j->id,
                 mt_job_state_name(r->state), j->verb == MT_JOB_UNDO ? "undone" : "resumed");
    fail_job(o, &err);
    return;
  }
  r->state = next;
  r->reason[0] = r->waits[0] = '\0';
  mt_steering_look(&o->steering);
  o->was_loose = r->loose;
  write_record(o, on_claimed);
}

/* A job that was refused before it changed anything may run again, as a new attempt with the caller's spec. */
static void begin_again(job_op *o) {
  mt_job *j = o->j;
  mt_job_record *r = &j->record;
  mortise_error err;
  if (r->state != MT_JOB_UNDONE || !mt_job_record_may(r, MT_JOB_RUNNING)) {
    mt_error_set(&err, MORTISE_CONFLICT, "there is a job %s already", j->id);
    fail_job(o, &err);
    return;
  }
  r->undo_attempt = r->undo_number = 0;
  r->reason[0] = '\0';
  memset(&r->counts, 0, sizeof r->counts);
  if (start_attempt(o, &err))
    fail_job(o, &err);
  else
    write_record(o, on_begun);
}

/* The job's document was created, or there was one already. */
static void on_begun(job_op *o) {
  if (o->item.outcome == MT_OUTCOME_CONFLICT && o->claims++ < CLAIMS_MAX) {
    mt_error_clear(&o->j->error);
    read_record(o);
  } else {
    start_change(o);
  }
}

static void on_record_read(void *ctx, mt_req *req) {
  job_op *o = ctx;
  mt_job *j = o->j;
  mortise_error err = req->error;
  const mt_page *page = o->mget.page;
  o->reading = false;
  if (!err.code && (!page || page->n != 1 || !page->docs[0].found)) {
    mt_error_set(&err, MORTISE_NOT_FOUND, "there is no job %s", j->id);
    j->began = false;
  }
  if (!err.code)
    mt_job_record_decode(&j->record, page->docs[0].source, page->docs[0].version, &err);
  mt_mget_deinit(&o->mget);
  if (err.code)
    fail_job(o, &err);
  else if (j->verb == MT_JOB_RUN)
    begin_again(o);
  else
    claim(o);
}

static void read_record(job_op *o) {
  mt_job *j = o->j;
  o->ids[0] = mt_buf_slice(&o->id);
  o->mget = (mt_mget){.req = {.done = on_record_read, .ctx = o, .idempotent = true},
                      .index = j->table,
                      .ids = o->ids,
                      .n = 1};
  o->reading = true;
  j->store->docs->mget(j->store, &o->mget);
}

/* ---- Starting and stopping ------------------------------------------------------------------ */

static mortise_status make_writers(job_op *o, mortise_error *err) {
  const mt_job *j = o->j;
  mt_writer_config one = {.docs = MT_JOB_UNITS_MAX, .in_flight = 1, .tries = TRIES};
  mt_writer_config many = {.docs = 1, .in_flight = MT_WRITER_LANES, .tries = TRIES};
  mt_writer_config back = {.tries = TRIES};
  o->records = mt_writer_new(j->store, j->env, j->permit, &one, err);
  o->batches = o->records ? mt_writer_new(j->store, j->env, j->permit, &many, err) : NULL;
  o->restores = o->batches ? mt_writer_new(j->store, j->env, j->permit, &back, err) : NULL;
  return o->restores ? MORTISE_OK : err->code;
}

static mortise_status make_new(job_op *o, mortise_error *err) {
  mt_job *j = o->j;
  mt_job_record *r = &j->record;
  snprintf(r->ns, sizeof r->ns, "%s", j->ns);
  snprintf(r->id, sizeof r->id, "%s", j->id);
  return start_attempt(o, err);
}

static mortise_status make_job_op(job_op *o, mortise_error *err) {
  mt_job *j = o->j;
  mt_buf_init(&o->body, RECORD_MAX);
  mt_buf_init(&o->id, MT_JOURNAL_ID_MAX);
  mt_job_record_id(&o->id, j->ns, j->id);
  mortise_status status = mt_buf_status(&o->id, "a job's id", err);
  if (!status) status = make_writers(o, err);
  o->tick = (mt_timer){.fire = on_tick, .ctx = o};
  if (!status) status = mt_timer_reserve(j->store->loop, &o->tick, err);
  if (!status && j->verb == MT_JOB_RUN) status = make_new(o, err);
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
  o->of = (mt_journal_of){j->store, j->table, j->ns, j->id};
  o->paused = j->waits_at_start;
  o->steering = (mt_steering){.store = j->store,
                              .table = j->table,
                              .ns = j->ns,
                              .job = j->id,
                              .session = j->permit->session->id,
                              .changed = on_orders,
                              .ctx = o};
  status = make_job_op(o, err);
  if (status) {
    free_job_op(o);
    return status;
  }
  j->op = o;
  if (j->verb == MT_JOB_RUN)
    write_record(o, on_begun);
  else
    read_record(o);
  return MORTISE_OK;
}

void mt_job_pause(mt_job *j, const char *why) {
  job_op *o = j->op;
  if (!o) return;
  o->paused = why != NULL;
  snprintf(o->why, sizeof o->why, "%s", why ? why : "");
  hold_or_go_on(o);
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
