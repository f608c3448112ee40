/* core/job's own files in a simulated world.
 *
 *   simulate_jobs [--seed S] [--schedules N]   runs N schedules, from seed S on
 *   simulate_jobs --trace --seed S             shows one
 *   simulate_jobs --replay FILE                shows one that was made small
 *   simulate_jobs --check-determinism [...]    each seed twice: the traces are the same to the byte
 *   --first       ends at the first failure, and does not make it small
 *   --out FILE    where the small schedule of a failure is written (default: simulate_jobs.failed)
 *
 * A failure prints its seed, then the smallest schedule that fails alike. */
#include "jobs.h"

#include "command.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CALM_PROCESSES = 4, HANG_MS = 600000, STORM_MS = 60 * JOBS_LEASE };

void jobs_fail(jobs_sim *s, const char *why) {
  if (s->failure) return;
  s->failure = why;
  sim_trace(s->w, "FAILURE: %s", why);
}

/* ---- One process after the other ------------------------------------------------------------ */

/* One that is stopped goes on with what it was at, if that is before its lease has run out. */
bool jobs_at_work(jobs_sim *s) {
  int64_t now = sim_now(s->w);
  for (size_t i = 0; i < s->n; i++) {
    jobs_process *p = &s->processes[i];
    bool gone = p->gone || p->job.finished;
    if (!gone && (p->stopped_until <= now || !mt_session_dead(&p->session, now))) return true;
  }
  return false;
}

bool jobs_may_begin(const jobs_sim *s) {
  return s->n < JOBS_PROCESSES - CALM_PROCESSES;
}

/* Undone, and nothing of it was ever begun: it may run again. */
static bool was_unborn(const jobs_sim *s) {
  return s->ended.state == MT_JOB_UNDONE && !mt_job_record_began(&s->ended);
}

/* What the next one is to do; a new job where there is none yet. Who only wants the job's paths sees whether anything
 * stands half-done, more often where there is none. */
static mt_job_verb choose(const jobs_sim *s) {
  bool undo = sim_below(s->w, jobs_own(1001, (unsigned)s->n), 6) == 0;
  bool clear = sim_below(s->w, jobs_own(1004, (unsigned)s->n), s->ended.state ? 12 : 2) == 0;
  if (clear && !s->profile.rivals) return MT_JOB_CLEAR;
  if (!s->ended.state || was_unborn(s)) return MT_JOB_RUN;
  if (s->ended.state == MT_JOB_UNDOING) return MT_JOB_UNDO;
  if (sim_below(s->w, jobs_own(1005, (unsigned)s->n), 4) == 0) return MT_JOB_ACCEPT;
  return undo ? MT_JOB_UNDO : MT_JOB_RESUME;
}

void jobs_next(void *ctx) {
  jobs_sim *s = ctx;
  bool over = s->ended.state == MT_JOB_DONE || s->ended.state == MT_JOB_UNDONE;
  if (s->calm || s->failure || !jobs_may_begin(s)) return;
  if (over && sim_below(s->w, jobs_own(1002, (unsigned)s->n), 2)) return;
  if ((s->ended.state == MT_JOB_UNDONE && !was_unborn(s)) || (jobs_at_work(s) && !s->profile.rivals)) return;
  s->counts.takeovers++;
  jobs_process_begin(s, choose(s), NULL);
}

/* ---- A schedule ----------------------------------------------------------------------------- */

static void nothing(void *ctx) {
  (void)ctx;
}

/* Until nothing is left to happen. */
static void run_dry(jobs_sim *s) {
  int64_t end = sim_now(s->w) + HANG_MS;
  while (!s->failure && sim_next(s->w) < end) sim_advance(s->w, sim_next(s->w), nothing, NULL);
  if (!s->failure && sim_next(s->w) < INT64_MAX) jobs_fail(s, "it does not end");
  for (size_t i = 0; i < s->n && !s->failure; i++)
    if (!s->processes[i].gone && !s->processes[i].job.finished) jobs_fail(s, "a process hangs");
}

/* Without any more faults; what is late may still come while it is at work. */
static void run_calmly(jobs_sim *s, mt_job_verb verb) {
  uint64_t writes = s->counts.writes;
  bool done = s->ended.state == MT_JOB_DONE;
  if (s->failure) return;
  jobs_process_begin(s, verb, NULL);
  run_dry(s);
  if (!s->failure && done && verb == MT_JOB_RESUME && s->counts.writes > writes)
    jobs_fail(s, "what was done was written again");
  if (!s->failure) jobs_judge_end(s);
}

