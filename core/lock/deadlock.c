#include "lock/deadlock.h"

#include "base/mem.h"
#include "lock/blocker.h"
#include "lock/waits.h"

enum {
  AGAIN_FIRST_MS = 500, /* between two searches for one wait */
  AGAIN_MS = 2000,
  EAGER_LOOKS = 8,
  CONFIRM_MS = 200,
  CONFIRMS_MAX = 50,
  ROUNDS_MAX = 16,
  READ_MS = 5000,
};

static void read_wanted(mt_manager *m);

/* ---- The walk ------------------------------------------------------------------------------- */

/* Ends the reading; a cycle that was seen once is remembered. */
static void end_walk(mt_deadlock *d, mt_deadlock_phase next) {
  if (d->graph) mt_graph_deinit(d->graph);
  mt_free(d->graph);
  d->graph = NULL;
  d->phase = next;
}

static bool is_reading(const mt_deadlock *d) {
  return d->phase == MT_DEADLOCK_WALKING || d->phase == MT_DEADLOCK_CONFIRMING;
}

/* Found nothing yet: searches again later if the wait still lasts. */
static void later(mt_manager *m) {
  mt_deadlock *d = m->deadlock;
  mt_wait *w = mt_wait_find(m, d->wait);
  end_walk(d, MT_DEADLOCK_IDLE);
  if (w)
    w->walk_ms = mt_manager_now(m) +
                 mt_manager_jitter(m, ++w->walks < EAGER_LOOKS ? AGAIN_FIRST_MS : AGAIN_MS);
}

static void see_again(mt_manager *m) {
  end_walk(m->deadlock, MT_DEADLOCK_SEEN);
  m->deadlock->again_ms = mt_manager_now(m) + CONFIRM_MS;
}

static void add_own(mt_manager *m) {
  mt_graph *g = m->deadlock->graph;
  mt_buf text;
  mt_buf_init(&text, MT_BOARD_MAX + 2);
  mt_buf_addc(&text, '[');
  mt_waits_render(m, &text);
  mt_buf_addc(&text, ']');
  if (!text.failed) mt_graph_add(g, 0, mt_buf_slice(&text));
  mt_buf_deinit(&text);
}

static void want_members(mt_deadlock *d) {
  for (size_t i = 1; i < d->members; i++) {
    size_t s = mt_graph_session_of(d->graph, mt_slice_of(d->cycle[i].session));
    if (s != SIZE_MAX) d->graph->sessions[s].wanted = true;
  }
}

/* Starts WALKING, or CONFIRMING if a cycle was SEEN. */
static void begin_walk(mt_manager *m, uint64_t wait) {
  mt_deadlock *d = m->deadlock;
  bool confirms = d->phase == MT_DEADLOCK_SEEN;
  d->wait = wait;
  d->rounds = 0;
  d->graph = mt_calloc(1, sizeof *d->graph);
  if (!d->graph) {
    later(m);
    return;
  }
  mt_graph_init(d->graph, m->holds->session.id);
  d->graph->sessions[0].wanted = true; /* to learn when it was opened */
  if (confirms) want_members(d);
  d->phase = confirms ? MT_DEADLOCK_CONFIRMING : MT_DEADLOCK_WALKING;
  read_wanted(m);
}

/* ---- A cycle that was seen ------------------------------------------------------------------ */

static void fail_wait(mt_manager *m, mt_wait *w, const size_t members[MT_CYCLE_MAX], size_t n) {
  mt_deadlock *d = m->deadlock;
  const mt_graph *g = d->graph;
  mt_step steps[MT_CYCLE_MAX];
  mortise_blockers all;
  mortise_error err;
  for (size_t i = 0; i < n; i++) {
    const mt_graph_node *node = &g->nodes[members[i]];
    const mt_graph_session *s = &g->sessions[node->session];
    const char *owner = node->session ? s->owner : m->owner_json;
    steps[i] = (mt_step){mt_graph_place(g, node).path, node->mode, s->id, owner, false};
  }
  for (size_t i = 0; i < n; i++) { /* for a queued blocker the edge's key is its wait */
    const mt_graph_node *next = &g->nodes[members[(i + 1) % n]];
    steps[i].queued =
        d->cycle[i].key == next->wait && g->nodes[members[i]].session != next->session;
  }
  mt_blocker_cycle(m->holds->session.id, steps, n, &all, &err);
  end_walk(d, MT_DEADLOCK_IDLE);
  m->hooks->deadlocked(w, &all, &err);
}

