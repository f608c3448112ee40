#include "transform/parts.h"

/* ---- Applying ------------------------------------------------------------------------------- */

static mt_transformed set_step_aside(const mt_transforms *t, size_t i, const mt_name *whose,
                                     const char *why, mortise_error *err) {
  mt_slice name = whose->text;
  mt_error_set(err, MORTISE_REJECTED, "%.*s %s", (int)(name.n < 200 ? name.n : 200), name.p, why);
  if (!t->only) mt_error_prefix(err, "transform %zu (%s)", i + 1, mt_step_names[t->steps[i].kind]);
  return MT_ASIDE;
}

/* Appends the result of one step. */
static mt_transformed apply_step(const mt_transforms *t, size_t i, mt_slice source, mt_buf *out,
                                 mortise_error *err) {
  static mt_step_fn *const doers[MT_STEP_KINDS] = {
      [MT_STEP_REPLACE_PREFIX] = mt_do_replace_prefix,
      [MT_STEP_SET] = mt_do_set,
      [MT_STEP_REMOVE] = mt_do_remove,
      [MT_STEP_RENAME_FIELD] = mt_do_rename_field,
      [MT_STEP_COPY_FIELD] = mt_do_copy_field,
      [MT_STEP_DEFAULT] = mt_do_default,
      [MT_STEP_CAST] = mt_do_cast,
      [MT_STEP_SPLIT] = mt_do_split,
      [MT_STEP_JOIN] = mt_do_join,
  };
  const mt_list_step *s = &t->steps[i];
  size_t before = out->n;
  mt_work_on w = {.step = s,
                  .root = {MT_JSON_OBJECT, source},
                  .patch = {.out = out, .copied = source.p},
                  .whose = &s->field};
  const char *why = doers[s->kind](&w);
  if (why) {
    mt_buf_cut(out, before);
    return set_step_aside(t, i, w.whose, why, err);
  }
  if (!w.patch.changed && !out->failed) return MT_UNCHANGED;
  mt_buf_add(out, w.patch.copied, (size_t)(source.p + source.n - w.patch.copied));
  return MT_CHANGED;
}

/* The results go to one buffer and the other in turn, the last one to `out`. */
static mt_transformed apply_steps(const mt_transforms *t, mt_slice source, mt_buf between[2],
                                  mt_buf *out, mortise_error *err) {
  mt_transformed so_far = MT_UNCHANGED;
  for (size_t i = 0, turn = 0; i < t->n; i++) {
    mt_buf *to = &between[turn];
    mt_buf_clear(to);
    mt_transformed how = apply_step(t, i, source, to, err);
    if (how == MT_UNCHANGED) continue;
    if (to->failed) mt_buf_fail(out, to->failed);
    if (how != MT_CHANGED || to->failed) return how;
    so_far = MT_CHANGED;
    source = mt_buf_slice(to);
    turn = !turn;
  }
  if (so_far == MT_CHANGED) mt_buf_addslice(out, source);
  return so_far;
}

mt_transformed mt_transforms_apply(const mt_transforms *t, mt_slice source, mt_buf *out,
                                   mortise_error *err) {
  if (!source.n || source.p[0] != '{') {
    mt_error_set(err, MORTISE_REJECTED, "the document has no source");
    return MT_ASIDE;
  }
  if (t->n == 1) return apply_step(t, 0, source, out, err);
  mt_buf between[2];
  for (size_t i = 0; i < 2; i++) mt_buf_init(&between[i], out->max);
  mt_transformed how = apply_steps(t, source, between, out, err);
  for (size_t i = 0; i < 2; i++) mt_buf_deinit(&between[i]);
  return how;
}

/* ---- Lists that are made here --------------------------------------------------------------- */

static void open_step(mt_buf *b, mt_step_kind kind) {
  mt_buf_addf(b, "%s{\"%s\":{", b->n > 1 ? "," : "", mt_step_names[kind]);
}

