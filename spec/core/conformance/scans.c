/* Scans: everything that matches, each once, exactly as many as announced. */
#include "conformance/conformance.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEN_MAX = 20000 };

typedef struct scan_result {
  uint64_t total, delivered;
  uint64_t gone; /* of these: deleted since the opening */
  size_t pages, largest;
  unsigned char seen[SEEN_MAX]; /* by the number in the id "dNUMBER" */
} scan_result;

static size_t number_of(const mt_doc *doc) {
  char text[24] = "";
  MT_CHECK(doc->id.n > 1 && doc->id.n < sizeof text && doc->id.p[0] == 'd', "id %.*s",
           (int)doc->id.n, doc->id.p);
  memcpy(text, doc->id.p + 1, doc->id.n - 1);
  size_t k = strtoul(text, NULL, 10);
  MT_CHECK(k < SEEN_MAX, "id %s", text);
  return k;
}

static void take_page(const mt_page *page, bool no_source, scan_result *out) {
  MT_CHECK(page->n > 0, "a page that is not the end has documents");
  for (size_t i = 0; i < page->n; i++) {
    const mt_doc *doc = &page->docs[i];
    size_t k = number_of(doc);
    MT_CHECK(!out->seen[k]++, "d%zu came twice", k);
    MT_CHECK(doc->version.term >= 1, "d%zu has a version", k);
    out->gone += !doc->found;
    if (!doc->found) continue;
    MT_CHECK(no_source == (doc->source.n == 0), "d%zu: source of %zu bytes", k, doc->source.n);
    if (!no_source)
      MT_CHECK(doc->source.p[0] == '{', "d%zu: %.*s", k, (int)doc->source.n, doc->source.p);
  }
  out->delivered += page->n;
  out->pages++;
  if (page->n > out->largest) out->largest = page->n;
}

/* A small server may have no memory for one more scan at this moment, and says so. */
static void open_scan(mt_fixture *f, mt_scan_open *how) {
  for (unsigned tries = 0; tries < 40; tries++) {
    f->s->docs->scan_open(f->s, how);
    if (!mt_test_pump(f->s, &how->req) || !how->req.error.retryable) break;
    mt_test_sleep_ms(500);
    how->req = (mt_req){0};
  }
  MT_OK(f, *how);
}

static scan_result *scan(mt_fixture *f, mt_scan_open how) {
  static scan_result result;
  result = (scan_result){0};
  how.index = f->index;
  open_scan(f, &how);
  result.total = how.total;
  for (;;) {
    mt_scan_next next = {.scan = how.scan};
    f->s->docs->scan_next(f->s, &next);
    MT_OK(f, next);
    if (!next.page) break;
    take_page(next.page, how.no_source, &result);
    mt_page_free(next.page);
  }
  f->s->docs->scan_close(f->s, how.scan);
  MT_CHECK(result.delivered == result.total, "%llu announced, %llu delivered",
           (unsigned long long)result.total, (unsigned long long)result.delivered);
  MT_CHECK(!result.gone, "nobody deleted, but %llu are gone", (unsigned long long)result.gone);
  return &result;
}

static void expect_all(mt_fixture *f, mt_scan_open how, size_t n) {
  scan_result *r = scan(f, how);
  MT_CHECK(r->total == n, "%llu of %zu", (unsigned long long)r->total, n);
  for (size_t i = 0; i < n; i++) MT_CHECK(r->seen[i], "d%zu did not come", i);
}

static void page_sizes(mt_fixture *f) {
  static const uint32_t sizes[] = {1, 2, 3, 7, 64, 1000, 0};
  mt_make_index(f, 3);
  expect_all(f, (mt_scan_open){0}, 0);
  mt_fill(f, 131);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (uint32_t slices = 0; slices <= (sizes[i] > 2 ? 3 : 0); slices++) {
      expect_all(f, (mt_scan_open){.page = sizes[i], .slices = slices}, 131);
    }
    scan_result *r = scan(f, (mt_scan_open){.page = sizes[i], .slices = 1});
    MT_CHECK(!sizes[i] || r->largest <= sizes[i], "a page of %zu, asked for %u", r->largest,
             sizes[i]);
  }
  expect_all(f, (mt_scan_open){.page = 7, .no_source = true}, 131);
}

