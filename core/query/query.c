#include "query/query.h"

#include "base/mem.h"

#include <stdlib.h>

enum {
  DEPTH_MAX = 32,      /* of nested bool clauses */
  CLAUSES_MAX = 1024,  /* like the servers' indices.query.bool.max_clause_count */
  VALUES_MAX = 65536,  /* like the servers' index.max_terms_count */
  TEXT_MAX = 64 << 20, /* decoded values */
};

typedef enum kind { ALL, NONE, IDS, TERMS, PREFIX, RANGE, EXISTS, BOOL } kind;
typedef enum role { MUST, SHOULD, MUST_NOT } role;
/* Where a field is found. */
typedef enum place { IN_SOURCE, IN_ID, IN_SEQ_NO, IN_ROUTING } place;

typedef struct bound {
  bool set, inclusive;
  mt_slice text;
} bound;

typedef struct node {
  kind kind;
  role role; /* in its parent bool */
  place place;
  mt_slice field;
  mt_slice *values; /* texts, in byte order; owned */
  size_t n;
  bound low, high;                  /* RANGE */
  struct node *first, *last, *next; /* BOOL: its clauses */
  uint64_t min_should;
  struct node *all_next; /* links all nodes of the query, to free them */
} node;

struct mt_query {
  node *root;
  node *all;
  size_t clauses, values;
  mt_buf *text; /* pieces of decoded text that slices point into */
  size_t pieces, pieces_cap;
  char *copy; /* of the query itself */
  mt_buf scratch;
};

/* ---- building ---- */

static mortise_status query_malformed(mortise_error *err, const char *clause, const char *why) {
  mt_error_set(err, MORTISE_REJECTED, "query clause `%s`: %s", clause, why);
  if (err) {
    err->http_status = 400;
    memcpy(err->type, "parsing_exception", sizeof "parsing_exception");
  }
  return MORTISE_REJECTED;
}

static mortise_status unsupported(mortise_error *err, mt_slice name) {
  return mt_error_set(err, MORTISE_UNSUPPORTED,
                      "query clause `%.*s` is not supported by the embedded store",
                      (int)(name.n < 100 ? name.n : 100), name.p);
}

static node *node_new(mt_query *q, kind k, mortise_error *err) {
  node *n = q->clauses < CLAUSES_MAX ? mt_calloc(1, sizeof *n) : NULL;
  if (!n) {
    if (q->clauses < CLAUSES_MAX)
      mt_error_memory(err);
    else
      query_malformed(err, "bool", "more than 1024 clauses");
    return NULL;
  }
  q->clauses++;
  n->kind = k;
  n->all_next = q->all;
  q->all = n;
  return n;
}

/* Keeps decoded text for the query's life. */
static mortise_status keep_piece(mt_query *q, mt_buf *piece, mt_slice *out, mortise_error *err) {
  mortise_status status = mt_buf_status(piece, "the query", err);
  if (!status &&
      !mt_grow((void **)&q->text, &q->pieces_cap, q->pieces + 1, sizeof *q->text, VALUES_MAX * 4))
    status = mt_error_memory(err);
  if (status) {
    mt_buf_deinit(piece);
    return status;
  }
  *out = mt_buf_slice(piece); /* its bytes do not move with the array */
  q->text[q->pieces++] = *piece;
  return MORTISE_OK;
}

static mortise_status scalar_of(mt_query *q, mt_json value, const char *clause, mt_slice *out,
                                mortise_error *err) {
  mt_buf piece;
  mt_buf_init(&piece, TEXT_MAX);
  if (!mt_scalar_text(value, &piece, out)) {
    mortise_status status = mt_buf_status(&piece, "the query", err);
    mt_buf_deinit(&piece);
    return status ? status
                  : query_malformed(err, clause, "a value is no string, number or boolean");
  }
  if (piece.n) return keep_piece(q, &piece, out, err);
  mt_buf_deinit(&piece);
  return MORTISE_OK;
}

