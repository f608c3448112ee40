#include "base/json_edit.h"

#include "base/mem.h"

#include <stdlib.h>

static const char *end_of(mt_json value) {
  return value.raw.p + value.raw.n;
}

static void add_between(mt_buf *out, const char *from, const char *to) {
  mt_buf_add(out, from, (size_t)(to - from));
}

/* ---- finding ---- */

/* "a.b.c" split at its dots one by one: "a" and "b.c", then "a.b" and "c". */
static bool split_at_dot(mt_slice name, size_t *dot, mt_slice *head, mt_slice *rest) {
  const char *p = *dot < name.n ? memchr(name.p + *dot, '.', name.n - *dot) : NULL;
  if (!p) return false;
  size_t at = (size_t)(p - name.p);
  *dot = at + 1;
  *head = (mt_slice){name.p, at};
  *rest = (mt_slice){p + 1, name.n - at - 1};
  return true;
}

typedef struct spot {
  mt_json object; /* the one that has the member */
  mt_slice key;   /* decoded */
  mt_json value;
} spot;

/* Tries every split, shortest head first, since a document may also contain {"a.b": {"c": 1}}. Each
 * call goes one object deeper, so MT_JSON_DEPTH bounds the recursion. */
static bool find_spot(mt_json object, mt_slice name, spot *out) {
  *out = (spot){object, name, mt_json_member(object, name)};
  if (out->value.type) return true;
  mt_slice head, rest;
  for (size_t dot = 0; split_at_dot(name, &dot, &head, &rest);) {
    mt_json child = mt_json_member(object, head);
    if (child.type == MT_JSON_OBJECT && find_spot(child, rest, out)) return true;
  }
  return false;
}

mt_json mt_json_find(mt_json object, mt_slice name) {
  spot found;
  return find_spot(object, name, &found) ? found.value : (mt_json){0};
}

/* Finds the place for a new field: the deepest existing object on its path, and the rest of its
 * name. INVALID_ARGUMENT if something other than an object is on the path. */
static mortise_status find_place(mt_json object, mt_slice name, spot *out, mortise_error *err) {
  mt_slice head, rest;
  for (size_t dot = 0; split_at_dot(name, &dot, &head, &rest);) {
    mt_json child = mt_json_member(object, head);
    if (!child.type) continue;
    if (child.type != MT_JSON_OBJECT)
      return mt_error_set(
          err, MORTISE_INVALID_ARGUMENT, "\"%.*s\" is no object, so it has no \"%.*s\"",
          (int)(head.n < 200 ? head.n : 200), head.p, (int)(rest.n < 200 ? rest.n : 200), rest.p);
    object = child;
    name = rest;
    dot = 0;
  }
  *out = (spot){object, name, {0}};
  return MORTISE_OK;
}

/* ---- one edit ---- */

/* Appends the member for the rest of the name, with new objects for its inner parts. */
static void add_new_member(mt_buf *out, mt_slice name, mt_slice value) {
  mt_slice head, rest;
  size_t objects = 0;
  for (size_t dot = 0; split_at_dot(name, &dot, &head, &rest); dot = 0, objects++) {
    mt_json_add_string(out, head);
    mt_buf_adds(out, ":{");
    name = rest;
  }
  mt_json_add_string(out, name);
  mt_buf_addc(out, ':');
  mt_buf_addslice(out, value);
  while (objects--) mt_buf_addc(out, '}');
}

/* The place right after the last member, before any white space. */
static const char *place_for_new(mt_json object, bool *empty) {
  const char *p = object.raw.p + 1;
  *empty = true;
  for (mt_json_iter it = mt_json_items(object); mt_json_next(&it); *empty = false)
    p = end_of(it.value);
  return p;
}

/* Appends `object` without its members of that name. A member is dropped with the comma before it
 * if a member before it stays, otherwise with the comma after it. */
static void add_without(mt_json object, mt_slice name, mt_buf *out) {
  const char *from = object.raw.p; /* not copied yet */
  const char *before = NULL;       /* the end of the last member that stays, if any */
  bool dropped = false;
  for (mt_json_iter it = mt_json_items(object); mt_json_next(&it);) {
    const char *start = it.key.p - 1;
    if (!before && dropped) from = start;
    if (mt_json_key_is(it.key, name)) {
      add_between(out, from, before ? before : start);
      from = end_of(it.value);
      dropped = true;
      if (before) before = from;
    } else {
      before = end_of(it.value);
    }
  }
  add_between(out, from, end_of(object));
}

