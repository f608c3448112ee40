/* Orders to a job from anywhere, on every store there is: whoever has it obeys, and nobody else's are
 * taken for its own. */
#include "job/control.h"
#include "job/job.h"
#include "job/rename.h"

#include "fake_docs.h"
#include "support/support.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum { LEASE_MS = 60000, DOCS = 60, PAGE = 10, CHECKPOINT_MS = 5, WRITES_MAX = 200 };

/* A bulk of documents that was sent, and when. */
typedef struct sent_bulk {
  size_t n;
  int64_t at_ms;
} sent_bulk;

typedef struct fixture {
  mt_test_store mine, theirs; /* the job's, and of whoever steers it */
  mt_docs_ops ops;
  const mt_docs_ops *real;
  char index[96], table[96];
  fake_lock lock;
  mt_rename rename;
  mt_job job;
  sent_bulk sent[WRITES_MAX];
  size_t n_sent, documents, checkpoints;
  uint64_t orders;
} fixture;

static mt_test_place place; /* where the tests run now */
static fixture *current;

/* ---- Looking at what it sends --------------------------------------------------------------- */

static void watched_bulk(mt_store *s, mt_bulk *r) {
  fixture *f = current;
  bool of_documents = r->index && !strcmp(r->index, f->index);
  f->checkpoints += !of_documents && r->n == 1 && r->items[0].kind == MT_WRITE_INDEX;
  if (of_documents) {
    assert_true(f->n_sent < WRITES_MAX);
    f->sent[f->n_sent++] = (sent_bulk){r->n, mt_clock_boot_ms()};
    f->documents += r->n;
  }
  f->real->bulk(s, r);
}

/* ---- Setting up ----------------------------------------------------------------------------- */

static void fill(fixture *f) {
  char id[16], source[64];
  for (size_t i = 0; i < DOCS; i++) {
    snprintf(id, sizeof id, "d%zu", i);
    snprintf(source, sizeof source, "{\"path\":\"/a/%zu\"}", i);
    mt_test_put(f->theirs.store, f->index, id, NULL, source);
  }
}

static void set_up(fixture *f) {
  static unsigned number;
  *f = (fixture){0};
  current = f;
  snprintf(f->index, sizeof f->index, "%s-control%u", place.prefix, ++number);
  snprintf(f->table, sizeof f->table, "%s-orders%u", place.prefix, number);
  assert_true(mt_test_store_open(&f->mine, &place));
  assert_true(mt_test_store_open(&f->theirs, &place));
  f->real = f->mine.store->docs;
  f->ops = *f->real;
  f->ops.bulk = watched_bulk;
  f->mine.store->docs = &f->ops;
  mt_test_create_index(
      f->theirs.store, f->index,
      MT_SLICE("{\"settings\":{\"number_of_shards\":1,\"number_of_replicas\":0},"
               "\"mappings\":{\"properties\":{\"path\":{\"type\":\"keyword\"}}}}"));
  mt_test_create_index(f->theirs.store, f->table, mt_job_table());
  fill(f);
}

static void tear_down(fixture *f) {
  mt_test_drop_index(f->theirs.store, f->index);
  mt_test_drop_index(f->theirs.store, f->table);
  mt_test_store_close(&f->mine);
  mt_test_store_close(&f->theirs);
}

/* ---- A job ---------------------------------------------------------------------------------- */

static void begin(fixture *f, mt_job_verb verb, const char *session) {
  mortise_error err;
  fake_lock_init(&f->lock, mt_env_system(), LEASE_MS);
  snprintf(f->lock.session.id, sizeof f->lock.session.id, "%s", session);
  f->rename = (mt_rename){0};
  assert_int_equal(
      mt_rename_init(&f->rename, MT_SLICE("path"), MT_SLICE("/a"), MT_SLICE("/b"), &err),
      MORTISE_OK);
  mt_change *c = &f->rename.change;
  c->store = f->mine.store;
  c->env = mt_env_system();
  c->permit = fake_permit(&f->lock);
  c->index = f->index;
  c->options.page = PAGE;
  c->options.slices = 1;
  f->rename.merge = f->rename.allow_empty = verb != MT_JOB_RUN;
  mt_limits limits = f->job.limits;
  f->job = (mt_job){.verb = verb,
                    .store = f->mine.store,
                    .env = mt_env_system(),
                    .permit = c->permit,
                    .table = f->table,
                    .ns = "default",
                    .id = "move-1",
                    .change = c,
                    .limits = limits,
                    .checkpoint_ms = CHECKPOINT_MS};
  MT_CHECK(!mt_job_start(&f->job, &err), "%s: %s", place.name, err.message);
}

static void end(fixture *f) {
  mt_job_deinit(&f->job);
  mt_rename_deinit(&f->rename);
}

