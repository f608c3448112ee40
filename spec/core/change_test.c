/* The change pipeline on a store of the test's own: passes, conflicts, accounting, every end. */
#include "job/rename.h"

#include "base/clock.h"
#include "base/pump.h"
#include "fake_docs.h"
#include "property.h"

enum { LEASE_MS = 60000 };

typedef struct fixture {
  mt_loop *loop;
  fake_docs fake;
  fake_lock lock;
  mt_rename rename;
  int done, step;
  bool plan, late, peeks;
  mt_preview preview; /* of a plan */
  bool strict; /* sets neither `merge` nor `allow_empty` */
  uint64_t told, told_total;
  rng random;
} fixture;

static int64_t now_ms(void *ctx) {
  (void)ctx;
  return mt_clock_boot_ms();
}

/* Goes on by this much with each reading, as it does for a process that seldom has the processor. */
static int64_t read_ms;

static int64_t later_ms(void *ctx) {
  static int64_t later;
  (void)ctx;
  later += read_ms;
  return mt_clock_boot_ms() + later;
}

static uint64_t draw(void *ctx) {
  (void)ctx;
  return 7;
}

static const mt_env env = {NULL, now_ms, draw}, late_env = {NULL, later_ms, draw};

static int setup(void **state) {
  fixture *f = *state = calloc(1, sizeof *f);
  f->loop = mt_loop_new(NULL);
  fake_docs_init(&f->fake, f->loop);
  f->fake.ctx = f;
  f->random.state = property_seed();
  fake_lock_init(&f->lock, &env, LEASE_MS);
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  mt_change_abandon(&f->rename.change);
  mt_rename_deinit(&f->rename);
  for (int i = 0; i < 3; i++) mt_loop_step(f->loop, 0, NULL);
  fake_docs_deinit(&f->fake);
  mt_loop_free(f->loop);
  free(f);
  return 0;
}

static void on_done(void *ctx, mt_change *c) {
  fixture *f = ctx;
  f->done++;
  assert_null(c->op);
}

static void on_progress(void *ctx, mt_change *c, uint64_t changed, uint64_t total) {
  fixture *f = ctx;
  (void)c;
  assert_true(changed > f->told && changed <= total);
  f->told = changed;
  f->told_total = total;
}

static mortise_status start(fixture *f, const char *from, const char *to, uint32_t page,
                            mortise_error *err) {
  mt_rename_deinit(&f->rename);
  mortise_status status =
      mt_rename_init(&f->rename, MT_SLICE("path"), mt_slice_of(from), mt_slice_of(to), err);
  if (status) return status;
  f->rename.merge = f->rename.allow_empty = !f->strict;
  mt_change *c = &f->rename.change;
  c->done = on_done;
  c->ctx = f;
  c->store = &f->fake.store;
  c->env = f->late ? &late_env : &env;
  c->permit = fake_permit(&f->lock);
  c->index = "fake";
  c->progress = on_progress;
  c->options.page = page;
  c->plan = f->plan;
  c->preview = f->plan ? &f->preview : NULL;
  c->peeks = f->peeks;
  f->told = 0;
  return mt_change_start(c, err);
}

static void pump(fixture *f) {
  int before = f->done;
  mt_loop_pump(f->loop, &f->rename.change.finished, mt_clock_boot_ms() + 20000, NULL);
  assert_int_equal(f->done, before + 1);
}

static const mt_change_result *run(fixture *f, uint32_t page) {
  mortise_error err;
  assert_int_equal(start(f, "/clinton", "/projects/clinton", page, &err), MORTISE_OK);
  pump(f);
  return &f->rename.change.result;
}

/* `in` documents under /clinton, as many of /clintonville, some elsewhere. */
static void fill(fixture *f, size_t in) {
  char id[32], source[160];
  for (size_t i = 0; i < in; i++) {
    snprintf(id, sizeof id, "in%zu", i);
    snprintf(source, sizeof source,
             "{\"n\":1234567890123456789, \"path\":\"/clinton/%zu\" ,\"e\":[],\"o\":{},\"z\":null}",
             i);
    fake_put(&f->fake, id, i ? source : "{\"path\":\"/clinton\"}");
    snprintf(id, sizeof id, "out%zu", i);
    snprintf(source, sizeof source, "{\"path\":\"/clintonville/%zu\"}", i);
    fake_put(&f->fake, id, source);
  }
}

