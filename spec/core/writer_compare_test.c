/* Every write under a lock is conditional: a request that is carried out late, after a later holder
 * has written, changes nothing. late_test.c has it on real stores. */
#include "writer_fixture.h"

#include "write/writer_parts.h"

#define DOC "x"
#define OLD "{\"old\":1}"
#define THEIRS "{\"theirs\":1}"

typedef enum what {
  INDEX,
  SAVE, /* an index with the version that was read */
  DELETE,
  UPDATE,
  UPSERT,
  DOC_AS_UPSERT,
  SCRIPT,
  CREATE,
  WHATS,
} what;

static const struct {
  const char *name, *body;
  mt_write_kind kind;
} whats[] = {
    [INDEX] = {"index", "{\"new\":1}", MT_WRITE_INDEX},
    [SAVE] = {"save", "{\"new\":1}", MT_WRITE_INDEX},
    [DELETE] = {"delete", NULL, MT_WRITE_DELETE},
    [UPDATE] = {"update", "{\"doc\":{\"new\":1}}", MT_WRITE_UPDATE},
    [UPSERT] = {"upsert", "{\"doc\":{\"more\":1},\"upsert\":{\"new\":1}}", MT_WRITE_UPDATE},
    [DOC_AS_UPSERT] = {"doc as upsert", "{\"doc\":{\"new\":1},\"doc_as_upsert\":true}",
                       MT_WRITE_UPDATE},
    [SCRIPT] = {"script", "{\"script\":\"n\",\"doc\":{\"new\":1}}", MT_WRITE_UPDATE},
    [CREATE] = {"create", "{\"new\":1}", MT_WRITE_CREATE},
};

/* What happens to the document while the first request is under way. */
typedef enum meanwhile { NOTHING, CHANGED, DELETED, MEANWHILES } meanwhile;

/* What the test does to the first request. */
typedef struct plan {
  fixture f; /* first */
  meanwhile meanwhile;
  fake_fate fate;
  bool compares;   /* each item must */
  mt_write late;   /* a copy of its item */
  size_t requests; /* with it */
} plan;

static plan *plan_of(void *ctx) {
  return (plan *)ctx;
}

static void happen(fake_docs *fake, meanwhile m) {
  const fake_doc *d = fake_get(fake, MT_SLICE(DOC));
  if (m == CHANGED) fake_put(fake, DOC, THEIRS);
  if (m == DELETED && d && d->found) fake_remove(fake, DOC);
}

static fake_fate on_request(void *ctx, fake_docs *fake, mt_bulk *r) {
  plan *p = plan_of(ctx);
  for (size_t i = 0; p->compares && i < r->n; i++)
    assert_true(r->items[i].kind == MT_WRITE_CREATE || r->items[i].if_version.term);
  if (p->requests++) return FAKE_FINE;
  p->late = r->items[0];
  if (p->fate == FAKE_LOST_AFTER) { /* applied first, then whatever happens */
    for (size_t i = 0; i < r->n; i++) fake_apply(fake, &r->items[i]);
    happen(fake, p->meanwhile);
    return FAKE_LOST_BEFORE;
  }
  happen(fake, p->meanwhile);
  return p->fate;
}

static const char *source_now(plan *p) {
  const fake_doc *d = fake_get(&p->f.fake, MT_SLICE(DOC));
  return d && d->found ? d->source : "";
}

static void begin(plan *p, mt_strength strength, bool there) {
  fixture *f = &p->f;
  open_writer(f, (mt_writer_config){.strength = strength});
  f->fake.fate = on_request;
  p->requests = 0;
  p->compares = strength == MT_STRENGTH_CAS;
  const fake_doc *d = fake_get(&f->fake, MT_SLICE(DOC));
  if (d && d->found) fake_remove(&f->fake, DOC);
  if (there) fake_put(&f->fake, DOC, OLD);
}

static void end(plan *p) {
  mt_writer_free(p->f.w);
  p->f.w = NULL;
}