#define UNTIL(f, condition)                                                                        \
  do {                                                                                             \
    int64_t until_ns = mt_test_ns() + (int64_t)MT_TEST_HANG_MS * 1000000;                          \
    while (!(condition) && mt_test_ns() < until_ns) mt_loop_step((f)->mine.loop, 100, NULL);       \
    MT_CHECK(condition, "%s: it hangs", place.name);                                               \
  } while (0)

static void order(fixture *f, const char *session, const char *what) {
  char source[512];
  snprintf(source, sizeof source,
           "{\"kind\":\"control\",\"format\":1,\"ns\":\"default\",\"job\":\"move-1\",\"body\":{"
           "\"n\":%" PRIu64 ",\"session\":\"%s\",\"by\":\"root@here, pid 12\"%s}}",
           ++f->orders, session, what);
  mt_test_put(f->theirs.store, f->table, "default:move-1:control", NULL, source);
}

static uint64_t documents_below(fixture *f, const char *query) {
  mt_refresh refresh = {.index = f->index};
  f->theirs.store->docs->refresh(f->theirs.store, &refresh);
  mt_test_must(f->theirs.store, &refresh.req);
  mt_count r = {.index = f->index, .query = mt_slice_of(query)};
  f->theirs.store->docs->count(f->theirs.store, &r);
  mt_test_must(f->theirs.store, &r.req);
  return r.count;
}

static void expect_done(fixture *f) {
  UNTIL(f, f->job.finished);
  MT_CHECK(!f->job.error.code, "%s: %s", place.name, f->job.error.message);
  assert_int_equal(f->job.record.state, MT_JOB_DONE);
  assert_int_equal(documents_below(f, "{\"prefix\":{\"path\":\"/b/\"}}"), DOCS);
}

/* ---- Steering ------------------------------------------------------------------------------- */

/* Paused it sends no document, but goes on saying that it lives and what it waits for. */
static void test_paused(void **state) {
  (void)state;
  fixture f;
  set_up(&f);
  f.job.limits = (mt_limits){.batch = 1, .concurrency = 1};
  begin(&f, MT_JOB_RUN, "me");
  UNTIL(&f, f.n_sent > 0 || f.job.finished);
  order(&f, "me", ",\"paused\":true");
  UNTIL(&f, f.job.record.waits[0] || f.job.finished);
  assert_string_equal(f.job.record.waits, "paused by root@here, pid 12");
  assert_int_equal(f.job.record.orders, f.orders);
  size_t after_pause = f.checkpoints + 2, may_be_under_way = f.n_sent + 1;
  UNTIL(&f, f.checkpoints >= after_pause);
  size_t sent = f.n_sent;
  assert_true(sent <= may_be_under_way && f.documents < DOCS);
  UNTIL(&f, f.checkpoints >= after_pause + 5);
  assert_int_equal(f.n_sent, sent);
  order(&f, "me", ",\"paused\":false");
  expect_done(&f);
  assert_string_equal(f.job.record.waits, "");
  end(&f);
  tear_down(&f);
}

/* Cancelled it stands, and whoever takes it over is not meant. An order says all limits: one without a rate would
 * let the job run to its end before it is cancelled. */
static void test_cancelled(void **state) {
  (void)state;
  fixture f;
  set_up(&f);
  f.job.limits = (mt_limits){.rate = 1};
  begin(&f, MT_JOB_RUN, "first");
  UNTIL(&f, f.n_sent > 0 || f.job.finished);
  order(&f, "another", ",\"rate\":1,\"cancelled\":true");
  UNTIL(&f, f.job.record.orders == f.orders || f.job.finished);
  assert_false(f.job.finished);
  order(&f, "first", ",\"rate\":1,\"cancelled\":true,\"paused\":true");
  UNTIL(&f, f.job.finished);
  assert_int_equal(f.job.error.code, MORTISE_INTERRUPTED);
  assert_int_equal(f.job.record.state, MT_JOB_STOPPED);
  assert_non_null(strstr(f.job.record.reason, "cancelled by root@here, pid 12"));
  assert_true(f.documents < DOCS);
  end(&f);
  f.job.limits = (mt_limits){0};
  begin(&f, MT_JOB_RESUME, "second");
  order(&f, "first", ",\"cancelled\":true");
  expect_done(&f);
  end(&f);
  tear_down(&f);
}

/* Never more documents than the time since it began allows, but for one batch. */
static void test_throttled(void **state) {
  (void)state;
  enum { RATE = 1000 };
  fixture f;
  set_up(&f);
  f.job.limits = (mt_limits){.rate = RATE, .batch = 7};
  int64_t began_ms = mt_clock_boot_ms();
  begin(&f, MT_JOB_RUN, "me");
  expect_done(&f);
  uint64_t earlier = 0;
  for (size_t i = 0; i < f.n_sent; i++) {
    MT_CHECK(f.sent[i].n <= 7, "%s: a batch of %zu", place.name, f.sent[i].n);
    int64_t elapsed_ms = f.sent[i].at_ms - began_ms;
    MT_CHECK(earlier * 1000 / RATE <= (uint64_t)elapsed_ms,
             "%s: %" PRIu64 " documents in %" PRId64 " ms", place.name, earlier, elapsed_ms);
    earlier += f.sent[i].n;
  }
  end(&f);
  tear_down(&f);
}

