/* Random batches against a store and the model at once: every answer and the table at the end have
 * to be the same. Short episodes, each in a namespace of its own, so that no place in a queue
 * expires but where the case sleeps for it. */
#include "conformance/conformance.h"
#include "conformance/model.h"

#include <stdio.h>

enum { BATCH_MAX = 6, ITEMS_MIN = 300, TRACE_MAX = 400, EPISODE_MS = 2000, UNSURE_MS = 2800 };

typedef struct episode {
  mt_fixture *f;
  mt_model model;
  uint64_t last_n[MT_MODEL_SESSIONS];
  struct {
    uint64_t writes;
    mt_version version;
  } created[MT_MODEL_PATHS]; /* by the last create */
  mt_model_item trace[TRACE_MAX];
  mt_lock_result seen[TRACE_MAX];
  size_t n_trace;
  int64_t start; /* of the oldest place that may live, ns */
} episode;

static char paths[MT_MODEL_PATHS][1024] = {"/", "/a", "/\xc3\xbc \"b\""};

static void session_name(unsigned session, char out[MT_SESSION_ID]) {
  snprintf(out, MT_SESSION_ID, "%032x", session + 0xa0);
}

static unsigned session_of(const char *name) {
  char expected[MT_SESSION_ID];
  for (unsigned i = 0; i < MT_MODEL_SESSIONS; i++) {
    session_name(i, expected);
    if (!strcmp(expected, name)) return i;
  }
  return MT_MODEL_SESSIONS;
}

/* ---- Drawing an item ---------------------------------------------------------------------------
 */

static uint64_t next_n(episode *e, unsigned session) {
  return e->last_n[session] += 1 + mt_test_below(&e->f->random, 3);
}

static void draw_set(episode *e, mt_model *m, mt_model_item *item) {
  mt_test_random *r = &e->f->random;
  const mt_model_entry *hold = mt_model_holder(&m->locks[item->path], item->session);
  const mt_model_entry *wait = mt_model_waiter(&m->locks[item->path], item->session);
  item->mode = (mt_mode)(MT_IS + mt_test_below(r, 5));
  item->fresh = mt_test_chance(r, hold ? 50 : 88);
  item->enqueue = mt_test_chance(r, 35);
  uint64_t newest = hold ? hold->n : 0;
  if (wait && wait->n > newest) newest = wait->n;
  /* A place that passed may be there still, with a number that is larger than what is repeated. */
  bool faded = m->locks[item->path].dead >> item->session & 1;
  if (faded) {
    item->n = next_n(e, item->session);
  } else if (hold && mt_test_chance(r, 15)) { /* sent twice */
    item->n = hold->n;
    item->mode = hold->mode;
  } else if (newest > 1 && mt_test_chance(r, 10)) { /* sent late */
    item->n = 1 + mt_test_below(r, newest - 1);
    if (hold && item->n == hold->n) item->mode = hold->mode;
  } else {
    item->n = next_n(e, item->session);
  }
}

static void draw_release(episode *e, mt_model *m, mt_model_item *item) {
  const mt_model_entry *hold = mt_model_holder(&m->locks[item->path], item->session);
  item->n = e->last_n[item->session];
  if (hold && mt_test_chance(&e->f->random, 30)) item->n = hold->n;
  if (hold && mt_test_chance(&e->f->random, 15)) item->n = hold->n - 1;
}

/* An adopter has no entry there yet, and the dead one does not wait: recovery comes root to leaf.
 */
static bool may_adopt(mt_model *m, const mt_model_item *item) {
  mt_model_lock *lock = &m->locks[item->path];
  return !mt_model_holder(lock, item->session) && !mt_model_waiter(lock, item->session) &&
         !mt_model_waiter(lock, item->other) &&
         !(lock->dead & (1u << item->other | 1u << item->session));
}

static mt_model_item draw(episode *e, mt_model *m, unsigned session) {
  mt_test_random *r = &e->f->random;
  mt_model_item item = {.session = session, .path = (unsigned)mt_test_below(r, MT_MODEL_PATHS)};
  item.other =
      (session + 1 + (unsigned)mt_test_below(r, MT_MODEL_SESSIONS - 1)) % MT_MODEL_SESSIONS;
  size_t dice = mt_test_below(r, 100);
  item.verb = dice < 52   ? MT_LOCK_SET
              : dice < 78 ? MT_LOCK_RELEASE
              : dice < 87 ? MT_LOCK_CREATE
              : dice < 92 ? MT_LOCK_DELETE
              : dice < 96 ? MT_LOCK_EVICT
                          : MT_LOCK_ADOPT;
  if (item.verb == MT_LOCK_ADOPT && !may_adopt(m, &item)) item.verb = MT_LOCK_RELEASE;
  if (item.verb == MT_LOCK_SET) draw_set(e, m, &item);
  if (item.verb == MT_LOCK_RELEASE) draw_release(e, m, &item);
  if (item.verb == MT_LOCK_DELETE) item.if_writes = e->created[item.path].writes;
  if (item.verb == MT_LOCK_ADOPT || item.verb == MT_LOCK_CREATE) item.n = next_n(e, session);
  if (item.verb == MT_LOCK_CREATE) item.mode = (mt_mode)(MT_IS + mt_test_below(r, 5));
  return item;
}

