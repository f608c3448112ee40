#include "base/mem.h"
#include "lock/internal.h"
#include "lock/path.h"

/* Who waits for whom in this process, and what others are told of it: each wait that has lasted
 * stands on the session's board, from where the heartbeat puts it into the session's document.
 * What stands there is taken down before it ceases to be so, and written anew at the next tick. */

enum {
  COMPOSE_MS = 250,
  TOLD_MAX = 64,       /* waits of one session */
  TOLD_HOLDS = 64,     /* locks of one task */
  TOLD_WAITS = 64,     /* tasks that one waits for in line */
  TOLD_PATH = 1024,    /* bytes of what is wanted */
  STEPS_MAX = 1 << 16, /* of one search among the tasks of this process */
};

/* ---- A wait --------------------------------------------------------------------------------- */

void mt_wait_begin(mt_attempt *at, size_t part) {
  mt_manager *m = at->lock->manager;
  if (at->wait && at->wait_at == part) return;
  mt_wait_end(at);
  at->wait = ++m->deadlock.last_wait;
  at->wait_at = part;
  at->wait_since_ms = mt_manager_now(m);
  at->walk_ms = at->wait_since_ms + MT_WAIT_MS;
  at->walks = 0;
  if (at->phase != MT_PHASE_LINE) return;
  at->line_is_new = m->deadlock.lined_up = true;
  mt_manager_soon(m);
}

void mt_wait_end(mt_attempt *at) {
  if (at->shown) mt_waits_withdraw(at->lock->manager);
  at->wait = 0;
  at->line_is_new = false;
}

void mt_wait_changed(mt_attempt *at) {
  if (at->shown) at->lock->manager->deadlock.compose_ms = 0;
}

mt_attempt *mt_waits_find(const mt_manager *m, uint64_t wait) {
  for (mt_attempt *at = m->attempts; at; at = at->next)
    if (at->wait == wait) return at;
  return NULL;
}

/* ---- Who stands for a lock ------------------------------------------------------------------ */

/* Will this lock, which was granted, stay held as long as that task waits? Its own, those of the
 * tasks above it, which wait for it to end; and all of this process when the caller pumps, since no
 * other task runs then. */
static bool stands_for(const mt_attempt *at, const mt_lock *lock) {
  const mt_manager *m = at->lock->manager;
  if (!at->wait || at->lock->table != lock->table) return false;
  if (at->alone || at->lock->task == lock->task) return true;
  return m->kin.inherits && m->kin.inherits(m->kin.ctx, lock->task, at->lock->task);
}

bool mt_wait_is_nested(const mt_attempt *at) {
  for (const mt_lock *lock = at->lock->manager->locks; lock; lock = lock->next)
    if (stands_for(at, lock)) return true;
  return false;
}

static bool related(const mt_manager *m, const mt_part *holder, const mt_part *part) {
  uint64_t a = holder->lock->task, b = part->lock->task;
  return a == b || (m->kin.inherits && m->kin.inherits(m->kin.ctx, a, b));
}

/* The parts that one in line waits for (mt_hold_admits): `next` is where to go on. */
typedef struct blocking {
  const mt_manager *m;
  const mt_part *part, *next;
  bool in, must_line_up, all;
} blocking;

static blocking blocking_of(const mt_attempt *at) {
  const mt_part *part = &at->lock->parts[at->wait_at];
  const mt_hold *h = part->hold;
  blocking b = {.m = at->lock->manager, .part = part, .next = h->in.first, .in = true};
  b.must_line_up = true;
  for (const mt_part *p = h->in.first; p && b.must_line_up; p = p->next)
    b.must_line_up = !related(b.m, p, part);
  b.all = b.must_line_up && h->contended && h->mode;
  return b;
}

static const mt_part *next_blocking(blocking *b) {
  for (;;) {
    if (!b->next && b->in && b->must_line_up) {
      b->in = false;
      b->next = b->part->hold->line.first;
    }
    const mt_part *p = b->next;
    if (!p || p == b->part) return NULL;
    b->next = p->next;
    bool clash = !mt_mode_compatible(p->mode, b->part->mode);
    if (b->in ? b->all || (clash && !related(b->m, p, b->part)) : clash) return p;
  }
}

