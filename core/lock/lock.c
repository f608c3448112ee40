#include "lock/lock.h"

#include "base/mem.h"
#include "lock/wait.h"

enum { PATH_SHOWN = 200 };

/* ---- Making and ending ---------------------------------------------------------------------- */

/* Turns the plan's rows into the lock's parts and takes over the rest of the plan. */
static void take_plan(mt_lock *lock, mt_plan *plan) {
  for (size_t i = 0; i < plan->n; i++)
    lock->parts[i] = (mt_part){.place = plan->rows[i].place,
                               .lock = lock,
                               .task = lock->task,
                               .index = (uint32_t)i,
                               .mode = plan->rows[i].mode,
                               .target = plan->rows[i].target};
  lock->n = plan->n;
  lock->wants = plan->wants;
  lock->n_wants = plan->n_wants;
  lock->text = plan->text;
  mt_free(plan->rows);
}

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
  *lock = (mt_lock){.manager = m, .task = a->task, .parts = parts};
  take_plan(lock, &plan);
  return lock;
}

void mt_lock_granted(mt_lock *lock) {
  mt_manager *m = lock->manager;
  lock->granted = true;
  lock->next = m->locks;
  if (lock->next) lock->next->prev = lock;
  m->locks = lock;
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
  mt_holds_unref(lock->holds);
  mt_free(lock->parts);
  mt_free(lock->wants);
  mt_free(lock->text);
  mt_free(lock);
}

/* ---- Giving back ---------------------------------------------------------------------------- */

static void give_part_back(mt_manager *m, mt_part *part, bool live, mt_pending_release *pending) {
  mt_hold *h = part->hold;
  if (part->asking) {
    mt_outbox_forget(part);
    part->lock->unanswered--;
  }
  mt_hold_leave(part);
  if (!live) return;
  m->hooks->admit(m, h);
  if (pending && !h->in.first && !h->pending_release && h->state) mt_pending_add(pending, h);
  mt_outbox_kick(m, h);
}

void mt_lock_give_back(mt_lock *lock, size_t from, mt_pending_release *pending) {
  mt_manager *m = lock->manager;
  bool live = lock->holds && mt_manager_believes(m, lock->holds);
  for (size_t i = lock->n; i-- > from;) {
    if (lock->parts[i].state == MT_PART_OUT) continue;
    if (lock->publication == m->waits->publication) mt_waits_withdraw(m);
    give_part_back(m, &lock->parts[i], live, pending);
  }
}

/* ---- What it says --------------------------------------------------------------------------- */

mortise_status mt_lock_check(const mt_lock *lock, mortise_error *err) {
  if (!lock->granted)
    return mt_error_set(err, MORTISE_LOCK_LOST, "the client of this lock was closed");
  if (mt_session_dead(&lock->holds->session, mt_manager_now(lock->manager))) {
    char why[MT_SESSION_BREAKER + 64];
    mt_session_why(&lock->holds->session, why, sizeof why);
    const mt_slice path = lock->wants[0].path; /* cut, so that the reason still fits */
    return mt_error_set(err, MORTISE_LOCK_LOST, "the lock on %.*s%s is lost: %s",
                        (int)(path.n < PATH_SHOWN ? path.n : PATH_SHOWN), path.p,
                        lock->n_wants > 1 ? " and others" : "", why);
  }
  mt_error_clear(err);
  return MORTISE_OK;
}

int64_t mt_lock_remaining_ms(const mt_lock *lock) {
  if (mt_lock_check(lock, NULL)) return 0;
  return atomic_load(&lock->holds->session.deadline_ms) - mt_manager_now(lock->manager);
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
  return &lock->holds->session;
}
