#include "base/mem.h"
#include "lock/internal.h"

#include <stdio.h>

/* Deadlocks. Who waits waits for everybody in its way, so any cycle of waiting tasks is one, and
 * the youngest of a cycle gives way, of those that hold a lock while they wait: a call for itself
 * goes through all paths in one order, so there is always such a one, and only its holder can undo
 * the knot by giving something back. Each looks only for cycles in which it is that one. One among
 * the tasks of this process is found from memory when a task lines up. One through other sessions
 * is looked for by one that has waited for a second, in the documents of the sessions it waits for,
 * and of those that they wait for; its own side is always taken from memory.
 *
 * What was read is of different moments, so a cycle that was seen need never have stood all at
 * once. It counts when it is seen again, each wait and each hold the same, in documents that say
 * ("after") that they were written by somebody who had the acknowledgement of a write that came
 * later than all of the first reading. At the moment of the last write of the first reading all
 * those waits and holds stood together then; and who waits for one that waits goes on waiting, so
 * they stand until one of them gives up. A place in a queue is kept by polling: one that may have
 * passed has another wait's number, and its place must have been confirmed by a write since.
 *
 * Only its own wait is ended for it, so nothing need be proven by a write. */

enum {
  AGAIN_FIRST_MS = 500, /* between two looks of one that waits */
  AGAIN_MS = 2000,
  EAGER_LOOKS = 8,
  CONFIRM_MS = 200,
  CONFIRMS_MAX = 50,
  ROUNDS_MAX = 16,
  READ_MS = 5000,
};

static void read_wanted(mt_manager *m);

/* ---- Saying it ------------------------------------------------------------------------------ */

static void say_who(mt_buf *b, const mt_manager *m, const mt_step *step) {
  if (strcmp(step->session, m->table->session.id) == 0) {
    mt_buf_adds(b, "another task of this process");
    return;
  }
  mortise_blocker who;
  mt_blocker_fill(&who, step->path, NULL, step->owner);
  mt_buf_addf(b, "%s pid %lld%s%s", who.host, (long long)who.pid, who.script[0] ? " " : "",
              who.script);
}

static void add_member(mortise_error *err, const mt_step *wants, const mt_step *has) {
  err->blockers_total++;
  if (err->blockers_shown == MORTISE_BLOCKERS_SHOWN) return;
  mt_lock_entry entry = {.mode = has->mode, .queued = wants->queued};
  memcpy(entry.session, has->session, sizeof entry.session);
  mt_blocker_fill(&err->blockers[err->blockers_shown++], wants->path, &entry, has->owner);
}

void mt_deadlock_say(mt_manager *m, const mt_step *steps, size_t n, mortise_error *err) {
  mt_buf b;
  mt_buf_init(&b, 16 << 10);
  for (size_t i = 0; i < n; i++) {
    const mt_step *at = &steps[i];
    mt_buf_addf(&b, i ? ", which waits for %.*s in %s, %s by " : "%.*s wanted in %s is %s by ",
                (int)at->path.n, at->path.p, mt_mode_name(at->mode),
                at->queued ? "queued for" : "held");
    if (i + 1 < n)
      say_who(&b, m, &steps[i + 1]);
    else
      mt_buf_adds(&b, "this one");
  }
  mt_error_set(err, MORTISE_DEADLOCK, "%.*s", (int)b.n, b.p ? b.p : "");
  mt_buf_deinit(&b);
  for (size_t i = 0; i + 1 < n; i++) add_member(err, &steps[i], &steps[i + 1]);
  err->retryable = true;
}

/* ---- The walk ------------------------------------------------------------------------------- */

static void end_walk(mt_manager *m) {
  mt_deadlock *d = &m->deadlock;
  if (d->graph) mt_graph_deinit(d->graph);
  mt_free(d->graph);
  d->graph = NULL;
}

static void forget_cycle(mt_manager *m) {
  m->deadlock.members = 0;
}

/* Nothing was found, or not yet: later again, as long as it waits. */
static void later(mt_manager *m) {
  mt_attempt *at = mt_waits_find(m, m->deadlock.wait);
  end_walk(m);
  forget_cycle(m);
  if (at)
    at->walk_ms = mt_manager_now(m) +
                  mt_manager_jitter(m, ++at->walks < EAGER_LOOKS ? AGAIN_FIRST_MS : AGAIN_MS);
}

