#include "lock/writer.h"

#include "base/json_edit.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  DOCS = 1000,
  BYTES = 2 << 20,
  BYTES_MIN = 64 << 10, /* not halved below this */
  ITEM_OVERHEAD = 160,  /* of the action's line, about */
  IN_FLIGHT = 2,
  TRIES = 8,
  BACKOFF_MS = 50,
  BACKOFF_DOUBLINGS = 6,
  BAD_SINGLES = 8, /* refused whole requests of one document each: it is not the documents */
  INDEX_MAX = 256,
};

static const int64_t parked = INT64_MAX / 2;

/* A request slot. It works through one range of one batch until each item of it is settled. */
typedef struct lane {
  mt_writer *w;
  mt_write_batch *batch; /* NULL: free */
  size_t first, end;     /* items of the range that may be unsettled */
  mt_write *wire;        /* the request's items, as all below `w->config.docs` of them */
  mt_item **items;
  mt_slice *ids, *routing;
  size_t n, bytes;
  size_t limit; /* documents in a request at the moment */
  uint32_t tries, bad;
  char index[INDEX_MAX];
  mt_bulk bulk;
  mt_mget mget;
  mt_timer timer;
  mt_req *request; /* under way */
} lane;

/* All that the guard may read: it can run on a store's thread. */
typedef struct guard {
  mt_session *session;
  const mt_env *env;
} guard;

struct mt_writer {
  mt_store *store;
  const mt_env *env;
  const mt_lock *lock;
  guard guard;
  mt_writer_config config;
  size_t bytes; /* in a request at most, halved by a 413 */
  lane *lanes;
  mt_write_batch *head, *tail;
  mt_timer kick; /* parked far away, so that moving it needs no memory */
  bool stopped;
  bool *gone; /* set by mt_writer_free inside a callback */
  mortise_error why, last;
};

static void lane_step(lane *l);

static bool guard_may_send(void *ctx) {
  const guard *g = ctx;
  return !mt_session_dead(g->session, g->env->now_ms(g->env->ctx));
}

/* OK while something may be sent. */
static mortise_status writer_check(const mt_writer *w, mortise_error *err) {
  if (w->stopped) {
    *err = w->why;
    return err->code;
  }
  return w->lock ? mt_lock_check(w->lock, err) : MORTISE_OK;
}

/* A request never outlives the lease: an answer past it would say nothing. */
static void prepare(lane *l, mt_req *req, mt_done_fn *done) {
  mt_writer *w = l->w;
  *req = (mt_req){.done = done, .ctx = l};
  l->request = req;
  if (!w->lock) return;
  int64_t left = mt_lock_remaining_ms(w->lock);
  if (w->store->request_ms > 0 && w->store->request_ms < left) left = w->store->request_ms;
  req->deadline_ms = mt_loop_now(w->store->loop) + left;
  req->may_send = guard_may_send;
  req->may_send_ctx = &w->guard;
}

/* ---- Settling items ------------------------------------------------------------------------- */

static void settle(mt_item *item, mt_outcome outcome) {
  item->outcome = outcome;
  item->dirty = item->reread = false;
}

static void reject(mt_item *item, const mortise_error *e) {
  item->write.status = e->http_status;
  snprintf(item->write.type, sizeof item->write.type, "%.63s",
           e->type[0] ? e->type : mortise_status_name(e->code));
  snprintf(item->write.reason, sizeof item->write.reason, "%.150s",
           e->reason[0] ? e->reason : e->message);
  settle(item, MT_OUTCOME_REJECTED);
}

static bool is_version(mt_version v) {
  return v.term != 0;
}

static bool same_version(mt_version a, mt_version b) {
  return a.seq_no == b.seq_no && a.term == b.term;
}

/* To be sent again: with its own compare-and-set, or against what was just read. */
static void resend(mt_item *item, mt_version at) {
  item->reread = false;
  item->at = at;
}

