/* The queue of a lock: it is fair, and never hinders those who need not wait. */
#include "conformance/conformance.h"

static void conflicting_go_behind(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/q", 1, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/q", 1, MT_X), MT_LOCK_DENIED); /* not asked to queue: it does not */
  MT_RESULT(mt_set(f, mt_c, "/q", 1, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_c, "/q", 1), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_b, "/q", 2, MT_X), MT_LOCK_QUEUED);
  MT_CHECK(f->item.ahead == 0, "first in the queue: %u", f->item.ahead);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_a, MT_IX, false),
           "and hears of the holder");
  MT_RESULT(mt_set(f, mt_c, "/q", 2, MT_IX), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_b, MT_X, true), "because of the waiter");
  MT_RESULT(mt_set_again(f, mt_a, "/q", 2, MT_SIX), MT_LOCK_ACKED); /* one inside passes */
  MT_RESULT(mt_release(f, mt_a, "/q", 2), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_c, "/q", 3, MT_IX), MT_LOCK_DENIED); /* still behind */
  MT_RESULT(mt_set_queue(f, mt_b, "/q", 3, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_b, "/q", 3), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/q"), "a grant takes the place in the queue along");
}

static void matrix_against_waiters(mt_fixture *f) {
  char path[8] = "/00";
  for (mt_mode waits = MT_IS; waits <= MT_X; waits++) {
    for (mt_mode wants = MT_IS; wants <= MT_X; wants++) {
      path[1] = (char)('a' + waits);
      path[2] = (char)('a' + wants);
      MT_RESULT(mt_set(f, mt_a, path, 1, MT_X), MT_LOCK_ACKED);
      MT_RESULT(mt_set_queue(f, mt_b, path, 1, waits), MT_LOCK_QUEUED);
      MT_RESULT(mt_release(f, mt_a, path, 1), MT_LOCK_ACKED);
      mt_lock_result seen = mt_set(f, mt_c, path, 1, wants);
      bool fits = mt_mode_compatible(waits, wants);
      MT_CHECK(seen == (fits ? MT_LOCK_ACKED : MT_LOCK_DENIED), "%s behind %s: %s",
               mt_mode_name(wants), mt_mode_name(waits), mt_lock_result_name(seen));
    }
  }
}

static void order_of_two(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/o", 1, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_b, "/o", 1, MT_IX), MT_LOCK_QUEUED);
  MT_RESULT(mt_set_queue(f, mt_c, "/o", 1, MT_S), MT_LOCK_QUEUED);
  MT_CHECK(f->item.ahead == 1, "behind one: %u", f->item.ahead);
  MT_CHECK(f->item.n_blockers == 2 && mt_blocked_by(f, mt_b, MT_IX, true), "holder and waiter");
  MT_RESULT(mt_set_queue(f, mt_b, "/o", 2, MT_IX), MT_LOCK_QUEUED); /* renewing keeps the place */
  MT_CHECK(f->item.ahead == 0, "still first: %u", f->item.ahead);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_a, MT_X, false), "waits for a only");
  MT_RESULT(mt_release(f, mt_a, "/o", 1), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_c, "/o", 2, MT_S), MT_LOCK_QUEUED); /* not past the first */
  MT_CHECK(f->item.ahead == 1, "still second: %u", f->item.ahead);
  MT_RESULT(mt_set_queue(f, mt_b, "/o", 3, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_c, "/o", 3, MT_S), MT_LOCK_QUEUED);
  MT_CHECK(f->item.ahead == 0 && mt_blocked_by(f, mt_b, MT_IX, false), "first now");
  MT_RESULT(mt_release(f, mt_b, "/o", 3), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_c, "/o", 4, MT_S), MT_LOCK_ACKED);
}

/* Two waiters with compatible modes do not wait for each other. */
static void waiters_that_fit(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/f", 1, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_b, "/f", 1, MT_S), MT_LOCK_QUEUED);
  MT_RESULT(mt_set_queue(f, mt_c, "/f", 1, MT_S), MT_LOCK_QUEUED);
  MT_RESULT(mt_set_queue(f, mt_d, "/f", 1, MT_IX), MT_LOCK_QUEUED);
  MT_CHECK(f->item.ahead == 2, "%u", f->item.ahead);
  MT_RESULT(mt_release(f, mt_a, "/f", 1), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_c, "/f", 2, MT_S), MT_LOCK_ACKED); /* S passes the S before it */
  MT_RESULT(mt_set_queue(f, mt_b, "/f", 2, MT_S), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_d, "/f", 2, MT_IX), MT_LOCK_QUEUED);
}

static void releases_waiters(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/r", 1, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_b, "/r", 5, MT_X), MT_LOCK_QUEUED);
  MT_RESULT(mt_release(f, mt_b, "/r", 4), MT_LOCK_ABSENT);
  MT_RESULT(mt_set(f, mt_c, "/r", 1, MT_IX), MT_LOCK_DENIED);
  MT_RESULT(mt_release(f, mt_b, "/r", 5), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_c, "/r", 2, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_c, "/r", 2), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_a, "/r", 1), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/r"), "an empty document vanishes");
}

