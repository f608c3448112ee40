/* Lists of transforms as scripts of an update. */
#ifndef MT_ELASTIC_TRANSFORM_H
#define MT_ELASTIC_TRANSFORM_H

#include "transform/transform.h"

/* Appends the script object of an update. Its text is always the same, so a server compiles it once; the
 * list is a parameter, and nothing in it becomes code.
 *
 * A document that the list changes is written; any other is not, and counts as a noop. If it is set
 * aside, `mortise_aside` in the answer's source says why; for that, the request must have
 * `"_source": ["mortise_aside"]`. */
void mt_elastic_add_transforms(mt_buf *out, const mt_transforms *t);

/* The same for an update by query. From `not_after_ms` on, by the server's clock, it fails (0: never).
 * Its answer does not distinguish documents that are set aside from unchanged ones, so it suits lists
 * for which mt_transforms_query finds afterwards what was set aside. */
void mt_elastic_add_transforms_by_query(mt_buf *out, const mt_transforms *t, int64_t not_after_ms);

#endif
