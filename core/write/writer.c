#include "write/writer_parts.h"

#include "base/mem.h"
#include "base/must.h"
#include "base/pump.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  BYTES = 2 << 20,
  BYTES_MIN = 64 << 10, /* the limit is not halved below this */
  ITEM_OVERHEAD = 160,  /* about the length of the action line */
  IN_FLIGHT = 2,
  TRIES = 8,
  BACKOFF_MS = 50,
  BACKOFF_DOUBLINGS = 6,
  SHOWN_MS = 1000, /* a shorter wait is not worth telling */
  BAD_SINGLES = 8, /* this many refused one-document requests are not the documents' fault */
  STAMPED_MAX = 1 << 30,
};

static void lane_step(mt_lane *l);

/* May run on a store's thread; it reads only fields that never change. */
static bool is_session_alive(void *ctx) {
  const mt_writer *w = ctx;
  return !mt_session_dead(w->permit.session, w->env->now_ms(w->env->ctx));
}

/* OK while requests may be sent. */
static mortise_status writer_check(const mt_writer *w, mortise_error *err) {
  if (w->stopped) {
    *err = w->why;
    return err->code;
  }
  return w->permit.lock ? w->permit.check(w->permit.lock, err) : MORTISE_OK;
}

/* No request outlives the lease: a later answer would be of no use. */
static void begin_request(mt_lane *l, mt_req *req, mt_done_fn *done) {
  mt_writer *w = l->w;
  *req = (mt_req){.done = done, .ctx = l};
  l->request = req;
  if (!w->permit.lock) return;
  int64_t left = w->permit.remaining_ms(w->permit.lock);
  if (w->store->request_ms > 0 && w->store->request_ms < left) left = w->store->request_ms;
  req->deadline_ms = mt_loop_now(w->store->loop) + left;
  req->may_send = is_session_alive;
  req->may_send_ctx = w;
}

/* ---- One lane ------------------------------------------------------------------------------- */

static void lane_release(mt_lane *l) {
  l->batch->active--;
  l->batch = NULL;
}

static void lane_fail(mt_lane *l, const mortise_error *why) {
  if (!l->batch->failed) l->batch->error = *why;
  l->batch->failed = true;
  lane_release(l);
}

static void start_lanes(mt_writer *w);
static void reap(mt_writer *w);

static void on_lane_timer(void *ctx) {
  mt_lane *l = ctx;
  mt_writer *w = l->w;
  lane_step(l);
  start_lanes(w);
  reap(w);
}

/* How long it has been without progress. */
static int64_t stuck_for_ms(const mt_lane *l) {
  const mt_writer *w = l->w;
  return l->tries ? w->env->now_ms(w->env->ctx) - l->stuck_ms : 0;
}

/* Does the store answer, so that it is the writer's patience that counts? */
static bool is_patient(const mt_writer *w) {
  return w->config.patience_ms && (w->last.http_status || w->last.type[0]);
}

static void note_try(mt_lane *l) {
  if (!l->tries) l->stuck_ms = l->w->env->now_ms(l->w->env->ctx);
  l->tries++;
}

/* True once it was tried often or long enough; the lane has failed then. */
static bool gives_up(mt_lane *l) {
  mt_writer *w = l->w;
  mortise_error why = w->last;
  bool patient = is_patient(w);
  if (patient ? stuck_for_ms(l) < w->config.patience_ms : l->tries <= w->config.tries) return false;
  if (patient)
    mt_error_prefix(&why, "given up after %" PRId64 " s", stuck_for_ms(l) / 1000);
  else
    mt_error_prefix(&why, "given up after %" PRIu32 " tries", l->tries);
  lane_fail(l, &why);
  return true;
}

/* Waits longer after each try without progress, and gives up after the last. */
static void back_off(mt_lane *l) {
  mt_writer *w = l->w;
  note_try(l);
  if (gives_up(l)) return;
  uint32_t doublings = l->tries - 1 < BACKOFF_DOUBLINGS ? l->tries - 1 : BACKOFF_DOUBLINGS;
  int64_t most = w->config.backoff_ms << doublings;
  int64_t jitter = (int64_t)(w->env->random(w->env->ctx) % (uint64_t)(most / 2 + 1));
  int64_t wait = most - jitter, left = w->config.patience_ms - stuck_for_ms(l);
  if (is_patient(w) && wait > left) wait = left;
  mortise_error err;
  int64_t at = mt_loop_now(w->store->loop) + wait;
  if (mt_timer_start(w->store->loop, &l->timer, at, &err)) lane_fail(l, &err);
}

