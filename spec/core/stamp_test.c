/* Stamped writes on each store in MORTISE_TEST_URLS and the embedded one: a holder that has lost
 * its lock changes nothing that its successor has stamped, whatever it believes. */
#include "base/clock.h"
#include "write/writer.h"
#include "lock_fixture.h"

#include <stdio.h>
#include <stdlib.h>

static mt_test_place place; /* of the running group */
static char index_name[64];

enum { DOCS = 60 };

/* ---- Steps ---------------------------------------------------------------------------------- */

static void step_until(mt_test_client *c, const bool *flag) {
  assert_true(mt_test_pump_until(c, 1, flag, 30000));
}

/* Writes the items under the lock with its stamp. */
static void write_items(mt_test_client *c, const mt_lock *lock, mt_item *items, size_t n,
                        mt_write_batch *b) {
  mortise_error err;
  const mt_writer_config config = {.strength = MT_STRENGTH_STAMP, .docs = 25};
  mt_writer *w = mt_test_writer(c->client->store, lock, &config, &err);
  MT_CHECK(w, "%s", err.message);
  *b = (mt_write_batch){.index = index_name, .items = items, .n = n};
  mt_writer_submit(w, b);
  step_until(c, &b->finished);
  mt_writer_free(w);
}

static mt_item make(mt_write_kind kind, const char *id, const char *body) {
  return (mt_item){.write = {.kind = kind, .id = mt_slice_of(id), .body = mt_slice_of(body)}};
}

static mt_item write_one(mt_test_client *c, const mt_lock *lock, mt_item item) {
  mt_write_batch b;
  write_items(c, lock, &item, 1, &b);
  MT_CHECK(!b.error.code, "%s", b.error.message);
  return item;
}

/* The document's source, or "" where there is none; and its version. */
static mt_version read_doc(mt_test_client *c, const char *id, char out[512]) {
  const mt_slice ids[] = {mt_slice_of(id)};
  mt_mget r = {.index = index_name, .ids = ids, .n = 1};
  c->client->store->docs->mget(c->client->store, &r);
  *out = '\0';
  mortise_status status = mt_test_pump(c->client->store, &r.req);
  if (status == MORTISE_NOT_FOUND) return (mt_version){0, 0}; /* the index */
  MT_CHECK(!status, "%s", r.req.error.message);
  const mt_doc *d = &r.page->docs[0];
  mt_version v = d->found ? d->version : (mt_version){0, 0};
  snprintf(out, 512, "%.*s", d->found ? (int)d->source.n : 0, d->found ? d->source.p : "");
  mt_mget_deinit(&r);
  return v;
}

/* By a writer that takes no lock. */
static void put_doc(mt_test_client *c, const char *id, const char *body) {
  mt_write w = {.kind = MT_WRITE_INDEX, .id = mt_slice_of(id), .body = mt_slice_of(body)};
  mt_bulk r = {.index = index_name, .items = &w, .n = 1};
  c->client->store->docs->bulk(c->client->store, &r);
  MT_CHECK(!mt_test_pump(c->client->store, &r.req), "%s", r.req.error.message);
  assert_int_equal(w.result, MT_WRITE_APPLIED);
}

static bool has_stamp(const char *source, const mt_lock *lock) {
  char text[MT_STAMP_TEXT];
  mt_stamp stamp = {mt_manager_epoch(mt_lock_manager(lock)), mt_lock_fence(lock)};
  mt_stamp_text(&stamp, text);
  return strstr(source, text) != NULL;
}

/* ---- Which writes pass ---------------------------------------------------------------------- */

typedef enum before { NOTHING, UNSTAMPED, LOWER, EQUAL, HIGHER, BEFORES } before;

/* The three locks are nested, so that one session has them all: their fences grow. */
static void prepare_doc(mt_test_client *c, mt_lock *locks[3], before what, const char *id) {
  char source[512];
  if (what == NOTHING) return;
  put_doc(c, id, "{\"z\":1.50,\"a\":[]}");
  if (what == UNSTAMPED) return;
  mt_item item =
      write_one(c, locks[what - LOWER], make(MT_WRITE_UPDATE, id, "{\"doc\":{\"b\":1}}"));
  MT_CHECK(item.outcome == MT_OUTCOME_APPLIED, "%s: %s", item.write.type, item.write.reason);
  read_doc(c, id, source);
  assert_true(has_stamp(source, locks[what - LOWER]));
}