/* A session's hold and its place in the queue at one path are independent. */
static void waits_to_upgrade(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/u", 1, MT_S), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/u", 1, MT_S), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_a, "/u", 2, MT_X), MT_LOCK_QUEUED);
  MT_RESULT(mt_set(f, mt_c, "/u", 1, MT_S), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_a, MT_X, true),
           "only the wish for X hinders");
  MT_RESULT(mt_set(f, mt_c, "/u", 2, MT_IX), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 3, "two holds and the wish: %zu", f->item.n_blockers);
  MT_RESULT(mt_set_again(f, mt_b, "/u", 2, MT_IS), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_a, "/u", 3, MT_X), MT_LOCK_QUEUED);
  MT_RESULT(mt_release(f, mt_b, "/u", 2), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_a, "/u", 4, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_a, "/u", 4), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/u"), "nothing is left");
}

static mt_lock_result set_asking(mt_fixture *f, const char *session, uint64_t n, mt_mode mode) {
  return mt_lock(f, session,
                 (mt_lock_item){.verb = MT_LOCK_SET,
                                .place.path = MT_SLICE("/k"),
                                .n = n,
                                .mode = mode,
                                .fresh = true,
                                .ask_queue = true});
}

static void tells_of_waiters(mt_fixture *f) {
  MT_RESULT(set_asking(f, mt_a, 1, MT_IX), MT_LOCK_ACKED);
  MT_CHECK(!f->item.contended, "nobody waits");
  MT_RESULT(mt_set_queue(f, mt_b, "/k", 1, MT_S), MT_LOCK_QUEUED);
  MT_RESULT(set_asking(f, mt_a, 1, MT_IX), MT_LOCK_ACKED); /* written again */
  MT_CHECK(f->item.contended, "b waits for what IX denies");
  MT_RESULT(set_asking(f, mt_a, 2, MT_IS), MT_LOCK_ACKED);
  MT_CHECK(!f->item.contended, "IS denies it nothing");
}

static void places_expire(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/t", 1, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/t2", 2, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_b, "/t", 1, MT_X), MT_LOCK_QUEUED);
  MT_RESULT(mt_set_queue(f, mt_b, "/t2", 2, MT_X), MT_LOCK_QUEUED);
  mt_test_sleep_ms(MT_QUEUE_LIFE_MS * 17 / 30);
  MT_RESULT(mt_set_queue(f, mt_b, "/t2", 3, MT_X), MT_LOCK_QUEUED); /* renewed */
  MT_RESULT(mt_set(f, mt_c, "/t", 1, MT_IX), MT_LOCK_DENIED);
  mt_test_sleep_ms(MT_QUEUE_LIFE_MS * 17 / 30);
  MT_RESULT(mt_set(f, mt_c, "/t", 2, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_c, "/t2", 3, MT_IX), MT_LOCK_DENIED);
  MT_RESULT(mt_set_queue(f, mt_d, "/t", 1, MT_X), MT_LOCK_QUEUED);
  MT_CHECK(f->item.ahead == 0, "a dead place does not count: %u", f->item.ahead);
  MT_RESULT(mt_set_queue(f, mt_b, "/t", 4, MT_X), MT_LOCK_QUEUED);
  MT_CHECK(f->item.ahead == 1, "who let it lapse goes to the end: %u", f->item.ahead);
}

/* A place lives as long as its writer says. */
static void places_lapse(mt_fixture *f) {
  mt_lock_item item = {.verb = MT_LOCK_SET,
                       .place.path = MT_SLICE("/lapse"),
                       .n = 1,
                       .mode = MT_X,
                       .fresh = true,
                       .enqueue = true};
  MT_RESULT(mt_set(f, mt_a, "/lapse", 1, MT_S), MT_LOCK_ACKED);
  item.place_ms = 20000;
  MT_RESULT(mt_lock(f, mt_b, item), MT_LOCK_QUEUED);
  mt_test_sleep_ms(200);
  MT_RESULT(mt_set(f, mt_c, "/lapse", 1, MT_S), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_b, MT_X, true), "it waits still");
  item.n = 2;
  item.place_ms = 100;
  MT_RESULT(mt_lock(f, mt_b, item), MT_LOCK_QUEUED);
  mt_test_sleep_ms(200);
  MT_RESULT(mt_set(f, mt_c, "/lapse", 2, MT_S), MT_LOCK_ACKED);
}

const mt_case mt_cases_queue[] = {
    {"queue: who conflicts goes behind it", conflicting_go_behind},
    {"queue: all pairs of modes against a waiter", matrix_against_waiters},
    {"queue: the order of two", order_of_two},
    {"queue: waiters that fit together", waiters_that_fit},
    {"queue: release leaves it", releases_waiters},
    {"queue: waiting for an upgrade", waits_to_upgrade},
    {"queue: a holder learns that it is waited for", tells_of_waiters},
    {"queue: a place lasts until it is not renewed", places_expire},
    {"queue: a place lasts as long as its writer says", places_lapse},
    {0},
};
