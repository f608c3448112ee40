/* Requests on their way to the shelf and back. */
#include "jobs.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  REQUEST_MS = 3000,
  TRIP_MS = 8,
  PAGE_BYTES = 1 << 20,
  TASKS = 8, /* that are found at once */
  /* Details of a call's keys. */
  D_TO = 0,
  D_BACK,
  D_AGAIN,
  D_REST,
  D_REFRESH,
  D_ITEM,
};

typedef enum call_kind {
  CALL_DESCRIBE,
  CALL_MGET,
  CALL_BULK,
  CALL_COUNT,
  CALL_REFRESH,
  CALL_OPEN,
  CALL_NEXT,
  CALL_SEARCH,
  CALL_START,
  CALL_TASK,
  CALL_FIND,
  CALL_CLOCK
} call_kind;

static const char *const kind_names[] = {"describe", "mget",   "bulk",  "count", "refresh", "open",
                                         "next",     "search", "start", "task",  "find",    "clock"};

/* A request under way, with a copy of its contents. */
typedef struct jobs_call {
  jobs_sim *sim;
  jobs_process *process;
  uint64_t number;
  call_kind kind;
  mt_req *req; /* NULL once finished, cancelled, or of a second copy */
  bool lose_answer, refused, unsure, answered, comes;
  const struct jobs_call *first; /* of which it is the second copy */
  const char *index, *below; /* the path that a search is for */
  mt_write *items;           /* owned, with their texts */
  mt_slice *ids;
  size_t n, at; /* carried out up to there */
  mt_page *page;
  uint64_t count;
  jobs_start start;
  uint64_t task, found[TASKS];
  size_t n_found;
  bool cancels;
  mt_server_task_state state;
  int64_t heard_ms;
  mt_scan *scan;
  struct jobs_call *next;
} jobs_call;

struct mt_scan {
  shelf_state *docs; /* copies */
  char **ids;
  size_t n, at, page;
};

typedef struct road_store {
  mt_store base; /* first */
  jobs_process *process;
  uint64_t calls;
} road_store;

static sim_key key_of(const jobs_call *c, sim_what what, unsigned detail) {
  return sim_key_of(what, c->process->number, c->number, detail);
}

static bool happens(jobs_call *c, sim_what what, unsigned detail, unsigned per_mille) {
  return !c->sim->calm && sim_happens(c->sim->w, key_of(c, what, detail), per_mille);
}