static void many_pages(mt_fixture *f) {
  mt_make_index(f, 3);
  mt_fill(f, 6000);
  expect_all(f, (mt_scan_open){.page = 97}, 6000);
  expect_all(f, (mt_scan_open){.page = 1000, .slices = 2}, 6000);
  expect_all(f, (mt_scan_open){.no_source = true}, 6000);
}

static bool in_ids(size_t k) {
  return k == 3 || k == 17 || k == 99;
}
static bool is_t3(size_t k) {
  return k % 5 == 3;
}
static bool is_t1_or_t2(size_t k) {
  return k % 5 == 1 || k % 5 == 2;
}
static bool starts_d1(size_t k) {
  return k == 1 || (k >= 10 && k < 20) || k >= 100;
}
static bool from_20_to_30(size_t k) {
  return k >= 20 && k < 30;
}
static bool above_90(size_t k) {
  return k > 90;
}
static bool has_opt(size_t k) {
  return k % 3 == 0;
}
static bool is_even(size_t k) {
  return k % 2 == 0;
}
static bool t3_even_no_opt(size_t k) {
  return is_t3(k) && is_even(k) && !has_opt(k);
}
static bool t0_or_small(size_t k) {
  return k % 5 == 0 || k < 7;
}
static bool any(size_t k) {
  return k < SEEN_MAX;
}
static bool never(size_t k) {
  return k > SEEN_MAX;
}
static bool is_42(size_t k) {
  return k == 42;
}

static const struct {
  const char *query;
  bool (*matches)(size_t k);
} queries[] = {
    {"{\"match_all\":{}}", any},
    {"{\"ids\":{\"values\":[\"d3\",\"d17\",\"d99\",\"d777\"]}}", in_ids},
    {"{\"ids\":{\"values\":[]}}", never},
    {"{\"term\":{\"tag\":\"t3\"}}", is_t3},
    {"{\"term\":{\"tag\":{\"value\":\"t3\"}}}", is_t3},
    {"{\"term\":{\"n\":42}}", is_42},
    {"{\"term\":{\"path\":\"/dir/d42\"}}", is_42},
    {"{\"terms\":{\"tag\":[\"t1\",\"t2\",\"no\"]}}", is_t1_or_t2},
    {"{\"terms\":{\"n\":[3,17,99]}}", in_ids},
    {"{\"prefix\":{\"path\":\"/dir/d1\"}}", starts_d1},
    {"{\"prefix\":{\"path\":{\"value\":\"/dir/d1\"}}}", starts_d1},
    {"{\"prefix\":{\"path\":\"/dir/%\"}}", never},
    {"{\"prefix\":{\"path\":\"/dir/_\"}}", never},
    {"{\"prefix\":{\"path\":\"/DIR/\"}}", never},
    {"{\"range\":{\"n\":{\"gte\":20,\"lt\":30}}}", from_20_to_30},
    {"{\"range\":{\"n\":{\"gt\":19,\"lte\":29}}}", from_20_to_30},
    {"{\"range\":{\"n\":{\"gt\":90}}}", above_90},
    {"{\"exists\":{\"field\":\"opt\"}}", has_opt},
    {"{\"exists\":{\"field\":\"sub.k\"}}", is_even},
    {"{\"term\":{\"sub.k\":\"even\"}}", is_even},
    {"{\"bool\":{\"must\":[{\"term\":{\"tag\":\"t3\"}}],\"filter\":{\"exists\":{\"field\":\"sub."
     "k\"}},"
     "\"must_not\":[{\"exists\":{\"field\":\"opt\"}}]}}",
     t3_even_no_opt},
    {"{\"bool\":{\"should\":[{\"term\":{\"tag\":\"t0\"}},{\"range\":{\"n\":{\"lt\":7}}}]}}",
     t0_or_small},
    {"{\"bool\":{\"should\":[{\"term\":{\"tag\":\"t0\"}},{\"range\":{\"n\":{\"lt\":7}}}],"
     "\"minimum_should_match\":1,\"filter\":[{\"match_all\":{}}]}}",
     t0_or_small},
    {"{\"bool\":{\"filter\":[{\"term\":{\"tag\":\"t3\"}}],\"should\":[{\"term\":{\"tag\":\"t0\"}}]}"
     "}",
     is_t3},
    {"{\"bool\":{}}", any},
};

