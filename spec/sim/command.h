/* A simulator's command line, and what it says of a failure. */
#ifndef MT_SIM_COMMAND_H
#define MT_SIM_COMMAND_H

#include "shrink.h"

typedef struct sim_options {
  uint64_t seed, schedules;
  bool fairness, trace, twice, first;
  const char *replay, *out;
} sim_options;

bool sim_options_read(sim_options *o, int argc, char **argv);
int sim_usage(const char *program);

/* Prints the failure, and makes the schedule small unless that is not wanted. */
void sim_say_failure(const sim_options *o, uint64_t seed, uint64_t tried, const char *why);
/* Each seed twice: the traces must be the same to the byte. */
int sim_run_twice(const sim_options *o);

#endif
