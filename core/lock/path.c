#include "lock/path.h"

#include "base/mem.h"
#include "base/utf8.h"

static mortise_status path_refuse(mortise_error *err, size_t at, const char *rule) {
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "bad path: %s at byte %zu", rule, at);
}

static const char *segment_problem(mt_slice s) {
  if (!s.n) return "an empty segment";
  if (mt_slice_eq(s, MT_SLICE("."))) return "a \".\" segment";
  if (mt_slice_eq(s, MT_SLICE(".."))) return "a \"..\" segment";
  return NULL;
}

/* The offset of the first control character (mt_utf8_command), or path.n. `path` is UTF-8. */
static size_t first_command(mt_slice path) {
  size_t i = 0;
  while (i < path.n) {
    bool plain = mt_utf8_plain(path.p[i]);
    if (!plain && mt_utf8_command(path.p + i, path.n - i)) break;
    i += plain ? 1 : mt_utf8_char(path.p + i, path.n - i);
  }
  return i;
}

static mortise_status check_segments(mt_slice path, mortise_error *err) {
  size_t depth = 0;
  for (size_t i = 1; i <= path.n;) {
    const char *slash = memchr(path.p + i, '/', path.n - i);
    size_t n = (slash ? (size_t)(slash - path.p) : path.n) - i;
    const char *problem = segment_problem((mt_slice){path.p + i, n});
    if (problem) return path_refuse(err, i, problem);
    if (++depth > MT_PATH_DEPTH) return path_refuse(err, i, "more than 128 segments");
    i += n + 1;
  }
  return MORTISE_OK;
}

mortise_status mt_path_check_form(mt_slice path, mt_slice *out, mortise_error *err) {
  _Static_assert(MT_PATH_DEPTH == 128, "the message above says so");
  if (!path.n || path.p[0] != '/') return path_refuse(err, 0, "no \"/\" in front");
  bool root = path.n == 1; /* "//" is not: its segment is empty */
  if (!root && path.p[path.n - 1] == '/') path.n--;
  if (path.n > MT_PATH_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "bad path: %zu bytes, more than %d", path.n,
                        MT_PATH_MAX);
  const char *nul = memchr(path.p, '\0', path.n);
  if (nul) return path_refuse(err, (size_t)(nul - path.p), "a NUL");
  size_t valid = mt_utf8_valid(path);
  if (valid < path.n) return path_refuse(err, valid, "not UTF-8");
  mortise_status status = root ? MORTISE_OK : check_segments(path, err);
  if (!status) *out = path;
  return status;
}

mortise_status mt_path_check(mt_slice path, mt_slice *out, mortise_error *err) {
  mt_slice formed;
  mortise_status status = mt_path_check_form(path, &formed, err);
  if (status) return status;
  size_t plain = first_command(formed);
  if (plain < formed.n)
    return path_refuse(err, plain, "a control character, a line break or a mark of direction");
  *out = formed;
  return MORTISE_OK;
}

mt_slice mt_path_parent(mt_slice path) {
  if (path.n <= 1) return (mt_slice){NULL, 0};
  const char *slash = memrchr(path.p, '/', path.n);
  return (mt_slice){path.p, slash == path.p ? 1 : (size_t)(slash - path.p)};
}

bool mt_path_is_ancestor(mt_slice ancestor, mt_slice path) {
  if (ancestor.n == 1) return path.n > 1;
  return path.n > ancestor.n && mt_slice_starts(path, ancestor) && path.p[ancestor.n] == '/';
}

size_t mt_path_depth(mt_slice path) {
  if (path.n <= 1) return 0;
  size_t depth = 0;
  for (size_t i = 0; i < path.n; i++) depth += path.p[i] == '/';
  return depth;
}

/* How many bytes at p need no escape: those of one character, or 0. */
static size_t plain_bytes(const char *p, size_t n) {
  if (mt_utf8_plain(*p)) return *p != '/' && *p != '%';
  return mt_utf8_command(p, n) ? 0 : mt_utf8_char(p, n);
}

/* Injective: '%' never stands for itself, so what follows one says unambiguously which byte is
 * meant, and the one "%" with nothing behind it means empty. */