/* The server refused the whole request: retry with half the items, until the bad one is alone. */
static void narrow_bulk(mt_lane *l, const mortise_error *e) {
  mt_writer *w = l->w;
  if (e->http_status == 413 && l->bytes / 2 < w->bytes)
    w->bytes = l->bytes / 2 > BYTES_MIN ? l->bytes / 2 : BYTES_MIN;
  if (l->n > 1) {
    l->limit = l->n / 2;
  } else {
    mt_item_reject(l->items[0], e);
    if (++l->bad >= BAD_SINGLES && e->http_status != 413) {
      lane_fail(l, e);
      return;
    }
  }
  lane_step(l);
}

/* A failed request may still have answers for some items; the others are in doubt. */
static void doubt(mt_lane *l) {
  for (size_t i = 0; i < l->n; i++) {
    mt_item *item = l->items[i];
    if (l->wire[i].result) {
      mt_item_written(l, item, &l->wire[i]);
      continue;
    }
    item->dirty |= !item->probes; /* a probe writes nothing */
    item->doubted = item->reread = true;
  }
}

static void tell_sent(mt_lane *l, size_t waiting) {
  const mt_writer *w = l->w;
  const mortise_error *e = &l->bulk.req.error;
  if (!w->config.sent) return;
  bool busy = e->code == MORTISE_UNAVAILABLE && e->http_status != 413;
  mt_sent sent = {
      .docs = l->n, .ms = w->env->now_ms(w->env->ctx) - l->sent_ms, .refused = waiting > 0 || busy};
  w->config.sent(w->config.sent_ctx, &sent);
}

static void bulk_failed(mt_lane *l, const mortise_error *e) {
  tell_sent(l, 0);
  if (e->ambiguous) doubt(l);
  bool lost = e->code == MORTISE_LOCK_LOST || e->code == MORTISE_INTERRUPTED;
  if (lost) {
    lane_fail(l, e);
  } else if (e->ambiguous || e->code == MORTISE_UNAVAILABLE) {
    l->w->last = *e;
    back_off(l);
  } else if (e->code == MORTISE_REJECTED || e->http_status == 413) {
    narrow_bulk(l, e);
  } else {
    lane_fail(l, e);
  }
}

/* True if the user may not write one of the items: the lane has failed then. */
static bool is_forbidden(mt_lane *l) {
  const mt_write *found = NULL;
  for (size_t i = 0; i < l->n && !found; i++)
    if (mt_item_forbidden(l->w, &l->wire[i])) found = &l->wire[i];
  if (!found) return false;
  mortise_error err;
  mt_slice index = found->index.p ? found->index : mt_slice_of(l->batch->index);
  mt_error_set(&err, MORTISE_AUTH, "this user may not write into %.*s: %s",
               (int)(index.n < MT_WRITER_INDEX ? index.n : MT_WRITER_INDEX), index.p, found->reason);
  err.http_status = found->status;
  snprintf(err.type, sizeof err.type, "%s", found->type);
  lane_fail(l, &err);
  return true;
}

static void bulk_answered(mt_lane *l) {
  size_t moved = 0, waiting = 0;
  mt_error_set(&l->w->last, MORTISE_UNAVAILABLE, "a bulk left items without an answer");
  for (size_t i = 0; i < l->n; i++) {
    if (mt_item_written(l, l->items[i], &l->wire[i]))
      moved++;
    else
      waiting++;
  }
  tell_sent(l, waiting);
  if (moved) l->tries = 0;
  l->bad = 0;
  l->limit = l->limit > l->w->config.docs / 2 ? l->w->config.docs : l->limit * 2;
  if (is_forbidden(l)) return;
  if (waiting) {
    back_off(l);
  } else {
    lane_step(l);
  }
}