static size_t under(fixture *f, const char *prefix) {
  char start_of[64];
  size_t n = 0;
  snprintf(start_of, sizeof start_of, "\"path\":\"%s", prefix);
  for (size_t i = 0; i < f->fake.n; i++)
    n += f->fake.docs[i].found && strstr(f->fake.docs[i].source, start_of) != NULL;
  return n;
}

static const char *source_of(fixture *f, const char *id) {
  return fake_get(&f->fake, mt_slice_of(id))->source;
}

static void assert_moved(fixture *f, size_t n) {
  assert_int_equal(under(f, "/projects/clinton"), n);
  assert_int_equal(under(f, "/clinton/"), 0);
  assert_int_equal(f->rename.change.error.code, MORTISE_OK);
  assert_int_equal(f->rename.change.result.left, 0);
}

static void test_sizes(void **state) {
  static const size_t sizes[] = {0, 1, 6, 7, 8, 100, 1001};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    if (i) setup(state);
    fixture *f = *state;
    fill(f, sizes[i]);
    const mt_change_result *r = run(f, 7);
    assert_moved(f, sizes[i]);
    assert_int_equal(r->matched, sizes[i]);
    assert_int_equal(r->changed, sizes[i]);
    assert_int_equal(r->passes, 1);
    assert_int_equal(under(f, "/clintonville"), sizes[i]);
    assert_int_equal(f->told, sizes[i]);
    assert_int_equal(r->round_trips, f->fake.store.stats.requests);
    if (sizes[i] > 6)
      assert_string_equal(source_of(f, "in6"),
                          "{\"n\":1234567890123456789, \"path\":\"/projects/clinton/6\" "
                          ",\"e\":[],\"o\":{},\"z\":null}");
    if (i + 1 < sizeof sizes / sizeof sizes[0]) teardown(state);
  }
}

static fake_fate check_shape(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)fake;
  for (size_t i = 0; i < r->n; i++) {
    assert_int_equal(r->items[i].kind, MT_WRITE_INDEX);
    assert_true(r->items[i].skip_pipeline);
    assert_true(r->items[i].if_version.term > 0);
    assert_true(mt_slice_eq(r->items[i].index, MT_SLICE("fake")));
    assert_true(mt_slice_eq(r->items[i].routing, MT_SLICE("r1")));
  }
  assert_non_null(r->req.may_send);
  return FAKE_FINE;
}

static void test_shape(void **state) {
  fixture *f = *state;
  fill(f, 50);
  for (size_t i = 0; i < f->fake.n; i++) f->fake.docs[i].routing = strdup("r1");
  f->fake.fate = check_shape;
  run(f, 20);
  assert_moved(f, 50);
  assert_string_equal(fake_get(&f->fake, MT_SLICE("in1"))->routing, "r1");
}

static void test_second_run(void **state) {
  fixture *f = *state;
  fill(f, 100);
  run(f, 10);
  size_t items = f->fake.items;
  const mt_change_result *r = run(f, 10);
  assert_moved(f, 100);
  assert_int_equal(f->fake.items, items);
  assert_int_equal(r->matched, 0);
  assert_int_equal(r->changed, 0);
}

static void test_large_pages(void **state) {
  fixture *f = *state;
  fill(f, 100);
  f->fake.page_max = 3;
  const mt_change_result *r = run(f, 40);
  assert_moved(f, 100);
  assert_int_equal(r->passes, 1);
  assert_int_equal(r->changed, 100);
  assert_int_equal(r->matched, 100);
}

/* ---- Others at work ------------------------------------------------------------------------- */

static fake_fate edit_during(void *ctx, fake_docs *fake, mt_bulk *r) {
  fixture *f = ctx;
  (void)r;
  if (f->step++) return FAKE_FINE;
  fake_put(fake, "in1", "{\"edited\":1,\"path\":\"/clinton/1\"}");
  fake_put(fake, "in95", "{\"edited\":2,\"path\":\"/clinton/95\"}");
  fake_put(fake, "in96", "{\"edited\":3,\"path\":\"/elsewhere\"}");
  fake_remove(fake, "in97");
  return FAKE_FINE;
}

