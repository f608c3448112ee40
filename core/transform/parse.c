#include "transform/parts.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

const char *const mt_step_names[MT_STEP_KINDS] = {
    [MT_STEP_REPLACE_PREFIX] = "replace_prefix",
    [MT_STEP_SET] = "set",
    [MT_STEP_REMOVE] = "remove",
    [MT_STEP_RENAME_FIELD] = "rename_field",
    [MT_STEP_COPY_FIELD] = "copy_field",
    [MT_STEP_DEFAULT] = "default",
    [MT_STEP_CAST] = "cast",
    [MT_STEP_SPLIT] = "split",
    [MT_STEP_JOIN] = "join",
};

const char *mt_transform_name(size_t i) {
  return i < MT_STEP_KINDS ? mt_step_names[i] : NULL;
}

/* The members of each, all required. */
enum { FIELD, FROM, TO, VALUE, BY, MEMBERS };
static const char *const member_names[MEMBERS] = {"field", "from", "to", "value", "by"};
static const bool wants[MT_STEP_KINDS][MEMBERS] = {
    [MT_STEP_REPLACE_PREFIX] = {[FIELD] = true, [FROM] = true, [TO] = true},
    [MT_STEP_SET] = {[FIELD] = true, [VALUE] = true},
    [MT_STEP_REMOVE] = {[FIELD] = true},
    [MT_STEP_RENAME_FIELD] = {[FROM] = true, [TO] = true},
    [MT_STEP_COPY_FIELD] = {[FROM] = true, [TO] = true},
    [MT_STEP_DEFAULT] = {[FIELD] = true, [VALUE] = true},
    [MT_STEP_CAST] = {[FIELD] = true, [TO] = true},
    [MT_STEP_SPLIT] = {[FIELD] = true, [BY] = true},
    [MT_STEP_JOIN] = {[FIELD] = true, [BY] = true},
};

typedef struct parser {
  mt_transforms *t;
  char *at; /* the next free byte of t->text */
  mt_list_step *step;
  mt_json members[MEMBERS];
  mortise_error *err;
} parser;

static int shown_bytes(size_t n) {
  return n < 100 ? (int)n : 100;
}

#define REFUSE(p, ...) mt_error_set((p)->err, MORTISE_INVALID_ARGUMENT, __VA_ARGS__)

/* ---- Texts ---------------------------------------------------------------------------------- */

/* Decoded, into the list's own memory: no longer than it was. */
static mortise_status read_member_text(parser *p, int which, mt_slice *out) {
  mt_json value = p->members[which];
  if (value.type != MT_JSON_STRING) return REFUSE(p, "`%s` is no text", member_names[which]);
  const char *from = value.raw.p + 1, *end = value.raw.p + value.raw.n - 1;
  char *start = p->at;
  while (from < end) {
    char piece[4];
    size_t n = mt_json_piece(&from, end, piece);
    memcpy(p->at, piece, n);
    p->at += n;
  }
  *out = (mt_slice){start, (size_t)(p->at - start)};
  if (mt_utf8_valid(*out) != out->n)
    return REFUSE(p, "`%s` is no UTF-8 or has half a character", member_names[which]);
  return MORTISE_OK;
}

/* The inside of the text as a JSON string. It is not longer than the spelling that was given. */
static mt_slice raw_text(parser *p, mt_slice decoded) {
  mt_buf b;
  mt_slice out = {p->at, 0};
  mt_buf_init(&b, 6 * decoded.n + 2);
  mt_json_add_string(&b, decoded);
  if (b.failed) {
    mt_error_memory(p->err);
  } else {
    out.n = b.n - 2;
    memcpy(p->at, b.p + 1, out.n);
    p->at += out.n;
  }
  mt_buf_deinit(&b);
  return out;
}

static mortise_status read_name(parser *p, int which, mt_name *out) {
  mortise_status status = read_member_text(p, which, &out->text);
  if (status) return status;
  const char *what = member_names[which];
  mt_slice s = out->text;
  if (s.n > MT_FIELD_NAME_MAX)
    return REFUSE(p, "`%s` has %zu bytes, more than %d", what, s.n, MT_FIELD_NAME_MAX);
  for (size_t i = 0, start = 0; i <= s.n; i++) {
    if (i < s.n && s.p[i] != '.') continue;
    if (i == start)
      return REFUSE(p, s.n ? "`%s` (%.*s) has an empty part" : "`%s` is empty", what,
                    shown_bytes(s.n), s.p);
    if (out->n == MT_FIELD_PARTS_MAX)
      return REFUSE(p, "`%s` has more than %d parts", what, MT_FIELD_PARTS_MAX);
    out->ends[out->n++] = (uint16_t)i;
    start = i + 1;
  }
  return MORTISE_OK;
}

/* ---- Values --------------------------------------------------------------------------------- */

static const char *value_problem(mt_json value);

static const char *text_problem(mt_json string) {
  char text[12] = "";
  const char *p = string.raw.p + 1, *end = string.raw.p + string.raw.n - 1;
  if (mt_utf8_valid(string.raw) != string.raw.n) return "is no UTF-8";
  while (p < end) {
    bool escaped = *p == '\\';
    size_t n = mt_json_piece(&p, end, text);
    if (escaped && mt_utf8_valid((mt_slice){text, n}) != n) return "has half a character";
  }
  return NULL;
}

