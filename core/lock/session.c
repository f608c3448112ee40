#include "lock/session.h"

#include <stdio.h>

void mt_session_init(mt_session *s, const mt_env *env, const char *ns, int64_t lease_ms,
                     int64_t margin_ms) {
  memset(s, 0, sizeof *s);
  unsigned long long high = env->random(env->ctx), low = env->random(env->ctx);
  snprintf(s->id, sizeof s->id, "%016llx%016llx", high, low);
  snprintf(s->ns, sizeof s->ns, "%s", ns);
  s->lease_ms = lease_ms;
  s->margin_ms = margin_ms;
}

bool mt_session_dead(mt_session *s, int64_t now_ms) {
  if (atomic_load(&s->lost)) return true;
  if (now_ms < atomic_load(&s->deadline_ms)) return false;
  atomic_store(&s->lost, true);
  return true;
}

void mt_session_extend(mt_session *s, int64_t sent_ms, int64_t now_ms) {
  int64_t old = atomic_load(&s->deadline_ms);
  if (old && mt_session_dead(s, now_ms)) return;
  int64_t deadline = sent_ms + s->lease_ms - s->margin_ms;
  if (deadline > old) atomic_store(&s->deadline_ms, deadline);
  atomic_fetch_add(&s->beats, 1);
}

/* ---- Heartbeat ------------------------------------------------------------------------------ */

static int64_t interval(const mt_session *s) {
  return s->lease_ms / 6;
}

void mt_heartbeat_init(mt_heartbeat *h, mt_session *session, mt_store *store, const mt_env *env) {
  memset(h, 0, sizeof *h);
  h->session = session;
  h->store = store;
  h->env = env;
  h->due_ms = env->now_ms(env->ctx) + interval(session);
}

int64_t mt_heartbeat_due(const mt_heartbeat *h) {
  return h->busy || atomic_load(&h->session->lost) ? INT64_MAX : h->due_ms;
}

static void beaten(void *ctx, mt_req *req) {
  mt_heartbeat *h = ctx;
  int64_t now = h->env->now_ms(h->env->ctx);
  h->busy = false;
  if (h->write.result == MT_SESSION_ACKED) {
    mt_session_extend(h->session, h->sent_ms, now);
    h->failures = 0;
    h->due_ms = h->sent_ms + interval(h->session);
    return;
  }
  h->error = req->error;
  /* Somebody expired it: the store's word is final. */
  if (h->write.result == MT_SESSION_REFUSED) atomic_store(&h->session->lost, true);
  /* A beat that was lost costs a sixth of the lease; sooner again, so that a short outage is
   * survived, but never in a tight loop. */
  int64_t pause = interval(h->session) / 8 << (h->failures < 3 ? h->failures : 3);
  h->failures++;
  h->due_ms = now + (pause > 20 ? pause : 20);
}

void mt_heartbeat_tick(mt_heartbeat *h) {
  int64_t now = h->env->now_ms(h->env->ctx);
  if (h->busy || mt_session_dead(h->session, now) || now < h->due_ms) return;
  h->sent_ms = now;
  h->busy = true;
  int64_t patience = now + h->session->lease_ms / 3;
  int64_t deadline = atomic_load(&h->session->deadline_ms);
  h->write = (mt_session_write){
      .req = {.done = beaten, .ctx = h, .deadline_ms = patience < deadline ? patience : deadline},
      .verb = MT_SESSION_BEAT,
      .ns = h->session->ns,
      .session = h->session->id,
  };
  h->store->locks->session(h->store, &h->write);
}

void mt_heartbeat_deinit(mt_heartbeat *h) {
  if (h->busy) mt_store_cancel(h->store, &h->write.req);
  h->busy = false;
}
