/* What must hold all the time, whatever befalls whom:
 *
 * - no two incompatible locks are believed at once, at any event: what mt_lock_check would say
 * there and then on each process's own clock;
 * - what was not believed for a moment is never believed again;
 * - what is believed stands in the table: an entry that covers it, on each path up to the root;
 * - the table itself never holds two incompatible entries on a path;
 * - of locks that exclude each other, a later one has a larger fence;
 * - a document that its believing holder stamps was not stamped by a later holder;
 * - a waiter that is told its place in a queue is not overtaken by a later, incompatible one;
 * - a session that has ended never lives again;
 * - what a session holds for a job goes by its own release, or to another one that adopts it, which
 *   keeps it until it is granted all; nothing is adopted from a session that lives. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

const char *const sim_paths[] = {"/",      "/a",    "/a/b",  "/a/b/c", "/a/b/d", "/a/e",
                                 "/a/e/f", "/g",    "/g/h",  "/a-b",   "/a/f0",  "/a/f1",
                                 "/a/f2",  "/a/f3", "/a/f4", "/a/f5"};

void sim_fail(sim *s, const char *why) {
  if (!s->failure) s->failure = why;
  sim_trace(s->w, "FAILURE: %s", why);
}

int sim_path_number(mt_slice path) {
  for (int i = 0; i < SIM_PATHS; i++)
    if (mt_slice_eq(path, mt_slice_of(sim_paths[i]))) return i;
  abort();
}

mt_place sim_place(int path, uint32_t stripe) {
  return (mt_place){mt_slice_of(sim_paths[path]), stripe};
}

int sim_place_number(mt_place place) {
  return sim_path_number(place.path) * SIM_STRIPES + (int)place.stripe;
}

uint32_t sim_stripes(const sim *s, int path) {
  return mt_place_stripes(mt_slice_of(sim_paths[path]), s->net.stripes);
}

static sim *sim_of(const grip *g) {
  return g->task->client->sim;
}

static const char *session_of(const grip *g) {
  return mt_lock_session(g->lock)->id;
}

/* ---- Which locks exclude each other --------------------------------------------------------- */

static bool above(mt_slice a, mt_slice b) { /* a strictly above b */
  if (a.n == 1) return b.n > 1;
  return b.n > a.n && memcmp(a.p, b.p, a.n) == 0 && b.p[a.n] == '/';
}

/* The mode that a want asks for at a path: its own mode at its target, an intention above. */
static mt_mode mode_at(const mt_want *want, mt_slice path) {
  if (mt_slice_eq(want->path, path)) return want->mode;
  return above(path, want->path) ? mt_mode_intention(want->mode) : MT_NL;
}

/* Nothing is asked for below a target in X. */
static bool dropped(const mt_want *wants, size_t n, size_t i) {
  for (size_t k = 0; k < n; k++)
    if (wants[k].mode == MT_X && above(wants[k].path, wants[i].path)) return true;
  return false;
}

static mt_mode all_at(const grip *g, mt_slice path) {
  const mt_want *wants;
  size_t n = mt_lock_targets(g->lock, &wants);
  mt_mode mode = MT_NL;
  for (size_t i = 0; i < n; i++)
    if (!dropped(wants, n, i)) mode = mt_mode_join(mode, mode_at(&wants[i], path));
  return mode;
}

static bool clash(const mt_want *a, const mt_want *b) {
  if (mt_slice_eq(a->path, b->path)) return !mt_mode_compatible(a->mode, b->mode);
  if (above(a->path, b->path)) return !mt_mode_compatible(a->mode, mt_mode_intention(b->mode));
  if (above(b->path, a->path)) return !mt_mode_compatible(mt_mode_intention(a->mode), b->mode);
  return false;
}

static bool any_clash(const grip *a, const grip *b) {
  const mt_want *x, *y;
  size_t n = mt_lock_targets(a->lock, &x), m = mt_lock_targets(b->lock, &y);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < m; k++)
      if (clash(&x[i], &y[k])) return true;
  return false;
}

/* ---- Belief --------------------------------------------------------------------------------- */

/* What mt_lock_check would say now, but without a side effect: a session notices its deadline only
 * when it is asked. */
bool sim_believes(const grip *g) {
  if (!g->lock || g->task->client->machine.gone) return false;
  mt_session *session = mt_lock_session(g->lock);
  bool was = atomic_load(&session->lost);
  bool sure = mt_lock_check(g->lock, NULL) == MORTISE_OK;
  atomic_store(&session->lost, was);
  return sure;
}

