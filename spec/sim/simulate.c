/* The lock manager's own files in a simulated world: clients that take locks, crash, stop and go
 * on, over a network that drops, delays and repeats.
 *
 *   simulate [--seed S] [--schedules N]
 *
 * After each schedule: no two incompatible locks were believed at once, fences grew, everything
 * ended, and once the leases of the dead have passed the whole tree can be locked and the table is
 * empty. A failure prints its seed; MORTISE_SIM_TRACE=1 shows the schedule of one. */
#include "lock/manager.h"
#include "table.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLIENTS = 4, TASKS = 3, LEASE = 6000, MARGIN = 300, ROUNDS = 6 };

static const char *const paths[] = {"/",    "/a",     "/a/b", "/a/b/c", "/a/b/d",
                                    "/a/e", "/a/e/f", "/g",   "/g/h",   "/a-b"};

struct client;

typedef enum task_state { TASK_IDLE, TASK_TAKING, TASK_HOLDING, TASK_GIVING } task_state;

typedef struct task {
  struct client *client;
  task_state state;
  mt_acquire acquire;
  mt_release release;
  mt_want wants[2];
  mt_lock *lock;
  uint64_t fence;
  int64_t taken_at;
  int64_t deadline; /* true time by which the acquisition must have ended */
  int rounds;
} task;

typedef struct client {
  struct sim *sim;
  int number;
  sim_machine machine;
  mt_store *store, *beat_store;
  mt_env env;
  mt_manager *manager;
  mt_heartbeat heart;
  bool beating, closed, closing;
  task tasks[TASKS];
} client;

typedef struct past {
  mt_want wants[2];
  size_t n;
  uint64_t fence;
} past;

typedef struct sim {
  sim_world *w;
  sim_table *table;
  client clients[CLIENTS + 1]; /* the last comes when all is over */
  size_t n;
  const char *failure;
  past *pasts;
  size_t n_pasts, cap_pasts;
  uint64_t grants, timeouts, losses, takeovers, crashes;
} sim;

static void fail(sim *s, const char *why) {
  if (!s->failure) s->failure = why;
  sim_trace(s->w, "FAILURE: %s", why);
}

/* ---- A client's world ----------------------------------------------------------------------- */

static int64_t client_now(void *ctx) {
  const client *c = ctx;
  return sim_now(c->sim->w) + c->machine.skew;
}

static uint64_t client_random(void *ctx) {
  return sim_random(((client *)ctx)->sim->w);
}

static mortise_status heartbeat(void *ctx, bool start, mt_session *session, mortise_error *err) {
  client *c = ctx;
  (void)err;
  if (c->beating) mt_heartbeat_deinit(&c->heart);
  c->beating = start;
  if (start) mt_heartbeat_init(&c->heart, session, c->beat_store, &c->env);
  return MORTISE_OK;
}

/* Clients 0 and 1 share a machine: the one sees at once that the other is gone. */
static bool known_dead(void *ctx, const char *owner) {
  client *c = ctx;
  for (size_t i = 0; i < 2 && c->number < 2; i++) {
    client *other = &c->sim->clients[i];
    mt_session *session = other->manager ? mt_manager_session(other->manager) : NULL;
    if (session && other->machine.gone && strstr(owner, "host") &&
        memcmp(owner + 9, session->id, 6) == 0)
      return true;
  }
  return false;
}

static void client_open(sim *s, client *c, int number) {
  *c = (client){.sim = s, .number = number};
  c->machine.skew = sim_between(s->w, -500000, 500000);
  c->env = (mt_env){c, client_now, client_random};
  c->store = sim_store_new(s->table, &c->machine);
  c->beat_store = sim_store_new(s->table, &c->machine);
  const mt_manager_config config = {.ns = "sim",
                                    .session = {"{\"host\":\"sim\"}", LEASE, MARGIN},
                                    .wait_ms = 4000,
                                    .heartbeat = heartbeat,
                                    .known_dead = known_dead,
                                    .ctx = c};
  c->manager = mt_manager_new(c->store, &c->env, &config, NULL);
  if (!c->manager) abort();
  for (int i = 0; i < TASKS; i++) c->tasks[i].client = c;
}

/* ---- What must always hold ------------------------------------------------------------------ */

static bool above(mt_slice a, mt_slice b) { /* a strictly above b */
  if (a.n == 1) return b.n > 1;
  return b.n > a.n && memcmp(a.p, b.p, a.n) == 0 && b.p[a.n] == '/';
}

