/* Changing the mode of held locks, on each store in MORTISE_TEST_URLS and the embedded one. */
#include "lock/convert.h"
#include "lock_fixture.h"

#include <stdio.h>

static mt_test_place place; /* of the running group */

/* ---- Steps ---------------------------------------------------------------------------------- */

static mortise_blockers in_the_way; /* of the last conversion */

static void begin(mt_convert *v, mt_lock *lock, mt_mode mode, int64_t wait_ms) {
  *v = (mt_convert){.lock = lock, .mode = mode, .wait_ms = wait_ms, .blockers = &in_the_way};
  mt_manager_convert(mt_lock_manager(lock), v);
}

static mortise_status convert(mt_test_client *c, size_t n, mt_lock *lock, mt_mode mode,
                              int64_t wait_ms, mortise_error *err) {
  mt_convert v;
  begin(&v, lock, mode, wait_ms);
  MT_CHECK(mt_test_pump_until(c, n, &v.finished, 30000), "a conversion hangs");
  if (err) *err = v.error;
  return v.error.code;
}

static mt_lock *take(mt_test_client *c, size_t n, size_t who, const char *path, mt_mode mode,
                     uint64_t task, int64_t wait_ms, mortise_error *err) {
  const mt_want want = {mt_slice_of(path), mode};
  mt_acquire a = {.wants = &want, .n = 1, .task = task};
  a.wait_ms = wait_ms;
  mt_manager_acquire(c[who].manager, &a);
  if (!mt_test_pump_until(c, n, &a.finished, 30000)) {
    mt_manager_cancel(c[who].manager, &a);
    MT_CHECK(false, "acquiring %s hangs", path);
  }
  if (err) *err = a.error;
  return a.lock;
}

/* Would session `who` get `path` in that mode now? */
static bool may(mt_test_client *c, size_t n, size_t who, const char *path, mt_mode mode) {
  mortise_error err;
  mt_lock *lock = take(c, n, who, path, mode, 7, 0, &err);
  MT_CHECK(lock || err.code == MORTISE_LOCK_TIMEOUT, "%s", err.message);
  if (lock) assert_int_equal(mt_test_give(c, n, who, lock), MORTISE_OK);
  return lock != NULL;
}

static void open_two(mt_test_client c[2]) {
  for (int i = 0; i < 2; i++) c[i] = mt_test_client_open(&place, 0);
}

static void close_two(mt_test_client c[2]) {
  for (int i = 0; i < 2; i++) mt_test_client_close(&c[i]);
  mt_test_expect_empty(&place);
}

static mt_mode mode_of(const mt_lock *lock) {
  const mt_want *wants;
  assert_int_equal(mt_lock_targets(lock, &wants), 1);
  return wants[0].mode;
}

/* ---- Alone ---------------------------------------------------------------------------------- */

static void test_up_and_down(void **state) {
  (void)state;
  static const mt_mode steps[] = {MT_SIX, MT_X, MT_SIX, MT_S, MT_X, MT_S, MT_S, MT_SIX};
  mt_test_client c[2];
  open_two(c);
  mt_lock *lock = take(c, 2, 0, "/up/down", MT_S, 0, 1000, NULL);
  mt_mode mode = MT_S;
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    mortise_error err;
    uint64_t fence = mt_lock_fence(lock);
    MT_CHECK(!convert(c, 2, lock, steps[i], 1000, &err), "%s", err.message);
    if (!mt_mode_covers(mode, steps[i]))
      MT_CHECK(mt_lock_fence(lock) > fence, "what was granted anew has a larger fence");
    else
      assert_int_equal(mt_lock_fence(lock), fence);
    mode = steps[i];
    assert_int_equal(mode_of(lock), mode);
    assert_int_equal(mt_lock_check(lock, NULL), MORTISE_OK);
    for (mt_mode m = MT_IS; m <= MT_X; m++)
      MT_CHECK(may(c, 2, 1, "/up/down", m) == mt_mode_compatible(mode, m), "%s beside %s",
               mt_mode_name(m), mt_mode_name(mode));
    MT_CHECK(may(c, 2, 1, "/up", MT_S) == (mode == MT_S), "S above %s", mt_mode_name(mode));
  }
  assert_int_equal(mt_test_give(c, 2, 0, lock), MORTISE_OK);
  close_two(c);
}

