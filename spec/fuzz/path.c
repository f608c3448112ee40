/* Paths against a naive implementation of the rules; each line is a path. */
#include "lock/path.h"

#include "base/mem.h"
#include "fuzz.h"

#include <jansson.h>

enum { PATHS = 16 };

static bool is_utf8(mt_slice s) {
  json_t *text = json_stringn(s.p ? s.p : "", s.n);
  json_decref(text);
  return text != NULL;
}

/* The controls, line separators and marks of direction, by their bytes. */
static bool has_command(mt_slice s) {
  static const char *const between[][2] = {{"\xC2\x80", "\xC2\x9F"},
                                           {"\xD8\x9C", "\xD8\x9C"},
                                           {"\xE2\x80\x8E", "\xE2\x80\x8F"},
                                           {"\xE2\x80\xA8", "\xE2\x80\xAE"},
                                           {"\xE2\x81\xA6", "\xE2\x81\xA9"}};
  for (size_t i = 0; i < s.n; i++) {
    if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7F) return true;
    for (size_t k = 0; k < sizeof between / sizeof *between; k++) {
      size_t n = strlen(between[k][0]);
      if (s.n - i >= n && memcmp(s.p + i, between[k][0], n) >= 0 &&
          memcmp(s.p + i, between[k][1], n) <= 0)
        return true;
    }
  }
  return false;
}

static bool naive_segment(mt_slice s) {
  return s.n && !mt_slice_eq(s, MT_SLICE(".")) && !mt_slice_eq(s, MT_SLICE(".."));
}

/* Is it a path, and how many segments has it? */
static bool naive(mt_slice path, size_t *depth) {
  *depth = 0;
  if (!path.n || *path.p != '/' || path.n > MT_PATH_MAX) return false;
  if (!is_utf8(path) || has_command(path)) return false;
  mt_slice rest = {path.p + 1, path.n - 1};
  while (rest.n) {
    if (!naive_segment(fuzz_cut(&rest, '/'))) return false;
    if (++*depth > MT_PATH_DEPTH) return false;
  }
  return true;
}

static bool check(mt_slice path, mt_slice *out) {
  size_t depth;
  mortise_error err;
  mortise_status status = mt_path_check(path, out, &err);
  mt_slice bare = path.n > 1 && path.p[path.n - 1] == '/' ? (mt_slice){path.p, path.n - 1} : path;
  bool good = naive(bare, &depth) && (bare.n > 1 || path.n == 1) &&
              (bare.n < 2 || bare.p[bare.n - 1] != '/');
  MUST(good == (status == MORTISE_OK));
  if (status) return false;
  MUST(mt_slice_eq(*out, bare));
  MUST(mt_path_depth(*out) == depth);
  return true;
}

static void climb(mt_slice path) {
  size_t depth = mt_path_depth(path);
  for (mt_slice up = mt_path_parent(path); up.n; up = mt_path_parent(up)) {
    mt_slice same;
    MUST(mt_path_is_ancestor(up, path) && !mt_path_is_ancestor(path, up));
    MUST(mt_path_check(up, &same, NULL) == MORTISE_OK && mt_slice_eq(same, up));
    MUST(mt_path_depth(up) == --depth);
  }
  MUST(depth == 0);
}

static int by_bytes(const void *a, const void *b) {
  return mt_slice_cmp(*(const mt_slice *)a, *(const mt_slice *)b);
}

static bool is_above_any(mt_slice above, const mt_slice *paths, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (mt_path_is_ancestor(above, paths[i])) return true;
  return false;
}

static void ancestors(mt_slice *paths, size_t n) {
  mt_slice *all;
  size_t n_all, expected = 0;
  qsort(paths, n, sizeof *paths, by_bytes);
  MUST(mt_path_ancestors(paths, n, &all, &n_all, NULL) == MORTISE_OK);
  for (size_t i = 0; i < n_all; i++) {
    MUST(!i || mt_slice_cmp(all[i - 1], all[i]) < 0);
    MUST(is_above_any(all[i], paths, n));
  }
  for (size_t i = 0; i < n; i++) {
    for (mt_slice up = mt_path_parent(paths[i]); up.n; up = mt_path_parent(up)) {
      MUST(bsearch(&up, all, n_all, sizeof *all, by_bytes));
      expected++;
    }
  }
  MUST(n_all <= expected);
  mt_free(all);
}

static void segment(mt_slice any) {
  mt_buf path;
  mt_slice out;
  mt_buf_init(&path, 3 * MT_PATH_MAX + 8);
  mt_buf_addc(&path, '/');
  mt_path_add_segment(&path, any);
  if (path.n <= MT_PATH_MAX) {
    MUST(mt_path_check(mt_buf_slice(&path), &out, NULL) == MORTISE_OK);
    MUST(mt_path_depth(out) == 1);
  }
  mt_buf_deinit(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mt_slice rest = fuzz_slice(data, n), paths[PATHS];
  size_t count = 0;
  while (rest.n && count < PATHS) {
    mt_slice line = fuzz_cut(&rest, '\n');
    if (line.n <= MT_PATH_MAX) segment(line);
    if (!check(line, &paths[count])) continue;
    climb(paths[count++]);
  }
  ancestors(paths, count);
  return 0;
}