static void on_lane_bulk(void *ctx, mt_req *req) {
  mt_lane *l = ctx;
  mt_writer *w = l->w;
  l->request = NULL;
  if (req->error.code)
    bulk_failed(l, &req->error);
  else
    bulk_answered(l);
  start_lanes(w);
  reap(w);
}

static void read_answered(mt_lane *l) {
  mt_page *page = l->mget.page;
  bool whole = page && page->n == l->n;
  for (size_t i = 0; whole && i < l->n; i++) mt_item_read(l, l->items[i], &page->docs[i]);
  mt_mget_deinit(&l->mget);
  if (whole) {
    lane_step(l);
    return;
  }
  mt_error_set(&l->w->last, MORTISE_UNAVAILABLE,
               "a multi-get answered another number of documents");
  back_off(l);
}

/* The index does not exist, so no document does; the first write may create it. */
static void nothing_there(mt_lane *l) {
  const mt_doc none = {0};
  for (size_t i = 0; i < l->n; i++) mt_item_read(l, l->items[i], &none);
  mt_mget_deinit(&l->mget);
  lane_step(l);
}

/* If items name their own index, only they are rejected. */
static void read_failed(mt_lane *l, const mortise_error *e) {
  if (e->code == MORTISE_UNAVAILABLE || e->ambiguous) {
    l->w->last = *e;
    back_off(l);
  } else if (e->code == MORTISE_REJECTED) {
    narrow_bulk(l, e);
  } else if (e->code == MORTISE_INVALID_ARGUMENT && l->items[0]->write.index.p) {
    for (size_t i = 0; i < l->n; i++) mt_item_reject(l->items[i], e);
    lane_step(l);
  } else {
    lane_fail(l, e);
  }
}

static void on_lane_read(void *ctx, mt_req *req) {
  mt_lane *l = ctx;
  mt_writer *w = l->w;
  l->request = NULL;
  if (!req->error.code) {
    read_answered(l);
  } else if (req->error.code == MORTISE_NOT_FOUND) {
    nothing_there(l);
  } else {
    mt_mget_deinit(&l->mget);
    read_failed(l, &req->error);
  }
  start_lanes(w);
  reap(w);
}

static mt_slice item_index(const mt_lane *l, const mt_item *item) {
  return item->write.index.p ? item->write.index : mt_slice_of(l->batch->index);
}

/* An item that needs only a version to compare with reads no source. */
static bool needs_version_only(const mt_lane *l, const mt_item *item) {
  return l->w->compares && mt_item_looks_first(l->w, item) && !l->batch->again;
}

/* Collects items to be read from one index, since a multi-get names one. False: none. */
static bool collect_reads(mt_lane *l) {
  mt_slice index = {NULL, 0};
  l->n = 0;
  l->versions_only = true;
  size_t most = l->limit < l->w->docs ? l->limit : l->w->docs;
  for (size_t i = l->first; i < l->end && l->n < most; i++) {
    mt_item *item = &l->batch->items[i];
    if (!item->reread) continue;
    if (!l->n) index = item_index(l, item);
    if (!mt_slice_eq(index, item_index(l, item))) continue;
    l->versions_only &= needs_version_only(l, item);
    l->items[l->n] = item;
    l->ids[l->n] = item->write.id;
    l->routing[l->n++] = item->write.routing;
  }
  if (!l->n) return false;
  snprintf(l->index, sizeof l->index, "%.*s",
           (int)(index.n < MT_WRITER_INDEX ? index.n : MT_WRITER_INDEX - 1),
           index.p ? index.p : "");
  return true;
}

static void send_read(mt_lane *l) {
  l->mget = (mt_mget){.index = l->index,
                      .ids = l->ids,
                      .routing = l->routing,
                      .n = l->n,
                      .no_source = l->versions_only};
  begin_request(l, &l->mget.req, on_lane_read);
  l->mget.req.may_send = NULL; /* reads are safe after the deadline */
  l->mget.req.idempotent = true;
  l->w->store->docs->mget(l->w->store, &l->mget);
}

static size_t item_bytes(const mt_write *w) {
  return w->body.n + w->id.n + w->routing.n + w->index.n + ITEM_OVERHEAD;
}

