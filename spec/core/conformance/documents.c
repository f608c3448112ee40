/* Single documents: the four writes with and without compare-and-set, and what comes back. */
#include "conformance/conformance.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPECT_WRITE(f, item, result_, status_)                                                    \
  do {                                                                                             \
    mt_write w_ = mt_write_one(f, item);                                                           \
    MT_CHECK(w_.result == (result_) && w_.status == (status_), "result %d, status %d, %s: %s",     \
             (int)w_.result, w_.status, w_.type, w_.reason);                                       \
    last = w_;                                                                                     \
  } while (0)

static mt_write with_version(mt_write w, mt_version v) {
  w.if_version = v;
  return w;
}

static bool later(mt_version a, mt_version b) {
  return mt_version_fence(a) > mt_version_fence(b);
}

static void writes(mt_fixture *f) {
  mt_write last;
  mt_make_index(f, 1);
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_CREATE, "a", "{\"n\":1}"), MT_WRITE_APPLIED, 201);
  mt_version first = last.version;
  MT_CHECK(first.term >= 1, "the version of a write has a term");
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_CREATE, "a", "{\"n\":2}"), MT_WRITE_CONFLICT, 409);
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":3}"), MT_WRITE_APPLIED, 200);
  MT_CHECK(later(last.version, first), "versions grow");
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_INDEX, "b", "{\"n\":4}"), MT_WRITE_APPLIED, 201);
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_UPDATE, "a", "{\"doc\":{\"m\":5}}"), MT_WRITE_APPLIED, 200);
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_UPDATE, "a", "{\"doc\":{\"m\":5}}"), MT_WRITE_NOOP, 200);
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_UPDATE, "none", "{\"doc\":{\"m\":5}}"), MT_WRITE_MISSING,
               404);
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_DELETE, "a", NULL), MT_WRITE_APPLIED, 200);
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_DELETE, "a", NULL), MT_WRITE_MISSING, 404);
  MT_CHECK(!mt_get(f, MT_SLICE("a"), NULL, NULL), "a deleted document is gone at once");
  EXPECT_WRITE(f, mt_write_of(MT_WRITE_CREATE, "a", "{}"), MT_WRITE_APPLIED, 201);
}

static void compare_and_set(mt_fixture *f) {
  mt_write last, index = mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":1}");
  mt_write update = mt_write_of(MT_WRITE_UPDATE, "a", "{\"doc\":{\"x\":1}}");
  mt_write delete = mt_write_of(MT_WRITE_DELETE, "a", NULL);
  mt_make_index(f, 1);
  EXPECT_WRITE(f, index, MT_WRITE_APPLIED, 201);
  mt_version old = last.version;
  EXPECT_WRITE(f, with_version(index, old), MT_WRITE_APPLIED, 200);
  mt_version now = last.version;
  MT_CHECK(later(now, old), "versions grow");
  EXPECT_WRITE(f, with_version(index, old), MT_WRITE_CONFLICT, 409);
  EXPECT_WRITE(f, with_version(update, old), MT_WRITE_CONFLICT, 409);
  EXPECT_WRITE(f, with_version(delete, old), MT_WRITE_CONFLICT, 409);
  EXPECT_WRITE(f, with_version(delete, (mt_version){now.seq_no, now.term + 1}), MT_WRITE_CONFLICT,
               409);
  mt_version read;
  MT_CHECK(mt_get(f, MT_SLICE("a"), NULL, &read), "refused writes change nothing");
  MT_CHECK(read.seq_no == now.seq_no && read.term == now.term,
           "a get gives the version of the write");
  EXPECT_WRITE(f, with_version(update, now), MT_WRITE_APPLIED, 200);
  now = last.version;
  EXPECT_WRITE(f, with_version(delete, now), MT_WRITE_APPLIED, 200);
  MT_CHECK(later(last.version, now), "a delete is a write");
  now = last.version;
  EXPECT_WRITE(f, with_version(index, now), MT_WRITE_CONFLICT, 409);
  EXPECT_WRITE(f, index, MT_WRITE_APPLIED, 201);
  MT_CHECK(later(last.version, now), "versions grow over a delete");
}

