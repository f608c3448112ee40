/* The lock manager on real stores: what callers rely on, each store in MORTISE_TEST_URLS and the
 * embedded one. */
#include "lock_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static mt_test_place place; /* of the running group */

static void expect_empty_table(void) {
  mt_test_expect_empty(&place);
}

/* ---- One at a time -------------------------------------------------------------------------- */

static void test_take_and_give(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mortise_error err;
  uint64_t fence = 0;
  for (int i = 0; i < 3; i++) {
    mt_lock *lock = mt_test_take(&c, 1, 0, "/clinton/projects/2014", false, 1000, &err);
    MT_CHECK(lock, "%s", err.message);
    assert_int_equal(mt_lock_check(lock, &err), MORTISE_OK);
    assert_true(mt_lock_remaining_ms(lock) > 30000);
    MT_CHECK(mt_lock_fence(lock) > fence, "a later holder's fence must be larger");
    fence = mt_lock_fence(lock);
    assert_int_equal(mt_test_give(&c, 1, 0, lock), MORTISE_OK);
  }
  mt_test_client_close(&c);
  expect_empty_table();
}

static void test_one_round_trip(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/warm/up", false, 1000, NULL);
  mt_test_give(&c, 1, 0, lock);
  uint64_t before = mt_manager_get_stats(c.manager).batches;
  lock = mt_test_take(&c, 1, 0, "/a/b/c/d", false, 1000, NULL);
  mt_test_give(&c, 1, 0, lock);
  assert_int_equal(mt_manager_get_stats(c.manager).batches - before, 2);
  mt_test_client_close(&c);
}

/* ---- Two sessions --------------------------------------------------------------------------- */

static void test_exclusion(void **state) {
  (void)state;
  static const struct {
    const char *a;
    bool a_shared;
    const char *b;
    bool b_shared;
    bool both;
  } rows[] = {
      {"/a", false, "/a", false, false},    {"/a", false, "/a/b", false, false},
      {"/a/b", false, "/a", false, false},  {"/a/b", false, "/a/c", false, true},
      {"/a", true, "/a", true, true},       {"/a", true, "/a/b", false, false},
      {"/a", true, "/a/b", true, true},     {"/", false, "/x/y", true, false},
      {"/a/b", false, "/a-b", false, true}, {"/a", false, "/ab", false, true},
      {"/x/y/z", false, "/x", true, false},
  };
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    mortise_error err;
    mt_lock *a = mt_test_take(c, 2, 0, rows[i].a, rows[i].a_shared, 1000, &err);
    MT_CHECK(a, "%s", err.message);
    mt_lock *b = mt_test_take(c, 2, 1, rows[i].b, rows[i].b_shared, 0, &err);
    MT_CHECK(!!b == rows[i].both, "%s and %s: %s", rows[i].a, rows[i].b, err.message);
    if (b) mt_test_give(c, 2, 1, b);
    if (!b) {
      assert_int_equal(err.code, MORTISE_LOCK_TIMEOUT);
      const mortise_blocker *blocker = &c[1].blockers.list[0];
      assert_int_equal(c[1].blockers.shown, 1);
      assert_int_equal(blocker->pid, getpid());
      assert_string_equal(blocker->program, "manager_test");
      assert_true(blocker->since_ms > 0);
    }
    assert_int_equal(mt_test_give(c, 2, 0, a), MORTISE_OK);
  }
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  expect_empty_table();
}

static void test_waits_until_given_back(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mt_lock *a = mt_test_take(c, 2, 0, "/dir", false, 1000, NULL);
  mt_test_op op;
  mt_test_acquire(&op, &c[1], "/dir/file", false, 0, 20000);
  assert_false(mt_test_pump_until(c, 2, &op.acquire.finished, 300));
  uint64_t fence = mt_lock_fence(a);
  mt_test_give(c, 2, 0, a);
  assert_true(mt_test_pump_until(c, 2, &op.acquire.finished, 3000));
  MT_CHECK(op.acquire.lock, "%s", op.acquire.error.message);
  assert_true(mt_lock_fence(op.acquire.lock) > fence);
  mt_test_give(c, 2, 1, op.acquire.lock);
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  expect_empty_table();
}

/* Where others want all stripes of a path, too, it asks for the first one, and for the rest once it has that.
 * It forgets them after a second, so a round that takes too long shows nothing. */
