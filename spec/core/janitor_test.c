/* The janitor on real stores: what sessions left whose processes were killed goes by itself while
 * somebody works there, and what guards a job, or lives, stays. */
#include "lock_fixture.h"

#include <stdio.h>

enum { LEASE = 2000, DEAD = 70, LEASES_MAX = 8 };

static mt_test_place place; /* of the running group */

static unsigned round_number; /* of the tests, as an id is used once */

static void id_of(char *id, unsigned number) {
  snprintf(id, MT_SESSION_ID, "%024x%08x", 0xabc000 + round_number, number);
}

/* One write of one item, until no other write meets it. */
static void write_item(mortise_client *client, mt_lock_batch *batch) {
  do {
    batch->req = (mt_req){0};
    client->store->locks->batch(client->store, batch);
    assert_int_equal(mt_store_wait(client->store, &batch->req, INT64_MAX), MORTISE_OK);
  } while (batch->items->result == MT_LOCK_CONFLICT || batch->items->result == MT_LOCK_BUSY);
  assert_int_equal(batch->items->result, MT_LOCK_ACKED);
  mt_lock_batch_deinit(batch);
}

/* A session as a killed process leaves it, of another machine, with a lock on /dead/dN. */
static void bury(mt_test_client *c, unsigned number, const char *job) {
  mortise_client *client = c->client;
  char id[MT_SESSION_ID], path[32];
  const char *ns = mt_client_options(client)->ns, *paths[] = {"/", "/dead", path};
  id_of(id, number);
  snprintf(path, sizeof path, "/dead/d%u", number);
  mt_session_write open = {.verb = MT_SESSION_OPEN,
                           .ns = ns,
                           .session = id,
                           .owner = mt_slice_of("{\"host\":\"elsewhere\",\"pid\":1,\"start\":1}"),
                           .lease_ms = LEASE};
  client->store->locks->session(client->store, &open);
  assert_int_equal(mt_store_wait(client->store, &open.req, INT64_MAX), MORTISE_OK);
  assert_int_equal(open.result, MT_SESSION_ACKED);
  for (unsigned i = 0; i < 3; i++) {
    mt_lock_item item = {.verb = MT_LOCK_SET,
                         .place.path = mt_slice_of(paths[i]),
                         .n = i + 1,
                         .mode = i < 2 ? MT_IX : MT_X,
                         .fresh = true,
                         .leaf = i == 2};
    mt_lock_batch batch = {.ns = ns, .session = id, .job = job, .items = &item, .n = 1};
    write_item(client, &batch);
  }
}

/* How many entries of sessions other than the client's own, and how many of them guard a job. */
static size_t others_left(mt_test_client *c, size_t *guards) {
  mortise_client *client = c->client;
  size_t n = 0;
  mt_lock_list list = {.ns = mt_client_options(client)->ns};
  *guards = 0;
  do {
    list.req = (mt_req){0};
    client->store->locks->list(client->store, &list);
    assert_int_equal(mt_store_wait(client->store, &list.req, INT64_MAX), MORTISE_OK);
    mt_json root;
    assert_int_equal(mt_json_parse(mt_slice_of(list.json), "list", &root, NULL), MORTISE_OK);
    for (mt_json_iter it = mt_json_items(root); mt_json_next(&it);) {
      mt_json_iter entries = mt_json_items(mt_json_get(it.value, "holders"));
      while (mt_json_next(&entries)) {
        mt_session *own = mt_manager_session(c->manager);
        n += !own || !mt_json_is(mt_json_get(entries.value, "session"), own->id);
        *guards += mt_json_get(entries.value, "job").type == MT_JSON_STRING;
      }
    }
    mt_lock_list_deinit(&list);
  } while (list.listing);
  return n;
}

static void clear_by_hand(mt_test_client *c, unsigned number) {
  mortise_client *client = c->client;
  char id[MT_SESSION_ID], path[32];
  const char *paths[] = {"/", "/dead", path};
  id_of(id, number);
  snprintf(path, sizeof path, "/dead/d%u", number);
  for (unsigned i = 0; i < 3; i++) {
    mt_lock_item item = {
        .verb = MT_LOCK_EVICT, .place.path = mt_slice_of(paths[i]), .session = id, .guard = true};
    mt_lock_batch batch = {
        .ns = mt_client_options(client)->ns, .session = id, .items = &item, .n = 1};
    write_item(client, &batch);
  }
}

