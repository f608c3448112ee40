#include "base/pump.h"
#include "cell.h"
#include "client/breaker.h"
#include "client/pulse.h"

#include <stdio.h>

/* ---- A's part ------------------------------------------------------------------------------- */

static bool take(cell *c, const char *path, bool shared, int64_t wait_ms) {
  mortise_error err;
  int64_t start = mt_test_ns();
  bool had = party_take(&c->parties[A], path, shared, wait_ms, &err);
  c->take_ms = (mt_test_ns() - start) / 1000000;
  if (!had && !c->take.code) c->take = err;
  return had;
}

/* Holds for a while, and checks that the lease lasts. */
static void hold(cell *c, int64_t ms) {
  party *a = &c->parties[A];
  c->rival_now = true;
  cell_wait(c, ms);
  if (!*c->failure && !party_holds(a)) c->lost = true;
}

static void give(cell *c) {
  mortise_status status = party_give(&c->parties[A]);
  if (!c->give) c->give = status;
}

static void take_hold_give(cell *c, bool shared) {
  if (!take(c, LEAF, shared, WAIT)) return;
  hold(c, c->row->hold_ms ? c->row->hold_ms : 200);
  give(c);
}

void scene_exclusive(cell *c) {
  take_hold_give(c, false);
}

void scene_shared(cell *c) {
  take_hold_give(c, true);
}

/* Late requests of the first hold must not affect the second. */
static void again(cell *c, bool shared) {
  c->rival_patient = true;
  if (take(c, LEAF, shared, WAIT)) give(c);
  if (!take(c, LEAF, false, WAIT)) return;
  hold(c, 1300);
  give(c);
}

void scene_again(cell *c) {
  again(c, false);
}

void scene_again_shared(cell *c) {
  again(c, true);
}

void scene_close_holding(cell *c) {
  if (take(c, LEAF, true, WAIT)) hold(c, 200);
}

void scene_nested(cell *c) {
  if (!take(c, LEAF, true, WAIT)) return;
  bool upgraded = take(c, LEAF, false, WAIT);
  hold(c, 200);
  if (upgraded) give(c);
  hold(c, 200);
  give(c);
}

/* A lock that A still holds elsewhere must not keep others from the leaf. */
static void beside(cell *c, bool shared) {
  party *a = &c->parties[A];
  if (!take(c, OTHER, false, WAIT)) return;
  take_hold_give(c, shared);
  await_rival(c, 3 * LEASE);
  if (!*c->failure && !party_holds(a)) cell_fail(c, "A lost the other lock");
  give(c);
}

void scene_beside(cell *c) {
  beside(c, false);
}

void scene_beside_shared(cell *c) {
  beside(c, true);
}

/* ---- With a holder -------------------------------------------------------------------------- */

static void let_holder_take(cell *c, mt_loop *loop) {
  mortise_error err;
  party_open(c, HOLDER, c->place->url, loop);
  if (!party_take(&c->parties[HOLDER], LEAF, false, WAIT, &err))
    cell_fail(c, "the holder: %s", err.message);
}

/* A begins, the holder gives back a while later. */
static void take_behind(cell *c, int64_t wait_ms, int64_t holder_ms) {
  party *a = &c->parties[A], *holder = &c->parties[HOLDER];
  int64_t start = mt_test_ns();
  let_holder_take(c, c->loop);
  party_begin(a, LEAF, false, wait_ms);
  cell_pump(c, &a->acquire.finished, holder_ms);
  bool early = a->acquire.finished;
  if (early && !*c->failure && !party_took(a, &c->take)) cell_wait(c, holder_ms - wait_ms);
  party_give(holder);
  if (!early && !cell_pump(c, &a->acquire.finished, wait_ms + SLACK)) {
    mt_manager_cancel(a->manager, &a->acquire);
    cell_fail(c, "A still waits after %lld ms", (long long)(wait_ms + SLACK));
  }
  if (!early && !*c->failure) party_took(a, &c->take);
  c->take_ms = (mt_test_ns() - start) / 1000000;
}

void scene_wait(cell *c) {
  take_behind(c, WAIT, 700);
  if (!c->parties[A].claims[0].lock) return;
  hold(c, 200);
  give(c);
}

void scene_time_out(cell *c) {
  take_behind(c, 400, 900);
  if (!c->parties[A].claims[0].lock) return;
  cell_fail(c, "A got what the holder held");
}

/* ---- With a dead holder --------------------------------------------------------------------- */

/* The holder keeps its lock and does nothing from here on. */
static void let_holder_fall_silent(cell *c) {
  mortise_error err;
  mt_loop *live = c->loop;
  c->dead_loop = mt_loop_new(&err);
  if (!c->dead_loop) {
    cell_fail(c, "%s", err.message);
    return;
  }
  c->loop = c->dead_loop; /* run only until it holds */
  let_holder_take(c, c->dead_loop);
  c->loop = live;
  mortise_client *client = c->parties[HOLDER].client;
  if (!client) return;
  mt_pulse_stop(client->own->pulse);
  client->own->pulse = NULL;
}

static void bury(party *holder) {
  holder->claims[0].lock = NULL;
  mt_client_free(holder->client);
  holder->client = NULL;
}

static void take_over(cell *c) {
  if (!take(c, LEAF, false, WAIT)) return;
  hold(c, 200);
  give(c);
}