static void test_stripes_are_not_taken_past_others(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  bool modest = false;
  for (int round = 0; round < 10 && !modest; round++) {
    mt_lock *a = mt_test_take(c, 2, 0, "/crowd", false, 1000, NULL);
    uint64_t before = mt_manager_get_stats(c[1].manager).items;
    mt_test_op op;
    mt_test_acquire(&op, &c[1], "/crowd", false, 0, 20000);
    assert_false(mt_test_pump_until(c, 2, &op.acquire.finished, 100));
    /* The root, the first stripe, and a place in its queue; written again now and then. */
    modest = round && mt_manager_get_stats(c[1].manager).items - before < MT_STRIPES_DEFAULT;
    mt_test_give(c, 2, 0, a);
    assert_true(mt_test_pump_until(c, 2, &op.acquire.finished, 3000));
    MT_CHECK(op.acquire.lock, "%s", op.acquire.error.message);
    mt_test_give(c, 2, 1, op.acquire.lock);
  }
  assert_true(modest);
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  expect_empty_table();
}

static void test_time_out_leaves_nothing(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mt_lock *a = mt_test_take(c, 2, 0, "/m/n", false, 1000, NULL);
  mortise_error err;
  int64_t start = mt_test_ns();
  assert_null(mt_test_take(c, 2, 1, "/m", false, 400, &err));
  assert_int_equal(err.code, MORTISE_LOCK_TIMEOUT);
  assert_true(mt_test_ns() - start >= 399000000); /* the clock counts whole milliseconds */
  mt_test_give(c, 2, 0, a);
  /* The place in the queue is gone too: nobody has to wait it out. */
  a = mt_test_take(c, 2, 0, "/m/n/o", false, 1000, &err);
  MT_CHECK(a, "%s", err.message);
  mt_test_give(c, 2, 0, a);
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  expect_empty_table();
}

/* ---- Another request's refusal ---- */

static const mt_locks_ops *honest;
static mt_done_fn *lied_to;
static bool denies; /* each item; else the whole request */

/* The lock was granted, but the answer is that of another request and does not say so. */
static void lie(void *ctx, mt_req *req) {
  mt_lock_batch *r = (mt_lock_batch *)(void *)req;
  r->proven = false;
  for (size_t i = 0; i < r->n; i++)
    r->items[i].result = denies ? MT_LOCK_DENIED : MT_LOCK_NO_ANSWER;
  if (!denies) mt_error_set(&req->error, MORTISE_UNAVAILABLE, "429");
  if (!denies) req->error.retryable = true;
  lied_to(ctx, req);
}

static void lie_once(mt_store *s, mt_lock_batch *r) {
  s->locks = honest;
  lied_to = r->req.done;
  r->req.done = lie;
  honest->batch(s, r);
}

static void test_a_refusal_without_proof_leaves_nothing(void **state) {
  (void)state;
  for (int all = 0; all < 2; all++) {
    mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
    mt_store *store = c[0].client->store;
    mt_lock *kept = mt_test_take(c, 2, 0, "/kept", false, 1000, NULL); /* the session goes on */
    mortise_error err;
    mt_locks_ops lying = *store->locks;
    honest = store->locks;
    lying.batch = lie_once;
    store->locks = &lying;
    denies = !all;
    assert_null(mt_test_take(c, 2, 0, "/lied", false, 0, &err));
    assert_int_equal(err.code, all ? MORTISE_UNAVAILABLE : MORTISE_LOCK_TIMEOUT);
    mt_lock *b = mt_test_take(c, 2, 1, "/lied", false, 10000, &err);
    MT_CHECK(b, "%s", err.message);
    mt_test_give(c, 2, 1, b);
    assert_int_equal(mt_test_give(c, 2, 0, kept), MORTISE_OK);
    mt_test_client_close(&c[0]);
    mt_test_client_close(&c[1]);
    expect_empty_table();
  }
}

static void test_cancel(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mt_lock *a = mt_test_take(c, 2, 0, "/k", false, 1000, NULL);
  for (int steps = 0; steps < 12; steps++) {
    mt_test_op op;
    mt_test_acquire(&op, &c[1], steps % 2 ? "/k/x" : "/l/x", false, 0, 20000);
    for (int i = 0; i < steps && !op.acquire.finished; i++)
      mt_loop_step(c[1].client->loop, 2, NULL);
    if (op.acquire.finished)
      mt_test_give(c, 2, 1, op.acquire.lock);
    else
      mt_manager_cancel(c[1].manager, &op.acquire);
  }
  mt_test_give(c, 2, 0, a);
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  expect_empty_table();
}

/* ---- Tasks of one process ------------------------------------------------------------------- */

