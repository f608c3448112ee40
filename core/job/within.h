/* Which documents a lock on paths concerns: those of whose paths, in one field, any is a locked one or lies below one.
 * A change under such a lock leaves others alone, and takes none of them out of the locked trees. */
#ifndef MT_JOB_WITHIN_H
#define MT_JOB_WITHIN_H

#include "job/transform.h"

typedef struct mt_within {
  mt_transforms name; /* its own, as all below: one transform, which has the field */
  mt_buf text;
  mt_slice *paths;
  size_t n;
  mt_transform inner; /* mt_within_transform */
} mt_within;

/* From a JSON object {"field":"path","paths":["/a",...]}. INVALID_ARGUMENT if it is none. On failure there is nothing
 * to deinit. */
mortise_status mt_within_parse(mt_within *w, mt_slice json, mortise_error *err);
void mt_within_deinit(mt_within *w); /* also of one that is zero */

/* Does it concern the document with this source? */
bool mt_within_concerns(const mt_within *w, mt_slice source);
/* REJECTED, with the type "outside_lock", if more of its paths than before would lie outside, or none inside. */
mortise_status mt_within_check(const mt_within *w, mt_slice before, mt_slice after,
                               mortise_error *err);
/* `t` for the documents that it concerns: others stay unchanged, and what would leave is set aside. Borrows `w`. */
mt_transform mt_within_transform(mt_within *w, mt_transform t);

#endif
