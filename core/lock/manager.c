#include "lock/manager.h"

#include "base/mem.h"
#include "lock/internal.h"

#include <stdio.h>

enum {
  END_MS = 5000, /* patience for closing a session that is of no more use */
  PATH_SHOWN = 200,
};

/* ---- Time and chance ------------------------------------------------------------------------ */

int64_t mt_manager_jitter(mt_manager *m, int64_t ms) {
  if (ms < 2) return ms;
  return ms / 2 + (int64_t)(m->env->random(m->env->ctx) % (uint64_t)(ms - ms / 2 + 1));
}

void mt_manager_soon(mt_manager *m) {
  if (m->due_now) return;
  m->due_now = true;
  if (m->config.due_changed) m->config.due_changed(m->config.ctx);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void end_of_close(void *ctx, mt_req *req);

/* All is done but for the answer to the session's end, which is bounded by itself. */
static bool closes(const mt_manager *m) {
  return m->phase == MT_ENDING && m->write.req.done == end_of_close;
}

int64_t mt_manager_due(const mt_manager *m) {
  if (m->due_now) return 0;
  int64_t due = m->closing && !m->closed && !closes(m) ? m->close_deadline_ms : INT64_MAX;
  for (const mt_attempt *at = m->attempts; at; at = at->next) due = least(due, mt_attempt_due(at));
  if (m->phase != MT_OPEN) return due;
  due = least(due, atomic_load(&m->table->session.deadline_ms));
  due = least(due, mt_deadlock_due(m));
  return least(due, mt_outbox_due(m));
}

/* ---- Making --------------------------------------------------------------------------------- */

mt_manager *mt_manager_new(mt_store *store, const mt_env *env, const mt_manager_config *config,
                           mortise_error *err) {
  mt_manager *m = mt_calloc(1, sizeof *m);
  char *owner = mt_strdup(config->session.owner_json);
  if (!m || !owner) {
    mt_free(m);
    mt_free(owner);
    mt_error_memory(err);
    return NULL;
  }
  m->store = store;
  m->env = env;
  m->config = *config;
  snprintf(m->ns, sizeof m->ns, "%s", config->ns);
  m->owner_json = owner;
  m->lease_ms = config->session.lease_ms;
  m->margin_ms = config->session.margin_ms;
  m->wait_ms = config->wait_ms;
  m->kin = (mt_kin){config->inherits, config->ctx};
  return m;
}

static void cancel_session_requests(mt_manager *m) {
  if (m->phase == MT_VERIFYING) mt_store_cancel(m->store, &m->verify.req);
  if (m->phase == MT_OPENING || m->phase == MT_ENDING) mt_store_cancel(m->store, &m->write.req);
  mt_locks_admin_deinit(&m->verify);
}

static void stop_heartbeat(mt_manager *m) {
  if (m->table && m->config.heartbeat)
    m->config.heartbeat(m->config.ctx, false, &m->table->session, NULL);
}

void mt_manager_free(mt_manager *m) {
  if (!m) return;
  cancel_session_requests(m);
  if (m->phase == MT_OPEN) stop_heartbeat(m);
  mt_takeover_deinit(m);
  mt_deadlock_deinit(m);
  mt_outbox_deinit(m);
  while (m->attempts) mt_attempt_abandon(m->attempts);
  while (m->locks) mt_lock_free(m->locks);
  mt_holds_unref(m->table);
  mt_free(m->owner_json);
  mt_free(m);
}

/* ---- Our own session ------------------------------------------------------------------------ */

static void session_failed(mt_manager *m, const mortise_error *err) {
  m->phase = MT_NO_SESSION;
  mt_holds_unref(m->table);
  m->table = NULL;
  mt_attempt_session_failed(m, err);
}

static void session_opened(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mortise_error err = req->error;
  if (m->write.result == MT_SESSION_REFUSED)
    mt_error_set(&err, MORTISE_UNAVAILABLE, "the lock table refuses a new session");
  if (m->write.result == MT_SESSION_ACKED) {
    mt_session_extend(&m->table->session, m->write_sent_ms, mt_manager_now(m));
    if (!m->config.heartbeat ||
        !m->config.heartbeat(m->config.ctx, true, &m->table->session, &err)) {
      m->phase = MT_OPEN;
      mt_attempt_session_open(m);
      mt_manager_soon(m);
      return;
    }
  }
  session_failed(m, &err);
}

static void open_session(mt_manager *m) {
  mortise_error err;
  m->table = mt_holds_new(m->env, m->ns, m->lease_ms, m->margin_ms);
  if (!m->table) {
    mt_error_memory(&err);
    session_failed(m, &err);
    return;
  }
  m->phase = MT_OPENING;
  m->write_sent_ms = m->phase_ms = mt_manager_now(m);
  m->write = (mt_session_write){
      .req = {.done = session_opened,
              .ctx = m,
              .deadline_ms = m->write_sent_ms + least(m->store->request_ms, m->lease_ms / 2)},
      .verb = MT_SESSION_OPEN,
      .ns = m->ns,
      .session = m->table->session.id,
      .owner = mt_slice_of(m->owner_json),
      .lease_ms = m->lease_ms,
  };
  m->store->locks->session(m->store, &m->write);
}

static void verified(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  m->epoch = m->verify.epoch;
  mt_locks_admin_deinit(&m->verify);
  if (req->error.code) {
    mortise_error err = req->error;
    session_failed(m, &err);
    return;
  }
  m->verified = true;
  open_session(m);
}

/* Makes sure that a session is open or being opened. */
static void want_session(mt_manager *m) {
  if (m->phase != MT_NO_SESSION || m->closing) return;
  if (m->verified) {
    open_session(m);
    return;
  }
  m->phase = MT_VERIFYING;
  m->phase_ms = mt_manager_now(m);
  m->verify = (mt_locks_admin){.req = {.done = verified, .ctx = m, .idempotent = true}};
  m->store->locks->verify(m->store, &m->verify);
}

static void session_ended(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  (void)req;
  /* Where it was not found as it was left, the table may be another one. */
  if (m->write.result != MT_SESSION_ACKED) m->verified = false;
  mt_holds_unref(m->table);
  m->table = NULL;
  m->phase = MT_NO_SESSION;
  mt_manager_soon(m);
}

/* Stops the heartbeat, then says `closed`, so that others need not wait for the lease: nothing of
 * this session is believed here any more. */
static void end_session(mt_manager *m) {
  stop_heartbeat(m);
  m->phase = MT_ENDING;
  int64_t patience = least(m->store->request_ms, END_MS);
  m->write = (mt_session_write){
      .req = {.done = session_ended, .ctx = m, .deadline_ms = mt_manager_now(m) + patience},
      .verb = MT_SESSION_CLOSE,
      .ns = m->ns,
      .session = m->table->session.id,
  };
  m->store->locks->session(m->store, &m->write);
}

bool mt_manager_session_alive(mt_manager *m) {
  return m->table && !mt_session_dead(&m->table->session, mt_manager_now(m));
}

/* Ended by another before its deadline, it is not said to be closed: what its tasks have sent under
 * its locks may still be on its way, up to that deadline, and until then nobody may get in. */
static bool ended_by_another(mt_manager *m) {
  return mt_manager_now(m) < atomic_load(&m->table->session.deadline_ms);
}

void mt_manager_session_lost(mt_manager *m) {
  mortise_error err;
  bool by_another = ended_by_another(m);
  char why[MT_SESSION_BREAKER + 64];
  mt_session_why(&m->table->session, why, sizeof why);
  mt_error_set(&err, MORTISE_LOCK_LOST, "the locks of session %s are lost: %s",
               m->table->session.id, why);
  atomic_store(&m->table->session.lost, true);
  m->verified = false;  /* the table itself may have gone */
  m->phase = MT_ENDING; /* nothing more is given back one by one */
  mt_outbox_abandon(m, &err);
  mt_holds *t = m->table;
  if (by_another)
    stop_heartbeat(m);
  else
    end_session(m);
  mt_attempt_fail_table(m, t, &err);
  if (by_another) session_ended(m, NULL);
}

mt_session *mt_manager_session(mt_manager *m) {
  return m->phase == MT_OPEN ? &m->table->session : NULL;
}

/* ---- Acquiring ------------------------------------------------------------------------------ */

void mt_manager_acquire(mt_manager *m, mt_acquire *a) {
  a->lock = NULL;
  a->op = NULL;
  mt_error_clear(&a->error);
  mortise_error *err = &a->error;
  if (m->closing)
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client is closed");
  else
    mt_attempt_new(m, a, err);
  if (err->code) {
    a->next = m->refused;
    m->refused = a;
  } else if (m->phase == MT_OPEN) {
    mt_attempt_session_open(m);
  }
  mt_manager_soon(m);
}

void mt_manager_cancel(mt_manager *m, mt_acquire *a) {
  for (mt_acquire **link = &m->refused; *link; link = &(*link)->next) {
    if (*link != a) continue;
    *link = a->next;
    return;
  }
  if (a->op) mt_attempt_abandon(a->op);
}

/* ---- Giving back ---------------------------------------------------------------------------- */

void mt_lock_give_back(mt_lock *lock, size_t from, mt_giving *giving) {
  mt_manager *m = lock->manager;
  bool live = m->table && lock->table == m->table && m->phase == MT_OPEN;
  for (size_t i = lock->n; i-- > from;) {
    mt_part *part = &lock->parts[i];
    mt_hold *h = part->hold;
    if (part->state == MT_PART_OUT) continue;
    if (lock->told) mt_waits_withdraw(m);
    if (part->asking) {
      mt_outbox_forget(part);
      if (lock->attempt) lock->attempt->unanswered--;
    }
    mt_hold_leave(part);
    if (!live) continue;
    mt_attempt_admit(m, h);
    if (giving && !h->in.first && !h->giving && (h->mode || h->unsettled)) {
      h->giving = giving;
      giving->left++;
    }
    mt_outbox_kick(m, h);
  }
}

void mt_lock_free(mt_lock *lock) {
  if (!lock) return;
  mt_manager *m = lock->manager;
  for (size_t i = 0; i < lock->n; i++) {
    mt_outbox_forget(&lock->parts[i]);
    mt_hold_leave(&lock->parts[i]);
  }
  if (lock->prev) lock->prev->next = lock->next;
  if (lock->next) lock->next->prev = lock->prev;
  if (m->locks == lock) m->locks = lock->next;
  mt_holds_unref(lock->table);
  mt_free(lock->parts);
  mt_free(lock->wants);
  mt_free(lock->text);
  mt_free(lock);
}

void mt_manager_tell_release(mt_manager *m, mt_release *r) {
  r->op = NULL;
  r->next = m->released;
  m->released = r;
  mt_manager_soon(m);
}

void mt_manager_release(mt_manager *m, mt_release *r) {
  mt_lock *lock = r->lock;
  mt_convert_lock_released(m, lock);
  r->op = NULL;
  mt_error_clear(&r->error);
  mt_lock_check(lock, &r->error);
  mt_giving *g = mt_calloc(1, sizeof *g);
  if (g) {
    g->left = 1; /* ours, while the parts are counted */
    g->r = r;
    r->op = g;
  }
  mt_lock_give_back(lock, 0, g);
  mt_lock_free(lock);
  r->lock = NULL;
  if (g && --g->left) return;
  /* Nothing to wait for, or no memory to wait with: the giving back goes on by itself, and is not
   * said to be done. */
  if (!g && !r->error.code) mt_error_memory(&r->error);
  mt_free(g);
  mt_manager_tell_release(m, r);
}

void mt_manager_release_forget(mt_manager *m, mt_release *r) {
  for (mt_release **link = &m->released; *link; link = &(*link)->next) {
    if (*link != r) continue;
    *link = r->next;
    return;
  }
  if (r->op) ((mt_giving *)r->op)->r = NULL;
}

/* ---- The tick ------------------------------------------------------------------------------- */

static void tell_waiting(mt_manager *m) {
  while (m->refused) {
    mt_acquire *a = m->refused;
    m->refused = a->next;
    a->done(a->ctx, a);
  }
  while (m->released) {
    mt_release *r = m->released;
    m->released = r->next;
    r->done(r->ctx, r);
  }
}

static void tick_attempts(mt_manager *m) {
  int64_t now = mt_manager_now(m);
  for (mt_attempt *at = m->attempts; at; at = m->cursor) {
    m->cursor = at->next;
    mt_attempt_tick(at, now);
  }
}

/* A session with an ambiguous grant ends as soon as it holds nothing, so that a late one dies with
 * it. */
static void replace_if_tainted(mt_manager *m) {
  mt_holds *t = m->table;
  if (m->phase == MT_OPEN && t->replace && !t->n && !m->locks && mt_outbox_idle(m)) {
    for (mt_attempt *at = m->attempts; at; at = at->next) {
      if (at->lock->table != t) continue;
      mt_holds_unref(t);
      at->lock->table = NULL;
      at->start = false;
    }
    end_session(m);
  }
}

static void end_of_close(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  session_ended(m, req);
  m->closed = true;
  m->close_done(m->close_ctx);
}

/* Its holds go with the session's table; whoever waits for one to be given back is told. */
static void abandon_late(mt_manager *m) {
  mortise_error err;
  mt_error_set(&err, MORTISE_UNAVAILABLE, "the client was closed before the store had answered");
  mt_outbox_abandon(m, &err);
}

static void tick_close(mt_manager *m) {
  if (!m->closing || m->closed) return;
  bool late = mt_manager_now(m) >= m->close_deadline_ms;
  if (m->phase == MT_OPEN && (mt_outbox_idle(m) || late)) {
    abandon_late(m);
    end_session(m);
    m->write.req.done = end_of_close;
  } else if (m->phase == MT_NO_SESSION || late) {
    if (closes(m)) return;
    m->closed = true;
    m->close_done(m->close_ctx);
  }
}

void mt_manager_tick(mt_manager *m) {
  m->due_now = false;
  tell_waiting(m);
  if (m->phase == MT_OPEN && !mt_manager_session_alive(m)) mt_manager_session_lost(m);
  if (m->attempts) want_session(m);
  tick_attempts(m);
  mt_deadlock_tick(m);
  mt_outbox_flush(m);
  replace_if_tainted(m); /* after the last of its holds was forgotten: no later tick may come */
  tick_close(m);
}

void mt_manager_close(mt_manager *m, int64_t deadline_ms, void (*done)(void *ctx), void *ctx) {
  mortise_error err;
  mt_error_set(&err, MORTISE_INTERRUPTED, "the client is being closed");
  m->closing = true;
  m->close_deadline_ms = deadline_ms;
  m->close_done = done;
  m->close_ctx = ctx;
  while (m->attempts) mt_attempt_fail(m->attempts, &err);
  for (mt_lock *lock = m->locks; lock; lock = lock->next) {
    lock->granted = false;
    mt_lock_give_back(lock, 0, NULL);
  }
  mt_manager_soon(m);
}

/* ---- A lock that is held -------------------------------------------------------------------- */

mortise_status mt_lock_check(const mt_lock *lock, mortise_error *err) {
  if (!lock->granted)
    return mt_error_set(err, MORTISE_LOCK_LOST, "the client of this lock was closed");
  if (mt_session_dead(&lock->table->session, mt_manager_now(lock->manager))) {
    char why[MT_SESSION_BREAKER + 64];
    mt_session_why(&lock->table->session, why, sizeof why);
    const mt_slice path = lock->wants[0].path; /* the reason must still fit */
    return mt_error_set(err, MORTISE_LOCK_LOST, "the lock on %.*s%s is lost: %s",
                        (int)(path.n < PATH_SHOWN ? path.n : PATH_SHOWN), path.p,
                        lock->n_wants > 1 ? " and others" : "", why);
  }
  mt_error_clear(err);
  return MORTISE_OK;
}

int64_t mt_lock_remaining_ms(const mt_lock *lock) {
  if (mt_lock_check(lock, NULL)) return 0;
  return atomic_load(&lock->table->session.deadline_ms) - mt_manager_now(lock->manager);
}

uint64_t mt_lock_fence(const mt_lock *lock) {
  return lock->fence;
}

size_t mt_lock_targets(const mt_lock *lock, const mt_want **wants) {
  *wants = lock->wants;
  return lock->n_wants;
}

mt_manager *mt_lock_manager(const mt_lock *lock) {
  return lock->manager;
}

mt_session *mt_lock_session(const mt_lock *lock) {
  return &lock->table->session;
}

mt_epoch mt_manager_epoch(const mt_manager *m) {
  return m->epoch;
}

mt_manager_stats mt_manager_get_stats(const mt_manager *m) {
  return m->stats;
}

int64_t mt_manager_asked_ms(const mt_manager *m) {
  const mt_outbox *o = &m->outbox;
  if (m->phase == MT_VERIFYING || m->phase == MT_OPENING) return m->phase_ms;
  bool asks = m->phase == MT_OPEN && (o->in_flight || (o->troubles && o->first));
  return asks ? o->asked_ms : 0;
}
