/* The life of a request, for every kind there is: past deadlines, cancelling at any moment, many at
 * once, and being held back at the last moment. */
#include "conformance/conformance.h"
#include "transform/transform.h"

#include <stdio.h>
#include <stdlib.h>

/* A request of any kind with all that it borrows, in one allocation that is freed right after a
 * cancel, so that a sanitizer detects a store that still uses it. */
typedef struct any_req {
  union {
    mt_req req;
    mt_describe describe;
    mt_index_admin admin;
    mt_mget mget;
    mt_bulk bulk;
    mt_count count;
    mt_refresh refresh;
    mt_search search;
    mt_scan_open open;
    mt_scan_next next;
    mt_aliases aliases;
    mt_alias_move alias_move;
    mt_shards shards;
    mt_intervals intervals;
    mt_range range;
    mt_update_by_query by_query;
    mt_server_task task;
    mt_server_task_find find;
    mt_raw raw;
    mt_locks_admin locks;
    mt_session_write session;
    mt_session_read read;
    mt_lock_batch batch;
    mt_lock_list list;
    mt_lock_read lock_read;
  } u;
  char index[96], other[112], ns[64], session[MT_SESSION_ID], path[128];
  mt_slice ids[3];
  mt_place place;
  mt_write writes[3];
  mt_lock_item items[3];
  const char *sessions[2];
  mt_scan *scan;
  mt_transforms list;
  unsigned calls; /* of done */
} any_req;

typedef struct kind {
  const char *name;
  void (*submit)(mt_store *s, any_req *a);
  void (*deinit)(any_req *a);
} kind;

static void submit_describe(mt_store *s, any_req *a) {
  a->u.describe.index = a->index;
  s->docs->describe(s, &a->u.describe);
}
static void deinit_describe(any_req *a) {
  mt_describe_deinit(&a->u.describe);
}

static void submit_create(mt_store *s, any_req *a) {
  a->u.admin.index = a->other;
  s->docs->index_create(s, &a->u.admin);
}
static void submit_drop(mt_store *s, any_req *a) {
  a->u.admin.index = a->other;
  s->docs->index_drop(s, &a->u.admin);
}
static void deinit_none(any_req *a) {
  (void)a;
}

static void submit_mget(mt_store *s, any_req *a) {
  a->ids[0] = MT_SLICE("d1");
  a->ids[1] = MT_SLICE("none");
  a->ids[2] = MT_SLICE("d2");
  a->u.mget.index = a->index;
  a->u.mget.ids = a->ids;
  a->u.mget.n = 3;
  s->docs->mget(s, &a->u.mget);
}
static void deinit_mget(any_req *a) {
  mt_mget_deinit(&a->u.mget);
}

static void submit_bulk(mt_store *s, any_req *a) {
  a->writes[0] = mt_write_of(MT_WRITE_INDEX, "d1", "{\"n\":1}");
  a->writes[1] = mt_write_of(MT_WRITE_CREATE, "d2", "{\"n\":2}");
  a->writes[2] = mt_write_of(MT_WRITE_UPDATE, "d3", "{\"doc\":{\"m\":2}}");
  a->u.bulk.index = a->index;
  a->u.bulk.items = a->writes;
  a->u.bulk.n = 3;
  s->docs->bulk(s, &a->u.bulk);
}

static void submit_count(mt_store *s, any_req *a) {
  a->u.count.index = a->index;
  s->docs->count(s, &a->u.count);
}

static void submit_refresh(mt_store *s, any_req *a) {
  a->u.refresh.index = a->index;
  s->docs->refresh(s, &a->u.refresh);
}

static void submit_search(mt_store *s, any_req *a) {
  a->u.search.index = a->index;
  a->u.search.body = MT_SLICE("{\"query\":{\"match_all\":{}}}");
  s->docs->search(s, &a->u.search);
}
static void deinit_search(any_req *a) {
  mt_search_deinit(&a->u.search);
}

static void submit_open(mt_store *s, any_req *a) {
  a->u.open.index = a->index;
  a->u.open.page = 3;
  s->docs->scan_open(s, &a->u.open);
}

