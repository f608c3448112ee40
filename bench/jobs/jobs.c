/* Changes half of an index's documents by whole jobs of the program, and by others, interleaved, on one server.
 *
 *   bench_jobs URL PROGRAM [--docs N] [--words N] [--runs N] [--seed N] [--only NAME,...] [--keep]
 *   bench_jobs memory PROGRAM [WAY] [DOCUMENTS...]
 *
 * URL is one node without security. The index, and how it is filled, are those of bench_rename; PROGRAM is the
 * built `mortise`, which is run as a process of its own for each job: its start, its lock, its journal and its
 * end are in the figures. What it did is counted afterwards. The machine's raw pair (machine.h) stands beside it.
 *
 *   ubq, overlap   as of bench_rename
 *   none           a rename with journal = false
 *   server         the same by strategy = server: a job, its lock and its count around what ubq does
 *   auto           the same by whichever is likely to be faster, by the size of the documents
 *   tuned          `ids` with tune = true
 *   ids            a rename as it is by default: its journal has the ids of the documents
 *   images         a list of transforms whose journal has the documents as they were
 *   lua            the same rename by a Lua function, journaled as `images`
 *   undo           `ids`, rolled back: the time of the rollback alone
 *
 * The second form has no server: it renames each number of small documents in an embedded store, and prints how
 * much memory the job's process has had at most. */
#include "jobs.h"
#include "machine.h"

#include <curl/curl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct bench {
  ground g;
  machine *machine;
  const char *program, *only;
  int runs;
  bool keep;
} bench;

/* ---- Ways ----------------------------------------------------------------------------------- */

static bool run_ubq(bench *b, sample *s, const char *name) {
  (void)name;
  return ground_ubq(&b->g, s);
}

static bool run_overlap(bench *b, sample *s, const char *name) {
  (void)name;
  return ground_overlap(&b->g, s);
}

static bool run_job(bench *b, sample *s, const char *name) {
  return run_program(b->program, b->g.url, name, GROUND_CLONE, 0, s);
}

static const struct way {
  const char *name;
  bool (*run)(bench *b, sample *s, const char *name);
  const char *before; /* a job that is run before the time is taken, or NULL */
} ways[] = {{"ubq", run_ubq, NULL},    {"overlap", run_overlap, NULL}, {"none", run_job, NULL},
            {"server", run_job, NULL}, {"auto", run_job, NULL},        {"tuned", run_job, NULL},
            {"ids", run_job, NULL},    {"images", run_job, NULL},      {"lua", run_job, NULL},
            {"undo", run_job, "ids"}};

enum { WAYS = sizeof ways / sizeof ways[0], MACHINE_PAIRS = 20 /* before each run */ };

/* ---- Runs ----------------------------------------------------------------------------------- */

static bool is_renamed(const bench *b, const struct way *w) {
  uint64_t half = b->g.docs / 2 + b->g.docs % 2;
  return ground_count(&b->g, w->before ? "/projects/clinton/" : "/clinton/") == 0 &&
         ground_count(&b->g, w->before ? "/clinton/" : "/projects/clinton/") == half;
}

/* Jobs of the same id must not be known from the run before. */
static bool make_ready(bench *b, const struct way *w) {
  sample s = {0};
  ground_call(&b->g, "DELETE", "/mortise-bench-locks*?expand_wildcards=all", NULL, NULL);
  if (!ground_fresh(&b->g) || !run_program(b->program, b->g.url, "init", GROUND_CLONE, 0, &s))
    return false;
  return !w->before || run_program(b->program, b->g.url, w->before, GROUND_CLONE, 0, &s);
}

static sample measure(bench *b, const struct way *w) {
  sample s = {0};
  reading before;
  if (!make_ready(b, w)) return s;
  ground_read(&before);
  s.ok = w->run(b, &s, w->name);
  ground_since(&before, &s);
  s.ok = s.ok && is_renamed(b, w);
  return s;
}

static double each(const bench *b, double of_all) {
  return of_all / (double)(b->g.docs / 2);
}

static void print_line(const bench *b, const char *name, int run, const sample *s) {
  printf(
      "{\"way\":\"%s\",\"run\":%d,\"ok\":%s,\"wall_s\":%.3f,\"user_us_per_doc\":%.2f,"
      "\"system_us_per_doc\":%.2f,\"bytes_per_doc\":%.0f,\"round_trips\":%llu,\"peak_kb\":%llu}\n",
      name, run, s->ok ? "true" : "false", s->wall, each(b, s->user * 1e6),
      each(b, s->system * 1e6), each(b, (double)s->bytes), (unsigned long long)s->trips,
      (unsigned long long)s->peak);
  fflush(stdout);
}

