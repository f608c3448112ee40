/* Renaming a tree: the change that replaces a path prefix in one field. */
#ifndef MT_JOB_RENAME_H
#define MT_JOB_RENAME_H

#include "job/change.h"

typedef struct mt_rename {
  mt_change
      change; /* in: done, ctx, store, env, permit, index, progress, options; out: its result */
  mt_transforms list; /* a replace_prefix for each field */
  mt_prefix what;     /* the first of them */
  mt_slice also;    /* in: one more query that documents must match, or empty; borrowed */
  bool merge;       /* in: there may be documents below `to` already */
  bool allow_empty; /* in: there may be none below `from` */
  mt_buf query, beside;
  bool hides; /* searches may miss documents below `to` */
} mt_rename;

enum { MT_RENAME_FIELDS_MAX = 32 };

/* Sets what makes it a rename; `change`'s own members, and those above, are the caller's to set
 * before mt_change_start(&r->change). INVALID_ARGUMENT where a path is none (mt_path_check; `from` need
 * only have the form), where both are the same, and where `to` lies inside `from`: what was renamed
 * would match again for ever. Copies its strings.
 *
 * Of `n` fields, 1 to MT_RENAME_FIELDS_MAX, each may be an array of paths, or have several places (transform.h). A
 * document is found where any of them, or any element, lies below `from`; all that do are changed at once.
 *
 * Its error is CONFLICT, and nothing was written, where documents lie below `to` already, unless
 * `merge`; NOT_FOUND where none lay below `from`, unless `allow_empty`. What lies below `to` is
 * counted whatever `also` says, since its lock covers all of it, but not what lies below `from` too,
 * where that is inside `to`; the result's `beside` is their number. */
mortise_status mt_rename_init(mt_rename *r, mt_slice field, mt_slice from, mt_slice to,
                              mortise_error *err);
mortise_status mt_rename_init_fields(mt_rename *r, const mt_slice *fields, size_t n, mt_slice from,
                                     mt_slice to, mortise_error *err);
/* After it: the change writes each document below `from` as it is, instead (revert.h). */
void mt_rename_touch(mt_rename *r);
void mt_rename_deinit(mt_rename *r); /* after its end */

/* The name under which searches find the exact values of `field`: itself, or a keyword field beside
 * an analysed one ("path.keyword"). UNSUPPORTED, saying why, where the mapping has none, since a
 * search would then miss documents. `*ignores`: long values are not found under it (ignore_above).
 * `json` is mt_describe's; a field without a mapping is itself. */
mortise_status mt_exact_field(mt_slice json, mt_slice field, mt_buf *out, bool *ignores,
                              mortise_error *err);

#endif
