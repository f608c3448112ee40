#include "job/revert.h"

static void finish_revert(mt_revert *v, const mortise_error *e) {
  v->now = NULL;
  if (e) v->error = *e;
  v->done(v->ctx, v);
}

static void start_step(mt_revert *v, mt_change *c, void (*done)(void *ctx, mt_change *c)) {
  mortise_error err;
  c->done = done;
  c->ctx = v;
  if (mt_change_start(c, &err)) {
    finish_revert(v, &err);
    return;
  }
  v->now = c;
  mt_change_pause(c, v->paused);
}

static void on_back(void *ctx, mt_change *c) {
  mt_revert *v = ctx;
  mt_change_result *r = v->result;
  r->matched += c->result.matched;
  r->changed += c->result.changed;
  r->unchanged += c->result.unchanged;
  r->conflicts += c->result.conflicts;
  r->rejected += c->result.rejected;
  finish_revert(v, &c->error);
}

/* A document that someone else has written meanwhile is as good as touched. A document that the store rejects is
 * listed; the store would reject a late write of it just the same. */
static void on_touched(void *ctx, mt_change *c) {
  mt_revert *v = ctx;
  bool whole = !c->error.code || c->result.conflicts || c->result.rejected;
  for (uint64_t i = 0; i < c->result.rejected && i < MT_REJECTS_SHOWN; i++)
    v->result->rejects[i] = c->result.rejects[i];
  v->result->rejected += c->result.rejected;
  if (!whole) {
    finish_revert(v, &c->error);
    return;
  }
  v->loose = false;
  start_step(v, v->back, on_back);
}

void mt_revert_start(mt_revert *v) {
  if (v->loose)
    start_step(v, v->touch, on_touched);
  else
    start_step(v, v->back, on_back);
}

void mt_revert_pause(mt_revert *v, bool paused) {
  v->paused = paused;
  if (v->now) mt_change_pause(v->now, paused);
}

const char *mt_revert_waits(const mt_revert *v) {
  return v->now ? mt_change_waits(v->now) : NULL;
}

void mt_revert_cancel(mt_revert *v) {
  if (v->now) mt_change_cancel(v->now);
}

void mt_revert_abandon(mt_revert *v) {
  if (v->now) mt_change_abandon(v->now);
  v->now = NULL;
}
