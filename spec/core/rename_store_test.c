/* Renaming on every store: what it changes, what it leaves unchanged, and concurrent writers. */
#include "job/rename.h"
#include "transform/query.h"

#include "fake_docs.h"
#include "support/support.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/pump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEASE_MS = 60000 };
enum { FINE, LOST_BEFORE, LOST_AFTER };

typedef struct fixture {
  mt_test_store mine, theirs; /* the one renaming, and someone else's */
  mt_docs_ops ops;            /* those of `mine`, with a bulk that tests can disturb */
  const mt_docs_ops *real;
  char index[96];
  fake_lock lock;
  mt_rename rename;
  bool strict; /* as in the change's test */
  int bulks;
  void (*before_bulk)(struct fixture *f);
  int fate; /* of every second bulk, beginning with the first */
} fixture;

static mt_test_place place; /* where the tests run now */
static fixture *current;

/* ---- Meddling ------------------------------------------------------------------------------- */

typedef struct lost {
  mt_bulk inner;
  mt_bulk *outer;
  mt_post post;
} lost;

static void lose(void *ctx) {
  lost *l = ctx;
  mt_req *req = &l->outer->req;
  for (size_t i = 0; i < l->outer->n; i++) l->outer->items[i].result = MT_WRITE_NONE;
  mt_error_set(&req->error, MORTISE_UNAVAILABLE, "the connection broke");
  req->writes = req->error.ambiguous = true;
  free(l);
  mt_req_finish(req);
}

static void inner_done(void *ctx, mt_req *req) {
  (void)req;
  lose(ctx);
}

static void meddled_bulk(mt_store *s, mt_bulk *r) {
  fixture *f = current;
  f->bulks++;
  if (f->before_bulk) f->before_bulk(f);
  int fate = f->bulks % 2 ? f->fate : FINE;
  if (fate == FINE) {
    f->real->bulk(s, r);
    return;
  }
  lost *l = calloc(1, sizeof *l);
  l->outer = r;
  l->inner = *r;
  l->inner.req.done = inner_done;
  l->inner.req.ctx = l;
  l->post = (mt_post){.run = lose, .ctx = l};
  if (fate == LOST_AFTER)
    f->real->bulk(s, &l->inner);
  else
    mt_loop_post(s->loop, &l->post);
}

/* ---- Setting up ----------------------------------------------------------------------------- */

static void create(fixture *f, const char *settings, const char *mappings) {
  char body[1024];
  snprintf(body, sizeof body,
           "{\"settings\":{\"number_of_shards\":3,\"number_of_replicas\":0,"
           "\"refresh_interval\":\"30s\"%s},\"mappings\":{%s\"properties\":{\"path\":{\"type\":"
           "\"keyword\"}}}}",
           settings, mappings);
  mt_test_create_index(f->theirs.store, f->index, mt_slice_of(body));
}

static void open_fixture(fixture *f, const char *settings, const char *mappings) {
  static unsigned number;
  *f = (fixture){0};
  current = f;
  snprintf(f->index, sizeof f->index, "%s-rename%u", place.prefix, ++number);
  assert_true(mt_test_store_open(&f->mine, &place));
  assert_true(mt_test_store_open(&f->theirs, &place));
  f->real = f->mine.store->docs;
  f->ops = *f->real;
  f->ops.bulk = meddled_bulk;
  f->mine.store->docs = &f->ops;
  fake_lock_init(&f->lock, mt_env_system(), LEASE_MS);
  create(f, settings, mappings);
}

static void close_fixture(fixture *f) {
  mt_test_drop_index(f->theirs.store, f->index);
  mt_rename_deinit(&f->rename);
  mt_test_store_close(&f->mine);
  mt_test_store_close(&f->theirs);
}

static void put(fixture *f, const char *id, const char *routing, const char *source) {
  mt_test_put(f->theirs.store, f->index, id, routing, source);
}

static char *get(fixture *f, const char *id, const char *routing) {
  mt_slice ids = mt_slice_of(id), routings = mt_slice_of(routing);
  mt_mget r = {.index = f->index, .ids = &ids, .routing = &routings, .n = 1};
  f->theirs.store->docs->mget(f->theirs.store, &r);
  mt_test_must(f->theirs.store, &r.req);
  mt_doc *d = &r.page->docs[0];
  char *source = d->found ? mt_strndup(d->source.p, d->source.n) : mt_strdup("(none)");
  mt_mget_deinit(&r);
  return source;
}

static void expect(fixture *f, const char *id, const char *routing, const char *want) {
  char *is = get(f, id, routing);
  MT_CHECK(!strcmp(is, want), "%s: %s is %s, not %s", place.name, id, is, want);
  mt_free(is);
}

