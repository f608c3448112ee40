/* The SQLite store's own evaluation of queries, against a naive one. MORTISE_TEST_SEED repeats a
 * run. */
#include "base/json.h"
#include "base/mem.h"
#include "sqlite_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

static const char keyed[] = "{\"mappings\":{\"properties\":{\"path\":{\"type\":\"keyword\"},"
                            "\"tag\":{\"type\":\"keyword\"},\"a\":{\"properties\":{\"b\":"
                            "{\"type\":\"keyword\"}}}}}}";

enum { DOCS = 300 };
static const char *const words[] = {"",  "a",  "ab",     "abc",  "/x", "/x/",  "/x/y",
                                    "5", "10", "\u00fc", "t\\n", "%",  "true", "-3"};
enum { WORDS = sizeof words / sizeof *words };
static const char *const fields[] = {"path", "tag", "a.b", "n", "none"};
static json_t *docs[DOCS];

static json_t *any_scalar(void) {
  switch (roll(6)) {
  case 0:
    return json_integer((json_int_t)roll(20) - 10);
  case 1:
    return json_boolean(roll(2));
  case 2:
    return json_null();
  default:
    return json_string(words[roll(WORDS)]);
  }
}

static json_t *any_value(void) {
  if (roll(4)) return any_scalar();
  json_t *list = json_array();
  for (uint64_t i = roll(4); i; i--) json_array_append_new(list, any_scalar());
  return list;
}

static json_t *any_document(void) {
  json_t *d = json_object();
  if (roll(5)) json_object_set_new(d, "path", any_value());
  if (roll(3)) json_object_set_new(d, "tag", any_value());
  if (roll(3)) json_object_set_new(d, "n", json_integer((json_int_t)roll(30) - 10));
  if (!roll(3)) json_object_set_new(d, "a", json_pack("{so}", "b", any_value()));
  if (!roll(6)) json_object_set_new(d, "a.b", any_value());
  return d;
}

/* The field's scalars, as a flat list; borrowed values. */
static size_t values_of(json_t *doc, const char *field, json_t **out) {
  size_t n = 0;
  json_t *at[2] = {json_object_get(doc, field), NULL};
  if (strcmp(field, "a.b") == 0) at[1] = json_object_get(json_object_get(doc, "a"), "b");
  for (int k = 0; k < 2; k++) {
    if (json_is_array(at[k]))
      for (size_t i = 0; i < json_array_size(at[k]); i++) out[n++] = json_array_get(at[k], i);
    else if (at[k])
      out[n++] = at[k];
  }
  size_t kept = 0;
  for (size_t i = 0; i < n; i++)
    if (!json_is_null(out[i])) out[kept++] = out[i];
  return kept;
}

static const char *text_of(json_t *v, char *room) {
  if (json_is_integer(v)) snprintf(room, 32, "%lld", (long long)json_integer_value(v));
  if (json_is_boolean(v)) strcpy(room, json_is_true(v) ? "true" : "false");
  return json_is_string(v) ? json_string_value(v) : room;
}

static bool number_of(const char *text, long long *out) {
  char *end;
  *out = strtoll(text, &end, 10);
  return *text && !*end && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
}

static int compare(const char *a, const char *b) {
  long long x, y;
  bool p = number_of(a, &x), q = number_of(b, &y);
  if (p && q) return (x > y) - (x < y);
  return p != q ? (p ? -1 : 1) : strcmp(a, b);
}

static bool naive(json_t *query, json_t *doc);

static bool naive_list(json_t *list, json_t *doc, size_t *hits) {
  *hits = 0;
  for (size_t i = 0; i < json_array_size(list); i++) *hits += naive(json_array_get(list, i), doc);
  return *hits == json_array_size(list);
}

static bool naive_bool(json_t *body, json_t *doc) {
  size_t hits;
  json_t *should = json_object_get(body, "should"), *must = json_object_get(body, "must");
  json_t *least = json_object_get(body, "minimum_should_match");
  if (!naive_list(must, doc, &hits)) return false;
  naive_list(json_object_get(body, "must_not"), doc, &hits);
  if (hits) return false;
  naive_list(should, doc, &hits);
  size_t need = json_array_size(should) && !json_array_size(must) ? 1 : 0;
  return hits >= (least ? (size_t)json_integer_value(least) : need);
}

