/* Searches in the servers' form: {"query", "from", "size", "sort", "_source"}. */
#include "sqlite/docs.h"

#include "base/json_edit.h"
#include "base/mem.h"

#include <stdlib.h>

enum {
  WINDOW = 10000, /* like the servers' index.max_result_window */
  SORTS_MAX = 8,
  FILTERS_MAX = 256, /* fields of `_source` */
  HITS_MAX = 1 << 26,
  ANSWER_MAX = 64 << 20,
};

typedef struct sort {
  char field[256];
  bool descending;
} sort;

typedef struct hit {
  size_t id, id_n;                           /* in `text` */
  size_t keys[SORTS_MAX], keys_n[SORTS_MAX]; /* keys_n SIZE_MAX: the field is missing */
  uint64_t seq_no;
} hit;

typedef struct search {
  mt_work *w;
  mt_index index;
  mt_query *query;
  mt_slice query_text;
  uint64_t from, size;
  sort sorts[SORTS_MAX];
  size_t n_sorts;
  bool no_source, filtered;
  mt_slice fields[FILTERS_MAX]; /* into `names` */
  size_t n_fields;
  mt_buf names;
  hit *hits;
  size_t n, cap;
  uint64_t total;
  mt_buf text;
} search;

/* ---- the body ---- */

static mortise_status key_refuse(mortise_error *err, const char *key, mt_slice what) {
  mt_error_set(err, MORTISE_REJECTED, "search: %s `%.*s` is not known to the embedded store", key,
               (int)(what.n < 100 ? what.n : 100), what.p);
  if (err) err->http_status = 400;
  return MORTISE_REJECTED;
}

static mortise_status add_sort(search *s, mt_slice name, mt_json how, mortise_error *err) {
  if (s->n_sorts == SORTS_MAX || name.n >= sizeof s->sorts[0].field)
    return key_refuse(err, "sort", name);
  sort *to = &s->sorts[s->n_sorts++];
  mt_json order = how.type == MT_JSON_OBJECT ? mt_json_get(how, "order") : how;
  mt_json_copy((mt_json){MT_JSON_STRING, {name.p - 1, name.n + 2}}, to->field, sizeof to->field);
  to->descending = mt_json_is(order, "desc");
  if (order.type && !to->descending && !mt_json_is(order, "asc"))
    return key_refuse(err, "sort order", order.raw);
  for (mt_json_iter it = mt_json_items(how); mt_json_next(&it);)
    if (!mt_json_key_is(it.key, MT_SLICE("order")) &&
        !mt_json_key_is(it.key, MT_SLICE("unmapped_type")))
      return key_refuse(err, "sort option", it.key);
  return MORTISE_OK;
}

/* "FIELD", {"FIELD": "desc"}, {"FIELD": {"order": "desc"}}, or a list of these. */
static mortise_status read_sort(search *s, mt_json value, bool listed, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  if (value.type == MT_JSON_STRING)
    return add_sort(s, (mt_slice){value.raw.p + 1, value.raw.n - 2}, (mt_json){0}, err);
  if (value.type != MT_JSON_OBJECT && (value.type != MT_JSON_ARRAY || listed))
    return key_refuse(err, "sort", value.raw);
  for (mt_json_iter it = mt_json_items(value); !status && mt_json_next(&it);)
    status = it.object ? add_sort(s, it.key, it.value, err) : read_sort(s, it.value, true, err);
  return status;
}

/* Only full names are supported, no wildcards. */
static mortise_status add_source_field(search *s, mt_json value, mortise_error *err) {
  size_t at = s->names.n;
  if (s->n_fields == FILTERS_MAX || !mt_json_text(value, &s->names) ||
      memchr(s->names.p + at, '*', s->names.n - at))
    return key_refuse(err, "_source", value.raw);
  s->fields[s->n_fields++] = (mt_slice){"", s->names.n - at};
  return mt_buf_status(&s->names, "_source", err);
}

static mortise_status read_source_filter(search *s, mt_json value, mortise_error *err) {
  bool wanted;
  mortise_status status = MORTISE_OK;
  if (mt_json_bool(value, &wanted)) {
    s->no_source = !wanted;
    return MORTISE_OK;
  }
  s->filtered = true;
  if (value.type == MT_JSON_STRING)
    status = add_source_field(s, value, err);
  else if (value.type != MT_JSON_ARRAY)
    return key_refuse(err, "_source", value.raw);
  for (mt_json_iter it = mt_json_items(value); !status && mt_json_next(&it);)
    status = add_source_field(s, it.value, err);
  const char *at = s->names.p;
  for (size_t i = 0; !status && i < s->n_fields; at += s->fields[i++].n) s->fields[i].p = at;
  return status;
}

