#include "table.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct session_doc {
  char id[MT_SESSION_ID];
  mt_session_state state;
  int64_t lease_ms, opened_ms, beat_ms;
  mt_version version;
  const char *owner;   /* of the table's texts */
  const char *waiting; /* likewise */
} session_doc;

/* What one primary knows. */
typedef struct copy {
  sim_lock_doc locks[SIM_LOCKS];
  size_t n_locks;
  session_doc sessions[SIM_SESSIONS];
  size_t n_sessions;
  uint64_t seq_no, term;
} copy;

/* Owners and waits as they were sent; kept to the end, so that copies may share them. */
typedef struct text {
  struct text *next;
  size_t n;
  char bytes[];
} text;

struct sim_table {
  sim_world *w;
  sim_watch watch;
  copy *copies[2]; /* by sim_primary */
  unsigned job;    /* whose the item at hand is */
  text *texts;
};

sim_table *sim_table_new(sim_world *w, const sim_watch *watch) {
  sim_table *t = sim_must(calloc(1, sizeof *t));
  t->w = w;
  t->watch = *watch;
  t->copies[SIM_PRIMARY] = sim_must(calloc(1, sizeof(copy)));
  t->copies[SIM_PRIMARY]->term = 1;
  return t;
}

void sim_table_free(sim_table *t) {
  while (t->texts) {
    text *x = t->texts;
    t->texts = x->next;
    free(x);
  }
  free(t->copies[SIM_PRIMARY]);
  free(t->copies[SIM_REPLACED]);
  free(t);
}

static void copy_all(copy *to, const copy *from) {
  to->n_locks = from->n_locks;
  to->n_sessions = from->n_sessions;
  to->seq_no = from->seq_no;
  to->term = from->term;
  memcpy(to->locks, from->locks, from->n_locks * sizeof *from->locks);
  memcpy(to->sessions, from->sessions, from->n_sessions * sizeof *from->sessions);
}

void sim_table_fail_over(sim_table *t) {
  copy *now = t->copies[SIM_PRIMARY];
  if (!t->copies[SIM_REPLACED]) t->copies[SIM_REPLACED] = sim_must(calloc(1, sizeof(copy)));
  copy_all(t->copies[SIM_REPLACED], now);
  now->term++;
  sim_trace(t->w, "table: term %llu begins", (unsigned long long)now->term);
}

static mt_version next_version(copy *c) {
  return (mt_version){++c->seq_no, c->term};
}

static const char *keep_text(sim_table *t, mt_slice s) {
  for (const text *x = t->texts; x; x = x->next)
    if (x->n == s.n && (!s.n || memcmp(x->bytes, s.p, s.n) == 0)) return x->bytes;
  text *x = sim_must(malloc(sizeof *x + s.n + 1));
  x->n = s.n;
  if (s.n) memcpy(x->bytes, s.p, s.n);
  x->bytes[s.n] = '\0';
  x->next = t->texts;
  t->texts = x;
  return x->bytes;
}

/* ---- Lock documents ------------------------------------------------------------------------- */

static mt_place place_of(const sim_lock_doc *d) {
  return (mt_place){mt_slice_of(d->path), d->stripe};
}

static sim_lock_doc *find_lock(copy *c, mt_place place) {
  for (size_t i = 0; i < c->n_locks; i++)
    if (mt_place_equal(place_of(&c->locks[i]), place)) return &c->locks[i];
  return NULL;
}

static sim_lock_doc *make_lock(copy *c, mt_place place) {
  if (c->n_locks == SIM_LOCKS || place.path.n >= SIM_PATH) abort();
  sim_lock_doc *d = &c->locks[c->n_locks++];
  *d = (sim_lock_doc){.stripe = place.stripe};
  memcpy(d->path, place.path.p, place.path.n);
  return d;
}

static void drop_lock(copy *c, sim_lock_doc *d) {
  --c->n_locks;
  if (d != &c->locks[c->n_locks]) *d = c->locks[c->n_locks];
}