/* A new limit is in force at once, also where the old one would have held it for hours. */
static void test_faster(void **state) {
  (void)state;
  fixture f;
  set_up(&f);
  f.job.limits = (mt_limits){.rate = 1};
  begin(&f, MT_JOB_RUN, "me");
  UNTIL(&f, f.n_sent > 0 || f.job.finished);
  assert_int_equal(f.sent[0].n, 1);
  order(&f, "me", ",\"batch\":3,\"concurrency\":1");
  expect_done(&f);
  for (size_t i = 0; i < f.n_sent; i++) assert_true(f.sent[i].n <= 3);
  end(&f);
  tear_down(&f);
}

/* ---- The document, and the pace ------------------------------------------------------------- */

static mortise_status decode(const char *source, mt_control *out) {
  mortise_error err;
  return mt_control_decode(out, mt_slice_of(source), "me", &err);
}

static void test_decode(void **state) {
  (void)state;
  mt_control c = {0};
#define CONTROL(body) "{\"kind\":\"control\",\"format\":1,\"body\":" body "}"
  assert_int_equal(
      decode(CONTROL("{\"n\":4,\"session\":\"me\",\"paused\":true,\"by\":\"x\",\"rate\":9,"
                     "\"batch\":8,\"concurrency\":7}"),
             &c),
      MORTISE_OK);
  assert_true(c.n == 4 && c.paused && !c.cancelled);
  assert_true(c.limits.rate == 9 && c.limits.batch == 8 && c.limits.concurrency == 7);
  assert_string_equal(c.by, "x");
  assert_int_equal(
      decode(CONTROL("{\"n\":5,\"session\":\"other\",\"paused\":true,\"cancelled\":true,"
                     "\"rate\":3}"),
             &c),
      MORTISE_OK);
  assert_true(c.n == 5 && !c.paused && !c.cancelled && c.limits.rate == 3);
  static const char *const bad[] = {"",
                                    "[]",
                                    "{}",
                                    CONTROL("{}"),
                                    CONTROL("{\"n\":-1}"),
                                    CONTROL("{\"n\":6,\"paused\":1}"),
                                    CONTROL("{\"n\":6,\"rate\":\"9\"}"),
                                    CONTROL("{\"n\":6,\"rate\":4294967296}"),
                                    "{\"kind\":\"job\",\"format\":1,\"body\":{\"n\":6}}",
                                    "{\"kind\":\"control\",\"format\":2,\"body\":{\"n\":6}}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(decode(bad[i], &c), MORTISE_CORRUPT_TABLE);
    assert_int_equal(c.n, 5); /* as it was */
  }
}

static void test_pace(void **state) {
  (void)state;
  mt_pace p = {0};
  assert_int_equal(mt_pace_batch(&p), UINT32_MAX);
  mt_pace_sent(&p, 1000000, 5);
  assert_int_equal(mt_pace_wait_ms(&p, 5), 0);
  mt_pace_set(&p, (mt_limits){.rate = 100, .batch = 500});
  assert_int_equal(mt_pace_batch(&p), 100); /* a second's */
  mt_pace_sent(&p, 10, 1000);
  assert_int_equal(mt_pace_wait_ms(&p, 1000), 100);
  assert_int_equal(mt_pace_wait_ms(&p, 1099), 1);
  assert_int_equal(mt_pace_wait_ms(&p, 1100), 0);
  mt_pace_sent(&p, 1, 2000); /* idle time is not saved up */
  assert_int_equal(mt_pace_wait_ms(&p, 2000), 10);
  mt_pace_set(&p, (mt_limits){.rate = 100, .batch = 5}); /* the same rate: nothing is forgotten */
  assert_int_equal(mt_pace_wait_ms(&p, 2000), 10);
  assert_int_equal(mt_pace_batch(&p), 5);
  mt_pace_set(&p, (mt_limits){.rate = 10000}); /* less than a millisecond each adds up */
  for (int i = 0; i < 100; i++) mt_pace_sent(&p, 1, 3000);
  assert_int_equal(mt_pace_wait_ms(&p, 3000), 10);
}

int main(void) {
  const struct CMUnitTest alone[] = {cmocka_unit_test(test_decode), cmocka_unit_test(test_pace)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paused),
      cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_throttled),
      cmocka_unit_test(test_faster),
  };
  return cmocka_run_group_tests(alone, NULL, NULL) +
         mt_test_each_place(&place, "control", tests, sizeof tests / sizeof tests[0], NULL);
}
