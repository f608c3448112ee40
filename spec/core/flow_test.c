/* How much a change has under way: it grows while the store answers as fast as before, falls by half where it
 * refuses or is slow, and stays where it is fixed. */
#include "job/flow.h"

#include "property.h"

enum { PAGE = 1000 };

static void answer(mt_flow *f, int64_t ms, bool refused) {
  mt_flow_answered(f, &(mt_sent){.docs = f->docs, .ms = ms, .refused = refused});
}

static void answer_window(mt_flow *f, int64_t ms) {
  for (uint32_t n = f->concurrency + f->skip; n; n--) answer(f, ms, false);
}

static void test_grows(void **state) {
  (void)state;
  mt_flow f;
  mt_flow_init(&f, PAGE);
  assert_int_equal(f.concurrency, MT_FLOW_CONCURRENCY);
  assert_int_equal(f.docs, PAGE);
  answer_window(&f, 100);
  assert_int_equal(f.concurrency, MT_FLOW_CONCURRENCY + 1);
  for (int i = 0; i < 50; i++) answer_window(&f, 100);
  assert_int_equal(f.concurrency, MT_FLOW_CONCURRENCY_MAX);
}

/* A store that has enough to do answers each request the later the more there are. */
static void test_stays_where_more_does_not_help(void **state) {
  (void)state;
  mt_flow f;
  mt_flow_init(&f, PAGE);
  for (int i = 0; i < 50; i++) answer_window(&f, 100 * (int64_t)f.concurrency);
  assert_in_range(f.concurrency, MT_FLOW_CONCURRENCY, MT_FLOW_CONCURRENCY + 2);
}

static void test_falls_when_slow(void **state) {
  (void)state;
  mt_flow f;
  mt_flow_init(&f, PAGE);
  answer_window(&f, 100);
  answer_window(&f, 250);
  assert_int_equal(f.concurrency, (MT_FLOW_CONCURRENCY + 1) / 2);
}

static void test_falls_when_refused(void **state) {
  (void)state;
  mt_flow f;
  mt_flow_init(&f, PAGE);
  for (int i = 0; i < 50; i++) answer_window(&f, 100);
  answer(&f, 5, true);
  assert_int_equal(f.concurrency, MT_FLOW_CONCURRENCY_MAX / 2);
  /* Those that were under way tell nothing new. */
  for (int i = 0; i < MT_FLOW_CONCURRENCY_MAX - 1; i++) answer(&f, 5, true);
  assert_int_equal(f.concurrency, MT_FLOW_CONCURRENCY_MAX / 2);
  for (int i = 0; i < 100; i++) answer(&f, 5, true);
  assert_int_equal(f.concurrency, 1);
  assert_in_range(f.docs, MT_FLOW_DOCS_MIN, MT_FLOW_DOCS_MIN * 2);
  for (int i = 0; i < 300; i++) answer_window(&f, 1);
  assert_int_equal(f.docs, PAGE);
  assert_int_equal(f.concurrency, MT_FLOW_CONCURRENCY_MAX);
}

static void test_fixed(void **state) {
  (void)state;
  mt_flow f;
  mt_flow_init(&f, PAGE);
  mt_flow_fix_concurrency(&f, 5);
  mt_flow_fix_docs(&f, 100);
  for (int i = 0; i < 100; i++) {
    answer_window(&f, 100);
    answer(&f, 5, true);
    assert_int_equal(f.concurrency, 5);
    assert_int_equal(f.docs, 100);
  }
  mt_flow_fix_concurrency(&f, 1000);
  mt_flow_fix_docs(&f, PAGE * 2);
  assert_int_equal(f.concurrency, MT_WRITER_LANES);
  assert_int_equal(f.docs, PAGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_grows),           cmocka_unit_test(test_stays_where_more_does_not_help),
      cmocka_unit_test(test_falls_when_slow), cmocka_unit_test(test_falls_when_refused),
      cmocka_unit_test(test_fixed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