static void updates_merge(mt_fixture *f) {
  static const struct {
    const char *before, *doc, *after;
  } rows[] = {
      {"{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
      {"{\"a\":1,\"o\":{\"x\":1,\"y\":[1]}}", "{\"o\":{\"y\":[],\"z\":{}}}",
       "{\"a\":1,\"o\":{\"x\":1,\"y\":[],\"z\":{}}}"},
      {"{\"a\":{\"b\":1}}", "{\"a\":7}", "{\"a\":7}"},
      {"{\"a\":7}", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
      {"{\"a\":1}", "{\"a\":null}", "{\"a\":null}"},
      {"{\"big\":9223372036854775807}", "{\"s\":\"\\u00fc\\\"\"}",
       "{\"big\":9223372036854775807,\"s\":\"\\u00fc\\\"\"}"},
      {"{\"a\":[{\"x\":1}]}", "{\"a\":[{\"y\":2}]}", "{\"a\":[{\"y\":2}]}"},
      {"{}", "{\"deep\":{\"er\":{\"est\":true}}}", "{\"deep\":{\"er\":{\"est\":true}}}"},
  };
  mt_make_index(f, 1);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char body[256];
    snprintf(body, sizeof body, "{\"doc\":%s}", rows[i].doc);
    mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "a", rows[i].before),
                        mt_write_of(MT_WRITE_UPDATE, "a", body),
                        mt_write_of(MT_WRITE_UPDATE, "a", body)};
    mt_bulk_run(f, items, 3);
    MT_CHECK(items[1].result == MT_WRITE_APPLIED, "row %zu: %d %s", i, items[1].status,
             items[1].reason);
    MT_CHECK(items[2].result == MT_WRITE_NOOP, "row %zu again: %d", i, (int)items[2].result);
    mt_buf seen;
    mt_buf_init(&seen, 4096);
    mt_get(f, MT_SLICE("a"), &seen, NULL);
    MT_CHECK(mt_same_json(mt_buf_slice(&seen), rows[i].after), "row %zu: %s", i, seen.p);
    mt_buf_deinit(&seen);
  }
}

static void upserts(mt_fixture *f) {
  mt_write last;
  mt_write plain = mt_write_of(MT_WRITE_UPDATE, "u", "{\"doc\":{\"a\":1},\"doc_as_upsert\":true}");
  mt_write other = mt_write_of(MT_WRITE_UPDATE, "o", "{\"doc\":{\"a\":1},\"upsert\":{\"b\":2}}");
  mt_make_index(f, 1);
  EXPECT_WRITE(f, plain, MT_WRITE_APPLIED, 201);
  MT_CHECK(last.version.term >= 1, "with a version");
  EXPECT_WRITE(f, plain, MT_WRITE_NOOP, 200);
  EXPECT_WRITE(f, other, MT_WRITE_APPLIED, 201);
  EXPECT_WRITE(f, other, MT_WRITE_APPLIED, 200);
  mt_buf seen;
  mt_buf_init(&seen, 4096);
  mt_get(f, MT_SLICE("o"), &seen, NULL);
  MT_CHECK(mt_same_json(mt_buf_slice(&seen), "{\"a\":1,\"b\":2}"), "%s", seen.p);
  mt_buf_deinit(&seen);
  plain = mt_write_of(MT_WRITE_UPDATE, "none", "{\"doc\":{\"a\":1}}");
  EXPECT_WRITE(f, with_version(plain, (mt_version){1, 1}), MT_WRITE_MISSING, 404);
  plain = mt_write_of(MT_WRITE_DELETE, "none", NULL);
  EXPECT_WRITE(f, with_version(plain, (mt_version){1, 1}), MT_WRITE_CONFLICT, 409);
}

static const char *const sources[] = {
    "{}",
    "{\"z\":1,\"a\":2,\"m\":{\"z\":[],\"a\":{}}}",
    "{\"i\":1234567890123456789,\"j\":-9223372036854775808,\"k\":9223372036854775807,"
    "\"u\":18446744073709551615}",
    "{\"f\":1.0,\"g\":1e10,\"h\":-0.0,\"p\":0.1000000000000000055511151231257827}",
    "{\"empty\":[],\"none\":{},\"null\":null,\"t\":true,\"f\":false,\"nested\":[[],[{}],[null]]}",
    "{\"esc\":\"\\u00fc\\u20ac \\\\ \\\" \\/ \\b\\f\\n\\r\\t "
    "\\ud83d\\ude00\",\"raw\":\"\xc3\xbc\xe2\x82\xac\"}",
    "{ \"spaces\" :  [ 1 ,  2 ] ,\t\"tab\" : {  } }",
    "{\"a.b\":1,\"a\\u002ec\":2,\"\\u00fc\":3,\"a b\":4}",
    "{\"long\":\"" /* filled up by the case */,
};

static void check_bytes(mt_fixture *f, const char *source) {
  mt_write w = mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "bytes", source));
  MT_CHECK(w.result == MT_WRITE_APPLIED, "%.80s: %d %s: %s", source, w.status, w.type, w.reason);
  mt_buf seen;
  mt_buf_init(&seen, 1 << 20);
  mt_get(f, MT_SLICE("bytes"), &seen, NULL);
  MT_CHECK(mt_slice_eq(mt_buf_slice(&seen), mt_slice_of(source)), "wrote %.200s\n  read  %.200s",
           source, seen.p);
  mt_buf_deinit(&seen);
}