typedef bool visit_fn(void *ctx, mt_attempt *other);

/* Calls `visit` for each task that waits and stands for what `at` waits for in line, until it says
 * false or the steps are used up. */
static void each_in_the_way(const mt_attempt *at, uint32_t *steps, visit_fn *visit, void *ctx) {
  if (at->phase != MT_PHASE_LINE) return;
  blocking b = blocking_of(at);
  for (const mt_part *p; *steps && (p = next_blocking(&b)); --*steps) {
    mt_attempt *one = p->lock->attempt;
    if (one && one->wait && !visit(ctx, one)) return;
    if (one) continue;
    for (one = at->lock->manager->attempts; one && *steps; one = one->next, --*steps)
      if (one != at && stands_for(one, p->lock) && !visit(ctx, one)) return;
    if (!*steps) return;
  }
}

/* ---- Cycles among the tasks of this process ------------------------------------------------- */

typedef struct search {
  mt_attempt *start, *at, *last; /* of the line of those to be visited */
  uint64_t visit;
  bool found;
} search;

static bool meet(void *ctx, mt_attempt *other) {
  search *s = ctx;
  s->found = other == s->start;
  if (s->found) return false;
  if (other->visit == s->visit) return true;
  other->visit = s->visit;
  other->visit_from = s->at;
  other->visit_next = NULL;
  s->last->visit_next = other;
  s->last = other;
  return true;
}

/* Does anybody line up where this one, or its task, has a share? Else it closes no cycle. */
static bool blocks_a_line(const mt_lock *lock) {
  for (size_t i = 0; i < lock->n; i++)
    if (lock->parts[i].state >= MT_PART_IN && lock->parts[i].hold->line.first) return true;
  return false;
}

static bool blocks_any_line(const mt_manager *m, const mt_attempt *at) {
  if (blocks_a_line(at->lock)) return true;
  for (const mt_lock *lock = m->locks; lock; lock = lock->next)
    if (stands_for(at, lock) && blocks_a_line(lock)) return true;
  return false;
}

static mt_step step_of(const mt_manager *m, const mt_attempt *at) {
  const mt_part *part = &at->lock->parts[at->wait_at];
  return (mt_step){.path = part->path,
                   .mode = part->mode,
                   .session = at->lock->table->session.id,
                   .owner = m->owner_json};
}

static bool is_younger(const mt_attempt *a, const mt_attempt *than) {
  uint64_t x = a->lock->task, y = than->lock->task;
  return x != y ? x > y : a->wait > than->wait;
}

/* Says it from the victim on. The visits lead from the end of the cycle to its start. */
static mt_attempt *tell_cycle(mt_manager *m, const search *s, mortise_error *err) {
  mt_attempt *ring[MT_CYCLE_MAX];
  mt_step steps[MT_CYCLE_MAX];
  size_t n = 0, first = SIZE_MAX;
  for (mt_attempt *at = s->at;; at = at->visit_from) {
    if (n == MT_CYCLE_MAX) return NULL;
    bool may = mt_wait_is_nested(at) && (first == SIZE_MAX || is_younger(at, ring[first]));
    if (may) first = n;
    ring[n++] = at;
    if (at == s->start) break;
  }
  if (first == SIZE_MAX) return NULL;
  for (size_t i = 0; i < n; i++) steps[i] = step_of(m, ring[(first + n - i) % n]);
  mt_deadlock_say(m, steps, n, err);
  return ring[first];
}

mt_attempt *mt_waits_local_cycle(mt_manager *m, mt_attempt *start, mortise_error *err) {
  if (!blocks_any_line(m, start)) return NULL;
  uint32_t steps = STEPS_MAX;
  search s = {.start = start, .at = start, .last = start, .visit = ++m->deadlock.last_visit};
  start->visit = s.visit;
  start->visit_next = NULL;
  for (; s.at && steps; s.at = s.at->visit_next) {
    each_in_the_way(s.at, &steps, meet, &s);
    if (s.found) return tell_cycle(m, &s, err);
  }
  return NULL;
}