static sim_entry *find_entry(sim_entry *list, size_t n, const char *session) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i].session, session) == 0) return &list[i];
  return NULL;
}

static sim_entry *holder(sim_lock_doc *d, const char *session) {
  return d ? find_entry(d->holders, d->n_holders, session) : NULL;
}

static sim_entry *waiter(sim_lock_doc *d, const char *session) {
  return d ? find_entry(d->queue, d->n_queue, session) : NULL;
}

static void drop_entry(sim_entry *list, size_t *n, sim_entry *e) {
  size_t i = (size_t)(e - list);
  memmove(e, e + 1, (*n - i - 1) * sizeof *e);
  --*n;
}

/* A set of entries, one for each session; replacing one keeps its position. */
static void put_entry(sim_entry *list, size_t *n, sim_entry e) {
  sim_entry *mine = find_entry(list, *n, e.session);
  if (!mine && *n == SIM_ENTRIES) abort();
  if (!mine) mine = &list[(*n)++];
  *mine = e;
}

static sim_entry entry_of(const sim_table *t, const char *session, const mt_lock_item *item,
                          bool repeated) {
  sim_entry e = {.n = item->n, .mode = item->mode, .job = t->job, .repeated = repeated};
  snprintf(e.session, sizeof e.session, "%s", session);
  return e;
}

/* The next write removes expired places in the queue. */
static void bury(sim_table *t, sim_lock_doc *d) {
  for (size_t i = d->n_queue; i-- > 0;)
    if (d->queue[i].until <= sim_now(t->w)) drop_entry(d->queue, &d->n_queue, &d->queue[i]);
}

/* ---- set and create ------------------------------------------------------------------------- */

static void block(mt_lock_item *item, const sim_entry *e, bool queued) {
  if (!item->blockers) item->blockers = sim_must(calloc(MT_BLOCKERS_MAX, sizeof *item->blockers));
  if (item->n_blockers == MT_BLOCKERS_MAX) return;
  mt_lock_entry *b = &item->blockers[item->n_blockers++];
  *b = (mt_lock_entry){.n = e->n, .mode = e->mode, .queued = queued};
  memcpy(b->session, e->session, sizeof b->session);
  if (e->job) snprintf(b->job, sizeof b->job, "job-%u", e->job);
}

static void grant(sim_table *t, copy *c, sim_lock_doc *d, const char *session, mt_lock_item *item,
                  bool repeated) {
  sim_entry *mine = holder(d, session);
  if (!mine || mine->n < item->n)
    put_entry(d->holders, &d->n_holders, entry_of(t, session, item, repeated));
  else if (!repeated)
    mine->repeated = false;
  bury(t, d);
  sim_entry *place = waiter(d, session);
  if (place) drop_entry(d->queue, &d->n_queue, place);
  for (size_t i = 0; i < d->n_queue; i++)
    item->contended |= !mt_mode_compatible(d->queue[i].mode, item->mode);
  item->result = MT_LOCK_ACKED;
  item->version = d->version = next_version(c);
}

static void find_blockers(sim_table *t, sim_lock_doc *d, const char *session, mt_lock_item *item,
                          bool inside) {
  for (size_t i = 0; i < d->n_holders; i++)
    if (strcmp(d->holders[i].session, session) &&
        !mt_mode_compatible(d->holders[i].mode, item->mode))
      block(item, &d->holders[i], false);
  for (size_t i = 0; !inside && i < d->n_queue; i++) {
    if (strcmp(d->queue[i].session, session) == 0) break;
    if (d->queue[i].until > sim_now(t->w) && !mt_mode_compatible(d->queue[i].mode, item->mode))
      block(item, &d->queue[i], true);
  }
}

static void line_up(sim_table *t, copy *c, sim_lock_doc *d, const char *session, mt_lock_item *item,
                    bool repeated) {
  sim_entry e = entry_of(t, session, item, repeated);
  e.until = sim_now(t->w) + mt_lock_item_place_ms(item);
  put_entry(d->queue, &d->n_queue, e);
  bury(t, d);
  item->ahead = (uint32_t)(waiter(d, session) - d->queue);
  item->result = MT_LOCK_QUEUED;
  item->version = d->version = next_version(c);
}

