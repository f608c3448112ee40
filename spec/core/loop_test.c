#include "base/loop.h"

#include "base/clock.h"
#include "base/pump.h"
#include "property.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

static mt_loop *loop;

static int setup(void **state) {
  (void)state;
  mortise_error err;
  loop = mt_loop_new(&err);
  return loop ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  mt_loop_free(loop);
  return 0;
}

static void step(int64_t max_wait_ms) {
  assert_int_equal(mt_loop_step(loop, max_wait_ms, NULL), MORTISE_OK);
}

/* ---- timers ---- */

static char order[64];
static size_t fired;

static void note(void *ctx) {
  order[fired++] = *(const char *)ctx;
  order[fired] = '\0';
}

static void start(mt_timer *t, int64_t at_ms) {
  assert_int_equal(mt_timer_start(loop, t, at_ms, NULL), MORTISE_OK);
}

static void forget_order(void) {
  fired = 0;
  order[0] = '\0';
}

static void timers_fire_by_time_then_by_start(void **state) {
  (void)state;
  forget_order();
  mt_timer t[6];
  for (int i = 0; i < 6; i++) t[i] = (mt_timer){.fire = note, .ctx = &"abcdef"[i]};
  int64_t now = mt_loop_now(loop);
  start(&t[0], now + 20);
  start(&t[1], now + 10);
  start(&t[2], now + 10);
  start(&t[3], now + 20);
  start(&t[4], now + 5);
  start(&t[5], now + 1);
  mt_timer_stop(loop, &t[4]);
  mt_timer_stop(loop, &t[4]);
  start(&t[1], now + 10); /* a restarted timer comes after those with the same time */
  while (fired < 5) step(-1);
  assert_string_equal(order, "fcbad");
  for (int i = 0; i < 6; i++) assert_int_equal(t[i].slot, 0);
}

static void a_timer_is_never_early(void **state) {
  (void)state;
  forget_order();
  mt_timer t = {.fire = note, .ctx = "x"};
  for (int64_t wait = 0; wait < 30; wait += 7) {
    int64_t at = mt_loop_now(loop) + wait;
    start(&t, at);
    while (t.slot) step(-1);
    assert_true(mt_clock_boot_ms() >= at);
  }
}

static void a_step_waits_no_longer_than_told(void **state) {
  (void)state;
  mt_timer t = {.fire = note, .ctx = "x"};
  start(&t, mt_loop_now(loop) + 60000);
  int64_t before = mt_clock_boot_ms();
  step(0);
  step(20);
  int64_t took = mt_clock_boot_ms() - before;
  assert_in_range(took, 20, 5000);
  assert_int_not_equal(t.slot, 0);
  mt_timer_stop(loop, &t);
}

typedef struct pair {
  mt_timer a, b;
} pair;

static void stop_other(void *ctx) {
  pair *p = ctx;
  note("1");
  mt_timer_stop(loop, &p->b);
}

static void a_timer_stopped_by_another_does_not_fire(void **state) {
  (void)state;
  forget_order();
  pair p = {.a = {.fire = stop_other, .ctx = &p}, .b = {.fire = note, .ctx = "2"}};
  start(&p.a, 0);
  start(&p.b, 0);
  step(0);
  step(0);
  assert_string_equal(order, "1");
}

static void fire_random(void *ctx) {
  int64_t *last = ctx;
  int64_t now = mt_loop_now(loop);
  assert_true(now >= *last);
  *last = now;
  fired++;
}

typedef struct model {
  mt_timer timer;
  int64_t at;
  int64_t start;
  bool on;
} model;

static int64_t model_time, model_start;

static void fire_model(void *ctx) {
  model *m = ctx;
  assert_true(m->on);
  /* Never before one that is earlier, or as early and started before. */
  assert_true(m->at > model_time || (m->at == model_time && m->start > model_start));
  model_time = m->at;
  model_start = m->start;
  m->on = false;
}

enum { MODELS = 300 };

