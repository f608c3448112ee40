/* Changing a JSON object without touching the bytes that did not change. */
#ifndef MT_BASE_JSON_EDIT_H
#define MT_BASE_JSON_EDIT_H

#include "base/json.h"

/* One field to set or to remove. `name` is looked for as a literal key first ("a.b" may be one),
 * then as a path through objects. A new field goes at the end of the object, its missing parent
 * objects with it. */
typedef struct mt_json_edit {
  mt_slice name;
  mt_slice value; /* JSON text; {NULL, 0} removes the field */
} mt_json_edit;

/* The value that `name` means in `object`, found as said above; NONE where there is none. */
mt_json mt_json_find(mt_json object, mt_slice name);

/* Appends `object` with the edits made, in order; the last edit of a name counts. Edits of a field
 * and of a field inside it in one call are INVALID_ARGUMENT, as is a path through something that
 * is no object. */
mortise_status mt_json_apply(mt_json object, const mt_json_edit *edits, size_t n, mt_buf *out,
                             mortise_error *err);

/* Appends `object` merged with `change` as the servers' partial update does it: objects are merged
 * member by member, anything else replaces, null is stored. `*changed` says whether the outcome
 * differs from `object`. */
mortise_status mt_json_merge(mt_json object, mt_json change, mt_buf *out, bool *changed,
                             mortise_error *err);

#endif