static void set(sim_table *t, copy *c, const char *session, mt_lock_item *item, bool repeated) {
  sim_lock_doc *d = find_lock(c, item->place);
  sim_entry *mine = holder(d, session), *place = waiter(d, session);
  item->result = item->brief ? MT_LOCK_DENIED : MT_LOCK_STALE;
  if (mine ? mine->n > item->n : !item->fresh) return;
  if (place && place->n > item->n) return;
  if (!d) d = make_lock(c, item->place);
  if (!mine || mine->n < item->n) find_blockers(t, d, session, item, mine != NULL);
  if (!item->n_blockers)
    grant(t, c, d, session, item, repeated);
  else if (item->enqueue)
    line_up(t, c, d, session, item, repeated);
  else
    item->result = MT_LOCK_DENIED;
  if (item->brief) item->n_blockers = 0;
}

static void create(sim_table *t, copy *c, const char *session, mt_lock_item *item, bool repeated) {
  item->result = MT_LOCK_EXISTS;
  if (find_lock(c, item->place)) return;
  grant(t, c, make_lock(c, item->place), session, item, repeated);
}

/* ---- release, delete, evict ----------------------------------------------------------------- */

static void removed(sim_table *t, copy *c, sim_lock_doc *d, mt_lock_item *item, bool any) {
  item->result = any ? MT_LOCK_ACKED : MT_LOCK_ABSENT;
  if (!any) return;
  bury(t, d);
  item->version = d->version = next_version(c);
  if (!d->n_holders && !d->n_queue) drop_lock(c, d);
}

static void release(sim_table *t, copy *c, const char *session, mt_lock_item *item) {
  sim_lock_doc *d = find_lock(c, item->place);
  sim_entry *hold = holder(d, session);
  bool leaves = hold && hold->n <= item->n;
  if (leaves) drop_entry(d->holders, &d->n_holders, hold);
  sim_entry *wait = waiter(d, session);
  bool gives_up = wait && wait->n <= item->n;
  if (gives_up) drop_entry(d->queue, &d->n_queue, wait);
  removed(t, c, d, item, leaves || gives_up);
}

static void remove_document(copy *c, mt_lock_item *item) {
  sim_lock_doc *d = find_lock(c, item->place);
  item->result = MT_LOCK_ABSENT;
  if (!d) return;
  item->result = MT_LOCK_CONFLICT;
  if (d->version.seq_no != item->if_version.seq_no || d->version.term != item->if_version.term)
    return;
  drop_lock(c, d);
  item->result = MT_LOCK_ACKED;
  item->version = next_version(c);
}

static bool evict_one(sim_lock_doc *d, const char *session, bool guard) {
  sim_entry *hold = holder(d, session);
  if (hold && hold->job && !guard) hold = NULL;
  if (hold) drop_entry(d->holders, &d->n_holders, hold);
  sim_entry *wait = waiter(d, session);
  if (wait) drop_entry(d->queue, &d->n_queue, wait);
  return hold || wait;
}

static void evict(sim_table *t, copy *c, mt_lock_item *item) {
  sim_lock_doc *d = find_lock(c, item->place);
  bool any = evict_one(d, item->session, item->guard);
  for (size_t i = 0; i < item->n_others; i++) any |= evict_one(d, item->others[i], item->guard);
  removed(t, c, d, item, any);
}