static void put_on_wire(mt_lane *l, mt_item *item) {
  mt_write *to = &l->wire[l->n];
  const mt_write *from = &item->write;
  to->kind = from->kind;
  to->index = from->index;
  to->id = from->id;
  to->routing = from->routing;
  to->body = from->body;
  to->if_version = from->if_version;
  to->skip_pipeline = from->skip_pipeline;
  to->external = from->external;
  to->external_gte = 0; /* of copies, which no lock protects */
  if (item->at.term) {
    to->if_version = item->at;
    to->external = 0; /* it was created, and is written once more for an acknowledgement */
    if (to->kind == MT_WRITE_CREATE) to->kind = MT_WRITE_INDEX;
  }
  if (item->absent) {
    if (to->kind == MT_WRITE_UPDATE) to->body = mt_item_upsert(item);
    to->kind = MT_WRITE_CREATE;
  }
  if (item->probes) {
    to->kind = MT_WRITE_UPDATE;
    to->body = MT_SLICE("{\"doc\":{}}");
    to->external = 0;
  }
  to->result = MT_WRITE_NONE;
  to->status = 0;
  to->created = false;
  to->version = (mt_version){0, 0};
  to->standing = 0;
  to->type[0] = to->reason[0] = '\0';
  l->items[l->n++] = item;
}

static void gather_writes(mt_lane *l) {
  while (l->first < l->end && l->batch->items[l->first].outcome) l->first++;
  l->n = l->bytes = 0;
  size_t most = l->limit < l->w->docs ? l->limit : l->w->docs;
  for (size_t i = l->first; i < l->end && l->n < most; i++) {
    mt_item *item = &l->batch->items[i];
    if (item->outcome || item->reread) continue;
    size_t bytes = item_bytes(&item->write);
    if (l->n && l->bytes + bytes > l->w->bytes) break;
    l->bytes += bytes;
    put_on_wire(l, item);
  }
}

/* Collects the next request's items. False: all are settled or wait for something else. */
static bool collect_writes(mt_lane *l) {
  do {
    gather_writes(l);
    if (!l->n) return false;
    if (l->w->stamps) mt_lane_stamp(l);
  } while (!l->n && !l->foreign.id[0] && !l->out_of_memory);
  return l->n > 0;
}

static void send_bulk(mt_lane *l) {
  l->bulk = (mt_bulk){
      .index = l->batch->index, .items = l->wire, .n = l->n, .refresh = l->batch->refresh};
  begin_request(l, &l->bulk.req, on_lane_bulk);
  l->w->store->docs->bulk(l->w->store, &l->bulk);
}

/* If the table still has the lock's epoch, the foreign epoch is an older one, since epochs never
 * recur. */
static void on_verified(void *ctx, mt_req *req) {
  mt_lane *l = ctx;
  mt_writer *w = l->w;
  mortise_error err = req->error;
  l->request = NULL;
  if (!err.code && strcmp(l->verify.epoch.id, w->permit.epoch.id) != 0)
    mt_error_set(&err, MORTISE_LOCK_LOST, "the lock table was made anew since this lock was taken");
  if (!err.code) w->older[w->n_older++ % MT_WRITER_EPOCHS] = l->foreign;
  l->foreign = (mt_epoch){0};
  mt_locks_admin_deinit(&l->verify);
  w->last = err;
  if (!err.code)
    lane_step(l);
  else if (err.code == MORTISE_UNAVAILABLE || err.ambiguous)
    back_off(l);
  else
    lane_fail(l, &err);
  start_lanes(w);
  reap(w);
}

static void send_verify(mt_lane *l) {
  l->verify = (mt_locks_admin){0};
  begin_request(l, &l->verify.req, on_verified);
  l->verify.req.may_send = NULL;
  l->verify.req.idempotent = true;
  l->w->store->locks->verify(l->w->store, &l->verify);
}

static void lane_step(mt_lane *l) {
  mortise_error err;
  mt_error_clear(&err);
  bool read = collect_reads(l);
  if (!read && !collect_writes(l) && !l->foreign.id[0] && !l->out_of_memory)
    lane_release(l);
  else if (l->out_of_memory)
    mt_error_memory(&err), lane_fail(l, &err);
  else if (writer_check(l->w, &err))
    lane_fail(l, &err);
  else if (l->foreign.id[0])
    send_verify(l);
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
    b->dirty += b->items[i].dirty;
  }
  b->error.ambiguous = b->dirty > 0;
}

