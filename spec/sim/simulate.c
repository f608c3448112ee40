/* The lock manager's own files in a simulated world.
 *
 *   simulate [--seed S] [--schedules N]   runs N schedules, from seed S on
 *   simulate --fairness [...]             a directory and its files: fair to waiters
 *   simulate [--fairness] --trace --seed S  shows one
 *   simulate --replay FILE                shows one that was made small
 *   simulate --check-determinism [...]    each seed twice: the traces are the same to the byte
 *   --first       ends at the first failure, and does not make it small
 *   --out FILE    where the small schedule of a failure is written (default: simulate.failed)
 *
 * A failure prints its seed, then the smallest schedule that fails alike. */
#include "command.h"
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Running -------------------------------------------------------------------------------- */

static int64_t next_due(const sim *s) {
  int64_t at = sim_next(s->w);
  for (size_t i = 0; i < s->n; i++) {
    int64_t due = sim_client_due(&s->clients[i]);
    if (due < at) at = due;
  }
  return at;
}

void sim_run(sim *s, int64_t until, bool tasks) {
  int spins = 0;
  while (!s->failure && !(tasks && sim_all_ended(s))) {
    int64_t at = next_due(s);
    if (at > until) return;
    spins = at == sim_now(s->w) ? spins + 1 : 0;
    if (spins > 100000) sim_fail(s, "it spins");
    sim_advance(s->w, at, sim_check_beliefs, s);
    for (size_t i = 0; i < s->n; i++) sim_client_run(&s->clients[i]);
    sim_check_beliefs(s);
  }
}

/* ---- A schedule ----------------------------------------------------------------------------- */

static unsigned draw(const sim *s, unsigned detail, unsigned n) {
  return (unsigned)sim_below(s->w, sim_own(1000, detail), n);
}

static void choose_profile(sim *s) {
  static const unsigned levels[] = {0, 0, 5, 20, 60};
  profile *p = &s->profile;
  p->fault_level = levels[draw(s, 1, 5)];
  p->misfortunes = draw(s, 2, 6);
  p->patient = draw(s, 3, 6) == 0;
  p->nested = draw(s, 4, 2) * 250;
  p->convert = draw(s, 5, 2) * 250;
  p->cancel = draw(s, 6, 3) == 0 ? 80 : 0;
  p->rounds = 3 + draw(s, 7, 4);
  p->longest_hold = draw(s, 8, 2) ? 2000 : 0;
  p->horizon = draw(s, 9, 2) ? 20000 : 3000;
  p->jobs = !p->patient && draw(s, 12, 3) == 0;
  if (s->stream) *p = (profile){.patient = true, .rounds = 3};
  p->hints = draw(s, 13, 4) > 0;
  p->hints_lost = draw(s, 14, 3) * 100;
  p->flood = draw(s, 15, 4) == 0;
  p->tidy = draw(s, 16, 4) > 0;
  s->net.stripes = s->stream ? 1 : 1 + draw(s, 17, SIM_STRIPES);
  p->split = !p->patient && draw(s, 10, 6) == 0;
  if (p->split) {
    p->fault_level = 0;
    p->misfortunes = 1 + draw(s, 11, 2);
    p->horizon = 3000;
  }
  if (!p->patient) return;
  p->fault_level = p->misfortunes = p->nested = p->convert = p->cancel = 0;
}

/* Each kind of fault more or less often, some not at all. */
static void choose_faults(sim *s) {
  static const unsigned weights[] = {0, 1, 1, 1, 3};
  unsigned bad[11];
  for (unsigned i = 0; i < 11; i++) bad[i] = s->profile.fault_level * weights[draw(s, 20 + i, 5)];
  s->net.lists = s->profile.tidy;
  s->net.faults = (sim_faults){.lose_request = bad[0],
                               .lose_answer = bad[1],
                               .repeat = bad[2],
                               .late_request = bad[3],
                               .late_answer = bad[4],
                               .refuse = bad[5],
                               .conflict = 2 * bad[6],
                               .busy = bad[7],
                               .unsure = bad[8] / 2,
                               .twice = bad[9],
                               .anothers = bad[10],
                               .anonymous = draw(s, 40, 2),
                               .late_ms = 2 * LEASE};
}

static void run_to_rest(sim *s) {
  sim_run(s, sim_now(s->w) + 60 * LEASE, true);
  s->calm = true;
  sim_net_calm(&s->net);
  sim_run(s, sim_now(s->w) + 20 * LEASE, true);
  if (!s->failure && !sim_all_ended(s)) sim_fail(s, "a task hangs");
  sim_run(s, sim_now(s->w) + 3 * LEASE, false);
  if (!s->failure) sim_check_rest(s);
}