static void test_one_round_trip_each(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *lock = take(&c, 1, 0, "/one/round/trip", MT_S, 0, 1000, NULL);
  static const mt_mode steps[] = {MT_X, MT_SIX, MT_S, MT_SIX, MT_X, MT_S};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    uint64_t before = mt_manager_get_stats(c.manager).batches;
    assert_int_equal(convert(&c, 1, lock, steps[i], 1000, NULL), MORTISE_OK);
    mt_test_pump_until(&c, 1, &(bool){false}, 50);
    MT_CHECK(mt_manager_get_stats(c.manager).batches - before == 1, "to %s in %llu",
             mt_mode_name(steps[i]),
             (unsigned long long)(mt_manager_get_stats(c.manager).batches - before));
  }
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
  mt_test_expect_empty(&place);
}

/* `done` is called once the store has acknowledged the downgrade: from then on others are let
 * in. */
static void expect_idle(void *ctx, mt_convert *c) {
  (void)ctx;
  assert_true(mt_outbox_idle(mt_lock_manager(c->lock)));
}

static void test_a_lowering_is_acknowledged(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *lock = take(&c, 1, 0, "/ack/nowledged", MT_X, 0, 1000, NULL);
  mt_convert v = {.done = expect_idle, .lock = lock, .mode = MT_S};
  mt_manager_convert(c.manager, &v);
  assert_int_equal(mode_of(lock), MT_S); /* whatever the store answers later */
  assert_true(mt_test_pump_until(&c, 1, &v.finished, 5000));
  assert_int_equal(v.error.code, MORTISE_OK);
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
  mt_test_expect_empty(&place);
}

/* A lock of several paths: a path below another one is dropped once that one is exclusive. */
static void test_many_paths(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  const mt_want wants[] = {
      {mt_slice_of("/m/a"), MT_S}, {mt_slice_of("/m/a/b"), MT_S}, {mt_slice_of("/n"), MT_S}};
  mt_acquire a = {.wants = wants, .n = 3, .wait_ms = 1000};
  mt_manager_acquire(c[0].manager, &a);
  assert_true(mt_test_pump_until(c, 2, &a.finished, 5000));
  assert_int_equal(convert(c, 2, a.lock, MT_X, 1000, NULL), MORTISE_OK);
  assert_false(may(c, 2, 1, "/m/a/b/c", MT_IS));
  assert_false(may(c, 2, 1, "/n/o", MT_S));
  assert_int_equal(convert(c, 2, a.lock, MT_S, 0, NULL), MORTISE_OK);
  assert_true(may(c, 2, 1, "/m/a/b/c", MT_S));
  assert_false(may(c, 2, 1, "/m/a/b", MT_X));
  assert_false(may(c, 2, 1, "/n/o", MT_X));
  mt_test_give(c, 2, 0, a.lock);
  close_two(c);
}

/* ---- Two sessions --------------------------------------------------------------------------- */

static void test_waits_for_the_other_reader(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *mine = take(c, 2, 0, "/w", MT_S, 0, 1000, NULL);
  mt_lock *other = take(c, 2, 1, "/w", MT_S, 0, 1000, NULL);
  uint64_t fence = mt_lock_fence(other);
  mt_convert v;
  begin(&v, mine, MT_X, 20000);
  assert_false(mt_test_pump_until(c, 2, &v.finished, 300));
  assert_int_equal(mt_lock_check(mine, NULL), MORTISE_OK);
  assert_int_equal(mode_of(mine), MT_S);
  mt_test_give(c, 2, 1, other);
  assert_true(mt_test_pump_until(c, 2, &v.finished, 3000));
  assert_int_equal(v.error.code, MORTISE_OK);
  assert_true(mt_lock_fence(mine) > fence);
  assert_false(may(c, 2, 1, "/w", MT_S));
  mt_test_give(c, 2, 0, mine);
  close_two(c);
}

