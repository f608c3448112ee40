/* Many handles on few paths, each in a thread of its own, and afterwards the history: no two that
 * conflict ever held at once, and a later holder's fence is always larger. */
#include "conformance/conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 8, PATHS = 3, HOLDS_MIN = 7, HOLDS_MAX = 4000 };

typedef struct hold {
  int64_t from, to; /* ns: believed from the acknowledgement until the release is sent */
  uint64_t fence;
  mt_mode mode;
  unsigned path, worker;
} hold;

typedef struct worker {
  const mt_fixture *f;
  unsigned index;
  int64_t until; /* ns */
  pthread_t thread;
  mt_test_store t;
  mt_test_random random;
  char session[MT_SESSION_ID];
  uint64_t n;
  hold holds[HOLDS_MAX];
  size_t count, asked;
  char failed[200];
} worker;

static const char *const paths[PATHS] = {"/", "/a", "/a/b"};

static bool send_batch(worker *w, mt_lock_item *items, size_t n) {
  mt_lock_batch r = {.ns = w->f->ns, .session = w->session, .items = items, .n = n};
  w->t.store->locks->batch(w->t.store, &r);
  mortise_status status = mt_test_pump(w->t.store, &r.req);
  if (status) snprintf(w->failed, sizeof w->failed, "%.190s", r.req.error.message);
  mt_lock_batch_deinit(&r);
  w->asked++;
  return !status;
}

static bool send_one(worker *w, mt_lock_item *item) {
  do {
    if (!send_batch(w, item, 1)) return false;
  } while ((item->result == MT_LOCK_CONFLICT && item->verb != MT_LOCK_DELETE) ||
           item->result == MT_LOCK_BUSY);
  if (item->result != MT_LOCK_FAILED && item->result != MT_LOCK_NO_ANSWER) return true;
  snprintf(w->failed, sizeof w->failed, "%s for a verb %d", mt_lock_result_name(item->result),
           (int)item->verb);
  return false;
}

static mt_lock_item random_set(worker *w, unsigned path) {
  mt_mode mode = (mt_mode)(MT_IS + mt_test_below(&w->random, 5));
  return (mt_lock_item){.verb = MT_LOCK_SET,
                        .place.path = mt_slice_of(paths[path]),
                        .n = ++w->n,
                        .mode = mode,
                        .fresh = true,
                        .enqueue = mt_test_chance(&w->random, 30)};
}

/* Takes a leaf by a plain create first, to be given back by a delete with its version. */
static bool create(worker *w, unsigned path, mt_lock_item *item) {
  *item = (mt_lock_item){
      .verb = MT_LOCK_CREATE, .place.path = mt_slice_of(paths[path]), .n = ++w->n, .mode = MT_X};
  return send_one(w, item);
}

static bool give_back(worker *w, const mt_lock_item *granted) {
  mt_lock_item item = {
      .verb = MT_LOCK_DELETE, .place = granted->place, .if_version = granted->version};
  if (granted->verb == MT_LOCK_CREATE) {
    if (!send_one(w, &item)) return false;
    if (item.result == MT_LOCK_ACKED) return true;
  }
  item = (mt_lock_item){.verb = MT_LOCK_RELEASE, .place = granted->place, .n = w->n};
  if (!send_one(w, &item)) return false;
  if (item.result == MT_LOCK_ACKED) return true;
  snprintf(w->failed, sizeof w->failed, "a hold was gone before its release");
  return false;
}

/* Gets a grant, or leaves nothing of the attempt. */
static bool acquire(worker *w, unsigned path, mt_lock_item *item) {
  if (mt_test_chance(&w->random, 30)) {
    if (!create(w, path, item)) return false;
    if (item->result == MT_LOCK_ACKED) return true;
  }
  *item = random_set(w, path);
  for (unsigned tries = 0; tries < 20; tries++) {
    if (!send_one(w, item)) return false;
    if (item->result == MT_LOCK_ACKED) return true;
    if (item->result != MT_LOCK_QUEUED && !mt_test_chance(&w->random, 50)) break;
    if (mt_test_ns() > w->until) break;
    mt_test_sleep_ms((int64_t)mt_test_below(&w->random, 3));
    item->n = ++w->n;
  }
  mt_lock_item release = {.verb = MT_LOCK_RELEASE, .place = item->place, .n = w->n};
  return send_one(w, &release);
}

static bool hold_once(worker *w) {
  unsigned path = (unsigned)mt_test_below(&w->random, PATHS);
  mt_lock_item item;
  if (!acquire(w, path, &item)) return false;
  if (item.result != MT_LOCK_ACKED) return true;
  hold *h = &w->holds[w->count++];
  *h = (hold){.from = mt_test_ns(),
              .fence = mt_version_fence(item.version),
              .mode = item.mode,
              .path = path,
              .worker = w->index};
  if (mt_test_chance(&w->random, 50)) mt_test_sleep_ms((int64_t)mt_test_below(&w->random, 4));
  h->to = mt_test_ns();
  return give_back(w, &item);
}