static void submit_next(mt_store *s, any_req *a) {
  a->u.next.scan = a->scan;
  s->docs->scan_next(s, &a->u.next);
}
static void deinit_next(any_req *a) {
  mt_page_free(a->u.next.page);
}

static void submit_settings(mt_store *s, any_req *a) {
  a->u.admin.index = a->index;
  a->u.admin.body = MT_SLICE("{\"index.refresh_interval\":\"29s\"}");
  s->docs->settings(s, &a->u.admin);
}

/* Of an index that is not there: other requests write to the one that is. */
static void submit_block(mt_store *s, any_req *a) {
  a->u.admin.index = a->other;
  s->docs->block(s, &a->u.admin);
}

static void submit_unblock(mt_store *s, any_req *a) {
  a->u.admin.index = a->index;
  s->docs->unblock(s, &a->u.admin);
}

static void submit_aliases(mt_store *s, any_req *a) {
  a->u.aliases.name = a->index;
  s->docs->aliases(s, &a->u.aliases);
}
static void deinit_aliases(any_req *a) {
  mt_aliases_deinit(&a->u.aliases);
}

static void submit_alias_move(mt_store *s, any_req *a) {
  a->u.alias_move = (mt_alias_move){
      .req = a->u.alias_move.req, .alias = "no-alias-of-these-tests", .from = a->index, .to = a->index};
  s->docs->alias_move(s, &a->u.alias_move);
}

static void submit_shards(mt_store *s, any_req *a) {
  a->u.shards.index = a->index;
  s->docs->shards(s, &a->u.shards);
}
static void deinit_shards(any_req *a) {
  mt_shards_deinit(&a->u.shards);
}

static void submit_intervals(mt_store *s, any_req *a) {
  a->u.intervals.span = (mt_span){.index = a->index, .to = 4000};
  s->docs->intervals(s, &a->u.intervals);
}
static void deinit_intervals(any_req *a) {
  mt_intervals_deinit(&a->u.intervals);
}

static void submit_range(mt_store *s, any_req *a) {
  a->u.range.span = (mt_span){.index = a->index, .to = 1024};
  s->docs->range(s, &a->u.range);
}
static void deinit_range(any_req *a) {
  mt_range_deinit(&a->u.range);
}

static void submit_range_end(mt_store *s, any_req *a) {
  a->u.admin.index = a->index;
  s->docs->range_end(s, &a->u.admin);
}

static void submit_by_query(mt_store *s, any_req *a) {
  MT_CHECK(!mt_transforms_parse(&a->list, MT_SLICE("[{\"remove\":{\"field\":\"tag\"}}]"), NULL),
           "a list");
  a->u.by_query.index = a->index;
  a->u.by_query.transforms = &a->list;
  s->docs->update_by_query(s, &a->u.by_query);
}
static void deinit_by_query(any_req *a) {
  mt_transforms_deinit(&a->list);
}

static void submit_task(mt_store *s, any_req *a) {
  a->u.task.task = "0123456789012345678901:7";
  s->docs->task(s, &a->u.task);
}

static void submit_find(mt_store *s, any_req *a) {
  a->u.find.name = "job";
  s->docs->task_find(s, &a->u.find);
}
static void deinit_find(any_req *a) {
  mt_server_task_find_deinit(&a->u.find);
}

static void submit_raw(mt_store *s, any_req *a) {
  a->u.raw.method = "GET";
  a->u.raw.path = "/";
  s->docs->raw(s, &a->u.raw);
}
static void deinit_raw(any_req *a) {
  mt_raw_deinit(&a->u.raw);
}

static void submit_init(mt_store *s, any_req *a) {
  s->locks->init(s, &a->u.locks);
}
static void submit_verify(mt_store *s, any_req *a) {
  s->locks->verify(s, &a->u.locks);
}
static void deinit_locks(any_req *a) {
  mt_locks_admin_deinit(&a->u.locks);
}