static mt_outcome expected(before what, mt_write_kind kind) {
  if (what == HIGHER || (what != NOTHING && kind == MT_WRITE_CREATE)) return MT_OUTCOME_CONFLICT;
  if (what == NOTHING && kind == MT_WRITE_DELETE) return MT_OUTCOME_ALREADY;
  if (what == NOTHING && kind == MT_WRITE_UPDATE) return MT_OUTCOME_CONFLICT;
  return MT_OUTCOME_APPLIED;
}

static void check_one(mt_test_client *c, mt_lock *locks[3], before what, mt_write_kind kind,
                      bool compare) {
  char id[32], was[512], now[512];
  snprintf(id, sizeof id, "%d-%d-%d", (int)what, (int)kind, compare);
  prepare_doc(c, locks, what, id);
  mt_version version = read_doc(c, id, was);
  mt_item item = make(kind, id, kind == MT_WRITE_UPDATE ? "{\"doc\":{\"n\":7}}" : "{\"n\":7}");
  if (compare) item.write.if_version = version;
  item = write_one(c, locks[1], item);
  read_doc(c, id, now);
  MT_CHECK(item.outcome == expected(what, kind), "%s: %d %s %s", id, (int)item.outcome,
           item.write.type, item.write.reason);
  if (what == HIGHER) assert_string_equal(item.write.type, "stamped");
  if (item.outcome != MT_OUTCOME_APPLIED)
    assert_string_equal(now, was);
  else if (kind == MT_WRITE_DELETE)
    assert_string_equal(now, "");
  else
    MT_CHECK(has_stamp(now, locks[1]) && strstr(now, "\"n\":7"), "%s: %s", id, now);
}

static void test_which_pass(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *locks[3];
  for (int i = 0; i < 3; i++) {
    locks[i] = mt_test_take(&c, 1, 0, "/nested", false, 1000, NULL);
    if (i) assert_true(mt_lock_fence(locks[i]) > mt_lock_fence(locks[i - 1]));
  }
  for (before what = 0; what < BEFORES; what++)
    for (mt_write_kind kind = MT_WRITE_CREATE; kind <= MT_WRITE_DELETE; kind++)
      for (int compare = 0; compare < 2; compare++) {
        if (compare && (kind == MT_WRITE_CREATE || what == NOTHING)) continue;
        check_one(&c, locks, what, kind, compare);
      }
  for (int i = 3; i-- > 0;) mt_test_give(&c, 1, 0, locks[i]);
  mt_test_client_close(&c);
}

/* Nothing but the stamp is touched: order, decimals, large numbers. */
static void test_bytes_stay(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/bytes", false, 1000, NULL);
  char now[512], text[MT_STAMP_TEXT], expect[512];
  static const char body[] = "{\"z\":1.50,\"a\":{\"y\":[],\"b\":{}},\"d\":0.12345678901234567890";
  mt_stamp stamp = {mt_manager_epoch(c.manager), mt_lock_fence(lock)};
  mt_stamp_text(&stamp, text);
  snprintf(expect, sizeof expect, "%s}", body);
  mt_item item = write_one(&c, lock, make(MT_WRITE_INDEX, "bytes", expect));
  MT_CHECK(item.outcome == MT_OUTCOME_APPLIED, "%s: %s", item.write.type, item.write.reason);
  read_doc(&c, "bytes", now);
  snprintf(expect, sizeof expect, "%s,\"mortise_stamp\":%s}", body, text);
  assert_string_equal(now, expect);
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
}

/* ---- A writer that has lost its lock --------------------------------------------------------- */

/* Ends the session in the table, as a successor does. Its next heartbeat comes only after a sixth
 * of its lease: until then it does not know, like a process that was stopped. */
