/* What sessions that only hold something cost everybody else, by how many stripes the table has.
 *
 * Sixteen processes take and give back locks in places of their own, beside 10, 100 and 1,000 sessions of other
 * machines; then, with nobody else, one caller takes a tree lock at depth 4 and the lock on everything, again and
 * again. Each round makes the table anew for each number of stripes, so all run under the same conditions. */
#include "bench.h"

#include "base/clock.h"
#include "client/client.h"

#include <stdio.h>
#include <string.h>

enum { LEASE_MS = 3600000, STRIPES = 4, NUMBERS = 3, ALONE = NUMBERS, GLOBAL, KINDS, TIMES = 300 };
enum { ROUNDS_MOST = 9 };

static const uint32_t stripes_tried[STRIPES] = {1, 16, 32, 64};
static const size_t numbers[NUMBERS] = {10, 100, 1000};
static const char *const kinds[KINDS] = {"10 holders", "100 holders", "1,000 holders",
                                         "tree lock, alone", "global lock, alone"};

typedef double figures[ROUNDS_MOST];

static bool is_alone(int kind) {
  return kind >= NUMBERS;
}

static bool one_pair(mortise_client *c, herd_child *me, size_t who, size_t turn) {
  char path[64];
  const char *paths[] = {path};
  const mortise_lock_request r = {.size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = paths, .n = 1, .wait_ms = -1};
  mortise_error err;
  snprintf(path, sizeof path, "/p%zu/projects/2014/d%zu", who, turn % 1000);
  double start = now_us();
  mortise_lock *lock = mortise_lock_acquire(c, &r, NULL, &err);
  bool good = lock && !mortise_lock_release(lock, &err);
  if (good) herd_note(me, start);
  if (!good) fprintf(stderr, "holders: %s\n", err.message);
  me->s.failures += !good;
  return good;
}

static void child(const options *o, herd *all, size_t who) {
  herd_client(o, all, who, one_pair);
}

static bool beside(const options *o, uint32_t stripes, size_t n, sample *s) {
  mortise_client *c = make_table(o, stripes) ? open_client(o) : NULL;
  const others held = {.n = n,
                       .below = "/held",
                       .lease_ms = LEASE_MS,
                       .beat_ms = mt_clock_wall_ms(),
                       .stripes = stripes};
  bool good = c && others_write(c, &held);
  mortise_client_free(c);
  return good && herd_run(o, HERD_MAX, child, s);
}

static bool alone(const options *o, uint32_t stripes, bool global, sample *s) {
  static double us[TIMES];
  const char *paths[] = {"/p/projects/2014/d"};
  const mortise_lock_request r = {.size = sizeof(mortise_lock_request), .kind = global ? MORTISE_LOCK_GLOBAL : MORTISE_LOCK_TREE,
                                  .paths = paths,
                                  .n = !global,
                                  .wait_ms = -1};
  mortise_error err;
  mortise_client *c = make_table(o, stripes) ? open_client(o) : NULL;
  bool good = c != NULL;
  for (size_t i = 0; good && i < 2 * TIMES; i++) {
    double start = now_us();
    mortise_lock *lock = mortise_lock_acquire(c, &r, NULL, &err);
    good = lock && !mortise_lock_release(lock, &err);
    us[i % TIMES] = now_us() - start; /* the first so many warm up */
  }
  if (c && !good) fprintf(stderr, "holders: %s\n", err.message);
  mortise_client_free(c);
  percentiles(us, TIMES, s);
  return good;
}

static bool measure(const options *o, uint32_t stripes, int kind, double *out) {
  sample s = {0};
  options one = *o;
  one.nodes = o->url;
  machine_sample(o->machine, MACHINE_PAIRS);
  bool good = is_alone(kind) ? alone(&one, stripes, kind == GLOBAL, &s)
                             : beside(&one, stripes, numbers[kind], &s);
  *out = is_alone(kind) ? s.p50 : s.wall > 0 ? (double)s.locks / s.wall : 0;
  printf("{\"case\":\"holders\",\"stripes\":%u,\"row\":\"%s\",\"locks\":%llu,\"wall_s\":%.4f,"
         "\"p50_us\":%.0f,\"p99_us\":%.0f,\"trips\":%llu,\"conflicts\":%llu,\"failures\":%llu}\n",
         stripes, kinds[kind], (unsigned long long)s.locks, s.wall, s.p50, s.p99,
         (unsigned long long)s.trips, (unsigned long long)s.conflicts,
         (unsigned long long)s.failures);
  fflush(stdout);
  return good && !s.failures;
}

bool holders_case(const options *o, int rounds) {
  static figures all[STRIPES][KINDS];
  if (rounds > ROUNDS_MOST) rounds = ROUNDS_MOST;
  for (int round = 0; round < rounds; round++)
    for (int kind = 0; kind < KINDS; kind++)
      for (int i = 0; i < STRIPES; i++)
        if (!measure(o, stripes_tried[i], kind, &all[i][kind][round])) return false;
  for (int kind = 0; kind < KINDS; kind++)
    for (int i = 0; i < STRIPES; i++) {
      double *v = all[i][kind], middle = median(v, (size_t)rounds);
      fprintf(stderr, "holders: %-18s %2u stripes %8.0f %s (%.0f-%.0f)\n", kinds[kind],
              stripes_tried[i], middle, is_alone(kind) ? "us, p50 of a pair" : "pairs/s", v[0],
              v[rounds - 1]);
      if (is_alone(kind)) machine_say(o->machine, kinds[kind], middle);
    }
  return make_table(o, 0);
}