static void all_queries(mt_fixture *f) {
  enum { N = 120 };
  mt_make_index(f, 3);
  mt_fill(f, N);
  for (size_t q = 0; q < sizeof queries / sizeof *queries; q++) {
    size_t want = 0;
    scan_result *r = scan(f, (mt_scan_open){.query = mt_slice_of(queries[q].query), .page = 11});
    for (size_t k = 0; k < N; k++) {
      bool matches = queries[q].matches(k);
      want += matches;
      MT_CHECK(matches == !!r->seen[k], "%s: d%zu came: %d", queries[q].query, k, r->seen[k]);
    }
    MT_CHECK(r->total == want, "%s: %llu, not %zu", queries[q].query, (unsigned long long)r->total,
             want);
    MT_CHECK(mt_count_of(f, queries[q].query) == want, "%s: counted", queries[q].query);
  }
}

#define LONG_100                                                                                   \
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
  "aaaaaa"
#define LONG LONG_100 LONG_100 LONG_100 LONG_100 LONG_100 LONG_100

static const char *const field_docs[] = {
    "{\"tag\":[\"x\",\"y\"]}",  "{\"tag\":\"x\"}",
    "{\"tag\":null}",           "{\"tag\":[]}",
    "{\"path\":\"" LONG "1\"}", "{\"path\":\"" LONG "2\"}",
    "{\"n\":9007199254740993}", "{\"n\":9007199254740992}",
    "{\"sub.k\":\"even\"}",     "{\"sub\":[{\"k\":\"odd\"},{\"k\":\"even\"}]}",
    "{\"tag\":\"X\"}",          "{\"tag\":\"\\u00fc\"}",
};

typedef struct field_row {
  const char *query, *ids; /* one letter a document: a is d0 */
} field_row;

static const field_row fields_before[] = {
    {"{\"term\":{\"tag\":\"x\"}}", "ab"},
    {"{\"term\":{\"tag\":\"y\"}}", "a"},
    {"{\"terms\":{\"tag\":[\"x\",\"y\"]}}", "ab"},
    {"{\"exists\":{\"field\":\"tag\"}}", "abkl"},
    {"{\"bool\":{\"must_not\":{\"term\":{\"tag\":\"y\"}},\"filter\":{\"term\":{\"tag\":\"x\"}}}}",
     "b"},
    {"{\"term\":{\"path\":\"" LONG "1\"}}", "e"},
    {"{\"prefix\":{\"path\":\"" LONG "\"}}", "ef"},
    {"{\"prefix\":{\"path\":\"" LONG "2\"}}", "f"},
    {"{\"prefix\":{\"path\":\"" LONG "12\"}}", ""},
    {"{\"term\":{\"n\":9007199254740993}}", "g"},
    {"{\"range\":{\"n\":{\"gte\":9007199254740993}}}", "g"},
    {"{\"range\":{\"n\":{\"lt\":9007199254740993}}}", "h"},
    {"{\"term\":{\"sub.k\":\"even\"}}", "ij"},
    {"{\"exists\":{\"field\":\"sub.k\"}}", "ij"},
    {"{\"exists\":{\"field\":\"sub\"}}", "ij"},
    {"{\"term\":{\"tag\":\"\xc3\xbc\"}}", "l"},
    {"{\"term\":{\"tag\":\"\\u00fc\"}}", "l"},
    {"{\"range\":{\"tag\":{\"gte\":\"x\"}}}", "abl"},
    {"{\"range\":{\"tag\":{\"gt\":\"x\",\"lte\":\"y\"}}}", "a"},
};

static const field_row fields_after[] = {
    {"{\"term\":{\"tag\":\"x\"}}", "c"},
    {"{\"term\":{\"tag\":\"y\"}}", ""},
    {"{\"prefix\":{\"tag\":\"z\"}}", "b"},
    {"{\"exists\":{\"field\":\"tag\"}}", "bckl"},
};

