#include "job/pace.h"

void mt_pace_set(mt_pace *p, mt_limits limits) {
  if (p->limits.rate != limits.rate) p->free_us = 0;
  p->limits = limits;
}

static uint32_t least_limit(uint32_t a, uint32_t b) {
  return a && (!b || a < b) ? a : b;
}

uint32_t mt_pace_batch(const mt_pace *p) {
  uint32_t most = least_limit(p->limits.batch, p->limits.rate);
  return most ? most : UINT32_MAX;
}

int64_t mt_pace_wait_ms(const mt_pace *p, int64_t now_ms) {
  int64_t left_us = p->free_us - now_ms * 1000;
  return p->limits.rate && left_us > 0 ? (left_us + 999) / 1000 : 0;
}

void mt_pace_sent(mt_pace *p, uint64_t documents, int64_t now_ms) {
  if (!p->limits.rate) return;
  if (p->free_us < now_ms * 1000) p->free_us = now_ms * 1000;
  p->free_us += (int64_t)(documents * 1000000 / p->limits.rate);
}
