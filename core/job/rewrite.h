/* One batch of a journal once more: its documents are read, looked at, and written as is decided for
 * each, by compare-and-set. */
#ifndef MT_JOB_REWRITE_H
#define MT_JOB_REWRITE_H

#include "job/replay.h"
#include "job/result.h"
#include "job/transform.h"

typedef struct mt_rewrite {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_rewrite *w); /* from the loop */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer;
  uint64_t attempt, number;
  /* What becomes of a document, as it is now; asked again where someone changes it meanwhile. WRITE:
   * the item's kind, body and if_version are set (mt_rewrite_with and those below). CONFLICT: it is left as it is. DONE: so is it,
   * and that is right. An error is told by setting `error`. */
  mt_again (*decide)(struct mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                     const mt_doc *doc);
  /* out */
  uint64_t written; /* acknowledged, but for deletions */
  uint64_t deleted; /* acknowledged, or gone as the journal has it */
  uint64_t right, left;
  mt_change_result *result; /* in: gets those that the store rejects */
  mortise_error error;
  /* its own */
  mt_batch_read read;
  mt_item *items;
  mt_write_batch batch;
  struct mt_kept *kept;
} mt_rewrite;

void mt_rewrite_start(mt_rewrite *w);
void mt_rewrite_deinit(
    mt_rewrite *w); /* the writer must be freed before, unless `done` was called */

/* What a document is now, beside what the journal says of it. */
typedef enum mt_now {
  MT_NOW_GONE,
  MT_NOW_BEFORE, /* as it was read for the batch */
  MT_NOW_AFTER,  /* what the batch was to make of it */
  MT_NOW_OTHER,
} mt_now;

/* For `decide`: sets the item's if_version, and says which. Where there is no memory it fails, and says
 * GONE. */
mt_now mt_rewrite_look(mt_rewrite *w, mt_item *item, const mt_journal_entry *e, const mt_doc *doc);

/* For `decide`: the item becomes such a write, of bytes that stay. A create has no if_version; others have
 * that which mt_rewrite_look found. */
mt_again mt_rewrite_as(mt_item *item, mt_write_kind kind, mt_slice body);
/* For `decide`: the item is written with these bytes, which are copied; or which the buffer gives away. */
mt_again mt_rewrite_with(mt_rewrite *w, mt_item *item, mt_slice source);
mt_again mt_rewrite_taking(mt_rewrite *w, mt_item *item, mt_buf *source);
/* For `decide`: it is written, or deleted, as the transform has it; DONE where nothing is to be changed. */
mt_again mt_rewrite_by(mt_rewrite *w, mt_item *item, const mt_transform *t, const mt_doc *doc);
/* For `decide`: it fails. */
mt_again mt_rewrite_fail(mt_rewrite *w, const mortise_error *e);

#endif