static void test_edits_survive(void **state) {
  fixture *f = *state;
  fill(f, 100);
  f->fake.fate = edit_during;
  const mt_change_result *r = run(f, 10);
  assert_moved(f, 98);
  assert_string_equal(source_of(f, "in1"), "{\"edited\":1,\"path\":\"/projects/clinton/1\"}");
  assert_string_equal(source_of(f, "in95"), "{\"edited\":2,\"path\":\"/projects/clinton/95\"}");
  assert_string_equal(source_of(f, "in96"), "{\"edited\":3,\"path\":\"/elsewhere\"}");
  assert_false(fake_get(&f->fake, MT_SLICE("in97"))->found);
  assert_int_equal(r->redone, 2);
  assert_int_equal(r->changed, 98);
  assert_int_equal(r->unchanged, 2);
  assert_int_equal(r->matched, 100);
}

static void new_file(void *ctx, fake_docs *fake) {
  fixture *f = ctx;
  if (f->step++ == 5) fake_put(fake, "late", "{\"path\":\"/clinton/late\"}");
}

static void test_new_file(void **state) {
  fixture *f = *state;
  fill(f, 100);
  f->fake.page = new_file;
  const mt_change_result *r = run(f, 10);
  assert_moved(f, 101);
  assert_int_equal(r->passes, 2);
  assert_int_equal(r->matched, 101);
  assert_int_equal(r->changed, 101);
  assert_string_equal(source_of(f, "late"), "{\"path\":\"/projects/clinton/late\"}");
}

static void always_new(void *ctx, fake_docs *fake) {
  fixture *f = ctx;
  char id[32];
  snprintf(id, sizeof id, "late%d", f->step++);
  fake_put(fake, id, "{\"path\":\"/clinton/late\"}");
}

/* If someone without a lock keeps adding documents, the change still ends, and says what is
 * left. */
static void test_passes_are_bounded(void **state) {
  fixture *f = *state;
  fill(f, 10);
  f->fake.page = always_new;
  const mt_change_result *r = run(f, 10);
  assert_int_equal(f->rename.change.error.code, MORTISE_REJECTED);
  assert_int_equal(r->passes, 8);
  assert_true(r->left > 0);
}

static fake_fate edit_one_always(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  fake_put(fake, "in1", "{\"path\":\"/clinton/1\"}");
  return FAKE_FINE;
}

static void test_conflict_for_ever(void **state) {
  fixture *f = *state;
  fill(f, 10);
  f->fake.fate = edit_one_always;
  const mt_change_result *r = run(f, 10);
  assert_int_equal(f->rename.change.error.code, MORTISE_CONFLICT);
  assert_int_equal(r->conflicts, 1);
  assert_int_equal(r->changed, 9);
  assert_int_equal(r->left, 1);
}

/* ---- Documents that cannot be changed ------------------------------------------------------- */

static mt_write_result reject_some(void *ctx, fake_docs *fake, mt_write *w) {
  (void)ctx;
  (void)fake;
  return w->id.n > 2 && w->id.p[2] == '3' ? MT_WRITE_REJECTED : MT_WRITE_NONE;
}

static void test_rejected(void **state) {
  fixture *f = *state;
  fill(f, 400);
  f->fake.item = reject_some;
  const mt_change_result *r = run(f, 50);
  assert_int_equal(f->rename.change.error.code, MORTISE_REJECTED);
  assert_int_equal(r->rejected, 111); /* 3, 30 to 39, 300 to 399 */
  assert_int_equal(r->changed, 289);
  assert_int_equal(r->left, 111);
  assert_int_equal(r->passes, 1);
  for (int i = 0; i < MT_REJECTS_SHOWN; i++) {
    assert_int_equal(strncmp(r->rejects[i].id, "in3", 3), 0);
    assert_string_equal(r->rejects[i].reason, "as the test said");
  }
}

