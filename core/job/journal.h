/* The journal of a job says what the job is about to do to each document, and is written before the job does
 * it. Each batch of items has a document in the jobs' index, whose id is NAMESPACE:JOB:ATTEMPT:NUMBER. Each
 * process that takes the job over begins a new attempt, whose batches count from 0, so a late request of an
 * earlier attempt can never be taken for one of its own. */
#ifndef MT_JOB_JOURNAL_H
#define MT_JOB_JOURNAL_H

#include "base/pack.h"
#include "write/writer.h"

enum { MT_JOURNAL_DIGEST = 17 /* 16 hex digits and a NUL */, MT_JOURNAL_ID_MAX = 400 };

typedef enum mt_journal_kind {
  MT_JOURNAL_INDEX = 0, /* also an entry of an older journal that names no kind */
  MT_JOURNAL_DELETE,
  MT_JOURNAL_MOVE, /* the new source has another id; the old document is deleted */
} mt_journal_kind;

typedef struct mt_journal_entry {
  mt_journal_kind kind;
  mt_slice index, id, routing;   /* routing {NULL,0}: none */
  mt_slice to;                   /* of a MOVE: the new id */
  mt_version before;             /* the version at which the document was read */
  uint64_t revision;             /* and how often it had been written (store.h); 0: not known */
  char after[MT_JOURNAL_DIGEST]; /* the digest of the new source; "" if none is written */
  mt_slice source;               /* the old source, byte for byte; {NULL,0}: it is not kept */
  bool unsure; /* others have changed it, and nobody can tell whether the batch had before (fence.h) */
} mt_journal_entry;

/* A digest of the source, which tells it from what others write. False if there is no memory. */
bool mt_journal_digest(mt_slice source, char out[MT_JOURNAL_DIGEST]);

/* "NAMESPACE:JOB:ATTEMPT:NUMBER", borrowed from `out`. */
mt_slice mt_journal_id(char out[MT_JOURNAL_ID_MAX], const char *ns, const char *job,
                       uint64_t attempt, uint64_t number);

/* Appends an entry to a batch's text. The caller checks the buffer for a failure. */
void mt_journal_add(mt_buf *text, const mt_journal_entry *entry);

/* Appends the whole document of a batch, which is made from the text of its entries. */
mortise_status mt_journal_encode(mt_packer **packer, const char *ns, const char *job, mt_slice text,
                                 mt_buf *out, mortise_error *err);

typedef struct mt_journal_batch {
  mt_buf text; /* the slices of the entries borrow from it, or from `decoded` */
  mt_buf decoded;
  mt_journal_entry *entries;
  size_t n;
} mt_journal_batch;

/* CORRUPT_TABLE if `source` is not the document of a batch. On success the caller frees `out` with
 * mt_journal_batch_deinit. */
mortise_status mt_journal_decode(mt_slice source, mt_journal_batch *out, mortise_error *err);
void mt_journal_batch_deinit(mt_journal_batch *b);

#endif
