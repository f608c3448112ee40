#include "job_life.h"

#include "job/unit.h"

#include <stdio.h>
#include <stdlib.h>

life *life_current;

/* ---- Dying ---------------------------------------------------------------------------------- */

void job_bring_all(job_fixture *f) {
  late_bulk_bring(&f->late, f->theirs.store);
  late_sweep_bring(&f->sweep, f->theirs.store);
}

/* True: the request is not sent, and nothing after it. */
static bool dies(life *l) {
  if (++l->events == l->f->late_at) job_bring_all(l->f);
  if (l->dead || l->events < l->die_at) return l->dead;
  return l->dead = true;
}

void life_let_go(life *l) {
  l->holds = false;
  for (size_t i = 0; i < l->n_held; i++) l->real->bulk(l->mine.store, l->held[i]);
}

static void dying_bulk(mt_store *s, mt_bulk *r) {
  life *l = life_current;
  bool was_dead = l->dead;
  if (l->holds && r->index && !strcmp(r->index, l->f->index)) {
    l->held[l->n_held++] = r;
    return;
  }
  l->bulks++;
  if (l->dies_writing && r->index && !strcmp(r->index, l->f->index)) l->die_at = 0;
  if (l->dies_listing && memmem(r->items[0].id.p, r->items[0].id.n, ":aside:", 7))
    l->die_at = l->events + 2;
  if (!dies(l)) {
    l->real->bulk(s, r);
    return;
  }
  if (was_dead || l->fate == LOST) return;
  late_bulk_bring(&l->f->late, l->f->theirs.store); /* of the one before, if it has not come yet */
  l->f->late = late_bulk_of(r);
  l->f->late_at = l->dies_writing ? NEVER : 1 + (int)mt_test_below(l->f->random, 40);
  if (l->fate == APPLIED) late_bulk_bring(&l->f->late, l->f->theirs.store);
}

/* A task on a server is so slow that it outlives whoever dies while it runs. The embedded store gets nothing
 * late. */
static void dying_update_by_query(mt_store *s, mt_update_by_query *r) {
  life *l = life_current;
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
    if (!dies(life_current)) life_current->real->op(s, r);                                         \
  }
DYING(mget, mt_mget)
DYING(count, mt_count)
DYING(refresh, mt_refresh)
DYING(search, mt_search)
DYING(describe, mt_describe)
DYING(scan_open, mt_scan_open)

