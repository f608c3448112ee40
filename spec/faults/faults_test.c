/* The ambiguity matrix: each request of the lock protocol with each fault, on each server in
 * MORTISE_TEST_URLS. The client whose request goes wrong must succeed or fail cleanly in bounded
 * time; no two clients may believe in conflicting locks; and nothing may be left behind.
 *
 * MORTISE_FAULT_CELLS=TEXT runs only the cells with TEXT in `request x fault`; MORTISE_FAULT_JOBS=N
 * runs N at the same time (default 32); MORTISE_FAULT_ROUNDS=1 repeats none. */
#include "cell.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define SET "method=POST body=mortise-lock-set-1"
#define RELEASE "method=POST body=mortise-lock-release-1"
#define AT_LEAF ":" LEAF "\""
#define AT_ROOT ":/\""

static const row rows[] = {
    {.name = "verify", .scene = scene_exclusive, .match = "method=GET"},
    {.name = "verify, table", .scene = scene_exclusive, .match = "method=GET nth=2"},
    {.name = "open", .scene = scene_exclusive, .match = "body='\"verb\":\"open\"'", .item = ""},
    {.name = "beat",
     .scene = scene_exclusive,
     .match = "body='\"verb\":\"beat\"'",
     .item = "",
     .hold_ms = LEASE * 3 / 2},
    {.name = "every beat",
     .scene = scene_exclusive,
     .match = "body='\"verb\":\"beat\"' times=0",
     .item = "",
     .hold_ms = 2 * LEASE},
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
    {.name = "adopt",
     .scene = scene_adopt,
     .match = "body=mortise-lock-adopt-1 body='" AT_LEAF "'",
     .item = AT_LEAF},
    {.name = "adopt at /",
     .scene = scene_adopt,
     .match = "body=mortise-lock-adopt-1",
     .item = AT_ROOT},
    {.name = "lock read", .scene = scene_adopt, .match = "path=_mget body='" AT_LEAF "'"},
    {.name = "break", .scene = scene_break, .match = "body='\"verb\":\"break\"'", .item = ""},
    {.name = "break, expire",
     .scene = scene_break,
     .match = "body='\"verb\":\"expire\"'",
     .item = ""},
    {.name = "break, list", .scene = scene_break, .match = "path=_search?"},
    {.name = "break, end of list", .scene = scene_break, .match = "path=_search/scroll"},
    {.name = "break, evict",
     .scene = scene_break,
     .match = RELEASE " body='\"guard\":true'",
     .item = "\"guard\":true"},
    {.name = "close",
     .scene = scene_exclusive,
     .match = "body='\"verb\":\"close\"'",
     .item = "",
     .at_close = true},
    {.name = "close, holding",
     .scene = scene_close_holding,
     .match = RELEASE,
     .item = AT_LEAF,
     .at_close = true},
    {.name = "create, beside",
     .scene = scene_beside,
     .match = "body='{\"create\":' body='" AT_LEAF "'",
     .item = AT_LEAF},
    {.name = "release, beside",
     .scene = scene_beside_shared,
     .match = RELEASE " body='" AT_LEAF "'",
     .item = AT_LEAF,
     .gives = true},
    {.name = "delete, beside",
     .scene = scene_beside,
     .match = "body='{\"delete\":' body='" AT_LEAF "'",
     .item = AT_LEAF,
     .gives = true},
    {.name = "create, again",
     .scene = scene_again,
     .match = "body='{\"create\":'",
     .item = AT_LEAF},
    {.name = "set, again",
     .scene = scene_again_shared,
     .match = SET,
     .item = AT_LEAF,
     .rival_shared = true},
    {.name = "release, again", .scene = scene_again_shared, .match = RELEASE, .item = AT_LEAF},
    {.name = "delete, again",
     .scene = scene_again,
     .match = "body='{\"delete\":'",
     .item = AT_LEAF},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const fault faults[] = {
    {.name = "request dropped", .action = "drop-request"},
    {.name = "request cut", .action = "cut-request"},
    {.name = "reset", .action = "reset"},
    {.name = "answer dropped", .action = "drop-answer"},
    {.name = "answer reset", .action = "reset-answer"},
    {.name = "answer's head cut", .action = "cut-answer 30"},
    {.name = "answer's end cut", .action = "cut-answer -3"},
    {.name = "twice at once", .action = "duplicate"},
    {.name = "twice, 0.9 s apart", .action = "duplicate 900", .ghosts = true},
    {.name = "2.2 s late", .action = "hold 2200"},
    {.name = "slow answer", .action = "slow 1000"},
    {.name = "answer twice", .action = "repeat-answer"},
    {.name = "answer twice, no id", .action = "repeat-answer", .anonymous = true},
    {.name = "old answer", .action = "old-answer"},
    {.name = "old answer, no id", .action = "old-answer", .anonymous = true},
    {.name = "429", .action = "status 429"},
    {.name = "503", .action = "status 503"},
    {.name = "500", .action = "status 500"},
    {.name = "409", .action = "status 409"},
    {.name = "504 but done", .action = "late-status 504"},
    {.name = "item 400", .action = "item-status * 400", .item = true, .refused = true},
    {.name = "item 403", .action = "item-status * 403", .item = true, .refused = true},
    {.name = "item 429", .action = "item-status * 429", .item = true},
    {.name = "item 503", .action = "item-status * 503", .item = true},
    {.name = "item 500", .action = "item-status * 500", .item = true},
    {.name = "item 409", .action = "item-status * 409", .item = true},
    {.name = "item 503 but done", .action = "item-lie * 503", .item = true},
    {.name = "item 409 but done", .action = "item-lie * 409", .item = true},
};
enum {
  FAULTS = sizeof faults / sizeof *faults,
  STORMS = 16,
  CELLS = ROWS * FAULTS + STORMS,
  JOBS_MAX = 128,
  ROUNDS = 5
};

static bool possible(const row *r, const fault *f) {
  if (f->refused && r->gives) return false;
  return f->item ? r->item != NULL : !r->items_only;
}

/* ---- Running -------------------------------------------------------------------------------- */

static cell cells[CELLS];
static size_t n_cells;
static _Atomic size_t next_cell;
static char names[CELLS][64];

static void *work(void *ctx) {
  size_t i;
  (void)ctx;
  while ((i = atomic_fetch_add(&next_cell, 1)) < n_cells) {
    if (!cells[i].again) continue;
    if (cells[i].row)
      cell_run(&cells[i]);
    else
      storm_run(&cells[i]);
    bool failed = *cells[i].failure;
    if (failed) fflush(cells[i].log_file);
    char *log = failed && cells[i].log ? mt_strdup(cells[i].log) : NULL;
    cell_deinit(&cells[i]);
    cells[i].log = log;
  }
  return NULL;
}

static void make_storms(const mt_test_place *place, const char *only) {
  for (int i = 0; i < STORMS; i++) {
    char *name = names[n_cells];
    snprintf(name, sizeof names[0], "storm %d", i);
    if (only && !strstr(name, only)) continue;
    cells[n_cells] = (cell){.place = place, .random = mt_test_random_for(name), .again = true};
    snprintf(cells[n_cells].ns, sizeof cells[n_cells].ns, "s%d", i);
    n_cells++;
  }
}

static void make_cells(const mt_test_place *place) {
  const char *only = getenv("MORTISE_FAULT_CELLS");
  n_cells = 0;
  make_storms(place, only); /* the longest first */
  for (size_t i = 0; i < ROWS * FAULTS; i++) {
    const row *r = &rows[i / FAULTS];
    const fault *f = &faults[i % FAULTS];
    char *name = names[n_cells];
    if (!possible(r, f)) continue;
    snprintf(name, sizeof names[0], "%s x %s", r->name, f->name);
    if (only && !strstr(name, only)) continue;
    cells[n_cells] = (cell){.place = place, .row = r, .fault = f, .again = true};
    snprintf(cells[n_cells].ns, sizeof cells[n_cells].ns, "c%zu", i);
    n_cells++;
  }
}

static void run_cells(size_t jobs) {
  pthread_t threads[JOBS_MAX];
  size_t started = 0;
  atomic_store(&next_cell, 0);
  while (started < jobs && !pthread_create(&threads[started], NULL, work, NULL)) started++;
  if (!started) work(NULL);
  for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

static size_t wanted(const char *name, size_t fallback, size_t most) {
  const char *text = getenv(name);
  size_t n = text ? strtoul(text, NULL, 10) : fallback;
  return n && n <= most ? n : fallback;
}

/* A machine that stalls for a second costs a lease of 1.5 s, and then locks are late or lost
 * without need. Cells that failed in this way are run again, fewer at a time; an unsafe result
 * stays a failure. */
static size_t make_again(const mt_test_place *place, int round) {
  size_t n = 0;
  for (size_t i = 0; i < n_cells; i++) {
    cell *c = &cells[i];
    c->again = *c->failure && !c->unsafe;
    if (!c->again) continue;
    printf("# run again: %s: %.160s\n", names[i], c->failure);
    mt_free(c->log);
    *c = (cell){.place = place,
                .row = c->row,
                .fault = c->fault,
                .random = mt_test_random_for(names[i]),
                .again = true};
    snprintf(c->ns, sizeof c->ns, "c%zu-%d", i, round);
    n++;
  }
  return n;
}

static void run_all(const mt_test_place *place) {
  size_t jobs = wanted("MORTISE_FAULT_JOBS", 32, JOBS_MAX);
  int rounds = (int)wanted("MORTISE_FAULT_ROUNDS", ROUNDS, ROUNDS);
  run_cells(jobs);
  for (int round = 1; round < rounds && make_again(place, round); round++) {
    jobs = jobs / 3 + 1;
    run_cells(jobs);
  }
}

/* ---- What came of it ------------------------------------------------------------------------ */

/* One letter: '.' no effect; 'f' A's acquisition failed cleanly, and the next succeeded; 'l' A lost
 * its lock, and knew it; 'u' A was told that the release is not acknowledged yet; '!' a check
 * failed. */
static char outcome(const cell *c) {
  if (!c->row) return ' ';
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

static int letter(size_t i) {
  return i < 26 ? 'A' + (int)i : 'a' + (int)i - 26;
}

static void print_storms(void) {
  unsigned n = 0, took = 0, failed = 0, struck = 0, wrong = 0;
  for (size_t i = 0; i < n_cells; i++) {
    if (cells[i].row) continue;
    n++;
    took += cells[i].storm_took;
    failed += cells[i].storm_failed;
    struck += cells[i].storm_faults;
    wrong += *cells[i].failure != '\0';
  }
  printf("# %u storms: %u faults, %u locks taken, %u clean failures, %u storms wrong\n", n, struck,
         took, failed, wrong);
}

static void print_table(void) {
  size_t counts[128] = {0};
  int64_t sweep = 0, takes = 0;
  printf("# %-19s", "");
  for (size_t i = 0; i < ROWS; i++) printf(" %c", letter(i));
  printf("\n");
  for (size_t j = 0; j < FAULTS; j++) {
    printf("# %-19s", faults[j].name);
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
  for (size_t i = 0; i < ROWS; i++) printf("# %c: %s\n", letter(i), rows[i].name);
  size_t n = 0;
  for (size_t i = 0; i < n_cells; i++) n += cells[i].row != NULL;
  printf(
      "# %zu cells: %zu as if nothing had happened, %zu clean failures, %zu locks lost and known "
      "to be, %zu given back later, %zu wrong\n",
      n, counts['.'], counts['f'], counts['l'], counts['u'], counts['!']);
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
  if (c->log) fputs(c->log, stdout); /* longer than cmocka prints */
  fail();
}

static int run_place(const mt_test_place *place) {
  static struct CMUnitTest tests[CELLS];
  char group[96];
  if (mt_test_init_table(place)) return 1;
  make_cells(place);
  int64_t start = mt_test_ns();
  run_all(place);
  printf("# %s: %zu cells in %lld s\n", place->name, n_cells,
         (long long)((mt_test_ns() - start) / 1000000000));
  print_table();
  print_storms();
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

/* Each cell has up to forty descriptors. */
static void raise_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return;
  rlim_t most = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
  if (limit.rlim_cur >= most) return;
  limit.rlim_cur = most;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void) {
  raise_limit();
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
