/* A store that takes no writes for a while, and a user who may not write. */
#include "writer_fixture.h"

#include <stdatomic.h>

static mt_write_result say_blocked(mt_write *w) {
  w->status = 403;
  snprintf(w->type, sizeof w->type, "cluster_block_exception");
  snprintf(w->reason, sizeof w->reason, "index [fake] blocked");
  return MT_WRITE_BUSY;
}

static mt_write_result blocked_six_times(void *ctx, fake_docs *fake, mt_write *w) {
  (void)ctx;
  return fake->bulks <= 6 ? say_blocked(w) : MT_WRITE_NONE;
}

static mt_write_result always_blocked(void *ctx, fake_docs *fake, mt_write *w) {
  (void)ctx;
  (void)fake;
  return say_blocked(w);
}

/* However often that is tried. */
static void test_waits_out_a_block(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.tries = 1, .patience_ms = 60000});
  prepare(f, 10);
  f->fake.item = blocked_six_times;
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_int_equal(f->fake.bulks, 7);
  assert_null(mt_writer_waits(f->w));
}

static void test_patience_ends(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.tries = 1, .patience_ms = 1500});
  prepare(f, 10);
  f->fake.item = always_blocked;
  mt_writer_submit(f->w, &f->batch);
  const char *waits = NULL;
  while (!waits && !f->batch.finished) {
    mt_loop_step(f->loop, 50, NULL);
    waits = mt_writer_waits(f->w);
  }
  assert_non_null(waits);
  assert_string_equal(waits, "the store takes no writes: index [fake] blocked");
  mt_loop_pump(f->loop, &f->batch.finished, mt_clock_boot_ms() + 20000, NULL);
  assert_int_equal(f->batch.error.code, MORTISE_UNAVAILABLE);
  assert_non_null(strstr(f->batch.error.message,
                         " s: the store takes no writes: index [fake] blocked"));
  assert_int_equal(f->batch.counts[MT_OUTCOME_NONE], 10);
  assert_false(f->batch.error.ambiguous);
}

static void test_wait_ends_with_the_lock(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.patience_ms = 60000});
  prepare(f, 10);
  f->fake.item = always_blocked;
  mt_writer_submit(f->w, &f->batch);
  while (f->fake.bulks < 3) mt_loop_step(f->loop, 50, NULL);
  atomic_store(&f->lock.session.deadline_ms, 1);
  mt_loop_pump(f->loop, &f->batch.finished, mt_clock_boot_ms() + 20000, NULL);
  assert_int_equal(f->batch.error.code, MORTISE_LOCK_LOST);
}

static fake_fate lose_all(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)fake;
  (void)r;
  return FAKE_LOST_BEFORE;
}

static void test_no_patience_where_nobody_answers(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.tries = 3, .patience_ms = 60000});
  prepare(f, 5);
  f->fake.fate = lose_all;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_UNAVAILABLE);
}

static mt_write_result forbid_some(void *ctx, fake_docs *fake, mt_write *w) {
  (void)ctx;
  (void)fake;
  if (w->id.p[w->id.n - 1] != '1') return MT_WRITE_NONE;
  w->status = 403;
  snprintf(w->type, sizeof w->type, "security_exception");
  snprintf(w->reason, sizeof w->reason, "no permissions");
  return MT_WRITE_REJECTED;
}

static void test_forbidden_ends(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.docs = 10, .in_flight = 1, .auth_ends = true});
  prepare(f, 40);
  f->fake.item = forbid_some;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_AUTH);
  assert_int_equal(f->batch.error.http_status, 403);
  assert_string_equal(f->batch.error.message, "this user may not write into fake: no permissions");
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 9);
  assert_int_equal(f->batch.counts[MT_OUTCOME_NONE], 31);
  assert_int_equal(f->batch.dirty, 0);
  assert_int_equal(f->fake.bulks, 1);
}

static void test_forbidden_item_by_item(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 40);
  f->fake.item = forbid_some;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->batch.counts[MT_OUTCOME_REJECTED], 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_waits_out_a_block),
      TEST(test_patience_ends),
      TEST(test_wait_ends_with_the_lock),
      TEST(test_no_patience_where_nobody_answers),
      TEST(test_forbidden_ends),
      TEST(test_forbidden_item_by_item),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