static void dying_scan_next(mt_store *s, mt_scan_next *r) {
  if (!dies(life_current)) life_current->real->scan_next(s, r);
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

static size_t number_of(mt_slice id) {
  return strtoul((const char *)memrchr(id.p, 'd', id.n) + 1, NULL, 10);
}

static mt_transformed rename_or_delete(void *ctx, const mt_doc *doc, mt_buf *out,
                                       mortise_error *err) {
  const life *l = ctx;
  if (is_to_go(number_of(doc->id))) return MT_DELETED;
  return l->renames.apply(l->renames.ctx, doc, out, err);
}

static const char made_mark[] = ",\"made\":";

/* Makes something else each time, and must never see what it has made. */
static mt_transformed call_function(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  static unsigned calls;
  const life *l = ctx;
  (void)err;
  size_t number = number_of(doc->id);
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
    mt_transformed how = call_function(life_current, doc, &out, &err);
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

void life_begin(life *l, job_fixture *f, mt_job_verb verb, int die_at, death fate) {
  mortise_error err;
  *l = (life){.f = f, .die_at = die_at, .fate = fate};
  life_current = l;
  assert_true(mt_test_store_open(&l->mine, f->place));
  l->real = l->mine.store->docs;
  l->ops = *l->real;
  l->ops.bulk = dying_bulk;
  l->ops.mget = dying_mget;
  l->ops.count = dying_count;
  l->ops.refresh = dying_refresh;
  l->ops.search = dying_search;
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
  if (f->by == BY_MOVES) assert_int_equal(mt_rename_ids(&l->rename, &err), MORTISE_OK);
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
  l->job.unlisted = f->by == BY_INVERSE;
  l->job.strategy = f->by == BY_SERVER ? MT_STRATEGY_SERVER : MT_STRATEGY_CLIENT;
  if (verb == MT_JOB_UNDO) {
    mt_rename_touch(&l->rename);
    l->job.touch = c;
    l->job.back = &l->back.change;
  }
  MT_CHECK(!mt_job_start(&l->job, &err), "%s: %s", f->place->name, err.message);
}

void life_go_on(life *l) {
  int64_t end = mt_test_ns() + (int64_t)MT_TEST_HANG_MS * 1000000;
  while (!l->job.finished && !l->dead && mt_test_ns() < end) mt_loop_step(l->mine.loop, 100, NULL);
  MT_CHECK(l->job.finished || l->dead, "%s: the job hangs", l->f->place->name);
  if (!l->job.finished) mt_job_abandon(&l->job);
}

/* One that is not killed. */
void life_whole(life *l, job_fixture *f, mt_job_verb verb) {
  life_begin(l, f, verb, NEVER, LOST);
  life_go_on(l);
}

void life_end(life *l) {
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

void job_id(const job_fixture *f, size_t i, const char *below, char *out, size_t size) {
  bool moves = f->by == BY_MOVES && i % 4 != 1;
  snprintf(out, size, "%s%sd%zu", moves ? below : "", moves ? "/" : "", i);
}

/* Of some, an inverse would not restore the bytes: their path was spelled with an escape that it needs not. Some have
 * paths in an array too, and some only there. A server that makes the change by itself spells a document anew, with its
 * members in any order, so those have one member. */
void job_source(const job_fixture *f, size_t i, const char *below, char *out, size_t size) {
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

void job_write_beside(job_fixture *f) {
  mt_write w = {.kind = MT_WRITE_INDEX,
                .id = MT_SLICE("there"),
                .body = MT_SLICE("{\"path\":\"/projects/clinton/x\"}")};
  mt_bulk r = {.index = f->index, .items = &w, .n = 1};
  f->theirs.store->docs->bulk(f->theirs.store, &r);
  OK(f, r);
}

static void write_files(job_fixture *f) {
  mt_write items[DOCS];
  char ids[DOCS][ID_MAX], sources[DOCS][SOURCE_MAX];
  for (size_t i = 0; i < DOCS; i++) {
    job_id(f, i, "/clinton", ids[i], sizeof ids[i]);
    job_source(f, i, "/clinton", sources[i], sizeof sources[i]);
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

void job_fixture_open(job_fixture *f, const mt_test_place *place, undo_by by,
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
  if (by == BY_IDS) job_write_beside(f);
}

void job_fixture_close(job_fixture *f) {
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

/* Every document is this one, to the byte, and has no other id; those that are to go are gone where the change was done. */
static void expect_all_below(job_fixture *f, const char *below, bool done) {
  char ids[2 * DOCS][ID_MAX], want[SOURCE_MAX];
  mt_slice id[2 * DOCS], routing[2 * DOCS];
  const char *other = strcmp(below, "/clinton") ? "/clinton" : "/projects/clinton";
  for (size_t i = 0; i < 2 * DOCS; i++) {
    job_id(f, i % DOCS, i < DOCS ? below : other, ids[i], sizeof ids[i]);
    id[i] = mt_slice_of(ids[i]);
    routing[i] = i % DOCS % 3 ? (mt_slice){NULL, 0} : MT_SLICE("r");
  }
  mt_mget r = {.index = f->index, .ids = id, .routing = routing, .n = 2 * DOCS};
  f->theirs.store->docs->mget(f->theirs.store, &r);
  OK(f, r);
  for (size_t i = 0; i < DOCS; i++) {
    mt_slice source = r.page->docs[i].source;
    job_source(f, i, below, want, sizeof want);
    if (done && f->by_function) source = without_mark(f, i, source);
    if (done && f->deletes && is_to_go(i)) want[0] = '\0';
    MT_CHECK(mt_slice_eq(source, mt_slice_of(want)), "%s: %s is %.*s, not %s", f->place->name,
             ids[i], (int)source.n, source.p, want);
  }
  for (size_t i = DOCS; i < 2 * DOCS; i++)
    MT_CHECK(!r.page->docs[i].found || !strcmp(ids[i], ids[i - DOCS]), "%s: %s is there as well",
             f->place->name, ids[i]);
  mt_mget_deinit(&r);
}

void job_expect_done(job_fixture *f, bool done) {
  bool moved = done && !f->by_function;
  expect_all_below(f, moved ? "/projects/clinton" : "/clinton", done);
}

void job_write_theirs(job_fixture *f, const char *id, const char *source) {
  mt_write theirs = {.kind = MT_WRITE_INDEX, .id = mt_slice_of(id), .body = mt_slice_of(source)};
  mt_bulk r = {.index = f->index, .items = &theirs, .n = 1};
  f->theirs.store->docs->bulk(f->theirs.store, &r);
  OK(f, r);
  assert_int_equal(theirs.result, MT_WRITE_APPLIED);
}

void job_expect_source(job_fixture *f, const char *id, const char *begins) {
  mt_slice ids[] = {mt_slice_of(id)};
  mt_mget r = {.index = f->index, .ids = ids, .n = 1};
  f->theirs.store->docs->mget(f->theirs.store, &r);
  OK(f, r);
  const mt_slice source = r.page->docs[0].source;
  MT_CHECK(mt_slice_starts(source, mt_slice_of(begins)), "%s: %s is %.*s", f->place->name, id,
           (int)source.n, source.p);
  mt_mget_deinit(&r);
}
