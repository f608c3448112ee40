#include "lock/manager.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/pump.h"
#include "lock/attempt.h"
#include "lock/deadlock.h"
#include "lock/janitor.h"
#include "lock/look.h"
#include "lock/successor.h"
#include "lock/takeover.h"

#include <stdio.h>

enum {
  END_MS = 5000, /* time to close a session that is no longer used */
  REOPEN_FIRST_MS = 100,
  REOPEN_MAX_MS = 2000,
};

/* The manager with the states of all its parts. */
typedef struct whole {
  mt_manager m; /* first member: the parts see only this */
  mt_waits waits;
  mt_takeover takeover;
  mt_janitor janitor;
  mt_outbox outbox;
  mt_looks looks;
  mt_deadlock deadlock;
  mt_locks_admin verify;
  bool checking;          /* `verify` is under way again, for a session that was opened */
  mt_epoch epoch;         /* of the table in which the current session was opened */
  mt_session_write write; /* open and close of our own session */
  int64_t write_sent_ms, phase_ms; /* phase_ms: when verifying or opening began */
  int64_t reopen_ms;               /* the time before which no session is opened */
  unsigned troubles;               /* how many openings of a session have failed in a row */
  mt_acquire *refused;  /* acquisitions that could not begin; `done` is called at the next tick */
  mt_release *released; /* releases with nothing to write, likewise */
  int64_t close_deadline_ms;
  void (*close_done)(void *ctx);
  void *close_ctx;
} whole;

