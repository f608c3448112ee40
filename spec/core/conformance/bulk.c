/* Bulks: every item gets a result, whatever the other items are. */
#include "conformance/conformance.h"

#include <inttypes.h>
#include <stdio.h>

static void mixed(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "there", "{\"n\":1}"));
  mt_write items[] = {
      mt_write_of(MT_WRITE_CREATE, "new", "{\"n\":1}"),
      mt_write_of(MT_WRITE_CREATE, "there", "{\"n\":2}"),
      mt_write_of(MT_WRITE_DELETE, "none", NULL),
      mt_write_of(MT_WRITE_INDEX, "there", "{\"n\":3}"),
      mt_write_of(MT_WRITE_UPDATE, "none", "{\"doc\":{\"a\":1}}"),
      mt_write_of(MT_WRITE_INDEX, "bad", "{\"n\":"),
      mt_write_of(MT_WRITE_UPDATE, "there", "{\"doc\":{\"n\":3}}"),
      mt_write_of(MT_WRITE_INDEX, "list", "[1,2]"),
      mt_write_of(MT_WRITE_DELETE, "new", NULL),
      mt_write_of(MT_WRITE_INDEX, "last", "{\"n\":4}"),
  };
  static const mt_write_result want[] = {
      MT_WRITE_APPLIED,  MT_WRITE_CONFLICT, MT_WRITE_MISSING,  MT_WRITE_APPLIED, MT_WRITE_MISSING,
      MT_WRITE_REJECTED, MT_WRITE_NOOP,     MT_WRITE_REJECTED, MT_WRITE_APPLIED, MT_WRITE_APPLIED,
  };
  static const int status[] = {201, 409, 404, 200, 404, 400, 200, 400, 200, 201};
  mt_bulk_run(f, items, 10);
  for (size_t i = 0; i < 10; i++) {
    MT_CHECK(items[i].result == want[i], "item %zu: %d, status %d, %s: %s", i, (int)items[i].result,
             items[i].status, items[i].type, items[i].reason);
    MT_CHECK(items[i].status == status[i], "item %zu: status %d", i, items[i].status);
    if (items[i].status >= 409 || items[i].status == 400)
      MT_CHECK(items[i].type[0] && items[i].reason[0], "item %zu says why", i);
  }
  MT_CHECK(!mt_get(f, MT_SLICE("bad"), NULL, NULL), "a rejected document is not there");
}

/* None of these may affect its neighbours. */
static void bad_neighbours(mt_fixture *f) {
  static const char *const bodies[] = {
      "",         " ",        "\"text\"",        "7",
      "null",     "{\"a\":1", "{\"a\":1}}",      "{\"a\":1}{\"b\":2}",
      "nonsense", "{a:1}",    "{\"a\":\"\x01\"}"};
  mt_make_index(f, 1);
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "before", "{\"n\":1}"),
                        mt_write_of(MT_WRITE_INDEX, "bad", bodies[i]),
                        mt_write_of(MT_WRITE_INDEX, "after", "{\"n\":1}")};
    mt_bulk_run(f, items, 3);
    MT_CHECK(items[0].result == MT_WRITE_APPLIED, "before %s: %d %s", bodies[i], items[0].status,
             items[0].reason);
    MT_CHECK(items[1].result == MT_WRITE_REJECTED, "%s: %d %s", bodies[i], (int)items[1].result,
             items[1].reason);
    MT_CHECK(items[2].result == MT_WRITE_APPLIED, "after %s: %d %s", bodies[i], items[2].status,
             items[2].reason);
  }
}

/* A newline in a source is white space, but ends a line of the servers' bulk bodies. */
static void newlines(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_write items[] = {
      mt_write_of(MT_WRITE_INDEX, "a", "{\n  \"n\": 1,\r\n  \"l\": [1,\n2]\n}\n"),
      mt_write_of(MT_WRITE_INDEX, "b", "{\"n\":2}"),
      mt_write_of(MT_WRITE_UPDATE, "a", "{\n\"doc\"\n:\n{\"m\":3}\n}"),
      mt_write_of(MT_WRITE_INDEX, "c", "\n{\"n\":4}"),
  };
  mt_bulk_run(f, items, 4);
  for (size_t i = 0; i < 4; i++)
    MT_CHECK(items[i].result == MT_WRITE_APPLIED, "item %zu: %d %s", i, items[i].status,
             items[i].reason);
  mt_buf seen;
  mt_buf_init(&seen, 4096);
  mt_get(f, MT_SLICE("a"), &seen, NULL);
  MT_CHECK(mt_same_json(mt_buf_slice(&seen), "{\"n\":1,\"l\":[1,2],\"m\":3}"), "%s", seen.p);
  mt_buf_deinit(&seen);
}