static uint64_t count(fixture *f, const char *path) {
  mt_buf query;
  mt_refresh refresh = {.index = f->index};
  f->theirs.store->docs->refresh(f->theirs.store, &refresh);
  mt_test_must(f->theirs.store, &refresh.req);
  mt_buf_init(&query, 4096);
  mt_prefix_query(&query, MT_SLICE("path"), mt_slice_of(path), (mt_slice){NULL, 0},
                  (mt_slice){NULL, 0});
  mt_count r = {.index = f->index, .query = mt_buf_slice(&query)};
  f->theirs.store->docs->count(f->theirs.store, &r);
  mt_test_must(f->theirs.store, &r.req);
  mt_buf_deinit(&query);
  return r.count;
}

/* n documents under /clinton with ids d0..., in one bulk of the store's. */
static void fill(fixture *f, size_t n) {
  mt_write *items = calloc(n, sizeof *items);
  char(*text)[2][96] = calloc(n, sizeof *text);
  for (size_t i = 0; i < n; i++) {
    snprintf(text[i][0], sizeof text[i][0], "d%zu", i);
    snprintf(text[i][1], sizeof text[i][1], "{\"n\": %zu, \"path\": \"/clinton/dir%zu/f%zu\"}", i,
             i % 10, i);
    items[i] = (mt_write){.kind = MT_WRITE_INDEX,
                          .id = mt_slice_of(text[i][0]),
                          .body = mt_slice_of(text[i][1]),
                          .skip_pipeline = true};
  }
  mt_bulk r = {.index = f->index, .items = items, .n = n};
  f->theirs.store->docs->bulk(f->theirs.store, &r);
  mt_test_must(f->theirs.store, &r.req);
  for (size_t i = 0; i < n; i++) assert_int_equal(items[i].result, MT_WRITE_APPLIED);
  free(items);
  free(text);
}

static const mt_change_result *run_from(fixture *f, const char *from, const char *to,
                                        uint32_t page) {
  mortise_error err;
  mt_rename_deinit(&f->rename);
  assert_int_equal(
      mt_rename_init(&f->rename, MT_SLICE("path"), mt_slice_of(from), mt_slice_of(to), &err),
      MORTISE_OK);
  f->rename.merge = f->rename.allow_empty = !f->strict;
  mt_change *c = &f->rename.change;
  c->store = f->mine.store;
  c->env = mt_env_system();
  c->permit = fake_permit(&f->lock);
  c->index = f->index;
  c->options.page = page;
  MT_CHECK(!mt_change_start(c, &err), "%s: %s", place.name, err.message);
  mt_loop_pump(f->mine.loop, &c->finished, mt_clock_boot_ms() + MT_TEST_HANG_MS, NULL);
  MT_CHECK(c->finished, "%s: the rename hangs", place.name);
  return &c->result;
}

static const mt_change_result *run(fixture *f, uint32_t page) {
  return run_from(f, "/clinton", "/projects/clinton", page);
}

static const mt_change_result *run_well(fixture *f, uint32_t page) {
  const mt_change_result *r = run(f, page);
  const mortise_error *e = &f->rename.change.error;
  MT_CHECK(!e->code, "%s: %s", place.name, e->message);
  MT_CHECK(count(f, "/clinton") == 0, "%s: some are left", place.name);
  return r;
}

/* ---- What it changes, and what it does not --------------------------------------------------- */

#define SAME_BYTES(path)                                                                           \
  "{ \"big\" : 1234567890123456789 ,\"list\":[ ],\"object\":{ },\"none\":null, \"path\" : "        \
  "\"" path "\\u00e9 \\/\" ,\"f\":1.50, \"z\":[[],{}], \"a\":\"\\ud83d\\ude00\" }"

static void test_bytes(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "", "\"dynamic\":false,");
  put(&f, "a", "r1", SAME_BYTES("/clinton/"));
  put(&f, "b", NULL, "{\"path\":\"\\/clinton\\/b\"}");
  put(&f, "c", "r2", "{\"path\":\"/clinton\"}");
  put(&f, "d", NULL, "{\"path\":\"/clintonville/x\"}");
  put(&f, "e", NULL, "{\"path\":[\"/clinton/1\",\"/other\",\"/clinton\"]}");
  put(&f, "odd id \"/\\ %", "r 3/&", "{\"path\":\"/clinton/odd\"}");
  const mt_change_result *r = run_well(&f, 2);
  assert_int_equal(r->changed, 5);
  assert_int_equal(r->matched, r->changed);
  expect(&f, "a", "r1", SAME_BYTES("/projects/clinton/"));
  expect(&f, "b", NULL, "{\"path\":\"/projects/clinton\\/b\"}");
  expect(&f, "c", "r2", "{\"path\":\"/projects/clinton\"}");
  expect(&f, "d", NULL, "{\"path\":\"/clintonville/x\"}");
  expect(&f, "e", NULL, "{\"path\":[\"/projects/clinton/1\",\"/other\",\"/projects/clinton\"]}");
  expect(&f, "odd id \"/\\ %", "r 3/&", "{\"path\":\"/projects/clinton/odd\"}");
  close_fixture(&f);
}

