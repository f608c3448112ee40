/* A page of documents on its way through a change:
 *
 *   FREE -> READ -> PATCHED -> WRITING -> FREE, or PATCHED
 *   FREE -> READ -> PATCHED -> JOURNALING -> JOURNALED -> WRITING -> FREE, or PATCHED    if the journal lists some of it
 *
 * READ has the documents, PATCHED the items that are to be written, JOURNALING waits until the journal
 * has them, WRITING has given them to the sink. Behind PATCHED stands the one gate, at which all units
 * of a change that is paused wait, and at which its pace is kept: where a batch may have fewer documents than
 * the page, the unit comes back to it with the rest. What came of each document is counted into the change's result. */
#ifndef MT_JOB_UNIT_H
#define MT_JOB_UNIT_H

#include "job/journal.h"
#include "job/pace.h"
#include "job/record.h"
#include "job/result.h"
#include "job/transform.h"
#include "write/writer.h"

/* Where the items of a change go. */
typedef struct mt_sink {
  /* True: `batch->done` will be called, from the loop. False: each item has its outcome already. */
  bool (*submit)(void *ctx, mt_write_batch *batch);
  void *ctx;
} mt_sink;

mt_sink mt_sink_writer(mt_writer *writer);
mt_sink mt_sink_plan(void); /* writes nothing: what would be written counts as applied */

/* Where the items are written down before they go there. */
typedef struct mt_unit_journal {
  /* in; borrowed */
  mt_writer *writer;
  const char *index, *ns, *job;
  uint64_t attempt;
  mt_transform
      inverse; /* sources that it restores to the byte are not kept; `apply` NULL: there is none */
  bool only_inexact; /* documents that it restores are not even listed */
  uint64_t next;   /* in/out: of the next batch */
  /* Out: batches of which some writes have no outcome, and what is counted of them all the same. */
  uint64_t doubtful[MT_JOB_UNITS_MAX], doubtful_changed, doubtful_deleted, doubtful_unchanged;
  size_t n_doubtful;
  mt_packer *packer; /* the units' own, as all below; freed with them */
  mt_buf text, back;
} mt_unit_journal;

typedef enum mt_unit_phase {
  MT_UNIT_FREE,
  MT_UNIT_READ,
  MT_UNIT_PATCHED,
  MT_UNIT_JOURNALING,
  MT_UNIT_JOURNALED,
  MT_UNIT_WRITING
} mt_unit_phase;

typedef struct mt_units mt_units;

typedef struct mt_unit {
  mt_units *all;
  mt_unit_phase phase;
  mt_page *page; /* owned, as all below */
  mt_buf bodies;
  mt_item *items;    /* of the whole page */
  size_t cap, n, at; /* `at`: those before it are out of the way */
  mt_write_batch batch;
  struct mt_redo *redone; /* bodies made anew for documents that were read again */
  uint64_t number;        /* of its batch in the journal, from JOURNALING on */
  char id[MT_JOURNAL_ID_MAX];
  mt_buf entries; /* its document there */
  mt_item entry;
  mt_write_batch entry_batch;
} mt_unit;

struct mt_units {
  /* in, as all up to `ctx`; borrowed */
  const char *index;
  mt_transform transform;
  mt_sink sink;
  mt_unit_journal *journal; /* NULL: none */
  mt_change_result *result;
  bool
      idle_matches; /* who has nothing to change matches still, so it is no document out of the way */
  void (*failed)(void *ctx,
                 const mortise_error *e); /* nothing more is sent: `stopped` is set by then */
  void (*written)(void *ctx);             /* a unit is free again; last in its event */
  void *ctx;
  const mt_env *env; /* in */
  mt_pace pace;      /* in, at any time; ask mt_units_wait_ms when to step next */
  bool paused, stopped;
  uint64_t idle; /* documents in which nothing was to be changed; the caller sets it back */
  uint32_t most; /* at once, of the `n` that there are; may change at any time */
  mt_unit *list;
  uint32_t n, busy;
  size_t in_hand; /* bytes of the pages */
};

mortise_status mt_units_init(mt_units *all, uint32_t n, mortise_error *err);
void mt_units_deinit(mt_units *all);

/* Few large pages fill the room, too. */
bool mt_units_room(const mt_units *all);
/* Takes the page, which is the unit's own then, where there is room. The caller goes on with
 * mt_units_step. */
void mt_units_take(mt_units *all, mt_page *page);
/* Takes every unit as far as it goes now. */
void mt_units_step(mt_units *all);
/* Milliseconds until a unit that its pace holds back may go on; 0: there is none. */
int64_t mt_units_wait_ms(const mt_units *all);
/* The numbers of batches in the journal that are not accounted for yet, in no order: at most `n` of
 * them. */
size_t mt_units_open(const mt_units *all, uint64_t *numbers, size_t n);
/* The sink is gone: what was with it is accounted for as it stands. */
void mt_units_abandon(mt_units *all);

#endif
