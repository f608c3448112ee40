/* The interface for programs with a loop of their own: what is started is told once, from a step, and nothing waits. */
#include "lock_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static mt_test_place place; /* of the running group */

enum { PATIENCE_MS = MT_TEST_PATIENCE_MS };

/* ---- A program with poll ---------------------------------------------------------------------- */

static bool stepping; /* one of the steps below is being carried out */

/* Waits for the loop as a program does, until `*flag` or for `ms`. */
static bool poll_until(mortise_loop *loop, const bool *flag, int64_t ms) {
  return mt_test_poll_until(loop, flag, ms, &stepping);
}

static void pass_time(mortise_loop *loop, int64_t ms) {
  const bool never = false;
  poll_until(loop, &never, ms);
}

static mortise_loop *new_loop(void) {
  mortise_error err;
  mortise_loop *loop = mortise_loop_new(&err);
  MT_CHECK(loop, "%s", err.message);
  return loop;
}

static mortise_client *client_of(mortise_loop *loop, int64_t lease_ms) {
  return mt_test_open(&place, loop, lease_ms);
}

/* What was told. */
typedef struct told {
  unsigned n;
  bool over;
  mortise_error error;
  mortise_lock *lock;
  mortise_blockers blockers;
  mortise_op *op;
} told;

static void note(void *ctx, const mortise_outcome *outcome) {
  told *t = ctx;
  assert_true(stepping);
  t->n++;
  t->over = true;
  t->error = outcome->error;
  t->lock = outcome->lock;
  t->blockers = *outcome->blockers;
}

static mortise_lock_request request_of(const char *const *path, mortise_lock_mode mode, int64_t wait_ms) {
  mortise_lock_request request;
  mortise_lock_request_init(&request);
  request.paths = path;
  request.n = 1;
  request.mode = mode;
  request.wait_ms = wait_ms;
  return request;
}

static told *start(told *t, mortise_client *client, const char *path, int64_t wait_ms) {
  mortise_error err;
  const mortise_lock_request request = request_of(&path, MORTISE_EXCLUSIVE, wait_ms);
  *t = (told){0};
  t->op = mortise_lock_acquire_start(client, &request, note, t, &err);
  MT_CHECK(t->op, "%s", err.message);
  assert_int_equal(t->n, 0);
  return t;
}

static mortise_lock *take(mortise_loop *loop, mortise_client *client, const char *path) {
  told t;
  assert_true(poll_until(loop, &start(&t, client, path, -1)->over, PATIENCE_MS));
  MT_CHECK(t.lock, "%s", t.error.message);
  return t.lock;
}

static void give(mortise_loop *loop, mortise_lock *lock) {
  told t = {0};
  assert_non_null(mortise_lock_release_start(lock, note, &t, NULL));
  assert_true(poll_until(loop, &t.over, PATIENCE_MS));
  MT_CHECK(!t.error.code, "%s", t.error.message);
}

static void close_all(mortise_loop *loop, mortise_client *client) {
  told t = {0};
  assert_non_null(mortise_client_close_start(client, note, &t, NULL));
  assert_true(poll_until(loop, &t.over, PATIENCE_MS));
  assert_int_equal(t.error.code, MORTISE_OK);
  mortise_loop_free(loop);
  mt_test_expect_empty(&place);
}

/* ---- Many at once ----------------------------------------------------------------------------- */