/* ---- The board ------------------------------------------------------------------------------ */

static void add_place(mt_buf *b, mt_slice path, mt_mode mode) {
  mt_json_add_key(b, "path");
  mt_json_add_string(b, path);
  mt_buf_addf(b, ",\"mode\":\"%s\"", mt_mode_name(mode));
}

static void add_hold(mt_buf *b, mt_slice path, mt_mode mode, uint64_t fence) {
  mt_buf_adds(b, b->n && b->p[b->n - 1] == '[' ? "{" : ",{");
  add_place(b, path, mode);
  mt_buf_addf(b, ",\"fence\":%llu}", (unsigned long long)fence);
}

/* What it has got so far, and the locks that stay held while it waits. */
static void add_holds(mt_manager *m, mt_buf *b, const mt_attempt *at, bool show) {
  size_t n = 0;
  bool nested = false;
  mt_json_add_key(b, "holds");
  mt_buf_addc(b, '[');
  for (size_t i = 0; i < at->wait_at && n < TOLD_HOLDS; i++) {
    const mt_part *part = &at->lock->parts[i];
    if (part->state != MT_PART_HELD) continue;
    add_hold(b, part->path, part->mode, at->lock->fence);
    n++;
  }
  for (mt_lock *lock = m->locks; lock && n < TOLD_HOLDS; lock = lock->next) {
    if (!stands_for(at, lock)) continue;
    lock->told |= show;
    nested = true;
    for (size_t i = 0; i < lock->n_wants && n++ < TOLD_HOLDS; i++)
      add_hold(b, lock->wants[i].path, lock->wants[i].mode, lock->fence);
  }
  mt_buf_addc(b, ']');
  if (nested) mt_buf_adds(b, ",\"nested\":true");
  if (n >= TOLD_HOLDS) mt_buf_adds(b, ",\"cut\":true");
}

typedef struct wait_list {
  mt_buf *b;
  size_t n;
} wait_list;

static bool add_wait(void *ctx, mt_attempt *other) {
  wait_list *list = ctx;
  if (list->n) mt_buf_addc(list->b, ',');
  mt_buf_addu(list->b, other->wait);
  return ++list->n < TOLD_WAITS && !list->b->failed;
}

/* Of those that the store named, the ones that conflict with what this task wants: a sibling may
 * have asked for more in the same write. */
static void add_for(mt_buf *b, const mt_attempt *at) {
  const mt_part *part = &at->lock->parts[at->wait_at];
  for (size_t i = 0; i < at->n_blockers; i++) {
    const mt_lock_entry *e = &at->blockers[i];
    if (mt_mode_compatible(e->mode, part->mode)) continue;
    mt_buf_adds(b, b->n && b->p[b->n - 1] == '[' ? "{" : ",{");
    mt_buf_addf(b, "\"session\":\"%s\"%s}", e->session, e->queued ? ",\"queued\":true" : "");
  }
}

/* For people: the first of its targets below the place where it waits, and how many there are. */
static void add_wanted(mt_buf *b, const mt_attempt *at) {
  const mt_slice place = at->lock->parts[at->wait_at].path;
  const mt_want *first = NULL;
  size_t n = 0;
  for (size_t i = 0; i < at->lock->n_wants; i++) {
    const mt_want *want = &at->lock->wants[i];
    if (mt_slice_eq(want->path, place)) return;
    if (!mt_path_is_ancestor(place, want->path)) continue;
    if (!first) first = want;
    n++;
  }
  if (!first || first->path.n > TOLD_PATH) return;
  mt_json_add_key(b, "wanted");
  mt_buf_addc(b, '{');
  add_place(b, first->path, first->mode);
  mt_buf_addf(b, ",\"n\":%zu}", n);
}