static mt_item *prepare_one(plan *p, what w) {
  fixture *f = &p->f;
  const fake_doc *d = fake_get(&f->fake, MT_SLICE(DOC));
  f->items[0] = (mt_item){.write = {.kind = whats[w].kind, .id = MT_SLICE(DOC)}};
  if (whats[w].body) f->items[0].write.body = mt_slice_of(whats[w].body);
  if (w == SAVE) f->items[0].write.if_version = d->version;
  f->batch =
      (mt_write_batch){.done = on_done, .ctx = f, .index = "fake", .items = f->items, .n = 1};
  return &f->items[0];
}

static int setup_plan(void **state) {
  plan *p = calloc(1, sizeof *p);
  void *made = NULL;
  setup(&made);
  fixture *f = made;
  p->f = *f;
  fake_docs_deinit(&f->fake);
  fake_docs_init(&p->f.fake, p->f.loop);
  p->f.fake.ctx = p;
  free(f);
  *state = p;
  return 0;
}

/* ---- What becomes of each ------------------------------------------------------------------- */

/* The document after it, for a request that is answered at once. */
static const char *expected(what w, bool there, meanwhile m, mt_outcome *outcome) {
  const char *is = m == DELETED ? "" : m == CHANGED ? THEIRS : there ? OLD : "";
  bool found = *is != '\0', theirs = m == CHANGED;
  *outcome = MT_OUTCOME_APPLIED;
  switch (w) {
  case INDEX:
    return "{\"new\":1}";
  case SAVE:
    if (m == NOTHING) return "{\"new\":1}";
    break;
  case DELETE:
    if (!found) *outcome = MT_OUTCOME_ALREADY;
    return "";
  case UPDATE:
  case DOC_AS_UPSERT:
    if (found) return theirs ? "{\"theirs\":1,\"new\":1}" : "{\"old\":1,\"new\":1}";
    if (w == DOC_AS_UPSERT) return "{\"new\":1}";
    break;
  case UPSERT: /* what is there may be what it created itself */
    if (!found) return "{\"new\":1}";
    if (m == NOTHING) return "{\"old\":1,\"more\":1}";
    break;
  case SCRIPT:
    if (there && m == NOTHING) return "{\"old\":1,\"new\":1}";
    break;
  default:
    if (!found) return "{\"new\":1}";
  }
  *outcome = MT_OUTCOME_CONFLICT;
  return is;
}

static void test_matrix(void **state) {
  plan *p = *state;
  for (what w = 0; w < WHATS; w++)
    for (int there = 0; there < 2; there++)
      for (meanwhile m = 0; m < MEANWHILES; m++) {
        if ((w == SAVE || m == DELETED) && !there) continue;
        begin(p, MT_STRENGTH_CAS, there);
        p->meanwhile = m;
        p->fate = FAKE_FINE;
        mt_item *item = prepare_one(p, w);
        size_t mgets = p->f.fake.mgets;
        run(&p->f);
        mt_outcome outcome;
        const char *is = expected(w, there, m, &outcome);
        if (!p->requests) { /* nothing was there: nothing to do, and no time for a change */
          assert_true(w == DELETE || w == UPDATE || w == SCRIPT);
          is = "";
          outcome = w == DELETE ? MT_OUTCOME_ALREADY : MT_OUTCOME_CONFLICT;
        }
        assert_int_equal(p->f.batch.error.code, MORTISE_OK);
        if (item->outcome != outcome || strcmp(source_now(p), is) != 0)
          fail_msg("%s of %s, %d meanwhile: outcome %d, %s", whats[w].name,
                   there ? "a document" : "nothing", (int)m, (int)item->outcome, source_now(p));
        /* One read; a create that finds a document reads whether it is its own. */
        bool looks = w == CREATE ? there : w != SAVE;
        if (m == NOTHING) assert_int_equal(p->f.fake.mgets - mgets, looks ? 1 : 0);
        end(p);
      }
}

/* ---- Requests without an answer ------------------------------------------------------------- */

