#include "base/mem.h"
#include "lock/internal.h"

#include <stdio.h>

/* An acquisition goes along its parts in the total order and waits at one place at a time, with
 * nothing held behind that place: so no two acquisitions can wait for each other. First it is let
 * in by the other tasks of this process, then it asks the store for all at once; a denial gives
 * back all that came after, and it queues there. */

enum {
  POLL_FIRST_MS = 5,
  POLL_HEAD_MAX_MS = 50,
  POLL_MAX_MS = 400, /* well below the life of a place in the queue */
  PLACE_KEPT_MS = MT_QUEUE_LIFE_MS - MT_QUEUE_LIFE_MS / 30, /* by a clock that runs slow */
  TELL_MS = 1000,   /* of waiting, before and between the notices */
  REWRITE_MS = 250, /* a hold that is passed on is written again after this, to see its queue */
};

static void go_on(mt_attempt *at);

/* ---- Making and ending ---------------------------------------------------------------------- */

mt_lock *mt_lock_new(mt_manager *m, const mt_acquire *a, mortise_error *err) {
  mt_plan plan;
  if (mt_plan_make(a->wants, a->n, &plan, err)) return NULL;
  mt_lock *lock = mt_calloc(1, sizeof *lock);
  mt_part *parts = mt_calloc(plan.n, sizeof *parts);
  if (!lock || !parts) {
    mt_free(lock);
    mt_free(parts);
    mt_plan_deinit(&plan);
    mt_error_memory(err);
    return NULL;
  }
  *lock = (mt_lock){.manager = m, .task = a->task, .parts = parts, .n = plan.n};
  for (size_t i = 0; i < plan.n; i++)
    parts[i] = (mt_part){.path = plan.rows[i].path,
                         .lock = lock,
                         .mode = plan.rows[i].mode,
                         .target = plan.rows[i].target};
  lock->wants = plan.wants;
  lock->n_wants = plan.n_wants;
  lock->text = plan.text;
  mt_free(plan.rows);
  return lock;
}

mortise_status mt_attempt_new(mt_manager *m, mt_acquire *a, mortise_error *err) {
  mt_attempt *at = mt_calloc(1, sizeof *at);
  if (!at) return mt_error_memory(err);
  at->lock = mt_lock_new(m, a, err);
  if (!at->lock) {
    mt_free(at);
    return err->code;
  }
  int64_t wait = a->wait_ms < 0 ? m->wait_ms : a->wait_ms;
  at->a = a;
  a->op = at;
  at->lock->attempt = at;
  at->try_once = wait == 0;
  at->alone = a->alone;
  at->since_ms = mt_manager_now(m);
  at->tell_ms = at->since_ms + TELL_MS;
  at->deadline_ms = at->since_ms + wait;
  at->backoff_ms = POLL_FIRST_MS;
  at->denied = SIZE_MAX;
  at->next = m->attempts;
  if (at->next) at->next->prev = at;
  m->attempts = at;
  return MORTISE_OK;
}

static void tell_over(mt_attempt *at) {
  mt_manager *m = at->lock->manager;
  const mortise_notice n = {.kind = MORTISE_NOTICE_WAIT_OVER,
                            .wait = at->told,
                            .for_ms = mt_manager_now(m) - at->since_ms,
                            .lease_ms = -1};
  if (at->told) m->config.notice(m->config.ctx, &n);
}

static void unlink_attempt(mt_attempt *at) {
  mt_manager *m = at->lock->manager;
  tell_over(at);
  mt_wait_end(at);
  if (at->prev) at->prev->next = at->next;
  if (at->next) at->next->prev = at->prev;
  if (m->attempts == at) m->attempts = at->next;
  if (m->cursor == at) m->cursor = at->next;
  at->lock->attempt = NULL;
  mt_free(at->blockers);
}

void mt_attempt_abandon(mt_attempt *at) {
  mt_lock *lock = at->lock;
  mt_lock_give_back(lock, 0, NULL);
  unlink_attempt(at);
  at->a->op = NULL;
  mt_free(at);
  mt_lock_free(lock);
}

