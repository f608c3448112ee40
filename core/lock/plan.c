#include "lock/plan.h"

#include "base/mem.h"
#include "lock/path.h"

#include <endian.h>
#include <stdlib.h>

static int by_path(const void *a, const void *b) {
  return mt_slice_cmp(((const mt_want *)a)->path, ((const mt_want *)b)->path);
}

static bool sorted(const mt_want *wants, size_t n) {
  for (size_t i = 1; i < n; i++)
    if (by_path(&wants[i - 1], &wants[i]) > 0) return false;
  return true;
}

/* The length of the prefix that all paths share. */
static size_t shared_by_all(const mt_want *wants, size_t n) {
  size_t shared = wants[0].path.n;
  for (size_t i = 1; i < n; i++) {
    if (wants[i].path.n < shared) shared = wants[i].path.n;
    while (memcmp(wants[i].path.p, wants[0].path.p, shared) != 0) shared--;
  }
  return shared;
}

/* Compares paths behind their shared prefix; the next eight bytes usually decide. */
static int by_rest(const void *a, const void *b, void *shared) {
  mt_slice x = ((const mt_want *)a)->path, y = ((const mt_want *)b)->path;
  size_t skip = *(const size_t *)shared;
  uint64_t p, q;
  x = (mt_slice){x.p + skip, x.n - skip};
  y = (mt_slice){y.p + skip, y.n - skip};
  if (x.n < sizeof p || y.n < sizeof q) return mt_slice_cmp(x, y);
  memcpy(&p, x.p, sizeof p);
  memcpy(&q, y.p, sizeof q);
  if (p == q) return mt_slice_cmp(x, y);
  return be64toh(p) < be64toh(q) ? -1 : 1;
}

static void sort_wants(mt_want *wants, size_t n) {
  if (sorted(wants, n)) return;
  size_t shared = shared_by_all(wants, n);
  qsort_r(wants, n, sizeof *wants, by_rest, &shared);
}

/* Copies the wants with their bytes into the plan, in byte order. */
static mortise_status copy_wants(const mt_want *wants, size_t n, mt_plan *plan,
                                 mortise_error *err) {
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) bytes += wants[i].path.n;
  plan->wants = mt_calloc(n, sizeof *plan->wants);
  plan->text = mt_alloc(bytes);
  if (!plan->wants || !plan->text) return mt_error_memory(err);
  char *p = plan->text;
  for (size_t i = 0; i < n; i++) {
    memcpy(p, wants[i].path.p, wants[i].path.n);
    plan->wants[i] = (mt_want){{p, wants[i].path.n}, wants[i].mode};
    p += wants[i].path.n;
  }
  sort_wants(plan->wants, n);
  plan->n_wants = n;
  return MORTISE_OK;
}

static void join_equal(mt_plan *plan) {
  size_t kept = 0;
  for (size_t i = 0; i < plan->n_wants; i++) {
    mt_want *w = &plan->wants[i];
    if (kept && mt_slice_eq(plan->wants[kept - 1].path, w->path))
      plan->wants[kept - 1].mode = mt_mode_join(plan->wants[kept - 1].mode, w->mode);
    else
      plan->wants[kept++] = *w;
  }
  plan->n_wants = kept;
}

static bool x_at(const mt_want *xs, size_t n, mt_slice path) {
  const mt_want key = {path, MT_X};
  return n && bsearch(&key, xs, n, sizeof *xs, by_path);
}

/* The least depth of an X target; SIZE_MAX when all targets are equally deep or none is in X, so
 * that none can be below another. */
static size_t least_depth_in_x(const mt_plan *plan) {
  size_t least = SIZE_MAX, most = 0;
  for (size_t i = 0; i < plan->n_wants; i++) {
    size_t depth = mt_path_depth(plan->wants[i].path);
    if (depth > most) most = depth;
    if (plan->wants[i].mode == MT_X && depth < least) least = depth;
  }
  return least < most ? least : SIZE_MAX;
}

/* A target below a target in X adds nothing. Each ancestor is looked up among the X targets, since
 * byte order does not keep a tree together ("/a-b" stands between "/a" and "/a/b"). */
static mortise_status drop_covered(mt_plan *plan, mortise_error *err) {
  size_t depth_min = least_depth_in_x(plan), n_xs = 0;
  if (depth_min == SIZE_MAX) return MORTISE_OK;
  mt_want *xs = mt_calloc(plan->n_wants, sizeof *xs);
  if (!xs) return mt_error_memory(err);
  for (size_t i = 0; i < plan->n_wants; i++)
    if (plan->wants[i].mode == MT_X) xs[n_xs++] = plan->wants[i];
  size_t kept = 0;
  for (size_t i = 0; i < plan->n_wants; i++) {
    bool covered = false;
    size_t depth = mt_path_depth(plan->wants[i].path);
    mt_slice up = plan->wants[i].path;
    while (!covered && depth-- > depth_min) {
      up = mt_path_parent(up);
      covered = x_at(xs, n_xs, up);
    }
    if (!covered) plan->wants[kept++] = plan->wants[i];
  }
  plan->n_wants = kept;
  mt_free(xs);
  return MORTISE_OK;
}