static void test_pages(void **state) {
  (void)state;
  static const uint32_t pages[] = {7, 50, 1000};
  fixture f;
  for (size_t i = 0; i < 3; i++) {
    open_fixture(&f, "", "");
    fill(&f, 503);
    const mt_change_result *r = run_well(&f, pages[i]);
    assert_int_equal(r->changed, 503);
    assert_int_equal(r->passes, 1);
    assert_true(r->round_trips > 0);
    assert_int_equal(count(&f, "/projects/clinton"), 503);
    int bulks = f.bulks;
    r = run_well(&f, pages[i]); /* nothing is left to do */
    assert_int_equal(r->matched, 0);
    assert_int_equal(f.bulks, bulks);
    close_fixture(&f);
  }
}

static mortise_error run_strict(fixture *f, const char *from, const char *to, uint64_t beside) {
  f->strict = true;
  f->bulks = 0;
  const mt_change_result *r = run_from(f, from, to, 0);
  MT_CHECK(r->beside == beside, "%s: %" PRIu64 " beside", place.name, r->beside);
  return f->rename.change.error;
}

/* The documents below both paths before anything is written, as a real store counts them. */
static void test_before(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "", "");
  put(&f, "near", NULL, "{\"path\":\"/clintonville\"}");
  put(&f, "there", NULL, "{\"path\":[\"/x\",\"/y\"]}");
  put(&f, "below", NULL, "{\"path\":\"/x/1\"}");
  put(&f, "near x", NULL, "{\"path\":\"/xy\"}");
  assert_int_equal(run_strict(&f, "/clinton", "/nowhere", 0).code, MORTISE_NOT_FOUND);
  assert_int_equal(run_strict(&f, "/clinton", "/x", 2).code, MORTISE_NOT_FOUND);
  fill(&f, 20);
  mortise_error err = run_strict(&f, "/clinton", "/x", 2);
  assert_int_equal(err.code, MORTISE_CONFLICT);
  assert_non_null(strstr(err.message, "0 of 20 documents"));
  assert_int_equal(f.bulks, 0);
  assert_int_equal(run_strict(&f, "/clinton", "/", 4).code, MORTISE_CONFLICT);
  assert_int_equal(run_strict(&f, "/clinton/dir1", "/clinton", 18).code, MORTISE_CONFLICT);
  assert_int_equal(run_strict(&f, "/clinton", "/a/b/c", 0).code, MORTISE_OK);
  assert_int_equal(run_strict(&f, "/a/b/c", "/a/b", 0).code, MORTISE_OK);
  assert_int_equal(run_strict(&f, "/a/b", "/a", 0).code, MORTISE_OK);
  assert_int_equal(count(&f, "/a"), 20);
  f.strict = false;
  assert_int_equal(run_from(&f, "/a", "/x", 0)->beside, 2);
  assert_int_equal(f.rename.change.error.code, MORTISE_OK);
  assert_int_equal(count(&f, "/x"), 22);
  close_fixture(&f);
}

static void test_large(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "", "");
  fill(&f, 4000);
  const mt_change_result *r = run_well(&f, 0);
  assert_int_equal(r->changed, 4000);
  expect(&f, "d3999", NULL, "{\"n\": 3999, \"path\": \"/projects/clinton/dir9/f3999\"}");
  close_fixture(&f);
}

static mortise_status refused(const char *settings, const char *mappings) {
  fixture f;
  open_fixture(&f, settings, mappings);
  run(&f, 0);
  mortise_status code = f.rename.change.error.code;
  assert_int_equal(f.bulks, 0);
  close_fixture(&f);
  return code;
}

static void test_fit(void **state) {
  (void)state;
  if (!place.elastic) return;
  fixture f;
  /* There is no such pipeline: a write that ran it would be refused. */
  open_fixture(&f, ",\"default_pipeline\":\"mortise-no-such\"", "");
  fill(&f, 20);
  assert_int_equal(run_well(&f, 0)->changed, 20);
  close_fixture(&f);
  assert_int_equal(refused(",\"final_pipeline\":\"mortise-no-such\"", ""), MORTISE_UNSUPPORTED);
  assert_int_equal(refused("", "\"_source\":{\"excludes\":[\"x\"]},"), MORTISE_UNSUPPORTED);
  assert_int_equal(refused("", "\"_source\":{\"enabled\":false},"), MORTISE_UNSUPPORTED);
}