static void test_many_at_once(void **state) {
  (void)state;
  enum { MANY = 256 };
  static told all[MANY], released[MANY];
  mortise_loop *loop = new_loop();
  mortise_client *client = client_of(loop, 0);
  for (int i = 0; i < MANY; i++) {
    char path[32];
    snprintf(path, sizeof path, "/many/%d/%d", i % 16, i);
    start(&all[i], client, path, -1);
  }
  for (int i = 0; i < MANY; i++) assert_true(poll_until(loop, &all[i].over, PATIENCE_MS));
  for (int i = 0; i < MANY; i++) {
    MT_CHECK(all[i].lock, "%s", all[i].error.message);
    assert_string_equal(mortise_lock_epoch(all[i].lock), mortise_lock_epoch(all[MANY - 1].lock));
    assert_int_equal(mortise_lock_check(all[i].lock, NULL), MORTISE_OK);
    assert_true(mortise_lock_fence(all[i].lock) > 0);
    assert_true(mortise_lock_epoch(all[i].lock)[0]);
    released[i] = (told){0};
    released[i].op = mortise_lock_release_start(all[i].lock, note, &released[i], NULL);
    assert_non_null(released[i].op);
  }
  for (int i = 0; i < MANY; i++) {
    assert_true(poll_until(loop, &released[i].over, PATIENCE_MS));
    assert_int_equal(released[i].error.code, MORTISE_OK);
    assert_int_equal(all[i].n + released[i].n, 2);
  }
  close_all(loop, client);
}

/* Of one path each at a time, in turn, though one client asks for all. */
typedef struct turn {
  told told;
  mortise_loop *loop;
  int *inside, *passed;
} turn;

static void pass_through(void *ctx, const mortise_outcome *outcome) {
  turn *t = ctx;
  MT_CHECK(outcome->lock, "%s", outcome->error.message);
  assert_int_equal(++*t->inside, 1);
  t->told.lock = outcome->lock;
  t->told.over = true;
}

static void test_one_after_another(void **state) {
  (void)state;
  enum { TURNS = 12 };
  int inside = 0, passed = 0;
  turn turns[TURNS];
  mortise_loop *loop = new_loop();
  mortise_client *client[2] = {client_of(loop, 0), client_of(loop, 0)};
  for (int i = 0; i < TURNS; i++) {
    const char *path = "/turns";
    const mortise_lock_request request = request_of(&path, MORTISE_EXCLUSIVE, -1);
    turns[i] = (turn){.inside = &inside, .passed = &passed};
    assert_non_null(mortise_lock_acquire_start(client[i % 2], &request, pass_through, &turns[i], NULL));
  }
  int64_t end = mt_test_ns() + (int64_t)PATIENCE_MS * 1000000;
  while (passed < TURNS && mt_test_ns() < end) {
    pass_time(loop, 5);
    for (int i = 0; i < TURNS; i++)
      if (turns[i].told.lock) {
        inside--;
        passed++;
        mortise_lock_release_start(turns[i].told.lock, NULL, NULL, NULL);
        turns[i].told.lock = NULL;
      }
  }
  assert_int_equal(passed, TURNS);
  mortise_client_free(client[1]);
  close_all(loop, client[0]);
}

/* What one task holds does not stand in its own way, but in that of others. */
static void test_tasks(void **state) {
  (void)state;
  mortise_error err;
  const char *above = "/task", *below = "/task/below";
  mortise_loop *loop = new_loop();
  mortise_client *client = client_of(loop, 0);
  told first = {0}, again = {0}, other = {0};
  mortise_lock_request request = request_of(&above, MORTISE_EXCLUSIVE, -1);
  request.task = 7;
  assert_non_null(mortise_lock_acquire_start(client, &request, note, &first, &err));
  assert_true(poll_until(loop, &first.over, PATIENCE_MS));
  request.paths = &below;
  assert_non_null(mortise_lock_acquire_start(client, &request, note, &again, &err));
  assert_true(poll_until(loop, &again.over, PATIENCE_MS));
  MT_CHECK(again.lock, "%s", again.error.message);
  request.task = 8;
  request.wait_ms = 50;
  assert_non_null(mortise_lock_acquire_start(client, &request, note, &other, &err));
  assert_true(poll_until(loop, &other.over, PATIENCE_MS));
  assert_null(other.lock);
  assert_int_equal(other.error.code, MORTISE_LOCK_TIMEOUT);
  assert_true(other.blockers.shown > 0);
  give(loop, again.lock);
  give(loop, first.lock);
  close_all(loop, client);
}

/* ---- Cancelling ------------------------------------------------------------------------------- */