static mt_write_batch *unlink_finished(mt_writer *w) {
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

/* Must come last in each event: `done` may submit again or free the writer. */
static void reap(mt_writer *w) {
  bool gone = false, *outer = w->gone;
  w->gone = &gone;
  mt_write_batch *b;
  while (!gone && (b = unlink_finished(w))) {
    sum_up(b);
    MT_FINISH(b);
  }
  if (!gone)
    w->gone = outer;
  else if (outer)
    *outer = true;
}

/* A lane that is never used has none. */
static bool lane_make_room(mt_lane *l) {
  size_t n = l->w->config.docs;
  if (!l->wire) l->wire = mt_alloc(n * sizeof *l->wire);
  if (!l->items) l->items = mt_alloc(n * sizeof *l->items);
  if (!l->ids) l->ids = mt_alloc(n * sizeof *l->ids);
  if (!l->routing) l->routing = mt_alloc(n * sizeof *l->routing);
  return l->wire && l->items && l->ids && l->routing;
}

/* Gives the lane about one request's share of the batch. */
static void lane_start(mt_lane *l, mt_write_batch *b) {
  size_t bytes = 0;
  l->batch = b;
  l->first = l->end = b->next;
  l->limit = l->w->config.docs;
  l->tries = l->bad = 0;
  l->foreign = (mt_epoch){0};
  l->out_of_memory = false;
  if (!lane_make_room(l)) {
    mortise_error err;
    b->active++;
    mt_error_memory(&err);
    lane_fail(l, &err);
    return;
  }
  while (l->end < b->n && l->end - l->first < l->w->docs) {
    mt_item *item = &b->items[l->end];
    bytes += item_bytes(&item->write);
    if (bytes > l->w->bytes && l->end > l->first) break;
    item->reread = mt_item_looks_first(l->w, item);
    l->end++;
  }
  b->next = l->end;
  b->active++;
  lane_step(l);
}

static mt_lane *free_lane(mt_writer *w) {
  uint32_t busy = 0;
  mt_lane *found = NULL;
  for (uint32_t i = w->config.in_flight; i-- > 0;) {
    busy += w->lanes[i].batch != NULL;
    if (!w->lanes[i].batch) found = &w->lanes[i];
  }
  return busy < w->in_flight ? found : NULL;
}

static void start_lanes(mt_writer *w) {
  mt_lane *l;
  for (mt_write_batch *b = w->head; b; b = b->link)
    while (!b->failed && b->next < b->n && (l = free_lane(w))) lane_start(l, b);
}

/* Fails lanes that have no request but wait for their timer. */
static void end_waits(mt_writer *w) {
  for (uint32_t i = 0; i < w->config.in_flight; i++) {
    mt_lane *l = &w->lanes[i];
    if (!l->batch || l->request) continue;
    mt_timer_stop(w->store->loop, &l->timer);
    lane_fail(l, &w->why);
  }
}

static void on_writer_kick(void *ctx) {
  mt_writer *w = ctx;
  if (w->stopped) end_waits(w);
  start_lanes(w);
  reap(w);
}

static void lane_init(mt_lane *l, mt_writer *w) {
  l->w = w;
  mt_buf_init(&l->stamped, STAMPED_MAX);
  l->timer = (mt_timer){.fire = on_lane_timer, .ctx = l};
}

static void take_back_request(mt_lane *l) {
  bool applied = mt_store_cancel(l->w->store, l->request);
  if (applied && l->request == &l->bulk.req) doubt(l);
  l->request = NULL;
}

static void lane_deinit(mt_lane *l) {
  if (l->request) take_back_request(l);
  if (l->w) mt_timer_stop(l->w->store->loop, &l->timer);
  mt_mget_deinit(&l->mget);
  mt_locks_admin_deinit(&l->verify);
  mt_buf_deinit(&l->stamped);
  mt_free(l->wire);
  mt_free(l->items);
  mt_free(l->ids);
  mt_free(l->routing);
}

static void set_config(mt_writer *w, const mt_writer_config *config) {
  enum { DEFAULT_LANES = IN_FLIGHT };
  mt_writer_config c = config ? *config : (mt_writer_config){0};
  if (!c.docs) c.docs = MT_WRITER_DOCS;
  if (c.docs > MT_WRITER_DOCS_MAX) c.docs = MT_WRITER_DOCS_MAX;
  if (!c.bytes) c.bytes = BYTES;
  if (!c.in_flight) c.in_flight = DEFAULT_LANES;
  if (c.in_flight > MT_WRITER_LANES) c.in_flight = MT_WRITER_LANES;
  if (!c.tries) c.tries = TRIES;
  if (c.backoff_ms <= 0) c.backoff_ms = BACKOFF_MS;
  w->config = c;
  w->bytes = c.bytes;
  mt_writer_pace(w, c.docs, c.in_flight);
}

static mortise_status writer_init(mt_writer *w, mortise_error *err) {
  w->lanes = mt_calloc(w->config.in_flight, sizeof *w->lanes);
  if (!w->lanes) return mt_error_memory(err);
  for (uint32_t i = 0; i < w->config.in_flight; i++) lane_init(&w->lanes[i], w);
  w->kick = (mt_timer){.fire = on_writer_kick, .ctx = w};
  return mt_timer_reserve(w->store->loop, &w->kick, err);
}

mt_writer *mt_writer_new(mt_store *store, const mt_env *env, const mt_permit *permit,
                         const mt_writer_config *config, mortise_error *err) {
  bool stamps = config && config->strength == MT_STRENGTH_STAMP;
  const char *field = stamps && config->stamp_field ? config->stamp_field : MT_STAMP_FIELD;
  if (stamps && (!permit || !*field || strlen(field) >= MT_STAMP_FIELD_MAX)) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                 permit ? "the field of the stamp has a name of 1 to %d bytes"
                        : "only what is written under a lock can be stamped (%d)",
                 MT_STAMP_FIELD_MAX - 1);
    return NULL;
  }
  if (permit && permit->check(permit->lock, err)) return NULL;
  mt_writer *w = mt_calloc(1, sizeof *w);
  if (!w) {
    mt_error_memory(err);
    return NULL;
  }
  w->store = store;
  w->env = env;
  if (permit) w->permit = *permit;
  set_config(w, config);
  w->stamps = stamps;
  w->compares = permit && w->config.strength == MT_STRENGTH_CAS;
  snprintf(w->field, sizeof w->field, "%s", field);
  if (!writer_init(w, err)) return w;
  mt_writer_free(w);
  return NULL;
}

