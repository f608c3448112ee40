/* A world of virtual time: events in order, chance from one seed, nothing else. One seed gives one
 * history, to the byte of its trace.
 *
 * Chance is not drawn from a stream: each decision has a key of its own (what, who, which), and
 * depends on the seed and the key only. So one decision can be removed from a history without
 * changing the others, which is how a failing history is made small (shrink.c). */
#ifndef MT_SIM_WORLD_H
#define MT_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of decisions. Those up to SIM_DICE are events: they are recorded when they happen, and
 * can be forbidden. */
typedef enum sim_what {
  SIM_OPERATION = 1, /* a task does something */
  SIM_MISFORTUNE,    /* kill, stop, cut, fail over */
  SIM_LOSE_REQUEST,
  SIM_LOSE_ANSWER,
  SIM_REPEAT,
  SIM_LATE_REQUEST,
  SIM_LATE_ANSWER,
  SIM_REFUSE,   /* the whole request: 429 */
  SIM_CONFLICT, /* one item: version conflict */
  SIM_BUSY,     /* one item: 429 */
  SIM_UNSURE,   /* one item: 5xx */
  SIM_OLD_PRIMARY,
  SIM_LATE_WRITE, /* of a document, under a lock */
  SIM_TWICE,      /* an answer: the next request on that connection reads the second copy */
  SIM_ANOTHERS,   /* instead of its own answer a request gets that of an earlier one */
  SIM_DICE,
  SIM_HINT,
} sim_what;

typedef uint64_t sim_key;

/* `who` below 256, `number` below 2^32, `detail` below 2^16. */
static inline sim_key sim_key_of(sim_what what, unsigned who, uint64_t number, unsigned detail) {
  return (uint64_t)what << 56 | (uint64_t)who << 48 | number << 16 | detail;
}

typedef struct sim_world sim_world;

/* `only`, if not NULL: the only events that may happen. Borrowed, sorted. One at a time: if it takes a minute of
 * processor time, the process prints its seed and ends with status 1. */
sim_world *sim_world_new(uint64_t seed, const sim_key *only, size_t n_only);
void sim_world_free(sim_world *w);

int64_t sim_now(const sim_world *w); /* true time, in milliseconds */

/* Does it happen? If so, it is recorded. */
bool sim_happens(sim_world *w, sim_key key, unsigned per_mille);
/* What has happened so far, in that order; borrowed. */
const sim_key *sim_happened(const sim_world *w, size_t *n);

uint64_t sim_random(const sim_world *w, sim_key key);
int64_t sim_between(const sim_world *w, sim_key key, int64_t least, int64_t most);
size_t sim_below(const sim_world *w, sim_key key, size_t n);

/* Calls `fn(ctx)` at that time; in the order of posting among equals. */
void sim_at(sim_world *w, int64_t at, void (*fn)(void *ctx), void *ctx);
int64_t sim_next(const sim_world *w); /* time of the next event; INT64_MAX: none */
/* Moves time on to `at` and runs what is due then; `after` is called after each event. */
void sim_advance(sim_world *w, int64_t at, void (*after)(void *ctx), void *ctx);

/* The trace: printed, or only counted and hashed. */
typedef enum sim_tracing { SIM_TRACE_OFF, SIM_TRACE_HASH, SIM_TRACE_PRINT } sim_tracing;
void sim_trace_set(sim_world *w, sim_tracing tracing);
uint64_t sim_trace_lines(const sim_world *w);
uint64_t sim_trace_hash(const sim_world *w);
void sim_trace(sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Aborts when out of memory: this is only a test program. */
void *sim_must(void *p);

#endif
