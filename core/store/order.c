#include "store/order.h"

uint64_t mt_order_ask(const mt_order *o) {
  return o->acked;
}

uint64_t mt_order_ask_session(mt_order *o, const mt_session_write *r) {
  if (r->verb == MT_SESSION_OPEN) o->lately = 0;
  return o->acked;
}

static void hear(mt_order *o, mt_version version) {
  uint64_t fence = mt_version_fence(version);
  if (fence > o->acked) o->acked = fence;
  if (fence > o->lately) o->lately = fence;
}

static bool was_written(const mt_lock_item *item) {
  return item->result == MT_LOCK_ACKED || item->result == MT_LOCK_QUEUED;
}

/* A write newer than those acknowledged before the request was sent proves the whole answer. STALE,
 * which ends the session, is believed only in a proven answer. */
bool mt_order_judge(mt_order *o, uint64_t after, mt_lock_batch *r, bool identified) {
  bool stale = false;
  r->proven = identified;
  for (size_t i = 0; i < r->n; i++) {
    const mt_lock_item *item = &r->items[i];
    if (was_written(item) && !mt_version_is_after(item->version, after)) return r->proven = false;
    r->proven |= was_written(item);
    stale |= item->result == MT_LOCK_STALE;
  }
  for (size_t i = 0; i < r->n; i++)
    if (was_written(&r->items[i])) hear(o, r->items[i].version);
  return r->proven || !stale;
}

/* The answer to an opening cannot be another request's, since its document is new. If it is not
 * newer than what was acknowledged before, the table was recreated, and its order starts over. */
bool mt_order_judge_session(mt_order *o, uint64_t after, mt_session_verb verb, mt_version version) {
  if (!mt_version_is_after(version, after)) {
    if (verb != MT_SESSION_OPEN) return false;
    o->acked = o->lately;
  }
  hear(o, version);
  return true;
}
