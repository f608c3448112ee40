#include "job/transform.h"

#include "lock/path.h"

/* ---- Strings with escapes ------------------------------------------------------------------- */

static unsigned hex4(const char *p) {
  unsigned value = 0;
  for (int i = 0; i < 4; i++) {
    unsigned c = (unsigned char)p[i];
    value = value << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return value;
}

static size_t utf8(unsigned c, char out[4]) {
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(n == 1 ? c : lead[n] | c);
  return n;
}

/* One character after a backslash; `*p` stands on what follows it. */
static size_t unescape(const char **p, const char *end, char out[4]) {
  static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
  char c = *(*p)++;
  if (c != 'u') {
    const char *simple = strchr(from, c);
    out[0] = simple ? to[simple - from] : c;
    return 1;
  }
  unsigned code = hex4(*p);
  *p += 4;
  bool pair = code >> 10 == 0x36 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u';
  unsigned low = pair ? hex4(*p + 2) : 0;
  if (low >> 10 == 0x37) {
    *p += 6;
    code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
  }
  return utf8(code, out);
}

/* Where in the raw inside of a string [p, end) the rest begins after the path `prefix`; NULL where
 * it does not begin so, or the prefix ends inside a segment. */
static const char *after_prefix(const char *p, const char *end, mt_slice prefix) {
  char decoded[4];
  for (size_t done = 0; done < prefix.n;) {
    if (p == end) return NULL;
    size_t n = 1;
    if (*p != '\\') {
      decoded[0] = *p++;
    } else {
      p++;
      n = unescape(&p, end, decoded);
    }
    if (n > prefix.n - done || memcmp(decoded, prefix.p + done, n) != 0) return NULL;
    done += n;
  }
  if (p == end || *p == '/') return p;
  if (*p != '\\') return NULL;
  const char *next = p + 1;
  return unescape(&next, end, decoded) == 1 && decoded[0] == '/' ? p : NULL;
}

/* ---- Replacing ------------------------------------------------------------------------------ */

typedef struct patch {
  const mt_replace_prefix *rule;
  const char *copied; /* the source up to here is in `out` */
  mt_buf *out;
  bool changed, back;
} patch;

static void patch_string(patch *p, mt_slice raw) {
  const mt_replace_prefix *rule = p->rule;
  const char *start = raw.p + 1, *end = raw.p + raw.n - 1;
  const char *rest = after_prefix(start, end, rule->from);
  if (!rest) return;
  if (rule->below.p && after_prefix(rest, end, rule->below)) p->back = true;
  mt_buf_add(p->out, p->copied, (size_t)(start - p->copied));
  mt_buf_addslice(p->out, rule->to_json);
  if (!rule->to_json.n && rest == end) mt_buf_addc(p->out, '/');
  p->copied = rest;
  p->changed = true;
}

static void walk(patch *p, mt_json value, mt_slice name);

/* A member counts when its key is the name, or begins it up to one of its dots. */
static void walk_member(patch *p, mt_slice key, mt_json value, mt_slice name) {
  if (mt_json_key_is(key, name)) {
    walk(p, value, (mt_slice){name.p + name.n, 0});
    return;
  }
  const char *end = name.p + name.n;
  for (const char *dot = name.p; (dot = memchr(dot, '.', (size_t)(end - dot))); dot++)
    if (mt_json_key_is(key, (mt_slice){name.p, (size_t)(dot - name.p)}))
      walk(p, value, (mt_slice){dot + 1, (size_t)(end - dot - 1)});
}

/* As deep as the text: at most MT_JSON_DEPTH. */
static void walk(patch *p, mt_json value, mt_slice name) {
  if (value.type == MT_JSON_STRING) {
    if (!name.n) patch_string(p, value.raw);
    return;
  }
  if (value.type == MT_JSON_OBJECT && !name.n) return;
  mt_json_iter it = mt_json_items(value);
  while (mt_json_next(&it)) {
    if (it.object)
      walk_member(p, it.key, it.value, name);
    else
      walk(p, it.value, name);
  }
}

static mt_transformed replace_prefix(void *ctx, const mt_doc *doc, mt_buf *out,
                                     mortise_error *err) {
  const mt_replace_prefix *rule = ctx;
  mt_slice source = doc->source;
  if (!source.n || source.p[0] != '{') {
    mt_error_set(err, MORTISE_REJECTED, "the document has no source");
    return MT_ASIDE;
  }
  size_t before = out->n;
  patch p = {.rule = rule, .copied = source.p, .out = out};
  walk(&p, (mt_json){MT_JSON_OBJECT, source}, rule->field);
  if (!p.changed) return MT_UNCHANGED;
  if (p.back) {
    mt_buf_cut(out, before);
    mt_error_set(err, MORTISE_REJECTED, "its new path would lie under %.*s again",
                 (int)rule->from.n, rule->from.p);
    return MT_ASIDE;
  }
  mt_buf_add(out, p.copied, (size_t)(source.p + source.n - p.copied));
  return MT_CHANGED;
}

typedef mortise_status check_fn(mt_slice path, mt_slice *out, mortise_error *err);

static mt_slice checked(check_fn *check, mt_slice path, const char *what, mortise_error *err) {
  mt_slice out = {NULL, 0};
  if (check(path, &out, err)) {
    mt_error_prefix(err, "%s", what);
    out.p = NULL;
  }
  return out;
}

static mortise_status check_pair(mt_slice from, mt_slice to, mortise_error *err) {
  if (mt_slice_eq(from, to))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "`from` and `to` are the same path: %.*s",
                        (int)from.n, from.p);
  if (mt_path_is_ancestor(from, to))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "`to` (%.*s) lies inside `from` (%.*s): what was renamed would match again",
                        (int)to.n, to.p, (int)from.n, from.p);
  return MORTISE_OK;
}