static bool naive_value(const char *clause, json_t *want, const char *have) {
  char room[32];
  if (!strcmp(clause, "term")) return !strcmp(have, text_of(want, room));
  if (!strcmp(clause, "prefix"))
    return !strncmp(have, text_of(want, room), strlen(text_of(want, room)));
  if (!strcmp(clause, "terms")) {
    for (size_t i = 0; i < json_array_size(want); i++)
      if (!strcmp(have, text_of(json_array_get(want, i), room))) return true;
    return false;
  }
  json_t *low = json_object_get(want, "gte"), *high = json_object_get(want, "lt");
  if (low && compare(have, text_of(low, room)) < 0) return false;
  return !high || compare(have, text_of(high, room)) < 0;
}

static bool naive(json_t *query, json_t *doc) {
  const char *clause = json_object_iter_key(json_object_iter(query));
  json_t *body = json_object_get(query, clause), *values[16];
  if (!strcmp(clause, "bool")) return naive_bool(body, doc);
  if (!strcmp(clause, "exists"))
    return values_of(doc, json_string_value(json_object_get(body, "field")), values) > 0;
  const char *field = json_object_iter_key(json_object_iter(body));
  size_t n = values_of(doc, field, values);
  for (size_t i = 0; i < n; i++) {
    char room[32];
    if (naive_value(clause, json_object_get(body, field), text_of(values[i], room))) return true;
  }
  return false;
}

static json_t *real_scalar(void) {
  json_t *v = any_scalar();
  for (; json_is_null(v); v = any_scalar()) json_decref(v);
  return v;
}

static json_t *any_query(unsigned depth);

static json_t *any_queries(unsigned depth) {
  json_t *list = json_array();
  for (uint64_t i = roll(3); i; i--) json_array_append_new(list, any_query(depth));
  return list;
}

static json_t *any_query(unsigned depth) {
  const char *field = fields[roll(5)];
  switch (roll(depth ? 7 : 5)) {
  case 0:
    return json_pack("{s{so}}", "term", field, real_scalar());
  case 1: {
    json_t *list = json_array();
    for (uint64_t i = roll(4); i; i--) json_array_append_new(list, real_scalar());
    return json_pack("{s{so}}", "terms", field, list);
  }
  case 2:
    return json_pack("{s{ss}}", "prefix", field, words[roll(WORDS)]);
  case 3:
    return json_pack("{s{s{soso}}}", "range", field, "gte", real_scalar(), "lt", real_scalar());
  case 4:
    return json_pack("{s{ss}}", "exists", "field", field);
  default: {
    json_t *q = json_pack("{s{sososo}}", "bool", "must", any_queries(depth - 1), "should",
                          any_queries(depth - 1), "must_not", any_queries(depth - 1));
    if (!roll(3))
      json_object_set_new(json_object_get(q, "bool"), "minimum_should_match",
                          json_integer((json_int_t)roll(3)));
    return q;
  }
  }
}

static void put(handle *h, const char *index, size_t i) {
  char id[16], *body = json_dumps(docs[i], JSON_ENSURE_ASCII);
  snprintf(id, sizeof id, "d%zu", i);
  assert_int_equal(one(h, index, MT_WRITE_INDEX, id, body).result, MT_WRITE_APPLIED);
  free(body);
}

static void rewrite_some(handle *h) {
  for (int k = 0; k < 20; k++) {
    size_t i = roll(DOCS);
    json_decref(docs[i]);
    docs[i] = any_document();
    put(h, "plain", i);
    put(h, "keyed", i);
  }
}

