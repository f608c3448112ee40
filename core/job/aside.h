/* Documents that a job could not change, each with the reason: listed in documents of the jobs' index, so that
 * there may be any number of them. The job's document names a mark, and those with that mark count:
 * "run:ATTEMPT:PASS", since each pass looks at everything again, or "undo". Beside all but the last, those marked
 * "unsure" count as well (fence.h).
 *
 *   NAMESPACE:JOB:aside:...
 *   {"kind":"aside","ns":...,"job":...,"state":MARK,"body":{"list":[
 *     {"what":"rejected" or "conflict","index":...,"id":...,"type":...,"reason":...},...]}} */
#ifndef MT_JOB_ASIDE_H
#define MT_JOB_ASIDE_H

#include "job/record.h"
#include "write/writer.h"

enum { MT_ASIDE_ID_MAX = 400 };
#define MT_UNDO_MARK "undo"
#define MT_UNSURE_MARK "unsure"

/* Appends a document to a list; a failed buffer is the caller's to notice. */
void mt_aside_add(mt_buf *list, mt_slice index, const mt_write *w, bool rejected);
/* The same, for one that was never sent. */
void mt_aside_add_left(mt_buf *list, mt_slice index, mt_slice id, bool rejected, const char *type,
                       const char *reason);

typedef struct mt_aside_write {
  /* in; borrowed */
  void (*done)(void *ctx, mt_write_batch *b); /* as the writer's */
  void *ctx;
  mt_writer *writer;
  const char *table, *ns, *job;
  mt_buf body; /* its own, as all below */
  char id[MT_ASIDE_ID_MAX];
  mt_item item;
  mt_write_batch batch;
} mt_aside_write;

/* Writes the list under this name, over what was there. An error here starts nothing. */
mortise_status mt_aside_write_start(mt_aside_write *a, const char *name, const char *mark,
                                    mt_slice list, mortise_error *err);
/* OK, or why it was not written; for `done`. */
mortise_status mt_aside_write_status(const mt_aside_write *a, mortise_error *err);
void mt_aside_write_deinit(
    mt_aside_write *a); /* the writer must be freed before, unless `done` was called */

#endif
