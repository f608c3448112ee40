/* A client: a process with its own machine, session and heartbeat, and tasks that take locks, hold
 * them for a while, convert them, write under them, take others inside, and give them back. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  CLOCK_SLACK_MS = 200, /* a clock that runs fast, over the longest wait */
  /* Closing an old session, reading the table, opening, one batch. A single try whose blocker may
   * be dead: reading its session, proving it dead, one more batch. */
  REQUEST_SLACK_MS = 5 * 3000 + 2 * 5000,
  /* Details of an operation's keys. */
  D_PAUSE = 1,
  D_PAUSE_LONG,
  D_N,
  D_PATH,
  D_MODE = D_PATH + WANTS,
  D_WAIT = D_MODE + WANTS,
  D_TRY,
  D_CANCEL,
  D_CANCEL_AT,
  D_WHAT,
  D_ADOPTS,
  D_STEP = 16, /* this many for each step */
};

/* ---- Its world ------------------------------------------------------------------------------ */

static int64_t client_now(void *ctx) {
  const client *c = ctx;
  return sim_machine_clock(&c->machine, sim_now(c->sim->w));
}

static uint64_t client_random(void *ctx) {
  client *c = ctx;
  return sim_random(c->sim->w, sim_key_of(SIM_DICE, 128 + c->number, c->randoms++, 0));
}

static mortise_status heartbeat(void *ctx, bool start, mt_session *session, mortise_error *err) {
  client *c = ctx;
  (void)err;
  if (c->beating) mt_heartbeat_deinit(&c->heart);
  c->beating = start;
  if (start) mt_heartbeat_init(&c->heart, session, c->beat_store, &c->env);
  return MORTISE_OK;
}

/* This is known only of processes on the same machine. */
static bool known_dead(void *ctx, const char *owner) {
  const client *c = ctx;
  unsigned host, pid;
  const char *form = "{\"host\":\"host-%u\",\"boot\":\"b\",\"pidns\":\"1\",\"pid\":%u";
  if (sscanf(owner, form, &host, &pid) != 2) return false; /* the session was missing */
  return host == c->host && pid < c->sim->n && c->sim->clients[pid].machine.gone;
}

static void start_manager(client *c) {
  char job[16];
  snprintf(job, sizeof job, "job-%u", c->job);
  const mt_manager_config config = {.ns = "sim",
                                    .job = c->job ? job : NULL,
                                    .session = {.owner_json = c->owner, .lease_ms = LEASE, .margin_ms = MARGIN},
                                    .wait_ms = 4000,
                                    .heartbeat = heartbeat,
                                    .known_dead = known_dead,
                                    .hint = sim_hint_send,
                                    .ctx = c};
  c->manager = sim_must(mt_manager_new(c->store, &c->env, &config, NULL));
}

client *sim_client_open(sim *s, unsigned host, unsigned job) {
  unsigned number = (unsigned)s->n;
  client *c = &s->clients[s->n++];
  *c = (client){.sim = s, .number = number, .host = host, .job = job};
  c->machine = (sim_machine){.number = number,
                             .skew = sim_between(s->w, sim_own(number, 1), -500000, 500000),
                             .drift_ppm = sim_between(s->w, sim_own(number, 2), -10000, 10000),
                             .since = sim_now(s->w)};
  c->env = (mt_env){c, client_now, client_random};
  c->store = sim_store_new(&s->net, &c->machine, SIM_MAIN, 2 * number);
  c->beat_store = sim_store_new(&s->net, &c->machine, SIM_BEAT, 2 * number + 1);
  snprintf(c->owner, sizeof c->owner,
           "{\"host\":\"host-%u\",\"boot\":\"b\",\"pidns\":\"1\",\"pid\":%u,\"start\":1}", host,
           number);
  start_manager(c);
  for (unsigned i = 0; i < TASKS; i++) {
    task *t = &c->tasks[i];
    *t = (task){.client = c, .number = number * TASKS + i};
    for (unsigned k = 0; k < DEPTH; k++)
      t->grips[k] = (grip){.task = t, .number = (int)(t->number * DEPTH + k)};
  }
  return c;
}

static void closed(void *ctx) {
  ((client *)ctx)->closed = true;
}

static void forget_grips(client *c) {
  for (size_t i = 0; i < TASKS; i++)
    for (task *t = &c->tasks[i]; t->depth; t->depth--) sim_check_given(&t->grips[t->depth - 1]);
}