static void submit_session(mt_store *s, any_req *a) {
  a->u.session.verb = MT_SESSION_OPEN;
  a->u.session.ns = a->ns;
  a->u.session.session = a->session;
  a->u.session.owner = MT_SLICE("{\"host\":\"h\",\"pid\":1}");
  a->u.session.lease_ms = 60000;
  s->locks->session(s, &a->u.session);
}

static void submit_read(mt_store *s, any_req *a) {
  a->sessions[0] = a->session;
  a->sessions[1] = mt_b;
  a->u.read.ns = a->ns;
  a->u.read.ids = a->sessions;
  a->u.read.n = 2;
  s->locks->session_read(s, &a->u.read);
}
static void deinit_read(any_req *a) {
  mt_session_read_deinit(&a->u.read);
}

static void submit_batch(mt_store *s, any_req *a) {
  static const mt_lock_verb verbs[] = {MT_LOCK_SET, MT_LOCK_CREATE, MT_LOCK_RELEASE};
  for (size_t i = 0; i < 3; i++)
    a->items[i] = (mt_lock_item){.verb = verbs[i],
                                 .place.path = mt_slice_of(a->path),
                                 .n = i + 1,
                                 .mode = MT_IX,
                                 .fresh = true,
                                 .enqueue = true};
  a->u.batch.ns = a->ns;
  a->u.batch.session = a->session;
  a->u.batch.items = a->items;
  a->u.batch.n = 3;
  s->locks->batch(s, &a->u.batch);
}
static void deinit_batch(any_req *a) {
  mt_lock_batch_deinit(&a->u.batch);
}

static void submit_list(mt_store *s, any_req *a) {
  a->u.list.ns = a->ns;
  s->locks->list(s, &a->u.list);
}
static void deinit_list(any_req *a) {
  mt_lock_list_deinit(&a->u.list);
}

static void submit_lock_read(mt_store *s, any_req *a) {
  a->place = (mt_place){mt_slice_of(a->path), 0};
  a->u.lock_read.ns = a->ns;
  a->u.lock_read.places = &a->place;
  a->u.lock_read.n = 1;
  s->locks->lock_read(s, &a->u.lock_read);
}
static void deinit_lock_read(any_req *a) {
  mt_lock_read_deinit(&a->u.lock_read);
}