static void test_set_aside(void **state) {
  fixture *f = *state;
  mortise_error err;
  fake_put(&f->fake, "a", "{\"path\":\"/a/b/b/c\"}");
  fake_put(&f->fake, "b", "{\"path\":\"/a/b/d\"}");
  assert_int_equal(start(f, "/a/b", "/a", 10, &err), MORTISE_OK);
  pump(f);
  const mt_change_result *r = &f->rename.change.result;
  assert_int_equal(f->rename.change.error.code, MORTISE_REJECTED);
  assert_int_equal(r->changed, 1);
  assert_int_equal(r->rejected, 1);
  assert_string_equal(r->rejects[0].id, "a");
  assert_string_equal(source_of(f, "a"), "{\"path\":\"/a/b/b/c\"}");
  assert_string_equal(source_of(f, "b"), "{\"path\":\"/a/d\"}");
}

/* ---- What is there before ------------------------------------------------------------------- */

static const mt_change *run_strict(fixture *f, const char *from, const char *to) {
  mortise_error err;
  f->strict = true;
  f->fake.bulks = 0;
  assert_int_equal(start(f, from, to, 10, &err), MORTISE_OK);
  pump(f);
  return &f->rename.change;
}

static void test_nothing_there(void **state) {
  fixture *f = *state;
  fake_put(&f->fake, "near", "{\"path\":\"/clintonville\"}");
  const mt_change *c = run_strict(f, "/clinton", "/x");
  assert_int_equal(c->error.code, MORTISE_NOT_FOUND);
  assert_string_equal(c->error.message, "there are no documents below /clinton");
  fake_put(&f->fake, "there", "{\"path\":\"/x/1\"}");
  c = run_strict(f, "/clinton", "/x");
  assert_int_equal(c->error.code, MORTISE_NOT_FOUND);
  assert_string_equal(c->error.message, "there are no documents below /clinton; 1 below /x");
  f->strict = false;
  const mt_change_result *r = run(f, 10);
  assert_int_equal(f->rename.change.error.code, MORTISE_OK);
  assert_int_equal(r->changed, 0);
}

static void test_something_there(void **state) {
  fixture *f = *state;
  fill(f, 30);
  fake_put(&f->fake, "near", "{\"path\":\"/projects/clintonville\"}");
  fake_put(&f->fake, "there", "{\"path\":\"/projects/clinton\"}");
  fake_put(&f->fake, "below", "{\"path\":\"/projects/clinton/1\"}");
  const mt_change *c = run_strict(f, "/clinton", "/projects/clinton");
  assert_int_equal(c->error.code, MORTISE_CONFLICT);
  assert_string_equal(c->error.message,
                      "2 documents lie below /projects/clinton already; `merge` is needed to join "
                      "them; 0 of 30 documents had been "
                      "changed");
  assert_int_equal(c->result.beside, 2);
  assert_int_equal(f->fake.bulks, 0);
  assert_int_equal(under(f, "/clinton"), 60);
  f->strict = false;
  f->fake.counts = 0;
  assert_int_equal(run(f, 10)->beside, 2);
  assert_int_equal(f->fake.counts, 2); /* of what is there before, and of what is left after */
  assert_moved(f, 33);                 /* the near one too */
}

/* When a tree moves into its parent, its own documents are not counted as being in the way. */
static void test_up(void **state) {
  fixture *f = *state;
  fake_put(&f->fake, "1", "{\"path\":\"/a/b/1\"}");
  const mt_change *c = run_strict(f, "/a/b", "/a");
  assert_int_equal(c->error.code, MORTISE_OK);
  assert_string_equal(source_of(f, "1"), "{\"path\":\"/a/1\"}");
  assert_int_equal(run_strict(f, "/a", "/")->error.code, MORTISE_OK);
  assert_string_equal(source_of(f, "1"), "{\"path\":\"/1\"}");
  fake_put(&f->fake, "2", "{\"path\":\"/a/b/2\"}");
  assert_int_equal(run_strict(f, "/a/b", "/")->result.beside, 1);
  fake_put(&f->fake, "3", "{\"path\":\"/a/c\"}");
  c = run_strict(f, "/a/b", "/a");
  assert_int_equal(c->error.code, MORTISE_CONFLICT);
  assert_int_equal(c->result.beside, 1);
}

