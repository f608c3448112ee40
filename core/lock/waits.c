#include "lock/waits.h"

#include "base/mem.h"
#include "lock/blocker.h"
#include "lock/lock.h"
#include "lock/path.h"
#include "lock/waitgraph.h" /* for MT_CYCLE_MAX */

enum {
  PUBLISH_MS = 250,
  TOLD_MAX = 64,       /* waits of one session */
  TOLD_HOLDS = 64,     /* paths held by one task */
  TOLD_WAITS = 64,     /* tasks that one waits for */
  TOLD_PATH = 1024,    /* bytes of the wanted path */
  STEPS_MAX = 1 << 16, /* of one search */
};

/* ---- Who stands for a lock ------------------------------------------------------------------ */

/* Will this granted lock stay held for as long as `w` waits? Locks of its own task do, and those of
 * ancestor tasks, which wait for it to end; if the caller pumps, all locks of this process do,
 * since no other task runs. */
static bool stands_for(const mt_wait *w, const mt_lock *lock) {
  const mt_kin *kin = &w->manager->kin;
  if (!w->number || w->lock->holds != lock->holds) return false;
  if (w->blocks_siblings || w->lock->task == lock->task) return true;
  return kin->inherits && kin->inherits(kin->ctx, lock->task, w->lock->task);
}

bool mt_wait_is_nested(const mt_wait *w) {
  for (const mt_lock *lock = w->manager->locks; lock; lock = lock->next)
    if (stands_for(w, lock)) return true;
  return false;
}

typedef bool visit_fn(void *ctx, mt_wait *other);

/* Calls `visit` for each waiting task that keeps `w` in line, until it returns false or the steps
 * are used up. */
static void each_in_the_way(const mt_wait *w, uint32_t *steps, visit_fn *visit, void *ctx) {
  if (!w->in_line) return;
  mt_blocking b = mt_blocking_begin(&w->lock->parts[w->at], &w->manager->kin);
  for (const mt_part *p; *steps && (p = mt_blocking_next(&b)); --*steps) {
    mt_wait *one = p->lock->wait;
    if (one && one->number && !visit(ctx, one)) return;
    if (one) continue;
    for (one = w->manager->waits->first; one && *steps; one = one->next, --*steps)
      if (one != w && stands_for(one, p->lock) && !visit(ctx, one)) return;
    if (!*steps) return;
  }
}

/* ---- Cycles among the tasks of this process ------------------------------------------------- */

typedef struct cycle_search {
  mt_wait *start, *at, *last; /* `at` to `last` are still to be searched, linked by visit_next */
  uint64_t visit;
  bool found;
} cycle_search;