void sim_schedule(sim *s, uint64_t seed, const sim_key *only, size_t n_only, struct stream *stream,
                  sim_tracing tracing) {
  *s = (sim){.w = sim_world_new(seed, only, n_only)};
  sim_trace_set(s->w, tracing);
  sim_watch watch;
  s->table = sim_table_new(s->w, sim_checks(s, &watch));
  s->net = (sim_net){.w = s->w, .table = s->table};
  s->admin = (sim_machine){.number = 100};
  s->admin_store = sim_store_new(&s->net, &s->admin, SIM_MAIN, 100);
  sim_stream_begin(s, stream);
  choose_profile(s);
  choose_faults(s);
  for (unsigned i = 0; i < CLIENTS; i++) {
    /* Two are of one job, so that both may adopt; one is of another. */
    client *c = sim_client_open(s, i / 2, s->profile.jobs && i ? 1 + i / 3 : 0);
    for (size_t k = 0; k < TASKS; k++) sim_task_later(&c->tasks[k]);
  }
  sim_misfortunes(s);
  sim_cycles(s);
  sim_hints_begin(s);
  run_to_rest(s);
}

void sim_clean(sim *s) {
  for (size_t i = 0; i < s->n; i++) sim_client_clean(&s->clients[i]);
  mt_store_close(s->admin_store);
  sim_hints_clean(s);
  sim_net_deinit(&s->net);
  sim_table_free(s->table);
  sim_world_free(s->w);
}

/* ---- The command line ----------------------------------------------------------------------- */

static void add(sim_counts *to, const sim_counts *from) {
  const uint64_t *a = (const uint64_t *)from;
  uint64_t *sum = (uint64_t *)to;
  for (size_t i = 0; i < offsetof(sim_counts, longest_overrun) / sizeof *a; i++) sum[i] += a[i];
  if (from->longest_overrun > to->longest_overrun) to->longest_overrun = from->longest_overrun;
  if (from->longest_cycle > to->longest_cycle) to->longest_cycle = from->longest_cycle;
}

static void print_counts(const sim_counts *c, uint64_t schedules, uint64_t failures) {
  printf("%" PRIu64 " schedules, %" PRIu64 " grants, %" PRIu64 " conversions, %" PRIu64
         " time-outs, %" PRIu64 " deadlocks, %" PRIu64 " lost, %" PRIu64 " cancelled, %" PRIu64
         " unavailable, %" PRIu64 " misfortunes, %" PRIu64 " take-overs, %" PRIu64
         " writes (%" PRIu64 " late, %" PRIu64 " refused), %" PRIu64 " left by copies, %" PRIu64
         " orphans, %" PRIu64 " adoptions, %" PRIu64 " cleared by janitors, at most %" PRId64
         " ms over a deadline, at most %" PRId64 " ms in a cycle till the time-out, %" PRIu64
         " failures\n",
         schedules, c->grants, c->conversions, c->timeouts, c->deadlocks, c->losses, c->cancels,
         c->unavailable, c->misfortunes, c->takeovers, c->writes, c->late_writes, c->refused_writes,
         c->leftovers, c->orphans, c->adoptions, c->cleared, c->longest_overrun, c->longest_cycle,
         failures);
}

static int run_many(const sim_options *o, sim_tracing tracing) {
  enum { FAILURES = 5 };
  sim_counts counts = {0};
  uint64_t failures = 0, done = 0;
  for (; done < o->schedules && failures < (o->first ? 1 : FAILURES); done++) {
    static sim s;
    uint64_t seed = o->seed + done;
    sim_schedule(&s, seed, NULL, 0, NULL, tracing);
    const char *failure = s.failure;
    sim_clean(&s);
    add(&counts, &s.counts);
    if (!failure) continue;
    failures++;
    sim_say_failure(o, seed, done + 1, failure);
  }
  print_counts(&counts, done, failures);
  return failures ? 1 : 0;
}

sim_report sim_try(uint64_t seed, const sim_key *only, size_t n_only, sim_tracing tracing) {
  sim *s = sim_must(calloc(1, sizeof *s));
  sim_schedule(s, seed, only, n_only, NULL, tracing);
  sim_report r = sim_report_of(s->w, s->failure);
  sim_clean(s);
  free(s);
  return r;
}

int main(int argc, char **argv) {
  sim_options o = {.seed = 1, .schedules = 1000, .out = "simulate.failed"};
  if (!sim_options_read(&o, argc, argv)) return sim_usage("simulate");
  if (o.replay) return sim_replay(o.replay);
  sim_tracing tracing = o.trace ? SIM_TRACE_PRINT : SIM_TRACE_OFF;
  if (o.fairness) return sim_fairness(o.seed, o.schedules, tracing);
  if (o.twice) return sim_run_twice(&o);
  return run_many(&o, tracing);
}