static const char *members_problem(mt_json object) {
  const char *why = NULL;
  for (mt_json_iter it = mt_json_items(object); !why && mt_json_next(&it);) {
    mt_json key = {MT_JSON_STRING, {it.key.p - 1, it.key.n + 2}}, other = key;
    why = text_problem(key);
    for (mt_json_iter to = mt_json_items(object); !why && mt_json_next(&to) && to.p < it.p;) {
      other.raw = (mt_slice){to.key.p - 1, to.key.n + 2};
      if (mt_same_value(key, other)) why = "has a member twice";
    }
    if (!why) why = value_problem(it.value);
  }
  return why;
}

/* What C, SQL or a server would refuse, or understand otherwise. At most MT_JSON_DEPTH deep. */
static const char *value_problem(mt_json value) {
  double d;
  const char *why = NULL;
  if (value.type == MT_JSON_OBJECT) return members_problem(value);
  if (value.type == MT_JSON_STRING) return text_problem(value);
  if (value.type == MT_JSON_NUMBER && !mt_is_integer(value) && !mt_json_double(value, &d))
    return "has a number beyond the doubles";
  for (mt_json_iter it = mt_json_items(value); !why && mt_json_next(&it);)
    why = value_problem(it.value);
  return why;
}

static mortise_status check_step_value(parser *p) {
  p->step->value = p->members[VALUE];
  const char *why = value_problem(p->step->value);
  return why ? REFUSE(p, "`value` %s", why) : MORTISE_OK;
}

/* ---- Each kind ------------------------------------------------------------------------------ */

static bool path_is_above(mt_slice above, mt_slice path) {
  if (above.n == 1) return path.n > 1;
  return path.n > above.n && mt_slice_starts(path, above) && path.p[above.n] == '/';
}

static mortise_status read_step_path(parser *p, int which, mt_slice *out) {
  mortise_status status = read_member_text(p, which, out);
  if (status) return status;
  if (!out->n || out->p[0] != '/')
    return REFUSE(p, "`%s` (%.*s) has no \"/\" in front", member_names[which], shown_bytes(out->n),
                  out->p);
  if (memmem(out->p, out->n, "//", 2))
    return REFUSE(p, "`%s` (%.*s) has an empty segment", member_names[which], shown_bytes(out->n),
                  out->p);
  if (out->n > 1 && out->p[out->n - 1] == '/') out->n--;
  return MORTISE_OK;
}

static mortise_status read_paths(parser *p) {
  mt_list_step *s = p->step;
  mortise_status status = read_step_path(p, FROM, &s->from);
  if (!status) status = read_step_path(p, TO, &s->to);
  if (status) return status;
  if (mt_slice_eq(s->from, s->to))
    return REFUSE(p, "`from` and `to` are the same path: %.*s", shown_bytes(s->from.n), s->from.p);
  if (path_is_above(s->from, s->to))
    return REFUSE(p, "`to` (%.*s) lies inside `from` (%.*s): what was replaced would match again",
                  shown_bytes(s->to.n), s->to.p, shown_bytes(s->from.n), s->from.p);
  size_t above = s->to.n == 1 ? 0 : s->to.n;
  if (path_is_above(s->to, s->from)) s->below = (mt_slice){s->from.p + above, s->from.n - above};
  if (s->to.n > 1) s->to_raw = raw_text(p, s->to);
  return s->to_raw.n || s->to.n == 1 ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
}

static bool name_begins(const mt_name *inner, const mt_name *outer) {
  return inner->n > outer->n && mt_slice_eq(mt_name_parts(inner, 0, outer->n - 1u), outer->text);
}

static mortise_status read_two_names(parser *p) {
  mt_list_step *s = p->step;
  mortise_status status = read_name(p, FROM, &s->field);
  if (!status) status = read_name(p, TO, &s->target);
  if (status) return status;
  if (mt_slice_eq(s->field.text, s->target.text))
    return REFUSE(p, "`from` and `to` are the same field: %.*s", shown_bytes(s->field.text.n),
                  s->field.text.p);
  if (name_begins(&s->field, &s->target) || name_begins(&s->target, &s->field))
    return REFUSE(p, "one of `from` (%.*s) and `to` (%.*s) lies inside the other",
                  shown_bytes(s->field.text.n), s->field.text.p, shown_bytes(s->target.text.n),
                  s->target.text.p);
  return MORTISE_OK;
}

