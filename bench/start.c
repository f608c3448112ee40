/* bench_start PROGRAM [ROUNDS]: what a process costs that does next to nothing. PROGRAM with an empty chunk, and
 * one that takes and gives back a lock on an embedded store, in turn with an empty chunk of lua5.4. Prints the
 * medians, CPU (user and system) and wall, and the ratio of the CPU to lua5.4's. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAYS = 3, ROUNDS = 101, ROUNDS_MAX = 10000 };

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
  if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) {
    fprintf(stderr, "usage: bench_start PROGRAM [ROUNDS]\n");
    return 2;
  }
  char folder[] = "/tmp/mortise-bench-XXXXXX", store[64], command[96];
  if (!mkdtemp(folder)) start_fail(folder, errno);
  snprintf(store, sizeof store, "sqlite:%s/store.db", folder);
  start_way ways[WAYS] = {
      {.name = "lua5.4 -e ''", .argv = {"lua5.4", "-e", ""}},
      {.name = "mortise -e ''", .argv = {argv[1], "-e", ""}},
      {.name = "a lock", .argv = {argv[1], "--store", store, "-e", "mortise.with_tree_lock('/a', function() end)"}},
  };
  for (int i = 0; i < WAYS; i++) {
    ways[i].cpu_ms = calloc((size_t)rounds, sizeof(double));
    ways[i].wall_ms = calloc((size_t)rounds, sizeof(double));
    if (!ways[i].cpu_ms || !ways[i].wall_ms) start_fail("memory", ENOMEM);
    run_once(&ways[i], 0); /* from now on all files are in memory, and the store is there */
  }
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < WAYS; i++) run_once(&ways[i], round);
  double lua = 0;
  printf("%-14s %8s %8s %10s\n", "", "CPU ms", "wall ms", "of lua's");
  for (int i = 0; i < WAYS; i++) {
    double cpu = median(ways[i].cpu_ms, rounds), wall = median(ways[i].wall_ms, rounds);
    if (!i) lua = cpu;
    printf("%-14s %8.2f %8.2f %10.2f\n", ways[i].name, cpu, wall, cpu / lua);
  }
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) ? 1 : 0;
}