/* Copies into r->text in one go, so that the slices stay. */
static mortise_status keep(mt_replace_prefix *r, mt_slice field, mt_slice from, mt_slice to,
                           mortise_error *err) {
  enum { TEXT_MAX = 64 << 10 };
  bool root = to.n == 1;
  mt_buf *b = &r->text;
  mt_buf_init(b, TEXT_MAX);
  mt_buf_addslice(b, field);
  mt_buf_addslice(b, from);
  mt_buf_addslice(b, to);
  mt_json_add_string(b, to);
  mortise_status status = mt_buf_status(b, "the rename", err);
  if (status) {
    mt_buf_deinit(b);
    return status;
  }
  size_t quoted = field.n + from.n + to.n;
  r->field = (mt_slice){b->p, field.n};
  r->from = (mt_slice){b->p + field.n, from.n};
  r->to = (mt_slice){b->p + field.n + from.n, to.n};
  r->to_json = root ? MT_SLICE("") : (mt_slice){b->p + quoted + 1, b->n - quoted - 2};
  size_t above = root ? 0 : to.n;
  r->below = mt_path_is_ancestor(to, from) ? (mt_slice){r->from.p + above, from.n - above}
                                           : (mt_slice){NULL, 0};
  return MORTISE_OK;
}

mortise_status mt_replace_prefix_init(mt_replace_prefix *r, mt_slice field, mt_slice from,
                                      mt_slice to, mortise_error *err) {
  mt_error_clear(err);
  if (!field.n) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "no field is named");
  mortise_error local;
  if (!err) err = &local;
  from = checked(mt_path_check_form, from, "from", err);
  if (!from.p) return err->code;
  to = checked(mt_path_check, to, "to", err);
  if (!to.p) return err->code;
  mortise_status status = check_pair(from, to, err);
  return status ? status : keep(r, field, from, to, err);
}

void mt_replace_prefix_deinit(mt_replace_prefix *r) {
  mt_buf_deinit(&r->text);
}

mt_transform mt_replace_prefix_transform(const mt_replace_prefix *r) {
  return (mt_transform){.apply = replace_prefix, .ctx = (void *)(uintptr_t)r, .decides = true};
}

static void add_clause(mt_buf *out, const char *kind, mt_slice field, mt_slice value,
                       const char *end) {
  mt_buf_addf(out, "{\"%s\":{", kind);
  mt_json_add_string(out, field);
  mt_buf_addc(out, ':');
  mt_json_add_string(out, value);
  if (out->n) mt_buf_cut(out, out->n - 1);
  mt_buf_adds(out, end);
}

/* Elasticsearch names such fields in _ignored; OpenSearch only leaves them out of the index. */
static void add_hidden(mt_buf *out, mt_slice field, mt_slice hidden) {
  mt_buf_addc(out, ',');
  add_clause(out, "term", MT_SLICE("_ignored"), field, "\"}}");
  mt_buf_adds(out, ",{\"bool\":{\"must_not\":[{\"exists\":{\"field\":");
  mt_json_add_string(out, field);
  mt_buf_adds(out, "}}]");
  if (!mt_slice_eq(field, hidden)) {
    mt_buf_adds(out, ",\"filter\":[{\"exists\":{\"field\":");
    mt_json_add_string(out, hidden);
    mt_buf_adds(out, "}}]");
  }
  mt_buf_adds(out, "}}");
}

/* `path` or below it; everything is below "/". */
static void add_tree(mt_buf *out, mt_slice field, mt_slice path) {
  add_clause(out, "term", field, path, "\"}}");
  mt_buf_addc(out, ',');
  add_clause(out, "prefix", field, path, path.n == 1 ? "\"}}" : "/\"}}");
}

void mt_tree_query(mt_buf *out, mt_slice field, mt_slice path, mt_slice except) {
  mt_buf_adds(out, "{\"bool\":{\"filter\":[{\"bool\":{\"should\":[");
  add_tree(out, field, path);
  mt_buf_adds(out, "],\"minimum_should_match\":1}}]");
  if (except.n) {
    mt_buf_adds(out, ",\"must_not\":[");
    add_tree(out, field, except);
    mt_buf_addc(out, ']');
  }
  mt_buf_adds(out, "}}");
}

void mt_rename_query(mt_buf *out, mt_slice field, mt_slice from, mt_slice hidden, mt_slice also) {
  mt_buf_adds(out, "{\"bool\":{\"filter\":[{\"bool\":{\"should\":[");
  add_tree(out, field, from);
  if (hidden.p) add_hidden(out, field, hidden);
  mt_buf_adds(out, "],\"minimum_should_match\":1}}");
  if (also.n) {
    mt_buf_addc(out, ',');
    mt_buf_addslice(out, also);
  }
  mt_buf_adds(out, "]}}");
}
