/* A client in a process of its own, without faults: it takes the lock of each scenario once that is
 * over, and reads what was written. */
#include "sweep.h"

#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS = 128, WINDOW = 1024, BATCH = 500, WAIT_MS = 20000, TRIES = 3 };

/* A point being checked. */
typedef struct look {
  mt_point *point; /* NULL: free */
  uint32_t number;
  mt_acquire acquire;
  mt_release release;
  mt_wants wants;
  int64_t since_ms;
  int tries;
  bool acquired, releasing, released;
} look;

typedef struct witness {
  mt_sweep *s;
  mortise_client *client;
  mt_manager *manager;
  mt_test_store docs; /* of its own, so that pumping it disturbs nothing */
  look looks[LOOKS];
} witness;

/* ---- Before --------------------------------------------------------------------------------- */

/* The scenario makes both numbers 1 and leaves the 64 bytes between them as they are. */
#define PAD "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define OLD_SOURCE "{\"v\":0,\"pad\":\"" PAD "\",\"w\":0}"

static bool failed(mt_sweep *s, const char *what, const mortise_error *err) {
  atomic_store(&s->witness_failed, true);
  snprintf(s->message, sizeof s->message, "%s: %.200s %.200s", what, err->message, err->reason);
  return false;
}

static bool make_tables(mt_sweep *s, mt_test_store *t) {
  mt_locks_admin init = {0};
  t->store->locks->init(t->store, &init);
  mortise_status status = mt_test_pump(t->store, &init.req);
  mortise_error err = init.req.error;
  mt_locks_admin_deinit(&init);
  if (status) return failed(s, "init", &err);
  mt_index_admin create = {.index = s->index,
                           .body = MT_SLICE("{\"settings\":{\"number_of_shards\":1,"
                                            "\"number_of_replicas\":0}}")};
  t->store->docs->index_create(t->store, &create);
  if (mt_test_pump(t->store, &create.req) && create.req.error.code != MORTISE_CONFLICT)
    return failed(s, "the index", &create.req.error);
  return true;
}

/* The old documents of the points from `first` on, at most BATCH of them. */
static bool write_old(mt_sweep *s, mt_test_store *t, uint32_t first, uint32_t n) {
  static mt_names names[BATCH];
  static mt_write items[3 * BATCH];
  for (uint32_t i = 0; i < n; i++) {
    names[i] = mt_names_of(first + i);
    for (uint32_t j = 0; j < 3; j++)
      items[3 * i + j] = (mt_write){
          .kind = MT_WRITE_INDEX, .id = mt_slice_of(names[i].ids[j]), .body = MT_SLICE(OLD_SOURCE)};
  }
  mt_bulk bulk = {.index = s->index, .items = items, .n = 3 * (size_t)n};
  t->store->docs->bulk(t->store, &bulk);
  if (mt_test_pump(t->store, &bulk.req)) return failed(s, "old documents", &bulk.req.error);
  for (size_t i = 0; i < bulk.n; i++)
    if (items[i].result != MT_WRITE_APPLIED) return failed(s, items[i].reason, &bulk.req.error);
  return true;
}

bool mt_witness_prepare(mt_sweep *s) {
  mt_test_store t;
  if (!mt_test_store_open(&t, &s->part)) return false;
  bool fine = make_tables(s, &t);
  fine = fine && write_old(s, &t, 0, MT_SPARE);
  uint32_t end = MT_SPARE + s->end;
  for (uint32_t at = MT_SPARE + s->first; fine && at < end; at += BATCH)
    fine = write_old(s, &t, at, end - at < BATCH ? end - at : BATCH);
  mt_test_store_close(&t);
  return fine;
}

/* ---- One look ------------------------------------------------------------------------------- */

static void on_acquired(void *ctx, mt_acquire *a) {
  (void)a;
  ((look *)ctx)->acquired = true;
}

static void on_released(void *ctx, mt_release *r) {
  (void)r;
  ((look *)ctx)->released = true;
}

/* Asks once first: a denial there means that the lease must pass, or the session must be proven
 * dead. */
static void ask(witness *w, look *l, int64_t wait_ms) {
  mt_names names = mt_names_of(MT_SPARE + l->number);
  const char *path = names.folder;
  const mortise_lock_request request = {.kind = MORTISE_LOCK_TREE, .paths = &path, .n = 1};
  if (mt_wants_make(&request, &l->wants, NULL)) abort();
  l->acquired = l->releasing = l->released = false;
  l->acquire = (mt_acquire){.done = on_acquired,
                            .ctx = l,
                            .wants = l->wants.wants,
                            .n = l->wants.n,
                            .task = l->number + 1,
                            .wait_ms = wait_ms};
  mt_manager_acquire(w->manager, &l->acquire);
  mt_wants_deinit(&l->wants);
}