static void *worker_main(void *ctx) {
  worker *w = ctx;
  if (!mt_test_store_open(&w->t, w->f->place)) {
    snprintf(w->failed, sizeof w->failed, "no store");
    return NULL;
  }
  /* On a busy machine longer, until there is something to judge. */
  int64_t at_most = w->until + (int64_t)MT_TEST_HANG_MS * 1000000;
  while (mt_test_ns() < (w->count < HOLDS_MIN ? at_most : w->until) && w->count < HOLDS_MAX)
    if (!hold_once(w)) break;
  mt_test_store_close(&w->t);
  return NULL;
}

static int by_start(const void *a, const void *b) {
  const hold *x = a, *y = b;
  return x->from < y->from ? -1 : x->from > y->from;
}

static void check_pair(const hold *a, const hold *b) {
  if (a->path != b->path || a->worker == b->worker || mt_mode_compatible(a->mode, b->mode)) return;
  MT_CHECK(b->from >= a->to, "%s and %s both held %s", mt_mode_name(a->mode), mt_mode_name(b->mode),
           paths[a->path]);
  MT_CHECK(b->fence > a->fence, "on %s fence %llu came after %llu", paths[a->path],
           (unsigned long long)b->fence, (unsigned long long)a->fence);
}

static void check_history(hold *all, size_t n) {
  qsort(all, n, sizeof *all, by_start);
  for (size_t i = 0; i < n; i++)
    for (size_t k = i + 1; k < n && k < i + 200; k++) check_pair(&all[i], &all[k]);
}

static void history(mt_fixture *f) {
  static worker workers[WORKERS];
  static hold all[WORKERS * HOLDS_MAX];
  size_t n = 0, asked = 0;
  int64_t until = mt_test_ns() + 3000000000;
  for (unsigned i = 0; i < WORKERS; i++) {
    worker *w = &workers[i];
    char name[32];
    snprintf(name, sizeof name, "worker %u", i);
    *w = (worker){.f = f, .index = i, .until = until, .random = mt_test_random_for(name)};
    snprintf(w->session, sizeof w->session, "%032x", i + 1);
    MT_CHECK(!pthread_create(&w->thread, NULL, worker_main, w), "a thread");
  }
  for (unsigned i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
  for (unsigned i = 0; i < WORKERS; i++) {
    MT_CHECK(!workers[i].failed[0], "worker %u: %s", i, workers[i].failed);
    memcpy(&all[n], workers[i].holds, workers[i].count * sizeof *all);
    n += workers[i].count;
    asked += workers[i].asked;
  }
  printf("# %zu holds, %zu requests\n", n, asked);
  MT_CHECK(n > 50, "only %zu holds", n);
  check_history(all, n);
  json_t *list = mt_list(f, f->ns);
  MT_CHECK(json_array_size(json_object_get(list, "locks")) == 0, "all was given back");
  json_decref(list);
}

/* ---- A session's life against those who would end it
 * --------------------------------------------- */

enum { ENDERS = 3 };

typedef struct ender {
  const mt_fixture *f;
  pthread_t thread;
  bool beats; /* the owner */
  unsigned acked;
  uint64_t last; /* fence of its last acknowledged write */
  char failed[200];
} ender;

static bool session_write(ender *x, mt_store *s, mt_session_write *w) {
  w->ns = x->f->ns;
  w->session = mt_a;
  s->locks->session(s, w);
  mortise_status status = mt_test_pump(s, &w->req);
  if (status) snprintf(x->failed, sizeof x->failed, "%.190s", w->req.error.message);
  if (status || w->result != MT_SESSION_ACKED) return false;
  x->acked++;
  x->last = mt_version_fence(w->version);
  return true;
}

static void beat_until_refused(ender *x, mt_store *s) {
  int64_t end = mt_test_ns() + 10000000000;
  mt_session_write w;
  do w = (mt_session_write){.verb = MT_SESSION_BEAT};
  while (session_write(x, s, &w) && mt_test_ns() < end);
  if (!x->failed[0] && w.result == MT_SESSION_ACKED)
    snprintf(x->failed, sizeof x->failed, "it beats for ever");
}

/* Expires the version it has just read, until that succeeds or someone else has done it. */
static void expire_when_seen(ender *x, mt_store *s) {
  const char *id = mt_a;
  for (mt_session_state state = MT_SESSION_LIVE; state == MT_SESSION_LIVE && !x->failed[0];) {
    mt_session_read r = {.ns = x->f->ns, .ids = &id, .n = 1};
    s->locks->session_read(s, &r);
    mortise_status status = mt_test_pump(s, &r.req);
    if (status) snprintf(x->failed, sizeof x->failed, "%.190s", r.req.error.message);
    state = status ? MT_SESSION_MISSING : r.docs[0].state;
    mt_session_write w = {.verb = MT_SESSION_EXPIRE, .lease_ms = 60000};
    if (!status) w.if_version = r.docs[0].version;
    mt_session_read_deinit(&r);
    if (state == MT_SESSION_LIVE && session_write(x, s, &w)) return;
  }
}

static void *ender_main(void *ctx) {
  ender *x = ctx;
  mt_test_store t;
  if (!mt_test_store_open(&t, x->f->place)) {
    snprintf(x->failed, sizeof x->failed, "no store");
    return NULL;
  }
  if (x->beats)
    beat_until_refused(x, t.store);
  else
    expire_when_seen(x, t.store);
  mt_test_store_close(&t);
  return NULL;
}

static void one_ends_it(mt_fixture *f) {
  for (unsigned round = 0; round < 5; round++) {
    ender all[ENDERS + 1] = {{.beats = true}};
    snprintf(f->ns, sizeof f->ns, "ends-%u", round);
    mt_session_write open = {
        .verb = MT_SESSION_OPEN, .session = mt_a, .owner = MT_SLICE("{}"), .lease_ms = 60000};
    MT_CHECK(mt_session_do(f, open, NULL) == MT_SESSION_ACKED, "opened");
    for (unsigned i = 0; i <= ENDERS; i++) {
      all[i].f = f;
      MT_CHECK(!pthread_create(&all[i].thread, NULL, ender_main, &all[i]), "a thread");
    }
    unsigned ended = 0;
    uint64_t last = 0;
    for (unsigned i = 0; i <= ENDERS; i++) pthread_join(all[i].thread, NULL);
    for (unsigned i = 0; i <= ENDERS; i++) {
      MT_CHECK(!all[i].failed[0], "%s", all[i].failed);
      if (i) ended += all[i].acked;
      if (i && all[i].acked) last = all[i].last;
    }
    MT_CHECK(ended == 1, "expired by %u", ended);
    MT_CHECK(all[0].last < last, "no beat is acknowledged after the expiry");
  }
}

/* ---- Compare-and-set of documents
 * ---------------------------------------------------------------- */

enum { ADDERS = 4, ADDED = 25 };

typedef struct adder {
  const mt_fixture *f;
  pthread_t thread;
  unsigned done, conflicts;
  char failed[200];
} adder;

/* One more, by what was read; false on an error. */
static bool add_one(adder *x, mt_store *s) {
  mt_slice id = MT_SLICE("counter");
  long long value = -1;
  mt_mget get = {.index = x->f->index, .ids = &id, .n = 1};
  s->docs->mget(s, &get);
  if (mt_test_pump(s, &get.req) || !get.page->docs[0].found) return false;
  mt_version version = get.page->docs[0].version;
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)get.page->docs[0].source.n, get.page->docs[0].source.p);
  mt_mget_deinit(&get);
  if (sscanf(text, "{\"value\":%lld}", &value) != 1) return false;
  snprintf(text, sizeof text, "{\"value\":%lld}", value + 1);
  mt_write w = mt_write_of(MT_WRITE_INDEX, "counter", text);
  w.if_version = version;
  mt_bulk bulk = {.index = x->f->index, .items = &w, .n = 1};
  s->docs->bulk(s, &bulk);
  if (mt_test_pump(s, &bulk.req)) return false;
  x->done += w.result == MT_WRITE_APPLIED;
  x->conflicts += w.result == MT_WRITE_CONFLICT;
  return w.result == MT_WRITE_APPLIED || w.result == MT_WRITE_CONFLICT;
}