/* Starts and stops timers at random, due from `from` on. */
static void change_models(model *models, rng *r, int64_t from) {
  int64_t starts = 0;
  for (int change = 0; change < 20000; change++) {
    model *m = &models[rng_below(r, MODELS)];
    m->on = rng_chance(r, 70);
    if (m->on) {
      m->at = from + (int64_t)rng_below(r, 10);
      m->start = ++starts;
      start(&m->timer, m->at);
    } else {
      mt_timer_stop(loop, &m->timer);
    }
    assert_int_equal(m->timer.slot != 0, m->on);
  }
}

static void many_timers_keep_their_order(void **state) {
  (void)state;
  static model models[MODELS];
  rng r = {property_seed()};
  for (size_t i = 0; i < MODELS; i++)
    models[i] = (model){.timer = {.fire = fire_model, .ctx = &models[i]}};
  /* A timer that is already due when it is started counts from then, so none may be due yet, even
   * on a slow machine. */
  int64_t from, lead = 30;
  do {
    from = mt_loop_now(loop) + lead;
    change_models(models, &r, from);
    lead *= 4;
  } while (mt_clock_boot_ms() >= from);
  model_time = model_start = 0;
  while (mt_clock_boot_ms() < from + 11) step(5);
  step(0);
  for (size_t i = 0; i < MODELS; i++) assert_false(models[i].on);
}

static void the_time_stands_still_in_callbacks(void **state) {
  (void)state;
  int64_t last = 0;
  mt_timer t = {.fire = fire_random, .ctx = &last};
  for (int i = 0; i < 3; i++) {
    start(&t, 0);
    step(0);
    assert_true(last <= mt_clock_boot_ms() && last > mt_clock_boot_ms() - 1000);
  }
}

static bool refuse_all(void *ctx, size_t size) {
  (void)ctx, (void)size;
  return false;
}

static void without_memory_a_timer_stays_stopped(void **state) {
  (void)state;
  mt_timer t = {.fire = note, .ctx = "x"};
  mt_mem_hook(refuse_all, NULL);
  mortise_error err;
  mt_loop *none = mt_loop_new(&err);
  mortise_status status = mt_timer_start(loop, &t, 0, NULL);
  mt_mem_hook(NULL, NULL);
  assert_null(none);
  assert_int_equal(err.code, MORTISE_OUT_OF_MEMORY);
  assert_int_equal(status, MORTISE_OUT_OF_MEMORY);
  assert_int_equal(t.slot, 0);
  mt_timer_stop(loop, &t);
}

/* ---- descriptors ---- */

typedef struct channel {
  mt_watch watch;
  int write_end;
  int calls;
  uint32_t events;
  struct channel *other;
} channel;

static void count_ready(void *ctx, uint32_t events) {
  channel *c = ctx;
  c->calls++;
  c->events = events;
}

static channel *channel_new(void (*ready)(void *, uint32_t)) {
  channel *c = mt_calloc(1, sizeof *c);
  int ends[2];
  assert_non_null(c);
  assert_int_equal(pipe(ends), 0);
  c->watch = (mt_watch){.ready = ready, .ctx = c, .fd = ends[0]};
  c->write_end = ends[1];
  return c;
}

static void channel_free(channel *c) {
  mt_watch_stop(loop, &c->watch);
  close(c->watch.fd);
  close(c->write_end);
  mt_free(c);
}

static void watch(channel *c, uint32_t events) {
  assert_int_equal(mt_watch_set(loop, &c->watch, events, NULL), MORTISE_OK);
}

static void fill(channel *c) {
  assert_int_equal(write(c->write_end, "x", 1), 1);
}

static void a_descriptor_is_told_while_it_is_ready(void **state) {
  (void)state;
  channel *c = channel_new(count_ready);
  watch(c, EPOLLIN);
  step(0);
  assert_int_equal(c->calls, 0);
  fill(c);
  step(-1);
  step(-1);
  assert_int_equal(c->calls, 2);
  assert_int_equal(c->events, EPOLLIN);
  watch(c, 0); /* changes it */
  step(0);
  assert_int_equal(c->calls, 2);
  watch(c, EPOLLIN);
  step(0);
  assert_int_equal(c->calls, 3);
  mt_watch_stop(loop, &c->watch);
  mt_watch_stop(loop, &c->watch);
  step(0);
  assert_int_equal(c->calls, 3);
  channel_free(c);
}

