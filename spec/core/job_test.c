/* Jobs on every store there is: killed at any request, also while they are resumed or undone, with the
 * last request of the dead lost, carried out, or carried out much later. */
#include "job/job.h"
#include "job/known.h"
#include "job/rename.h"
#include "job/unit.h"

#include "fake_docs.h"
#include "late_requests.h"
#include "support/support.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEASE_MS = 60000, DOCS = 60, SOURCE_MAX = 256, PAGE = 7, NEVER = 1 << 30 };

typedef enum death {
  LOST,    /* the request in which it died was never sent */
  APPLIED, /* it was carried out, unanswered */
  LATE,    /* it will be, while others are at work already, or after */
  FATES,
} death;

/* How a job knows what to undo. */
typedef enum undo_by {
  BY_SOURCES, /* the journal has them */
  BY_IDS,     /* it has ids, and sources only of what the inverse does not restore to the byte */
  BY_INVERSE, /* it has only the latter */
  BY_SERVER,  /* the same, where the store makes the change by itself */
  UNDOS,
} undo_by;

typedef struct job_fixture {
  const mt_test_place *place;
  mt_test_store theirs; /* whoever looks at what became of it, and brings late requests */
  char index[96], table[96];
  undo_by by;
  mt_test_random *random;
  bool deletes;     /* the change does, some of them */
  bool by_function; /* the change is a function (below), not a rename */
  bool slow;        /* the server is, at what it does by itself */
  late_bulk late;
  late_sweep sweep;
  int late_at; /* event of the life under way at which it comes */
} job_fixture;

/* One process that is at the job. */
typedef struct life {
  job_fixture *f;
  mt_test_store mine;
  mt_docs_ops ops;
  const mt_docs_ops *real;
  fake_lock lock;
  mt_rename rename, back;
  mt_transforms inverse;
  mt_transform renames; /* what the change does with documents that it does not delete */
  mt_known known;
  mt_job job;
  int events, bulks, die_at;
  death fate;
  bool dead, holds; /* `holds`: what it writes into the index waits in `held` */
  mt_bulk *held[MT_WRITER_LANES];
  size_t n_held;
} life;

static life *current;

/* ---- Dying ---------------------------------------------------------------------------------- */

#define OK(f, r)                                                                                   \
  MT_CHECK(mt_test_pump((f)->theirs.store, &(r).req) == MORTISE_OK, "%s: %s", (f)->place->name,    \
           (r).req.error.message)

static void bring_all(job_fixture *f) {
  late_bulk_bring(&f->late, f->theirs.store);
  late_sweep_bring(&f->sweep, f->theirs.store);
}

/* True: the request is not sent, and nothing after it. */
static bool dies(life *l) {
  if (++l->events == l->f->late_at) bring_all(l->f);
  if (l->dead || l->events < l->die_at) return l->dead;
  return l->dead = true;
}

static void let_go(life *l) {
  l->holds = false;
  for (size_t i = 0; i < l->n_held; i++) l->real->bulk(l->mine.store, l->held[i]);
}

static void dying_bulk(mt_store *s, mt_bulk *r) {
  life *l = current;
  bool was_dead = l->dead;
  if (l->holds && r->index && !strcmp(r->index, l->f->index)) {
    l->held[l->n_held++] = r;
    return;
  }
  l->bulks++;
  if (!dies(l)) {
    l->real->bulk(s, r);
    return;
  }
  if (was_dead || l->fate == LOST) return;
  late_bulk_bring(&l->f->late, l->f->theirs.store); /* of the one before, if it has not come yet */
  l->f->late = late_bulk_of(r);
  l->f->late_at = 1 + (int)mt_test_below(l->f->random, 40);
  if (l->fate == APPLIED) late_bulk_bring(&l->f->late, l->f->theirs.store);
}

/* A task on a server is so slow that it outlives whoever dies while it runs. The embedded store gets nothing
 * late. */
static void dying_update_by_query(mt_store *s, mt_update_by_query *r) {
  life *l = current;
  bool was_dead = l->dead;
  r->batch = 5;
  if (l->f->slow) r->per_second = 40;
  if (!dies(l)) {
    l->real->update_by_query(s, r);
    return;
  }
  if (was_dead || l->fate == LOST || !l->f->place->elastic) return;
  late_sweep_bring(&l->f->sweep, l->f->theirs.store);
  l->f->sweep = late_sweep_of(r);
  l->f->late_at = 1 + (int)mt_test_below(l->f->random, 40);
  if (l->fate == APPLIED) late_sweep_bring(&l->f->sweep, l->f->theirs.store);
}