static void conflict(lane *l, mt_item *item, const mt_doc *doc) {
  mt_write_batch *b = l->batch;
  /* A request still under way carries an older version and cannot apply, but for a blind update. */
  bool dirty = item->dirty && !is_version(item->write.if_version);
  mt_again again = b->again ? b->again(b->ctx, b, item, doc) : MT_AGAIN_CONFLICT;
  if (again == MT_AGAIN_WRITE)
    resend(item, (mt_version){0, 0});
  else if (again == MT_AGAIN_DONE)
    settle(item, MT_OUTCOME_ALREADY);
  else
    settle(item, again == MT_AGAIN_REJECT ? MT_OUTCOME_REJECTED : MT_OUTCOME_CONFLICT);
  item->dirty = dirty;
}

/* Would a partial update with this body leave the source as it is? 1 yes, 0 no, -1 cannot tell. */
static int update_is_noop(const mt_item *item, const mt_doc *doc) {
  mt_json body, source;
  if (mt_json_parse(item->write.body, "the update", &body, NULL) ||
      mt_json_parse(doc->source, "the source", &source, NULL))
    return -1;
  mt_json change = mt_json_get(body, "doc");
  if (change.type != MT_JSON_OBJECT || mt_json_get(body, "script").type) return -1;
  mt_buf merged;
  bool changed = true;
  mt_buf_init(&merged, doc->source.n + item->write.body.n + 1024);
  mortise_status status = mt_json_merge(source, change, &merged, &changed, NULL);
  if (!status) status = mt_buf_status(&merged, "the merged source", NULL);
  mt_buf_deinit(&merged);
  return status ? -1 : !changed;
}

/* The outcome of a write whose answer never came, where the document shows it. False: it does not,
 * and the item is to be treated as in conflict. */
static bool decide(mt_item *item, const mt_doc *doc) {
  const mt_write *w = &item->write;
  bool untouched =
      doc->found && is_version(w->if_version) && same_version(doc->version, w->if_version);
  bool blind = !is_version(w->if_version) && w->kind != MT_WRITE_CREATE;
  switch (w->kind) {
  case MT_WRITE_DELETE:
    break;
  case MT_WRITE_UPDATE:
    if (untouched || !doc->found) break;
    int noop = update_is_noop(item, doc);
    if (noop == 1) return settle(item, MT_OUTCOME_ALREADY), true;
    if (noop < 0) return false;
    break;
  default:
    /* Ours, it seems. A read proves nothing: the same bytes once more, acknowledged, do. */
    if (!untouched && doc->found && mt_slice_eq(doc->source, w->body))
      return resend(item, doc->version), true;
    if (!doc->found && w->kind == MT_WRITE_CREATE) blind = true;
  }
  if (!untouched && !blind) return false;
  resend(item, (mt_version){0, 0});
  return true;
}

/* Has the document changed since, as a copy of this very request may have changed it? The network
 * may have sent it twice, and only the second answer was heard. */
static bool may_be_own(const mt_item *item, const mt_doc *doc) {
  const mt_write *w = &item->write;
  if (!doc->found || w->kind == MT_WRITE_DELETE) return false;
  if (!is_version(w->if_version)) return w->kind == MT_WRITE_CREATE;
  return !same_version(doc->version, w->if_version);
}

static void settle_read(lane *l, mt_item *item, const mt_doc *doc) {
  bool deleted = item->write.kind == MT_WRITE_DELETE && !doc->found;
  if (deleted)
    settle(item, MT_OUTCOME_ALREADY);
  else if (++item->rereads > MT_AGAIN_MAX)
    settle(item, MT_OUTCOME_CONFLICT);
  else if (!(item->dirty || may_be_own(item, doc)) || !decide(item, doc))
    conflict(l, item, doc);
}

