/* A world of virtual time: events in order, randomness from one seed, nothing else. One seed gives
 * one history. */
#ifndef MT_SIM_WORLD_H
#define MT_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim_world sim_world;

sim_world *sim_world_new(uint64_t seed);
void sim_world_free(sim_world *w);

int64_t sim_now(const sim_world *w); /* true time, in milliseconds */
uint64_t sim_random(sim_world *w);
size_t sim_below(sim_world *w, size_t n);
bool sim_chance(sim_world *w, unsigned per_mille);
int64_t sim_between(sim_world *w, int64_t least, int64_t most);

/* Calls `fn(ctx)` at that time; in the order of posting among equals. */
void sim_at(sim_world *w, int64_t at, void (*fn)(void *ctx), void *ctx);
int64_t sim_next(const sim_world *w); /* time of the next event; INT64_MAX: none */
/* Moves time on to `at` and runs what is due then. */
void sim_advance(sim_world *w, int64_t at);

/* Prints to the trace when MORTISE_SIM_TRACE is set. */
void sim_trace(const sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
