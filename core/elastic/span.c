/* Reading one shard by sequence numbers. A search asks a single copy of it, the primary where replicas may lag behind
 * a refresh, and its answer is believed only whole. */
#include "base/mem.h"
#include "elastic/page.h"

/* ---- Both ----------------------------------------------------------------------------------- */

/* Results of size 0 would fill the servers' cache, and none is asked for twice. */
static bool add_span_path(mt_call *c, const mt_span *span) {
  if (!mt_call_index(c, span->index, true)) return false;
  mt_buf_addf(&c->path, "/_search?allow_partial_search_results=false&request_cache=false&preference=_shards:%u%s",
              span->shard, span->primary ? "%7C_primary" : "");
  return true;
}

/* mt_span_hash, by which a server finds out which numbers there are. */
#define MT_SPAN_HASH \
  "long x = doc['_seq_no'].value + 1L; x = (x ^ (x >>> 33)) * -49064778989728563L; " \
  "x = (x ^ (x >>> 33)) * -4265267296055464877L; return (double)((x ^ (x >>> 33)) & 1099511627775L);"

static void add_span_query(mt_buf *b, const mt_span *span) {
  mt_buf_adds(b, "\"track_total_hits\":true,\"query\":{\"range\":{\"_seq_no\":{\"gte\":");
  mt_buf_addu(b, span->from);
  mt_buf_adds(b, ",\"lt\":");
  mt_buf_addu(b, span->to);
  mt_buf_adds(b, "}}}");
}

/* The shard, and no other, answered, with an exact number of documents. */
static mortise_status check_span(mt_json root, const mt_span *span, uint64_t *total, mortise_error *err) {
  uint64_t shards = 0, good = 0;
  mt_json hits = mt_json_at(root, "hits", "total", NULL);
  if (mt_shards_check(root, "numbers of", span->index, err)) return err->code;
  mt_json_uint(mt_json_at(root, "_shards", "total", NULL), &shards);
  mt_json_uint(mt_json_at(root, "_shards", "successful", NULL), &good);
  if (shards != 1 || good != 1)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "numbers of %s: %llu of %llu shards answered for shard %u",
                        span->index, (unsigned long long)good, (unsigned long long)shards, span->shard);
  if (mt_json_uint(mt_json_get(hits, "value"), total) && mt_json_is(mt_json_get(hits, "relation"), "eq"))
    return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE, "numbers of %s: the answer has no exact total", span->index);
}

static mortise_status check_bounds(const mt_span *span, uint64_t units, uint64_t most, const char *what,
                                   mortise_error *err) {
  if (span->from <= span->to && span->to <= MT_SEQ_NO_MAX + 1 && units <= most) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "numbers %llu to %llu of %s: at most %llu %s at once",
                      (unsigned long long)span->from, (unsigned long long)span->to, span->index,
                      (unsigned long long)most, what);
}

/* Ends the call, which reads, unless what failed may pass. */
static void finish_span(mt_call *c) {
  if (c->req->error.code != MORTISE_UNAVAILABLE || !mt_call_repeat(c)) mt_call_finish(c);
}

/* ---- Counting ------------------------------------------------------------------------------- */

static uint64_t first_row(const mt_intervals *r) {
  return r->span.from / r->width;
}

/* Servers give a bucket's key as a double. */
static bool add_bucket(mt_intervals *r, mt_json bucket) {
  double key, sum;
  uint64_t count;
  if (!mt_json_double(mt_json_get(bucket, "key"), &key) || !mt_json_uint(mt_json_get(bucket, "doc_count"), &count) ||
      !mt_json_double(mt_json_at(bucket, "sum", "value", NULL), &sum))
    return false;
  if (key < 0 || key > (double)MT_SEQ_NO_MAX || (uint64_t)key % r->width) return false;
  if (!(sum >= 0 && sum <= (double)(1ULL << 53))) return false;
  uint64_t row = (uint64_t)key / r->width - first_row(r);
  if (row >= r->n) return false;
  r->counts[row] += count;
  r->sums[row] += (uint64_t)sum;
  r->total += count;
  return true;
}

static mortise_status read_intervals(mt_intervals *r, mt_json root, mortise_error *err) {
  uint64_t total = 0;
  bool good = true;
  if (check_span(root, &r->span, &total, err)) return err->code;
  memset(r->counts, 0, 2 * r->n * sizeof *r->counts);
  r->total = 0;
  mt_json_iter it = mt_json_items(mt_json_at(root, "aggregations", "rows", "buckets", NULL));
  while (good && mt_json_next(&it)) good = add_bucket(r, it.value);
  if (good && r->total == total) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE, "numbers of %s: the counts are not those of %llu documents",
                      r->span.index, (unsigned long long)total);
}

static void on_intervals(mt_call *c) {
  mt_intervals *r = (mt_intervals *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "numbers of", r->span.index)) return;
  if (!mt_call_json(c, "the counts of numbers", &root)) return;
  read_intervals(r, root, &r->req.error);
  finish_span(c);
}