static void adopt(sim_table *t, copy *c, const char *session, mt_lock_item *item, bool repeated) {
  sim_lock_doc *d = find_lock(c, item->place);
  sim_entry *mine = holder(d, session), *theirs = holder(d, item->session);
  item->result = mine && mine->n > item->n ? MT_LOCK_STALE : MT_LOCK_ABSENT;
  if (item->result == MT_LOCK_STALE || (!theirs && !(mine && mine->n == item->n))) return;
  if (theirs) {
    sim_entry e = entry_of(t, session, item, repeated);
    e.mode = mine ? mt_mode_join(mine->mode, theirs->mode) : theirs->mode;
    drop_entry(d->holders, &d->n_holders, theirs);
    put_entry(d->holders, &d->n_holders, e);
    sim_entry *place = waiter(d, item->session);
    if (place) drop_entry(d->queue, &d->n_queue, place);
  }
  bury(t, d);
  item->result = MT_LOCK_ACKED;
  item->version = d->version = next_version(c);
}

static void apply(sim_table *t, copy *c, const char *session, mt_lock_item *item, bool repeated) {
  switch (item->verb) {
  case MT_LOCK_CREATE:
    create(t, c, session, item, repeated);
    return;
  case MT_LOCK_SET:
    set(t, c, session, item, repeated);
    return;
  case MT_LOCK_RELEASE:
    release(t, c, session, item);
    return;
  case MT_LOCK_DELETE:
    remove_document(c, item);
    return;
  case MT_LOCK_EVICT:
    evict(t, c, item);
    return;
  case MT_LOCK_ADOPT:
    adopt(t, c, session, item, repeated);
    return;
  }
}

static bool takes(const mt_lock_item *item) {
  return item->verb == MT_LOCK_SET || item->verb == MT_LOCK_CREATE;
}

static bool has_guards(const sim_lock_doc *d) {
  for (size_t i = 0; d && i < d->n_holders; i++)
    if (d->holders[i].job) return true;
  return false;
}

bool sim_table_item(sim_table *t, sim_primary at, const char *session, unsigned job,
                    mt_lock_item *item, bool repeated) {
  static const char *const verbs[] = {"create", "set", "release", "delete", "evict", "adopt"};
  static const char *const results[] = {"no answer", "acked",  "queued",   "denied", "stale",
                                        "exists",    "absent", "conflict", "busy",   "failed"};
  copy *c = t->copies[at];
  uint64_t before = c->seq_no;
  const sim_entry *had = takes(item) ? holder(find_lock(c, item->place), session) : NULL;
  mt_mode mode_before = had ? had->mode : MT_NL;
  const sim_lock_doc *d = find_lock(c, item->place);
  bool guarded = !at && has_guards(d);
  sim_lock_doc before_it;
  if (guarded) before_it = *d;
  t->job = job;
  apply(t, c, session, item, repeated);
  bool wrote = c->seq_no > before;
  const char *whose = item->verb == MT_LOCK_EVICT ? item->session : session;
  sim_trace(t->w, "%s: %.6s %s%s %.*s %u n %llu %s -> %s%s (%llu.%llu, %zu in the way)",
            at ? "old primary" : "table", whose, repeated ? "again " : "", verbs[item->verb],
            (int)item->place.path.n, item->place.path.p, item->place.stripe,
            (unsigned long long)item->n, mt_mode_name(item->mode), results[item->result],
            item->contended ? ", others wait" : "", (unsigned long long)item->version.term,
            (unsigned long long)item->version.seq_no, item->n_blockers);
  if (at || !wrote) return wrote;
  t->watch.applied(t->watch.ctx, session, item, guarded ? &before_it : NULL);
  if (takes(item)) t->watch.set(t->watch.ctx, session, item, mode_before);
  t->watch.written(t->watch.ctx, whose, item->place);
  if (item->verb == MT_LOCK_ADOPT) t->watch.written(t->watch.ctx, item->session, item->place);
  for (size_t i = 0; i < item->n_others; i++)
    t->watch.written(t->watch.ctx, item->others[i], item->place);
  return true;
}

/* ---- Sessions ------------------------------------------------------------------------------- */

static session_doc *find_session(copy *c, const char *id) {
  for (size_t i = c->n_sessions; i-- > 0;)
    if (strcmp(c->sessions[i].id, id) == 0) return &c->sessions[i];
  return NULL;
}

