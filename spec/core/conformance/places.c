/* A path's stripes: documents of their own, under names that no path has. */
#include "conformance/conformance.h"

#include <stdio.h>

static mt_lock_result put(mt_fixture *f, mt_lock_verb verb, const char *session, mt_place place,
                          uint64_t n, mt_mode mode) {
  mt_lock_item item = {.verb = verb, .place = place, .n = n, .mode = mode, .fresh = true};
  if (verb == MT_LOCK_EVICT || verb == MT_LOCK_ADOPT) {
    item.session = mt_a;
    return mt_lock(f, session, item);
  }
  return mt_lock(f, session, item);
}

static mt_place place_at(const char *path, uint32_t stripe) {
  return (mt_place){mt_slice_of(path), stripe};
}

static void check_apart(mt_fixture *f, const char *path) {
  mt_place first = place_at(path, 0), second = place_at(path, 1), last = place_at(path, 63);
  MT_RESULT(put(f, MT_LOCK_SET, mt_a, first, 1, MT_X), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_CREATE, mt_b, second, 1, MT_X), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_SET, mt_a, last, 2, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_SET, mt_b, last, 2, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_SET, mt_c, first, 1, MT_IS), MT_LOCK_DENIED);
  MT_CHECK(mt_blocked_by(f, mt_a, MT_X, false), "by its holder");
  MT_RESULT(put(f, MT_LOCK_SET, mt_c, second, 1, MT_IS), MT_LOCK_DENIED);
  MT_CHECK(mt_blocked_by(f, mt_b, MT_X, false), "by its holder");
  MT_RESULT(put(f, MT_LOCK_SET, mt_c, last, 1, MT_S), MT_LOCK_DENIED);
  MT_RESULT(put(f, MT_LOCK_ADOPT, mt_c, first, 2, MT_NL), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_ADOPT, mt_c, second, 3, MT_NL), MT_LOCK_ABSENT);
  MT_RESULT(put(f, MT_LOCK_EVICT, mt_c, second, 0, MT_NL), MT_LOCK_ABSENT);
  MT_RESULT(put(f, MT_LOCK_EVICT, mt_c, last, 0, MT_NL), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_RELEASE, mt_b, last, 2, MT_NL), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_RELEASE, mt_b, second, 1, MT_NL), MT_LOCK_ACKED);
  MT_RESULT(put(f, MT_LOCK_RELEASE, mt_c, second, 9, MT_NL), MT_LOCK_ABSENT);
  MT_RESULT(put(f, MT_LOCK_RELEASE, mt_c, first, 9, MT_NL), MT_LOCK_ACKED);
}

static void apart(mt_fixture *f) {
  static char deep[4001];
  memset(deep, 'x', sizeof deep - 1);
  deep[0] = '/';
  check_apart(f, "/");
  check_apart(f, "/p");
  check_apart(f, "/p1");
  check_apart(f, deep);
}

static void impossible(mt_fixture *f) {
  mt_lock_item item = {.verb = MT_LOCK_SET,
                       .place = place_at("/p", MT_STRIPES_MAX),
                       .n = 1,
                       .mode = MT_X,
                       .fresh = true};
  mt_lock_batch r = {.ns = f->ns, .session = mt_a, .items = &item, .n = 1};
  f->s->locks->batch(f->s, &r);
  MT_EXPECT(f, r, MORTISE_INVALID_ARGUMENT);
  mt_lock_batch_deinit(&r);
}

/* "PATH STRIPE " of each, in the order of the list. */
static void show(const json_t *list, char *out, size_t size) {
  const json_t *lock;
  size_t i, n = 0;
  *out = '\0';
  json_array_foreach(list, i, lock) {
    const char *path = json_string_value(json_object_get(lock, "path"));
    MT_CHECK(path && n < size, "a lock has a path");
    n += (size_t)snprintf(out + n, size - n, "%.6s %lld ", path,
                          (long long)json_integer_value(json_object_get(lock, "stripe")));
  }
}

