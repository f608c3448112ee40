/* Processes that begin at once and do the same for some seconds. */
#include "bench.h"

#include <mortise/mortise.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 4, QUICK_SECONDS = 1 };

void herd_wait(herd *all) {
  all->ready++;
  while (!all->go) usleep(500);
}

void herd_note(herd_child *c, double start) {
  c->s.locks++;
  if (c->n < HERD_TIMES) c->us[c->n++] = now_us() - start;
}

void herd_client(const options *o, herd *all, size_t who, herd_turn *once) {
  herd_child *me = &all->children[who];
  meter m;
  mortise_client *client = open_client(o);
  bool good = client && once(client, me, who, 0);
  *me = (herd_child){.s.failures = !good};
  herd_wait(all);
  if (!good) return;
  count_client(client, &me->s, true);
  meter_begin(&m);
  for (size_t turn = 1; now_us() < all->end_us; turn++) once(client, me, who, turn);
  meter_end(&m, &me->s);
  count_client(client, &me->s, false);
  mortise_client_free(client);
}

static void gather(const herd *all, size_t n, sample *s) {
  static double us[HERD_MAX * HERD_TIMES];
  size_t times = 0;
  for (size_t i = 0; i < n; i++) {
    const herd_child *c = &all->children[i];
    s->locks += c->s.locks;
    s->user += c->s.user;
    s->system += c->s.system;
    s->trips += c->s.trips;
    s->items += c->s.items;
    s->conflicts += c->s.conflicts;
    s->failures += c->s.failures;
    if (c->s.wall > s->wall) s->wall = c->s.wall;
    memcpy(us + times, c->us, c->n * sizeof *us);
    times += c->n;
  }
  percentiles(us, times, s);
}

bool herd_run(const options *o, size_t n, herd_body *body, sample *s) {
  pid_t pids[HERD_MAX];
  herd *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return false;
  fflush(NULL);
  all->n = n;
  for (size_t i = 0; i < n; i++)
    if (sem_init(&all->turns[i], 1, 0)) abort();
  for (size_t i = 0; i < n; i++) {
    pids[i] = fork();
    if (pids[i] < 0) abort();
    if (pids[i]) continue;
    body(o, all, i);
    _exit(0);
  }
  while (all->ready < (int)n) usleep(1000);
  all->end_us = now_us() + (o->quick ? QUICK_SECONDS : SECONDS) * 1e6;
  all->go = true;
  bool good = true;
  for (size_t i = 0; i < n; i++) {
    int status = 0;
    good &= waitpid(pids[i], &status, 0) == pids[i] && status == 0;
  }
  gather(all, n, s);
  munmap(all, sizeof *all);
  return good;
}
