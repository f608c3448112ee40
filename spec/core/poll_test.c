/* How often one that waits asks; and sixteen that want one lock all the time, take it in turns, and see their
 * turn only by looking: what does that cost beside waiters that know their turn? In virtual time, with requests
 * that take some milliseconds, and now and then one that takes far longer. */
#include "lock/poll.h"
#include "store/store.h"

#include "property.h"
#include "support/support.h"

#include <string.h>

enum { WAITERS = 16, TRIP_MS = 2, STALL_MS = 80 };

typedef enum { JOINS, SLEEPS, LOOKS, CLAIMS, HOLDS, RELEASES } doing;

typedef struct waiter {
  doing doing;
  int64_t due_ms, since_ms;
  mt_poll poll;
} waiter;

typedef struct door {
  waiter all[WAITERS];
  size_t queue[WAITERS], n;
  bool held, knowing; /* they know their turn without looking */
  int64_t now_ms, hold_ms, longest_ms;
  uint64_t grants, looks;
  unsigned stalls; /* of a thousand requests */
  rng dice;
} door;

static int64_t trip_ms(door *d) {
  bool stalls = rng_below(&d->dice, 1000) < d->stalls;
  return 1 + (int64_t)rng_below(&d->dice, TRIP_MS) + (stalls ? STALL_MS : 0);
}

static void begin(door *d, waiter *w, doing next, int64_t ms) {
  w->doing = next;
  w->due_ms = d->now_ms + ms;
}

static uint32_t before(const door *d, const waiter *w) {
  uint32_t n = 0;
  while (&d->all[d->queue[n]] != w) n++;
  return n;
}

static void sleep_on(door *d, waiter *w) {
  uint32_t n = before(d, w);
  mt_poll_seen(&w->poll, n, n, d->now_ms);
  begin(d, w, SLEEPS, d->knowing ? 1 : mt_poll_pause_ms(&w->poll, d->now_ms));
}

static void join(door *d, waiter *w) {
  d->queue[d->n++] = (size_t)(w - d->all);
  mt_poll_begin(&w->poll, d->now_ms);
  sleep_on(d, w);
}

static void see(door *d, waiter *w) {
  d->looks++;
  if (!d->held && before(d, w) == 0)
    begin(d, w, CLAIMS, trip_ms(d));
  else
    sleep_on(d, w);
}

static void hold(door *d, waiter *w) {
  int64_t waited_ms = d->now_ms - w->since_ms;
  memmove(d->queue, d->queue + 1, --d->n * sizeof *d->queue);
  d->held = true;
  d->grants++;
  if (waited_ms > d->longest_ms) d->longest_ms = waited_ms;
  begin(d, w, HOLDS, d->hold_ms);
}

static void leave(door *d, waiter *w) {
  d->held = false;
  w->since_ms = d->now_ms;
  begin(d, w, JOINS, trip_ms(d));
}

static void step(door *d, waiter *w) {
  switch (w->doing) {
  case JOINS:
    join(d, w);
    return;
  case SLEEPS:
    begin(d, w, LOOKS, d->knowing ? 0 : trip_ms(d));
    return;
  case LOOKS:
    see(d, w);
    return;
  case CLAIMS:
    hold(d, w);
    return;
  case HOLDS:
    begin(d, w, RELEASES, trip_ms(d));
    return;
  case RELEASES:
    leave(d, w);
  }
}

static void run(door *d, int64_t ms) {
  for (int64_t end_ms = d->now_ms + ms; d->now_ms < end_ms; d->now_ms++)
    for (size_t i = 0; i < WAITERS; i++)
      if (d->all[i].due_ms <= d->now_ms) step(d, &d->all[i]);
}

static void crowd(door *d, uint64_t seed, int64_t hold_ms, unsigned stalls, bool knowing) {
  *d = (door){.hold_ms = hold_ms, .stalls = stalls, .knowing = knowing, .dice = {seed}};
  for (size_t i = 0; i < WAITERS; i++) d->all[i].due_ms = (int64_t)i;
}

static void compare(int64_t hold_ms, unsigned stalls) {
  door looking, knowing;
  crowd(&looking, property_seed(), hold_ms, stalls, false);
  crowd(&knowing, property_seed(), hold_ms, stalls, true);
  run(&looking, 60000);
  run(&knowing, 60000);
  print_message("holds of %d ms, %u stalls in 1,000: %d grants of %d, longest wait %d ms of %d, "
                "%.1f looks each\n",
                (int)hold_ms, stalls, (int)looking.grants, (int)knowing.grants,
                (int)looking.longest_ms, (int)knowing.longest_ms,
                (double)looking.looks / (double)looking.grants);
  assert_true(looking.grants * 3 >= knowing.grants);
  assert_true(looking.longest_ms <= knowing.longest_ms * 3);
  assert_true(looking.looks <= looking.grants * (20 + (uint64_t)hold_ms / 5));
}

