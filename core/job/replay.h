/* Reads a journal: finds where an attempt ends, and reads a batch together with its documents as they are now. */
#ifndef MT_JOB_REPLAY_H
#define MT_JOB_REPLAY_H

#include "job/journal.h"
#include "job/record.h"

/* Which job's journal it is, and in which index. Borrowed. */
typedef struct mt_journal_of {
  mt_store *store;
  const char *table, *ns, *job;
} mt_journal_of;

/* ---- A batch and its documents --------------------------------------------------------------- */

typedef struct mt_batch_read {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_batch_read *r); /* from the loop */
  void *ctx;
  mt_journal_of of;
  uint64_t attempt, number;
  bool no_documents; /* only the batch is read */
  /* Of a document whose version says that it is as it was read, or was written once since, no source is read: that
   * was the batch, unless another's write was the one and made the batch's fail. */
  bool versions;
  bool pairs; /* the documents of the entries that are a MOVE are read, instead of all others */
  /* out */
  bool found;         /* whether there is such a batch */
  mt_version version; /* of the batch's own document */
  mt_journal_batch batch;
  mt_doc
      *docs; /* the document of each entry, as it is now; then, for a MOVE, those of the new ids */
  mortise_error error;
  /* its own */
  mt_mget mget;
  char id[MT_JOURNAL_ID_MAX], index[256];
  mt_slice own; /* `id` */
  mt_slice *ids, *routing;
  size_t *places; /* the entry that each requested document belongs to */
  mt_page **pages;
  size_t n_pages, cap_pages, asked;
  bool busy;
} mt_batch_read;

void mt_batch_read_start(mt_batch_read *r);
void mt_batch_read_deinit(mt_batch_read *r); /* at any time; `done` is not called any more */

/* ---- The end of an attempt ------------------------------------------------------------------- */

/* Whoever takes a job over must know every batch of the former attempt that the store has or will accept.
 * Reading alone cannot prove this, since a shard copy that lags behind may answer. So the new owner creates
 * a mark under each number from `from` on. If the store accepts the mark, there is no batch of that number
 * and a late one will be refused. If the store refuses it, there is a batch, or a mark that an earlier owner
 * made. The attempt ends before MT_JOB_UNITS_MAX numbers in a row without a batch, because no more batches
 * than that are ever under way. */
typedef struct mt_attempt_close {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_attempt_close *c); /* from the loop */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer;
  uint64_t attempt, from;
  /* out */
  uint64_t end; /* all batches have smaller numbers */
  mortise_error error;
  /* its own */
  mt_write_batch batch;
  mt_item items[MT_JOB_UNITS_MAX];
  char ids[MT_JOB_UNITS_MAX][MT_JOURNAL_ID_MAX];
  mt_slice taken[MT_JOB_UNITS_MAX];
  mt_mget mget;
  mt_buf mark;
  bool reading;
} mt_attempt_close;

/* An error here starts nothing. The writer must be freed before its memory is, unless `done` was called. */
mortise_status mt_attempt_close_start(mt_attempt_close *c, mortise_error *err);
void mt_attempt_close_deinit(mt_attempt_close *c);

#endif
