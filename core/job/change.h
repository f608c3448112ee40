/* One change of all documents that match a query, under a lock: scan whole sources, patch, write
 * each back with compare-and-set, account for every one, count again.
 *
 * A state machine on the store's loop; time and randomness come from an mt_env. It needs no journal
 * to be safe: what is done no longer matches, so running it again finishes what a killed run left.
 */
#ifndef MT_JOB_CHANGE_H
#define MT_JOB_CHANGE_H

#include "job/pace.h"
#include "job/result.h"
#include "job/transform.h"
#include "write/writer.h"

typedef struct mt_change {
  /* in, as all up to `options`; borrowed until the end */
  void (*done)(void *ctx, struct mt_change *c); /* as base/pump.h says, as is `finished` */
  void *ctx;
  bool finished; /* out */
  mt_store *store;
  const mt_env *env;
  const mt_permit *permit; /* NULL: unprotected */
  const char *index;       /* index or alias */
  mt_slice query;          /* Query DSL object, or empty for all */
  mt_transform transform;
  /* A document that was changed no longer matches: the change ends with a count, and passes again
   * over what is left (new documents, conflicts). Else there is one pass. */
  bool until_none;
  bool matches_on; /* `until_none`, but a document that was changed may match still */
  struct mt_unit_journal *journal; /* written before each batch is (unit.h); NULL: there is none */
  bool plan; /* nothing is written, in one pass: `changed` is how many would be */
  /* Called once the index is known to be fit; may set `query` and `beside`. NULL: nothing to add. */
  mortise_status (*described)(struct mt_change *c, const mt_describe *d, mortise_error *err);
  mt_slice beside; /* as `query`: counted into the result before anything is written; or empty */
  /* Called with matched and beside known, before anything is written; an error ends it. May be
   * NULL. */
  mortise_status (*counted)(struct mt_change *c, mortise_error *err);
  /* Called when all went well; an error is the change's. May be NULL. */
  mortise_status (*concluded)(struct mt_change *c, mortise_error *err);
  void (*progress)(void *ctx, struct mt_change *c, uint64_t changed, uint64_t total);
  struct {
    uint32_t page;      /* documents a page and batch; 0: MT_SCAN_PAGE, and flow.h adapts */
    uint32_t slices;    /* of the scan; 0: the store decides */
    uint32_t in_flight; /* write requests at once; 0: flow.h adapts */
    uint32_t passes;    /* at most; 0: 8 */
    size_t bytes;       /* of a write request; 0: the writer's default */
    mt_strength strength;
    const char *stamp_field; /* as mt_writer_config's; borrowed */
  } options;
  /* out */
  /* Set by `counted`: nothing else is yet where the change puts documents, and searches find all that is there,
   * so the opposite change undoes it. */
  bool reversible;
  mt_change_result result; /* also after a failure: what had been done */
  /* REJECTED or CONFLICT where it ran to its end but some documents could not be changed;
   * UNSUPPORTED, NOT_FOUND where the index is not fit; LOCK_LOST, INTERRUPTED, ... The message says
   * how many had been changed. */
  mortise_error error;
  void *op;
} mt_change;

/* An error here starts nothing, and `done` is not called. */
mortise_status mt_change_start(mt_change *c, mortise_error *err);

/* Paused, it reads no further page and sends nothing more, until it goes on; what is under way ends. */
void mt_change_pause(mt_change *c, bool paused);

/* How fast it may go, from the next batch on. Nothing happens to one that has ended. */
void mt_change_limit(mt_change *c, mt_limits limits);

/* Asks it to end: nothing more is sent, what is under way is waited for, then `done` is called with
 * INTERRUPTED. Nothing happens to one that has ended. */
void mt_change_cancel(mt_change *c);

/* Ends it at once, without `done`; writes under way may still be applied, and are in `unknown`. Not
 * from inside its own callbacks. Nothing happens to one that has ended. */
void mt_change_abandon(mt_change *c);

/* The numbers of batches in its journal that are not accounted for yet, at most `n` of them. */
size_t mt_change_open_batches(const mt_change *c, uint64_t *numbers, size_t n);

/* Has it changed a document, or may it have, or may it still? */
bool mt_change_applied(const mt_change *c);

/* OK, or why writing whole sources into such an index is refused. */
mortise_status mt_change_fit(const mt_describe *d, mortise_error *err);

#endif
