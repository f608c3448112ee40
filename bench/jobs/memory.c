#include "jobs.h"
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void remove_store(const char *file) {
  static const char *const ends[] = {"",       "-wal",       "-shm",       ".turn",
                                     "-locks", "-locks-wal", "-locks-shm", "-locks.turn"};
  char name[256];
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    snprintf(name, sizeof name, "%s%s", file, ends[i]);
    unlink(name);
  }
}

static bool measure_size(const char *program, const char *way, size_t documents, sample *s) {
  char file[] = "/tmp/mortise-bench-XXXXXX", store[256];
  reading before;
  int fd = mkstemp(file);
  if (fd < 0) return false;
  close(fd);
  unlink(file);
  snprintf(store, sizeof store, "sqlite:%s", file);
  bool ok = run_program(program, store, "fill", GROUND_CLONE, documents, s);
  ground_read(&before);
  ok = ok && run_program(program, store, way, GROUND_CLONE, documents, s) && s->docs == documents;
  ground_since(&before, s);
  remove_store(file);
  return ok;
}

int measure_memory(const char *program, const char *way, const size_t *documents, size_t n) {
  sample first = {0}, s = {0};
  machine *m = machine_file("/tmp");
  for (size_t i = 0; i < n; i++) {
    machine_sample(m, 20);
    if (!measure_size(program, way, documents[i], &s)) return 1;
    printf("{\"way\":\"%s\",\"documents\":%zu,\"peak_kb\":%llu,\"wall_s\":%.2f,\"user_us_per_doc\":"
           "%.2f}\n",
           way, documents[i], (unsigned long long)s.peak, s.wall,
           s.user * 1e6 / (double)documents[i]);
    fflush(stdout);
    if (!i) first = s;
  }
  if (n > 1)
    fprintf(stderr, "%.2f bytes more for each further document\n",
            ((double)s.peak - (double)first.peak) * 1024 /
                (double)(documents[n - 1] - documents[0]));
  machine_say(m, "the last, a document", s.wall * 1e6 / (double)documents[n - 1]);
  machine_free(m);
  return 0;
}
