/* Paths: `/a/b/c`. Normalising, validating, ancestors. */
#ifndef MT_LOCK_PATH_H
#define MT_LOCK_PATH_H

#include "base/buf.h"

enum { MT_PATH_MAX = 4096, MT_PATH_DEPTH = 128 };

/* Checks an absolute path: UTF-8, "/"-separated, no empty, "." or ".." segment, no control
 * character (mt_utf8_command), at most MT_PATH_MAX bytes and MT_PATH_DEPTH segments. A trailing "/"
 * is dropped: `out` is a part of `path`. INVALID_ARGUMENT names the rule and the byte. */
mortise_status mt_path_check(mt_slice path, mt_slice *out, mortise_error *err);
/* The same for paths that others may have made: control characters other than NUL are allowed. */
mortise_status mt_path_check_form(mt_slice path, mt_slice *out, mortise_error *err);

/* The parent of a checked path: of "/a/b" it is "/a", of "/a" it is "/", of "/" {NULL, 0}. */
mt_slice mt_path_parent(mt_slice path);
bool mt_path_is_ancestor(mt_slice ancestor, mt_slice path); /* strictly above */
size_t mt_path_depth(mt_slice path);                        /* of "/" it is 0 */

/* Appends any bytes as one valid segment. Percent-encoded are "/", "%", control characters
 * (mt_utf8_command), bytes that are not UTF-8, and a whole segment "." or "..". The empty segment
 * becomes "%". */
void mt_path_add_segment(mt_buf *out, mt_slice segment);

/* The union of the strict ancestors of many checked paths, each once, in byte order, slices into
 * the given paths. `paths` must be sorted by mt_slice_cmp. `*out` is owned (mt_free). One pass. */
mortise_status mt_path_ancestors(const mt_slice *paths, size_t n, mt_slice **out, size_t *n_out,
                                 mortise_error *err);

#endif
