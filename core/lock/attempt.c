#include "lock/attempt.h"

#include "base/mem.h"
#include "base/pump.h"
#include "lock/look.h"
#include "lock/obstacle.h"
#include "lock/successor.h"
#include "lock/takeover.h"

#include <stdio.h>

enum {
  POLL_FIRST_MS = 5,
  TOLD_MAX = 4,       /* of those who hold, told that it waits */
  LOOK_AGAIN_MS = 50, /* after one that failed */
  TELL_MS = 1000,     /* time between notices, and before the first */
  ADOPT_LOOKS = 3,    /* of one who tries but once, where the store does not answer */
  CROWDED_MS = 1000,  /* after a denial at a path with stripes */
  REWRITE_MS = 250,   /* a hold that tasks pass on is rewritten after this, to see its queue */
};

static void take_next_part(mt_attempt *at);

/* ---- Making and ending ---------------------------------------------------------------------- */

static mt_attempt *attempt_of(const mt_wait *w) {
  return (mt_attempt *)w;
}

/* What two adopt at once would be given up by neither alone. */
static mortise_status check_adopting(const mt_manager *m, mortise_error *err) {
  const char *wrong = m->job ? NULL : "only the session of a job adopts locks";
  for (const mt_wait *w = m->waits->first; w && !wrong; w = w->next)
    if (((const mt_attempt *)w)->a->adopts) wrong = "this session is adopting locks already";
  return wrong ? mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s", wrong) : MORTISE_OK;
}

mortise_status mt_attempt_new(mt_manager *m, mt_acquire *a, mortise_error *err) {
  if (a->adopts && check_adopting(m, err)) return err->code;
  mt_attempt *at = mt_calloc(1, sizeof *at);
  mt_lock *lock = at ? mt_lock_new(m, a, err) : NULL;
  if (!lock) {
    if (!at) mt_error_memory(err);
    mt_free(at);
    return err->code;
  }
  int64_t wait = a->wait_ms < 0 ? m->wait_ms : a->wait_ms;
  at->wait = (mt_wait){
      .manager = m, .lock = lock, .once = wait == 0, .blocks_siblings = a->blocks_siblings};
  lock->wait = &at->wait;
  mt_wait_link(&at->wait);
  at->a = a;
  a->op = at;
  at->since_ms = mt_manager_now(m);
  at->tell_ms = at->since_ms + TELL_MS;
  at->deadline_ms = at->since_ms + wait;
  at->denied = SIZE_MAX;
  return MORTISE_OK;
}

static void tell_over(mt_attempt *at) {
  mt_manager *m = at->wait.manager;
  const mortise_notice n = {.kind = MORTISE_NOTICE_WAIT_OVER,
                            .wait = at->notice_id,
                            .for_ms = mt_manager_now(m) - at->since_ms,
                            .lease_ms = -1};
  if (at->notice_id) m->config.notice(m->config.ctx, &n);
}

/* Frees the attempt but keeps its lock. */
static void end_attempt(mt_attempt *at) {
  mt_adoption_free(at->adoption);
  tell_over(at);
  mt_wait_unlink(&at->wait);
  at->wait.lock->wait = NULL;
  at->a->op = NULL;
  mt_free(at);
}

void mt_attempt_abandon(mt_attempt *at) {
  mt_lock *lock = at->wait.lock;
  mt_lock_give_back(lock, 0, NULL);
  end_attempt(at);
  mt_lock_free(lock);
}

static void end_acquire(mt_acquire *a, const mortise_error *err) {
  if (err) a->error = *err;
  MT_FINISH(a);
}

static void fail_attempt(mt_attempt *at, const mortise_error *err) {
  mt_acquire *a = at->a;
  mortise_error copy = *err; /* `err` may point into the attempt */
  mt_attempt_abandon(at);
  end_acquire(a, &copy);
}

static void succeed(mt_attempt *at) {
  mt_lock *lock = at->wait.lock;
  mt_acquire *a = at->a;
  if (a->adopts) mt_adoption_settle(lock);
  end_attempt(at);
  mt_lock_granted(lock);
  a->lock = lock;
  mt_error_clear(&a->error);
  end_acquire(a, NULL);
}

/* What its job's dead sessions held there, and this one in vain, goes. */
static void give_adopted(mt_attempt *at) {
  mt_acquire *a = at->a;
  mt_adoption_settle(at->wait.lock);
  mt_attempt_abandon(at);
  end_acquire(a, NULL);
}

