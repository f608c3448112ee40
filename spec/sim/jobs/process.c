/* One process at the job: with a lock of its own, which it believes in until its lease has run out. */
#include "jobs.h"

#include <stdio.h>
#include <stdlib.h>

enum { BEAT_MS = JOBS_LEASE / 6, D_RANDOM = 60000 };

static int64_t now_ms(void *ctx) {
  return sim_now(((jobs_process *)ctx)->sim->w);
}

static uint64_t next_random(void *ctx) {
  jobs_process *p = ctx;
  return sim_random(p->sim->w, sim_key_of(SIM_DICE, p->number, p->randoms++, D_RANDOM));
}

static bool over(const jobs_process *p) {
  return p->gone || p->job.finished;
}

/* Before anything that the event has brought about. */
static void interrupt(void *ctx) {
  jobs_process *p = ctx;
  if (over(p) || p->sim->calm) return;
  sim_trace(p->sim->w, "process %u is asked to end after event %d", p->number, (int)p->events);
  p->sim->counts.interrupted++;
  mt_job_cancel(&p->job);
}

bool jobs_held_up(jobs_process *p, void (*fn)(void *ctx), void *ctx) {
  if (p->gone) return true;
  if (p->stopped_until <= sim_now(p->sim->w)) {
    if (++p->events == p->interrupted_at) sim_at(p->sim->w, sim_now(p->sim->w), interrupt, p);
    return false;
  }
  sim_at(p->sim->w, p->stopped_until, fn, ctx);
  return true;
}

/* ---- Its lock ------------------------------------------------------------------------------- */

static mortise_status check(const void *lock, mortise_error *err) {
  const jobs_process *p = lock;
  if (!mt_session_dead((mt_session *)(uintptr_t)&p->session, sim_now(p->sim->w))) return MORTISE_OK;
  return mt_error_set(err, MORTISE_LOCK_LOST, "the lease has run out");
}

static int64_t remaining_ms(const void *lock) {
  const jobs_process *p = lock;
  int64_t left = atomic_load(&p->session.deadline_ms) - sim_now(p->sim->w);
  return left > 0 ? left : 0;
}

static uint64_t fence(const void *lock) {
  return ((const jobs_process *)lock)->number;
}

static void beat(void *ctx) {
  jobs_process *p = ctx;
  if (over(p) || jobs_held_up(p, beat, p)) return;
  int64_t now = sim_now(p->sim->w);
  if (!mt_session_dead(&p->session, now)) atomic_store(&p->session.deadline_ms, now + JOBS_LEASE);
  sim_at(p->sim->w, now + BEAT_MS, beat, p);
}

/* ---- What it meets -------------------------------------------------------------------------- */

typedef enum misfortune { KILL, STOP, CANCEL, PAUSE, RIVAL, YIELD } misfortune;

static bool meets(jobs_process *p, misfortune what, unsigned per_mille) {
  jobs_sim *s = p->sim;
  return !s->calm && sim_happens(s->w, sim_key_of(SIM_MISFORTUNE, p->number, what, 0), per_mille);
}

static int64_t draw(const jobs_process *p, misfortune what, unsigned detail, int64_t least,
                    int64_t most) {
  return sim_between(p->sim->w, sim_key_of(SIM_DICE, p->number, UINT64_C(1) << 20 | what, detail),
                     least, most);
}

static void on_stop(void *ctx) {
  jobs_process *p = ctx;
  jobs_sim *s = p->sim;
  if (over(p) || s->calm) return;
  int64_t now = sim_now(s->w), dead = atomic_load(&p->session.deadline_ms) + JOBS_MARGIN;
  p->stopped_until = now + draw(p, STOP, 1, 10, 2 * JOBS_LEASE);
  sim_trace(s->w, "process %u is stopped for %d ms", p->number, (int)(p->stopped_until - now));
  if (p->stopped_until > dead) sim_at(s->w, dead, jobs_next, s);
}

static void on_pause(void *ctx) {
  jobs_process *p = ctx;
  if (over(p) || jobs_held_up(p, on_pause, p)) return;
  p->paused = !p->paused;
  mt_job_pause(&p->job, p->paused ? "" : NULL);
  if (p->paused) sim_at(p->sim->w, sim_now(p->sim->w) + draw(p, PAUSE, 1, 1, 500), on_pause, p);
}