static void test_a_late_grant_is_given_back(void **state) {
  (void)state;
  mortise_loop *loop = new_loop();
  mortise_client *client[2] = {client_of(loop, 0), client_of(loop, 0)};
  mt_test_random random = mt_test_random_for("cancel");
  for (int round = 0; round < 12; round++) {
    told waits, other;
    bool held = round % 2;
    mortise_lock *lock = held ? take(loop, client[0], "/late") : NULL;
    start(&waits, client[1], "/late", -1);
    pass_time(loop, (int64_t)mt_test_below(&random, held ? 30 : 4));
    if (!waits.over) mortise_op_cancel(waits.op);
    if (lock) give(loop, lock);
    bool had = waits.over;
    if (had) give(loop, waits.lock);
    assert_true(poll_until(loop, &start(&other, client[0], "/late", -1)->over, PATIENCE_MS)); /* nobody has it */
    MT_CHECK(other.lock, "%s", other.error.message);
    give(loop, other.lock);
    assert_int_equal(waits.n, had ? 1 : 0);
  }
  mortise_client_free(client[1]);
  close_all(loop, client[0]);
}

static void test_cancelled_releases_go_on(void **state) {
  (void)state;
  mortise_loop *loop = new_loop();
  mortise_client *client[2] = {client_of(loop, 0), client_of(loop, 0)};
  told released = {0};
  mortise_lock *lock = take(loop, client[0], "/given");
  released.op = mortise_lock_release_start(lock, note, &released, NULL);
  mortise_op_cancel(released.op);
  give(loop, take(loop, client[1], "/given"));
  assert_int_equal(released.n, 0);
  mortise_op_cancel(mortise_client_close_start(client[1], note, &released, NULL));
  pass_time(loop, 50);
  close_all(loop, client[0]);
  assert_int_equal(released.n, 0);
}

/* ---- Converting ------------------------------------------------------------------------------- */

static void test_converting(void **state) {
  (void)state;
  mortise_error err;
  mortise_loop *loop = new_loop();
  mortise_client *client[2] = {client_of(loop, 0), client_of(loop, 0)};
  const char *path = "/convert";
  const mortise_lock_request shared = request_of(&path, MORTISE_SHARED, -1);
  told mine = {0}, others = {0}, up = {0}, twice = {0}, down = {0};
  assert_non_null(mortise_lock_acquire_start(client[0], &shared, note, &mine, NULL));
  assert_non_null(mortise_lock_acquire_start(client[1], &shared, note, &others, NULL));
  assert_true(poll_until(loop, &mine.over, PATIENCE_MS) && poll_until(loop, &others.over, PATIENCE_MS));
  uint64_t fence = mortise_lock_fence(mine.lock);

  assert_non_null(mortise_lock_convert_start(mine.lock, MORTISE_EXCLUSIVE, 100, note, &up, NULL));
  assert_non_null(mortise_lock_convert_start(mine.lock, MORTISE_SIX, 100, note, &twice, NULL));
  assert_true(poll_until(loop, &up.over, PATIENCE_MS) && poll_until(loop, &twice.over, PATIENCE_MS));
  assert_int_equal(up.error.code, MORTISE_LOCK_TIMEOUT);
  assert_ptr_equal(up.lock, mine.lock); /* as it was */
  assert_int_equal(twice.error.code, MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_lock_check(mine.lock, NULL), MORTISE_OK);

  up = (told){0};
  assert_non_null(mortise_lock_convert_start(mine.lock, MORTISE_EXCLUSIVE, -1, note, &up, NULL));
  give(loop, others.lock);
  assert_true(poll_until(loop, &up.over, PATIENCE_MS));
  MT_CHECK(!up.error.code, "%s", up.error.message);
  assert_true(mortise_lock_fence(mine.lock) > fence);

  assert_non_null(mortise_lock_convert_start(mine.lock, MORTISE_SHARED, 0, note, &down, &err));
  assert_true(poll_until(loop, &down.over, PATIENCE_MS));
  MT_CHECK(!down.error.code, "%s", down.error.message);
  others = (told){0};
  assert_non_null(mortise_lock_acquire_start(client[1], &shared, note, &others, NULL));
  assert_true(poll_until(loop, &others.over, PATIENCE_MS));

  up = (told){0};
  assert_non_null(mortise_lock_convert_start(mine.lock, MORTISE_EXCLUSIVE, -1, note, &up, NULL));
  pass_time(loop, 10);
  give(loop, mine.lock); /* while it is being converted */
  assert_true(poll_until(loop, &up.over, PATIENCE_MS));
  assert_int_equal(up.error.code, MORTISE_LOCK_LOST);
  assert_null(up.lock);
  give(loop, others.lock);
  mortise_client_free(client[1]);
  close_all(loop, client[0]);
}

