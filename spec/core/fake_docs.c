#include "fake_docs.h"

#include "base/json_edit.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- A lock --------------------------------------------------------------------------------- */

static int64_t remaining_ms(const void *ctx) {
  const fake_lock *lock = ctx;
  int64_t left = atomic_load(&lock->session.deadline_ms) - lock->env->now_ms(lock->env->ctx);
  return left > 0 ? left : 0;
}

static mortise_status check(const void *ctx, mortise_error *err) {
  const fake_lock *lock = ctx;
  if (remaining_ms(lock) > 0 && !atomic_load(&lock->session.lost)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_LOCK_LOST, "the lease has run out");
}

static uint64_t fence(const void *ctx) {
  return ((const fake_lock *)ctx)->fence;
}

void fake_lock_init(fake_lock *lock, const mt_env *env, int64_t left_ms) {
  memset(lock, 0, sizeof *lock);
  lock->env = env;
  atomic_store(&lock->session.deadline_ms, env->now_ms(env->ctx) + left_ms);
}

const mt_permit *fake_permit(fake_lock *lock) {
  lock->permit = (mt_permit){lock, check, remaining_ms, fence, &lock->session, lock->epoch, NULL};
  return &lock->permit;
}


/* ---- Documents ------------------------------------------------------------------------------ */

typedef struct pending {
  mt_post post;
  fake_docs *f;
  mt_req *req; /* NULL: cancelled */
  void (*run)(fake_docs *f, mt_req *req);
} pending;

static char *copy(mt_slice s) {
  char *p = malloc(s.n + 1);
  if (s.n) memcpy(p, s.p, s.n);
  p[s.n] = '\0';
  return p;
}

static void run_pending(void *ctx) {
  pending *p = ctx;
  if (p->req) {
    p->f->under_way--;
    p->run(p->f, p->req);
    mt_req_finish(p->req);
  }
  free(p);
}

static void run_bulk(fake_docs *f, mt_req *req);

static void submit(mt_store *s, mt_req *req, void (*run)(fake_docs *f, mt_req *req)) {
  fake_docs *f = (fake_docs *)s;
  pending *p = calloc(1, sizeof *p);
  *p = (pending){{.run = run_pending, .ctx = p}, f, req, run};
  req->op = p;
  req->writes = run == run_bulk;
  s->stats.requests++;
  if (++f->under_way > f->most_under_way) f->most_under_way = f->under_way;
  mt_loop_post(s->loop, &p->post);
}

static bool cancel(mt_store *s, mt_req *req) {
  pending *p = req->op;
  p->req = NULL;
  req->op = NULL;
  ((fake_docs *)s)->under_way--;
  return req->writes; /* as a network may */
}

fake_doc *fake_get(fake_docs *f, mt_slice id) {
  for (size_t i = 0; i < f->n; i++)
    if (mt_slice_eq(mt_slice_of(f->docs[i].id), id)) return &f->docs[i];
  return NULL;
}

static mt_version put(fake_docs *f, mt_slice id, mt_slice routing, mt_slice source) {
  fake_doc *d = fake_get(f, id);
  if (!d) {
    f->docs = realloc(f->docs, (f->n + 1) * sizeof *f->docs);
    d = &f->docs[f->n++];
    *d = (fake_doc){.id = copy(id)};
  }
  free(d->source);
  free(d->routing);
  d->source = copy(source);
  d->routing = routing.p ? copy(routing) : NULL;
  d->found = true;
  return d->version = (mt_version){++f->seq, 1};
}

mt_version fake_put(fake_docs *f, const char *id, const char *source) {
  return put(f, mt_slice_of(id), (mt_slice){NULL, 0}, mt_slice_of(source));
}

void fake_remove(fake_docs *f, const char *id) {
  fake_doc *d = fake_get(f, mt_slice_of(id));
  d->found = false;
  d->version.seq_no = ++f->seq;
}

static mt_write_result precondition(const fake_doc *d, const mt_write *w) {
  bool found = d && d->found;
  if (w->kind == MT_WRITE_CREATE && found) return MT_WRITE_CONFLICT;
  if (w->if_version.term && (!found || d->version.seq_no != w->if_version.seq_no ||
                             d->version.term != w->if_version.term))
    return MT_WRITE_CONFLICT;
  if (!found && (w->kind == MT_WRITE_DELETE || w->kind == MT_WRITE_UPDATE)) return MT_WRITE_MISSING;
  return MT_WRITE_APPLIED;
}

static void update(fake_docs *f, fake_doc *d, mt_write *w) {
  mt_buf merged;
  mt_json body, source;
  bool changed;
  mt_buf_init(&merged, 1 << 20);
  mt_json_parse(w->body, "body", &body, NULL);
  mt_json_parse(mt_slice_of(d->source), "source", &source, NULL);
  mt_json_merge(source, mt_json_get(body, "doc"), &merged, &changed, NULL);
  w->result = changed ? MT_WRITE_APPLIED : MT_WRITE_NOOP;
  if (changed) w->version = put(f, w->id, (mt_slice){NULL, 0}, mt_buf_slice(&merged));
  mt_buf_deinit(&merged);
}

