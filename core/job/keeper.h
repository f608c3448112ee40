/* Keeps a job's document in the store: reads it, and writes it by compare-and-set, one write at a time, also at
 * intervals while the job is at work (checkpoints). */
#ifndef MT_JOB_KEEPER_H
#define MT_JOB_KEEPER_H

#include "job/record.h"
#include "write/writer.h"

typedef struct mt_keeper {
  /* in; zero the rest; borrowed */
  void (*note)(void *ctx); /* before a checkpoint: brings the record up to date */
  /* After it, when none is due at once. The next one follows after `every_ms`, unless it failed. It may end the job. */
  void (*kept)(void *ctx);
  void *ctx;
  mt_store *store;
  mt_writer *writer; /* set before the first write */
  const mt_permit *permit;
  const char *table, *ns, *job;
  mt_job_record *record;
  int64_t (*wall_ms)(void); /* the time shown to people; NULL: no time is stored */
  int64_t every_ms;         /* 0: 1,000 */
  /* out, of the last read or write: CONFLICT if there is such a job already, LOCK_LOST if another process has
   * written the document, NOT_FOUND, CORRUPT_TABLE, REJECTED and others */
  mortise_error error;
  mt_outcome outcome; /* of the last write */
  bool busy;          /* a checkpoint is under way */
  /* its own */
  void (*then)(void *ctx); /* of the read or write that was asked for; NULL: none */
  void *then_ctx;
  void (*written)(void *ctx); /* of the write under way */
  void *written_ctx;
  mt_timer tick;
  mt_write_batch batch;
  mt_item item;
  mt_mget mget;
  mt_buf body, id;
  mt_slice ids[1];
  bool reading, writing, reserved, again, resting;
} mt_keeper;

mortise_status mt_keeper_init(mt_keeper *k, mortise_error *err);
/* Reads the document into the record; `then` is called from the loop. */
void mt_keeper_read(mt_keeper *k, void (*then)(void *ctx), void *ctx);
/* Creates the document, or writes it anew if the record has a version. `then` may be called at once. Where a
 * checkpoint is under way, it follows that; no checkpoint is begun meanwhile. One read or write at a time. */
void mt_keeper_write(mt_keeper *k, void (*then)(void *ctx), void *ctx);
/* Writes a checkpoint now, or once more if one is under way. Nothing where the keeper rests, or a write was asked for,
 * which says the same. */
void mt_keeper_checkpoint(mt_keeper *k);
void mt_keeper_tick(mt_keeper *k); /* the next checkpoint follows after `every_ms` */
void mt_keeper_rest(mt_keeper *k); /* no further checkpoint follows by itself */
/* At any time; nothing is called any more. The writer must be freed before, unless no write is under way. */
void mt_keeper_deinit(mt_keeper *k);

#endif
