#include "job/change.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  IN_FLIGHT = 3,
  PAGES_AHEAD = 1, /* held beside those being written */
  PASSES = 8,
  BODIES_MAX = 256 << 20, /* of one page */
};

typedef struct op op;

/* A body made anew for a document that was read again; kept until its page is done. */
typedef struct redo {
  struct redo *next;
  char *body;
} redo;

/* A page on its way: its answer's bytes, the new bodies, the writes. */
typedef struct unit {
  op *op;
  bool busy;
  mt_page *page;
  mt_buf bodies;
  mt_item *items;
  size_t cap;
  mt_write_batch batch;
  redo *redone;
} unit;

struct op {
  mt_change *c;
  mt_writer *writer;
  unit *units;
  uint32_t n_units, busy;
  mt_req *request; /* of those below, the one under way */
  mt_describe describe;
  mt_refresh refresh;
  mt_count count;
  mt_scan_open open;
  mt_scan_next next;
  mt_scan *scan;
  mt_timer kick; /* reserved */
  uint32_t page;
  bool scanned, failed, counted;
  bool smaller;                      /* the pass starts again, with smaller pages */
  uint64_t settled_before, progress; /* documents out of the way before this pass; told last */
  uint64_t idle;                     /* of this pass: nothing to change in them */
  uint64_t requests0, bytes0;
  int64_t started_ms;
};

static void finish(op *o);
static void pump(op *o);
static void refresh(op *o);

/* ---- Ending --------------------------------------------------------------------------------- */

static uint64_t store_bytes(const mt_store *s) {
  return s->stats.sent_bytes + s->stats.received_bytes;
}

/* Ends it with this error, once what is being written has been answered. */
static void fail_op(op *o, const mortise_error *e) {
  if (o->failed) return;
  o->failed = true;
  o->c->error = *e;
  mt_writer_stop(o->writer, e);
}

static void free_redone(unit *u) {
  while (u->redone) {
    redo *r = u->redone;
    u->redone = r->next;
    mt_free(r->body);
    mt_free(r);
  }
}

static void free_op(op *o) {
  mt_store *s = o->c->store;
  if (o->request) mt_store_cancel(s, o->request);
  mt_writer_free(o->writer);
  s->docs->scan_close(s, o->scan);
  for (uint32_t i = 0; o->units && i < o->n_units; i++) {
    unit *u = &o->units[i];
    free_redone(u);
    mt_page_free(u->page);
    mt_buf_deinit(&u->bodies);
    mt_free(u->items);
  }
  mt_free(o->units);
  mt_describe_deinit(&o->describe);
  mt_timer_release(s->loop, &o->kick);
  mt_free(o);
}

static void say_how_far(const op *o) {
  const mt_change_result *r = &o->c->result;
  mortise_error *e = &o->c->error;
  char tail[160];
  int n = snprintf(tail, sizeof tail, "; %" PRIu64 " of %" PRIu64 " documents had been changed",
                   r->changed, r->matched);
  if (r->unknown)
    snprintf(tail + n, sizeof tail - (size_t)n, ", perhaps %" PRIu64 " more", r->unknown);
  size_t room = sizeof e->message - strlen(tail) - 1, at = strlen(e->message);
  if (at > room) at = room;
  memcpy(e->message + at, tail, strlen(tail) + 1);
}

static void finish(op *o) {
  mt_change *c = o->c;
  if (o->failed && o->request) {
    mt_store_cancel(c->store, o->request);
    o->request = NULL;
  }
  if (o->busy || o->request) return;
  if (o->failed) {
    say_how_far(o);
    c->error.ambiguous = mt_change_applied(c);
  }
  c->result.round_trips = c->store->stats.requests - o->requests0;
  c->result.bytes = store_bytes(c->store) - o->bytes0;
  c->result.duration_ms = c->env->now_ms(c->env->ctx) - o->started_ms;
  c->op = NULL;
  free_op(o);
  c->done(c->ctx, c);
}