#define DYING(op, type)                                                                            \
  static void dying_##op(mt_store *s, type *r) {                                                   \
    if (!dies(current)) current->real->op(s, r);                                                   \
  }
DYING(mget, mt_mget)
DYING(count, mt_count)
DYING(refresh, mt_refresh)
DYING(describe, mt_describe)
DYING(scan_open, mt_scan_open)

static void dying_scan_next(mt_store *s, mt_scan_next *r) {
  if (!dies(current)) current->real->scan_next(s, r);
}
DYING(task, mt_server_task)
DYING(task_find, mt_server_task_find)

/* ---- One life ------------------------------------------------------------------------------- */

static bool is_to_go(size_t i) {
  return i % 5 == 3;
}

/* By the function, which changes or deletes all others. */
static bool is_kept(size_t i) {
  return i % 11 == 10 && !is_to_go(i);
}

/* Its id is d<number>. */
static mt_transformed rename_or_delete(void *ctx, const mt_doc *doc, mt_buf *out,
                                       mortise_error *err) {
  const life *l = ctx;
  if (is_to_go(strtoul(doc->id.p + 1, NULL, 10))) return MT_DELETED;
  return l->renames.apply(l->renames.ctx, doc, out, err);
}

static const char made_mark[] = ",\"made\":";

/* Makes something else each time, and must never see what it has made. */
static mt_transformed call_function(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  static unsigned calls;
  const life *l = ctx;
  (void)err;
  size_t number = strtoul(doc->id.p + 1, NULL, 10);
  MT_CHECK(!memmem(doc->source.p, doc->source.n, made_mark, sizeof made_mark - 1),
           "%s: the function was called for what it had made of d%zu", l->f->place->name, number);
  if (is_kept(number)) return MT_UNCHANGED;
  if (l->f->deletes && is_to_go(number)) return MT_DELETED;
  mt_buf_add(out, doc->source.p, doc->source.n - 1);
  mt_buf_addf(out, "%s%u}", made_mark, ++calls);
  return MT_CHANGED;
}

/* The same, made outside of the change: a page at a time. */
static void patch_page(mt_change *c) {
  mt_unit *page = mt_change_page(c);
  mortise_error err;
  mt_buf out;
  mt_buf_init(&out, 1 << 20);
  assert_non_null(page);
  for (const mt_doc *doc; (doc = mt_unit_next(page)); mt_buf_clear(&out)) {
    mt_transformed how = call_function(current, doc, &out, &err);
    mt_unit_put(page, how, mt_buf_slice(&out), &err);
  }
  mt_buf_deinit(&out);
  mt_change_page_done(c, page);
}

static void be_a_function(life *l) {
  mt_change *c = &l->rename.change;
  c->transform = (mt_transform){.apply = call_function, .ctx = l};
  if (mt_test_chance(l->f->random, 50)) {
    c->transform = (mt_transform){.apply = NULL};
    c->offered = patch_page;
  }
  c->until_none = c->reversible = false;
  c->described = NULL;
  c->counted = NULL;
  c->concluded = NULL;
  c->known = &l->known;
  if (mt_test_chance(l->f->random, 50)) l->known.most = 1 + mt_test_below(l->f->random, DOCS);
}

static void fit_out(life *l, mt_rename *r) {
  r->merge = r->allow_empty = true;
  r->change.store = l->mine.store;
  r->change.env = mt_env_system();
  r->change.permit = fake_permit(&l->lock);
  r->change.index = l->f->index;
  r->change.options.page = PAGE;
  r->change.options.slices = 1;
}

/* The store knows the lock's session, since its clock says until when a task may run. */
static void take_lock(life *l) {
  mt_session *session = &l->lock.session;
  mt_store *s = l->mine.store;
  fake_lock_init(&l->lock, mt_env_system(), LEASE_MS);
  snprintf(session->ns, sizeof session->ns, "default");
  snprintf(session->id, sizeof session->id, "%016llx%016llx",
           (unsigned long long)mt_test_next(l->f->random), (unsigned long long)mt_test_ns());
  session->lease_ms = LEASE_MS;
  session->margin_ms = LEASE_MS / 10;
  mt_session_write open = {.verb = MT_SESSION_OPEN,
                           .ns = "default",
                           .session = session->id,
                           .owner = MT_SLICE("{}"),
                           .lease_ms = LEASE_MS};
  s->locks->session(s, &open);
  MT_CHECK(!mt_test_pump(s, &open.req), "%s: %s", l->f->place->name, open.req.error.message);
  assert_int_equal(open.result, MT_SESSION_ACKED);
}

