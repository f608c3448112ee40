/* What undoing a job by its journal would do now: each of its documents is looked at as mt_undo does, batch by
 * batch, and nothing is written. It takes no lock, so it is true of the moment alone. */
#ifndef MT_JOB_OUTLOOK_H
#define MT_JOB_OUTLOOK_H

#include "job/record.h"
#include "job/replay.h"
#include "job/undo.h"

typedef struct mt_outlook {
  /* in; zero the rest; borrowed */
  void (*done)(void *ctx, struct mt_outlook *o); /* from the loop */
  void *ctx;
  mt_journal_of of;
  mt_transform inverse, forward; /* as mt_undo's */
  /* out */
  mt_change_result result; /* changed (documents that would be changed back), conflicts (that would stay) */
  mortise_error error;     /* NOT_FOUND: there is no such job */
  /* its own */
  mt_buf id;
  mt_slice own; /* the job's document */
  mt_mget mget;
  mt_job_record record;
  mt_batch_read last; /* looks for the end of an attempt */
  uint64_t missing;   /* numbers in a row without a batch */
  mt_undo undo;
  bool fetching;
} mt_outlook;

void mt_outlook_start(mt_outlook *o);
void mt_outlook_deinit(mt_outlook *o); /* at any time; `done` is not called any more */

#endif