static bool has_empty_part(mt_slice name) {
  mt_slice head, rest = name;
  for (size_t dot = 0; split_at_dot(rest, &dot, &head, &rest); dot = 0)
    if (!head.n) return true;
  return !rest.n;
}

/* Appends `object` with one edit, whose value is checked. Nothing is appended on an error. */
static mortise_status apply_edit(mt_json object, const mt_json_edit *edit, mt_buf *out,
                                 mortise_error *err) {
  spot at;
  const char *p = object.raw.p;
  if (find_spot(object, edit->name, &at)) {
    add_between(out, p, edit->value.p ? at.value.raw.p : at.object.raw.p);
    if (edit->value.p)
      mt_buf_addslice(out, edit->value);
    else
      add_without(at.object, at.key, out);
    add_between(out, end_of(edit->value.p ? at.value : at.object), end_of(object));
    return MORTISE_OK;
  }
  mortise_status status = find_place(object, edit->name, &at, err);
  if (status) return status;
  if (edit->value.p && has_empty_part(at.key))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a field's name has an empty part");
  if (edit->value.p) {
    bool empty;
    const char *place = place_for_new(at.object, &empty);
    add_between(out, p, place);
    if (!empty) mt_buf_addc(out, ',');
    add_new_member(out, at.key, edit->value);
    p = place;
  }
  add_between(out, p, end_of(object));
  return MORTISE_OK;
}

/* ---- all edits ---- */

static bool dotted_inside(mt_slice inner, mt_slice outer) {
  return inner.n > outer.n && mt_slice_starts(inner, outer) && inner.p[outer.n] == '.';
}

/* Two names may look like a field and one inside it but be separate literal keys: {"a": 1, "a.b":
 * 2}. */
static bool stand_apart(mt_json object, mt_slice a, mt_slice b) {
  mt_json x = mt_json_find(object, a), y = mt_json_find(object, b);
  return x.type && y.type && (end_of(x) <= y.raw.p || end_of(y) <= x.raw.p);
}

static mortise_status check_pairs(mt_json object, const mt_json_edit *edits, size_t n,
                                  mortise_error *err) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++)
      if (dotted_inside(edits[i].name, edits[j].name) &&
          !stand_apart(object, edits[i].name, edits[j].name))
        return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                            "one change of \"%.*s\" and another of a field inside it",
                            (int)(edits[j].name.n < 200 ? edits[j].name.n : 200), edits[j].name.p);
  return MORTISE_OK;
}

static bool edited_again(const mt_json_edit *edits, size_t i, size_t n) {
  for (size_t j = i + 1; j < n; j++)
    if (mt_slice_eq(edits[i].name, edits[j].name)) return true;
  return false;
}

/* Selects the edits that count, with their values checked and trimmed; `live` has room for n. */
static mortise_status choose_last_edits(const mt_json_edit *edits, size_t n, mt_json_edit *live,
                                        size_t *count, mortise_error *err) {
  for (size_t i = 0; i < n; i++) {
    if (edited_again(edits, i, n)) continue;
    live[*count] = edits[i];
    if (edits[i].value.p) {
      mt_json value;
      mortise_status status = mt_json_parse(edits[i].value, "a field's new value", &value, err);
      if (status) return status;
      live[*count].value = value.raw;
    }
    ++*count;
  }
  return MORTISE_OK;
}

/* An upper bound for the result's size: a byte of a name becomes at most six, and a dot `":{"` and
 * `}`. */
static size_t outcome_bound(mt_json object, const mt_json_edit *edits, size_t n) {
  size_t bound = object.raw.n;
  for (size_t i = 0; i < n; i++) bound += 12 * edits[i].name.n + edits[i].value.n + 16;
  return bound;
}