/* In the end the document is as requested, or a meanwhile change is kept and the item says that it
 * was not done; no script and no upsert is carried out twice. */
static void test_unanswered(void **state) {
  plan *p = *state;
  for (what w = 0; w < WHATS; w++)
    for (int there = 0; there < 2; there++)
      for (int after = 0; after < 2; after++)
        for (meanwhile m = 0; m < MEANWHILES; m++) {
          if (w == SAVE && !there) continue;
          begin(p, MT_STRENGTH_CAS, there);
          p->meanwhile = m;
          p->fate = after ? FAKE_LOST_AFTER : FAKE_LOST_BEFORE;
          mt_item *item = prepare_one(p, w);
          run(&p->f);
          const char *is = source_now(p);
          assert_int_equal(p->f.batch.error.code, MORTISE_OK);
          if (item->outcome == MT_OUTCOME_APPLIED && w != DELETE)
            assert_true(strstr(is, "\"new\":1") || strstr(is, "\"more\":1"));
          if (item->outcome != MT_OUTCOME_APPLIED && m == CHANGED && p->requests)
            assert_string_equal(is, w == DELETE ? "" : THEIRS);
          if (w == UPSERT && !there && m == NOTHING) assert_null(strstr(is, "more"));
          if (w == SCRIPT && after && there && m == NOTHING) {
            assert_int_equal(item->outcome, MT_OUTCOME_CONFLICT);
            assert_true(item->dirty);
            assert_int_equal(p->f.batch.dirty, 1);
          }
          end(p);
        }
}

/* ---- A late request ------------------------------------------------------------------------- */

/* The holder dies with its request under way, its successor writes, then the request is applied. */
static bool late_changes(plan *p, what w, mt_strength strength, bool there) {
  begin(p, strength, there);
  p->meanwhile = NOTHING;
  p->fate = FAKE_LOST_BEFORE;
  prepare_one(p, w);
  mt_writer_submit(p->f.w, &p->f.batch);
  for (int i = 0; i < 100 && !p->requests; i++) mt_loop_step(p->f.loop, 10, NULL);
  assert_int_equal(p->requests, 1);
  end(p);
  fake_put(&p->f.fake, DOC, THEIRS); /* acknowledged */
  mt_write late = p->late;
  fake_apply(&p->f.fake, &late);
  return strcmp(source_now(p), THEIRS) != 0;
}

static void test_late(void **state) {
  plan *p = *state;
  for (what w = 0; w < WHATS; w++)
    for (int there = 0; there < 2; there++) {
      bool sent = there || (w != DELETE && w != UPDATE && w != SCRIPT && w != SAVE);
      if (sent && late_changes(p, w, MT_STRENGTH_CAS, there))
        fail_msg("a late %s of %s has overwritten a successor", whats[w].name,
                 there ? "a document" : "nothing");
    }
}

/* Proof that the test can fail: an unconditional write does overwrite. */
static void test_late_without_comparing(void **state) {
  plan *p = *state;
  static const what blind[] = {INDEX, DELETE, UPDATE};
  for (size_t i = 0; i < 3; i++) assert_true(late_changes(p, blind[i], MT_STRENGTH_NONE, true));
  assert_false(late_changes(p, SAVE, MT_STRENGTH_NONE, true));
  assert_false(late_changes(p, CREATE, MT_STRENGTH_NONE, false));
}

/* ---- Looking -------------------------------------------------------------------------------- */

static void test_one_look_a_batch(void **state) {
  plan *p = *state;
  fixture *f = &p->f;
  begin(p, MT_STRENGTH_CAS, true);
  p->compares = true;
  p->fate = FAKE_FINE;
  prepare(f, 500);
  for (size_t i = 0; i < 500; i += 2) f->items[i].write.if_version = (mt_version){0, 0};
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_int_equal(f->fake.mgets, 1);
  assert_int_equal(f->fake.bulks, 1);
}

