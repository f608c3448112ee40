#include "job/within.h"

#include "base/mem.h"
#include "transform/places.h"

#include <stdio.h>

enum { TEXT_MAX = 16 << 20 };

/* ---- Making one ----------------------------------------------------------------------------- */

static bool take_paths(mt_within *w, mt_json list, size_t *ends) {
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    if (!mt_json_text(it.value, &w->text)) return false;
    ends[w->n++] = w->text.n;
  }
  return w->n > 0;
}

static mortise_status read_locked(mt_within *w, mt_json list, mortise_error *err) {
  size_t all = 0, start = 0;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) all++;
  size_t *ends = mt_calloc(all + 1, sizeof *ends);
  w->paths = mt_calloc(all + 1, sizeof *w->paths);
  mortise_status status = ends && w->paths ? MORTISE_OK : mt_error_memory(err);
  if (!status && !take_paths(w, list, ends))
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "within: paths is a list of paths");
  if (!status) status = mt_buf_status(&w->text, "paths", err);
  for (size_t i = 0; !status && i < w->n; start = ends[i++])
    w->paths[i] = (mt_slice){w->text.p + start, ends[i] - start};
  mt_free(ends);
  return status;
}

static mortise_status read_place_name(mt_within *w, mt_json field, mortise_error *err) {
  mt_buf name;
  mt_buf_init(&name, TEXT_MAX);
  mortise_status status = MORTISE_OK;
  if (!mt_json_text(field, &name))
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "within: a field is needed");
  if (!status) status = mt_buf_status(&name, "a field's name", err);
  if (!status)
    status = mt_transforms_prefix(&w->name, mt_buf_slice(&name), MT_SLICE("/a"), MT_SLICE("/b"), err);
  mt_buf_deinit(&name);
  return status;
}

mortise_status mt_within_parse(mt_within *w, mt_slice json, mortise_error *err) {
  mt_json root;
  *w = (mt_within){0};
  mt_buf_init(&w->text, TEXT_MAX);
  mortise_status status = mt_json_parse(json, "within", &root, err);
  if (!status) status = read_place_name(w, mt_json_get(root, "field"), err);
  if (!status) status = read_locked(w, mt_json_get(root, "paths"), err);
  if (status) mt_within_deinit(w);
  return status;
}

void mt_within_deinit(mt_within *w) {
  mt_transforms_deinit(&w->name);
  mt_buf_deinit(&w->text);
  mt_free(w->paths);
  *w = (mt_within){0};
}

/* ---- Looking at a document ------------------------------------------------------------------ */

bool mt_within_concerns(const mt_within *w, mt_slice source) {
  return mt_places_below(&w->name, source, w->paths, w->n).inside > 0;
}

mortise_status mt_within_check(const mt_within *w, mt_slice before, mt_slice after,
                               mortise_error *err) {
  mt_places was = mt_places_below(&w->name, before, w->paths, w->n);
  mt_places is = mt_places_below(&w->name, after, w->paths, w->n);
  if (is.inside && is.outside <= was.outside) return MORTISE_OK;
  mt_error_set(err, MORTISE_REJECTED, "it would lie outside of the locked paths");
  snprintf(err->type, sizeof err->type, "outside_lock");
  return MORTISE_REJECTED;
}

static mt_transformed apply_within(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  const mt_within *w = ctx;
  size_t start = out->n;
  if (!mt_within_concerns(w, doc->source)) return MT_UNCHANGED;
  mt_transformed how = w->inner.apply(w->inner.ctx, doc, out, err);
  if (how != MT_CHANGED || out->failed) return how;
  if (!mt_within_check(w, doc->source, (mt_slice){out->p + start, out->n - start}, err)) return how;
  mt_buf_cut(out, start);
  return MT_ASIDE;
}

mt_transform mt_within_transform(mt_within *w, mt_transform t) {
  w->inner = t;
  return (mt_transform){.apply = apply_within, .ctx = w, .decides = t.decides};
}
