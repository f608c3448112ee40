/* What a job is about to do to each document, written before it is done: a document in the jobs' index
 * for each batch of items. Its id is NAMESPACE:JOB:ATTEMPT:NUMBER; each process that takes a job over is a
 * new attempt and counts from 0, so that what an earlier one sent and what is still on its way can
 * never be taken for its own. */
#ifndef MT_JOB_JOURNAL_H
#define MT_JOB_JOURNAL_H

#include "base/pack.h"
#include "write/writer.h"

enum { MT_JOURNAL_DIGEST = 17 /* 16 hex digits and a NUL */, MT_JOURNAL_ID_MAX = 400 };

typedef enum mt_journal_kind {
  MT_JOURNAL_INDEX = 0, /* what journals without kinds did, too */
  MT_JOURNAL_DELETE,
} mt_journal_kind;

typedef struct mt_journal_entry {
  mt_journal_kind kind;
  mt_slice index, id, routing;   /* routing {NULL,0}: none */
  mt_version before;             /* at which the document was read */
  char after[MT_JOURNAL_DIGEST]; /* of the source that is to be written; "": none is */
  mt_slice source;               /* what it was, byte for byte; {NULL,0}: not kept */
} mt_journal_entry;

/* Of a source: enough to know it again among what others write. False where there is no memory. */
bool mt_journal_digest(mt_slice source, char out[MT_JOURNAL_DIGEST]);

/* "NAMESPACE:JOB:ATTEMPT:NUMBER", borrowed from `out`. */
mt_slice mt_journal_id(char out[MT_JOURNAL_ID_MAX], const char *ns, const char *job,
                       uint64_t attempt, uint64_t number);

/* Appends an entry to a batch's text; a failed buffer is the caller's to notice. */
void mt_journal_add(mt_buf *text, const mt_journal_entry *entry);

/* Appends the batch's whole document, of the text of its entries. */
mortise_status mt_journal_encode(mt_packer **packer, const char *ns, const char *job, mt_slice text,
                                 mt_buf *out, mortise_error *err);

typedef struct mt_journal_batch {
  mt_buf text; /* the slices of the entries borrow from it, or from `decoded` */
  mt_buf decoded;
  mt_journal_entry *entries;
  size_t n;
} mt_journal_batch;

/* CORRUPT_TABLE where `source` is no batch's document. Owned on success: mt_journal_batch_deinit. */
mortise_status mt_journal_decode(mt_slice source, mt_journal_batch *out, mortise_error *err);
void mt_journal_batch_deinit(mt_journal_batch *b);

#endif
