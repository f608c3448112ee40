/* The set of locks that a request needs: its targets and the intention locks on all their
 * ancestors, each place once, in the total order. Targets below a target in X are dropped.
 *
 * Of a path with stripes, an intention needs any one; here that is stripe 0, until the lock is bound to
 * a session (mt_lock_bind). Any other mode needs all. */
#ifndef MT_LOCK_PLAN_H
#define MT_LOCK_PLAN_H

#include "store/mode.h"
#include "store/place.h"

typedef struct mt_want {
  mt_slice path; /* checked (mt_path_check) */
  mt_mode mode;
} mt_want;

typedef struct mt_plan {
  struct mt_plan_row {
    mt_place place;
    mt_mode mode;
    bool target;
  } * rows;
  size_t n;
  mt_want *wants;
  size_t n_wants;
  char *text; /* owns the bytes of all paths */
} mt_plan;

/* `stripes`: of the table, at least 1. */
mortise_status mt_plan_make(const mt_want *wants, size_t n, uint32_t stripes, mt_plan *out,
                            mortise_error *err);
void mt_plan_deinit(mt_plan *plan);

#endif