static void be_born(life *l, job_fixture *f, mt_job_verb verb, int die_at, death fate) {
  mortise_error err;
  *l = (life){.f = f, .die_at = die_at, .fate = fate};
  current = l;
  assert_true(mt_test_store_open(&l->mine, f->place));
  l->real = l->mine.store->docs;
  l->ops = *l->real;
  l->ops.bulk = dying_bulk;
  l->ops.mget = dying_mget;
  l->ops.count = dying_count;
  l->ops.refresh = dying_refresh;
  l->ops.describe = dying_describe;
  l->ops.scan_open = dying_scan_open;
  l->ops.scan_next = dying_scan_next;
  l->ops.update_by_query = dying_update_by_query;
  l->ops.task = dying_task;
  l->ops.task_find = dying_task_find;
  l->mine.store->docs = &l->ops;
  take_lock(l);
  const mt_slice fields[] = {MT_SLICE("path"), MT_SLICE("see.also")};
  assert_int_equal(mt_rename_init_fields(&l->rename, fields, 2, MT_SLICE("/clinton"),
                                         MT_SLICE("/projects/clinton"), &err),
                   MORTISE_OK);
  assert_int_equal(mt_rename_init_fields(&l->back, fields, 2, MT_SLICE("/projects/clinton"),
                                         MT_SLICE("/clinton"), &err),
                   MORTISE_OK);
  assert_int_equal(mt_transforms_inverse(&l->rename.list, &l->inverse, &err), MORTISE_OK);
  fit_out(l, &l->rename);
  fit_out(l, &l->back);
  mt_change *c = &l->rename.change;
  l->renames = c->transform;
  if (f->by_function)
    be_a_function(l);
  else if (f->deletes)
    c->transform = (mt_transform){.apply = rename_or_delete, .ctx = l};
  l->job = (mt_job){.verb = verb,
                    .store = l->mine.store,
                    .env = mt_env_system(),
                    .permit = c->permit,
                    .table = f->table,
                    .ns = "default",
                    .id = "move-1",
                    .spec = MT_SLICE("{\"what\":\"a rename\"}"),
                    .change = c,
                    .checkpoint_ms = 1 + (int64_t)mt_test_below(f->random, 30)};
  if (f->by != BY_SOURCES) l->job.inverse = mt_transform_list(&l->inverse);
  l->job.list = &l->rename.list;
  l->job.strategy = f->by == BY_SERVER ? MT_STRATEGY_SERVER : MT_STRATEGY_CLIENT;
  if (verb == MT_JOB_UNDO) {
    mt_rename_touch(&l->rename);
    l->job.touch = c;
    l->job.back = &l->back.change;
  }
  MT_CHECK(!mt_job_start(&l->job, &err), "%s: %s", f->place->name, err.message);
}

static void live_on(life *l) {
  int64_t end = mt_test_ns() + (int64_t)MT_TEST_HANG_MS * 1000000;
  while (!l->job.finished && !l->dead && mt_test_ns() < end) mt_loop_step(l->mine.loop, 100, NULL);
  MT_CHECK(l->job.finished || l->dead, "%s: the job hangs", l->f->place->name);
  if (!l->job.finished) mt_job_abandon(&l->job);
}

/* One that is not killed. */
static void live_whole(life *l, job_fixture *f, mt_job_verb verb) {
  be_born(l, f, verb, NEVER, LOST);
  live_on(l);
}

static void be_buried(life *l) {
  mt_job_deinit(&l->job);
  mt_rename_deinit(&l->rename);
  mt_rename_deinit(&l->back);
  mt_transforms_deinit(&l->inverse);
  mt_known_deinit(&l->known);
  mt_test_store_close(&l->mine);
}

/* ---- Setting up, looking -------------------------------------------------------------------- */

static void create_index(job_fixture *f, const char *index, mt_slice body) {
  mt_index_admin r = {.index = index, .body = body};
  f->theirs.store->docs->index_create(f->theirs.store, &r);
  OK(f, r);
}

static void remove_index(job_fixture *f, const char *index) {
  mt_index_admin r = {.index = index};
  f->theirs.store->docs->index_drop(f->theirs.store, &r);
  OK(f, r);
}

