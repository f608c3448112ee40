/* Settling a batch that a dead process has left under way, where what it was to make of the documents cannot be
 * made again: each document is written once more as it is now, so that nothing of the dead comes late; and
 * those that were not changed yet leave the batch's journal, which then has only what was done. */
#ifndef MT_JOB_FENCE_H
#define MT_JOB_FENCE_H

#include "job/rewrite.h"

typedef struct mt_fence {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_fence *f); /* from the loop */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer, *journal; /* of the documents, and of the batches */
  uint64_t attempt, number;
  mt_change_result *result; /* gets those that the store rejects */
  /* out: documents that the batch has changed, or deleted; that are gone; and that others have changed, so that
   * nobody can say whether the batch had */
  uint64_t changed, deleted, gone, others;
  mortise_error error;
  /* its own */
  mt_rewrite rewrite;
  bool *untouched; /* for each entry: the batch has not changed it */
  mt_packer *packer;
  mt_buf text, body;
  mt_item item;
  mt_write_batch batch;
  char id[MT_JOURNAL_ID_MAX];
  unsigned tries;
} mt_fence;

void mt_fence_start(mt_fence *f);
void mt_fence_deinit(mt_fence *f); /* the writers must be freed before, unless `done` was called */

#endif