static void bytes_unchanged(mt_fixture *f) {
  size_t n = sizeof sources / sizeof *sources;
  mt_make_index(f, 1);
  /* An array where the mapping says object would be refused: these sources avoid mapped fields. */
  for (size_t i = 0; i + 1 < n; i++) check_bytes(f, sources[i]);
  mt_buf large;
  mt_buf_init(&large, 1 << 20);
  mt_buf_adds(&large, sources[n - 1]);
  while (large.n < 300000) mt_buf_adds(&large, "0123456789 \\n \xf0\x9f\x98\x80 ");
  mt_buf_adds(&large, "\"}");
  check_bytes(f, large.p);
  mt_buf_deinit(&large);
}

/* Elasticsearch may refuse such a source, for itself alone; who takes it keeps it. */
static void invalid_utf8(mt_fixture *f) {
  static const char source[] = "{\"s\":\"\xff\xfe \xc3 \xe2\x82\"}";
  mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "x", "{\"s\":1}"),
                      mt_write_of(MT_WRITE_INDEX, "bad", source),
                      mt_write_of(MT_WRITE_INDEX, "y", "{\"s\":2}")};
  mt_make_index(f, 1);
  mt_bulk_run(f, items, 3);
  MT_CHECK(items[0].result == MT_WRITE_APPLIED && items[2].result == MT_WRITE_APPLIED,
           "the items around a bad one: %d, %d", items[0].status, items[2].status);
  if (items[1].result == MT_WRITE_REJECTED) return;
  MT_CHECK(items[1].result == MT_WRITE_APPLIED, "%d %s", items[1].status, items[1].reason);
  mt_buf seen;
  mt_buf_init(&seen, 4096);
  mt_get(f, MT_SLICE("bad"), &seen, NULL);
  MT_CHECK(mt_slice_eq(mt_buf_slice(&seen), mt_slice_of(source)), "read %s", seen.p);
  mt_buf_deinit(&seen);
}

static void mget_order(mt_fixture *f) {
  enum { N = 300 };
  static char names[N][16];
  mt_slice ids[N];
  mt_make_index(f, 3);
  mt_fill(f, 200);
  for (size_t i = 0; i < N; i++) { /* about a third missing, some twice, in no order */
    snprintf(names[i], sizeof names[i], "d%zu", mt_test_below(&f->random, 300));
    ids[i] = mt_slice_of(names[i]);
  }
  mt_mget r = {.index = f->index, .ids = ids, .n = N};
  f->s->docs->mget(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(r.page->n == N, "%zu answers", r.page->n);
  for (size_t i = 0; i < N; i++) {
    mt_doc *doc = &r.page->docs[i];
    unsigned long k = strtoul(names[i] + 1, NULL, 10);
    char want[64];
    snprintf(want, sizeof want, "{\"path\":\"/dir/%s\",", names[i]);
    MT_CHECK(mt_slice_eq(doc->id, ids[i]), "answer %zu is %.*s", i, (int)doc->id.n, doc->id.p);
    MT_CHECK(doc->found == (k < 200), "%s found: %d", names[i], doc->found);
    if (!doc->found) continue;
    MT_CHECK(mt_slice_starts(doc->source, mt_slice_of(want)), "%.*s", (int)doc->source.n,
             doc->source.p);
    MT_CHECK(doc->version.term >= 1, "%s has a version", names[i]);
  }
  mt_mget bare = {.index = f->index, .ids = ids, .n = N, .no_source = true};
  f->s->docs->mget(f->s, &bare);
  MT_OK(f, bare);
  for (size_t i = 0; i < N; i++) {
    const mt_doc *with = &r.page->docs[i], *d = &bare.page->docs[i];
    MT_CHECK(d->found == with->found && d->version.seq_no == with->version.seq_no &&
                 d->version.term == with->version.term && !d->source.n,
             "document %zu without its source", i);
  }
  mt_mget_deinit(&bare);
  mt_mget_deinit(&r);
}

static void mget_nothing(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_mget r = {.index = f->index};
  f->s->docs->mget(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(!r.page || r.page->n == 0, "no ids, no answers");
  mt_mget_deinit(&r);
}

static void counts(mt_fixture *f) {
  mt_make_index(f, 3);
  MT_CHECK(mt_count_of(f, NULL) == 0, "an empty index counts 0");
  mt_fill(f, 301);
  MT_CHECK(mt_count_of(f, NULL) == 301, "all");
  MT_CHECK(mt_count_of(f, "{\"match_all\":{}}") == 301, "match_all");
  MT_CHECK(mt_count_of(f, "{\"term\":{\"tag\":\"t0\"}}") == 61, "term");
  mt_write_one(f, mt_write_of(MT_WRITE_DELETE, "d0", NULL));
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "d1", "{\"tag\":\"t0\"}"));
  mt_refresh_index(f);
  MT_CHECK(mt_count_of(f, NULL) == 300, "one less");
  MT_CHECK(mt_count_of(f, "{\"term\":{\"tag\":\"t0\"}}") == 61, "one went, one came");
}