static session_doc *make_session(sim_table *t, copy *c, const mt_session_write *r,
                                 mt_session_state state) {
  if (c->n_sessions == SIM_SESSIONS) abort();
  session_doc *d = &c->sessions[c->n_sessions++];
  *d = (session_doc){.state = state, .lease_ms = r->lease_ms, .opened_ms = sim_now(t->w)};
  d->owner = keep_text(t, r->owner.n ? r->owner : mt_slice_of("{}"));
  d->waiting = keep_text(t, mt_slice_of("[]"));
  snprintf(d->id, sizeof d->id, "%s", r->session);
  return d;
}

static bool same_version(const session_doc *d, mt_version v) {
  return d->version.seq_no == v.seq_no && d->version.term == v.term;
}

static session_doc *beat(sim_table *t, session_doc *d, const mt_session_write *r) {
  if (!d || d->state != MT_SESSION_LIVE) return NULL;
  d->waiting = keep_text(t, r->waiting.n ? r->waiting : mt_slice_of("[]"));
  d->beat_ms = sim_now(t->w);
  return d;
}

static session_doc *expire(sim_table *t, copy *c, session_doc *d, const mt_session_write *r) {
  if (!r->if_version.term) return d ? NULL : make_session(t, c, r, MT_SESSION_EXPIRED);
  if (!d || !same_version(d, r->if_version)) return NULL;
  d->state = MT_SESSION_EXPIRED;
  return d;
}

/* The document to be written, or NULL where its state forbids it. */
static session_doc *session_for(sim_table *t, copy *c, const mt_session_write *r) {
  session_doc *d = find_session(c, r->session);
  bool live = d && d->state == MT_SESSION_LIVE, broken = d && d->state == MT_SESSION_BROKEN;
  switch (r->verb) {
  case MT_SESSION_OPEN:
    if (!d) return make_session(t, c, r, MT_SESSION_LIVE);
    return live ? d : NULL;
  case MT_SESSION_BEAT:
    return beat(t, d, r);
  case MT_SESSION_CLOSE:
    if (live || broken) d->state = MT_SESSION_CLOSED;
    return live || broken ? d : NULL;
  case MT_SESSION_EXPIRE:
    return expire(t, c, d, r);
  case MT_SESSION_PROVE:
    return d && !live && !broken ? d : NULL;
  case MT_SESSION_BREAK:
    if (live) d->state = MT_SESSION_BROKEN;
    return live ? d : NULL;
  }
  return NULL;
}

bool sim_table_session(sim_table *t, sim_primary at, mt_session_write *r) {
  static const char *const verbs[] = {"open", "beat", "close", "expire", "prove", "break"};
  copy *c = t->copies[at];
  const session_doc *old = find_session(c, r->session);
  mt_session_state before = old ? old->state : MT_SESSION_MISSING;
  session_doc *d = session_for(t, c, r);
  r->result = d ? MT_SESSION_ACKED : MT_SESSION_REFUSED;
  if (d) r->version = d->version = next_version(c);
  sim_trace(t->w, "%s: %s %.6s -> %s (%llu.%llu)", at ? "old primary" : "table", verbs[r->verb],
            r->session, d ? "acked" : "refused", (unsigned long long)r->version.term,
            (unsigned long long)r->version.seq_no);
  if (d && !at) t->watch.session(t->watch.ctx, r, before, d->state);
  return d != NULL;
}

size_t sim_table_purge(sim_table *t, sim_primary at, int64_t before_ms) {
  copy *c = t->copies[at];
  size_t n = 0;
  for (size_t i = 0; i < c->n_sessions; i++) {
    const session_doc *d = &c->sessions[i];
    bool over = d->state == MT_SESSION_EXPIRED || d->state == MT_SESSION_CLOSED;
    if (!over || d->opened_ms >= before_ms || d->beat_ms >= before_ms) c->sessions[n++] = *d;
  }
  size_t purged = c->n_sessions - n;
  c->n_sessions = n;
  sim_trace(t->w, "%s: %zu sessions are purged", at ? "old primary" : "table", purged);
  return purged;
}

