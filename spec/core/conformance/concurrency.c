/* Many handles on few paths, each in a thread of its own, and afterwards the history: no two that
 * conflict ever held at once, and a later holder's fence is always larger. */
#include "conformance/conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 8, PATHS = 3, HOLDS_MAX = 4000 };

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
  } while (item->result == MT_LOCK_CONFLICT || item->result == MT_LOCK_BUSY);
  if (item->result != MT_LOCK_FAILED && item->result != MT_LOCK_NO_ANSWER) return true;
  snprintf(w->failed, sizeof w->failed, "%s for a verb %d", mt_lock_result_name(item->result),
           (int)item->verb);
  return false;
}

static mt_lock_item random_set(worker *w, unsigned path) {
  mt_mode mode = (mt_mode)(MT_IS + mt_test_below(&w->random, 5));
  return (mt_lock_item){.verb = MT_LOCK_SET,
                        .path = mt_slice_of(paths[path]),
                        .n = ++w->n,
                        .mode = mode,
                        .fresh = true,
                        .enqueue = mt_test_chance(&w->random, 30)};
}

/* A grant, or nothing left of the attempt. */
static bool acquire(worker *w, unsigned path, mt_lock_item *item) {
  *item = random_set(w, path);
  for (unsigned tries = 0; tries < 20; tries++) {
    if (!send_one(w, item)) return false;
    if (item->result == MT_LOCK_ACKED) return true;
    if (item->result != MT_LOCK_QUEUED && !mt_test_chance(&w->random, 50)) break;
    if (mt_test_ns() > w->until) break;
    mt_test_sleep_ms((int64_t)mt_test_below(&w->random, 3));
    item->n = ++w->n;
  }
  mt_lock_item release = {.verb = MT_LOCK_RELEASE, .path = item->path, .n = w->n};
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
  item = (mt_lock_item){.verb = MT_LOCK_RELEASE, .path = item.path, .n = w->n};
  if (!send_one(w, &item)) return false;
  if (item.result == MT_LOCK_ACKED) return true;
  snprintf(w->failed, sizeof w->failed, "a hold was gone before its release");
  return false;
}

static void *worker_main(void *ctx) {
  worker *w = ctx;
  if (!mt_test_store_open(&w->t, w->f->place)) {
    snprintf(w->failed, sizeof w->failed, "no store");
    return NULL;
  }
  while (mt_test_ns() < w->until && w->count < HOLDS_MAX)
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
  int64_t until = mt_test_ns() + 4000000000;
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

const mt_case mt_cases_concurrency[] = {
    {"concurrency: no two that conflict hold at once", history},
    {0},
};