/* ---- What it tells -------------------------------------------------------------------------- */

static bool tells(const mt_attempt *at) {
  return at->wait.manager->config.notice && at->wait.number && !at->wait.once;
}

static void tell_still_waiting(mt_attempt *at, int64_t now) {
  mt_manager *m = at->wait.manager;
  const mt_part *part = &at->wait.lock->parts[at->wait.at];
  mortise_blockers all;
  if (!tells(at) || now < at->tell_ms) return;
  if (!at->notice_id) at->notice_id = ++m->waits->last_told;
  at->tell_ms = now + TELL_MS;
  mt_obstacles(&at->wait, &all);
  mortise_notice n = {.kind = MORTISE_NOTICE_WAITING,
                      .wait = at->notice_id,
                      .for_ms = now - at->since_ms,
                      .here = at->phase == MT_PHASE_LINE,
                      .blockers = &all,
                      .lease_ms = -1};
  snprintf(n.path, sizeof n.path, "%.*s", (int)part->place.path.n, part->place.path.p);
  snprintf(n.mode, sizeof n.mode, "%s", mt_mode_name(part->mode));
  m->config.notice(m->config.ctx, &n);
}

/* Fails it with `err` and reports the blockers to the caller. */
static void fail_blocked(mt_attempt *at, const mortise_blockers *all, const mortise_error *err) {
  if (at->a->blockers) *at->a->blockers = *all;
  fail_attempt(at, err);
}

static void time_out(mt_attempt *at) {
  mortise_blockers all;
  mortise_error err;
  mt_obstacle_timeout(&at->wait, &all, &err);
  fail_blocked(at, &all, &err);
}

/* The caller pumps, so none of the tasks that it would wait for can run. */
static void refuse_to_wait(mt_attempt *at) {
  mortise_blockers all;
  mortise_error err;
  mt_obstacle_timeout(&at->wait, &all, &err);
  err.code = MORTISE_DEADLOCK;
  err.retryable = false;
  fail_blocked(at, &all, &err);
}

/* Nobody evicts it, so waiting would have no end before somebody recovers the job. */
static void fail_orphaned(mt_attempt *at, const mt_lock_entry *orphan) {
  mortise_blockers all;
  mortise_error err;
  mt_obstacle_orphaned(&at->wait, orphan, &all, &err);
  fail_blocked(at, &all, &err);
}

/* ---- Among the tasks of this process -------------------------------------------------------- */

static void line_up(mt_attempt *at, mt_part *part) {
  mt_hold_line_up(part);
  at->phase = MT_PHASE_LINE;
  mt_wait_begin(&at->wait, at->entered, part->place.stripe, true);
  /* While it waits in line, modes left in the store at places it has entered are given back. */
  for (const mt_part *p = &at->wait.lock->parts[at->pos]; p < part; p++)
    if (p->state == MT_PART_IN && p->hold->mode) mt_outbox_kick(at->wait.manager, p->hold);
}

static void enter_here(mt_attempt *at) {
  mt_lock *lock = at->wait.lock;
  mt_manager *m = lock->manager;
  mortise_error err;
  mt_holds_expect(lock->holds, lock->n - at->entered);
  for (; at->entered < lock->n; at->entered++) {
    mt_part *part = &lock->parts[at->entered];
    part->hold = mt_holds_get(lock->holds, part->place);
    if (!part->hold) {
      mt_error_memory(&err);
      fail_attempt(at, &err);
      return;
    }
    if (mt_hold_admits(part->hold, part, &m->kin)) {
      mt_hold_enter(part);
      continue;
    }
    line_up(at, part);
    if (at->wait.once)
      time_out(at);
    else if (at->wait.blocks_siblings && part->hold->in.first)
      refuse_to_wait(at);
    return;
  }
  at->phase = MT_PHASE_STORE;
  take_next_part(at);
}

void mt_attempt_admit(mt_manager *m, mt_hold *h) {
  mt_part *part;
  while ((part = mt_hold_next(h, &m->kin))) {
    mt_attempt *at = attempt_of(part->lock->wait);
    mt_hold_enter(part);
    mt_wait_end(&at->wait);
    at->entered++;
    at->phase = MT_PHASE_READY; /* continues at the next tick, not inside another task's release */
    mt_manager_soon(m);
  }
}

