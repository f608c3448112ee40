#include "job/rename.h"

#include "base/json_edit.h"
#include "base/utf8.h"
#include "lock/path.h"
#include "transform/query.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 4096, QUERY_MAX = 1 << 20 };

/* ---- Which field to search ------------------------------------------------------------------ */

/* The mapping of a dotted field, found by following `properties` through objects. If the path leads through a nested
 * object, it is the mapping of that object, because no search from outside finds its fields. */
static mt_json field_mapping(mt_json mapping, mt_slice field) {
  mt_json properties = mt_json_get(mapping, "properties");
  mt_json_iter it = mt_json_items(properties);
  while (mt_json_next(&it)) {
    if (mt_json_key_is(it.key, field)) return it.value;
    bool nested = mt_json_is(mt_json_get(it.value, "type"), "nested");
    const char *dot = field.p;
    const char *end = field.p + field.n;
    for (; (dot = memchr(dot, '.', (size_t)(end - dot))); dot++) {
      if (!mt_json_key_is(it.key, (mt_slice){field.p, (size_t)(dot - field.p)})) continue;
      if (nested) return it.value;
      mt_json inner = field_mapping(it.value, (mt_slice){dot + 1, (size_t)(end - dot - 1)});
      if (inner.type) return inner;
    }
  }
  return (mt_json){MT_JSON_NONE, {NULL, 0}};
}

/* Why a search for an exact value or a prefix would miss values of such a field; NULL if it finds all. */
static const char *why_not_exact(mt_json mapping) {
  bool index = true;
  mt_json type = mt_json_get(mapping, "type");
  if (mt_json_is(type, "nested")) return "has it in nested objects";
  if (!mt_json_is(type, "keyword") && !mt_json_is(type, "wildcard")) return "is not a keyword";
  if (mt_json_get(mapping, "normalizer").type == MT_JSON_STRING) return "has a normalizer";
  if (mt_json_bool(mt_json_get(mapping, "index"), &index) && !index) return "is not indexed";
  return NULL;
}

/* Values of 32,766 bytes or more do not count, because a server refuses them. */
static bool hides(mt_json mapping) {
  int64_t above = 0;
  mt_json value = mt_json_get(mapping, "ignore_above");
  return value.type && (!mt_json_int(value, &above) || above < 32766);
}

static mortise_status exact_in(mt_json mapping, mt_slice field, mt_buf *out, bool *ignores,
                               mortise_error *err) {
  const char *why = why_not_exact(mapping);
  if (!why) {
    *ignores = hides(mapping);
    mt_buf_addslice(out, field);
    return MORTISE_OK;
  }
  mt_json_iter it = mt_json_items(mt_json_get(mapping, "fields"));
  while (mt_json_next(&it)) {
    const char *inner = why_not_exact(it.value);
    if (inner) {
      why = inner;
      continue;
    }
    mt_buf_addslice(out, field);
    mt_buf_addc(out, '.');
    mt_buf_addslice(out, it.key);
    *ignores = hides(it.value);
    return MORTISE_OK;
  }
  return mt_error_set(err, MORTISE_UNSUPPORTED,
                      "field %.*s cannot be searched for exact values: its mapping %s; a rename "
                      "would miss documents",
                      (int)field.n, field.p, why);
}

mortise_status mt_exact_field(mt_slice json, mt_slice field, mt_buf *out, bool *ignores,
                              mortise_error *err) {
  mt_json root;
  size_t first = 0;
  *ignores = false;
  mt_buf_clear(out);
  if (!json.n || mt_json_parse(json, "the mapping", &root, NULL)) root.type = MT_JSON_NONE;
  mt_json_iter it = mt_json_items(root);
  while (root.type && mt_json_next(&it)) {
    mt_json mapping = field_mapping(mt_json_get(it.value, "mappings"), field);
    if (!mapping.type) continue;
    bool some = false;
    size_t before = out->n;
    mortise_status status = exact_in(mapping, field, out, &some, err);
    if (status) return status;
    *ignores = *ignores || some;
    if (!before)
      first = out->n;
    else if (!mt_slice_eq((mt_slice){out->p, first}, (mt_slice){out->p + before, out->n - before}))
      return mt_error_set(err, MORTISE_UNSUPPORTED,
                          "field %.*s is mapped differently in the indices behind this alias",
                          (int)field.n, field.p);
    mt_buf_cut(out, first);
  }
  if (!out->n) mt_buf_addslice(out, field);
  return mt_buf_status(out, "the field's name", err);
}

