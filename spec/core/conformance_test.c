/* Runs the conformance suite on SQLite and on every server in MORTISE_TEST_URLS.
 * MORTISE_TEST_FILTER: a pattern for the names, such as "sqlite: lock*". */
#include "conformance/conformance.h"

#include <stdio.h>
#include <stdlib.h>

static const mt_case *const all_cases[] = {
    mt_cases_documents, mt_cases_bulk,        mt_cases_scans, mt_cases_by_query, mt_cases_requests,
    mt_cases_locks,     mt_cases_places,      mt_cases_queue, mt_cases_grant,    mt_cases_sessions,
    mt_cases_tables,    mt_cases_concurrency, mt_cases_model,
    mt_cases_span,      mt_cases_admin,
};

enum { CASES_MAX = 160 };

typedef struct run {
  const mt_test_place *place;
  const mt_case *what;
  char name[160];
} run;

static int open_fixture(void **state) {
  static unsigned count;
  const run *r = *state;
  mt_fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (!f || !mt_test_store_open(&f->handle, r->place)) return -1;
  f->place = r->place;
  f->what = r->what;
  f->s = f->handle.store;
  f->random = mt_test_random_for(r->name);
  count++;
  snprintf(f->ns, sizeof f->ns, "n%u", count);
  snprintf(f->index, sizeof f->index, "%sd%u", r->place->prefix, count);
  return 0;
}

static int close_fixture(void **state) {
  mt_fixture *f = *state;
  if (!f) return 0;
  mt_lock_batch last = {.items = &f->item, .n = 1};
  mt_lock_batch_deinit(&last);
  if (f->index_made) mt_drop_index(f, f->index);
  mt_test_store_close(&f->handle);
  free(f);
  return 0;
}

static void run_case(void **state) {
  mt_fixture *f = *state;
  f->what->run(f);
}

static int run_place(const mt_test_place *place) {
  static run runs[CASES_MAX];
  struct CMUnitTest tests[CASES_MAX];
  size_t n = 0;
  for (size_t i = 0; i < sizeof all_cases / sizeof *all_cases; i++) {
    for (const mt_case *c = all_cases[i]; c->name; c++, n++) {
      if (n == CASES_MAX) abort();
      runs[n] = (run){.place = place, .what = c};
      snprintf(runs[n].name, sizeof runs[n].name, "%s: %s", place->name, c->name);
      tests[n] = (struct CMUnitTest){runs[n].name, run_case, open_fixture, close_fixture, &runs[n]};
    }
  }
  if (mt_test_init_table(place)) return 1;
  int64_t start = mt_test_ns();
  int failed = _cmocka_run_group_tests(place->name, tests, n, NULL, NULL);
  printf("# %s: %zu cases in %.1f s\n", place->name, n, (double)(mt_test_ns() - start) / 1e9);
  fflush(stdout);
  return failed;
}

int main(void) {
  static mt_test_place places[MT_TEST_PLACES];
  const char *filter = getenv("MORTISE_TEST_FILTER");
  if (filter) cmocka_set_test_filter(filter);
  mt_test_seed();
  size_t n = mt_test_places(places);
  int failed = n ? 0 : 1;
  for (size_t i = 0; i < n; i++) {
    failed += run_place(&places[i]);
    mt_test_place_clean(&places[i]);
  }
  return failed ? 1 : 0;
}
