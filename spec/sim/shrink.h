/* A schedule that fails, made small; and schedules in files. */
#ifndef MT_SIM_SHRINK_H
#define MT_SIM_SHRINK_H

#include "world.h"

#include <stdio.h>

typedef struct sim_report {
  const char *failure; /* NULL: none */
  uint64_t lines, hash;
  sim_key *happened; /* owned */
  size_t n;
} sim_report;

/* Each simulator's own: one schedule. `only` NULL: all that happens by chance. */
sim_report sim_try(uint64_t seed, const sim_key *only, size_t n_only, sim_tracing tracing);
/* The report of a schedule that has run. */
sim_report sim_report_of(const sim_world *w, const char *failure);

/* Writes the smallest schedule that fails alike to `file`. */
void sim_shrink(uint64_t seed, FILE *out);
int sim_replay(const char *file);

#endif
