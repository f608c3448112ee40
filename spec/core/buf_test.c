#include "property.h"

static void appends_stay_terminated(void **state) {
  (void)state;
  mt_buf b;
  mt_buf_init(&b, 1000);
  assert_true(mt_slice_eq(mt_buf_slice(&b), MT_SLICE("")));
  mt_buf_adds(&b, "a");
  mt_buf_addc(&b, 'b');
  mt_buf_addslice(&b, (mt_slice){NULL, 0});
  mt_buf_addf(&b, "%d-%s", 7, "x");
  mt_buf_addu(&b, UINT64_MAX);
  mt_buf_addi(&b, INT64_MIN);
  mt_buf_addi(&b, 0);
  assert_string_equal(b.p, "ab7-x18446744073709551615-92233720368547758080");
  assert_int_equal(b.n, strlen(b.p));
  mt_buf_cut(&b, 2);
  assert_string_equal(b.p, "ab");
  mt_buf_cut(&b, 10);
  assert_string_equal(b.p, "ab");
  mt_buf_deinit(&b);
}

static void the_cap_is_exact_and_a_failure_stays(void **state) {
  (void)state;
  for (size_t max = 0; max < 300; max++) {
    mt_buf b;
    mt_buf_init(&b, max);
    for (size_t i = 0; i < max; i++) mt_buf_addc(&b, 'x');
    assert_int_equal(b.failed, MORTISE_OK);
    assert_int_equal(b.n, max);
    mt_buf_addc(&b, 'y');
    assert_int_equal(b.failed, MORTISE_REJECTED);
    mt_buf_cut(&b, 0);
    mt_buf_addc(&b, 'z');
    assert_int_equal(b.n, 0);
    mortise_error err;
    assert_int_equal(mt_buf_status(&b, "it", &err), MORTISE_REJECTED);
    assert_non_null(strstr(err.message, "it is larger"));
    assert_null(mt_buf_take(&b, NULL));
    mt_buf_clear(&b);
    assert_int_equal(mt_buf_status(&b, "it", NULL), MORTISE_OK);
    mt_buf_deinit(&b);
  }
}

static void a_dropped_append_changes_nothing(void **state) {
  (void)state;
  mt_buf b;
  mt_buf_init(&b, 4);
  mt_buf_adds(&b, "abc");
  mt_buf_addf(&b, "%s", "de");
  assert_string_equal(b.p, "abc");
  assert_int_equal(b.failed, MORTISE_REJECTED);
  mt_buf_deinit(&b);
}

static void no_cap_is_no_overflow(void **state) {
  (void)state;
  mt_buf b;
  mt_buf_init(&b, SIZE_MAX);
  for (int i = 0; i < 1000; i++) mt_buf_adds(&b, "0123456789");
  assert_int_equal(b.n, 10000);
  assert_int_equal(b.failed, MORTISE_OK);
  mt_buf_deinit(&b);
}

static void take_moves_the_bytes(void **state) {
  (void)state;
  mt_buf b;
  mt_buf_init(&b, 10);
  size_t n = 9;
  char *empty = mt_buf_take(&b, &n);
  assert_string_equal(empty, "");
  assert_int_equal(n, 0);
  mt_free(empty);
  mt_buf_adds(&b, "abc");
  char *p = mt_buf_take(&b, &n);
  assert_string_equal(p, "abc");
  assert_int_equal(n, 3);
  assert_null(b.p);
  mt_free(p);
  mt_buf_deinit(&b);
}

static void room_is_counted_by_the_caller(void **state) {
  (void)state;
  mt_buf b;
  mt_buf_init(&b, 100);
  char *p = mt_buf_room(&b, 100);
  assert_non_null(p);
  memset(p, 'r', 100);
  b.n += 100;
  assert_null(mt_buf_room(&b, 1));
  mt_buf_deinit(&b);
}

static mortise_status write_much(void *ctx) {
  mt_buf b;
  (void)ctx;
  mt_buf_init(&b, 1 << 20);
  for (int i = 0; i < 500; i++) {
    mt_buf_addf(&b, "%d,", i);
    mt_buf_addi(&b, -i);
  }
  mortise_status status = mt_buf_status(&b, "it", NULL);
  mt_buf_deinit(&b);
  return status;
}

static void each_failed_allocation_is_told(void **state) {
  (void)state;
  assert_true(each_allocation_told(write_much, NULL));
}

/* The order of the lock protocol: bytes unsigned, a prefix first. */
static int naive_order(mt_slice a, mt_slice b) {
  for (size_t i = 0; i < a.n && i < b.n; i++)
    if (a.p[i] != b.p[i]) return (unsigned char)a.p[i] < (unsigned char)b.p[i] ? -1 : 1;
  return a.n < b.n ? -1 : a.n > b.n;
}

static void slices_are_ordered_by_bytes(void **state) {
  (void)state;
  rng r = {property_seed()};
  for (size_t round = 0; round < property_rounds(20000); round++) {
    char x[6], y[6];
    for (size_t i = 0; i < 6; i++) {
      x[i] = "a\0/\xFF"[rng_below(&r, 4)];
      y[i] = "a\0/\xFF"[rng_below(&r, 4)];
    }
    mt_slice a = {x, rng_below(&r, 7)}, b = {y, rng_below(&r, 7)};
    int got = mt_slice_cmp(a, b), want = naive_order(a, b);
    assert_int_equal((got > 0) - (got < 0), want);
    assert_int_equal(mt_slice_eq(a, b), want == 0);
    assert_int_equal(mt_slice_starts(a, b), b.n <= a.n && naive_order((mt_slice){x, b.n}, b) == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appends_stay_terminated),
      cmocka_unit_test(the_cap_is_exact_and_a_failure_stays),
      cmocka_unit_test(a_dropped_append_changes_nothing),
      cmocka_unit_test(no_cap_is_no_overflow),
      cmocka_unit_test(take_moves_the_bytes),
      cmocka_unit_test(room_is_counted_by_the_caller),
      cmocka_unit_test(each_failed_allocation_is_told),
      cmocka_unit_test(slices_are_ordered_by_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
