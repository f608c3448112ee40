#include "conformance/model.h"

static mt_model_entry *find(mt_model_entry *list, size_t n, unsigned session) {
  for (size_t i = 0; i < n; i++)
    if (list[i].session == session) return &list[i];
  return NULL;
}

static void drop(mt_model_entry *list, size_t *n, unsigned session) {
  size_t kept = 0;
  for (size_t i = 0; i < *n; i++)
    if (list[i].session != session) list[kept++] = list[i];
  *n = kept;
}

mt_model_entry *mt_model_holder(mt_model_lock *lock, unsigned session) {
  return find(lock->holders, lock->n_holders, session);
}

mt_model_entry *mt_model_waiter(mt_model_lock *lock, unsigned session) {
  return find(lock->queue, lock->n_queue, session);
}

static bool absent(const mt_model_lock *lock) {
  return !lock->n_holders && !lock->n_queue;
}

static void bury(mt_model *m, mt_model_lock *lock) {
  size_t kept = 0;
  for (size_t i = 0; i < lock->n_queue; i++) {
    if (lock->queue[i].until > m->now)
      lock->queue[kept++] = lock->queue[i];
    else
      lock->dead |= 1u << lock->queue[i].session;
  }
  lock->n_queue = kept;
}

void mt_model_sleep(mt_model *m, int64_t ms) {
  m->now += ms;
  for (size_t i = 0; i < MT_MODEL_PATHS; i++) bury(m, &m->locks[i]);
}

static mt_model_answer wrote(mt_model_lock *lock, mt_lock_result result) {
  lock->writes++;
  return (mt_model_answer){.result = result};
}

static void block(mt_model_answer *a, const mt_model_entry *e, bool queued) {
  a->blockers[a->n_blockers].session = e->session;
  a->blockers[a->n_blockers].mode = e->mode;
  a->blockers[a->n_blockers++].queued = queued;
}

/* Other holders, and, unless the session holds an entry already, the live places before its own in
 * the queue. */
static void find_blockers(mt_model_lock *lock, const mt_model_item *item, mt_model_answer *a) {
  for (size_t i = 0; i < lock->n_holders; i++) {
    mt_model_entry *e = &lock->holders[i];
    if (e->session != item->session && !mt_mode_compatible(e->mode, item->mode)) block(a, e, false);
  }
  if (mt_model_holder(lock, item->session)) return;
  for (size_t i = 0; i < lock->n_queue; i++) {
    mt_model_entry *e = &lock->queue[i];
    if (e->session == item->session) break;
    if (!mt_mode_compatible(e->mode, item->mode)) block(a, e, true);
  }
}

static mt_model_answer grant(mt_model_lock *lock, const mt_model_item *item) {
  mt_model_entry *mine = mt_model_holder(lock, item->session);
  if (!mine) mine = &lock->holders[lock->n_holders++];
  *mine = (mt_model_entry){.session = item->session, .n = item->n, .mode = item->mode};
  drop(lock->queue, &lock->n_queue, item->session);
  lock->dead &= ~(1u << item->session);
  mt_model_answer a = wrote(lock, MT_LOCK_ACKED);
  for (size_t i = 0; i < lock->n_queue; i++)
    a.contended |= !mt_mode_compatible(lock->queue[i].mode, item->mode);
  return a;
}

static mt_model_answer enqueue(mt_model *m, mt_model_lock *lock, const mt_model_item *item,
                               mt_model_answer a) {
  lock->dead &= ~(1u << item->session);
  mt_model_entry *mine = mt_model_waiter(lock, item->session);
  if (!mine) mine = &lock->queue[lock->n_queue++];
  *mine = (mt_model_entry){item->session, item->n, item->mode, m->now + MT_QUEUE_LIFE_MS};
  a.result = MT_LOCK_QUEUED;
  a.ahead = (uint32_t)(mine - lock->queue);
  lock->writes++;
  return a;
}

