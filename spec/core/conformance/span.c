/* Reading by sequence numbers, and copying with versions that only grow. */
#include "conformance/conformance.h"

#include <inttypes.h>
#include <stdio.h>

enum { DOCS = 300, WIDTH = 16 };

static mt_shards shards_of(mt_fixture *f) {
  mt_shards r = {.index = f->index};
  f->s->docs->shards(f->s, &r);
  MT_OK(f, r);
  return r;
}

static mt_span span_of(const mt_fixture *f, const mt_shards *all, uint32_t shard, uint64_t from, uint64_t to) {
  return (mt_span){.index = f->index, .shard = shard, .primary = all->primary, .from = from, .to = to};
}

static mt_page *range_of(mt_fixture *f, mt_span span, bool no_source) {
  mt_range r = {.span = span, .no_source = no_source, .revisions = true};
  f->s->docs->range(f->s, &r);
  MT_OK(f, r);
  return r.page;
}

static mt_intervals intervals_of(mt_fixture *f, mt_span span, uint64_t width) {
  mt_intervals r = {.span = span, .width = width};
  f->s->docs->intervals(f->s, &r);
  MT_OK(f, r);
  return r;
}

/* Updates every third document and deletes every fifth. */
static void change_some(mt_fixture *f) {
  static char ids[DOCS][16];
  mt_write items[DOCS];
  size_t n = 0;
  for (size_t i = 0; i < DOCS; i++) {
    if (i % 3 && i % 5) continue;
    snprintf(ids[n], sizeof ids[n], "d%zu", i);
    items[n] = mt_write_of(i % 5 ? MT_WRITE_INDEX : MT_WRITE_DELETE, ids[n], "{\"n\":-1}");
    n++;
  }
  mt_bulk_run(f, items, n);
  for (size_t i = 0; i < n; i++) MT_CHECK(items[i].result == MT_WRITE_APPLIED, "%s", items[i].reason);
  mt_refresh_index(f);
}

static void numbers_of_shards(mt_fixture *f) {
  mt_make_index(f, 3);
  mt_shards r = shards_of(f);
  MT_CHECK(r.n == 3 || r.n == 1, "%zu shards", r.n);
  MT_CHECK(r.uuid[0] && !r.primary, "%s", r.uuid);
  for (size_t i = 0; i < r.n; i++)
    MT_CHECK(r.shards[i].max_seq_no == -1 && r.shards[i].global_checkpoint == -1 && r.shards[i].term >= 1,
             "shard %zu: %" PRId64 " %" PRId64, i, r.shards[i].max_seq_no, r.shards[i].global_checkpoint);
  mt_shards_deinit(&r);
  mt_fill(f, DOCS);
  r = shards_of(f);
  int64_t operations = 0;
  uint64_t docs = 0;
  for (size_t i = 0; i < r.n; i++) {
    const mt_shard *s = &r.shards[i];
    operations += s->max_seq_no + 1;
    docs += s->docs;
    MT_CHECK(s->local_checkpoint == s->max_seq_no && s->global_checkpoint == s->max_seq_no,
             "shard %zu: %" PRId64 " %" PRId64 " %" PRId64, i, s->max_seq_no, s->local_checkpoint,
             s->global_checkpoint);
  }
  MT_CHECK(operations == DOCS && docs == DOCS, "%" PRId64 " operations, %" PRIu64 " documents", operations, docs);
  mt_shards_deinit(&r);
}

static void shards_of_none(mt_fixture *f) {
  mt_shards r = {.index = f->index};
  f->s->docs->shards(f->s, &r);
  MT_EXPECT(f, r, MORTISE_NOT_FOUND);
  MT_CHECK(!r.shards && !r.n, "it tells nothing");
}

