#include "lock/poll.h"

#include "store/store.h"

enum {
  LEAST_MS = 3,
  LEAST_SECOND_MS = 6,
  LEAST_TOLD_MS = 20,
  /* Where the store is fast, above what a place is renewed in: a far look is the answer to that. */
  MOST_MS = 2500,
  STEP_MS = 50,     /* the longest pause of who is next; it grows with the square of the distance */
  COMPANY_MS = 400, /* the longest pause of one who is next together with others */
  FIRST_PACE_US = 4000, /* is assumed until something was seen */
  PACE_STEPS = 4,       /* the pace is a mean of about so many steps of the queue */
  NEAR = 1,             /* next, or next but one */
  RENEW_NEAR_MS = 200,  /* who is next learns who blocks it now */
  RENEW_MOST_MS = 5000,
  PLACE_WRITES = 4, /* of the last duration, for which a place lives longer */
  PLACE_MOST_MS = 30000,
  VAIN_FIRST_MS = 10,
  VAIN_MOST_MS = 1000,
};

static int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t clamp(int64_t v, int64_t least, int64_t most) {
  return v < least ? least : lesser(v, most);
}

void mt_poll_begin(mt_poll *p, int64_t now_ms) {
  *p = (mt_poll){.moved_ms = now_ms, .pace_us = FIRST_PACE_US};
}

/* A mean, as steps come in bursts: were the pace that of the last step alone, one that overslept would make all
 * who saw it sleep too long as well, and they the next. */
static int64_t mean_pace_us(const mt_poll *p, int64_t took_ms, int64_t steps) {
  return (p->pace_us * PACE_STEPS + took_ms * 1000) / (PACE_STEPS + steps);
}

void mt_poll_seen(mt_poll *p, uint32_t before, uint32_t all, int64_t now_ms) {
  bool moved = p->seen && before < p->before;
  if (moved) {
    int64_t took_ms = now_ms > p->moved_ms ? now_ms - p->moved_ms : 0;
    p->pace_us = mean_pace_us(p, took_ms, p->before - before);
  }
  if (moved || !p->seen) p->moved_ms = now_ms;
  p->seen = true;
  p->before = before;
  p->all = all;
}

/* The longest pause at this distance. */
static int64_t longest(const mt_poll *p) {
  int64_t n = (int64_t)p->before + 1;
  if (p->before > NEAR) return n < 64 ? lesser(n * n * STEP_MS, MOST_MS) : MOST_MS;
  /* Readers may all be next at once. */
  int64_t company = (int64_t)(p->all - p->before);
  return clamp((company + n * n) * STEP_MS, STEP_MS, COMPANY_MS);
}

/* One that is next, or next but one, has to know it within the hold before, so it looks after a fraction of the
 * time for which nothing has moved. */
static int64_t near_pause_ms(const mt_poll *p, int64_t since_ms) {
  int64_t least_ms = p->told ? LEAST_TOLD_MS : p->before ? LEAST_SECOND_MS : LEAST_MS;
  return clamp(since_ms / (p->told ? 4 : 8), least_ms, longest(p));
}

/* One that is further back wakes up halfway to where it has to look often. While nothing moves, the pauses grow:
 * a hold that lasts says nothing of those that follow it, so the distance is no part of that. */
static int64_t far_pause_ms(const mt_poll *p, int64_t since_ms) {
  int64_t steps = lesser(p->before, MOST_MS) - NEAR;
  int64_t expected_ms = steps * lesser(p->pace_us, MOST_MS * 1000) / 2000,
          stalled_ms = since_ms / 2;
  return clamp(stalled_ms > expected_ms ? stalled_ms : expected_ms, LEAST_SECOND_MS, longest(p));
}

int64_t mt_poll_pause_ms(const mt_poll *p, int64_t now_ms) {
  int64_t since_ms = now_ms > p->moved_ms ? now_ms - p->moved_ms : 0;
  if (p->before <= NEAR) return near_pause_ms(p, since_ms);
  return p->told ? MOST_MS : far_pause_ms(p, since_ms);
}

int64_t mt_poll_place_ms(int64_t place_ms, int64_t took_ms) {
  int64_t more_ms = place_ms > MT_QUEUE_LIFE_MS ? (place_ms - MT_QUEUE_LIFE_MS) * 7 / 8 : 0;
  int64_t needed_ms = PLACE_WRITES * lesser(took_ms, PLACE_MOST_MS);
  return lesser(MT_QUEUE_LIFE_MS + (needed_ms > more_ms ? needed_ms : more_ms), PLACE_MOST_MS);
}

int64_t mt_poll_renew_ms(const mt_poll *p, int64_t place_ms, int64_t *spread_ms) {
  bool near = p->before <= NEAR;
  *spread_ms = RENEW_NEAR_MS;
  return near ? RENEW_NEAR_MS : lesser(place_ms * 2 / 5, RENEW_MOST_MS);
}

bool mt_poll_may_claim(const mt_poll *p, int64_t now_ms) {
  return now_ms >= p->claim_ms;
}

void mt_poll_in_vain(mt_poll *p, int64_t now_ms) {
  p->vain_ms = p->vain_ms ? lesser(2 * p->vain_ms, VAIN_MOST_MS) : VAIN_FIRST_MS;
  p->claim_ms = now_ms + p->vain_ms;
}