/* The ancestors of the targets whose intention mode is `mode`. */
static mortise_status ancestors_of(const mt_plan *plan, mt_mode mode, mt_slice **out, size_t *n,
                                   mortise_error *err) {
  mt_slice *paths = mt_calloc(plan->n_wants, sizeof *paths);
  if (!paths) return mt_error_memory(err);
  size_t count = 0;
  for (size_t i = 0; i < plan->n_wants; i++)
    if (mt_mode_intention(plan->wants[i].mode) == mode) paths[count++] = plan->wants[i].path;
  mortise_status status = mt_path_ancestors(paths, count, out, n, err);
  mt_free(paths);
  return status;
}

static void add_plan_row(mt_plan *plan, mt_slice path, mt_mode mode, bool target) {
  struct mt_plan_row *last = plan->n ? &plan->rows[plan->n - 1] : NULL;
  if (!last || !mt_slice_eq(last->place.path, path)) {
    plan->rows[plan->n++] = (struct mt_plan_row){{path, 0}, mode, target};
    return;
  }
  last->mode = mt_mode_join(last->mode, mode);
  last->target |= target;
}

/* Merges three sorted lists into the rows. */
static mortise_status merge(mt_plan *plan, const mt_slice *is, size_t n_is, const mt_slice *ix,
                            size_t n_ix, mortise_error *err) {
  plan->rows = mt_calloc(plan->n_wants + n_is + n_ix, sizeof *plan->rows);
  if (!plan->rows) return mt_error_memory(err);
  size_t a = 0, b = 0, c = 0;
  while (a < n_is || b < n_ix || c < plan->n_wants) {
    mt_slice least = a < n_is ? is[a] : b < n_ix ? ix[b] : plan->wants[c].path;
    if (b < n_ix && mt_slice_cmp(ix[b], least) < 0) least = ix[b];
    if (c < plan->n_wants && mt_slice_cmp(plan->wants[c].path, least) < 0)
      least = plan->wants[c].path;
    if (a < n_is && mt_slice_eq(is[a], least)) add_plan_row(plan, is[a++], MT_IS, false);
    if (b < n_ix && mt_slice_eq(ix[b], least)) add_plan_row(plan, ix[b++], MT_IX, false);
    if (c < plan->n_wants && mt_slice_eq(plan->wants[c].path, least)) {
      add_plan_row(plan, plan->wants[c].path, plan->wants[c].mode, true);
      c++;
    }
  }
  return MORTISE_OK;
}

static uint32_t stripes_of_row(const struct mt_plan_row *row, uint32_t of_table) {
  return mt_mode_is_intention(row->mode) ? 1 : mt_place_stripes(row->place.path, of_table);
}

/* Makes a row for each stripe of those that need all. */
static mortise_status spread(mt_plan *plan, uint32_t stripes, mortise_error *err) {
  size_t n = 0;
  for (size_t i = 0; i < plan->n; i++) n += stripes_of_row(&plan->rows[i], stripes);
  if (n == plan->n) return MORTISE_OK;
  struct mt_plan_row *rows = mt_calloc(n, sizeof *rows);
  if (!rows) return mt_error_memory(err);
  n = 0;
  for (size_t i = 0; i < plan->n; i++) {
    uint32_t of_row = stripes_of_row(&plan->rows[i], stripes);
    for (uint32_t stripe = 0; stripe < of_row; stripe++) {
      rows[n] = plan->rows[i];
      rows[n++].place.stripe = stripe;
    }
  }
  mt_free(plan->rows);
  plan->rows = rows;
  plan->n = n;
  return MORTISE_OK;
}

mortise_status mt_plan_make(const mt_want *wants, size_t n, uint32_t stripes, mt_plan *out,
                            mortise_error *err) {
  *out = (mt_plan){0};
  if (!n) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a lock needs at least one path");
  mt_slice *is = NULL, *ix = NULL;
  size_t n_is = 0, n_ix = 0;
  mortise_status status = copy_wants(wants, n, out, err);
  if (!status) join_equal(out);
  if (!status) status = drop_covered(out, err);
  if (!status) status = ancestors_of(out, MT_IS, &is, &n_is, err);
  if (!status) status = ancestors_of(out, MT_IX, &ix, &n_ix, err);
  if (!status) status = merge(out, is, n_is, ix, n_ix, err);
  if (!status) status = spread(out, stripes, err);
  mt_free(is);
  mt_free(ix);
  if (status) mt_plan_deinit(out);
  return status;
}

void mt_plan_deinit(mt_plan *plan) {
  mt_free(plan->rows);
  mt_free(plan->wants);
  mt_free(plan->text);
  *plan = (mt_plan){0};
}