static void add_attempt(mt_manager *m, mt_buf *b, const mt_attempt *at, uint32_t *steps,
                        bool show) {
  wait_list list = {.b = b};
  const mt_part *part = &at->lock->parts[at->wait_at];
  bool line = at->phase == MT_PHASE_LINE;
  bool first = !b->n || b->p[b->n - 1] == '[';
  mt_buf_addf(b, "%s{\"task\":%llu,\"wait\":%llu", first ? "" : ",",
              (unsigned long long)at->lock->task, (unsigned long long)at->wait);
  add_place(b, part->path, part->mode);
  if (at->polled && !line) mt_buf_addf(b, ",\"polled\":%llu", (unsigned long long)at->polled);
  mt_json_add_key(b, line ? "waits" : "for");
  mt_buf_addc(b, '[');
  if (line)
    each_in_the_way(at, steps, add_wait, &list);
  else
    add_for(b, at);
  mt_buf_addc(b, ']');
  add_holds(m, b, at, show);
  add_wanted(b, at);
  mt_buf_addc(b, '}');
}

static bool lasts(const mt_attempt *at, int64_t now) {
  return at->wait && !at->try_once && now - at->wait_since_ms >= MT_WAIT_MS;
}

static mt_attempt *oldest(const mt_manager *m) {
  mt_attempt *at = m->attempts;
  while (at && at->next) at = at->next;
  return at;
}

void mt_waits_compose(mt_manager *m, mt_buf *out, bool show) {
  int64_t now = mt_manager_now(m);
  uint32_t steps = STEPS_MAX;
  size_t told = 0;
  for (mt_attempt *at = oldest(m); at && told < TOLD_MAX; at = at->prev) {
    if (!lasts(at, now) || at->lock->table != m->table) continue;
    size_t end = out->n;
    add_attempt(m, out, at, &steps, show);
    at->lock->told |= show;
    if (out->failed == MORTISE_REJECTED) { /* full */
      out->failed = MORTISE_OK;
      mt_buf_cut(out, end);
      return;
    }
    told++;
    if (show && !at->shown) at->shown = UINT64_MAX; /* the version follows */
  }
}

static void number_shown(mt_manager *m, uint64_t version) {
  for (mt_attempt *at = m->attempts; at; at = at->next)
    if (at->shown == UINT64_MAX) at->shown = version;
}

static void put(mt_manager *m, char *text, size_t n) {
  mt_deadlock *d = &m->deadlock;
  uint64_t before = m->table->session.board.version; /* only this thread changes it */
  uint64_t version = mt_board_put(&m->table->session, text, n);
  d->shown = text != NULL;
  number_shown(m, version);
  if (version != before && m->config.nudge) m->config.nudge(m->config.ctx);
}

void mt_waits_withdraw(mt_manager *m) {
  if (!m->deadlock.shown || !m->table) return;
  mt_board_put(&m->table->session, NULL, 0);
  m->deadlock.shown = false;
  m->deadlock.compose_ms = 0;
  for (mt_attempt *at = m->attempts; at; at = at->next) {
    at->shown = 0;
    at->lock->told = false;
  }
  for (mt_lock *lock = m->locks; lock; lock = lock->next) lock->told = false;
  mt_manager_soon(m);
}

bool mt_waits_publish(mt_manager *m) {
  mt_deadlock *d = &m->deadlock;
  int64_t now = mt_manager_now(m);
  bool any = false;
  for (const mt_attempt *at = m->attempts; at && !any; at = at->next) any = lasts(at, now);
  if (!any || now < d->compose_ms) return any;
  mt_buf text;
  mt_buf_init(&text, MT_BOARD_MAX);
  mt_waits_compose(m, &text, true);
  d->compose_ms = now + COMPOSE_MS;
  if (text.n && !text.failed) {
    size_t n;
    char *p = mt_buf_take(&text, &n);
    put(m, p, n);
  } else { /* no memory: nothing is told */
    mt_waits_withdraw(m);
    number_shown(m, 0);
    d->compose_ms = now + COMPOSE_MS;
  }
  mt_buf_deinit(&text);
  return true;
}
