/* Lists of transforms where the stores run them: the servers' script and the SQL functions make of each
 * document what the C makes of it, or set it aside for the same reason. MORTISE_TEST_SEED repeats a
 * run. */
#include "elastic/transform.h"
#include "sqlite/functions.h"
#include "support/support.h"
#include "transform/query.h"
#include "transform_random.h"
#include "transform_rows.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 1 << 20, BATCH = 150 };

typedef struct trial {
  mt_buf list, source, want; /* want: the new source, or why it is set aside */
  mt_transforms t;
  mt_transformed how;
} trial;

static trial trials[BATCH];
static size_t n_trials;

/* The other engines are asked about what the C says of it. */
static bool add_trial(mt_slice list, mt_slice source) {
  trial *x = &trials[n_trials];
  mortise_error err;
  *x = (trial){0};
  if (mt_transforms_parse(&x->t, list, NULL)) return false;
  mt_buf_init(&x->list, TEXT_MAX);
  mt_buf_init(&x->source, TEXT_MAX);
  mt_buf_init(&x->want, TEXT_MAX);
  mt_buf_addslice(&x->list, list);
  mt_buf_addslice(&x->source, source);
  x->how = mt_transforms_apply(&x->t, mt_buf_slice(&x->source), &x->want, &err);
  if (x->how == MT_ASIDE) mt_buf_adds(&x->want, err.message);
  if (x->how == MT_UNCHANGED) mt_buf_addslice(&x->want, source);
  n_trials++;
  return true;
}

static void clear_trials(void) {
  for (size_t i = 0; i < n_trials; i++) {
    mt_transforms_deinit(&trials[i].t);
    mt_buf_deinit(&trials[i].list);
    mt_buf_deinit(&trials[i].source);
    mt_buf_deinit(&trials[i].want);
  }
  n_trials = 0;
}

static void __attribute__((noreturn)) differs(const char *where, const trial *x, const char *is) {
  fail_msg("%s, seed %llu:\n  list   %s\n  source %s\n  in C   %d %s\n  there  %s", where,
           (unsigned long long)property_seed(), x->list.p, x->source.p, x->how, x->want.p, is);
  abort();
}

/* ---- The servers ---------------------------------------------------------------------------- */

typedef struct server {
  const mt_test_place *place;
  mt_test_store at;
  char index[96];
} server;

static json_t *ask(server *s, const char *method, const char *path, mt_slice body) {
  mt_raw r = {.method = method, .path = path, .body = body};
  if (body.n && body.p[body.n - 1] == '\n') r.content_type = "application/x-ndjson";
  s->at.store->docs->raw(s->at.store, &r);
  MT_CHECK(!mt_test_pump(s->at.store, &r.req) && r.status < 300, "%s %s: %d %s %.2000s", method,
           path, r.status, r.req.error.message, r.answer ? r.answer : "");
  json_t *answer = json_loads(r.answer, JSON_DECODE_ANY, NULL);
  assert_non_null(answer);
  mt_raw_deinit(&r);
  return answer;
}

static void open_server(server *s, const mt_test_place *place) {
  char path[128];
  *s = (server){.place = place};
  assert_true(mt_test_store_open(&s->at, place));
  snprintf(s->index, sizeof s->index, "%s-transform", place->prefix);
  snprintf(path, sizeof path, "/%s", s->index);
  json_decref(ask(s, "PUT", path,
                  MT_SLICE("{\"settings\":{\"number_of_shards\":1,\"number_of_replicas\":0},"
                           "\"mappings\":{\"enabled\":false}}")));
}

static void close_server(server *s) {
  mt_test_store_close(&s->at);
  mt_test_place_clean(s->place);
}

static json_t *send_bulk(server *s, mt_buf *body, const char *query) {
  char path[160];
  snprintf(path, sizeof path, "/%s/_bulk%s", s->index, query);
  assert_int_equal(body->failed, MORTISE_OK);
  json_t *answer = ask(s, "POST", path, mt_buf_slice(body));
  mt_buf_clear(body);
  return answer;
}

