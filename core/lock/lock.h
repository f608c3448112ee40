/* A lock as the files of this folder share it: a set of parts, one for each path, in byte order. */
#ifndef MT_LOCK_LOCK_H
#define MT_LOCK_LOCK_H

#include "lock/holds.h"
#include "lock/manager.h"

struct mt_lock {
  mt_manager *manager;
  mt_holds *table;
  uint64_t task;
  mt_part *parts; /* in the total order: the bytes of the paths */
  size_t n;
  mt_want *wants; /* what was asked for, normalised; borrows from `text` */
  size_t n_wants;
  char *text;
  uint64_t fence;
  bool granted;
  bool told;                     /* what others are told of our waits names it (waits.c) */
  struct mt_attempt *attempt;    /* while it is being acquired */
  struct mt_convert *converting; /* while it is being converted */
  mt_lock *prev, *next;          /* the manager's */
};

static inline uint64_t mt_lock_task(const mt_lock *lock) {
  return lock->task;
}

/* A wanted set in its final form: the targets and the intention locks on all their ancestors, once
 * each, in byte order; targets under a target in X dropped. */
typedef struct mt_plan {
  struct mt_plan_row {
    mt_slice path;
    mt_mode mode;
    bool target;
  } * rows;
  size_t n;
  mt_want *wants;
  size_t n_wants;
  char *text; /* owns the bytes of all paths */
} mt_plan;

mortise_status mt_plan_make(const mt_want *wants, size_t n, mt_plan *out, mortise_error *err);
void mt_plan_deinit(mt_plan *plan);

/* Reads an owner's JSON into what people are shown. `entry` may be NULL. */
void mt_blocker_fill(mortise_blocker *out, mt_slice path, const mt_lock_entry *entry,
                     const char *owner_json);

#endif
