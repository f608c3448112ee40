/* The notices that embedding programs get of long waits and of a store that does not answer. */
#include "lock_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static mt_test_place place; /* of the running group */

enum { KINDS = 4 };

typedef struct told {
  int n[KINDS];
  mortise_notice last[KINDS];
  mortise_blockers blockers; /* of the last wait */
} told;

static void on_notice(void *ctx, const mortise_notice *n) {
  told *t = ctx;
  t->n[n->kind]++;
  t->last[n->kind] = *n;
  if (n->blockers) t->blockers = *n->blockers;
}

static mt_test_client open_client(told *t, int64_t lease_ms) {
  mortise_error err;
  mortise_options options;
  mortise_options_init(&options);
  options.store = place.url;
  options.table = place.table;
  options.lease_ms = lease_ms;
  options.script = "the test";
  options.notice = on_notice;
  options.notice_ctx = t;
  mt_test_client c = {.client = mortise_client_open(&options, &err)};
  MT_CHECK(c.client, "%s", err.message);
  c.manager = mt_client_manager(c.client, &err);
  MT_CHECK(c.manager, "%s", err.message);
  return c;
}

static void test_wait(void **state) {
  (void)state;
  mortise_error err;
  told first = {0}, second = {0};
  mt_test_client c[2] = {open_client(&first, 60000), open_client(&second, 60000)};
  mt_lock *lock = mt_test_take(c, 2, 0, "/notice", false, 5000, &err);
  MT_CHECK(lock, "%s", err.message);
  assert_null(mt_test_take(c, 2, 1, "/notice/\xc3\xa4", false, 2500, &err));
  assert_int_equal(err.code, MORTISE_LOCK_TIMEOUT);
  const mortise_notice *n = &second.last[MORTISE_NOTICE_WAITING];
  assert_in_range(second.n[MORTISE_NOTICE_WAITING], 1, 3);
  assert_string_equal(n->path, "/notice");
  assert_string_equal(n->mode, "IX");
  assert_true(n->for_ms >= 1000 && !n->here);
  assert_int_equal(second.blockers.shown, 1);
  assert_int_equal(second.blockers.list[0].pid, getpid());
  assert_string_equal(second.blockers.list[0].script, "the test");
  assert_int_equal(second.n[MORTISE_NOTICE_WAIT_OVER], 1);
  assert_true(second.last[MORTISE_NOTICE_WAIT_OVER].wait == n->wait && n->wait);
  assert_true(second.last[MORTISE_NOTICE_WAIT_OVER].for_ms >= 2500);
  assert_int_equal(first.n[MORTISE_NOTICE_WAITING], 0);
  assert_int_equal(mt_test_give(c, 2, 0, lock), MORTISE_OK);
  for (int i = 0; i < 2; i++) mt_test_client_close(&c[i]);
}

/* A short wait, or a single try, causes no notice. */
static void test_no_wait(void **state) {
  (void)state;
  mortise_error err;
  told first = {0}, second = {0};
  mt_test_client c[2] = {open_client(&first, 60000), open_client(&second, 60000)};
  mt_lock *lock = mt_test_take(c, 2, 0, "/notice", false, 5000, &err);
  assert_null(mt_test_take(c, 2, 1, "/notice", false, 0, &err));
  assert_null(mt_test_take(c, 2, 1, "/notice", false, 50, &err));
  for (int kind = 0; kind < KINDS; kind++)
    if (kind != MORTISE_NOTICE_NO_ANSWER && kind != MORTISE_NOTICE_ANSWERS && second.n[kind])
      MT_CHECK(second.last[kind].for_ms >= 1000, "kind %d after %lld ms", kind,
               (long long)second.last[kind].for_ms);
  mt_test_give(c, 2, 0, lock);
  for (int i = 0; i < 2; i++) mt_test_client_close(&c[i]);
}

static bool pump_until_told(mt_test_client *c, const told *t, mortise_notice_kind kind) {
  bool never = false;
  for (int i = 0; i < 200 && !t->n[kind]; i++) mt_test_pump_until(c, 1, &never, 100);
  return t->n[kind] > 0;
}

/* Someone else has locked the embedded store's lock table: the heartbeat does not get through. */
static void test_silence(void **state) {
  (void)state;
  if (place.elastic) return;
  char file[512];
  sqlite3 *db;
  mortise_error err;
  told t = {0};
  mt_test_client c = open_client(&t, 30000);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/notice", false, 5000, &err);
  MT_CHECK(lock, "%s", err.message);
  snprintf(file, sizeof file, "%s-locks", place.url + strlen("sqlite:"));
  assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
  sqlite3_busy_timeout(db, 20000);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  assert_true(pump_until_told(&c, &t, MORTISE_NOTICE_NO_ANSWER));
  const mortise_notice *n = &t.last[MORTISE_NOTICE_NO_ANSWER];
  assert_true(n->for_ms >= 1000 && n->lease_ms > 0 && n->lease_ms <= 30000 && !n->wait);
  assert_int_equal(t.n[MORTISE_NOTICE_ANSWERS], 0);
  assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  assert_true(pump_until_told(&c, &t, MORTISE_NOTICE_ANSWERS));
  assert_true(t.last[MORTISE_NOTICE_ANSWERS].lease_ms > 0);
  sqlite3_close(db);
  assert_int_equal(mt_test_give(&c, 1, 0, lock), MORTISE_OK);
  mt_test_client_close(&c);
}

static int init_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wait),
      cmocka_unit_test(test_no_wait),
      cmocka_unit_test(test_silence),
  };
  return mt_test_each_place(&place, "notice", tests, sizeof tests / sizeof tests[0], init_table);
}