/* Of some, an inverse would not restore the bytes: their path was spelled with an escape that it needs not. Some have
 * paths in an array too, and some only there. A server that makes the change by itself spells a document anew, with its
 * members in any order, so those have one member. */
static void file_source(const job_fixture *f, size_t i, const char *below, char *out, size_t size) {
  const char *escape = i % 11 == 5 && !strcmp(below, "/clinton") ? "\\" : "";
  const char *name = i % 13 == 7 ? "name" : "path";
  if (f->by == BY_SERVER) {
    snprintf(out, size,
             i % 13 == 7 ? "{\"see\":{\"also\":[\"/x\",\"%s/dir%zu/f\xc3\xa9%zu\"]}}"
                         : "{\"path\":\"%s/dir%zu/f\xc3\xa9%zu\"}",
             below, i % 7, i);
    return;
  }
  int n = snprintf(out, size, "{\"n\" : %zu,\"e\":[ ], \"%s\":\"%s%s/dir%zu/f\\u00e9%zu\"", i, name,
                   escape, i % 13 == 7 ? "/clinton" : below, i % 7, i);
  if (i % 4 == 3 || i % 13 == 7)
    n += snprintf(out + n, size - (size_t)n, ",\"see\":{\"also\":[\"/x\", \"%s/l%zu\",\"%s\"]}",
                  below, i, below);
  snprintf(out + n, size - (size_t)n, " }");
}

static void write_beside(job_fixture *f) {
  mt_write w = {.kind = MT_WRITE_INDEX,
                .id = MT_SLICE("there"),
                .body = MT_SLICE("{\"path\":\"/projects/clinton/x\"}")};
  mt_bulk r = {.index = f->index, .items = &w, .n = 1};
  f->theirs.store->docs->bulk(f->theirs.store, &r);
  OK(f, r);
}

static void write_files(job_fixture *f) {
  mt_write items[DOCS];
  char ids[DOCS][16], sources[DOCS][SOURCE_MAX];
  for (size_t i = 0; i < DOCS; i++) {
    snprintf(ids[i], sizeof ids[i], "d%zu", i);
    file_source(f, i, "/clinton", sources[i], sizeof sources[i]);
    items[i] = (mt_write){.kind = MT_WRITE_INDEX,
                          .id = mt_slice_of(ids[i]),
                          .routing = i % 3 ? (mt_slice){NULL, 0} : MT_SLICE("r"),
                          .body = mt_slice_of(sources[i]),
                          .skip_pipeline = true};
  }
  mt_bulk r = {.index = f->index, .items = items, .n = DOCS};
  f->theirs.store->docs->bulk(f->theirs.store, &r);
  OK(f, r);
  for (size_t i = 0; i < DOCS; i++) assert_int_equal(items[i].result, MT_WRITE_APPLIED);
}

static void open_job_fixture(job_fixture *f, const mt_test_place *place, undo_by by,
                             mt_test_random *random) {
  static unsigned number;
  *f = (job_fixture){.place = place, .by = by, .random = random};
  snprintf(f->index, sizeof f->index, "%s-job%u", place->prefix, ++number);
  snprintf(f->table, sizeof f->table, "%s-jobs%u", place->prefix, number);
  assert_true(mt_test_store_open(&f->theirs, place));
  create_index(f, f->index,
               MT_SLICE("{\"settings\":{\"number_of_shards\":2,\"number_of_replicas\":0,"
                        "\"refresh_interval\":\"30s\"},\"mappings\":{\"properties\":{\"path\":"
                        "{\"type\":\"keyword\"},\"see\":{\"properties\":{\"also\":{\"type\":"
                        "\"keyword\"}}}}}}"));
  create_index(f, f->table, mt_job_table());
  write_files(f);
  if (by == BY_IDS) write_beside(f);
}

static void close_job_fixture(job_fixture *f) {
  remove_index(f, f->index);
  remove_index(f, f->table);
  mt_test_store_close(&f->theirs);
}

/* Takes out what the function has added, and checks that it has. */
static mt_slice without_mark(job_fixture *f, size_t i, mt_slice source) {
  static char text[256];
  const char *mark = source.p ? memmem(source.p, source.n, made_mark, sizeof made_mark - 1) : NULL;
  bool wanted = !is_kept(i) && !(f->deletes && is_to_go(i));
  MT_CHECK(!mark == !wanted, "%s: d%zu is %.*s", f->place->name, i, (int)source.n, source.p);
  if (!mark) return source;
  snprintf(text, sizeof text, "%.*s}", (int)(mark - source.p), source.p);
  return mt_slice_of(text);
}