/* ---- Fitness -------------------------------------------------------------------------------- */

static void refused(fixture *f, mt_describe facts, mortise_status want) {
  f->fake.facts = facts;
  run(f, 10);
  assert_int_equal(f->rename.change.error.code, want);
  assert_int_equal(f->fake.scans, 0);
  assert_int_equal(f->fake.bulks, 0);
}

static void test_unfit(void **state) {
  fixture *f = *state;
  fill(f, 5);
  refused(f, (mt_describe){.exists = false}, MORTISE_NOT_FOUND);
  refused(f, (mt_describe){.exists = true, .source_disabled = true}, MORTISE_UNSUPPORTED);
  refused(f, (mt_describe){.exists = true, .source_filtered = true}, MORTISE_UNSUPPORTED);
  refused(f, (mt_describe){.exists = true, .source_synthetic = true}, MORTISE_UNSUPPORTED);
  refused(f, (mt_describe){.exists = true, .final_pipeline = true}, MORTISE_UNSUPPORTED);
  refused(f, (mt_describe){.exists = true, .data_stream = true}, MORTISE_UNSUPPORTED);
}

static mortise_status exact(const char *json, const char *field, const char *want, bool hides) {
  mt_buf out;
  bool ignores;
  mt_buf_init(&out, 256);
  mortise_status status =
      mt_exact_field(mt_slice_of(json), mt_slice_of(field), &out, &ignores, NULL);
  if (want) assert_string_equal(out.p, want);
  if (want) assert_int_equal(ignores, hides);
  mt_buf_deinit(&out);
  return status;
}

#define MAPPED(properties) "{\"i\":{\"mappings\":{\"properties\":{" properties "}}}}"

static void test_exact_field(void **state) {
  (void)state;
  exact(MAPPED("\"path\":{\"type\":\"keyword\"}"), "path", "path", false);
  exact(MAPPED("\"path\":{\"type\":\"wildcard\"}"), "path", "path", false);
  exact(MAPPED("\"path\":{\"type\":\"keyword\",\"ignore_above\":256}"), "path", "path", true);
  exact(MAPPED("\"path\":{\"type\":\"text\",\"fields\":{\"keyword\":{\"type\":\"keyword\","
               "\"ignore_above\":256}}}"),
        "path", "path.keyword", true);
  exact(
      MAPPED("\"path\":{\"type\":\"text\",\"fields\":{\"t\":{\"type\":\"text\"},\"raw\":{\"type\":"
             "\"keyword\"}}}"),
      "path", "path.raw", false);
  exact(MAPPED("\"f\":{\"properties\":{\"path\":{\"type\":\"keyword\"}}}"), "f.path", "f.path",
        false);
  exact(MAPPED("\"other\":{\"type\":\"keyword\"}"), "path", "path", false);
  exact("", "path", "path", false);
  exact(
      "{\"a\":{\"mappings\":{\"properties\":{\"p\":{\"type\":\"keyword\"}}}},\"b\":{\"mappings\":{"
      "\"properties\":{\"p\":{\"type\":\"keyword\",\"ignore_above\":9}}}}}",
      "p", "p", true);
  assert_int_equal(
      exact("{\"a\":{\"mappings\":{\"properties\":{\"p\":{\"type\":\"keyword\"}}}},\"b\":"
            "{\"mappings\":{\"properties\":{\"p\":{\"type\":\"text\",\"fields\":{\"k\":{"
            "\"type\":\"keyword\"}}}}}}}",
            "p", NULL, false),
      MORTISE_UNSUPPORTED);
  assert_int_equal(exact(MAPPED("\"p\":{\"type\":\"text\"}"), "p", NULL, false),
                   MORTISE_UNSUPPORTED);
  assert_int_equal(exact(MAPPED("\"p\":{\"type\":\"keyword\",\"index\":false}"), "p", NULL, false),
                   MORTISE_UNSUPPORTED);
  assert_int_equal(
      exact(MAPPED("\"p\":{\"type\":\"keyword\",\"normalizer\":\"lowercase\"}"), "p", NULL, false),
      MORTISE_UNSUPPORTED);
}

