/* What must hold when all is over. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

bool sim_task_ended(const task *t) {
  const client *c = t->client;
  if (c->machine.gone || c->closing) return true;
  return t->state == TASK_IDLE && !t->depth && t->round >= c->sim->profile.rounds;
}

bool sim_all_ended(const sim *s) {
  for (size_t i = 0; i < s->n; i++)
    for (size_t k = 0; k < TASKS; k++)
      if (!sim_task_ended(&s->clients[i].tasks[k])) return false;
  return true;
}

/* And keeps nothing from an adoption. */
static bool stands(const sim *s, const char *session) {
  for (size_t i = 0; i < s->n; i++) {
    const client *c = &s->clients[i];
    const mt_session *mine =
        sim_client_runs(c) && !c->failed ? mt_manager_session(c->manager) : NULL;
    if (mine && strcmp(mine->id, session) == 0) return true;
  }
  return false;
}

/* No task holds anything, so the table has no entries of live sessions, except those put back by a
 * copy of an answered request (docs/guarantees.md). */
static void check_nothing_kept(sim *s) {
  size_t n;
  const sim_lock_doc *d = sim_table_locks(s->table, &n);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < d[i].n_holders; k++) {
      const sim_entry *e = &d[i].holders[k];
      if (!stands(s, e->session)) continue;
      s->counts.leftovers++;
      sim_trace(s->w, "left: %s %s of %.6s n %llu%s", d[i].path, mt_mode_name(e->mode), e->session,
                (unsigned long long)e->n, e->repeated ? ", by a copy" : "");
      if (!e->repeated) sim_fail(s, "a session that goes on keeps what no task of it holds");
    }
  }
}

static void close_all(sim *s) {
  for (size_t i = 0; i < s->n; i++) sim_client_close(&s->clients[i], false);
  sim_run(s, sim_now(s->w) + 3 * LEASE, false);
  for (size_t i = 0; i < s->n; i++)
    if (sim_client_runs(&s->clients[i]) && !s->clients[i].closed)
      sim_fail(s, "a client does not close");
}

static bool has_orphan(const sim *s, int path, unsigned job, mt_mode *mode) {
  for (uint32_t stripe = 0; stripe < sim_stripes(s, path); stripe++) {
    const sim_lock_doc *d = sim_table_lock(s->table, sim_place(path, stripe));
    for (size_t i = 0; d && i < d->n_holders; i++) {
      *mode = d->holders[i].mode;
      if (d->holders[i].job == job) return true;
    }
  }
  return false;
}

/* Takes over all that is left of the job, place by place, and gives it back. */
static void recover(sim *s, client *heir) {
  task *t = &heir->tasks[0];
  mt_mode mode;
  for (int i = 0; i < 2 * SIM_PATHS && !s->failure; i++) {
    if (!has_orphan(s, i % SIM_PATHS, heir->job, &mode)) continue;
    t->wants[0] = (mt_want){mt_slice_of(sim_paths[i % SIM_PATHS]), mode};
    t->round = s->profile.rounds;
    t->step = 100;
    sim_task_take(t, 1, 6 * LEASE, true);
    sim_run(s, sim_now(s->w) + 12 * LEASE, true);
    if (!sim_task_ended(t)) sim_fail(s, "an adoption hangs");
  }
}

/* One job's guard may stand in the way of another's recovery. */
static void recover_all(sim *s) {
  client *heirs[JOBS];
  for (unsigned i = 0; i < JOBS; i++) heirs[i] = sim_client_open(s, 99, i + 1);
  for (int round = 0; round < 2; round++)
    for (unsigned i = 0; i < JOBS; i++) recover(s, heirs[i]);
  /* Late copies can guard a path for two jobs, in different stripes; then neither can have all. */
  s->giving = s->net.stripes > 1;
  for (unsigned i = 0; i < JOBS && s->giving; i++) recover(s, heirs[i]);
  s->giving = false;
  close_all(s);
}