/* Each live document stands in the row of its number, and comes with that row alone. */
static void check_rows(mt_fixture *f, const mt_shards *all, uint32_t shard, uint64_t *seen) {
  uint64_t end = (uint64_t)(all->shards[shard].max_seq_no + 1);
  mt_intervals rows = intervals_of(f, span_of(f, all, shard, 0, end), WIDTH);
  MT_CHECK(rows.n == (end + WIDTH - 1) / WIDTH, "%zu rows for %" PRIu64 " numbers", rows.n, end);
  for (size_t i = 0; i < rows.n; i++) {
    uint64_t from = i * WIDTH, to = from + WIDTH;
    mt_page *page = range_of(f, span_of(f, all, shard, from, to), false);
    MT_CHECK(page->n == rows.counts[i], "row %zu: %" PRIu64 " counted, %zu read", i, rows.counts[i], page->n);
    uint64_t sum = 0;
    for (size_t k = 0; k < page->n; k++) sum += mt_span_hash(page->docs[k].version.seq_no);
    MT_CHECK(sum == rows.sums[i], "row %zu: %" PRIu64 ", not %" PRIu64, i, rows.sums[i], sum);
    for (size_t k = 0; k < page->n; k++) {
      const mt_doc *doc = &page->docs[k];
      mt_version now;
      MT_CHECK(doc->version.seq_no >= from && doc->version.seq_no < to, "number %" PRIu64, doc->version.seq_no);
      MT_CHECK(mt_get(f, doc->id, NULL, &now) && mt_version_equal(now, doc->version), "its last version");
      MT_CHECK(doc->source.n && doc->source.p[0] == '{', "its source");
    }
    *seen += page->n;
    mt_page_free(page);
  }
  mt_intervals_deinit(&rows);
}

static void rows(mt_fixture *f) {
  mt_make_index(f, 2);
  mt_fill(f, DOCS);
  change_some(f);
  mt_shards all = shards_of(f);
  uint64_t seen = 0;
  for (uint32_t i = 0; i < all.n; i++) check_rows(f, &all, i, &seen);
  MT_CHECK(seen == mt_count_of(f, NULL), "%" PRIu64 " documents", seen);
  mt_shards_deinit(&all);
}

/* Bounds need not be those of a row. */
static void bounds(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_fill(f, 100);
  mt_shards all = shards_of(f);
  mt_intervals some = intervals_of(f, span_of(f, &all, 0, 20, 50), WIDTH);
  MT_CHECK(some.n == 3 && some.total == 30, "%zu rows, %" PRIu64, some.n, some.total);
  MT_CHECK(some.counts[0] == 12 && some.counts[1] == 16 && some.counts[2] == 2, "rows of 16, 32, 48");
  mt_intervals_deinit(&some);
  mt_intervals none = intervals_of(f, span_of(f, &all, 0, 20, 20), 0);
  MT_CHECK(!none.n && !none.total, "nothing of nothing");
  mt_intervals_deinit(&none);
  mt_intervals whole = intervals_of(f, span_of(f, &all, 0, 0, 8 * MT_SPAN_ROW), 8 * MT_SPAN_ROW);
  MT_CHECK(whole.n == 1 && whole.counts[0] == 100, "one row of all");
  mt_intervals_deinit(&whole);
  mt_intervals wide = {.span = span_of(f, &all, 0, 0, 10), .width = 8 * MT_SPAN_ROW + 1};
  f->s->docs->intervals(f->s, &wide);
  MT_EXPECT(f, wide, MORTISE_INVALID_ARGUMENT);
  mt_intervals_deinit(&wide);
  mt_page *page = range_of(f, span_of(f, &all, 0, 7, 10), true);
  MT_CHECK(page->n == 3 && !page->docs[0].source.p, "ids alone");
  mt_page_free(page);
  page = range_of(f, span_of(f, &all, 0, 500, 500 + MT_SPAN_DOCS_MAX), false);
  MT_CHECK(!page->n, "nothing beyond");
  mt_page_free(page);
  mt_shards_deinit(&all);
}