static void tell(mt_acquire *a, const mortise_error *err) {
  if (err) a->error = *err;
  a->done(a->ctx, a);
}

void mt_attempt_fail(mt_attempt *at, const mortise_error *err) {
  mt_acquire *a = at->a;
  mortise_error copy = *err; /* it may be the attempt's own */
  mt_attempt_abandon(at);
  tell(a, &copy);
}

static void succeed(mt_attempt *at) {
  mt_lock *lock = at->lock;
  mt_manager *m = lock->manager;
  mt_acquire *a = at->a;
  unlink_attempt(at);
  mt_free(at);
  lock->granted = true;
  lock->next = m->locks;
  if (lock->next) lock->next->prev = lock;
  m->locks = lock;
  a->op = NULL;
  a->lock = lock;
  mt_error_clear(&a->error);
  tell(a, NULL);
}

/* ---- Who is in the way ---------------------------------------------------------------------- */

static void add_blocker(mortise_error *err, mt_slice path, const mt_lock_entry *entry,
                        const char *owner) {
  err->blockers_total++;
  if (err->blockers_shown == MORTISE_BLOCKERS_SHOWN) return;
  mt_blocker_fill(&err->blockers[err->blockers_shown++], path, entry, owner);
}

static void add_siblings(const mt_attempt *at, mt_part *part, mortise_error *err) {
  const mt_manager *m = at->lock->manager;
  for (const mt_part *p = part->hold->in.first; p; p = p->next) {
    if (mt_mode_compatible(p->mode, part->mode)) continue;
    mt_lock_entry entry = {.mode = p->mode};
    memcpy(entry.session, at->lock->table->session.id, sizeof entry.session);
    add_blocker(err, part->path, &entry, m->owner_json);
  }
}

/* Says who is in the way, in the error. */
static void describe(mt_attempt *at, mortise_error *err) {
  const mt_manager *m = at->lock->manager;
  bool here = at->phase == MT_PHASE_LINE;
  mt_part *part = &at->lock->parts[here ? at->entered : at->pos];
  mortise_error about = {0};
  if (here) add_siblings(at, part, &about);
  for (size_t i = 0; !here && i < at->n_blockers; i++)
    add_blocker(&about, part->path, &at->blockers[i],
                mt_takeover_owner(m, at->blockers[i].session));
  const mortise_blocker *b = &about.blockers[0];
  if (about.blockers_shown)
    mt_error_set(err, MORTISE_LOCK_TIMEOUT, "%.*s wanted in %s is %s in %s by %s pid %lld%s%s%s",
                 (int)part->path.n, part->path.p, mt_mode_name(part->mode),
                 b->queued ? "queued for" : "held", b->mode,
                 here ? "another task of this process," : b->host, (long long)b->pid,
                 b->script[0] ? " running " : "", b->script,
                 about.blockers_total > 1 ? ", and others" : "");
  else
    mt_error_set(err, MORTISE_LOCK_TIMEOUT, "%.*s wanted in %s was not had in time",
                 (int)part->path.n, part->path.p, mt_mode_name(part->mode));
  memcpy(err->blockers, about.blockers, sizeof err->blockers);
  err->blockers_shown = about.blockers_shown;
  err->blockers_total = about.blockers_total;
  err->retryable = true;
}

static bool tells(const mt_attempt *at) {
  return at->lock->manager->config.notice && at->wait && !at->try_once;
}

static void tell_waiting(mt_attempt *at, int64_t now) {
  mt_manager *m = at->lock->manager;
  const mt_part *part = &at->lock->parts[at->wait_at];
  mortise_error about;
  if (!tells(at) || now < at->tell_ms) return;
  if (!at->told) at->told = ++m->last_told;
  at->tell_ms = now + TELL_MS;
  describe(at, &about);
  mortise_notice n = {.kind = MORTISE_NOTICE_WAITING,
                      .wait = at->told,
                      .for_ms = now - at->since_ms,
                      .here = at->phase == MT_PHASE_LINE,
                      .blockers = about.blockers,
                      .blockers_shown = about.blockers_shown,
                      .blockers_total = about.blockers_total,
                      .lease_ms = -1};
  snprintf(n.path, sizeof n.path, "%.*s", (int)part->path.n, part->path.p);
  snprintf(n.mode, sizeof n.mode, "%s", mt_mode_name(part->mode));
  m->config.notice(m->config.ctx, &n);
}