static void end_calmly(jobs_sim *s) {
  bool undo = s->ended.state >= MT_JOB_UNDOING || sim_below(s->w, jobs_own(1003, 0), 4) == 0;
  if (!s->ended.state) run_calmly(s, MT_JOB_RUN);
  run_calmly(s, undo && s->ended.state ? MT_JOB_UNDO : MT_JOB_RESUME);
  if (s->ended.state == MT_JOB_STOPPED && sim_below(s->w, jobs_own(1003, 2), 2))
    run_calmly(s, MT_JOB_ACCEPT);
  if (!undo && sim_below(s->w, jobs_own(1003, 1), 2)) run_calmly(s, MT_JOB_UNDO);
}

static void grow_calm(void *ctx) {
  jobs_sim *s = ctx;
  s->calm = true;
  jobs_orders_end(s);
}

static unsigned draw(const jobs_sim *s, unsigned detail, unsigned n) {
  return (unsigned)sim_below(s->w, jobs_own(1000, detail), n);
}

/* The server makes the change, and often outlives who asked for it. */
static void choose_server(jobs_sim *s) {
  jobs_profile *p = &s->profile;
  p->kind = JOBS_EMPTY;
  p->strategy = MT_STRATEGY_SERVER;
  p->docs = JOBS_DOCS / 2 + draw(s, 18, JOBS_DOCS / 2 - 4);
  p->misfortunes = 300;
  if (!p->fault_level) p->fault_level = 5;
  p->rivals = false;
  p->yields = 0;
}

static void choose_profile(jobs_sim *s) {
  static const unsigned levels[] = {0, 0, 5, 20, 60};
  jobs_profile *p = &s->profile;
  p->kind = (jobs_kind)draw(s, 1, JOBS_KINDS - 1);
  if (p->kind >= JOBS_MOVES) p->kind++;
  if (draw(s, 11, 6) == 0) p->kind = JOBS_MOVES;
  p->docs = 1 + draw(s, 2, JOBS_DOCS - 4);
  p->fault_level = levels[draw(s, 3, 5)];
  p->others = draw(s, 4, 3) == 0 && p->kind != JOBS_MOVES ? 300 : 0;
  p->misfortunes = draw(s, 5, 4) * 100;
  p->poisoned = draw(s, 6, 5) == 0 ? 100 : 0;
  /* Without a journal only the lock keeps a former owner away; and where ids change: one who still has it creates a
   * document at a sealed id with a later version. */
  bool guarded = p->kind == JOBS_INVERSE || p->kind == JOBS_EMPTY || p->kind == JOBS_MOVES;
  p->rivals = !guarded && draw(s, 7, 4) == 0;
  p->page = 1 + draw(s, 8, 5);
  p->in_flight = 1 + draw(s, 9, 3);
  p->horizon = draw(s, 10, 2) ? 3000 : 300;
  p->orders = draw(s, 11, 3) == 0 ? 700 : 0;
  bool is_list = p->kind == JOBS_LIST || p->kind == JOBS_DELETE;
  p->yields = is_list && draw(s, 12, 2) ? 500 : 0;
  p->known = draw(s, 13, 3) ? 0 : 2;
  p->revisions = draw(s, 14, 2);
  p->bounded = draw(s, 15, 2);
  if (p->kind == JOBS_EMPTY) p->strategy = (mt_strategy)draw(s, 16, 3);
  if (draw(s, 17, 8) == 0) choose_server(s);
}

/* Each kind of fault more or less often, some not at all. */
static void choose_faults(jobs_sim *s) {
  static const unsigned weights[] = {0, 1, 1, 1, 3};
  unsigned bad[8];
  for (unsigned i = 0; i < 8; i++) bad[i] = s->profile.fault_level * weights[draw(s, 20 + i, 5)];
  bool serves = s->profile.strategy == MT_STRATEGY_SERVER && s->profile.fault_level;
  if (serves && bad[3] < 150) bad[3] = 150; /* a task may begin long after its sender's death */
  s->faults = (jobs_faults){.lose_request = bad[0] / 4,
                            .lose_answer = bad[1] / 2,
                            .repeat = bad[2],
                            .late_request = bad[3],
                            .late_answer = bad[4],
                            .refuse = bad[5],
                            .busy = bad[6],
                            .unsure = bad[7] / 2,
                            .split = draw(s, 30, 3) * 300,
                            .late_ms = 2 * JOBS_LEASE};
}

