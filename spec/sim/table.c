#include "table.h"

#include <stdio.h>
#include <stdlib.h>

enum { ENTRIES = 32, LOCKS = 16, SESSIONS = 256 };

typedef struct entry {
  char session[MT_SESSION_ID];
  uint64_t n;
  mt_mode mode;
  int64_t until; /* queue only */
} entry;

typedef struct lock_doc {
  char path[64];
  entry holders[ENTRIES], queue[ENTRIES];
  size_t n_holders, n_queue;
  mt_version version;
} lock_doc;

typedef struct session_doc {
  char id[MT_SESSION_ID];
  mt_session_state state;
  int64_t lease_ms;
  mt_version version;
} session_doc;

struct sim_table {
  sim_world *w;
  sim_faults faults;
  lock_doc locks[LOCKS];
  size_t n_locks;
  session_doc sessions[SESSIONS];
  size_t n_sessions;
  uint64_t seq_no;
  struct call *calls; /* all that were ever made, freed at the end */
};

static void *must(void *p) {
  if (!p) abort();
  return p;
}

sim_table *sim_table_new(sim_world *w, const sim_faults *faults) {
  sim_table *t = must(calloc(1, sizeof *t));
  t->w = w;
  t->faults = *faults;
  return t;
}

void sim_table_calm(sim_table *t) {
  t->faults = (sim_faults){0};
}

static mt_version next_version(sim_table *t) {
  return (mt_version){++t->seq_no, 1};
}

/* ---- Locks ---------------------------------------------------------------------------------- */

static lock_doc *find_lock(sim_table *t, mt_slice path, bool make) {
  for (size_t i = 0; i < t->n_locks; i++)
    if (mt_slice_eq(mt_slice_of(t->locks[i].path), path)) return &t->locks[i];
  if (!make) return NULL;
  if (t->n_locks == LOCKS || path.n >= sizeof t->locks[0].path) abort();
  lock_doc *d = &t->locks[t->n_locks++];
  *d = (lock_doc){0};
  memcpy(d->path, path.p, path.n);
  return d;
}

static void drop_lock(sim_table *t, lock_doc *d) {
  *d = t->locks[--t->n_locks];
}

size_t sim_table_locks(const sim_table *t) {
  for (size_t i = 0; i < t->n_locks; i++) {
    const lock_doc *d = &t->locks[i];
    sim_trace(t->w, "left: %s holders %zu queue %zu first %.6s", d->path, d->n_holders, d->n_queue,
              d->n_holders ? d->holders[0].session : d->queue[0].session);
  }
  return t->n_locks;
}

static entry *find_entry(entry *list, size_t n, const char *session) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i].session, session) == 0) return &list[i];
  return NULL;
}

static void drop_entry(entry *list, size_t *n, entry *e) {
  size_t i = (size_t)(e - list);
  memmove(e, e + 1, (*n - i - 1) * sizeof *e);
  --*n;
}

static void put_entry(entry *list, size_t *n, entry e) {
  entry *mine = find_entry(list, *n, e.session);
  if (!mine && *n == ENTRIES) abort();
  if (!mine) mine = &list[(*n)++];
  *mine = e;
}

static entry entry_of(const char *session, const mt_lock_item *item) {
  entry e = {.n = item->n, .mode = item->mode};
  snprintf(e.session, sizeof e.session, "%s", session);
  return e;
}

static void block(mt_lock_item *item, const entry *e, bool queued) {
  if (!item->blockers) item->blockers = must(calloc(MT_BLOCKERS_MAX, sizeof *item->blockers));
  if (item->n_blockers == MT_BLOCKERS_MAX) return;
  mt_lock_entry *b = &item->blockers[item->n_blockers++];
  *b = (mt_lock_entry){.n = e->n, .mode = e->mode, .queued = queued};
  memcpy(b->session, e->session, sizeof b->session);
}

/* Places in the queue that have expired go with the next write. */
static void bury(sim_table *t, lock_doc *d) {
  for (size_t i = d->n_queue; i-- > 0;)
    if (d->queue[i].until <= sim_now(t->w)) drop_entry(d->queue, &d->n_queue, &d->queue[i]);
}