/* Applies each edit to the result of the one before; the last result goes to `out`. */
static mortise_status apply_edits(mt_json object, const mt_json_edit *edits, size_t n, mt_buf *out,
                                  mortise_error *err) {
  mt_buf between[2];
  size_t bound = outcome_bound(object, edits, n);
  for (size_t i = 0; i < 2; i++) mt_buf_init(&between[i], bound);
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; i < n && !status; i++) {
    mt_buf *to = i + 1 < n ? &between[i & 1] : out;
    if (to != out) mt_buf_clear(to);
    status = apply_edit(object, &edits[i], to, err);
    if (!status) status = mt_buf_status(to, "the changed document", err);
    if (to != out) object.raw = mt_buf_slice(to);
  }
  for (size_t i = 0; i < 2; i++) mt_buf_deinit(&between[i]);
  return status;
}

mortise_status mt_json_apply(mt_json object, const mt_json_edit *edits, size_t n, mt_buf *out,
                             mortise_error *err) {
  if (object.type != MT_JSON_OBJECT)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "only an object has fields to change");
  mt_json_edit *live = mt_calloc(n, sizeof *live);
  if (!live) return mt_error_memory(err);
  size_t count = 0;
  mortise_status status = check_pairs(object, edits, n, err);
  if (!status) status = choose_last_edits(edits, n, live, &count, err);
  if (!status && count) status = apply_edits(object, live, count, out, err);
  mt_free(live);
  if (status || count) return status;
  mt_buf_addslice(out, object.raw);
  return mt_buf_status(out, "the changed document", err);
}

/* ---- comparing ---- */

static const char *end_of_string(const char *p, const char *end) {
  for (p++; p < end && *p != '"'; p++)
    if (*p == '\\') p++;
  return p < end ? p + 1 : end;
}

/* Compares two strings with their quotes: equal bytes, or equal once decoded if one has no
 * escapes. */
static bool same_string(mt_slice a, mt_slice b) {
  if (mt_slice_eq(a, b)) return true;
  mt_slice x = {a.p + 1, a.n - 2}, y = {b.p + 1, b.n - 2};
  if (!y.n || !memchr(y.p, '\\', y.n)) return mt_json_key_is(x, y);
  return (!x.n || !memchr(x.p, '\\', x.n)) && mt_json_key_is(y, x);
}

static const char *next_token(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
  return p;
}

/* Compares tokens, ignoring white space. Numbers written differently (1.0, 1e0) and members in
 * another order count as different. */
static bool same_value(mt_json a, mt_json b) {
  if (mt_slice_eq(a.raw, b.raw)) return true;
  if (a.type != b.type) return false;
  const char *p = a.raw.p, *q = b.raw.p;
  for (;;) {
    p = next_token(p, end_of(a));
    q = next_token(q, end_of(b));
    if (p == end_of(a) || q == end_of(b)) return p == end_of(a) && q == end_of(b);
    if (*p != *q) return false;
    if (*p != '"') {
      p++, q++;
      continue;
    }
    const char *s = p, *t = q;
    p = end_of_string(p, end_of(a));
    q = end_of_string(q, end_of(b));
    if (!same_string((mt_slice){s, (size_t)(p - s)}, (mt_slice){t, (size_t)(q - t)})) return false;
  }
}

/* ---- merging ---- */

typedef struct change_member {
  mt_slice name; /* decoded */
  char *owned;   /* its memory if there were escapes */
  mt_json value;
  bool done;
} change_member;

/* The members of one object of the change, sorted by name, so that a merge is not quadratic. */
typedef struct change_index {
  change_member *members;
  size_t n, cap;
} change_index;

/* The caller frees `*owned`, which is NULL if the raw key needs no decoding. */
static bool decode_key(mt_slice raw, mt_slice *name, char **owned) {
  *name = raw;
  *owned = NULL;
  if (!raw.n || !memchr(raw.p, '\\', raw.n)) return true;
  mt_buf decoded;
  mt_buf_init(&decoded, raw.n);
  mt_json_text((mt_json){MT_JSON_STRING, {raw.p - 1, raw.n + 2}}, &decoded);
  size_t n;
  *owned = mt_buf_take(&decoded, &n);
  if (!*owned) mt_buf_deinit(&decoded);
  *name = (mt_slice){*owned, n};
  return *owned != NULL;
}

