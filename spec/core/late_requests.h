/* Requests whose sender has died, and which the store gets later. */
#ifndef MT_SPEC_LATE_REQUESTS_H
#define MT_SPEC_LATE_REQUESTS_H

#include "store/store.h"
#include "transform/transform.h"

/* A copy of a bulk whose sender has died. */
typedef struct late_bulk {
  char *index;
  mt_write *items;
  size_t n;
} late_bulk;

/* The same of the request for a task. */
typedef struct late_sweep {
  mt_update_by_query request;
  mt_transforms list;
  mt_gate gate;
} late_sweep;

/* Copies of what these have. */
late_bulk late_bulk_of(const mt_bulk *r);
late_sweep late_sweep_of(const mt_update_by_query *r);
/* The store carries it out, unless it has already; then it is empty. */
void late_bulk_bring(late_bulk *b, mt_store *s);
/* What a task does that begins late is seen when it has ended. */
void late_sweep_bring(late_sweep *w, mt_store *s);

#endif