/* Others wait for one of its paths. */
static void on_yield(void *ctx) {
  jobs_process *p = ctx;
  if (over(p) || jobs_held_up(p, on_yield, p)) return;
  sim_trace(p->sim->w, "process %u lets others in", p->number);
  mt_job_yield(&p->job);
}

static void happens_to(jobs_process *p, misfortune what, unsigned per_mille, void (*fn)(void *ctx),
                       void *ctx) {
  if (meets(p, what, per_mille))
    sim_at(p->sim->w, p->born_ms + draw(p, what, 0, 0, p->sim->profile.horizon), fn, ctx);
}

static void meet_misfortunes(jobs_process *p) {
  unsigned level = p->sim->profile.misfortunes;
  int64_t most = p->sim->profile.strategy ? 20 : 60; /* its requests are fewer where the server works */
  if (meets(p, KILL, 3 * level)) p->dies_at = (uint64_t)draw(p, KILL, 0, 1, most);
  happens_to(p, STOP, level, on_stop, p);
  if (meets(p, CANCEL, level)) /* after any event, the first ones most often */
    p->interrupted_at = (uint64_t)draw(p, CANCEL, 0, 1, draw(p, CANCEL, 1, 10, 200));
  happens_to(p, PAUSE, level, on_pause, p);
  happens_to(p, YIELD, p->sim->profile.yields, on_yield, p);
  if (p->sim->profile.rivals) happens_to(p, RIVAL, 2 * level, jobs_next, p->sim);
}

/* ---- Its life ------------------------------------------------------------------------------- */

/* The others have had their turn: the same session takes the lock again, unless the job is in other hands. */
static void go_on(void *ctx) {
  jobs_process *p = ctx;
  jobs_sim *s = p->sim;
  bool free = s->ended.state == MT_JOB_STOPPED && !jobs_at_work(s);
  if (!s->calm && !s->failure && free && jobs_may_begin(s)) jobs_process_begin(s, MT_JOB_RESUME, p);
}

static void on_done(void *ctx, mt_job *j) {
  jobs_process *p = ctx;
  jobs_sim *s = p->sim;
  bool lets_in = j->yielded && j->record.state == MT_JOB_STOPPED;
  p->ended = true;
  s->counts.yields += lets_in;
  sim_trace(s->w, "process %u ends: %s, %s", p->number, mt_job_state_name(j->record.state),
            j->error.message);
  jobs_judge_process(p);
  if (lets_in) sim_at(s->w, sim_now(s->w) + draw(p, YIELD, 1, 1, 1000), go_on, p);
  if (!s->calm) sim_at(s->w, sim_now(s->w) + draw(p, RIVAL, 1, 1, 2000), jobs_next, s);
}

void jobs_process_kill(jobs_process *p) {
  jobs_sim *s = p->sim;
  sim_trace(s->w, "process %u is killed", p->number);
  s->counts.killed++;
  mt_job_abandon(&p->job);
  p->gone = true;
  sim_at(s->w, sim_now(s->w) + draw(p, KILL, 1, 1, 2000), jobs_next, s);
}

void jobs_process_clean(jobs_process *p) {
  if (!p->gone) mt_job_abandon(&p->job);
  mt_job_deinit(&p->job);
  mt_known_deinit(&p->known);
  if (p->rename.list.n) mt_rename_deinit(&p->rename);
  if (p->back.list.n) mt_rename_deinit(&p->back);
  mt_store_close(p->store);
  mt_loop_free(p->loop);
}

static void set_up(jobs_process *p, mt_change *c) {
  const jobs_profile *profile = &p->sim->profile;
  c->store = p->store;
  c->env = &p->env;
  c->permit = &p->permit;
  c->index = SHELF_DOCS;
  c->options.page = profile->page;
  c->options.in_flight = profile->in_flight;
  c->options.slices = 1;
}

static void make_rename(jobs_process *p, mt_rename *r, mt_slice from, mt_slice to) {
  if (mt_rename_init(r, MT_SLICE("path"), from, to, NULL)) abort();
  r->merge = r->allow_empty = true;
  set_up(p, &r->change);
}

