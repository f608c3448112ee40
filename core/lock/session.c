#include "lock/session.h"

#include "base/mem.h"
#include "base/process.h"

#include <stdio.h>

void mt_session_init(mt_session *s, const mt_env *env, const char *ns, uint64_t address, int64_t lease_ms,
                     int64_t margin_ms) {
  memset(s, 0, sizeof *s);
  unsigned long long high = env->random(env->ctx), low = address ? address : env->random(env->ctx);
  snprintf(s->id, sizeof s->id, "%016llx%016llx", high, low);
  snprintf(s->ns, sizeof s->ns, "%s", ns);
  s->process = mt_process_number();
  s->lease_ms = lease_ms;
  s->margin_ms = margin_ms;
  pthread_mutex_init(&s->board.lock, NULL); /* cannot fail with default attributes */
}

void mt_session_deinit(mt_session *s) {
  mt_free(s->board.text);
  s->board.text = NULL;
  pthread_mutex_destroy(&s->board.lock);
}

/* Are we the first to say why it ended? */
static bool claim_end(mt_session *s, mt_session_end first) {
  int none = MT_END_UNKNOWN;
  return atomic_compare_exchange_strong(&s->end, &none, (int)first);
}

void mt_session_why(const mt_session *s, char *out, size_t size) {
  if (s->process != mt_process_number()) {
    snprintf(out, size, "%s", mt_process_forked);
    return;
  }
  switch (atomic_load(&s->end)) {
  case MT_END_LEASE:
    snprintf(out, size, "its lease (%lld ms) ran out", (long long)s->lease_ms);
    return;
  case MT_END_BROKEN:
    snprintf(out, size, "its session was broken by hand%s%s", *s->breaker ? ", by " : "",
             s->breaker);
    return;
  case MT_END_EXPIRED:
    snprintf(out, size, "its session was expired by another process");
    return;
  default:
    snprintf(out, size, "another process ended its session");
  }
}