/* True when the item needs no more waiting: settled, or to be read. */
static bool settle_write(lane *l, mt_item *item, mt_write *sent) {
  mt_write *w = &item->write;
  w->result = sent->result;
  w->status = sent->status;
  switch (sent->result) {
  case MT_WRITE_APPLIED:
    w->version = sent->version;
    settle(item, MT_OUTCOME_APPLIED);
    return true;
  case MT_WRITE_NOOP:
    settle(item, MT_OUTCOME_ALREADY);
    return true;
  case MT_WRITE_BUSY:
    mt_error_set(&l->w->last, MORTISE_UNAVAILABLE, "the store is busy: %s", sent->reason);
    l->w->last.http_status = sent->status;
    return false;
  case MT_WRITE_NONE:
    item->dirty = item->reread = true;
    return false;
  default:
    break;
  }
  memcpy(w->type, sent->type, sizeof w->type);
  memcpy(w->reason, sent->reason, sizeof w->reason);
  bool missing = sent->result == MT_WRITE_MISSING;
  if (missing && w->kind == MT_WRITE_DELETE)
    settle(item, MT_OUTCOME_ALREADY);
  else if (missing || sent->result == MT_WRITE_CONFLICT)
    item->reread = true; /* it may be the answer to a second copy of this very write */
  else
    settle(item, MT_OUTCOME_REJECTED);
  return true;
}

/* ---- One lane ------------------------------------------------------------------------------- */

static void lane_release(lane *l) {
  l->batch->active--;
  l->batch = NULL;
}

static void lane_fail(lane *l, const mortise_error *why) {
  if (!l->batch->failed) l->batch->error = *why;
  l->batch->failed = true;
  lane_release(l);
}

static void start_lanes(mt_writer *w);
static void reap(mt_writer *w);

static void on_timer(void *ctx) {
  lane *l = ctx;
  mt_writer *w = l->w;
  lane_step(l);
  start_lanes(w);
  reap(w);
}

/* Waits for longer after each fruitless try, and gives up after the last. */
static void back_off(lane *l) {
  mt_writer *w = l->w;
  if (++l->tries > w->config.tries) {
    mortise_error why = w->last;
    mt_error_prefix(&why, "given up after %" PRIu32 " tries", l->tries);
    lane_fail(l, &why);
    return;
  }
  uint32_t doublings = l->tries - 1 < BACKOFF_DOUBLINGS ? l->tries - 1 : BACKOFF_DOUBLINGS;
  int64_t most = w->config.backoff_ms << doublings;
  int64_t jitter = (int64_t)(w->env->random(w->env->ctx) % (uint64_t)(most / 2 + 1));
  mortise_error err;
  int64_t at = mt_loop_now(w->store->loop) + most - jitter;
  if (mt_timer_start(w->store->loop, &l->timer, at, &err)) lane_fail(l, &err);
}

/* The server refused the request as a whole: fewer items, until the bad one stands alone. */
static void narrow(lane *l, const mortise_error *e) {
  mt_writer *w = l->w;
  if (e->http_status == 413 && l->bytes / 2 < w->bytes)
    w->bytes = l->bytes / 2 > BYTES_MIN ? l->bytes / 2 : BYTES_MIN;
  if (l->n > 1) {
    l->limit = l->n / 2;
  } else {
    reject(l->items[0], e);
    if (++l->bad >= BAD_SINGLES && e->http_status != 413) {
      lane_fail(l, e);
      return;
    }
  }
  lane_step(l);
}

static void bulk_failed(lane *l, const mortise_error *e) {
  for (size_t i = 0; e->ambiguous && i < l->n; i++) l->items[i]->dirty = l->items[i]->reread = true;
  bool lost = e->code == MORTISE_LOCK_LOST || e->code == MORTISE_INTERRUPTED;
  if (lost) {
    lane_fail(l, e);
  } else if (e->ambiguous || e->code == MORTISE_UNAVAILABLE) {
    l->w->last = *e;
    back_off(l);
  } else if (e->code == MORTISE_REJECTED || e->http_status == 413) {
    narrow(l, e);
  } else {
    lane_fail(l, e);
  }
}

static void bulk_answered(lane *l) {
  size_t moved = 0, waiting = 0;
  mt_error_set(&l->w->last, MORTISE_UNAVAILABLE, "a bulk left items without an answer");
  for (size_t i = 0; i < l->n; i++) {
    if (settle_write(l, l->items[i], &l->wire[i]))
      moved++;
    else
      waiting++;
  }
  if (moved) l->tries = 0;
  l->bad = 0;
  l->limit = l->limit > l->w->config.docs / 2 ? l->w->config.docs : l->limit * 2;
  if (waiting) {
    back_off(l);
  } else {
    lane_step(l);
  }
}

