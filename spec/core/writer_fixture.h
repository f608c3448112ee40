/* What the writer's tests share: documents in memory, a lock that a test moves, batches. */
#ifndef MT_SPEC_WRITER_FIXTURE_H
#define MT_SPEC_WRITER_FIXTURE_H

#include "write/writer.h"

#include "base/clock.h"
#include "base/pump.h"
#include "fake_docs.h"
#include "property.h"

enum { MANY = 2500, LEASE_MS = 60000 };

typedef struct fixture {
  mt_loop *loop;
  fake_docs fake;
  fake_lock lock;
  mt_writer *w;
  mt_item items[MANY];
  char ids[MANY][32], bodies[MANY][48];
  mt_write_batch batch;
  int done, step;
  rng random;
} fixture;

static inline int64_t now_ms(void *ctx) {
  (void)ctx;
  return mt_clock_boot_ms();
}

static inline uint64_t draw(void *ctx) {
  (void)ctx;
  return 7;
}

static const mt_env env = {NULL, now_ms, draw};

static inline void on_done(void *ctx, mt_write_batch *b) {
  fixture *f = ctx;
  f->done++;
  size_t sum = 0;
  for (int i = 0; i < MT_OUTCOMES; i++) sum += b->counts[i];
  assert_int_equal(sum, b->n);
  assert_true(b->error.code || !b->counts[MT_OUTCOME_NONE]);
}

static inline void open_writer(fixture *f, mt_writer_config config) {
  mortise_error err;
  config.backoff_ms = 2;
  f->w = mt_writer_new(&f->fake.store, &env, fake_permit(&f->lock), &config, &err);
  assert_non_null(f->w);
}

static inline int setup(void **state) {
  fixture *f = *state = calloc(1, sizeof *f);
  f->loop = mt_loop_new(NULL);
  fake_docs_init(&f->fake, f->loop);
  f->fake.ctx = f;
  f->random.state = property_seed();
  fake_lock_init(&f->lock, &env, LEASE_MS);
  return 0;
}

static inline int teardown(void **state) {
  fixture *f = *state;
  mt_writer_free(f->w);
  for (int i = 0; i < 3; i++) mt_loop_step(f->loop, 0, NULL);
  fake_docs_deinit(&f->fake);
  mt_loop_free(f->loop);
  free(f);
  return 0;
}

/* n documents that are there, and a batch that indexes each anew with compare-and-set. */
static inline void prepare(fixture *f, size_t n) {
  for (size_t i = 0; i < n; i++) {
    snprintf(f->ids[i], sizeof f->ids[i], "d%zu", i);
    snprintf(f->bodies[i], sizeof f->bodies[i], "{\"n\":%zu,\"new\":true}", i);
    f->items[i] = (mt_item){.write = {.kind = MT_WRITE_INDEX,
                                      .id = mt_slice_of(f->ids[i]),
                                      .body = mt_slice_of(f->bodies[i])}};
    f->items[i].write.if_version = fake_put(&f->fake, f->ids[i], "{\"old\":true}");
  }
  f->batch =
      (mt_write_batch){.done = on_done, .ctx = f, .index = "fake", .items = f->items, .n = n};
}

static inline void run(fixture *f) {
  int before = f->done;
  mt_writer_submit(f->w, &f->batch);
  assert_int_equal(f->done, before);
  mt_loop_pump(f->loop, &f->batch.finished, mt_clock_boot_ms() + 20000, NULL);
  assert_int_equal(f->done, before + 1);
}

static inline void assert_written(fixture *f, size_t i) {
  assert_string_equal(fake_get(&f->fake, mt_slice_of(f->ids[i]))->source, f->bodies[i]);
}

static inline void assert_all(fixture *f, mt_outcome outcome) {
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->batch.counts[outcome], f->batch.n);
}

#endif
