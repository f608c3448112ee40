#include "lock/waitgraph.h"

#include "base/json.h"
#include "base/mem.h"
#include "lock/path.h"

void mt_graph_init(mt_graph *g, const char *own) {
  memset(g, 0, sizeof *g);
  mt_buf_init(&g->text, MT_GRAPH_TEXT);
  mt_graph_session_of(g, mt_slice_of(own));
}

void mt_graph_deinit(mt_graph *g) {
  for (size_t i = 0; i < g->n_sessions; i++) mt_free(g->sessions[i].owner);
  mt_free(g->nodes);
  mt_free(g->fors);
  mt_free(g->waits);
  mt_free(g->holds);
  mt_buf_deinit(&g->text);
  memset(g, 0, sizeof *g);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static bool is_id(mt_slice id) {
  if (id.n != MT_SESSION_ID - 1) return false;
  for (size_t i = 0; i < id.n; i++)
    if (!memchr("0123456789abcdef", id.p[i], 16)) return false;
  return true;
}

size_t mt_graph_session_of(mt_graph *g, mt_slice id) {
  if (!is_id(id)) return SIZE_MAX;
  for (size_t i = 0; i < g->n_sessions; i++)
    if (memcmp(g->sessions[i].id, id.p, id.n) == 0) return i;
  if (g->n_sessions == MT_GRAPH_SESSIONS) return SIZE_MAX;
  memcpy(g->sessions[g->n_sessions].id, id.p, id.n);
  return g->n_sessions++;
}

static bool read_mode(mt_json object, mt_mode *out) {
  mt_slice name;
  return mt_json_plain(mt_json_get(object, "mode"), &name) && mt_mode_parse(name, out);
}

static bool read_graph_path(mt_graph *g, mt_json object, size_t *at, size_t *n) {
  *at = g->text.n;
  if (!mt_json_text(mt_json_get(object, "path"), &g->text) || g->text.failed) return false;
  *n = g->text.n - *at;
  return *n && g->text.p[*at] == '/';
}

static void read_fors(mt_graph *g, mt_graph_node *node, mt_json list) {
  node->fors = g->n_fors;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    mt_slice id;
    if (!mt_json_plain(mt_json_get(it.value, "session"), &id)) continue;
    mt_graph_for one = {.session = mt_graph_session_of(g, id)};
    mt_json_bool(mt_json_get(it.value, "queued"), &one.queued);
    if (one.session == SIZE_MAX) continue;
    if (!mt_grow((void **)&g->fors, &g->cap_fors, g->n_fors + 1, sizeof one, MT_GRAPH_ITEMS))
      return;
    g->fors[g->n_fors++] = one;
    node->n_fors++;
  }
}

static void read_waits(mt_graph *g, mt_graph_node *node, mt_json list) {
  node->waits = g->n_waits;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    uint64_t wait;
    if (!mt_json_uint(it.value, &wait)) continue;
    if (!mt_grow((void **)&g->waits, &g->cap_waits, g->n_waits + 1, sizeof wait, MT_GRAPH_ITEMS))
      return;
    g->waits[g->n_waits++] = wait;
    node->n_waits++;
  }
}

static void read_holds(mt_graph *g, mt_graph_node *node, mt_json list) {
  node->holds = g->n_holds;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    mt_graph_hold hold = {0};
    uint64_t stripe;
    if (!read_mode(it.value, &hold.mode) ||
        !read_graph_path(g, it.value, &hold.path, &hold.path_n) ||
        !mt_json_uint(mt_json_get(it.value, "fence"), &hold.fence))
      continue;
    hold.in_one = mt_json_uint(mt_json_get(it.value, "stripe"), &stripe) && stripe < MT_STRIPES_MAX;
    if (hold.in_one) hold.stripe = (uint32_t)stripe;
    if (!mt_grow((void **)&g->holds, &g->cap_holds, g->n_holds + 1, sizeof hold, MT_GRAPH_ITEMS))
      return;
    g->holds[g->n_holds++] = hold;
    node->n_holds++;
  }
}

static void read_node(mt_graph *g, size_t session, mt_json entry) {
  mt_graph_node node = {.session = session};
  uint64_t stripe;
  if (!mt_json_uint(mt_json_get(entry, "task"), &node.task) ||
      !mt_json_uint(mt_json_get(entry, "wait"), &node.wait) || !read_mode(entry, &node.mode) ||
      !read_graph_path(g, entry, &node.path, &node.path_n))
    return;
  if (!mt_grow((void **)&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof node, MT_GRAPH_NODES))
    return;
  if (mt_json_uint(mt_json_get(entry, "stripe"), &stripe) && stripe <= UINT32_MAX)
    node.stripe = (uint32_t)stripe;
  mt_json_uint(mt_json_get(entry, "polled"), &node.polled);
  read_fors(g, &node, mt_json_get(entry, "for"));
  read_waits(g, &node, mt_json_get(entry, "waits"));
  read_holds(g, &node, mt_json_get(entry, "holds"));
  mt_json_bool(mt_json_get(entry, "nested"), &node.nested);
  g->nodes[g->n_nodes++] = node;
}

