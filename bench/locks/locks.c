/* What locks cost, beside the same requests prepared by hand and sent by plain libcurl.
 *
 *   bench_locks URL[,URL...] [--quick] [--rounds N] [--only NAME,...] [--sessions N] [--seconds N]
 *
 * URL is one node without security, "http://127.0.0.1:9200"; only `crowd` uses more than the first. The lock table "mortise-bench-locks"
 * is made there and removed. Each round measures both ways, one after the other (`single`: in turn,
 * by blocks of twenty), a JSON line a sample goes to standard output, then a table of the medians
 * over all rounds, with the least and the largest, to standard error. A lock is always taken and
 * given back, but in the two rows of `documents`.
 *
 * - single: one caller, tree locks at depth 4, one at a time. Aim: 1.2 of raw's p50.
 * - tasks: 16 tasks of one process below shared ancestors. Aim: 8,000 locks/s.
 * - started: 256 locks under way in a program's own loop of poll; the raw way asks the lock manager itself for as many. Aim:
 *   1.1 of its time.
 * - processes: 16 processes with a session each, likewise. Aim: 1,600 locks/s, none fails.
 * - contended: 2, 4, 8 and 16 processes at one path, with hints and without; p50 and most are of the wait.
 *   Aims with 16: 500 grants/s, without hints 150; most is less than 3 times p50; 6 trips.
 * - documents: 100,000 document locks taken, then given back. Aim: 1.2 of raw's time, and less than
 *   1 us of user CPU each.
 * - ghosts: one caller beside 0, 100, 400 and 1,000 sessions whose processes were killed, before and after
 *   the janitor has cleared them away; once. Aim: gone within two leases, under 1% of the requests.
 * - holders: sixteen processes in places of their own beside 10, 100 and 1,000 sessions that hold something, with 1, 16,
 *   32 and 64 stripes; only if it is named. Aim: 3,000 pairs/s, and with 1,000 at least 0.8 of that with 10.
 * - crowd: 1,000 sessions for ten minutes, most of which only hold something (--sessions, --seconds); once, and
 *   only if it is named. Aim: none fails, and each costs what docs/guarantees.md says.
 *
 * At the end stands the machine's raw pair (machine.h), sampled before each round; `ghosts`, `holders` and `crowd`, which
 * have no raw way, say their own figures beside it.
 *
 * CPU is the client's own (getrusage), all its threads and processes; trips are HTTP requests,
 * conflicts are scripted items that were sent again. */
#include "bench.h"

#include "client/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5, ROUNDS_MAX = 100, PAIRS_MAX = 11 };

static const struct {
  const char *name;
  const char *rows[PAIRS_MAX];
  bool (*round)(const options *o, pair *out);
} cases[] = {
    {"single", {"single"}, single_round},
    {"tasks", {"tasks"}, tasks_round},
    {"started", {"started, 256"}, started_round},
    {"processes", {"processes"}, processes_round},
    {"contended",
     {"contended, 2", "2, no hints", "contended, 4", "4, no hints", "contended, 8", "8, no hints",
      "contended, 16", "16, no hints", "16, 16 stripes", "no hints, stripes", "16, in turn"},
     contended_round},
    {"documents", {"documents, taken", "documents, given back"}, documents_round},
};
static const char *const ways[WAYS] = {[MORTISE] = "mortise", [RAW] = "raw"};

/* ---- A client of the bench's table ----------------------------------------------------------- */

mortise_client *open_client(const options *o) {
  mortise_error err;
  mortise_options chosen;
  mortise_options_init(&chosen);
  chosen.store = o->nodes;
  chosen.table = TABLE;
  chosen.program = "bench_locks";
  chosen.no_hints = o->no_hints;
  chosen.loop = o->loop;
  if (o->lease_ms) chosen.lease_ms = o->lease_ms;
  mortise_client *c = mortise_client_open(&chosen, &err);
  if (!c) fprintf(stderr, "%s\n", err.message);
  return c;
}

void count_client(mortise_client *c, sample *s, bool begin) {
  uint64_t sign = begin ? UINT64_MAX : 1; /* minus one, or plus one */
  s->trips += sign * c->store->stats.requests;
  s->conflicts += sign * c->store->stats.conflicts;
  if (c->own) s->items += sign * mt_manager_get_stats(c->own->manager).items;
}