static void on_bulk(void *ctx, mt_req *req) {
  lane *l = ctx;
  mt_writer *w = l->w;
  l->request = NULL;
  if (req->error.code)
    bulk_failed(l, &req->error);
  else
    bulk_answered(l);
  start_lanes(w);
  reap(w);
}

static void read_answered(lane *l) {
  mt_page *page = l->mget.page;
  bool whole = page && page->n == l->n;
  for (size_t i = 0; whole && i < l->n; i++) settle_read(l, l->items[i], &page->docs[i]);
  mt_mget_deinit(&l->mget);
  if (whole) {
    lane_step(l);
    return;
  }
  mt_error_set(&l->w->last, MORTISE_UNAVAILABLE,
               "a multi-get answered another number of documents");
  back_off(l);
}

static void on_read(void *ctx, mt_req *req) {
  lane *l = ctx;
  mt_writer *w = l->w;
  l->request = NULL;
  if (!req->error.code) {
    read_answered(l);
  } else {
    mt_mget_deinit(&l->mget);
    if (req->error.code == MORTISE_UNAVAILABLE || req->error.ambiguous) {
      w->last = req->error;
      back_off(l);
    } else {
      lane_fail(l, &req->error);
    }
  }
  start_lanes(w);
  reap(w);
}

static mt_slice item_index(const lane *l, const mt_item *item) {
  return item->write.index.p ? item->write.index : mt_slice_of(l->batch->index);
}

/* Items to be read again, of one index (a multi-get names one). False: none. */
static bool collect_reads(lane *l) {
  mt_slice index = {NULL, 0};
  l->n = 0;
  for (size_t i = l->first; i < l->end && l->n < l->w->config.docs; i++) {
    mt_item *item = &l->batch->items[i];
    if (!item->reread) continue;
    if (!l->n) index = item_index(l, item);
    if (!mt_slice_eq(index, item_index(l, item))) continue;
    l->items[l->n] = item;
    l->ids[l->n] = item->write.id;
    l->routing[l->n++] = item->write.routing;
  }
  if (!l->n) return false;
  snprintf(l->index, sizeof l->index, "%.*s", (int)(index.n < INDEX_MAX ? index.n : INDEX_MAX - 1),
           index.p ? index.p : "");
  return true;
}

static void send_read(lane *l) {
  l->mget = (mt_mget){.index = l->index, .ids = l->ids, .routing = l->routing, .n = l->n};
  prepare(l, &l->mget.req, on_read);
  l->mget.req.may_send = NULL; /* reading harms nobody */
  l->mget.req.idempotent = true;
  l->w->store->docs->mget(l->w->store, &l->mget);
}

static size_t item_bytes(const mt_write *w) {
  return w->body.n + w->id.n + w->routing.n + w->index.n + ITEM_OVERHEAD;
}

static void put_on_wire(lane *l, mt_item *item) {
  mt_write *to = &l->wire[l->n];
  const mt_write *from = &item->write;
  to->kind = from->kind;
  to->index = from->index;
  to->id = from->id;
  to->routing = from->routing;
  to->body = from->body;
  to->if_version = from->if_version;
  to->skip_pipeline = from->skip_pipeline;
  if (is_version(item->at)) {
    to->if_version = item->at;
    if (to->kind == MT_WRITE_CREATE) to->kind = MT_WRITE_INDEX;
  }
  to->result = MT_WRITE_NONE;
  to->status = 0;
  to->version = (mt_version){0, 0};
  to->type[0] = to->reason[0] = '\0';
  l->items[l->n++] = item;
}

/* The next request's items. False: all are settled. */
static bool collect_writes(lane *l) {
  while (l->first < l->end && l->batch->items[l->first].outcome) l->first++;
  l->n = l->bytes = 0;
  for (size_t i = l->first; i < l->end && l->n < l->limit; i++) {
    mt_item *item = &l->batch->items[i];
    if (item->outcome || item->reread) continue;
    size_t bytes = item_bytes(&item->write);
    if (l->n && l->bytes + bytes > l->w->bytes) break;
    l->bytes += bytes;
    put_on_wire(l, item);
  }
  return l->n > 0;
}