mortise_status mt_below_query(mt_slice json, mt_slice field, const mt_slice *paths, size_t n,
                              mt_buf *out, mortise_error *err) {
  bool ignores = false;
  mt_buf name;
  mt_buf_init(&name, NAME_MAX_BYTES);
  mortise_status status = mt_exact_field(json, field, &name, &ignores, err);
  mt_slice hidden = ignores ? field : (mt_slice){NULL, 0};
  mt_buf_adds(out, "{\"bool\":{\"should\":[");
  for (size_t i = 0; i < n && !status; i++) {
    if (i) mt_buf_addc(out, ',');
    mt_prefix_query(out, mt_buf_slice(&name), paths[i], hidden, (mt_slice){NULL, 0});
  }
  mt_buf_adds(out, "],\"minimum_should_match\":1}}");
  mt_buf_deinit(&name);
  return status ? status : mt_buf_status(out, "the query", err);
}

/* ---- The change ----------------------------------------------------------------------------- */

/* The names under which searches find its fields, borrowed from `text`. */
typedef struct field_names {
  mt_buf text[MT_RENAME_FIELDS_MAX];
  mt_search_name names[MT_RENAME_FIELDS_MAX];
  mt_slice fields[MT_RENAME_FIELDS_MAX];
} field_names;

static mortise_status find_names(mt_rename *r, const mt_describe *d, field_names *out,
                                 mortise_error *err) {
  mortise_status status = MORTISE_OK;
  r->hides = false;
  for (size_t i = 0; i < r->list.n && !status; i++) {
    mt_prefix what;
    bool ignores = false;
    mt_transforms_is_prefix(&r->list, i, &what);
    status = mt_exact_field(mt_slice_of(d->json), what.field, &out->text[i], &ignores, err);
    r->hides |= ignores;
    out->fields[i] = mt_buf_slice(&out->text[i]);
    out->names[i] = (mt_search_name){out->fields[i], ignores ? what.field : (mt_slice){NULL, 0}};
  }
  return status;
}

static mortise_status set_query(mt_rename *r, const field_names *f, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  mt_buf_clear(&r->query);
  if (r->list.n == 1) {
    mt_prefix_query(&r->query, f->fields[0], r->what.from, f->names[0].hidden, r->also);
  } else {
    mt_buf_adds(&r->query, "{\"bool\":{\"filter\":[");
    status = mt_transforms_query(&r->list, f->names, &r->query, err);
    if (r->also.n) mt_buf_addc(&r->query, ',');
    mt_buf_addslice(&r->query, r->also);
    mt_buf_adds(&r->query, "]}}");
  }
  r->change.query = mt_buf_slice(&r->query);
  return status ? status : mt_buf_status(&r->query, "the query", err);
}

static mortise_status set_beside(mt_rename *r, const field_names *f, mortise_error *err) {
  bool inside = mt_path_is_ancestor(r->what.to, r->what.from);
  mt_slice except = inside ? r->what.from : (mt_slice){NULL, 0};
  mt_buf_clear(&r->beside);
  if (r->list.n == 1)
    mt_tree_query(&r->beside, f->fields[0], r->what.to, except);
  else
    mt_trees_query(&r->beside, f->fields, r->list.n, r->what.to, except);
  r->change.beside = mt_buf_slice(&r->beside);
  return mt_buf_status(&r->beside, "the query", err);
}

static mortise_status search_fields(mt_change *c, const mt_describe *d, mortise_error *err) {
  mt_rename *r = (mt_rename *)c;
  field_names names = {0};
  for (size_t i = 0; i < r->list.n; i++) mt_buf_init(&names.text[i], NAME_MAX_BYTES);
  mortise_status status = find_names(r, d, &names, err);
  if (!status) status = set_query(r, &names, err);
  if (!status) status = set_beside(r, &names, err);
  for (size_t i = 0; i < r->list.n; i++) mt_buf_deinit(&names.text[i]);
  return status;
}