static bool visit_wait(void *ctx, mt_wait *other) {
  cycle_search *s = ctx;
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

/* Does anybody wait in line where this lock has a share? If not, it closes no cycle. */
static bool blocks_a_line(const mt_lock *lock) {
  for (size_t i = 0; i < lock->n; i++)
    if (lock->parts[i].state >= MT_PART_IN && lock->parts[i].hold->line.first) return true;
  return false;
}

static bool blocks_any_line(const mt_manager *m, const mt_wait *w) {
  if (blocks_a_line(w->lock)) return true;
  for (const mt_lock *lock = m->locks; lock; lock = lock->next)
    if (stands_for(w, lock) && blocks_a_line(lock)) return true;
  return false;
}

static mt_step step_of(const mt_manager *m, const mt_wait *w) {
  const mt_part *part = &w->lock->parts[w->at];
  return (mt_step){.path = part->place.path,
                   .mode = part->mode,
                   .session = w->lock->holds->session.id,
                   .owner = m->owner_json};
}

static bool is_younger(const mt_wait *a, const mt_wait *than) {
  uint64_t x = a->lock->task, y = than->lock->task;
  return x != y ? x > y : a->number > than->number;
}

/* Describes the cycle starting with the victim; `visit_from` leads from its end to its start. */
static mt_wait *tell_cycle(mt_manager *m, const cycle_search *s, mortise_blockers *all,
                           mortise_error *err) {
  mt_wait *ring[MT_CYCLE_MAX];
  mt_step steps[MT_CYCLE_MAX];
  size_t n = 0, first = SIZE_MAX;
  for (mt_wait *w = s->at;; w = w->visit_from) {
    if (n == MT_CYCLE_MAX) return NULL;
    bool may = mt_wait_is_nested(w) && (first == SIZE_MAX || is_younger(w, ring[first]));
    if (may) first = n;
    ring[n++] = w;
    if (w == s->start) break;
  }
  if (first == SIZE_MAX) return NULL;
  for (size_t i = 0; i < n; i++) steps[i] = step_of(m, ring[(first + n - i) % n]);
  mt_blocker_cycle(m->holds->session.id, steps, n, all, err);
  return ring[first];
}

mt_wait *mt_waits_local_cycle(mt_manager *m, mt_wait *start, mortise_blockers *all,
                              mortise_error *err) {
  if (!blocks_any_line(m, start)) return NULL;
  uint32_t steps = STEPS_MAX;
  cycle_search s = {.start = start, .at = start, .last = start, .visit = ++m->waits->last_visit};
  start->visit = s.visit;
  start->visit_next = NULL;
  for (; s.at && steps; s.at = s.at->visit_next) {
    each_in_the_way(s.at, &steps, visit_wait, &s);
    if (s.found) return tell_cycle(m, &s, all, err);
  }
  return NULL;
}

/* ---- The board ------------------------------------------------------------------------------ */

static void add_path_and_mode(mt_buf *b, mt_slice path, mt_mode mode) {
  mt_json_add_text(b, "path", path);
  mt_buf_addf(b, ",\"mode\":\"%s\"", mt_mode_name(mode));
}

static void add_hold(mt_buf *b, mt_slice path, mt_mode mode, uint64_t fence) {
  mt_buf_adds(b, b->n && b->p[b->n - 1] == '[' ? "{" : ",{");
  add_path_and_mode(b, path, mode);
  mt_buf_addf(b, ",\"fence\":%llu}", (unsigned long long)fence);
}

/* It may not have the other stripes yet. */
static void add_only_stripe(mt_buf *b, uint32_t stripe) {
  if (b->failed) return;
  mt_buf_cut(b, b->n - 1);
  mt_buf_addf(b, ",\"stripe\":%u}", stripe);
}

/* Adds what the acquisition has so far and the locks that stay held while it waits. */
static void add_holds(mt_buf *b, const mt_wait *w) {
  size_t n = 0;
  bool nested = false;
  mt_json_add_key(b, "holds");
  mt_buf_addc(b, '[');
  for (size_t i = 0; i < w->at && n < TOLD_HOLDS; i++) {
    const mt_part *part = &w->lock->parts[i];
    if (part->state != MT_PART_HELD) continue;
    add_hold(b, part->place.path, part->mode, w->lock->fence);
    if (mt_place_stripes(part->place.path, w->lock->stripes) > 1)
      add_only_stripe(b, part->place.stripe);
    n++;
  }
  for (const mt_lock *lock = w->manager->locks; lock && n < TOLD_HOLDS; lock = lock->next) {
    if (!stands_for(w, lock)) continue;
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

static bool add_wait(void *ctx, mt_wait *other) {
  wait_list *list = ctx;
  if (list->n) mt_buf_addc(list->b, ',');
  mt_buf_addu(list->b, other->number);
  return ++list->n < TOLD_WAITS && !list->b->failed;
}

/* What adopts waits until nobody else has anything there. */
static mt_mode waits_for_mode(const mt_wait *w) {
  return w->adopts ? MT_X : w->lock->parts[w->at].mode;
}

/* Adds the blockers that conflict with what this task wants; a sibling may have asked for a
 * stronger mode in the same write. */
static void add_for(mt_buf *b, const mt_wait *w) {
  for (size_t i = 0; i < w->n_blockers; i++) {
    const mt_lock_entry *e = &w->blockers[i];
    if (e->damaged || mt_mode_compatible(e->mode, waits_for_mode(w))) continue;
    mt_buf_adds(b, b->n && b->p[b->n - 1] == '[' ? "{" : ",{");
    mt_buf_addf(b, "\"session\":\"%s\"%s}", e->session, e->queued ? ",\"queued\":true" : "");
  }
}

/* For people: adds the first of its targets below the place where it waits, and their number. */
static void add_wanted(mt_buf *b, const mt_wait *w) {
  const mt_slice at = w->lock->parts[w->at].place.path;
  const mt_want *first = NULL;
  size_t n = 0;
  for (size_t i = 0; i < w->lock->n_wants; i++) {
    const mt_want *want = &w->lock->wants[i];
    if (mt_slice_eq(want->path, at)) return;
    if (!mt_path_is_ancestor(at, want->path)) continue;
    if (!first) first = want;
    n++;
  }
  if (!first || first->path.n > TOLD_PATH) return;
  mt_json_add_key(b, "wanted");
  mt_buf_addc(b, '{');
  add_path_and_mode(b, first->path, first->mode);
  mt_buf_addf(b, ",\"n\":%zu}", n);
}

static void add_one(mt_buf *b, const mt_wait *w, uint32_t *steps) {
  wait_list list = {.b = b};
  const mt_part *part = &w->lock->parts[w->at];
  bool first = !b->n || b->p[b->n - 1] == '[';
  mt_buf_addf(b, "%s{\"task\":%llu,\"wait\":%llu", first ? "" : ",",
              (unsigned long long)w->lock->task, (unsigned long long)w->number);
  add_path_and_mode(b, part->place.path, waits_for_mode(w));
  if (w->stripe) mt_buf_addf(b, ",\"stripe\":%u", w->stripe);
  if (w->poll_fence && !w->in_line)
    mt_buf_addf(b, ",\"polled\":%llu", (unsigned long long)w->poll_fence);
  mt_json_add_key(b, w->in_line ? "waits" : "for");
  mt_buf_addc(b, '[');
  if (w->in_line)
    each_in_the_way(w, steps, add_wait, &list);
  else
    add_for(b, w);
  mt_buf_addc(b, ']');
  add_holds(b, w);
  add_wanted(b, w);
  mt_buf_addc(b, '}');
}

static bool lasts(const mt_wait *w, int64_t now) {
  return w->number && !w->once && now - w->since_ms >= MT_WAIT_MS;
}

static mt_wait *oldest(const mt_manager *m) {
  mt_wait *w = m->waits->first;
  while (w && w->next) w = w->next;
  return w;
}

/* The next wait to publish, oldest first; waits of another session are skipped. */
static mt_wait *from(const mt_manager *m, mt_wait *w, int64_t now) {
  while (w && (!lasts(w, now) || w->lock->holds != m->holds)) w = w->prev;
  return w;
}

/* Returns how many waits it rendered. */
static size_t render(const mt_manager *m, mt_buf *out, int64_t now) {
  uint32_t steps = STEPS_MAX;
  size_t told = 0;
  for (mt_wait *w = oldest(m); told < TOLD_MAX && (w = from(m, w, now)); w = w->prev) {
    size_t end = out->n;
    add_one(out, w, &steps);
    if (out->failed == MORTISE_REJECTED) { /* full */
      out->failed = MORTISE_OK;
      mt_buf_cut(out, end);
      break;
    }
    told++;
  }
  return told;
}

void mt_waits_render(const mt_manager *m, mt_buf *out) {
  render(m, out, mt_manager_now(m));
}

/* Marks the locks that the board names, so that it is cleared before one of them is given back. */
static void mark_named(const mt_wait *w, uint64_t publication) {
  w->lock->publication = publication;
  for (mt_lock *lock = w->manager->locks; lock; lock = lock->next)
    if (stands_for(w, lock)) lock->publication = publication;
}

static void mark_told(mt_manager *m, size_t told, int64_t now, uint64_t version) {
  for (mt_wait *w = oldest(m); told-- && (w = from(m, w, now)); w = w->prev) {
    if (!w->published_version) w->published_version = version;
    mark_named(w, m->waits->publication);
  }
}

static void put_on_board(mt_manager *m, mt_buf *text, size_t told, int64_t now) {
  size_t n;
  char *p = mt_buf_take(text, &n);
  uint64_t before = m->holds->session.board.version; /* only this thread changes it */
  uint64_t version = mt_board_put(&m->holds->session, p, n);
  m->waits->published = p != NULL;
  mark_told(m, told, now, version);
  if (version != before && m->config.nudge) m->config.nudge(m->config.ctx);
}

bool mt_waits_publish(mt_manager *m) {
  mt_waits *all = m->waits;
  int64_t now = mt_manager_now(m);
  bool any = false;
  for (const mt_wait *w = all->first; w && !any; w = w->next) any = lasts(w, now);
  if (!any || now < all->publish_ms) return any;
  mt_buf text;
  mt_buf_init(&text, MT_BOARD_MAX);
  size_t told = render(m, &text, now);
  if (text.n && !text.failed)
    put_on_board(m, &text, told, now);
  else /* no memory: publish nothing */
    mt_waits_withdraw(m);
  all->publish_ms = now + PUBLISH_MS;
  mt_buf_deinit(&text);
  return true;
}
