/* Settles the documents of a batch that get another id, which the store can do only by a create and a delete. Each
 * is a pair: what is at the old id and at the new one. Two requests follow one another: the second, which takes
 * something away, is sent only when the first is acknowledged. So no document is ever only on its way.
 *
 * A dead process may have left three requests that come late, and each state of a pair makes them harmless:
 * - its create has an external version (store.h), so that it does nothing once its document was there, or the id is
 *   sealed;
 * - its delete of the old document compares with a version, which is gone once the document was written again;
 * - what an earlier settling has sent is of the same two kinds.
 *
 * On, as a job that is resumed goes (`-`: no document; "mine": as the batch was to leave it):
 *   old as read, new -         create the new one, then delete the old one
 *   old as read, new mine      write the new one again for an acknowledgement, then delete the old one
 *   old -, new mine            it is done; write the new one again for an acknowledgement
 *   old -, new anything else   someone has changed or deleted it since; nothing is to be done
 *   old otherwise              seal the new id where there is none; the job's search finds the old one
 *   old as read, new otherwise write the old one again; the job's search finds it
 *
 * Back, as a job that is undone:
 *   old as it was, new -       write the old one again, then seal the new id
 *   old as it was, new mine    write the old one again, then delete the new one
 *   old as it was, new other   write the old one again; the new id was somebody else's
 *   old -, new mine            create the old one, then delete the new one
 *   anything else              a conflict: somebody has been there without a lock, and all that is there stays */
#ifndef MT_JOB_MOVED_H
#define MT_JOB_MOVED_H

#include "base/kept.h"
#include "job/aside.h"
#include "job/replay.h"
#include "job/result.h"
#include "job/transform.h"

typedef struct mt_moved {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_moved *m); /* from the loop */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer;
  uint64_t attempt, number;
  bool back;
  bool looks;               /* nothing is written: the numbers are of what would be */
  mt_transform change;      /* makes the new source of the old one */
  mt_transform inverse;     /* BACK: makes the old source, where the journal has none */
  mt_buf *aside;            /* BACK: what is left is listed there */
  mt_change_result *result; /* gets those that the store rejects */
  /* out: as mt_rewrite's */
  uint64_t written, untouched, right, left;
  mortise_error error;
  /* its own */
  mt_batch_read read;
  struct mt_pair *pairs;
  size_t n;
  mt_item *items;
  mt_write_batch batch;
  mt_kept *bodies; /* that were made for items */
  unsigned rounds;
} mt_moved;

void mt_moved_start(mt_moved *m);
/* The writer must be freed before, unless `done` was called. */
void mt_moved_deinit(mt_moved *m);

/* Would the change make of this document what the entry says that it made? Then it is what it was before. */
bool mt_moved_is_old(const mt_transform *change, const mt_journal_entry *e, const mt_doc *doc);

#endif