void mt_path_add_segment(mt_buf *out, mt_slice segment) {
  static const char hex[] = "0123456789ABCDEF";
  bool dots = mt_slice_eq(segment, MT_SLICE(".")) || mt_slice_eq(segment, MT_SLICE(".."));
  if (!segment.n) mt_buf_addc(out, '%');
  size_t plain = 0; /* start of the bytes that need no escape */
  for (size_t i = 0; i < segment.n;) {
    const char *p = segment.p + i;
    size_t n = dots ? 0 : plain_bytes(p, segment.n - i);
    if (n) {
      i += n;
      continue;
    }
    mt_buf_add(out, segment.p + plain, i - plain);
    unsigned char c = (unsigned char)*p;
    char code[3] = {'%', hex[c >> 4], hex[c & 15]};
    mt_buf_add(out, code, sizeof code);
    plain = ++i;
  }
  if (plain < segment.n) mt_buf_add(out, segment.p + plain, segment.n - plain);
}

/* ---- the union of ancestors ----
 *
 * A is a strict ancestor of Q when Q begins with A + "/" (the root, when Q is longer than "/"). In
 * byte order the paths that begin with A + "/" stand side by side, so each A is found exactly
 * once, at the first of them: at the slashes of Q that lie at or behind the length L of the prefix
 * which Q shares with the path before it (a slash before L was shared, so that one had A too).
 *
 * They are found in the order of A + "/". That is the byte order of A, but for one case: B found
 * earlier although A < B, where B goes on behind A with a byte below '/' ("/a-b" comes before
 * "/a/b", but "/a" before "/a-b"). Everything found between such a B and A + "/" begins with A too,
 * so these are a run at the end of what was found, and A belongs in front of it. Only a slash at L
 * itself can have such a run: no path before Q begins with more than L of its bytes.
 *
 * The run is moved up by one place. An entry moves once at most for each of its own bytes, so all
 * moves together are linear in the bytes found; in real trees there are next to none. */

typedef struct finder {
  mt_slice *found;
  size_t n, cap, max;
} finder;

static size_t shared_prefix(mt_slice a, mt_slice b) {
  size_t n = a.n < b.n ? a.n : b.n, i = 0;
  for (; n - i >= 8; i += 8) {
    uint64_t x, y;
    memcpy(&x, a.p + i, 8);
    memcpy(&y, b.p + i, 8);
    if (x != y) break;
  }
  while (i < n && a.p[i] == b.p[i]) i++;
  return i;
}

static bool add_ancestor(finder *f, size_t at, mt_slice ancestor) {
  if (!mt_grow((void **)&f->found, &f->cap, f->n + 1, sizeof *f->found, f->max)) return false;
  memmove(f->found + at + 1, f->found + at, (f->n - at) * sizeof *f->found);
  f->found[at] = ancestor;
  f->n++;
  return true;
}

/* The first entry found that is not before `ancestor`. */
static size_t start_of_run(const finder *f, mt_slice ancestor) {
  size_t low = 0, high = f->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (mt_slice_cmp(f->found[middle], ancestor) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Adds the ancestors of `path`, except the root, that end at byte `from` or later. */
static bool find_from(finder *f, mt_slice path, size_t from) {
  size_t first = from;
  for (const char *slash; (slash = memchr(path.p + from, '/', path.n - from));) {
    mt_slice ancestor = {path.p, (size_t)(slash - path.p)};
    bool run = ancestor.n == first && f->n && mt_slice_starts(f->found[f->n - 1], ancestor);
    if (!add_ancestor(f, run ? start_of_run(f, ancestor) : f->n, ancestor)) return false;
    from = ancestor.n + 1;
  }
  return true;
}

static bool goes_back(mt_slice before, mt_slice path, size_t shared) {
  if (shared == before.n) return false;
  return shared == path.n || (unsigned char)path.p[shared] < (unsigned char)before.p[shared];
}

mortise_status mt_path_ancestors(const mt_slice *paths, size_t n, mt_slice **out, size_t *n_out,
                                 mortise_error *err) {
  finder f = {.max = SIZE_MAX / sizeof(mt_slice)};
  mt_slice before = {"", 0};
  mortise_status status = MORTISE_OK;
  *out = NULL;
  *n_out = 0;
  for (size_t i = 0; i < n && !status; before = paths[i++]) {
    size_t shared = shared_prefix(before, paths[i]);
    if (goes_back(before, paths[i], shared))
      status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "path %zu is out of order", i);
    else if (paths[i].n > 1 && !f.n && !add_ancestor(&f, 0, (mt_slice){paths[i].p, 1}))
      status = mt_error_memory(err);
    else if (!find_from(&f, paths[i], shared ? shared : 1))
      status = mt_error_memory(err);
  }
  if (status) {
    mt_free(f.found);
    return status;
  }
  *out = f.found;
  *n_out = f.n;
  return MORTISE_OK;
}