/* White space between tokens may be a line break; in one line it may not. */
static void add_line(mt_buf *out, mt_slice json) {
  size_t start = out->n;
  mt_buf_addslice(out, json);
  for (size_t i = start; i < out->n; i++)
    if (strchr("\n\r", out->p[i])) out->p[i] = ' ';
  mt_buf_addc(out, '\n');
}

static json_t *update_all(server *s) {
  mt_buf body, line;
  mt_buf_init(&body, 64 << 20);
  mt_buf_init(&line, TEXT_MAX);
  for (size_t i = 0; i < n_trials; i++) {
    mt_buf_addf(&body, "{\"index\":{\"_id\":\"%zu\"}}\n", i);
    add_line(&body, mt_buf_slice(&trials[i].source));
  }
  json_t *put = send_bulk(s, &body, "?filter_path=errors,items.*.error");
  if (json_is_true(json_object_get(put, "errors")))
    fail_msg("%s: %s", s->place->name, json_dumps(put, 0));
  json_decref(put);
  for (size_t i = 0; i < n_trials; i++) {
    mt_buf_addf(&body, "{\"update\":{\"_id\":\"%zu\"}}\n", i);
    mt_buf_clear(&line);
    mt_buf_adds(&line, "{\"_source\":[\"mortise_aside\"],\"script\":");
    mt_elastic_add_transforms(&line, &trials[i].t);
    mt_buf_adds(&line, "}");
    add_line(&body, mt_buf_slice(&line));
  }
  json_t *answer = send_bulk(s, &body, "");
  mt_buf_deinit(&body);
  mt_buf_deinit(&line);
  return answer;
}

/* The documents as they are now. */
static json_t *get_all(server *s) {
  char path[160];
  mt_buf body;
  mt_buf_init(&body, TEXT_MAX);
  mt_buf_adds(&body, "{\"ids\":[");
  for (size_t i = 0; i < n_trials; i++) mt_buf_addf(&body, "%s\"%zu\"", i ? "," : "", i);
  mt_buf_adds(&body, "]}");
  snprintf(path, sizeof path, "/%s/_mget", s->index);
  json_t *answer = ask(s, "POST", path, mt_buf_slice(&body));
  mt_buf_deinit(&body);
  return answer;
}

/* Where several things are wrong, another of them may be told. */
static bool same_reason(const char *is, const char *want) {
  const char *name = strstr(want, "): ");
  return is && name && !strncmp(is, want, (size_t)(name - want));
}

static void check_answer(server *s, const trial *x, json_t *update, json_t *doc) {
  json_t *get = json_object_get(json_object_get(update, "get"), "_source");
  const char *aside = json_string_value(json_object_get(get, "mortise_aside"));
  const char *result = json_string_value(json_object_get(update, "result"));
  json_t *is = json_object_get(doc, "_source");
  json_t *want = json_loads((x->how == MT_ASIDE ? &x->source : &x->want)->p, 0, NULL);
  assert_non_null(want);
  bool right = result && !strcmp(result, x->how == MT_CHANGED ? "updated" : "noop") &&
               json_equal(is, want) &&
               (x->how == MT_ASIDE ? same_reason(aside, x->want.p) : !aside);
  if (!right) {
    json_object_set(update, "now", is);
    differs(s->place->name, x, json_dumps(update, 0));
  }
  json_decref(want);
}

static void check_server(server *s) {
  json_t *answer = update_all(s), *items = json_object_get(answer, "items");
  json_t *now = get_all(s), *docs = json_object_get(now, "docs");
  assert_int_equal(json_array_size(items), n_trials);
  assert_int_equal(json_array_size(docs), n_trials);
  for (size_t i = 0; i < n_trials; i++)
    check_answer(s, &trials[i], json_object_get(json_array_get(items, i), "update"),
                 json_array_get(docs, i));
  json_decref(answer);
  json_decref(now);
}

/* ---- SQL ------------------------------------------------------------------------------------ */

static sqlite3 *open_sql(void) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
  assert_int_equal(mt_functions_add(db), SQLITE_OK);
  return db;
}

