/* A holder's request that is applied after its successor's write was acknowledged, on each store in
 * MORTISE_TEST_URLS and the embedded one: every kind of write, in every strength. The request is
 * held back where it leaves the writer, and carried out later unchanged, as if the network
 * delivered it late. */
#include "base/clock.h"
#include "write/writer.h"
#include "lock_fixture.h"

#include <stdio.h>
#include <stdlib.h>

static mt_test_place place; /* of the running group */
static char index_name[64];

/* ---- The network ---------------------------------------------------------------------------- */

static mt_docs_ops holding;
static const mt_docs_ops *real;
static mt_write held[8];
static char held_bytes[8][512];
static size_t n_held;

static void hold(mt_store *s, mt_bulk *r) {
  (void)s;
  for (size_t i = 0; i < r->n; i++) {
    mt_write *w = &held[n_held];
    *w = r->items[i];
    memcpy(held_bytes[n_held], w->body.p ? w->body.p : "", w->body.n);
    if (w->body.p) w->body.p = held_bytes[n_held];
    n_held++;
  }
}

static void hold_back(mt_store *s) {
  real = s->docs;
  holding = *real;
  holding.bulk = hold;
  s->docs = &holding;
  n_held = 0;
}

static void land(mt_store *s) {
  mt_bulk r = {.index = index_name, .items = held, .n = n_held};
  s->docs->bulk(s, &r);
  MT_CHECK(!mt_test_pump(s, &r.req), "%s", r.req.error.message);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static mt_item make(mt_write_kind kind, const char *id, const char *body) {
  return (mt_item){.write = {.kind = kind, .id = mt_slice_of(id), .body = mt_slice_of(body)}};
}

static mt_writer *writer_of(mt_test_client *c, const mt_lock *lock, mt_strength strength) {
  mortise_error err;
  const mt_writer_config config = {.strength = strength};
  mt_writer *w = mt_test_writer(c->client->store, lock, &config, &err);
  MT_CHECK(w, "%s", err.message);
  return w;
}

/* Writes under the lock, or without one (lock NULL). */
static void write_now(mt_test_client *c, const mt_lock *lock, mt_strength strength, mt_item item) {
  mt_writer *w = writer_of(c, lock, strength);
  mt_write_batch b = {.index = index_name, .items = &item, .n = 1};
  mt_writer_submit(w, &b);
  assert_true(mt_test_pump_until(c, 1, &b.finished, 30000));
  MT_CHECK(item.outcome == MT_OUTCOME_APPLIED, "%s: %s %s", b.error.message, item.write.type,
           item.write.reason);
  mt_writer_free(w);
}

/* The writer dies while its request is under way. */
static void write_and_die(mt_test_client *c, const mt_lock *lock, mt_strength strength,
                          mt_item item) {
  mt_writer *w = writer_of(c, lock, strength);
  mt_write_batch b = {.index = index_name, .items = &item, .n = 1};
  hold_back(c->client->store);
  mt_writer_submit(w, &b);
  int64_t until = mt_clock_boot_ms() + 30000;
  while (!n_held && mt_clock_boot_ms() < until) mt_test_pump_until(c, 1, &b.finished, 1);
  assert_int_equal(n_held, 1);
  mt_writer_free(w);
  c->client->store->docs = real;
}

/* The document's source, or "". */
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

/* ---- The duel ------------------------------------------------------------------------------- */

static const struct {
  const char *name, *body;
  mt_write_kind kind;
  bool there, save; /* is there a document before; with the version that was read */
} rows[] = {
    {"index", "{\"by\":\"late\"}", MT_WRITE_INDEX, true, false},
    {"index of nothing", "{\"by\":\"late\"}", MT_WRITE_INDEX, false, false},
    {"save", "{\"by\":\"late\"}", MT_WRITE_INDEX, true, true},
    {"delete", NULL, MT_WRITE_DELETE, true, false},
    {"delete of a view", NULL, MT_WRITE_DELETE, true, true},
    {"update", "{\"doc\":{\"by\":\"late\"}}", MT_WRITE_UPDATE, true, false},
    {"upsert", "{\"doc\":{\"by\":\"late\"},\"doc_as_upsert\":true}", MT_WRITE_UPDATE, false, false},
    {"create", "{\"by\":\"late\"}", MT_WRITE_CREATE, false, false},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static bool is_changed(mt_test_client c[2], size_t row, mt_strength strength, const char *after) {
  char id[32], now[512];
  snprintf(id, sizeof id, "%d-%zu-%s", (int)strength, row, after ? "written" : "untouched");
  mt_lock *lock = mt_test_take(c, 2, 0, "/late", false, 1000, NULL);
  if (rows[row].there) write_now(&c[0], NULL, MT_STRENGTH_NONE, make(MT_WRITE_INDEX, id, "{}"));
  mt_item item = make(rows[row].kind, id, rows[row].body ? rows[row].body : "");
  mt_version version = read_doc(&c[0], id, now);
  if (rows[row].save) item.write.if_version = version;
  write_and_die(&c[0], lock, strength, item);
  mt_test_give(c, 2, 0, lock); /* as a successor would, by evicting it */
  lock = mt_test_take(c, 2, 1, "/late", false, 1000, NULL);
  if (after) write_now(&c[1], lock, strength, make(MT_WRITE_INDEX, id, after));
  char was[512];
  read_doc(&c[1], id, was);
  land(c[1].client->store);
  read_doc(&c[1], id, now);
  mt_test_give(c, 2, 1, lock);
  return strcmp(was, now) != 0;
}

static void test_late(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 60000), mt_test_client_open(&place, 60000)};
  static const mt_strength strengths[] = {MT_STRENGTH_CAS, MT_STRENGTH_STAMP, MT_STRENGTH_NONE};
  for (size_t s = 0; s < 3; s++)
    for (size_t row = 0; row < ROWS; row++) {
      bool upsert = rows[row].kind == MT_WRITE_UPDATE && !rows[row].there;
      if (upsert && strengths[s] == MT_STRENGTH_STAMP) continue; /* rejected */
      bool compares =
          strengths[s] != MT_STRENGTH_NONE || rows[row].save || rows[row].kind == MT_WRITE_CREATE;
      bool changed = is_changed(c, row, strengths[s], "{\"by\":\"successor\"}");
      MT_CHECK(changed == !compares, "%s in strength %d: %s", rows[row].name, (int)strengths[s],
               changed ? "overwrote a successor" : "overwrote nothing");
    }
  for (int i = 0; i < 2; i++) mt_test_client_close(&c[i]);
}

/* A document that the successor has not written yet is changed, as documented. */
static void test_untouched(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 60000), mt_test_client_open(&place, 60000)};
  for (size_t row = 0; row < ROWS; row++)
    MT_CHECK(is_changed(c, row, MT_STRENGTH_CAS, NULL), "%s", rows[row].name);
  for (int i = 0; i < 2; i++) mt_test_client_close(&c[i]);
}

static int init_table(void **state) {
  (void)state;
  snprintf(index_name, sizeof index_name, "%s-docs", place.prefix);
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_late),
      cmocka_unit_test(test_untouched),
  };
  return mt_test_each_place(&place, "late requests", tests, sizeof tests / sizeof tests[0],
                            init_table);
}