/* ---- Losing ----------------------------------------------------------------------------------- */

typedef struct loss {
  unsigned n;
  bool told;
  mortise_lock *lock;
} loss;

static void note_loss(void *ctx, mortise_lock *lock) {
  loss *l = ctx;
  assert_true(stepping);
  assert_int_equal(mortise_lock_check(lock, NULL), MORTISE_LOCK_LOST);
  l->n++;
  l->told = true;
  l->lock = lock;
}

static void test_a_loss_is_told(void **state) {
  (void)state;
  mortise_loop *loop = new_loop();
  mortise_client *client[2] = {client_of(loop, 1500), client_of(loop, 0)};
  loss first = {0}, second = {0}, none = {0};
  mortise_lock *a = take(loop, client[0], "/lost/a"), *b = take(loop, client[0], "/lost/b");
  mortise_lock *c = take(loop, client[0], "/lost/c"), *d = take(loop, client[1], "/lost/d");
  assert_int_equal(mortise_lock_on_lost(a, note_loss, &first, NULL), MORTISE_OK);
  assert_int_equal(mortise_lock_on_lost(b, note_loss, &second, NULL), MORTISE_OK);
  assert_int_equal(mortise_lock_on_lost(c, note_loss, &none, NULL), MORTISE_OK);
  assert_int_equal(mortise_lock_on_lost(c, NULL, NULL, NULL), MORTISE_OK);
  assert_int_equal(mortise_lock_on_lost(d, note_loss, &none, NULL), MORTISE_OK);
  pass_time(loop, 50);
  assert_int_equal(first.n, 0);
  mt_test_break(&place, mt_manager_session(mt_client_manager(client[0], NULL))->id);
  assert_true(poll_until(loop, &first.told, PATIENCE_MS) && poll_until(loop, &second.told, PATIENCE_MS));
  assert_ptr_equal(first.lock, a);
  assert_ptr_equal(second.lock, b);
  pass_time(loop, 50);
  assert_int_equal(first.n + second.n + none.n, 2);
  assert_int_equal(mortise_lock_check(d, NULL), MORTISE_OK);
  mortise_error err;
  assert_int_equal(mortise_lock_release(a, &err), MORTISE_LOCK_LOST);
  told released = {0};
  assert_non_null(mortise_lock_release_start(b, note, &released, NULL));
  assert_true(poll_until(loop, &released.over, PATIENCE_MS));
  assert_int_equal(released.error.code, MORTISE_LOCK_LOST);
  loss late = {0}; /* who asks after it was lost is told, too */
  assert_int_equal(mortise_lock_on_lost(c, note_loss, &late, NULL), MORTISE_OK);
  assert_true(poll_until(loop, &late.told, PATIENCE_MS));
  give(loop, take(loop, client[0], "/lost/a")); /* with another session */
  mortise_client_free(client[1]);
  close_all(loop, client[0]);
}

/* A thread may ask for as long as the lock is not released. */
static void *ask_again_and_again(void *ctx) {
  for (int i = 0; i < 20000; i++)
    if (mortise_lock_check(ctx, NULL) || mortise_lock_remaining_ms(ctx) <= 0) return NULL;
  return ctx;
}