/* ---- At the store --------------------------------------------------------------------------- */

/* A part whose acquisition waits in line elsewhere asks later: a mode kept for it meanwhile would
 * block others, and it might be waiting for exactly those. */
bool mt_attempt_will_ask(const mt_part *part) {
  return part->lock->wait && attempt_of(part->lock->wait)->phase != MT_PHASE_LINE;
}

static void ask_for_part(mt_attempt *at, mt_part *part, bool enqueue) {
  part->lock->unanswered++;
  mt_outbox_ask(at->wait.manager, part, enqueue, at->wait.once);
}

/* Does an acknowledged write cover the part, and is it recent enough to have seen the queue? A
 * target needs a write of its own for its fence. */
static bool covered(const mt_part *part, int64_t now) {
  const mt_hold *h = part->hold;
  if (part->state == MT_PART_HELD) return true;
  if (part->target || h->adopts || !mt_mode_covers(h->mode, part->mode)) return false;
  bool looking = h->send == MT_SEND_SENT || h->asks;
  return looking || now - h->written_ms < REWRITE_MS;
}

static bool wants_all_stripes(const mt_attempt *at, const mt_part *part) {
  uint32_t stripes = at->wait.lock->stripes;
  return !mt_mode_is_intention(part->mode) && mt_place_stripes(part->place.path, stripes) > 1;
}

/* Of several who want all stripes of a path, who has the first one gets the others. What the rest of them are
 * granted there is in its way, and has to go back. */
static bool comes_second(const mt_attempt *at, const mt_part *part, int64_t now) {
  if (!part->place.stripe || now >= at->wait.manager->waits->crowded_ms) return false;
  return wants_all_stripes(at, part) && (part - part->place.stripe)->state != MT_PART_HELD;
}

static void ask_store(mt_attempt *at) {
  mt_lock *lock = at->wait.lock;
  int64_t now = at->asked_ms = mt_manager_now(lock->manager);
  at->phase = MT_PHASE_STORE;
  at->denied = SIZE_MAX;
  mt_error_clear(&at->error);
  for (size_t i = at->pos; i < at->entered; i++) {
    mt_part *part = &lock->parts[i];
    if (comes_second(at, part, now)) break;
    if (covered(part, now))
      part->state = MT_PART_HELD;
    else
      ask_for_part(at, part, false);
  }
  if (lock->unanswered) return;
  if (at->entered < lock->n)
    enter_here(at); /* another task's write already covers its parts */
  else
    succeed(at);
}

static void poll_store(mt_attempt *at) {
  at->phase = MT_PHASE_STORE;
  at->denied = SIZE_MAX;
  at->asked_ms = mt_manager_now(at->wait.manager);
  at->wait.look = MT_LOOK_NONE;
  mt_error_clear(&at->error);
  ask_for_part(at, &at->wait.lock->parts[at->pos], true);
}

static bool any_dead(const mt_attempt *at) {
  for (size_t i = 0; i < at->wait.n_blockers; i++)
    if (mt_takeover_dead(at->wait.manager, at->wait.blockers[i].session)) return true;
  return false;
}

static int64_t renewal_ms(const mt_attempt *at, int64_t since_ms) {
  int64_t spread_ms, renew_ms = mt_poll_renew_ms(&at->poll, at->place_ms, &spread_ms);
  return since_ms + renew_ms + mt_manager_jitter(at->wait.manager, spread_ms);
}

/* When to look, and when to write its place again at the latest. */
static void plan_next_look(mt_attempt *at, int64_t now) {
  at->look_ms = at->kept_ms ? now + mt_poll_pause_ms(&at->poll, now) : INT64_MAX;
  at->poll_ms = at->kept_ms ? renewal_ms(at, at->kept_ms)
                            : now + mt_manager_jitter(at->wait.manager, POLL_FIRST_MS);
}

