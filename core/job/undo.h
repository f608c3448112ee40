/* Undoes a job by its journal, newest batch first. Each document that still is as the job left it is
 * written back as it was, by compare-and-set. A document that others have changed since stays as it is, and
 * is counted.
 *
 * Where the opposite change follows, the journal has only what that would not restore to the byte.
 *
 * Every document of the journal is written, even one that the job seems never to have changed. A request of
 * a dead process may still be on its way, and only a newer write of the document makes it fail. */
#ifndef MT_JOB_UNDO_H
#define MT_JOB_UNDO_H

#include "job/rewrite.h"
#include "job/transform.h"

typedef struct mt_undo {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_undo *u); /* from the loop, or from mt_undo_start */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer;
  mt_job_record *record; /* in/out: how far the undoing is, and `counts.restored` */
  /* For entries without a source: the inverse, and the job's change, which shows whether a document has been restored
   * before. `apply` is NULL if there are none. */
  mt_transform inverse, forward;
  mt_change_result *result; /* out: matched, changed (back), unchanged, conflicts, rejected */
  /* in, at any time: while paused it begins no further batch; stopped it ends */
  bool paused, stopped;
  /* in: nothing is written or listed: `result` says what would be; the record is a copy, and no writer is needed */
  bool looks;
  mortise_error error;      /* out */
  mt_aside_write listing;   /* in: its writer, table, ns, job */
  mt_rewrite batches[2];    /* its own, as all below */
  mt_rewrite *now;          /* the batch that is written back */
  mt_rewrite *ahead;        /* the next one, which is read meanwhile */
  uint64_t rejected_before;
  bool idle;                /* nothing is under way, because it is paused */
} mt_undo;

void mt_undo_start(mt_undo *u);
void mt_undo_go_on(mt_undo *u);  /* after `paused` or `stopped` was changed; from the loop */
void mt_undo_deinit(mt_undo *u); /* the writer must be freed before, unless `done` was called */

#endif
