/* A place is what one lock document is for: a path and one of its stripes. A path that many
 * sessions want at once can have its holders in several documents, each a place; so far each path
 * has only stripe 0. Only the plan of a lock (lock/plan.c) turns paths into places. */
#ifndef MT_STORE_PLACE_H
#define MT_STORE_PLACE_H

#include "base/buf.h"

typedef struct mt_place {
  mt_slice path;
  uint32_t stripe;
} mt_place;

static inline bool mt_place_equal(mt_place a, mt_place b) {
  return a.stripe == b.stripe && mt_slice_eq(a.path, b.path);
}

/* The total order in which places are locked: the bytes of the paths, then the stripes. */
static inline int mt_place_cmp(mt_place a, mt_place b) {
  int paths = mt_slice_cmp(a.path, b.path);
  return paths ? paths : (a.stripe > b.stripe) - (a.stripe < b.stripe);
}

#endif
