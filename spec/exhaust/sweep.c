#include "sweep.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANGS_MS = 45000, LOOK_US = 20000, WARM_RUNS = 3, WARM_THREADS = 12 };

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* ---- Workers -------------------------------------------------------------------------------- */

static bool grown(const mt_fault_live *from, const mt_fault_live *to) {
  return to->blocks > from->blocks || to->lua > from->lua || to->curl > from->curl ||
         to->sqlite > from->sqlite;
}

static void show_live(const char *when, const mt_fault_live *l) {
  fprintf(stderr,
          "# alive %s: blocks %" PRId64 ", of these lua %" PRId64 ", curl %" PRId64
          ", sqlite %" PRId64 "; files %d, threads %d\n",
          when, l->blocks, l->lua, l->curl, l->sqlite, l->files, l->threads);
}

/* Is there more than at the beginning? A leak is not reported again for the next point. */
static int64_t compare(mt_fault_live *before) {
  mt_fault_live now = mt_fault_alive();
  bool memory = grown(before, &now);
  if (!memory && now.files <= before->files && now.threads <= before->threads) return 0;
  if (getenv("MORTISE_EXHAUST_TRACE")) {
    show_live("before", before);
    show_live("after", &now);
    if (__lsan_do_recoverable_leak_check) __lsan_do_recoverable_leak_check();
  }
  *before = now;
  return memory ? 1 : -1;
}

static void *stand(void *barrier) {
  pthread_barrier_wait(barrier);
  return NULL;
}

/* Makes the C library keep as many stacks of ended threads, and blocks for them, as it ever
 * will. */
static void warm_threads(void) {
  pthread_t threads[WARM_THREADS];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, WARM_THREADS);
  for (int i = 0; i < WARM_THREADS; i++)
    if (pthread_create(&threads[i], NULL, stand, &barrier)) abort();
  for (int i = 0; i < WARM_THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
}

static void run_point(mt_sweep *s, uint32_t i, int slot, mt_fault_live *before) {
  mt_point *p = &s->points[i];
  atomic_store(&s->since_ms[slot], mt_now_ms());
  atomic_store(&s->running[slot], (int)i + 1);
  mt_scenario_run(s, i);
  p->leaked = compare(before);
  atomic_store(&s->running[slot], 0);
  atomic_store(&p->state, MT_POINT_DONE);
}

/* Never returns. */
static void work(mt_sweep *s, int slot) {
  for (int i = 0; i < WARM_RUNS; i++)
    mt_scenario_warm(s, (uint32_t)(WARM_RUNS * (slot + 1) + i), false);
  warm_threads();
  mt_fault_live before = mt_fault_alive();
  for (uint32_t i; (i = atomic_fetch_add(&s->next, 1)) < s->end;) run_point(s, i, slot, &before);
  /* Unreachable blocks, counted in another way. */
  bool leaks = __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check();
  _exit(leaks ? 3 : 0);
}

/* ---- The supervisor ------------------------------------------------------------------------- */

static pid_t start(void (*run)(mt_sweep *, int), mt_sweep *s, int slot) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    run(s, slot);
    _exit(0);
  }
  return pid;
}