static void expire(mt_test_client *c, const char *session) {
  mt_store *s = c->client->store;
  mt_session_read read = {.ns = "default", .ids = &session, .n = 1};
  s->locks->session_read(s, &read);
  assert_int_equal(mt_test_pump(s, &read.req), MORTISE_OK);
  mt_session_write write = {.verb = MT_SESSION_EXPIRE,
                            .ns = "default",
                            .session = session,
                            .if_version = read.docs[0].version,
                            .lease_ms = 60000};
  s->locks->session(s, &write);
  assert_int_equal(mt_test_pump(s, &write.req), MORTISE_OK);
  assert_int_equal(write.result, MT_SESSION_ACKED);
  mt_session_read_deinit(&read);
}

static void fill(mt_item *items, char ids[DOCS][8], size_t n, const char *body) {
  for (size_t i = 0; i < n; i++) {
    snprintf(ids[i], 8, "l%zu", i);
    items[i] = make(MT_WRITE_INDEX, ids[i], body);
  }
}

static void test_a_late_writer(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 60000), mt_test_client_open(&place, 60000)};
  static mt_item items[DOCS];
  static char ids[DOCS][8];
  mt_write_batch b;
  char was[512], now[512];
  mortise_error err;
  for (size_t i = 0; i < DOCS; i++) {
    snprintf(ids[i], 8, "l%zu", i);
    put_doc(&c[0], ids[i], "{\"by\":\"nobody\"}");
  }
  mt_lock *lost = mt_test_take(c, 2, 0, "/late", false, 1000, &err);
  expire(&c[1], mt_lock_session(lost)->id);
  mt_lock *next = mt_test_take(c, 2, 1, "/late", false, 5000, &err);
  MT_CHECK(next, "%s", err.message);
  assert_true(mt_lock_fence(next) > mt_lock_fence(lost));
  assert_int_equal(mt_lock_check(lost, NULL), MORTISE_OK); /* so it believes */

  /* The successor does half of the work and stamps it. */
  fill(items, ids, DOCS / 2, "{\"by\":\"the successor\"}");
  write_items(&c[1], next, items, DOCS / 2, &b);
  assert_int_equal(b.counts[MT_OUTCOME_APPLIED], DOCS / 2);

  /* All kinds of late writes: with a version read before, with one read now, and blind. */
  fill(items, ids, DOCS, "{\"by\":\"the one who lost it\"}");
  for (size_t i = 0; i < DOCS; i++) {
    if (i % 4 == 1) items[i].write.if_version = read_doc(&c[0], ids[i], now);
    if (i % 4 == 2) items[i] = make(MT_WRITE_UPDATE, ids[i], "{\"doc\":{\"by\":\"the one\"}}");
    if (i % 4 == 3) items[i] = make(MT_WRITE_DELETE, ids[i], NULL);
  }
  write_items(&c[0], lost, items, DOCS, &b);
  MT_CHECK(!b.error.code, "%s", b.error.message);
  for (size_t i = 0; i < DOCS / 2; i++) {
    read_doc(&c[1], ids[i], now);
    MT_CHECK(strstr(now, "the successor") && has_stamp(now, next), "%s: %s", ids[i], now);
    assert_int_equal(items[i].outcome, MT_OUTCOME_CONFLICT);
    assert_string_equal(items[i].write.type, "stamped");
  }
  /* Documents that the successor has not written yet are not protected, but the successor sees the
   * change. */
  for (size_t i = DOCS / 2; i < DOCS; i++) {
    assert_int_equal(items[i].outcome, MT_OUTCOME_APPLIED);
    read_doc(&c[1], ids[i], was);
    assert_true(i % 4 == 3 ? !*was : has_stamp(was, lost));
  }
  fill(items, ids, DOCS, "{\"by\":\"the successor\"}");
  write_items(&c[1], next, items, DOCS, &b);
  assert_int_equal(b.counts[MT_OUTCOME_APPLIED], DOCS);
  mt_test_give(c, 2, 1, next);
  mt_test_client_close(&c[0]);
  mt_test_client_close(&c[1]);
}

/* A request of the former holder that the server carries out late has the version that was read,
 * and is refused if the successor has written since. */