static void send_bulk(lane *l) {
  l->bulk = (mt_bulk){.index = l->batch->index, .items = l->wire, .n = l->n};
  prepare(l, &l->bulk.req, on_bulk);
  l->w->store->docs->bulk(l->w->store, &l->bulk);
}

static void lane_step(lane *l) {
  mortise_error err;
  mt_error_clear(&err);
  bool read = collect_reads(l);
  if (!read && !collect_writes(l))
    lane_release(l);
  else if (writer_check(l->w, &err))
    lane_fail(l, &err);
  else if (read)
    send_read(l);
  else
    send_bulk(l);
}

/* ---- The writer ----------------------------------------------------------------------------- */

static void sum_up(mt_write_batch *b) {
  memset(b->counts, 0, sizeof b->counts);
  b->dirty = 0;
  for (size_t i = 0; i < b->n; i++) {
    b->counts[b->items[i].outcome]++;
    if (!b->items[i].outcome && b->items[i].dirty) b->dirty++;
  }
  if (b->dirty) b->error.ambiguous = true;
}

static mt_write_batch *take_finished(mt_writer *w) {
  mt_write_batch *before = NULL;
  for (mt_write_batch *b = w->head; b; before = b, b = b->link) {
    if (b->active || (!b->failed && b->next < b->n)) continue;
    if (before)
      before->link = b->link;
    else
      w->head = b->link;
    if (w->tail == b) w->tail = before;
    return b;
  }
  return NULL;
}

/* Last in each event: `done` may submit again, or free the writer. */
static void reap(mt_writer *w) {
  bool gone = false, *outer = w->gone;
  w->gone = &gone;
  mt_write_batch *b;
  while (!gone && (b = take_finished(w))) {
    sum_up(b);
    b->done(b->ctx, b);
  }
  if (!gone)
    w->gone = outer;
  else if (outer)
    *outer = true;
}

/* Gives the lane about one request's worth of the batch. */
static void lane_start(lane *l, mt_write_batch *b) {
  size_t bytes = 0;
  l->batch = b;
  l->first = l->end = b->next;
  l->limit = l->w->config.docs;
  l->tries = l->bad = 0;
  while (l->end < b->n && l->end - l->first < l->w->config.docs) {
    bytes += item_bytes(&b->items[l->end].write);
    if (bytes > l->w->bytes && l->end > l->first) break;
    l->end++;
  }
  b->next = l->end;
  b->active++;
  lane_step(l);
}

static lane *free_lane(mt_writer *w) {
  for (uint32_t i = 0; i < w->config.in_flight; i++)
    if (!w->lanes[i].batch) return &w->lanes[i];
  return NULL;
}

static void start_lanes(mt_writer *w) {
  lane *l;
  for (mt_write_batch *b = w->head; b; b = b->link)
    while (!b->failed && b->next < b->n && (l = free_lane(w))) lane_start(l, b);
}

/* Lanes without a request wait for their timers. */
static void end_waits(mt_writer *w) {
  for (uint32_t i = 0; i < w->config.in_flight; i++) {
    lane *l = &w->lanes[i];
    if (!l->batch || l->request) continue;
    mt_timer_stop(w->store->loop, &l->timer);
    lane_fail(l, &w->why);
  }
}

static void on_kick(void *ctx) {
  mt_writer *w = ctx;
  mt_timer_start(w->store->loop, &w->kick, parked, NULL);
  if (w->stopped) end_waits(w);
  start_lanes(w);
  reap(w);
}

static mortise_status lane_init(lane *l, mt_writer *w) {
  size_t n = w->config.docs;
  l->w = w;
  l->timer = (mt_timer){.fire = on_timer, .ctx = l};
  l->wire = mt_alloc(n * sizeof *l->wire);
  l->items = mt_alloc(n * sizeof *l->items);
  l->ids = mt_alloc(n * sizeof *l->ids);
  l->routing = mt_alloc(n * sizeof *l->routing);
  return l->wire && l->items && l->ids && l->routing ? MORTISE_OK : MORTISE_OUT_OF_MEMORY;
}

