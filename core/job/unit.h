/* A unit takes one page of documents through a change (PATCHING only if the caller makes the change):
 *
 *   FREE -> READ -> PATCHING -> PATCHED -> WRITING -> FREE, or PATCHED
 *   FREE -> READ -> ... -> PATCHED -> JOURNALING -> JOURNALED -> WRITING -> FREE, or PATCHED    if the journal lists some of it
 *
 * A unit in READ has the documents. In PATCHED it has the items that are to be written. In JOURNALING it waits
 * until the journal has them, and in WRITING it has given them to the sink. A unit leaves PATCHED only while the
 * change is not paused and as its pace allows. If a batch may have fewer documents than the page, the unit returns
 * to PATCHED with the rest. Documents that get another id are created in WRITING, and when that is acknowledged the
 * old ones are deleted in CLEARING. LISTING comes before FREE if some were set aside and a job lists them. The outcome of each document is counted into the change's result.
 *
 * Here is what makes the items of its page, from READ to PATCHED. units.h takes them further. */
#ifndef MT_JOB_UNIT_H
#define MT_JOB_UNIT_H

#include "base/kept.h"
#include "job/aside.h"
#include "job/journal.h"
#include "job/pace.h"
#include "job/preview.h"
#include "job/record.h"
#include "job/result.h"
#include "job/sink.h"
#include "job/transform.h"
#include "write/writer.h"

enum { MT_UNIT_BODIES_MAX = 256 << 20 }; /* bytes of the new bodies of one page */

/* The journal that lists the items before they go to the sink. */
typedef struct mt_unit_journal {
  /* in; borrowed */
  mt_writer *writer;
  const char *index, *ns, *job;
  uint64_t attempt;
  /* a source that it restores to the byte is not kept; `apply` NULL: there is no inverse */
  mt_transform inverse;
  bool only_inexact; /* a document that the inverse restores is not listed at all */
  uint64_t next;     /* in/out: the number of the next batch */
  mt_writer *lister; /* writes the lists of what was set aside, also after the change was stopped */
  uint64_t listed;   /* in/out: how many lists there are */
  /* Out: the batches with writes of unknown outcome, and the counts of those writes whose outcome is known. */
  uint64_t doubtful[MT_JOB_UNITS_MAX], doubtful_changed, doubtful_deleted, doubtful_unchanged;
  size_t n_doubtful;
  mt_packer *packer; /* the units' own, as all below; freed with them */
  mt_buf text, back;
} mt_unit_journal;

typedef enum mt_unit_phase {
  MT_UNIT_FREE,
  MT_UNIT_READ,
  MT_UNIT_PATCHING,
  MT_UNIT_PATCHED,
  MT_UNIT_JOURNALING,
  MT_UNIT_JOURNALED,
  MT_UNIT_WRITING,
  MT_UNIT_CLEARING,
  MT_UNIT_LISTING
} mt_unit_phase;

typedef struct mt_units mt_units;

typedef struct mt_unit {
  mt_units *all;
  mt_unit_phase phase;
  mt_page *page; /* owned, as all below */
  mt_buf bodies;
  mt_item *items;    /* for the whole page */
  const mt_doc **docs; /* of each item: the document of the page */
  mt_item *olds;       /* deletions of documents that have got another id */
  mt_write_batch clearing;
  size_t cap, docs_cap, olds_cap, n, at; /* `at`: the items before it are finished */
  size_t asked;      /* PATCHING: how many documents of the page were given out */
  mt_write_batch batch;
  mt_kept *redone;        /* new bodies for documents that were read again */
  uint64_t number;        /* the number of its batch in the journal, from JOURNALING on */
  char id[MT_JOURNAL_ID_MAX];
  mt_buf entries; /* the document of that batch */
  mt_item entry;
  mt_write_batch entry_batch;
  mt_buf aside; /* the documents of its page that were set aside */
  mt_aside_write listing;
  bool uncorrected; /* the journal has documents of the batch that were not written */
} mt_unit;

struct mt_units {
  /* in, as all up to `ctx`; borrowed */
  const char *index;
  mt_transform transform;
  mt_sink sink;
  mt_unit_journal *journal; /* NULL: none */
  mt_preview *preview;      /* gets the writes that go to the sink; may be NULL */
  mt_change_result *result;
  const mt_prefix *ids; /* ids at or below `from` are to lie below `to`; NULL: they stay */
  bool outside; /* the caller makes the change, with mt_unit_put, instead of `transform` */
  /* NULL, or the documents that are skipped because they were written already */
  const struct mt_known *known;
  const struct mt_within *within; /* `outside`: NULL, or the documents that are given out */
  /* a document that needs no change still matches, so it does not count as finished */
  bool idle_matches;
  /* nothing more is sent: `stopped` is set by then */
  void (*failed)(void *ctx, const mortise_error *e);
  void (*written)(void *ctx); /* a unit is free again; called at the end of an event */
  void *ctx;
  const mt_env *env; /* in */
  mt_pace pace;      /* in, at any time; mt_units_wait_ms says when to call mt_units_step again */
  int64_t now_ms; /* when the last step began: what it held back and until when are of one moment */
  bool paused, stopped;
  uint64_t idle; /* how many documents needed no change; the caller resets it */
  uint32_t most; /* how many of the `n` units may be used; may change at any time */
  mt_unit *list;
  uint32_t n, busy;
  size_t in_hand; /* how many bytes the pages have */
};

/* Stops the change that the units are of. */
void mt_units_fail(const mt_units *all, const mortise_error *e);

/* READ -> PATCHED, by `transform`. */
void mt_unit_patch(mt_unit *u);
/* An mt_write_batch's `again`, with the unit as its context. Someone else has changed the document: it is changed
 * anew as it is now. This is used only if the transform alone decides whether a document is to be changed. */
mt_again mt_unit_again(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc);

/* `outside`: a unit that is to be changed now, or NULL. It waits until mt_unit_patched, whatever happens. */
mt_unit *mt_units_to_patch(mt_units *all);
/* The next document of the unit, for which mt_unit_put may be called. NULL: there is none, or nothing more is
 * written. */
const mt_doc *mt_unit_next(mt_unit *u);
/* `body` is copied. MT_ASIDE needs `err`. */
void mt_unit_put(mt_unit *u, mt_transformed how, mt_slice body, const mortise_error *err);
void mt_unit_patched(mt_unit *u); /* then the caller calls mt_units_step, from the loop */

#endif