static void time_out(mt_attempt *at) {
  mortise_error err;
  describe(at, &err);
  mt_attempt_fail(at, &err);
}

/* ---- Among the tasks of this process -------------------------------------------------------- */

static void line_up(mt_attempt *at, mt_part *part) {
  mt_hold_line_up(part);
  at->phase = MT_PHASE_LINE;
  mt_wait_begin(at, at->entered);
  /* What others left in the store where it is on its way in is not kept for it meanwhile. */
  for (const mt_part *p = &at->lock->parts[at->pos]; p < part; p++)
    if (p->state == MT_PART_IN && p->hold->mode) mt_outbox_kick(at->lock->manager, p->hold);
}

static void enter_here(mt_attempt *at) {
  mt_lock *lock = at->lock;
  mt_manager *m = lock->manager;
  mortise_error err;
  mt_holds_expect(lock->table, lock->n - at->entered);
  for (; at->entered < lock->n; at->entered++) {
    mt_part *part = &lock->parts[at->entered];
    part->hold = mt_holds_get(lock->table, part->path);
    if (!part->hold) {
      mt_error_memory(&err);
      mt_attempt_fail(at, &err);
      return;
    }
    if (mt_hold_admits(part->hold, part, &m->kin)) {
      mt_hold_enter(part);
      continue;
    }
    line_up(at, part);
    if (at->try_once)
      time_out(at);
    else if (at->alone && part->hold->in.first) {
      describe(at, &err);
      err.code = MORTISE_DEADLOCK;
      err.retryable = false;
      mt_attempt_fail(at, &err);
    }
    return;
  }
  at->phase = MT_PHASE_STORE;
  go_on(at);
}

void mt_attempt_admit(mt_manager *m, mt_hold *h) {
  mt_part *part;
  while ((part = mt_hold_next(h, &m->kin))) {
    mt_attempt *at = part->lock->attempt;
    mt_hold_enter(part);
    mt_wait_end(at);
    at->entered++;
    at->phase = MT_PHASE_READY; /* goes on at the next tick, not inside the other's release */
    mt_manager_soon(m);
  }
}

/* ---- At the store --------------------------------------------------------------------------- */

static void ask(mt_attempt *at, mt_part *part, bool enqueue) {
  mt_hold *h = part->hold;
  part->asking = true;
  part->enqueue = enqueue;
  part->next_ask = NULL;
  if (h->last_ask)
    h->last_ask->next_ask = part;
  else
    h->asks = part;
  h->last_ask = part;
  at->unanswered++;
  mt_outbox_kick(at->lock->manager, h);
}

/* Is an acknowledged write there that covers the part, fresh enough to have seen the queue? A
 * target takes a write of its own, for its fence. */
static bool covered(const mt_part *part, int64_t now) {
  const mt_hold *h = part->hold;
  if (part->state == MT_PART_HELD) return true;
  if (part->target || !mt_mode_covers(h->mode, part->mode)) return false;
  bool looking = h->duty == MT_DUTY_SENT || h->asks;
  return looking || now - h->written_ms < REWRITE_MS;
}

static void ask_store(mt_attempt *at) {
  mt_lock *lock = at->lock;
  int64_t now = mt_manager_now(lock->manager);
  at->phase = MT_PHASE_STORE;
  at->denied = SIZE_MAX;
  mt_error_clear(&at->error);
  for (size_t i = at->pos; i < at->entered; i++) {
    mt_part *part = &lock->parts[i];
    if (covered(part, now))
      part->state = MT_PART_HELD;
    else
      ask(at, part, false);
  }
  if (at->unanswered) return;
  if (at->entered < lock->n)
    enter_here(at); /* what it waited for came with another task's write */
  else
    succeed(at);
}