static mt_write_result ask_test(fake_docs *f, mt_write *w) {
  snprintf(w->type, sizeof w->type, "fake");
  snprintf(w->reason, sizeof w->reason, "as the test said");
  w->result = f->item ? f->item(f->ctx, f, w) : MT_WRITE_NONE;
  if (!w->result) w->type[0] = w->reason[0] = '\0';
  return w->result;
}

void fake_apply(fake_docs *f, mt_write *w) {
  fake_doc *d = fake_get(f, w->id);
  w->result = precondition(d, w);
  if (w->result != MT_WRITE_APPLIED) return;
  if (w->kind == MT_WRITE_UPDATE) {
    update(f, d, w);
  } else if (w->kind == MT_WRITE_DELETE) {
    d->found = false;
    w->version = d->version = (mt_version){++f->seq, 1};
  } else {
    w->version = put(f, w->id, w->routing, w->body);
  }
}

static void set_error(mt_req *req, fake_fate fate) {
  static const struct {
    mortise_status code;
    int status;
  } rows[] = {
      [FAKE_LOST_BEFORE] = {MORTISE_UNAVAILABLE, 0}, [FAKE_LOST_AFTER] = {MORTISE_UNAVAILABLE, 0},
      [FAKE_TOO_LARGE] = {MORTISE_REJECTED, 413},    [FAKE_BAD] = {MORTISE_REJECTED, 400},
      [FAKE_REFUSED] = {MORTISE_UNAVAILABLE, 503},   [FAKE_AUTH] = {MORTISE_AUTH, 403}};
  mt_error_set(&req->error, rows[fate].code, "fake failure %d", fate);
  req->error.http_status = rows[fate].status;
  req->error.ambiguous = fate == FAKE_LOST_BEFORE || fate == FAKE_LOST_AFTER;
}

static void run_bulk(fake_docs *f, mt_req *req) {
  mt_bulk *r = (mt_bulk *)req;
  if (req->may_send && !req->may_send(req->may_send_ctx)) {
    mt_error_set(&req->error, MORTISE_LOCK_LOST, "held back");
    return;
  }
  f->bulks++;
  f->items += r->n;
  fake_fate fate = f->fate ? f->fate(f->ctx, f, r) : FAKE_FINE;
  bool apply = fate == FAKE_FINE || fate == FAKE_LOST_AFTER;
  for (size_t i = 0; apply && i < r->n; i++)
    if (!ask_test(f, &r->items[i])) fake_apply(f, &r->items[i]);
  if (!fate) return;
  set_error(req, fate);
  for (size_t i = 0; i < r->n; i++) r->items[i].result = MT_WRITE_NONE;
}

static void fill(mt_doc *to, const fake_doc *d) {
  to->index = MT_SLICE("fake");
  to->found = d->found;
  if (!d->found) return;
  to->source = mt_slice_of(d->source);
  to->routing = mt_slice_of(d->routing);
  to->version = d->version;
}

/* The page owns a copy of everything, so that a sanitizer sees a use after its end. */
static mt_page *page_of(const mt_doc *docs, size_t n) {
  mt_page *page = calloc(1, sizeof *page);
  size_t size = 1;
  for (size_t i = 0; i < n; i++) size += docs[i].id.n + docs[i].source.n + docs[i].routing.n;
  char *p = malloc(size);
  mt_buf_init(&page->bytes, size);
  page->bytes.p = p;
  page->bytes.n = size - 1;
  page->bytes.cap = size;
  page->docs = calloc(n ? n : 1, sizeof *page->docs);
  page->n = n;
  for (size_t i = 0; i < n; i++) {
    page->docs[i] = docs[i];
    mt_slice *parts[] = {&page->docs[i].id, &page->docs[i].source, &page->docs[i].routing};
    for (size_t k = 0; k < 3; k++) {
      if (!parts[k]->n) continue;
      memcpy(p, parts[k]->p, parts[k]->n);
      parts[k]->p = p;
      p += parts[k]->n;
    }
  }
  return page;
}

static void run_mget(fake_docs *f, mt_req *req) {
  mt_mget *r = (mt_mget *)req;
  f->mgets++;
  fake_fate fate = f->read ? f->read(f->ctx, f) : FAKE_FINE;
  if (fate) {
    set_error(req, fate);
    return;
  }
  mt_doc *docs = calloc(r->n, sizeof *docs);
  for (size_t i = 0; i < r->n; i++) {
    fake_doc *d = fake_get(f, r->ids[i]);
    docs[i].id = r->ids[i];
    if (d) fill(&docs[i], d);
    if (r->no_source) docs[i].source = (mt_slice){NULL, 0};
  }
  r->page = page_of(docs, r->n);
  free(docs);
}

