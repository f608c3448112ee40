#include "job/claim.h"

#include <stdio.h>
#include <string.h>

enum { CLAIM_TRIES = 8 };

static void read_claimed(mt_claim *c);

static void end_claim(mt_claim *c, const mortise_error *e) {
  if (e) c->error = *e;
  c->done(c->ctx, c);
}

/* If another process has written the document in between, it is read again first. */
static bool lost_the_race(mt_claim *c) {
  if (c->keeper->outcome != MT_OUTCOME_CONFLICT || c->tries++ >= CLAIM_TRIES) return false;
  read_claimed(c);
  return true;
}

/* ---- What the former attempt has left ------------------------------------------------------- */

static void on_settled(void *ctx, mt_settle *s) {
  mt_claim *c = ctx;
  end_claim(c, &s->error);
}

static void settle_attempt(mt_claim *c) {
  c->settle = (mt_settle){.done = on_settled,
                          .ctx = c,
                          .of = c->of,
                          .writer = c->documents,
                          .journal = c->journal,
                          .record = c->keeper->record,
                          .end = c->end,
                          .change = c->change};
  mt_settle_start(&c->settle);
}

static void on_attempt_closed(void *ctx, mt_attempt_close *close) {
  mt_claim *c = ctx;
  const mt_job_record *r = c->keeper->record;
  if (close->error.code) {
    end_claim(c, &close->error);
    return;
  }
  c->end = close->end;
  c->began = close->end > 0 || r->inverse;
  for (size_t i = 0; i + 1 < r->attempts; i++) c->began |= r->batches[i] > 0;
  if (c->verb == MT_JOB_UNDO)
    end_claim(c, NULL);
  else
    settle_attempt(c);
}

/* If it was being undone, all of its attempts are closed. */
static void close_attempt(mt_claim *c) {
  const mt_job_record *r = c->keeper->record;
  mortise_error err;
  if (r->undo_attempt) {
    end_claim(c, NULL);
    return;
  }
  c->close = (mt_attempt_close){.done = on_attempt_closed,
                                .ctx = c,
                                .of = c->of,
                                .writer = c->journal,
                                .attempt = r->attempts,
                                .from = r->batches[r->attempts - 1]};
  if (mt_attempt_close_start(&c->close, &err)) end_claim(c, &err);
}

/* ---- What the store does for it ------------------------------------------------------------- */

static void on_tasks_ended(void *ctx, mt_quell *q) {
  mt_claim *c = ctx;
  c->keeper->record->sweeps = q->error.code != MORTISE_OK;
  if (q->error.code)
    end_claim(c, &q->error);
  else
    close_attempt(c);
}

/* The gate is closed: none begins any more. */
static void end_tasks(mt_claim *c) {
  const mt_keeper *k = c->keeper;
  mortise_error err;
  c->quell = (mt_quell){.done = on_tasks_ended, .ctx = c, .store = k->store, .permit = k->permit};
  if (mt_launch_quell(&c->quell, k->table, k->record, &err)) end_claim(c, &err);
}

/* ---- Taking it over ------------------------------------------------------------------------- */

/* From here on the former owner cannot write the job's document any more. */
static void on_claimed(void *ctx) {
  mt_claim *c = ctx;
  if (lost_the_race(c)) return;
  c->over = c->stopped;
  if (c->keeper->error.code || c->over || c->outside)
    end_claim(c, &c->keeper->error);
  else if (c->keeper->record->sweeps)
    end_tasks(c);
  else
    close_attempt(c);
}

static bool is_over(const mt_claim *c) {
  mt_job_state state = c->keeper->record->state;
  if (c->verb == MT_JOB_CLEAR)
    return state == MT_JOB_DONE || state == MT_JOB_UNDONE || state == MT_JOB_REMOVED;
  if (c->standing) return state == MT_JOB_DONE || state == MT_JOB_UNDONE;
  return state == (c->verb == MT_JOB_UNDO ? MT_JOB_UNDONE : MT_JOB_DONE);
}

/* A read may be old, and the job half undone since. Unless the write says that it is over, the guard that was in
 * someone's way stays. */
static void on_proven_over(void *ctx) {
  mt_claim *c = ctx;
  if (lost_the_race(c)) return;
  if (c->keeper->error.code) c->keeper->record->state = MT_JOB_STOPPED;
  end_claim(c, &c->keeper->error);
}

static const char *const cannot_be[] = {
    [MT_JOB_RESUME] = "resumed",
    [MT_JOB_ACCEPT] = "accepted",
    [MT_JOB_UNDO] = "undone",
    [MT_JOB_CLEAR] = "cleared"};