static int64_t dice(const jobs_call *c, unsigned detail, int64_t least, int64_t most) {
  return sim_between(c->sim->w, key_of(c, SIM_DICE, detail), least, most);
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static mt_slice append(mt_page *page, const char *text) {
  if (!text) return (mt_slice){NULL, 0};
  size_t at = page->bytes.n;
  mt_buf_adds(&page->bytes, text);
  mt_buf_addc(&page->bytes, '\0');
  return (mt_slice){page->bytes.p + at, page->bytes.n - at - 1};
}

static mt_page *page_new(size_t n) {
  mt_page *page = sim_must(mt_calloc(1, sizeof *page));
  mt_buf_init(&page->bytes, PAGE_BYTES);
  mt_buf_init(&page->text, 1);
  if (!mt_buf_room(&page->bytes, n * 512 + 1)) abort(); /* so that no slice moves */
  page->docs = sim_must(mt_calloc(n ? n : 1, sizeof *page->docs));
  return page;
}

static void page_add(const jobs_call *c, const char *index, const char *id, const shelf_state *state,
                     bool source) {
  mt_page *page = c->page;
  mt_doc *d = &page->docs[page->n++];
  size_t cap = page->bytes.cap;
  *d = (mt_doc){.index = mt_slice_of(index), .id = append(page, id)};
  if (!state || !state->source) return;
  d->found = true;
  d->version = state->version;
  if (c->sim->profile.revisions) d->revision = state->revision;
  if (source) d->source = append(page, state->source);
  if (page->bytes.cap != cap) abort();
}

/* ---- At the server -------------------------------------------------------------------------- */

static void read_ids(jobs_call *c, bool source) {
  const shelf_index *x = shelf_find(&c->sim->shelf, c->index);
  size_t bytes = 1;
  for (size_t i = 0; i < c->n; i++) {
    const shelf_doc *d = shelf_get(x, c->ids[i]);
    bytes += c->ids[i].n + 2 + (d && d->now.source ? strlen(d->now.source) : 0);
  }
  mt_page_free(c->page);
  c->page = page_new(c->n + bytes / 512 + 1);
  for (size_t i = 0; i < c->n; i++) {
    const shelf_doc *d = shelf_get(x, c->ids[i]);
    page_add(c, x->name, c->ids[i].p, d ? &d->now : NULL, source);
  }
}

static void count(jobs_call *c) {
  const shelf_index *x = shelf_find(&c->sim->shelf, c->index);
  c->count = 0;
  for (size_t i = 0; i < x->n; i++)
    c->count += x->docs[i].seen.source && jobs_lies_below(x->docs[i].seen.source, c->below);
}

static void open_scan(jobs_call *c) {
  const shelf_index *x = shelf_find(&c->sim->shelf, c->index);
  mt_scan *scan = sim_must(calloc(1, sizeof *scan));
  scan->docs = sim_must(calloc(x->n + 1, sizeof *scan->docs));
  scan->ids = sim_must(calloc(x->n + 1, sizeof *scan->ids));
  for (size_t i = 0; i < x->n; i++) {
    const shelf_doc *d = &x->docs[i];
    if (!d->seen.source || !jobs_lies_below(d->seen.source, c->below)) continue;
    scan->ids[scan->n] = sim_must(strdup(d->id));
    scan->docs[scan->n] = d->seen;
    scan->docs[scan->n++].source = sim_must(strdup(d->seen.source));
  }
  c->scan = scan;
}

static void next_page(jobs_call *c) {
  mt_scan *scan = c->scan;
  size_t n = scan->n - scan->at < scan->page ? scan->n - scan->at : scan->page;
  if (!n) return;
  c->page = page_new(n);
  for (; n; n--, scan->at++)
    page_add(c, SHELF_DOCS, scan->ids[scan->at], &scan->docs[scan->at], true);
}

/* A second copy that deletes a document before the first one does. Then the first finds nothing, and its sender
 * believes that another has deleted it: nobody can tell (docs/guarantees.md). */
static bool overtakes(const jobs_call *c, size_t i) {
  return c->first && c->first->comes && c->first->at <= i && c->items[i].kind == MT_WRITE_DELETE;
}

/* Faults of one item: a 429, or a failure of its shard before or after the write. */
static void write_item(jobs_call *c, size_t i) {
  mt_write *w = &c->items[i];
  unsigned detail = D_ITEM + (unsigned)i;
  if (overtakes(c, i)) return;
  if (happens(c, SIM_BUSY, detail, c->sim->faults.busy)) {
    w->result = MT_WRITE_BUSY;
    w->status = 429;
    return;
  }
  bool unsure = happens(c, SIM_UNSURE, detail, c->sim->faults.unsure);
  if (!unsure || dice(c, detail, 0, 1))
    shelf_write(&c->sim->shelf, c->process->number, c->index, w);
  if (!unsure) return;
  w->result = MT_WRITE_NONE;
  c->unsure = true;
}

static void arrive(void *ctx);

/* A bulk is not carried out at once. True: there is more to come. */
static bool write_some(jobs_call *c) {
  size_t end = c->n;
  if (c->n - c->at > 1 && happens(c, SIM_LATE_WRITE, (unsigned)c->at, c->sim->faults.split))
    end = c->at + 1 + sim_below(c->sim->w, key_of(c, SIM_DICE, D_REST), c->n - c->at - 1);
  for (; c->at < end; c->at++) write_item(c, c->at);
  if (c->at == c->n) return false;
  bool long_after = sim_below(c->sim->w, key_of(c, SIM_DICE, D_AGAIN), 4) == 0;
  int64_t later = dice(c, D_ITEM + (unsigned)c->at, 1, long_after ? c->sim->faults.late_ms : 30);
  sim_at(c->sim->w, sim_now(c->sim->w) + later, arrive, c);
  return true;
}

/* True: there is more to come. */
static bool carry_out(jobs_call *c) {
  mt_mget *get = (mt_mget *)c->req;
  if (c->kind == CALL_BULK) return write_some(c);
  if (c->kind == CALL_MGET) read_ids(c, !get || !get->no_source);
  if (c->kind == CALL_COUNT) count(c);
  if (c->kind == CALL_REFRESH) shelf_refresh(shelf_find(&c->sim->shelf, c->index));
  if (c->kind == CALL_OPEN && c->req) open_scan(c);
  if (c->kind == CALL_NEXT && c->req) next_page(c);
  if (c->kind == CALL_START) c->task = jobs_task_begin(c->process, &c->start);
  if (c->kind == CALL_TASK) c->state = jobs_task_look(c->sim, c->task, c->cancels);
  if (c->kind == CALL_FIND)
    c->n_found = jobs_tasks_find(c->sim, c->start.name, c->found, TASKS);
  return false;
}

/* ---- The way back --------------------------------------------------------------------------- */

static void finish(jobs_call *c) {
  mt_req *req = c->req;
  c->req = NULL;
  mt_req_finish(req);
}

static void fail(jobs_call *c, const char *why, int status, bool ambiguous) {
  mortise_error *err = &c->req->error;
  mt_error_set(err, MORTISE_UNAVAILABLE, "%s", why);
  err->http_status = status;
  err->ambiguous = ambiguous;
  err->retryable = true;
}

/* Two large documents, or small ones. */
static void hand_sample(const jobs_call *c, mt_search *r) {
  bool large = dice(c, D_REST, 0, 1);
  mt_buf out;
  mt_buf_init(&out, PAGE_BYTES);
  mt_buf_addf(&out, "{\"hits\":{\"hits\":[{\"_source\":{\"text\":\"%*s\"}}]}}", large ? 3000 : 3, "");
  r->answer = mt_buf_take(&out, &r->answer_n);
}

static void hand_found(const jobs_call *c, mt_server_task_find *r) {
  r->tasks = sim_must(mt_calloc(c->n_found + 1, sizeof *r->tasks));
  r->n = c->n_found;
  for (size_t i = 0; i < r->n; i++)
    snprintf(r->tasks[i], MT_SERVER_TASK_ID, "node:%" PRIu64, c->found[i]);
}

/* The server's clock is the true one. */
static void hand_clock(const jobs_call *c, mt_session_read *r) {
  r->docs = sim_must(mt_calloc(1, sizeof *r->docs));
  r->docs[0].state = MT_SESSION_LIVE;
  r->docs[0].beat_ms = c->heard_ms;
}

static void hand_over(jobs_call *c) {
  mt_req *r = c->req;
  if (c->kind == CALL_BULK) {
    for (size_t i = 0; i < c->n; i++) {
      mt_write *to = &((mt_bulk *)r)->items[i];
      const mt_write *from = &c->items[i];
      to->result = from->result;
      to->status = from->status;
      to->version = from->version;
      to->standing = from->standing;
      memcpy(to->type, from->type, sizeof to->type);
      memcpy(to->reason, from->reason, sizeof to->reason);
    }
    if (c->unsure) fail(c, "a shard failed", 0, true);
  }
  if (c->kind == CALL_MGET) ((mt_mget *)r)->page = c->page, c->page = NULL;
  if (c->kind == CALL_NEXT) ((mt_scan_next *)r)->page = c->page, c->page = NULL;
  if (c->kind == CALL_COUNT) ((mt_count *)r)->count = c->count;
  if (c->kind == CALL_SEARCH) hand_sample(c, (mt_search *)r);
  if (c->kind == CALL_TASK) ((mt_server_task *)r)->state = c->state;
  if (c->kind == CALL_FIND) hand_found(c, (mt_server_task_find *)r);
  if (c->kind == CALL_CLOCK) hand_clock(c, (mt_session_read *)r);
  if (c->kind == CALL_START)
    snprintf(((mt_update_by_query *)r)->task, MT_SERVER_TASK_ID, "node:%" PRIu64, c->task);
  if (c->kind == CALL_DESCRIBE) ((mt_describe *)r)->exists = true, ((mt_describe *)r)->shards = 1;
  if (c->kind != CALL_OPEN) return;
  mt_scan_open *open = (mt_scan_open *)r;
  c->scan->page = open->page;
  open->total = c->scan->n;
  open->scan = c->scan;
  c->scan = NULL;
}

static void deliver(void *ctx) {
  jobs_call *c = ctx;
  if (!c->req || jobs_held_up(c->process, deliver, c)) return;
  if (c->refused)
    fail(c, "429", 429, false);
  else
    hand_over(c);
  finish(c);
}

/* No answer came in time. */
static void time_out(void *ctx) {
  jobs_call *c = ctx;
  if (!c->req || jobs_held_up(c->process, time_out, c)) return;
  fail(c, "no answer in time", 0, true);
  finish(c);
}

static void arrive(void *ctx) {
  jobs_call *c = ctx;
  jobs_sim *s = c->sim;
  if (!c->refused && carry_out(c)) return;
  c->sim->counts.late += !c->req && c->kind == CALL_BULK;
  if (!c->req || c->answered) return;
  c->answered = true;
  if (happens(c, SIM_LOSE_ANSWER, 0, s->faults.lose_answer)) return;
  int64_t back = dice(c, D_BACK, 1, TRIP_MS);
  if (happens(c, SIM_LATE_ANSWER, 0, s->faults.late_answer))
    back = dice(c, D_BACK, TRIP_MS, REQUEST_MS);
  sim_at(s->w, sim_now(s->w) + back, deliver, c);
}

/* ---- The way there -------------------------------------------------------------------------- */

static void put_on_road(jobs_call *c) {
  c->next = c->sim->calls;
  c->sim->calls = c;
}

static mt_slice copy_of(mt_slice s) {
  if (!s.p) return s;
  char *p = sim_must(malloc(s.n + 1));
  memcpy(p, s.p, s.n);
  p[s.n] = '\0';
  return (mt_slice){p, s.n};
}

static mt_write *copy_items(const mt_write *items, size_t n) {
  mt_write *copy = sim_must(calloc(n, sizeof *copy));
  for (size_t i = 0; i < n; i++) {
    copy[i].kind = items[i].kind;
    copy[i].id = copy_of(items[i].id);
    copy[i].body = copy_of(items[i].body);
    copy[i].if_version = items[i].if_version;
    copy[i].external = items[i].external;
  }
  return copy;
}

/* The network brings it twice; nobody gets the second answer. */
static void repeat(jobs_call *c) {
  jobs_call *second = sim_must(malloc(sizeof *second));
  *second = *c;
  second->req = NULL;
  second->first = c;
  second->items = copy_items(c->items, c->n);
  second->number |= UINT64_C(1) << 24;
  put_on_road(second);
  sim_at(c->sim->w, sim_now(c->sim->w) + dice(c, D_AGAIN, 1, c->sim->faults.late_ms), arrive,
         second);
}

static void travel(jobs_call *c) {
  jobs_sim *s = c->sim;
  int64_t trip = dice(c, D_TO, 1, TRIP_MS);
  c->refused = happens(c, SIM_REFUSE, 0, s->faults.refuse);
  if (c->kind == CALL_BULK && !c->refused && happens(c, SIM_REPEAT, 0, s->faults.repeat)) repeat(c);
  if (happens(c, SIM_LOSE_REQUEST, 0, s->faults.lose_request)) return;
  if (happens(c, SIM_LATE_REQUEST, 0, s->faults.late_request))
    trip = dice(c, D_TO, TRIP_MS, s->faults.late_ms);
  c->comes = true;
  sim_at(s->w, sim_now(s->w) + trip, arrive, c);
}

/* The last moment at which it can be held back. */
static void leave(void *ctx) {
  jobs_call *c = ctx;
  jobs_process *p = c->process;
  if (!c->req || jobs_held_up(p, leave, c)) return;
  mt_req *req = c->req;
  if (req->may_send && !req->may_send(req->may_send_ctx)) {
    mt_error_set(&req->error, MORTISE_LOCK_LOST, "held back");
    finish(c);
    return;
  }
  sim_trace(c->sim->w, "process %u sends %s %" PRIu64 " %s of %zu", p->number, kind_names[c->kind],
            c->number, c->index ? c->index : "", c->n);
  int64_t until = req->deadline_ms ? req->deadline_ms : sim_now(c->sim->w) + REQUEST_MS;
  travel(c);
  if (++p->requests == p->dies_at)
    jobs_process_kill(p);
  else
    sim_at(c->sim->w, until, time_out, c);
}

static jobs_call *call_new(mt_store *s, mt_req *req, call_kind kind, const char *index) {
  road_store *store = (road_store *)s;
  jobs_call *c = sim_must(calloc(1, sizeof *c));
  *c = (jobs_call){.sim = store->process->sim,
                   .process = store->process,
                   .number = store->calls++,
                   .kind = kind,
                   .req = req,
                   .index = index && !strcmp(index, SHELF_JOBS) ? SHELF_JOBS : SHELF_DOCS};
  put_on_road(c);
  s->stats.requests++;
  req->op = c;
  req->finished = false;
  req->writes = kind == CALL_BULK;
  mt_error_clear(&req->error);
  sim_at(c->sim->w, sim_now(c->sim->w), leave, c);
  return c;
}

/* ---- The store ------------------------------------------------------------------------------ */

static void do_describe(mt_store *s, mt_describe *r) {
  call_new(s, &r->req, CALL_DESCRIBE, r->index);
}

/* The queries here are for documents at or below one of two paths. */
static const char *searched(mt_slice query) {
  const char *old = memmem(query.p, query.n, "\"/old", 5),
             *new = memmem(query.p, query.n, "\"/new", 5);
  return new && (!old || new < old) ? "/new" : "/old";
}

static void do_count(mt_store *s, mt_count *r) {
  call_new(s, &r->req, CALL_COUNT, r->index)->below = searched(r->query);
}

static void do_refresh(mt_store *s, mt_refresh *r) {
  call_new(s, &r->req, CALL_REFRESH, r->index);
}

static void do_open(mt_store *s, mt_scan_open *r) {
  call_new(s, &r->req, CALL_OPEN, r->index)->below = searched(r->query);
}

static void do_next(mt_store *s, mt_scan_next *r) {
  call_new(s, &r->req, CALL_NEXT, SHELF_DOCS)->scan = r->scan;
}

static void do_mget(mt_store *s, mt_mget *r) {
  jobs_call *c = call_new(s, &r->req, CALL_MGET, r->index);
  c->n = r->n;
  c->ids = sim_must(calloc(r->n, sizeof *c->ids));
  for (size_t i = 0; i < r->n; i++) c->ids[i] = copy_of(r->ids[i]);
}

/* All items of a bulk here are of one index. */
static void do_bulk(mt_store *s, mt_bulk *r) {
  char index[16];
  mt_slice first = r->items[0].index.p ? r->items[0].index : mt_slice_of(r->index);
  snprintf(index, sizeof index, "%.*s", (int)first.n, first.p);
  jobs_call *c = call_new(s, &r->req, CALL_BULK, index);
  c->n = r->n;
  c->items = copy_items(r->items, r->n);
}

static void do_search(mt_store *s, mt_search *r) {
  call_new(s, &r->req, CALL_SEARCH, r->index);
}

static void do_update_by_query(mt_store *s, mt_update_by_query *r) {
  jobs_call *c = call_new(s, &r->req, CALL_START, r->index);
  jobs_start *to = &c->start;
  r->req.writes = true;
  to->below = searched(r->query);
  to->not_after_ms = r->not_after_ms;
  snprintf(to->name, sizeof to->name, "%s", r->name);
  snprintf(to->gate_id, sizeof to->gate_id, "%s", r->gate->id);
  snprintf(to->gate_path, sizeof to->gate_path, "%s", r->gate->path);
}

static void do_task(mt_store *s, mt_server_task *r) {
  jobs_call *c = call_new(s, &r->req, CALL_TASK, SHELF_DOCS);
  c->task = strtoull(strchr(r->task, ':') + 1, NULL, 10);
  c->cancels = r->cancel;
}

static void do_task_find(mt_store *s, mt_server_task_find *r) {
  jobs_call *c = call_new(s, &r->req, CALL_FIND, SHELF_DOCS);
  snprintf(c->start.name, sizeof c->start.name, "%s", r->name);
}

static void do_session_read(mt_store *s, mt_session_read *r) {
  jobs_call *c = call_new(s, &r->req, CALL_CLOCK, SHELF_DOCS);
  c->heard_ms = atomic_load(&c->process->session.deadline_ms) - JOBS_LEASE;
}

static void do_scan_close(mt_store *s, mt_scan *scan) {
  (void)s;
  if (!scan) return;
  for (size_t i = 0; i < scan->n; i++) {
    free(scan->docs[i].source);
    free(scan->ids[i]);
  }
  free(scan->docs);
  free(scan->ids);
  free(scan);
}

static bool do_cancel(mt_store *s, mt_req *req) {
  (void)s;
  ((jobs_call *)req->op)->req = NULL;
  req->op = NULL;
  return req->writes;
}

static void do_close(mt_store *s) {
  free(s);
}

mt_store *jobs_store_new(jobs_process *process) {
  static const mt_docs_ops docs = {.describe = do_describe,
                                   .mget = do_mget,
                                   .bulk = do_bulk,
                                   .count = do_count,
                                   .refresh = do_refresh,
                                   .scan_open = do_open,
                                   .scan_next = do_next,
                                   .scan_close = do_scan_close,
                                   .search = do_search,
                                   .update_by_query = do_update_by_query,
                                   .task = do_task,
                                   .task_find = do_task_find};
  static const mt_locks_ops locks = {.session_read = do_session_read};
  road_store *s = sim_must(calloc(1, sizeof *s));
  *s = (road_store){.base = {.docs = &docs,
                             .locks = &locks,
                             .cancel = do_cancel,
                             .close = do_close,
                             .loop = process->loop,
                             .url = "sim:",
                             .request_ms = REQUEST_MS},
                    .process = process};
  return &s->base;
}

static void call_free(jobs_call *c) {
  for (size_t i = 0; c->items && i < c->n; i++) {
    free((char *)(uintptr_t)c->items[i].id.p);
    free((char *)(uintptr_t)c->items[i].body.p);
  }
  for (size_t i = 0; c->ids && i < c->n; i++) free((char *)(uintptr_t)c->ids[i].p);
  free(c->items);
  free(c->ids);
  mt_page_free(c->page);
  if (c->kind == CALL_OPEN) do_scan_close(NULL, c->scan);
  free(c);
}

void jobs_road_clear(jobs_sim *s) {
  while (s->calls) {
    jobs_call *c = s->calls;
    s->calls = c->next;
    call_free(c);
  }
}
