/* Renames half of an index's documents in several ways, interleaved, on one server.
 *
 *   bench_rename URL [--docs N] [--words N] [--runs N] [--seed N] [--only NAME,...] [--page N]
 *                    [--slices N] [--in-flight N] [--keep]
 *
 * URL is one node without security, "http://127.0.0.1:9200". Indices named mortise-bench-* are made
 * and, without --keep, removed. The master (200,000 documents of about 350 bytes; --words 600 makes
 * them 5 kB) is filled once and merged into one segment; each run works on a fresh clone of it, and
 * what it did is counted afterwards. A JSON line a run goes to standard output, then a table of
 * medians to standard error.
 *
 *   mortise   the change pipeline of core/job, with its refreshes and its count at the end, no lock
 *   ubq       _update_by_query, slices=2, scroll_size=5000, by script
 *   scan      floor: whole sources scrolled in two slices, nothing read
 *   index     floor: prepared bodies with if_seq_no, 1,000 documents a request, 2 connections
 *   overlap   floor: both at the same time
 */
#include "bench.h"

#include "base/clock.h"
#include "base/pump.h"
#include "elastic/elastic.h"
#include "job/rename.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define MASTER "mortise-bench-master"
#define CLONE "mortise-bench-fs"

static const char clinton[] = "{\"prefix\":{\"path\":\"/clinton/\"}}";

enum { RUNS_MAX = 100, SCAN_PAGE = 1000, CONNECTIONS = 2, SLICES = 2 };

typedef struct options {
  const char *url, *only;
  size_t docs, words;
  int runs;
  uint64_t seed;
  uint32_t page, slices, in_flight;
  bool keep;
} options;

typedef struct sample {
  double wall, user, system;
  uint64_t docs, trips, bytes;
  bool ok;
} sample;

typedef struct bench {
  options o;
  corpus renames;
} bench;

static long call(const bench *b, const char *method, const char *path, const char *body,
                 mt_buf *answer) {
  char url[1024];
  snprintf(url, sizeof url, "%s%s", b->o.url, path);
  return raw_call(method, url, mt_slice_of(body), answer);
}

static uint64_t count(const bench *b, const char *prefix) {
  char body[256];
  mt_buf answer;
  mt_json root;
  uint64_t n = UINT64_MAX;
  mt_buf_init(&answer, 1 << 20);
  call(b, "POST", "/" CLONE "/_refresh", "", NULL);
  snprintf(body, sizeof body, "{\"query\":{\"prefix\":{\"path\":\"%s\"}}}", prefix);
  if (call(b, "POST", "/" CLONE "/_count", body, &answer) == 200 &&
      !mt_json_parse(mt_buf_slice(&answer), "a count", &root, NULL))
    mt_json_uint(mt_json_get(root, "count"), &n);
  mt_buf_deinit(&answer);
  return n;
}

/* ---- Data ----------------------------------------------------------------------------------- */

static bool make_master(bench *b) {
  char url[512];
  corpus c;
  raw_stats stats = {0};
  call(b, "DELETE", "/" MASTER, NULL, NULL);
  long made = call(b, "PUT", "/" MASTER,
                   "{\"settings\":{\"number_of_shards\":1,\"number_of_replicas\":0,"
                   "\"refresh_interval\":\"1s\"},\"mappings\":{\"properties\":{"
                   "\"path\":{\"type\":\"keyword\"},\"name\":{\"type\":\"keyword\"},"
                   "\"size\":{\"type\":\"long\"},\"mtime\":{\"type\":\"date\"},"
                   "\"contents\":{\"type\":\"text\"}}}}",
                   NULL);
  if (made != 200 || !corpus_make(&c, b->o.docs, b->o.words, b->o.seed)) return false;
  snprintf(url, sizeof url, "%s/" MASTER "/_bulk", b->o.url);
  raw_post(url, c.requests, c.n, CONNECTIONS, &stats);
  fprintf(stderr, "%zu documents, %.0f bytes each\n", b->o.docs,
          (double)stats.sent / (double)b->o.docs);
  corpus_deinit(&c);
  call(b, "POST", "/" MASTER "/_forcemerge?max_num_segments=1", "", NULL);
  call(b, "POST", "/" MASTER "/_refresh", "", NULL);
  call(b, "PUT", "/" MASTER "/_settings", "{\"index.blocks.write\":true}", NULL);
  return !stats.failures && corpus_renames(&b->renames, b->o.url, MASTER);
}