/* An intention stands in one stripe at least, any other mode in all. */
static bool covered_at(const grip *g, int path) {
  const sim *s = sim_of(g);
  mt_mode mode = all_at(g, mt_slice_of(sim_paths[path]));
  uint32_t n = sim_stripes(s, path), covering = 0;
  for (uint32_t i = 0; mode && i < n; i++) {
    const sim_entry *e = sim_table_holder(s->table, sim_place(path, i), session_of(g));
    covering += e && mt_mode_covers(e->mode, mode);
  }
  return !mode || covering == n || (covering && mt_mode_is_intention(mode));
}

void sim_check_beliefs(void *ctx) {
  sim *s = ctx;
  uint64_t sure = 0;
  for (size_t i = 0; i < s->n_grips; i++) {
    grip *g = s->grips[i];
    bool now = sim_believes(g);
    if (now && g->lost) sim_fail(s, "a lock that was lost is believed again");
    g->lost |= !now;
    if (now) sure |= UINT64_C(1) << g->number;
  }
  for (size_t i = 0; i < s->n_grips; i++)
    if (sure >> s->grips[i]->number & 1 && s->grips[i]->clashes & sure)
      sim_fail(s, "two incompatible locks are believed at once");
}

static void find_clashes(grip *g) {
  sim *s = sim_of(g);
  uint64_t bit = UINT64_C(1) << g->number;
  g->clashes = 0;
  for (size_t i = 0; i < s->n_grips; i++) {
    grip *other = s->grips[i];
    other->clashes &= ~bit;
    if (other->task == g->task || !any_clash(g, other)) continue;
    other->clashes |= bit;
    g->clashes |= UINT64_C(1) << other->number;
  }
}

/* ---- Fences --------------------------------------------------------------------------------- */

static void check_fence(grip *g) {
  sim *s = sim_of(g);
  for (int p = 0; p < SIM_PATHS; p++) {
    mt_mode mode = all_at(g, mt_slice_of(sim_paths[p]));
    for (mt_mode m = MT_IS; mode && m <= MT_X; m++)
      if (!mt_mode_compatible(mode, m) && s->fences[p][m] >= g->fence)
        sim_fail(s, "a later holder's fence is not larger");
  }
}

static void note_fence(const grip *g) {
  sim *s = sim_of(g);
  for (int p = 0; p < SIM_PATHS; p++) {
    mt_mode mode = all_at(g, mt_slice_of(sim_paths[p]));
    if (s->fences[p][mode] < g->fence) s->fences[p][mode] = g->fence;
  }
}

/* ---- A lock comes, changes, goes ------------------------------------------------------------ */

static void check_covered(const grip *g) {
  for (int p = 0; p < SIM_PATHS; p++)
    if (!covered_at(g, p)) sim_fail(sim_of(g), "what is believed does not stand in the table");
}

void sim_check_granted(grip *g) {
  sim *s = sim_of(g);
  s->grips[s->n_grips++] = g;
  g->lost = false;
  g->fence = mt_lock_fence(g->lock);
  find_clashes(g);
  check_fence(g);
  note_fence(g);
  if (sim_believes(g)) check_covered(g);
}

/* An upgrade has a fence of its own; a downgrade keeps the fence. */
void sim_check_changed(grip *g) {
  uint64_t fence = mt_lock_fence(g->lock);
  if (fence < g->fence) sim_fail(sim_of(g), "a lock's fence has shrunk");
  bool more = fence > g->fence;
  g->fence = fence;
  find_clashes(g);
  if (more) check_fence(g);
  note_fence(g);
  if (sim_believes(g)) check_covered(g);
}

void sim_check_given(grip *g) {
  sim *s = sim_of(g);
  for (size_t i = 0; i < s->n_grips; i++) {
    if (s->grips[i] != g) continue;
    s->grips[i] = s->grips[--s->n_grips];
    break;
  }
  for (size_t i = 0; i < s->n_grips; i++) s->grips[i]->clashes &= ~(UINT64_C(1) << g->number);
  g->lock = NULL;
  g->clashes = 0;
}

/* ---- Writes under a lock -------------------------------------------------------------------- */

/* A write under way, with its stamp. */
typedef struct stamping {
  sim *s;
  grip *grip;
  mt_lock *lock;
  int path;
  uint64_t fence;
} stamping;

