/* Lists of transforms as scripts of an update. */
#ifndef MT_ELASTIC_TRANSFORM_H
#define MT_ELASTIC_TRANSFORM_H

#include "transform/transform.h"

/* Appends the script object of an update, or of an update by query. Its text is always the same, so
 * that a server compiles it once; the list is its parameter, and nothing of it is code.
 *
 * A document that the list changes is written, any other is left as it is and counts as a noop. Of one
 * that is set aside an update's answer says why in `mortise_aside` of its source, where the request asks
 * for `"_source": ["mortise_aside"]`; an update by query does not tell it from one that has nothing to change, so it fits lists
 * after which what is left over still matches the query (mt_transforms_query). */
void mt_elastic_add_transforms(mt_buf *out, const mt_transforms *t, bool by_query);

#endif
