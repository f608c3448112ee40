#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct event {
  int64_t at;
  uint64_t order;
  void (*fn)(void *ctx);
  void *ctx;
} event;

struct sim_world {
  uint64_t random;
  int64_t now;
  uint64_t order;
  bool trace;
  event *heap;
  size_t n, cap;
};

/* A test program: without memory there is nothing to test. */
static void *must(void *p) {
  if (!p) abort();
  return p;
}

sim_world *sim_world_new(uint64_t seed) {
  sim_world *w = must(calloc(1, sizeof *w));
  w->random = seed;
  w->now = 1000000;
  w->trace = getenv("MORTISE_SIM_TRACE") != NULL;
  return w;
}

void sim_world_free(sim_world *w) {
  free(w->heap);
  free(w);
}

int64_t sim_now(const sim_world *w) {
  return w->now;
}

uint64_t sim_random(sim_world *w) { /* splitmix64 */
  uint64_t z = w->random += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

size_t sim_below(sim_world *w, size_t n) {
  return (size_t)(sim_random(w) % n);
}

bool sim_chance(sim_world *w, unsigned per_mille) {
  return sim_below(w, 1000) < per_mille;
}

int64_t sim_between(sim_world *w, int64_t least, int64_t most) {
  return least + (int64_t)sim_below(w, (size_t)(most - least + 1));
}

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
    w->heap = must(realloc(w->heap, w->cap * sizeof *w->heap));
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

void sim_advance(sim_world *w, int64_t at) {
  if (at > w->now) w->now = at;
  while (w->n && w->heap[0].at <= w->now) {
    event e = pop(w);
    e.fn(e.ctx);
  }
}

void sim_trace(const sim_world *w, const char *fmt, ...) {
  if (!w->trace) return;
  va_list args;
  va_start(args, fmt);
  printf("%8" PRId64 " ", w->now - 1000000);
  vprintf(fmt, args);
  putchar('\n');
  va_end(args);
}