static void shown(mt_fixture *f) {
  static char deep[4001];
  char text[256];
  memset(deep, 'y', sizeof deep - 1);
  deep[0] = '/';
  mt_place places[] = {place_at("/", 0),  place_at("/", 12),   place_at("/q", 0),
                       place_at("/q", 1), place_at("/q/r", 0), place_at("/qq", 2),
                       place_at(deep, 3)};
  enum { N = sizeof places / sizeof *places };
  for (size_t i = 0; i < N; i++)
    MT_RESULT(put(f, MT_LOCK_SET, mt_a, places[i], i + 1, MT_IX), MT_LOCK_ACKED);
  mt_place wanted[] = {places[6], place_at("/q", 2), places[3], places[1], places[0]};
  mt_lock_read r = {.ns = f->ns, .places = wanted, .n = 5};
  f->s->locks->lock_read(f->s, &r);
  MT_OK(f, r);
  json_t *list = json_loads(r.json, 0, NULL);
  show(list, text, sizeof text);
  MT_CHECK(!strcmp(text, "/yyyyy 3 /q 1 / 12 / 0 "), "%s", text);
  json_decref(list);
  mt_lock_read_deinit(&r);
  list = mt_list_pages(f, (mt_lock_list){.ns = f->ns, .page = 2});
  show(list, text, sizeof text);
  MT_CHECK(!strcmp(text, "/ 0 / 12 /q 0 /q 1 /q/r 0 /qq 2 /yyyyy 3 "), "%s", text);
  json_decref(list);
  list = mt_list_pages(f, (mt_lock_list){.ns = f->ns, .path = MT_SLICE("/q")});
  show(list, text, sizeof text);
  MT_CHECK(!strcmp(text, "/q 0 /q 1 /q/r 0 "), "%s", text);
  json_decref(list);
}

/* ---- The table ------------------------------------------------------------------------------ */

static mortise_status init(mt_store *s, uint32_t wanted, uint32_t *stripes) {
  mt_locks_admin r = {.wanted = wanted};
  s->locks->init(s, &r);
  mortise_status status = mt_test_pump(s, &r.req);
  *stripes = r.stripes;
  mt_locks_admin_deinit(&r);
  return status;
}

static uint32_t verified(mt_store *s) {
  mt_locks_admin r = {0};
  s->locks->verify(s, &r);
  mortise_status status = mt_test_pump(s, &r.req);
  MT_CHECK(!status, "verify: %s", r.req.error.message);
  mt_locks_admin_deinit(&r);
  return r.stripes;
}

static void chosen(mt_fixture *f) {
  mt_test_place place = mt_test_place_beside(f->place, "striped");
  mt_test_store t;
  uint32_t stripes;
  MT_CHECK(mt_test_store_open(&t, &place), "a store beside");
  MT_CHECK(init(t.store, MT_STRIPES_MAX + 1, &stripes) == MORTISE_INVALID_ARGUMENT, "too many");
  MT_CHECK(!init(t.store, 4, &stripes) && stripes == 4, "%u stripes", stripes);
  MT_CHECK(verified(t.store) == 4, "as everybody sees");
  MT_CHECK(!init(t.store, 4, &stripes) && stripes == 4, "the same again");
  MT_CHECK(!init(t.store, 0, &stripes) && stripes == 4, "and whatever it has");
  bool changes = place.elastic; /* while nobody uses it */
  for (uint32_t n = 8; n; n /= 8) {
    mortise_status status = init(t.store, n, &stripes);
    MT_CHECK(status == (changes ? MORTISE_OK : MORTISE_INVALID_ARGUMENT), "%u: %d", n, status);
    MT_CHECK(stripes == (changes ? n : 4), "%u stripes", stripes);
  }
  mt_test_store_close(&t);
  MT_CHECK(mt_test_store_open(&t, &place), "opened again");
  MT_CHECK(verified(t.store) == stripes, "it is a table still");
  mt_test_store_close(&t);
}

static void never_of_one_in_use(mt_fixture *f) {
  uint32_t stripes, had = verified(f->s);
  MT_RESULT(mt_set(f, mt_a, "/used", 1, MT_X), MT_LOCK_ACKED);
  MT_CHECK(init(f->s, had + 1, &stripes) == MORTISE_INVALID_ARGUMENT, "it is refused");
  MT_CHECK(verified(f->s) == had, "and changes nothing");
}

const mt_case mt_cases_places[] = {{"places: stripes are apart", apart},
                                   {"places: a stripe that cannot be", impossible},
                                   {"places: read and listed", shown},
                                   {"places: the number of stripes is chosen", chosen},
                                   {"places: not of a table in use", never_of_one_in_use},
                                   {NULL, NULL}};
