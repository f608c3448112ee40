/* Settling a batch that a dead process has left under way, so that nothing of the dead comes late, and the journal has
 * what was done. Documents are written by compare-and-set, which also proves what was read:
 *
 *   as read                         if the change can be made again, it is made now. A function's cannot: the document
 *                                   is written as it is and leaves the journal, and the function is called for it
 *   as the batch was to leave it    it is written as it is, and is done
 *   gone, and was to be deleted     it is done. Nobody can see who deleted it; if it was another, undoing makes it
 *                                   again, which harms less than to lose what the job has deleted
 *   gone otherwise                  others have deleted it; nothing is to be done
 *   changed by others               if it is to be changed as it is now, it is written as it is and leaves the journal:
 *                                   the search finds it
 *
 * Of a function this last is so only where the one write since the reading was another's. Otherwise the batch's may have
 * come before theirs, and the function must not be called for what it has made: the journal keeps the document, marked
 * as unsure, so that it stays so, and it is listed for good. */
#ifndef MT_JOB_FENCE_H
#define MT_JOB_FENCE_H

#include "job/aside.h"
#include "job/rewrite.h"

typedef struct mt_fence {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_fence *f); /* from the loop */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer, *journal; /* of the documents, and of the batches */
  uint64_t attempt, number;
  const mt_transform *again; /* makes the change once more; NULL: it is a function */
  /* out: documents that the batch has changed or deleted, that need no change, or of which nobody can tell */
  uint64_t changed, deleted, unchanged, unsure;
  mortise_error error;
  /* its own */
  mt_change_result result; /* has those that the store rejects */
  mt_rewrite rewrite;
  enum mt_fenced *fates; /* of each entry */
  mt_packer *packer;
  mt_buf text, body;
  mt_item item;
  mt_write_batch batch;
  char id[MT_JOURNAL_ID_MAX];
  mt_buf list;
  mt_aside_write listing;
  unsigned tries;
} mt_fence;

void mt_fence_start(mt_fence *f);
void mt_fence_deinit(mt_fence *f); /* the writers must be freed before, unless `done` was called */

#endif
