/* Changes all documents that match a query, under a lock. It reads the whole documents, changes them, writes
 * each back by compare-and-set, accounts for every one, and counts again.
 *
 * It is a state machine on the store's loop, and takes time and randomness from an mt_env. It is safe even
 * without a journal: a changed document no longer matches, so running the change again finishes what a
 * killed run has left. */
#ifndef MT_JOB_CHANGE_H
#define MT_JOB_CHANGE_H

#include "job/pace.h"
#include "job/preview.h"
#include "job/result.h"
#include "job/sweep.h"
#include "job/transform.h"
#include "write/writer.h"

/* How far a change came that has set documents aside. */
typedef enum mt_change_end {
  MT_CHANGE_CUT_OFF = 0, /* or nothing was set aside, or a request of it may still come */
  MT_CHANGE_WHOLE,       /* all that could be changed is */
  MT_CHANGE_SHORT,       /* its bound was passed before it had looked at all */
} mt_change_end;

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
  /* Documents whose id is `from` of it, or lies below that, get another id, below `to`. Only with a journal, or for a
   * plan; neither tree may lie in the other. NULL: all keep their ids. */
  const mt_prefix *ids;
  /* True if a document that was changed no longer matches. The change then counts what is left at the end of a pass,
   * such as new documents and conflicts, and makes another pass over it. If false, there is one pass. */
  bool until_none;
  bool matches_on; /* with `until_none`: a document that was changed may still match */
  /* The transform is a function that must not see what it has made: documents in the journal are skipped, and
   * there is another pass only if documents were in conflict. The caller initialises it with zeros, a job the rest.
   * NULL: it may see it. */
  struct mt_known *known;
  /* A function is asked only about documents that it concerns, and what would leave is set aside. NULL: about all. */
  const struct mt_within *within;
  /* Called when a page waits for mt_change_page, because the caller makes the change. NULL: `transform` makes it. */
  void (*offered)(struct mt_change *c);
  struct mt_unit_journal
      *journal; /* lists each batch before it is written (unit.h); NULL: there is none */
  bool plan;    /* writes nothing, makes one pass, and counts in `changed` what would be changed */
  mt_preview *preview; /* for a plan: gets the writes; initialised by the caller; may be NULL */
  bool peeks; /* a plan that ends when its preview has all of its samples; only `matched` and `beside` are of all */
  /* Called when the index is known to be fit. It may set `query` and `beside`. May be NULL. */
  mortise_status (*described)(struct mt_change *c, const mt_describe *d, mortise_error *err);
  /* How the store makes the change by itself, ready except for its index and query; NULL: it does not. `counted`
   * decides with `sweeps`, or pauses the change and decides before that goes on. Passes follow over what is
   * left. Needs until_none. */
  mt_sweep *sweep;
  bool sweeps;
  /* How many documents may be set aside. As soon as there are more it reads no further page. Not for a plan. */
  mt_bound bound;
  uint64_t beyond; /* set at any time: documents that an earlier attempt has finished, and that match no longer */
  /* another query, or empty: its matches are counted into the result before anything is written */
  mt_slice beside;
  /* Called before anything is written, when `matched` and `beside` are known. An error ends the change. May be
   * NULL. */
  mortise_status (*counted)(struct mt_change *c, mortise_error *err);
  /* Called when all went well. Its error becomes the change's error. May be NULL. */
  mortise_status (*concluded)(struct mt_change *c, mortise_error *err);
  void (*progress)(void *ctx, struct mt_change *c, uint64_t changed, uint64_t total);
  struct {
    uint32_t page;      /* documents a page and batch; 0: MT_SCAN_PAGE, and flow.h adapts */
    uint32_t slices;    /* of the scan; 0: the store decides */
    uint32_t in_flight; /* write requests at once; 0: flow.h adapts */
    uint32_t passes;    /* at most; 0: 8 */
    size_t bytes;       /* of a write request; 0: the writer's default */
    int64_t patience_ms; /* how long it waits while the store takes no writes, or a shard is away; 0: half a minute */
    mt_strength strength;
    const char *stamp_field; /* as mt_writer_config's; borrowed */
  } options;
  /* out */
  bool asked_store; /* to make the change by itself, so that it may have changed something */
  /* Set by `counted` if the opposite change undoes this one: where the change puts documents there is no other
   * document yet, and searches find every document there. */
  bool reversible;
  mt_change_result result; /* what was done, also after a failure */
  mt_change_end end;       /* CUT_OFF unless the error is that some documents were set aside */
  /* REJECTED or CONFLICT if it ran to its end but could not change some documents; UNSUPPORTED or NOT_FOUND if the
   * index is not fit; LOCK_LOST, INTERRUPTED and others. The message says how many documents were changed. */
  mortise_error error;
  void *op;
} mt_change;

/* On an error nothing is started, and `done` is not called. */
mortise_status mt_change_start(mt_change *c, mortise_error *err);

/* A paused change reads no further page and sends nothing more until it is resumed. Requests under way end. */
void mt_change_pause(mt_change *c, bool paused);

/* Sets how fast it may go, from the next batch on. Does nothing if the change has ended. */
void mt_change_limit(mt_change *c, mt_limits limits);

/* With `offered`: a page to be changed now (mt_unit_next, mt_unit_put), until mt_change_page_done. NULL: there is
 * none yet, or the change has ended. */
struct mt_unit *mt_change_page(mt_change *c);
void mt_change_page_done(mt_change *c, struct mt_unit *page);

/* Asks the change to end. It sends nothing more, waits for the requests under way, and calls `done` with
 * INTERRUPTED. Does nothing if the change has ended. */
void mt_change_cancel(mt_change *c);
/* The same with another error. */
void mt_change_stop(mt_change *c, const mortise_error *why);

/* Ends the change at once, without calling `done`. Writes under way may still be applied; they are counted in
 * `unknown`. Must not be called from its own callbacks. Does nothing if the change has ended. */
void mt_change_abandon(mt_change *c);

/* Lists the numbers of its journal's batches that are not accounted for yet, at most `n`. */
size_t mt_change_open_batches(const mt_change *c, uint64_t *numbers, size_t n);

/* What it waits for, where it has been waiting for more than a second; NULL: nothing. Until its next step. */
const char *mt_change_waits(const mt_change *c);

/* Has it changed a document, or may it have done so, or may it still do so? */
bool mt_change_applied(const mt_change *c);

/* OK, or why whole documents must not be written into such an index. */
mortise_status mt_change_fit(const mt_describe *d, mortise_error *err);

#endif