static double ratio(const sample *s, const sample *to, int n) {
  sample ratios[SAMPLES_MAX];
  for (int i = 0; i < n; i++) ratios[i].wall = to[i].wall > 0 ? s[i].wall / to[i].wall : 0;
  return sample_median(ratios, n, offsetof(sample, wall));
}

static void print_table(const bench *b, sample all[WAYS][SAMPLES_MAX]) {
  int n = b->runs;
  fprintf(stderr, "%-8s %8s %8s %8s %10s %10s %10s %10s\n", "way", "wall s", "x ubq", "x overlap",
          "user us/d", "sys us/d", "bytes/d", "peak MB");
  for (int w = 0; w < WAYS; w++) {
    const sample *s = all[w];
    if (!is_chosen(b->only, ways[w].name)) continue;
    fprintf(stderr, "%-8s %8.2f %8.2f %8.2f %10.2f %10.2f %10.0f %10.1f\n", ways[w].name,
            sample_median(s, n, offsetof(sample, wall)), ratio(s, all[0], n), ratio(s, all[1], n),
            each(b, sample_median(s, n, offsetof(sample, user)) * 1e6),
            each(b, sample_median(s, n, offsetof(sample, system)) * 1e6),
            each(b, (double)s[0].bytes), (double)s[0].peak / 1024);
  }
}

/* The first way that was measured beside the machine's raw pair, document by document. */
static void say_machine(const bench *b, sample all[WAYS][SAMPLES_MAX]) {
  char what[64];
  int w = 0;
  while (w < WAYS - 1 && !is_chosen(b->only, ways[w].name)) w++;
  snprintf(what, sizeof what, "%s, a document", ways[w].name);
  machine_say(b->machine, what, each(b, sample_median(all[w], b->runs, offsetof(sample, wall)) * 1e6));
}

static int run_all(bench *b) {
  static sample all[WAYS][SAMPLES_MAX];
  int bad = 0;
  for (int run = 0; run < b->runs; run++)
    for (int w = 0; w < WAYS; w++) {
      if (!is_chosen(b->only, ways[w].name)) continue;
      machine_sample(b->machine, MACHINE_PAIRS);
      all[w][run] = measure(b, &ways[w]);
      print_line(b, ways[w].name, run, &all[w][run]);
      bad += !all[w][run].ok;
    }
  print_table(b, all);
  say_machine(b, all);
  return bad != 0;
}

static bool read_options(bench *b, int argc, char **argv) {
  *b = (bench){.g = {.docs = 200000, .words = 30, .seed = 7}, .runs = 5};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "0";
    unsigned long long n = strtoull(value, NULL, 10);
    i++;
    if (!strcmp(name, "--docs"))
      b->g.docs = n;
    else if (!strcmp(name, "--words"))
      b->g.words = n;
    else if (!strcmp(name, "--runs"))
      b->runs = n < SAMPLES_MAX ? (int)n : SAMPLES_MAX;
    else if (!strcmp(name, "--seed"))
      b->g.seed = n;
    else if (!strcmp(name, "--only"))
      b->only = value;
    else if (!strcmp(name, "--keep"))
      b->keep = i-- > 0;
    else if (name[0] != '-' && !b->g.url)
      b->g.url = argv[--i];
    else if (name[0] != '-' && !b->program)
      b->program = argv[--i];
    else
      return false;
  }
  return b->g.url && b->program && b->g.docs > 1 && b->runs > 0;
}

static int memory(int argc, char **argv) {
  size_t sizes[16] = {300000, 1000000, 3000000}, n = 3;
  const char *way = argc > 3 ? argv[3] : "none";
  for (int i = 4; i < argc && i - 4 < 16; i++) {
    sizes[i - 4] = strtoull(argv[i], NULL, 10);
    n = (size_t)(i - 3);
  }
  return measure_memory(argv[2], way, sizes, n);
}

int main(int argc, char **argv) {
  bench b;
  if (argc > 2 && !strcmp(argv[1], "memory")) return memory(argc, argv);
  if (!read_options(&b, argc, argv)) {
    fprintf(stderr, "usage: bench_jobs URL PROGRAM [--docs N] [--words N] [--runs N] [--seed N]\n"
                    "  [--only NAME,...] [--keep]\n"
                    "       bench_jobs memory PROGRAM [WAY] [DOCUMENTS...]\n");
    return 2;
  }
  curl_global_init(CURL_GLOBAL_ALL);
  int status = 1;
  b.machine = machine_server(b.g.url);
  if (ground_make(&b.g))
    status = run_all(&b);
  else
    fprintf(stderr, "the master index could not be made at %s\n", b.g.url);
  machine_free(b.machine);
  if (!b.keep)
    ground_call(&b.g, "DELETE", "/mortise-bench-locks*?expand_wildcards=all", NULL, NULL);
  if (b.keep)
    corpus_deinit(&b.g.renames);
  else
    ground_drop(&b.g);
  return status;
}
