#include "world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum {
  BEGINNING = 1000000,
  PATIENCE_S = 60, /* processor time of a world, which takes some hundredths */
};

typedef struct event {
  int64_t at;
  uint64_t order;
  void (*fn)(void *ctx);
  void *ctx;
} event;

struct sim_world {
  uint64_t seed;
  int64_t now;
  uint64_t order;
  event *heap;
  size_t n, cap;
  const sim_key *only;
  size_t n_only;
  sim_key *happened;
  size_t n_happened, cap_happened;
  sim_tracing tracing;
  uint64_t lines, hash;
};

void *sim_must(void *p) {
  if (!p) abort();
  return p;
}

static uint64_t mix(uint64_t z) { /* the finish of splitmix64 */
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* ---- A world that does not end -------------------------------------------------------------- */

/* Time stands still in a loop that never ends, so only the processor's clock finds it. */
static char endless[64];

static void on_endless(int signal) {
  (void)signal;
  _exit(write(STDOUT_FILENO, endless, strlen(endless)) < 0 ? 2 : 1);
}

static void give_time(int seconds) {
  const struct itimerval t = {.it_value.tv_sec = seconds};
  if (signal(SIGVTALRM, on_endless) == SIG_ERR || setitimer(ITIMER_VIRTUAL, &t, NULL)) abort();
}

/* ---- Its beginning and end ------------------------------------------------------------------- */

sim_world *sim_world_new(uint64_t seed, const sim_key *only, size_t n_only) {
  sim_world *w = sim_must(calloc(1, sizeof *w));
  w->seed = mix(seed + UINT64_C(0x9E3779B97F4A7C15));
  w->now = BEGINNING;
  w->only = only;
  w->n_only = n_only;
  w->hash = UINT64_C(14695981039346656037);
  snprintf(endless, sizeof endless, "seed %" PRIu64 ": it does not end\n", seed);
  give_time(PATIENCE_S);
  return w;
}

void sim_world_free(sim_world *w) {
  give_time(0);
  free(w->heap);
  free(w->happened);
  free(w);
}

int64_t sim_now(const sim_world *w) {
  return w->now;
}

/* ---- Chance --------------------------------------------------------------------------------- */

uint64_t sim_random(const sim_world *w, sim_key key) {
  return mix(w->seed ^ mix(key + UINT64_C(0x9E3779B97F4A7C15)));
}

size_t sim_below(const sim_world *w, sim_key key, size_t n) {
  return (size_t)(sim_random(w, key) % n);
}

int64_t sim_between(const sim_world *w, sim_key key, int64_t least, int64_t most) {
  return least + (int64_t)sim_below(w, key, (size_t)(most - least + 1));
}

static int by_key(const void *a, const void *b) {
  sim_key x = *(const sim_key *)a, y = *(const sim_key *)b;
  return x < y ? -1 : x > y;
}

bool sim_happens(sim_world *w, sim_key key, unsigned per_mille) {
  /* A draw independent of the other uses of the same key. */
  if (!per_mille || mix(sim_random(w, key)) % 1000 >= per_mille) return false;
  if (w->only && !bsearch(&key, w->only, w->n_only, sizeof key, by_key)) return false;
  if (w->n_happened == w->cap_happened) {
    w->cap_happened = w->cap_happened ? 2 * w->cap_happened : 64;
    w->happened = sim_must(realloc(w->happened, w->cap_happened * sizeof *w->happened));
  }
  w->happened[w->n_happened++] = key;
  return true;
}

const sim_key *sim_happened(const sim_world *w, size_t *n) {
  *n = w->n_happened;
  return w->happened;
}

/* ---- Time ----------------------------------------------------------------------------------- */

static bool before(const event *a, const event *b) {
  return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(event *a, event *b) {
  event t = *a;
  *a = *b;
  *b = t;
}

void sim_at(sim_world *w, int64_t at, void (*fn)(void *ctx), void *ctx) {
  if (w->n == w->cap) {
    w->cap = w->cap ? w->cap * 2 : 64;
    w->heap = sim_must(realloc(w->heap, w->cap * sizeof *w->heap));
  }
  size_t i = w->n++;
  w->heap[i] = (event){at < w->now ? w->now : at, w->order++, fn, ctx};
  for (; i && before(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
    swap(&w->heap[i], &w->heap[(i - 1) / 2]);
}

static event pop(sim_world *w) {
  event first = w->heap[0];
  w->heap[0] = w->heap[--w->n];
  for (size_t i = 0;;) {
    size_t least = i, l = 2 * i + 1, r = l + 1;
    if (l < w->n && before(&w->heap[l], &w->heap[least])) least = l;
    if (r < w->n && before(&w->heap[r], &w->heap[least])) least = r;
    if (least == i) return first;
    swap(&w->heap[i], &w->heap[least]);
    i = least;
  }
}

int64_t sim_next(const sim_world *w) {
  return w->n ? w->heap[0].at : INT64_MAX;
}

void sim_advance(sim_world *w, int64_t at, void (*after)(void *ctx), void *ctx) {
  if (at > w->now) w->now = at;
  while (w->n && w->heap[0].at <= w->now) {
    event e = pop(w);
    e.fn(e.ctx);
    after(ctx);
  }
}

/* ---- The trace ------------------------------------------------------------------------------ */

void sim_trace_set(sim_world *w, sim_tracing tracing) {
  w->tracing = tracing;
}

uint64_t sim_trace_lines(const sim_world *w) {
  return w->lines;
}

uint64_t sim_trace_hash(const sim_world *w) {
  return w->hash;
}

static void hash_line(sim_world *w, const char *line) {
  for (; *line; line++) w->hash = (w->hash ^ (unsigned char)*line) * UINT64_C(1099511628211);
}

void sim_trace(sim_world *w, const char *fmt, ...) {
  w->lines++;
  if (w->tracing == SIM_TRACE_OFF) return;
  char line[512];
  int n = snprintf(line, sizeof line, "%8" PRId64 " ", w->now - BEGINNING);
  va_list args;
  va_start(args, fmt);
  vsnprintf(line + n, sizeof line - (size_t)n, fmt, args);
  va_end(args);
  hash_line(w, line);
  if (w->tracing == SIM_TRACE_PRINT) puts(line);
}