bool mt_session_dead(mt_session *s, int64_t now_ms) {
  if (atomic_load(&s->lost) || s->process != mt_process_number()) return true;
  if (now_ms < atomic_load(&s->deadline_ms)) return false;
  claim_end(s, MT_END_LEASE);
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

/* ---- The board ------------------------------------------------------------------------------ */

uint64_t mt_board_put(mt_session *s, char *text, size_t n) {
  mt_board *b = &s->board;
  pthread_mutex_lock(&b->lock);
  bool same = text && b->text ? n == b->n && memcmp(text, b->text, n) == 0 : text == b->text;
  char *old = same ? text : b->text;
  if (!same) {
    b->text = text;
    b->n = n;
    b->version++;
  }
  uint64_t version = b->version;
  pthread_mutex_unlock(&b->lock);
  mt_free(old);
  return version;
}

static bool board_calls(mt_session *s, uint64_t said) {
  mt_board *b = &s->board;
  pthread_mutex_lock(&b->lock);
  bool calls = b->text || b->version != said;
  pthread_mutex_unlock(&b->lock);
  return calls;
}

/* Builds the waiting list of the next beat. `after` says that all of it was true at some moment
 * after that write. Without memory the list is empty. */
static void copy_board(mt_heartbeat *h) {
  mt_board *b = &h->session->board;
  mt_buf_clear(&h->waiting);
  pthread_mutex_lock(&b->lock);
  bool none = !b->text;
  if (none) h->board_version = b->version;
  pthread_mutex_unlock(&b->lock);
  if (none || !mt_buf_room(&h->waiting, MT_BOARD_MAX + 64)) return;
  mt_buf_addf(&h->waiting, "[{\"after\":%llu}", (unsigned long long)h->fence);
  pthread_mutex_lock(&b->lock);
  if (b->text) mt_buf_addc(&h->waiting, ','); /* the room is reserved, so this allocates nothing */
  if (b->text) mt_buf_add(&h->waiting, b->text, b->n);
  h->board_version = b->version;
  pthread_mutex_unlock(&b->lock);
  mt_buf_addc(&h->waiting, ']');
}

static void board_acked(mt_heartbeat *h) {
  mt_board *b = &h->session->board;
  h->fence = mt_version_fence(h->write.version);
  pthread_mutex_lock(&b->lock);
  b->acked_version = h->board_version;
  b->acked_fence = h->fence;
  pthread_mutex_unlock(&b->lock);
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
  h->sent_ms = env->now_ms(env->ctx);
  h->due_ms = h->sent_ms + interval(session);
  mt_buf_init(&h->waiting, MT_BOARD_MAX + 128);
}

int64_t mt_heartbeat_due(const mt_heartbeat *h) {
  if (h->busy || atomic_load(&h->session->lost)) return INT64_MAX;
  int64_t soon = h->sent_ms + MT_BOARD_BEAT_MS;
  if (h->failures || h->due_ms <= soon || !board_calls(h->session, h->board_version))
    return h->due_ms;
  return soon;
}

/* Somebody ended the session; this is final. The reason is only for people. */
static void end_refused(mt_session *s, const mt_session_write *w) {
  if (claim_end(s, MT_END_BEING_SAID)) {
    memcpy(s->breaker, w->breaker, sizeof s->breaker);
    atomic_store(&s->end, w->found == MT_SESSION_BROKEN    ? MT_END_BROKEN
                          : w->found == MT_SESSION_EXPIRED ? MT_END_EXPIRED
                                                           : MT_END_CLOSED);
  }
  atomic_store(&s->lost, true);
}

static void judge_beat(mt_heartbeat *h, const mortise_error *error) {
  int64_t now = h->env->now_ms(h->env->ctx);
  h->busy = false;
  if (h->write.result == MT_SESSION_ACKED) {
    mt_session_extend(h->session, h->sent_ms, now);
    board_acked(h);
    atomic_store(&h->session->asked_ms, 0);
    h->failures = 0;
    h->due_ms = h->sent_ms + interval(h->session);
    return;
  }
  h->error = *error;
  if (h->write.result == MT_SESSION_REFUSED) end_refused(h->session, &h->write);
  /* Retries sooner than a sixth of the lease, to survive a short outage, but never in a tight
   * loop. */
  int64_t pause = interval(h->session) / 8 << (h->failures < 3 ? h->failures : 3);
  h->failures++;
  h->due_ms = now + (pause > 20 ? pause : 20);
}

static void beaten(void *ctx, mt_req *req) {
  mt_heartbeat *h = ctx;
  judge_beat(h, &req->error);
  if (h->answered) h->answered(h->ctx);
}

void mt_heartbeat_tick(mt_heartbeat *h) {
  int64_t now = h->env->now_ms(h->env->ctx);
  if (h->busy || mt_session_dead(h->session, now) || now < mt_heartbeat_due(h)) return;
  copy_board(h);
  h->sent_ms = now;
  if (!h->failures) atomic_store(&h->session->asked_ms, now);
  h->busy = true;
  int64_t patience = now + h->session->lease_ms / 3;
  int64_t deadline = atomic_load(&h->session->deadline_ms);
  h->write = (mt_session_write){
      .req = {.done = beaten, .ctx = h, .deadline_ms = patience < deadline ? patience : deadline},
      .verb = MT_SESSION_BEAT,
      .ns = h->session->ns,
      .session = h->session->id,
      .waiting = h->waiting.n ? mt_buf_slice(&h->waiting) : (mt_slice){0},
  };
  h->store->locks->session(h->store, &h->write);
}

void mt_heartbeat_deinit(mt_heartbeat *h) {
  if (h->busy) mt_store_cancel(h->store, &h->write.req);
  h->busy = false;
  if (h->session) atomic_store(&h->session->asked_ms, 0); /* NULL: never initialised */
  mt_buf_deinit(&h->waiting);
}
