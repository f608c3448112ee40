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