static void a_bad_descriptor_is_an_error(void **state) {
  (void)state;
  mt_watch w = {.ready = count_ready, .fd = -1};
  mortise_error err;
  assert_int_equal(mt_watch_set(loop, &w, EPOLLIN, &err), MORTISE_UNAVAILABLE);
  assert_false(w.on);
}

static int survivors;
static channel *survivor;

static void end_other(void *ctx, uint32_t events) {
  channel *c = ctx;
  (void)events;
  survivors++;
  survivor = c;
  channel_free(c->other);
  mt_watch_stop(loop, &c->watch);
}

static void a_watch_ended_in_the_same_batch_does_not_fire(void **state) {
  (void)state;
  channel *a = channel_new(end_other), *b = channel_new(end_other);
  a->other = b;
  b->other = a;
  watch(a, EPOLLIN);
  watch(b, EPOLLIN);
  fill(a);
  fill(b);
  survivors = 0;
  step(-1);
  step(0);
  assert_int_equal(survivors, 1);
  channel_free(survivor);
}

static void silence_other(void *ctx, uint32_t events) {
  channel *c = ctx;
  (void)events;
  c->calls++;
  watch(c->other, 0);
}

static void a_watch_changed_in_the_same_batch_fires_only_as_changed(void **state) {
  (void)state;
  channel *a = channel_new(silence_other), *b = channel_new(silence_other);
  a->other = b;
  b->other = a;
  watch(a, EPOLLIN);
  watch(b, EPOLLIN);
  fill(a);
  fill(b);
  step(-1);
  assert_int_equal(a->calls + b->calls, 1);
  channel_free(a);
  channel_free(b);
}

static void restart(void *ctx) {
  mt_timer *t = ctx;
  fired++;
  start(t, 0);
}

static void a_timer_that_is_always_due_starves_nobody(void **state) {
  (void)state;
  forget_order();
  channel *c = channel_new(count_ready);
  mt_timer t = {.fire = restart, .ctx = &t};
  watch(c, EPOLLIN);
  fill(c);
  start(&t, 0);
  for (int i = 1; i <= 5; i++) {
    step(-1);
    assert_int_equal(fired, i);
    assert_int_equal(c->calls, i);
  }
  mt_timer_stop(loop, &t);
  channel_free(c);
}

static void read_and_pump(void *ctx, uint32_t events) {
  channel *c = ctx;
  (void)events;
  char byte;
  assert_int_equal(read(c->watch.fd, &byte, 1), 1); /* blocks if the event was stale */
  c->calls++;
  step(0);
}

static void a_pumping_callback_tells_no_old_news(void **state) {
  (void)state;
  channel *c[4];
  for (int i = 0; i < 4; i++) {
    c[i] = channel_new(read_and_pump);
    watch(c[i], EPOLLIN);
    fill(c[i]);
  }
  step(-1);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(c[i]->calls, 1);
    channel_free(c[i]);
  }
}

/* ---- posts and waking ---- */

typedef struct work {
  mt_post post;
  char letter;
  int again;
} work;

static void run_work(void *ctx) {
  work *w = ctx;
  note(&w->letter);
  if (w->again-- > 0) mt_loop_post(loop, &w->post);
}

static void posts_run_in_order_once_each(void **state) {
  (void)state;
  forget_order();
  work w[3];
  for (int i = 0; i < 3; i++)
    w[i] = (work){.post = {.run = run_work, .ctx = &w[i]}, .letter = "abc"[i]};
  w[0].again = 2;
  for (int i = 0; i < 3; i++) mt_loop_post(loop, &w[i].post);
  mt_loop_post(loop, &w[1].post); /* queued already */
  mt_loop_post(loop, &w[2].post);
  step(-1);
  assert_string_equal(order, "abc");
  step(-1);
  step(-1);
  step(0);
  assert_string_equal(order, "abcaa");
  mt_loop_post(loop, &w[1].post); /* and again, once it ran */
  step(-1);
  assert_string_equal(order, "abcaab");
}

