/* An in-memory store of documents whose every misfortune a test decides, and a lock whose deadline
 * a test moves. */
#ifndef MT_SPEC_FAKE_DOCS_H
#define MT_SPEC_FAKE_DOCS_H

#include "lock/permit.h"
#include "store/store.h"

typedef struct fake_lock {
  mt_session session;
  const mt_env *env;
  uint64_t fence;
  mt_epoch epoch;
  mt_permit permit; /* fake_permit's */
} fake_lock;
void fake_lock_init(fake_lock *lock, const mt_env *env, int64_t left_ms);
/* To write under it, as it is now and where it stands. */
const mt_permit *fake_permit(fake_lock *lock);

typedef struct fake_doc {
  char *id, *routing, *source;
  mt_version version;
  bool found;
} fake_doc;

typedef enum fake_fate {
  FAKE_FINE = 0,
  FAKE_LOST_BEFORE, /* the connection breaks before the store has seen it */
  FAKE_LOST_AFTER,  /* ... after it has applied it */
  FAKE_TOO_LARGE,   /* 413 */
  FAKE_BAD,         /* 400 for the whole request */
  FAKE_REFUSED,     /* 503 for the whole request: not applied */
  FAKE_AUTH,        /* 403 */
} fake_fate;

typedef struct fake_docs {
  mt_store store;
  fake_doc *docs;
  size_t n;
  uint64_t seq;
  size_t bulks, mgets, scans, counts, verifies, under_way, most_under_way, items;
  mt_epoch epoch;    /* the lock table's */
  mt_describe facts; /* what describe says */
  /* Decides about each bulk when it arrives; may call fake_put and the like. NULL: fine. */
  fake_fate (*fate)(void *ctx, struct fake_docs *f, mt_bulk *r);
  /* Decides about each item of a bulk that is applied. NULL, or NONE: as it is. */
  mt_write_result (*item)(void *ctx, struct fake_docs *f, mt_write *w);
  fake_fate (*read)(void *ctx, struct fake_docs *f); /* before each mget */
  void (*page)(void *ctx, struct fake_docs *f);      /* before each page of a scan */
  void *ctx;
  size_t page_max; /* larger pages of a scan are refused; 0: none */
} fake_docs;

void fake_docs_init(fake_docs *f, mt_loop *loop);
void fake_docs_deinit(fake_docs *f);
mt_version fake_put(fake_docs *f, const char *id, const char *source); /* any writer's */
void fake_remove(fake_docs *f, const char *id);
fake_doc *fake_get(fake_docs *f, mt_slice id); /* NULL where it never was */
void fake_apply(fake_docs *f, mt_write *w);    /* one item of a request that comes late */

#endif