/* 0 old, 1 new, -1 neither. */
static int64_t version_of(mt_slice source) {
  mt_json root;
  int64_t v, w;
  if (mt_json_parse(source, "a document", &root, NULL)) return -1;
  bool whole = mt_json_int(mt_json_get(root, "v"), &v) && mt_json_int(mt_json_get(root, "w"), &w) &&
               v == w && (v == 0 || v == 1) && mt_json_is(mt_json_get(root, "pad"), PAD);
  return whole ? v : -1;
}

/* Reads the three documents: which are new, and which are neither old nor new. */
static bool read_documents(witness *w, look *l, uint32_t *is_new, uint32_t *torn) {
  mt_names names = mt_names_of(MT_SPARE + l->number);
  mt_slice ids[3];
  for (int i = 0; i < 3; i++) ids[i] = mt_slice_of(names.ids[i]);
  mt_mget get = {.index = w->s->index, .ids = ids, .n = 3};
  w->docs.store->docs->mget(w->docs.store, &get);
  if (mt_test_pump(w->docs.store, &get.req)) {
    failed(w->s, "reading", &get.req.error);
    mt_mget_deinit(&get);
    return false;
  }
  *is_new = *torn = 0;
  for (int i = 0; i < 3; i++) {
    const mt_doc *doc = &get.page->docs[i];
    int64_t v = doc->found ? version_of(doc->source) : -1;
    if (v < 0) *torn |= 1u << i;
    if (v > 0) *is_new |= 1u << i;
  }
  mt_mget_deinit(&get);
  return true;
}

static void finish(witness *w, look *l) {
  mt_point *p = l->point;
  uint32_t is_new = 0;
  p->read = read_documents(w, l, &is_new, &p->torn);
  p->lost = p->told & 7u & ~is_new;
  atomic_store(&p->state, MT_POINT_CHECKED);
  l->point = NULL;
}

/* Continues with a point whose lock was granted or denied. */
static void follow(witness *w, look *l) {
  if (!l->acquired) return;
  mt_point *p = l->point;
  if (!l->releasing && !l->acquire.lock) {
    bool held = l->acquire.error.code == MORTISE_LOCK_TIMEOUT;
    if (held && !p->denied) {
      p->denied = true;
      ask(w, l, WAIT_MS);
      return;
    }
    /* The witness lost its own session on a stalled machine: try again. */
    if (!held && l->tries++ < TRIES) {
      ask(w, l, WAIT_MS);
      return;
    }
    p->kept = true;
    snprintf(p->message, sizeof p->message, "witness: %s", l->acquire.error.message);
    finish(w, l);
    return;
  }
  if (!l->releasing) {
    p->lock_ms = (int32_t)(mt_now_ms() - l->since_ms);
    l->releasing = true;
    l->release = (mt_release){.done = on_released, .ctx = l, .lock = l->acquire.lock};
    mt_manager_release(w->manager, &l->release);
  }
  if (l->released) finish(w, l);
}

/* ---- All of them ---------------------------------------------------------------------------- */

static bool open_witness(witness *w) {
  mortise_error err = {0};
  mortise_options o;
  mortise_options_init(&o);
  o.store = w->s->part.url;
  o.table = w->s->part.table;
  o.ns = "exhaust";
  o.program = "the witness";
  o.lease_ms = 4000;
  o.margin_ms = MT_MARGIN_MS;
  w->client = mortise_client_open(&o, &err);
  w->manager = w->client ? mt_client_manager(w->client, &err) : NULL;
  if (!w->manager || !mt_test_store_open(&w->docs, &w->s->part))
    return failed(w->s, "the witness", &err);
  return true;
}

static look *free_look(witness *w) {
  for (look *l = w->looks; l < w->looks + LOOKS; l++)
    if (!l->point) return l;
  return NULL;
}

/* Starts checking points that are done. */
static void take_up(witness *w, uint32_t *from) {
  mt_sweep *s = w->s;
  while (*from < s->end && atomic_load(&s->points[*from].state) == MT_POINT_CHECKED) ++*from;
  uint32_t end = *from + WINDOW < s->end ? *from + WINDOW : s->end;
  for (uint32_t i = *from; i < end; i++) {
    if (atomic_load(&s->points[i].state) != MT_POINT_DONE) continue;
    look *l = free_look(w);
    if (!l) return;
    *l = (look){.point = &s->points[i], .number = i};
    atomic_store(&l->point->state, MT_POINT_LOOKED);
    l->since_ms = mt_now_ms();
    ask(w, l, 0);
  }
}

bool mt_witness_run(mt_sweep *s) {
  witness w = {.s = s};
  if (!open_witness(&w)) return false;
  uint32_t from = s->first;
  atomic_store(&s->witness_ready, true);
  while (from < s->end && !s->witness_failed) {
    take_up(&w, &from);
    mt_loop_step(w.client->loop, 5, NULL);
    for (look *l = w.looks; l < w.looks + LOOKS; l++)
      if (l->point) follow(&w, l);
  }
  mortise_client_free(w.client);
  mt_test_store_close(&w.docs);
  return !s->witness_failed;
}