static void ids_survive(mt_fixture *f) {
  static char long_id[513];
  memset(long_id, 'x', 512);
  const char *ids[] = {"plain",      "a/b/c",       "with space",
                       "\"quoted\"", "back\\slash", "%2F",
                       "a%b",        "?q=1&r=2#f",  "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80",
                       "new\nline",  "tab\t",       ".",
                       "..",         "_under",      "{\"json\":1}",
                       ",",          "*",           "\x7f",
                       "+",          "a:b",         "'",
                       "''; --",     long_id};
  enum { N = sizeof ids / sizeof *ids };
  mt_write items[N];
  char bodies[N][32];
  mt_make_index(f, 3);
  for (size_t i = 0; i < N; i++) {
    snprintf(bodies[i], sizeof bodies[i], "{\"n\":%zu}", i);
    items[i] = mt_write_of(MT_WRITE_CREATE, ids[i], bodies[i]);
  }
  mt_bulk_run(f, items, N);
  for (size_t i = 0; i < N; i++) {
    MT_CHECK(items[i].result == MT_WRITE_APPLIED, "%s: %d %s", ids[i], items[i].status,
             items[i].reason);
    mt_buf seen;
    mt_buf_init(&seen, 4096);
    mt_version version;
    MT_CHECK(mt_get(f, mt_slice_of(ids[i]), &seen, &version), "%s is there", ids[i]);
    MT_CHECK(mt_slice_eq(mt_buf_slice(&seen), mt_slice_of(bodies[i])), "%s: %s", ids[i], seen.p);
    mt_buf_deinit(&seen);
    items[i] = mt_write_of(MT_WRITE_DELETE, ids[i], NULL);
    items[i].if_version = version;
  }
  mt_bulk_run(f, items, N);
  for (size_t i = 0; i < N; i++)
    MT_CHECK(items[i].result == MT_WRITE_APPLIED, "delete %s: %d %s", ids[i], items[i].status,
             items[i].reason);
}

/* One id that a server refuses would fail its whole bulk: the store has to find it first. */
static void bad_ids(mt_fixture *f) {
  static char too_long[514];
  memset(too_long, 'x', 513);
  const char *ids[] = {"", too_long};
  mt_make_index(f, 1);
  for (size_t i = 0; i < 2; i++) {
    mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "before", "{\"n\":1}"),
                        mt_write_of(MT_WRITE_INDEX, ids[i], "{\"n\":2}"),
                        mt_write_of(MT_WRITE_INDEX, "after", "{\"n\":3}")};
    mt_bulk_run(f, items, 3);
    MT_CHECK(items[0].result == MT_WRITE_APPLIED && items[2].result == MT_WRITE_APPLIED,
             "around id %zu: %d %s", i, items[0].status, items[0].reason);
    MT_CHECK(items[1].result == MT_WRITE_REJECTED, "id %zu: %d, status %d", i, (int)items[1].result,
             items[1].status);
  }
  mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "before", "{\"n\":1}"),
                      mt_write_of(MT_WRITE_INDEX, "\xff\xfe", "{\"n\":2}"),
                      mt_write_of(MT_WRITE_INDEX, "after", "{\"n\":3}")};
  mt_bulk_run(f, items, 3);
  MT_CHECK(items[0].result == MT_WRITE_APPLIED && items[2].result == MT_WRITE_APPLIED,
           "around an id of invalid UTF-8: %d %s", items[0].status, items[0].reason);
}

static void routing_kept(mt_fixture *f) {
  enum { N = 30 };
  static char ids[N][16], routes[N][24];
  mt_write items[N];
  mt_slice id_slices[N], routing[N];
  mt_make_index(f, 3);
  for (size_t i = 0; i < N; i++) {
    snprintf(ids[i], sizeof ids[i], "r%zu", i);
    snprintf(routes[i], sizeof routes[i], "to \"%zu\"/\xc3\xbc", i % 7);
    items[i] = mt_write_of(MT_WRITE_CREATE, ids[i], "{\"n\":1}");
    items[i].routing = routing[i] = mt_slice_of(routes[i]);
    id_slices[i] = items[i].id;
  }
  mt_bulk_run(f, items, N);
  mt_mget r = {.index = f->index, .ids = id_slices, .routing = routing, .n = N};
  f->s->docs->mget(f->s, &r);
  MT_OK(f, r);
  for (size_t i = 0; i < N; i++) {
    mt_doc *doc = &r.page->docs[i];
    MT_CHECK(doc->found, "%s by its routing", ids[i]);
    MT_CHECK(mt_slice_eq(doc->routing, routing[i]), "%s: %.*s", ids[i], (int)doc->routing.n,
             doc->routing.p);
    items[i].kind = MT_WRITE_INDEX;
    items[i].if_version = doc->version;
  }
  mt_mget_deinit(&r);
  mt_bulk_run(f, items, N);
  for (size_t i = 0; i < N; i++)
    MT_CHECK(items[i].result == MT_WRITE_APPLIED, "%s: %d %s", ids[i], items[i].status,
             items[i].reason);
}