static void add_own(mt_manager *m) {
  mt_graph *g = m->deadlock.graph;
  mt_buf text;
  mt_buf_init(&text, MT_BOARD_MAX + 2);
  mt_buf_addc(&text, '[');
  mt_waits_compose(m, &text, false);
  mt_buf_addc(&text, ']');
  if (!text.failed) mt_graph_add(g, 0, mt_buf_slice(&text));
  mt_buf_deinit(&text);
}

static void begin_walk(mt_manager *m, uint64_t wait) {
  mt_deadlock *d = &m->deadlock;
  d->wait = wait;
  d->rounds = 0;
  d->graph = mt_calloc(1, sizeof *d->graph);
  if (!d->graph) {
    later(m);
    return;
  }
  mt_graph_init(d->graph, m->table->session.id);
  d->graph->sessions[0].wanted = true; /* for its time of opening */
  for (size_t i = 1; i < d->members; i++) {
    size_t s = mt_graph_session_of(d->graph, mt_slice_of(d->cycle[i].session));
    if (s != SIZE_MAX) d->graph->sessions[s].wanted = true;
  }
  read_wanted(m);
}

/* ---- A cycle that was seen ------------------------------------------------------------------ */

static void fail(mt_manager *m, mt_attempt *at, const size_t members[MT_CYCLE_MAX], size_t n) {
  const mt_graph *g = m->deadlock.graph;
  mt_step steps[MT_CYCLE_MAX];
  mortise_error err;
  for (size_t i = 0; i < n; i++) {
    const mt_graph_node *node = &g->nodes[members[i]];
    const mt_graph_session *s = &g->sessions[node->session];
    const char *owner = node->session ? s->owner : m->owner_json;
    steps[i] = (mt_step){mt_graph_path(g, node), node->mode, s->id, owner, false};
  }
  for (size_t i = 0; i < n; i++) { /* its key is then the other's wait */
    const mt_graph_node *next = &g->nodes[members[(i + 1) % n]];
    steps[i].queued =
        m->deadlock.cycle[i].key == next->wait && g->nodes[members[i]].session != next->session;
  }
  mt_deadlock_say(m, steps, n, &err);
  end_walk(m);
  forget_cycle(m);
  mt_attempt_fail(at, &err);
}

/* Remembers it; false when a wait of ours in it is not known to be told yet. */
static bool remember(mt_manager *m, const size_t members[MT_CYCLE_MAX], size_t n) {
  mt_deadlock *d = &m->deadlock;
  const mt_graph *g = d->graph;
  mt_board *board = &m->table->session.board;
  pthread_mutex_lock(&board->lock);
  uint64_t told = board->acked_version;
  d->fence = board->acked_fence;
  pthread_mutex_unlock(&board->lock);
  for (size_t i = 0; i < n; i++) {
    const mt_graph_node *node = &g->nodes[members[i]];
    mt_cycle_member *member = &d->cycle[i];
    memcpy(member->session, g->sessions[node->session].id, MT_SESSION_ID);
    member->wait = node->wait;
    if (!mt_graph_edge(g, members[i], members[(i + 1) % n], &member->key)) return false;
    const mt_attempt *own = node->session ? NULL : mt_waits_find(m, node->wait);
    if (!node->session && (!own || !own->shown || own->shown > told)) return false;
    if (g->sessions[node->session].fence > d->fence) d->fence = g->sessions[node->session].fence;
  }
  d->members = n;
  d->tries = 0;
  return true;
}

static void seen_once(mt_manager *m, const size_t members[MT_CYCLE_MAX], size_t n) {
  if (!remember(m, members, n)) {
    later(m);
    return;
  }
  end_walk(m);
  m->deadlock.again_ms = mt_manager_now(m) + CONFIRM_MS;
}

/* Is it there again, each wait and each hold the same? */
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

/* Places in a queue come and go while their waits stay: that one stands before another must have
 * been answered after the first reading, too. */
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

