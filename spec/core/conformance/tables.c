/* The lock table itself: made once, verified at every opening, never made by accident. */
#include "conformance/conformance.h"

#include <stdio.h>

typedef struct beside {
  mt_test_place place;
  mt_test_store t;
} beside;

static void open_beside(mt_fixture *f, beside *b, const char *suffix) {
  b->place = mt_test_place_beside(f->place, suffix);
  MT_CHECK(mt_test_store_open(&b->t, &b->place), "a store beside");
}

static mortise_status verify(mt_store *s, mt_epoch *epoch) {
  mt_locks_admin r = {0};
  s->locks->verify(s, &r);
  mortise_status status = mt_test_pump(s, &r.req);
  if (epoch) *epoch = r.epoch;
  mt_locks_admin_deinit(&r);
  return status;
}

static mortise_status init(mt_store *s, mt_epoch *epoch, bool *created) {
  mt_locks_admin r = {0};
  s->locks->init(s, &r);
  mortise_status status = mt_test_pump(s, &r.req);
  *epoch = r.epoch;
  *created = r.created;
  mt_locks_admin_deinit(&r);
  return status;
}

/* The embedded store makes its files where they are missing, with the tables in them. */
static void expect_none(mt_fixture *f, mt_store *s) {
  if (!f->place->elastic) return;
  mortise_status seen = verify(s, NULL);
  MT_CHECK(seen == MORTISE_NOT_FOUND, "verify without a table: %s", mortise_status_name(seen));
}

static void made_once(mt_fixture *f) {
  beside b;
  mt_epoch first, second;
  bool created;
  open_beside(f, &b, "once");
  expect_none(f, b.t.store);
  MT_CHECK(!init(b.t.store, &first, &created) && first.id[0], "epoch '%s'", first.id);
  MT_CHECK(created || !f->place->elastic, "says that it made it");
  MT_CHECK(!verify(b.t.store, &second) && !strcmp(first.id, second.id), "epoch '%s'", second.id);
  MT_CHECK(!init(b.t.store, &second, &created) && !created && !strcmp(first.id, second.id),
           "a second init: created %d, epoch '%s'", created, second.id);
  mt_test_store_close(&b.t);
  MT_CHECK(mt_test_store_open(&b.t, &b.place), "opened again");
  MT_CHECK(!verify(b.t.store, &second) && !strcmp(first.id, second.id), "epoch '%s'", second.id);
  mt_test_store_close(&b.t);
  MT_CHECK(!verify(f->s, &second) && strcmp(first.id, second.id), "each table has its own epoch");
}

static void printed_only(mt_fixture *f) {
  beside b;
  open_beside(f, &b, "print");
  mt_locks_admin r = {.print = true};
  b.t.store->locks->init(b.t.store, &r);
  mortise_status status = mt_test_pump(b.t.store, &r.req);
  MT_CHECK(!status && r.text && r.text[0], "%s: %s", mortise_status_name(status),
           r.req.error.message);
  mt_locks_admin_deinit(&r);
  expect_none(f, b.t.store);
  mt_test_store_close(&b.t);
}

static bool is_gone(mortise_status status) {
  return status == MORTISE_NOT_FOUND || status == MORTISE_CORRUPT_TABLE;
}

static void never_by_accident(mt_fixture *f) {
  beside b;
  if (!f->place->elastic) return;
  open_beside(f, &b, "none");
  mt_lock_item items[] = {
      {.verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/a"), .n = 1, .mode = MT_X},
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/b"), .n = 2, .mode = MT_X, .fresh = true},
      {.verb = MT_LOCK_RELEASE, .place.path = MT_SLICE("/a"), .n = 2}};
  mt_lock_batch batch = {.ns = "n", .session = mt_a, .items = items, .n = 3};
  b.t.store->locks->batch(b.t.store, &batch);
  mortise_status status = mt_test_pump(b.t.store, &batch.req);
  MT_CHECK(is_gone(status), "a batch without a table: %s: %s", mortise_status_name(status),
           batch.req.error.message);
  for (size_t i = 0; i < 3; i++)
    MT_CHECK(items[i].result != MT_LOCK_ACKED && items[i].result != MT_LOCK_ABSENT, "item %zu: %s",
             i, mt_lock_result_name(items[i].result));
  mt_lock_batch_deinit(&batch);
  mt_session_write w = {.verb = MT_SESSION_OPEN,
                        .ns = "n",
                        .session = mt_a,
                        .owner = MT_SLICE("{}"),
                        .lease_ms = 60000};
  b.t.store->locks->session(b.t.store, &w);
  status = mt_test_pump(b.t.store, &w.req);
  MT_CHECK(is_gone(status), "a session without a table: %s: %s", mortise_status_name(status),
           w.req.error.message);
  expect_none(f, b.t.store);
  mt_test_store_close(&b.t);
}

static void two_tables(mt_fixture *f) {
  beside b;
  mt_epoch epoch;
  bool created;
  open_beside(f, &b, "two");
  MT_CHECK(!init(b.t.store, &epoch, &created), "init");
  MT_RESULT(mt_set(f, mt_a, "/p", 1, MT_X), MT_LOCK_ACKED);
  mt_fixture other = *f;
  other.item = (mt_lock_item){0};
  other.s = b.t.store;
  other.last_fence = 0;
  MT_RESULT(mt_make(&other, mt_b, "/p", 1, MT_X), MT_LOCK_ACKED);
  mt_test_store_close(&b.t);
}

static void initialised_at_once(mt_fixture *f) {
  enum { N = 4 };
  beside b[N];
  mt_locks_admin r[N] = {0};
  for (size_t i = 0; i < N; i++) {
    open_beside(f, &b[i], "race");
    b[i].t.store->locks->init(b[i].t.store, &r[i]);
  }
  for (bool busy = true; busy;) {
    busy = false;
    for (size_t i = 0; i < N; i++) {
      mt_loop_step(b[i].t.loop, 1, NULL);
      busy |= !r[i].req.finished;
    }
  }
  size_t created = 0;
  for (size_t i = 0; i < N; i++) {
    MT_CHECK(!r[i].req.error.code, "init %zu: %s: %s", i, r[i].req.error.message,
             r[i].req.error.reason);
    MT_CHECK(!strcmp(r[i].epoch.id, r[0].epoch.id), "one epoch: '%s' and '%s'", r[i].epoch.id,
             r[0].epoch.id);
    created += r[i].created;
  }
  MT_CHECK(created == 1 || (!created && !f->place->elastic), "created by %zu", created);
  for (size_t i = 0; i < N; i++) {
    mt_locks_admin_deinit(&r[i]);
    mt_epoch epoch;
    MT_CHECK(!verify(b[i].t.store, &epoch), "verified by each");
    mt_test_store_close(&b[i].t);
  }
}

const mt_case mt_cases_tables[] = {
    {"tables: init makes one, once", made_once},
    {"tables: init --print makes none", printed_only},
    {"tables: no write makes one by accident", never_by_accident},
    {"tables: two are apart", two_tables},
    {"tables: several init at once", initialised_at_once},
    {0},
};