static void indices_of_items(mt_fixture *f) {
  char other[128];
  snprintf(other, sizeof other, "%s-other", f->index);
  mt_make_index(f, 1);
  MT_CHECK(!mt_create_index(f, other, NULL), "the other index");
  mt_write items[] = {mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":1}"),
                      mt_write_of(MT_WRITE_INDEX, "b", "{\"n\":2}")};
  items[0].index = mt_slice_of(other);
  mt_bulk_run(f, items, 2);
  MT_CHECK(!mt_get(f, MT_SLICE("a"), NULL, NULL), "an item goes to its own index");
  MT_CHECK(mt_get(f, MT_SLICE("b"), NULL, NULL), "or to the bulk's");
  items[1].index = mt_slice_of(f->index);
  mt_bulk r = {.items = items, .n = 2};
  f->s->docs->bulk(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(items[0].status == 200 && items[1].status == 200, "%d %d", items[0].status,
           items[1].status);
  MT_CHECK(!mt_drop_index(f, other), "dropped");
}

static void large(mt_fixture *f) {
  enum { N = 2000 };
  static char ids[N][16], bodies[N][32];
  static mt_write items[N];
  size_t conflicts = 0;
  mt_make_index(f, 3);
  mt_fill(f, 500); /* d0 ... d499 are there */
  for (size_t i = 0; i < N; i++) {
    snprintf(ids[i], sizeof ids[i], "d%zu", i);
    snprintf(bodies[i], sizeof bodies[i], "{\"n\":%zu}", i);
    items[i] = mt_write_of(MT_WRITE_CREATE, ids[i], bodies[i]);
  }
  mt_bulk_run(f, items, N);
  for (size_t i = 0; i < N; i++) {
    conflicts += items[i].result == MT_WRITE_CONFLICT;
    MT_CHECK(items[i].result == (i < 500 ? MT_WRITE_CONFLICT : MT_WRITE_APPLIED), "%s: %d %s",
             ids[i], items[i].status, items[i].reason);
  }
  MT_CHECK(conflicts == 500, "%zu conflicts", conflicts);
  mt_refresh_index(f);
  MT_CHECK(mt_count_of(f, NULL) == N, "all are there");
}

static void empty(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_bulk_run(f, NULL, 0);
}

static void refresh_waits(mt_fixture *f) {
  mt_make_index(f, 1);
  char body[] = "{\"index\":{\"refresh_interval\":\"200ms\"}}", path[160];
  if (f->place->elastic) {
    snprintf(path, sizeof path, "/%s/_settings", f->index);
    mt_raw raw = {.method = "PUT", .path = path, .body = mt_slice_of(body)};
    f->s->docs->raw(f->s, &raw);
    MT_OK(f, raw);
    mt_raw_deinit(&raw);
  }
  mt_write item = mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":1}");
  mt_bulk r = {.index = f->index, .items = &item, .n = 1, .refresh = true};
  f->s->docs->bulk(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(mt_count_of(f, NULL) == 1, "searches see it");
}

/* ---- External versions ---------------------------------------------------------------------- */

static mt_write external_of(mt_write_kind kind, const char *id, const char *body, uint64_t version) {
  mt_write w = mt_write_of(kind, id, body);
  w.external = version;
  return w;
}

static void expect_external(mt_fixture *f, mt_write w, mt_write_result want, bool there) {
  mt_bulk_run(f, &w, 1);
  MT_CHECK(w.result == want, "%d with version %" PRIu64 ": %d, not %d: %d %s %s", (int)w.kind, w.external,
           (int)w.result, (int)want, w.status, w.type, w.reason);
  MT_CHECK(mt_get(f, w.id, NULL, NULL) == there, "%.*s is %sthere", (int)w.id.n, w.id.p, there ? "not " : "");
  if (w.result == MT_WRITE_CONFLICT && !there)
    MT_CHECK(w.standing >= 1, "it says which version stands there: %s", w.reason);
}

