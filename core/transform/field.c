/* Transforms that add, replace or remove a field as a whole. */
#include "transform/parts.h"

/* ---- set, default --------------------------------------------------------------------------- */

static const char *field_add(mt_work_on *w, const mt_name *name, mt_slice value) {
  mt_spot spot;
  const char *why = mt_find_spot(w->root, name, &spot);
  if (!why) mt_patch_add(&w->patch, &spot, name, value);
  return why;
}

static const char *field_put(mt_work_on *w, bool only_null) {
  const mt_list_step *s = w->step;
  mt_member at;
  bool found;
  const char *why = mt_one_place(w->root, &s->field, &at, &found);
  if (why) return why;
  if (!found) return field_add(w, &s->field, s->value.raw);
  if (only_null && at.value.type != MT_JSON_NULL) return NULL;
  if (mt_same_value(at.value, s->value)) return NULL;
  mt_patch_skip(&w->patch, at.value.raw.p, mt_end_of(at.value));
  mt_buf_addslice(w->patch.out, s->value.raw);
  return NULL;
}

const char *mt_do_set(mt_work_on *w) {
  return field_put(w, false);
}

const char *mt_do_default(mt_work_on *w) {
  return field_put(w, true);
}

/* ---- remove --------------------------------------------------------------------------------- */

static const char *remove_place(void *ctx, const mt_member *place) {
  mt_patch_remove(ctx, place);
  return NULL;
}

const char *mt_do_remove(mt_work_on *w) {
  return mt_each_place(w->root, &w->step->field, remove_place, &w->patch);
}

/* ---- copy_field, rename_field --------------------------------------------------------------- */

typedef struct pair {
  mt_member from, to;
  bool has_from, has_to;
} pair;

static const char *find_pair(mt_work_on *w, pair *p) {
  const char *why = mt_one_place(w->root, &w->step->field, &p->from, &p->has_from);
  if (why || !p->has_from) return why;
  w->whose = &w->step->target;
  return mt_one_place(w->root, &w->step->target, &p->to, &p->has_to);
}

const char *mt_do_copy_field(mt_work_on *w) {
  pair p;
  const char *why = find_pair(w, &p);
  if (why || !p.has_from) return why;
  if (!p.has_to) return field_add(w, &w->step->target, p.from.value.raw);
  return mt_same_value(p.from.value, p.to.value) ? NULL : "has another value";
}

/* The key to put in place of the old one, if the object stays the same and it has as many dots. */
static bool key_instead(const mt_list_step *s, const mt_member *from, mt_slice *key) {
  const mt_name *a = &s->field, *b = &s->target;
  if (a->n != b->n) return false;
  size_t part = from->part;
  if (part && !mt_slice_eq(mt_name_parts(a, 0, part - 1), mt_name_parts(b, 0, part - 1)))
    return false;
  *key = mt_name_parts(b, part, b->n - 1);
  return true;
}

/* `rest` is the document without the field. */
static const char *field_add_to_rest(mt_work_on *w, mt_json rest, mt_slice value) {
  mt_spot spot;
  const char *why = mt_find_spot(rest, &w->step->target, &spot);
  if (why) return why;
  mt_patch p = {.out = w->patch.out, .copied = rest.raw.p};
  mt_patch_add(&p, &spot, &w->step->target, value);
  mt_buf_add(p.out, p.copied, (size_t)(mt_end_of(rest) - p.copied));
  w->patch.copied = mt_end_of(w->root);
  w->patch.changed = true;
  return NULL;
}

static const char *field_move(mt_work_on *w, const mt_member *from) {
  mt_buf rest;
  const char *why = NULL;
  mt_buf_init(&rest, w->root.raw.n);
  mt_patch p = {.out = &rest, .copied = w->root.raw.p};
  mt_patch_remove(&p, from);
  mt_buf_add(&rest, p.copied, (size_t)(mt_end_of(w->root) - p.copied));
  if (rest.failed)
    mt_buf_fail(w->patch.out, rest.failed);
  else
    why = field_add_to_rest(w, (mt_json){MT_JSON_OBJECT, mt_buf_slice(&rest)}, from->value.raw);
  mt_buf_deinit(&rest);
  return why;
}

const char *mt_do_rename_field(mt_work_on *w) {
  pair p;
  mt_slice key;
  mt_spot spot;
  const char *why = find_pair(w, &p);
  if (why || !p.has_from) return why;
  if (p.has_to) return "is there already";
  why = mt_find_spot(w->root, &w->step->target, &spot);
  if (why) return why;
  if (!key_instead(w->step, &p.from, &key)) return field_move(w, &p.from);
  mt_patch_skip(&w->patch, p.from.key.p - 1, p.from.key.p + p.from.key.n + 1);
  mt_json_add_string(w->patch.out, key);
  return NULL;
}
