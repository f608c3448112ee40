/* Who really waits for whom, computed from time to time from the managers' memory and the store's
 * table at one moment. This shows whether a reported deadlock was real, and whether an existing one
 * is found. */
#include "lock/attempt.h"
#include "sim.h"

enum {
  EACH_MS = 100,
  STALE_MS = 6000,   /* a cycle that ended this long ago may still be reported */
  UNFOUND_MS = 5000, /* one this old should have been found, if nothing is lost */
  TASKS_MOST = SLOTS * TASKS,
};

/* ---- What a task waits for, and what it has ------------------------------------------------- */

static const mt_attempt *attempt_of(const task *t) {
  const client *c = t->client;
  if (!sim_client_runs(c) || c->closing) return NULL;
  if (t->state == TASK_TAKING) return t->acquire.op;
  if (t->state == TASK_CONVERTING && t->convert.asking) return t->convert.acquire.op;
  return NULL;
}

static const mt_part *place_of(const mt_attempt *at) {
  bool waits = at->phase == MT_PHASE_LINE || at->phase == MT_PHASE_QUEUE || at->wait.number;
  if (!waits || !at->wait.lock->holds) return NULL;
  size_t i = at->phase == MT_PHASE_LINE ? at->entered : at->pos;
  return i < at->wait.lock->n ? &at->wait.lock->parts[i] : NULL;
}

static const mt_part *part_at(const mt_lock *lock, mt_place place) {
  for (size_t i = 0; lock && i < lock->n; i++)
    if (mt_place_equal(lock->parts[i].place, place)) return &lock->parts[i];
  return NULL;
}

/* Does this task share the hold there? */
static bool shares(const task *t, mt_place place) {
  const mt_attempt *at = attempt_of(t);
  const mt_part *part = at ? part_at(at->wait.lock, place) : NULL;
  if (part && part->state >= MT_PART_IN) return true;
  for (size_t i = 0; i < t->depth; i++) {
    part = part_at(t->grips[i].lock, place);
    if (part && part->state >= MT_PART_IN) return true;
  }
  return false;
}

/* ---- In whose way --------------------------------------------------------------------------- */

static bool lined_before(const mt_part *first, const mt_part *second) {
  if (first->state != MT_PART_LINED || first->hold != second->hold) return false;
  for (const mt_part *p = first; p; p = p->next)
    if (p == second) return true;
  return false;
}

static bool waits_here(const mt_part *x, const task *other) {
  const mt_part *y = part_at(attempt_of(other)->wait.lock, x->place);
  return shares(other, x->place) || (y && lined_before(y, x));
}

static size_t place_in(const sim_lock_doc *d, const char *session) {
  size_t i = 0;
  while (i < d->n_queue && strcmp(d->queue[i].session, session)) i++;
  return i;
}

/* The session asks for what all its tasks hold there, and this one wants. */
static mt_mode asked(const sim *s, const mt_part *x) {
  const sim_entry *mine = sim_table_holder(s->table, x->place, x->lock->holds->session.id);
  return mine ? mt_mode_join(mine->mode, x->mode) : x->mode;
}

static bool waits_there(const sim *s, const mt_part *x, const task *other) {
  const sim_lock_doc *d = sim_table_lock(s->table, x->place);
  const char *mine = x->lock->holds->session.id;
  const mt_attempt *at = attempt_of(other);
  const char *theirs = at->wait.lock->holds->session.id;
  if (!d) return false;
  mt_mode mode = asked(s, x);
  const sim_entry *held = sim_table_holder(s->table, x->place, theirs);
  if (held && !mt_mode_compatible(held->mode, mode) && shares(other, x->place)) return true;
  size_t before = place_in(d, theirs);
  const mt_part *y = place_of(at);
  return before < place_in(d, mine) && d->queue[before].until > sim_now(s->w) &&
         !mt_mode_compatible(d->queue[before].mode, mode) && y &&
         mt_place_equal(y->place, x->place);
}

/* What adopts waits for its job's living sessions, in whatever stripe and mode they have something. */
static bool guards_there(const sim *s, mt_place place, const task *other) {
  const char *theirs = attempt_of(other)->wait.lock->holds->session.id;
  const sim_entry *held = sim_table_holder(s->table, place, theirs);
  return held && held->job && shares(other, place);
}

static bool guards_in_any_stripe(const sim *s, mt_place place, const task *other) {
  for (place.stripe = 0; place.stripe < SIM_STRIPES; place.stripe++)
    if (guards_there(s, place, other)) return true;
  return false;
}