static mt_lock_item item_for_store(const episode *e, const mt_model_item *item,
                                   char other[MT_SESSION_ID]) {
  session_name(item->other, other);
  mt_lock_item out = {.verb = item->verb,
                      .place.path = mt_slice_of(paths[item->path]),
                      .n = item->n,
                      .mode = item->mode,
                      .fresh = item->fresh,
                      .enqueue = item->enqueue,
                      .ask_queue = true};
  if (item->verb == MT_LOCK_EVICT || item->verb == MT_LOCK_ADOPT) out.session = other;
  if (item->verb == MT_LOCK_DELETE) {
    out.if_version = e->created[item->path].version;
    if (!out.if_version.term) out.if_version = (mt_version){1, 1};
  }
  return out;
}

/* ---- Comparing ---------------------------------------------------------------------------------
 */

static void print_item(const mt_model_item *item, mt_lock_result seen) {
  static const char *const verbs[] = {"create", "set", "release", "delete", "evict", "adopt"};
  print_error("  session %u %s path %u n=%llu %s%s%s other=%u -> %s\n", item->session,
              verbs[item->verb], item->path, (unsigned long long)item->n, mt_mode_name(item->mode),
              item->fresh ? " fresh" : "", item->enqueue ? " enqueue" : "", item->other,
              mt_lock_result_name(seen));
}

/* What led there: all that was done to the same path. */
static void explain(const episode *e, unsigned path) {
  for (size_t i = 0; i < e->n_trace; i++)
    if (e->trace[i].path == path) print_item(&e->trace[i], e->seen[i]);
}

#define AGREE(e, path_, condition, ...)                                                            \
  do {                                                                                             \
    if (!(condition)) explain(e, path_);                                                           \
    MT_CHECK(condition, __VA_ARGS__);                                                              \
  } while (0)

static bool names(const mt_lock_item *seen, unsigned session, mt_mode mode, bool queued) {
  for (size_t i = 0; i < seen->n_blockers; i++) {
    const mt_lock_entry *b = &seen->blockers[i];
    if (session_of(b->session) == session && b->mode == mode && b->queued == queued) return true;
  }
  return false;
}

static void compare(episode *e, const mt_model_item *item, const mt_lock_item *seen,
                    mt_model_answer want) {
  AGREE(e, item->path, seen->result == want.result, "the model says %s",
        mt_lock_result_name(want.result));
  if (want.result == MT_LOCK_DENIED || want.result == MT_LOCK_QUEUED) {
    AGREE(e, item->path, seen->n_blockers == want.n_blockers, "%zu blockers, not %zu",
          seen->n_blockers, want.n_blockers);
    for (size_t i = 0; i < want.n_blockers; i++)
      AGREE(e, item->path,
            names(seen, want.blockers[i].session, want.blockers[i].mode, want.blockers[i].queued),
            "does not name session %u", want.blockers[i].session);
  }
  if (want.result == MT_LOCK_QUEUED)
    AGREE(e, item->path, seen->ahead == want.ahead, "%u ahead, not %u", seen->ahead, want.ahead);
  if (want.result != MT_LOCK_ACKED) return;
  bool grants =
      item->verb == MT_LOCK_SET || item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_ADOPT;
  if (!grants) return;
  uint64_t fence = mt_version_fence(seen->version);
  AGREE(e, item->path, fence > e->f->last_fence, "fence %llu after %llu", (unsigned long long)fence,
        (unsigned long long)e->f->last_fence);
  e->f->last_fence = fence;
  if (item->verb == MT_LOCK_SET)
    AGREE(e, item->path, seen->contended == want.contended, "contended: %d", seen->contended);
}

static void follow(episode *e, const mt_model_item *item, const mt_lock_item *seen) {
  e->trace[e->n_trace] = *item;
  e->seen[e->n_trace++] = seen->result;
  mt_model_answer want = mt_model_apply(&e->model, item);
  if (want.instead && seen->result == want.instead)
    mt_model_apply_instead(&e->model, item);
  else
    compare(e, item, seen, want);
  if (item->verb != MT_LOCK_CREATE || seen->result != MT_LOCK_ACKED) return;
  e->f->last_fence = mt_version_fence(seen->version);
  e->created[item->path].writes = e->model.locks[item->path].writes;
  e->created[item->path].version = seen->version;
}

/* ---- The table at the end -----------------------------------------------------------------------
 */

static bool listed_in(json_t *list, const mt_model_entry *entry) {
  char name[MT_SESSION_ID];
  size_t i;
  json_t *row;
  session_name(entry->session, name);
  json_array_foreach(list, i, row) {
    if (strcmp(json_string_value(json_object_get(row, "session")), name)) continue;
    return (uint64_t)json_integer_value(json_object_get(row, "n")) == entry->n &&
           !strcmp(json_string_value(json_object_get(row, "mode")), mt_mode_name(entry->mode));
  }
  return false;
}

