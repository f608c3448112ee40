/* Where the paths in a document's field lie. */
#ifndef MT_TRANSFORM_PLACES_H
#define MT_TRANSFORM_PLACES_H

#include "transform/transform.h"

typedef struct mt_places {
  size_t inside, outside; /* texts, also elements of arrays; other values are neither */
} mt_places;

/* How many texts in the field of the list's first transform are one of these paths, or lie below one. `source` is
 * valid JSON. */
mt_places mt_places_below(const mt_transforms *t, mt_slice source, const mt_slice *paths, size_t n);

#endif
