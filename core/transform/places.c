#include "transform/places.h"

#include "transform/parts.h"

typedef struct looking {
  mt_places found;
  const mt_slice *paths;
  size_t n;
} looking;

/* All paths lie below "/". */
static bool lies_below(mt_slice raw, mt_slice path) {
  const char *end = raw.p + raw.n, *behind = mt_text_after(raw.p, end, path);
  return behind && (behind == end || path.n == 1 || mt_text_after(behind, end, MT_SLICE("/")));
}

static void look_at_text(looking *l, mt_json text) {
  bool inside = false;
  if (text.type != MT_JSON_STRING) return;
  for (size_t i = 0; i < l->n && !inside; i++) inside = lies_below(mt_inside(text), l->paths[i]);
  l->found.inside += inside;
  l->found.outside += !inside;
}

static const char *look_at_place(void *ctx, const mt_member *place) {
  look_at_text(ctx, place->value);
  if (place->value.type != MT_JSON_ARRAY) return NULL;
  for (mt_json_iter it = mt_json_items(place->value); mt_json_next(&it);)
    look_at_text(ctx, it.value);
  return NULL;
}

mt_places mt_places_below(const mt_transforms *t, mt_slice source, const mt_slice *paths, size_t n) {
  looking l = {.paths = paths, .n = n};
  mt_json root;
  if (!mt_json_parse(source, "a document", &root, NULL))
    mt_each_place(root, &t->steps[0].field, look_at_place, &l);
  return l.found;
}
