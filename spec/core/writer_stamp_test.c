/* Stamps, whatever happens to the requests; stamp_test.c has them on real stores. */
#include "writer_fixture.h"

static void open_stamping(fixture *f, uint64_t fence) {
  snprintf(f->fake.epoch.id, sizeof f->fake.epoch.id, "now");
  f->lock.epoch = f->fake.epoch;
  f->lock.fence = fence;
  open_writer(f, (mt_writer_config){.strength = MT_STRENGTH_STAMP});
}

static const char *source_of(fixture *f, const char *id) {
  const fake_doc *d = fake_get(&f->fake, mt_slice_of(id));
  return d && d->found ? d->source : NULL;
}

/* One write of document `id` under fence 50. */
static const mt_item *write_one(fixture *f, mt_write_kind kind, const char *id, const char *body,
                                mt_version version, bool of_source) {
  f->items[0] = (mt_item){.write = {.kind = kind,
                                    .id = mt_slice_of(id),
                                    .body = mt_slice_of(body),
                                    .if_version = version},
                          .of_source = of_source};
  f->batch =
      (mt_write_batch){.done = on_done, .ctx = f, .index = "fake", .items = f->items, .n = 1};
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  return &f->items[0];
}

#define STAMP(epoch, fence) "\"mortise_stamp\":{\"epoch\":\"" epoch "\",\"fence\":" #fence "}"

static void test_stamp_decides(void **state) {
  fixture *f = *state;
  static const struct {
    const char *before; /* NULL: no document */
    bool passes;
  } rows[] = {
      {NULL, true},
      {"{\"a\":1.50}", true},
      {"{\"a\":1.50,\"mortise_stamp\":null}", true},
      {"{\"a\":1.50," STAMP("now", 49) "}", true},
      {"{\"a\":1.50," STAMP("now", 50) "}", true},
      {"{\"a\":1.50," STAMP("now", 51) "}", false},
      {"{\"a\":1.50," STAMP("old", 99) "}", true},
      {"{\"a\":1.50,\"mortise_stamp\":7}", false},
  };
  open_stamping(f, 50);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *before = rows[i].before;
    bool broken = i + 1 == sizeof rows / sizeof rows[0];
    for (int k = 0; k < 6; k++) {
      static const mt_write_kind kinds[] = {MT_WRITE_INDEX,  MT_WRITE_INDEX,  MT_WRITE_UPDATE,
                                            MT_WRITE_DELETE, MT_WRITE_DELETE, MT_WRITE_CREATE};
      bool compare = k == 1 || k == 4, update = kinds[k] == MT_WRITE_UPDATE;
      if (compare && !before) continue;
      if (source_of(f, "x")) fake_remove(&f->fake, "x");
      mt_version v = {0, 0};
      if (before) v = fake_put(&f->fake, "x", before);
      if (!compare) v = (mt_version){0, 0};
      const mt_item *item =
          write_one(f, kinds[k], "x", update ? "{\"doc\":{\"b\":2}}" : "{\"b\":2}", v, false);
      bool exists = kinds[k] == MT_WRITE_CREATE && before;
      mt_outcome outcome = MT_OUTCOME_APPLIED;
      if (!before && kinds[k] == MT_WRITE_DELETE) outcome = MT_OUTCOME_ALREADY;
      if (!rows[i].passes || exists || (!before && update)) outcome = MT_OUTCOME_CONFLICT;
      if (broken) outcome = MT_OUTCOME_REJECTED;
      assert_int_equal(item->outcome, outcome);
      if (outcome == MT_OUTCOME_CONFLICT && !rows[i].passes)
        assert_string_equal(item->write.type, "stamped");
      const char *after = source_of(f, "x");
      if (outcome != MT_OUTCOME_APPLIED) {
        assert_true(before ? !strcmp(after, before) : !after);
      } else if (kinds[k] == MT_WRITE_DELETE) {
        assert_null(after);
      } else if (!update) {
        assert_string_equal(after, "{\"b\":2," STAMP("now", 50) "}");
      } else {
        assert_non_null(strstr(after, "\"a\":1.50"));
        assert_non_null(strstr(after, STAMP("now", 50)));
        assert_non_null(strstr(after, "\"b\":2"));
      }
    }
  }
  assert_int_equal(f->fake.verifies, 1); /* an older epoch is asked about once */
}

/* A body that was made from the source needs no read of the document; its old stamp is replaced. */
static void test_stamp_of_source(void **state) {
  fixture *f = *state;
  open_stamping(f, 50);
  mt_version v = fake_put(&f->fake, "x", "{\"a\":1," STAMP("now", 40) ",\"z\":[]}");
  const mt_item *item =
      write_one(f, MT_WRITE_INDEX, "x", "{\"a\":2," STAMP("now", 40) ",\"z\":[]}", v, true);
  assert_int_equal(item->outcome, MT_OUTCOME_APPLIED);
  assert_string_equal(source_of(f, "x"), "{\"a\":2," STAMP("now", 50) ",\"z\":[]}");
  assert_int_equal(f->fake.mgets, 0);
  v = fake_put(&f->fake, "x", "{\"a\":1," STAMP("now", 60) "}");
  item = write_one(f, MT_WRITE_INDEX, "x", "{\"a\":2," STAMP("now", 60) "}", v, true);
  assert_int_equal(item->outcome, MT_OUTCOME_CONFLICT);
  assert_string_equal(item->write.type, "stamped");
  assert_int_equal(f->fake.bulks, 1);
}

/* The table was recreated, and somebody stamps in the new epoch: this lock belongs to the old
 * one. */