/* By name; duplicates keep their order. */
static int by_name(const void *a, const void *b) {
  const change_member *x = a, *y = b;
  int order = mt_slice_cmp(x->name, y->name);
  return order ? order : (x->value.raw.p > y->value.raw.p) - (x->value.raw.p < y->value.raw.p);
}

static void free_index(change_index *index) {
  for (size_t i = 0; i < index->n; i++) mt_free(index->members[i].owned);
  mt_free(index->members);
}

static bool make_index(change_index *index, mt_json change) {
  *index = (change_index){0};
  for (mt_json_iter it = mt_json_items(change); mt_json_next(&it);) {
    if (!mt_grow((void **)&index->members, &index->cap, index->n + 1, sizeof *index->members,
                 SIZE_MAX / sizeof *index->members))
      return false;
    change_member *m = &index->members[index->n];
    *m = (change_member){.value = it.value};
    if (!decode_key(it.key, &m->name, &m->owned)) return false;
    index->n++;
  }
  if (index->n > 1) qsort(index->members, index->n, sizeof *index->members, by_name);
  return true;
}

/* false only without memory; `*out` is NULL if the change does not have the key. */
static bool look_up(change_index *index, mt_slice raw_key, change_member **out) {
  mt_slice name;
  char *owned;
  if (!decode_key(raw_key, &name, &owned)) return false;
  size_t low = 0, high = index->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (mt_slice_cmp(index->members[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < index->n && mt_slice_eq(index->members[low].name, name);
  *out = found ? &index->members[low] : NULL;
  mt_free(owned);
  return true;
}

static bool merge_objects(mt_json object, mt_json change, mt_buf *out, bool *changed);

/* Appends the merged value; false without memory. */
static bool merge_values(mt_json value, mt_json change, mt_buf *out, bool *changed) {
  if (value.type == MT_JSON_OBJECT && change.type == MT_JSON_OBJECT)
    return merge_objects(value, change, out, changed);
  bool same = same_value(value, change);
  mt_buf_addslice(out, same ? value.raw : change.raw);
  if (!same) *changed = true;
  return true;
}

/* Merges the members that the object already has; `*from` follows what was copied. */
static bool merge_present(mt_json object, change_index *index, const char **from, mt_buf *out,
                          bool *changed) {
  for (mt_json_iter it = mt_json_items(object); mt_json_next(&it);) {
    change_member *m;
    if (!look_up(index, it.key, &m)) return false;
    if (!m) continue;
    m->done = true;
    add_between(out, *from, it.value.raw.p);
    *from = end_of(it.value);
    if (!merge_values(it.value, m->value, out, changed)) return false;
  }
  return true;
}

static bool merge_new(mt_json change, change_index *index, bool empty, mt_buf *out, bool *changed) {
  for (mt_json_iter it = mt_json_items(change); mt_json_next(&it);) {
    change_member *m;
    if (!look_up(index, it.key, &m)) return false;
    if (m->done) continue;
    m->done = *changed = true;
    if (!empty) mt_buf_addc(out, ',');
    empty = false;
    mt_buf_add(out, it.key.p - 1, it.key.n + 2);
    mt_buf_addc(out, ':');
    mt_buf_addslice(out, m->value.raw);
  }
  return true;
}

/* Recursion is bounded by MT_JSON_DEPTH. */
static bool merge_objects(mt_json object, mt_json change, mt_buf *out, bool *changed) {
  change_index index;
  const char *from = object.raw.p;
  bool empty;
  const char *place = place_for_new(object, &empty);
  bool fits = make_index(&index, change) && merge_present(object, &index, &from, out, changed);
  if (fits) {
    add_between(out, from, place);
    fits = merge_new(change, &index, empty, out, changed);
    add_between(out, place, end_of(object));
  }
  free_index(&index);
  return fits;
}

mortise_status mt_json_merge(mt_json object, mt_json change, mt_buf *out, bool *changed,
                             mortise_error *err) {
  size_t start = out->n;
  *changed = false;
  if (!merge_values(object, change, out, changed)) {
    mt_buf_cut(out, start);
    return mt_error_memory(err);
  }
  return mt_buf_status(out, "the merged document", err);
}
