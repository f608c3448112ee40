/* Deadlocks between sessions, and among the tasks of one, each store in MORTISE_TEST_URLS and the
 * embedded one: exactly one member of a cycle gives way, the youngest, and the others get what they
 * wait for; without a cycle nobody gives way. */
#include "lock_fixture.h"

#include <stdio.h>
#include <unistd.h>

enum {
  CLIENTS = 3,
  WAIT_MS = 60000,
  FOUND_MS = 40000, /* before it times out: two seconds, but many on a busy machine */
};

static mt_test_place place; /* of the running group */
static mt_test_client c[CLIENTS];

static int64_t opened_ms(const mt_test_client *client) {
  const char *id = mt_manager_session(client->manager)->id;
  mt_store *store = client->client->store;
  mt_session_read read = {.ns = "default", .ids = &id, .n = 1};
  store->locks->session_read(store, &read);
  MT_CHECK(!mt_test_pump(store, &read.req), "%s", read.req.error.message);
  int64_t ms = read.docs[0].opened_ms;
  mt_session_read_deinit(&read);
  return ms;
}

/* The first is the oldest. The server's clock advances in steps of 200 ms for its scripts
 * (thread_pool.estimated_time_interval). */
static void open_clients(size_t n) {
  mortise_error err;
  for (size_t i = 0; i < n; i++) {
    c[i] = mt_test_client_open(&place, 0);
    mt_lock *lock = mt_test_take(c, i + 1, i, "/opened", false, 5000, &err);
    MT_CHECK(lock, "%s", err.message);
    mt_test_give(c, i + 1, i, lock);
    usleep(place.elastic ? 250000 : 10000);
    if (i) assert_true(opened_ms(&c[i - 1]) < opened_ms(&c[i]));
  }
}

static void close_clients(size_t n) {
  for (size_t i = 0; i < n; i++) mt_test_client_close(&c[i]);
  mt_test_expect_empty(&place);
}

static mt_lock *take(size_t n, size_t who, const char *path, bool shared, uint64_t task) {
  mt_test_op op;
  mt_test_acquire(&op, &c[who], path, shared, task, 5000);
  assert_true(mt_test_pump_until(c, n, &op.acquire.finished, 10000));
  MT_CHECK(op.acquire.lock, "%s: %s", path, op.acquire.error.message);
  return op.acquire.lock;
}

/* What a task waits for, and what it holds and gives back when it gives way. */
typedef struct waiter {
  mt_test_op op;
  mt_lock *holds;
  size_t who;
} waiter;

static void wait_for(waiter *w, size_t who, uint64_t task, const char *path, bool shared,
                     mt_lock *holds) {
  w->holds = holds;
  w->who = who;
  mt_test_acquire(&w->op, &c[who], path, shared, task, WAIT_MS);
}

/* Pumps until one of them is done: its number, or `n`. */
static size_t first_done(size_t clients, waiter *w, size_t n, int64_t ms) {
  int64_t end = mt_test_ns() + ms * 1000000;
  const bool never = false;
  while (mt_test_ns() < end) {
    for (size_t i = 0; i < n; i++)
      if (w[i].op.acquire.finished) return i;
    mt_test_pump_until(c, clients, &never, 10);
  }
  return n;
}

static void let_go(size_t clients, waiter *w) {
  if (w->holds) mt_test_give(c, clients, w->who, w->holds);
  w->holds = NULL;
}

/* The victim fails with DEADLOCK within `ms`, gives back what it holds, and then the others get
 * what they wait for, one after the other. */
static void expect_victim(size_t clients, waiter *w, size_t n, size_t victim, int64_t ms) {
  int64_t start = mt_test_ns();
  size_t first = first_done(clients, w, n, ms);
  MT_CHECK(first < n, "nobody gave way in %lld ms", (long long)ms);
  const mortise_error *err = &w[first].op.acquire.error;
  MT_CHECK(first == victim, "%zu was told, not %zu: %s", first, victim, err->message);
  MT_CHECK(err->code == MORTISE_DEADLOCK, "%s", err->message);
  assert_true(err->retryable);
  const mortise_blockers *others = &w[first].op.blockers;
  assert_int_equal(others->total, n - 1);
  for (size_t i = 0; i < n && i < MORTISE_BLOCKERS_SHOWN; i++)
    MT_CHECK(i + 1 == n || others->list[i].pid == getpid(), "blocker %zu of: %s", i, err->message);
  print_message("  after %lld ms: %s\n", (long long)((mt_test_ns() - start) / 1000000),
                err->message);
  let_go(clients, &w[victim]);
  for (size_t left = n - 1; left; left--) {
    size_t next = SIZE_MAX;
    int64_t end = mt_test_ns() + 20000000000;
    while (next == SIZE_MAX && mt_test_ns() < end) {
      const bool never = false;
      mt_test_pump_until(c, clients, &never, 10);
      for (size_t i = 0; i < n; i++)
        if (w[i].op.client && i != victim && w[i].op.acquire.finished) next = i;
    }
    MT_CHECK(next < n, "%zu still wait", left);
    MT_CHECK(w[next].op.acquire.lock, "%zu: %s", next, w[next].op.acquire.error.message);
    mt_test_give(c, clients, w[next].who, w[next].op.acquire.lock);
    let_go(clients, &w[next]);
    w[next].op = (mt_test_op){0};
  }
}