/* Denied at parts[pos]: waits there, or gives up. */
static void blocked(mt_attempt *at) {
  mt_manager *m = at->wait.manager;
  const mt_part *part = &at->wait.lock->parts[at->pos];
  at->phase = MT_PHASE_QUEUE;
  mt_wait_begin(&at->wait, at->pos, part->place.stripe, false);
  const mt_lock_entry *orphan = mt_obstacle_orphan(&at->wait);
  if (orphan) {
    fail_orphaned(at, orphan);
    return;
  }
  int64_t now = mt_manager_now(m);
  if (wants_all_stripes(at, part)) m->waits->crowded_ms = now + CROWDED_MS;
  mt_takeover_look(m, at->wait.blockers, at->wait.n_blockers,
                   !mt_takeover_known(m, at->wait.blockers, at->wait.n_blockers));
  if (!at->waited) m->stats.waits++;
  at->waited = true;
  at->look_ms = INT64_MAX;
  if (at->blockers_unknown) { /* the request that joins the queue also names them */
    at->poll_ms = now;
    return;
  }
  plan_next_look(at, now);
  /* Even with a single try it waits for the look at the blockers: a dead holder does not count. */
  if (!at->wait.once) return;
  at->poll_ms = at->look_ms = INT64_MAX;
  if (!mt_takeover_busy(m)) time_out(at);
}

/* It got what it waited for there, or waits elsewhere now. */
static void leave_place(mt_attempt *at) {
  mt_wait_end(&at->wait);
  at->kept_ms = 0;
  at->wait.poll_fence = 0;
}

static void attempt_judge(mt_attempt *at) {
  if (at->error.code) {
    fail_attempt(at, &at->error);
    return;
  }
  if (at->denied < SIZE_MAX) {
    if (at->denied != at->pos) leave_place(at);
    mt_lock_give_back(at->wait.lock, at->denied + 1, NULL);
    at->pos = at->denied;
    at->entered = at->denied + 1;
    blocked(at);
    return;
  }
  leave_place(at);
  const mt_lock *lock = at->wait.lock;
  while (at->pos < lock->n && lock->parts[at->pos].state == MT_PART_HELD) at->pos++;
  at->phase = MT_PHASE_READY;
  take_next_part(at);
}

/* Of those before it, the ones that it waits for. */
static uint32_t queued_before(const mt_lock_item *item) {
  uint32_t n = 0;
  for (size_t i = 0; i < item->n_blockers; i++) n += item->blockers[i].queued;
  return item->n_blockers < MT_BLOCKERS_MAX ? n : item->ahead;
}

/* If its place in the queue may have expired meanwhile, this is a new place behind later arrivals.
 * It then gets a new wait number, so that readers do not take the two waits for one. */
static void keep_place(mt_attempt *at, const mt_lock_item *item) {
  mt_manager *m = at->wait.manager;
  int64_t now = mt_manager_now(m), since = now - at->kept_ms;
  if (!at->kept_ms) mt_poll_begin(&at->poll, now);
  if (at->claims) mt_poll_in_vain(&at->poll, now);
  mt_poll_seen(&at->poll, queued_before(item), item->ahead, now);
  if (!at->kept_ms || since >= at->place_ms - at->place_ms / 30) /* allows for a slow clock */
    mt_wait_end(&at->wait);
  m->place_ms = mt_poll_place_ms(m->place_ms, now - at->asked_ms);
  at->place_ms = mt_lock_item_place_ms(item);
  at->kept_ms = at->asked_ms;
  at->wait.poll_fence = mt_version_fence(item->version);
}

/* The last one in its way; where they all hold, any of them may be the last to leave. */
static void tell_predecessor(mt_attempt *at, const mt_lock_item *item) {
  const mt_hold *h = at->wait.lock->parts[at->denied].hold;
  size_t n = item->n_blockers, first = n < TOLD_MAX ? 0 : n - TOLD_MAX;
  if (n && item->blockers[n - 1].queued) first = n - 1;
  at->poll.told = n > 0;
  for (size_t i = first; i < n; i++)
    at->poll.told &= mt_successor_register(at->wait.manager, h, &item->blockers[i]);
}

static void keep_blockers(mt_attempt *at, const mt_lock_item *item) {
  mt_wait *w = &at->wait;
  mt_free(w->blockers);
  w->n_blockers = 0;
  at->blockers_unknown = item->brief && !item->n_blockers;
  if (item->result == MT_LOCK_QUEUED) {
    keep_place(at, item);
    tell_predecessor(at, item);
  }
  w->blockers = mt_calloc(item->n_blockers, sizeof *w->blockers);
  if (!w->blockers) return; /* only notices and cycle detection know less */
  if (item->n_blockers) memcpy(w->blockers, item->blockers, item->n_blockers * sizeof *w->blockers);
  w->n_blockers = item->n_blockers;
  mt_wait_changed(w);
}