void jobs_schedule(jobs_sim *s, uint64_t seed, const sim_key *only, size_t n_only,
                   sim_tracing tracing) {
  *s = (jobs_sim){.w = sim_world_new(seed, only, n_only)};
  sim_trace_set(s->w, tracing);
  shelf_init(&s->shelf);
  choose_profile(s);
  choose_faults(s);
  jobs_lists_make(s);
  jobs_judge_begin(s);
  s->counts = (jobs_counts){0};
  jobs_process_begin(s, MT_JOB_RUN, NULL);
  jobs_others(s);
  jobs_orders_begin(s);
  sim_at(s->w, sim_now(s->w) + STORM_MS, grow_calm, s);
  run_dry(s);
  s->calm = true;
  end_calmly(s);
}

void jobs_clean(jobs_sim *s) {
  for (size_t i = 0; i < s->n; i++) jobs_process_clean(&s->processes[i]);
  jobs_road_clear(s);
  jobs_tasks_clear(s);
  jobs_judge_clean(s);
  shelf_deinit(&s->shelf);
  sim_world_free(s->w);
}

/* ---- The command line ----------------------------------------------------------------------- */

sim_report sim_try(uint64_t seed, const sim_key *only, size_t n_only, sim_tracing tracing) {
  jobs_sim *s = sim_must(calloc(1, sizeof *s));
  jobs_schedule(s, seed, only, n_only, tracing);
  sim_report r = sim_report_of(s->w, s->failure);
  jobs_clean(s);
  free(s);
  return r;
}

static void add(jobs_counts *to, const jobs_counts *from) {
  const uint64_t *a = (const uint64_t *)from;
  uint64_t *sum = (uint64_t *)to;
  for (size_t i = 0; i < sizeof *from / sizeof *a; i++) sum[i] += a[i];
}

static void print_counts(const jobs_counts *c, uint64_t schedules, uint64_t failures) {
  printf("%" PRIu64 " schedules, %" PRIu64 " processes, %" PRIu64 " killed, %" PRIu64
         " take-overs, %" PRIu64 " done, %" PRIu64 " undone, %" PRIu64 " standing, %" PRIu64 " cleared, %" PRIu64
         " accepted, %" PRIu64
         " batches, %" PRIu64 " writes (%" PRIu64 " of what was there), %" PRIu64
         " requests of nobody, %" PRIu64 " calls of functions, %" PRIu64 " orders, %" PRIu64
         " times others were let in, %" PRIu64 " tasks, %" PRIu64 " times one was out of sight, %" PRIu64
         " interrupted, %" PRIu64
         " failures\n",
         schedules, c->processes, c->killed, c->takeovers, c->done, c->undone, c->standing, c->cleared,
         c->accepted, c->batches, c->writes, c->again, c->late, c->calls, c->orders, c->yields, c->tasks, c->lost,
         c->interrupted, failures);
}

static int run_many(const sim_options *o, sim_tracing tracing) {
  enum { FAILURES = 5 };
  jobs_counts counts = {0};
  uint64_t failures = 0, done = 0;
  for (; done < o->schedules && failures < (o->first ? 1 : FAILURES); done++) {
    static jobs_sim s;
    uint64_t seed = o->seed + done;
    jobs_schedule(&s, seed, NULL, 0, tracing);
    const char *failure = s.failure;
    jobs_clean(&s);
    add(&counts, &s.counts);
    if (!failure) continue;
    failures++;
    sim_say_failure(o, seed, done + 1, failure);
  }
  print_counts(&counts, done, failures);
  return failures ? 1 : 0;
}

int main(int argc, char **argv) {
  sim_options o = {.seed = 1, .schedules = 1000, .out = "simulate_jobs.failed"};
  if (!sim_options_read(&o, argc, argv) || o.fairness) return sim_usage("simulate_jobs");
  if (o.replay) return sim_replay(o.replay);
  if (o.twice) return sim_run_twice(&o);
  return run_many(&o, o.trace ? SIM_TRACE_PRINT : SIM_TRACE_OFF);
}
