/* Makes a failing schedule small. Each event of a schedule has a key of its own, and removing one
 * changes no other decision; so the list of events is halved, quartered, ... as long as the same
 * failure remains (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, 2002).
 * What is left is written to a file that can be replayed. */
#include "shrink.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 4000 };

static const char *const names[SIM_DICE] = {
    [SIM_OPERATION] = "operation",
    [SIM_MISFORTUNE] = "misfortune",
    [SIM_LOSE_REQUEST] = "lose-request",
    [SIM_LOSE_ANSWER] = "lose-answer",
    [SIM_REPEAT] = "repeat",
    [SIM_LATE_REQUEST] = "late-request",
    [SIM_LATE_ANSWER] = "late-answer",
    [SIM_REFUSE] = "refuse",
    [SIM_CONFLICT] = "conflict",
    [SIM_BUSY] = "busy",
    [SIM_UNSURE] = "unsure",
    [SIM_OLD_PRIMARY] = "old-primary",
    [SIM_LATE_WRITE] = "late-write",
    [SIM_TWICE] = "answer-twice",
    [SIM_ANOTHERS] = "anothers-answer",
};

sim_report sim_report_of(const sim_world *w, const char *failure) {
  sim_report r = {failure, sim_trace_lines(w), sim_trace_hash(w), NULL, 0};
  const sim_key *happened = sim_happened(w, &r.n);
  r.happened = sim_must(calloc(r.n + 1, sizeof *happened));
  if (r.n) memcpy(r.happened, happened, r.n * sizeof *happened);
  return r;
}

static int by_key(const void *a, const void *b) {
  sim_key x = *(const sim_key *)a, y = *(const sim_key *)b;
  return x < y ? -1 : x > y;
}

/* ---- What fails ----------------------------------------------------------------------------- */

typedef struct shrinking {
  uint64_t seed;
  const char *failure;
  sim_key *keys; /* sorted: enough for the failure */
  size_t n;
  uint64_t lines;
  unsigned tries;
} shrinking;

/* If the schedule with these keys still fails in the same way, keeps those that really happened. */
static bool fails_with(shrinking *s, const sim_key *keys, size_t n) {
  s->tries++;
  sim_report r = sim_try(s->seed, keys, n, SIM_TRACE_OFF);
  bool alike = r.failure && strcmp(r.failure, s->failure) == 0;
  if (alike) {
    free(s->keys);
    s->keys = r.happened;
    s->n = r.n;
    s->lines = r.lines;
    qsort(s->keys, s->n, sizeof *s->keys, by_key);
    /* A task's step happens once, but whether a request reaches an old primary is decided each
     * time. */
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
      if (!kept || s->keys[kept - 1] != s->keys[i]) s->keys[kept++] = s->keys[i];
    s->n = kept;
  } else {
    free(r.happened);
  }
  return alike;
}

static bool fails_without(shrinking *s, size_t from, size_t count) {
  sim_key *rest = sim_must(calloc(s->n + 1, sizeof *rest));
  size_t n = 0;
  for (size_t i = 0; i < s->n; i++)
    if (i < from || i >= from + count) rest[n++] = s->keys[i];
  bool fails = fails_with(s, rest, n);
  free(rest);
  return fails;
}

/* Tries to remove pieces of this size; true if any could go. */
static bool take_out(shrinking *s, size_t size) {
  bool any = false;
  for (size_t from = 0; from < s->n && s->tries < TRIES;) {
    if (fails_without(s, from, size))
      any = true;
    else
      from += size;
  }
  return any;
}

static void shrink(shrinking *s) {
  for (size_t size = s->n / 2 ? s->n / 2 : 1; s->tries < TRIES;) {
    bool any = take_out(s, size);
    if (size == 1 && !any) return;
    if (size > 1) size /= 2;
  }
}

/* ---- Schedules in files --------------------------------------------------------------------- */

static void write_key(FILE *out, sim_key key) {
  fprintf(out, "%s %u %" PRIu64 " %u\n", names[key >> 56], (unsigned)(key >> 48 & 0xFF),
          key >> 16 & 0xFFFFFFFF, (unsigned)(key & 0xFFFF));
}

void sim_shrink(uint64_t seed, FILE *out) {
  sim_report first = sim_try(seed, NULL, 0, SIM_TRACE_OFF);
  shrinking s = {.seed = seed, .failure = first.failure};
  if (!first.failure || !fails_with(&s, NULL, 0)) {
    printf("seed %" PRIu64 " does not fail again\n", seed);
    free(first.happened);
    return;
  }
  size_t events = s.n;
  shrink(&s);
  printf("made small: %zu of %zu decisions, %" PRIu64 " of %" PRIu64 " lines of trace (%u tries)\n",
         s.n, events, s.lines, first.lines, s.tries);
  fprintf(out, "# %s\nseed %" PRIu64 "\n", s.failure, seed);
  for (size_t i = 0; i < s.n; i++) write_key(out, s.keys[i]);
  free(s.keys);
  free(first.happened);
}

static sim_what what_of(const char *name) {
  for (int w = SIM_OPERATION; w < SIM_DICE; w++)
    if (strcmp(names[w], name) == 0) return (sim_what)w;
  return SIM_DICE;
}

static bool read_schedule(FILE *in, uint64_t *seed, sim_key **keys, size_t *n) {
  char line[128], name[32];
  unsigned who, detail;
  uint64_t number;
  bool seeded = false;
  for (size_t cap = 0; fgets(line, sizeof line, in);) {
    if (line[0] == '#') continue;
    if (sscanf(line, "seed %" SCNu64, seed) == 1) {
      seeded = true;
      continue;
    }
    if (sscanf(line, "%31s %u %" SCNu64 " %u", name, &who, &number, &detail) != 4) return false;
    sim_what what = what_of(name);
    if (what == SIM_DICE || who > 255 || detail > 65535) return false;
    if (*n == cap) *keys = sim_must(realloc(*keys, (cap = cap ? 2 * cap : 64) * sizeof **keys));
    (*keys)[(*n)++] = sim_key_of(what, who, number, detail);
  }
  if (*n) qsort(*keys, *n, sizeof **keys, by_key);
  return seeded;
}

int sim_replay(const char *file) {
  FILE *in = fopen(file, "r");
  uint64_t seed = 0;
  sim_key *keys = sim_must(malloc(sizeof *keys));
  size_t n = 0;
  bool good = in && read_schedule(in, &seed, &keys, &n);
  if (in) fclose(in);
  if (good) {
    sim_report r = sim_try(seed, keys, n, SIM_TRACE_PRINT);
    printf("seed %" PRIu64 ", %zu decisions: %s\n", seed, n, r.failure ? r.failure : "no failure");
    good = !r.failure;
    free(r.happened);
  } else {
    fprintf(stderr, "%s: not a schedule\n", file);
  }
  free(keys);
  return good ? 0 : 1;
}