static void test_tasks_exclude_each_other(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_test_op one, two, three;
  mt_test_acquire(&one, &c, "/t/dir", false, 1, 1000);
  assert_true(mt_test_pump_until(&c, 1, &one.acquire.finished, 5000));
  mt_test_acquire(&two, &c, "/t/dir/file", false, 2, 10000);
  mt_test_acquire(&three, &c, "/t/other", false, 3, 10000);
  assert_true(mt_test_pump_until(&c, 1, &three.acquire.finished, 5000));
  assert_non_null(three.acquire.lock);
  assert_false(two.acquire.finished);
  /* The same task comes in again, below what it holds. */
  mt_test_op again;
  mt_test_acquire(&again, &c, "/t/dir/file", false, 1, 0);
  assert_true(mt_test_pump_until(&c, 1, &again.acquire.finished, 5000));
  MT_CHECK(again.acquire.lock, "%s", again.acquire.error.message);
  mt_test_give(&c, 1, 0, again.acquire.lock);
  assert_false(two.acquire.finished);
  uint64_t fence = mt_lock_fence(one.acquire.lock);
  mt_test_give(&c, 1, 0, one.acquire.lock);
  assert_true(mt_test_pump_until(&c, 1, &two.acquire.finished, 5000));
  MT_CHECK(two.acquire.lock, "%s", two.acquire.error.message);
  assert_true(mt_lock_fence(two.acquire.lock) > fence);
  mt_test_give(&c, 1, 0, two.acquire.lock);
  mt_test_give(&c, 1, 0, three.acquire.lock);
  mt_test_client_close(&c);
  expect_empty_table();
}

static void test_pumped_wait_is_a_deadlock(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_test_op one;
  mt_test_acquire(&one, &c, "/alone", false, 1, 1000);
  assert_true(mt_test_pump_until(&c, 1, &one.acquire.finished, 5000));
  const mt_want want = {MT_SLICE("/alone"), MT_X};
  mt_acquire two = {.wants = &want, .n = 1, .task = 2, .wait_ms = 20000, .blocks_siblings = true};
  mt_manager_acquire(c.manager, &two);
  assert_true(mt_test_pump_until(&c, 1, &two.finished, 2000));
  assert_int_equal(two.error.code, MORTISE_DEADLOCK);
  mt_test_give(&c, 1, 0, one.acquire.lock);
  mt_test_client_close(&c);
  expect_empty_table();
}

/* Upgrade by nesting: S, then X in the same task, then back. */
static void test_nested_upgrade(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mortise_error err;
  mt_lock *s = mt_test_take(c, 2, 0, "/up", true, 1000, &err);
  mt_lock *x = mt_test_take(c, 2, 0, "/up", false, 1000, &err);
  MT_CHECK(x, "%s", err.message);
  assert_null(mt_test_take(c, 2, 1, "/up", true, 0, &err));
  mt_test_give(c, 2, 0, x);
  mt_lock *other = mt_test_take(c, 2, 1, "/up", true, 2000, &err);
  MT_CHECK(other, "lowered to S it lets another S in: %s", err.message);
  mt_test_give(c, 2, 1, other);
  mt_test_give(c, 2, 0, s);
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  expect_empty_table();
}

/* In each of two processes a task waits behind its sibling. What the siblings leave in the store
 * must not block the other process for ever. */
static void expect_no_rest(const char *mine, const char *next) {
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mt_test_op first[2], second[2], given[2];
  for (int i = 0; i < 2; i++) {
    mt_test_acquire(&first[i], &c[i], mine, true, 1, 5000);
    assert_true(mt_test_pump_until(c, 2, &first[i].acquire.finished, 5000));
    assert_non_null(first[i].acquire.lock);
    mt_test_acquire(&second[i], &c[i], next, false, 2, 20000);
  }
  assert_false(mt_test_pump_until(c, 2, &second[0].acquire.finished, 50));
  for (int i = 0; i < 2; i++) mt_test_release(&given[i], &c[i], first[i].acquire.lock);
  for (int i = 0; i < 100 && !second[0].acquire.finished && !second[1].acquire.finished; i++)
    mt_test_pump_until(c, 2, &second[0].acquire.finished, 50);
  size_t winner = second[0].acquire.finished ? 0 : 1;
  MT_CHECK(second[winner].acquire.finished, "%s, then %s: both wait", mine, next);
  mt_test_give(c, 2, winner, second[winner].acquire.lock);
  assert_true(mt_test_pump_until(c, 2, &second[1 - winner].acquire.finished, 5000));
  mt_test_give(c, 2, 1 - winner, second[1 - winner].acquire.lock);
  for (int i = 0; i < 2; i++) mt_test_client_close(&c[i]);
  expect_empty_table();
}