/* What needs all stripes comes to those that follow, and who holds something there waits for it already: no
 * way leads out of that. */
static bool will_wait(const sim *s, const mt_part *x, const task *other) {
  mt_part one = *x;
  if (mt_mode_is_intention(x->mode)) return false;
  for (one.place.stripe++; one.place.stripe < SIM_STRIPES; one.place.stripe++)
    if (waits_there(s, &one, other)) return true;
  return false;
}

static bool in_the_way(const sim *s, const task *t, const task *other, bool soon) {
  const mt_attempt *at = attempt_of(t);
  const mt_part *x = place_of(at);
  if (t->client == other->client) return at->phase == MT_PHASE_LINE && waits_here(x, other);
  if (at->phase == MT_PHASE_ADOPT)
    return t->client->job == other->client->job && guards_in_any_stripe(s, x->place, other);
  if (at->phase == MT_PHASE_LINE) return false;
  return waits_there(s, x, other) || (soon && will_wait(s, x, other));
}

/* ---- Cycles --------------------------------------------------------------------------------- */

/* The tasks that each task reaches, by number (transitive closure). */
static void close_over(uint32_t reached[TASKS_MOST]) {
  for (unsigned k = 0; k < TASKS_MOST; k++)
    for (unsigned i = 0; i < TASKS_MOST; i++)
      if (reached[i] >> k & 1) reached[i] |= reached[k];
}

/* Two cycles are the same if they have the same tasks in the same waits. */
static void note(const sim *s, task *t, task *const *waiting, size_t n, const uint32_t *reached,
                 bool soon) {
  uint64_t members = 0;
  for (size_t i = 0; i < n; i++) {
    const task *other = waiting[i];
    bool both = reached[t->number] >> other->number & reached[other->number] >> t->number & 1;
    if (both) members = members * 1000003 + other->serial * 64 + other->number + 1;
  }
  if (members) t->cycle_seen = sim_now(s->w);
  if (soon) return;
  if (members && t->cycle != members) t->cycle_since = sim_now(s->w);
  t->cycle = members;
}

static void look(sim *s) {
  uint32_t reached[TASKS_MOST] = {0};
  task *waiting[TASKS_MOST];
  size_t n = 0;
  bool nested = false;
  for (size_t i = 0; i < s->n; i++) {
    for (size_t k = 0; k < TASKS; k++) {
      task *t = &s->clients[i].tasks[k];
      const mt_attempt *at = attempt_of(t);
      if (!at || !place_of(at)) continue;
      nested |= t->depth > 0;
      waiting[n++] = t;
    }
  }
  for (int soon = 0; soon < 2; soon++) {
    for (size_t i = 0; nested && i < n; i++)
      for (size_t k = 0; k < n; k++)
        if (i != k && in_the_way(s, waiting[i], waiting[k], soon))
          reached[waiting[i]->number] |= UINT32_C(1) << waiting[k]->number;
    if (nested) close_over(reached);
    for (size_t i = 0; i < n; i++) note(s, waiting[i], waiting, n, reached, soon);
  }
}

static void look_again(void *ctx) {
  sim *s = ctx;
  if (sim_all_ended(s)) return;
  look(s);
  sim_at(s->w, sim_now(s->w) + EACH_MS, look_again, s);
}

void sim_cycles(sim *s) {
  if (s->profile.nested || s->profile.convert) look_again(s);
}

void sim_check_deadlock(task *t, const mortise_error *err) {
  sim *s = t->client->sim;
  if (!t->depth) sim_fail(s, "a deadlock of a task that holds nothing");
  /* Within a process it is found at once. */
  if (strstr(err->message, "another task of this process")) return;
  if (!t->cycle_seen || sim_now(s->w) - t->cycle_seen > STALE_MS)
    sim_fail(s, "a deadlock is reported where there is none");
}

void sim_check_timeout(task *t) {
  sim *s = t->client->sim;
  if (!t->cycle || sim_now(s->w) - t->cycle_seen > 2 * EACH_MS) return;
  int64_t stood = sim_now(s->w) - t->cycle_since;
  if (stood > s->counts.longest_cycle) s->counts.longest_cycle = stood;
  if (stood > UNFOUND_MS && !s->profile.fault_level && !s->profile.misfortunes)
    sim_fail(s, "a deadlock is not found");
}