void sim_client_close(client *c, bool leaves) {
  if (!sim_client_runs(c) || c->closing) return;
  c->closing = true;
  forget_grips(c);
  if (leaves && c->job)
    mt_manager_leave(c->manager, client_now(c) + 3000, closed, c);
  else
    mt_manager_close(c->manager, client_now(c) + 3000, closed, c);
}

void sim_client_kill(client *c) {
  forget_grips(c);
  c->machine.gone = true;
}

void sim_client_clean(client *c) {
  c->machine.gone = true; /* what it reports from here on counts no more */
  if (c->beating) mt_heartbeat_deinit(&c->heart);
  c->beating = false;
  c->sim->counts.takeovers += mt_manager_get_stats(c->manager).takeovers;
  c->sim->counts.cleared += mt_manager_get_stats(c->manager).cleared;
  mt_manager_free(c->manager);
  mt_store_close(c->store);
  mt_store_close(c->beat_store);
}

bool sim_client_runs(const client *c) {
  return c->manager && !c->machine.gone;
}

/* When the thread next has something to do. */
static int64_t thread_due(const client *c, sim_thread thread, int64_t due) {
  if (due == INT64_MAX) return due;
  due = due ? sim_machine_true(&c->machine, due) : 0;
  int64_t now = sim_now(c->sim->w), stopped = c->machine.stopped_until[thread];
  if (due < now) due = now;
  return due < stopped ? stopped : due;
}

int64_t sim_client_due(const client *c) {
  if (!sim_client_runs(c)) return INT64_MAX;
  int64_t due = thread_due(c, SIM_MAIN, mt_manager_due(c->manager));
  int64_t beat = c->beating ? thread_due(c, SIM_BEAT, mt_heartbeat_due(&c->heart)) : INT64_MAX;
  return beat < due ? beat : due;
}

