/* Lists of transforms as scripts of an update. */
#ifndef MT_ELASTIC_TRANSFORM_H
#define MT_ELASTIC_TRANSFORM_H

#include "transform/transform.h"

/* Appends the script object of an update. Its text is always the same, so that a server compiles it
 * once; the list is its parameter, and nothing of it is code.
 *
 * A document that the list changes is written, any other is left as it is and counts as a noop. Of one
 * that is set aside the answer says why in `mortise_aside` of its source, if the request asks for
 * `"_source": ["mortise_aside"]`. */
void mt_elastic_add_transforms(mt_buf *out, const mt_transforms *t);

/* The same of an update by query, which fails from `not_after_ms` on, by the server's clock (0: never).
 * Its answer does not tell what is set aside from what has nothing to change: so it suits lists after
 * which what is left over still matches the query (mt_transforms_query). */
void mt_elastic_add_transforms_by_query(mt_buf *out, const mt_transforms *t, int64_t not_after_ms);

#endif
