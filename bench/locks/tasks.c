/* Sixteen tasks of one process, each on files of its own below shared ancestors. The floor: the
 * files' creates and deletes, eight in a request, on two connections; nothing on the ancestors. */
#include "bench.h"

#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 16, TASKS_MAX = 256, LOCKS = 20000, QUICK_LOCKS = 2000, RAW_ITEMS = 8, RAW_LINKS = 2 };

typedef struct crowd crowd;

typedef struct task {
  crowd *crowd;
  size_t number, turn;
  char path[64];
  mt_want want;
  mt_acquire acquire;
  mt_release release;
  double start;
} task;

struct crowd {
  mt_manager *manager;
  task tasks[TASKS_MAX];
  size_t n;
  size_t left, running, measured;
  double *us;
  sample *s;
};

static void path_of(char *out, size_t size, size_t number, size_t turn) {
  snprintf(out, size, "/clinton/projects/2014/d%zu-%zu", number, turn);
}

static void begin(task *t);

static void released(void *ctx, mt_release *r) {
  task *t = ctx;
  crowd *c = t->crowd;
  if (r->error.code) c->s->failures++;
  c->us[c->measured++] = now_us() - t->start;
  c->s->locks++;
  c->running--;
  begin(t);
}

static void acquired(void *ctx, mt_acquire *a) {
  task *t = ctx;
  if (!a->lock) {
    fprintf(stderr, "tasks: %s\n", a->error.message);
    t->crowd->s->failures++;
    t->crowd->running--;
    return;
  }
  t->release = (mt_release){.done = released, .ctx = t, .lock = a->lock};
  mt_manager_release(t->crowd->manager, &t->release);
}

static void begin(task *t) {
  crowd *c = t->crowd;
  if (!c->left) return;
  c->left--;
  c->running++;
  path_of(t->path, sizeof t->path, t->number, t->turn++);
  t->want = (mt_want){mt_slice_of(t->path), MT_X};
  t->acquire = (mt_acquire){
      .done = acquired, .ctx = t, .wants = &t->want, .n = 1, .task = t->number + 1, .wait_ms = -1};
  t->start = now_us();
  mt_manager_acquire(c->manager, &t->acquire);
}

static void run(mortise_client *c, crowd *k, size_t locks, sample *s) {
  k->s = s;
  k->left = locks;
  k->measured = 0;
  for (size_t i = 0; i < k->n; i++) begin(&k->tasks[i]);
  while (k->running && !mt_loop_step(c->loop, -1, NULL)) {
  }
}

bool tasks_measure(const options *o, size_t tasks, size_t locks, double *us, sample *s) {
  mortise_error err;
  mortise_client *c = open_client(o);
  if (!c) return false;
  static crowd k;
  k = (crowd){.manager = mt_client_manager(c, &err), .n = tasks, .us = us};
  for (size_t i = 0; i < tasks; i++) k.tasks[i] = (task){.crowd = &k, .number = i};
  sample warm = {0};
  meter m;
  run(c, &k, tasks * 4, &warm);
  count_client(c, s, true);
  meter_begin(&m);
  run(c, &k, locks, s);
  meter_end(&m, s);
  count_client(c, s, false);
  percentiles(us, k.measured, s);
  mortise_client_free(c);
  return true;
}

/* The body of each request deletes what the one before it but one made. */
static bool raw_round(const options *o, size_t locks, sample *s) {
  size_t n = locks / RAW_ITEMS * 2;
  mt_buf *bodies = calloc(n, sizeof *bodies);
  char path[64];
  meter m;
  if (!bodies) return false;
  for (size_t i = 0; i < n; i++) {
    /* create A, create B, delete A, delete B: with two links, a pair follows a pair. */
    size_t group = i / 4 * 2 + i % 2;
    bool give = i % 4 >= 2;
    mt_buf_init(&bodies[i], 1 << 16);
    for (size_t k = 0; k < RAW_ITEMS; k++) {
      path_of(path, sizeof path, k, group);
      if (give)
        raw_add_delete(&bodies[i], path);
      else
        raw_add_create(&bodies[i], RAW_SESSION, 1, path);
    }
  }
  meter_begin(&m);
  raw_all(o, bodies, n, RAW_LINKS, s);
  meter_end(&m, s);
  s->locks += locks;
  for (size_t i = 0; i < n; i++) mt_buf_deinit(&bodies[i]);
  free(bodies);
  return true;
}

bool tasks_round(const options *o, pair *out) {
  size_t locks = o->quick ? QUICK_LOCKS : LOCKS;
  double *us = calloc(locks + (size_t)TASKS * 4, sizeof *us);
  bool good = us && tasks_measure(o, TASKS, locks, us, &out[0][MORTISE]) &&
              raw_round(o, locks / (RAW_ITEMS * 2) * (RAW_ITEMS * 2), &out[0][RAW]);
  free(us);
  return good;
}