/* Those that are there, in the shard that is asked, with the numbers that they have now. */
static void found_by_id(mt_fixture *f) {
  mt_make_index(f, 2);
  mt_fill(f, DOCS);
  change_some(f);
  mt_shards all = shards_of(f);
  mt_slice ids[] = {MT_SLICE("d1"), MT_SLICE("d3"), MT_SLICE("d5"), MT_SLICE("none")};
  size_t found = 0;
  for (uint32_t i = 0; i < all.n; i++) {
    mt_range r = {.span = span_of(f, &all, i, 0, 0), .ids = ids, .n_ids = 4, .no_source = true};
    f->s->docs->range(f->s, &r);
    MT_OK(f, r);
    for (size_t k = 0; k < r.page->n; k++) {
      mt_version now;
      MT_CHECK(mt_get(f, r.page->docs[k].id, NULL, &now), "it is there");
      MT_CHECK(mt_version_equal(now, r.page->docs[k].version), "its last version");
    }
    found += r.page->n;
    mt_range_deinit(&r);
  }
  MT_CHECK(found == 2, "%zu: d1, d3; d5 was deleted", found);
  static mt_slice many[MT_SPAN_ROW + 1];
  for (size_t i = 0; i <= MT_SPAN_ROW; i++) many[i] = MT_SLICE("d1");
  mt_range r = {.span = span_of(f, &all, 0, 0, 0), .ids = many, .n_ids = MT_SPAN_ROW + 1};
  f->s->docs->range(f->s, &r);
  MT_EXPECT(f, r, MORTISE_INVALID_ARGUMENT);
  mt_shards_deinit(&all);
}

static void expect_no_range(mt_fixture *f, mt_span span, mortise_status want) {
  mt_range r = {.span = span, .req.deadline_ms = mt_loop_now(f->s->loop) + 2000};
  f->s->docs->range(f->s, &r);
  MT_EXPECT(f, r, want);
  MT_CHECK(!r.page, "no page");
  mt_intervals i = {.span = span, .width = 1, .req.deadline_ms = mt_loop_now(f->s->loop) + 2000};
  f->s->docs->intervals(f->s, &i);
  MT_EXPECT(f, i, want);
  mt_intervals_deinit(&i);
}

static void out_of_bounds(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_shards all = shards_of(f);
  expect_no_range(f, span_of(f, &all, 0, 2, 1), MORTISE_INVALID_ARGUMENT);
  expect_no_range(f, span_of(f, &all, 0, 0, MT_SPAN_DOCS_MAX + 1), MORTISE_INVALID_ARGUMENT);
  expect_no_range(f, span_of(f, &all, 0, MT_SEQ_NO_MAX, MT_SEQ_NO_MAX + 2), MORTISE_INVALID_ARGUMENT);
  expect_no_range(f, span_of(f, &all, 7, 0, 10), MORTISE_UNAVAILABLE);
  mt_span none = span_of(f, &all, 0, 0, 10);
  none.index = "no-such-index-of-these-tests";
  expect_no_range(f, none, MORTISE_NOT_FOUND);
  mt_shards_deinit(&all);
}

static void end_of_range(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_fill(f, 50);
  mt_shards all = shards_of(f);
  for (int i = 0; i < 2; i++) {
    mt_page *page = range_of(f, span_of(f, &all, 0, 0, 100), false);
    MT_CHECK(page->n == 50, "%zu documents", page->n);
    mt_page_free(page);
    for (int k = 0; k < 2; k++) {
      mt_index_admin end = {.index = f->index};
      f->s->docs->range_end(f->s, &end);
      MT_OK(f, end);
    }
    mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "d7", "{\"n\":7}"));
    mt_refresh_index(f);
  }
  mt_shards_deinit(&all);
}

/* ---- Copies --------------------------------------------------------------------------------- */

static mt_write gte_of(mt_write_kind kind, const char *id, const char *body, uint64_t version) {
  mt_write w = mt_write_of(kind, id, body);
  w.external_gte = version;
  return w;
}