static void poll_store(mt_attempt *at) {
  at->phase = MT_PHASE_STORE;
  at->denied = SIZE_MAX;
  at->asked_ms = mt_manager_now(at->lock->manager);
  mt_error_clear(&at->error);
  ask(at, &at->lock->parts[at->pos], true);
}

static bool any_dead(const mt_attempt *at) {
  for (size_t i = 0; i < at->n_blockers; i++)
    if (mt_takeover_dead(at->lock->manager, at->blockers[i].session)) return true;
  return false;
}

/* Denied at parts[pos]: wait there, or give up. */
static void blocked(mt_attempt *at) {
  mt_manager *m = at->lock->manager;
  int64_t now = mt_manager_now(m);
  mt_takeover_look(m, at->blockers, at->n_blockers,
                   !mt_takeover_known(m, at->blockers, at->n_blockers));
  at->phase = MT_PHASE_QUEUE;
  mt_wait_begin(at, at->pos);
  if (!at->waited) m->stats.waits++;
  at->waited = true;
  int64_t most = at->ahead ? POLL_MAX_MS : POLL_HEAD_MAX_MS;
  if (at->untold) { /* the request that takes a place in the queue also says who is before me */
    at->poll_ms = now;
    return;
  }
  at->poll_ms = now + mt_manager_jitter(m, at->backoff_ms);
  at->backoff_ms = at->backoff_ms * 3 / 2 < most ? at->backoff_ms * 3 / 2 : most;
  /* Trying once, the look still decides: a dead holder is no holder. */
  if (!at->try_once) return;
  at->poll_ms = INT64_MAX;
  if (!mt_takeover_busy(m)) time_out(at);
}

/* What it waited for there is had, or it waits elsewhere. */
static void leave_place(mt_attempt *at) {
  mt_wait_end(at);
  at->kept_ms = 0;
  at->polled = 0;
}

static void judge(mt_attempt *at) {
  if (at->error.code) {
    mt_attempt_fail(at, &at->error);
    return;
  }
  if (at->denied < SIZE_MAX) {
    if (at->denied != at->pos) leave_place(at);
    mt_lock_give_back(at->lock, at->denied + 1, NULL);
    at->pos = at->denied;
    at->entered = at->denied + 1;
    blocked(at);
    return;
  }
  leave_place(at);
  while (at->pos < at->lock->n && at->lock->parts[at->pos].state == MT_PART_HELD) at->pos++;
  at->phase = MT_PHASE_READY;
  go_on(at);
}

/* A place that may have passed meanwhile is another one, behind those that came since: who reads
 * of both waits must not take them for one. */
static void keep_place(mt_attempt *at, const mt_lock_item *item) {
  int64_t since = mt_manager_now(at->lock->manager) - at->kept_ms;
  if (!at->kept_ms || since >= PLACE_KEPT_MS) mt_wait_end(at);
  at->kept_ms = at->asked_ms;
  at->polled = mt_version_fence(item->version);
}

static void keep_blockers(mt_attempt *at, const mt_lock_item *item) {
  mt_free(at->blockers);
  at->n_blockers = 0;
  at->ahead = item->ahead;
  at->untold = item->brief && !item->n_blockers;
  if (item->result == MT_LOCK_QUEUED) keep_place(at, item);
  at->blockers = mt_calloc(item->n_blockers, sizeof *at->blockers);
  if (!at->blockers) return; /* told less, nothing worse */
  if (item->n_blockers)
    memcpy(at->blockers, item->blockers, item->n_blockers * sizeof *at->blockers);
  at->n_blockers = item->n_blockers;
  mt_wait_changed(at);
}

