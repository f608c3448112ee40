/* What holders that were killed cost everybody else, before and after the janitor has cleared them away.
 *
 * The dead are made as they lie there after a kill: nobody beats their documents any more. One client takes and
 * gives back locks elsewhere, one at a time, and its own janitor clears. */
#include "bench.h"

#include "client/client.h"

#include <stdio.h>

enum { LEASE_MS = 10000, QUICK_LEASE_MS = 4000, TIMES_MAX = 100000, LEASES_MAX = 6, ENTRIES = 3 };

static const size_t numbers[] = {0, 100, 400, 1000};
enum { NUMBERS = sizeof numbers / sizeof *numbers, QUICK_NUMBERS = 2 };

static bool bury(mortise_client *c, size_t ghosts, int64_t lease_ms) {
  const others dead = {.n = ghosts,
                       .below = "/ghosts",
                       .lease_ms = lease_ms,
                       .beat_ms = 1,
                       .stripes = MT_STRIPES_DEFAULT};
  return others_write(c, &dead);
}

static mortise_client *open_with(const options *o, int64_t lease_ms) {
  options with = *o;
  with.nodes = o->url;
  with.lease_ms = lease_ms;
  return open_client(&with);
}

static void one_pair(mortise_client *c, size_t i, sample *s, double *us) {
  char path[64];
  const char *paths[] = {path};
  const mortise_lock_request r = {.size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = paths, .n = 1, .wait_ms = -1};
  mortise_error err;
  snprintf(path, sizeof path, "/clinton/projects/2014/d%zu", i % 1000);
  double start = now_us();
  mortise_lock *lock = mortise_lock_acquire(c, &r, NULL, &err);
  bool failed = !lock || mortise_lock_release(lock, &err);
  if (failed) fprintf(stderr, "ghosts: %s\n", err.message);
  s->failures += failed;
  if (s->locks < TIMES_MAX) us[s->locks] = now_us() - start;
  s->locks++;
}

static void pairs_for(mortise_client *c, double seconds, sample *s) {
  static double us[TIMES_MAX];
  meter m;
  double end = now_us() + seconds * 1e6;
  meter_begin(&m);
  while (now_us() < end) one_pair(c, s->locks, s, us);
  meter_end(&m, s);
  percentiles(us, s->locks < TIMES_MAX ? s->locks : TIMES_MAX, s);
}

/* Goes on until nothing of the dead is left. -> how long that took, in seconds */
static double pairs_until_clear(mortise_client *c, size_t ghosts, double most, sample *s) {
  static double us[TIMES_MAX];
  double start = now_us();
  while (mt_manager_get_stats(c->own->manager).cleared < ghosts * ENTRIES &&
         now_us() - start < most * 1e6)
    one_pair(c, s->locks, s, us);
  s->wall = (now_us() - start) / 1e6;
  percentiles(us, s->locks < TIMES_MAX ? s->locks : TIMES_MAX, s);
  return s->wall;
}

static void say_ghosts(size_t ghosts, const char *when, const sample *s) {
  printf("{\"case\":\"ghosts\",\"ghosts\":%zu,\"when\":\"%s\",\"locks\":%llu,\"wall_s\":%.4f,"
         "\"p50_us\":%.0f,\"p99_us\":%.0f,\"failures\":%llu}\n",
         ghosts, when, (unsigned long long)s->locks, s->wall, s->p50, s->p99,
         (unsigned long long)s->failures);
  fprintf(stderr, "ghosts: %4zu, %-6s %7.0f pairs/s, p50 %6.0f us, p99 %6.0f us\n", ghosts, when,
          s->wall > 0 ? (double)s->locks / s->wall : 0, s->p50, s->p99);
}

static bool ghosts_of(const options *o, size_t ghosts) {
  int64_t lease_ms = o->quick ? QUICK_LEASE_MS : LEASE_MS;
  double seconds = (double)lease_ms / 8000; /* before its janitor's first look */
  sample before = {0}, between = {0}, after = {0};
  mortise_client *c = open_with(o, lease_ms);
  bool good = c != NULL;
  if (good && ghosts) good = bury(c, ghosts, lease_ms);
  if (!good) fprintf(stderr, "ghosts: they could not be made\n");
  if (good) {
    machine_sample(o->machine, MACHINE_PAIRS);
    double start = now_us();
    pairs_for(c, seconds, &before);
    uint64_t trips = c->store->stats.requests;
    mt_manager_stats had = mt_manager_get_stats(c->own->manager);
    pairs_until_clear(c, ghosts, LEASES_MAX * (double)lease_ms / 1e3, &between);
    double took = (now_us() - start) / 1e6;
    mt_manager_stats has = mt_manager_get_stats(c->own->manager);
    trips = c->store->stats.requests - trips;
    uint64_t own = has.janitor - had.janitor;
    good = has.cleared >= ghosts * ENTRIES;
    pairs_for(c, seconds, &after);
    say_ghosts(ghosts, "before", &before);
    if (ghosts) say_ghosts(ghosts, "while", &between);
    say_ghosts(ghosts, "after", &after);
    machine_say(o->machine, "ghosts: a pair, after", after.p50);
    printf(
        "{\"case\":\"ghosts\",\"ghosts\":%zu,\"leases\":%.2f,\"requests\":%llu,\"janitor\":%llu}\n",
        ghosts, took * 1e3 / (double)lease_ms, (unsigned long long)trips, (unsigned long long)own);
    if (ghosts)
      fprintf(stderr, "ghosts: %4zu, gone after %.2f leases%s; %llu of %llu requests (%.2f%%)\n",
              ghosts, took * 1e3 / (double)lease_ms, good ? "" : " (NOT ALL)",
              (unsigned long long)own, (unsigned long long)trips,
              trips ? 100 * (double)own / (double)trips : 0);
  }
  mortise_client_free(c);
  return good;
}

bool ghosts_case(const options *o) {
  bool good = true;
  for (size_t i = 0; good && i < (o->quick ? QUICK_NUMBERS : NUMBERS); i++)
    good = ghosts_of(o, numbers[i]);
  return good;
}