static mt_write expect_gte(mt_fixture *f, mt_write w, mt_write_result want, const char *now) {
  mt_bulk_run(f, &w, 1);
  MT_CHECK(w.result == want, "%d with version %" PRIu64 ": %d, not %d: %d %s %s", (int)w.kind, w.external_gte,
           (int)w.result, (int)want, w.status, w.type, w.reason);
  mt_buf seen;
  mt_buf_init(&seen, 4096);
  bool there = mt_get(f, w.id, &seen, NULL);
  MT_CHECK(there == (now != NULL) && (!there || mt_same_json(mt_buf_slice(&seen), now)), "%s, not %s",
           there ? seen.p : "nothing", now ? now : "nothing");
  mt_buf_deinit(&seen);
  return w;
}

static void versions_grow(mt_fixture *f) {
  const uint64_t v = UINT64_C(3) << 40 | 70;
  mt_make_index(f, 1);
  mt_write w = expect_gte(f, gte_of(MT_WRITE_INDEX, "a", "{\"n\":1}", v), MT_WRITE_APPLIED, "{\"n\":1}");
  MT_CHECK(w.created && w.status == 201, "created");
  w = expect_gte(f, gte_of(MT_WRITE_INDEX, "a", "{\"n\":1}", v), MT_WRITE_APPLIED, "{\"n\":1}");
  MT_CHECK(!w.created && w.status == 200, "written again");
  expect_gte(f, gte_of(MT_WRITE_INDEX, "a", "{\"n\":2}", v + 9), MT_WRITE_APPLIED, "{\"n\":2}");
  w = expect_gte(f, gte_of(MT_WRITE_INDEX, "a", "{\"n\":1}", v), MT_WRITE_CONFLICT, "{\"n\":2}");
  MT_CHECK(w.standing == v + 9 && !strcmp(w.type, "version_conflict_engine_exception"), "%" PRIu64 " %s", w.standing,
           w.reason);
  expect_gte(f, gte_of(MT_WRITE_DELETE, "a", NULL, v), MT_WRITE_CONFLICT, "{\"n\":2}");
  expect_gte(f, gte_of(MT_WRITE_DELETE, "a", NULL, v + 10), MT_WRITE_APPLIED, NULL);
  w = expect_gte(f, gte_of(MT_WRITE_INDEX, "a", "{\"n\":2}", v + 9), MT_WRITE_CONFLICT, NULL);
  MT_CHECK(w.standing == v + 10, "%" PRIu64 " %s", w.standing, w.reason);
  expect_gte(f, gte_of(MT_WRITE_DELETE, "a", NULL, v + 10), MT_WRITE_MISSING, NULL);
  expect_gte(f, gte_of(MT_WRITE_INDEX, "a", "{\"n\":3}", v + 11), MT_WRITE_APPLIED, "{\"n\":3}");
}

/* What others have written over a copy is later than that copy, and earlier than one that is later by two. */
static void others_write(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_write w = mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "theirs", "{\"n\":1}"));
  MT_CHECK(w.created, "it was not there");
  expect_gte(f, gte_of(MT_WRITE_INDEX, "theirs", "{\"n\":2}", 1000), MT_WRITE_APPLIED, "{\"n\":2}");
  mt_write_one(f, mt_write_of(MT_WRITE_UPDATE, "theirs", "{\"doc\":{\"n\":3}}"));
  w = expect_gte(f, gte_of(MT_WRITE_INDEX, "theirs", "{\"n\":2}", 1000), MT_WRITE_CONFLICT, "{\"n\":3}");
  MT_CHECK(w.standing == 1001, "%" PRIu64, w.standing);
  mt_write_one(f, mt_write_of(MT_WRITE_DELETE, "theirs", NULL));
  expect_gte(f, gte_of(MT_WRITE_INDEX, "theirs", "{\"n\":4}", 1001), MT_WRITE_CONFLICT, NULL);
  expect_gte(f, gte_of(MT_WRITE_INDEX, "theirs", "{\"n\":5}", 1002), MT_WRITE_APPLIED, "{\"n\":5}");
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "theirs", "{\"n\":6}"));
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "theirs", "{\"n\":7}"));
  expect_gte(f, gte_of(MT_WRITE_DELETE, "theirs", NULL, 1003), MT_WRITE_CONFLICT, "{\"n\":7}");
}

