#include "job/retry.h"

enum { RETRY_MS = 1000 };

static void on_retry_now(void *ctx) {
  mt_retry *p = ctx;
  p->waits = false;
  p->again(p->ctx);
}

mortise_status mt_retry_init(mt_retry *p, mortise_error *err) {
  p->timer = (mt_timer){.fire = on_retry_now, .ctx = p};
  mortise_status status = mt_timer_reserve(p->loop, &p->timer, err);
  p->reserved = !status;
  return status;
}

void mt_retry_deinit(mt_retry *p) {
  if (p->reserved) mt_timer_release(p->loop, &p->timer);
  p->reserved = p->waits = false;
}

static int64_t waited_ms(const mt_retry *p) {
  return p->since_ms ? p->env->now_ms(p->env->ctx) - p->since_ms : 0;
}

/* A server answers so, or holds the request back until its time is over. One that is not reached is another matter. */
static bool may_come_back(const mortise_error *e) {
  return e->code == MORTISE_UNAVAILABLE && (e->http_status || e->type[0] || e->ambiguous);
}

bool mt_retry_after(mt_retry *p, const mortise_error *e) {
  if (!may_come_back(e)) {
    p->since_ms = 0;
    return false;
  }
  if (!p->since_ms) p->since_ms = p->env->now_ms(p->env->ctx);
  if (waited_ms(p) >= p->most_ms) return false;
  p->why = *e;
  p->waits = true;
  mt_timer_start(p->loop, &p->timer, mt_loop_now(p->loop) + RETRY_MS, NULL);
  return true;
}

const char *mt_retry_why(const mt_retry *p) {
  return waited_ms(p) >= RETRY_MS ? p->why.message : NULL;
}