static void stamped(void *ctx) {
  stamping *w = ctx;
  sim *s = w->s;
  s->counts.writes++;
  bool sure = w->grip->lock == w->lock && w->grip->fence == w->fence && sim_believes(w->grip);
  if (!sure) s->counts.late_writes++;
  if (w->fence < s->stamps[w->path]) {
    s->counts.refused_writes++;
    bool inner = s->stampers[w->path] == w->grip->task; /* it has a lock within this one */
    if (sure && !inner)
      sim_fail(s, "a later holder has written under a lock that is still believed");
  } else {
    s->stamps[w->path] = w->fence;
    s->stampers[w->path] = w->grip->task;
  }
  free(w);
}

void sim_check_write(grip *g, sim_key key) {
  sim *s = sim_of(g);
  const mt_want *wants;
  size_t n = mt_lock_targets(g->lock, &wants);
  if (!n || wants[0].mode != MT_X || mt_lock_check(g->lock, NULL)) return;
  stamping *w = sim_must(malloc(sizeof *w));
  *w = (stamping){s, g, g->lock, sim_path_number(wants[0].path), mt_lock_fence(g->lock)};
  int64_t latest =
      sim_happens(s->w, (key & ~(UINT64_C(255) << 56)) | (uint64_t)SIM_LATE_WRITE << 56,
                  s->profile.fault_level)
          ? 2 * LEASE
          : 8;
  sim_trace(s->w, "client %u: writes under %s", g->task->client->number, sim_paths[w->path]);
  sim_at(s->w, sim_now(s->w) + sim_between(s->w, key, 1, latest), stamped, w);
}

/* ---- What the table says -------------------------------------------------------------------- */

static void check_document(sim *s, mt_place place) {
  const sim_lock_doc *d = sim_table_lock(s->table, place);
  for (size_t i = 0; d && i < d->n_holders; i++)
    for (size_t k = 0; k < i; k++)
      if (!mt_mode_compatible(d->holders[i].mode, d->holders[k].mode) ||
          strcmp(d->holders[i].session, d->holders[k].session) == 0)
        sim_fail(s, "the table holds two entries that exclude each other");
}

static void drop_place(sim *s, int path, size_t i) {
  turn *list = s->places[path];
  size_t n = --s->n_places[path];
  memmove(&list[i], &list[i + 1], (n - i) * sizeof *list);
}

/* Where this session waits; n_places: nowhere. */
static size_t find_place(const sim *s, int path, const char *session) {
  const turn *list = s->places[path];
  for (size_t i = 0; i < s->n_places[path]; i++)
    if (strcmp(list[i].session, session) == 0) return i;
  return s->n_places[path];
}

/* A session that holds nothing here must not pass one that waits before it. An expired place blocks
 * nobody; a waiter that renews its place in time keeps it. */
static void check_turn(sim *s, int path, const char *session, const mt_lock_item *item,
                       mt_mode before) {
  size_t mine = find_place(s, path, session);
  const turn *list = s->places[path];
  for (size_t i = 0; i < mine && !before; i++)
    if (list[i].until > sim_now(s->w) && !mt_mode_compatible(list[i].mode, item->mode))
      sim_fail(s, "a waiter is overtaken");
}

static void note_place(sim *s, int path, const char *session, const mt_lock_item *item) {
  size_t mine = find_place(s, path, session);
  if (mine == SIM_ENTRIES) abort();
  if (mine == s->n_places[path]) s->n_places[path]++;
  turn *p = &s->places[path][mine];
  *p = (turn){
      .mode = item->mode, .n = item->n, .until = sim_now(s->w) + mt_lock_item_place_ms(item)};
  snprintf(p->session, sizeof p->session, "%s", session);
}

static bool waits(const sim_lock_doc *d, const char *session) {
  for (size_t i = 0; d && i < d->n_queue; i++)
    if (strcmp(d->queue[i].session, session) == 0) return true;
  return false;
}

/* A waiter whose place is gone, because it was granted, gave up, or was late, cannot be
 * overtaken. */
static void forget_places(sim *s, int path, const sim_lock_doc *d, const char *session) {
  for (size_t i = s->n_places[path]; i-- > 0;) {
    const turn *p = &s->places[path][i];
    bool may_go = p->until <= sim_now(s->w) || strcmp(p->session, session) == 0;
    if (may_go && !waits(d, p->session)) drop_place(s, path, i);
  }
}