static const kind kinds[] = {
    {"describe", submit_describe, deinit_describe},
    {"index_create", submit_create, deinit_none},
    {"index_drop", submit_drop, deinit_none},
    {"mget", submit_mget, deinit_mget},
    {"bulk", submit_bulk, deinit_none},
    {"count", submit_count, deinit_none},
    {"refresh", submit_refresh, deinit_none},
    {"search", submit_search, deinit_search},
    {"scan_open", submit_open, deinit_none},
    {"scan_next", submit_next, deinit_next},
    {"settings", submit_settings, deinit_none},
    {"block", submit_block, deinit_none},
    {"unblock", submit_unblock, deinit_none},
    {"aliases", submit_aliases, deinit_aliases},
    {"alias_move", submit_alias_move, deinit_none},
    {"shards", submit_shards, deinit_shards},
    {"intervals", submit_intervals, deinit_intervals},
    {"range", submit_range, deinit_range},
    {"range_end", submit_range_end, deinit_none},
    {"update_by_query", submit_by_query, deinit_by_query},
    {"task", submit_task, deinit_none},
    {"task_find", submit_find, deinit_find},
    {"raw", submit_raw, deinit_raw},
    {"init", submit_init, deinit_locks},
    {"verify", submit_verify, deinit_locks},
    {"session", submit_session, deinit_none},
    {"session_read", submit_read, deinit_read},
    {"batch", submit_batch, deinit_batch},
    {"list", submit_list, deinit_list},
    {"lock_read", submit_lock_read, deinit_lock_read},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static void count_call(void *ctx, mt_req *req) {
  any_req *a = ctx;
  (void)req;
  a->calls++;
}

static any_req *any_new(mt_fixture *f, const kind *k) {
  any_req *a = calloc(1, sizeof *a);
  MT_CHECK(a, "memory");
  snprintf(a->index, sizeof a->index, "%s", f->index);
  snprintf(a->other, sizeof a->other, "%s-other", f->index);
  snprintf(a->ns, sizeof a->ns, "%s", f->ns);
  snprintf(a->session, sizeof a->session, "%s", mt_a);
  snprintf(a->path, sizeof a->path, "/p/%zu", mt_test_below(&f->random, 3));
  a->u.req.done = count_call;
  a->u.req.ctx = a;
  if (k->submit == submit_next) {
    mt_scan_open open = {.index = f->index, .page = 3};
    f->s->docs->scan_open(f->s, &open);
    MT_OK(f, open);
    a->scan = open.scan;
  }
  return a;
}

static void any_free(mt_fixture *f, const kind *k, any_req *a) {
  k->deinit(a);
  if (k->submit == submit_open && a->u.req.finished) f->s->docs->scan_close(f->s, a->u.open.scan);
  if (k->submit == submit_list) f->s->locks->list_close(f->s, a->u.list.listing);
  f->s->docs->scan_close(f->s, a->scan);
  memset(a, 0xa5, sizeof *a);
  free(a);
}

static void still_usable(mt_fixture *f, const char *after) {
  mt_write w = mt_write_one(f, mt_write_of(MT_WRITE_INDEX, "usable", "{\"n\":1}"));
  MT_CHECK(w.result == MT_WRITE_APPLIED, "after %s: %d %s", after, w.status, w.reason);
  MT_CHECK(mt_set(f, mt_c, "/usable", 1, MT_X) == MT_LOCK_ACKED, "a lock after %s", after);
  MT_CHECK(mt_release(f, mt_c, "/usable", 1) == MT_LOCK_ACKED, "its release after %s", after);
}

static void past_deadlines(mt_fixture *f) {
  mt_make_index(f, 3);
  mt_fill(f, 20);
  for (size_t i = 0; i < KINDS; i++) {
    any_req *a = any_new(f, &kinds[i]);
    int64_t start = mt_test_ns();
    a->u.req.deadline_ms = mt_loop_now(f->s->loop) - 1000;
    kinds[i].submit(f->s, a);
    MT_CHECK(!a->calls && !a->u.req.finished, "%s finished inside its own call", kinds[i].name);
    mortise_status status = mt_test_pump(f->s, &a->u.req);
    int64_t ms = (mt_test_ns() - start) / 1000000;
    bool asks = kinds[i].submit != submit_next && !(kinds[i].submit == submit_range_end && f->place->elastic);
    MT_CHECK((status || !asks) && status != MORTISE_INTERRUPTED, "%s: %s", kinds[i].name,
             mortise_status_name(status));
    MT_CHECK(ms < 5000, "%s took %lld ms", kinds[i].name, (long long)ms);
    MT_CHECK(a->calls == 1, "%s: done was called %u times", kinds[i].name, a->calls);
    any_free(f, &kinds[i], a);
  }
  still_usable(f, "deadlines in the past");
}

/* Barely enough time, or too little: either way one answer, soon. */
static void short_deadlines(mt_fixture *f) {
  mt_make_index(f, 1);
  mt_fill(f, 20);
  for (size_t i = 0; i < KINDS * 3; i++) {
    const kind *k = &kinds[i % KINDS];
    any_req *a = any_new(f, k);
    int64_t start = mt_test_ns();
    mt_loop_step(f->s->loop, 0, NULL);
    a->u.req.deadline_ms = mt_loop_now(f->s->loop) + 1 + (int64_t)mt_test_below(&f->random, 4);
    k->submit(f->s, a);
    mortise_status status = mt_test_pump(f->s, &a->u.req);
    MT_CHECK(status != MORTISE_INTERRUPTED, "%s hangs", k->name);
    MT_CHECK((mt_test_ns() - start) / 1000000 < 5000, "%s is late", k->name);
    MT_CHECK(a->calls == 1, "%s: done was called %u times", k->name, a->calls);
    any_free(f, k, a);
  }
  still_usable(f, "short deadlines");
}

static void cancel_some(mt_fixture *f, const kind *k) {
  any_req *a = any_new(f, k);
  k->submit(f->s, a);
  size_t steps = mt_test_below(&f->random, 6);
  for (size_t i = 0; i < steps && !a->u.req.finished; i++)
    mt_loop_step(f->s->loop, (int64_t)mt_test_below(&f->random, 3), NULL);
  bool finished = a->u.req.finished;
  mt_store_cancel(f->s, &a->u.req);
  MT_CHECK(a->calls == finished, "%s: done was called %u times", k->name, a->calls);
  if (!finished && k->submit == submit_open)
    MT_CHECK(!a->u.open.scan, "a cancelled opening gives no scan");
  any_free(f, k, a);
  for (size_t i = 0; i < mt_test_below(&f->random, 3); i++) mt_loop_step(f->s->loop, 1, NULL);
}

static void cancels(mt_fixture *f) {
  mt_make_index(f, 3);
  mt_fill(f, 20);
  unsigned rounds = f->place->elastic ? 6 : 20;
  for (size_t i = 0; i < KINDS; i++) {
    for (unsigned k = 0; k < rounds; k++) cancel_some(f, &kinds[i]);
    still_usable(f, kinds[i].name);
  }
  char other[112];
  snprintf(other, sizeof other, "%s-other", f->index);
  mt_drop_index(f, other);
}

static void many_at_once(mt_fixture *f) {
  enum { N = 200 };
  any_req *all[N];
  const kind *of[N];
  mt_make_index(f, 3);
  mt_fill(f, 20);
  for (size_t i = 0; i < N; i++) {
    do of[i] = &kinds[mt_test_below(&f->random, KINDS)];
    while (of[i]->submit == submit_create || of[i]->submit == submit_drop || of[i]->submit == submit_block ||
           of[i]->submit == submit_alias_move || of[i]->submit == submit_next);
    all[i] = any_new(f, of[i]);
    of[i]->submit(f->s, all[i]);
    MT_CHECK(!all[i]->calls, "%s called done from inside", of[i]->name);
  }
  for (size_t i = 0; i < N; i++) {
    mortise_status status = mt_test_pump(f->s, &all[i]->u.req);
    bool refusable = of[i]->submit == submit_raw && !f->place->elastic;
    refusable |= all[i]->u.req.error.retryable; /* too many for a small server */
    MT_CHECK(!status || refusable, "%s: %s: %s", of[i]->name, all[i]->u.req.error.message,
             all[i]->u.req.error.reason);
  }
  for (size_t i = 0; i < N; i++) {
    MT_CHECK(all[i]->calls == 1, "%s: done was called %u times", of[i]->name, all[i]->calls);
    any_free(f, of[i], all[i]);
  }
}

static void closed_meanwhile(mt_fixture *f) {
  any_req *all[KINDS];
  mt_test_store t;
  mt_make_index(f, 1);
  mt_fill(f, 20);
  for (unsigned round = 0; round < 5; round++) {
    MT_CHECK(mt_test_store_open(&t, f->place), "a second handle");
    for (size_t i = 0; i < KINDS; i++) {
      all[i] = calloc(1, sizeof *all[i]);
      if (kinds[i].submit == submit_next) continue;
      free(all[i]);
      all[i] = any_new(f, &kinds[i]);
      kinds[i].submit(t.store, all[i]);
    }
    for (unsigned i = 0; i < round; i++) mt_loop_step(t.loop, 2, NULL);
    for (size_t i = 0; i < KINDS; i++)
      if (kinds[i].submit == submit_open && all[i]->u.req.finished) {
        t.store->docs->scan_close(t.store, all[i]->u.open.scan);
        all[i]->u.open.scan = NULL;
      }
    unsigned calls[KINDS];
    for (size_t i = 0; i < KINDS; i++) calls[i] = all[i]->calls;
    mt_test_store_close(&t);
    for (size_t i = 0; i < KINDS; i++) {
      MT_CHECK(all[i]->calls == calls[i], "%s: done was called while closing", kinds[i].name);
      kinds[i].deinit(all[i]);
      free(all[i]);
    }
  }
  char other[112];
  snprintf(other, sizeof other, "%s-other", f->index);
  mt_drop_index(f, other);
  still_usable(f, "the closing of another handle");
}

/* ---- Held back ---------------------------------------------------------------------------------
 */

static bool no(void *ctx) {
  ++*(_Atomic unsigned *)ctx;
  return false;
}

static bool yes(void *ctx) {
  ++*(_Atomic unsigned *)ctx;
  return true;
}

static bool only_at_first(void *ctx) {
  return ++*(_Atomic unsigned *)ctx == 1;
}

/* The lease may run out while the request is on its way out. */
static void held_back_late(mt_fixture *f) {
  static _Atomic unsigned asked;
  asked = 0;
  mt_make_index(f, 1);
  mt_write w = mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":1}");
  mt_bulk r = {.req = {.may_send = only_at_first, .may_send_ctx = &asked},
               .index = f->index,
               .items = &w,
               .n = 1};
  f->s->docs->bulk(f->s, &r);
  MT_EXPECT(f, r, MORTISE_LOCK_LOST);
  MT_CHECK(asked >= 2, "asked %u times", asked);
  mt_test_sleep_ms(100);
  MT_CHECK(!mt_get(f, MT_SLICE("a"), NULL, NULL), "nothing was written");
}

