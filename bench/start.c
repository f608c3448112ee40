/* bench_start PROGRAM [ROUNDS [FOLDER]]: what a process costs that does next to nothing. PROGRAM with an empty chunk, and
 * one that takes and gives back a lock on an embedded store in FOLDER, in turn with an empty chunk of lua5.4 and a row of
 * a bare SQLite file in the same folder (machine.h). Prints the medians, CPU (user and system) and wall, and the ratio of
 * the CPU to lua5.4's; then what the lock adds to the empty chunk, by the row. */
#include "machine.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LUA, EMPTY, LOCK, WAYS, ROUNDS = 101, ROUNDS_MAX = 10000 };

extern char **environ;

typedef struct start_way {
  const char *name;
  char *argv[8];
  double *cpu_ms, *wall_ms;
} start_way;

static _Noreturn void start_fail(const char *what, int why) {
  fprintf(stderr, "bench_start: %s: %s\n", what, strerror(why));
  exit(1);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double time_ms(struct timeval t) {
  return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

static void run_once(start_way *way, int round) {
  pid_t pid;
  int status;
  struct rusage used;
  double from = now_ms();
  int why = posix_spawnp(&pid, way->argv[0], NULL, NULL, way->argv, environ);
  if (why) start_fail(way->argv[0], why);
  if (wait4(pid, &status, 0, &used) != pid) start_fail("wait4", errno);
  way->wall_ms[round] = now_ms() - from;
  way->cpu_ms[round] = time_ms(used.ru_utime) + time_ms(used.ru_stime);
  if (status) {
    fprintf(stderr, "bench_start: %s did not succeed\n", way->name);
    exit(1);
  }
}

static int compare_ms(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *list, int n) {
  qsort(list, (size_t)n, sizeof *list, compare_ms);
  return list[n / 2];
}

int main(int argc, char **argv) {
  int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
  const char *parent = argc > 3 ? argv[3] : "/tmp";
  if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) {
    fprintf(stderr, "usage: bench_start PROGRAM [ROUNDS [FOLDER]]\n");
    return 2;
  }
  char folder[512], store[600], command[600];
  snprintf(folder, sizeof folder, "%s/mortise-bench-XXXXXX", parent);
  if (!mkdtemp(folder)) start_fail(folder, errno);
  snprintf(store, sizeof store, "sqlite:%s/store.db", folder);
  start_way ways[WAYS] = {
      [LUA] = {.name = "lua5.4 -e ''", .argv = {"lua5.4", "-e", ""}},
      [EMPTY] = {.name = "mortise -e ''", .argv = {argv[1], "-e", ""}},
      [LOCK] = {.name = "a lock",
                .argv = {argv[1], "--store", store, "-e", "mortise.with_tree_lock('/a', function() end)"}},
  };
  for (int i = 0; i < WAYS; i++) {
    ways[i].cpu_ms = calloc((size_t)rounds, sizeof(double));
    ways[i].wall_ms = calloc((size_t)rounds, sizeof(double));
    if (!ways[i].cpu_ms || !ways[i].wall_ms) start_fail("memory", ENOMEM);
    run_once(&ways[i], 0); /* from now on all files are in memory, and the store is there */
  }
  machine *m = machine_file(folder);
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < WAYS; i++) run_once(&ways[i], round);
    machine_sample(m, 1);
  }
  double lua = 0, walls[WAYS];
  printf("%-14s %8s %8s %10s\n", "", "CPU ms", "wall ms", "of lua's");
  for (int i = 0; i < WAYS; i++) {
    double cpu = median(ways[i].cpu_ms, rounds), wall = walls[i] = median(ways[i].wall_ms, rounds);
    if (i == LUA) lua = cpu;
    printf("%-14s %8.2f %8.2f %10.2f\n", ways[i].name, cpu, wall, cpu / lua);
    free(ways[i].cpu_ms);
    free(ways[i].wall_ms);
  }
  machine_say(m, "what a lock adds", (walls[LOCK] - walls[EMPTY]) * 1e3);
  machine_free(m);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) ? 1 : 0;
}