static void nobody_waits(mt_test_client *c, size_t n, bool hurried) {
  mortise_error err;
  round_number++;
  mt_lock *lock = mt_test_take(c, n, 0, "/alive", false, 1000, &err);
  MT_CHECK(lock, "%s", err.message);
  int64_t began = mt_test_ns();
  for (unsigned i = 0; i < DEAD; i++) bury(&c[0], i, NULL);
  bury(&c[0], DEAD, "job-1");
  if (hurried) mt_manager_clear_the_dead(c[0].manager);
  int64_t start = mt_test_ns();
  uint64_t cleared = 0;
  while (cleared < 3 * DEAD && mt_test_ns() - start < (int64_t)LEASES_MAX * LEASE * 1000000) {
    mt_test_pump_until(c, n, &(bool){false}, 20);
    cleared = 0;
    for (size_t i = 0; i < n; i++) cleared += mt_manager_get_stats(c[i].manager).cleared;
    MT_CHECK(!cleared || mt_test_ns() - began >= (int64_t)LEASE * 1000000,
             "they cannot have been watched for a lease");
  }
  size_t guards, left = others_left(&c[0], &guards);
  MT_CHECK(guards == 3, "%zu of 3 guards of a job are left", guards);
  MT_CHECK(left == 3, "%zu entries of the dead are left, %llu were cleared", left - guards,
           (unsigned long long)cleared);
  assert_int_equal(cleared, 3 * DEAD);
  assert_int_equal(mt_lock_check(lock, &err), MORTISE_OK);
  mt_test_give(c, n, 0, lock);
  clear_by_hand(&c[0], DEAD);
}

static void test_what_nobody_wants_goes(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, LEASE);
  nobody_waits(&c, 1, false);
  mt_test_client_close(&c);
}

static void test_at_once_when_asked(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, LEASE);
  nobody_waits(&c, 1, true);
  mt_test_client_close(&c);
}

/* Another's session that lives keeps its lock, however long it is watched. */
static void test_the_living_keep_theirs(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, LEASE), mt_test_client_open(&place, LEASE)};
  mortise_error err;
  mt_lock *lock = mt_test_take(c, 2, 0, "/a", false, 1000, &err);
  mt_lock *other = mt_test_take(c, 2, 1, "/b", false, 1000, &err);
  assert_non_null(lock);
  assert_non_null(other);
  mt_test_pump_until(c, 2, &(bool){false}, 3 * LEASE);
  for (int i = 0; i < 2; i++) {
    mt_manager_stats stats = mt_manager_get_stats(c[i].manager);
    assert_int_equal(stats.cleared, 0);
    assert_int_equal(stats.takeovers, 0);
    MT_CHECK(stats.janitor > 0 && stats.janitor < 100, "%llu requests of the janitor",
             (unsigned long long)stats.janitor);
  }
  assert_int_equal(mt_lock_check(lock, &err), MORTISE_OK);
  assert_int_equal(mt_lock_check(other, &err), MORTISE_OK);
  mt_test_give(c, 2, 0, lock);
  mt_test_give(c, 2, 1, other);
  for (int i = 0; i < 2; i++) mt_test_client_close(&c[i]);
}

/* ---- What a newcomer reads ------------------------------------------------------------------ */

enum { LEAST = 17, READS_MAX = 64 }; /* with its own document */

/* How many sessions each reading asked for, of one client. */
static struct {
  const mt_locks_ops *real;
  size_t n, ids[READS_MAX];
} readings;

static void counted_read(mt_store *store, mt_session_read *read) {
  if (readings.n < READS_MAX) readings.ids[readings.n++] = read->n;
  readings.real->session_read(store, read);
}

/* Not knowing how many live, it reads its least share, and all it is to read once it knows: here nobody else lives. */
static void test_a_newcomer_reads_little(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, LEASE);
  mt_store *store = c.client->store;
  mt_locks_ops counting = *store->locks;
  mortise_error err;
  round_number++;
  for (unsigned i = 0; i < DEAD; i++) bury(&c, i, NULL);
  readings.n = 0;
  readings.real = store->locks;
  counting.session_read = counted_read;
  store->locks = &counting;
  mt_lock *lock = mt_test_take(&c, 1, 0, "/alive", false, 1000, &err);
  MT_CHECK(lock, "%s", err.message);
  int64_t start = mt_test_ns();
  size_t most = 0;
  while (most <= LEAST && mt_test_ns() - start < (int64_t)LEASES_MAX * LEASE * 1000000) {
    mt_test_pump_until(&c, 1, &(bool){false}, 20);
    for (size_t i = 0; i < readings.n; i++)
      if (readings.ids[i] > most) most = readings.ids[i];
  }
  store->locks = readings.real;
  MT_CHECK(readings.n > 1 && readings.ids[0] <= LEAST, "the first of %zu readings asked for %zu",
           readings.n, readings.n ? readings.ids[0] : 0);
  MT_CHECK(most > LEAST, "it never read more than %zu", most);
  mt_manager_clear_the_dead(c.manager);
  while (mt_manager_get_stats(c.manager).cleared < 3 * DEAD &&
         mt_test_ns() - start < (int64_t)LEASES_MAX * LEASE * 1000000)
    mt_test_pump_until(&c, 1, &(bool){false}, 20);
  assert_int_equal(mt_manager_get_stats(c.manager).cleared, 3 * DEAD);
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
}

static int init_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_nobody_wants_goes),
      cmocka_unit_test(test_at_once_when_asked),
      cmocka_unit_test(test_the_living_keep_theirs),
      cmocka_unit_test(test_a_newcomer_reads_little),
  };
  return mt_test_each_place(&place, "janitor", tests, sizeof tests / sizeof tests[0], init_table);
}
