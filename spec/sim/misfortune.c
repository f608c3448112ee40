/* The faults of a schedule other than those of single requests: processes are killed and restarted,
 * threads stop, machines lose the network, another primary takes over, somebody breaks a lock by
 * hand. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  D_WHEN = 1,
  D_WHO,
  D_WHAT,
  D_HOW_LONG,
  D_AGAIN,
};

static int64_t dice(const bad_luck *b, unsigned detail, int64_t least, int64_t most) {
  return sim_between(b->s->w, sim_key_of(SIM_MISFORTUNE, 0, b->number, detail), least, most);
}

static int64_t how_long(const bad_luck *b, int64_t most) {
  return dice(b, D_HOW_LONG, 10, most);
}

static void say(const client *c, const char *what, int64_t until) {
  sim *s = c->sim;
  if (until)
    sim_trace(s->w, "client %u: %s until %" PRId64, c->number, what, until - 1000000);
  else
    sim_trace(s->w, "client %u: %s", c->number, what);
}

static void come_again(void *ctx) {
  client *c = ctx;
  sim *s = c->sim;
  if (s->calm || s->n >= SLOTS - 2 - JOBS) return;
  client *new = sim_client_open(s, c->host, c->job);
  say(new, "begins", 0);
  for (size_t i = 0; i < TASKS; i++) sim_task_later(&new->tasks[i]);
}

static void go_away(const bad_luck *b, client *c, bool killed) {
  say(c, killed ? "is killed" : "closes", 0);
  if (killed)
    sim_client_kill(c);
  else
    sim_client_close(c, dice(b, D_AGAIN, 0, 2) > 0);
  if (dice(b, D_AGAIN, 0, 1)) sim_at(b->s->w, sim_now(b->s->w) + how_long(b, 4000), come_again, c);
}

/* A moment, about as long as a lease is believed, or longer. */
static int64_t stop_length(const bad_luck *b) {
  if (dice(b, D_AGAIN, 0, 1)) return how_long(b, 2 * LEASE);
  return LEASE - MARGIN + how_long(b, LEASE / 3) - LEASE / 6;
}

static void stop(const bad_luck *b, client *c, bool main_thread, bool beat_thread) {
  int64_t now = sim_now(b->s->w), until = now + stop_length(b);
  if (main_thread && c->machine.stopped_until[SIM_MAIN] < until)
    c->machine.stopped_until[SIM_MAIN] = until;
  if (beat_thread && c->machine.stopped_until[SIM_BEAT] < until)
    c->machine.stopped_until[SIM_BEAT] = until;
  c->stalled_ms += until - now;
  say(c, main_thread ? beat_thread ? "is stopped" : "computes" : "does not beat", until);
}

static void cut(const bad_luck *b, client *c) {
  int64_t now = sim_now(b->s->w);
  c->machine.cut_until = now + how_long(b, 2 * LEASE);
  c->machine.cut = (unsigned)dice(b, D_AGAIN, 1, 3);
  c->stalled_ms += c->machine.cut_until - now;
  say(c,
      c->machine.cut == SIM_CUT_REQUESTS  ? "cannot be heard"
      : c->machine.cut == SIM_CUT_ANSWERS ? "cannot hear"
                                          : "is cut off",
      c->machine.cut_until);
}

static void fail_over(const bad_luck *b) {
  /* For longer than a lease, clients of the old primary do not see the beats sent to the new
   * one. */
  bool is_long = b->s->profile.split || dice(b, D_AGAIN, 0, 1);
  int64_t most = is_long ? 3 * LEASE : LEASE / 2;
  sim_net_fail_over(&b->s->net, dice(b, D_HOW_LONG, is_long ? LEASE : 100, most), b->number);
}

static void broken(void *ctx, mt_req *req) {
  (void)ctx;
  (void)req;
}

/* Marks a session; the owner stops believing at its deadline, others end it a lease later. */
static void break_by_hand(const bad_luck *b, const client *c) {
  sim *s = b->s;
  const mt_session *session = c->manager ? mt_manager_session(c->manager) : NULL;
  if (!session || s->broken[0]) return;
  say(c, "has its session broken by hand", 0);
  snprintf(s->broken, sizeof s->broken, "%s", session->id);
  s->breaking = (mt_session_write){
      .req = {.done = broken}, .verb = MT_SESSION_BREAK, .ns = "sim", .session = s->broken};
  s->admin_store->locks->session(s->admin_store, &s->breaking);
}

static void strike_now(void *ctx);

/* The worst moment to be stopped is when a beat is under way. */
static bool waits_for_beat(bad_luck *b, const client *c) {
  if (!c->beating || c->heart.busy || b->patience++ > LEASE / 6) return false;
  sim_at(b->s->w, sim_now(b->s->w) + 1, strike_now, b);
  return true;
}

static void strike(bad_luck *b) {
  sim *s = b->s;
  client *c = &s->clients[dice(b, D_WHO, 0, (int64_t)s->n - 1)];
  int64_t what = dice(b, D_WHAT, 0, 99);
  if (s->calm) return;
  if (what >= 40 && what < 60 && !s->profile.split && sim_client_runs(c) && waits_for_beat(b, c))
    return;
  s->counts.misfortunes++;
  if (what < 25 || s->profile.split)
    fail_over(b);
  else if (!sim_client_runs(c) || c->closing)
    return;
  else if (what < 40)
    go_away(b, c, true);
  else if (what < 45)
    go_away(b, c, false);
  else if (what < 60)
    stop(b, c, true, true);
  else if (what < 68)
    stop(b, c, true, false);
  else if (what < 76)
    stop(b, c, false, true);
  else if (what < 95)
    cut(b, c);
  else
    break_by_hand(b, c);
}

static void strike_now(void *ctx) {
  strike(ctx);
}

void sim_misfortunes(sim *s) {
  for (unsigned i = 0; i < s->profile.misfortunes && i < BAD_LUCK; i++) {
    bad_luck *b = &s->bad_luck[i];
    *b = (bad_luck){s, i, 0};
    if (sim_happens(s->w, sim_key_of(SIM_MISFORTUNE, 0, i, 0), 1000))
      sim_at(s->w, sim_now(s->w) + dice(b, D_WHEN, 0, s->profile.horizon), strike_now, b);
  }
}
