/* Renames half of an index's documents in several ways, interleaved, on one server.
 *
 *   bench_rename URL [--docs N] [--words N] [--runs N] [--seed N] [--only NAME,...] [--page N]
 *                    [--slices N] [--in-flight N] [--keep]
 *
 * URL is one node without security, "http://127.0.0.1:9200". Indices named mortise-bench-* are made
 * and, without --keep, removed. The master (200,000 documents of about 350 bytes; --words 600 makes
 * them 5 kB) is filled once and merged into one segment; each run works on a fresh clone of it, and
 * what it did is counted afterwards. A JSON line a run goes to standard output, then a table of
 * medians to standard error, and the machine's raw pair (machine.h).
 *
 *   mortise   the change pipeline of core/job, with its refreshes and its count at the end, no lock
 *   ubq       _update_by_query, slices=2, scroll_size=5000, by script
 *   scan      floor: whole sources scrolled in two slices, nothing read
 *   index     floor: prepared bodies with if_seq_no, 1,000 documents a request, 2 connections
 *   overlap   floor: both at the same time
 */
#include "bench.h"
#include "machine.h"

#include "base/pump.h"
#include "elastic/elastic.h"
#include "job/rename.h"

#include <curl/curl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct options {
  const char *only;
  int runs;
  uint32_t page, slices, in_flight;
  bool keep;
} options;

typedef struct bench {
  options o;
  ground g;
  machine *machine;
} bench;

/* ---- Ways ----------------------------------------------------------------------------------- */

static bool run_mortise(bench *b, sample *s) {
  mortise_error err = {0};
  mt_rename r = {0};
  mt_http_config config = {.nodes = b->g.url,
                           .connect_ms = 5000,
                           .request_ms = 120000,
                           .answer_max = 64 << 20,
                           .gzip_min = 64 << 10};
  mt_loop *loop = mt_loop_new(&err);
  mt_store *store = loop ? mt_elastic_open(loop, &config, NULL, NULL, &err) : NULL;
  mortise_status status = store ? mt_rename_init(&r, MT_SLICE("path"), MT_SLICE("/clinton"),
                                                 MT_SLICE("/projects/clinton"), &err)
                                : err.code;
  r.change.store = store;
  r.change.env = mt_env_system();
  r.change.index = GROUND_CLONE;
  r.change.options.page = b->o.page;
  r.change.options.slices = b->o.slices;
  r.change.options.in_flight = b->o.in_flight;
  if (!status) status = mt_change_start(&r.change, &err);
  if (!status) status = mt_loop_pump(loop, &r.change.finished, -1, &err);
  if (!status) err = r.change.error;
  if (err.code) fprintf(stderr, "mortise: %s\n", err.message);
  s->docs = r.change.result.changed;
  s->trips = r.change.result.round_trips;
  s->bytes = r.change.result.bytes;
  mt_rename_deinit(&r);
  mt_store_close(store);
  mt_loop_free(loop);
  return !err.code;
}

static bool run_ubq(bench *b, sample *s) {
  return ground_ubq(&b->g, s);
}

static bool run_scan(bench *b, sample *s) {
  return ground_scan(&b->g, s);
}

static bool run_index(bench *b, sample *s) {
  return ground_index(&b->g, s);
}

static bool run_overlap(bench *b, sample *s) {
  return ground_overlap(&b->g, s);
}

static const struct way {
  const char *name;
  bool (*run)(bench *b, sample *s);
  bool renames;
} ways[] = {{"mortise", run_mortise, true},
            {"ubq", run_ubq, true},
            {"scan", run_scan, false},
            {"index", run_index, true},
            {"overlap", run_overlap, true}};

enum { WAYS = sizeof ways / sizeof ways[0], MACHINE_PAIRS = 20 /* before each run */ };

/* ---- Runs ----------------------------------------------------------------------------------- */

static sample measure(bench *b, const struct way *w) {
  sample s = {0};
  reading before;
  if (!ground_fresh(&b->g)) return s;
  ground_read(&before);
  bool ok = w->run(b, &s);
  ground_since(&before, &s);
  uint64_t half = b->g.docs / 2 + b->g.docs % 2;
  s.ok = ok && s.docs == half;
  if (w->renames)
    s.ok = s.ok && ground_count(&b->g, "/clinton/") == 0 &&
           ground_count(&b->g, "/projects/clinton/") == half;
  return s;
}