static void test_stamp_of_a_newer_epoch(void **state) {
  fixture *f = *state;
  open_stamping(f, 50);
  snprintf(f->fake.epoch.id, sizeof f->fake.epoch.id, "new");
  fake_put(&f->fake, "d0", "{" STAMP("new", 3) "}");
  prepare(f, 1);
  fake_put(&f->fake, "d0", "{" STAMP("new", 3) "}");
  f->items[0].write.if_version = (mt_version){0, 0};
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_LOCK_LOST);
  assert_string_equal(source_of(f, "d0"), "{" STAMP("new", 3) "}");
}

static void test_stamp_refuses(void **state) {
  fixture *f = *state;
  mortise_error err;
  mt_writer_config config = {.strength = MT_STRENGTH_STAMP};
  assert_null(mt_writer_new(&f->fake.store, &env, NULL, &config, &err));
  assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
  open_stamping(f, 50);
  fake_put(&f->fake, "x", "{}");
  static const char *const bodies[] = {"{\"script\":{\"source\":\"1\"}}",
                                       "{\"doc\":{},\"doc_as_upsert\":true}",
                                       "{\"doc\":{},\"upsert\":{}}"};
  for (size_t i = 0; i < 3; i++) {
    const mt_item *item = write_one(f, MT_WRITE_UPDATE, "x", bodies[i], (mt_version){0, 0}, false);
    assert_int_equal(item->outcome, MT_OUTCOME_REJECTED);
    assert_string_equal(item->write.type, "unsupported");
  }
  assert_string_equal(source_of(f, "x"), "{}");
}

/* Two writers, of an earlier and a later lock, write the same documents in many ways at once, while
 * requests are lost before or after they were applied: nobody changes what the later one stamped.
 */
typedef struct duel {
  uint64_t stamped[20]; /* largest fence seen in each */
} duel;

static void check_duel(fixture *f, duel *d) {
  for (size_t i = 0; i < 20; i++) {
    const char *now = source_of(f, f->ids[i]);
    const char *at = now ? strstr(now, "\"fence\":") : NULL;
    uint64_t fence = at ? strtoull(at + 8, NULL, 10) : 0;
    if (d->stamped[i] == 60) assert_int_equal(fence, 60);
    if (fence > d->stamped[i]) d->stamped[i] = fence;
  }
}

static fake_fate any_loss(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)fake;
  (void)r;
  fixture *f = ctx;
  static const fake_fate fates[] = {FAKE_FINE, FAKE_FINE, FAKE_LOST_BEFORE, FAKE_LOST_AFTER};
  return fates[rng_below(&f->random, 4)];
}

static void random_batch(fixture *f, mt_item *items, mt_write_batch *b, uint64_t fence) {
  for (size_t i = 0; i < 20; i++) {
    static const mt_write_kind kinds[] = {MT_WRITE_INDEX, MT_WRITE_UPDATE, MT_WRITE_CREATE};
    mt_write_kind kind = kinds[rng_below(&f->random, 3)];
    char *body = f->bodies[fence == 60 ? i : 20 + i];
    snprintf(body, 48, kind == MT_WRITE_UPDATE ? "{\"doc\":{\"f%d\":%zu}}" : "{\"f%d\":%zu}",
             (int)fence, i);
    items[i] =
        (mt_item){.write = {.kind = kind, .id = mt_slice_of(f->ids[i]), .body = mt_slice_of(body)}};
    const fake_doc *d = fake_get(&f->fake, mt_slice_of(f->ids[i]));
    if (kind != MT_WRITE_CREATE && d && rng_below(&f->random, 2))
      items[i].write.if_version = d->version;
  }
  *b = (mt_write_batch){.done = on_done, .ctx = f, .index = "fake", .items = items, .n = 20};
}

static void test_stamp_duel(void **state) {
  fixture *f = *state;
  open_stamping(f, 50);
  f->fake.fate = any_loss;
  fake_lock later = f->lock;
  later.fence = 60;
  const mt_writer_config config = {
      .strength = MT_STRENGTH_STAMP, .docs = 6, .backoff_ms = 1, .tries = 100};
  mt_writer *second = mt_writer_new(&f->fake.store, &env, fake_permit(&later), &config, NULL);
  for (int round = 0; round < 60; round++) {
    duel d = {0};
    mt_write_batch batch;
    for (size_t i = 0; i < 20; i++) {
      snprintf(f->ids[i], sizeof f->ids[i], "r%d-%zu", round, i);
      if (rng_below(&f->random, 2)) fake_put(&f->fake, f->ids[i], "{\"old\":1}");
    }
    random_batch(f, f->items, &f->batch, 50);
    random_batch(f, f->items + 20, &batch, 60);
    int before = f->done;
    bool first = rng_below(&f->random, 2);
    mt_writer_submit(first ? f->w : second, first ? &f->batch : &batch);
    mt_writer_submit(first ? second : f->w, first ? &batch : &f->batch);
    int64_t end = mt_clock_boot_ms() + 20000;
    while (f->done < before + 2 && mt_clock_boot_ms() < end) {
      mt_loop_step(f->loop, 1000, NULL);
      check_duel(f, &d);
    }
    assert_int_equal(f->done, before + 2);
    for (size_t i = 0; i < 20; i++) {
      if (f->items[20 + i].outcome == MT_OUTCOME_APPLIED) assert_int_equal(d.stamped[i], 60);
      assert_string_not_equal(f->items[20 + i].write.type, "stamped");
    }
  }
  mt_writer_free(second);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_stamp_decides, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stamp_of_source, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stamp_of_a_newer_epoch, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stamp_refuses, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stamp_duel, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