static void expect_fields(mt_fixture *f, const field_row *rows, size_t n) {
  for (size_t i = 0; i < n; i++) {
    scan_result *r = scan(f, (mt_scan_open){.query = mt_slice_of(rows[i].query), .page = 2});
    for (size_t k = 0; k < sizeof field_docs / sizeof *field_docs; k++) {
      bool want = strchr(rows[i].ids, (int)('a' + k)) != NULL;
      MT_CHECK(!!r->seen[k] == want, "%.100s: d%zu came: %d", rows[i].query, k, r->seen[k]);
    }
  }
}

/* Several values, none, long ones, numbers that no double holds; and what writes make of them. */
static void fields_follow(mt_fixture *f) {
  enum { N = sizeof field_docs / sizeof *field_docs };
  char ids[N][8];
  mt_write items[N];
  mt_make_index(f, 2);
  for (size_t i = 0; i < N; i++) {
    snprintf(ids[i], sizeof ids[i], "d%zu", i);
    items[i] = mt_write_of(MT_WRITE_INDEX, ids[i], field_docs[i]);
  }
  mt_bulk_run(f, items, N);
  for (size_t i = 0; i < N; i++)
    MT_CHECK(items[i].result == MT_WRITE_APPLIED, "d%zu: %s", i, items[i].reason);
  mt_refresh_index(f);
  expect_fields(f, fields_before, sizeof fields_before / sizeof *fields_before);
  mt_write_one(f, mt_write_of(MT_WRITE_DELETE, "d0", NULL));
  mt_write_one(f, mt_write_of(MT_WRITE_UPDATE, "d1", "{\"doc\":{\"tag\":\"zz\"}}"));
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "d2", "{\"tag\":[null,\"x\"]}"));
  mt_refresh_index(f);
  expect_fields(f, fields_after, sizeof fields_after / sizeof *fields_after);
}

static void unknown_clause(mt_fixture *f) {
  static const char query[] = "{\"bool\":{\"must\":[{\"no_such_clause\":{\"path\":\"x\"}}]}}";
  mt_make_index(f, 1);
  mt_fill(f, 5);
  mt_count count = {.index = f->index, .query = mt_slice_of(query)};
  f->s->docs->count(f->s, &count);
  MT_CHECK(mt_test_pump(f->s, &count.req), "a clause that nobody knows counts %llu",
           (unsigned long long)count.count);
  MT_CHECK(strstr(count.req.error.message, "no_such_clause") ||
               strstr(count.req.error.reason, "no_such_clause"),
           "the error names it: %s: %s", count.req.error.message, count.req.error.reason);
  mt_scan_open open = {.index = f->index, .query = mt_slice_of(query)};
  f->s->docs->scan_open(f->s, &open);
  MT_CHECK(mt_test_pump(f->s, &open.req), "nor does it scan");
  MT_CHECK(!open.scan, "a failed opening leaves no scan");
}

static void unsupported_clause(mt_fixture *f) {
  if (f->place->elastic) return;
  mt_make_index(f, 1);
  mt_count count = {.index = f->index,
                    .query = MT_SLICE("{\"fuzzy\":{\"path\":{\"value\":\"x\"}}}")};
  f->s->docs->count(f->s, &count);
  MT_EXPECT(f, count, MORTISE_UNSUPPORTED);
  MT_CHECK(strstr(count.req.error.message, "fuzzy"), "the error names it: %s",
           count.req.error.message);
}