/* A long path is cut, so that the text after it stays in the message. */
static mt_slice shown_path(mt_slice path) {
  return (mt_slice){path.p, path.n < 160 ? path.n : 160};
}

/* If nothing lies below `to` yet, is the rename undone by renaming back all that lies there then? Not if it has a
 * further query, because a document that it leaves out now may match it later; nor if documents get other ids, which
 * takes two requests for each. */
static bool is_reversible(const mt_rename *r) {
  mt_slice formed;
  return !r->hides && !r->also.n && !r->change.ids &&
         !mt_path_is_ancestor(r->what.to, r->what.from) &&
         !mt_path_check(r->what.from, &formed, NULL);
}

static mortise_status refuse_beside(mt_change *c, mortise_error *err) {
  const mt_rename *r = (const mt_rename *)c;
  uint64_t n = c->result.beside;
  c->reversible = !n && is_reversible(r);
  if (!n || !c->result.matched || r->merge) return MORTISE_OK;
  const mt_slice to = shown_path(r->what.to);
  return mt_error_set(err, MORTISE_CONFLICT,
                      "%" PRIu64 " document%s below " MT_QUOTED
                      " already; `merge` is needed to join them",
                      n, n == 1 ? " lies" : "s lie", MT_QUOTED_OF(to));
}

static mortise_status concluded(mt_change *c, mortise_error *err) {
  const mt_rename *r = (const mt_rename *)c;
  uint64_t n = c->result.beside;
  const mt_slice from = shown_path(r->what.from), to = shown_path(r->what.to);
  char also[256] = "";
  if (mt_result_settled(&c->result) || r->allow_empty) return MORTISE_OK;
  if (n) snprintf(also, sizeof also, "; %" PRIu64 " below " MT_QUOTED, n, MT_QUOTED_OF(to));
  return mt_error_set(err, MORTISE_NOT_FOUND, "there are no documents below " MT_QUOTED "%s",
                      MT_QUOTED_OF(from), also);
}

static mortise_status check_path(mortise_status (*check)(mt_slice, mt_slice *, mortise_error *),
                                 mt_slice path, const char *what, mortise_error *err) {
  mt_slice formed;
  mortise_status status = check(path, &formed, err);
  if (status) mt_error_prefix(err, "%s", what);
  return status;
}

mortise_status mt_rename_init_fields(mt_rename *r, const mt_slice *fields, size_t n, mt_slice from,
                                     mt_slice to, mortise_error *err) {
  *r = (mt_rename){0};
  if (!n || n > MT_RENAME_FIELDS_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a rename has 1 to %d fields",
                        MT_RENAME_FIELDS_MAX);
  mortise_status status = check_path(mt_path_check_form, from, "from", err);
  if (!status) status = check_path(mt_path_check, to, "to", err);
  if (!status) status = mt_transforms_prefixes(&r->list, fields, n, from, to, err);
  if (status) return status;
  mt_transforms_is_prefix(&r->list, 0, &r->what);
  mt_buf_init(&r->query, QUERY_MAX);
  mt_buf_init(&r->beside, QUERY_MAX);
  r->change.transform = mt_transform_list(&r->list);
  r->change.until_none = true;
  r->change.described = search_fields;
  r->change.counted = refuse_beside;
  r->change.concluded = concluded;
  return MORTISE_OK;
}

mortise_status mt_rename_init(mt_rename *r, mt_slice field, mt_slice from, mt_slice to,
                              mortise_error *err) {
  return mt_rename_init_fields(r, &field, 1, from, to, err);
}

mortise_status mt_rename_ids(mt_rename *r, mortise_error *err) {
  if (mt_path_is_ancestor(r->what.to, r->what.from))
    return mt_error_set(err, MORTISE_UNSUPPORTED,
                        "documents get no other ids where `from` lies inside `to`");
  r->change.ids = &r->what;
  return MORTISE_OK;
}

void mt_rename_touch(mt_rename *r) {
  r->change.transform = mt_transform_touch();
  r->change.until_none = false;
  r->change.counted = r->change.concluded = NULL;
  r->change.ids = NULL;
}

void mt_rename_deinit(mt_rename *r) {
  mt_transforms_deinit(&r->list);
  mt_buf_deinit(&r->query);
  mt_buf_deinit(&r->beside);
}