/* A further client can lock everything once the leases of dead sessions have passed. */
static void lock_all(sim *s) {
  client *last = sim_client_open(s, 99, 0);
  task *t = &last->tasks[0];
  for (int i = 0; i < SIM_PATHS && !s->failure; i++) {
    t->wants[0] = (mt_want){mt_slice_of(sim_paths[i]), MT_X};
    t->round = s->profile.rounds;
    t->step = 100; /* gives it back at once */
    sim_task_take(t, 1, 6 * LEASE, false);
    uint64_t grants = s->counts.grants;
    sim_run(s, sim_now(s->w) + 12 * LEASE, true);
    if (!sim_task_ended(t) || s->counts.grants == grants)
      sim_fail(s, "what the dead left cannot be locked");
  }
}

/* What is left of sessions, but for guards. */
static size_t litter(const sim *s) {
  size_t n, left = 0;
  const sim_lock_doc *d = sim_table_locks(s->table, &n);
  for (size_t i = 0; i < n; i++) {
    left += d[i].n_queue;
    for (size_t k = 0; k < d[i].n_holders; k++) left += !d[i].holders[k].job;
  }
  return left;
}

/* More sessions that died with what they held, at one moment. */
static void bury(sim *s) {
  enum { DEAD = 12 };
  for (unsigned i = 0; i < DEAD; i++) {
    char id[MT_SESSION_ID];
    snprintf(id, sizeof id, "%032x", 0xdead00 + i);
    const char *owner =
        "{\"host\":\"elsewhere\",\"boot\":\"b\",\"pidns\":\"1\",\"pid\":1,\"start\":1}";
    mt_session_write open = {
        .verb = MT_SESSION_OPEN, .session = id, .owner = mt_slice_of(owner), .lease_ms = LEASE};
    sim_table_session(s->table, SIM_PRIMARY, &open);
    const char *leaf = sim_paths[sim_below(s->w, sim_own(2000, i), SIM_PATHS)];
    const char *paths[] = {"/", "/a", leaf};
    for (unsigned k = (unsigned)sim_below(s->w, sim_own(2001, i), 3); k < 3; k++) {
      mt_slice path = mt_slice_of(paths[k]);
      mt_lock_item item = {.verb = MT_LOCK_SET,
                           .place = {path, i % mt_place_stripes(path, s->net.stripes)},
                           .n = k + 1,
                           .mode = k < 2 ? MT_IX : MT_X,
                           .fresh = true,
                           .enqueue = k == 2};
      sim_table_item(s->table, SIM_PRIMARY, id, 0, &item, false);
      free(item.blockers);
    }
  }
}

/* A client that lives clears away what the dead left, though nobody wants it. */
static void await_janitor(sim *s) {
  enum {
    JANITOR_LEASES = 12
  }; /* a look each half a lease, and at the latest the eighth lists all */
  if (!s->profile.tidy) return;
  bury(s);
  client *last = sim_client_open(s, 98, 0);
  task *t = &last->tasks[0];
  t->wants[0] = (mt_want){mt_slice_of("/"), MT_IS};
  t->round = s->profile.rounds;
  t->step = 100;
  sim_task_take(t, 1, 60 * LEASE, false);
  sim_run(s, sim_now(s->w) + 60 * LEASE, true);
  sim_run(s, sim_now(s->w) + JANITOR_LEASES * LEASE, false);
  if (litter(s)) sim_fail(s, "what the dead left is not cleared away");
  close_all(s);
}

void sim_check_rest(sim *s) {
  check_nothing_kept(s);
  close_all(s);
  if (s->failure) return;
  for (size_t i = 0; i < s->n; i++) s->clients[i].tasks->round = s->profile.rounds;
  s->profile.cancel = 0;
  s->stream = NULL;
  await_janitor(s);
  if (s->failure) return;
  if (s->profile.jobs) recover_all(s);
  lock_all(s);
  close_all(s);
  size_t left;
  sim_table_locks(s->table, &left);
  if (left) sim_fail(s, "locks are left behind at rest");
}