/* Each grant's version is a fence; a lock's fence is the largest of its parts'. */
static void keep_fence(mt_lock *lock, const mt_hold *h) {
  uint64_t fence = mt_version_fence(h->version);
  if (fence > lock->fence) lock->fence = fence;
}

void mt_attempt_answered(mt_part *part, const mt_lock_item *denied, const mortise_error *err) {
  mt_lock *lock = part->lock;
  mt_attempt *at = attempt_of(lock->wait);
  lock->unanswered--;
  if (!denied && !err) keep_fence(lock, part->hold);
  if (err && err->code && !at->error.code) at->error = *err;
  if (denied && part->index < at->denied) {
    at->denied = part->index;
    keep_blockers(at, denied);
  }
  at->claims = false;
  if (!lock->unanswered) attempt_judge(at);
}

/* ---- Looking -------------------------------------------------------------------------------- */

/* Its turn seems to have come, or its place to be gone. */
static void claim_turn(mt_attempt *at, int64_t now) {
  int64_t at_ms = mt_poll_may_claim(&at->poll, now) ? now : at->poll.claim_ms;
  at->claims = true;
  if (at_ms < at->poll_ms) at->poll_ms = at_ms;
}

/* The store's clock cannot be read, but its time was that of my place when I last wrote it. */
static int64_t store_now(const mt_attempt *at, const mt_lock_entry *place, int64_t now) {
  return place->until_ms - at->place_ms + (now - at->kept_ms);
}

static void see_document(mt_attempt *at, const mt_lock_document *doc, int64_t now) {
  const mt_hold *h = at->wait.lock->parts[at->pos].hold;
  const char *session = at->wait.lock->holds->session.id;
  const mt_lock_entry *place = mt_lock_entry_of(doc->queue, doc->n_queue, session), *e = NULL;
  mt_grant_request r = {.session = session, .mode = h->asked_mode};
  if (!place) {
    claim_turn(at, now);
    return;
  }
  r.now_ms = store_now(at, place, now);
  uint32_t before = 0;
  bool blocked = false;
  while ((e = mt_grant_blocker(doc, &r, e))) {
    before += e->queued;
    blocked = true;
  }
  mt_poll_seen(&at->poll, before, mt_grant_ahead(doc, &r), now);
  if (!blocked) claim_turn(at, now);
}

void mt_attempts_hinted(mt_manager *m, uint64_t place) {
  int64_t now = mt_manager_now(m);
  for (mt_wait *w = m->waits->first; w; w = w->next) {
    mt_attempt *at = attempt_of(w);
    bool here = at->phase == MT_PHASE_QUEUE && w->lock->parts[at->pos].hold->hash == place;
    if (here && at->kept_ms && !w->once) claim_turn(at, now);
  }
  mt_manager_soon(m);
}

void mt_attempt_looked(mt_wait *w, const mt_lock_document *doc) {
  mt_attempt *at = attempt_of(w);
  int64_t now = mt_manager_now(w->manager);
  if (at->phase != MT_PHASE_QUEUE || w->once) return;
  at->look_ms = now + LOOK_AGAIN_MS;
  if (!doc) return;
  see_document(at, doc, now);
  /* One that has come near wants to know who blocks it now. */
  int64_t renew_ms = renewal_ms(at, now);
  if (renew_ms < at->poll_ms) at->poll_ms = renew_ms;
  at->look_ms = at->claims ? INT64_MAX : now + mt_poll_pause_ms(&at->poll, now);
}

/* ---- Adopting ------------------------------------------------------------------------------- */

static void await_dead(mt_attempt *at) {
  mt_manager *m = at->wait.manager;
  mt_wait *w = &at->wait;
  uint32_t stripe = 0;
  mt_free(w->blockers);
  w->n_blockers = mt_adoption_living(at->adoption, &w->blockers, &at->pos, &stripe);
  bool known = mt_takeover_known(m, w->blockers, w->n_blockers);
  mt_takeover_look(m, w->blockers, w->n_blockers, !known);
  mt_wait_begin(w, at->pos, stripe, false);
  w->adopts = true;
  bool last = ++at->looks == ADOPT_LOOKS || (known && !mt_takeover_busy(m));
  if (w->once && last) time_out(at);
}