void sim_client_run(client *c) {
  int64_t now = sim_now(c->sim->w);
  if (!sim_client_runs(c)) return;
  if (c->beating && c->machine.stopped_until[SIM_BEAT] <= now) mt_heartbeat_tick(&c->heart);
  if (c->machine.stopped_until[SIM_MAIN] <= now && mt_manager_due(c->manager) <= client_now(c))
    mt_manager_tick(c->manager);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static sim_key op_key(const task *t, unsigned detail) {
  return sim_key_of(SIM_DICE, t->number, t->round, t->step * D_STEP + detail);
}

static int64_t dice(const task *t, unsigned detail, int64_t least, int64_t most) {
  return sim_between(t->client->sim->w, op_key(t, detail), least, most);
}

static bool chance(const task *t, unsigned detail, unsigned per_mille) {
  return dice(t, detail, 0, 999) < per_mille;
}

/* Does the schedule contain the next step of this task? */
static bool steps(task *t, unsigned per_mille) {
  return sim_happens(t->client->sim->w, sim_key_of(SIM_OPERATION, t->number, t->round, t->step),
                     per_mille);
}

static void act(void *ctx);

void sim_task_after(task *t, int64_t ms) {
  sim_world *w = t->client->sim->w;
  sim_at(w, sim_now(w) + ms, act, t);
}

void sim_task_later(task *t) {
  const sim *s = t->client->sim;
  if (sim_stream_pause(t)) return;
  int64_t longest = s->profile.longest_hold;
  bool is_long = chance(t, D_PAUSE, 100) && longest > 500;
  int64_t pause = is_long ? dice(t, D_PAUSE_LONG, 500, longest) : dice(t, D_PAUSE_LONG, 0, 60);
  sim_task_after(t, pause);
}

static long index_of(const task *t) {
  return (long)(t - t->client->tasks);
}

/* Ends the operation under way, and checks that it was not too late. */
static void ended(task *t) {
  sim *s = t->client->sim;
  t->state = TASK_IDLE;
  t->serial++;
  if (t->client->machine.gone) return;
  int64_t over = sim_now(s->w) - t->deadline - (t->client->stalled_ms - t->stalls);
  if (over > s->counts.longest_overrun) s->counts.longest_overrun = over;
  if (over > REQUEST_SLACK_MS) sim_fail(s, "something did not end by its deadline");
}

static void begins(task *t, task_state state, int64_t wait_ms) {
  const sim *s = t->client->sim;
  t->state = state;
  t->began = sim_now(s->w);
  t->deadline = sim_now(s->w) + wait_ms;
  t->stalls = t->client->stalled_ms;
}

static void not_granted(task *t, const mortise_error *err) {
  sim *s = t->client->sim;
  const client *c = t->client;
  /* By a clock that may run a little fast. */
  bool in_time = sim_now(s->w) < t->deadline - (t->deadline - t->began) / 50 - 20;
  t->client->failed |= t->acquire.adopts;
  if (s->profile.patient && !c->closing) sim_fail(s, "nothing went wrong, and it was not granted");
  switch (err->code) {
  case MORTISE_LOCK_TIMEOUT:
    s->counts.timeouts++;
    if (in_time) sim_fail(s, "it timed out before its time");
    return;
  case MORTISE_LOCK_LOST:
    s->counts.losses++;
    return;
  case MORTISE_DEADLOCK:
    s->counts.deadlocks++;
    sim_check_deadlock(t, err);
    return;
  case MORTISE_UNAVAILABLE:
    s->counts.unavailable++;
    if (in_time && err->retryable && mt_manager_session(c->manager))
      sim_fail(s, "it gave up before its time");
    return;
  case MORTISE_ORPHANED_JOB:
    s->counts.orphans++;
    if (s->profile.jobs) return;
    sim_fail(s, "there is no job, and one is an orphan");
    return;
  case MORTISE_CONFLICT: /* another one has adopted it, or a hand */
    if (t->acquire.adopts) return;
    sim_fail(s, "an acquisition failed in an unexpected way");
    return;
  case MORTISE_INTERRUPTED:
    if (c->closing) return; /* fall through */
  default:
    sim_fail(s, "an acquisition failed in an unexpected way");
  }
}

static void acquired(void *ctx, mt_acquire *a) {
  task *t = ctx;
  sim *s = t->client->sim;
  sim_trace(s->w, "client %u task %ld: %s %s", t->client->number, index_of(t),
            a->lock ? "GRANTED" : mortise_status_name(a->error.code), a->error.message);
  if (a->error.code == MORTISE_LOCK_TIMEOUT) sim_check_timeout(t);
  ended(t);
  if (a->lock) {
    grip *g = &t->grips[t->depth++];
    g->lock = a->lock;
    s->counts.grants++;
    s->counts.adoptions += a->adopts;
    if (a->adopts) sim_check_adopted(g);
    sim_check_granted(g);
    sim_stream_granted(g);
  } else if (a->error.code) {
    not_granted(t, &a->error);
  }
  sim_task_later(t);
}

static void cancel(void *ctx) {
  task *t = ctx;
  sim *s = t->client->sim;
  const client *c = t->client;
  if (t->cancels != t->serial || c->machine.gone || c->closing) return;
  if (c->machine.stopped_until[SIM_MAIN] > sim_now(s->w)) return;
  t->client->failed |= t->state == TASK_TAKING && t->acquire.adopts;
  if (t->state == TASK_TAKING)
    mt_manager_cancel(c->manager, &t->acquire);
  else
    mt_manager_convert_cancel(c->manager, &t->convert);
  sim_trace(s->w, "client %u task %ld: cancels", c->number, index_of(t));
  s->counts.cancels++;
  if (t->state == TASK_CONVERTING) sim_check_changed(&t->grips[t->depth - 1]);
  ended(t);
  sim_task_later(t);
}

static void maybe_cancel(task *t) {
  sim *s = t->client->sim;
  if (!chance(t, D_CANCEL, s->profile.cancel)) return;
  t->cancels = t->serial;
  sim_at(s->w, sim_now(s->w) + dice(t, D_CANCEL_AT, 0, 300), cancel, t);
}

void sim_task_take(task *t, size_t n, int64_t wait_ms, bool adopts) {
  sim *s = t->client->sim;
  t->acquire = (mt_acquire){.done = acquired,
                            .ctx = t,
                            .wants = t->wants,
                            .n = n,
                            .task = t->number + 1,
                            .wait_ms = wait_ms,
                            .adopts = adopts,
                            .gives = adopts && s->giving};
  begins(t, TASK_TAKING, wait_ms);
  sim_trace(s->w, "client %u task %ld: %s %.*s %s%s%.*s %s, waits %" PRId64, t->client->number,
            index_of(t), adopts ? "adopts" : "wants", (int)t->wants[0].path.n, t->wants[0].path.p,
            mt_mode_name(t->wants[0].mode), n > 1 ? " and " : "",
            n > 1 ? (int)t->wants[1].path.n : 0, n > 1 ? t->wants[1].path.p : "",
            n > 1 ? mt_mode_name(t->wants[1].mode) : "", wait_ms);
  maybe_cancel(t);
  mt_manager_acquire(t->client->manager, &t->acquire);
}

static const mt_mode some_modes[] = {MT_X, MT_X, MT_X, MT_S, MT_IX, MT_SIX, MT_S, MT_IS};
enum { SOME_MODES = sizeof some_modes / sizeof some_modes[0] };

static int64_t how_long_to_wait(const task *t) {
  if (t->client->sim->profile.patient) return 200000;
  if (t->client->sim->profile.split) return 5 * LEASE;
  return chance(t, D_TRY, 200) ? 0 : dice(t, D_WAIT, 100, 9000);
}

static void take_some(task *t) {
  size_t n = (size_t)dice(t, D_N, 1, WANTS);
  for (unsigned i = 0; i < n; i++)
    t->wants[i] = (mt_want){mt_slice_of(sim_paths[dice(t, D_PATH + i, 0, SIM_PATHS_COMMON - 1)]),
                            some_modes[dice(t, D_MODE + i, 0, SOME_MODES - 1)]};
  bool adopts = t->client->job && chance(t, D_ADOPTS, 600);
  for (unsigned i = 0; i < TASKS; i++) { /* one at a time */
    const task *other = &t->client->tasks[i];
    adopts &= other->state != TASK_TAKING || !other->acquire.adopts;
  }
  sim_task_take(t, n, how_long_to_wait(t), adopts);
}

static void released(void *ctx, mt_release *r) {
  task *t = ctx;
  (void)r;
  ended(t);
  sim_task_later(t);
}

void sim_task_give(task *t) {
  client *c = t->client;
  grip *g = &t->grips[--t->depth];
  begins(t, TASK_GIVING, LEASE);
  t->release = (mt_release){.done = released, .ctx = t, .lock = g->lock};
  sim_trace(c->sim->w, "client %u task %ld: gives back", c->number, index_of(t));
  sim_check_given(g);
  mt_manager_release(c->manager, &t->release);
}

static void converted(void *ctx, mt_convert *conversion) {
  task *t = ctx;
  sim *s = t->client->sim;
  sim_trace(s->w, "client %u task %ld: converted %s", t->client->number, index_of(t),
            mortise_status_name(conversion->error.code));
  s->counts.conversions++;
  if (conversion->error.code == MORTISE_LOCK_TIMEOUT) sim_check_timeout(t);
  ended(t);
  if (t->client->closing || t->client->machine.gone) return;
  if (conversion->error.code == MORTISE_DEADLOCK) {
    s->counts.deadlocks++;
    sim_check_deadlock(t, &conversion->error);
  }
  sim_check_changed(&t->grips[t->depth - 1]);
  sim_task_later(t);
}

static void convert(task *t) {
  client *c = t->client;
  grip *g = &t->grips[t->depth - 1];
  int64_t wait = how_long_to_wait(t);
  begins(t, TASK_CONVERTING, wait > LEASE ? wait : LEASE);
  t->convert = (mt_convert){.done = converted,
                            .ctx = t,
                            .lock = g->lock,
                            .mode = some_modes[dice(t, D_MODE, 0, SOME_MODES - 1)],
                            .wait_ms = wait};
  sim_trace(c->sim->w, "client %u task %ld: converts to %s", c->number, index_of(t),
            mt_mode_name(t->convert.mode));
  maybe_cancel(t);
  mt_manager_convert(c->manager, &t->convert);
  sim_check_changed(g); /* a downgrade takes effect at once */
}

/* Holding a lock, does something more under it or gives it back. */
static void go_on(task *t) {
  sim *s = t->client->sim;
  t->step++;
  bool more = t->step < 12 && steps(t, 400);
  int64_t what = dice(t, D_WHAT, 0, 999);
  if (more && what < s->profile.nested && t->depth < DEPTH) {
    take_some(t);
  } else if (more && what < s->profile.nested + s->profile.convert) {
    convert(t);
  } else if (more) {
    sim_check_write(&t->grips[t->depth - 1], op_key(t, D_WAIT));
    sim_task_later(t);
  } else {
    sim_task_give(t);
  }
}

static void act(void *ctx) {
  task *t = ctx;
  client *c = t->client;
  sim *s = c->sim;
  if (c->machine.gone || c->closing) return;
  if (c->machine.stopped_until[SIM_MAIN] > sim_now(s->w)) {
    sim_at(s->w, c->machine.stopped_until[SIM_MAIN], act, t);
  } else if (t->state != TASK_IDLE) {
    return;
  } else if (sim_stream_act(t)) {
    return;
  } else if (t->depth) {
    go_on(t);
  } else if (t->round < s->profile.rounds) {
    t->round++;
    t->step = 0;
    if (steps(t, 1000))
      take_some(t);
    else
      sim_task_later(t);
  }
}