/* Is the document at or below the path in the first of these clauses, a term? */
static bool in_tree(const fake_doc *d, mt_json clauses) {
  mt_json source;
  mt_json_iter it = mt_json_items(clauses);
  if (!mt_json_next(&it)) return false;
  it = mt_json_items(mt_json_get(it.value, "term"));
  mt_json_next(&it);
  mt_json_parse(mt_slice_of(d->source), "source", &source, NULL);
  char from[512], value[512];
  mt_json_copy(it.value, from, sizeof from);
  mt_json_copy(mt_json_find(source, it.key), value, sizeof value);
  size_t n = strlen(from);
  return !strncmp(value, from, n) && (n == 1 || !value[n] || value[n] == '/');
}

/* Knows the queries of mt_prefix_query and mt_tree_query, and the empty one. */
static bool matches(const fake_doc *d, mt_slice query) {
  mt_json q;
  if (!d->found) return false;
  if (!query.n) return true;
  mt_json_parse(query, "query", &q, NULL);
  mt_json_iter it = mt_json_items(mt_json_at(q, "bool", "filter", NULL));
  mt_json_next(&it);
  return in_tree(d, mt_json_at(it.value, "bool", "should", NULL)) &&
         !in_tree(d, mt_json_at(q, "bool", "must_not", NULL));
}

static void run_count(fake_docs *f, mt_req *req) {
  mt_count *r = (mt_count *)req;
  f->counts++;
  for (size_t i = 0; i < f->n; i++) r->count += matches(&f->docs[i], r->query);
}

static void run_refresh(fake_docs *f, mt_req *req) {
  (void)f;
  (void)req;
}

static void run_describe(fake_docs *f, mt_req *req) {
  mt_describe *r = (mt_describe *)req, facts = f->facts;
  facts.req = r->req;
  facts.index = r->index;
  *r = facts;
}

struct mt_scan {
  mt_doc *docs; /* strings are copies: a scan shows what was */
  size_t n, at, page;
};

static void run_open(fake_docs *f, mt_req *req) {
  mt_scan_open *r = (mt_scan_open *)req;
  f->scans++;
  mt_scan *s = calloc(1, sizeof *s);
  s->docs = calloc(f->n + 1, sizeof *s->docs);
  s->page = r->page ? r->page : 1000;
  for (size_t i = 0; i < f->n; i++) {
    if (!matches(&f->docs[i], r->query)) continue;
    mt_doc *d = &s->docs[s->n++];
    fill(d, &f->docs[i]);
    d->id = (mt_slice){copy(mt_slice_of(f->docs[i].id)), strlen(f->docs[i].id)};
    d->source.p = copy(d->source);
    if (d->routing.p) d->routing.p = copy(d->routing);
  }
  r->scan = s;
  r->total = s->n;
}

static void run_next(fake_docs *f, mt_req *req) {
  mt_scan_next *r = (mt_scan_next *)req;
  mt_scan *s = r->scan;
  if (f->page) f->page(f->ctx, f);
  if (s->at == s->n) return;
  if (f->page_max && s->page > f->page_max && s->at > 0) {
    mt_error_set(&req->error, MORTISE_REJECTED, "the answer is too large");
    return;
  }
  size_t n = s->n - s->at < s->page ? s->n - s->at : s->page;
  r->page = page_of(s->docs + s->at, n);
  s->at += n;
}

static void scan_close(mt_store *store, mt_scan *s) {
  (void)store;
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) {
    free((void *)(uintptr_t)s->docs[i].id.p);
    free((void *)(uintptr_t)s->docs[i].source.p);
    free((void *)(uintptr_t)s->docs[i].routing.p);
  }
  free(s->docs);
  free(s);
}

#define OP(name, type)                                                                             \
  static void name(mt_store *s, type *r) {                                                         \
    submit(s, &r->req, run_##name);                                                                \
  }
OP(bulk, mt_bulk)
OP(mget, mt_mget)
OP(count, mt_count)
OP(refresh, mt_refresh)
OP(describe, mt_describe)
static void scan_open(mt_store *s, mt_scan_open *r) {
  submit(s, &r->req, run_open);
}
static void scan_next(mt_store *s, mt_scan_next *r) {
  submit(s, &r->req, run_next);
}

static void run_verify(fake_docs *f, mt_req *req) {
  ((mt_locks_admin *)(void *)req)->epoch = f->epoch;
  f->verifies++;
}

static void verify(mt_store *s, mt_locks_admin *r) {
  submit(s, &r->req, run_verify);
}

static const mt_locks_ops lock_ops = {.verify = verify};

static const mt_docs_ops ops = {.describe = describe,
                                .mget = mget,
                                .bulk = bulk,
                                .count = count,
                                .refresh = refresh,
                                .scan_open = scan_open,
                                .scan_next = scan_next,
                                .scan_close = scan_close};

void fake_docs_init(fake_docs *f, mt_loop *loop) {
  memset(f, 0, sizeof *f);
  f->store =
      (mt_store){.docs = &ops, .locks = &lock_ops, .cancel = cancel, .loop = loop, .url = "fake"};
  f->store.request_ms = 30000;
  f->facts.exists = true;
  f->facts.shards = 1;
}

void fake_docs_deinit(fake_docs *f) {
  for (size_t i = 0; i < f->n; i++) {
    free(f->docs[i].id);
    free(f->docs[i].routing);
    free(f->docs[i].source);
  }
  free(f->docs);
}