static void grant(sim_table *t, lock_doc *d, const char *session, mt_lock_item *item) {
  put_entry(d->holders, &d->n_holders, entry_of(session, item));
  entry *waiting = find_entry(d->queue, d->n_queue, session);
  if (waiting && waiting->n <= item->n) drop_entry(d->queue, &d->n_queue, waiting);
  for (size_t i = 0; i < d->n_queue; i++)
    item->contended |= strcmp(d->queue[i].session, session) &&
                       !mt_mode_compatible(d->queue[i].mode, item->mode) &&
                       d->queue[i].until > sim_now(t->w);
  item->result = MT_LOCK_ACKED;
  item->version = d->version = next_version(t);
}

static void find_blockers(sim_table *t, lock_doc *d, const char *session, mt_lock_item *item,
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

static void line_up(sim_table *t, lock_doc *d, const char *session, mt_lock_item *item) {
  bury(t, d);
  entry e = entry_of(session, item);
  e.until = sim_now(t->w) + MT_QUEUE_LIFE_MS;
  put_entry(d->queue, &d->n_queue, e);
  item->ahead = (uint32_t)(find_entry(d->queue, d->n_queue, session) - d->queue);
  item->result = MT_LOCK_QUEUED;
  item->version = d->version = next_version(t);
}

static void set(sim_table *t, const char *session, mt_lock_item *item) {
  lock_doc *d = find_lock(t, item->path, false);
  entry *mine = d ? find_entry(d->holders, d->n_holders, session) : NULL;
  item->result = MT_LOCK_STALE;
  if (item->brief) item->result = MT_LOCK_DENIED;
  if (mine ? mine->n > item->n : !item->fresh) return;
  if (!d) d = find_lock(t, item->path, true);
  if (!mine || mine->n < item->n) find_blockers(t, d, session, item, mine != NULL);
  if (!item->n_blockers)
    grant(t, d, session, item);
  else if (item->enqueue)
    line_up(t, d, session, item);
  else
    item->result = MT_LOCK_DENIED;
  if (item->brief) item->n_blockers = 0;
}

static void create(sim_table *t, const char *session, mt_lock_item *item) {
  item->result = MT_LOCK_EXISTS;
  if (find_lock(t, item->path, false)) return;
  grant(t, find_lock(t, item->path, true), session, item);
}

static void removed(sim_table *t, lock_doc *d, mt_lock_item *item, bool any) {
  item->result = any ? MT_LOCK_ACKED : MT_LOCK_ABSENT;
  if (any) bury(t, d);
  if (any) item->version = d->version = next_version(t);
  if (any && !d->n_holders && !d->n_queue) drop_lock(t, d);
}

static void release(sim_table *t, const char *session, mt_lock_item *item) {
  lock_doc *d = find_lock(t, item->path, false);
  entry *hold = d ? find_entry(d->holders, d->n_holders, session) : NULL;
  entry *wait = d ? find_entry(d->queue, d->n_queue, session) : NULL;
  bool leaves = hold && hold->n <= item->n, gives_up = wait && wait->n <= item->n;
  if (leaves) drop_entry(d->holders, &d->n_holders, hold);
  if (gives_up) drop_entry(d->queue, &d->n_queue, wait);
  removed(t, d, item, leaves || gives_up);
}

static void remove_document(sim_table *t, mt_lock_item *item) {
  lock_doc *d = find_lock(t, item->path, false);
  item->result = MT_LOCK_ABSENT;
  if (!d) return;
  item->result = MT_LOCK_CONFLICT;
  if (d->version.seq_no != item->if_version.seq_no) return;
  drop_lock(t, d);
  item->result = MT_LOCK_ACKED;
  item->version = next_version(t);
}

static void evict(sim_table *t, mt_lock_item *item) {
  lock_doc *d = find_lock(t, item->path, false);
  entry *hold = d ? find_entry(d->holders, d->n_holders, item->session) : NULL;
  if (hold) drop_entry(d->holders, &d->n_holders, hold);
  entry *wait = d ? find_entry(d->queue, d->n_queue, item->session) : NULL;
  if (wait) drop_entry(d->queue, &d->n_queue, wait);
  removed(t, d, item, hold || wait);
}

static void apply_item(sim_table *t, const char *session, mt_lock_item *item) {
  if (sim_chance(t->w, t->faults.conflict) && item->verb != MT_LOCK_CREATE) {
    item->result = MT_LOCK_CONFLICT;
    return;
  }
  if (sim_chance(t->w, t->faults.busy)) {
    item->result = MT_LOCK_BUSY;
    return;
  }
  switch (item->verb) {
  case MT_LOCK_CREATE:
    create(t, session, item);
    break;
  case MT_LOCK_SET:
    set(t, session, item);
    break;
  case MT_LOCK_RELEASE:
    release(t, session, item);
    break;
  case MT_LOCK_DELETE:
    remove_document(t, item);
    break;
  case MT_LOCK_EVICT:
    evict(t, item);
    break;
  case MT_LOCK_ADOPT:
    abort();
  }
  sim_trace(t->w, "table: %.6s verb %d %.*s n %llu mode %d -> %d (seq %llu, blockers %zu)", session,
            (int)item->verb, (int)item->path.n, item->path.p, (unsigned long long)item->n,
            (int)item->mode, (int)item->result, (unsigned long long)item->version.seq_no,
            item->n_blockers);
}

/* ---- Sessions ------------------------------------------------------------------------------- */

static session_doc *find_session(sim_table *t, const char *id) {
  for (size_t i = 0; i < t->n_sessions; i++)
    if (strcmp(t->sessions[i].id, id) == 0) return &t->sessions[i];
  return NULL;
}

static session_doc *make_session(sim_table *t, const char *id, mt_session_state state,
                                 int64_t lease_ms) {
  if (t->n_sessions == SESSIONS) abort();
  session_doc *d = &t->sessions[t->n_sessions++];
  *d = (session_doc){.state = state, .lease_ms = lease_ms};
  snprintf(d->id, sizeof d->id, "%s", id);
  return d;
}

/* The document to be written, or NULL where its state forbids it. */
static session_doc *session_for(sim_table *t, const mt_session_write *r) {
  session_doc *d = find_session(t, r->session);
  bool live = d && d->state == MT_SESSION_LIVE;
  bool broken = d && d->state == MT_SESSION_BROKEN;
  switch (r->verb) {
  case MT_SESSION_OPEN:
    if (!d) return make_session(t, r->session, MT_SESSION_LIVE, r->lease_ms);
    return live ? d : NULL;
  case MT_SESSION_BEAT:
    return live ? d : NULL;
  case MT_SESSION_CLOSE:
    if (!live && !broken) return NULL;
    d->state = MT_SESSION_CLOSED;
    return d;
  case MT_SESSION_EXPIRE:
    if (!r->if_version.term)
      return d ? NULL : make_session(t, r->session, MT_SESSION_EXPIRED, r->lease_ms);
    if ((!live && !broken) || d->version.seq_no != r->if_version.seq_no) return NULL;
    d->state = MT_SESSION_EXPIRED;
    return d;
  case MT_SESSION_PROVE:
    return d && !live && !broken ? d : NULL;
  case MT_SESSION_BREAK:
    if (live) d->state = MT_SESSION_BROKEN;
    return live ? d : NULL;
  }
  return NULL;
}

static void apply_session(sim_table *t, mt_session_write *r) {
  session_doc *d = session_for(t, r);
  r->result = d ? MT_SESSION_ACKED : MT_SESSION_REFUSED;
  if (d) r->version = d->version = next_version(t);
  sim_trace(t->w, "table: session %.6s verb %d -> %d", r->session, (int)r->verb, (int)r->result);
}

static void apply_read(sim_table *t, mt_session_read *r) {
  r->docs = must(calloc(r->n ? r->n : 1, sizeof *r->docs));
  for (size_t i = 0; i < r->n; i++) {
    const session_doc *d = find_session(t, r->ids[i]);
    snprintf(r->docs[i].session, sizeof r->docs[i].session, "%s", r->ids[i]);
    if (!d) continue;
    r->docs[i].state = d->state;
    r->docs[i].lease_ms = d->lease_ms;
    r->docs[i].version = d->version;
    r->docs[i].owner = must(calloc(1, MT_SESSION_ID + 16));
    snprintf(r->docs[i].owner, MT_SESSION_ID + 16, "{\"host\":\"%.6s\"}", d->id);
  }
}

/* ---- The network ---------------------------------------------------------------------------- */

typedef enum call_kind { CALL_BATCH, CALL_SESSION, CALL_READ, CALL_VERIFY } call_kind;

typedef struct sim_store {
  mt_store base; /* first */
  sim_table *table;
  sim_machine *machine;
} sim_store;

/* A request on its way, with a copy of all it says. */
typedef struct call {
  sim_store *from;
  sim_table *table;
  sim_machine *machine;
  call_kind kind;
  mt_req *req; /* NULL once finished or cancelled */
  bool drop_answer, answered;
  char session[MT_SESSION_ID];
  mt_lock_item *items;
  char (*paths)[64];
  char (*others)[MT_SESSION_ID];
  size_t n;
  mt_session_write write;
  mt_session_read read;
  const char *ids[64];
  char id_text[64][MT_SESSION_ID];
  struct call *next;
} call;

static void clear_items(call *c) {
  for (size_t i = 0; i < c->n; i++) free(c->items[i].blockers);
}

static void fresh_items(call *c) {
  for (size_t i = 0; i < c->n; i++) {
    mt_lock_item *item = &c->items[i];
    item->result = MT_LOCK_NO_ANSWER;
    item->contended = false;
    item->blockers = NULL;
    item->n_blockers = 0;
  }
}

static void arrive(call *c) {
  if (c->kind == CALL_BATCH) {
    for (size_t i = 0; i < c->n; i++) apply_item(c->table, c->session, &c->items[i]);
  } else if (c->kind == CALL_SESSION) {
    apply_session(c->table, &c->write);
  } else if (c->kind == CALL_READ) {
    apply_read(c->table, &c->read);
  }
}

static void finish(call *c) {
  mt_req *req = c->req;
  c->req = NULL;
  mt_req_finish(req);
}

/* Not to a machine that is stopped: there it waits in the socket. */
static bool held_up(call *c, void (*fn)(void *ctx)) {
  if (c->machine->gone || !c->req) return true;
  if (c->machine->stopped_until <= sim_now(c->table->w)) return false;
  sim_at(c->table->w, c->machine->stopped_until, fn, c);
  return true;
}

static void deliver(void *ctx) {
  call *c = ctx;
  if (held_up(c, deliver)) return;
  if (c->kind == CALL_BATCH) {
    mt_lock_batch *r = (mt_lock_batch *)c->req;
    for (size_t i = 0; i < c->n; i++) {
      mt_lock_item *to = &r->items[i], *from = &c->items[i];
      to->result = from->result;
      to->version = from->version;
      to->ahead = from->ahead;
      to->contended = from->contended;
      to->blockers = from->blockers;
      to->n_blockers = from->n_blockers;
      from->blockers = NULL;
    }
  } else if (c->kind == CALL_SESSION) {
    mt_session_write *r = (mt_session_write *)c->req;
    r->result = c->write.result;
    r->version = c->write.version;
  } else if (c->kind == CALL_READ) {
    ((mt_session_read *)c->req)->docs = c->read.docs;
    c->read.docs = NULL;
  }
  finish(c);
}

/* The same request once more: applied again, and nobody hears of it. */
static void arrive_again(call *c) {
  for (size_t i = 0; i < c->n; i++) {
    mt_lock_item item = c->items[i];
    item.blockers = NULL;
    item.n_blockers = 0;
    apply_item(c->table, c->session, &item);
    free(item.blockers);
  }
  mt_session_write write = c->write;
  if (c->kind == CALL_SESSION) apply_session(c->table, &write);
}

static void at_server(void *ctx) {
  call *c = ctx;
  if (c->answered) {
    arrive_again(c);
    return;
  }
  arrive(c);
  c->answered = true;
  if (c->drop_answer) return;
  sim_at(c->table->w, sim_now(c->table->w) + sim_between(c->table->w, 1, 8), deliver, c);
}

static void time_out(void *ctx) {
  call *c = ctx;
  if (held_up(c, time_out)) return;
  c->req->error.code = MORTISE_UNAVAILABLE;
  c->req->error.retryable = c->req->error.ambiguous = true;
  snprintf(c->req->error.message, sizeof c->req->error.message, "no answer in time");
  finish(c);
}

static call *call_new(mt_store *s, mt_req *req, call_kind kind) {
  sim_store *store = (sim_store *)s;
  call *c = must(calloc(1, sizeof *c));
  *c = (call){
      .from = store, .table = store->table, .machine = store->machine, .kind = kind, .req = req};
  c->next = c->table->calls;
  c->table->calls = c;
  req->op = c;
  req->finished = false;
  memset(&req->error, 0, sizeof req->error);
  return c;
}

static void post(call *c) {
  sim_table *t = c->table;
  const sim_faults *f = &t->faults;
  int64_t now = sim_now(t->w), at = now + sim_between(t->w, 1, 8);
  if (sim_chance(t->w, f->late)) at = now + sim_between(t->w, 1, f->late_ms);
  c->drop_answer = sim_chance(t->w, f->drop_answer);
  bool dropped = sim_chance(t->w, f->drop_request);
  if (!dropped) sim_at(t->w, at, at_server, c);
  if (!dropped && sim_chance(t->w, f->duplicate))
    sim_at(t->w, at + sim_between(t->w, 0, f->late_ms), at_server, c);
  int64_t deadline =
      c->req->deadline_ms ? c->req->deadline_ms - c->machine->skew : now + c->from->base.request_ms;
  sim_at(t->w, deadline, time_out, c);
}

static void do_batch(mt_store *s, mt_lock_batch *r) {
  call *c = call_new(s, &r->req, CALL_BATCH);
  c->n = r->n;
  c->items = must(calloc(r->n, sizeof *c->items));
  c->paths = must(calloc(r->n, sizeof *c->paths));
  c->others = must(calloc(r->n, sizeof *c->others));
  snprintf(c->session, sizeof c->session, "%s", r->session);
  for (size_t i = 0; i < r->n; i++) {
    c->items[i] = r->items[i];
    if (r->items[i].path.n >= sizeof c->paths[i]) abort();
    memcpy(c->paths[i], r->items[i].path.p, r->items[i].path.n);
    c->items[i].path.p = c->paths[i];
    if (!r->items[i].session) continue;
    snprintf(c->others[i], sizeof c->others[i], "%s", r->items[i].session);
    c->items[i].session = c->others[i];
  }
  fresh_items(c);
  post(c);
}

static void do_session(mt_store *s, mt_session_write *r) {
  call *c = call_new(s, &r->req, CALL_SESSION);
  r->result = MT_SESSION_NO_ANSWER;
  c->write = *r;
  snprintf(c->session, sizeof c->session, "%s", r->session);
  c->write.session = c->session;
  post(c);
}

static void do_read(mt_store *s, mt_session_read *r) {
  call *c = call_new(s, &r->req, CALL_READ);
  c->read = *r;
  for (size_t i = 0; i < r->n; i++) {
    snprintf(c->id_text[i], sizeof c->id_text[i], "%s", r->ids[i]);
    c->ids[i] = c->id_text[i];
  }
  c->read.ids = c->ids;
  c->read.docs = NULL;
  post(c);
}

static void do_verify(mt_store *s, mt_locks_admin *r) {
  post(call_new(s, &r->req, CALL_VERIFY));
}

static void do_cancel(mt_store *s, mt_req *req) {
  (void)s;
  ((call *)req->op)->req = NULL;
  req->op = NULL;
}

static void do_close(mt_store *s) {
  free(s);
}

mt_store *sim_store_new(sim_table *t, sim_machine *machine) {
  static const mt_locks_ops locks = {
      .verify = do_verify, .session = do_session, .session_read = do_read, .batch = do_batch};
  sim_store *s = must(calloc(1, sizeof *s));
  s->base = (mt_store){
      .locks = &locks, .cancel = do_cancel, .close = do_close, .url = "sim:", .request_ms = 3000};
  s->table = t;
  s->machine = machine;
  return &s->base;
}

void sim_table_free(sim_table *t) {
  while (t->calls) {
    call *c = t->calls;
    t->calls = c->next;
    clear_items(c);
    mt_session_read_deinit(&c->read);
    free(c->items);
    free(c->paths);
    free(c->others);
    free(c);
  }
  free(t);
}
