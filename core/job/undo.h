/* Undoing what the journal of a job says, newest first: each document that still is what the job made
 * of it becomes what it was, by compare-and-set. What others have changed since is left and counted.
 *
 * Every document is written, also one that the job seems never to have reached: a request of a dead
 * process may still be on its way, and only a newer write stops it. */
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
  mt_job_record *record;    /* in/out: how far it is, `counts.restored` */
  /* For batches that keep no sources: what undoes the job, and what it did, which tells what was undone
   * before; `apply` NULL: there are none. */
  mt_transform inverse, forward;
  mt_change_result *result; /* out: matched, changed (back), unchanged, conflicts, rejected */
  bool paused, stopped;     /* in, at any time: it begins no further batch, or ends */
  mortise_error error;      /* out */
  mt_rewrite rewrite;       /* its own, as all below */
  bool idle;                /* stands, since it is paused */
} mt_undo;

void mt_undo_start(mt_undo *u);
void mt_undo_go_on(mt_undo *u);  /* after `paused` or `stopped` was changed; from the loop */
void mt_undo_deinit(mt_undo *u); /* the writer must be freed before, unless `done` was called */

#endif
