/* Recovering a job that is cut off anywhere: what guards it stays, nobody else gets in, and the next
 * one recovers it. On the embedded store and on each server in MORTISE_TEST_URLS. */
#include "lock_fixture.h"

#include "base/mem.h"
#include "base/pump.h"
#include "lock/outbox.h"

#include <stdio.h>

static mt_test_place place; /* of the running group */

enum { WAIT = 20000 };
static const char job[] = "job-1", path[] = "/job/a/b";

/* A server takes longer: there some are tried. */
static int stride(int on_servers) {
  return strncmp(place.url, "sqlite:", 7) == 0 ? 1 : on_servers;
}

static mt_client_session *open_job(mt_test_client *c) {
  mortise_error err;
  mt_client_session *s = mt_client_session_new(c->client, job, &err);
  MT_CHECK(s, "%s", err.message);
  return s;
}

static void end_job(mt_test_client *c, mt_client_session *s, bool keep_guard) {
  bool ended = false;
  mt_client_session_close(s, keep_guard, mt_flag_set, &ended);
  MT_CHECK(mt_test_pump_until(c, 1, &ended, WAIT), "a session has no end");
}

static void begin_adopting(mt_client_session *s, mt_acquire *a, mt_want *want) {
  *want = (mt_want){mt_slice_of(path), MT_X};
  *a = (mt_acquire){.wants = want, .n = 1, .wait_ms = WAIT, .adopts = true};
  mt_manager_acquire(s->manager, a);
}

static void leave_guard(mt_test_client *c) {
  mt_client_session *s = open_job(c);
  mt_test_client worker = {.client = c->client, .manager = s->manager};
  mortise_error err;
  MT_CHECK(mt_test_take(&worker, 1, 0, path, false, WAIT, &err), "%s", err.message);
  end_job(c, s, true);
}

static void expect_guard(mt_test_client *stranger, int at) {
  mortise_error err;
  mt_lock *lock = mt_test_take(stranger, 1, 0, "/job", false, 2000, &err);
  MT_CHECK(!lock, "%d: another one got in", at);
  MT_CHECK(err.code == MORTISE_ORPHANED_JOB, "%d: %s", at, err.message);
  assert_string_equal(stranger->blockers.list[0].job, job);
  /* In a table with stripes it may have had some, and gives them back. */
  while (!mt_outbox_idle(stranger->manager)) mt_loop_step(stranger->client->loop, 1000, NULL);
}

static void recover(mt_test_client *c) {
  mt_client_session *s = open_job(c);
  mt_acquire a;
  mt_want want;
  begin_adopting(s, &a, &want);
  MT_CHECK(mt_test_pump_until(c, 1, &a.finished, WAIT), "recovering hangs");
  MT_CHECK(a.lock, "%s", a.error.message);
  mt_test_client heir = {.client = c->client, .manager = s->manager};
  assert_int_equal(mt_test_give(&heir, 1, 0, a.lock), MORTISE_OK);
  end_job(c, s, false);
}

/* Is cancelled after so many turns of its loop; false: it had ended before. */
static bool cut_short(mt_test_client *c, int turns) {
  mt_client_session *s = open_job(c);
  mt_acquire a;
  mt_want want;
  begin_adopting(s, &a, &want);
  for (int i = 0; i < turns && !a.finished; i++) mt_loop_step(c->client->loop, 1000, NULL);
  bool ended = a.finished;
  if (!ended) mt_manager_cancel(s->manager, &a);
  end_job(c, s, true); /* also where it was granted */
  return !ended;
}

static void test_cut_short(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0), stranger = mt_test_client_open(&place, 0);
  bool more = true;
  for (int turns = 0; more; turns += stride(3)) {
    leave_guard(&c);
    more = cut_short(&c, turns);
    expect_guard(&stranger, turns);
    recover(&c);
    MT_CHECK(turns < 1000, "it never ends");
  }
  mt_test_client_close(&c);
  mt_test_client_close(&stranger);
  mt_test_expect_empty(&place);
}

/* ---- Without memory ------------------------------------------------------------------------- */

static pthread_t tester;
static long left;

/* Only of the thread that runs the loop: the heartbeat's and the store's are tested elsewhere. */
static bool allow(void *ctx, size_t size) {
  (void)ctx;
  (void)size;
  return !pthread_equal(pthread_self(), tester) || --left != 0;
}

/* Fails the n-th allocation; false: there were fewer. */
static bool starve(mt_test_client *c, int n) {
  mt_client_session *s = open_job(c);
  mt_acquire a;
  mt_want want;
  left = n;
  mt_mem_hook(allow, NULL);
  begin_adopting(s, &a, &want);
  for (int i = 0; i < 5000 && !a.finished; i++) mt_loop_step(c->client->loop, 10, NULL);
  mt_mem_hook(NULL, NULL);
  MT_CHECK(a.finished, "%d: it hangs", n);
  MT_CHECK(a.lock || a.error.code, "%d: it fails without saying why", n);
  bool starved = left <= 0;
  end_job(c, s, true);
  return starved;
}

