#include "machine.h"

#include <curl/curl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS_MOST = 10000, NAME_MOST = 4096 };

struct machine {
  const char *what;
  void (*pair)(machine *m);
  char name[NAME_MOST]; /* of the index, with its server; of the file */
  CURL *curl;           /* NULL: a file */
  unsigned n;
  double us[PAIRS_MOST];
};

static _Noreturn void machine_fail(const machine *m, const char *why) {
  fprintf(stderr, "%s of %s: %s\n", m->what, m->name, why);
  exit(1);
}

static machine *machine_new(const char *what, void (*pair)(machine *m), const char *where, const char *name) {
  machine *m = calloc(1, sizeof *m);
  if (!m) abort();
  m->what = what;
  m->pair = pair;
  snprintf(m->name, sizeof m->name, "%s/%s", where, name);
  return m;
}

/* ---- A server -------------------------------------------------------------------------------- */

static size_t ignore_answer(char *p, size_t size, size_t n, void *ctx) {
  (void)p;
  (void)ctx;
  return size * n;
}

static void call_server(machine *m, const char *method, const char *end, const char *body) {
  char url[NAME_MOST + 32];
  long status = 0;
  snprintf(url, sizeof url, "%s%s", m->name, end);
  curl_easy_setopt(m->curl, CURLOPT_URL, url);
  curl_easy_setopt(m->curl, CURLOPT_CUSTOMREQUEST, method);
  curl_easy_setopt(m->curl, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt(m->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
  CURLcode code = curl_easy_perform(m->curl);
  if (code) machine_fail(m, curl_easy_strerror(code));
  curl_easy_getinfo(m->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 300 && status != 404) machine_fail(m, method);
}

static void create_and_delete(machine *m) {
  call_server(m, "PUT", "/_create/1", "{\"a\":1}");
  call_server(m, "DELETE", "/_doc/1", "");
}

machine *machine_server(const char *url) {
  machine *m = machine_new("a _create and a delete", create_and_delete, url, "mortise-bench-machine");
  m->curl = curl_easy_init();
  if (!m->curl) abort();
  struct curl_slist *head = curl_slist_append(NULL, "Content-Type: application/json");
  curl_easy_setopt(m->curl, CURLOPT_HTTPHEADER, head);
  curl_easy_setopt(m->curl, CURLOPT_PRIVATE, head);
  curl_easy_setopt(m->curl, CURLOPT_WRITEFUNCTION, ignore_answer);
  call_server(m, "DELETE", "", "");
  create_and_delete(m); /* which makes the index */
  return m;
}

static void free_server(machine *m) {
  struct curl_slist *head = NULL;
  call_server(m, "DELETE", "", "");
  curl_easy_getinfo(m->curl, CURLINFO_PRIVATE, (char **)&head);
  curl_easy_cleanup(m->curl);
  curl_slist_free_all(head);
}

/* ---- A file ---------------------------------------------------------------------------------- */

static void write_a_row(machine *m) {
  static const char row[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                            "CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES(1)";
  sqlite3 *db;
  if (sqlite3_open(m->name, &db) || sqlite3_exec(db, row, NULL, NULL, NULL)) machine_fail(m, sqlite3_errmsg(db));
  sqlite3_close(db);
}

machine *machine_file(const char *folder) {
  machine *m = machine_new("a row of a bare SQLite file", write_a_row, folder, "mortise-bench-machine.db");
  unlink(m->name);
  write_a_row(m); /* which makes it */
  return m;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static double machine_clock_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void machine_sample(machine *m, unsigned times) {
  for (; times && m->n < PAIRS_MOST; times--) {
    double start = machine_clock_us();
    m->pair(m);
    m->us[m->n++] = machine_clock_us() - start;
  }
}

static int compare_us(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void machine_say(const machine *m, const char *what, double us) {
  static double sorted[PAIRS_MOST];
  if (!m->n) return;
  memcpy(sorted, m->us, m->n * sizeof *sorted);
  qsort(sorted, m->n, sizeof *sorted, compare_us);
  double pair = sorted[m->n / 2], ratio = us / pair;
  printf("{\"machine\":\"%s\",\"pairs\":%u,\"pair_us\":%.0f", m->what, m->n, pair);
  if (what) printf(",\"what\":\"%s\",\"us\":%.0f,\"ratio\":%.2f", what, us, ratio);
  printf("}\n");
  fflush(stdout);
  fprintf(stderr, "the machine: %s %.0f us (%.0f-%.0f, %u of them)", m->what, pair, sorted[0], sorted[m->n - 1], m->n);
  if (what) fprintf(stderr, "; %s %.0f us, %.2f of it", what, us, ratio);
  fprintf(stderr, "\n");
}

void machine_free(machine *m) {
  if (!m) return;
  if (m->curl)
    free_server(m);
  else
    unlink(m->name);
  free(m);
}