/* The one column of the one row; NULL where it is. Owned. */
static char *sql_text(sqlite3 *db, const char *sql, const char *source, const char *list) {
  sqlite3_stmt *stmt;
  assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_bind_text(stmt, 1, source, -1, SQLITE_STATIC);
  sqlite3_bind_text(stmt, 2, list, -1, SQLITE_STATIC);
  if (sqlite3_step(stmt) != SQLITE_ROW) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  const char *text = (const char *)sqlite3_column_text(stmt, 0);
  char *copy = text ? strdup(text) : NULL;
  sqlite3_finalize(stmt);
  return copy;
}

static void check_sql(sqlite3 *db) {
  for (size_t i = 0; i < n_trials; i++) {
    const trial *x = &trials[i];
    char *is = sql_text(db, "SELECT mortise_transform(?1, ?2)", x->source.p, x->list.p);
    char *why = sql_text(db, "SELECT mortise_aside(?1, ?2)", x->source.p, x->list.p);
    const char *want = x->how == MT_CHANGED ? x->want.p : NULL;
    const char *want_why = x->how == MT_ASIDE ? x->want.p : NULL;
    if (!is != !want || (is && strcmp(is, want) != 0)) differs("SQL", x, is ? is : "NULL");
    if (!why != !want_why || (why && strcmp(why, want_why) != 0))
      differs("SQL", x, why ? why : "NULL");
    free(is);
    free(why);
  }
}

/* ---- Everywhere ----------------------------------------------------------------------------- */

typedef struct everywhere {
  sqlite3 *db;
  mt_test_place places[MT_TEST_PLACES];
  server servers[MT_TEST_PLACES];
  size_t n;
} everywhere;

static int set_up(void **state) {
  everywhere *e = calloc(1, sizeof *e);
  e->db = open_sql();
  size_t n = mt_test_places(e->places);
  for (size_t i = 0; i < n; i++)
    if (e->places[i].elastic) open_server(&e->servers[e->n++], &e->places[i]);
  *state = e;
  return 0;
}

static int tear_down(void **state) {
  everywhere *e = *state;
  for (size_t i = 0; i < e->n; i++) close_server(&e->servers[i]);
  sqlite3_close(e->db);
  free(e);
  return 0;
}

static void check_trials(everywhere *e) {
  check_sql(e->db);
  for (size_t i = 0; i < e->n; i++) check_server(&e->servers[i]);
  clear_trials();
}

/* jansson has no integers beyond 64 bits, and neither test nor server doubles beyond theirs. */
static bool fits(mt_slice source) {
  json_t *parsed = json_loadb(source.p, source.n, 0, NULL);
  json_decref(parsed);
  return parsed != NULL;
}

static void the_rows(void **state) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *want = rows[i].want && *rows[i].want != '!' ? rows[i].want : "{}";
    if (!fits(mt_slice_of(rows[i].source)) || !fits(mt_slice_of(want))) continue;
    assert_true(add_trial(mt_slice_of(rows[i].list), mt_slice_of(rows[i].source)));
    if (n_trials == BATCH) check_trials(*state);
  }
  check_trials(*state);
}

static void random_ones(void **state) {
  everywhere *e = *state;
  rng r = {property_seed()};
  printf("# seed %llu\n", (unsigned long long)r.state);
  size_t how[MT_STOP] = {0};
  mt_buf list, source;
  mt_buf_init(&list, TEXT_MAX);
  mt_buf_init(&source, TEXT_MAX);
  for (size_t i = property_rounds(e->n ? 8 : 60); i > 0; i--) {
    while (n_trials < BATCH) {
      mt_buf_clear(&list);
      mt_buf_clear(&source);
      random_list(&r, &list, 1 + (rng_chance(&r, 50) ? rng_below(&r, 4) : 0));
      random_document(&r, &source, true);
      if (add_trial(mt_buf_slice(&list), mt_buf_slice(&source))) how[trials[n_trials - 1].how]++;
    }
    check_trials(e);
  }
  printf("# %zu changed, %zu unchanged, %zu aside\n", how[MT_CHANGED], how[MT_UNCHANGED],
         how[MT_ASIDE]);
  assert_true(how[MT_CHANGED] > 100 && how[MT_UNCHANGED] > 100 && how[MT_ASIDE] > 100);
  mt_buf_deinit(&list);
  mt_buf_deinit(&source);
}