/* Runs one step in a process of its own, so that this one never has a thread or an open store. */
static bool apart(void (*run)(mt_sweep *, int), mt_sweep *s) {
  int status = -1;
  pid_t pid = start(run, s, 0);
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void count(mt_sweep *s, int slot) {
  (void)slot;
  for (int i = 0; i < WARM_RUNS; i++) mt_scenario_warm(s, (uint32_t)i, i == WARM_RUNS - 1);
}

static void prepare(mt_sweep *s, int slot) {
  (void)slot;
  _exit(mt_witness_prepare(s) ? 0 : 1);
}

static void witness(mt_sweep *s, int slot) {
  (void)slot;
  _exit(mt_witness_run(s) ? 0 : 1);
}

/* The point that a worker died in. */
static void bury(mt_sweep *s, int slot, int status) {
  int at = atomic_exchange(&s->running[slot], 0);
  if (!at) {
    s->leaks_at_end |= WIFEXITED(status) && WEXITSTATUS(status) == 3;
    s->bad_ends += !(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    return;
  }
  mt_point *p = &s->points[at - 1];
  p->crashed = true;
  p->ended_ms = mt_now_ms();
  snprintf(p->message, sizeof p->message, "the process ended with status 0x%x", (unsigned)status);
  atomic_store(&p->state, MT_POINT_DONE);
}

static void end_if_hung(mt_sweep *s, int slot, pid_t pid) {
  int at = atomic_load(&s->running[slot]);
  if (!at || mt_now_ms() - atomic_load(&s->since_ms[slot]) < HANGS_MS) return;
  s->points[at - 1].hung = true;
  kill(pid, SIGKILL);
}

static bool supervise(mt_sweep *s, int workers) {
  pid_t pids[MT_WORKERS_MAX] = {0}, observer = start(witness, s, 0);
  int status, observed = 0, alive;
  while (!atomic_load(&s->witness_ready) && waitpid(observer, &observed, WNOHANG) == 0)
    usleep(LOOK_US);
  for (int i = 0; i < workers; i++) pids[i] = start(work, s, i);
  do {
    usleep(LOOK_US);
    alive = 0;
    for (int i = 0; i < workers; i++) {
      if (pids[i] <= 0) continue;
      alive++;
      if (waitpid(pids[i], &status, WNOHANG) == 0) {
        end_if_hung(s, i, pids[i]);
        continue;
      }
      pids[i] = 0;
      if (status) bury(s, i, status);
      if (status && atomic_load(&s->next) < s->end) pids[i] = start(work, s, i);
    }
  } while (alive);
  return waitpid(observer, &observed, 0) == observer && observed == 0;
}

/* ---- The points ----------------------------------------------------------------------------- */

/* Every n, and a few more than were counted; where that is more than `most`, every k-th, from where
 * the seed says. */
static void add_points(mt_sweep *s, mt_fault_kind kind, uint32_t most, mt_test_random *random) {
  uint32_t n = s->counted[kind];
  if (!n) return;
  n += n / 50 + 2;
  uint32_t step = most && n > most ? (n + most - 1) / most : 1;
  s->step[kind] = step;
  for (uint32_t at = 1 + (uint32_t)mt_test_below(random, step); at <= n; at += step) {
    for (int ever = 0; ever < 2 && s->n < MT_POINTS_MAX; ever++)
      s->points[s->n++] = (mt_point){.kind = kind, .n = at, .ever = ever};
  }
}

/* "lua" means all of a kind, "lua 17 once" and "lua 17 ever" one. */
static void add_only(mt_sweep *s, const char *only, const uint32_t *most, mt_test_random *random) {
  for (mt_fault_kind k = 0; k < MT_FAULT_KINDS; k++) {
    size_t length = strlen(mt_fault_names[k]);
    unsigned n = 0;
    char way[8] = "";
    if (strncmp(only, mt_fault_names[k], length)) continue;
    if (!only[length]) add_points(s, k, most[k], random);
    if (sscanf(only + length, " %u %7s", &n, way) == 2)
      s->points[s->n++] = (mt_point){.kind = k, .n = n, .ever = !strcmp(way, "ever")};
  }
}

/* Each part of the points has a lock table, and on SQLite files, of its own. */
static bool run_parts(mt_sweep *s, int workers) {
  for (uint32_t at = 0; at < s->n; at += MT_PART) {
    char suffix[16];
    snprintf(suffix, sizeof suffix, "part%u", at / MT_PART);
    s->part = mt_test_place_beside(s->place, suffix);
    s->first = at;
    s->end = s->n - at < MT_PART ? s->n : at + MT_PART;
    atomic_store(&s->next, at);
    atomic_store(&s->witness_ready, false);
    if (!apart(prepare, s) || !supervise(s, workers)) return false;
  }
  return true;
}

bool mt_sweep_run(mt_sweep *s, int workers, const uint32_t *most, const char *only) {
  mt_test_random random = mt_test_random_for(s->place->name);
  s->part = *s->place;
  if (!apart(prepare, s) || !apart(count, s) || !s->clean) return false;
  for (mt_fault_kind k = 0; !only && k < MT_FAULT_KINDS; k++) add_points(s, k, most[k], &random);
  if (only) add_only(s, only, most, &random);
  return run_parts(s, workers);
}