static mortise_status key_of(mt_query *q, mt_slice raw, mt_slice *out, mortise_error *err) {
  if (!memchr(raw.p, '\\', raw.n)) {
    *out = raw;
    return MORTISE_OK;
  }
  mt_buf piece;
  mt_buf_init(&piece, TEXT_MAX);
  mt_json_text((mt_json){MT_JSON_STRING, {raw.p - 1, raw.n + 2}}, &piece);
  return keep_piece(q, &piece, out, err);
}

static mortise_status field_of(mt_query *q, node *n, mt_slice raw, mortise_error *err) {
  mortise_status status = key_of(q, raw, &n->field, err);
  if (status) return status;
  if (mt_slice_eq(n->field, MT_SLICE("_id"))) n->place = IN_ID;
  if (mt_slice_eq(n->field, MT_SLICE("_seq_no"))) n->place = IN_SEQ_NO;
  if (mt_slice_eq(n->field, MT_SLICE("_routing"))) n->place = IN_ROUTING;
  return MORTISE_OK;
}

static mortise_status add_wanted_value(mt_query *q, node *n, mt_json value, const char *clause,
                                       mortise_error *err) {
  if (++q->values > VALUES_MAX) return query_malformed(err, clause, "more than 65536 values");
  if ((n->n & (n->n - 1)) == 0) { /* 0 or a power of two: full */
    mt_slice *grown = mt_realloc(n->values, (n->n ? n->n * 2 : 1) * sizeof *grown);
    if (!grown) return mt_error_memory(err);
    n->values = grown;
  }
  mortise_status status = scalar_of(q, value, clause, &n->values[n->n], err);
  if (!status) n->n++;
  return status;
}

static int order_values(const void *a, const void *b) {
  return mt_slice_cmp(*(const mt_slice *)a, *(const mt_slice *)b);
}

static mortise_status add_values(mt_query *q, node *n, mt_json list, const char *clause,
                                 mortise_error *err) {
  if (list.type != MT_JSON_ARRAY) return query_malformed(err, clause, "needs a list of values");
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    mortise_status status = add_wanted_value(q, n, it.value, clause, err);
    if (status) return status;
  }
  if (n->n) qsort(n->values, n->n, sizeof *n->values, order_values);
  return MORTISE_OK;
}

/* Finds the one member of `{"FIELD": ...}`, ignoring "boost" and "_name", which do not change the
 * result. */
static mortise_status only_member(mt_json body, const char *clause, mt_json_iter *out,
                                  mortise_error *err) {
  size_t n = 0;
  for (mt_json_iter it = mt_json_items(body); mt_json_next(&it);) {
    if (mt_slice_eq(it.key, MT_SLICE("boost")) || mt_slice_eq(it.key, MT_SLICE("_name"))) continue;
    *out = it;
    n++;
  }
  if (body.type == MT_JSON_OBJECT && n == 1) return MORTISE_OK;
  return query_malformed(err, clause, "needs exactly one field");
}

static mortise_status parse_ids(mt_query *q, node *n, mt_json body, mortise_error *err) {
  mt_json values = {0};
  for (mt_json_iter it = mt_json_items(body); mt_json_next(&it);) {
    if (mt_json_key_is(it.key, MT_SLICE("values")))
      values = it.value;
    else if (!mt_slice_eq(it.key, MT_SLICE("boost")) && !mt_slice_eq(it.key, MT_SLICE("_name")))
      return query_malformed(err, "ids", "knows only `values`");
  }
  n->place = IN_ID;
  return add_values(q, n, values, "ids", err);
}

/* {"FIELD": VALUE} or {"FIELD": {"value": VALUE}} */
static mortise_status parse_one(mt_query *q, node *n, mt_json body, const char *clause,
                                mortise_error *err) {
  mt_json_iter member;
  mortise_status status = only_member(body, clause, &member, err);
  if (!status) status = field_of(q, n, member.key, err);
  if (status) return status;
  mt_json value = member.value;
  if (value.type == MT_JSON_OBJECT) {
    mt_json_iter inner;
    status = only_member(value, clause, &inner, err);
    if (status) return status;
    if (!mt_json_key_is(inner.key, MT_SLICE("value")))
      return query_malformed(err, clause, "knows only `value` inside the field");
    value = inner.value;
  }
  return add_wanted_value(q, n, value, clause, err);
}