static void print_line(const char *name, int run, const sample *s) {
  printf("{\"way\":\"%s\",\"run\":%d,\"ok\":%s,\"wall_s\":%.3f,\"user_s\":%.3f,\"system_s\":%.3f,"
         "\"docs\":%llu,\"us_per_doc\":%.2f,\"round_trips\":%llu,\"bytes\":%llu}\n",
         name, run, s->ok ? "true" : "false", s->wall, s->user, s->system,
         (unsigned long long)s->docs, s->docs ? s->wall * 1e6 / (double)s->docs : 0,
         (unsigned long long)s->trips, (unsigned long long)s->bytes);
  fflush(stdout);
}

static void print_table(const bench *b, sample all[WAYS][SAMPLES_MAX]) {
  double overlap = 0;
  int n = b->o.runs;
  if (is_chosen(b->o.only, "overlap")) overlap = sample_median(all[4], n, offsetof(sample, wall));
  fprintf(stderr, "%-8s %8s %8s %8s %10s %10s %8s\n", "way", "wall s", "user s", "sys s", "us/doc",
          "x overlap", "trips");
  for (int w = 0; w < WAYS; w++) {
    if (!is_chosen(b->o.only, ways[w].name)) continue;
    double wall = sample_median(all[w], n, offsetof(sample, wall));
    fprintf(stderr, "%-8s %8.2f %8.3f %8.3f %10.2f %10.2f %8llu\n", ways[w].name, wall,
            sample_median(all[w], n, offsetof(sample, user)),
            sample_median(all[w], n, offsetof(sample, system)),
            wall * 1e6 / ((double)b->g.docs / 2), overlap > 0 ? wall / overlap : 0,
            (unsigned long long)all[w][0].trips);
  }
}

/* The first way that was measured beside the machine's raw pair, document by document. */
static void say_machine(const bench *b, sample all[WAYS][SAMPLES_MAX]) {
  char what[64];
  int w = 0;
  while (w < WAYS - 1 && !is_chosen(b->o.only, ways[w].name)) w++;
  snprintf(what, sizeof what, "%s, a document", ways[w].name);
  machine_say(b->machine, what,
              sample_median(all[w], b->o.runs, offsetof(sample, wall)) * 1e6 / ((double)b->g.docs / 2));
}

static int run_all(bench *b) {
  static sample all[WAYS][SAMPLES_MAX];
  int bad = 0;
  for (int run = 0; run < b->o.runs; run++)
    for (int w = 0; w < WAYS; w++) {
      if (!is_chosen(b->o.only, ways[w].name)) continue;
      machine_sample(b->machine, MACHINE_PAIRS);
      all[w][run] = measure(b, &ways[w]);
      print_line(ways[w].name, run, &all[w][run]);
      bad += !all[w][run].ok;
    }
  print_table(b, all);
  say_machine(b, all);
  return bad != 0;
}

static bool read_options(bench *b, int argc, char **argv) {
  options *o = &b->o;
  ground *g = &b->g;
  *o = (options){.runs = 5};
  *g = (ground){.docs = 200000, .words = 30, .seed = 7};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "0";
    unsigned long long n = strtoull(value, NULL, 10);
    i++;
    if (!strcmp(name, "--docs"))
      g->docs = n;
    else if (!strcmp(name, "--words"))
      g->words = n;
    else if (!strcmp(name, "--runs"))
      o->runs = n < SAMPLES_MAX ? (int)n : SAMPLES_MAX;
    else if (!strcmp(name, "--seed"))
      g->seed = n;
    else if (!strcmp(name, "--page"))
      o->page = (uint32_t)n;
    else if (!strcmp(name, "--slices"))
      o->slices = (uint32_t)n;
    else if (!strcmp(name, "--in-flight"))
      o->in_flight = (uint32_t)n;
    else if (!strcmp(name, "--only"))
      o->only = value;
    else if (!strcmp(name, "--keep"))
      o->keep = i-- > 0;
    else if (name[0] != '-' && !g->url)
      g->url = argv[--i];
    else
      return false;
  }
  return g->url && g->docs && o->runs > 0;
}

int main(int argc, char **argv) {
  bench b = {0};
  if (!read_options(&b, argc, argv)) {
    fprintf(stderr, "usage: bench_rename URL [--docs N] [--words N] [--runs N] [--seed N]\n"
                    "  [--only NAME,...] [--page N] [--slices N] [--in-flight N] [--keep]\n");
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
  if (b.o.keep)
    corpus_deinit(&b.g.renames);
  else
    ground_drop(&b.g);
  return status;
}