/* Every document is this one, to the byte; those that are to go are gone where the change was done. */
static void expect_all_below(job_fixture *f, const char *below, bool done) {
  char ids[DOCS][16], want[SOURCE_MAX];
  mt_slice id[DOCS], routing[DOCS];
  for (size_t i = 0; i < DOCS; i++) {
    snprintf(ids[i], sizeof ids[i], "d%zu", i);
    id[i] = mt_slice_of(ids[i]);
    routing[i] = i % 3 ? (mt_slice){NULL, 0} : MT_SLICE("r");
  }
  mt_mget r = {.index = f->index, .ids = id, .routing = routing, .n = DOCS};
  f->theirs.store->docs->mget(f->theirs.store, &r);
  OK(f, r);
  for (size_t i = 0; i < DOCS; i++) {
    mt_slice source = r.page->docs[i].source;
    file_source(f, i, below, want, sizeof want);
    if (done && f->by_function) source = without_mark(f, i, source);
    if (done && f->deletes && is_to_go(i)) want[0] = '\0';
    MT_CHECK(mt_slice_eq(source, mt_slice_of(want)), "%s: %s is %.*s, not %s", f->place->name,
             ids[i], (int)source.n, source.p, want);
  }
  mt_mget_deinit(&r);
}

static void expect_done(job_fixture *f, bool done) {
  bool moved = done && !f->by_function;
  expect_all_below(f, moved ? "/projects/clinton" : "/clinton", done);
}

/* ---- Killed anywhere ------------------------------------------------------------------------ */

/* Lives until one is not killed. The last one's job is left for the caller. */
static void run_through(job_fixture *f, life *l, unsigned kills, mt_job_verb after, int most) {
  mt_job_verb verb = MT_JOB_RUN;
  for (unsigned k = 0;; k++) {
    int die_at = k < kills ? 1 + (int)mt_test_below(f->random, (size_t)most) : NEVER;
    be_born(l, f, verb, die_at, (death)mt_test_below(f->random, FATES));
    live_on(l);
    const mortise_error *e = &l->job.error;
    bool missing = l->job.finished && e->code == MORTISE_NOT_FOUND && verb != MT_JOB_RUN;
    bool exists = l->job.finished && e->code == MORTISE_CONFLICT && verb == MT_JOB_RUN;
    if (l->job.finished && !missing && !exists) return;
    verb = missing ? MT_JOB_RUN : after;
    if (missing || exists) k--;
    be_buried(l);
  }
}

static void check_end(job_fixture *f, life *l, mt_job_verb after) {
  const mt_job_record *r = &l->job.record;
  bool undone = after == MT_JOB_UNDO && r->state == MT_JOB_UNDONE;
  MT_CHECK(!l->job.error.code, "%s: %s", f->place->name, l->job.error.message);
  MT_CHECK(undone || r->state == MT_JOB_DONE, "%s: %s", f->place->name,
           mt_job_state_name(r->state));
  expect_done(f, !undone);
  if (!undone) {
    /* What a late request did is not ours, unless it is seen in time. */
    uint64_t done = r->counts.changed + r->counts.deleted + r->counts.unchanged;
    MT_CHECK(r->counts.matched == DOCS && done == DOCS,
             "%s: %" PRIu64 " of %" PRIu64 " counted as done", f->place->name, done,
             r->counts.matched);
  }
  bring_all(f);
  expect_done(f, !undone);
}

static unsigned rounds_on(const mt_test_place *place) {
  const char *more = getenv("MORTISE_TEST_ROUNDS");
  return (place->elastic ? 15 : 60) * (more ? (unsigned)strtoul(more, NULL, 10) : 1);
}

static void kill_anywhere(const mt_test_place *place, undo_by by, mt_test_random *random,
                          bool by_function) {
  for (unsigned i = 0; i < rounds_on(place); i++) {
    job_fixture f;
    life l;
    open_job_fixture(&f, place, by, random);
    f.by_function = by_function;
    f.slow = place->elastic && mt_test_chance(random, 50);
    f.deletes = by < BY_INVERSE && mt_test_chance(random, 50);
    mt_job_verb after = mt_test_chance(random, 50) ? MT_JOB_UNDO : MT_JOB_RESUME;
    run_through(&f, &l, (unsigned)mt_test_below(random, 5), after, 60);
    check_end(&f, &l, after);
    be_buried(&l);
    close_job_fixture(&f);
  }
}