static void test_a_late_request(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/late/request", false, 1000, NULL);
  char now[512];
  put_doc(&c, "late", "{}");
  mt_version version = read_doc(&c, "late", now);
  mt_item item = write_one(&c, lock, make(MT_WRITE_INDEX, "late", "{\"by\":\"successor\"}"));
  assert_int_equal(item.outcome, MT_OUTCOME_APPLIED);
  mt_write w = {.kind = MT_WRITE_INDEX,
                .id = MT_SLICE("late"),
                .body = MT_SLICE("{\"mortise_stamp\":{\"epoch\":\"x\",\"fence\":1}}"),
                .if_version = version};
  mt_bulk r = {.index = index_name, .items = &w, .n = 1};
  c.client->store->docs->bulk(c.client->store, &r);
  assert_int_equal(mt_test_pump(c.client->store, &r.req), MORTISE_OK);
  assert_int_equal(w.result, MT_WRITE_CONFLICT);
  read_doc(&c, "late", now);
  assert_true(has_stamp(now, lock));
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
}

/* A stamp from before the lock table was recreated is ignored. */
static void test_an_older_epoch(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/epoch", false, 1000, NULL);
  char now[512];
  put_doc(&c, "old",
          "{\"mortise_stamp\":{\"epoch\":\"one of old\",\"fence\":9000000000000000000}}");
  mt_item item = write_one(&c, lock, make(MT_WRITE_INDEX, "old", "{\"n\":1}"));
  MT_CHECK(item.outcome == MT_OUTCOME_APPLIED, "%s: %s", item.write.type, item.write.reason);
  read_doc(&c, "old", now);
  assert_true(has_stamp(now, lock));
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
}

/* An upgraded lock stamps with its new fence, through the writer that it had. */
static void test_after_an_upgrade(void **state) {
  (void)state;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/upgraded", true, 1000, NULL);
  char now[512];
  mt_writer *w = mt_test_writer(c.client->store, lock,
                               &(mt_writer_config){.strength = MT_STRENGTH_STAMP}, NULL);
  assert_non_null(w);
  uint64_t fence = mt_lock_fence(lock);
  mt_convert v = {.lock = lock, .mode = MT_X, .wait_ms = 1000};
  mt_manager_convert(c.manager, &v);
  step_until(&c, &v.finished);
  assert_int_equal(v.error.code, MORTISE_OK);
  assert_true(mt_lock_fence(lock) > fence);
  mt_item item = make(MT_WRITE_INDEX, "upgraded", "{}");
  mt_write_batch b = {.index = index_name, .items = &item, .n = 1};
  mt_writer_submit(w, &b);
  step_until(&c, &b.finished);
  assert_int_equal(item.outcome, MT_OUTCOME_APPLIED);
  read_doc(&c, "upgraded", now);
  assert_true(has_stamp(now, lock));
  mt_writer_free(w);
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
}

/* With a mapping that takes no new fields, the error names the missing field. */
static void test_a_strict_mapping(void **state) {
  (void)state;
  if (!place.elastic) return;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_store *s = c.client->store;
  char kept[64];
  snprintf(kept, sizeof kept, "%s", index_name);
  snprintf(index_name, sizeof index_name, "%s-strict", place.prefix);
  mt_index_admin admin = {
      .index = index_name,
      .body = MT_SLICE("{\"mappings\":{\"dynamic\":\"strict\",\"properties\":{\"n\":{\"type\":"
                       "\"long\"},\"stamp\":{\"properties\":{\"epoch\":{\"type\":\"keyword\"},"
                       "\"fence\":{\"type\":\"long\"}}}}}}")};
  s->docs->index_create(s, &admin);
  assert_int_equal(mt_test_pump(s, &admin.req), MORTISE_OK);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/strict", false, 1000, NULL);
  mt_item item = write_one(&c, lock, make(MT_WRITE_INDEX, "1", "{\"n\":1}"));
  assert_int_equal(item.outcome, MT_OUTCOME_REJECTED);
  MT_CHECK(strstr(item.write.reason, MT_STAMP_FIELD), "%s", item.write.reason);
  mt_writer *w = mt_test_writer(
      s, lock,
      &(mt_writer_config){.strength = MT_STRENGTH_STAMP, .stamp_field = "stamp"}, NULL);
  item = make(MT_WRITE_INDEX, "1", "{\"n\":1}");
  mt_write_batch b = {.index = index_name, .items = &item, .n = 1};
  mt_writer_submit(w, &b);
  step_until(&c, &b.finished);
  MT_CHECK(item.outcome == MT_OUTCOME_APPLIED, "%s: %s", item.write.type, item.write.reason);
  mt_writer_free(w);
  mt_test_give(&c, 1, 0, lock);
  mt_test_client_close(&c);
  snprintf(index_name, sizeof index_name, "%s", kept);
}

