/* The verbs of a lock batch: who is granted what, and what is left in the table. */
#include "conformance/conformance.h"

#include "base/mem.h"

#include <stdio.h>

static void matrix(mt_fixture *f) {
  char path[64];
  for (mt_mode held = MT_IS; held <= MT_X; held++) {
    for (mt_mode want = MT_IS; want <= MT_X; want++) {
      snprintf(path, sizeof path, "/m/%s-%s", mt_mode_name(held), mt_mode_name(want));
      MT_RESULT(mt_set(f, mt_a, path, 1, held), MT_LOCK_ACKED);
      mt_lock_result seen = mt_set(f, mt_b, path, 1, want);
      bool fits = mt_mode_compatible(held, want);
      MT_CHECK(seen == (fits ? MT_LOCK_ACKED : MT_LOCK_DENIED), "%s: %s", path,
               mt_lock_result_name(seen));
      if (fits) continue;
      MT_CHECK(f->item.n_blockers == 1, "%s: %zu blockers", path, f->item.n_blockers);
      MT_CHECK(mt_blocked_by(f, mt_a, held, false), "%s: names the holder", path);
      MT_CHECK(f->item.blockers[0].n == 1, "%s: and its number", path);
      MT_RESULT(mt_release(f, mt_b, path, 1), MT_LOCK_ABSENT);
    }
  }
}

static void blockers_named(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/p", 3, MT_IS), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/p", 4, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_c, "/p", 5, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_d, "/p", 6, MT_S), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 2, "those that conflict, not all: %zu", f->item.n_blockers);
  MT_CHECK(mt_blocked_by(f, mt_b, MT_IX, false) && mt_blocked_by(f, mt_c, MT_IX, false), "both");
}

static void blockers_are_capped(mt_fixture *f) {
  char session[MT_SESSION_ID];
  for (unsigned i = 0; i < 80; i++) {
    snprintf(session, sizeof session, "%032x", i + 1);
    MT_RESULT(mt_set(f, session, "/crowd", 1, MT_IX), MT_LOCK_ACKED);
  }
  MT_RESULT(mt_set(f, mt_a, "/crowd", 1, MT_X), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == MT_BLOCKERS_MAX, "%zu", f->item.n_blockers);
}