static void test_other_threads_ask(void **state) {
  (void)state;
  void *answer;
  pthread_t thread;
  mortise_loop *loop = new_loop();
  mortise_client *client = client_of(loop, 1000);
  mortise_lock *lock = take(loop, client, "/asked");
  assert_int_equal(pthread_create(&thread, NULL, ask_again_and_again, lock), 0);
  pass_time(loop, 400);
  pthread_join(thread, &answer);
  assert_ptr_equal(answer, lock);
  give(loop, lock);
  close_all(loop, client);
}

/* ---- Closing ---------------------------------------------------------------------------------- */

static void test_closing_ends_all(void **state) {
  (void)state;
  for (int way = 0; way < 3; way++) {
    mortise_loop *loop = new_loop();
    mortise_client *client[2] = {client_of(loop, 0), client_of(loop, 0)};
    told waits[3], converts = {0}, releases = {0}, end = {0};
    mortise_lock *lock = take(loop, client[0], "/closing"), *other = take(loop, client[1], "/closing-too");
    const char *path = "/closing-shared";
    const mortise_lock_request shared = request_of(&path, MORTISE_SHARED, -1);
    told mine = {0}, others = {0};
    assert_non_null(mortise_lock_acquire_start(client[0], &shared, note, &others, NULL));
    assert_non_null(mortise_lock_acquire_start(client[1], &shared, note, &mine, NULL));
    assert_true(poll_until(loop, &mine.over, PATIENCE_MS) && poll_until(loop, &others.over, PATIENCE_MS));
    for (int i = 0; i < 3; i++) start(&waits[i], client[1], "/closing", -1);
    assert_non_null(mortise_lock_convert_start(mine.lock, MORTISE_EXCLUSIVE, -1, note, &converts, NULL));
    pass_time(loop, 30);
    assert_non_null(mortise_lock_release_start(other, note, &releases, NULL));
    if (way == 0) {
      assert_non_null(mortise_client_close_start(client[1], note, &end, NULL));
      mortise_error err;
      assert_null(mortise_lock_acquire_start(client[1], &shared, note, &end, &err));
      assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
      assert_true(poll_until(loop, &end.over, PATIENCE_MS));
    } else {
      stepping = true;
      if (way == 1)
        mortise_client_free(client[1]);
      else
        mortise_loop_free(loop); /* with both */
      stepping = false;
    }
    for (int i = 0; i < 3; i++) assert_true(waits[i].n == 1 && waits[i].error.code == MORTISE_INTERRUPTED);
    assert_int_equal(converts.n, 1);
    assert_true(converts.error.code == MORTISE_INTERRUPTED || converts.error.code == MORTISE_LOCK_LOST);
    assert_int_equal(releases.n, 1);
    if (way < 2) {
      give(loop, others.lock);
      give(loop, lock);
      close_all(loop, client[0]);
    }
    mt_test_expect_empty(&place);
  }
}

/* In a callback of the loop nothing waits. */
typedef struct inner {
  told told;
  mortise_client *client, *other;
  mortise_loop *loop;
} inner;

