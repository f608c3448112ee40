/* Making a job one's own: its document is created, or taken over from whoever had it. Then what the store
 * does for the former attempt is ended, and that attempt is closed, so that no batch of it can be added to the journal
 * any more, and what it had under way is settled.
 *
 * Or (MT_JOB_CLEAR) proving that there is nothing to be made one's own. A process that died before it began may have
 * sent the document of its job, which may come late: so one is created in its place, in a final state, and that
 * creation is refused. */
#ifndef MT_JOB_CLAIM_H
#define MT_JOB_CLAIM_H

#include "job/control.h"
#include "job/keeper.h"
#include "job/replay.h"
#include "job/settle.h"
#include "job/strategy.h"

typedef enum mt_job_verb {
  MT_JOB_RUN,    /* begins a new job; CONFLICT if there is a job of that id */
  MT_JOB_RESUME, /* goes on with a job that this or another process left half-done; a job
                    that is done stays as it is */
  MT_JOB_ACCEPT, /* ends a job as it is that stands because of what it has set aside */
  MT_JOB_UNDO,   /* undoes a job, even one that is done; a job that is undone stays as it is */
  MT_JOB_CLEAR,  /* ends nothing: proves that nothing stands half-done, because the job is over, or was never
                    begun, so that what guards it may be given back; CONFLICT if it stands */
} mt_job_verb;

typedef struct mt_claim {
  /* in; zero the rest; borrowed */
  void (*done)(void *ctx, struct mt_claim *c); /* from the loop, or from mt_claim_start */
  void *ctx;
  mt_job_verb verb;
  bool standing; /* RESUME, UNDO: a job that is done, or undone, is over */
  mt_slice spec; /* RUN: what the job's document says that it is to do; CLEAR: if there is none */
  mt_keeper *keeper;
  mt_steering *steering; /* looks for orders when the job is taken over */
  mt_journal_of of;
  mt_writer *journal, *documents;
  bool outside; /* its former attempt has left neither batches nor tasks: the caller does the work */
  const mt_change *change;  /* RESUME: what makes the open batches' documents */
  bool stopped; /* in, at any time: a job that is taken over is left once its document is written */
  /* out */
  bool over;    /* nothing is left to do, or it was left because of `stopped` */
  bool began;   /* false: no attempt has changed a document, for certain */
  uint64_t end; /* UNDO: of the last attempt's batches in the journal */
  mortise_error error;
  /* its own */
  mt_quell quell;
  mt_attempt_close close;
  mt_settle settle;
  unsigned tries; /* how often a write of the former owner came in between */
} mt_claim;

void mt_claim_start(mt_claim *c);
/* At any time; `done` is not called any more. The writers must be freed before, unless it was called. */
void mt_claim_deinit(mt_claim *c);

#endif
