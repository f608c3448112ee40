/* Hints among the clients of one host: delivered at once, late, or not at all; and forged ones, up to a
 * thousand a second, of both kinds, at any place. Nothing that must hold may depend on them. */
#include "sim.h"

#include <stdlib.h>

enum {
  LATE_MOST_MS = 2 * LEASE,
  FLOOD_EACH_MS = 10,
  FLOOD_HINTS = 10, /* each time */
  FLOOD_MS = 3000,
  D_LOST = 1,
  D_LATE,
  D_HOW_LATE,
  D_KIND,
  D_WHO,
  D_WHOM,
  D_PLACE,
  D_N,
};

typedef struct sim_hint {
  sim *s;
  client *to;
  mt_hint hint;
  struct sim_hint *next;
} sim_hint;

static int64_t dice(sim *s, unsigned detail, int64_t least, int64_t most) {
  return sim_between(s->w, sim_key_of(SIM_HINT, 0, s->hints_sent, detail), least, most);
}

static void hint_arrives(void *ctx) {
  sim_hint *h = ctx;
  client *c = h->to;
  int64_t stopped = c->machine.stopped_until[SIM_MAIN];
  if (!sim_client_runs(c)) return;
  if (stopped > sim_now(h->s->w))
    sim_at(h->s->w, stopped, hint_arrives, h);
  else
    mt_manager_hinted(c->manager, &h->hint);
}

static void post_hint(sim *s, client *to, const mt_hint *hint, int64_t after_ms) {
  sim_hint *h = sim_must(malloc(sizeof *h));
  *h = (sim_hint){s, to, *hint, s->hints};
  s->hints = h;
  sim_at(s->w, sim_now(s->w) + after_ms, hint_arrives, h);
}

static client *neighbour(const client *c, const char *session) {
  sim *s = c->sim;
  for (size_t i = 0; i < s->n; i++) {
    client *other = &s->clients[i];
    const mt_session *theirs = sim_client_runs(other) ? mt_manager_session(other->manager) : NULL;
    if (theirs && other->host == c->host && strcmp(theirs->id, session) == 0) return other;
  }
  return NULL;
}

bool sim_hint_send(void *ctx, const mt_hint *hint) {
  client *c = ctx;
  sim *s = c->sim;
  client *to = s->profile.hints ? neighbour(c, hint->to) : NULL;
  if (!to) return false;
  s->hints_sent++;
  if (dice(s, D_LOST, 0, 999) < s->profile.hints_lost) return true;
  bool late = dice(s, D_LATE, 0, 999) < s->profile.hints_lost;
  post_hint(s, to, hint, late ? dice(s, D_HOW_LATE, 1, LATE_MOST_MS) : 0);
  return true;
}

/* ---- Forged --------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *path) {
  uint64_t h = UINT64_C(14695981039346656037);
  for (; *path; path++) h = (h ^ (unsigned char)*path) * UINT64_C(1099511628211);
  return h ^ h >> 29;
}

static void forge_one(sim *s) {
  s->hints_sent++;
  client *to = &s->clients[dice(s, D_WHO, 0, (int64_t)s->n - 1)];
  client *from = &s->clients[dice(s, D_WHOM, 0, (int64_t)s->n - 1)];
  if (!sim_client_runs(to) || !sim_client_runs(from)) return;
  const mt_session *mine = mt_manager_session(to->manager);
  const mt_session *theirs = mt_manager_session(from->manager);
  if (!mine || !theirs) return;
  mt_hint h = {.kind = dice(s, D_KIND, 0, 2) ? MT_HINT_GONE : MT_HINT_WAITS,
               .place = hash_of(sim_paths[dice(s, D_PLACE, 0, SIM_PATHS - 1)]),
               .n = (uint64_t)dice(s, D_N, 0, 200)};
  memcpy(h.to, mine->id, sizeof h.to);
  memcpy(h.from, theirs->id, sizeof h.from);
  post_hint(s, to, &h, 0);
}

static void flood(void *ctx) {
  sim *s = ctx;
  for (int i = 0; i < FLOOD_HINTS; i++) forge_one(s);
  if (sim_now(s->w) < s->flood_until) sim_at(s->w, sim_now(s->w) + FLOOD_EACH_MS, flood, s);
}

void sim_hints_begin(sim *s) {
  if (!s->profile.flood) return;
  s->flood_until = sim_now(s->w) + FLOOD_MS;
  flood(s);
}

void sim_hints_clean(sim *s) {
  while (s->hints) {
    sim_hint *h = s->hints;
    s->hints = h->next;
    free(h);
  }
}