/* The lock is lost when the read is answered: nothing is sent. */
static fake_fate lose_lock(void *ctx, fake_docs *fake) {
  (void)fake;
  atomic_store(&plan_of(ctx)->f.lock.session.deadline_ms, 1);
  return FAKE_FINE;
}

static void test_lost_while_looking(void **state) {
  plan *p = *state;
  begin(p, MT_STRENGTH_CAS, true);
  p->f.fake.read = lose_lock;
  prepare_one(p, INDEX);
  run(&p->f);
  assert_int_equal(p->f.batch.error.code, MORTISE_LOCK_LOST);
  assert_false(p->f.batch.error.ambiguous);
  assert_int_equal(p->requests, 0);
  assert_string_equal(source_now(p), OLD);
}

/* The same between a conflict and the read after it: a successor's write is not even read. */
static fake_fate lose_lock_later(void *ctx, fake_docs *fake) {
  if (fake->mgets == 2) lose_lock(ctx, fake);
  return FAKE_FINE;
}

static void test_lost_after_a_conflict(void **state) {
  plan *p = *state;
  begin(p, MT_STRENGTH_CAS, true);
  p->meanwhile = CHANGED;
  p->fate = FAKE_FINE;
  p->f.fake.read = lose_lock_later;
  prepare_one(p, INDEX);
  run(&p->f);
  assert_int_equal(p->f.batch.error.code, MORTISE_LOCK_LOST);
  assert_int_equal(p->requests, 1);
  assert_string_equal(source_now(p), THEIRS);
}

/* Someone without a lock changes it each time. */
static fake_fate always_changed(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx, (void)r;
  fake_put(fake, DOC, THEIRS);
  return FAKE_FINE;
}

static void test_changed_each_time(void **state) {
  plan *p = *state;
  begin(p, MT_STRENGTH_CAS, true);
  p->f.fake.fate = always_changed;
  mt_item *item = prepare_one(p, INDEX);
  run(&p->f);
  assert_int_equal(item->outcome, MT_OUTCOME_CONFLICT);
  assert_string_equal(source_now(p), THEIRS);
}

/* An item with an invalid id does not keep the others from being written. */
static void test_bad_ids(void **state) {
  plan *p = *state;
  fixture *f = &p->f;
  begin(p, MT_STRENGTH_CAS, false);
  p->compares = false;
  p->fate = FAKE_FINE;
  prepare(f, 10);
  for (size_t i = 0; i < 10; i++) f->items[i].write.if_version = (mt_version){0, 0};
  f->items[3].write.id = MT_SLICE("\xff");
  f->items[4].write.id = MT_SLICE("");
  assert_false(mt_item_looks_first(f->w, &f->items[3]));
  assert_false(mt_item_looks_first(f->w, &f->items[4]));
  assert_true(mt_item_looks_first(f->w, &f->items[5]));
}

/* If the store refuses a read, only the items at fault are rejected. */
static fake_fate refuse_reads(void *ctx, fake_docs *fake) {
  (void)ctx;
  return fake->mgets <= 3 ? FAKE_BAD : FAKE_FINE;
}

static void test_refused_read(void **state) {
  plan *p = *state;
  fixture *f = &p->f;
  begin(p, MT_STRENGTH_CAS, false);
  p->fate = FAKE_FINE;
  prepare(f, 4);
  for (size_t i = 0; i < 4; i++) f->items[i].write.if_version = (mt_version){0, 0};
  f->fake.read = refuse_reads;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->batch.counts[MT_OUTCOME_REJECTED], 1);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 3);
}

static int teardown_plan(void **state) {
  return teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_plan, teardown_plan)

int main(void) {
  static const struct CMUnitTest tests[] = {
      TEST(test_matrix),
      TEST(test_unanswered),
      TEST(test_late),
      TEST(test_late_without_comparing),
      TEST(test_one_look_a_batch),
      TEST(test_lost_while_looking),
      TEST(test_lost_after_a_conflict),
      TEST(test_changed_each_time),
      TEST(test_bad_ids),
      TEST(test_refused_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