static void call_what_waits(void *ctx, const mortise_outcome *outcome) {
  inner *in = ctx;
  mortise_error err;
  const char *path = "/inner/below";
  const mortise_lock_request request = request_of(&path, MORTISE_EXCLUSIVE, 0);
  MT_CHECK(outcome->lock, "%s", outcome->error.message);
  assert_null(mortise_lock_acquire(in->client, &request, NULL, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  assert_non_null(strstr(err.message, "callback"));
  assert_int_equal(mortise_lock_convert(outcome->lock, MORTISE_SHARED, 0, NULL, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_client_init_tables(in->client, 0, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_loop_step(in->loop, &err), MORTISE_INVALID_ARGUMENT);
  mortise_loop_free(in->loop); /* does nothing here */
  assert_int_equal(mortise_lock_release(outcome->lock, &err), MORTISE_OK);
  mortise_client_free(in->other);
  in->told.over = true;
}

static void test_callbacks_do_not_wait(void **state) {
  (void)state;
  mortise_loop *loop = new_loop();
  inner in = {.loop = loop, .client = client_of(loop, 0), .other = client_of(loop, 0)};
  give(loop, take(loop, in.other, "/inner"));
  const char *path = "/inner";
  const mortise_lock_request request = request_of(&path, MORTISE_EXCLUSIVE, -1);
  assert_non_null(mortise_lock_acquire_start(in.client, &request, call_what_waits, &in, NULL));
  assert_true(poll_until(loop, &in.told.over, PATIENCE_MS));
  give(loop, take(loop, in.client, "/inner"));
  close_all(loop, in.client);
}

/* The calls that wait work in a loop of the program's, too, and tell of what was started meanwhile. */
static void test_calls_that_wait(void **state) {
  (void)state;
  mortise_error err;
  told beside;
  mortise_loop *loop = new_loop();
  mortise_client *client = client_of(loop, 0);
  const char *path = "/waits";
  const mortise_lock_request request = request_of(&path, MORTISE_EXCLUSIVE, -1);
  start(&beside, client, "/beside", -1);
  stepping = true;
  mortise_lock *lock = mortise_lock_acquire(client, &request, NULL, &err);
  MT_CHECK(lock, "%s", err.message);
  assert_int_equal(mortise_lock_convert(lock, MORTISE_SHARED, -1, NULL, &err), MORTISE_OK);
  assert_int_equal(mortise_lock_release(lock, &err), MORTISE_OK);
  stepping = false;
  assert_true(poll_until(loop, &beside.over, PATIENCE_MS));
  give(loop, beside.lock);
  close_all(loop, client);
}

/* ---- Few descriptors and threads --------------------------------------------------------------- */

static int entries_of(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  assert_non_null(d);
  while (readdir(d)) n++;
  closedir(d);
  return n - 2;
}

/* At their end each session is given five seconds, in which a store under the thread sanitizer ends fewer. */
#ifdef __SANITIZE_THREAD__
enum { CLIENTS = 150 };
#else
enum { CLIENTS = 1000 };
#endif

static void test_a_thousand_clients(void **state) {
  (void)state;
  enum { MOST_DESCRIPTORS = 200, MOST_THREADS = 6 };
  static mortise_client *client[CLIENTS];
  static told all[CLIENTS];
  mortise_loop *loop = new_loop();
  int descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
  for (int i = 0; i < CLIENTS; i++) {
    char path[32];
    snprintf(path, sizeof path, "/thousand/%d", i);
    client[i] = client_of(loop, 120000);
    start(&all[i], client[i], path, -1);
  }
  for (int i = 0; i < CLIENTS; i++) {
    assert_true(poll_until(loop, &all[i].over, PATIENCE_MS));
    MT_CHECK(all[i].lock, "client %d: %s", i, all[i].error.message);
  }
  descriptors = entries_of("/proc/self/fd") - descriptors;
  threads = entries_of("/proc/self/task") - threads;
  printf("# %d clients that hold a lock each, on %s: %d descriptors and %d threads more\n", CLIENTS, place.name,
         descriptors, threads);
  assert_in_range(descriptors, 1, MOST_DESCRIPTORS);
  assert_in_range(threads, 1, MOST_THREADS);
  for (int i = 0; i < CLIENTS; i++) assert_int_equal(mortise_lock_check(all[i].lock, NULL), MORTISE_OK);
  mortise_loop_free(loop);
  mt_test_expect_empty(&place);
}

/* ---- What is refused ---------------------------------------------------------------------------- */

static void test_refused(void **state) {
  (void)state;
  mortise_error err;
  const char *path = "/refused";
  const mortise_lock_request request = request_of(&path, MORTISE_EXCLUSIVE, -1);
  mortise_loop *loop = new_loop();
  mortise_client *client = client_of(loop, 0), *alone = client_of(NULL, 0);
  told t = {0};
  assert_null(mortise_lock_acquire_start(NULL, &request, note, &t, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  assert_null(mortise_lock_acquire_start(client, NULL, note, &t, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  assert_null(mortise_lock_acquire_start(client, &request, NULL, NULL, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  assert_null(mortise_lock_acquire_start(alone, &request, note, &t, &err));
  assert_non_null(strstr(err.message, "loop"));
  assert_null(mortise_client_close_start(alone, note, &t, &err));
  assert_null(mortise_lock_convert_start(NULL, MORTISE_SHARED, 0, note, &t, &err));
  assert_null(mortise_lock_release_start(NULL, note, &t, &err));
  assert_int_equal(mortise_lock_on_lost(NULL, note_loss, NULL, &err), MORTISE_INVALID_ARGUMENT);
  assert_string_equal(mortise_lock_epoch(NULL), "");
  assert_int_equal(mortise_loop_step(NULL, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mortise_loop_fd(NULL), -1);
  assert_int_equal(mortise_loop_timeout_ms(NULL), -1);
  mortise_loop_wake(NULL);
  mortise_loop_free(NULL);
  mortise_op_cancel(NULL);
  mortise_client_free(alone);
  close_all(loop, client);
  assert_int_equal(t.n, 0);
}

static int in_a_child(mortise_loop *loop, mortise_client *client, mortise_lock *lock) {
  mortise_error err;
  const char *path = "/forked";
  const mortise_lock_request request = request_of(&path, MORTISE_EXCLUSIVE, -1);
  mortise_options options;
  mortise_options_init(&options);
  options.store = place.url;
  options.loop = loop;
  if (mortise_loop_step(loop, &err) != MORTISE_INVALID_ARGUMENT) return 1;
  if (mortise_client_open(&options, &err) || err.code != MORTISE_INVALID_ARGUMENT) return 2;
  if (mortise_lock_acquire_start(client, &request, note, NULL, &err)) return 3;
  if (mortise_lock_check(lock, &err) != MORTISE_LOCK_LOST) return 4;
  if (mortise_lock_release_start(lock, note, NULL, &err)) return 5;
  mortise_client_free(client);
  mortise_loop_free(loop);
#ifdef __SANITIZE_THREAD__
  return 0; /* this sanitizer cannot have threads in a child of a process that had some */
#endif
  options.loop = mortise_loop_new(&err); /* its own work */
  options.table = place.table;
  mortise_client *own = options.loop ? mortise_client_open(&options, &err) : NULL;
  if (!own) return 6;
  mortise_lock *held = mortise_lock_acquire(own, &request, NULL, &err);
  if (!held) return 7;
  mortise_loop_free(options.loop);
  return 0;
}

static void test_forked(void **state) {
  (void)state;
  int status = -1;
  mortise_loop *loop = new_loop();
  mortise_client *client = client_of(loop, 1000);
  mortise_lock *lock = take(loop, client, "/parent");
  for (int tries = 0; tries < 4; tries++) { /* a child of the address sanitizer may hang (embed_test.c) */
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
      alarm(20);
      _exit(in_a_child(loop, client, lock));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) break;
  }
  MT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
  pass_time(loop, 1500);
  assert_int_equal(mortise_lock_check(lock, NULL), MORTISE_OK); /* its heartbeat goes on */
  give(loop, lock);
  close_all(loop, client);
}

static int init_started_table(void **state) {
  (void)state;
  const struct rlimit limit = {1024, 1024};
  return setrlimit(RLIMIT_NOFILE, &limit) ? -1 : mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_at_once),
      cmocka_unit_test(test_one_after_another),
      cmocka_unit_test(test_tasks),
      cmocka_unit_test(test_a_late_grant_is_given_back),
      cmocka_unit_test(test_cancelled_releases_go_on),
      cmocka_unit_test(test_converting),
      cmocka_unit_test(test_a_loss_is_told),
      cmocka_unit_test(test_other_threads_ask),
      cmocka_unit_test(test_closing_ends_all),
      cmocka_unit_test(test_callbacks_do_not_wait),
      cmocka_unit_test(test_calls_that_wait),
      cmocka_unit_test(test_a_thousand_clients),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_forked),
  };
  return mt_test_each_place(&place, "started", tests, sizeof tests / sizeof tests[0], init_started_table);
}
