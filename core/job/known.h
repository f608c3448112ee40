/* Which documents a job has written already, as its journal says: a function is not called for them again.
 *
 * It is a sorted list of hashes, of 64 bits each. Where there are too many of them for that, the documents
 * are divided by their hashes into parts, and whoever looks at all documents does so once for each part. */
#ifndef MT_JOB_KNOWN_H
#define MT_JOB_KNOWN_H

#include "job/replay.h"

enum { MT_KNOWN_MAX = 1 << 22 /* documents of a part: 32 MiB */ };

typedef struct mt_known {
  /* in; zero the rest. `done` is called from the loop, or from mt_known_start. */
  void (*done)(void *ctx, struct mt_known *k);
  void *ctx;
  mt_journal_of of;
  const mt_job_record *record; /* its attempts, and the batches of all but the last */
  uint64_t last;               /* batches of the last one */
  uint32_t part;               /* from 0 */
  size_t most;                 /* documents of a part; 0: MT_KNOWN_MAX */
  /* out */
  uint32_t parts; /* known once part 0 is; keep it for the others */
  mortise_error error;
  /* its own */
  mt_batch_read read;
  size_t attempt; /* from 1 */
  uint64_t number;
  uint64_t *hashes;
  size_t n, cap;
} mt_known;

/* Reads the journal. May be called again, for the next part or when there are more batches. */
void mt_known_start(mt_known *k);
/* Is it of no concern: written by the job, or of another part? */
bool mt_known_skips(const mt_known *k, const mt_doc *doc);
void mt_known_stop(mt_known *k);   /* `done` is not called any more */
void mt_known_deinit(mt_known *k); /* at any time */

#endif
