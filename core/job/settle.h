/* Settling what a dead attempt had under way: each of its open batches, as it stands in the journal, so that
 * nothing it has sent does anything any more. */
#ifndef MT_JOB_SETTLE_H
#define MT_JOB_SETTLE_H

#include "job/change.h"
#include "job/fence.h"
#include "job/rewrite.h"

typedef struct mt_settle {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_settle *s); /* from the loop, or from mt_settle_start */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer, *journal; /* of documents, and of batches */
  mt_job_record *record;       /* in/out: of its last attempt; its batches and counts */
  uint64_t end;                /* the attempt's batches have smaller numbers */
  const mt_change *change;
  mt_change_result *result; /* gets those that the store rejects */
  /* out: documents that others have changed, so that nobody can say whether a function's change of them was
   * written */
  uint64_t others;
  mortise_error error;
  /* its own */
  uint64_t number;
  mt_rewrite rewrite;
  mt_fence fence; /* where the change is a function */
} mt_settle;

void mt_settle_start(mt_settle *s);
void mt_settle_deinit(
    mt_settle *s); /* the writers must be freed before, unless `done` was called */

#endif