static void test_killed_anywhere(const mt_test_place *place, undo_by by) {
  static const char *const names[UNDOS] = {"killed", "killed, ids", "killed, inverse",
                                           "killed, server"};
  mt_test_random random = mt_test_random_for(names[by]);
  kill_anywhere(place, by, &random, false);
}

/* It has no inverse: its journal has all sources. */
static void test_function_killed_anywhere(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("function killed");
  if (by == BY_SOURCES) kill_anywhere(place, by, &random, true);
}

/* ---- Not killed ----------------------------------------------------------------------------- */

static void test_whole(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("whole");
  job_fixture f;
  life l;
  open_job_fixture(&f, place, by, &random);
  live_whole(&l, &f, MT_JOB_RUN);
  check_end(&f, &l, MT_JOB_RUN);
  assert_int_equal(l.job.result.changed, DOCS);
  assert_true(l.job.began);
  be_buried(&l);

  live_whole(&l, &f, MT_JOB_RUN); /* an id is used once */
  assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
  assert_false(l.job.began);
  be_buried(&l);

  live_whole(&l, &f, MT_JOB_RESUME); /* what is done needs no more */
  assert_int_equal(l.job.error.code, MORTISE_OK);
  assert_int_equal(l.bulks, 0);
  be_buried(&l);

  live_whole(&l, &f, MT_JOB_UNDO);
  check_end(&f, &l, MT_JOB_UNDO);
  assert_int_equal(l.job.result.changed, DOCS);
  assert_string_equal(l.job.record.reason, "");
  MT_CHECK(mt_slice_eq(l.job.record.spec, MT_SLICE("{\"what\":\"a rename\"}")), "the spec is %.*s",
           (int)l.job.record.spec.n, l.job.record.spec.p);
  be_buried(&l);
  close_job_fixture(&f);
}

/* What someone has changed since stays, and is counted. */
static void test_changed_by_others(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("others");
  job_fixture f;
  life l;
  open_job_fixture(&f, place, by, &random);
  live_whole(&l, &f, MT_JOB_RUN);
  be_buried(&l);
  mt_write theirs[2] = {
      {.kind = MT_WRITE_INDEX, .id = MT_SLICE("d1"), .body = MT_SLICE("{\"path\":\"/elsewhere\"}")},
      {.kind = MT_WRITE_DELETE, .id = MT_SLICE("d2")}};
  mt_bulk r = {.index = f.index, .items = theirs, .n = 2};
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  live_whole(&l, &f, MT_JOB_UNDO);
  /* The opposite change looks only at what lies there now. */
  assert_int_equal(l.job.error.code, by >= BY_INVERSE ? MORTISE_OK : MORTISE_CONFLICT);
  assert_int_equal(l.job.record.state, MT_JOB_UNDONE);
  assert_int_equal(l.job.result.changed, DOCS - 2);
  assert_int_equal(l.job.result.conflicts, by >= BY_INVERSE ? 0 : 2);
  be_buried(&l);
  close_job_fixture(&f);
}

/* What was deleted comes back, unless somebody has made a document of that id since. */
static void test_deleted_comes_back(const mt_test_place *place, undo_by by) {
  if (by == BY_SERVER) return; /* what is declared deletes nothing */
  mt_test_random random = mt_test_random_for("deleted");
  job_fixture f;
  life l;
  open_job_fixture(&f, place, by, &random);
  f.deletes = true;
  live_whole(&l, &f, MT_JOB_RUN);
  check_end(&f, &l, MT_JOB_RUN);
  assert_int_equal(l.job.result.deleted, DOCS / 5);
  assert_int_equal(l.job.record.counts.deleted, DOCS / 5);
  assert_int_equal(l.job.result.changed, DOCS - DOCS / 5);
  be_buried(&l);
  mt_write theirs = {.kind = MT_WRITE_CREATE,
                     .id = MT_SLICE("d3"),
                     .routing = MT_SLICE("r"),
                     .body = MT_SLICE("{\"theirs\":true}")};
  mt_bulk r = {.index = f.index, .items = &theirs, .n = 1};
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  live_whole(&l, &f, MT_JOB_UNDO);
  assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
  assert_int_equal(l.job.result.conflicts, 1);
  assert_int_equal(l.job.result.changed, DOCS - 1);
  be_buried(&l);
  theirs.kind = MT_WRITE_DELETE; /* so that all is as it was but for this one */
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  char want[SOURCE_MAX];
  file_source(&f, 3, "/clinton", want, sizeof want);
  theirs.kind = MT_WRITE_CREATE;
  theirs.body = mt_slice_of(want);
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  expect_done(&f, false);
  close_job_fixture(&f);
}

