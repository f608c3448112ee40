/* Settling what a dead attempt had under way: each of its open batches, as it stands in the journal. */
#ifndef MT_JOB_SETTLE_H
#define MT_JOB_SETTLE_H

#include "job/change.h"
#include "job/fence.h"

typedef struct mt_settle {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_settle *s); /* from the loop, or from mt_settle_start */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer, *journal; /* of documents, and of batches */
  mt_job_record *record;       /* in/out: of its last attempt; its batches and counts */
  uint64_t end;                /* the attempt's batches have smaller numbers */
  const mt_change *change;
  mortise_error error;      /* out */
  /* its own */
  uint64_t number;
  mt_fence fence;
} mt_settle;

void mt_settle_start(mt_settle *s);
void mt_settle_deinit(
    mt_settle *s); /* the writers must be freed before, unless `done` was called */

#endif