static mortise_status parse_terms(mt_query *q, node *n, mt_json body, mortise_error *err) {
  mt_json_iter member;
  mortise_status status = only_member(body, "terms", &member, err);
  if (!status) status = field_of(q, n, member.key, err);
  return status ? status : add_values(q, n, member.value, "terms", err);
}

static mortise_status parse_bound(mt_query *q, node *n, mt_slice key, mt_json value,
                                  mortise_error *err) {
  static const struct {
    const char *name;
    bool low, inclusive;
  } names[] = {
      {"gte", true, true}, {"gt", true, false}, {"lte", false, true}, {"lt", false, false}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!mt_json_key_is(key, mt_slice_of(names[i].name))) continue;
    if (value.type == MT_JSON_NULL) return MORTISE_OK;
    bound *b = names[i].low ? &n->low : &n->high;
    b->set = true;
    b->inclusive = names[i].inclusive;
    return scalar_of(q, value, "range", &b->text, err);
  }
  if (mt_slice_eq(key, MT_SLICE("boost"))) return MORTISE_OK;
  return query_malformed(err, "range", "knows only gte, gt, lte and lt");
}

static mortise_status parse_range(mt_query *q, node *n, mt_json body, mortise_error *err) {
  mt_json_iter member;
  mortise_status status = only_member(body, "range", &member, err);
  if (!status) status = field_of(q, n, member.key, err);
  if (!status && member.value.type != MT_JSON_OBJECT)
    status = query_malformed(err, "range", "needs an object of bounds");
  if (status) return status;
  for (mt_json_iter it = mt_json_items(member.value); !status && mt_json_next(&it);)
    status = parse_bound(q, n, it.key, it.value, err);
  return status;
}

static mortise_status parse_exists(mt_query *q, node *n, mt_json body, mortise_error *err) {
  mt_json_iter member;
  mortise_status status = only_member(body, "exists", &member, err);
  if (status) return status;
  if (!mt_json_key_is(member.key, MT_SLICE("field")) || member.value.type != MT_JSON_STRING)
    return query_malformed(err, "exists", "needs `field`");
  mt_slice raw = {member.value.raw.p + 1, member.value.raw.n - 2};
  return field_of(q, n, raw, err);
}

static mortise_status parse(mt_query *q, mt_json query, unsigned depth, node **out,
                            mortise_error *err);

static mortise_status parse_clause(mt_query *q, node *n, mt_json clause, role r, unsigned depth,
                                   mortise_error *err) {
  node *child = NULL;
  mortise_status status = parse(q, clause, depth + 1, &child, err);
  if (status) return status;
  child->role = r;
  if (n->last)
    n->last->next = child;
  else
    n->first = child;
  n->last = child;
  return MORTISE_OK;
}

static mortise_status add_clauses(mt_query *q, node *n, mt_json value, role r, unsigned depth,
                                  mortise_error *err) {
  if (value.type == MT_JSON_OBJECT) return parse_clause(q, n, value, r, depth, err);
  if (value.type != MT_JSON_ARRAY)
    return query_malformed(err, "bool", "needs a clause or a list of them");
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it);) {
    mortise_status status = parse_clause(q, n, it.value, r, depth, err);
    if (status) return status;
  }
  return MORTISE_OK;
}

static bool min_should(mt_json value, uint64_t *out) {
  char digits[24];
  if (mt_json_uint(value, out)) return true;
  mt_json_copy(value, digits, sizeof digits);
  return digits[0] && mt_json_uint((mt_json){MT_JSON_NUMBER, mt_slice_of(digits)}, out);
}