/* A scan returns the versions that compare-and-set needs. */
static void versions_for_writing(mt_fixture *f) {
  enum { N = 40 };
  mt_make_index(f, 3);
  mt_fill(f, N);
  mt_scan_open open = {.index = f->index, .page = 9};
  f->s->docs->scan_open(f->s, &open);
  MT_OK(f, open);
  for (;;) {
    mt_scan_next next = {.scan = open.scan};
    f->s->docs->scan_next(f->s, &next);
    MT_OK(f, next);
    if (!next.page) break;
    for (size_t i = 0; i < next.page->n; i++) {
      mt_doc *doc = &next.page->docs[i];
      MT_CHECK(mt_slice_eq(doc->index, mt_slice_of(f->index)), "its index: %.*s", (int)doc->index.n,
               doc->index.p);
      mt_write w = {.kind = MT_WRITE_INDEX,
                    .index = doc->index,
                    .id = doc->id,
                    .body = MT_SLICE("{\"done\":1}"),
                    .if_version = doc->version};
      w = mt_write_one(f, w);
      MT_CHECK(w.result == MT_WRITE_APPLIED, "%.*s: %d %s", (int)doc->id.n, doc->id.p, w.status,
               w.reason);
    }
    mt_page_free(next.page);
  }
  f->s->docs->scan_close(f->s, open.scan);
}

static uint64_t scanned_revision(mt_fixture *f) {
  mt_refresh_index(f);
  mt_scan_open open = {.index = f->index, .revisions = true};
  f->s->docs->scan_open(f->s, &open);
  MT_OK(f, open);
  mt_scan_next next = {.scan = open.scan};
  f->s->docs->scan_next(f->s, &next);
  MT_OK(f, next);
  uint64_t revision = next.page->docs[0].revision;
  mt_page_free(next.page);
  f->s->docs->scan_close(f->s, open.scan);
  return revision;
}

static uint64_t got_revision(mt_fixture *f) {
  mt_slice id = MT_SLICE("d0");
  mt_mget get = {.index = f->index, .ids = &id, .n = 1};
  f->s->docs->mget(f->s, &get);
  MT_OK(f, get);
  uint64_t revision = get.page->docs[0].revision;
  mt_mget_deinit(&get);
  return revision;
}

/* Where a store counts the writes of a document, each counts once. */
static void counts_writes(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_fill(f, 1);
  for (uint64_t i = 1; i < 4; i++) {
    uint64_t scanned = scanned_revision(f), got = got_revision(f);
    MT_CHECK(scanned == got && (!got || got == i), "%llu and %llu after %llu writes",
             (unsigned long long)scanned, (unsigned long long)got, (unsigned long long)i);
    mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "d0", "{\"n\":1}"));
  }
}

/* A scan shows what there was at one moment: what is written while it runs neither joins it nor
 * breaks it. The embedded store reads each again: a deleted one comes, as not found. */
static void writes_meanwhile(mt_fixture *f) {
  enum { N = 200 };
  char id[16];
  mt_make_index(f, 3);
  mt_fill(f, N);
  mt_scan_open open = {.index = f->index, .page = 13};
  f->s->docs->scan_open(f->s, &open);
  MT_OK(f, open);
  MT_CHECK(open.total == N, "%llu", (unsigned long long)open.total);
  static scan_result r;
  r = (scan_result){0};
  uint64_t deleted = 0;
  for (size_t k = 0;; k++) {
    mt_scan_next next = {.scan = open.scan};
    f->s->docs->scan_next(f->s, &next);
    MT_OK(f, next);
    if (!next.page) break;
    take_page(next.page, false, &r);
    mt_page_free(next.page);
    snprintf(id, sizeof id, "d%zu", 1000 + k);
    mt_write_one(f, mt_write_of(MT_WRITE_CREATE, id, "{\"n\":1}"));
    snprintf(id, sizeof id, "d%zu", N - 1 - k);
    mt_write_one(f, mt_write_of(MT_WRITE_INDEX, id, "{\"n\":2}"));
    snprintf(id, sizeof id, "d%zu", N / 2 + k);
    deleted += mt_write_one(f, mt_write_of(MT_WRITE_DELETE, id, NULL)).result == MT_WRITE_APPLIED;
  }
  f->s->docs->scan_close(f->s, open.scan);
  for (size_t k = 0; k < N; k++) MT_CHECK(r.seen[k], "d%zu did not come", k);
  MT_CHECK(r.delivered == N, "%llu delivered", (unsigned long long)r.delivered);
  MT_CHECK(r.gone <= (f->place->elastic ? 0 : deleted), "%llu gone", (unsigned long long)r.gone);
}