static bool clash(const mt_want *a, const mt_want *b) {
  if (mt_slice_eq(a->path, b->path)) return !mt_mode_compatible(a->mode, b->mode);
  if (above(a->path, b->path)) return !mt_mode_compatible(a->mode, mt_mode_intention(b->mode));
  if (above(b->path, a->path)) return !mt_mode_compatible(mt_mode_intention(a->mode), b->mode);
  return false;
}

static bool any_clash(const mt_want *a, size_t n, const mt_want *b, size_t m) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < m; j++)
      if (clash(&a[i], &b[j])) return true;
  return false;
}

static bool believes(const task *t) {
  if (t->state != TASK_HOLDING || t->client->machine.gone) return false;
  mt_session *session = mt_lock_session(t->lock);
  return !atomic_load(&session->lost) && atomic_load(&session->deadline_ms) > client_now(t->client);
}

static void check_grant(task *t) {
  sim *s = t->client->sim;
  for (size_t i = 0; i < s->n; i++) {
    for (size_t k = 0; k < TASKS; k++) {
      task *other = &s->clients[i].tasks[k];
      if (other == t || !believes(other) || !believes(t)) continue;
      if (any_clash(t->acquire.wants, t->acquire.n, other->acquire.wants, other->acquire.n))
        fail(s, "two incompatible locks are believed at once");
    }
  }
  for (size_t i = 0; i < s->n_pasts; i++)
    if (s->pasts[i].fence >= t->fence &&
        any_clash(t->wants, t->acquire.n, s->pasts[i].wants, s->pasts[i].n))
      fail(s, "a later holder's fence is not larger");
  if (s->n_pasts == s->cap_pasts) {
    s->cap_pasts = s->cap_pasts ? 2 * s->cap_pasts : 64;
    s->pasts = realloc(s->pasts, s->cap_pasts * sizeof *s->pasts);
    if (!s->pasts) abort();
  }
  past *p = &s->pasts[s->n_pasts++];
  memcpy(p->wants, t->wants, sizeof p->wants);
  p->n = t->acquire.n;
  p->fence = t->fence;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static void act_later(task *t);

static void acquired(void *ctx, mt_acquire *a) {
  task *t = ctx;
  sim *s = t->client->sim;
  sim_trace(s->w, "client %d task %ld: %s %s", t->client->number, (long)(t - t->client->tasks),
            a->lock ? "GRANTED" : mortise_status_name(a->error.code), a->error.message);
  if (!a->lock) {
    t->state = TASK_IDLE;
    if (a->error.code == MORTISE_LOCK_TIMEOUT)
      s->timeouts++;
    else if (a->error.code == MORTISE_LOCK_LOST)
      s->losses++;
    else if (a->error.code != MORTISE_UNAVAILABLE && a->error.code != MORTISE_INTERRUPTED)
      fail(s, "an acquisition failed in an unexpected way");
  } else {
    t->state = TASK_HOLDING;
    t->lock = a->lock;
    t->fence = mt_lock_fence(a->lock);
    t->taken_at = sim_now(s->w);
    s->grants++;
    check_grant(t);
  }
  act_later(t);
}

static void released(void *ctx, mt_release *r) {
  task *t = ctx;
  (void)r;
  t->state = TASK_IDLE;
  act_later(t);
}

static void take(task *t) {
  sim *s = t->client->sim;
  size_t n = 1 + sim_below(s->w, 2);
  static const mt_mode modes[] = {MT_X, MT_X, MT_X, MT_S, MT_IX, MT_SIX};
  for (size_t i = 0; i < n; i++)
    t->wants[i] = (mt_want){mt_slice_of(paths[sim_below(s->w, sizeof paths / sizeof paths[0])]),
                            modes[sim_below(s->w, sizeof modes / sizeof modes[0])]};
  int64_t wait = sim_chance(s->w, 200) ? 0 : sim_between(s->w, 100, 9000);
  t->acquire = (mt_acquire){.done = acquired,
                            .ctx = t,
                            .wants = t->wants,
                            .n = n,
                            .task = (uint64_t)(t - t->client->tasks) + 1,
                            .wait_ms = wait};
  t->state = TASK_TAKING;
  t->deadline = sim_now(s->w) + wait + 3 * LEASE;
  sim_trace(s->w, "client %d task %ld: wants %.*s %s%s%.*s, waits %" PRId64, t->client->number,
            (long)(t - t->client->tasks), (int)t->wants[0].path.n, t->wants[0].path.p,
            mt_mode_name(t->wants[0].mode), n > 1 ? " and " : "",
            n > 1 ? (int)t->wants[1].path.n : 0, n > 1 ? t->wants[1].path.p : "", wait);
  mt_manager_acquire(t->client->manager, &t->acquire);
}

static void act(void *ctx) {
  task *t = ctx;
  client *c = t->client;
  sim *s = c->sim;
  if (c->machine.gone || c->closing) return;
  if (c->machine.stopped_until > sim_now(s->w)) {
    sim_at(s->w, c->machine.stopped_until, act, t);
  } else if (t->state == TASK_HOLDING) {
    t->state = TASK_GIVING;
    t->release = (mt_release){.done = released, .ctx = t, .lock = t->lock};
    sim_trace(s->w, "client %d task %ld: gives back", c->number, (long)(t - c->tasks));
    mt_manager_release(c->manager, &t->release);
  } else if (t->state == TASK_IDLE && t->rounds++ < ROUNDS) {
    take(t);
  }
}

static void act_later(task *t) {
  sim *s = t->client->sim;
  int64_t pause = sim_chance(s->w, 100) ? sim_between(s->w, 500, 2000) : sim_between(s->w, 0, 60);
  sim_at(s->w, sim_now(s->w) + pause, act, t);
}

/* ---- Misfortune ----------------------------------------------------------------------------- */

static void misfortune(void *ctx) {
  sim *s = ctx;
  client *c = &s->clients[sim_below(s->w, CLIENTS)];
  if (!c->machine.gone && sim_chance(s->w, 250)) {
    sim_trace(s->w, "client %d is killed", c->number);
    c->machine.gone = true;
    s->crashes++;
  } else if (!c->machine.gone) {
    c->machine.stopped_until = sim_now(s->w) + sim_between(s->w, 10, 2 * LEASE);
    sim_trace(s->w, "client %d is stopped until %" PRId64, c->number,
              c->machine.stopped_until - 1000000);
  }
}

/* ---- Running -------------------------------------------------------------------------------- */

static bool runs(const client *c) {
  return c->manager && !c->machine.gone;
}

static int64_t client_due(const client *c) {
  if (!runs(c)) return INT64_MAX;
  int64_t due = mt_manager_due(c->manager),
          beat = c->beating ? mt_heartbeat_due(&c->heart) : INT64_MAX;
  if (beat < due) due = beat;
  if (due == INT64_MAX) return due;
  due -= c->machine.skew;
  int64_t now = sim_now(c->sim->w);
  if (due < now) due = now;
  return due < c->machine.stopped_until ? c->machine.stopped_until : due;
}

static void client_run(client *c) {
  if (!runs(c) || c->machine.stopped_until > sim_now(c->sim->w)) return;
  if (c->beating) mt_heartbeat_tick(&c->heart);
  if (mt_manager_due(c->manager) <= client_now(c)) mt_manager_tick(c->manager);
}

/* Runs until `until`, or until nothing is left to do. */
static void run(sim *s, int64_t until) {
  int spins = 0;
  while (!s->failure) {
    int64_t at = sim_next(s->w);
    for (size_t i = 0; i < s->n; i++) {
      int64_t due = client_due(&s->clients[i]);
      if (due < at) at = due;
    }
    if (at > until) return;
    spins = at == sim_now(s->w) ? spins + 1 : 0;
    if (spins > 100000) fail(s, "it spins");
    sim_advance(s->w, at);
    for (size_t i = 0; i < s->n; i++) client_run(&s->clients[i]);
  }
}

static void check_all_ended(sim *s) {
  for (size_t i = 0; i < CLIENTS; i++) {
    for (size_t k = 0; k < TASKS; k++) {
      task *t = &s->clients[i].tasks[k];
      if (s->clients[i].machine.gone) continue;
      if (t->state != TASK_IDLE) fail(s, "a task hangs");
    }
  }
}

static void closed(void *ctx) {
  ((client *)ctx)->closed = true;
}

/* Once the dead's leases have passed, one client more can lock everything, and nothing is left. */
static void check_rest(sim *s) {
  for (size_t i = 0; i < CLIENTS; i++) {
    client *c = &s->clients[i];
    if (!runs(c)) continue;
    c->closing = true;
    mt_manager_close(c->manager, client_now(c) + 3000, closed, c);
  }
  run(s, sim_now(s->w) + 3 * LEASE);
  for (size_t i = 0; i < CLIENTS; i++)
    if (runs(&s->clients[i]) && !s->clients[i].closed) fail(s, "a client does not close");
  client *last = &s->clients[s->n++];
  client_open(s, last, CLIENTS);
  for (size_t i = 0; i < sizeof paths / sizeof paths[0] && !s->failure; i++) {
    task *t = &last->tasks[0];
    t->wants[0] = (mt_want){mt_slice_of(paths[i]), MT_X};
    t->rounds = ROUNDS;
    t->acquire = (mt_acquire){
        .done = acquired, .ctx = t, .wants = t->wants, .n = 1, .task = 1, .wait_ms = 6 * LEASE};
    t->state = TASK_TAKING;
    mt_manager_acquire(last->manager, &t->acquire);
    run(s, sim_now(s->w) + 12 * LEASE);
    if (t->state != TASK_IDLE || !t->lock) fail(s, "what the dead left cannot be locked");
    t->lock = NULL;
  }
  last->closing = true;
  mt_manager_close(last->manager, client_now(last) + 3000, closed, last);
  run(s, sim_now(s->w) + LEASE);
  if (!s->failure && sim_table_locks(s->table)) fail(s, "locks are left behind at rest");
}

static void schedule(sim *s, uint64_t seed) {
  *s = (sim){.w = sim_world_new(seed), .n = CLIENTS};
  static const unsigned levels[] = {0, 0, 5, 20, 60};
  unsigned bad = levels[sim_below(s->w, 5)];
  const sim_faults faults = {.drop_request = bad,
                             .drop_answer = bad,
                             .duplicate = bad,
                             .late = bad,
                             .conflict = 2 * bad,
                             .busy = bad,
                             .late_ms = 2 * LEASE};
  s->table = sim_table_new(s->w, &faults);
  for (int i = 0; i < CLIENTS; i++) client_open(s, &s->clients[i], i);
  for (size_t i = 0; i < CLIENTS; i++)
    for (size_t k = 0; k < TASKS; k++) act_later(&s->clients[i].tasks[k]);
  int64_t start = sim_now(s->w);
  for (size_t n = sim_below(s->w, 4); n; n--)
    sim_at(s->w, start + sim_between(s->w, 0, 20000), misfortune, s);
  run(s, start + 40 * LEASE);
  sim_table_calm(s->table);
  run(s, sim_now(s->w) + 20 * LEASE);
  if (!s->failure) check_all_ended(s);
  if (!s->failure) check_rest(s);
}

static void clean(sim *s) {
  for (size_t i = 0; i < s->n; i++) {
    client *c = &s->clients[i];
    if (c->beating) mt_heartbeat_deinit(&c->heart);
    c->beating = false;
    s->takeovers += mt_manager_get_stats(c->manager).takeovers;
    mt_manager_free(c->manager);
    mt_store_close(c->store);
    mt_store_close(c->beat_store);
  }
  sim_table_free(s->table);
  sim_world_free(s->w);
  free(s->pasts);
}

int main(int argc, char **argv) {
  uint64_t seed = 1, schedules = 1000;
  /* Schedules come and go by the thousand: keep their memory. */
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 0);
    if (strcmp(argv[i], "--schedules") == 0) schedules = strtoull(argv[i + 1], NULL, 0);
  }
  uint64_t grants = 0, timeouts = 0, losses = 0, takeovers = 0, crashes = 0, failures = 0;
  for (uint64_t i = 0; i < schedules && failures < 5; i++) {
    sim s;
    schedule(&s, seed + i);
    if (s.failure) {
      printf("seed %" PRIu64 ": %s\n", seed + i, s.failure);
      failures++;
    }
    clean(&s);
    grants += s.grants;
    timeouts += s.timeouts;
    losses += s.losses;
    takeovers += s.takeovers;
    crashes += s.crashes;
  }
  printf("%" PRIu64 " schedules, %" PRIu64 " grants, %" PRIu64 " time-outs, %" PRIu64
         " lost, %" PRIu64 " crashes, %" PRIu64 " take-overs, %" PRIu64 " failures\n",
         schedules, grants, timeouts, losses, crashes, takeovers, failures);
  return failures ? 1 : 0;
}