/* ---- Failures ------------------------------------------------------------------------------- */

static fake_fate any_fate(void *ctx, fake_docs *fake, mt_bulk *r) {
  fixture *f = ctx;
  char id[32];
  snprintf(id, sizeof id, "in%zu", rng_below(&f->random, 300));
  if (rng_chance(&f->random, 20)) { /* an edit in the middle */
    char path[64], source[128];
    mt_json root;
    mt_json_parse(mt_slice_of(source_of(f, id)), "source", &root, NULL);
    snprintf(source, sizeof source, "{\"edited\":%s,\"path\":\"%s\"}", id + 2,
             mt_json_copy(mt_json_get(root, "path"), path, sizeof path));
    fake_put(fake, id, source);
  }
  if (!rng_chance(&f->random, 40)) return FAKE_FINE;
  fake_fate fate = (fake_fate)(1 + rng_below(&f->random, FAKE_REFUSED));
  return fate == FAKE_BAD || (fate == FAKE_TOO_LARGE && r->n < 4) ? FAKE_FINE : fate;
}

static void test_any(void **state) {
  for (size_t round = property_rounds(10); round > 0; round--) {
    fixture *f = *state;
    f->random.state = property_seed() + round;
    fill(f, 300);
    f->fake.fate = any_fate;
    const mt_change_result *r = run(f, 23);
    assert_moved(f, 300);
    assert_int_equal(r->matched, r->changed + r->unchanged);
    teardown(state);
    setup(state);
  }
}

static fake_fate kill_here(void *ctx, fake_docs *fake, mt_bulk *r) {
  fixture *f = ctx;
  (void)fake;
  (void)r;
  f->step++;
  return FAKE_FINE;
}

/* The next run finishes what a killed run left, wherever it was killed. */
static void test_killed(void **state) {
  for (int at = 0; at < 40; at += 3) {
    fixture *f = *state;
    mortise_error err;
    fill(f, 100);
    f->fake.fate = kill_here;
    assert_int_equal(start(f, "/clinton", "/projects/clinton", 10, &err), MORTISE_OK);
    for (int i = 0; i < at && !f->done; i++) mt_loop_step(f->loop, 0, NULL);
    mt_change_abandon(&f->rename.change);
    size_t moved = under(f, "/projects/clinton");
    const mt_change_result *r = run(f, 10);
    assert_moved(f, 100);
    assert_int_equal(r->matched, 100 - moved);
    teardown(state);
    setup(state);
  }
}

static fake_fate deadline_passes(void *ctx, fake_docs *fake, mt_bulk *r) {
  fixture *f = ctx;
  (void)r;
  if (fake->bulks == 4) atomic_store(&f->lock.session.deadline_ms, 1);
  return FAKE_FINE;
}

static void test_lock_lost(void **state) {
  fixture *f = *state;
  fill(f, 200);
  f->fake.fate = deadline_passes;
  const mt_change_result *r = run(f, 10);
  assert_int_equal(f->rename.change.error.code, MORTISE_LOCK_LOST);
  assert_int_equal(f->fake.bulks, 4);
  assert_int_equal(r->changed, 40);
  assert_int_equal(under(f, "/projects/clinton"), 40);
  assert_non_null(strstr(f->rename.change.error.message, "40 of 200 documents had been changed"));
  mortise_error err;
  assert_int_equal(start(f, "/clinton", "/x", 10, &err), MORTISE_LOCK_LOST);
}

/* At each step, also in between two requests. */
static void test_cancel(void **state) {
  for (int at = 0; at < 40; at++) {
    fixture *f = *state;
    mortise_error err;
    fill(f, 100);
    assert_int_equal(start(f, "/clinton", "/projects/clinton", 10, &err), MORTISE_OK);
    for (int i = 0; i < at && !f->done; i++) mt_loop_step(f->loop, 0, NULL);
    if (f->done) break;
    mt_change_cancel(&f->rename.change);
    mt_change_cancel(&f->rename.change);
    assert_int_equal(f->done, 0);
    size_t bulks = f->fake.bulks;
    pump(f);
    const mt_change *c = &f->rename.change;
    assert_int_equal(c->error.code, MORTISE_INTERRUPTED);
    assert_true(f->fake.bulks <= bulks + 3); /* those submitted before */
    assert_int_equal(c->result.changed, under(f, "/projects/clinton"));
    teardown(state);
    setup(state);
  }
}