static void test_nothing_is_kept_while_waiting(void **state) {
  (void)state;
  expect_no_rest("/rest/file", "/rest"); /* IS is left, X wanted */
  expect_no_rest("/rest", "/rest/file"); /* S is left, IX wanted */
}

/* ---- Many ----------------------------------------------------------------------------------- */

static void test_many_documents(void **state) {
  (void)state;
  enum { N = 7000 }; /* more than one batch */
  static char names[N][16];
  static const char *ids[N];
  for (int i = 0; i < N; i++) {
    snprintf(names[i], sizeof names[i], "doc/%05d", i * 7919 % N);
    ids[i] = names[i];
  }
  mortise_error err;
  mortise_options options;
  mortise_options_init(&options);
  options.store = place.url;
  options.table = place.table;
  mortise_client *a = mortise_client_open(&options, &err), *b = mortise_client_open(&options, &err);
  mortise_lock_request all = {
      .size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_DOCUMENT, .index = "fs", .paths = ids, .n = N, .wait_ms = 1000};
  mortise_lock *lock = mortise_lock_acquire(a, &all, NULL, &err);
  MT_CHECK(lock, "%s", err.message);
  mortise_lock_request one = all;
  one.paths = ids + N - 1;
  one.n = 1;
  one.wait_ms = 0;
  assert_null(mortise_lock_acquire(b, &one, NULL, &err));
  assert_int_equal(err.code, MORTISE_LOCK_TIMEOUT);
  assert_null(mortise_lock_acquire(b, &all, NULL, &err));
  assert_int_equal(mortise_lock_release(lock, &err), MORTISE_OK);
  lock = mortise_lock_acquire(b, &one, NULL, &err);
  MT_CHECK(lock, "%s", err.message);
  assert_int_equal(mortise_lock_release(lock, &err), MORTISE_OK);
  mortise_client_free(a);
  mortise_client_free(b);
  expect_empty_table();
}

/* ---- The dead and the stopped --------------------------------------------------------------- */

/* A child that takes `path`, writes one byte, then waits for a signal. */
static pid_t holder(const char *path, int64_t lease_ms, int *ready_fd) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid) {
    close(ends[1]);
    *ready_fd = ends[0];
    return pid;
  }
  close(ends[0]);
  mt_test_client c = mt_test_client_open(&place, lease_ms);
  mortise_error err;
  mt_lock *lock = mt_test_take(&c, 1, 0, path, false, 5000, &err);
  if (!lock) _exit(9);
  if (write(ends[1], "h", 1) != 1) _exit(8);
  /* Until the lease is seen to be lost. */
  while (!mt_lock_check(lock, NULL)) mt_loop_step(c.client->loop, 5, NULL);
  if (write(ends[1], "l", 1) != 1) _exit(8);
  _exit(0);
}

static char read_byte(int fd) {
  char byte = 0;
  assert_int_equal(read(fd, &byte, 1), 1);
  return byte;
}

static void test_killed_holder_is_taken_over_at_once(void **state) {
  (void)state;
  int fd;
  pid_t pid = holder("/dead/dir", 60000, &fd);
  assert_int_equal(read_byte(fd), 'h');
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  close(fd);
  mt_test_client c = mt_test_client_open(&place, 0);
  mortise_error err;
  int64_t start = mt_test_ns();
  mt_lock *lock = mt_test_take(&c, 1, 0, "/dead/dir/file", false, 10000, &err);
  MT_CHECK(lock, "%s", err.message);
  MT_CHECK(mt_test_ns() - start < 2000000000, "long before its lease of 60 s");
  mt_test_give(&c, 1, 0, lock);
  /* Even when it tries only once. */
  pid = holder("/dead/too", 60000, &fd);
  assert_int_equal(read_byte(fd), 'h');
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  close(fd);
  lock = mt_test_take(&c, 1, 0, "/dead/too", false, 0, &err);
  MT_CHECK(lock, "%s", err.message);
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
}

static void test_stopped_holder_is_taken_over_after_its_lease(void **state) {
  (void)state;
  enum { LEASE = 1500 };
  int fd;
  pid_t pid = holder("/stopped", LEASE, &fd);
  assert_int_equal(read_byte(fd), 'h');
  kill(pid, SIGSTOP);
  int64_t start = mt_test_ns();
  mt_test_client c = mt_test_client_open(&place, LEASE);
  mortise_error err;
  mt_lock *lock = mt_test_take(&c, 1, 0, "/stopped", false, 10000, &err);
  int64_t waited = (mt_test_ns() - start) / 1000000;
  MT_CHECK(lock, "%s", err.message);
  MT_CHECK(waited >= LEASE, "taken over after %lld ms, before the lease of %d", (long long)waited,
           LEASE);
  MT_CHECK(waited < 4 * LEASE, "taken over only after %lld ms", (long long)waited);
  kill(pid, SIGCONT);
  assert_int_equal(read_byte(fd), 'l'); /* it notices by itself */
  waitpid(pid, NULL, 0);
  close(fd);
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
}