/* Whichever posts are taken back, if any, the others run in order. */
static void posts_are_taken_back(void **state) {
  (void)state;
  static const char *const left[] = {"bc", "ac", "ab"};
  for (int i = 0; i < 3; i++) {
    work w[3], more = {.post = {.run = run_work, .ctx = &more}, .letter = 'd'};
    forget_order();
    for (int k = 0; k < 3; k++) {
      w[k] = (work){.post = {.run = run_work, .ctx = &w[k]}, .letter = "abc"[k]};
      mt_loop_post(loop, &w[k].post);
    }
    mt_loop_unpost(loop, &w[i].post);
    mt_loop_unpost(loop, &w[i].post);
    mt_loop_unpost(loop, &more.post);
    mt_loop_post(loop, &more.post);
    step(-1);
    assert_memory_equal(order, left[i], 2);
    assert_string_equal(order + 2, "d");
    mt_loop_post(loop, &w[i].post);
    mt_loop_unpost(loop, &w[i].post); /* the only one */
    step(0);
    assert_string_equal(order + 2, "d");
  }
}

static void what_is_posted_at_the_end_is_dropped(void **state) {
  (void)state;
  forget_order();
  mt_loop *other = mt_loop_new(NULL);
  work w = {.post = {.run = run_work, .ctx = &w}, .letter = 'x'};
  mt_timer t = {.fire = note, .ctx = "y"};
  mt_loop_post(other, &w.post);
  assert_int_equal(mt_timer_start(other, &t, 0, NULL), MORTISE_OK);
  mt_loop_free(other);
  assert_int_equal(fired, 0);
  assert_int_equal(t.slot, 0);
}

enum { THREADS = 4, POSTS = 3000 };

typedef struct sender {
  pthread_t thread;
  struct counted {
    mt_post post;
    struct sender *sender;
    int number;
  } posts[POSTS];
  int seen; /* the loop's thread only */
} sender;

static void run_counted(void *ctx) {
  struct counted *c = ctx;
  assert_int_equal(c->number, c->sender->seen);
  c->sender->seen++;
}

static void *send_all(void *ctx) {
  sender *s = ctx;
  for (int i = 0; i < POSTS; i++) {
    s->posts[i] = (struct counted){{run_counted, &s->posts[i], NULL}, s, i};
    mt_loop_post(loop, &s->posts[i].post);
  }
  return NULL;
}

static bool all_seen(const sender *s) {
  for (int i = 0; i < THREADS; i++)
    if (s[i].seen < POSTS) return false;
  return true;
}

static void posts_of_many_threads_all_arrive_in_their_order(void **state) {
  (void)state;
  sender *s = mt_calloc(THREADS, sizeof *s);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&s[i].thread, NULL, send_all, &s[i]), 0);
  int64_t give_up = mt_clock_boot_ms() + 60000;
  while (!all_seen(s) && mt_clock_boot_ms() < give_up) step(1000);
  for (int i = 0; i < THREADS; i++) pthread_join(s[i].thread, NULL);
  assert_true(all_seen(s));
  mt_free(s);
}

static void *wake_soon(void *ctx) {
  (void)ctx;
  usleep(20000);
  mt_loop_wake(loop);
  return NULL;
}

static void a_wake_of_another_thread_ends_the_wait(void **state) {
  (void)state;
  pthread_t thread;
  int64_t before = mt_clock_boot_ms();
  assert_int_equal(pthread_create(&thread, NULL, wake_soon, NULL), 0);
  step(60000);
  assert_true(mt_clock_boot_ms() - before < 30000);
  pthread_join(thread, NULL);
}

static void a_wake_before_the_wait_counts_once(void **state) {
  (void)state;
  mt_loop_wake(loop);
  mt_loop_wake(loop);
  int64_t before = mt_clock_boot_ms();
  step(60000);
  assert_true(mt_clock_boot_ms() - before < 30000);
  before = mt_clock_boot_ms();
  step(30);
  assert_true(mt_clock_boot_ms() - before >= 30);
}

static void wake_handler(int number) {
  (void)number;
  mt_loop_wake(loop);
}

static void idle_handler(int number) {
  (void)number;
}

typedef struct signaller {
  pthread_t target;
  atomic_bool stop;
} signaller;

static void *signal_until_stopped(void *ctx) {
  signaller *s = ctx;
  while (!atomic_load(&s->stop)) {
    usleep(10000);
    pthread_kill(s->target, SIGUSR1);
  }
  return NULL;
}