static mortise_status parse_bool(mt_query *q, node *n, mt_json body, unsigned depth,
                                 mortise_error *err) {
  bool said = false, musts = false, shoulds = false;
  mortise_status status = MORTISE_OK;
  for (mt_json_iter it = mt_json_items(body); !status && mt_json_next(&it);) {
    if (mt_json_key_is(it.key, MT_SLICE("must")) || mt_json_key_is(it.key, MT_SLICE("filter")))
      status = add_clauses(q, n, it.value, MUST, depth, err);
    else if (mt_json_key_is(it.key, MT_SLICE("should")))
      status = add_clauses(q, n, it.value, SHOULD, depth, err);
    else if (mt_json_key_is(it.key, MT_SLICE("must_not")))
      status = add_clauses(q, n, it.value, MUST_NOT, depth, err);
    else if (mt_json_key_is(it.key, MT_SLICE("minimum_should_match"))) {
      said = true;
      if (!min_should(it.value, &n->min_should))
        status = query_malformed(err, "bool", "minimum_should_match is no number of clauses");
    } else if (!mt_slice_eq(it.key, MT_SLICE("boost")) && !mt_slice_eq(it.key, MT_SLICE("_name")))
      status = query_malformed(err, "bool",
                               "knows must, filter, should, must_not, minimum_should_match");
  }
  for (node *c = n->first; c; c = c->next) {
    musts |= c->role == MUST;
    shoulds |= c->role == SHOULD;
  }
  if (!said) n->min_should = shoulds && !musts ? 1 : 0;
  return status;
}

static mortise_status parse_body(mt_query *q, node *n, mt_json body, unsigned depth,
                                 mortise_error *err) {
  switch (n->kind) {
  case IDS:
    return parse_ids(q, n, body, err);
  case TERMS:
    return parse_one(q, n, body, "term", err);
  case PREFIX:
    return parse_one(q, n, body, "prefix", err);
  case RANGE:
    return parse_range(q, n, body, err);
  case EXISTS:
    return parse_exists(q, n, body, err);
  case BOOL:
    return parse_bool(q, n, body, depth, err);
  default:
    return MORTISE_OK;
  }
}

static const struct {
  const char *name;
  kind kind;
} clauses[] = {
    {"match_all", ALL}, {"match_none", NONE}, {"ids", IDS},       {"term", TERMS}, {"terms", TERMS},
    {"prefix", PREFIX}, {"range", RANGE},     {"exists", EXISTS}, {"bool", BOOL},
};

static mortise_status parse(mt_query *q, mt_json query, unsigned depth, node **out,
                            mortise_error *err) {
  mt_json_iter it = mt_json_items(query), more;
  if (query.type != MT_JSON_OBJECT || !mt_json_next(&it))
    return query_malformed(err, "query", "needs an object with one clause");
  more = it;
  if (mt_json_next(&more)) return query_malformed(err, "query", "needs exactly one clause");
  if (depth > DEPTH_MAX) return query_malformed(err, "bool", "nested too deep");
  for (size_t i = 0; i < sizeof clauses / sizeof *clauses; i++) {
    if (!mt_json_key_is(it.key, mt_slice_of(clauses[i].name))) continue;
    if (it.value.type != MT_JSON_OBJECT)
      return query_malformed(err, clauses[i].name, "needs an object");
    node *n = *out = node_new(q, clauses[i].kind, err);
    if (!n) return err && err->code ? err->code : MORTISE_OUT_OF_MEMORY;
    if (strcmp(clauses[i].name, "terms") == 0) return parse_terms(q, n, it.value, err);
    return parse_body(q, n, it.value, depth, err);
  }
  return unsupported(err, it.key);
}

static mortise_status build_query(mt_query *q, mt_slice text, mortise_error *err) {
  mt_buf_init(&q->scratch, TEXT_MAX);
  if (!text.n) {
    q->root = node_new(q, ALL, err);
    return q->root ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
  }
  q->copy = mt_strndup(text.p, text.n);
  if (!q->copy) return mt_error_memory(err);
  mt_json root;
  mortise_status status = mt_json_parse((mt_slice){q->copy, text.n}, "the query", &root, err);
  return status ? status : parse(q, root, 0, &q->root, err);
}

mortise_status mt_query_new(mt_slice text, mt_query **out, mortise_error *err) {
  mt_query *q = *out = mt_calloc(1, sizeof *q);
  if (!q) return mt_error_memory(err);
  mortise_error local;
  mt_error_clear(&local);
  mortise_status status = build_query(q, text, &local);
  if (!status) return MORTISE_OK;
  if (err) *err = local;
  mt_query_free(q);
  *out = NULL;
  return status;
}

