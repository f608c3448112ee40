/* The ambiguity matrix: each request of the lock protocol with each fault, on each server in
 * MORTISE_TEST_URLS. The client whose request goes wrong must succeed or fail cleanly in bounded
 * time; nobody may believe in what another believes in; and nothing may stay behind.
 *
 * MORTISE_FAULT_CELLS=TEXT runs only the cells with TEXT in `request x fault`;
 * MORTISE_FAULT_JOBS=N runs so many at the same time (32). */
#include "cell.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SET "method=POST body=mortise-lock-set-1"
#define RELEASE "method=POST body=mortise-lock-release-1"
#define AT_LEAF ":" LEAF "\""
#define AT_ROOT ":/\""

static const row rows[] = {
    {.name = "verify", .scene = scene_exclusive, .match = "method=GET"},
    {.name = "open", .scene = scene_exclusive, .match = "body='\"verb\":\"open\"'", .item = ""},
    {.name = "beat",
     .scene = scene_exclusive,
     .match = "body='\"verb\":\"beat\"'",
     .item = "",
     .hold_ms = LEASE * 3 / 2},
    {.name = "create",
     .scene = scene_exclusive,
     .match = "body='{\"create\":'",
     .item = "{\"create\":"},
    {.name = "set", .scene = scene_shared, .match = SET, .item = AT_LEAF},
    {.name = "set at /", .scene = scene_shared, .match = SET, .item = AT_ROOT, .items_only = true},
    {.name = "set, upgrade",
     .scene = scene_nested,
     .match = SET " body='\"mode\":\"X\"'",
     .item = AT_LEAF},
    {.name = "set, lowering",
     .scene = scene_nested,
     .match = SET " body='\"mode\":\"S\"' nth=2",
     .item = AT_LEAF},
    {.name = "set, enqueue",
     .scene = scene_wait,
     .match = SET " body='\"enqueue\":'",
     .item = AT_LEAF},
    {.name = "release", .scene = scene_shared, .match = RELEASE, .item = AT_LEAF},
    {.name = "release at /",
     .scene = scene_shared,
     .match = RELEASE,
     .item = AT_ROOT,
     .items_only = true},
    {.name = "release, place", .scene = scene_time_out, .match = RELEASE, .item = AT_LEAF},
    {.name = "delete",
     .scene = scene_exclusive,
     .match = "body='{\"delete\":'",
     .item = "{\"delete\":"},
    {.name = "session read", .scene = scene_silent_dead, .match = "path=_mget"},
    {.name = "expire",
     .scene = scene_silent_dead,
     .match = "body='\"verb\":\"expire\"'",
     .item = ""},
    {.name = "prove", .scene = scene_closed_dead, .match = "body='\"verb\":\"prove\"'", .item = ""},
    {.name = "evict",
     .scene = scene_silent_dead,
     .match = RELEASE " body='\"}}}'",
     .item = "\"}}}"},
    {.name = "close", .scene = scene_exclusive, .match = "body='\"verb\":\"close\"'", .item = ""},
    {.name = "close, holding", .scene = scene_close_holding, .match = RELEASE, .item = AT_LEAF},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const fault faults[] = {
    {"request dropped", "drop-request", false},
    {"request cut", "cut-request", false},
    {"reset", "reset", false},
    {"answer dropped", "drop-answer", false},
    {"answer reset", "reset-answer", false},
    {"answer's head cut", "cut-answer 30", false},
    {"answer's end cut", "cut-answer -3", false},
    {"twice at once", "duplicate", false},
    {"twice, 0.9 s apart", "duplicate 900", false},
    {"2.2 s late", "hold 2200", false},
    {"slow answer", "slow 1000", false},
    {"429", "status 429", false},
    {"503", "status 503", false},
    {"500", "status 500", false},
    {"409", "status 409", false},
    {"504 but done", "late-status 504", false},
    {"item 429", "item-status * 429", true},
    {"item 503", "item-status * 503", true},
    {"item 500", "item-status * 500", true},
    {"item 409", "item-status * 409", true},
    {"item 503 but done", "item-lie * 503", true},
    {"item 409 but done", "item-lie * 409", true},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static bool possible(const row *r, const fault *f) {
  return f->item ? r->item != NULL : !r->items_only;
}

/* ---- Running -------------------------------------------------------------------------------- */

static cell cells[ROWS * FAULTS];
static size_t n_cells;
static _Atomic size_t next_cell;
static char names[ROWS * FAULTS][64];

static void *work(void *ctx) {
  size_t i;
  (void)ctx;
  while ((i = atomic_fetch_add(&next_cell, 1)) < n_cells) {
    cell_run(&cells[i]);
    bool failed = *cells[i].failure;
    if (failed) fflush(cells[i].log_file);
    char *log = failed && cells[i].log ? mt_strdup(cells[i].log) : NULL;
    cell_deinit(&cells[i]);
    cells[i].log = log;
  }
  return NULL;
}

static void make_cells(const mt_test_place *place) {
  const char *only = getenv("MORTISE_FAULT_CELLS");
  n_cells = 0;
  for (size_t i = 0; i < ROWS * FAULTS; i++) {
    const row *r = &rows[i / FAULTS];
    const fault *f = &faults[i % FAULTS];
    char *name = names[n_cells];
    if (!possible(r, f)) continue;
    snprintf(name, sizeof names[0], "%s x %s", r->name, f->name);
    if (only && !strstr(name, only)) continue;
    cells[n_cells] = (cell){.place = place, .row = r, .fault = f};
    snprintf(cells[n_cells].ns, sizeof cells[n_cells].ns, "c%zu", i);
    n_cells++;
  }
}

static void run_cells(void) {
  pthread_t threads[128];
  const char *text = getenv("MORTISE_FAULT_JOBS");
  size_t jobs = text ? strtoul(text, NULL, 10) : 32, started = 0;
  if (!jobs || jobs > 128) jobs = 32;
  atomic_store(&next_cell, 0);
  while (started < jobs && !pthread_create(&threads[started], NULL, work, NULL)) started++;
  if (!started) work(NULL);
  for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

/* ---- What came of it ------------------------------------------------------------------------ */

/* One letter: '.' as if nothing had happened; 'f' A's acquisition failed cleanly, and the next did
 * not; 'l' A lost its lock, and knew it; 'u' A was told that giving back is not acknowledged yet;
 * '!' what must hold did not. */
static char outcome(const cell *c) {
  bool due = c->row->scene == scene_time_out && c->take.code == MORTISE_LOCK_TIMEOUT;
  if (*c->failure) return '!';
  if (c->take.code && !due) return 'f';
  if (c->lost) return 'l';
  return c->give ? 'u' : '.';
}

static const cell *cell_of(const row *r, const fault *f) {
  for (size_t i = 0; i < n_cells; i++)
    if (cells[i].row == r && cells[i].fault == f) return &cells[i];
  return NULL;
}

static void print_table(void) {
  size_t counts[128] = {0};
  int64_t sweep = 0, takes = 0;
  printf("# %-18s", "");
  for (size_t i = 0; i < ROWS; i++) printf(" %c", 'A' + (int)i);
  printf("\n");
  for (size_t j = 0; j < FAULTS; j++) {
    printf("# %-18s", faults[j].name);
    for (size_t i = 0; i < ROWS; i++) {
      const cell *c = cell_of(&rows[i], &faults[j]);
      char o = c ? outcome(c) : ' ';
      printf(" %c", o);
      counts[(unsigned char)o]++;
      if (c && c->sweep_ms > sweep) sweep = c->sweep_ms;
      if (c && c->take_ms > takes) takes = c->take_ms;
    }
    printf("\n");
  }
  for (size_t i = 0; i < ROWS; i++) printf("# %c: %s\n", 'A' + (int)i, rows[i].name);
  printf(
      "# %zu cells: %zu as if nothing had happened, %zu clean failures, %zu locks lost and known "
      "to be, %zu given back later, %zu wrong\n",
      n_cells, counts['.'], counts['f'], counts['l'], counts['u'], counts['!']);
  printf("# longest acquisition %lld ms, longest taking of everything afterwards %lld ms\n",
         (long long)takes, (long long)sweep);
}

static void print_errors(void) {
  for (size_t i = 0; i < n_cells; i++)
    if (cells[i].take.code && outcome(&cells[i]) == 'f')
      printf("# %s: %s: %s\n", names[i], mortise_status_name(cells[i].take.code),
             cells[i].take.message);
}

static void test_cell(void **state) {
  cell *c = *state;
  if (!*c->failure) return;
  print_error("%s\n", c->failure);
  if (c->log) print_error("%s\n", c->log);
  fail();
}

static int init_table(const mt_test_place *place) {
  mt_test_store s;
  if (!mt_test_store_open(&s, place)) return -1;
  mt_locks_admin init = {0};
  s.store->locks->init(s.store, &init);
  mortise_status status = mt_test_pump(s.store, &init.req);
  if (status) print_error("init: %s\n", init.req.error.message);
  mt_locks_admin_deinit(&init);
  mt_test_store_close(&s);
  return status ? -1 : 0;
}

static int run_place(const mt_test_place *place) {
  static struct CMUnitTest tests[ROWS * FAULTS];
  char group[96];
  if (init_table(place)) return 1;
  make_cells(place);
  int64_t start = mt_test_ns();
  run_cells();
  printf("# %s: %zu cells in %lld s\n", place->name, n_cells,
         (long long)((mt_test_ns() - start) / 1000000000));
  print_table();
  if (getenv("MORTISE_FAULT_ERRORS")) print_errors();
  fflush(stdout);
  for (size_t i = 0; i < n_cells; i++)
    tests[i] =
        (struct CMUnitTest){.name = names[i], .test_func = test_cell, .initial_state = &cells[i]};
  snprintf(group, sizeof group, "faults on %s", place->name);
  int failed = _cmocka_run_group_tests(group, tests, n_cells, NULL, NULL);
  for (size_t i = 0; i < n_cells; i++) mt_free(cells[i].log);
  return failed;
}

int main(void) {
  mt_test_place places[MT_TEST_PLACES];
  setenv("MORTISE_TEST_NO_SQLITE", "1", 1); /* there is no network to the embedded store */
  size_t n = mt_test_places(places);
  int failed = 0;
  for (size_t i = 0; i < n; i++) {
    failed += run_place(&places[i]);
    mt_test_place_clean(&places[i]);
  }
  return failed;
}