static mortise_status read_key(search *s, mt_slice key, mt_json value, mortise_error *err) {
  if (mt_json_key_is(key, MT_SLICE("query"))) {
    s->query_text = value.raw;
    return MORTISE_OK;
  }
  if (mt_json_key_is(key, MT_SLICE("from")))
    return mt_json_uint(value, &s->from) ? MORTISE_OK : key_refuse(err, "from", value.raw);
  if (mt_json_key_is(key, MT_SLICE("size")))
    return mt_json_uint(value, &s->size) ? MORTISE_OK : key_refuse(err, "size", value.raw);
  if (mt_json_key_is(key, MT_SLICE("sort"))) return read_sort(s, value, false, err);
  if (mt_json_key_is(key, MT_SLICE("_source"))) return read_source_filter(s, value, err);
  /* Counts are always exact, and versions always returned. */
  if (mt_json_key_is(key, MT_SLICE("track_total_hits")) ||
      mt_json_key_is(key, MT_SLICE("seq_no_primary_term")))
    return MORTISE_OK;
  return key_refuse(err, "the key", key);
}

static mortise_status read_body(search *s, mt_slice body, mortise_error *err) {
  mt_json root = {0};
  mortise_status status = body.n ? mt_json_parse(body, "the search", &root, err) : MORTISE_OK;
  if (!status && body.n && root.type != MT_JSON_OBJECT)
    status = key_refuse(err, "the body", root.raw);
  for (mt_json_iter it = mt_json_items(root); !status && mt_json_next(&it);)
    status = read_key(s, it.key, it.value, err);
  if (status) return status;
  if (s->from > WINDOW || s->size > WINDOW || s->from + s->size > WINDOW)
    return mt_error_set(err, MORTISE_REJECTED,
                        "search: from + size is at most %d: a scan gives more", WINDOW);
  return mt_query_new(s->query_text, &s->query, err);
}

/* ---- finding ---- */

typedef struct sort_key {
  search *s;
  hit *h;
  size_t i;
  mt_buf scratch;
} sort_key;

/* Of several values the smallest counts, or, descending, the largest. */
static bool keep_key(void *ctx, mt_json value) {
  sort_key *k = ctx;
  mt_slice text;
  if (!mt_scalar_text(value, &k->scratch, &text)) return false;
  if (k->h->keys_n[k->i] != SIZE_MAX) {
    mt_slice before = {k->s->text.p + k->h->keys[k->i], k->h->keys_n[k->i]};
    int order = mt_scalar_cmp(text, before);
    if (k->s->sorts[k->i].descending ? order <= 0 : order >= 0) return false;
  }
  k->h->keys[k->i] = k->s->text.n;
  k->h->keys_n[k->i] = text.n;
  mt_buf_addslice(&k->s->text, text);
  return false;
}

static void read_keys(search *s, hit *h, const mt_row *row) {
  sort_key k = {.s = s, .h = h};
  mt_buf_init(&k.scratch, MT_SQLITE_TEXT_MAX);
  for (k.i = 0; k.i < s->n_sorts; k.i++) {
    mt_slice name = mt_slice_of(s->sorts[k.i].field);
    h->keys_n[k.i] = SIZE_MAX;
    if (mt_slice_eq(name, MT_SLICE("_id"))) {
      h->keys[k.i] = h->id;
      h->keys_n[k.i] = h->id_n;
    } else if (mt_slice_eq(name, MT_SLICE("_seq_no"))) {
      h->keys[k.i] = s->text.n;
      mt_buf_addu(&s->text, row->seq_no);
      h->keys_n[k.i] = s->text.n - h->keys[k.i];
    } else {
      mt_field_each(row->source, name, keep_key, &k);
    }
  }
  mt_buf_deinit(&k.scratch);
}

/* Unsorted hits come in the order of ids, so only the window is kept. */
static mortise_status take_found(void *ctx, const mt_row *row, mortise_error *err) {
  search *s = ctx;
  uint64_t number = s->total++;
  if (!s->n_sorts && (number < s->from || number >= s->from + s->size)) return MORTISE_OK;
  if (!mt_grow((void **)&s->hits, &s->cap, s->n + 1, sizeof *s->hits, HITS_MAX))
    return mt_error_memory(err);
  hit *h = &s->hits[s->n++];
  h->id = s->text.n;
  h->id_n = row->id.n;
  h->seq_no = row->seq_no;
  mt_buf_addslice(&s->text, row->id);
  if (s->n_sorts) {
    mt_row whole = *row;
    bool there = true;
    mortise_status status = MORTISE_OK;
    if (!row->source.type)
      status = mt_docs_get(s->w->db, s->index.idx, row->id, &whole, &there, err);
    if (status) return status;
    read_keys(s, h, &whole);
  }
  return mt_buf_status(&s->text, "the search's list of hits", err);
}

static int order_hits(const void *a, const void *b, void *ctx) {
  const search *s = ctx;
  const hit *x = a, *y = b;
  for (size_t i = 0; i < s->n_sorts; i++) {
    bool no_x = x->keys_n[i] == SIZE_MAX, no_y = y->keys_n[i] == SIZE_MAX;
    if (no_x != no_y) return no_x ? 1 : -1; /* missing values come last in both directions */
    if (no_x) continue;
    int order = mt_scalar_cmp((mt_slice){s->text.p + x->keys[i], x->keys_n[i]},
                              (mt_slice){s->text.p + y->keys[i], y->keys_n[i]});
    if (order) return s->sorts[i].descending ? -order : order;
  }
  return mt_slice_cmp((mt_slice){s->text.p + x->id, x->id_n},
                      (mt_slice){s->text.p + y->id, y->id_n});
}