static void closed_early(mt_fixture *f) {
  mt_make_index(f, 3);
  mt_fill(f, 100);
  for (size_t i = 0; i < 8; i++) {
    mt_scan_open open = {.index = f->index, .page = 3};
    f->s->docs->scan_open(f->s, &open);
    MT_OK(f, open);
    for (size_t k = 0; k < i; k++) {
      mt_scan_next next = {.scan = open.scan};
      f->s->docs->scan_next(f->s, &next);
      MT_OK(f, next);
      mt_page_free(next.page);
    }
    f->s->docs->scan_close(f->s, open.scan);
  }
  f->s->docs->scan_close(f->s, NULL);
  expect_all(f, (mt_scan_open){.page = 10}, 100);
}

/* ---- Against a writer --------------------------------------------------------------------------
 */

typedef struct writer {
  const mt_fixture *f;
  atomic_size_t acked; /* d0 ... d(acked-1) are acknowledged */
  atomic_bool stop, failed;
  size_t most;
} writer;

static bool write_some(mt_store *s, const char *index, size_t from, size_t n) {
  char ids[64][16];
  mt_write items[64];
  for (size_t i = 0; i < n; i++) {
    snprintf(ids[i], sizeof ids[i], "d%zu", from + i);
    items[i] = mt_write_of(MT_WRITE_CREATE, ids[i], "{\"path\":\"/w\"}");
  }
  mt_bulk r = {.index = index, .items = items, .n = n};
  s->docs->bulk(s, &r);
  if (mt_test_pump(s, &r.req)) return false;
  for (size_t i = 0; i < n; i++)
    if (items[i].result != MT_WRITE_APPLIED) return false;
  return true;
}

static void *writer_main(void *ctx) {
  writer *w = ctx;
  mt_test_random random = mt_test_random_for("writer");
  mt_test_store t;
  bool ok = mt_test_store_open(&t, w->f->place);
  while (ok && !w->stop && w->acked < w->most) {
    size_t n = 1 + mt_test_below(&random, 64);
    ok = write_some(t.store, w->f->index, w->acked, n);
    if (ok) w->acked += n;
  }
  w->failed = !ok;
  if (t.loop) mt_test_store_close(&t);
  return NULL;
}

static void misses_nothing_acknowledged(mt_fixture *f) {
  static writer w;
  w = (writer){.f = f, .most = f->place->elastic ? 4000 : 6000};
  pthread_t thread;
  mt_make_index(f, 3);
  MT_CHECK(!pthread_create(&thread, NULL, writer_main, &w), "a thread");
  const char *why = NULL;
  for (unsigned round = 0; round < 6 && !why; round++) {
    mt_test_sleep_ms(20);
    size_t acked = w.acked;
    mt_refresh_index(f);
    if (mt_count_of(f, NULL) < acked) why = "the count is less than was acknowledged";
    scan_result *r = scan(f, (mt_scan_open){.page = 7 + 36 * round});
    for (size_t k = 0; k < acked; k++)
      if (!r->seen[k]) why = "an acknowledged document did not come";
    if (w.failed) why = "the writer failed";
  }
  w.stop = true;
  pthread_join(thread, NULL);
  MT_CHECK(!why, "%s", why);
  MT_CHECK(!w.failed, "the writer failed");
  mt_refresh_index(f);
  expect_all(f, (mt_scan_open){.page = 501}, w.acked);
}

const mt_case mt_cases_scans[] = {
    {"scan: page sizes and slices", page_sizes},
    {"scan: many pages", many_pages},
    {"scan: queries", all_queries},
    {"scan: queries follow the fields", fields_follow},
    {"scan: a clause nobody knows is an error that names it", unknown_clause},
    {"scan: a clause SQLite does not do is named", unsupported_clause},
    {"scan: its versions serve compare-and-set", versions_for_writing},
    {"scan: its count of a document's writes grows by one", counts_writes},
    {"scan: writes meanwhile do not join", writes_meanwhile},
    {"scan: closed early", closed_early},
    {"scan: misses nothing that was acknowledged", misses_nothing_acknowledged},
    {0},
};
