/* Sixteen processes, each with a session of its own, each on files of its own below shared
 * ancestors: every lock writes the same four documents. The raw way sends again, at once, only what
 * got a version conflict. */
#include "bench.h"

#include <mortise/mortise.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 16, SECONDS = 4, QUICK_SECONDS = 1, TIMES_MAX = 20000 };

typedef struct child {
  sample s;
  size_t n;
  double us[TIMES_MAX];
} child;

typedef struct shared {
  _Atomic int ready;
  _Atomic bool go;
  double end_us; /* written before `go` */
  child children[PROCESSES];
} shared;

static void wait_for_start(shared *all) {
  all->ready++;
  while (!all->go) usleep(500);
}

static void note(child *c, double start) {
  c->s.locks++;
  if (c->n < TIMES_MAX) c->us[c->n++] = now_us() - start;
}

static bool one_lock(mortise_client *client, size_t who, size_t turn, sample *s) {
  char path[64];
  const char *paths[] = {path};
  const mortise_lock_request r = {.kind = MORTISE_LOCK_TREE, .paths = paths, .n = 1, .wait_ms = -1};
  mortise_error err;
  snprintf(path, sizeof path, "/clinton/projects/2014/d%zu-%zu", who, turn);
  mortise_lock *lock = mortise_lock_acquire(client, &r, NULL, &err);
  if (lock && !mortise_lock_release(lock, &err)) return true;
  fprintf(stderr, "process %zu: %s\n", who, err.message);
  s->failures++;
  return false;
}

static void mortise_child(const options *o, shared *all, size_t who) {
  child *me = &all->children[who];
  meter m;
  mortise_client *client = open_client(o);
  if (!client || !one_lock(client, who, 0, &me->s)) {
    me->s.failures++;
    all->ready++;
    return;
  }
  wait_for_start(all);
  count_client(client, &me->s, true);
  meter_begin(&m);
  for (size_t turn = 1; now_us() < all->end_us; turn++) {
    double start = now_us();
    if (one_lock(client, who, turn, &me->s)) note(me, start);
  }
  meter_end(&m, &me->s);
  count_client(client, &me->s, false);
  mortise_client_free(client);
}

static void raw_child(const options *o, shared *all, size_t who) {
  child *me = &all->children[who];
  char session[40], path[64];
  meter m;
  mt_buf take, give;
  mt_buf_init(&take, 1 << 16);
  mt_buf_init(&give, 1 << 16);
  snprintf(session, sizeof session, "%032zx", who + 1);
  raw_link *link = raw_open(o);
  wait_for_start(all);
  meter_begin(&m);
  for (size_t turn = 1; now_us() < all->end_us; turn++) {
    snprintf(path, sizeof path, "/clinton/projects/2014/d%zu-%zu", who, turn);
    mt_buf_clear(&take);
    mt_buf_clear(&give);
    raw_tree_take(&take, session, path);
    raw_tree_give(&give, session, path);
    double start = now_us();
    raw_bulk(link, mt_buf_slice(&take), &me->s);
    raw_bulk(link, mt_buf_slice(&give), &me->s);
    note(me, start);
  }
  meter_end(&m, &me->s);
  raw_close(link);
}

static void gather(const shared *all, sample *s) {
  static double us[PROCESSES * TIMES_MAX];
  size_t n = 0;
  for (size_t i = 0; i < PROCESSES; i++) {
    const child *c = &all->children[i];
    s->locks += c->s.locks;
    s->user += c->s.user;
    s->system += c->s.system;
    s->trips += c->s.trips;
    s->items += c->s.items;
    s->conflicts += c->s.conflicts;
    s->failures += c->s.failures;
    if (c->s.wall > s->wall) s->wall = c->s.wall;
    for (size_t k = 0; k < c->n; k++) us[n++] = c->us[k];
  }
  percentiles(us, n, s);
}

static bool run(const options *o, void (*body)(const options *, shared *, size_t), sample *s) {
  pid_t pids[PROCESSES];
  shared *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return false;
  fflush(NULL);
  for (size_t i = 0; i < PROCESSES; i++) {
    pids[i] = fork();
    if (pids[i] < 0) abort();
    if (pids[i]) continue;
    body(o, all, i);
    _exit(0);
  }
  while (all->ready < PROCESSES) usleep(1000);
  all->end_us = now_us() + (o->quick ? QUICK_SECONDS : SECONDS) * 1e6;
  all->go = true;
  bool good = true;
  for (size_t i = 0; i < PROCESSES; i++) {
    int status = 0;
    good &= waitpid(pids[i], &status, 0) == pids[i] && status == 0;
  }
  gather(all, s);
  munmap(all, sizeof *all);
  return good;
}

bool processes_round(const options *o, pair *out) {
  return run(o, raw_child, &out[0][RAW]) && run(o, mortise_child, &out[0][MORTISE]);
}
