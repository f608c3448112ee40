/* Documents in memory, as a server keeps them: what is there, and what searches see of it, which is what was
 * there at the last refresh. */
#ifndef MT_SIM_SHELF_H
#define MT_SIM_SHELF_H

#include "store/store.h"

#define SHELF_DOCS "docs"
#define SHELF_JOBS "jobs"

enum { SHELF_OTHERS = 255 }; /* who writes: a process's number, or somebody else */

typedef struct shelf_state {
  char *source; /* owned, terminated; NULL: there is none */
  mt_version version;
  uint64_t revision; /* store.h */
} shelf_state;

typedef struct shelf_doc {
  char *id;
  uint64_t hash; /* of the id */
  uint64_t external; /* its version, which grows with each write and stays when it is deleted */
  shelf_state now, seen;
} shelf_doc;

/* A write that was applied. Borrowed. */
typedef struct shelf_written {
  const char *index, *id;
  unsigned who;
  const char *before, *after; /* NULL: no document */
  mt_version before_version, version;
} shelf_written;

typedef struct shelf_index {
  const char *name;
  shelf_doc *docs;
  size_t n, cap;
  uint64_t seq;
} shelf_index;

typedef struct shelf {
  shelf_index docs, jobs;
  void (*written)(void *ctx, const shelf_written *w);
  /* Does the mapping reject it? */
  bool (*rejects)(void *ctx, const char *index, const char *id, mt_slice source);
  void *ctx;
} shelf;

void shelf_init(shelf *s);
void shelf_deinit(shelf *s);
shelf_index *shelf_find(shelf *s, const char *index);
const shelf_doc *shelf_get(const shelf_index *x, mt_slice id); /* NULL: there never was one */
/* Fills the item's `out` part. */
void shelf_write(shelf *s, unsigned who, const char *index, mt_write *item);
void shelf_refresh(shelf_index *x);

#endif
