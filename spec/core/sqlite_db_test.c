/* A computation of SQLite within one step ends when the request's time is over. */
#include "base/clock.h"
#include "sqlite/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

static const char *const endless[] = {
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"};
static const mt_db_kind kind = {.what = "a test",
                                .application_id = 0x6d727400,
                                .format = 1,
                                .schema = "CREATE TABLE t(a)",
                                .sql = endless,
                                .n_sql = 1};

static mortise_status compute(atomic_bool *cancelled, int64_t ms, mortise_error *err) {
  char name[] = "/tmp/mortise-db-test-XXXXXX", command[128];
  mt_db db;
  bool row;
  mt_patience patience = {mt_clock_boot_ms() + 5000, NULL};
  assert_non_null(mkdtemp(name));
  snprintf(command, sizeof command, "%s/db", name);
  assert_int_equal(mt_db_init(&db, &kind, command, err), MORTISE_OK);
  assert_int_equal(mt_db_open(&db, &patience, err), MORTISE_OK);
  mt_patience now = {mt_clock_boot_ms() + ms, cancelled};
  assert_int_equal(mt_db_read(&db, &now, err), MORTISE_OK);
  mortise_status status = mt_db_step(&db, mt_db_stmt(&db, 0), &row, err);
  mt_db_tidy(&db);
  assert_int_equal(mt_db_read(&db, &patience, err), MORTISE_OK); /* usable for the next work */
  mt_db_deinit(&db);
  snprintf(command, sizeof command, "rm -r %s", name);
  assert_int_equal(system(command), 0);
  return status;
}

static void test_time_is_over(void **state) {
  (void)state;
  mortise_error err;
  assert_int_equal(compute(NULL, 100, &err), MORTISE_UNAVAILABLE);
  assert_non_null(strstr(err.message, "timed out"));
}

static void test_taken_back(void **state) {
  (void)state;
  mortise_error err;
  atomic_bool cancelled = true;
  assert_int_equal(compute(&cancelled, 60000, &err), MORTISE_INTERRUPTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_time_is_over),
      cmocka_unit_test(test_taken_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