static void describes(mt_fixture *f) {
  mt_describe r = {.index = f->index};
  f->s->docs->describe(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(!r.exists, "it is not there yet");
  mt_describe_deinit(&r);
  mt_make_index(f, 1);
  r = (mt_describe){.index = f->index};
  f->s->docs->describe(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(r.exists && r.shards >= 1, "exists %d, shards %u", r.exists, r.shards);
  MT_CHECK(!r.source_disabled && !r.source_filtered && !r.source_synthetic && !r.final_pipeline &&
               !r.data_stream,
           "a plain index is safe to write");
  MT_CHECK(!strcmp(r.name, f->index), "named %s", r.name);
  json_t *root = json_loads(r.json ? r.json : "", 0, NULL);
  json_t *mine = json_object_get(root, f->index);
  MT_CHECK(json_is_object(json_object_get(mine, "mappings")), "%s", r.json);
  json_decref(root);
  mt_describe_deinit(&r);
}

static void create_and_drop(mt_fixture *f) {
  mortise_status s = mt_drop_index(f, f->index);
  MT_CHECK(s == MORTISE_NOT_FOUND, "drop of a missing index: %s", mortise_status_name(s));
  mt_make_index(f, 1);
  s = mt_create_index(f, f->index, NULL);
  MT_CHECK(s == MORTISE_CONFLICT, "create of an existing index: %s", mortise_status_name(s));
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "a", "{}"));
  s = mt_drop_index(f, f->index);
  MT_CHECK(s == MORTISE_OK, "drop: %s", mortise_status_name(s));
  s = mt_create_index(f, f->index, NULL);
  MT_CHECK(s == MORTISE_OK, "create without a body: %s", mortise_status_name(s));
  MT_CHECK(!mt_get(f, MT_SLICE("a"), NULL, NULL), "a new index is empty");
}

static void missing_index(mt_fixture *f) {
  mt_count count = {.index = f->index};
  f->s->docs->count(f->s, &count);
  MT_EXPECT(f, count, MORTISE_NOT_FOUND);
  mt_refresh refresh = {.index = f->index};
  f->s->docs->refresh(f->s, &refresh);
  MT_EXPECT(f, refresh, MORTISE_NOT_FOUND);
  mt_scan_open open = {.index = f->index};
  f->s->docs->scan_open(f->s, &open);
  MT_EXPECT(f, open, MORTISE_NOT_FOUND);
  mt_search search = {.index = f->index, .body = MT_SLICE("{\"query\":{\"match_all\":{}}}")};
  f->s->docs->search(f->s, &search);
  MT_EXPECT(f, search, MORTISE_NOT_FOUND);
  mt_search_deinit(&search);
}

static void searches(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_fill(f, 50);
  mt_search r = {.index = f->index,
                 .body = MT_SLICE("{\"query\":{\"term\":{\"tag\":\"t1\"}},\"size\":3}")};
  f->s->docs->search(f->s, &r);
  MT_OK(f, r);
  json_t *root = json_loadb(r.answer, r.answer_n, 0, NULL);
  json_t *hits = json_object_get(json_object_get(root, "hits"), "hits");
  json_t *total = json_object_get(json_object_get(json_object_get(root, "hits"), "total"), "value");
  MT_CHECK(json_array_size(hits) == 3, "%s", r.answer);
  MT_CHECK(json_integer_value(total) == 10, "%s", r.answer);
  for (size_t i = 0; i < 3; i++) {
    json_t *hit = json_array_get(hits, i);
    const char *tag = json_string_value(json_object_get(json_object_get(hit, "_source"), "tag"));
    MT_CHECK(json_string_value(json_object_get(hit, "_id")), "a hit has an id");
    MT_CHECK(tag && !strcmp(tag, "t1"), "hit %zu: tag %s", i, tag ? tag : "none");
  }
  json_decref(root);
  mt_search_deinit(&r);
}

const mt_case mt_cases_documents[] = {
    {"documents: create, index, update, delete", writes},
    {"documents: compare-and-set", compare_and_set},
    {"documents: partial updates merge", updates_merge},
    {"documents: upserts", upserts},
    {"documents: sources come back byte for byte", bytes_unchanged},
    {"documents: invalid UTF-8 concerns its item only", invalid_utf8},
    {"documents: mget answers in order", mget_order},
    {"documents: mget of nothing", mget_nothing},
    {"documents: count is exact after a refresh", counts},
    {"documents: describe", describes},
    {"documents: create and drop an index", create_and_drop},
    {"documents: a missing index is NOT_FOUND", missing_index},
    {"documents: search", searches},
    {0},
};
