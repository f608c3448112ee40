#include "store/grant.h"

static bool is_entry_of(const mt_lock_entry *e, const char *session) {
  return !e->damaged && !strcmp(e->session, session);
}

const mt_lock_entry *mt_lock_entry_of(const mt_lock_entry *entries, size_t n, const char *session) {
  for (size_t i = 0; i < n; i++)
    if (is_entry_of(&entries[i], session)) return &entries[i];
  return NULL;
}

bool mt_waiter_alive(const mt_lock_entry *waiter, int64_t now_ms) {
  return waiter->until_ms > now_ms;
}

static bool denies(const mt_lock_entry *e, const mt_grant_request *r) {
  return !is_entry_of(e, r->session) && !mt_mode_compatible(e->mode, r->mode);
}

const mt_lock_entry *mt_grant_blocker(const mt_lock_document *doc, const mt_grant_request *r,
                                      const mt_lock_entry *last) {
  const mt_lock_entry *hold = mt_lock_entry_of(doc->holders, doc->n_holders, r->session);
  const mt_lock_entry *e = !last ? doc->holders : last->queued ? NULL : last + 1;
  for (; e && e < doc->holders + doc->n_holders; e++)
    if (denies(e, r)) return e;
  if (hold) return NULL; /* a session that holds something here passes waiters */
  for (e = last && last->queued ? last + 1 : doc->queue; e < doc->queue + doc->n_queue; e++) {
    if (is_entry_of(e, r->session)) return NULL; /* the rest is behind it */
    if (mt_waiter_alive(e, r->now_ms) && denies(e, r)) return e;
  }
  return NULL;
}

uint32_t mt_grant_ahead(const mt_lock_document *doc, const mt_grant_request *r) {
  uint32_t n = 0;
  for (size_t i = 0; i < doc->n_queue && !is_entry_of(&doc->queue[i], r->session); i++)
    n += mt_waiter_alive(&doc->queue[i], r->now_ms);
  return n;
}

bool mt_grant_contended(const mt_lock_document *doc, const mt_grant_request *r, mt_mode held) {
  for (size_t i = 0; i < doc->n_queue; i++) {
    const mt_lock_entry *e = &doc->queue[i];
    if (mt_waiter_alive(e, r->now_ms) && !is_entry_of(e, r->session) &&
        !mt_mode_compatible(held, e->mode))
      return true;
  }
  return false;
}

static bool is_stale_request(const mt_grant *g, const mt_grant_request *r) {
  return (g->hold && g->hold->n > r->n) || (g->place && g->place->n > r->n) ||
         (!g->hold && !r->fresh);
}

mt_grant mt_grant_decide(const mt_lock_document *doc, const mt_grant_request *r) {
  mt_grant g = {.hold = mt_lock_entry_of(doc->holders, doc->n_holders, r->session),
                .place = mt_lock_entry_of(doc->queue, doc->n_queue, r->session),
                .mode = r->mode,
                .since_ms = r->now_ms};
  if (is_stale_request(&g, r)) {
    g.result = MT_LOCK_STALE;
    return g;
  }
  /* The same number was applied before; write it again, since only an acknowledged write is
   * proof. */
  g.again = g.hold && g.hold->n == r->n;
  if (!g.again && mt_grant_blocker(doc, r, NULL)) {
    g.result = r->enqueue ? MT_LOCK_QUEUED : MT_LOCK_DENIED;
    return g;
  }
  g.result = MT_LOCK_ACKED;
  if (g.again) g.mode = g.hold->mode;
  if (g.hold && g.hold->mode == g.mode) g.since_ms = g.hold->since_ms;
  return g;
}