/* ---- Between sessions ----------------------------------------------------------------------- */

static void test_two_sessions(void **state) {
  (void)state;
  open_clients(2);
  mt_lock *a = take(2, 0, "/two/a", false, 0), *b = take(2, 1, "/two/b", false, 0);
  waiter w[2];
  wait_for(&w[0], 0, 0, "/two/b", false, a);
  wait_for(&w[1], 1, 0, "/two/a", false, b);
  expect_victim(2, w, 2, 1, FOUND_MS);
  close_clients(2);
}

/* The victim is the youngest session, not the one that closes the cycle. */
static void test_the_youngest_gives_way(void **state) {
  (void)state;
  open_clients(2);
  mt_lock *a = take(2, 0, "/young/a", false, 0), *b = take(2, 1, "/young/b", false, 0);
  waiter w[2];
  const bool never = false;
  wait_for(&w[1], 1, 0, "/young/a", false, b);
  mt_test_pump_until(c, 2, &never, 2500);
  assert_false(w[1].op.acquire.finished); /* a holder that does not wait is no deadlock */
  wait_for(&w[0], 0, 0, "/young/b", false, a);
  expect_victim(2, w, 2, 1, FOUND_MS);
  close_clients(2);
}

static void test_three_sessions(void **state) {
  (void)state;
  open_clients(3);
  mt_lock *held[3];
  waiter w[3];
  char path[3][32];
  for (size_t i = 0; i < 3; i++) {
    snprintf(path[i], sizeof path[i], "/three/\"%zu\\/f", i); /* and names that need escapes */
    held[i] = take(3, i, path[i], false, 0);
  }
  for (size_t i = 0; i < 3; i++) wait_for(&w[i], i, 0, path[(i + 1) % 3], false, held[i]);
  expect_victim(3, w, 3, 2, FOUND_MS);
  close_clients(3);
}

/* Both hold S and want X. */
static void test_conversion(void **state) {
  (void)state;
  open_clients(2);
  mt_lock *a = take(2, 0, "/convert", true, 0), *b = take(2, 1, "/convert", true, 0);
  waiter w[2];
  wait_for(&w[0], 0, 0, "/convert", false, a);
  wait_for(&w[1], 1, 0, "/convert", false, b);
  expect_victim(2, w, 2, 1, FOUND_MS);
  close_clients(2);
}

/* The blocker is not a lock but the part of one that an acquisition under way has got so far. That
 * acquisition holds nothing else, so it never gives way, even if it is the youngest. */
static void half(size_t one, size_t nested) {
  const bool never = false;
  open_clients(2);
  mt_lock *file = take(2, nested, "/half/dir/file", false, 0);
  waiter w[2];
  wait_for(&w[0], one, 0, "/half/dir/file", true, NULL);
  mt_test_pump_until(c, 2, &never, 200);
  wait_for(&w[1], nested, 0, "/half/dir", false, file);
  expect_victim(2, w, 2, 1, FOUND_MS);
  close_clients(2);
}

static void test_half_an_acquisition(void **state) {
  (void)state;
  half(0, 1);
  half(1, 0);
}

/* One waits behind another's place in the queue, and that other waits for one that waits for the
 * first. */
static void through_a_queue(size_t first, size_t middle, size_t last) {
  const bool never = false;
  open_clients(3);
  mt_lock *shared = take(3, first, "/queue/q", true, 0), *x = take(3, last, "/queue/x", false, 0);
  waiter w[3];
  wait_for(&w[1], middle, 0, "/queue/q", false, NULL);
  mt_test_pump_until(c, 3, &never, 500);
  wait_for(&w[2], last, 0, "/queue/q", true, x);
  wait_for(&w[0], first, 0, "/queue/x", false, shared);
  expect_victim(3, w, 3, first > last ? 0 : 2, FOUND_MS);
  close_clients(3);
}

