/* Paths: `/a/b/c`. Normalising, validating, ancestors. */
#ifndef MT_LOCK_PATH_H
#define MT_LOCK_PATH_H

#include "base/buf.h"

enum { MT_PATH_MAX = 4096, MT_PATH_DEPTH = 128 };

/* Checks an absolute path: UTF-8, "/"-separated, no empty, "." or ".." segment, no character that
 * commands whoever shows it (mt_utf8_command), at most MT_PATH_MAX bytes and MT_PATH_DEPTH segments. A
 * trailing "/" is dropped: `out` is a part of `path`. INVALID_ARGUMENT says which rule and where. */
mortise_status mt_path_check(mt_slice path, mt_slice *out, mortise_error *err);
/* The same of what others may have made: all but NUL may be in it. */
mortise_status mt_path_check_form(mt_slice path, mt_slice *out, mortise_error *err);

/* The parent of a checked path: of "/a/b" it is "/a", of "/a" it is "/", of "/" {NULL, 0}. */
mt_slice mt_path_parent(mt_slice path);
bool mt_path_is_ancestor(mt_slice ancestor, mt_slice path); /* strictly above */
size_t mt_path_depth(mt_slice path);                        /* of "/" it is 0 */

/* Appends `segment` so that any bytes make one valid segment: percent-encoded are the bytes of "/"
 * and "%", of "." and ".." alone, of characters that command (mt_utf8_command), and those that are not
 * UTF-8. Empty becomes "%". */
void mt_path_add_segment(mt_buf *out, mt_slice segment);

/* The union of the strict ancestors of many checked paths, each once, in byte order, slices into
 * the given paths. `paths` must be sorted by mt_slice_cmp. `*out` is owned (mt_free). One pass. */
mortise_status mt_path_ancestors(const mt_slice *paths, size_t n, mt_slice **out, size_t *n_out,
                                 mortise_error *err);

#endif