void scene_silent_dead(cell *c) {
  let_holder_fall_silent(c);
  take_over(c);
  if (*c->failure) return;
  if (party_holds(&c->parties[HOLDER])) cell_fail(c, "the holder was never dead");
  bury(&c->parties[HOLDER]);
}

static bool write_session(cell *c, mt_store *store, mt_session_write w) {
  w.req = (mt_req){0};
  w.ns = c->ns;
  store->locks->session(store, &w);
  if (!cell_pump(c, &w.req.finished, 10000)) mt_store_cancel(store, &w.req);
  if (w.result != MT_SESSION_ACKED) cell_fail(c, "a session's write: %s", w.req.error.message);
  return w.result == MT_SESSION_ACKED;
}

/* A client without faults closes the holder's session; its entries stay. */
static void let_holder_be_closed(cell *c, char id[MT_SESSION_ID]) {
  let_holder_fall_silent(c);
  if (*c->failure) return;
  memcpy(id, mt_manager_session(c->parties[HOLDER].manager)->id, MT_SESSION_ID);
  bury(&c->parties[HOLDER]); /* it believes in nothing any more */
  write_session(c, c->parties[RIVAL].client->store,
                (mt_session_write){.verb = MT_SESSION_CLOSE, .session = id});
}

void scene_closed_dead(cell *c) {
  char id[MT_SESSION_ID];
  let_holder_be_closed(c, id);
  take_over(c);
}

/* ---- Adopting ------------------------------------------------------------------------------- */

/* From now on the party works for a job, in another session of its client. */
static mt_client_session *begin_job(cell *c, party *p) {
  mortise_error err;
  if (*c->failure) return NULL;
  mt_client_session *session = mt_client_session_new(p->client, "job-1", &err);
  if (!session) cell_fail(c, "%s: %s", p->name, err.message);
  if (session) p->manager = session->manager;
  return session;
}

static void end_job(cell *c, party *p, mt_client_session *session, bool keep_guard) {
  bool ended = false;
  if (*c->failure) return;
  p->claims[0].lock = NULL;
  mt_client_session_close(session, keep_guard, mt_flag_set, &ended);
  if (!cell_pump(c, &ended, 2 * WAIT)) cell_fail(c, "a session of %s has no end", p->name);
}

static void let_holder_leave_guard(cell *c) {
  party *holder = &c->parties[HOLDER];
  mortise_error err;
  party_open(c, HOLDER, c->place->url, c->loop);
  mt_client_session *session = begin_job(c, holder);
  if (session && !party_take(holder, LEAF, false, WAIT, &err))
    cell_fail(c, "the holder: %s", err.message);
  if (session) end_job(c, holder, session, true);
  party_close(holder);
}

/* The recovery of a job: a session of A takes over what its dead session holds, and gives it back.
 * Nobody gets in between. If that fails, it leaves what it has got, and another session succeeds. */
void scene_adopt(cell *c) {
  party *a = &c->parties[A];
  mt_client_session *session = NULL;
  bool had = false;
  c->rival_patient = true;
  let_holder_leave_guard(c);
  a->adopts = true;
  for (int tries = 0; tries < 2 && !had && !*c->failure; tries++) {
    if (session) end_job(c, a, session, true);
    session = begin_job(c, a);
    had = session && take(c, LEAF, false, WAIT);
  }
  if (!had && !*c->failure) cell_fail(c, "nobody can recover the job: %s", c->take.message);
  if (!had) return;
  hold(c, 700);
  if (!*c->failure && c->rival >= RIVAL_HOLDING) cell_fail(c, "the rival had what was adopted");
  give(c);
  end_job(c, a, session, false);
  a->adopts = false;
  a->manager = mt_client_manager(a->client, NULL);
}

/* ---- Breaking ------------------------------------------------------------------------------- */

/* With `guards`, since only its evictions say so, by which faults find them. */
static bool break_session(cell *c, const char *id, mortise_error *err) {
  mt_breaker *breaker = mt_breaker_start(c->parties[A].client, id, true, err);
  int64_t end = mt_test_ns() / 1000000 + BREAK;
  if (!breaker) return false;
  const mt_breaking *state = mt_breaker_state(breaker);
  while (!*c->failure && !mt_breaking_over(state) && mt_test_ns() / 1000000 < end) cell_wait(c, 10);
  if (!mt_breaking_over(state)) cell_fail(c, "A still breaks after %d ms", BREAK);
  *err = state->error;
  bool broken = state->phase == MT_BREAKING_DONE;
  if (broken && !state->evicted && c->rival == RIVAL_OUT)
    cell_fail(c, "nothing was evicted, and nobody else can have done it");
  mt_breaker_free(breaker);
  return broken;
}

/* The holder's heartbeat goes on, and it never gives its locks back. If breaking fails, repeating
 * it continues. */
void scene_break(cell *c) {
  party *holder = &c->parties[HOLDER];
  mortise_error err = {0};
  int64_t start = mt_test_ns();
  char id[MT_SESSION_ID];
  let_holder_take(c, c->loop);
  if (*c->failure) return;
  memcpy(id, mt_manager_session(holder->manager)->id, sizeof id);
  bool broken = break_session(c, id, &err);
  if (!broken) c->take = err;
  if (!broken && !err.code) cell_fail(c, "A failed without saying why");
  if (!broken && !break_session(c, id, &err)) cell_fail(c, "A cannot go on: %s", err.message);
  c->take_ms = (mt_test_ns() - start) / 1000000;
  if (!*c->failure && party_holds(holder)) cell_fail(c, "the holder believes, and it was broken");
}
