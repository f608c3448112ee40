/* Goes through one batch of a journal again: reads its documents, and writes each of them by compare-and-set as
 * the caller decides. */
#ifndef MT_JOB_REWRITE_H
#define MT_JOB_REWRITE_H

#include "base/kept.h"
#include "job/aside.h"
#include "job/moved.h"
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
  /* It reads, but writes nothing before mt_rewrite_go. Others may be writing its documents meanwhile. */
  bool ahead;
  /* Nothing is written: the numbers below are of what would be. Where the version of a document says that nobody else
   * has written it since, its source is not read. */
  bool looks;
  /* Decides what becomes of a document. It is called again if someone else changes the document meanwhile.
   * WRITE: the item's kind, body and if_version are set, by one of the functions below. DONE: the document is
   * already as it should be. CONFLICT: it is not, and stays as it is. Sets `error` if it fails. */
  mt_again (*decide)(struct mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                     const mt_doc *doc);
  /* For documents that get another id, instead of `decide` (moved.h). */
  bool back;
  mt_transform change, inverse;
  /* out */
  uint64_t written; /* acknowledged writes, without deletions */
  /* of `written`: documents that the batch had never reached, so that nothing was taken back */
  uint64_t untouched;
  mt_buf aside;     /* a list (aside.h) of the documents that were left or rejected */
  uint64_t deleted; /* acknowledged deletions, and documents that were gone already */
  uint64_t right, left;
  mt_change_result *result; /* in: the writes that the store rejects are counted here */
  mortise_error error;
  /* its own */
  mt_batch_read read;
  mt_item *items;
  mt_write_batch batch;
  uint64_t deleted_late; /* to be deleted, and gone when it was looked at again */
  mt_kept *kept;         /* bodies that were made for items */
  mt_moved moved;
  bool arrived, early; /* it has been read; before mt_rewrite_go */
} mt_rewrite;

void mt_rewrite_start(mt_rewrite *w);
void mt_rewrite_go(mt_rewrite *w); /* with `ahead`; from the loop */
/* the writer must be freed before, unless `done` was called */
void mt_rewrite_deinit(mt_rewrite *w);

/* How a document compares with its entry in the journal. */
typedef enum mt_now {
  MT_NOW_GONE,
  MT_NOW_BEFORE, /* unchanged since it was read for the batch */
  MT_NOW_AFTER,  /* changed, as the batch was to change it */
  MT_NOW_THEIRS, /* its one write since then was another's: the batch has not changed it, and never will */
  MT_NOW_OTHER,  /* others have changed it, and the batch may have before */
} mt_now;

/* For `decide`: compares the document with its entry, and sets the item's if_version. Without memory it sets `error`
 * and returns GONE. */
mt_now mt_rewrite_look(mt_rewrite *w, mt_item *item, const mt_journal_entry *e, const mt_doc *doc);

/* For `decide`: makes the item a write of this kind. It borrows `body`. A create gets no if_version; other kinds
 * keep the one that mt_rewrite_look has set. */
mt_again mt_rewrite_as(mt_item *item, mt_write_kind kind, mt_slice body);
/* For `decide`: the document is written with these bytes. The first function copies them, the second takes them out
 * of the buffer. */
mt_again mt_rewrite_with(mt_rewrite *w, mt_item *item, mt_slice source);
mt_again mt_rewrite_taking(mt_rewrite *w, mt_item *item, mt_buf *source);
/* For `decide`: the document is written or deleted as the transform says, or is DONE if that changes nothing. */
mt_again mt_rewrite_by(mt_rewrite *w, mt_item *item, const mt_transform *t, const mt_doc *doc);
/* For `decide`: the whole batch fails with this error. */
mt_again mt_rewrite_fail(mt_rewrite *w, const mortise_error *e);

#endif
