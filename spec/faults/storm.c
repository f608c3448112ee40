/* Storms: three clients, each behind a proxy with random faults of every kind, take and give back
 * random locks. No two may ever believe in conflicting locks, and afterwards everything can be
 * taken. */
#include "cell.h"

#include <stdio.h>

enum { STORM_MS = 10000, PATIENCE = 2500, CLIENTS = 3 };

static const char *const weather[] = {
    "rate=15 drop-request",      "rate=15 drop-answer",       "rate=15 reset",
    "rate=15 reset-answer",      "rate=15 cut-request",       "rate=15 cut-answer -3",
    "rate=15 duplicate",         "rate=15 duplicate 700",     "rate=15 hold 500",
    "rate=8 hold 2200",          "rate=15 status 503",        "rate=15 status 429",
    "rate=15 late-status 504",   "rate=15 item-status 0 429", "rate=15 item-status 0 503",
    "rate=15 item-status 0 409", "rate=15 item-lie 0 503",    "rate=8 slow 2000",
};

static const char *const paths[] = {LEAF, "/p/q", "/p", OTHER, "/"};

typedef struct sailor {
  party *p;
  enum { IDLE, TAKING, HOLDING, GIVING } state;
  int64_t until_ms;
} sailor;

static int64_t now_ms(void) {
  return mt_test_ns() / 1000000;
}

static void take_something(cell *c, sailor *s) {
  size_t i = mt_test_below(&c->random, sizeof paths / sizeof *paths);
  party_begin(s->p, paths[i], mt_test_chance(&c->random, 40), PATIENCE);
  s->state = TAKING;
  s->until_ms = now_ms() + PATIENCE + SLACK;
}

static void took(cell *c, sailor *s) {
  mortise_error err;
  s->state = IDLE;
  if (!party_took(s->p, &err)) {
    c->storm_failed++;
    return;
  }
  c->storm_took++;
  s->state = HOLDING;
  s->until_ms = now_ms() + (int64_t)mt_test_below(&c->random, 150);
}

static void step(cell *c, sailor *s, bool over) {
  if (s->state == IDLE && !over)
    take_something(c, s);
  else if (s->state == TAKING && s->p->acquire.finished)
    took(c, s);
  else if (s->state == TAKING && now_ms() > s->until_ms)
    cell_fail(c, "%s still waits", s->p->name);
  else if (s->state == HOLDING && now_ms() > s->until_ms) {
    party_begin_give(s->p);
    s->state = GIVING;
    s->until_ms = now_ms() + GIVE;
  } else if (s->state == GIVING && s->p->release.finished)
    s->state = IDLE;
  else if (s->state == GIVING && now_ms() > s->until_ms)
    cell_fail(c, "%s still gives back", s->p->name);
}

static bool idle(const sailor *sailors) {
  for (int i = 0; i < CLIENTS; i++)
    if (sailors[i].state != IDLE) return false;
  return true;
}

static void sail(cell *c) {
  sailor sailors[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) sailors[i] = (sailor){.p = &c->parties[i]};
  int64_t end = now_ms() + STORM_MS;
  bool over = false;
  while (!*c->failure && !(over && idle(sailors))) {
    for (int i = 0; i < CLIENTS; i++) step(c, &sailors[i], over);
    cell_wait(c, 2);
    over = now_ms() > end;
  }
}

static void set_out(cell *c) {
  char url[64];
  mortise_error err = {0};
  c->rival = RIVAL_DONE; /* all three are */
  for (int i = 0; i < CLIENTS && !*c->failure; i++) {
    const fault_config config = {
        .upstream = c->place->url, .record = c->log_file, .seed = mt_test_next(&c->random)};
    fault_proxy *proxy = fault_proxy_new(c->loop, &config, &err);
    c->storm_proxies[i] = proxy;
    for (size_t j = 0; proxy && j < sizeof weather / sizeof *weather; j++)
      if (fault_proxy_rule(proxy, weather[j], &err)) cell_fail(c, "%s", err.message);
    if (!proxy) cell_fail(c, "%s", err.message);
    if (!proxy) return;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", fault_proxy_port(proxy));
    party_open(c, i, url, c->loop);
  }
}

static void calm(cell *c) {
  for (int i = 0; i < CLIENTS; i++) {
    if (!c->storm_proxies[i]) continue;
    c->storm_faults += fault_proxy_hits(c->storm_proxies[i]);
    cell_await_proxy(c, c->storm_proxies[i]);
  }
  for (int i = 0; i < CLIENTS; i++) party_close(&c->parties[i]);
}

void storm_run(cell *c) {
  if (!cell_begin(c)) return;
  set_out(c);
  sail(c);
  calm(c);
  cell_sweep(c);
  party_close(&c->parties[SWEEPER]);
}