/* ---- By query ------------------------------------------------------------------------------- */

/* What is changed is written; what is unchanged or set aside is not, and has its old version. */
static void by_query(void **state) {
  everywhere *e = *state;
  for (size_t i = 0; i < e->n; i++) {
    server *s = &e->servers[i];
    mt_transforms t;
    mt_buf body;
    char path[160];
    mt_buf_init(&body, TEXT_MAX);
    assert_int_equal(
        mt_transforms_prefix(&t, MT_SLICE("p"), MT_SLICE("/a/b"), MT_SLICE("/a"), NULL),
        MORTISE_OK);
    snprintf(path, sizeof path, "/%s/_refresh", s->index);
    json_decref(ask(s, "POST", path, (mt_slice){NULL, 0}));
    snprintf(path, sizeof path, "/%s/_delete_by_query?refresh=true", s->index);
    json_decref(ask(s, "POST", path, MT_SLICE("{\"query\":{\"match_all\":{}}}")));
    mt_buf_adds(&body,
                "{\"index\":{\"_id\":\"q1\"}}\n{\"p\":\"/a/b/x\",\"big\":1234567890123456789}\n"
                "{\"index\":{\"_id\":\"q2\"}}\n{\"p\":\"/a/b/b\"}\n"
                "{\"index\":{\"_id\":\"q3\"}}\n{\"p\":\"/q\"}\n");
    json_decref(send_bulk(s, &body, "?refresh=true"));
    mt_buf_adds(&body, "{\"query\":{\"match_all\":{}},\"script\":");
    mt_elastic_add_transforms_by_query(&body, &t, 0);
    mt_buf_adds(&body, "}");
    snprintf(path, sizeof path, "/%s/_update_by_query?refresh=true", s->index);
    json_t *answer = ask(s, "POST", path, mt_buf_slice(&body));
    assert_int_equal(json_integer_value(json_object_get(answer, "updated")), 1);
    assert_int_equal(json_integer_value(json_object_get(answer, "noops")), 2);
    json_decref(answer);
    snprintf(path, sizeof path, "/%s/_search?version=true&sort=_doc", s->index);
    answer = ask(s, "GET", path, (mt_slice){NULL, 0});
    static const char *const want[] = {"{\"p\":\"/a/x\",\"big\":1234567890123456789}",
                                       "{\"p\":\"/a/b/b\"}", "{\"p\":\"/q\"}"};
    json_t *hit, *hits = json_object_get(json_object_get(answer, "hits"), "hits");
    size_t at;
    assert_int_equal(json_array_size(hits), 3);
    json_array_foreach(hits, at, hit) {
      int id = atoi(json_string_value(json_object_get(hit, "_id")) + 1);
      json_t *is = json_object_get(hit, "_source"), *expect = json_loads(want[id - 1], 0, NULL);
      MT_CHECK(json_equal(is, expect), "%s: %s", s->place->name, json_dumps(is, 0));
      assert_int_equal(json_integer_value(json_object_get(hit, "_version")), id == 1 ? 2 : 1);
      json_decref(expect);
    }
    json_decref(answer);
    mt_transforms_deinit(&t);
    mt_buf_deinit(&body);
  }
}

/* ---- In SQL alone --------------------------------------------------------------------------- */