/* A live holder that computes keeps its lock far past its lease: the heartbeat has a thread. (A lease that a stall
 * of a busy machine may not outlast.) */
static void test_busy_holder_keeps_its_lock(void **state) {
  (void)state;
  enum { LEASE = 4000 };
  mt_test_client a = mt_test_client_open(&place, LEASE), b = mt_test_client_open(&place, LEASE);
  mortise_error err;
  mt_lock *lock = mt_test_take(&a, 1, 0, "/busy", false, 1000, &err);
  MT_CHECK(lock, "%s", err.message);
  assert_null(mt_test_take(&b, 1, 0, "/busy", false, 2 * LEASE, &err)); /* `a` is not pumped */
  MT_CHECK(err.code == MORTISE_LOCK_TIMEOUT, "%s", err.message);
  MT_CHECK(!mt_lock_check(lock, &err), "%s", err.message);
  mt_test_give(&a, 1, 0, lock);
  mt_test_client_close(&a);
  mt_test_client_close(&b);
}

/* ---- Fairness ------------------------------------------------------------------------------- */

/* Two tasks of one process keep a directory's IX busy without a gap, by renaming single files; a
 * waiter for the whole directory gets in all the same. */
static void test_a_directory_is_not_starved(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mt_test_op file[2] = {0}, dir;
  char path[64];
  bool giving[2] = {false, false};
  mt_test_acquire(&file[0], &c[0], "/busy/f", false, 1, 20000);
  mt_test_acquire(&file[1], &c[0], "/busy/g", false, 2, 20000);
  mt_test_acquire(&dir, &c[1], "/busy", false, 0, 15000);
  int64_t end = mt_test_ns() + 15000000000;
  int passed = 0;
  while (!dir.acquire.finished && mt_test_ns() < end) {
    for (size_t i = 0; i < 2; i++) {
      mt_loop_step(c[i].client->loop, 1, NULL);
      if (!file[i].acquire.finished && !file[i].release.finished) continue;
      MT_CHECK(giving[i] || file[i].acquire.lock, "%s", file[i].acquire.error.message);
      snprintf(path, sizeof path, "/busy/f%d", passed++);
      if (giving[i])
        mt_test_acquire(&file[i], &c[0], path, false, i + 1, 20000);
      else
        mt_test_release(&file[i], &c[0], file[i].acquire.lock);
      giving[i] = !giving[i];
    }
  }
  MT_CHECK(dir.acquire.finished && dir.acquire.lock, "starved while %d files passed", passed);
  mt_test_give(c, 2, 1, dir.acquire.lock);
  for (size_t i = 0; i < 2; i++) {
    const bool *finished = giving[i] ? &file[i].release.finished : &file[i].acquire.finished;
    assert_true(mt_test_pump_until(c, 2, finished, 20000));
    if (!giving[i]) mt_test_give(c, 2, 0, file[i].acquire.lock);
  }
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
  expect_empty_table();
}

/* ---------------------------------------------------------------------------------------------- */

static int init_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_take_and_give),
      cmocka_unit_test(test_one_round_trip),
      cmocka_unit_test(test_exclusion),
      cmocka_unit_test(test_waits_until_given_back),
      cmocka_unit_test(test_stripes_are_not_taken_past_others),
      cmocka_unit_test(test_time_out_leaves_nothing),
      cmocka_unit_test(test_a_refusal_without_proof_leaves_nothing),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_tasks_exclude_each_other),
      cmocka_unit_test(test_pumped_wait_is_a_deadlock),
      cmocka_unit_test(test_nested_upgrade),
      cmocka_unit_test(test_nothing_is_kept_while_waiting),
      cmocka_unit_test(test_many_documents),
      cmocka_unit_test(test_killed_holder_is_taken_over_at_once),
      cmocka_unit_test(test_stopped_holder_is_taken_over_after_its_lease),
      cmocka_unit_test(test_busy_holder_keeps_its_lock),
      cmocka_unit_test(test_a_directory_is_not_starved),
  };
  return mt_test_each_place(&place, "manager", tests, sizeof tests / sizeof tests[0], init_table);
}
