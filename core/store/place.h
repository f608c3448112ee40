/* A place is what one lock document is for: a path and one of its stripes. Where a table has stripes, `/`
 * and the paths directly below it have several documents, so that their many holders do not all stand in
 * one; all other paths have stripe 0 alone. Only the plan of a lock (lock/plan.c) turns paths into places.
 *
 * A store knows a place by its name: the path, and for another stripe than 0 "PATH//STRIPE", of the root
 * "//STRIPE". No path has an empty segment, so no name is another place's. */
#ifndef MT_STORE_PLACE_H
#define MT_STORE_PLACE_H

#include "base/buf.h"
#include "base/json.h"

enum {
  MT_STRIPES_MAX = 64,
  MT_STRIPES_DEFAULT = 16, /* of a new table on a server: bench/README.md says why */
};

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

void mt_place_add_name(mt_buf *out, mt_place place);
/* The path borrows from the name. What is no name of another stripe is a path. */
mt_place mt_place_of_name(mt_slice name);

/* How many stripes a path has, in a table with so many. */
uint32_t mt_place_stripes(mt_slice path, uint32_t of_table);

/* The stripe in which a session takes its intentions at a path with so many. Others have others, so that they
 * spread; and whoever proves a session dead knows where to look first. */
uint32_t mt_place_stripe_of(const char *session, uint32_t stripes);

/* In listings: the members `path` and, unless it is 0, `stripe`. */
void mt_place_add_json(mt_buf *out, mt_place place);
/* Appends the path of a listed lock to `text`, from which it borrows until that grows. */
bool mt_place_read_json(mt_json lock, mt_buf *text, mt_place *out);

#endif