void mt_writer_free(mt_writer *w) {
  if (!w) return;
  if (w->gone) *w->gone = true;
  for (uint32_t i = 0; w->lanes && i < w->config.in_flight; i++) lane_deinit(&w->lanes[i]);
  for (mt_write_batch *b = w->head; b; b = b->link) sum_up(b);
  mt_free(w->lanes);
  mt_timer_release(w->store->loop, &w->kick);
  mt_free(w);
}

void mt_writer_submit(mt_writer *w, mt_write_batch *b) {
  MT_MUST_BE_NEW(mt_write_batch, w->head, link, b);
  /* Started from the loop, so that `done` never runs inside this call. */
  mt_timer_start(w->store->loop, &w->kick, mt_loop_now(w->store->loop), NULL);
  mt_error_clear(&b->error);
  b->next = b->active = 0;
  b->failed = b->finished = false;
  b->link = NULL;
  if (w->tail)
    w->tail->link = b;
  else
    w->head = b;
  w->tail = b;
}

void mt_writer_pace(mt_writer *w, uint32_t docs, uint32_t in_flight) {
  w->docs = docs < w->config.docs ? docs : w->config.docs;
  w->in_flight = in_flight < w->config.in_flight ? in_flight : w->config.in_flight;
}

const char *mt_writer_waits(const mt_writer *w) {
  for (uint32_t i = 0; i < w->config.in_flight; i++) {
    const mt_lane *l = &w->lanes[i];
    if (l->batch && stuck_for_ms(l) >= SHOWN_MS) return w->last.message;
  }
  return NULL;
}

void mt_writer_stop(mt_writer *w, const mortise_error *why) {
  if (w->stopped) return;
  w->stopped = true;
  w->why = *why;
  mt_timer_start(w->store->loop, &w->kick, mt_loop_now(w->store->loop), NULL);
}