void mt_query_free(mt_query *q) {
  if (!q) return;
  for (node *n = q->all, *next; n; n = next) {
    next = n->all_next;
    mt_free(n->values);
    mt_free(n);
  }
  for (size_t i = 0; i < q->pieces; i++) mt_buf_deinit(&q->text[i]);
  mt_free(q->text);
  mt_free(q->copy);
  mt_buf_deinit(&q->scratch);
  mt_free(q);
}

/* ---- matching ---- */

typedef struct probe {
  const node *n;
  mt_buf *scratch;
} probe;

static bool in_values(const node *n, mt_slice text) {
  if (n->n == 1) return mt_slice_eq(n->values[0], text);
  return n->n && bsearch(&text, n->values, n->n, sizeof *n->values, order_values);
}

static bool is_in_range(const node *n, mt_slice text) {
  if (n->low.set) {
    int order = mt_scalar_cmp(text, n->low.text);
    if (order < 0 || (order == 0 && !n->low.inclusive)) return false;
  }
  if (n->high.set) {
    int order = mt_scalar_cmp(text, n->high.text);
    if (order > 0 || (order == 0 && !n->high.inclusive)) return false;
  }
  return true;
}

static bool text_matches(const node *n, mt_slice text) {
  switch (n->kind) {
  case IDS:
  case TERMS:
    return in_values(n, text);
  case PREFIX:
    return mt_slice_starts(text, n->values[0]);
  case RANGE:
    return is_in_range(n, text);
  default:
    return true; /* EXISTS */
  }
}

static bool value_matches(void *ctx, mt_json value) {
  probe *p = ctx;
  mt_slice text;
  return mt_scalar_text(value, p->scratch, &text) && text_matches(p->n, text);
}

static bool seq_no_matches(const node *n, uint64_t seq_no) {
  char digits[24];
  mt_buf text = {.p = digits, .cap = sizeof digits, .max = sizeof digits - 1};
  mt_buf_addu(&text, seq_no);
  return text_matches(n, mt_buf_slice(&text));
}

static bool leaf_matches(mt_query *q, const node *n, const mt_row *row) {
  switch (n->place) {
  case IN_ID:
    return text_matches(n, row->id);
  case IN_SEQ_NO:
    return seq_no_matches(n, row->seq_no);
  case IN_ROUTING:
    return row->routing.n && text_matches(n, row->routing);
  default:
    return mt_field_each(row->source, n->field, value_matches, &(probe){n, &q->scratch});
  }
}

static bool any_leaf(void *ctx, mt_json value) {
  (void)ctx;
  (void)value;
  return true;
}

/* An object exists if anything in it does. */
static bool has_leaf(mt_json value) {
  if (value.type != MT_JSON_OBJECT && value.type != MT_JSON_ARRAY)
    return value.type != MT_JSON_NULL;
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it);)
    if (has_leaf(it.value)) return true;
  return false;
}

/* A member "a.b" is also inside the object `a`. */
static bool is_inside(mt_slice key, mt_slice name) {
  return key.n > name.n && key.p[name.n] == '.' && mt_slice_starts(key, name);
}

static bool object_exists(mt_json value, mt_slice name) {
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it);) {
    if (it.object && is_inside(it.key, name) && has_leaf(it.value)) return true;
    if (it.value.type != MT_JSON_OBJECT && it.value.type != MT_JSON_ARRAY) continue;
    if (!it.object) {
      if (object_exists(it.value, name)) return true;
      continue;
    }
    if (mt_json_key_is(it.key, name) && has_leaf(it.value)) return true;
    for (size_t i = 0; i < name.n; i++)
      if (name.p[i] == '.' && mt_json_key_is(it.key, (mt_slice){name.p, i}) &&
          object_exists(it.value, (mt_slice){name.p + i + 1, name.n - i - 1}))
        return true;
  }
  return false;
}

