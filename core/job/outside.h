/* A job whose work its caller does: here it is made the caller's own, its document is kept, and orders for it are
 * followed. How far the work is the caller says in `work`, a JSON object of its own, which the job's document keeps; so
 * whoever takes the job over finds it there. There is no journal but what the caller keeps by itself.
 *
 *   mt_outside_start -> ready: the work may begin -> mt_outside_finish -> done
 *
 * The caller asks, at least a few times a second, whether it may go on (mt_outside_stop): the job may be cancelled, taken
 * over by another process, or have lost its lock. It then ends by itself. */
#ifndef MT_JOB_OUTSIDE_H
#define MT_JOB_OUTSIDE_H

#include "job/claim.h"
#include "job/control.h"
#include "job/keeper.h"
#include "job/tally.h"

typedef struct mt_outside {
  /* in; zero the rest; borrowed */
  void (*ready)(void *ctx, struct mt_outside *o); /* from the loop: the job is the caller's, and its work may begin */
  void (*done)(void *ctx, struct mt_outside *o);  /* from the loop, at its end, also where `ready` was not called */
  void *ctx;
  mt_job_verb verb; /* RUN, RESUME or UNDO */
  bool standing;    /* RESUME, UNDO: a job that is done, or undone, stays as it is */
  mt_store *store;
  const mt_env *env;
  const mt_permit *permit;
  const char *table; /* the jobs' index */
  const char *ns, *id;
  mt_slice spec; /* RUN: as mt_job's */
  int64_t (*wall_ms)(void);
  int64_t checkpoint_ms, patience_ms; /* as mt_job's */
  mt_limits limits;                   /* in/out: orders change it */
  /* out */
  mt_job_record record; /* `work`, `counts`, `total` and `waits` are the caller's to set once it is ready */
  mortise_error error;
  bool is_ready, finished;
  /* its own */
  mt_writer *records;
  mt_keeper keeper;
  mt_claim claim;
  mt_steering steering;
  mt_tally speed;
  mt_job_state stood; /* before the last write */
  bool started, ending;
  char why[MT_JOB_WAITS_MAX]; /* it is paused by its own process, or "" */
  void (*kept)(void *ctx, struct mt_outside *o);
} mt_outside;

/* INVALID_ARGUMENT, OUT_OF_MEMORY: nothing was started, and `done` is not called. */
mortise_status mt_outside_start(mt_outside *o, mortise_error *err);
/* What ends it, OK if nothing does. No I/O. */
mortise_status mt_outside_stop(mt_outside *o, mortise_error *err);
/* Who has told it to pause, or why it was (mt_outside_pause); NULL: it may go on. */
const char *mt_outside_paused(const mt_outside *o);
void mt_outside_pause(mt_outside *o, const char *why); /* NULL: no longer */
/* Its next question is answered with this error. */
void mt_outside_cancel(mt_outside *o, const mortise_error *why);
/* `work` becomes this JSON object, which is copied. */
mortise_status mt_outside_note(mt_outside *o, mt_slice work, mortise_error *err);
/* Writes the job's document now; `kept` is called, from the loop, once it has what was noted, or o->error says why not. */
void mt_outside_keep(mt_outside *o, void (*kept)(void *ctx, mt_outside *o));
/* The job's last write, with this state: DONE, STOPPED, UNDOING or UNDONE; `why` may be NULL. */
void mt_outside_finish(mt_outside *o, mt_job_state state, const mortise_error *why);
/* Ends it at once, without calling `done`, as if its process had died. */
void mt_outside_abandon(mt_outside *o);
void mt_outside_deinit(mt_outside *o); /* after its end */

#endif