static mt_model_answer set(mt_model *m, mt_model_lock *lock, const mt_model_item *item) {
  const mt_model_entry *mine = mt_model_holder(lock, item->session);
  const mt_model_entry *wish = mt_model_waiter(lock, item->session);
  bool late = (mine && mine->n > item->n) || (wish && wish->n > item->n);
  if (late || (!mine && !item->fresh)) return (mt_model_answer){.result = MT_LOCK_STALE};
  if (mine && mine->n == item->n) return grant(lock, item);
  mt_model_answer a = {.result = MT_LOCK_DENIED};
  find_blockers(lock, item, &a);
  if (!a.n_blockers) return grant(lock, item);
  return item->enqueue ? enqueue(m, lock, item, a) : a;
}

static mt_model_answer create(mt_model_lock *lock, const mt_model_item *item) {
  mt_model_answer exists = {.result = MT_LOCK_EXISTS};
  if (!absent(lock)) return exists;
  if (!lock->dead) return grant(lock, item);
  exists.instead = MT_LOCK_ACKED;
  return exists;
}

/* For what may be there still: an expired place of that session. */
static mt_model_answer nothing(const mt_model_lock *lock, unsigned session) {
  bool maybe = lock->dead >> session & 1;
  return (mt_model_answer){.result = MT_LOCK_ABSENT,
                           .instead = maybe ? MT_LOCK_ACKED : MT_LOCK_NO_ANSWER};
}

static mt_model_answer release(mt_model_lock *lock, const mt_model_item *item) {
  mt_model_entry *hold = mt_model_holder(lock, item->session);
  mt_model_entry *wait = mt_model_waiter(lock, item->session);
  bool leaves = hold && hold->n <= item->n, gives_up = wait && wait->n <= item->n;
  if (!leaves && !gives_up) return nothing(lock, item->session);
  if (leaves) drop(lock->holders, &lock->n_holders, item->session);
  if (gives_up) drop(lock->queue, &lock->n_queue, item->session);
  return wrote(lock, MT_LOCK_ACKED);
}

static mt_model_answer remove_document(mt_model_lock *lock, const mt_model_item *item) {
  if (absent(lock) || lock->writes != item->if_writes)
    return (mt_model_answer){.result = MT_LOCK_CONFLICT};
  lock->n_holders = lock->n_queue = 0;
  lock->dead = 0;
  return wrote(lock, MT_LOCK_ACKED);
}

static mt_model_answer evict(mt_model_lock *lock, const mt_model_item *item) {
  if (!mt_model_holder(lock, item->other) && !mt_model_waiter(lock, item->other))
    return nothing(lock, item->other);
  drop(lock->holders, &lock->n_holders, item->other);
  drop(lock->queue, &lock->n_queue, item->other);
  lock->dead &= ~(1u << item->other);
  return wrote(lock, MT_LOCK_ACKED);
}

static mt_model_answer adopt(mt_model_lock *lock, const mt_model_item *item) {
  mt_model_entry *theirs = mt_model_holder(lock, item->other);
  if (!theirs) return (mt_model_answer){.result = MT_LOCK_ABSENT};
  theirs->session = item->session;
  theirs->n = item->n;
  return wrote(lock, MT_LOCK_ACKED);
}

void mt_model_apply_instead(mt_model *m, const mt_model_item *item) {
  mt_model_lock *lock = &m->locks[item->path];
  if (item->verb == MT_LOCK_CREATE) {
    lock->dead = 0;
    grant(lock, item);
    return;
  }
  lock->dead &= ~(1u << (item->verb == MT_LOCK_EVICT ? item->other : item->session));
  lock->writes++;
}

mt_model_answer mt_model_apply(mt_model *m, const mt_model_item *item) {
  mt_model_lock *lock = &m->locks[item->path];
  switch (item->verb) {
  case MT_LOCK_CREATE:
    return create(lock, item);
  case MT_LOCK_SET:
    return set(m, lock, item);
  case MT_LOCK_RELEASE:
    return release(lock, item);
  case MT_LOCK_DELETE:
    return remove_document(lock, item);
  case MT_LOCK_EVICT:
    return evict(lock, item);
  case MT_LOCK_ADOPT:
    return adopt(lock, item);
  }
  return (mt_model_answer){.result = MT_LOCK_FAILED};
}