static void take_over(mt_claim *c) {
  mt_job_record *r = c->keeper->record;
  mt_job_state next = c->verb == MT_JOB_UNDO ? MT_JOB_UNDOING : MT_JOB_RUNNING;
  mortise_error err;
  c->over = is_over(c);
  if (c->over) {
    if (c->standing || c->verb == MT_JOB_CLEAR)
      mt_keeper_write(c->keeper, on_proven_over, c);
    else
      end_claim(c, NULL);
    return;
  }
  if (c->verb == MT_JOB_CLEAR || !mt_job_record_may(r, next)) {
    mt_error_set(&err, MORTISE_CONFLICT, "job %s is %s: it cannot be %s", r->id,
                 mt_job_state_name(r->state), cannot_be[c->verb]);
    end_claim(c, &err);
    return;
  }
  if (c->verb == MT_JOB_ACCEPT && !r->halted[0]) {
    mt_error_set(&err, MORTISE_CONFLICT,
                 "job %s cannot be accepted as it is: only one can that has looked at its documents and "
                 "could not change some",
                 r->id);
    end_claim(c, &err);
    return;
  }
  r->state = next;
  r->gate = 0;
  r->reason[0] = r->waits[0] = '\0';
  mt_steering_look(c->steering);
  mt_keeper_write(c->keeper, on_claimed, c);
}

/* ---- Beginning it --------------------------------------------------------------------------- */

/* The document of a new job says what the caller says. */
static mortise_status first_attempt(mt_claim *c, mortise_error *err) {
  mt_job_record *r = c->keeper->record;
  mt_buf_clear(&r->text);
  mt_buf_addslice(&r->text, c->spec.n ? c->spec : MT_SLICE("{}"));
  r->spec = mt_buf_slice(&r->text);
  r->state = MT_JOB_RUNNING;
  mortise_status status = mt_buf_status(&r->text, "what the job is", err);
  return status ? status : mt_job_record_attempt(r, err);
}

/* The job's document was created, or there was one already. */
static void on_begun(void *ctx) {
  mt_claim *c = ctx;
  if (!lost_the_race(c)) end_claim(c, &c->keeper->error);
}

static void begin_job(mt_claim *c) {
  mortise_error err;
  if (first_attempt(c, &err))
    end_claim(c, &err);
  else
    mt_keeper_write(c->keeper, on_begun, c);
}

/* A job that was refused before it changed anything may run again, as a new attempt with the caller's spec. */
static void begin_again(mt_claim *c) {
  mt_job_record *r = c->keeper->record;
  mortise_error err;
  if (r->state != MT_JOB_UNDONE || !mt_job_record_may(r, MT_JOB_RUNNING)) {
    mt_error_set(&err, MORTISE_CONFLICT, "there is a job %s already, which is %s", r->id,
                 mt_job_state_name(r->state));
    end_claim(c, &err);
    return;
  }
  r->undo_attempt = r->undo_number = 0;
  r->reason[0] = '\0';
  memset(&r->counts, 0, sizeof r->counts);
  r->total = 0;
  begin_job(c);
}

/* ---- One that was not born ------------------------------------------------------------------ */

static void on_sealed(void *ctx) {
  mt_claim *c = ctx;
  if (lost_the_race(c)) return;
  c->over = !c->keeper->error.code;
  end_claim(c, &c->keeper->error);
}

/* There is no document; it may have been sent, and come late. */
static void seal_unborn(mt_claim *c) {
  mt_job_record *r = c->keeper->record;
  mortise_error err;
  mt_job_record_deinit(r); /* there may have been a document before, which was removed */
  snprintf(r->ns, sizeof r->ns, "%s", c->of.ns);
  snprintf(r->id, sizeof r->id, "%s", c->of.job);
  if (first_attempt(c, &err)) {
    end_claim(c, &err);
    return;
  }
  r->state = MT_JOB_UNDONE;
  snprintf(r->reason, sizeof r->reason, "its process ended before it began");
  mt_keeper_write(c->keeper, on_sealed, c);
}

/* ---- Its life ------------------------------------------------------------------------------- */

static void on_claim_read(void *ctx) {
  mt_claim *c = ctx;
  const mortise_error *e = &c->keeper->error;
  if (e->code == MORTISE_NOT_FOUND) c->began = false;
  if (e->code == MORTISE_NOT_FOUND && c->verb == MT_JOB_CLEAR)
    seal_unborn(c);
  else if (e->code)
    end_claim(c, e);
  else if (c->verb == MT_JOB_RUN)
    begin_again(c);
  else
    take_over(c);
}

static void read_claimed(mt_claim *c) {
  mt_keeper_read(c->keeper, on_claim_read, c);
}

void mt_claim_start(mt_claim *c) {
  c->began = c->verb != MT_JOB_RUN; /* until the document is read */
  if (c->verb == MT_JOB_RUN)
    begin_job(c);
  else
    read_claimed(c);
}

void mt_claim_deinit(mt_claim *c) {
  mt_quell_deinit(&c->quell);
  mt_settle_deinit(&c->settle);
  mt_attempt_close_deinit(&c->close);
}
