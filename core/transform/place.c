#include "transform/parts.h"

#include <string.h>

/* ---- Finding -------------------------------------------------------------------------------- */

typedef struct place_walk {
  const mt_name *name;
  mt_member_fn *visit;
  void *ctx;
  size_t depth;
} place_walk;

static const char *walk_value(place_walk *w, mt_json value, size_t part, bool in_array);

/* If the key is the parts of the name from `part` to another one, that one; else -1. */
static int parts_of_key(const mt_name *name, size_t part, mt_slice key) {
  for (size_t last = part; last < name->n; last++)
    if (mt_json_key_is(key, mt_name_parts(name, part, last))) return (int)last;
  return -1;
}

static const char *walk_object(place_walk *w, mt_json object, size_t part, bool in_array) {
  _Static_assert(MT_FIELD_PARTS_MAX <= 32, "a bit for each part");
  uint32_t seen = 0;
  const char *before = NULL, *why = NULL;
  for (mt_json_iter it = mt_json_items(object); !why && mt_json_next(&it);) {
    int last = parts_of_key(w->name, part, it.key);
    if (last >= 0) {
      if (seen & UINT32_C(1) << last) return "is in one object twice";
      seen |= UINT32_C(1) << last;
      if (last + 1 < w->name->n)
        why = walk_value(w, it.value, (size_t)last + 1, in_array);
      else
        why = w->visit(w->ctx, &(mt_member){object, it.key, it.value, before, part, in_array});
    }
    before = mt_end_of(it.value);
  }
  return why;
}

static const char *walk_value(place_walk *w, mt_json value, size_t part, bool in_array) {
  const char *why = NULL;
  if (value.type == MT_JSON_OBJECT) return walk_object(w, value, part, in_array);
  if (value.type != MT_JSON_ARRAY) return NULL;
  if (++w->depth > MT_JSON_DEPTH) return "is nested too deep";
  for (mt_json_iter it = mt_json_items(value); !why && mt_json_next(&it);)
    why = walk_value(w, it.value, part, true);
  w->depth--;
  return why;
}

const char *mt_each_place(mt_json root, const mt_name *name, mt_member_fn *visit, void *ctx) {
  return walk_object(&(place_walk){.name = name, .visit = visit, .ctx = ctx}, root, 0, false);
}

typedef struct only {
  mt_member *out;
  size_t n;
  bool in_array;
} only;

static const char *take_only(void *ctx, const mt_member *place) {
  only *o = ctx;
  o->in_array |= place->in_array;
  if (!o->n++) *o->out = *place;
  return NULL;
}

const char *mt_one_place(mt_json root, const mt_name *name, mt_member *out, bool *found) {
  only o = {.out = out};
  const char *why = mt_each_place(root, name, take_only, &o);
  *found = o.n > 0;
  if (why) return why;
  return o.in_array ? "lies in an array" : o.n > 1 ? "has two places" : NULL;
}

const char *mt_find_spot(mt_json root, const mt_name *name, mt_spot *out) {
  *out = (mt_spot){root, 0};
  for (size_t last = 0; last + 1 < name->n; last++) {
    mt_json child = mt_json_member(out->object, mt_name_parts(name, out->part, last));
    if (!child.type) continue;
    if (child.type != MT_JSON_OBJECT) return "has something on its way that is no object";
    *out = (mt_spot){child, last + 1};
  }
  return NULL;
}

/* ---- Patching ------------------------------------------------------------------------------- */

void mt_patch_skip(mt_patch *p, const char *from, const char *to) {
  mt_buf_add(p->out, p->copied, (size_t)(from - p->copied));
  p->copied = to;
  p->changed = true;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const char *skip_blanks(const char *p) {
  while (is_blank(*p)) p++;
  return p;
}

/* Removes the comma before the member too, or, of the first member, the comma behind it. */
void mt_patch_remove(mt_patch *p, const mt_member *place) {
  const char *behind = mt_end_of(place->value);
  if (place->before) {
    mt_patch_skip(p, place->before, behind);
    return;
  }
  const char *comma = skip_blanks(behind); /* or the closing bracket */
  mt_patch_skip(p, place->key.p - 1, *comma == ',' ? skip_blanks(comma + 1) : behind);
}

/* Adds behind the last member, before any white space there. */
void mt_patch_add(mt_patch *p, const mt_spot *spot, const mt_name *name, mt_slice value) {
  const char *open = spot->object.raw.p, *place = mt_end_of(spot->object) - 1;
  while (is_blank(place[-1])) place--;
  bool empty = place == open + 1;
  mt_patch_skip(p, place, place);
  if (!empty) mt_buf_addc(p->out, ',');
  for (size_t i = spot->part; i < name->n; i++) {
    mt_json_add_string(p->out, mt_name_parts(name, i, i));
    mt_buf_adds(p->out, i + 1 < name->n ? ":{" : ":");
  }
  mt_buf_addslice(p->out, value);
  for (size_t i = spot->part; i + 1 < name->n; i++) mt_buf_addc(p->out, '}');
}