static void adoption_moved(mt_attempt *at) {
  mt_manager_soon(at->wait.manager);
  switch (mt_adoption_state_of(at->adoption)) {
  case MT_ADOPTION_BUSY:
    return;
  case MT_ADOPTION_WAITS:
    await_dead(at);
    return;
  case MT_ADOPTION_FAILED:
    fail_attempt(at, mt_adoption_error(at->adoption));
    return;
  case MT_ADOPTION_DONE:
    leave_place(at);
    mt_adoption_free(at->adoption);
    at->adoption = NULL;
    at->adopted = true;
    if (at->a->gives) {
      give_adopted(at);
      return;
    }
    mt_lock_choose_stripes(at->wait.lock, NULL);
    at->pos = 0;
    at->phase = MT_PHASE_READY;
  }
}

static void adopt_first(mt_attempt *at) {
  mortise_error err;
  at->phase = MT_PHASE_ADOPT;
  at->adoption = mt_adoption_new(at->wait.lock, at->wait.once);
  if (at->adoption) {
    mt_adoption_tick(at->adoption);
    return;
  }
  mt_error_memory(&err);
  fail_attempt(at, &err);
}

void mt_attempt_adoption_moved(mt_lock *lock) {
  adoption_moved(attempt_of(lock->wait));
}

void mt_attempt_adopted(mt_manager *m, const mt_hold *h, const mortise_error *err) {
  for (mt_wait *w = m->waits->first; w; w = w->next)
    if (attempt_of(w)->adoption) mt_adoption_answered(attempt_of(w)->adoption, h, err);
  mt_manager_soon(m);
}

static void tick_adoption(mt_attempt *at, int64_t now) {
  if (!at->wait.once && now >= at->deadline_ms) {
    time_out(at);
    return;
  }
  mt_adoption_tick(at->adoption);
  if (mt_adoption_state_of(at->adoption) >= MT_ADOPTION_DONE) adoption_moved(at);
}

