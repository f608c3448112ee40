/* A writer bound to a lock: protected batches of document writes, with an outcome for each item.
 *
 * A state machine over store->docs: it starts no thread and never blocks; time and randomness come
 * from an mt_env. It sends nothing once the lock's deadline has passed: that is checked before each
 * request and, by the store, when its last bytes are handed over; no request's time-out exceeds the
 * lease.
 *
 * What a failed request did is determined by reading its documents again, and an item counts as
 * applied only when a write of it was acknowledged. Repeating an item is safe because its
 * compare-and-set lets at most one copy through, and the copies are equal.
 *
 * A request may also be applied late, after another holder has written. So under a lock each item
 * is a compare-and-set: against its if_version, or else against the version read under this very
 * lock; if there is no document, it is a create. docs/guarantees.md says why reading again after a
 * conflict is safe. */
#ifndef MT_WRITE_WRITER_H
#define MT_WRITE_WRITER_H

#include "base/env.h"
#include "lock/permit.h"
#include "store/store.h"
#include "write/stamp.h"

typedef enum mt_outcome {
  MT_OUTCOME_NONE =
      0, /* not done, the batch's error says why; `dirty` if it may have been applied */
  MT_OUTCOME_APPLIED,  /* a write of it was acknowledged */
  MT_OUTCOME_ALREADY,  /* nothing was left to do */
  MT_OUTCOME_CONFLICT, /* somebody else has changed the document since `if_version`, or, with
                          write.type "stamped", it has a later holder's stamp */
  MT_OUTCOME_REJECTED, /* the store refuses it; write.type and write.reason say why */
} mt_outcome;

enum { MT_OUTCOMES = 5 };

/* One write. The caller fills the `in` part of `write` and keeps its slices until `done`. */
typedef struct mt_item {
  mt_write write; /* in/out: the last answer for it */
  bool of_source; /* in: an index whose body was made from the whole source at write.if_version, its
                     stamp included, so that the document need not be read first */
  mt_outcome outcome;
  bool dirty;  /* out: an unanswered request may have applied it, or may still do so */
  bool doubted; /* out: a request of it had no answer, whatever the outcome of a later one */
  bool reread; /* the writer's, as all below */
  bool absent; /* there was no document, so it is sent as a create */
  bool probes; /* an update that changes nothing is sent instead (items.c) */
  uint8_t rereads;
  mt_version at; /* compare with this version instead of write.if_version */
} mt_item;

/* What to do with an item in conflict, after its document was read again. */
typedef enum mt_again {
  MT_AGAIN_CONFLICT, /* leave it a CONFLICT */
  MT_AGAIN_WRITE,    /* body and if_version are new: send it */
  MT_AGAIN_DONE,     /* nothing is left to do: ALREADY */
  MT_AGAIN_REJECT,   /* REJECTED; the callback wrote write.type and write.reason */
} mt_again;

typedef struct mt_write_batch {
  /* As base/pump.h says, as is `finished`. In, as all up to `exact` but that. */
  void (*done)(void *ctx, struct mt_write_batch *b);
  void *ctx;
  bool finished;
  const char *index; /* for items without one of their own; may be NULL */
  mt_item *items;    /* zeroed except the `in` part of `write` */
  size_t n;
  bool refresh; /* answer once searches show it, see mt_bulk */
  /* An answered conflict is one, even where the document is what the item makes of it. Otherwise that is taken for a
   * copy of the item's own request, and acknowledged by writing it once more. */
  bool exact;
  /* NULL: conflicts are reported at once. Otherwise called for each conflict with the document as
   * it is now (found == false if it is gone), at most MT_AGAIN_MAX times for one item. `doc` is
   * borrowed during the call; a new body is owned by the callback and must last until `done`. */
  mt_again (*again)(void *ctx, struct mt_write_batch *b, mt_item *item, const mt_doc *doc);
  size_t counts[MT_OUTCOMES]; /* out: items with each outcome; they add up to `n` */
  size_t dirty;               /* out: items that may have been applied but are not known to be */
  mortise_error error;        /* out: OK when each item has an outcome; ambiguous where `dirty` */
  size_t next;                /* the writer's, as all below */
  size_t active;
  bool failed;
  struct mt_write_batch *link;
} mt_write_batch;