static void versions_of_others(mt_fixture *f) {
  mt_make_index(f, 1);
  expect_gte(f, gte_of(MT_WRITE_CREATE, "a", "{\"n\":1}", 9), MT_WRITE_REJECTED, NULL);
  expect_gte(f, gte_of(MT_WRITE_UPDATE, "a", "{\"doc\":{\"n\":1}}", 9), MT_WRITE_REJECTED, NULL);
  mt_write both = gte_of(MT_WRITE_DELETE, "a", NULL, 9);
  both.external = 9;
  expect_gte(f, both, MT_WRITE_REJECTED, NULL);
  mt_write compared = gte_of(MT_WRITE_INDEX, "a", "{\"n\":1}", 9);
  compared.if_version = (mt_version){1, 1};
  expect_gte(f, compared, MT_WRITE_REJECTED, NULL);
}

enum { BASE = 5000 };

/* A document goes into another index byte for byte, with its routing, and a late copy of it does nothing. */
static void copies(mt_fixture *f) {
  char source[sizeof f->index], target[sizeof f->index + 8];
  mt_make_index(f, 1);
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "b", "{\"n\":0}"));
  mt_write with = mt_write_of(MT_WRITE_INDEX, "a", "{ \"n\" : 1.50 }");
  with.routing = MT_SLICE("r");
  mt_write_one(f, with);
  mt_refresh_index(f);
  mt_shards all = shards_of(f);
  mt_page *page = range_of(f, span_of(f, &all, 0, 0, 10), false);
  mt_shards_deinit(&all);
  MT_CHECK(page->n == 2, "%zu documents", page->n);
  mt_write items[] = {mt_write_copy(&page->docs[0], BASE), mt_write_copy(&page->docs[1], BASE)};
  strcpy(source, f->index);
  snprintf(target, sizeof target, "%s-to", source);
  MT_CHECK(!mt_create_index(f, target, "{\"settings\":{\"number_of_shards\":1,\"number_of_replicas\":0}}"), "made");
  strcpy(f->index, target);
  for (int i = 0; i < 2; i++) {
    mt_bulk_run(f, items, 2);
    MT_CHECK(items[0].result == MT_WRITE_APPLIED && items[1].result == MT_WRITE_APPLIED, "%s %s", items[0].reason,
             items[1].reason);
    MT_CHECK(items[0].created == !i, "created once");
  }
  mt_refresh_index(f);
  all = shards_of(f);
  mt_page *copied = range_of(f, span_of(f, &all, 0, 0, 10), false);
  MT_CHECK(copied->n == 2, "%zu copies", copied->n);
  for (size_t i = 0; i < 2; i++) {
    const mt_doc *doc = &copied->docs[i];
    bool routed = mt_slice_eq(doc->id, MT_SLICE("a"));
    MT_CHECK(mt_slice_eq(doc->source, routed ? MT_SLICE("{ \"n\" : 1.50 }") : MT_SLICE("{\"n\":0}")), "%.*s",
             (int)doc->source.n, doc->source.p);
    MT_CHECK(mt_slice_eq(doc->routing, routed ? MT_SLICE("r") : (mt_slice){NULL, 0}), "its routing");
    MT_CHECK(doc->revision == items[routed == mt_slice_eq(items[0].id, MT_SLICE("b"))].external_gte, "its version");
  }
  mt_page_free(copied);
  mt_page_free(page);
  mt_shards_deinit(&all);
  mt_drop_index(f, target);
  strcpy(f->index, source);
}

const mt_case mt_cases_span[] = {
    {"span: numbers of shards", numbers_of_shards},
    {"span: shards of no index", shards_of_none},
    {"span: every live document is in its row", rows},
    {"span: bounds inside rows", bounds},
    {"span: found by id", found_by_id},
    {"span: what cannot be asked for", out_of_bounds},
    {"span: its end, and from the beginning", end_of_range},
    {"copy: versions only grow", versions_grow},
    {"copy: over what others have written", others_write},
    {"copy: only of an index or a delete", versions_of_others},
    {"copy: into another index", copies},
    {0},
};