static void write_theirs(job_fixture *f, const char *id, const char *source) {
  mt_write theirs = {.kind = MT_WRITE_INDEX, .id = mt_slice_of(id), .body = mt_slice_of(source)};
  mt_bulk r = {.index = f->index, .items = &theirs, .n = 1};
  f->theirs.store->docs->bulk(f->theirs.store, &r);
  OK(f, r);
  assert_int_equal(theirs.result, MT_WRITE_APPLIED);
}

static void expect_source(job_fixture *f, const char *id, const char *begins) {
  mt_slice ids[] = {mt_slice_of(id)};
  mt_mget r = {.index = f->index, .ids = ids, .n = 1};
  f->theirs.store->docs->mget(f->theirs.store, &r);
  OK(f, r);
  const mt_slice source = r.page->docs[0].source;
  MT_CHECK(mt_slice_starts(source, mt_slice_of(begins)), "%s: %s is %.*s", f->place->name, id,
           (int)source.n, source.p);
  mt_mget_deinit(&r);
}

/* What someone changes after it was read is given to the function once more, as it is now; one that they
 * change so that it no longer matches is not. */
static void test_function_meets_others(const mt_test_place *place, undo_by by) {
  if (by != BY_SOURCES) return;
  mt_test_random random = mt_test_random_for("function meets others");
  job_fixture f;
  life l;
  open_job_fixture(&f, place, by, &random);
  f.by_function = true;
  be_born(&l, &f, MT_JOB_RUN, NEVER, LOST);
  l.rename.change.query =
      MT_SLICE("{\"bool\":{\"must_not\":[{\"term\":{\"path\":\"/elsewhere\"}}]}}");
  l.holds = true; /* what is written before it is let go is in conflict */
  while (!l.n_held && !l.job.finished) mt_loop_step(l.mine.loop, 100, NULL);
  write_theirs(&f, "d1", "{\"path\":\"/clinton/theirs\"}");
  write_theirs(&f, "d2", "{\"path\":\"/elsewhere\"}");
  let_go(&l);
  live_on(&l);
  MT_CHECK(!l.job.error.code, "%s: %s", place->name, l.job.error.message);
  expect_source(&f, "d1", "{\"path\":\"/clinton/theirs\",\"made\":");
  expect_source(&f, "d2", "{\"path\":\"/elsewhere\"}");
  assert_int_equal(l.job.record.counts.changed + l.job.record.counts.unchanged, DOCS - 1);
  be_buried(&l);

  live_whole(&l, &f, MT_JOB_UNDO); /* their change of d1 is what it was before */
  MT_CHECK(!l.job.error.code, "%s: %s", place->name, l.job.error.message);
  expect_source(&f, "d1", "{\"path\":\"/clinton/theirs\"}");
  expect_source(&f, "d2", "{\"path\":\"/elsewhere\"}");
  be_buried(&l);
  close_job_fixture(&f);
}

static bool is_half_way(const life *l) {
  const mt_change *c = &l->rename.change;
  return c->result.changed || (c->sweep && c->sweep->task[0]);
}

/* Stopped by its owner it says so, and goes on later. */
static void test_cancelled(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("cancelled");
  job_fixture f;
  life l;
  if (by == BY_SERVER && !place->elastic) return; /* all is done in one request */
  open_job_fixture(&f, place, by, &random);
  f.slow = true;
  be_born(&l, &f, MT_JOB_RUN, NEVER, LOST);
  while (!l.job.finished && !is_half_way(&l)) mt_loop_step(l.mine.loop, 100, NULL);
  mt_job_cancel(&l.job);
  live_on(&l);
  assert_int_equal(l.job.error.code, MORTISE_INTERRUPTED);
  assert_int_equal(l.job.record.state, MT_JOB_STOPPED);
  assert_non_null(strstr(l.job.record.reason, "interrupted"));
  be_buried(&l);
  live_whole(&l, &f, MT_JOB_RESUME);
  check_end(&f, &l, MT_JOB_RESUME);
  be_buried(&l);
  close_job_fixture(&f);
}