static mortise_status compile_made(mt_transforms *t, mt_buf *b, bool only, mortise_error *err) {
  mt_buf_adds(b, "]");
  mortise_status status = mt_buf_status(b, "the list of transforms", err);
  if (!status) status = mt_transforms_compile(t, mt_buf_slice(b), only, err);
  mt_buf_deinit(b);
  return status;
}

static void add_prefix(mt_buf *b, mt_slice field, mt_slice from, mt_slice to) {
  open_step(b, MT_STEP_REPLACE_PREFIX);
  mt_json_add_text(b, "field", field);
  mt_json_add_text(b, "from", from);
  mt_json_add_text(b, "to", to);
  mt_buf_adds(b, "}}");
}

mortise_status mt_transforms_prefixes(mt_transforms *t, const mt_slice *fields, size_t n,
                                      mt_slice from, mt_slice to, mortise_error *err) {
  mt_buf b;
  *t = (mt_transforms){0};
  mt_buf_init(&b, MT_TRANSFORMS_TEXT_MAX);
  mt_buf_adds(&b, "[");
  for (size_t i = 0; i < n; i++) add_prefix(&b, fields[i], from, to);
  return compile_made(t, &b, n == 1, err);
}

mortise_status mt_transforms_prefix(mt_transforms *t, mt_slice field, mt_slice from, mt_slice to,
                                    mortise_error *err) {
  return mt_transforms_prefixes(t, &field, 1, from, to, err);
}

bool mt_transforms_is_prefix(const mt_transforms *t, size_t i, mt_prefix *out) {
  const mt_list_step *s = &t->steps[i];
  *out = (mt_prefix){s->field.text, s->from, s->to};
  return s->kind == MT_STEP_REPLACE_PREFIX;
}

/* ---- Undoing ---------------------------------------------------------------------------- */

static bool same_parent(const mt_name *a, const mt_name *b) {
  return a->n == b->n &&
         (a->n == 1 || mt_slice_eq(mt_name_parts(a, 0, a->n - 2u), mt_name_parts(b, 0, b->n - 2u)));
}

static bool add_inverse(mt_buf *b, const mt_list_step *s) {
  switch (s->kind) {
  case MT_STEP_REPLACE_PREFIX:
    if (s->below.p) return false;
    add_prefix(b, s->field.text, s->to, s->from);
    return true;
  case MT_STEP_RENAME_FIELD:
    if (!same_parent(&s->field, &s->target)) return false;
    open_step(b, MT_STEP_RENAME_FIELD);
    mt_json_add_text(b, "from", s->target.text);
    mt_json_add_text(b, "to", s->field.text);
    break;
  case MT_STEP_SPLIT:
  case MT_STEP_JOIN:
    open_step(b, s->kind == MT_STEP_SPLIT ? MT_STEP_JOIN : MT_STEP_SPLIT);
    mt_json_add_text(b, "field", s->field.text);
    mt_json_add_text(b, "by", s->by);
    break;
  default:
    return false;
  }
  mt_buf_adds(b, "}}");
  return true;
}

mortise_status mt_transforms_inverse(const mt_transforms *t, mt_transforms *out,
                                     mortise_error *err) {
  mt_buf b;
  *out = (mt_transforms){0};
  mt_buf_init(&b, MT_TRANSFORMS_TEXT_MAX);
  mt_buf_adds(&b, "[");
  for (size_t i = t->n; i-- > 0;) {
    if (add_inverse(&b, &t->steps[i])) continue;
    mt_buf_deinit(&b);
    return mt_error_set(err, MORTISE_UNSUPPORTED, "transform %zu (%s) has no inverse", i + 1,
                        mt_step_names[t->steps[i].kind]);
  }
  return compile_made(out, &b, false, err);
}

bool mt_transforms_restores(const mt_transforms *inverse, mt_slice source, mt_slice changed) {
  mt_buf out;
  mt_buf_init(&out, source.n);
  bool same = mt_transforms_apply(inverse, changed, &out, NULL) == MT_CHANGED && !out.failed &&
              mt_slice_eq(mt_buf_slice(&out), source);
  mt_buf_deinit(&out);
  return same;
}