static void make_list(jobs_process *p) {
  jobs_sim *s = p->sim;
  mt_change *c = &p->rename.change;
  c->query = MT_SLICE("{\"prefix\":{\"path\":\"/old/\"}}");
  c->transform = s->profile.kind == JOBS_LIST
                     ? mt_transform_once(&s->list)
                     : (mt_transform){.apply = jobs_transform, .ctx = s, .decides = true};
  c->until_none = c->matches_on = true;
  set_up(p, c);
}

static void make_function(jobs_process *p) {
  mt_change *c = &p->rename.change;
  c->query = MT_SLICE("{\"prefix\":{\"path\":\"/old/\"}}");
  c->offered = jobs_function_offered;
  c->known = &p->known;
  p->known.most = p->sim->profile.known;
  set_up(p, c);
}

static void make_change(jobs_process *p) {
  if (p->sim->profile.kind == JOBS_FUNCTION)
    make_function(p);
  else if (p->sim->profile.kind >= JOBS_LIST)
    make_list(p);
  else
    make_rename(p, &p->rename, MT_SLICE("/old"), MT_SLICE("/new"));
  if (p->sim->profile.kind == JOBS_MOVES && mt_rename_ids(&p->rename, NULL)) abort();
}

static void make_inverse(jobs_process *p) {
  jobs_sim *s = p->sim;
  if (s->profile.kind == JOBS_RENAME || s->profile.kind >= JOBS_LIST) return;
  p->job.inverse = mt_transform_list(&s->inverse);
  p->job.list = &s->list;
  if (p->job.verb != MT_JOB_UNDO) return;
  make_rename(p, &p->back, MT_SLICE("/new"), MT_SLICE("/old"));
  mt_rename_touch(&p->rename);
  p->job.touch = &p->rename.change;
  p->job.back = &p->back.change;
}

static void set_job(jobs_process *p, mt_job_verb verb) {
  p->job = (mt_job){.done = on_done,
                    .ctx = p,
                    .verb = verb,
                    .store = p->store,
                    .env = &p->env,
                    .permit = &p->permit,
                    .table = SHELF_JOBS,
                    .ns = "default",
                    .id = "job",
                    .bound = {.limits = p->sim->profile.bounded},
                    .accepted = "accepted by another",
                    .change = verb >= MT_JOB_UNDO ? NULL : &p->rename.change,
                    .unlisted = p->sim->profile.kind == JOBS_EMPTY && !p->sim->profile.strategy,
                    .strategy = p->sim->profile.strategy,
                    .checkpoint_ms = draw(p, KILL, 2, 1, 100)};
  make_change(p);
  make_inverse(p);
}

static void take_session(jobs_process *p, const jobs_process *former) {
  snprintf(p->session.id, sizeof p->session.id, "%032u", p->number);
  snprintf(p->session.ns, sizeof p->session.ns, "default");
  p->session.lease_ms = JOBS_LEASE;
  p->session.margin_ms = JOBS_MARGIN;
  if (!former) return;
  memcpy(p->session.id, former->session.id, sizeof p->session.id);
  p->told_pause = former->told_pause;
  p->told_cancel = former->told_cancel;
}

void jobs_process_begin(jobs_sim *s, mt_job_verb verb, const jobs_process *former) {
  static const char *const names[] = {"run", "resume", "accept", "undo", "clear"};
  jobs_process *p = &s->processes[s->n];
  *p = (jobs_process){.sim = s, .number = (unsigned)s->n++, .born_ms = sim_now(s->w)};
  sim_trace(s->w, "process %u begins to %s", p->number, names[verb]);
  s->counts.processes++;
  p->env = (mt_env){p, now_ms, next_random};
  p->loop = jobs_loop_new(p);
  p->store = jobs_store_new(p);
  take_session(p, former);
  atomic_store(&p->session.deadline_ms,
               s->profile.rivals ? INT64_MAX / 2 : p->born_ms + JOBS_LEASE);
  p->permit = (mt_permit){.lock = p,
                          .check = check,
                          .remaining_ms = remaining_ms,
                          .fence = fence,
                          .session = &p->session};
  if (!s->profile.rivals) beat(p);
  set_job(p, verb);
  if (mt_job_start(&p->job, NULL)) abort();
  meet_misfortunes(p);
}