static mortise_status read_type(parser *p) {
  static const char *const types[] = {[MT_CAST_INTEGER] = "integer",
                                      [MT_CAST_FLOAT] = "float",
                                      [MT_CAST_STRING] = "string",
                                      [MT_CAST_BOOLEAN] = "boolean"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (mt_json_is(p->members[TO], types[i])) {
      p->step->cast = (mt_cast)i;
      return MORTISE_OK;
    }
  return REFUSE(p, "`to` is none of integer, float, string, boolean");
}

static mortise_status read_separator(parser *p) {
  mt_list_step *s = p->step;
  mortise_status status = read_member_text(p, BY, &s->by);
  if (status) return status;
  if (!s->by.n) return REFUSE(p, "`by` is empty");
  s->by_raw = raw_text(p, s->by);
  return s->by_raw.n ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
}

static mortise_status read_parts(parser *p) {
  const bool *has = wants[p->step->kind];
  mortise_status status = has[FIELD] ? read_name(p, FIELD, &p->step->field) : read_two_names(p);
  if (status) return status;
  if (has[VALUE]) return check_step_value(p);
  if (has[BY]) return read_separator(p);
  if (p->step->kind == MT_STEP_CAST) return read_type(p);
  return has[FIELD] && has[FROM] ? read_paths(p) : MORTISE_OK;
}

/* ---- The list ------------------------------------------------------------------------------- */

static mortise_status take_members(parser *p, mt_json object) {
  const bool *has = wants[p->step->kind];
  if (object.type != MT_JSON_OBJECT) return REFUSE(p, "its arguments are no object");
  memset(p->members, 0, sizeof p->members);
  for (mt_json_iter it = mt_json_items(object); mt_json_next(&it);) {
    int which = 0;
    while (which < MEMBERS && !mt_json_key_is(it.key, mt_slice_of(member_names[which]))) which++;
    if (which == MEMBERS || !has[which])
      return REFUSE(p, "`%.*s` is not known", shown_bytes(it.key.n), it.key.p);
    if (p->members[which].type) return REFUSE(p, "`%s` is given twice", member_names[which]);
    p->members[which] = it.value;
  }
  for (int i = 0; i < MEMBERS; i++)
    if (has[i] && !p->members[i].type) return REFUSE(p, "`%s` is missing", member_names[i]);
  return MORTISE_OK;
}

static mortise_status read_one(parser *p, mt_json item, size_t number) {
  mt_json_iter it = mt_json_items(item);
  if (!mt_json_next(&it) || !it.object || mt_json_count(item) != 1)
    return REFUSE(p, "transform %zu is no object with one member", number);
  int kind = 0;
  while (kind < MT_STEP_KINDS && !mt_json_key_is(it.key, mt_slice_of(mt_step_names[kind]))) kind++;
  if (kind == MT_STEP_KINDS)
    return REFUSE(p, "transform %zu: there is no `%.*s`", number, shown_bytes(it.key.n), it.key.p);
  p->step->kind = (mt_step_kind)kind;
  mortise_status status = take_members(p, it.value);
  if (!status) status = read_parts(p);
  if (status == MORTISE_INVALID_ARGUMENT && !p->t->only)
    mt_error_prefix(p->err, "transform %zu (%s)", number, mt_step_names[kind]);
  return status;
}

static mortise_status read_steps(parser *p, mt_json root) {
  size_t number = 0;
  for (mt_json_iter it = mt_json_items(root); mt_json_next(&it);) {
    p->step = &p->t->steps[number];
    mortise_status status = read_one(p, it.value, ++number);
    if (status) return status;
  }
  return MORTISE_OK;
}

static mortise_status check_transforms(mt_slice json, mt_json *root, size_t *n,
                                       mortise_error *err) {
  if (json.n > MT_TRANSFORMS_TEXT_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "the list of transforms has %zu bytes, more than %d", json.n,
                        MT_TRANSFORMS_TEXT_MAX);
  mortise_status status = mt_json_parse(json, "the list of transforms", root, err);
  if (status) return status;
  if (root->type != MT_JSON_ARRAY)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the list of transforms is no array");
  *n = mt_json_count(*root);
  if (!*n) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the list of transforms is empty");
  if (*n > MT_TRANSFORMS_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%zu transforms, more than %d", *n,
                        MT_TRANSFORMS_MAX);
  return MORTISE_OK;
}

mortise_status mt_transforms_compile(mt_transforms *t, mt_slice json, bool only,
                                     mortise_error *err) {
  mt_json root;
  mortise_error local;
  *t = (mt_transforms){.only = only};
  if (!err) err = &local;
  mt_error_clear(err);
  mortise_status status = check_transforms(json, &root, &t->n, err);
  if (status) return status;
  /* Room for the list, for each text decoded, and for each text once more as raw_text spells it. */
  size_t n = root.raw.n;
  t->text = mt_alloc(3 * n);
  t->steps = mt_calloc(t->n, sizeof *t->steps);
  if (t->text && t->steps) {
    memcpy(t->text, root.raw.p, n);
    t->json = root.raw = (mt_slice){t->text, n};
    status = read_steps(&(parser){.t = t, .at = t->text + n, .err = err}, root);
  } else {
    status = mt_error_memory(err);
  }
  if (status) mt_transforms_deinit(t);
  return status;
}

mortise_status mt_transforms_parse(mt_transforms *t, mt_slice json, mortise_error *err) {
  return mt_transforms_compile(t, json, false, err);
}

void mt_transforms_deinit(mt_transforms *t) {
  mt_free(t->steps);
  mt_free(t->text);
  *t = (mt_transforms){0};
}