/* Has an acknowledged beat published this wait of ours? */
static bool is_told(const mt_manager *m, uint64_t wait, uint64_t told) {
  const mt_wait *own = mt_wait_find(m, wait);
  return own && own->published_version && own->published_version <= told;
}

/* Remembers the cycle; false if others may not know of one of our waits in it yet. */
static bool remember_cycle(mt_manager *m, const size_t members[MT_CYCLE_MAX], size_t n) {
  mt_deadlock *d = m->deadlock;
  const mt_graph *g = d->graph;
  mt_board *board = &m->holds->session.board;
  pthread_mutex_lock(&board->lock);
  uint64_t told = board->acked_version;
  d->fence = board->acked_fence;
  pthread_mutex_unlock(&board->lock);
  for (size_t i = 0; i < n; i++) {
    const mt_graph_node *node = &g->nodes[members[i]];
    const mt_graph_session *s = &g->sessions[node->session];
    mt_cycle_member *member = &d->cycle[i];
    memcpy(member->session, s->id, MT_SESSION_ID);
    member->wait = node->wait;
    if (!mt_graph_edge(g, members[i], members[(i + 1) % n], &member->key)) return false;
    if (!node->session && !is_told(m, node->wait, told)) return false;
    if (s->fence > d->fence) d->fence = s->fence;
  }
  d->members = n;
  d->tries = 0;
  return true;
}

static void seen_once(mt_manager *m, const size_t members[MT_CYCLE_MAX], size_t n) {
  if (remember_cycle(m, members, n))
    see_again(m);
  else
    later(m);
}

/* Does the second reading show the same waits and holds? */
static bool there_again(const mt_deadlock *d, size_t members[MT_CYCLE_MAX]) {
  mt_graph *g = d->graph;
  uint64_t key;
  for (size_t i = 0; i < d->members; i++) {
    size_t s = mt_graph_session_of(g, mt_slice_of(d->cycle[i].session));
    members[i] = s == SIZE_MAX ? SIZE_MAX : mt_graph_find(g, s, d->cycle[i].wait);
    if (members[i] == SIZE_MAX || (s && !g->sessions[s].live)) return false;
  }
  for (size_t i = 0; i < d->members; i++)
    if (!mt_graph_edge(g, members[i], members[(i + 1) % d->members], &key) ||
        key != d->cycle[i].key)
      return false;
  return true;
}

/* A place in a queue may expire while its wait lasts, so each position ahead of another must also
 * have been confirmed by a write after the first reading. */
static bool all_later(const mt_deadlock *d, const size_t members[MT_CYCLE_MAX]) {
  const mt_graph *g = d->graph;
  for (size_t i = 0; i < d->members; i++) {
    const mt_graph_node *node = &g->nodes[members[i]];
    const mt_graph_node *next = &g->nodes[members[(i + 1) % d->members]];
    bool queued = node->session != next->session && d->cycle[i].key == next->wait;
    if (node->session && g->sessions[node->session].after < d->fence) return false;
    if (queued && node->polled < d->fence) return false;
  }
  return true;
}