void mt_attempt_answer(mt_part *part, const mt_lock_item *denied, const mortise_error *err) {
  mt_attempt *at = part->lock->attempt;
  size_t i = (size_t)(part - part->lock->parts);
  at->unanswered--;
  if (err && err->code && !at->error.code) at->error = *err;
  if (denied && i < at->denied) {
    at->denied = i;
    keep_blockers(at, denied);
  }
  if (!at->unanswered) judge(at);
}

/* From wherever it stands, when nothing is under way for it. */
static void go_on(mt_attempt *at) {
  if (at->entered < at->lock->n)
    enter_here(at);
  else
    ask_store(at);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* While requests are under way nothing is due: they are bounded by themselves. */
static int64_t step_due(const mt_attempt *at) {
  switch (at->phase) {
  case MT_PHASE_READY:
    return at->start ? 0 : INT64_MAX;
  case MT_PHASE_LINE:
    return at->deadline_ms;
  case MT_PHASE_STORE:
    return INT64_MAX;
  case MT_PHASE_QUEUE:
    break;
  }
  if (at->try_once) return mt_takeover_busy(at->lock->manager) ? INT64_MAX : at->poll_ms;
  return at->poll_ms < at->deadline_ms ? at->poll_ms : at->deadline_ms;
}

int64_t mt_attempt_due(const mt_attempt *at) {
  int64_t due = step_due(at);
  return tells(at) && at->tell_ms < due ? at->tell_ms : due;
}

static void tick_queue(mt_attempt *at, int64_t now) {
  if (at->try_once) {
    if (mt_takeover_busy(at->lock->manager)) return;
    if (any_dead(at))
      ask_store(at);
    else
      time_out(at);
  } else if (now >= at->deadline_ms && !at->untold) {
    time_out(at);
  } else if (now >= at->poll_ms) {
    poll_store(at);
  }
}

void mt_attempt_tick(mt_attempt *at, int64_t now) {
  tell_waiting(at, now);
  switch (at->phase) {
  case MT_PHASE_READY:
    if (at->start) go_on(at);
    return;
  case MT_PHASE_LINE:
    if (now >= at->deadline_ms) time_out(at);
    return;
  case MT_PHASE_QUEUE:
    tick_queue(at, now);
    return;
  case MT_PHASE_STORE:
    return;
  }
}

void mt_attempt_session_open(mt_manager *m) {
  for (mt_attempt *at = m->attempts; at; at = at->next) {
    if (at->start) continue;
    at->start = true;
    at->lock->table = m->table;
    mt_holds_ref(m->table);
  }
}

/* Telling a caller may end other attempts and begin new ones: the cursor survives both. */
static void fail_each(mt_manager *m, bool (*concerned)(const mt_attempt *at, const void *ctx),
                      const void *ctx, const mortise_error *err) {
  for (mt_attempt *at = m->attempts; at; at = m->cursor) {
    m->cursor = at->next;
    if (concerned(at, ctx)) mt_attempt_fail(at, err);
  }
}

static bool not_begun(const mt_attempt *at, const void *ctx) {
  (void)ctx;
  return !at->start;
}

void mt_attempt_session_failed(mt_manager *m, const mortise_error *err) {
  fail_each(m, not_begun, NULL, err);
}

static bool of_table(const mt_attempt *at, const void *ctx) {
  return at->lock->table == ctx;
}

void mt_attempt_fail_table(mt_manager *m, const mt_holds *t, const mortise_error *err) {
  fail_each(m, of_table, t, err);
}

static bool out_of_patience(const mt_attempt *at, const void *ctx) {
  return at->phase == MT_PHASE_STORE && (at->try_once || *(const int64_t *)ctx >= at->deadline_ms);
}

void mt_attempt_trouble(mt_manager *m, const mortise_error *err) {
  int64_t now = mt_manager_now(m);
  fail_each(m, out_of_patience, &now, err);
}

void mt_attempt_poke(mt_manager *m) {
  for (mt_attempt *at = m->attempts; at; at = at->next) {
    if (at->phase != MT_PHASE_QUEUE) continue;
    if (at->try_once || any_dead(at)) at->poll_ms = 0;
  }
  mt_manager_soon(m);
}
