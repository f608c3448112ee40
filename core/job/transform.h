/* Changes of one document: a callback, so that a script's function can be one, and the declared
 * kinds, which work on the bytes of the source and touch no others. */
#ifndef MT_JOB_TRANSFORM_H
#define MT_JOB_TRANSFORM_H

#include "store/store.h"

typedef enum mt_transformed {
  MT_UNCHANGED = 0, /* nothing was appended */
  MT_CHANGED,       /* the whole new source was appended */
  MT_ASIDE,         /* this document cannot be changed: `err` says why; it is set aside, listed */
  MT_STOP,          /* the whole change ends with `err` */
} mt_transformed;

typedef struct mt_transform {
  /* `doc` is borrowed for the call; its source is validated JSON. A failed `out` is the caller's
   * to notice. */
  mt_transformed (*apply)(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err);
  void *ctx;
  /* apply alone decides whether a document is concerned: one that was changed by someone else
   * meanwhile may be read and given to it again without asking the query again. */
  bool decides;
} mt_transform;

/* Replaces the path prefix `from` of a field by `to`. The prefix ends at a "/": "/clinton" is
 * replaced in "/clinton" and "/clinton/x", never in "/clintonville". The field is a string, or an
 * array, each of whose elements counts; its name may be dotted and is followed through objects and
 * arrays, and through keys that have dots in them, as the servers index it. */
typedef struct mt_replace_prefix {
  mt_slice field, from, to; /* into `text`; paths without a trailing "/" */
  mt_slice to_json;         /* `to` as the inside of a JSON string; empty for "/" */
  mt_slice below;           /* of `from` below `to`, where `to` is above it; else {NULL, 0} */
  mt_buf text;
} mt_replace_prefix;

/* INVALID_ARGUMENT where a path is none (mt_path_check; `from` need only have the form), where both are the same, and where `to`
 * lies inside `from`: what was renamed would match again for ever. Copies what it is given. On
 * failure there is nothing to deinit. */
mortise_status mt_replace_prefix_init(mt_replace_prefix *r, mt_slice field, mt_slice from,
                                      mt_slice to, mortise_error *err);
void mt_replace_prefix_deinit(mt_replace_prefix *r);
mt_transform mt_replace_prefix_transform(const mt_replace_prefix *r); /* borrows `r` */

/* Appends Query DSL for the documents whose `field` is `from` or begins with `from`/, in filter
 * context, valid on both stores. Where the field's ignore_above hides long values from searches,
 * `hidden` names the analysed field beside it, or the field itself: then documents whose value may
 * be hidden match too. {NULL, 0}: none is. `also` is one more query that must match, or empty. */
void mt_rename_query(mt_buf *out, mt_slice field, mt_slice from, mt_slice hidden, mt_slice also);

/* Appends Query DSL for the documents whose `field` is `path` or lies below it, but for those that
 * are `except` or lie below that (empty: none are left out). Values that ignore_above hides are not
 * found. */
void mt_tree_query(mt_buf *out, mt_slice field, mt_slice path, mt_slice except);

#endif