static void a_signal_ends_the_wait(void **state) {
  (void)state;
  void (*const handlers[])(int) = {idle_handler, wake_handler};
  for (int i = 0; i < 2; i++) {
    struct sigaction action = {.sa_handler = handlers[i], .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    signaller s = {.target = pthread_self()};
    pthread_t thread;
    int64_t before = mt_clock_boot_ms();
    assert_int_equal(pthread_create(&thread, NULL, signal_until_stopped, &s), 0);
    step(60000);
    assert_true(mt_clock_boot_ms() - before < 30000);
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
  }
}

/* ---- pumping ---- */

static void a_pump_ends_with_what_it_waits_for(void **state) {
  (void)state;
  bool soon_over = false, later_over = false;
  mt_timer soon = {.fire = mt_flag_set, .ctx = &soon_over};
  mt_timer later = {.fire = mt_flag_set, .ctx = &later_over};
  start(&soon, mt_loop_now(loop) + 10);
  start(&later, mt_loop_now(loop) + 600000);
  assert_int_equal(mt_loop_pump(loop, &soon_over, -1, NULL), MORTISE_OK);
  assert_true(soon_over && !later_over);
  start(&later, mt_loop_now(loop) + 10);
  assert_int_equal(mt_loop_pump(loop, &later_over, mt_clock_boot_ms() + 30000, NULL), MORTISE_OK);
  assert_true(later_over);
  assert_int_equal(mt_loop_pump(loop, &later_over, 0, NULL), MORTISE_OK); /* it is over already */
}

static void a_pump_ends_in_time(void **state) {
  (void)state;
  const bool never = false;
  mortise_error err;
  int64_t until = mt_clock_boot_ms() + 30;
  assert_int_equal(mt_loop_pump(loop, &never, until, &err), MORTISE_INTERRUPTED);
  assert_true(err.message[0]);
  assert_true(mt_clock_boot_ms() >= until);
}

typedef struct told {
  void (*done)(void *ctx, struct told *t);
  void *ctx;
  bool finished;
} told;

static void was_finished(void *ctx, told *t) {
  *(bool *)ctx = t->finished;
}

static void the_end_is_told_to_whom_it_concerns(void **state) {
  (void)state;
  bool finished_before = false;
  told pumped = {0}, called = {.done = was_finished, .ctx = &finished_before};
  MT_FINISH(&pumped);
  MT_FINISH(&called);
  assert_true(pumped.finished && finished_before);
}

#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(timers_fire_by_time_then_by_start),
      LOOP_TEST(a_timer_is_never_early),
      LOOP_TEST(a_step_waits_no_longer_than_told),
      LOOP_TEST(a_timer_stopped_by_another_does_not_fire),
      LOOP_TEST(many_timers_keep_their_order),
      LOOP_TEST(the_time_stands_still_in_callbacks),
      LOOP_TEST(without_memory_a_timer_stays_stopped),
      LOOP_TEST(a_descriptor_is_told_while_it_is_ready),
      LOOP_TEST(a_bad_descriptor_is_an_error),
      LOOP_TEST(a_watch_ended_in_the_same_batch_does_not_fire),
      LOOP_TEST(a_watch_changed_in_the_same_batch_fires_only_as_changed),
      LOOP_TEST(a_timer_that_is_always_due_starves_nobody),
      LOOP_TEST(a_pumping_callback_tells_no_old_news),
      LOOP_TEST(posts_run_in_order_once_each),
      LOOP_TEST(posts_are_taken_back),
      LOOP_TEST(what_is_posted_at_the_end_is_dropped),
      LOOP_TEST(posts_of_many_threads_all_arrive_in_their_order),
      LOOP_TEST(a_wake_of_another_thread_ends_the_wait),
      LOOP_TEST(a_wake_before_the_wait_counts_once),
      LOOP_TEST(a_signal_ends_the_wait),
      LOOP_TEST(a_pump_ends_with_what_it_waits_for),
      LOOP_TEST(a_pump_ends_in_time),
      LOOP_TEST(the_end_is_told_to_whom_it_concerns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
