/* How a job went, in its document: bounded, whatever happens, and read back as it was written. */
#include "job/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void write_it(const mt_job_history *h, mt_buf *out) {
  mt_buf_clear(out);
  mt_buf_adds(out, "{\"a\":1");
  mt_job_history_encode(h, out);
  mt_buf_adds(out, "}");
  assert_int_equal(out->failed, MORTISE_OK);
}

static void is_read_back(const mt_job_history *h) {
  mt_buf first, second;
  mt_json root;
  mortise_error err;
  mt_job_history again;
  mt_buf_init(&first, 1 << 20);
  mt_buf_init(&second, 1 << 20);
  mt_job_history_init(&again);
  write_it(h, &first);
  assert_int_equal(mt_json_parse(mt_buf_slice(&first), "it", &root, &err), MORTISE_OK);
  mt_job_history_decode(&again, root);
  write_it(&again, &second);
  assert_string_equal(first.p, second.p);
  assert_int_equal(again.last_attempt, h->last_attempt);
  assert_int_equal(again.last_undoing, h->last_undoing);
  mt_job_history_deinit(&again);
  mt_buf_deinit(&first);
  mt_buf_deinit(&second);
}

static void is_sound(const mt_job_history *h) {
  assert_true(h->n >= 1 && h->n <= MT_JOB_POINTS_MAX && h->n_turns <= MT_JOB_TURNS_MAX);
  for (size_t i = 1; i < h->n; i++) assert_true(h->points[i].at_ms >= h->points[i - 1].at_ms);
  is_read_back(h);
}

/* A day, a checkpoint a second: its first and last moments are there, and no long gap between. */
static void a_long_job_is_thinned(void **state) {
  (void)state;
  enum { DAY = 86400 };
  mt_job_history h;
  mt_job_history_init(&h);
  for (int64_t s = 0; s <= DAY; s++) {
    mt_job_point now = {.at_ms = 1000 * s, .attempt = 1, .done = (uint64_t)s * 10};
    mt_job_history_note(&h, &now, "{\"user\":\"u\"}", s == DAY);
  }
  is_sound(&h);
  assert_int_equal(h.points[0].at_ms, 0);
  assert_int_equal(h.points[h.n - 1].at_ms, DAY * 1000);
  assert_true(h.n > MT_JOB_POINTS_MAX / 3);
  for (size_t i = 1; i < h.n; i++) assert_true(h.points[i].at_ms - h.points[i - 1].at_ms <= DAY * 1000 / 15);
  assert_int_equal(h.n_turns, 1);
  mt_job_history_deinit(&h);
}

static void a_short_job_has_all(void **state) {
  (void)state;
  mt_job_history h;
  mt_job_history_init(&h);
  for (uint64_t i = 0; i < 50; i++) {
    mt_job_point now = {.at_ms = (int64_t)(1000 * i), .attempt = 1, .done = i, .aside = i / 10};
    mt_job_history_note(&h, &now, NULL, false);
  }
  assert_int_equal(h.n, 50);
  is_sound(&h);
  mt_job_history_deinit(&h);
}

/* Begun over and over, undone, with clocks that differ. */
static void many_attempts(void **state) {
  (void)state;
  mt_job_history h;
  mt_job_history_init(&h);
  for (uint64_t i = 0; i < 1000; i++) {
    mt_job_point now = {.at_ms = (int64_t)(10 * i), .attempt = 1 + i / 2, .done = i, .undoing = i >= 900};
    mt_job_history_note(&h, &now, "{}", i % 2);
    assert_true(h.n <= MT_JOB_POINTS_MAX);
  }
  is_sound(&h);
  assert_int_equal(h.n_turns, MT_JOB_TURNS_MAX);
  assert_int_equal(h.last_attempt, 500);
  assert_true(h.last_undoing);
  mt_job_history_deinit(&h);
}

static void what_is_wrong_is_left_out(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{}", "{\"points\":1,\"turns\":{}}", "{\"points\":[1,[],[1,2],[\"a\",1,1,1,1],[1,-1,1,1,0]],\"turns\":[1,\"a\"]}",
      "{\"points\":[[5,1,2,3,0]],\"turns\":[{\"attempt\":1}]}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    mt_json root;
    mortise_error err;
    mt_job_history h;
    mt_job_history_init(&h);
    assert_int_equal(mt_json_parse(mt_slice_of(texts[i]), "it", &root, &err), MORTISE_OK);
    mt_job_history_decode(&h, root);
    assert_int_equal(h.n, i == 3);
    assert_int_equal(h.n_turns, i == 3);
    is_read_back(&h);
    mt_job_history_deinit(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_long_job_is_thinned), cmocka_unit_test(a_short_job_has_all),
      cmocka_unit_test(many_attempts),         cmocka_unit_test(what_is_wrong_is_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