static void lane_deinit(lane *l) {
  if (l->request) mt_store_cancel(l->w->store, l->request);
  if (l->w) mt_timer_stop(l->w->store->loop, &l->timer);
  mt_mget_deinit(&l->mget);
  mt_free(l->wire);
  mt_free(l->items);
  mt_free(l->ids);
  mt_free(l->routing);
}

static void set_config(mt_writer *w, const mt_writer_config *config) {
  enum { DOCS_MAX = 100000, DEFAULT_LANES = IN_FLIGHT };
  mt_writer_config c = config ? *config : (mt_writer_config){0};
  if (!c.docs) c.docs = DOCS;
  if (c.docs > DOCS_MAX) c.docs = DOCS_MAX;
  if (!c.bytes) c.bytes = BYTES;
  if (!c.in_flight) c.in_flight = DEFAULT_LANES;
  if (c.in_flight > MT_WRITER_LANES) c.in_flight = MT_WRITER_LANES;
  if (!c.tries) c.tries = TRIES;
  if (c.backoff_ms <= 0) c.backoff_ms = BACKOFF_MS;
  w->config = c;
  w->bytes = c.bytes;
}

static mortise_status writer_init(mt_writer *w, mortise_error *err) {
  w->lanes = mt_calloc(w->config.in_flight, sizeof *w->lanes);
  if (!w->lanes) return mt_error_memory(err);
  for (uint32_t i = 0; i < w->config.in_flight; i++)
    if (lane_init(&w->lanes[i], w)) return mt_error_memory(err);
  w->kick = (mt_timer){.fire = on_kick, .ctx = w};
  return mt_timer_start(w->store->loop, &w->kick, parked, err);
}

mt_writer *mt_writer_new(mt_store *store, const mt_env *env, const mt_lock *lock,
                         const mt_writer_config *config, mortise_error *err) {
  if (config && config->strength != MT_STRENGTH_CAS) {
    mt_error_set(err, MORTISE_UNSUPPORTED, "writing with strength `stamp` is not supported yet");
    return NULL;
  }
  if (lock && mt_lock_check(lock, err)) return NULL;
  mt_writer *w = mt_calloc(1, sizeof *w);
  if (!w) {
    mt_error_memory(err);
    return NULL;
  }
  w->store = store;
  w->env = env;
  w->lock = lock;
  /* Taken once: a lock stays bound to the session it was granted to. */
  if (lock) w->guard = (guard){mt_manager_session(mt_lock_manager(lock)), env};
  if (lock && !w->guard.session) {
    mt_error_set(err, MORTISE_LOCK_LOST, "the session of this lock has ended");
    mt_free(w);
    return NULL;
  }
  set_config(w, config);
  if (!writer_init(w, err)) return w;
  mt_writer_free(w);
  return NULL;
}

void mt_writer_free(mt_writer *w) {
  if (!w) return;
  if (w->gone) *w->gone = true;
  for (uint32_t i = 0; w->lanes && i < w->config.in_flight; i++) lane_deinit(&w->lanes[i]);
  mt_free(w->lanes);
  mt_timer_stop(w->store->loop, &w->kick);
  mt_free(w);
}

mortise_status mt_writer_submit(mt_writer *w, mt_write_batch *b, mortise_error *err) {
  /* Started from the loop, so that `done` never runs inside this call. */
  int64_t now = mt_loop_now(w->store->loop);
  if (mt_timer_start(w->store->loop, &w->kick, now, err)) return MORTISE_OUT_OF_MEMORY;
  mt_error_clear(&b->error);
  b->next = b->active = 0;
  b->failed = false;
  b->link = NULL;
  if (w->tail)
    w->tail->link = b;
  else
    w->head = b;
  w->tail = b;
  return MORTISE_OK;
}

void mt_writer_stop(mt_writer *w, const mortise_error *why) {
  if (w->stopped) return;
  w->stopped = true;
  w->why = *why;
  mt_timer_start(w->store->loop, &w->kick, mt_loop_now(w->store->loop), NULL);
}