bool make_table(const options *o, uint32_t stripes) {
  mortise_error err;
  if (!raw_drop_table(o)) fprintf(stderr, "cannot drop the old table\n");
  mortise_client *c = open_client(o);
  bool made = c && !mortise_client_init_tables(c, stripes, &err);
  if (c && !made) fprintf(stderr, "%s\n", err.message);
  mortise_client_free(c);
  return made;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_sample(const char *row, int round, int way, const sample *s) {
  printf("{\"case\":\"%s\",\"way\":\"%s\",\"round\":%d,\"locks\":%llu,\"wall_s\":%.4f,\"user_s\":"
         "%.4f,\"system_s\":%.4f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"most_us\":%.0f,\"trips\":%llu,"
         "\"items\":%llu,"
         "\"conflicts\":%llu,\"failures\":%llu}\n",
         row, ways[way], round, (unsigned long long)s->locks, s->wall, s->user, s->system, s->p50,
         s->p99, s->most, (unsigned long long)s->trips, (unsigned long long)s->items,
         (unsigned long long)s->conflicts, (unsigned long long)s->failures);
  fflush(stdout);
}

typedef double (*figure)(const sample *s);

static double rate(const sample *s) {
  return s->wall > 0 ? (double)s->locks / s->wall : 0;
}
static double per_lock(const sample *s, double v) {
  return s->locks ? v / (double)s->locks : 0;
}
static double user_us(const sample *s) {
  return per_lock(s, s->user * 1e6);
}
static double system_us(const sample *s) {
  return per_lock(s, s->system * 1e6);
}
static double trips(const sample *s) {
  return per_lock(s, (double)s->trips);
}
static double conflicts(const sample *s) {
  return per_lock(s, (double)s->conflicts);
}
static double p50(const sample *s) {
  return s->p50;
}
static double p99(const sample *s) {
  return s->p99;
}
static double most(const sample *s) {
  return s->most;
}
static double failures(const sample *s) {
  return (double)s->failures;
}

typedef struct spread {
  double least, middle, most;
} spread;

static spread spread_of(const pair *rounds, int n, int way, figure f) {
  double v[ROUNDS_MAX];
  for (int i = 0; i < n; i++) v[i] = f(&rounds[i][way]);
  double middle = median(v, (size_t)n);
  return (spread){v[0], middle, v[n - 1]};
}

/* The ratio of times, round by round: both ways of a round ran under the same conditions. */
static spread ratio_of(const pair *rounds, int n, bool latency) {
  double v[ROUNDS_MAX];
  for (int i = 0; i < n; i++) {
    const sample *m = &rounds[i][MORTISE], *r = &rounds[i][RAW];
    double a = latency ? m->p50 : rate(r), b = latency ? r->p50 : rate(m);
    v[i] = b > 0 ? a / b : 0;
  }
  double middle = median(v, (size_t)n);
  return (spread){v[0], middle, v[n - 1]};
}

static void print_row(const char *row, const pair *rounds, int n) {
  for (int way = 0; way < WAYS; way++) {
    spread r = spread_of(rounds, n, way, rate);
    fprintf(stderr,
            "%-22s %-8s %9.0f (%6.0f-%7.0f) %8.0f %8.0f %8.0f %8.2f %8.2f %8.4f %8.4f %5.0f\n", row,
            ways[way], r.middle, r.least, r.most, spread_of(rounds, n, way, p50).middle,
            spread_of(rounds, n, way, p99).middle, spread_of(rounds, n, way, most).middle,
            spread_of(rounds, n, way, user_us).middle, spread_of(rounds, n, way, system_us).middle,
            spread_of(rounds, n, way, trips).middle, spread_of(rounds, n, way, conflicts).middle,
            spread_of(rounds, n, way, failures).most);
  }
  bool latency = rounds[0][RAW].p50 > 0 && rounds[0][MORTISE].p50 > 0;
  spread r = ratio_of(rounds, n, latency);
  fprintf(stderr, "%-22s ratio of %s: %.2f (%.2f-%.2f)\n", row, latency ? "p50" : "time", r.middle,
          r.least, r.most);
}

static void print_head(void) {
  fprintf(stderr, "%-22s %-8s %9s %16s %8s %8s %8s %8s %8s %8s %8s %5s\n", "case", "way", "locks/s",
          "(least-most)", "p50 us", "p99 us", "most us", "user us", "sys us", "trips", "conflict",
          "fail");
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool run_case(size_t which, const options *o, int rounds) {
  static pair all[PAIRS_MAX][ROUNDS_MAX];
  memset(all, 0, sizeof all);
  for (int i = 0; i < rounds; i++) {
    pair out[PAIRS_MAX] = {0};
    machine_sample(o->machine, MACHINE_PAIRS);
    if (!cases[which].round(o, out)) return false;
    for (int k = 0; k < PAIRS_MAX && cases[which].rows[k]; k++) {
      memcpy(all[k][i], out[k], sizeof out[k]);
      for (int way = 0; way < WAYS; way++) print_sample(cases[which].rows[k], i, way, &out[k][way]);
    }
  }
  for (int k = 0; k < PAIRS_MAX && cases[which].rows[k]; k++)
    print_row(cases[which].rows[k], (const pair *)all[k], rounds);
  return true;
}

static int usage(void) {
  fprintf(stderr, "usage: bench_locks URL[,URL...] [--quick] [--rounds N] [--only NAME,...]\n"
                  "  [--sessions N] [--seconds N]\n");
  return 2;
}

int main(int argc, char **argv) {
  options o = {0};
  int rounds = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--quick"))
      o.quick = true;
    else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
      rounds = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--only") && i + 1 < argc)
      o.only = argv[++i];
    else if (!strcmp(argv[i], "--sessions") && i + 1 < argc)
      o.sessions = (unsigned)atoi(argv[++i]);
    else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
      o.seconds = (unsigned)atoi(argv[++i]);
    else if (*argv[i] != '-' && !o.nodes)
      o.nodes = argv[i];
    else
      return usage();
  }
  if (!o.nodes) return usage();
  char *first = strndup(o.nodes, strcspn(o.nodes, ","));
  if (!first) return 1;
  o.url = first;
  if (rounds < 1 || rounds > ROUNDS_MAX) rounds = o.quick ? 1 : ROUNDS;
  curl_global_init(CURL_GLOBAL_DEFAULT);
  if (!make_table(&o, 0)) return 1;
  o.machine = machine_server(o.url);
  print_head();
  bool good = true;
  for (size_t i = 0; good && i < sizeof cases / sizeof *cases; i++)
    if (!o.only || strstr(o.only, cases[i].name)) good = run_case(i, &o, rounds);
  if (good && (!o.only || strstr(o.only, "ghosts"))) good = ghosts_case(&o);
  if (good && o.only && strstr(o.only, "holders")) good = holders_case(&o, rounds);
  if (good && o.only && strstr(o.only, "crowd")) good = crowd_case(&o);
  machine_say(o.machine, NULL, 0);
  machine_free(o.machine);
  raw_drop_table(&o);
  curl_global_cleanup();
  free(first);
  return good ? 0 : 1;
}