static json_t *find_path(json_t *list, const char *path) {
  size_t i;
  json_t *lock;
  json_array_foreach(json_object_get(list, "locks"), i, lock) {
    if (!strcmp(json_string_value(json_object_get(lock, "path")), path)) return lock;
  }
  return NULL;
}

static void compare_lock(episode *e, unsigned path, json_t *row) {
  const mt_model_lock *lock = &e->model.locks[path];
  json_t *holders = json_object_get(row, "holders"), *queue = json_object_get(row, "queue");
  size_t i, extra = json_array_size(queue) - lock->n_queue;
  json_t *waiter;
  AGREE(e, path, json_array_size(holders) == lock->n_holders, "%zu holders listed, not %zu",
        json_array_size(holders), lock->n_holders);
  for (i = 0; i < lock->n_holders; i++)
    AGREE(e, path, listed_in(holders, &lock->holders[i]), "session %u is not listed",
          lock->holders[i].session);
  for (i = 0; i < lock->n_queue; i++)
    AGREE(e, path, listed_in(queue, &lock->queue[i]), "waiter %u is not listed",
          lock->queue[i].session);
  json_array_foreach(queue, i, waiter) {
    unsigned session = session_of(json_string_value(json_object_get(waiter, "session")));
    extra -= lock->dead >> session & 1;
  }
  AGREE(e, path, extra == 0, "%zu waiters listed, not %zu", json_array_size(queue), lock->n_queue);
  if (!row) return;
  AGREE(e, path, json_array_size(holders) + json_array_size(queue) > 0,
        "an empty document was left");
}

static void compare_table(episode *e) {
  json_t *list = mt_list(e->f, e->f->ns);
  for (unsigned path = 0; path < MT_MODEL_PATHS; path++)
    compare_lock(e, path, find_path(list, paths[path]));
  json_decref(list);
}

/* ---- Episodes -----------------------------------------------------------------------------------
 */

static int64_t elapsed_ms(const episode *e) {
  return (mt_test_ns() - e->start) / 1000000;
}

/* false: it took so long that places in the queue may have expired; nothing is compared then. */
static bool run_batch(episode *e) {
  mt_model scratch = e->model;
  mt_model_item drawn[BATCH_MAX];
  mt_lock_item items[BATCH_MAX];
  char others[BATCH_MAX][MT_SESSION_ID], session[MT_SESSION_ID];
  unsigned actor = (unsigned)mt_test_below(&e->f->random, MT_MODEL_SESSIONS);
  size_t n = 0, most = 1 + mt_test_below(&e->f->random, BATCH_MAX);
  for (bool sure = true; sure && n < most; n++) {
    drawn[n] = draw(e, &scratch, actor);
    items[n] = item_for_store(e, &drawn[n], others[n]);
    sure = !mt_model_apply(&scratch, &drawn[n]).instead;
  }
  session_name(actor, session);
  mt_lock_batch r = {.ns = e->f->ns, .session = session, .items = items, .n = n};
  e->f->s->locks->batch(e->f->s, &r);
  MT_OK(e->f, r);
  bool in_time = elapsed_ms(e) < UNSURE_MS;
  for (size_t i = 0; in_time && i < n; i++) follow(e, &drawn[i], &items[i]);
  mt_lock_batch_deinit(&r);
  return in_time;
}

static size_t run_episode(mt_fixture *f, unsigned sleeps) {
  static episode e;
  e = (episode){.f = f, .start = mt_test_ns()};
  while (e.n_trace < TRACE_MAX - BATCH_MAX && (elapsed_ms(&e) < EPISODE_MS || sleeps)) {
    if (sleeps && (elapsed_ms(&e) >= EPISODE_MS || mt_test_chance(&f->random, 5))) {
      sleeps--;
      mt_test_sleep_ms(MT_QUEUE_LIFE_MS + 100);
      mt_model_sleep(&e.model, MT_QUEUE_LIFE_MS + 100);
      e.start = mt_test_ns();
    }
    if (!run_batch(&e)) return e.n_trace;
  }
  compare_table(&e);
  return e.n_trace;
}

static void random_batches(mt_fixture *f) {
  size_t items = 0, most = f->place->elastic ? 1500 : 12000;
  char ns[64];
  snprintf(ns, sizeof ns, "%.40s", f->ns);
  memset(paths[3], 'x', 800);
  paths[3][0] = '/';
  int64_t end = mt_test_ns() + (int64_t)(f->place->elastic ? 12 : 6) * 1000000000;
  unsigned count = 0;
  /* On a busy machine longer, until there is something to judge. */
  int64_t at_most = end + (int64_t)MT_TEST_HANG_MS * 1000000;
  for (; items < most && mt_test_ns() < (items < ITEMS_MIN ? at_most : end); count++) {
    snprintf(f->ns, sizeof f->ns, "%.40s-%u", ns, count);
    items += run_episode(f, count == 1 ? 1 : 0);
  }
  printf("# %zu items in %u episodes\n", items, count);
  MT_CHECK(items >= ITEMS_MIN, "only %zu items", items);
}

const mt_case mt_cases_model[] = {
    {"model: random batches", random_batches},
    {0},
};