static void test_without_memory(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0), stranger = mt_test_client_open(&place, 0);
  tester = pthread_self();
  bool more = true;
  for (int n = 1; more; n += stride(23)) {
    leave_guard(&c);
    more = starve(&c, n);
    expect_guard(&stranger, n);
    recover(&c);
  }
  mortise_error err;
  mt_lock *all = mt_test_take(&stranger, 1, 0, "/", false, 2000, &err);
  MT_CHECK(all, "something is left: %s", err.message);
  mt_test_give(&stranger, 1, 0, all);
  mt_test_client_close(&c);
  mt_test_client_close(&stranger);
}

/* ---- While the former owner lives ----------------------------------------------------------- */

/* `victim` was refused, and gives back what it has; then `survivor` goes on. */
static void expect_way_given(mt_test_client *c, mt_test_client *victim, const mt_acquire *refused,
                             mt_lock *has, mt_test_client *survivor, const mt_acquire *goes_on,
                             mt_lock *had) {
  MT_CHECK(refused->error.code == MORTISE_DEADLOCK, "%s", refused->error.message);
  assert_int_equal(mt_test_give(victim, 1, 0, has), MORTISE_OK);
  MT_CHECK(mt_test_pump_until(c, 2, &goes_on->finished, WAIT), "the other one hangs");
  MT_CHECK(goes_on->lock, "%s", goes_on->error.message);
  assert_int_equal(mt_test_give(survivor, 1, 0, goes_on->lock), MORTISE_OK);
  assert_int_equal(mt_test_give(survivor, 1, 0, had), MORTISE_OK);
}

/* It waits for an heir, which waits for it to end: one of them gives way, and then the other goes on. */
static void test_a_cycle_through_an_heir(void **state) {
  (void)state;
  mt_test_client c[] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mt_client_session *s[] = {open_job(&c[0]), open_job(&c[1])};
  mt_test_client owner = {.client = c[0].client, .manager = s[0]->manager};
  mt_test_client heir = {.client = c[1].client, .manager = s[1]->manager};
  mortise_error err;
  mt_lock *guard = mt_test_take(&owner, 1, 0, path, false, WAIT, &err);
  MT_CHECK(guard, "%s", err.message);
  mt_lock *other = mt_test_take(&heir, 1, 0, "/other", false, WAIT, &err);
  MT_CHECK(other, "%s", err.message);
  mt_test_op op;
  mt_acquire a;
  mt_want want;
  mt_test_acquire(&op, &owner, "/other", false, 0, WAIT);
  begin_adopting(s[1], &a, &want);
  while (!a.finished && !op.acquire.finished) mt_test_pump_until(c, 2, &a.finished, 10);
  /* The younger one; which that is, is not known here: both were opened at once. */
  if (op.acquire.finished)
    expect_way_given(c, &owner, &op.acquire, guard, &heir, &a, other);
  else
    expect_way_given(c, &heir, &a, other, &owner, &op.acquire, guard);
  for (int i = 0; i < 2; i++) {
    end_job(&c[i], s[i], false);
    mt_test_client_close(&c[i]);
  }
  mt_test_expect_empty(&place);
}

/* ---- Two at once ---------------------------------------------------------------------------- */

/* The second begins so many turns after the first: one is quicker, and the other comes after it. */
static void race(mt_test_client c[2], int turns) {
  mt_client_session *s[2];
  mt_acquire a[2];
  mt_want want[2];
  for (int i = 0; i < 2; i++) s[i] = open_job(&c[i]);
  begin_adopting(s[0], &a[0], &want[0]);
  for (int i = 0; i < turns && !a[0].finished; i++) mt_loop_step(c[0].client->loop, 1000, NULL);
  begin_adopting(s[1], &a[1], &want[1]);
  while (!a[0].finished && !a[1].finished) mt_test_pump_until(c, 2, &a[0].finished, 10);
  int first = a[0].finished ? 0 : 1, second = !first;
  MT_CHECK(a[first].lock, "%d: the first: %s", turns, a[first].error.message);
  MT_CHECK(!a[second].finished, "%d: the second: %s", turns, a[second].error.message);
  mt_test_client heirs[] = {{.client = c[0].client, .manager = s[0]->manager},
                            {.client = c[1].client, .manager = s[1]->manager}};
  assert_int_equal(mt_test_give(&heirs[first], 1, 0, a[first].lock), MORTISE_OK);
  end_job(&c[first], s[first], false);
  MT_CHECK(mt_test_pump_until(c, 2, &a[second].finished, WAIT), "%d: the second hangs", turns);
  MT_CHECK(a[second].lock, "%d: the second: %s", turns, a[second].error.message);
  assert_int_equal(mt_test_give(&heirs[second], 1, 0, a[second].lock), MORTISE_OK);
  end_job(&c[second], s[second], false);
}

static void test_two_heirs(void **state) {
  (void)state;
  mt_test_client c[] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  for (int turns = 0; turns < 12; turns += stride(2)) {
    leave_guard(&c[0]);
    race(c, turns);
  }
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  mt_test_expect_empty(&place);
}

static int init_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_cycle_through_an_heir),
      cmocka_unit_test(test_two_heirs),
      cmocka_unit_test(test_cut_short),
      cmocka_unit_test(test_without_memory),
  };
  return mt_test_each_place(&place, "adoption", tests, sizeof tests / sizeof tests[0], init_table);
}
