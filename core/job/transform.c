#include "job/transform.h"

static mt_transformed apply_list(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  return mt_transforms_apply(ctx, doc->source, out, err);
}

mt_transform mt_transform_list(const mt_transforms *t) {
  mt_prefix prefix;
  bool decides = true;
  for (size_t i = 0; i < t->n; i++) decides &= mt_transforms_is_prefix(t, i, &prefix);
  return (mt_transform){.apply = apply_list, .ctx = (void *)(uintptr_t)t, .decides = decides};
}

enum { AGAIN_MAX = 256 << 20 };

/* OK if the list leaves `made` unchanged. OUT_OF_MEMORY if that cannot be found out. */
static mortise_status check_done(const mt_transforms *t, mt_slice made, mortise_error *err) {
  mt_buf again;
  mt_buf_init(&again, AGAIN_MAX);
  mt_transformed how = mt_transforms_apply(t, made, &again, err);
  bool same = how == MT_UNCHANGED || (how == MT_CHANGED && mt_slice_eq(mt_buf_slice(&again), made));
  mortise_status status = mt_buf_status(&again, "a document", err);
  if (!status && !same)
    status = mt_error_set(err, MORTISE_REJECTED, "the list would change it again each time");
  mt_buf_deinit(&again);
  return status;
}

static mt_transformed apply_once(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  size_t start = out->n;
  mt_transformed how = mt_transforms_apply(ctx, doc->source, out, err);
  if (how != MT_CHANGED || out->failed) return how;
  const mt_slice made = {out->p + start, out->n - start};
  mortise_status status = MORTISE_OK;
  if (mt_slice_eq(made, doc->source))
    how = MT_UNCHANGED;
  else
    status = check_done(ctx, made, err);
  if (status) how = status == MORTISE_REJECTED ? MT_ASIDE : MT_STOP;
  if (how != MT_CHANGED) mt_buf_cut(out, start);
  return how;
}

mt_transform mt_transform_once(const mt_transforms *t) {
  return (mt_transform){.apply = apply_once, .ctx = (void *)(uintptr_t)t, .decides = true};
}

static mt_transformed keep_all(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  (void)ctx, (void)err;
  mt_buf_addslice(out, doc->source);
  return MT_CHANGED;
}

mt_transform mt_transform_touch(void) {
  return (mt_transform){.apply = keep_all, .decides = true};
}