static void look_again(mt_manager *m, mt_attempt *at) {
  mt_deadlock *d = &m->deadlock;
  size_t members[MT_CYCLE_MAX];
  if (!there_again(d, members)) {
    later(m);
  } else if (all_later(d, members)) {
    fail(m, at, members, d->members);
  } else if (++d->tries == CONFIRMS_MAX) {
    later(m);
  } else {
    end_walk(m);
    d->again_ms = mt_manager_now(m) + CONFIRM_MS;
  }
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* All that is wanted has been read. */
static void judge(mt_manager *m) {
  mt_deadlock *d = &m->deadlock;
  mt_attempt *at = mt_waits_find(m, d->wait);
  size_t start = mt_graph_find(d->graph, 0, d->wait), members[MT_CYCLE_MAX];
  if (!at || start == SIZE_MAX) {
    later(m);
  } else if (d->members) {
    look_again(m, at);
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
  s->live = doc->state == MT_SESSION_LIVE;
  s->opened_ms = doc->opened_ms;
  s->fence = mt_version_fence(doc->version);
  s->owner = doc->owner;
  doc->owner = NULL;
  if (index && s->live && doc->waiting) mt_graph_add(g, index, mt_slice_of(doc->waiting));
}

static void on_read(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_deadlock *d = &m->deadlock;
  bool ours = m->phase == MT_OPEN && !m->closing &&
              strcmp(m->table->session.id, d->graph->sessions[0].id) == 0;
  d->busy = false;
  if (!req->error.code && ours) {
    for (size_t i = 0; i < d->read.n; i++) take_doc(d->graph, d->index[i], &d->read.docs[i]);
    if (!d->rounds) add_own(m); /* as it is now, after what was read */
    mt_session_read_deinit(&d->read);
    judge(m);
  } else {
    mt_session_read_deinit(&d->read);
    later(m);
  }
  mt_manager_soon(m);
}

/* Reads the sessions that were reached; when there are no more of them, there is no cycle. */
static void read_wanted(mt_manager *m) {
  mt_deadlock *d = &m->deadlock;
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
  d->busy = true;
  d->read = (mt_session_read){.req = {.done = on_read,
                                      .ctx = m,
                                      .idempotent = true,
                                      .deadline_ms = mt_manager_now(m) + READ_MS},
                              .ns = m->ns,
                              .ids = d->ids,
                              .n = n};
  m->store->locks->session_read(m->store, &d->read);
}

/* ---- The tick ------------------------------------------------------------------------------- */

/* Telling one may end others and begin new ones. */
static void check_lines(mt_manager *m) {
  mt_attempt *at = m->deadlock.lined_up ? m->attempts : NULL;
  mortise_error err;
  while (at) {
    mt_attempt *victim = at->line_is_new ? mt_waits_local_cycle(m, at, &err) : NULL;
    if (victim) {
      mt_attempt_fail(victim, &err);
      at = m->attempts;
      continue;
    }
    at->line_is_new = false;
    at = at->next;
  }
  m->deadlock.lined_up = false;
}

static mt_attempt *next_to_walk(const mt_manager *m) {
  mt_attempt *first = NULL;
  for (mt_attempt *at = m->attempts; at; at = at->next)
    if (at->wait && !at->try_once && (!first || at->walk_ms < first->walk_ms)) first = at;
  return first;
}

int64_t mt_deadlock_due(const mt_manager *m) {
  const mt_deadlock *d = &m->deadlock;
  int64_t due = INT64_MAX;
  bool any = false;
  if (m->closing) return due;
  if (d->lined_up) return 0;
  for (const mt_attempt *at = m->attempts; at; at = at->next) {
    if (!at->wait || at->try_once) continue;
    any = true;
    int64_t told = at->wait_since_ms + MT_WAIT_MS;
    if (told < d->compose_ms) told = d->compose_ms;
    if (told < due) due = told;
    if (!d->graph && !d->members && at->walk_ms < due) due = at->walk_ms;
  }
  if (any && !d->graph && d->members && d->again_ms < due) due = d->again_ms;
  return due;
}

void mt_deadlock_tick(mt_manager *m) {
  mt_deadlock *d = &m->deadlock;
  if (m->phase != MT_OPEN || m->closing) return;
  check_lines(m);
  if (m->phase != MT_OPEN || m->closing) return;
  bool any = mt_waits_publish(m);
  if (d->graph) return;
  if (!any) {
    forget_cycle(m);
    return;
  }
  int64_t now = mt_manager_now(m);
  if (d->members) {
    if (now >= d->again_ms) begin_walk(m, d->wait);
    return;
  }
  mt_attempt *at = next_to_walk(m);
  if (!at || now < at->walk_ms) return;
  if (mt_wait_is_nested(at))
    begin_walk(m, at->wait);
  else
    at->walk_ms = now + AGAIN_MS; /* a task above it may take a lock meanwhile */
}

void mt_deadlock_deinit(mt_manager *m) {
  if (m->deadlock.busy) {
    mt_store_cancel(m->store, &m->deadlock.read.req);
    mt_session_read_deinit(&m->deadlock.read);
  }
  end_walk(m);
}