static void held_back(mt_fixture *f) {
  static _Atomic unsigned asked;
  asked = 0;
  mt_make_index(f, 1);
  mt_write w = mt_write_of(MT_WRITE_INDEX, "a", "{\"n\":1}");
  mt_bulk bulk = {
      .req = {.may_send = no, .may_send_ctx = &asked}, .index = f->index, .items = &w, .n = 1};
  f->s->docs->bulk(f->s, &bulk);
  MT_EXPECT(f, bulk, MORTISE_LOCK_LOST);
  MT_CHECK(asked > 0, "it was asked");
  MT_CHECK(w.result == MT_WRITE_NONE, "no answer for the item: %d", (int)w.result);
  MT_CHECK(!mt_get(f, MT_SLICE("a"), NULL, NULL), "nothing was written");
  mt_lock_item item = {
      .verb = MT_LOCK_SET, .place.path = MT_SLICE("/held"), .n = 1, .mode = MT_X, .fresh = true};
  mt_lock_batch batch = {.req = {.may_send = no, .may_send_ctx = &asked},
                         .ns = f->ns,
                         .session = mt_a,
                         .items = &item,
                         .n = 1};
  f->s->locks->batch(f->s, &batch);
  MT_EXPECT(f, batch, MORTISE_LOCK_LOST);
  MT_CHECK(item.result == MT_LOCK_NO_ANSWER, "%s", mt_lock_result_name(item.result));
  mt_lock_batch_deinit(&batch);
  MT_RESULT(mt_make(f, mt_b, "/held", 1, MT_X), MT_LOCK_ACKED);
  asked = 0;
  bulk = (mt_bulk){
      .req = {.may_send = yes, .may_send_ctx = &asked}, .index = f->index, .items = &w, .n = 1};
  f->s->docs->bulk(f->s, &bulk);
  MT_OK(f, bulk);
  MT_CHECK(asked > 0 && w.result == MT_WRITE_APPLIED, "asked %u times, result %d", asked,
           (int)w.result);
}

static void raw_requests(mt_fixture *f) {
  mt_raw r = {.method = "GET", .path = "/"};
  f->s->docs->raw(f->s, &r);
  if (!f->place->elastic) {
    MT_EXPECT(f, r, MORTISE_UNSUPPORTED);
    return;
  }
  MT_OK(f, r);
  MT_CHECK(r.status == 200 && r.answer_n > 2 && r.answer[r.answer_n] == 0, "status %d", r.status);
  mt_raw_deinit(&r);
}

const mt_case mt_cases_requests[] = {
    {"requests: a deadline in the past is an error, soon", past_deadlines},
    {"requests: short deadlines", short_deadlines},
    {"requests: each kind cancelled at any moment", cancels},
    {"requests: many at once", many_at_once},
    {"requests: a store closed under its requests", closed_meanwhile},
    {"requests: held back at the last moment", held_back},
    {"requests: held back while it is sent", held_back_late},
    {"requests: raw", raw_requests},
    {0},
};