void mt_graph_add(mt_graph *g, size_t session, mt_slice waiting) {
  mt_json list;
  if (mt_json_parse(waiting, "the waiting list", &list, NULL)) return;
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it);) {
    mt_json_uint(mt_json_get(it.value, "after"), &g->sessions[session].after);
    read_node(g, session, it.value);
  }
}

size_t mt_graph_find(const mt_graph *g, size_t session, uint64_t wait) {
  for (size_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].session == session && g->nodes[i].wait == wait) return i;
  return SIZE_MAX;
}

mt_place mt_graph_place(const mt_graph *g, const mt_graph_node *node) {
  return (mt_place){{g->text.p + node->path, node->path_n}, node->stripe};
}

/* ---- Edges ---------------------------------------------------------------------------------- */

/* The mode that a hold implies at a place: its own at its path, an intention above it. Who waits at one stripe
 * for what excludes an intention needs them all, so a lock that is had is in the way at any. */
static mt_mode mode_at(const mt_graph *g, const mt_graph_hold *hold, mt_place place) {
  mt_slice own = {g->text.p + hold->path, hold->path_n};
  bool other = hold->in_one && hold->stripe != place.stripe;
  if (mt_slice_eq(own, place.path)) return other ? MT_NL : hold->mode;
  return mt_path_is_ancestor(place.path, own) ? mt_mode_intention(hold->mode) : MT_NL;
}

/* Holds may be checked one by one: what conflicts with their join conflicts with one of them. */
static bool holds_in_the_way(const mt_graph *g, const mt_graph_node *a, const mt_graph_node *b,
                             uint64_t *key) {
  for (size_t i = b->holds; i < b->holds + b->n_holds; i++) {
    mt_mode mode = mode_at(g, &g->holds[i], mt_graph_place(g, a));
    if (!mode || mt_mode_compatible(mode, a->mode)) continue;
    *key = g->holds[i].fence;
    return true;
  }
  return false;
}

static bool queued_in_the_way(const mt_graph *g, const mt_graph_node *a, const mt_graph_node *b,
                              uint64_t *key) {
  *key = b->wait;
  return b->n_fors && !mt_mode_compatible(b->mode, a->mode) &&
         mt_place_equal(mt_graph_place(g, a), mt_graph_place(g, b));
}

bool mt_graph_edge(const mt_graph *g, size_t from, size_t to, uint64_t *key) {
  const mt_graph_node *a = &g->nodes[from], *b = &g->nodes[to];
  if (a->session == b->session) {
    *key = b->wait;
    for (size_t i = a->waits; i < a->waits + a->n_waits; i++)
      if (g->waits[i] == b->wait) return true;
    return false;
  }
  for (size_t i = a->fors; i < a->fors + a->n_fors; i++) {
    if (g->fors[i].session != b->session) continue;
    if (g->fors[i].queued && queued_in_the_way(g, a, b, key)) return true;
    if (holds_in_the_way(g, a, b, key)) return true; /* also what was queued then, and has it now */
  }
  return false;
}

/* ---- Searching ------------------------------------------------------------------------------ */

/* Does `first` give way before `a`? A wait that is not nested never gives way; every cycle has a
 * nested one. */
static bool gives_way(const mt_graph *g, const mt_graph_node *first, const mt_graph_node *a) {
  const mt_graph_session *s = &g->sessions[a->session], *t = &g->sessions[first->session];
  if (s != t && (!s->known || !s->live || !t->known)) return false;
  if (!first->nested || !a->nested) return first->nested;
  if (s == t) return a->task != first->task ? a->task < first->task : a->wait < first->wait;
  if (s->opened_ms != t->opened_ms) return s->opened_ms < t->opened_ms;
  return memcmp(s->id, t->id, MT_SESSION_ID) < 0;
}

static void want_sessions(mt_graph *g, const mt_graph_node *node) {
  for (size_t i = node->fors; i < node->fors + node->n_fors; i++)
    g->sessions[g->fors[i].session].wanted = true;
}

static size_t collect_cycle(const mt_graph *g, size_t start, size_t last,
                            size_t members[MT_CYCLE_MAX]) {
  size_t n = 1;
  for (size_t i = last; i != start; i = g->nodes[i].from) n++;
  if (n > MT_CYCLE_MAX) return 0;
  members[0] = start;
  size_t at = n;
  for (size_t i = last; i != start; i = g->nodes[i].from) members[--at] = i;
  return n;
}

size_t mt_graph_cycle(mt_graph *g, size_t start, size_t members[MT_CYCLE_MAX]) {
  size_t queue[MT_GRAPH_NODES], head = 0, tail = 0;
  uint64_t key;
  for (size_t i = 0; i < g->n_nodes; i++) {
    g->nodes[i].before = i != start && gives_way(g, &g->nodes[start], &g->nodes[i]);
    g->nodes[i].seen = false;
  }
  queue[tail++] = start;
  while (head < tail) {
    size_t a = queue[head++];
    want_sessions(g, &g->nodes[a]);
    if (a != start && mt_graph_edge(g, a, start, &key)) return collect_cycle(g, start, a, members);
    for (size_t b = 0; b < g->n_nodes; b++) {
      if (!g->nodes[b].before || g->nodes[b].seen || !mt_graph_edge(g, a, b, &key)) continue;
      g->nodes[b].seen = true;
      g->nodes[b].from = a;
      queue[tail++] = b;
    }
  }
  return 0;
}