static void confirm_cycle(mt_manager *m, mt_wait *w) {
  mt_deadlock *d = m->deadlock;
  size_t members[MT_CYCLE_MAX];
  if (!there_again(d, members)) {
    later(m);
  } else if (all_later(d, members)) {
    fail_wait(m, w, members, d->members);
  } else if (++d->tries == CONFIRMS_MAX) {
    later(m);
  } else {
    see_again(m);
  }
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* All sessions that were wanted have been read. */
static void walk_judge(mt_manager *m) {
  mt_deadlock *d = m->deadlock;
  mt_wait *w = mt_wait_find(m, d->wait);
  size_t start = mt_graph_find(d->graph, 0, d->wait), members[MT_CYCLE_MAX];
  if (!w || start == SIZE_MAX) {
    later(m);
  } else if (d->phase == MT_DEADLOCK_CONFIRMING) {
    confirm_cycle(m, w);
  } else {
    size_t n = mt_graph_cycle(d->graph, start, members);
    if (n)
      seen_once(m, members, n);
    else if (++d->rounds < ROUNDS_MAX)
      read_wanted(m);
    else
      later(m);
  }
}

static void take_doc(mt_graph *g, size_t index, mt_session_doc *doc) {
  mt_graph_session *s = &g->sessions[index];
  s->known = true;
  s->live = doc->state == MT_SESSION_LIVE && !doc->damaged;
  s->opened_ms = doc->opened_ms;
  s->fence = mt_version_fence(doc->version);
  s->owner = doc->owner;
  doc->owner = NULL;
  if (index && s->live && doc->waiting) mt_graph_add(g, index, mt_slice_of(doc->waiting));
}

static void on_sessions_read(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_deadlock *d = m->deadlock;
  bool ours = m->phase == MT_OPEN && !m->closing &&
              strcmp(m->holds->session.id, d->graph->sessions[0].id) == 0;
  if (!req->error.code && ours) {
    for (size_t i = 0; i < d->read.n; i++) take_doc(d->graph, d->index[i], &d->read.docs[i]);
    if (!d->rounds) add_own(m); /* our own waits now, after the other sessions were read */
    mt_session_read_deinit(&d->read);
    walk_judge(m);
  } else {
    mt_session_read_deinit(&d->read);
    later(m);
  }
  mt_manager_soon(m);
}

/* Reads the newly reached sessions; if there are none, there is no cycle. */
static void read_wanted(mt_manager *m) {
  mt_deadlock *d = m->deadlock;
  mt_graph *g = d->graph;
  size_t n = 0;
  for (size_t i = 0; i < g->n_sessions; i++) {
    if (!g->sessions[i].wanted || g->sessions[i].known) continue;
    d->ids[n] = g->sessions[i].id;
    d->index[n++] = i;
  }
  if (!n) {
    later(m);
    return;
  }
  d->read = (mt_session_read){.req = {.done = on_sessions_read,
                                      .ctx = m,
                                      .idempotent = true,
                                      .deadline_ms = mt_manager_now(m) + READ_MS},
                              .ns = m->ns,
                              .ids = d->ids,
                              .n = n};
  m->store->locks->session_read(m->store, &d->read);
}

/* ---- The tick ------------------------------------------------------------------------------- */

/* Ending one wait may end others and begin new ones, so the loop restarts. */
static void check_lines(mt_manager *m) {
  mt_wait *w = m->waits->lined_up ? m->waits->first : NULL;
  mortise_blockers all;
  mortise_error err;
  while (w) {
    mt_wait *victim = w->line_is_new ? mt_waits_local_cycle(m, w, &all, &err) : NULL;
    if (victim) {
      m->hooks->deadlocked(victim, &all, &err);
      w = m->waits->first;
      continue;
    }
    w->line_is_new = false;
    w = w->next;
  }
  m->waits->lined_up = false;
}

static mt_wait *next_to_walk(const mt_manager *m) {
  mt_wait *first = NULL;
  for (mt_wait *w = m->waits->first; w; w = w->next)
    if (w->number && !w->once && (!first || w->walk_ms < first->walk_ms)) first = w;
  return first;
}

int64_t mt_deadlock_due(const mt_manager *m) {
  const mt_deadlock *d = m->deadlock;
  int64_t due = INT64_MAX;
  bool any = false;
  if (m->closing) return due;
  if (m->waits->lined_up) return 0;
  for (const mt_wait *w = m->waits->first; w; w = w->next) {
    if (!w->number || w->once) continue;
    any = true;
    int64_t told = w->since_ms + MT_WAIT_MS;
    if (told < m->waits->publish_ms) told = m->waits->publish_ms;
    if (told < due) due = told;
    if (d->phase == MT_DEADLOCK_IDLE && w->walk_ms < due) due = w->walk_ms;
  }
  if (any && d->phase == MT_DEADLOCK_SEEN && d->again_ms < due) due = d->again_ms;
  return due;
}

static void begin_due_walk(mt_manager *m, int64_t now) {
  mt_wait *w = next_to_walk(m);
  if (!w || now < w->walk_ms) return;
  if (mt_wait_is_nested(w))
    begin_walk(m, w->number);
  else
    w->walk_ms = now + AGAIN_MS; /* an ancestor task may take a lock meanwhile */
}

void mt_deadlock_tick(mt_manager *m) {
  mt_deadlock *d = m->deadlock;
  if (m->phase != MT_OPEN || m->closing) return;
  check_lines(m);
  if (m->phase != MT_OPEN || m->closing) return;
  bool any = mt_waits_publish(m);
  int64_t now = mt_manager_now(m);
  if (is_reading(d)) return;
  if (!any)
    d->phase = MT_DEADLOCK_IDLE;
  else if (d->phase == MT_DEADLOCK_IDLE)
    begin_due_walk(m, now);
  else if (now >= d->again_ms)
    begin_walk(m, d->wait);
}

void mt_deadlock_deinit(mt_manager *m) {
  mt_deadlock *d = m->deadlock;
  if (is_reading(d)) {
    mt_store_cancel(m->store, &d->read.req);
    mt_session_read_deinit(&d->read);
  }
  end_walk(d, MT_DEADLOCK_IDLE);
}