/* Continues where it stopped; no request may be in flight for it. */
static void take_next_part(mt_attempt *at) {
  if (at->a->adopts && !at->adopted)
    adopt_first(at);
  else if (at->entered < at->wait.lock->n)
    enter_here(at);
  else
    ask_store(at);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* Nothing is due while requests are in flight: they have deadlines of their own. */
static int64_t step_due(const mt_attempt *at) {
  switch (at->phase) {
  case MT_PHASE_READY:
    return 0;
  case MT_PHASE_LINE:
    return at->deadline_ms;
  case MT_PHASE_NO_SESSION:
  case MT_PHASE_STORE:
    return INT64_MAX;
  case MT_PHASE_ADOPT: {
    int64_t due = mt_adoption_due(at->adoption);
    return at->wait.once || due < at->deadline_ms ? due : at->deadline_ms;
  }
  case MT_PHASE_QUEUE:
    break;
  }
  if (at->wait.once) return mt_takeover_busy(at->wait.manager) ? INT64_MAX : at->poll_ms;
  int64_t next = at->poll_ms < at->look_ms ? at->poll_ms : at->look_ms;
  return next < at->deadline_ms ? next : at->deadline_ms;
}

int64_t mt_attempts_due(const mt_manager *m) {
  int64_t due = INT64_MAX;
  for (const mt_wait *w = m->waits->first; w; w = w->next) {
    const mt_attempt *at = attempt_of(w);
    int64_t step = step_due(at);
    if (step < due) due = step;
    if (tells(at) && at->tell_ms < due) due = at->tell_ms;
  }
  return due;
}

static void tick_queue(mt_attempt *at, int64_t now) {
  if (at->wait.once) {
    if (mt_takeover_busy(at->wait.manager)) return;
    if (any_dead(at))
      ask_store(at);
    else
      time_out(at);
  } else if (now >= at->deadline_ms && !at->blockers_unknown) {
    time_out(at);
  } else if (now >= at->poll_ms) {
    poll_store(at);
  } else if (now >= at->look_ms) {
    at->look_ms = INT64_MAX;
    mt_look_want(&at->wait);
  }
}

void mt_attempts_fail(mt_manager *m, const mortise_error *err) {
  while (m->waits->first) fail_attempt(attempt_of(m->waits->first), err);
}

void mt_attempts_abandon(mt_manager *m) {
  while (m->waits->first) mt_attempt_abandon(attempt_of(m->waits->first));
}

static void tick_attempt(mt_attempt *at, int64_t now) {
  tell_still_waiting(at, now);
  switch (at->phase) {
  case MT_PHASE_READY:
    take_next_part(at);
    return;
  case MT_PHASE_LINE:
    if (now >= at->deadline_ms) time_out(at);
    return;
  case MT_PHASE_ADOPT:
    tick_adoption(at, now);
    return;
  case MT_PHASE_QUEUE:
    tick_queue(at, now);
    return;
  case MT_PHASE_NO_SESSION:
  case MT_PHASE_STORE:
    return;
  }
}

void mt_attempts_tick(mt_manager *m) {
  int64_t now = mt_manager_now(m);
  mt_waits *all = m->waits;
  for (mt_wait *w = all->first; w; w = all->cursor) {
    all->cursor = w->next;
    tick_attempt(attempt_of(w), now);
  }
}

void mt_attempts_session_open(mt_manager *m) {
  mt_waits *all = m->waits;
  mortise_error err;
  for (mt_wait *w = all->first; w; w = all->cursor) {
    all->cursor = w->next;
    if (attempt_of(w)->phase != MT_PHASE_NO_SESSION) continue;
    attempt_of(w)->phase = MT_PHASE_READY;
    if (mt_lock_bind(w->lock, m->holds, &err)) fail_attempt(attempt_of(w), &err);
  }
}

void mt_attempts_unbind(mt_manager *m, mt_holds *holds) {
  for (mt_wait *w = m->waits->first; w; w = w->next) {
    if (w->lock->holds != holds) continue;
    mt_holds_unref(holds);
    w->lock->holds = NULL;
    attempt_of(w)->phase = MT_PHASE_NO_SESSION;
    mt_adoption_free(attempt_of(w)->adoption);
    attempt_of(w)->adoption = NULL;
  }
}

/* A caller's `done` may end other attempts and begin new ones; the cursor survives both. */
static void fail_each(mt_manager *m, bool (*concerned)(const mt_attempt *at, const void *ctx),
                      const void *ctx, const mortise_error *err) {
  mt_waits *all = m->waits;
  for (mt_wait *w = all->first; w; w = all->cursor) {
    all->cursor = w->next;
    if (concerned(attempt_of(w), ctx)) fail_attempt(attempt_of(w), err);
  }
}

/* Is it without a session? With `until`, only if it may not wait longer than until that time. */
static bool not_begun(const mt_attempt *at, const void *until) {
  bool waits = until && !at->wait.once && *(const int64_t *)until < at->deadline_ms;
  return at->phase == MT_PHASE_NO_SESSION && !waits;
}

void mt_attempts_session_failed(mt_manager *m, const mortise_error *err, bool passing) {
  int64_t now = mt_manager_now(m);
  fail_each(m, not_begun, passing ? &now : NULL, err);
}

static bool is_of_holds(const mt_attempt *at, const void *holds) {
  return at->wait.lock->holds == holds;
}

void mt_attempts_session_lost(mt_manager *m, const mt_holds *holds, const mortise_error *err) {
  fail_each(m, is_of_holds, holds, err);
}

static bool out_of_patience(const mt_attempt *at, const void *ctx) {
  bool asks = at->phase == MT_PHASE_STORE || at->phase == MT_PHASE_ADOPT;
  return asks && (at->wait.once || *(const int64_t *)ctx >= at->deadline_ms);
}

void mt_attempts_trouble(mt_manager *m, const mortise_error *err) {
  int64_t now = mt_manager_now(m);
  fail_each(m, out_of_patience, &now, err);
}

void mt_attempts_ended(mt_manager *m) {
  for (mt_wait *w = m->waits->first; w; w = w->next) {
    mt_attempt *at = attempt_of(w);
    if (at->phase == MT_PHASE_QUEUE && (w->once || any_dead(at))) at->poll_ms = 0;
    if (at->phase == MT_PHASE_ADOPT) mt_adoption_look(at->adoption);
  }
  mt_manager_soon(m);
}

void mt_attempt_deadlocked(mt_wait *w, const mortise_blockers *blockers, const mortise_error *err) {
  fail_blocked(attempt_of(w), blockers, err);
}