static void answers_as_the_naive_evaluator(void **state) {
  (void)state;
  handle h = open_here(file);
  create(&h, "plain", "");
  create(&h, "keyed", keyed);
  for (size_t i = 0; i < DOCS; i++) {
    docs[i] = any_document();
    put(&h, "plain", i);
    put(&h, "keyed", i);
  }
  for (int round = 0; round < 1500; round++) {
    if (round % 100 == 99) rewrite_some(&h);
    json_t *q = any_query(2);
    char *text = json_dumps(q, roll(2) ? JSON_ENSURE_ASCII : 0);
    uint64_t want = 0;
    for (size_t i = 0; i < DOCS; i++) want += naive(q, docs[i]);
    uint64_t plain = count_of(&h, "plain", text), indexed = count_of(&h, "keyed", text);
    if (plain != want || indexed != want)
      fail_msg("%s: %llu, without entries %llu, with them %llu", text, (unsigned long long)want,
               (unsigned long long)plain, (unsigned long long)indexed);
    free(text);
    json_decref(q);
  }
  for (size_t i = 0; i < DOCS; i++) json_decref(docs[i]);
  shut(&h);
}

static void compares_numbers_exactly(void **state) {
  (void)state;
  handle h = open_here(file);
  one(&h, "n", MT_WRITE_INDEX, "a", "{\"v\":9007199254740993}");
  one(&h, "n", MT_WRITE_INDEX, "b", "{\"v\":9007199254740992.0}");
  one(&h, "n", MT_WRITE_INDEX, "c", "{\"v\":18446744073709551615}");
  one(&h, "n", MT_WRITE_INDEX, "d", "{\"v\":1.50}");
  one(&h, "n", MT_WRITE_INDEX, "e", "{\"v\":1e3}");
  assert_int_equal(count_of(&h, "n", "{\"term\":{\"v\":9007199254740992}}"), 1);
  assert_int_equal(count_of(&h, "n", "{\"range\":{\"v\":{\"gt\":9007199254740992}}}"), 2);
  assert_int_equal(count_of(&h, "n", "{\"range\":{\"v\":{\"gte\":18446744073709551615}}}"), 1);
  assert_int_equal(count_of(&h, "n", "{\"term\":{\"v\":1.5}}"), 1);
  assert_int_equal(count_of(&h, "n", "{\"term\":{\"v\":\"1000\"}}"), 1);
  assert_int_equal(count_of(&h, "n", "{\"range\":{\"_seq_no\":{\"lte\":2}}}"), 3);
  shut(&h);
}

static char *search(handle *h, const char *body, mortise_status want) {
  mt_search r = {.index = "s", .body = mt_slice_of(body)};
  h->s->docs->search(h->s, &r);
  assert_int_equal(finish(h, &r.req), want);
  return r.answer;
}

static void sorts_and_filters(void **state) {
  (void)state;
  handle h = open_here(file);
  one(&h, "s", MT_WRITE_INDEX, "a", "{\"n\":10,\"o\":{\"x\":1,\"y\":2}}");
  one(&h, "s", MT_WRITE_INDEX, "b", "{\"n\":9}");
  one(&h, "s", MT_WRITE_INDEX, "c", "{\"m\":1}");
  char *answer = search(&h, "{\"sort\":[{\"n\":{\"order\":\"desc\"}}],\"_source\":[\"o.y\",\"n\"]}",
                        MORTISE_OK);
  json_t *root = json_loads(answer, 0, NULL),
         *hits = json_object_get(json_object_get(root, "hits"), "hits");
  static const char *const order[] = {"a", "b", "c"};
  assert_int_equal(json_array_size(hits), 3);
  for (size_t i = 0; i < 3; i++)
    assert_string_equal(json_string_value(json_object_get(json_array_get(hits, i), "_id")),
                        order[i]);
  json_t *want = json_loads("{\"o\":{\"y\":2},\"n\":10}", 0, NULL);
  assert_true(json_equal(json_object_get(json_array_get(hits, 0), "_source"), want));
  json_decref(want);
  json_decref(root);
  mt_free(answer);
  answer = search(&h, "{\"sort\":[\"n\"],\"from\":1,\"size\":1,\"_source\":false}", MORTISE_OK);
  assert_non_null(strstr(answer, "\"_id\":\"a\""));
  assert_null(strstr(answer, "_source"));
  mt_free(answer);
  assert_null(search(&h, "{\"aggs\":{}}", MORTISE_REJECTED));
  assert_null(search(&h, "{\"size\":10001}", MORTISE_REJECTED));
  shut(&h);
}

int main(void) {
  seed_dice();
  const struct CMUnitTest tests[] = {
      CASE(answers_as_the_naive_evaluator),
      CASE(compares_numbers_exactly),
      CASE(sorts_and_filters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