/* While it is paused it sends nothing more, at whatever step; then it is resumed or cancelled. */
static void test_pause(void **state) {
  for (int at = 0; at < 80; at++) {
    fixture *f = *state;
    mortise_error err;
    mt_change *c = &f->rename.change;
    fill(f, 100);
    assert_int_equal(start(f, "/clinton", "/projects/clinton", 10, &err), MORTISE_OK);
    for (int i = 0; i < at / 2 && !f->done; i++) mt_loop_step(f->loop, 0, NULL);
    if (f->done) break;
    mt_change_pause(c, true);
    for (int i = 0; i < 100 && !f->done; i++) mt_loop_step(f->loop, 0, NULL);
    size_t items = f->fake.items, scans = f->fake.scans;
    for (int i = 0; i < 20 && !f->done; i++) mt_loop_step(f->loop, 0, NULL);
    assert_true(f->fake.items == items && f->fake.scans == scans);
    assert_int_equal(c->result.changed, under(f, "/projects/clinton"));
    if (f->done) break;
    if (at % 2)
      mt_change_pause(c, false);
    else
      mt_change_cancel(c);
    pump(f);
    assert_int_equal(c->error.code, at % 2 ? MORTISE_OK : MORTISE_INTERRUPTED);
    if (at % 2)
      assert_moved(f, 100);
    else
      assert_int_equal(f->fake.items, items);
    teardown(state);
    setup(state);
  }
}

/* It is woken for every batch that its pace holds back, however long its process took to decide so. */
static void test_pace(void **state) {
  fixture *f = *state;
  mortise_error err;
  fill(f, 60);
  f->late = true;
  read_ms = 1;
  assert_int_equal(start(f, "/clinton", "/projects/clinton", 60, &err), MORTISE_OK);
  mt_change_limit(&f->rename.change, (mt_limits){.rate = 250, .batch = 1, .concurrency = 1});
  pump(f);
  assert_moved(f, 60);
}

static void test_plan(void **state) {
  fixture *f = *state;
  fill(f, 100);
  f->plan = true;
  mt_preview_init(&f->preview);
  const mt_change_result *r = run(f, 7);
  assert_int_equal(f->rename.change.error.code, MORTISE_OK);
  assert_int_equal(r->matched, 100);
  assert_int_equal(r->changed, 100);
  assert_int_equal(r->passes, 1);
  assert_int_equal(f->fake.bulks, 0);
  assert_int_equal(under(f, "/clinton"), 200); /* with those of /clintonville */
  assert_false(mt_change_applied(&f->rename.change));
  f->rename.change.preview = NULL;
  mt_slice shown = mt_buf_slice(&f->preview.samples);
  mt_slice first = MT_SLICE("{\"index\":\"");
  size_t samples = 0;
  for (size_t i = 0; i + first.n <= shown.n; i++) samples += !memcmp(shown.p + i, first.p, first.n);
  assert_int_equal(samples, MT_PREVIEW_SAMPLES);
  assert_int_equal(f->preview.n, MT_PREVIEW_SAMPLES);
  assert_true(f->preview.bytes > 100 * 10);
  mt_preview_deinit(&f->preview);
  f->plan = false;
  run(f, 7);
  assert_moved(f, 100);
}

/* It reads no more than its samples take, and knows how many match all the same. */
static void test_peek(void **state) {
  fixture *f = *state;
  fill(f, 1000);
  f->plan = f->peeks = true;
  mt_preview_init(&f->preview);
  const mt_change_result *r = run(f, 3);
  assert_int_equal(f->rename.change.error.code, MORTISE_OK);
  assert_int_equal(r->matched, 1000);
  assert_int_equal(f->preview.n, MT_PREVIEW_SAMPLES);
  assert_true(r->changed < 20);
  f->rename.change.preview = NULL;
  mt_preview_deinit(&f->preview);
}

