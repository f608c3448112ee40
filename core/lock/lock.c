#include "lock/lock.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/utf8.h"
#include "lock/wait.h"

enum { PATH_SHOWN = 200 };

/* ---- Making --------------------------------------------------------------------------------- */

/* Turns the plan's rows into the lock's parts and takes over the rest of the plan. */
static void take_plan(mt_lock *lock, mt_plan *plan, mt_part *parts) {
  lock->parts = parts;
  for (size_t i = 0; i < plan->n; i++)
    lock->parts[i] = (mt_part){.place = plan->rows[i].place,
                               .lock = lock,
                               .task = lock->task,
                               .index = (uint32_t)i,
                               .last = i + 1 == plan->n,
                               .mode = plan->rows[i].mode,
                               .target = plan->rows[i].target};
  lock->n = plan->n;
  lock->wants = plan->wants;
  lock->n_wants = plan->n_wants;
  lock->text = plan->text;
  mt_free(plan->rows);
}

static void free_plan_of(mt_lock *lock) {
  mt_free(lock->parts);
  mt_free(lock->wants);
  mt_free(lock->text);
}

static uint32_t stripes_now(const mt_manager *m) {
  return m->stripes ? m->stripes : 1;
}

/* In the place of what was planned before, of which `wants` may be a part. */
static mortise_status plan_lock(mt_lock *lock, const mt_want *wants, size_t n, mortise_error *err) {
  mt_plan plan;
  uint32_t stripes = stripes_now(lock->manager);
  if (mt_plan_make(wants, n, stripes, &plan, err)) return err->code;
  mt_part *parts = mt_calloc(plan.n, sizeof *parts);
  if (!parts) {
    mt_plan_deinit(&plan);
    return mt_error_memory(err);
  }
  free_plan_of(lock);
  take_plan(lock, &plan, parts);
  lock->stripes = stripes;
  return MORTISE_OK;
}

mt_lock *mt_lock_new(mt_manager *m, const mt_acquire *a, mortise_error *err) {
  mt_lock *lock = mt_calloc(1, sizeof *lock);
  if (!lock) {
    mt_error_memory(err);
    return NULL;
  }
  *lock = (mt_lock){.manager = m, .task = a->task};
  if (!plan_lock(lock, a->wants, a->n, err)) return lock;
  mt_free(lock);
  return NULL;
}

/* ---- Stripes -------------------------------------------------------------------------------- */

static bool has_intention(const mt_holds *holds, mt_place place, mt_mode mode) {
  const mt_hold *h = mt_holds_at(holds, place);
  return h && (mt_mode_covers(h->mode, mode) || (h->guard && mt_mode_covers(h->adopted, mode)));
}

static const mt_part *part_at(const mt_lock *lock, mt_place place) {
  for (size_t i = 0; lock && i < lock->n; i++)
    if (mt_place_equal(lock->parts[i].place, place)) return &lock->parts[i];
  return NULL;
}

static uint32_t choose_stripe(const mt_lock *lock, const mt_part *part, uint32_t stripes,
                              const mt_lock *like) {
  uint32_t own = mt_place_stripe_of(lock->holds->session.id, stripes);
  mt_place place = {part->place.path, own};
  for (uint32_t i = 0; i < stripes; i++, place.stripe = (place.stripe + 1) % stripes)
    if (like ? part_at(like, place) != NULL : has_intention(lock->holds, place, part->mode))
      return place.stripe;
  return own;
}

void mt_lock_choose_stripes(mt_lock *lock, const mt_lock *like) {
  for (size_t i = 0; lock->stripes > 1 && i < lock->n; i++) {
    mt_part *part = &lock->parts[i];
    uint32_t stripes = mt_place_stripes(part->place.path, lock->stripes);
    if (stripes > 1 && mt_mode_is_intention(part->mode))
      part->place.stripe = choose_stripe(lock, part, stripes, like);
  }
}

mortise_status mt_lock_bind(mt_lock *lock, mt_holds *holds, mortise_error *err) {
  if (lock->stripes != stripes_now(lock->manager) &&
      plan_lock(lock, lock->wants, lock->n_wants, err))
    return err->code;
  lock->holds = holds;
  mt_holds_ref(holds);
  mt_lock_choose_stripes(lock, NULL);
  return MORTISE_OK;
}

/* ---- Ending --------------------------------------------------------------------------------- */

void mt_lock_granted(mt_lock *lock) {
  mt_manager *m = lock->manager;
  MT_MUST(!lock->granted);
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
  free_plan_of(lock);
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
    mt_slice path = lock->wants[0].path;
    if (path.n > PATH_SHOWN) path.n = PATH_SHOWN; /* cut, so that the reason still fits */
    return mt_error_set(err, MORTISE_LOCK_LOST, "the lock on " MT_QUOTED "%s is lost: %s",
                        MT_QUOTED_OF(path),
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
