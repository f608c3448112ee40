/* Reading a journal again: where an attempt's batches end, and what became of the documents of one. */
#ifndef MT_JOB_REPLAY_H
#define MT_JOB_REPLAY_H

#include "job/journal.h"
#include "job/record.h"

/* Whose journal, and in which index. Borrowed. */
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
  /* out */
  bool found; /* there is such a batch */
  mt_journal_batch batch;
  mt_doc *docs; /* one for each entry, as it is now */
  mortise_error error;
  /* its own */
  mt_mget mget;
  char id[MT_JOURNAL_ID_MAX], index[256];
  mt_slice own; /* `id` */
  mt_slice *ids, *routing;
  size_t *places; /* of what is asked for among the entries */
  mt_page **pages;
  size_t n_pages, cap_pages, asked;
  bool busy;
} mt_batch_read;

void mt_batch_read_start(mt_batch_read *r);
void mt_batch_read_deinit(mt_batch_read *r); /* at any time; `done` is not called any more */

/* ---- The end of an attempt ------------------------------------------------------------------- */

/* Whoever takes a job over must know every batch that was ever acknowledged, and that no other will be:
 * reading alone proves neither, since a copy that lags behind may answer. So a mark is created under
 * each number from `from` on. Where that succeeds there was no batch, and a late one is refused; where
 * it is refused there is one, or a mark of someone who did this before. A whole window without a batch
 * is behind the end, since no more than MT_JOB_UNITS_MAX are ever under way. */
typedef struct mt_attempt_close {
  /* in; zero the rest */
  void (*done)(void *ctx, struct mt_attempt_close *c); /* from the loop */
  void *ctx;
  mt_journal_of of;
  mt_writer *writer;
  uint64_t attempt, from;
  /* out */
  uint64_t end; /* batches have smaller numbers */
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