static void numbers(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/n", 5, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/n", 5, MT_IX),
            MT_LOCK_ACKED); /* with a larger fence: mt_lock checks */
  MT_RESULT(mt_set_again(f, mt_a, "/n", 5, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/n", 4, MT_X), MT_LOCK_STALE);
  MT_RESULT(mt_set_again(f, mt_a, "/n", 4, MT_X), MT_LOCK_STALE);
  MT_RESULT(mt_set(f, mt_b, "/n", 1, MT_IX), MT_LOCK_ACKED); /* so the late X changed nothing */
  MT_RESULT(mt_release(f, mt_b, "/n", 1), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/n", 6, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/n", 2, MT_IS), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && f->item.blockers[0].n == 6, "one entry a session");
  MT_RESULT(mt_set_again(f, mt_a, "/n", 7, MT_IS), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/n", 3, MT_SIX), MT_LOCK_ACKED);
}

static void lost_holds(mt_fixture *f) {
  MT_RESULT(mt_set_again(f, mt_a, "/lost", 1, MT_IX), MT_LOCK_STALE);
  MT_RESULT(mt_make(f, mt_b, "/lost", 1, MT_IX), MT_LOCK_ACKED);      /* no document was left */
  MT_RESULT(mt_set_again(f, mt_a, "/lost", 2, MT_IX), MT_LOCK_STALE); /* nor an entry */
  MT_RESULT(mt_release(f, mt_a, "/lost", 2), MT_LOCK_ABSENT);
  mt_lock_item item = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/lost"), .n = 3, .mode = MT_X, .enqueue = true};
  MT_RESULT(mt_lock(f, mt_a, item), MT_LOCK_STALE); /* nor a place in the queue */
  MT_RESULT(mt_set(f, mt_c, "/lost", 1, MT_IX), MT_LOCK_ACKED);
}

static void upgrades(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/u", 1, MT_S), MT_LOCK_ACKED);
  MT_RESULT(mt_set_again(f, mt_a, "/u", 2, MT_SIX), MT_LOCK_ACKED); /* my own S is no obstacle */
  MT_RESULT(mt_set_again(f, mt_a, "/u", 3, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_set_again(f, mt_a, "/u", 4, MT_S), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/u", 1, MT_S), MT_LOCK_ACKED);
  MT_RESULT(mt_set_again(f, mt_a, "/u", 5, MT_SIX), MT_LOCK_DENIED); /* but another's is */
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_b, MT_S, false), "the other S");
  MT_RESULT(mt_set(f, mt_c, "/u", 1, MT_IX), MT_LOCK_DENIED); /* a's S is still there */
  MT_CHECK(f->item.n_blockers == 2, "%zu", f->item.n_blockers);
  MT_RESULT(mt_release(f, mt_b, "/u", 1), MT_LOCK_ACKED);
  MT_RESULT(mt_set_again(f, mt_a, "/u", 6, MT_SIX), MT_LOCK_ACKED);
}

static void releases(mt_fixture *f) {
  MT_RESULT(mt_release(f, mt_a, "/r", 9), MT_LOCK_ABSENT);
  MT_RESULT(mt_set(f, mt_a, "/r", 5, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/r", 7, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_a, "/r", 4), MT_LOCK_ABSENT); /* a late one leaves the newer hold */
  MT_RESULT(mt_set_again(f, mt_a, "/r", 6, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_a, "/r", 5), MT_LOCK_ABSENT);
  MT_RESULT(mt_release(f, mt_a, "/r", 8), MT_LOCK_ACKED); /* all up to 8 */
  MT_RESULT(mt_release(f, mt_a, "/r", 8), MT_LOCK_ABSENT);
  MT_RESULT(mt_set(f, mt_c, "/r", 1, MT_S), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_b, MT_IX, false), "b is untouched");
  MT_RESULT(mt_release(f, mt_b, "/r", 7), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/r"), "an empty document vanishes");
  MT_RESULT(mt_make(f, mt_c, "/r", 2, MT_X), MT_LOCK_ACKED);
}

static void creates(mt_fixture *f) {
  MT_RESULT(mt_make(f, mt_a, "/c", 1, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_make(f, mt_b, "/c", 1, MT_X), MT_LOCK_EXISTS);
  MT_RESULT(mt_make(f, mt_b, "/c", 2, MT_IS), MT_LOCK_EXISTS);
  MT_RESULT(mt_make(f, mt_a, "/c", 1, MT_X), MT_LOCK_EXISTS); /* it may be my own */
  MT_RESULT(mt_set(f, mt_b, "/c", 3, MT_IS), MT_LOCK_DENIED);
  MT_CHECK(mt_blocked_by(f, mt_a, MT_X, false), "the creator holds it");
  MT_RESULT(mt_set(f, mt_a, "/c", 1, MT_X), MT_LOCK_ACKED); /* the same number: proved mine */
  MT_RESULT(mt_set_again(f, mt_a, "/c", 2, MT_IS), MT_LOCK_ACKED);
  MT_RESULT(mt_make(f, mt_b, "/c", 4, MT_IS), MT_LOCK_EXISTS); /* even if compatible */
  MT_RESULT(mt_release(f, mt_a, "/c", 2), MT_LOCK_ACKED);
  MT_RESULT(mt_make(f, mt_b, "/c", 5, MT_X), MT_LOCK_ACKED);
}

static void deletes(mt_fixture *f) {
  MT_RESULT(mt_delete(f, mt_a, "/d", (mt_version){1, 1}), MT_LOCK_CONFLICT);
  MT_RESULT(mt_make(f, mt_a, "/d", 1, MT_X), MT_LOCK_ACKED);
  mt_version made = f->item.version;
  MT_RESULT(mt_delete(f, mt_a, "/d", (mt_version){made.seq_no + 7, made.term}), MT_LOCK_CONFLICT);
  MT_RESULT(mt_set(f, mt_b, "/d", 1, MT_X), MT_LOCK_DENIED); /* writes nothing */
  MT_RESULT(mt_delete(f, mt_a, "/d", made), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/d"), "it is gone");
  MT_RESULT(mt_make(f, mt_a, "/d", 2, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_delete(f, mt_a, "/d", made), MT_LOCK_CONFLICT); /* the version of an earlier one */
  MT_RESULT(mt_set_again(f, mt_a, "/d", 2, MT_X), MT_LOCK_ACKED);
  made = f->item.version;
  MT_RESULT(mt_delete(f, mt_a, "/d", made), MT_LOCK_ACKED);
}

static void delete_of_touched(mt_fixture *f) {
  MT_RESULT(mt_make(f, mt_a, "/t", 1, MT_IX), MT_LOCK_ACKED);
  mt_version made = f->item.version;
  MT_RESULT(mt_set(f, mt_b, "/t", 1, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_delete(f, mt_a, "/t", made), MT_LOCK_CONFLICT);
  MT_RESULT(mt_set(f, mt_c, "/t", 1, MT_S), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 2, "both holds remain: %zu", f->item.n_blockers);
  MT_RESULT(mt_release(f, mt_b, "/t", 1), MT_LOCK_ACKED);
  MT_RESULT(mt_delete(f, mt_a, "/t", made), MT_LOCK_CONFLICT); /* touched is touched */
  MT_RESULT(mt_make(f, mt_a, "/q", 2, MT_X), MT_LOCK_ACKED);
  made = f->item.version;
  MT_RESULT(mt_set_queue(f, mt_b, "/q", 2, MT_X), MT_LOCK_QUEUED);
  MT_RESULT(mt_delete(f, mt_a, "/q", made), MT_LOCK_CONFLICT); /* a waiter keeps its place */
}

static void evicts(mt_fixture *f) {
  MT_RESULT(mt_evict(f, mt_d, "/e", mt_a), MT_LOCK_ABSENT);
  MT_RESULT(mt_set(f, mt_a, "/e", 9, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/e", 8, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_evict(f, mt_d, "/e", mt_c), MT_LOCK_ABSENT);
  MT_RESULT(mt_evict(f, mt_d, "/e", mt_a), MT_LOCK_ACKED);
  MT_RESULT(mt_set_again(f, mt_a, "/e", 10, MT_IX), MT_LOCK_STALE); /* it learns of it */
  MT_RESULT(mt_set(f, mt_d, "/e", 1, MT_S), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_b, MT_IX, false), "only b is left");
  MT_RESULT(mt_evict(f, mt_d, "/e", mt_b), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/e"), "an empty document vanishes");
}

static void evicts_waiters(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/w", 1, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/w", 1, MT_IS), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_b, "/w", 2, MT_X), MT_LOCK_QUEUED);
  MT_RESULT(mt_set(f, mt_c, "/w", 1, MT_IX), MT_LOCK_DENIED);
  MT_RESULT(mt_evict(f, mt_d, "/w", mt_b), MT_LOCK_ACKED); /* the hold and the place in the queue */
  MT_RESULT(mt_set(f, mt_c, "/w", 2, MT_IX), MT_LOCK_ACKED);
}

static void adopts(mt_fixture *f) {
  MT_RESULT(mt_adopt(f, mt_b, "/a", 1, mt_a), MT_LOCK_ABSENT);
  MT_CHECK(!mt_listed(f, "/a"), "and makes no document");
  MT_RESULT(mt_set(f, mt_a, "/a", 4, MT_SIX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_c, "/a", 4, MT_IS), MT_LOCK_ACKED);
  MT_RESULT(mt_adopt(f, mt_b, "/a", 2, mt_a), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_d, "/a", 1, MT_IX), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_b, MT_SIX, false),
           "the same mode, mine now");
  MT_CHECK(f->item.blockers[0].n == 2, "with my number");
  MT_RESULT(mt_set_again(f, mt_a, "/a", 5, MT_SIX), MT_LOCK_STALE);
  MT_RESULT(mt_release(f, mt_a, "/a", 5), MT_LOCK_ABSENT);
  MT_RESULT(mt_set_again(f, mt_b, "/a", 3, MT_X), MT_LOCK_DENIED);
  MT_RESULT(mt_release(f, mt_b, "/a", 2), MT_LOCK_ACKED);
}

/* As the owner of a job does it. */
static mt_lock_result set_for(mt_fixture *f, const char *job, const char *session, const char *path,
                              uint64_t n, mt_mode mode, bool enqueue) {
  mt_lock_item item = {.verb = MT_LOCK_SET,
                       .place.path = mt_slice_of(path),
                       .n = n,
                       .mode = mode,
                       .fresh = true,
                       .enqueue = enqueue};
  mt_lock_batch r = {.ns = f->ns, .session = session, .job = job, .items = &item, .n = 1};
  f->s->locks->batch(f->s, &r);
  MT_OK(f, r);
  mt_lock_batch_deinit(&r);
  return item.result;
}

/* What a dead session held for a job goes by its own release, by adoption, or as a person decides. */
static void keeps_guards(mt_fixture *f) {
  MT_RESULT(set_for(f, "j", mt_a, "/g", 1, MT_IX, false), MT_LOCK_ACKED);
  MT_RESULT(set_for(f, "", mt_b, "/g", 1, MT_IX, false), MT_LOCK_ACKED); /* no job */
  MT_RESULT(mt_evict(f, mt_d, "/g", mt_a), MT_LOCK_ABSENT);
  MT_RESULT(mt_evict(f, mt_d, "/g", mt_b), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_d, "/g", 1, MT_S), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && mt_blocked_by(f, mt_a, MT_IX, false), "it stands");
  MT_CHECK(!strcmp(f->item.blockers[0].job, "j"), "and says whose it is");
  MT_RESULT(set_for(f, "j", mt_c, "/g", 1, MT_X, true), MT_LOCK_QUEUED);
  MT_RESULT(mt_evict(f, mt_d, "/g", mt_c), MT_LOCK_ACKED); /* a place in the queue guards nothing */
  MT_RESULT(set_for(f, "j", mt_a, "/g", 2, MT_SIX, false), MT_LOCK_ACKED);
  MT_RESULT(set_for(f, "j", mt_c, "/g", 2, MT_IS, false), MT_LOCK_ACKED);
  MT_RESULT(set_for(f, "j", mt_c, "/g", 3, MT_S, true), MT_LOCK_QUEUED);
  MT_RESULT(mt_evict(f, mt_d, "/g", mt_c), MT_LOCK_ACKED); /* its hold stays */
  MT_RESULT(mt_set(f, mt_d, "/g", 2, MT_X), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 2 && mt_blocked_by(f, mt_c, MT_IS, false), "both stand");
  MT_RESULT(mt_adopt(f, mt_b, "/g", 2, mt_c), MT_LOCK_ACKED);
  MT_RESULT(mt_evict(f, mt_d, "/g", mt_b), MT_LOCK_ABSENT); /* the job goes with it */
  MT_RESULT(mt_release(f, mt_b, "/g", 2), MT_LOCK_ACKED);
  mt_lock_item by_hand = {
      .verb = MT_LOCK_EVICT, .place.path = MT_SLICE("/g"), .session = mt_a, .guard = true};
  MT_RESULT(mt_lock(f, mt_d, by_hand), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/g"), "nothing is left");
}

/* Several dead sessions in one write: of each only what a write of its own would take. */
static void evicts_several(mt_fixture *f) {
  char others[][MT_SESSION_ID] = {"", "", ""};
  snprintf(others[0], sizeof others[0], "%s", mt_b);
  snprintf(others[1], sizeof others[1], "%s", mt_c);
  snprintf(others[2], sizeof others[2], "%032x", 0xffffff); /* which has nothing there */
  MT_RESULT(mt_set(f, mt_a, "/s", 1, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/s", 7, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(set_for(f, "j", mt_c, "/s", 1, MT_IS, false), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_d, "/s", 1, MT_IS), MT_LOCK_ACKED);
  MT_RESULT(set_for(f, "j", mt_c, "/s", 2, MT_X, true), MT_LOCK_QUEUED);
  mt_lock_item all = {.verb = MT_LOCK_EVICT,
                      .place.path = MT_SLICE("/s"),
                      .session = mt_a,
                      .others = others,
                      .n_others = 3};
  MT_RESULT(mt_lock(f, mt_d, all), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/s", 2, MT_X), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 2 && mt_blocked_by(f, mt_c, MT_IS, false) &&
               mt_blocked_by(f, mt_d, MT_IS, false),
           "the guard and the one that lives are left, and no place in the queue");
  MT_RESULT(mt_lock(f, mt_d, all), MT_LOCK_ABSENT);
  MT_RESULT(mt_release(f, mt_d, "/s", 1), MT_LOCK_ACKED);
  all.guard = true;
  MT_RESULT(mt_lock(f, mt_d, all), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/s"), "nothing is left");
}

static void job_shown(mt_fixture *f) {
  mt_lock_item item = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/j"), .n = 1, .mode = MT_X, .fresh = true};
  mt_lock_batch r = {.ns = f->ns, .session = mt_a, .job = "rename-42", .items = &item, .n = 1};
  f->s->locks->batch(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(item.result == MT_LOCK_ACKED, "%s", mt_lock_result_name(item.result));
  mt_lock_batch_deinit(&r);
  MT_RESULT(mt_set(f, mt_b, "/j", 1, MT_IS), MT_LOCK_DENIED);
  MT_CHECK(f->item.n_blockers == 1 && !strcmp(f->item.blockers[0].job, "rename-42"), "%s",
           f->item.n_blockers ? f->item.blockers[0].job : "nobody");
}

/* A batch is not atomic: each item is carried out by itself, in order. */
static void mixed_batch(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_b, "/x/2", 1, MT_X), MT_LOCK_ACKED);
  mt_lock_item items[] = {
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/x/1"), .n = 1, .mode = MT_X, .fresh = true},
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/x/2"), .n = 2, .mode = MT_X, .fresh = true},
      {.verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/x/3"), .n = 3, .mode = MT_X},
      {.verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/x/2"), .n = 4, .mode = MT_X},
      {.verb = MT_LOCK_RELEASE, .place.path = MT_SLICE("/x/9"), .n = 5},
      {.verb = MT_LOCK_RELEASE, .place.path = MT_SLICE("/x/1"), .n = 6},
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/x/1"), .n = 7, .mode = MT_IS, .fresh = true},
      {.verb = MT_LOCK_DELETE, .place.path = MT_SLICE("/x/3"), .if_version = {999999, 1}},
      {.verb = MT_LOCK_SET,
       .place.path = MT_SLICE("/x/4"),
       .n = 8,
       .mode = MT_S,
       .fresh = true,
       .leaf = true},
  };
  static const mt_lock_result want[] = {MT_LOCK_ACKED,  MT_LOCK_DENIED,   MT_LOCK_ACKED,
                                        MT_LOCK_EXISTS, MT_LOCK_ABSENT,   MT_LOCK_ACKED,
                                        MT_LOCK_ACKED,  MT_LOCK_CONFLICT, MT_LOCK_ACKED};
  enum { N = sizeof items / sizeof *items };
  mt_lock_batch r = {.ns = f->ns, .session = mt_a, .items = items, .n = N};
  f->s->locks->batch(f->s, &r);
  MT_OK(f, r);
  for (size_t i = 0; i < N; i++)
    MT_CHECK(items[i].result == want[i], "item %zu: %s", i, mt_lock_result_name(items[i].result));
  MT_CHECK(items[1].n_blockers == 1 && !strcmp(items[1].blockers[0].session, mt_b), "names b");
  MT_CHECK(mt_version_fence(items[8].version) > mt_version_fence(items[6].version) &&
               mt_version_fence(items[6].version) > mt_version_fence(items[0].version),
           "fences grow within a batch");
  mt_lock_batch_deinit(&r);
  MT_RESULT(mt_set(f, mt_b, "/x/3", 2, MT_X), MT_LOCK_DENIED);
}

static void run_large(mt_fixture *f, mt_lock_item *items, size_t n, mt_lock_verb verb) {
  mt_lock_batch r = {.ns = f->ns, .session = mt_a, .items = items, .n = n};
  for (size_t i = 0; i < n; i++) items[i].verb = verb;
  f->s->locks->batch(f->s, &r);
  MT_OK(f, r);
}

static void large_batch(mt_fixture *f) {
  enum { N = 1500 };
  static char paths[N][24];
  static mt_lock_item items[N];
  MT_RESULT(mt_set(f, mt_b, "/l/700", 1, MT_X), MT_LOCK_ACKED);
  for (size_t i = 0; i < N; i++) {
    snprintf(paths[i], sizeof paths[i], "/l/%zu", i);
    items[i] = (mt_lock_item){
        .place.path = mt_slice_of(paths[i]), .n = i + 1, .mode = MT_X, .fresh = true};
  }
  run_large(f, items, N, MT_LOCK_CREATE);
  for (size_t i = 0; i < N; i++) {
    mt_lock_result want = i == 700 ? MT_LOCK_EXISTS : MT_LOCK_ACKED;
    MT_CHECK(items[i].result == want, "create %zu: %s", i, mt_lock_result_name(items[i].result));
    if (i && i != 700 && i != 701)
      MT_CHECK(mt_version_fence(items[i].version) > mt_version_fence(items[i - 1].version),
               "fence %zu", i);
    items[i].if_version = i == 700 ? (mt_version){1, 1} : items[i].version;
  }
  json_t *list = mt_list(f, f->ns);
  MT_CHECK(json_array_size(json_object_get(list, "locks")) == N, "all are listed: %zu",
           json_array_size(json_object_get(list, "locks")));
  json_decref(list);
  run_large(f, items, N, MT_LOCK_SET);
  mt_lock_batch_deinit(&(mt_lock_batch){.items = items, .n = N});
  for (size_t i = 0; i < N; i++)
    MT_CHECK(items[i].result == (i == 700 ? MT_LOCK_DENIED : MT_LOCK_ACKED), "set %zu: %s", i,
             mt_lock_result_name(items[i].result));
  run_large(f, items, N / 2, MT_LOCK_DELETE); /* by the version of the create: all were rewritten */
  for (size_t i = 0; i < N / 2; i++)
    MT_CHECK(i == 700 || items[i].result == MT_LOCK_CONFLICT, "delete %zu: %s", i,
             mt_lock_result_name(items[i].result));
  run_large(f, items, N, MT_LOCK_RELEASE);
  for (size_t i = 0; i < N; i++)
    MT_CHECK(items[i].result == (i == 700 ? MT_LOCK_ABSENT : MT_LOCK_ACKED), "release %zu: %s", i,
             mt_lock_result_name(items[i].result));
}

static void empty_batch(mt_fixture *f) {
  mt_lock_batch r = {.ns = f->ns, .session = mt_a};
  f->s->locks->batch(f->s, &r);
  MT_OK(f, r);
}

/* An item that no store can write is refused with a reason; the rest of its batch may be refused
 * with it. */
static void impossible_items(mt_fixture *f) {
  mt_lock_item bad[] = {
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE(""), .n = 2, .mode = MT_X, .fresh = true},
      {.verb = MT_LOCK_SET, .place.path = MT_SLICE("/i"), .n = 2, .mode = MT_NL, .fresh = true},
      {.verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/i"), .n = 2, .mode = (mt_mode)9},
      {.verb = MT_LOCK_SET,
       .place.path = MT_SLICE("/i"),
       .n = UINT64_MAX,
       .mode = MT_X,
       .fresh = true},
      {.verb = MT_LOCK_EVICT, .place.path = MT_SLICE("/i"), .session = "no: session"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mt_lock_item items[] = {{.verb = MT_LOCK_SET,
                             .place.path = MT_SLICE("/good"),
                             .n = i + 1,
                             .mode = MT_X,
                             .fresh = true},
                            bad[i]};
    mt_lock_batch r = {.ns = f->ns, .session = mt_a, .items = items, .n = 2};
    f->s->locks->batch(f->s, &r);
    mortise_status status = mt_test_pump(f->s, &r.req);
    MT_CHECK(status == MORTISE_INVALID_ARGUMENT, "item %zu: %s: %s", i, mortise_status_name(status),
             r.req.error.message);
    MT_CHECK(!r.req.error.ambiguous, "item %zu: that is certain", i);
    MT_CHECK(items[1].result == MT_LOCK_FAILED || items[1].result == MT_LOCK_NO_ANSWER,
             "item %zu: %s", i, mt_lock_result_name(items[1].result));
    mt_lock_batch_deinit(&r);
  }
  MT_CHECK(!mt_listed(f, "/i"), "nothing was written");
  mt_lock_batch r = {.ns = "Not:A*Name", .session = mt_a};
  f->s->locks->batch(f->s, &r);
  MT_EXPECT(f, r, MORTISE_INVALID_ARGUMENT);
}

/* The same item may be sent again unchanged: what it owned from the last answer is freed. */
static void sent_again(mt_fixture *f) {
  MT_RESULT(mt_set(f, mt_a, "/again", 1, MT_X), MT_LOCK_ACKED);
  mt_lock_item item = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/again"), .n = 1, .mode = MT_X, .fresh = true};
  mt_lock_batch r = {.ns = f->ns, .session = mt_b, .items = &item, .n = 1};
  for (unsigned i = 0; i < 3; i++) {
    f->s->locks->batch(f->s, &r);
    MT_OK(f, r);
    MT_CHECK(item.result == MT_LOCK_DENIED && item.n_blockers == 1, "%zu blockers",
             item.n_blockers);
    r.req = (mt_req){0};
  }
  mt_lock_batch_deinit(&r);
}

/* Paths that differ only near the end, or only in encoding, are different locks. */
static void odd_paths(mt_fixture *f) {
  static char long_x[4097], long_y[4097], mid_x[600], mid_y[600], edge[513];
  memset(long_x, 'a', 4096);
  memset(mid_x, 'a', 599);
  memset(edge, 'a', 512);
  for (size_t i = 0; i < 4096; i += 64) long_x[i] = '/';
  mid_x[0] = edge[0] = '/';
  memcpy(long_y, long_x, sizeof long_x);
  memcpy(mid_y, mid_x, sizeof mid_x);
  long_y[4095] = mid_y[598] = 'b';
  const char *paths[] = {"/",
                         long_x,
                         long_y,
                         mid_x,
                         mid_y,
                         edge,
                         "/\xc3\xbc/\xe2\x82\xac/\xf0\x9f\x98\x80",
                         "/u\xcc\x88",
                         "/with space",
                         "/\"quoted\"",
                         "/back\\slash",
                         "/%2F",
                         "/a%b",
                         "/a:b",
                         "/new\nline",
                         "/ctrl\x01",
                         "/'--",
                         "/{}",
                         "/*",
                         "/A",
                         "/a",
                         "/a/b",
                         "/a b"};
  enum { N = sizeof paths / sizeof *paths };
  for (size_t i = 0; i < N; i++) MT_RESULT(mt_set(f, mt_a, paths[i], i + 1, MT_X), MT_LOCK_ACKED);
  for (size_t i = 0; i < N; i++) {
    MT_CHECK(mt_listed(f, paths[i]), "%.80s is listed as it is", paths[i]);
    MT_RESULT(mt_set(f, mt_b, paths[i], i + 1, MT_IS), MT_LOCK_DENIED);
    MT_CHECK(f->item.n_blockers == 1 && f->item.blockers[0].n == i + 1, "%.80s: its own holder",
             paths[i]);
  }
  for (size_t i = 0; i < N; i++) MT_RESULT(mt_release(f, mt_a, paths[i], i + 1), MT_LOCK_ACKED);
  MT_CHECK(!mt_listed(f, "/"), "all are gone");
}

static void namespaces(mt_fixture *f) {
  char mine[64], other[64];
  snprintf(mine, sizeof mine, "%s", f->ns);
  snprintf(other, sizeof other, "%.50s-x", mine); /* begins like mine */
  MT_RESULT(mt_set(f, mt_a, "/p", 1, MT_X), MT_LOCK_ACKED);
  snprintf(f->ns, sizeof f->ns, "%s", other);
  MT_RESULT(mt_set(f, mt_b, "/p", 1, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/q", 2, MT_X), MT_LOCK_ACKED);
  MT_RESULT(mt_release(f, mt_a, "/p", 9), MT_LOCK_ABSENT);
  snprintf(f->ns, sizeof f->ns, "%s", mine);
  json_t *list = mt_list(f, mine);
  MT_CHECK(json_array_size(json_object_get(list, "locks")) == 1, "a list shows its own namespace");
  json_decref(list);
  list = mt_list(f, NULL);
  MT_CHECK(json_array_size(json_object_get(list, "locks")) >= 3, "or all");
  json_decref(list);
  MT_RESULT(mt_release(f, mt_a, "/p", 1), MT_LOCK_ACKED);
}

static void listing(mt_fixture *f) {
  mt_lock_item leaf = {
      .verb = MT_LOCK_CREATE, .place.path = MT_SLICE("/s/1"), .n = 7, .mode = MT_X, .leaf = true};
  MT_RESULT(mt_lock(f, mt_a, leaf), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/s", 6, MT_IX), MT_LOCK_ACKED);
  MT_RESULT(mt_set_queue(f, mt_b, "/s", 3, MT_X), MT_LOCK_QUEUED);
  json_t *list = mt_list(f, f->ns), *lock;
  size_t i, found = 0;
  json_array_foreach(json_object_get(list, "locks"), i, lock) {
    json_t *holder = json_array_get(json_object_get(lock, "holders"), 0);
    json_t *queued = json_array_get(json_object_get(lock, "queue"), 0);
    if (strcmp(json_string_value(json_object_get(lock, "path")), "/s")) continue;
    found++;
    MT_CHECK(!strcmp(json_string_value(json_object_get(holder, "session")), mt_a), "the holder");
    MT_CHECK(!strcmp(json_string_value(json_object_get(holder, "mode")), "IX"), "its mode");
    MT_CHECK(json_integer_value(json_object_get(holder, "n")) == 6, "its number");
    MT_CHECK(json_integer_value(json_object_get(holder, "since")) > 1000000000000,
             "its time in ms");
    MT_CHECK(!strcmp(json_string_value(json_object_get(queued, "session")), mt_b), "the waiter");
    MT_CHECK(!strcmp(json_string_value(json_object_get(queued, "mode")), "X"), "its mode");
  }
  MT_CHECK(found == 1 && json_array_size(json_object_get(list, "locks")) == 2, "two locks");
  MT_CHECK(json_is_array(json_object_get(list, "sessions")), "and no sessions");
  json_decref(list);
}

/* Paths of a list, in its order, joined by spaces; owned: free. */
static char *paths_of(mt_fixture *f, mt_lock_list r) {
  char *text = calloc(1, 65536);
  json_t *list = mt_list_pages(f, r), *lock;
  size_t i, n = 0;
  MT_CHECK(text, "memory");
  json_array_foreach(list, i, lock) n += (size_t)snprintf(
      text + n, 65536 - n, "%s%s", i ? " " : "", json_string_value(json_object_get(lock, "path")));
  json_decref(list);
  return text;
}

static void expect_paths(mt_fixture *f, mt_lock_list r, const char *wanted) {
  r.ns = f->ns;
  char *found = paths_of(f, r);
  MT_CHECK(!strcmp(found, wanted), "listed are %s, not %s", found, wanted);
  free(found);
}

static void leaf(mt_fixture *f, const char *session, const char *path, uint64_t n) {
  mt_lock_item item = {.verb = MT_LOCK_SET,
                       .place.path = mt_slice_of(path),
                       .n = n,
                       .mode = MT_X,
                       .leaf = true,
                       .fresh = true};
  MT_RESULT(mt_lock(f, session, item), MT_LOCK_ACKED);
}

/* By path, by session, and both; "/a-b" sorts between "/a" and "/a/b", and "/a0" behind them. */
static void filtered(mt_fixture *f) {
  static const char *const paths[] = {"/a", "/a-b", "/a/b", "/a/b/c", "/a0", "/b"};
  for (size_t i = 0; i < 6; i++) leaf(f, i % 2 ? mt_b : mt_a, paths[i], i + 1);
  expect_paths(f, (mt_lock_list){0}, "/a /a-b /a/b /a/b/c /a0 /b");
  expect_paths(f, (mt_lock_list){.page = 2}, "/a /a-b /a/b /a/b/c /a0 /b");
  expect_paths(f, (mt_lock_list){.page = 1}, "/a /a-b /a/b /a/b/c /a0 /b");
  expect_paths(f, (mt_lock_list){.path = MT_SLICE("/a")}, "/a /a/b /a/b/c");
  expect_paths(f, (mt_lock_list){.path = MT_SLICE("/a"), .page = 1}, "/a /a/b /a/b/c");
  expect_paths(f, (mt_lock_list){.path = MT_SLICE("/")}, "/a /a-b /a/b /a/b/c /a0 /b");
  expect_paths(f, (mt_lock_list){.path = MT_SLICE("/a/b/c/d")}, "");
  expect_paths(f, (mt_lock_list){.session = mt_a}, "/a /a/b /a0");
  char digits[9];
  snprintf(digits, sizeof digits, "%.8s", mt_b);
  expect_paths(f, (mt_lock_list){.session = digits}, "/a-b /a/b/c /b");
  expect_paths(f, (mt_lock_list){.session = mt_b, .path = MT_SLICE("/a")}, "/a/b/c");
  expect_paths(f, (mt_lock_list){.session = mt_c}, "");
}

/* Characters that mean something in a pattern or a query are ordinary in a path. */
static void filtered_odd(mt_fixture *f) {
  static const char *const paths[] = {"/x*\"y?\\", "/x*\"y?\\/below", "/x%_", "/x%_/z", "/xxyz"};
  for (size_t i = 0; i < 5; i++) leaf(f, mt_a, paths[i], i + 1);
  expect_paths(f, (mt_lock_list){.path = mt_slice_of(paths[0])}, "/x*\"y?\\ /x*\"y?\\/below");
  expect_paths(f, (mt_lock_list){.path = mt_slice_of(paths[2])}, "/x%_ /x%_/z");
}

/* An entry that exists throughout is listed once, whatever else changes meanwhile. */
static void paged_under_change(mt_fixture *f) {
  char path[32];
  for (unsigned i = 0; i < 30; i++) {
    snprintf(path, sizeof path, "/k/%02u", i);
    leaf(f, mt_a, path, i + 1);
  }
  mt_lock_list r = {.ns = f->ns, .page = 7};
  unsigned seen[30] = {0}, pages = 0;
  do {
    f->s->locks->list(f->s, &r);
    MT_OK(f, r);
    json_t *page = json_loads(r.json, 0, NULL), *lock;
    size_t i;
    json_array_foreach(page, i, lock) {
      unsigned at = 30;
      sscanf(json_string_value(json_object_get(lock, "path")), "/k/%2u", &at);
      if (at < 30) seen[at]++;
    }
    json_decref(page);
    mt_lock_list_deinit(&r);
    memset(&r.req, 0, sizeof r.req);
    snprintf(path, sizeof path, "/k/%02u", pages); /* of those that were read */
    MT_RESULT(mt_release(f, mt_a, path, 99), MT_LOCK_ACKED);
    snprintf(path, sizeof path, "/k/00-%u", pages++);
    leaf(f, mt_a, path, 100 + pages);
  } while (r.listing);
  MT_CHECK(pages >= 5, "%u pages", pages);
  for (unsigned i = 0; i < 30; i++) MT_CHECK(seen[i] == 1, "%u came %u times", i, seen[i]);
}

/* A list that is left early must be ended; one that is over, or never began, need not be. */
static void left_off(mt_fixture *f) {
  leaf(f, mt_a, "/1", 1);
  leaf(f, mt_a, "/2", 2);
  mt_lock_list r = {.ns = f->ns, .page = 1};
  f->s->locks->list(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(r.listing, "there is more");
  mt_lock_list_deinit(&r);
  r.end = true;
  memset(&r.req, 0, sizeof r.req);
  f->s->locks->list(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(!r.listing && !r.json, "it is over");
  memset(&r.req, 0, sizeof r.req);
  f->s->locks->list(f->s, &r);
  MT_OK(f, r);
  mt_lock_list second = {.ns = f->ns, .page = 1};
  f->s->locks->list(f->s, &second);
  MT_OK(f, second);
  mt_lock_list_deinit(&second);
  f->s->locks->list_close(f->s, second.listing);
  mt_lock_list large = {.ns = f->ns, .page = MT_LIST_PAGE_MAX + 1};
  f->s->locks->list(f->s, &large);
  MT_CHECK(mt_test_pump(f->s, &large.req) == MORTISE_INVALID_ARGUMENT, "a page that is too large");
}

static void read_by_path(mt_fixture *f) {
  static char deep[4001];
  memset(deep, 'x', sizeof deep - 1);
  deep[0] = '/';
  leaf(f, mt_a, "/r", 1);
  leaf(f, mt_a, deep, 2);
  MT_RESULT(mt_set_queue(f, mt_b, "/r", 3, MT_X), MT_LOCK_QUEUED);
  mt_place places[] = {
      {MT_SLICE("/none"), 0}, {MT_SLICE("/r"), 0}, {mt_slice_of(deep), 0}, {MT_SLICE("/"), 0}};
  mt_lock_read r = {.ns = f->ns, .places = places, .n = 4};
  f->s->locks->lock_read(f->s, &r);
  MT_OK(f, r);
  json_t *list = json_loads(r.json, 0, NULL), *first = json_array_get(list, 0);
  MT_CHECK(json_array_size(list) == 2, "those that are there: %.300s", r.json);
  MT_CHECK(!strcmp(json_string_value(json_object_get(first, "path")), "/r"), "in their order");
  MT_CHECK(!strcmp(json_string_value(json_object_get(first, "ns")), f->ns), "with its namespace");
  MT_CHECK(json_array_size(json_object_get(first, "holders")) == 1, "who holds");
  MT_CHECK(json_array_size(json_object_get(first, "queue")) == 1, "who waits");
  json_decref(list);
  mt_lock_read_deinit(&r);
}

/* A session that is not even open may hold: the store does not check, the manager's order of writes
 * prevents it. */
const mt_case mt_cases_locks[] = {
    {"locks: all pairs of modes", matrix},
    {"locks: a denial names those that conflict", blockers_named},
    {"locks: 64 blockers at most", blockers_are_capped},
    {"locks: a session's own numbers", numbers},
    {"locks: a hold believed in and gone is STALE", lost_holds},
    {"locks: upgrades look at others only", upgrades},
    {"locks: release", releases},
    {"locks: create", creates},
    {"locks: delete by version", deletes},
    {"locks: delete of what another touched", delete_of_touched},
    {"locks: evict", evicts},
    {"locks: evict takes the place in the queue too", evicts_waiters},
    {"locks: adopt", adopts},
    {"locks: what guards a job is not evicted", keeps_guards},
    {"locks: several are evicted in one write", evicts_several},
    {"locks: a job is named to those it blocks", job_shown},
    {"locks: a batch is in order and not atomic", mixed_batch},
    {"locks: 1,500 items in a batch", large_batch},
    {"locks: a batch of nothing", empty_batch},
    {"locks: items that cannot be", impossible_items},
    {"locks: an item sent again", sent_again},
    {"locks: odd and long paths", odd_paths},
    {"locks: namespaces are apart", namespaces},
    {"locks: list", listing},
    {"locks: list, filtered", filtered},
    {"locks: list, filtered by odd paths", filtered_odd},
    {"locks: list in pages, under change", paged_under_change},
    {"locks: list, left off", left_off},
    {"locks: read by path", read_by_path},
    {0},
};