static void one_statement_changes_what_matches(void **state) {
  (void)state;
  sqlite3 *db = open_sql();
  assert_int_equal(
      sqlite3_exec(
          db,
          "CREATE TABLE docs(id INTEGER PRIMARY KEY, source TEXT);"
          "INSERT INTO docs VALUES(1, '{\"n\":\"1\"}'), (2, '{\"n\":2}'), (3, '{\"n\":\"x\"}');"
          "UPDATE docs SET source = new.source FROM (SELECT id, mortise_transform(source,"
          " '" CAST("n", "integer") "') AS source FROM docs) AS new"
                                    " WHERE docs.id = new.id AND new.source IS NOT NULL",
          NULL, NULL, NULL),
      SQLITE_OK);
  assert_int_equal(sqlite3_changes(db), 1);
  char *is = sql_text(db, "SELECT group_concat(source, ' ') FROM docs", NULL, NULL);
  assert_string_equal(is, "{\"n\":1} {\"n\":2} {\"n\":\"x\"}");
  free(is);
  is = sql_text(
      db, "SELECT group_concat(id || mortise_aside(source, '" CAST("n", "integer") "')) FROM docs",
      NULL, NULL);
  assert_string_equal(is, "3transform 1 (cast): n is no integer");
  free(is);
  sqlite3_close(db);
}

static void sql_errors_are_said(void **state) {
  (void)state;
  static const char *const wrong[][3] = {
      {"{}", "[]", "the list of transforms is empty"},
      {"{}", NULL, "the list of transforms is not JSON"},
      {"{", REMOVE("a"), "the source is not JSON"},
      {NULL, REMOVE("a"), "the source is not JSON"},
  };
  sqlite3 *db = open_sql();
  for (size_t i = 0; i < 2 * sizeof wrong / sizeof wrong[0]; i++) {
    const char *const *w = wrong[i / 2];
    sqlite3_stmt *stmt;
    sqlite3_prepare_v2(db,
                       i % 2 ? "SELECT mortise_aside(?1, ?2)" : "SELECT mortise_transform(?1, ?2)",
                       -1, &stmt, NULL);
    sqlite3_bind_text(stmt, 1, w[0], -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, w[1], -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ERROR);
    if (!strstr(sqlite3_errmsg(db), w[2])) fail_msg("%s, not %s", sqlite3_errmsg(db), w[2]);
    sqlite3_finalize(stmt);
  }
  sqlite3_close(db);
}

/* A file's own schema cannot call them. */
static void no_schema_calls_them(void **state) {
  (void)state;
  sqlite3 *db = open_sql();
  sqlite3_exec(db, "CREATE VIEW v AS SELECT mortise_transform('{}', '[]')", NULL, NULL, NULL);
  assert_int_equal(sqlite3_exec(db, "SELECT * FROM v", NULL, NULL, NULL), SQLITE_ERROR);
  assert_non_null(strstr(sqlite3_errmsg(db), "unsafe use"));
  sqlite3_close(db);
}

static mortise_status call_sql(void *ctx) {
  sqlite3_stmt *stmt = ctx;
  sqlite3_clear_bindings(stmt);
  sqlite3_bind_text(stmt, 1, "{\"a\":1}", -1, SQLITE_STATIC);
  sqlite3_bind_text(stmt, 2, RENAME("a", "b.c"), -1, SQLITE_STATIC);
  int code = sqlite3_step(stmt);
  sqlite3_reset(stmt);
  return code == SQLITE_ROW     ? MORTISE_OK
         : code == SQLITE_NOMEM ? MORTISE_OUT_OF_MEMORY
                                : MORTISE_UNSUPPORTED;
}

static void sql_says_when_memory_ran_out(void **state) {
  (void)state;
  sqlite3 *db = open_sql();
  sqlite3_stmt *stmt;
  sqlite3_prepare_v2(db, "SELECT mortise_transform(?1, ?2)", -1, &stmt, NULL);
  assert_true(each_allocation_told(call_sql, stmt));
  sqlite3_finalize(stmt);
  sqlite3_close(db);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_rows),
      cmocka_unit_test(random_ones),
      cmocka_unit_test(by_query),
      cmocka_unit_test(one_statement_changes_what_matches),
      cmocka_unit_test(sql_errors_are_said),
      cmocka_unit_test(no_schema_calls_them),
      cmocka_unit_test(sql_says_when_memory_ran_out),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
