/* Changes a JSON object without touching any other byte of it. */
#ifndef MT_BASE_JSON_EDIT_H
#define MT_BASE_JSON_EDIT_H

#include "base/json.h"

/* One field to set or to remove. `name` is looked up first as a literal key (which "a.b" may be),
 * then as a path through objects. A new field is appended to its object, together with missing
 * parent objects. */
typedef struct mt_json_edit {
  mt_slice name;
  mt_slice value; /* JSON text; {NULL, 0} removes the field */
} mt_json_edit;

/* Finds the value of `name` by the rule above; NONE if there is none. */
mt_json mt_json_find(mt_json object, mt_slice name);

/* Appends `object` with the edits applied in order; the last edit of a name counts. Editing both a
 * field and a field inside it in one call is INVALID_ARGUMENT, as is a path through something other
 * than an object. */
mortise_status mt_json_apply(mt_json object, const mt_json_edit *edits, size_t n, mt_buf *out,
                             mortise_error *err);

/* Appends `object` merged with `change` like the servers' partial update: objects are merged member
 * by member, anything else is replaced, null is stored. `*changed` says whether the result differs
 * from `object`. */
mortise_status mt_json_merge(mt_json object, mt_json change, mt_buf *out, bool *changed,
                             mortise_error *err);

#endif