static whole *whole_of(const mt_manager *m) {
  return (whole *)m;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static bool is_unopened(const mt_manager *m) {
  return m->phase == MT_UNVERIFIED || m->phase == MT_NO_SESSION;
}

int64_t mt_manager_due(const mt_manager *m) {
  if (m->due_now) return 0;
  int64_t due = m->closing == MT_CLOSING ? whole_of(m)->close_deadline_ms : INT64_MAX;
  due = least(due, mt_attempts_due(m));
  if (is_unopened(m) && m->waits->first) due = least(due, whole_of(m)->reopen_ms);
  if (m->phase != MT_OPEN) return due;
  due = least(due, atomic_load(&m->holds->session.deadline_ms));
  due = least(due, mt_deadlock_due(m));
  due = least(due, mt_janitor_due(m));
  return least(due, mt_outbox_due(m));
}

/* ---- Making --------------------------------------------------------------------------------- */

static void session_lost(mt_manager *m);

static const mt_hooks hooks = {
    .answered = mt_attempt_answered,
    .admit = mt_attempt_admit,
    .will_ask = mt_attempt_will_ask,
    .trouble = mt_attempts_trouble,
    .session_lost = session_lost,
    .looked = mt_attempt_looked,
    .ended = mt_attempts_ended,
    .deadlocked = mt_attempt_deadlocked,
    .adopted = mt_attempt_adopted,
    .adoption_moved = mt_attempt_adoption_moved,
};

mt_manager *mt_manager_new(mt_store *store, const mt_env *env, const mt_manager_config *config,
                           mortise_error *err) {
  whole *w = mt_calloc(1, sizeof *w);
  char *owner = mt_strdup(config->session.owner_json);
  char *job = config->job ? mt_strdup(config->job) : NULL;
  if (!w || !owner || (config->job && !job)) {
    mt_free(w);
    mt_free(owner);
    mt_free(job);
    mt_error_memory(err);
    return NULL;
  }
  w->waits.publication = 1;
  w->m = (mt_manager){
      .store = store,
      .env = env,
      .owner_json = owner,
      .job = job,
      .lease_ms = config->session.lease_ms,
      .margin_ms = config->session.margin_ms,
      .wait_ms = config->wait_ms,
      .config = *config,
      .kin = {config->inherits, config->ctx},
      .hooks = &hooks,
      .waits = &w->waits,
      .takeover = &w->takeover,
      .janitor = &w->janitor,
      .outbox = &w->outbox,
      .looks = &w->looks,
      .deadlock = &w->deadlock,
  };
  snprintf(w->m.ns, sizeof w->m.ns, "%s", config->ns);
  return &w->m;
}

static void cancel_session_requests(mt_manager *m) {
  whole *w = whole_of(m);
  bool writing = m->phase == MT_OPENING || m->phase == MT_ENDING;
  if (m->phase == MT_VERIFYING || w->checking) mt_store_cancel(m->store, &w->verify.req);
  if (writing && !w->checking) mt_store_cancel(m->store, &w->write.req);
  w->checking = false;
  mt_locks_admin_deinit(&w->verify);
}

static void stop_heartbeat(mt_manager *m) {
  if (m->holds && m->config.heartbeat)
    m->config.heartbeat(m->config.ctx, false, &m->holds->session, NULL);
}

void mt_manager_free(mt_manager *m) {
  if (!m) return;
  cancel_session_requests(m);
  if (m->phase == MT_OPEN) stop_heartbeat(m);
  mt_janitor_deinit(m);
  mt_takeover_deinit(m);
  mt_deadlock_deinit(m);
  mt_outbox_deinit(m);
  mt_looks_deinit(m);
  mt_attempts_abandon(m);
  while (m->locks) mt_lock_free(m->locks);
  mt_holds_unref(m->holds);
  mt_free(m->owner_json);
  mt_free(m->job);
  mt_free(whole_of(m));
}

/* ---- Our own session ------------------------------------------------------------------------ */

/* May the failure to open a session pass? A store that could never be reached may not be a store at all. */
static bool opening_may_pass(const mt_manager *m, const mortise_error *err) {
  bool known = m->phase != MT_VERIFYING || err->ambiguous || err->http_status;
  return err->code == MORTISE_UNAVAILABLE && known && !m->closing;
}

/* If the failure may pass, those who can wait go on waiting, and the tick opens another session. */
static void session_failed(mt_manager *m, const mortise_error *err) {
  whole *w = whole_of(m);
  bool passing = opening_may_pass(m, err);
  m->phase = m->phase == MT_VERIFYING ? MT_UNVERIFIED : MT_NO_SESSION;
  mt_holds_unref(m->holds);
  m->holds = NULL;
  int64_t pause =
      least((int64_t)REOPEN_FIRST_MS << (w->troubles < 8 ? w->troubles : 8), REOPEN_MAX_MS);
  w->troubles++;
  w->reopen_ms = passing ? mt_manager_now(m) + mt_manager_jitter(m, pause) : 0;
  mt_attempts_session_failed(m, err, passing);
  mt_manager_soon(m); /* for those that go on waiting: the next session, and their deadlines */
}

static void learn_table(mt_manager *m) {
  whole *w = whole_of(m);
  w->epoch = w->verify.epoch;
  if (!w->verify.req.error.code) m->stripes = w->verify.stripes;
  mt_locks_admin_deinit(&w->verify);
}

static void ask_for_table(mt_manager *m, mt_done_fn *done, int64_t deadline_ms) {
  whole *w = whole_of(m);
  w->verify = (mt_locks_admin){
      .req = {.done = done, .ctx = m, .idempotent = true, .deadline_ms = deadline_ms}};
  m->store->locks->verify(m->store, &w->verify);
}

static void session_checked(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mortise_error err = req->error;
  whole_of(m)->checking = false;
  learn_table(m);
  if (!err.code && m->config.heartbeat)
    m->config.heartbeat(m->config.ctx, true, &m->holds->session, &err);
  if (err.code) {
    session_failed(m, &err);
    return;
  }
  m->phase = MT_OPEN;
  whole_of(m)->troubles = 0;
  mt_attempts_session_open(m);
  mt_manager_soon(m);
}

/* The table may have been made anew, with other stripes, since it was verified. While a session of ours is
 * open in it, it stays as it is. */
static void session_opened(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  whole *w = whole_of(m);
  mortise_error err = req->error;
  if (w->write.result == MT_SESSION_REFUSED)
    mt_error_set(&err, MORTISE_UNAVAILABLE, "the lock table refuses a new session");
  if (w->write.result != MT_SESSION_ACKED) {
    session_failed(m, &err);
    return;
  }
  mt_session_extend(&m->holds->session, w->write_sent_ms, mt_manager_now(m));
  w->checking = true;
  ask_for_table(m, session_checked, w->write_sent_ms + m->lease_ms / 4 * 3);
}

static void open_session(mt_manager *m) {
  whole *w = whole_of(m);
  mortise_error err;
  m->holds = mt_holds_new(m->env, m->ns, m->config.session.address, m->lease_ms, m->margin_ms);
  if (!m->holds) {
    mt_error_memory(&err);
    session_failed(m, &err);
    return;
  }
  m->phase = MT_OPENING;
  w->write_sent_ms = w->phase_ms = mt_manager_now(m);
  w->write = (mt_session_write){
      .req = {.done = session_opened,
              .ctx = m,
              .deadline_ms = w->write_sent_ms + least(m->store->request_ms, m->lease_ms / 2)},
      .verb = MT_SESSION_OPEN,
      .ns = m->ns,
      .session = m->holds->session.id,
      .owner = mt_slice_of(m->owner_json),
      .lease_ms = m->lease_ms,
  };
  m->store->locks->session(m->store, &w->write);
}

static void verified(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mortise_error err = req->error;
  learn_table(m);
  if (err.code) {
    session_failed(m, &err);
    return;
  }
  m->phase = MT_NO_SESSION;
  open_session(m);
}

static void verify_table(mt_manager *m) {
  whole *w = whole_of(m);
  m->phase = MT_VERIFYING;
  w->phase_ms = mt_manager_now(m);
  ask_for_table(m, verified, 0);
}

/* Opens a session unless one is open or being opened. */
static void want_session(mt_manager *m) {
  if (m->closing || mt_manager_now(m) < whole_of(m)->reopen_ms) return;
  if (m->phase == MT_UNVERIFIED)
    verify_table(m);
  else if (m->phase == MT_NO_SESSION)
    open_session(m);
}

static void closed(mt_manager *m) {
  m->closing = MT_CLOSED;
  whole_of(m)->close_done(whole_of(m)->close_ctx);
}

static void forget_session(mt_manager *m, bool table_stands) {
  mt_holds_unref(m->holds);
  m->holds = NULL;
  m->phase = table_stands ? MT_NO_SESSION : MT_UNVERIFIED;
  mt_manager_soon(m);
}

/* If the session was lost or its close not acknowledged, the table may have been replaced: verify
 * it again. */
static void session_ended(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  (void)req;
  bool lost = atomic_load(&m->holds->session.lost);
  forget_session(m, !lost && whole_of(m)->write.result == MT_SESSION_ACKED);
  if (m->closing == MT_LAST_END) closed(m);
}

/* Stops the heartbeat, then marks the session `closed`, so that others need not wait for its lease.
 * Nothing here relies on this session any more. */
static void end_own_session(mt_manager *m) {
  stop_heartbeat(m);
  m->phase = MT_ENDING;
  int64_t patience = least(m->store->request_ms, END_MS);
  whole *w = whole_of(m);
  w->write = (mt_session_write){
      .req = {.done = session_ended, .ctx = m, .deadline_ms = mt_manager_now(m) + patience},
      .verb = MT_SESSION_CLOSE,
      .ns = m->ns,
      .session = m->holds->session.id,
  };
  m->store->locks->session(m->store, &w->write);
}

/* A session that another process ended before its deadline is not marked `closed`: writes that its
 * tasks sent under its locks may still arrive until that deadline, and nobody may take those locks
 * before. */
static bool ended_by_another(mt_manager *m) {
  return mt_manager_now(m) < atomic_load(&m->holds->session.deadline_ms);
}

static void session_lost(mt_manager *m) {
  mortise_error err;
  bool by_another = ended_by_another(m);
  char why[MT_SESSION_BREAKER + 64];
  mt_session_why(&m->holds->session, why, sizeof why);
  mt_error_set(&err, MORTISE_LOCK_LOST, "the locks of session %s are lost: %s",
               m->holds->session.id, why);
  atomic_store(&m->holds->session.lost, true);
  m->phase = MT_ENDING; /* holds are no longer given back one by one */
  mt_outbox_abandon(m, &err);
  mt_holds *holds = m->holds;
  if (by_another)
    stop_heartbeat(m);
  else
    end_own_session(m);
  mt_attempts_session_lost(m, holds, &err);
  if (by_another) forget_session(m, false); /* the table itself may have gone */
}

/* ---- Acquiring ------------------------------------------------------------------------------ */

void mt_manager_acquire(mt_manager *m, mt_acquire *a) {
  MT_MUST(!a->op);
  a->lock = NULL;
  a->op = NULL;
  a->finished = false;
  if (a->blockers) *a->blockers = (mortise_blockers){0};
  mt_error_clear(&a->error);
  mortise_error *err = &a->error;
  if (m->closing)
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client is closed");
  else
    mt_attempt_new(m, a, err);
  if (err->code) {
    MT_MUST_BE_NEW(mt_acquire, whole_of(m)->refused, next, a);
    a->next = whole_of(m)->refused;
    whole_of(m)->refused = a;
  } else if (m->phase == MT_OPEN) {
    mt_attempts_session_open(m);
  }
  mt_manager_soon(m);
}

void mt_manager_cancel(mt_manager *m, mt_acquire *a) {
  for (mt_acquire **link = &whole_of(m)->refused; *link; link = &(*link)->next) {
    if (*link != a) continue;
    *link = a->next;
    return;
  }
  if (a->op) mt_attempt_abandon(a->op);
}

void mt_manager_hinted(mt_manager *m, const mt_hint *hint) {
  if (m->phase != MT_OPEN || strcmp(hint->to, m->holds->session.id) != 0) return;
  if (hint->kind == MT_HINT_WAITS)
    mt_successor_heard(m, hint);
  else
    mt_attempts_hinted(m, hint->place);
}

/* ---- Giving back ---------------------------------------------------------------------------- */

void mt_manager_tell_release(mt_manager *m, mt_release *r) {
  MT_MUST_BE_NEW(mt_release, whole_of(m)->released, next, r);
  r->op = NULL;
  r->next = whole_of(m)->released;
  whole_of(m)->released = r;
  mt_manager_soon(m);
}

void mt_manager_release(mt_manager *m, mt_release *r) {
  mt_lock *lock = r->lock;
  MT_MUST(!r->op);
  if (lock->on_release) lock->on_release(lock);
  r->op = NULL;
  r->finished = false;
  mt_error_clear(&r->error);
  mt_lock_check(lock, &r->error);
  mt_pending_release *p = mt_calloc(1, sizeof *p);
  /* One reference of our own while the parts are counted. */
  if (p) *p = (mt_pending_release){.r = r, .left = 1};
  r->op = p;
  mt_lock_give_back(lock, 0, p);
  mt_lock_free(lock);
  r->lock = NULL;
  if (p && --p->left) return;
  /* Nothing to wait for, or no memory to track it. Without memory the parts are still given back,
   * but the release reports an error. */
  if (!p && !r->error.code) mt_error_memory(&r->error);
  mt_free(p);
  mt_manager_tell_release(m, r);
}

void mt_manager_release_forget(mt_manager *m, mt_release *r) {
  for (mt_release **link = &whole_of(m)->released; *link; link = &(*link)->next) {
    if (*link != r) continue;
    *link = r->next;
    return;
  }
  if (r->op) ((mt_pending_release *)r->op)->r = NULL;
}

/* ---- The tick ------------------------------------------------------------------------------- */

static void finish_refused(mt_manager *m) {
  whole *w = whole_of(m);
  while (w->refused) {
    mt_acquire *a = w->refused;
    w->refused = a->next;
    MT_FINISH(a);
  }
  while (w->released) {
    mt_release *r = w->released;
    w->released = r->next;
    MT_FINISH(r);
  }
}

/* Ends a session with an ambiguous grant as soon as it holds nothing, so that a late grant ends
 * with it. */
static void replace_if_tainted(mt_manager *m) {
  mt_holds *holds = m->holds;
  if (m->phase == MT_OPEN && holds->replace && !holds->n && !m->locks && mt_outbox_idle(m)) {
    mt_attempts_unbind(m, holds);
    end_own_session(m);
  }
}

/* The holds end with the session; releases that wait for them fail. */
static void abandon_late(mt_manager *m) {
  mortise_error err;
  mt_error_set(&err, MORTISE_UNAVAILABLE, "the client was closed before the store had answered");
  mt_outbox_abandon(m, &err);
}

static void tick_close(mt_manager *m) {
  if (m->closing != MT_CLOSING) return;
  bool late = mt_manager_now(m) >= whole_of(m)->close_deadline_ms;
  if (m->phase == MT_OPEN && (mt_outbox_idle(m) || late)) {
    abandon_late(m);
    m->closing = MT_LAST_END;
    end_own_session(m);
  } else if (m->phase == MT_UNVERIFIED || m->phase == MT_NO_SESSION || late) {
    closed(m);
  }
}

void mt_manager_tick(mt_manager *m) {
  m->due_now = false;
  finish_refused(m);
  if (m->phase == MT_OPEN && !mt_manager_session_alive(m)) session_lost(m);
  if (m->waits->first) want_session(m);
  mt_attempts_tick(m);
  mt_deadlock_tick(m);
  mt_outbox_flush(m);
  mt_looks_flush(m);
  mt_janitor_tick(m); /* after the owner's own requests */
  replace_if_tainted(m); /* after the last hold was dropped: no later tick may come */
  tick_close(m);
}

static void begin_manager_close(mt_manager *m, int64_t deadline_ms, void (*done)(void *ctx),
                                void *ctx) {
  whole *w = whole_of(m);
  mortise_error err;
  mt_error_set(&err, MORTISE_INTERRUPTED, "the client is being closed");
  m->closing = MT_CLOSING;
  w->close_deadline_ms = deadline_ms;
  w->close_done = done;
  w->close_ctx = ctx;
  mt_attempts_fail(m, &err);
  for (mt_lock *lock = m->locks; lock; lock = lock->next) lock->granted = false;
  mt_manager_soon(m);
}

void mt_manager_close(mt_manager *m, int64_t deadline_ms, void (*done)(void *ctx), void *ctx) {
  begin_manager_close(m, deadline_ms, done, ctx);
  for (mt_lock *lock = m->locks; lock; lock = lock->next) mt_lock_give_back(lock, 0, NULL);
}

void mt_manager_leave(mt_manager *m, int64_t deadline_ms, void (*done)(void *ctx), void *ctx) {
  begin_manager_close(m, deadline_ms, done, ctx);
}

/* ---- What it says --------------------------------------------------------------------------- */

mt_session *mt_manager_session(mt_manager *m) {
  return m->phase == MT_OPEN ? &m->holds->session : NULL;
}

mt_epoch mt_manager_epoch(const mt_manager *m) {
  return whole_of(m)->epoch;
}

static mortise_status permit_check(const void *lock, mortise_error *err) {
  return mt_lock_check(lock, err);
}

static int64_t permit_remaining_ms(const void *lock) {
  return mt_lock_remaining_ms(lock);
}

static uint64_t permit_fence(const void *lock) {
  return mt_lock_fence(lock);
}

mt_permit mt_manager_permit(const mt_lock *lock) {
  return (mt_permit){.lock = lock,
                     .check = permit_check,
                     .remaining_ms = permit_remaining_ms,
                     .fence = permit_fence,
                     .session = mt_lock_session(lock),
                     .epoch = mt_manager_epoch(lock->manager),
                     .owner = lock->manager->owner_json};
}

void mt_manager_clear_the_dead(mt_manager *m) {
  mt_janitor_hurry(m);
}

mt_manager_stats mt_manager_get_stats(const mt_manager *m) {
  return m->stats;
}

int64_t mt_manager_asked_ms(const mt_manager *m) {
  if (m->phase == MT_VERIFYING || m->phase == MT_OPENING) return whole_of(m)->phase_ms;
  return m->phase == MT_OPEN ? mt_outbox_asked_ms(m) : 0;
}