static void test_through_a_queue(void **state) {
  (void)state;
  through_a_queue(0, 1, 2);
  through_a_queue(1, 2, 0);
}

/* ---- Among tasks ---------------------------------------------------------------------------- */

static void test_two_tasks(void **state) {
  (void)state;
  open_clients(1);
  mt_lock *a = take(1, 0, "/tasks/a", false, 8), *b = take(1, 0, "/tasks/b", false, 7);
  waiter w[2];
  wait_for(&w[0], 0, 7, "/tasks/a", false, b);
  wait_for(&w[1], 0, 8, "/tasks/b", false, a);
  expect_victim(1, w, 2, 1, FOUND_MS); /* from memory, at once */
  a = take(1, 0, "/tasks/a", false, 8), b = take(1, 0, "/tasks/b", false, 7);
  wait_for(&w[1], 0, 8, "/tasks/b", false, a);
  wait_for(&w[0], 0, 7, "/tasks/a", false, b); /* the one that closes the cycle is not the victim */
  expect_victim(1, w, 2, 1, FOUND_MS);
  close_clients(1);
}

/* One task waits for a sibling, which waits for another session, which waits for the first task. */
static void mixed(size_t here, size_t there, size_t victim) {
  open_clients(2);
  mt_lock *one = take(2, here, "/mixed/1", false, 1), *two = take(2, here, "/mixed/2", false, 2);
  mt_lock *far = take(2, there, "/mixed/far", false, 0);
  waiter w[3];
  wait_for(&w[0], here, 1, "/mixed/far", false, one);
  wait_for(&w[1], here, 2, "/mixed/1", true, two);
  wait_for(&w[2], there, 0, "/mixed/2", false, far);
  expect_victim(2, w, 3, victim, FOUND_MS);
  close_clients(2);
}

static void test_mixed(void **state) {
  (void)state;
  mixed(0, 1, 2); /* the other session is the youngest */
  mixed(1, 0, 1); /* the later task of the youngest session */
}

/* ---- No deadlock ---------------------------------------------------------------------------- */

/* A long chain ends at a holder that waits for nobody. Its sibling waits too, and so does a session
 * that is in the chain with another task. */
static void test_slow_holder(void **state) {
  (void)state;
  const bool never = false;
  open_clients(3);
  mt_lock *a = take(3, 0, "/slow/a", false, 1), *b = take(3, 1, "/slow/b", false, 1);
  mt_lock *other = take(3, 2, "/slow/c", false, 1);
  waiter w[4];
  wait_for(&w[0], 1, 1, "/slow/a", false, b);
  wait_for(&w[1], 2, 1, "/slow/b", false, other);
  wait_for(&w[2], 0, 2, "/slow/c", false, NULL); /* not the task that holds /slow/a */
  mt_test_pump_until(c, 3, &never, 100);
  wait_for(&w[3], 0, 3, "/slow", false, NULL);
  mt_test_pump_until(c, 3, &never, 5000);
  for (size_t i = 0; i < 4; i++)
    MT_CHECK(!w[i].op.acquire.finished, "%zu: %s", i, w[i].op.acquire.error.message);
  mt_test_give(c, 3, 0, a);
  for (size_t i = 0; i < 4; i++) {
    MT_CHECK(mt_test_pump_until(c, 3, &w[i].op.acquire.finished, 20000), "%zu waits for ever", i);
    MT_CHECK(w[i].op.acquire.lock, "%zu: %s", i, w[i].op.acquire.error.message);
    mt_test_give(c, 3, w[i].who, w[i].op.acquire.lock);
    let_go(3, &w[i]);
  }
  close_clients(3);
}

static int init_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_sessions),        cmocka_unit_test(test_the_youngest_gives_way),
      cmocka_unit_test(test_three_sessions),      cmocka_unit_test(test_conversion),
      cmocka_unit_test(test_half_an_acquisition), cmocka_unit_test(test_through_a_queue),
      cmocka_unit_test(test_two_tasks),           cmocka_unit_test(test_mixed),
      cmocka_unit_test(test_slow_holder),
  };
  return mt_test_each_place(&place, "deadlock", tests, sizeof tests / sizeof tests[0], init_table);
}