static void test_refused_renames(void **state) {
  fixture *f = *state;
  mortise_error err;
  assert_int_equal(start(f, "/a", "/a", 10, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(start(f, "/a", "/a/b", 10, &err), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(start(f, "a", "/b", 10, &err), MORTISE_INVALID_ARGUMENT);
}

/* ---- A change that is no rename ------------------------------------------------------------- */

static mt_transformed stamp(void *ctx, const mt_doc *doc, mt_buf *out, mortise_error *err) {
  fixture *f = ctx;
  if (mt_slice_eq(doc->id, MT_SLICE("in3"))) return MT_UNCHANGED;
  if (f->step && mt_slice_eq(doc->id, MT_SLICE("in7"))) {
    mt_error_set(err, MORTISE_SCRIPT_ERROR, "in7 is too much");
    return MT_STOP;
  }
  mt_buf_adds(out, "{\"stamped\":true}");
  return MT_CHANGED;
}

static void run_stamp(fixture *f) {
  mt_change *c = &f->rename.change;
  *c = (mt_change){.done = on_done,
                   .ctx = f,
                   .store = &f->fake.store,
                   .env = &env,
                   .permit = fake_permit(&f->lock),
                   .index = "fake",
                   .transform = {.apply = stamp, .ctx = f},
                   .options.page = 4};
  assert_int_equal(mt_change_start(c, NULL), MORTISE_OK);
  pump(f);
}

static fake_fate edit_two(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  if (fake->bulks == 1) fake_put(fake, "in9", "{\"edited\":true}");
  return FAKE_FINE;
}

static void test_callback(void **state) {
  fixture *f = *state;
  fill(f, 10);
  run_stamp(f);
  const mt_change_result *r = &f->rename.change.result;
  assert_int_equal(f->rename.change.error.code, MORTISE_OK);
  assert_int_equal(r->changed, 19);
  assert_int_equal(r->unchanged, 1);
  assert_int_equal(r->passes, 1);
  f->fake.bulks = 0;
  f->fake.fate = edit_two;
  run_stamp(f);
  assert_int_equal(f->rename.change.error.code, MORTISE_CONFLICT);
  assert_int_equal(r->conflicts, 1);
  assert_string_equal(source_of(f, "in9"), "{\"edited\":true}");
  f->step = 1;
  run_stamp(f);
  assert_int_equal(f->rename.change.error.code, MORTISE_SCRIPT_ERROR);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static bool deny_one(void *ctx, size_t size) {
  (void)size;
  int *left = ctx;
  return (*left)-- != 0;
}

static void test_memory(void **state) {
  for (int n = 0; n < 60; n++) {
    fixture *f = *state;
    mortise_error err;
    fill(f, 100);
    f->step = 0;
    f->fake.fate = edit_during;
    int left = n;
    mt_mem_hook(deny_one, &left);
    mortise_status status = start(f, "/clinton", "/projects/clinton", 10, &err);
    if (!status) mt_loop_pump(f->loop, &f->rename.change.finished, -1, NULL);
    mt_mem_hook(NULL, NULL);
    if (!status) status = f->rename.change.error.code;
    if (status) assert_int_equal(status, MORTISE_OUT_OF_MEMORY);
    f->step = 1;
    run(f, 10);
    assert_int_equal(f->rename.change.error.code, MORTISE_OK);
    assert_int_equal(under(f, "/clinton/"), 0);
    teardown(state);
    setup(state);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_sizes),
      TEST(test_shape),
      TEST(test_second_run),
      TEST(test_large_pages),
      TEST(test_edits_survive),
      TEST(test_new_file),
      TEST(test_passes_are_bounded),
      TEST(test_conflict_for_ever),
      TEST(test_rejected),
      TEST(test_set_aside),
      TEST(test_nothing_there),
      TEST(test_something_there),
      TEST(test_up),
      TEST(test_unfit),
      cmocka_unit_test(test_exact_field),
      TEST(test_any),
      TEST(test_killed),
      TEST(test_lock_lost),
      TEST(test_cancel),
      TEST(test_pause),
      TEST(test_pace),
      TEST(test_plan),
      TEST(test_peek),
      TEST(test_refused_renames),
      TEST(test_callback),
      TEST(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