static void test_denied_it_is_as_it_was(void **state) {
  (void)state;
  static const int64_t waits[] = {0, 300};
  mt_test_client c[2];
  open_two(c);
  mt_lock *mine = take(c, 2, 0, "/d/e", MT_S, 0, 1000, NULL);
  mt_lock *other = take(c, 2, 1, "/d/e", MT_S, 0, 1000, NULL);
  for (size_t i = 0; i < 2; i++) {
    mortise_error err;
    uint64_t fence = mt_lock_fence(mine);
    assert_int_equal(convert(c, 2, mine, MT_X, waits[i], &err), MORTISE_LOCK_TIMEOUT);
    assert_int_equal(in_the_way.total, 1);
    assert_string_equal(in_the_way.list[0].mode, "S");
    assert_int_equal(mode_of(mine), MT_S);
    assert_int_equal(mt_lock_fence(mine), fence);
    assert_int_equal(mt_lock_check(mine, NULL), MORTISE_OK);
    mt_lock *third = take(c, 2, 1, "/d", MT_S, 0, 2000, &err);
    MT_CHECK(third, "nothing of the attempt is left: %s", err.message);
    mt_test_give(c, 2, 1, third);
  }
  mt_test_give(c, 2, 1, other);
  assert_false(may(c, 2, 1, "/d/e", MT_X));
  mt_test_give(c, 2, 0, mine);
  close_two(c);
}

/* A waiter that conflicts with the upgrader is let in after the upgrade, not before. */
static void test_passes_the_queue(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *mine = take(c, 2, 0, "/q", MT_S, 0, 1000, NULL);
  mt_test_op op;
  mt_test_acquire(&op, &c[1], "/q", false, 0, 20000);
  assert_false(mt_test_pump_until(c, 2, &op.acquire.finished, 200));
  mortise_error err;
  MT_CHECK(!convert(c, 2, mine, MT_X, 2000, &err), "%s", err.message);
  assert_false(op.acquire.finished);
  uint64_t fence = mt_lock_fence(mine);
  mt_test_give(c, 2, 0, mine);
  assert_true(mt_test_pump_until(c, 2, &op.acquire.finished, 5000));
  assert_true(mt_lock_fence(op.acquire.lock) > fence);
  mt_test_give(c, 2, 1, op.acquire.lock);
  close_two(c);
}

static void test_a_lowering_lets_readers_in(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *mine = take(c, 2, 0, "/l/m", MT_X, 0, 1000, NULL);
  mt_test_op op;
  mt_test_acquire(&op, &c[1], "/l", true, 0, 20000);
  assert_false(mt_test_pump_until(c, 2, &op.acquire.finished, 200));
  assert_int_equal(convert(c, 2, mine, MT_S, 0, NULL), MORTISE_OK);
  assert_true(mt_test_pump_until(c, 2, &op.acquire.finished, 2000));
  MT_CHECK(op.acquire.lock, "%s", op.acquire.error.message);
  assert_int_equal(mt_lock_check(mine, NULL), MORTISE_OK);
  assert_int_equal(convert(c, 2, mine, MT_X, 0, NULL), MORTISE_LOCK_TIMEOUT);
  mt_test_give(c, 2, 1, op.acquire.lock);
  mt_test_give(c, 2, 0, mine);
  close_two(c);
}

static void test_six_with_readers_and_locks_below(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *tree = take(c, 2, 0, "/six", MT_SIX, 0, 1000, NULL);
  mt_lock *below = take(c, 2, 0, "/six/a", MT_X, 0, 0, NULL);
  assert_non_null(below);
  assert_true(may(c, 2, 1, "/six/b", MT_S));
  assert_false(may(c, 2, 1, "/six/a", MT_S));
  assert_false(may(c, 2, 1, "/six/b", MT_X));
  assert_false(may(c, 2, 1, "/six", MT_S));
  mt_test_give(c, 2, 0, below);
  assert_true(may(c, 2, 1, "/six/a", MT_S));
  mt_test_give(c, 2, 0, tree);
  close_two(c);
}

