#include "lock/convert.h"

#include "base/mem.h"
#include "base/pump.h"

/* An upgrade is a second acquisition of the same targets by the same task: shares of related tasks
 * never exclude one another, and in one bulk the store replaces the session's entry at each path by
 * the least upper bound of both modes. Once all of it is granted, the two locks swap their contents
 * and the old shares are given back, which writes nothing where the new ones cover them. Until then
 * the old lock stays as it was; a denial, a time-out or a cancel ends only the second one.
 *
 * A downgrade asks for nothing: the lock takes new, weaker shares beside the old ones, gives the
 * old ones back, and the store is told what remains. As with a release, what is given up is not
 * relied on from before the request is sent, and the request is repeated until it is
 * acknowledged. */

/* ---- Which lock is being converted ---------------------------------------------------------- */

static void released(mt_lock *lock);

static mt_convert *conversion_of(const mt_lock *lock) {
  return lock->on_release == released ? lock->on_release_ctx : NULL;
}

static void attach(mt_convert *c) {
  c->lock->on_release = released;
  c->lock->on_release_ctx = c;
}

static void detach_conversion(mt_lock *lock) {
  lock->on_release = NULL;
  lock->on_release_ctx = NULL;
}

static void done(mt_convert *c) {
  if (c->lock) detach_conversion(c->lock);
  MT_FINISH(c);
}

/* ---- Changing over -------------------------------------------------------------------------- */

static void adopt_parts(mt_lock *lock) {
  for (size_t i = 0; i < lock->n; i++) lock->parts[i].lock = lock;
}

/* Swaps what the two locks hold, but neither their tasks nor their places in the manager's list. */
static void change_over(mt_lock *a, mt_lock *b) {
  const mt_lock was = *a;
  a->parts = b->parts, a->n = b->n;
  a->wants = b->wants, a->n_wants = b->n_wants;
  a->text = b->text;
  b->parts = was.parts, b->n = was.n;
  b->wants = was.wants, b->n_wants = was.n_wants;
  b->text = was.text;
  if (a->publication > b->publication) b->publication = a->publication; /* b has its shares now */
  if (b->fence > a->fence) a->fence = b->fence;
  adopt_parts(a);
  adopt_parts(b);
}

static void free_shares(mt_lock *lock) {
  mt_lock_give_back(lock, 0, NULL);
  mt_lock_free(lock);
}

/* ---- More than it has ----------------------------------------------------------------------- */

static void on_more_granted(void *ctx, mt_acquire *a) {
  mt_convert *c = ctx;
  c->error = a->error;
  mt_lock *more = a->lock;
  a->lock = NULL;
  if (more && !mt_lock_check(c->lock, &c->error)) change_over(c->lock, more);
  if (more) free_shares(more); /* the old shares, or the new ones if the lock was lost meanwhile */
  done(c);
}

static void ask_for_more(mt_manager *m, mt_convert *c, const mt_want *wants, size_t n) {
  c->asking = true;
  c->acquire = (mt_acquire){.done = on_more_granted,
                            .ctx = c,
                            .wants = wants,
                            .n = n,
                            .task = c->lock->task,
                            .wait_ms = c->wait_ms,
                            .blocks_siblings = c->blocks_siblings,
                            .blockers = c->blockers};
  mt_manager_acquire(m, &c->acquire);
}

/* ---- No more than it has -------------------------------------------------------------------- */

/* Does `lock` cover each part of `less`? Both are in the total order. */
static bool has_all(const mt_lock *lock, const mt_lock *less) {
  size_t i = 0;
  for (size_t j = 0; j < less->n; j++) {
    const mt_part *part = &less->parts[j];
    while (i < lock->n && mt_place_cmp(lock->parts[i].place, part->place) < 0) i++;
    if (i == lock->n || !mt_place_equal(lock->parts[i].place, part->place)) return false;
    if (!mt_mode_covers(lock->parts[i].mode, part->mode)) return false;
  }
  return true;
}

static void share(const mt_lock *lock, mt_lock *less) {
  for (size_t i = 0, j = 0; j < less->n; j++) {
    mt_part *part = &less->parts[j];
    while (!mt_place_equal(lock->parts[i].place, part->place)) i++;
    part->hold = lock->parts[i].hold;
    mt_hold_enter(part);
    part->state = lock->parts[i].state;
  }
}

