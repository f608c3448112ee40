/* Renames a tree: a change that replaces the beginning of the paths in one or more fields. */
#ifndef MT_JOB_RENAME_H
#define MT_JOB_RENAME_H

#include "job/change.h"

typedef struct mt_rename {
  /* in: done, ctx, store, env, permit, index, progress, options; out: its result */
  mt_change change;
  mt_transforms list; /* a replace_prefix for each field */
  mt_prefix what;     /* the first of them */
  mt_slice also;    /* in: one more query that documents must match, or empty; borrowed */
  bool merge;       /* in: documents may lie below `to` already */
  bool allow_empty; /* in: there need not be documents below `from` */
  mt_buf query, beside;
  bool hides; /* searches may miss documents below `to` */
} mt_rename;

enum { MT_RENAME_FIELDS_MAX = 32 };

/* Makes it a rename, and copies the strings. The caller sets the members of `change`, and those above that are
 * marked `in`, before mt_change_start(&r->change). INVALID_ARGUMENT if `to` is not a valid path (mt_path_check) or
 * `from` does not have the form of one, if both are the same, or if `to` lies inside `from`, since renamed
 * documents would match again for ever.
 *
 * Of `n` fields, 1 to MT_RENAME_FIELDS_MAX, each may be an array of paths, or have several places (transform.h). A
 * document is found where any of them, or any element, lies below `from`; all that do are changed at once.
 *
 * The change fails with CONFLICT before it writes anything if documents lie below `to` already, unless
 * `merge` is set, and with NOT_FOUND if none lie below `from`, unless `allow_empty` is set. All documents
 * below `to` count, whether they match `also` or not, because the lock covers all of them. If `from` lies
 * inside `to`, the documents below `from` do not count. The result's `beside` is their number. */
mortise_status mt_rename_init(mt_rename *r, mt_slice field, mt_slice from, mt_slice to,
                              mortise_error *err);
mortise_status mt_rename_init_fields(mt_rename *r, const mt_slice *fields, size_t n, mt_slice from,
                                     mt_slice to, mortise_error *err);
/* After mt_rename_init: makes the change write each document below `from` as it is, instead of renaming it
 * (revert.h). */
void mt_rename_touch(mt_rename *r);
/* After mt_rename_init: documents whose id is `from` or lies below it get the id that corresponds to `to`.
 * UNSUPPORTED if `from` lies inside `to`, since a document may then get the id of one that is still to be moved. */
mortise_status mt_rename_ids(mt_rename *r, mortise_error *err);
void mt_rename_deinit(mt_rename *r); /* after its end */

/* Appends the name under which searches find the exact values of `field`. It is `field` itself, also if it has no
 * mapping, or a keyword field below an analysed one, such as "path.keyword". UNSUPPORTED, with the reason, if there
 * is no such name, because a search would miss documents. `*ignores` is set if searches do not find long values under
 * that name (ignore_above). `json` is the one of mt_describe. */
mortise_status mt_exact_field(mt_slice json, mt_slice field, mt_buf *out, bool *ignores,
                              mortise_error *err);
/* Appends Query DSL that finds at least all documents any of whose paths in `field` is one of these, or lies below one
 * (more where searches do not find long values). Errors as mt_exact_field's. */
mortise_status mt_below_query(mt_slice json, mt_slice field, const mt_slice *paths, size_t n,
                              mt_buf *out, mortise_error *err);

#endif
