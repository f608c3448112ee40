/* Chooses nodes by the rule of the official clients: a failed node is left out for a time that
 * doubles with each failure, an answer restores it, and if all are left out, the one that returns
 * first is asked anyway. Where the cluster was asked for its nodes (sniff.c), those that were named
 * and are not among them, and those that have left, come after all others that are not left out:
 * they may still answer, where an address is known to them that leads to the cluster. */
#include "base/mem.h"
#include "http/internal.h"

static bool has_node(uint64_t set, size_t i) {
  return set >> i & 1;
}

static int take_turn(mt_nodes *nodes, size_t i) {
  nodes->next = (i + 1) % nodes->n;
  return (int)i;
}

int mt_nodes_pick(mt_nodes *nodes, int64_t now_ms, uint64_t tried) {
  int spare = -1, soonest = -1;
  for (size_t k = 0; k < nodes->n; k++) {
    size_t i = (nodes->next + k) % nodes->n;
    const mt_node *node = &nodes->v[i];
    if (has_node(tried, i)) continue;
    if (node->dead_until_ms <= now_ms) {
      if (!node->spare) return take_turn(nodes, i);
      if (spare < 0) spare = (int)i;
    } else if (soonest < 0 || node->dead_until_ms < nodes->v[soonest].dead_until_ms) {
      soonest = (int)i;
    }
  }
  return spare < 0 ? soonest : take_turn(nodes, (size_t)spare);
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

/* ---- What the cluster has ------------------------------------------------------------------- */

mortise_status mt_nodes_widen(mt_nodes *nodes, mortise_error *err) {
  mt_node *v = mt_realloc(nodes->v, MT_NODES_MAX * sizeof *v);
  if (!v) return mt_error_memory(err);
  nodes->v = v;
  nodes->cap = MT_NODES_MAX;
  return MORTISE_OK;
}

static int node_of_url(const mt_nodes *nodes, const char *url) {
  for (size_t i = 0; i < nodes->n; i++)
    if (!strcmp(nodes->v[i].url, url)) return (int)i;
  return -1;
}

/* A place for another node: a new one, or else one whose node has long left. */
static int free_place(mt_nodes *nodes, uint64_t taken, int64_t before_ms) {
  if (nodes->n < nodes->cap) {
    nodes->v[nodes->n] = (mt_node){0};
    return (int)nodes->n++;
  }
  for (size_t i = 0; i < nodes->n; i++) {
    const mt_node *node = &nodes->v[i];
    if (!node->named && node->spare && node->left_ms <= before_ms && !has_node(taken, i)) return (int)i;
  }
  return -1;
}

/* One that comes back has been started again: what failed before says nothing. */
static void bring_back(mt_node *node) {
  node->spare = false;
  node->failures = 0;
  node->dead_until_ms = 0;
}

/* Takes the URL. The node's place, or -1. */
static int place_found(mt_nodes *nodes, mt_node *found, uint64_t taken, int64_t before_ms) {
  int at = node_of_url(nodes, found->url), place = at < 0 ? free_place(nodes, taken, before_ms) : at;
  if (at >= 0 || place < 0) {
    mt_free(found->url);
    return place;
  }
  mt_free(nodes->v[place].url);
  nodes->v[place] = *found;
  nodes->v[place].spare = true; /* as is one that comes back */
  return place;
}

static mt_nodes_change mark_spare(mt_nodes *nodes, uint64_t used, int64_t now_ms) {
  mt_nodes_change change = {0};
  for (size_t i = 0; i < nodes->n; i++) {
    mt_node *node = &nodes->v[i];
    bool is_used = has_node(used, i);
    if (is_used && node->spare) {
      change.come |= UINT64_C(1) << i;
      bring_back(node);
    } else if (!is_used && !node->spare) {
      change.gone |= UINT64_C(1) << i;
      node->spare = true;
      node->left_ms = now_ms;
    }
  }
  return change;
}

mt_nodes_change mt_nodes_found(mt_nodes *nodes, mt_node *found, size_t n, uint64_t busy, int64_t keep_ms,
                               int64_t now_ms) {
  uint64_t used = 0;
  size_t over = 0;
  for (size_t i = 0; i < n; i++) { /* first those that are there, whose places no other may get */
    int at = node_of_url(nodes, found[i].url);
    if (at >= 0) used |= UINT64_C(1) << at;
  }
  for (size_t i = 0; i < n; i++) {
    int at = place_found(nodes, &found[i], busy | used, now_ms - keep_ms);
    if (at >= 0) used |= UINT64_C(1) << at;
    over += at < 0;
  }
  mt_nodes_change change = mark_spare(nodes, used, now_ms);
  change.over = over;
  return change;
}