/* What is refused before anything was written leaves nothing to be resumed or undone. */
static void test_refused_at_start(const mt_test_place *place, undo_by by) {
  if (by == BY_SERVER) return; /* what is merged needs a journal */
  mt_test_random random = mt_test_random_for("refused");
  job_fixture f;
  life l;
  open_job_fixture(&f, place, by, &random);
  be_born(&l, &f, MT_JOB_RUN, NEVER, LOST);
  l.rename.merge = false;
  write_beside(&f);
  live_on(&l);
  assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
  assert_int_equal(l.job.record.state, MT_JOB_UNDONE);
  assert_non_null(strstr(l.job.record.reason, "merge"));
  expect_done(&f, false);
  be_buried(&l);

  be_born(&l, &f, MT_JOB_RUN, NEVER, LOST); /* nothing of it was begun: it may be run again */
  live_on(&l);
  assert_int_equal(l.job.error.code, MORTISE_OK);
  assert_int_equal(l.job.record.attempts, 2);
  assert_int_equal(l.job.record.counts.changed, DOCS);
  expect_done(&f, true);
  be_buried(&l);

  be_born(&l, &f, MT_JOB_UNDO, NEVER, LOST);
  live_on(&l);
  assert_int_equal(l.job.record.state, MT_JOB_UNDONE);
  expect_done(&f, false);
  be_buried(&l);

  static const mt_job_verb not_again[] = {MT_JOB_RUN, MT_JOB_RESUME}; /* what was begun is not */
  for (int i = 0; i < 2; i++) {
    be_born(&l, &f, not_again[i], NEVER, LOST);
    live_on(&l);
    assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
    expect_done(&f, false);
    be_buried(&l);
  }
  close_job_fixture(&f);
}

/* Two at it: the one whose document was written by the other ends, and changes nothing any more. */
static void test_taken_over(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("taken over");
  job_fixture f;
  life first, second;
  open_job_fixture(&f, place, by, &random);
  be_born(&first, &f, MT_JOB_RUN, NEVER, LOST);
  int events = by == BY_SERVER ? 5 : 12;
  while (first.events < events && !first.job.finished) mt_loop_step(first.mine.loop, 100, NULL);
  /* What is not journaled is safe because the first sends nothing any more: its lock is lost by then. */
  if (by >= BY_INVERSE) atomic_store(&first.lock.session.lost, true);
  live_whole(&second, &f, MT_JOB_UNDO);
  check_end(&f, &second, MT_JOB_UNDO);
  current = &first;
  live_on(&first);
  assert_true(first.job.error.code != MORTISE_OK);
  expect_done(&f, false);
  be_buried(&second);
  be_buried(&first);
  close_job_fixture(&f);
}

/* ---- Every place ---------------------------------------------------------------------------- */

static mt_test_place places[MT_TEST_PLACES];
static size_t n_places;

#define EVERYWHERE(what)                                                                           \
  static void everywhere_##what(void **state) {                                                    \
    (void)state;                                                                                   \
    for (size_t i = 0; i < n_places; i++) {                                                        \
      print_message("    %s\n", places[i].name);                                                   \
      for (int by = 0; by < UNDOS; by++) test_##what(&places[i], (undo_by)by);                     \
    }                                                                                              \
  }
EVERYWHERE(whole)
EVERYWHERE(changed_by_others)
EVERYWHERE(deleted_comes_back)
EVERYWHERE(function_meets_others)
EVERYWHERE(cancelled)
EVERYWHERE(taken_over)
EVERYWHERE(refused_at_start)
EVERYWHERE(killed_anywhere)
EVERYWHERE(function_killed_anywhere)

int main(void) {
  n_places = mt_test_places(places);
  for (size_t i = 0; i < n_places; i++)
    if (mt_test_init_table(&places[i])) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everywhere_whole),
      cmocka_unit_test(everywhere_changed_by_others),
      cmocka_unit_test(everywhere_deleted_comes_back),
      cmocka_unit_test(everywhere_function_meets_others),
      cmocka_unit_test(everywhere_cancelled),
      cmocka_unit_test(everywhere_taken_over),
      cmocka_unit_test(everywhere_refused_at_start),
      cmocka_unit_test(everywhere_killed_anywhere),
      cmocka_unit_test(everywhere_function_killed_anywhere),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (size_t i = 0; i < n_places; i++) mt_test_place_clean(&places[i]);
  return failed;
}
