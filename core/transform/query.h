/* Searches for what a list of transforms changes. */
#ifndef MT_TRANSFORM_QUERY_H
#define MT_TRANSFORM_QUERY_H

#include "transform/transform.h"

/* Appends Query DSL for the documents whose `field` is `from` or begins with `from`/, in filter
 * context, valid on both stores. Where the field's ignore_above hides long values from searches,
 * `hidden` names the analysed field beside it, or the field itself: then documents whose value may
 * be hidden match too. {NULL, 0}: none is. `also` is one more query that must match, or empty. */
void mt_prefix_query(mt_buf *out, mt_slice field, mt_slice from, mt_slice hidden, mt_slice also);

/* Appends Query DSL for the documents whose `field` is `path` or lies below it, but for those that
 * are `except` or lie below that (empty: none are left out). Values that ignore_above hides are not
 * found. */
void mt_tree_query(mt_buf *out, mt_slice field, mt_slice path, mt_slice except);

/* The same for documents any of whose `n` fields does. */
void mt_trees_query(mt_buf *out, const mt_slice *fields, size_t n, mt_slice path, mt_slice except);

/* How searches find the values of a field: `field` and `hidden` of mt_prefix_query. */
typedef struct mt_search_name {
  mt_slice field, hidden;
} mt_search_name;

/* Appends Query DSL that finds at least each document that the list changes or sets aside. `names` has
 * one entry for each transform; NULL: each field is searched by its own name. UNSUPPORTED, with nothing
 * appended, unless all are replace_prefix: for the others a search may miss nulls and what is not
 * indexed. */
mortise_status mt_transforms_query(const mt_transforms *t, const mt_search_name *names, mt_buf *out,
                                   mortise_error *err);

#endif