static bool fresh_clone(bench *b) {
  call(b, "DELETE", "/" CLONE, NULL, NULL);
  long made = call(b, "PUT", "/" MASTER "/_clone/" CLONE,
                   "{\"settings\":{\"index.blocks.write\":null}}", NULL);
  if (made != 200) return false;
  call(b, "GET", "/_cluster/health/" CLONE "?wait_for_status=yellow&timeout=60s", NULL, NULL);
  bool whole = count(b, "/clinton/") == b->o.docs / 2 + b->o.docs % 2;
  sleep(1);
  return whole;
}

/* ---- Ways ----------------------------------------------------------------------------------- */

static bool run_mortise(bench *b, sample *s) {
  mortise_error err = {0};
  mt_rename r = {0};
  mt_http_config config = {.nodes = b->o.url,
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
  r.change.index = CLONE;
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
  mt_buf answer;
  mt_json root;
  mt_buf_init(&answer, 1 << 20);
  char body[512];
  snprintf(body, sizeof body,
           "{\"query\":%s,\"script\":{\"source\":\"ctx._source.path = params.to + "
           "ctx._source.path.substring(params.n)\",\"params\":{\"to\":\"/projects/clinton\","
           "\"n\":8}}}",
           clinton);
  long status =
      call(b, "POST", "/" CLONE "/_update_by_query?slices=2&scroll_size=5000", body, &answer);
  if (status == 200 && !mt_json_parse(mt_buf_slice(&answer), "an answer", &root, NULL))
    mt_json_uint(mt_json_get(root, "updated"), &s->docs);
  s->trips = 1;
  mt_buf_deinit(&answer);
  return status == 200;
}

static void keep(sample *s, const raw_stats *raw, uint64_t docs) {
  s->docs = docs;
  s->trips = raw->requests;
  s->bytes = raw->sent + raw->received;
  s->ok = !raw->failures;
}

static bool run_scan(bench *b, sample *s) {
  raw_stats raw = {0};
  raw_scan(b->o.url, CLONE, clinton, SCAN_PAGE, SLICES, &raw);
  keep(s, &raw, raw.hits);
  return s->ok;
}

static void post_renames(bench *b, raw_stats *raw) {
  char url[512];
  snprintf(url, sizeof url, "%s/" CLONE "/_bulk", b->o.url);
  raw_post(url, b->renames.requests, b->renames.n, CONNECTIONS, raw);
}

static bool run_index(bench *b, sample *s) {
  raw_stats raw = {0};
  post_renames(b, &raw);
  keep(s, &raw, b->o.docs / 2);
  return s->ok;
}

static void *scan_beside(void *ctx) {
  sample s = {0};
  run_scan(ctx, &s);
  return NULL;
}

static bool run_overlap(bench *b, sample *s) {
  pthread_t scan;
  if (pthread_create(&scan, NULL, scan_beside, b)) return false;
  bool ok = run_index(b, s);
  pthread_join(scan, NULL);
  return ok;
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

enum { WAYS = sizeof ways / sizeof ways[0] };

/* ---- Runs ----------------------------------------------------------------------------------- */

static double seconds(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static sample measure(bench *b, const struct way *w) {
  sample s = {0};
  struct rusage before, after;
  if (!fresh_clone(b)) return s;
  getrusage(RUSAGE_SELF, &before);
  int64_t start = mt_clock_boot_us();
  bool ok = w->run(b, &s);
  s.wall = (double)(mt_clock_boot_us() - start) / 1e6;
  getrusage(RUSAGE_SELF, &after);
  s.user = seconds(after.ru_utime) - seconds(before.ru_utime);
  s.system = seconds(after.ru_stime) - seconds(before.ru_stime);
  uint64_t half = b->o.docs / 2 + b->o.docs % 2;
  s.ok = ok && s.docs == half;
  if (w->renames)
    s.ok = s.ok && count(b, "/clinton/") == 0 && count(b, "/projects/clinton/") == half;
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

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const sample *s, int n, size_t member) {
  double values[RUNS_MAX];
  for (int i = 0; i < n; i++) memcpy(&values[i], (const char *)&s[i] + member, sizeof values[i]);
  qsort(values, (size_t)n, sizeof *values, by_value);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static bool chosen(const options *o, const char *name) {
  size_t n = strlen(name);
  for (const char *p = o->only; p; p = strchr(p, ','), p += p != NULL)
    if (!strncmp(p, name, n) && (p[n] == ',' || !p[n])) return true;
  return !o->only;
}

static void print_table(const bench *b, sample all[WAYS][RUNS_MAX]) {
  double overlap = 0;
  int n = b->o.runs;
  if (chosen(&b->o, "overlap")) overlap = median(all[4], n, offsetof(sample, wall));
  fprintf(stderr, "%-8s %8s %8s %8s %10s %10s %8s\n", "way", "wall s", "user s", "sys s", "us/doc",
          "x overlap", "trips");
  for (int w = 0; w < WAYS; w++) {
    if (!chosen(&b->o, ways[w].name)) continue;
    double wall = median(all[w], n, offsetof(sample, wall));
    fprintf(stderr, "%-8s %8.2f %8.3f %8.3f %10.2f %10.2f %8llu\n", ways[w].name, wall,
            median(all[w], n, offsetof(sample, user)), median(all[w], n, offsetof(sample, system)),
            wall * 1e6 / ((double)b->o.docs / 2), overlap > 0 ? wall / overlap : 0,
            (unsigned long long)all[w][0].trips);
  }
}

static int run_all(bench *b) {
  static sample all[WAYS][RUNS_MAX];
  int bad = 0;
  for (int run = 0; run < b->o.runs; run++)
    for (int w = 0; w < WAYS; w++) {
      if (!chosen(&b->o, ways[w].name)) continue;
      all[w][run] = measure(b, &ways[w]);
      print_line(ways[w].name, run, &all[w][run]);
      bad += !all[w][run].ok;
    }
  print_table(b, all);
  return bad != 0;
}

static bool read_options(options *o, int argc, char **argv) {
  *o = (options){.docs = 200000, .words = 30, .runs = 5, .seed = 7};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "0";
    unsigned long long n = strtoull(value, NULL, 10);
    i++;
    if (!strcmp(name, "--docs"))
      o->docs = n;
    else if (!strcmp(name, "--words"))
      o->words = n;
    else if (!strcmp(name, "--runs"))
      o->runs = n < RUNS_MAX ? (int)n : RUNS_MAX;
    else if (!strcmp(name, "--seed"))
      o->seed = n;
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
    else if (name[0] != '-' && !o->url)
      o->url = argv[--i];
    else
      return false;
  }
  return o->url && o->docs && o->runs > 0;
}

int main(int argc, char **argv) {
  bench b = {0};
  if (!read_options(&b.o, argc, argv)) {
    fprintf(stderr, "usage: bench_rename URL [--docs N] [--words N] [--runs N] [--seed N]\n"
                    "  [--only NAME,...] [--page N] [--slices N] [--in-flight N] [--keep]\n");
    return 2;
  }
  curl_global_init(CURL_GLOBAL_ALL);
  int status = 1;
  if (make_master(&b))
    status = run_all(&b);
  else
    fprintf(stderr, "the master index could not be made at %s\n", b.o.url);
  if (!b.o.keep) {
    call(&b, "DELETE", "/" CLONE, NULL, NULL);
    call(&b, "DELETE", "/" MASTER, NULL, NULL);
  }
  corpus_deinit(&b.renames);
  return status;
}