static void test_looking_costs_little(void **state) {
  (void)state;
  static const int64_t holds_ms[] = {0, 5, 20, 100, 1000};
  for (size_t i = 0; i < sizeof holds_ms / sizeof *holds_ms; i++) {
    compare(holds_ms[i], 0);
    compare(holds_ms[i], 2);
    compare(holds_ms[i], 20);
  }
}

/* Who is next does nothing for a while. Once it goes on, so does everything else, as before. */
static void test_a_stall_passes(void **state) {
  (void)state;
  door d;
  crowd(&d, property_seed(), 0, 0, false);
  run(&d, 5000);
  uint64_t usual = d.grants;
  d.all[d.queue[0]].due_ms += 500;
  run(&d, 1000);
  uint64_t then = d.grants;
  run(&d, 5000);
  assert_true((d.grants - then) * 5 >= usual * 4);
}

/* A place must outlive several writes as slow as the last one, and does not live long once they are fast. */
static void test_places_outlive_slow_writes(void **state) {
  (void)state;
  int64_t place_ms = 0, spread_ms;
  mt_poll far = {.before = 9, .seen = true};
  for (int64_t took_ms = 0; took_ms <= 5000; took_ms += 100) {
    place_ms = mt_poll_place_ms(place_ms, took_ms);
    int64_t renewed_ms = mt_poll_renew_ms(&far, place_ms, &spread_ms) + spread_ms + 2 * took_ms;
    assert_true(renewed_ms < place_ms);
  }
  assert_in_range(mt_poll_place_ms(place_ms, INT64_MAX / 2), place_ms, 30000);
  for (int i = 0; i < 60; i++) place_ms = mt_poll_place_ms(place_ms, 1);
  assert_in_range(place_ms, MT_QUEUE_LIFE_MS, MT_QUEUE_LIFE_MS + 10);
}

/* ---- One that waits ------------------------------------------------------------------------- */

/* Requests of a waiter that is `before` from its turn while nothing moves, between two times. */
static unsigned requests(uint32_t before, bool told, int64_t from_ms, int64_t to_ms) {
  mt_poll p;
  unsigned n = 0;
  int64_t kept = 0, look = 0, spread;
  mt_poll_begin(&p, 0);
  p.told = told;
  mt_poll_seen(&p, before, before, 0);
  look = mt_poll_pause_ms(&p, 0);
  while (kept <= to_ms && look <= to_ms) {
    int64_t write = kept + mt_poll_renew_ms(&p, MT_QUEUE_LIFE_MS, &spread) + spread / 2, now;
    now = write < look ? write : look;
    if (write <= look) kept = now;
    mt_poll_seen(&p, before, before, now);
    look = now + mt_poll_pause_ms(&p, now);
    n += now >= from_ms && now < to_ms;
  }
  return n;
}

static void test_who_is_far_back_costs_nothing(void **state) {
  (void)state;
  for (uint32_t before = 6; before < 2000; before *= 3)
    for (int told = 0; told < 2; told++) {
      unsigned n = requests(before, told, 10000, 110000);
      MT_CHECK(n <= 50, "%u before it: %u requests in 100 s", before, n);
    }
}

static void test_who_is_next_looks_often(void **state) {
  (void)state;
  MT_CHECK(requests(0, false, 0, 100) >= 10, "in the first 100 ms: %u", requests(0, false, 0, 100));
  unsigned n = requests(0, false, 10000, 11000);
  MT_CHECK(n >= 15 && n <= 30, "after ten seconds: %u in a second", n);
  MT_CHECK(requests(1, false, 0, 100) >= 3, "next but one: %u", requests(1, false, 0, 100));
}

static void test_a_moving_queue_is_followed(void **state) {
  (void)state;
  mt_poll p;
  mt_poll_begin(&p, 0);
  mt_poll_seen(&p, 16, 16, 0);
  int64_t now = 0;
  unsigned looks = 0;
  for (uint32_t before = 16; before; looks++) { /* each has it for 10 ms */
    now += mt_poll_pause_ms(&p, now);
    before = now >= 160 ? 0 : 16 - (uint32_t)(now / 10);
    mt_poll_seen(&p, before, before, now);
  }
  MT_CHECK(now <= 180 && looks <= 8, "its turn was at 160 ms, seen at %lld, in %u looks",
           (long long)now, looks);
}

static void test_what_is_in_vain_gets_rare(void **state) {
  (void)state;
  mt_poll p;
  unsigned n = 0;
  mt_poll_begin(&p, 0);
  for (int64_t now = 0; now < 60000; now++) {
    if (!mt_poll_may_claim(&p, now)) continue;
    mt_poll_in_vain(&p, now);
    n++;
  }
  MT_CHECK(n <= 70, "%u writes in a minute", n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_who_is_far_back_costs_nothing),
      cmocka_unit_test(test_who_is_next_looks_often),
      cmocka_unit_test(test_a_moving_queue_is_followed),
      cmocka_unit_test(test_what_is_in_vain_gets_rare),
      cmocka_unit_test(test_looking_costs_little),
      cmocka_unit_test(test_a_stall_passes),
      cmocka_unit_test(test_places_outlive_slow_writes),
  };
  return cmocka_run_group_tests_name("poll", tests, NULL, NULL);
}