static bool has_field(const node *n, const mt_row *row) {
  if (n->place != IN_SOURCE) return n->place != IN_ROUTING || row->routing.n;
  return mt_field_each(row->source, n->field, any_leaf, NULL) ||
         object_exists(row->source, n->field);
}

static bool matches(mt_query *q, const node *n, const mt_row *row);

static bool bool_matches(mt_query *q, const node *n, const mt_row *row) {
  uint64_t should = 0;
  for (const node *c = n->first; c; c = c->next) {
    if (c->role == SHOULD && should >= n->min_should) continue;
    bool hit = matches(q, c, row);
    if (c->role == SHOULD)
      should += hit;
    else if (hit != (c->role == MUST))
      return false;
  }
  return should >= n->min_should;
}

static bool matches(mt_query *q, const node *n, const mt_row *row) {
  switch (n->kind) {
  case ALL:
    return true;
  case NONE:
    return false;
  case EXISTS:
    return has_field(n, row);
  case BOOL:
    return bool_matches(q, n, row);
  default:
    return leaf_matches(q, n, row);
  }
}

bool mt_query_matches(mt_query *q, const mt_row *row) {
  return matches(q, q->root, row);
}

bool mt_query_needs_source(const mt_query *q) {
  for (const node *n = q->all; n; n = n->all_next)
    if (n->kind >= TERMS && n->kind <= EXISTS && n->place == IN_SOURCE) return true;
  return false;
}

/* ---- narrowing ---- */

/* About how many look-ups narrowing takes; UINT64_MAX: it does not narrow. */
static uint64_t cost(const node *n, const mt_narrow *w);

static uint64_t bool_cost(const node *n, const mt_narrow *w, const node **best) {
  uint64_t least = UINT64_MAX, shoulds = 0;
  *best = NULL;
  for (const node *c = n->first; c; c = c->next) {
    uint64_t one = c->role == MUST_NOT ? UINT64_MAX : cost(c, w);
    if (c->role == MUST && one < least) {
      least = one;
      *best = c;
    }
    if (c->role == SHOULD && shoulds != UINT64_MAX)
      shoulds = one > UINT64_MAX / 2 || shoulds > UINT64_MAX / 2 ? UINT64_MAX : shoulds + one;
  }
  if (*best || !n->min_should) return least;
  return shoulds;
}

static uint64_t cost(const node *n, const mt_narrow *w) {
  const node *best;
  switch (n->kind) {
  case NONE:
    return 0;
  case BOOL:
    return bool_cost(n, w, &best);
  case IDS:
    return n->n;
  case TERMS:
    if (n->place == IN_ID) return n->n;
    return n->place == IN_SOURCE && w->field(w->ctx, n->field) >= 0 ? n->n * 10 : UINT64_MAX;
  case PREFIX:
    return n->place == IN_SOURCE && w->field(w->ctx, n->field) >= 0 ? 100000 : UINT64_MAX;
  default:
    return UINT64_MAX;
  }
}

bool mt_query_can_narrow(const mt_query *q, const mt_narrow *n) {
  return cost(q->root, n) != UINT64_MAX;
}

static mortise_status narrow_values(const node *n, const mt_narrow *w, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  int field = n->place == IN_ID ? -1 : w->field(w->ctx, n->field);
  for (size_t i = 0; !status && i < n->n; i++)
    status = n->place == IN_ID ? w->id(w->ctx, n->values[i], err)
                               : w->value(w->ctx, field, n->values[i], n->kind == PREFIX, err);
  return status;
}

static mortise_status narrow_search(const node *n, const mt_narrow *w, mortise_error *err) {
  const node *best;
  if (n->kind == NONE) return MORTISE_OK;
  if (n->kind != BOOL) return narrow_values(n, w, err);
  bool_cost(n, w, &best);
  if (best) return narrow_search(best, w, err);
  mortise_status status = MORTISE_OK;
  for (const node *c = n->first; !status && c; c = c->next)
    if (c->role == SHOULD) status = narrow_search(c, w, err);
  return status;
}

mortise_status mt_query_narrow(const mt_query *q, const mt_narrow *n, mortise_error *err) {
  return narrow_search(q->root, n, err);
}
