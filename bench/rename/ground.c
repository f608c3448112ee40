#include "bench.h"

#include "base/clock.h"
#include "base/json.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static const char clinton[] = "{\"prefix\":{\"path\":\"/clinton/\"}}";

enum { SCAN_PAGE = 1000, CONNECTIONS = 2, SLICES = 2 };

long ground_call(const ground *b, const char *method, const char *path, const char *body,
                 mt_buf *answer) {
  char url[1024];
  snprintf(url, sizeof url, "%s%s", b->url, path);
  return raw_call(method, url, mt_slice_of(body), answer);
}

uint64_t ground_count(const ground *b, const char *prefix) {
  char body[256];
  mt_buf answer;
  mt_json root;
  uint64_t n = UINT64_MAX;
  mt_buf_init(&answer, 1 << 20);
  ground_call(b, "POST", "/" GROUND_CLONE "/_refresh", "", NULL);
  snprintf(body, sizeof body, "{\"query\":{\"prefix\":{\"path\":\"%s\"}}}", prefix);
  if (ground_call(b, "POST", "/" GROUND_CLONE "/_count", body, &answer) == 200 &&
      !mt_json_parse(mt_buf_slice(&answer), "a count", &root, NULL))
    mt_json_uint(mt_json_get(root, "count"), &n);
  mt_buf_deinit(&answer);
  return n;
}

/* ---- Data ----------------------------------------------------------------------------------- */

bool ground_make(ground *b) {
  char url[512];
  corpus c;
  raw_stats stats = {0};
  ground_call(b, "DELETE", "/" GROUND_MASTER, NULL, NULL);
  long made = ground_call(b, "PUT", "/" GROUND_MASTER,
                          "{\"settings\":{\"number_of_shards\":1,\"number_of_replicas\":0,"
                          "\"refresh_interval\":\"1s\"},\"mappings\":{\"properties\":{"
                          "\"path\":{\"type\":\"keyword\"},\"name\":{\"type\":\"keyword\"},"
                          "\"size\":{\"type\":\"long\"},\"mtime\":{\"type\":\"date\"},"
                          "\"contents\":{\"type\":\"text\"}}}}",
                          NULL);
  if (made != 200 || !corpus_make(&c, b->docs, b->words, b->seed)) return false;
  snprintf(url, sizeof url, "%s/" GROUND_MASTER "/_bulk", b->url);
  raw_post(url, c.requests, c.n, CONNECTIONS, &stats);
  fprintf(stderr, "%zu documents, %.0f bytes each\n", b->docs,
          (double)stats.sent / (double)b->docs);
  corpus_deinit(&c);
  ground_call(b, "POST", "/" GROUND_MASTER "/_forcemerge?max_num_segments=1", "", NULL);
  ground_call(b, "POST", "/" GROUND_MASTER "/_refresh", "", NULL);
  ground_call(b, "PUT", "/" GROUND_MASTER "/_settings", "{\"index.blocks.write\":true}", NULL);
  return !stats.failures && corpus_renames(&b->renames, b->url, GROUND_MASTER);
}

bool ground_fresh(ground *b) {
  ground_call(b, "DELETE", "/" GROUND_CLONE, NULL, NULL);
  long made = ground_call(b, "PUT", "/" GROUND_MASTER "/_clone/" GROUND_CLONE,
                          "{\"settings\":{\"index.blocks.write\":null}}", NULL);
  if (made != 200) return false;
  ground_call(b, "GET", "/_cluster/health/" GROUND_CLONE "?wait_for_status=yellow&timeout=60s",
              NULL, NULL);
  bool whole = ground_count(b, "/clinton/") == b->docs / 2 + b->docs % 2;
  sleep(1);
  return whole;
}

/* ---- What others do --------------------------------------------------------------------------- */

bool ground_ubq(ground *b, sample *s) {
  mt_buf answer;
  mt_json root;
  mt_buf_init(&answer, 1 << 20);
  char body[512];
  snprintf(body, sizeof body,
           "{\"query\":%s,\"script\":{\"source\":\"ctx._source.path = params.to + "
           "ctx._source.path.substring(params.n)\",\"params\":{\"to\":\"/projects/clinton\","
           "\"n\":8}}}",
           clinton);
  long status = ground_call(
      b, "POST", "/" GROUND_CLONE "/_update_by_query?slices=2&scroll_size=5000", body, &answer);
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

bool ground_scan(ground *b, sample *s) {
  raw_stats raw = {0};
  raw_scan(b->url, GROUND_CLONE, clinton, SCAN_PAGE, SLICES, &raw);
  keep(s, &raw, raw.hits);
  return s->ok;
}

static void post_renames(ground *b, raw_stats *raw) {
  char url[512];
  snprintf(url, sizeof url, "%s/" GROUND_CLONE "/_bulk", b->url);
  raw_post(url, b->renames.requests, b->renames.n, CONNECTIONS, raw);
}

bool ground_index(ground *b, sample *s) {
  raw_stats raw = {0};
  post_renames(b, &raw);
  keep(s, &raw, b->docs / 2);
  return s->ok;
}

static void *scan_beside(void *ctx) {
  sample s = {0};
  ground_scan(ctx, &s);
  return NULL;
}

bool ground_overlap(ground *b, sample *s) {
  pthread_t scan;
  if (pthread_create(&scan, NULL, scan_beside, b)) return false;
  bool ok = ground_index(b, s);
  pthread_join(scan, NULL);
  return ok;
}

/* ---- Figures --------------------------------------------------------------------------------- */

static double seconds(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

void ground_read(reading *r) {
  struct rusage own, children;
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  r->wall = (double)mt_clock_boot_us() / 1e6;
  r->user = seconds(own.ru_utime) + seconds(children.ru_utime);
  r->system = seconds(own.ru_stime) + seconds(children.ru_stime);
}

void ground_since(const reading *r, sample *s) {
  reading now;
  ground_read(&now);
  s->wall = now.wall - r->wall;
  s->user = now.user - r->user;
  s->system = now.system - r->system;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double sample_median(const sample *s, int n, size_t member) {
  double values[SAMPLES_MAX];
  for (int i = 0; i < n; i++) memcpy(&values[i], (const char *)&s[i] + member, sizeof values[i]);
  qsort(values, (size_t)n, sizeof *values, by_value);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

bool is_chosen(const char *only, const char *name) {
  size_t n = strlen(name);
  for (const char *p = only; p; p = strchr(p, ','), p += p != NULL)
    if (!strncmp(p, name, n) && (p[n] == ',' || !p[n])) return true;
  return !only;
}

void ground_drop(ground *b) {
  ground_call(b, "DELETE", "/" GROUND_CLONE, NULL, NULL);
  ground_call(b, "DELETE", "/" GROUND_MASTER, NULL, NULL);
  corpus_deinit(&b->renames);
}