/* It ran to its end; were some left out? */
static void conclude(op *o) {
  mt_change_result *r = &o->c->result;
  mortise_error *e = &o->c->error;
  if (r->rejected) {
    const mt_reject *first = &r->rejects[0];
    mt_error_set(e, MORTISE_REJECTED,
                 "%" PRIu64 " of %" PRIu64
                 " documents could not be changed, the first is %.100s: %s",
                 r->rejected, r->matched, first->id, first->reason);
  } else if (r->conflicts) {
    mt_error_set(e, MORTISE_CONFLICT,
                 "%" PRIu64 " of %" PRIu64 " documents were changed by someone else each time",
                 r->conflicts, r->matched);
  } else if (r->left) {
    mt_error_set(e, MORTISE_REJECTED,
                 "%" PRIu64 " documents still match after %" PRIu32 " passes%s", r->left, r->passes,
                 o->idle ? ", though nothing in them was to be changed" : "");
  } else if (o->c->concluded) {
    o->c->concluded(o->c, e);
  }
  finish(o);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* False: it is ending, and nothing may be started. */
static bool may_go_on(op *o) {
  mortise_error err;
  const mt_permit *permit = o->c->permit;
  if (!o->failed && permit && permit->check(permit->lock, &err)) fail_op(o, &err);
  return !o->failed;
}

static void begin(op *o, mt_req *req, mt_done_fn *done) {
  *req = (mt_req){.done = done, .ctx = o};
  o->request = req;
}

/* First in each answer. False: it failed, or it is ending. */
static bool arrived(op *o, mt_req *req, const char *what) {
  o->request = NULL;
  if (req->error.code && !o->failed) {
    mt_error_prefix(&req->error, "%s", what);
    fail_op(o, &req->error);
  }
  return may_go_on(o);
}

mortise_status mt_change_fit(const mt_describe *d, mortise_error *err) {
  const char *name = d->name[0] ? d->name : d->index;
  const char *why = d->data_stream       ? "is a data stream, whose documents must not be rewritten"
                    : d->source_disabled ? "keeps no _source"
                    : d->source_filtered ? "leaves fields out of _source: a rewrite would lose them"
                    : d->source_synthetic ? "has a synthetic _source, which is not what was written"
                    : d->final_pipeline   ? "has a final_pipeline, which would run on each rewrite"
                                          : NULL;
  if (!d->exists) return mt_error_set(err, MORTISE_NOT_FOUND, "there is no index %s", d->index);
  if (why) return mt_error_set(err, MORTISE_UNSUPPORTED, "index %s %s", name, why);
  return MORTISE_OK;
}

static void on_describe(void *ctx, mt_req *req) {
  op *o = ctx;
  mt_change *c = o->c;
  mortise_error err;
  if (arrived(o, req, "describing the index")) {
    mortise_status status = mt_change_fit(&o->describe, &err);
    if (!status && c->described) status = c->described(c, &o->describe, &err);
    if (status) fail_op(o, &err);
  }
  mt_describe_deinit(&o->describe);
  if (o->failed)
    finish(o);
  else
    refresh(o);
}

static void describe(op *o) {
  o->describe = (mt_describe){.index = o->c->index};
  begin(o, &o->describe.req, on_describe);
  o->c->store->docs->describe(o->c->store, &o->describe);
}

/* A pass looks at everything again: what the last one set aside counts only if it still does. */
static void start_pass(op *o) {
  mt_change_result *r = &o->c->result;
  r->passes++;
  r->rejected = r->conflicts = 0;
  o->idle = 0;
  o->scanned = false;
  o->settled_before = r->changed + r->unchanged;
}

static void end_scan(op *o) {
  o->scanned = true;
  o->c->store->docs->scan_close(o->c->store, o->scan);
  o->scan = NULL;
}

/* Pages of large documents may exceed what an answer may hold. Where a pass may be repeated, it is,
 * with smaller ones. */
static bool try_smaller(op *o, const mortise_error *e) {
  bool too_large = e->code == MORTISE_REJECTED && e->http_status < 400;
  if (!too_large || !o->c->until_none || o->failed || o->page == 1) return false;
  o->request = NULL;
  o->page = o->page > 4 ? o->page / 4 : 1;
  o->smaller = true;
  end_scan(o);
  pump(o);
  return true;
}

/* How many match is known before the first page is asked for. */
static void all_counted(op *o) {
  mortise_error err;
  o->counted = true;
  if (o->c->counted && o->c->counted(o->c, &err)) fail_op(o, &err);
  pump(o);
}

static void on_beside(void *ctx, mt_req *req) {
  op *o = ctx;
  if (!arrived(o, req, "counting what is there already")) {
    finish(o);
    return;
  }
  o->c->result.beside = o->count.count;
  all_counted(o);
}

static void count(op *o, mt_slice query, mt_done_fn *done) {
  o->count = (mt_count){.index = o->c->index, .query = query};
  begin(o, &o->count.req, done);
  o->c->store->docs->count(o->c->store, &o->count);
}

static void on_open(void *ctx, mt_req *req) {
  op *o = ctx;
  if (!req->error.code) o->scan = o->open.scan;
  if (req->error.code && try_smaller(o, &req->error)) return;
  if (!arrived(o, req, "opening the scan")) {
    finish(o);
    return;
  }
  o->c->result.matched = o->settled_before + o->open.total;
  if (o->counted)
    pump(o);
  else if (o->c->beside.n)
    count(o, o->c->beside, on_beside);
  else
    all_counted(o);
}

static void open_scan(op *o) {
  mt_change *c = o->c;
  if (o->smaller) c->result.passes--;
  o->smaller = false;
  start_pass(o);
  o->open = (mt_scan_open){
      .index = c->index, .query = c->query, .page = o->page, .slices = c->options.slices};
  begin(o, &o->open.req, on_open);
  c->store->docs->scan_open(c->store, &o->open);
}

/* Were all that still match looked at, and nothing in them was to be changed? A query may find more
 * than the transform, which decides; a pass without a write proves that nothing else is left. */
static bool only_idle(const op *o) {
  const mt_change_result *r = &o->c->result;
  return o->c->transform.decides && o->idle && o->idle == o->open.total && !r->rejected;
}

/* Another pass helps where something was missed, not where the same ones would be set aside. */
static bool worth_a_pass(const op *o) {
  const mt_change_result *r = &o->c->result;
  uint32_t most = o->c->options.passes ? o->c->options.passes : PASSES;
  if (!r->left || r->passes >= most) return false;
  return r->conflicts || r->left > r->rejected + o->idle ||
         (o->c->transform.decides && o->idle && !r->rejected);
}

static void on_count(void *ctx, mt_req *req) {
  op *o = ctx;
  if (!arrived(o, req, "counting what is left")) {
    finish(o);
    return;
  }
  o->c->result.left = o->count.count;
  if (worth_a_pass(o))
    open_scan(o);
  else
    conclude(o);
}

static void on_refresh(void *ctx, mt_req *req) {
  op *o = ctx;
  if (!arrived(o, req, "refreshing the index"))
    finish(o);
  else if (o->c->result.passes && !o->smaller)
    count(o, o->c->query, on_count);
  else
    open_scan(o);
}

/* Searches see nothing that was acknowledged since the last one. */
static void refresh(op *o) {
  mt_change *c = o->c;
  o->refresh = (mt_refresh){.index = c->index};
  begin(o, &o->refresh.req, on_refresh);
  c->store->docs->refresh(c->store, &o->refresh);
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static void remember_reject(op *o, mt_slice id, const char *type, const char *reason) {
  mt_change_result *r = &o->c->result;
  if (r->rejected < MT_REJECTS_SHOWN) {
    mt_reject *to = &r->rejects[r->rejected];
    snprintf(to->id, sizeof to->id, "%.*s",
             (int)(id.n < MT_REJECT_ID_MAX ? id.n : MT_REJECT_ID_MAX), id.p);
    snprintf(to->type, sizeof to->type, "%s", type);
    snprintf(to->reason, sizeof to->reason, "%.159s", reason);
  }
  r->rejected++;
}

static void set_aside(op *o, mt_slice id, const mortise_error *e) {
  remember_reject(o, id, mortise_status_name(e->code), e->message);
}

/* True when the change of `doc` stands in u->bodies. */
static bool transform_one(unit *u, const mt_doc *doc, mortise_error *err) {
  op *o = u->op;
  size_t before = u->bodies.n;
  if (!doc->found) { /* gone, or no longer matching, since the scan was opened */
    o->c->result.unchanged++;
    return false;
  }
  mt_transformed how = o->c->transform.apply(o->c->transform.ctx, doc, &u->bodies, err);
  if (how == MT_CHANGED && u->bodies.n > before) return true;
  mt_buf_cut(&u->bodies, before);
  if (how == MT_ASIDE) {
    set_aside(o, doc->id, err);
  } else if (how == MT_STOP) {
    fail_op(o, err);
  } else {
    o->idle++;
    o->c->result.unchanged += !o->c->until_none;
  }
  return false;
}

/* Bodies follow one another in the buffer, which may move while it grows: placed at the end. */
static void place_bodies(unit *u, size_t n) {
  const char *p = u->bodies.p;
  for (size_t i = 0; i < n; i++) {
    u->items[i].write.body.p = p;
    p += u->items[i].write.body.n;
  }
}

static mortise_status patch(unit *u, mortise_error *err) {
  op *o = u->op;
  const mt_page *page = u->page;
  size_t n = 0;
  mt_error_clear(err); /* once: it is not small */
  mt_buf_clear(&u->bodies);
  if (!mt_grow((void **)&u->items, &u->cap, page->n, sizeof *u->items, SIZE_MAX / sizeof *u->items))
    return mt_error_memory(err);
  /* Near enough to what will be needed that it seldom moves. */
  if (page->bytes.n < BODIES_MAX / 2) mt_buf_room(&u->bodies, page->bytes.n + page->bytes.n / 16);
  for (size_t i = 0; i < page->n && !o->failed; i++) {
    const mt_doc *doc = &page->docs[i];
    size_t before = u->bodies.n;
    if (!transform_one(u, doc, err)) continue;
    u->items[n++] = (mt_item){.write = {.kind = MT_WRITE_INDEX,
                                        .index = doc->index,
                                        .id = doc->id,
                                        .routing = doc->routing,
                                        .body = {NULL, u->bodies.n - before},
                                        .if_version = doc->version,
                                        .skip_pipeline = true},
                              .of_source = true};
  }
  place_bodies(u, n);
  u->batch.n = n;
  return mt_buf_status(&u->bodies, "the new bodies of a page", err);
}

static bool keep_redo(unit *u, mt_item *item, mt_buf *body) {
  redo *r = mt_alloc(sizeof *r);
  size_t n = 0;
  char *bytes = r ? mt_buf_take(body, &n) : NULL;
  if (!bytes) {
    mt_free(r);
    return false;
  }
  *r = (redo){u->redone, bytes};
  u->redone = r;
  item->write.body = (mt_slice){bytes, n};
  return true;
}

static mt_again redo_changed(unit *u, mt_item *item, const mt_doc *doc, mt_buf *body) {
  mortise_error err;
  if (!keep_redo(u, item, body)) {
    mt_error_memory(&err);
    fail_op(u->op, &err);
    return MT_AGAIN_CONFLICT;
  }
  item->write.if_version = doc->version;
  u->op->c->result.redone++;
  return MT_AGAIN_WRITE;
}

/* Someone else has changed the document: its new state is transformed, where that is enough to know
 * that it still matches. */
static mt_again again(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc) {
  unit *u = ctx;
  mt_transform t = u->op->c->transform;
  mortise_error err;
  mt_buf body;
  (void)b;
  if (!doc->found) return MT_AGAIN_DONE;
  mt_error_clear(&err);
  mt_buf_init(&body, BODIES_MAX);
  mt_again next = MT_AGAIN_CONFLICT;
  switch (t.apply(t.ctx, doc, &body, &err)) {
  case MT_CHANGED:
    next = redo_changed(u, item, doc, &body);
    break;
  case MT_UNCHANGED:
    next = MT_AGAIN_DONE;
    break;
  case MT_ASIDE:
    snprintf(item->write.type, sizeof item->write.type, "%s", mortise_status_name(err.code));
    snprintf(item->write.reason, sizeof item->write.reason, "%.159s", err.message);
    next = MT_AGAIN_REJECT;
    break;
  case MT_STOP:
    fail_op(u->op, &err);
  }
  mt_buf_deinit(&body);
  return next;
}

static void tell_progress(op *o) {
  mt_change *c = o->c;
  uint64_t done = c->result.changed + c->result.unchanged;
  if (done > c->result.matched) done = c->result.matched;
  if (!c->progress || done <= o->progress) return;
  o->progress = done;
  c->progress(c->ctx, c, done, c->result.matched);
}

static void account(unit *u) {
  mt_change_result *r = &u->op->c->result;
  const mt_write_batch *b = &u->batch;
  r->changed += b->counts[MT_OUTCOME_APPLIED];
  r->unchanged += b->counts[MT_OUTCOME_ALREADY];
  r->conflicts += b->counts[MT_OUTCOME_CONFLICT];
  r->unknown += b->dirty;
  for (size_t i = 0; b->counts[MT_OUTCOME_REJECTED] && i < b->n; i++) {
    const mt_write *w = &b->items[i].write;
    if (b->items[i].outcome == MT_OUTCOME_REJECTED)
      remember_reject(u->op, w->id, w->type, w->reason);
  }
}

static void unit_release(unit *u) {
  free_redone(u);
  mt_page_free(u->page);
  u->page = NULL;
  u->busy = false;
  u->op->busy--;
}

static void on_written(void *ctx, mt_write_batch *b) {
  unit *u = ctx;
  op *o = u->op;
  account(u);
  if (b->error.code) fail_op(o, &b->error);
  unit_release(u);
  tell_progress(o);
  pump(o);
}

static void write_page(unit *u) {
  op *o = u->op;
  mortise_error err;
  u->batch = (mt_write_batch){.done = on_written, .ctx = u, .index = o->c->index};
  if (o->c->transform.decides) u->batch.again = again;
  mortise_status status = patch(u, &err);
  u->batch.items = u->items;
  if (!status && !o->failed && u->batch.n) mt_writer_submit(o->writer, &u->batch);
  if (status) fail_op(o, &err);
  if (o->failed || !u->batch.n) unit_release(u);
}

static unit *free_unit(op *o) {
  for (uint32_t i = 0; i < o->n_units; i++)
    if (!o->units[i].busy) return &o->units[i];
  return NULL;
}

static void on_next(void *ctx, mt_req *req);

static void next_page(op *o) {
  o->next = (mt_scan_next){.scan = o->scan};
  begin(o, &o->next.req, on_next);
  o->c->store->docs->scan_next(o->c->store, &o->next);
}

static void on_next(void *ctx, mt_req *req) {
  op *o = ctx;
  mt_page *page = o->next.page;
  if (try_smaller(o, &req->error)) return;
  if (!arrived(o, req, "scanning")) {
    mt_page_free(page);
    finish(o);
    return;
  }
  if (!page) {
    end_scan(o);
    pump(o);
    return;
  }
  unit *u = free_unit(o);
  u->busy = true;
  u->page = page;
  o->busy++;
  /* The server fetches the next one while this one is patched. */
  if (o->busy < o->n_units) next_page(o);
  write_page(u);
  pump(o);
}

/* Starts whatever can be started; last in each event. */
static void pump(op *o) {
  if (!may_go_on(o)) {
    finish(o);
    return;
  }
  if (o->request) return;
  if (!o->scanned && o->busy < o->n_units) next_page(o);
  if (!o->scanned || o->busy) return;
  bool idle = o->c->until_none && !o->smaller && only_idle(o);
  if (idle) o->c->result.left = 0;
  if (o->c->until_none && !idle)
    refresh(o);
  else
    conclude(o);
}

/* ---- Starting and stopping ------------------------------------------------------------------ */

static void on_kick(void *ctx) {
  finish(ctx);
}

static mortise_status make_parts(op *o, mortise_error *err) {
  mt_change *c = o->c;
  mt_writer_config config = {.docs = o->page,
                             .bytes = c->options.bytes,
                             .strength = c->options.strength,
                             .stamp_field = c->options.stamp_field,
                             .in_flight = c->options.in_flight ? c->options.in_flight : IN_FLIGHT};
  if (config.in_flight > MT_WRITER_LANES) config.in_flight = MT_WRITER_LANES;
  o->n_units = config.in_flight + PAGES_AHEAD;
  o->units = mt_calloc(o->n_units, sizeof *o->units);
  if (!o->units) return mt_error_memory(err);
  for (uint32_t i = 0; i < o->n_units; i++) {
    o->units[i].op = o;
    mt_buf_init(&o->units[i].bodies, BODIES_MAX);
  }
  o->kick = (mt_timer){.fire = on_kick, .ctx = o};
  if (mt_timer_reserve(c->store->loop, &o->kick, err)) return MORTISE_OUT_OF_MEMORY;
  o->writer = mt_writer_new(c->store, c->env, c->permit, &config, err);
  return o->writer ? MORTISE_OK : err->code;
}

mortise_status mt_change_start(mt_change *c, mortise_error *err) {
  mortise_error local;
  if (!err) err = &local;
  memset(&c->result, 0, sizeof c->result);
  mt_error_clear(&c->error);
  mt_error_clear(err);
  op *o = mt_calloc(1, sizeof *o);
  if (!o) return mt_error_memory(err);
  o->c = c;
  o->page = c->options.page ? c->options.page : MT_SCAN_PAGE;
  o->requests0 = c->store->stats.requests;
  o->bytes0 = store_bytes(c->store);
  o->started_ms = c->env->now_ms(c->env->ctx);
  mortise_status status = make_parts(o, err);
  if (status) {
    free_op(o);
    return status;
  }
  c->op = o;
  describe(o);
  return MORTISE_OK;
}

void mt_change_cancel(mt_change *c) {
  op *o = c->op;
  if (!o || o->failed) return;
  mortise_error err;
  mt_error_set(&err, MORTISE_INTERRUPTED, "the change was interrupted");
  fail_op(o, &err);
  /* From the loop, since `done` never runs inside this call. */
  mt_timer_start(c->store->loop, &o->kick, mt_loop_now(c->store->loop), NULL);
}

void mt_change_abandon(mt_change *c) {
  op *o = c->op;
  if (!o) return;
  mt_writer_free(o->writer);
  o->writer = NULL;
  for (uint32_t i = 0; i < o->n_units; i++)
    if (o->units[i].busy) account(&o->units[i]);
  free_op(o);
  c->op = NULL;
}

bool mt_change_applied(const mt_change *c) {
  const op *o = c->op;
  bool applied = c->result.changed || c->result.unknown;
  for (uint32_t i = 0; o && i < o->n_units; i++) applied |= o->units[i].busy;
  return applied;
}