static void *adder_main(void *ctx) {
  adder *x = ctx;
  mt_test_store t;
  if (!mt_test_store_open(&t, x->f->place)) return NULL;
  while (x->done < ADDED && add_one(x, t.store)) {
  }
  mt_test_store_close(&t);
  return NULL;
}

static void no_update_lost(mt_fixture *f) {
  static adder all[ADDERS];
  unsigned conflicts = 0;
  mt_make_index(f, 1);
  mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "counter", "{\"value\":0}"));
  for (unsigned i = 0; i < ADDERS; i++) {
    all[i] = (adder){.f = f};
    MT_CHECK(!pthread_create(&all[i].thread, NULL, adder_main, &all[i]), "a thread");
  }
  for (unsigned i = 0; i < ADDERS; i++) pthread_join(all[i].thread, NULL);
  for (unsigned i = 0; i < ADDERS; i++) {
    MT_CHECK(all[i].done == ADDED, "adder %u stopped at %u", i, all[i].done);
    conflicts += all[i].conflicts;
  }
  mt_buf seen;
  mt_buf_init(&seen, 4096);
  mt_get(f, MT_SLICE("counter"), &seen, NULL);
  MT_CHECK(mt_same_json(mt_buf_slice(&seen), "{\"value\":100}"), "%s after %u conflicts", seen.p,
           conflicts);
  mt_buf_deinit(&seen);
}

const mt_case mt_cases_concurrency[] = {
    {"concurrency: no two that conflict hold at once", history},
    {"concurrency: one ends a session, and then it is ended", one_ends_it},
    {"concurrency: compare-and-set loses no update", no_update_lost},
    {0},
};