/* ---- the answer ---- */

static mortise_status add_filtered(const search *s, mt_json source, mt_buf *out,
                                   mortise_error *err) {
  mt_json_edit edits[FILTERS_MAX];
  size_t n = 0;
  for (size_t i = 0; i < s->n_fields; i++) {
    mt_json value = mt_json_find(source, s->fields[i]);
    if (value.type) edits[n++] = (mt_json_edit){s->fields[i], value.raw};
  }
  return mt_json_apply((mt_json){MT_JSON_OBJECT, MT_SLICE("{}")}, edits, n, out, err);
}

static void add_sort_values(const search *s, const hit *h, mt_buf *out) {
  if (!s->n_sorts) return;
  mt_json_add_key(out, "sort");
  for (size_t i = 0; i < s->n_sorts; i++) {
    mt_buf_addc(out, i ? ',' : '[');
    if (h->keys_n[i] == SIZE_MAX) {
      mt_buf_adds(out, "null");
      continue;
    }
    mt_slice text = {s->text.p + h->keys[i], h->keys_n[i]};
    mt_json number;
    if (!mt_json_parse(text, "", &number, NULL) && number.type == MT_JSON_NUMBER)
      mt_buf_addslice(out, text);
    else
      mt_json_add_string(out, text);
  }
  mt_buf_addc(out, ']');
}

static mortise_status append_hit(search *s, const hit *h, mt_buf *out, mortise_error *err) {
  mt_row row;
  bool there;
  mt_slice id = {s->text.p + h->id, h->id_n};
  mortise_status status = mt_docs_get(s->w->db, s->index.idx, id, &row, &there, err);
  if (status || !there) return status; /* found in the same snapshot, so it exists */
  if (out->n && out->p[out->n - 1] == '}') mt_buf_addc(out, ',');
  mt_buf_addf(out, "{\"_index\":\"%s\",\"_id\":", s->index.name);
  mt_json_add_string(out, id);
  mt_buf_adds(out, ",\"_seq_no\":");
  mt_buf_addu(out, row.seq_no);
  mt_buf_adds(out, ",\"_primary_term\":1,\"_score\":null");
  if (row.routing.p) {
    mt_json_add_text(out, "_routing", row.routing);
  }
  if (!s->no_source) mt_json_add_key(out, "_source");
  if (!s->no_source && s->filtered) status = add_filtered(s, row.source, out, err);
  if (!s->no_source && !s->filtered) mt_buf_addslice(out, row.source.raw);
  add_sort_values(s, h, out);
  mt_buf_addc(out, '}');
  return status ? status : mt_buf_status(out, "the search's answer", err);
}

static mortise_status write_answer(search *s, mt_buf *out, mortise_error *err) {
  if (s->n_sorts && s->n) qsort_r(s->hits, s->n, sizeof *s->hits, order_hits, s);
  mt_buf_adds(out, "{\"took\":0,\"timed_out\":false,\"_shards\":{\"total\":1,\"successful\":1,"
                   "\"skipped\":0,\"failed\":0},\"hits\":{\"total\":{\"value\":");
  mt_buf_addu(out, s->total);
  mt_buf_adds(out, ",\"relation\":\"eq\"},\"max_score\":null,\"hits\":[");
  size_t first = s->n_sorts ? (size_t)s->from : 0;
  mortise_status status = MORTISE_OK;
  for (size_t i = first; !status && i < s->n && i - first < s->size; i++)
    status = append_hit(s, &s->hits[i], out, err);
  mt_buf_adds(out, "]}}");
  return status ? status : mt_buf_status(out, "the search's answer", err);
}

static mortise_status run_search(search *s, mt_search *r, mt_buf *out, mortise_error *err) {
  mortise_status status = read_body(s, r->body, err);
  if (!status) status = mt_work_read(s->w, err);
  if (!status) status = mt_index_need(s->w->db, r->index, &s->index, err);
  if (!status) status = mt_docs_find(s->w, &s->index, s->query, take_found, s, err);
  return status ? status : write_answer(s, out, err);
}

mortise_status mt_docs_search(mt_work *w, mt_req *req, mortise_error *err) {
  mt_search *r = (mt_search *)(void *)req;
  r->answer = NULL;
  r->answer_n = 0;
  search *s = mt_calloc(1, sizeof *s);
  if (!s) return mt_error_memory(err);
  mt_buf out;
  s->w = w;
  s->size = 10;
  mt_buf_init(&s->names, 65536);
  mt_buf_init(&s->text, (size_t)1 << 30);
  mt_buf_init(&out, ANSWER_MAX);
  mortise_status status = run_search(s, r, &out, err);
  if (!status) r->answer = mt_buf_take(&out, &r->answer_n);
  mt_buf_deinit(&out);
  mt_buf_deinit(&s->names);
  mt_buf_deinit(&s->text);
  mt_index_deinit(&s->index);
  mt_query_free(s->query);
  mt_free(s->hits);
  mt_free(s);
  return status;
}