/* ---- Tasks of one process ------------------------------------------------------------------- */

static void test_between_tasks(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *one = take(c, 2, 0, "/t", MT_S, 1, 1000, NULL);
  mt_lock *two = take(c, 2, 0, "/t", MT_S, 2, 1000, NULL);
  assert_int_equal(convert(c, 2, one, MT_X, 0, NULL), MORTISE_LOCK_TIMEOUT);
  mt_convert v;
  begin(&v, one, MT_X, 20000);
  assert_false(mt_test_pump_until(c, 2, &v.finished, 200));
  assert_int_equal(mt_lock_check(one, NULL), MORTISE_OK);
  mt_test_give(c, 2, 0, two);
  assert_true(mt_test_pump_until(c, 2, &v.finished, 3000));
  assert_int_equal(v.error.code, MORTISE_OK);
  mt_test_op op;
  mt_test_acquire(&op, &c[0], "/t/u", true, 2, 20000);
  assert_false(mt_test_pump_until(c, 2, &op.acquire.finished, 200));
  assert_int_equal(convert(c, 2, one, MT_S, 0, NULL), MORTISE_OK);
  assert_true(mt_test_pump_until(c, 2, &op.acquire.finished, 3000));
  mt_test_give(c, 2, 0, op.acquire.lock);
  mt_test_give(c, 2, 0, one);
  close_two(c);
}

/* S of one task and IX of another are SIX for the session. */
static void test_the_session_has_the_join(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *tree = take(c, 2, 0, "/j", MT_S, 1, 1000, NULL);
  mt_lock *below = take(c, 2, 0, "/j/k", MT_X, 1, 1000, NULL);
  assert_non_null(below);
  assert_false(may(c, 2, 1, "/j", MT_S));
  assert_true(may(c, 2, 1, "/j/l", MT_S));
  assert_int_equal(convert(c, 2, below, MT_S, 0, NULL), MORTISE_OK);
  assert_true(may(c, 2, 1, "/j", MT_S));
  assert_int_equal(convert(c, 2, below, MT_X, 0, NULL), MORTISE_OK);
  assert_false(may(c, 2, 1, "/j", MT_S));
  mt_test_give(c, 2, 0, tree);
  assert_false(may(c, 2, 1, "/j", MT_S));
  mt_test_give(c, 2, 0, below);
  close_two(c);
}

/* ---- Two that upgrade the same -------------------------------------------------------------- */

/* Each waits for the other to give its shared lock back: one of them gets `deadlock` and keeps its
 * shared lock; once it gives that back, the other is upgraded. */
static void upgrade_both(mt_test_client *c, mt_lock *a, size_t a_who, mt_lock *b, size_t b_who) {
  mt_convert v[2];
  begin(&v[0], a, MT_X, 25000);
  begin(&v[1], b, MT_X, 25000);
  int64_t end = mt_test_ns() + 20000000000;
  while (!v[0].finished && !v[1].finished && mt_test_ns() < end)
    mt_test_pump_until(c, 2, &v[0].finished, 5);
  assert_true(v[0].finished != v[1].finished);
  size_t loser = v[0].finished ? 0 : 1;
  mt_lock *lost = loser ? b : a, *won = loser ? a : b;
  assert_int_equal(v[loser].error.code, MORTISE_DEADLOCK);
  assert_int_equal(mode_of(lost), MT_S);
  assert_int_equal(mt_lock_check(lost, NULL), MORTISE_OK);
  assert_false(may(c, 2, 1 - (loser ? b_who : a_who), "/both", MT_X));
  mt_test_give(c, 2, loser ? b_who : a_who, lost);
  assert_true(mt_test_pump_until(c, 2, &v[1 - loser].finished, 5000));
  MT_CHECK(!v[1 - loser].error.code, "%s", v[1 - loser].error.message);
  mt_test_give(c, 2, loser ? a_who : b_who, won);
}

static void test_two_sessions_upgrade(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *a = take(c, 2, 0, "/both", MT_S, 0, 1000, NULL);
  mt_lock *b = take(c, 2, 1, "/both", MT_S, 0, 1000, NULL);
  upgrade_both(c, a, 0, b, 1);
  close_two(c);
}

