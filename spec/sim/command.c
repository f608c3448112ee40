#include "command.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

int sim_usage(const char *program) {
  fprintf(
      stderr,
      "%s [--seed S] [--schedules N] [--fairness | --trace | --check-determinism | --replay FILE] "
      "[--first] [--out FILE]\n",
      program);
  return 2;
}

static bool read_arguments(sim_options *o, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--fairness") == 0)
      o->fairness = true;
    else if (strcmp(argv[i], "--trace") == 0)
      o->trace = true, o->schedules = 1, o->first = true;
    else if (strcmp(argv[i], "--first") == 0)
      o->first = true;
    else if (strcmp(argv[i], "--check-determinism") == 0)
      o->twice = true;
    else if (!value)
      return false;
    else if (strcmp(argv[i], "--seed") == 0)
      o->seed = strtoull(argv[++i], NULL, 0);
    else if (strcmp(argv[i], "--schedules") == 0)
      o->schedules = strtoull(argv[++i], NULL, 0);
    else if (strcmp(argv[i], "--replay") == 0)
      o->replay = argv[++i];
    else if (strcmp(argv[i], "--out") == 0)
      o->out = argv[++i];
    else
      return false;
  }
  return true;
}

bool sim_options_read(sim_options *o, int argc, char **argv) {
  if (!read_arguments(o, argc, argv)) return false;
  /* Schedules come and go by the thousand: keep their memory. */
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (!o->trace) setvbuf(stdout, NULL, _IOLBF, 0); /* so that findings are not lost */
  return true;
}

void sim_say_failure(const sim_options *o, uint64_t seed, uint64_t tried, const char *why) {
  printf("seed %" PRIu64 ": %s (after %" PRIu64 " schedules)\n", seed, why, tried);
  if (o->first) return;
  FILE *out = fopen(o->out, "w");
  if (!out) {
    printf("%s cannot be written\n", o->out);
    return;
  }
  sim_shrink(seed, out);
  fclose(out);
  printf("see it: --replay %s\n", o->out);
}

int sim_run_twice(const sim_options *o) {
  uint64_t different = 0, lines = 0;
  for (uint64_t i = 0; i < o->schedules; i++) {
    sim_report a = sim_try(o->seed + i, NULL, 0, SIM_TRACE_HASH);
    sim_report b = sim_try(o->seed + i, NULL, 0, SIM_TRACE_HASH);
    if (a.hash != b.hash || a.lines != b.lines) {
      printf("seed %" PRIu64 ": two traces\n", o->seed + i);
      different++;
    }
    lines += a.lines;
    free(a.happened);
    free(b.happened);
  }
  printf("%" PRIu64 " seeds twice, %" PRIu64 " lines each time, %" PRIu64 " differences\n",
         o->schedules, lines, different);
  return different ? 1 : 0;
}
