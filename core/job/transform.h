/* Changes of one document: a callback, so that a script's function can be one, and a declared list. */
#ifndef MT_JOB_TRANSFORM_H
#define MT_JOB_TRANSFORM_H

#include "store/store.h"
#include "transform/transform.h"

typedef struct mt_transform {
  /* `doc` is borrowed for the call; its source is validated JSON. A failed `out` is the caller's
   * to notice. */
  mt_transformed (*apply)(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err);
  void *ctx;
  /* apply alone decides whether a document is concerned: one that was changed by someone else
   * meanwhile may be read and given to it again without asking the query again. */
  bool decides;
} mt_transform;

/* Borrows the list. It decides where all of it is replace_prefix. */
mt_transform mt_transform_list(const mt_transforms *t);

/* The same for work that may come to a document twice: one that the list would change again is set
 * aside, so that what it leaves unchanged is done. It always decides. */
mt_transform mt_transform_once(const mt_transforms *t);

/* Writes each document as it is. */
mt_transform mt_transform_touch(void);

#endif