enum { MT_AGAIN_MAX = 16, MT_WRITER_LANES = 16 };

typedef enum mt_strength {
  /* An item without if_version is read first (only its version) and overwrites that version; if it
   * changed in between, it is read again while the lock is held. An update by script, or an upsert,
   * that may already have been applied is then a CONFLICT; a scripted upsert of a missing document
   * is REJECTED. Without a lock the same as NONE. */
  MT_STRENGTH_CAS = 0,
  /* Also puts the lock's stamp into each document, and does not change a document with a later
   * stamp: such an item is a CONFLICT of type "stamped". An item is read first if it has no
   * if_version or its body does not show the document's stamp; if it changed in between, it is read
   * again. Updates by script and upserts are REJECTED. Needs a lock. */
  MT_STRENGTH_STAMP,
  /* Compares only with if_version: an item without one may, if it is applied late, overwrite what a
   * later holder has written. */
  MT_STRENGTH_NONE,
} mt_strength;

enum { MT_WRITER_DOCS = 1000, MT_WRITER_DOCS_MAX = 100000 };

/* A request that was answered, or failed, for those who adapt to how the store takes it. */
typedef struct mt_sent {
  size_t docs;
  int64_t ms;
  bool refused; /* the store, or it for some items, has no time: 429, 503; or it is not reached */
} mt_sent;

typedef struct mt_writer_config {
  uint32_t docs;      /* in a request at most; 0: MT_WRITER_DOCS */
  size_t bytes;       /* in a request, unless one document is larger; 0: 2 MiB */
  uint32_t in_flight; /* requests at the same time; 0: 2; at most MT_WRITER_LANES */
  uint32_t tries;     /* tries without progress before giving up; 0: 8 */
  /* Instead of that, where the store answers that it takes no writes now (429, 503, a block): how long without
   * progress; 0: as `tries` says */
  int64_t patience_ms;
  int64_t backoff_ms; /* the first wait, doubling up to 64 times that, with jitter; 0: 50 */
  mt_strength strength;
  const char *stamp_field; /* a name, or a path through objects; NULL: MT_STAMP_FIELD */
  bool auth_ends; /* an item that the user may not write ends its batch with AUTH, and is not done; else it is REJECTED */
  void (*sent)(void *ctx, const mt_sent *sent); /* of each bulk, from the loop; NULL: nobody asks */
  void *sent_ctx;
} mt_writer_config;

typedef struct mt_writer mt_writer;

/* `store`, `env` and the permit's lock are borrowed; permit NULL: an unprotected writer. LOCK_LOST
 * if the lock is no longer held. `config` may be NULL. Owned: mt_writer_free. NULL with `err`. */
mt_writer *mt_writer_new(mt_store *store, const mt_env *env, const mt_permit *permit,
                         const mt_writer_config *config, mortise_error *err);
/* Cancels requests in flight, without calling `done`. Unfinished batches are counted as they are:
 * what was sent and not answered is `dirty`, and may still be applied. NULL is fine. */
void mt_writer_free(mt_writer *w);

/* Starts a batch, which stays in the caller's memory until `done`, and is not submitted again before. Batches and their items are sent
 * in order, but several requests at once: no two items may write the same document. */
void mt_writer_submit(mt_writer *w, mt_write_batch *b);

/* From its next request on: so many documents in one, and requests at the same time; at most what the
 * config says. */
void mt_writer_pace(mt_writer *w, uint32_t docs, uint32_t in_flight);

/* Why it has been waiting for more than a second before it sends something once more; NULL: it has not. Until its next
 * step. */
const char *mt_writer_waits(const mt_writer *w);

/* Sends nothing more: batches finish with this error once requests in flight have been answered. */
void mt_writer_stop(mt_writer *w, const mortise_error *why);

/* An `again` for writes that nobody else makes: where the document is what the item makes of it, a request whose
 * answer was lost has written it, and it is written over itself, since only an acknowledgement proves
 * that it stays. Anything else is a CONFLICT. */
mt_again mt_again_itself(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc);

#endif