static void on_set(void *ctx, const char *session, const mt_lock_item *item, mt_mode before) {
  sim *s = ctx;
  int path = sim_place_number(item->place);
  check_document(s, item->place);
  if (item->result == MT_LOCK_ACKED)
    check_turn(s, path, session, item, before);
  else
    note_place(s, path, session, item);
  sim_stream_set(s, session, item);
}

static void on_written(void *ctx, const char *session, mt_place place) {
  sim *s = ctx;
  int number = sim_path_number(place.path);
  for (size_t i = 0; i < s->n_grips; i++) {
    const grip *g = s->grips[i];
    if (strcmp(session_of(g), session) == 0 && sim_believes(g) && !covered_at(g, number))
      sim_fail(s, "what is believed was taken out of the table");
  }
  forget_places(s, sim_place_number(place), sim_table_lock(s->table, place), session);
}

/* ---- Guards --------------------------------------------------------------------------------- */

static guard *guard_of(sim *s, const char *session) {
  for (size_t i = 0; i < s->n_guards; i++)
    if (strcmp(s->guards[i].session, session) == 0) return &s->guards[i];
  if (s->n_guards == GUARDS) abort();
  guard *g = &s->guards[s->n_guards++];
  *g = (guard){0};
  snprintf(g->session, sizeof g->session, "%s", session);
  return g;
}

void sim_check_adopted(const grip *g) {
  guard *had = guard_of(sim_of(g), session_of(g));
  for (int p = 0; p < SIM_PATHS; p++) {
    if (!all_at(g, mt_slice_of(sim_paths[p]))) continue;
    for (int i = p * SIM_STRIPES; i < (p + 1) * SIM_STRIPES; i++) {
      had->on[i] = false;
      had->settled[i] = g->lock->holds->last_n;
    }
  }
}

/* An adoption that was asked for before all was granted there guards nothing when it comes late, the first time
 * or as a copy: had it been in time, it would have been given back at that grant. */
static void note_adopted(sim *s, const char *session, const mt_lock_item *item) {
  guard *g = guard_of(s, session);
  int p = sim_place_number(item->place);
  if (item->n <= g->settled[p]) return;
  g->on[p] = true;
}

/* What a job holds goes by its owner's release, or to who adopts it; and who has adopted it keeps it
 * until he is granted all. */
static void check_guards(sim *s, const char *session, const mt_lock_item *item,
                         const sim_lock_doc *before) {
  int path = sim_place_number(item->place);
  for (size_t i = 0; before && i < before->n_holders; i++) {
    const sim_entry *e = &before->holders[i];
    if (!e->job || sim_table_holder(s->table, item->place, e->session)) continue;
    bool own = strcmp(e->session, session) == 0;
    bool adopted = item->verb == MT_LOCK_ADOPT && strcmp(e->session, item->session) == 0;
    if (!own && !adopted) sim_fail(s, "what guards a job was taken away");
    if (own && !s->giving && guard_of(s, session)->on[path])
      sim_fail(s, "what was adopted was given back before all was granted");
  }
}

static void on_applied(void *ctx, const char *session, const mt_lock_item *item,
                       const sim_lock_doc *before) {
  sim *s = ctx;
  check_guards(s, session, item, before);
  if (item->verb != MT_LOCK_ADOPT) return;
  check_document(s, item->place);
  mt_session_state state = sim_table_session_state(s->table, item->session);
  if (state == MT_SESSION_LIVE || state == MT_SESSION_BROKEN)
    sim_fail(s, "what a living session holds was adopted");
  for (size_t i = 0; before && i < before->n_holders; i++) /* not where it is written again */
    if (strcmp(before->holders[i].session, item->session) == 0) note_adopted(s, session, item);
}

static void on_session(void *ctx, const mt_session_write *write, mt_session_state before,
                       mt_session_state after) {
  bool over = before == MT_SESSION_EXPIRED || before == MT_SESSION_CLOSED;
  bool lives = after == MT_SESSION_LIVE || after == MT_SESSION_BROKEN;
  (void)write;
  if (over && lives) sim_fail(ctx, "a session that has ended lives again");
  if (before == MT_SESSION_BROKEN && after == MT_SESSION_LIVE)
    sim_fail(ctx, "a session that was broken by hand lives again");
  if (over && write->verb == MT_SESSION_BEAT) sim_fail(ctx, "a session that has ended was beaten");
}

const sim_watch *sim_checks(sim *s, sim_watch *watch) {
  *watch = (sim_watch){
      .ctx = s, .set = on_set, .written = on_written, .applied = on_applied, .session = on_session};
  return watch;
}