static void test_two_tasks_upgrade(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *a = take(c, 2, 0, "/both", MT_S, 1, 1000, NULL);
  mt_lock *b = take(c, 2, 0, "/both", MT_S, 2, 1000, NULL);
  upgrade_both(c, a, 0, b, 0);
  close_two(c);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void test_cancelled_it_is_as_it_was(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *mine = take(c, 2, 0, "/c", MT_S, 0, 1000, NULL);
  for (int ms = 0; ms < 40; ms += ms < 5 ? 1 : 9) {
    mt_convert v;
    begin(&v, mine, MT_X, 20000);
    if (!mt_test_pump_until(c, 2, &v.finished, ms)) mt_manager_convert_cancel(c[0].manager, &v);
    assert_int_equal(mt_lock_check(mine, NULL), MORTISE_OK);
    if (v.finished) assert_int_equal(convert(c, 2, mine, MT_S, 0, NULL), MORTISE_OK);
    assert_int_equal(mode_of(mine), MT_S);
    mortise_error err;
    mt_lock *reader = take(c, 2, 1, "/c", MT_S, 0, 3000, &err);
    MT_CHECK(reader, "after %d ms: %s", ms, err.message);
    mt_test_give(c, 2, 1, reader);
    assert_false(may(c, 2, 1, "/c", MT_X));
  }
  mt_test_give(c, 2, 0, mine);
  close_two(c);
}

static void test_released_meanwhile(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *mine = take(c, 2, 0, "/r", MT_S, 0, 1000, NULL);
  mt_lock *other = take(c, 2, 1, "/r", MT_S, 0, 1000, NULL);
  mt_convert v, second;
  begin(&v, mine, MT_X, 20000);
  begin(&second, mine, MT_X, 20000);
  assert_true(mt_test_pump_until(c, 2, &second.finished, 2000));
  assert_int_equal(second.error.code, MORTISE_INVALID_ARGUMENT);
  assert_false(v.finished);
  assert_int_equal(mt_test_give(c, 2, 0, mine), MORTISE_OK);
  assert_true(mt_test_pump_until(c, 2, &v.finished, 2000));
  assert_int_equal(v.error.code, MORTISE_LOCK_LOST);
  mt_test_give(c, 2, 1, other);
  assert_true(may(c, 2, 1, "/r", MT_X));
  close_two(c);
}

static void test_lost_while_it_waits(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 1000), mt_test_client_open(&place, 0)};
  mt_lock *mine = take(c, 2, 0, "/o", MT_S, 0, 1000, NULL);
  mt_lock *other = take(c, 2, 1, "/o", MT_S, 0, 1000, NULL);
  mt_convert v;
  begin(&v, mine, MT_X, 20000);
  assert_false(mt_test_pump_until(c, 2, &v.finished, 100));
  atomic_store(&mt_lock_session(mine)->lost, true);
  assert_true(mt_test_pump_until(c, 2, &v.finished, 5000));
  assert_int_equal(v.error.code, MORTISE_LOCK_LOST);
  assert_int_equal(mt_lock_check(mine, NULL), MORTISE_LOCK_LOST);
  assert_int_equal(convert(c, 2, mine, MT_X, 0, NULL), MORTISE_LOCK_LOST);
  assert_int_equal(convert(c, 2, mine, MT_IS, 0, NULL), MORTISE_LOCK_LOST);
  assert_int_equal(mt_test_give(c, 2, 0, mine), MORTISE_LOCK_LOST);
  mt_test_give(c, 2, 1, other);
  mt_lock *after = take(c, 2, 1, "/o", MT_X, 0, 5000, NULL);
  assert_non_null(after);
  mt_test_give(c, 2, 1, after);
  close_two(c);
}