void mt_elastic_intervals(mt_store *s, mt_intervals *r) {
  mortise_error err;
  if (!r->width) r->width = MT_SPAN_ROW;
  uint64_t rows = r->span.to > r->span.from ? (r->span.to - 1) / r->width - first_row(r) + 1 : 0;
  r->counts = r->sums = NULL;
  r->total = r->n = 0;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (mt_span_width_check(r, &err) || check_bounds(&r->span, rows, MT_SPAN_ROWS_MAX, "rows", &err)) {
    mt_call_fail(c, &err);
    return;
  }
  if (mt_intervals_alloc(r, rows, &err)) {
    mt_call_fail(c, &err);
    return;
  }
  if (!add_span_path(c, &r->span)) return;
  mt_buf_adds(&c->path, "&filter_path=_shards,timed_out,hits.total,aggregations.rows.buckets.key,"
                        "aggregations.rows.buckets.doc_count,aggregations.rows.buckets.sum.value");
  mt_buf_adds(&c->body, "{\"size\":0,\"aggs\":{\"rows\":{\"histogram\":{\"field\":\"_seq_no\",\"min_doc_count\":1,"
                        "\"interval\":");
  mt_buf_addu(&c->body, r->width);
  mt_buf_adds(&c->body, "},\"aggs\":{\"sum\":{\"sum\":{\"script\":{\"lang\":\"painless\",\"source\":\"" MT_SPAN_HASH
                        "\"}}}}}},");
  add_span_query(&c->body, &r->span);
  mt_buf_adds(&c->body, "}");
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_intervals);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static bool is_in_span(const mt_range *r, const mt_doc *doc) {
  const mt_span *span = &r->span;
  return doc->version.term && mt_slice_eq(doc->index, mt_slice_of(span->index)) &&
         (r->ids || (doc->version.seq_no >= span->from && doc->version.seq_no < span->to));
}

static mortise_status read_range(mt_range *r, mt_page *page, mt_json root, mortise_error *err) {
  size_t cap = 0;
  uint64_t total = 0;
  if (check_span(root, &r->span, &total, err)) return err->code;
  mt_json_iter it = mt_json_items(mt_json_at(root, "hits", "hits", NULL));
  while (mt_json_next(&it)) {
    if (mt_page_add(page, &cap, it.value, r->no_source, err)) return err->code;
    if (!is_in_span(r, &page->docs[page->n - 1]))
      return mt_error_set(err, MORTISE_UNAVAILABLE, "numbers of %s: a document of others came", r->span.index);
  }
  if (page->n == total) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNAVAILABLE, "numbers of %s: %zu of %llu documents came", r->span.index, page->n,
                      (unsigned long long)total);
}

static void on_range(mt_call *c) {
  mt_range *r = (mt_range *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "numbers of", r->span.index)) return;
  if (!mt_call_json(c, "the documents of numbers", &root)) return;
  r->page = mt_page_take(c);
  if (!r->page)
    mt_error_memory(&r->req.error);
  else if (read_range(r, r->page, root, &r->req.error))
    mt_range_deinit(r);
  finish_span(c);
}

static void add_ids_query(mt_buf *b, const mt_range *r) {
  mt_buf_adds(b, "\"track_total_hits\":true,\"query\":{\"ids\":{\"values\":[");
  for (size_t i = 0; i < r->n_ids; i++) {
    if (i) mt_buf_addc(b, ',');
    mt_json_add_string(b, r->ids[i]);
  }
  mt_buf_adds(b, "]}}");
}

static void send_range(mt_call *c) {
  const mt_range *r = (const mt_range *)c->req;
  mt_server v = c->e->server;
  if (!add_span_path(c, &r->span)) return;
  uint64_t size = r->ids ? MT_SPAN_DOCS_MAX : r->span.to - r->span.from;
  mt_buf_addf(&c->body, "{\"size\":%u,\"sort\":[\"_doc\"],\"seq_no_primary_term\":true,", (unsigned)size);
  if (r->revisions) mt_buf_adds(&c->body, "\"version\":true,");
  if (r->no_source)
    mt_buf_adds(&c->body, "\"_source\":false,");
  else if (!v.opensearch && (v.major > 9 || (v.major == 9 && v.minor >= 2)))
    mt_buf_adds(&c->body, "\"_source\":{\"exclude_vectors\":false},");
  if (r->ids)
    add_ids_query(&c->body, r);
  else
    add_span_query(&c->body, &r->span);
  mt_buf_adds(&c->body, "}");
  c->http.idempotent = true;
  mt_call_send(c, "POST", on_range);
}

void mt_elastic_range(mt_store *s, mt_range *r) {
  mortise_error err;
  r->page = NULL;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (mt_range_ids_check(r, &err) ||
      check_bounds(&r->span, r->span.to - r->span.from, MT_SPAN_DOCS_MAX, "numbers", &err))
    mt_call_fail(c, &err);
  else
    mt_server_need(c, send_range);
}

void mt_elastic_range_end(mt_store *s, mt_index_admin *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (c) mt_call_finish_soon(c);
}