/* Values that ignore_above hides are renamed too. */
static void test_hidden(void **state) {
  (void)state;
  if (!place.elastic) return;
  fixture f;
  char source[256];
  open_fixture(&f, "", "");
  mt_test_drop_index(f.theirs.store, f.index);
  mt_test_create_index(
      f.theirs.store, f.index,
      MT_SLICE("{\"mappings\":{\"properties\":{\"path\":{\"type\":\"text\",\"fields\":{"
               "\"keyword\":{\"type\":\"keyword\",\"ignore_above\":30}}}}}}"));
  put(&f, "short", NULL, "{\"path\":\"/clinton/a\"}");
  put(&f, "long", NULL, "{\"path\":\"/clinton/0123456789/0123456789/0123456789\"}");
  put(&f, "other", NULL, "{\"path\":\"/other/0123456789/0123456789/0123456789\"}");
  const mt_change_result *result = run(&f, 0);
  MT_CHECK(!f.rename.change.error.code, "%s", f.rename.change.error.message);
  assert_int_equal(result->changed, 2);
  expect(&f, "short", NULL, "{\"path\":\"/projects/clinton/a\"}");
  snprintf(source, sizeof source,
           "{\"path\":\"/projects/clinton/0123456789/0123456789/0123456789\"}");
  expect(&f, "long", NULL, source);
  expect(&f, "other", NULL, "{\"path\":\"/other/0123456789/0123456789/0123456789\"}");
  close_fixture(&f);
}

/* ---- Others at work ------------------------------------------------------------------------- */

static void edit(fixture *f) {
  if (f->bulks != 2) return;
  put(f, "d3", NULL, "{\"edited\":1,\"path\":\"/clinton/dir3/f3\"}");
  put(f, "d97", NULL, "{\"edited\":2,\"path\":\"/clinton/dir7/f97\"}");
  put(f, "d98", NULL, "{\"edited\":3,\"path\":\"/elsewhere\"}");
  put(f, "new", NULL, "{\"path\":\"/clinton/new\"}");
}

/* Documents already renamed are put back under the old path by such an edit: another pass. */
static void test_others(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "", "");
  fill(&f, 100);
  f.before_bulk = edit;
  const mt_change_result *r = run_well(&f, 10);
  assert_true(r->passes >= 2);
  expect(&f, "d3", NULL, "{\"edited\":1,\"path\":\"/projects/clinton/dir3/f3\"}");
  expect(&f, "d97", NULL, "{\"edited\":2,\"path\":\"/projects/clinton/dir7/f97\"}");
  expect(&f, "d98", NULL, "{\"edited\":3,\"path\":\"/elsewhere\"}");
  expect(&f, "new", NULL, "{\"path\":\"/projects/clinton/new\"}");
  assert_int_equal(count(&f, "/projects/clinton"), 100);
  close_fixture(&f);
}

static void lose_the_lock(fixture *f) {
  if (f->bulks == 3) atomic_store(&f->lock.session.deadline_ms, 1);
}

static void test_lock_lost(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "", "");
  fill(&f, 200);
  f.before_bulk = lose_the_lock;
  const mt_change_result *r = run(&f, 10);
  assert_int_equal(f.rename.change.error.code, MORTISE_LOCK_LOST);
  uint64_t changed = r->changed;
  assert_int_equal(r->unknown, 0);
  assert_true(changed <= 40);
  assert_int_equal(count(&f, "/projects/clinton"), changed);
  f.before_bulk = NULL;
  fake_lock_init(&f.lock, mt_env_system(), LEASE_MS);
  r = run_well(&f, 10); /* the next one finishes it */
  assert_int_equal(r->changed, 200 - changed);
  close_fixture(&f);
}

static void test_lost_requests(void **state) {
  (void)state;
  for (int fate = LOST_BEFORE; fate <= LOST_AFTER; fate++) {
    fixture f;
    open_fixture(&f, "", "");
    fill(&f, 100);
    f.fate = fate;
    const mt_change_result *r = run_well(&f, 40);
    assert_int_equal(r->changed, 100);
    assert_int_equal(count(&f, "/projects/clinton"), 100);
    close_fixture(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes),         cmocka_unit_test(test_pages),
      cmocka_unit_test(test_before),        cmocka_unit_test(test_large),
      cmocka_unit_test(test_fit),           cmocka_unit_test(test_hidden),
      cmocka_unit_test(test_others),        cmocka_unit_test(test_lock_lost),
      cmocka_unit_test(test_lost_requests),
  };
  return mt_test_each_place(&place, "rename", tests, sizeof tests / sizeof tests[0], NULL);
}