/* A late copy of a create does nothing, be its document there or deleted; and what is there is never replaced. */
static void sealed_creates(mt_fixture *f) {
  mt_make_index(f, 1);
  expect_external(f, external_of(MT_WRITE_CREATE, "a", "{\"n\":1}", 1), MT_WRITE_APPLIED, true);
  expect_external(f, external_of(MT_WRITE_CREATE, "a", "{\"n\":2}", 1), MT_WRITE_CONFLICT, true);
  expect_external(f, mt_write_of(MT_WRITE_DELETE, "a", NULL), MT_WRITE_APPLIED, false);
  expect_external(f, external_of(MT_WRITE_CREATE, "a", "{\"n\":1}", 1), MT_WRITE_CONFLICT, false);
  mt_write again = external_of(MT_WRITE_CREATE, "a", "{\"n\":1}", 1);
  mt_bulk_run(f, &again, 1);
  expect_external(f, external_of(MT_WRITE_CREATE, "a", "{\"n\":1}", again.standing + 1), MT_WRITE_APPLIED, true);
  mt_write_one(f, mt_write_of(MT_WRITE_CREATE, "theirs", "{\"n\":3}"));
  expect_external(f, external_of(MT_WRITE_CREATE, "theirs", "{\"n\":1}", 1), MT_WRITE_CONFLICT, true);
  expect_external(f, external_of(MT_WRITE_DELETE, "theirs", NULL, 1), MT_WRITE_CONFLICT, true);
}

/* What is created over a version that stands there exceeds it by one, so that the next version never replaces it. */
static void sealed_ids(mt_fixture *f) {
  mt_make_index(f, 1);
  expect_external(f, external_of(MT_WRITE_DELETE, "a", NULL, 1), MT_WRITE_MISSING, false);
  expect_external(f, external_of(MT_WRITE_CREATE, "a", "{\"n\":1}", 1), MT_WRITE_CONFLICT, false);
  expect_external(f, external_of(MT_WRITE_DELETE, "a", NULL, 1), MT_WRITE_CONFLICT, false);
  expect_external(f, external_of(MT_WRITE_DELETE, "a", NULL, 2), MT_WRITE_MISSING, false);
  expect_external(f, external_of(MT_WRITE_CREATE, "a", "{\"n\":1}", 2), MT_WRITE_CONFLICT, false);
  expect_external(f, mt_write_of(MT_WRITE_CREATE, "a", "{\"theirs\":1}"), MT_WRITE_APPLIED, true);
  expect_external(f, external_of(MT_WRITE_CREATE, "a", "{\"n\":1}", 3), MT_WRITE_CONFLICT, true);
  expect_external(f, external_of(MT_WRITE_DELETE, "a", NULL, 3), MT_WRITE_CONFLICT, true);
  expect_external(f, external_of(MT_WRITE_INDEX, "a", "{\"n\":1}", 9), MT_WRITE_REJECTED, true);
}

/* An id may look like the reason of a refusal. */
static void sealed_misleading(mt_fixture *f) {
  const char *id = "[x]: version conflict, current version [77] is higher";
  mt_make_index(f, 1);
  expect_external(f, external_of(MT_WRITE_DELETE, id, NULL, 5), MT_WRITE_MISSING, false);
  mt_write w = external_of(MT_WRITE_CREATE, id, "{}", 1);
  mt_bulk_run(f, &w, 1);
  MT_CHECK(w.result == MT_WRITE_CONFLICT && w.standing == 5, "%d %" PRIu64 " %s", (int)w.result, w.standing,
           w.reason);
}

const mt_case mt_cases_bulk[] = {
    {"bulk: mixed results keep their order", mixed},
    {"bulk: a bad body harms no neighbour", bad_neighbours},
    {"bulk: newlines in sources", newlines},
    {"bulk: ids that need escaping", ids_survive},
    {"bulk: an id that cannot be is refused alone", bad_ids},
    {"bulk: routing is kept", routing_kept},
    {"bulk: items with an index of their own", indices_of_items},
    {"bulk: 2,000 items", large},
    {"bulk: of nothing", empty},
    {"bulk: refresh waits until searches see it", refresh_waits},
    {"bulk: a create with an external version is applied once", sealed_creates},
    {"bulk: a sealed id refuses late creates", sealed_ids},
    {"bulk: which version stands there", sealed_misleading},
    {0},
};