static char *text_copy(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(sim_must(malloc(n)), s, n);
}

void sim_table_read(sim_table *t, sim_primary at, mt_session_read *r) {
  r->docs = sim_must(calloc(r->n ? r->n : 1, sizeof *r->docs));
  for (size_t i = 0; i < r->n; i++) {
    mt_session_doc *to = &r->docs[i];
    const session_doc *d = find_session(t->copies[at], r->ids[i]);
    snprintf(to->session, sizeof to->session, "%s", r->ids[i]);
    if (!d) continue;
    to->state = d->state;
    to->lease_ms = d->lease_ms;
    to->version = d->version;
    to->opened_ms = d->opened_ms;
    to->beat_ms = d->beat_ms;
    to->owner = text_copy(d->owner);
    to->waiting = text_copy(d->waiting);
  }
}

/* ---- Lock documents, read -------------------------------------------------------------------- */

unsigned sim_job_number(const char *job) {
  unsigned number = 0;
  if (job && sscanf(job, "job-%u", &number) != 1) abort();
  return number;
}

static void add_entries(mt_buf *out, const sim_entry *list, size_t n, bool queued) {
  for (size_t i = 0; i < n; i++) {
    const sim_entry *e = &list[i];
    mt_buf_addf(out, "%s{\"session\":\"%s\",\"n\":%llu,\"mode\":\"%s\"", i ? "," : "", e->session,
                (unsigned long long)e->n, mt_mode_name(e->mode));
    if (queued) mt_buf_addf(out, ",\"until\":%lld", (long long)e->until);
    if (e->job) mt_buf_addf(out, ",\"job\":\"job-%u\"", e->job);
    mt_buf_addc(out, '}');
  }
}

static void add_document(mt_buf *out, const sim_lock_doc *d) {
  mt_buf_addf(out, "%s{\"ns\":\"sim\"", out->n > 1 ? "," : "");
  mt_place_add_json(out, place_of(d));
  mt_buf_adds(out, ",\"holders\":[");
  add_entries(out, d->holders, d->n_holders, false);
  mt_buf_adds(out, "],\"queue\":[");
  add_entries(out, d->queue, d->n_queue, true);
  mt_buf_adds(out, "]}");
}

static char *end_documents(mt_buf *out) {
  mt_buf_addc(out, ']');
  char *json = mt_buf_take(out, NULL);
  mt_buf_deinit(out);
  return sim_must(json);
}

char *sim_table_documents(sim_table *t, sim_primary at, const mt_place *places, size_t n) {
  mt_buf out;
  mt_buf_init(&out, 1 << 20);
  mt_buf_addc(&out, '[');
  for (size_t i = 0; i < n; i++) {
    const sim_lock_doc *d = find_lock(t->copies[at], places[i]);
    if (d) add_document(&out, d);
  }
  return end_documents(&out);
}

char *sim_table_list(sim_table *t, sim_primary at) {
  mt_buf out;
  mt_buf_init(&out, 1 << 20);
  mt_buf_addc(&out, '[');
  for (size_t i = 0; i < t->copies[at]->n_locks; i++) add_document(&out, &t->copies[at]->locks[i]);
  return end_documents(&out);
}

/* ---- For the checks ------------------------------------------------------------------------- */

const sim_lock_doc *sim_table_locks(const sim_table *t, size_t *n) {
  *n = t->copies[SIM_PRIMARY]->n_locks;
  return t->copies[SIM_PRIMARY]->locks;
}

const sim_lock_doc *sim_table_lock(const sim_table *t, mt_place place) {
  return find_lock(t->copies[SIM_PRIMARY], place);
}

mt_session_state sim_table_session_state(const sim_table *t, const char *session) {
  const session_doc *d = find_session(t->copies[SIM_PRIMARY], session);
  return d ? d->state : MT_SESSION_MISSING;
}

const sim_entry *sim_table_holder(const sim_table *t, mt_place place, const char *session) {
  return holder(find_lock(t->copies[SIM_PRIMARY], place), session);
}
