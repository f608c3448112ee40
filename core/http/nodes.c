/* Chooses nodes by the rule of the official clients: a failed node is left out for a time that
 * doubles with each failure, an answer restores it, and if all are left out, the one that returns
 * first is asked anyway. */
#include "http/internal.h"

static bool was_tried(uint64_t tried, size_t i) {
  return tried >> i & 1;
}

int mt_nodes_pick(mt_nodes *nodes, int64_t now_ms, uint64_t tried) {
  int soonest = -1;
  for (size_t k = 0; k < nodes->n; k++) {
    size_t i = (nodes->next + k) % nodes->n;
    if (was_tried(tried, i)) continue;
    if (nodes->v[i].dead_until_ms <= now_ms) {
      nodes->next = (i + 1) % nodes->n;
      return (int)i;
    }
    if (soonest < 0 || nodes->v[i].dead_until_ms < nodes->v[soonest].dead_until_ms)
      soonest = (int)i;
  }
  return soonest;
}

/* xorshift64*: good enough to keep many processes from retrying in step. */
static uint64_t draw_random(mt_nodes *nodes) {
  uint64_t x = nodes->seed ? nodes->seed : 1;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  nodes->seed = x;
  return x * UINT64_C(2685821657736338717);
}

bool mt_nodes_failed(mt_nodes *nodes, int node, int64_t now_ms) {
  mt_node *n = &nodes->v[node];
  /* Failures of requests in flight at the same time count once. */
  if (n->dead_until_ms > now_ms) return false;
  int64_t delay = MT_DEAD_FIRST_MS;
  for (uint32_t i = 0; i < n->failures && delay < MT_DEAD_MOST_MS; i++) delay *= 2;
  if (delay > MT_DEAD_MOST_MS) delay = MT_DEAD_MOST_MS;
  n->failures++;
  n->dead_until_ms = now_ms + delay - (int64_t)(draw_random(nodes) % (uint64_t)(delay / 4));
  return true;
}

bool mt_nodes_answered(mt_nodes *nodes, int node) {
  mt_node *n = &nodes->v[node];
  bool before = n->failures > 0;
  n->failures = 0;
  n->dead_until_ms = 0;
  return before;
}
