/* The change of one document: a callback, which may call a function of a script or apply a declared list. */
#ifndef MT_JOB_TRANSFORM_H
#define MT_JOB_TRANSFORM_H

#include "store/store.h"
#include "transform/transform.h"

typedef struct mt_transform {
  /* `doc` is borrowed for the call, and its source is valid JSON. The caller checks `out` for a failure. */
  mt_transformed (*apply)(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err);
  void *ctx;
  /* True if `apply` alone decides whether a document is to be changed. A document that someone else has changed
   * meanwhile can then be read and given to `apply` again, without asking whether it still matches the query. */
  bool decides;
} mt_transform;

/* Borrows the list. It `decides` if each transform of the list is a replace_prefix. */
mt_transform mt_transform_list(const mt_transforms *t);

/* As mt_transform_list, for work that may meet a document twice. A document is set aside if the list would change it
 * once more after changing it, so that a document which the list leaves unchanged is known to be done. It always
 * `decides`. */
mt_transform mt_transform_once(const mt_transforms *t);

/* Writes each document as it is. */
mt_transform mt_transform_touch(void);

#endif