/* ---- What it costs -------------------------------------------------------------------------- */

enum { MANY = 10000 };

static double cost(mt_test_client *c, const mt_lock *lock, mt_item *items, mt_strength strength,
                   bool of_source) {
  static char sources[MANY][160];
  static char ids[MANY][16];
  mt_store *s = c->client->store;
  mortise_error err;
  for (size_t i = 0; i < MANY; i++) {
    snprintf(ids[i], sizeof ids[i], "m%zu", i);
    snprintf(sources[i], sizeof sources[i],
             "{\"path\":\"/clinton/projects/2014/%zu\",\"n\":%zu,\"text\":\"some words of a "
             "document of about two hundred bytes, as many have\"}",
             i, i);
    mt_version v = items[i].write.version;
    items[i] = make(MT_WRITE_INDEX, ids[i], sources[i]);
    if (of_source) items[i].write.if_version = v;
    items[i].of_source = of_source;
  }
  mt_writer *w =
      mt_test_writer(s, lock, &(mt_writer_config){.strength = strength}, &err);
  MT_CHECK(w, "%s", err.message);
  mt_write_batch b = {.index = index_name, .items = items, .n = MANY};
  int64_t start = mt_test_ns();
  mt_writer_submit(w, &b);
  step_until(c, &b.finished);
  double ms = (double)(mt_test_ns() - start) / 1e6;
  MT_CHECK(b.counts[MT_OUTCOME_APPLIED] == MANY, "%s", b.error.message);
  mt_writer_free(w);
  return ms;
}

static void test_cost(void **state) {
  (void)state;
  if (!getenv("MORTISE_TEST_COST")) return;
  mt_test_client c = mt_test_client_open(&place, 0);
  mt_item *items = calloc(MANY, sizeof *items);
  mt_lock *lock = mt_test_take(&c, 1, 0, "/cost", false, 1000, NULL);
  cost(&c, lock, items, MT_STRENGTH_CAS, false);
  for (int round = 0; round < 5; round++) {
    uint64_t at = c.client->store->stats.requests;
    double cas = cost(&c, lock, items, MT_STRENGTH_CAS, true);
    uint64_t cas_n = c.client->store->stats.requests - at;
    double stamp = cost(&c, lock, items, MT_STRENGTH_STAMP, true);
    uint64_t stamp_n = c.client->store->stats.requests - at - cas_n;
    double blind = cost(&c, lock, items, MT_STRENGTH_STAMP, false);
    uint64_t blind_n = c.client->store->stats.requests - at - cas_n - stamp_n;
    print_message("# %s: %d documents: cas %.0f ms (%d requests), stamp of a source that was read "
                  "%.0f ms (%d), blind stamp %.0f ms (%d)\n",
                  place.name, MANY, cas, (int)cas_n, stamp, (int)stamp_n, blind, (int)blind_n);
  }
  mt_test_give(&c, 1, 0, lock);
  free(items);
  mt_test_client_close(&c);
}

/* ---- Running -------------------------------------------------------------------------------- */

static int init_table(void **state) {
  (void)state;
  snprintf(index_name, sizeof index_name, "%s-docs", place.prefix);
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_which_pass),       cmocka_unit_test(test_bytes_stay),
      cmocka_unit_test(test_a_late_writer),    cmocka_unit_test(test_a_late_request),
      cmocka_unit_test(test_an_older_epoch),   cmocka_unit_test(test_after_an_upgrade),
      cmocka_unit_test(test_a_strict_mapping), cmocka_unit_test(test_cost),
  };
  return mt_test_each_place(&place, "stamps", tests, sizeof tests / sizeof tests[0], init_table);
}