static void test_closed_while_it_waits(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  mt_lock *mine = take(c, 2, 0, "/z", MT_S, 0, 1000, NULL);
  mt_lock *other = take(c, 2, 1, "/z", MT_S, 0, 1000, NULL);
  mt_convert v;
  begin(&v, mine, MT_X, 20000);
  assert_false(mt_test_pump_until(c, 2, &v.finished, 100));
  mt_test_client_close(&c[0]);
  assert_true(v.finished);
  assert_int_equal(v.error.code, MORTISE_INTERRUPTED);
  mt_test_give(&c[1], 1, 0, other);
  mt_test_client_close(&c[1]);
  mt_test_expect_empty(&place);
}

/* ---- The synchronous face ------------------------------------------------------------------- */

/* An invalid request is refused before anything is sent. */
static void test_public_refusals(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  const char *good[] = {"/p", "/q"}, *null[] = {"/p", NULL}, *empty[] = {"/p", ""};
#define REQUEST(...) {.size = sizeof(mortise_lock_request), .kind = __VA_ARGS__}
  const mortise_lock_request bad[] = {
      REQUEST(MORTISE_LOCK_TREE),
      REQUEST(MORTISE_LOCK_TREE, .n = 1),
      REQUEST(MORTISE_LOCK_TREE, .paths = good),
      REQUEST(MORTISE_LOCK_TREE, .paths = null, .n = 2),
      REQUEST(MORTISE_LOCK_TREE, .paths = empty, .n = 2),
      REQUEST(MORTISE_LOCK_DOCUMENT, .paths = good, .n = 1),
      REQUEST(MORTISE_LOCK_DOCUMENT, .index = "", .paths = good, .n = 1),
      REQUEST(MORTISE_LOCK_DOCUMENT, .index = "i"),
      REQUEST(MORTISE_LOCK_DOCUMENT, .index = "i", .paths = null, .n = 2),
      REQUEST(MORTISE_LOCK_DOCUMENT, .index = "i", .paths = empty, .n = 2),
      REQUEST(MORTISE_LOCK_NAMED, .paths = good, .n = 1),
      REQUEST(MORTISE_LOCK_NAMED, .index = "c", .n = 3),
      REQUEST(MORTISE_LOCK_NAMED, .index = "c", .paths = empty, .n = 2),
      REQUEST((mortise_lock_kind)9, .index = "c", .paths = good, .n = 1),
      REQUEST(MORTISE_LOCK_TREE, .paths = good, .n = 1, .mode = (mortise_lock_mode)9),
  };
#undef REQUEST
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    mortise_error err;
    mortise_lock *lock = mortise_lock_acquire(c[0].client, &bad[i], NULL, &err);
    MT_CHECK(!lock && err.code == MORTISE_INVALID_ARGUMENT && err.message[0], "request %zu: %s", i,
             err.message);
    assert_null(mortise_lock_acquire(c[0].client, &bad[i], NULL, NULL));
  }
  char path[4097];
  assert_int_equal(mortise_path_normalise(NULL, path, NULL), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_path_normalise("", path, NULL), MORTISE_INVALID_ARGUMENT);
  close_two(c);
}

static void test_public_face(void **state) {
  (void)state;
  mt_test_client c[2];
  open_two(c);
  const char *path = "/p/q";
  mortise_lock_request request = {
      .size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = &path, .n = 1, .mode = MORTISE_SIX, .wait_ms = 1000};
  mortise_error err;
  mortise_lock *lock = mortise_lock_acquire(c[0].client, &request, NULL, &err);
  MT_CHECK(lock, "%s", err.message);
  assert_false(may(c, 2, 1, "/p/q", MT_S));
  uint64_t fence = mortise_lock_fence(lock);
  assert_int_equal(mortise_lock_convert(lock, MORTISE_EXCLUSIVE, 0, NULL, &err), MORTISE_OK);
  assert_true(mortise_lock_fence(lock) > fence);
  assert_false(may(c, 2, 1, "/p/q/r", MT_S));
  assert_int_equal(mortise_lock_convert(lock, MORTISE_SHARED, 0, NULL, &err), MORTISE_OK);
  request.mode = MORTISE_SHARED;
  mortise_lock *other = mortise_lock_acquire(c[1].client, &request, NULL, &err);
  MT_CHECK(other, "%s", err.message);
  mortise_status status = mortise_lock_convert(lock, MORTISE_SIX, 0, &in_the_way, &err);
  assert_int_equal(status, MORTISE_LOCK_TIMEOUT);
  assert_int_equal(in_the_way.total, 1);
  assert_int_equal(mortise_lock_check(lock, NULL), MORTISE_OK);
  assert_int_equal(mortise_lock_release(other, NULL), MORTISE_OK);
  assert_int_equal(mortise_lock_release(lock, NULL), MORTISE_OK);
  close_two(c);
}