/* A release waits for holds that are lowered as it does for holds that are released. */
static void count_lowerings(const mt_lock *lock, mt_pending_release *p) {
  for (size_t i = 0; i < lock->n; i++) {
    mt_hold *h = lock->parts[i].hold;
    if (h->pending_release || mt_mode_covers(mt_hold_shared_mode(h), h->mode)) continue;
    mt_pending_add(p, h);
  }
}

static void lowered(void *ctx, mt_release *r) {
  mt_convert *c = ctx;
  c->error = r->error;
  if (c->lock && !c->error.code) mt_lock_check(c->lock, &c->error);
  done(c);
}

static void give_the_rest(mt_manager *m, mt_convert *c, mt_lock *less) {
  mt_release *r = &c->lowering;
  *r = (mt_release){.done = lowered, .ctx = c};
  mt_pending_release *p = mt_calloc(1, sizeof *p);
  if (p) *p = (mt_pending_release){.r = r, .left = 1};
  r->op = p;
  share(c->lock, less);
  change_over(c->lock, less);
  mt_lock_give_back(less, 0, p);
  mt_lock_free(less);
  if (p) count_lowerings(c->lock, p);
  if (p && --p->left) return;
  mt_free(p);
  mt_manager_tell_release(m, r);
}

/* ---- Both ----------------------------------------------------------------------------------- */

/* `done` comes at the next tick; the lock may be gone by then. */
static void convert_refuse(mt_manager *m, mt_convert *c, const mortise_error *err) {
  c->lock = NULL;
  c->lowering = (mt_release){.done = lowered, .ctx = c, .error = *err};
  mt_manager_tell_release(m, &c->lowering);
}

static mt_want *new_wants(const mt_lock *lock, mt_mode mode, mortise_error *err) {
  mt_want *wants = mt_calloc(lock->n_wants, sizeof *wants);
  if (!wants) mt_error_memory(err);
  for (size_t i = 0; wants && i < lock->n_wants; i++)
    wants[i] = (mt_want){lock->wants[i].path, mode};
  return wants;
}

static void begin_conversion(mt_manager *m, mt_convert *c, mortise_error *err) {
  mt_want *wants = new_wants(c->lock, c->mode, err);
  if (!wants) return;
  const mt_acquire as_task = {.wants = wants, .n = c->lock->n_wants, .task = c->lock->task};
  mt_lock *less = mt_lock_new(m, &as_task, err);
  if (less && mt_lock_bind(less, c->lock->holds, err)) {
    mt_lock_free(less);
    less = NULL;
  }
  if (less) mt_lock_choose_stripes(less, c->lock);
  if (less && has_all(c->lock, less)) {
    give_the_rest(m, c, less);
  } else if (less) {
    mt_lock_free(less);
    ask_for_more(m, c, wants, as_task.n); /* which copies `wants` */
  }
  mt_free(wants);
}

void mt_manager_convert(mt_manager *m, mt_convert *c) {
  mortise_error err;
  c->asking = c->finished = false;
  if (c->blockers) *c->blockers = (mortise_blockers){0};
  mt_error_clear(&c->error);
  if (conversion_of(c->lock)) {
    mt_error_set(&err, MORTISE_INVALID_ARGUMENT, "the lock is being converted already");
  } else if (!mt_lock_check(c->lock, &err)) {
    attach(c);
    begin_conversion(m, c, &err);
    if (err.code) detach_conversion(c->lock);
  }
  if (err.code) convert_refuse(m, c, &err);
}

void mt_manager_convert_cancel(mt_manager *m, mt_convert *c) {
  if (c->lock && conversion_of(c->lock) == c) detach_conversion(c->lock);
  if (c->asking)
    mt_manager_cancel(m, &c->acquire);
  else
    mt_manager_release_forget(m, &c->lowering);
}

static void released(mt_lock *lock) {
  mt_convert *c = conversion_of(lock);
  mortise_error err;
  mt_manager_convert_cancel(lock->manager, c);
  c->asking = false;
  mt_error_set(&err, MORTISE_LOCK_LOST, "the lock was released while it was being converted");
  convert_refuse(lock->manager, c, &err);
}
