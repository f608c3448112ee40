#include "support/support.h"

#include "base/mem.h"
#include "elastic/elastic.h"
#include "sqlite/sqlite.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void log_line(void *ctx, mortise_log_level level, const char *line) {
  (void)ctx;
  if (level >= MORTISE_LOG_WARNING || getenv("MORTISE_TEST_LOG")) fprintf(stderr, "# %s\n", line);
}

bool mt_test_store_open(mt_test_store *t, const mt_test_place *place) {
  static const mt_log log = {log_line, NULL};
  mortise_error err = {0};
  t->store = NULL;
  t->loop = mt_loop_new(&err);
  if (t->loop && place->elastic) {
    mt_http_config config = {.nodes = place->url,
                             .connect_ms = 5000,
                             .request_ms = 30000,
                             .answer_max = (size_t)64 << 20};
    t->store = mt_elastic_open(t->loop, &config, place->table, &log, &err);
  } else if (t->loop) {
    t->store = mt_sqlite_open(t->loop, place->url + strlen("sqlite:"), 30000, &log, &err);
  }
  if (t->store) return true;
  fprintf(stderr, "%s does not open: %s\n", place->url, err.message);
  mt_loop_free(t->loop);
  t->loop = NULL;
  return false;
}

void mt_test_store_close(mt_test_store *t) {
  mt_store_close(t->store);
  if (t->loop) mt_loop_free(t->loop);
  *t = (mt_test_store){0};
}

/* The answer, owned; NULL when there is none. */
static char *ask(mt_store *s, const char *method, const char *path) {
  mt_raw r = {.method = method, .path = path};
  s->docs->raw(s, &r);
  if (!mt_test_pump(s, &r.req) && r.status < 400) return r.answer;
  mt_raw_deinit(&r);
  return NULL;
}

static void name_server(mt_test_place *place) {
  mt_test_store t;
  if (!mt_test_store_open(&t, place)) return;
  char *answer = ask(t.store, "GET", "/");
  mt_json root = {0};
  char kind[24] = "", number[24] = "?";
  if (answer && !mt_json_parse(mt_slice_of(answer), "the answer", &root, NULL)) {
    mt_json_copy(mt_json_at(root, "version", "distribution", NULL), kind, sizeof kind);
    mt_json_copy(mt_json_at(root, "version", "number", NULL), number, sizeof number);
    snprintf(place->name, sizeof place->name, "%s-%s", *kind ? kind : "elasticsearch", number);
  }
  mt_free(answer);
  mt_test_store_close(&t);
}

/* Makes the names differ from those of other runs at the same time, even with the same seed. */
static void name_apart(mt_test_place *place) {
  static unsigned count;
  snprintf(place->prefix, sizeof place->prefix, "spec-%08" PRIx32 "-%ld-%u-",
           (uint32_t)mt_test_seed(), (long)getpid(), count++);
  snprintf(place->table, sizeof place->table, "%slocks", place->prefix);
}

static bool sqlite_place(mt_test_place *place) {
  const char *tmp = getenv("TMPDIR");
  *place = (mt_test_place){.name = "sqlite"};
  snprintf(place->folder, sizeof place->folder, "%s/mortise-spec-XXXXXX",
           tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(place->folder)) return false;
  snprintf(place->url, sizeof place->url, "sqlite:%.200s/store", place->folder);
  name_apart(place);
  return true;
}

size_t mt_test_places(mt_test_place out[MT_TEST_PLACES]) {
  size_t n = getenv("MORTISE_TEST_NO_SQLITE") ? 0 : sqlite_place(&out[0]) ? 1 : 0;
  const char *urls = getenv("MORTISE_TEST_URLS");
  if (!urls || !*urls) {
    printf("# no servers: MORTISE_TEST_URLS is not set\n");
    return n;
  }
  while (*urls && n < MT_TEST_PLACES) {
    size_t length = strcspn(urls, ",");
    mt_test_place *place = &out[n];
    *place = (mt_test_place){.elastic = true};
    snprintf(place->url, sizeof place->url, "%.*s", (int)length, urls);
    snprintf(place->name, sizeof place->name, "%.60s", place->url);
    urls += length + (urls[length] == ',');
    if (!length) continue;
    name_apart(place);
    name_server(place);
    n++;
  }
  return n;
}

mt_test_place mt_test_place_beside(const mt_test_place *place, const char *suffix) {
  mt_test_place beside = *place;
  snprintf(beside.table, sizeof beside.table, "%.44s%.15s", place->prefix, suffix);
  if (!place->elastic)
    snprintf(beside.url, sizeof beside.url, "sqlite:%.200s/%.40s", place->folder, suffix);
  return beside;
}

static void remove_folder(const char *folder) {
  DIR *d = opendir(folder);
  char path[600];
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    unlink(path);
  }
  if (d) closedir(d);
  rmdir(folder);
}

/* One by one: servers may forbid to delete by a wildcard. */
static void remove_indices(const mt_test_place *place) {
  mt_test_store t;
  if (!mt_test_store_open(&t, place)) return;
  char path[256], name[160];
  snprintf(path, sizeof path, "/_cat/indices/%s*?h=index&format=json&expand_wildcards=all",
           place->prefix);
  char *answer = ask(t.store, "GET", path);
  mt_json root = {0};
  if (answer && !mt_json_parse(mt_slice_of(answer), "the answer", &root, NULL)) {
    for (mt_json_iter it = mt_json_items(root); mt_json_next(&it);) {
      mt_json_copy(mt_json_get(it.value, "index"), name, sizeof name);
      if (strncmp(name, place->prefix, strlen(place->prefix)) != 0) continue;
      snprintf(path, sizeof path, "/%s", name);
      mt_free(ask(t.store, "DELETE", path));
    }
  }
  mt_free(answer);
  mt_test_store_close(&t);
}

int mt_test_init_table(const mt_test_place *place) {
  mt_test_store s;
  if (!mt_test_store_open(&s, place)) return -1;
  const char *stripes = getenv("MORTISE_TEST_STRIPES");
  mt_locks_admin init = {.wanted = stripes ? (uint32_t)strtoul(stripes, NULL, 10) : 0};
  s.store->locks->init(s.store, &init);
  mortise_status status = mt_test_pump(s.store, &init.req);
  if (status)
    print_error("%s: init: %s: %s\n", place->name, init.req.error.message, init.req.error.reason);
  mt_locks_admin_deinit(&init);
  mt_test_store_close(&s);
  return status ? -1 : 0;
}

void mt_test_place_clean(const mt_test_place *place) {
  if (place->elastic)
    remove_indices(place);
  else
    remove_folder(place->folder);
}

int mt_test_each_place(mt_test_place *place, const char *what, const struct CMUnitTest *tests,
                       size_t n, CMFixtureFunction setup) {
  mt_test_place places[MT_TEST_PLACES];
  size_t n_places = mt_test_places(places);
  int failed = 0;
  for (size_t i = 0; i < n_places; i++) {
    char group[96];
    *place = places[i];
    snprintf(group, sizeof group, "%s on %s", what, place->name);
    failed += _cmocka_run_group_tests(group, tests, n, setup, NULL);
    mt_test_place_clean(place);
  }
  return failed;
}