/* ---- At random ------------------------------------------------------------------------------ */

enum { PARTIES = 3, ROUNDS = 150 };

/* At each moment the modes that the parties believe in are compatible, and fences of incompatible
 * locks grow in the order in which they are granted. */
static void expect_compatible(mt_lock *locks[PARTIES]) {
  for (int i = 0; i < PARTIES; i++)
    for (int j = i + 1; j < PARTIES; j++)
      if (locks[i] && locks[j])
        MT_CHECK(mt_mode_compatible(mode_of(locks[i]), mode_of(locks[j])), "%s and %s",
                 mt_mode_name(mode_of(locks[i])), mt_mode_name(mode_of(locks[j])));
}

static void test_at_random(void **state) {
  (void)state;
  static const mt_mode modes[] = {MT_S, MT_SIX, MT_X};
  mt_test_random r = mt_test_random_for("convert");
  mt_test_client c[PARTIES];
  mt_lock *locks[PARTIES] = {0};
  uint64_t last_x = 0;
  for (int i = 0; i < PARTIES; i++) c[i] = mt_test_client_open(&place, 0);
  for (int round = 0; round < ROUNDS; round++) {
    size_t who = mt_test_below(&r, PARTIES);
    mt_mode mode = modes[mt_test_below(&r, 3)];
    if (!locks[who])
      locks[who] = take(c, PARTIES, who, "/random/tree", mode, 0, 0, NULL);
    else if (mt_test_chance(&r, 30))
      mt_test_give(c, PARTIES, who, locks[who]), locks[who] = NULL;
    else
      convert(c, PARTIES, locks[who], mode, (int64_t)mt_test_below(&r, 2) * 20, NULL);
    expect_compatible(locks);
    if (!locks[who] || mode_of(locks[who]) != MT_X || mt_lock_fence(locks[who]) == last_x) continue;
    assert_true(mt_lock_fence(locks[who]) > last_x);
    last_x = mt_lock_fence(locks[who]);
  }
  for (size_t i = 0; i < PARTIES; i++)
    if (locks[i]) mt_test_give(c, PARTIES, i, locks[i]);
  for (int i = 0; i < PARTIES; i++) mt_test_client_close(&c[i]);
  mt_test_expect_empty(&place);
}

/* ---- Running -------------------------------------------------------------------------------- */

static int init_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_up_and_down),
      cmocka_unit_test(test_one_round_trip_each),
      cmocka_unit_test(test_a_lowering_is_acknowledged),
      cmocka_unit_test(test_many_paths),
      cmocka_unit_test(test_waits_for_the_other_reader),
      cmocka_unit_test(test_denied_it_is_as_it_was),
      cmocka_unit_test(test_passes_the_queue),
      cmocka_unit_test(test_a_lowering_lets_readers_in),
      cmocka_unit_test(test_six_with_readers_and_locks_below),
      cmocka_unit_test(test_between_tasks),
      cmocka_unit_test(test_the_session_has_the_join),
      cmocka_unit_test(test_two_sessions_upgrade),
      cmocka_unit_test(test_two_tasks_upgrade),
      cmocka_unit_test(test_cancelled_it_is_as_it_was),
      cmocka_unit_test(test_released_meanwhile),
      cmocka_unit_test(test_lost_while_it_waits),
      cmocka_unit_test(test_closed_while_it_waits),
      cmocka_unit_test(test_public_refusals),
      cmocka_unit_test(test_public_face),
      cmocka_unit_test(test_at_random),
  };
  return mt_test_each_place(&place, "conversions", tests, sizeof tests / sizeof tests[0],
                            init_table);
}
