/* The writer bound to a lock: every item accounted for, whatever happens to the requests. */
#include "writer_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Splitting ------------------------------------------------------------------------------ */

static void test_plain(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, MANY);
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_int_equal(f->fake.bulks, 3);
  assert_int_equal(f->fake.items, MANY);
  assert_int_equal(f->fake.mgets, 0);
  assert_int_equal(f->fake.most_under_way, 2);
  for (size_t i = 0; i < MANY; i++) {
    assert_written(f, i);
    fake_doc *d = fake_get(&f->fake, f->items[i].write.id);
    assert_int_equal(d->version.seq_no, f->items[i].write.version.seq_no);
  }
}

static void test_empty(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 0);
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_int_equal(f->fake.bulks, 0);
}

static void test_bytes(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.bytes = 1000, .in_flight = 4});
  prepare(f, 100);
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_true(f->fake.bulks >= 17 && f->fake.bulks <= 30);
  assert_int_equal(f->fake.most_under_way, 4);
}

static fake_fate too_large(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)fake;
  for (size_t i = 0; i < r->n; i++)
    if (mt_slice_eq(r->items[i].id, MT_SLICE("d7"))) return FAKE_TOO_LARGE;
  return r->n > 13 ? FAKE_TOO_LARGE : FAKE_FINE;
}

static void test_too_large(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 1200);
  f->fake.fate = too_large;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 1199);
  assert_int_equal(f->items[7].outcome, MT_OUTCOME_REJECTED);
  assert_int_equal(f->items[7].write.status, 413);
  assert_true(f->items[7].write.reason[0]);
}

static fake_fate one_bad(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)fake;
  for (size_t i = 0; i < r->n; i++)
    if (mt_slice_eq(r->items[i].id, MT_SLICE("d501"))) return FAKE_BAD;
  return FAKE_FINE;
}

/* One bad id fails the whole request on the servers: the writer finds it. */
static void test_one_bad(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 1000);
  f->fake.fate = one_bad;
  run(f);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 999);
  assert_int_equal(f->items[501].outcome, MT_OUTCOME_REJECTED);
  assert_true(f->fake.bulks < 40);
}

static fake_fate all_bad(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)fake;
  (void)r;
  return FAKE_BAD;
}

static void test_all_bad(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 1000);
  f->fake.fate = all_bad;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_REJECTED);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 0);
  assert_true(f->fake.bulks < 40);
}

/* ---- Items ---------------------------------------------------------------------------------- */

static mt_write_result busy_for_a_while(void *ctx, fake_docs *fake, mt_write *w) {
  fixture *f = ctx;
  bool busy = fake->bulks < 4 && w->id.p[w->id.n - 1] == '3';
  f->step += busy;
  w->status = 429;
  return busy ? MT_WRITE_BUSY : MT_WRITE_NONE;
}

static void test_busy(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 100);
  f->fake.item = busy_for_a_while;
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_int_equal(f->step, 30);
  assert_int_equal(f->fake.items, 130); /* only those that were busy were sent again */
}

static mt_write_result always_busy(void *ctx, fake_docs *fake, mt_write *w) {
  (void)ctx;
  (void)fake;
  return mt_slice_eq(w->id, MT_SLICE("d5")) ? MT_WRITE_BUSY : MT_WRITE_NONE;
}

static void test_always_busy(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.tries = 4});
  prepare(f, 10);
  f->fake.item = always_busy;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_UNAVAILABLE);
  assert_false(f->batch.error.ambiguous);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 9);
  assert_int_equal(f->items[5].outcome, MT_OUTCOME_NONE);
  assert_int_equal(f->fake.bulks, 1 + 4);
}

static mt_write_result reject_some(void *ctx, fake_docs *fake, mt_write *w) {
  (void)ctx;
  (void)fake;
  return w->id.p[w->id.n - 1] == '1' ? MT_WRITE_REJECTED : MT_WRITE_NONE;
}

static void test_outcomes(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 20);
  f->fake.item = reject_some;
  fake_put(&f->fake, "d2", "{\"theirs\":1}");
  f->items[3].write.kind = MT_WRITE_DELETE;
  f->items[4].write.kind = MT_WRITE_DELETE;
  fake_remove(&f->fake, "d4");
  f->items[5].write.kind = MT_WRITE_CREATE;
  f->items[5].write.if_version = (mt_version){0, 0};
  f->items[6].write = (mt_write){.kind = MT_WRITE_UPDATE,
                                 .id = f->items[6].write.id,
                                 .body = MT_SLICE("{\"doc\":{\"old\":true}}")};
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->items[1].outcome, MT_OUTCOME_REJECTED);
  assert_string_equal(f->items[1].write.type, "fake");
  assert_int_equal(f->items[11].outcome, MT_OUTCOME_REJECTED);
  assert_int_equal(f->items[2].outcome, MT_OUTCOME_CONFLICT);
  assert_int_equal(f->items[3].outcome, MT_OUTCOME_APPLIED);
  assert_int_equal(f->items[4].outcome, MT_OUTCOME_ALREADY);
  assert_int_equal(f->items[5].outcome, MT_OUTCOME_CONFLICT);
  assert_int_equal(f->items[6].outcome, MT_OUTCOME_ALREADY);
  assert_string_equal(fake_get(&f->fake, MT_SLICE("d2"))->source, "{\"theirs\":1}");
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 20 - 2 - 2 - 2);
}

/* The network delivers a request twice: the copy is applied, and the answer is the other's. */
static fake_fate copy_first(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  for (size_t i = 0; i < r->n && fake->bulks == 1; i++) {
    char id[16], body[128];
    snprintf(id, sizeof id, "%.*s", (int)r->items[i].id.n, r->items[i].id.p);
    snprintf(body, sizeof body, "%.*s", (int)r->items[i].body.n, r->items[i].body.p);
    if (strcmp(id, "d2") != 0) fake_put(fake, id, body);
  }
  if (fake->bulks == 1) fake_put(fake, "d2", "{\"theirs\":1}");
  return FAKE_FINE;
}

static void test_conflict_with_own_copy(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 4);
  fake_remove(&f->fake, "d3");
  f->items[3].write.kind = MT_WRITE_CREATE;
  f->items[3].write.if_version = (mt_version){0, 0};
  f->fake.fate = copy_first;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->items[2].outcome, MT_OUTCOME_CONFLICT);
  assert_string_equal(fake_get(&f->fake, MT_SLICE("d2"))->source, "{\"theirs\":1}");
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 3);
  assert_int_equal(f->fake.mgets, 1);
  assert_int_equal(f->fake.bulks, 2);
}

/* ---- Conflicts that are read again ---------------------------------------------------------- */

static mt_again redo(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc) {
  fixture *f = ctx;
  (void)b;
  f->step++;
  if (!doc->found) return MT_AGAIN_DONE;
  if (mt_slice_eq(doc->source, MT_SLICE("{\"leave\":1}"))) return MT_AGAIN_CONFLICT;
  if (mt_slice_eq(doc->source, MT_SLICE("{\"bad\":1}"))) return MT_AGAIN_REJECT;
  item->write.if_version = doc->version;
  item->write.body = MT_SLICE("{\"redone\":1}");
  return MT_AGAIN_WRITE;
}

static void test_again(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 10);
  f->batch.again = redo;
  fake_put(&f->fake, "d1", "{\"theirs\":1}");
  fake_put(&f->fake, "d2", "{\"leave\":1}");
  fake_put(&f->fake, "d3", "{\"bad\":1}");
  fake_remove(&f->fake, "d4");
  run(f);
  assert_int_equal(f->items[1].outcome, MT_OUTCOME_APPLIED);
  assert_string_equal(fake_get(&f->fake, MT_SLICE("d1"))->source, "{\"redone\":1}");
  assert_int_equal(f->items[2].outcome, MT_OUTCOME_CONFLICT);
  assert_int_equal(f->items[3].outcome, MT_OUTCOME_REJECTED);
  assert_int_equal(f->items[4].outcome, MT_OUTCOME_ALREADY);
  assert_int_equal(f->step, 4);
  assert_int_equal(f->fake.mgets, 1);
}

static fake_fate edit_always(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  fake_put(fake, "d1", "{\"theirs\":1}");
  return FAKE_FINE;
}

static void test_again_is_bounded(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 3);
  f->batch.again = redo;
  f->fake.fate = edit_always;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->items[1].outcome, MT_OUTCOME_CONFLICT);
  assert_int_equal(f->step, MT_AGAIN_MAX);
}

/* ---- Requests that were never answered ------------------------------------------------------ */

static fake_fate lose_first(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  return fake->bulks == 1 ? FAKE_LOST_BEFORE : FAKE_FINE;
}

static void test_lost_before(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 500);
  f->fake.fate = lose_first;
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_int_equal(f->fake.mgets, 1);
  for (size_t i = 0; i < 500; i++) assert_written(f, i);
}

static fake_fate lose_after(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  return fake->bulks == 1 ? FAKE_LOST_AFTER : FAKE_FINE;
}

/* The document looks like ours: an acknowledged write of the same bytes proves it. */
static void test_lost_after(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 500);
  f->items[3].write.kind = MT_WRITE_DELETE;
  f->items[4].write.kind = MT_WRITE_CREATE;
  f->items[4].write.if_version = (mt_version){0, 0};
  fake_remove(&f->fake, "d4");
  f->items[5].write.kind = MT_WRITE_UPDATE;
  f->items[5].write.body = MT_SLICE("{\"doc\":{\"x\":1}}");
  f->fake.fate = lose_after;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 498);
  assert_int_equal(f->items[3].outcome, MT_OUTCOME_ALREADY);
  assert_int_equal(f->items[5].outcome, MT_OUTCOME_ALREADY);
  assert_int_equal(f->items[4].outcome, MT_OUTCOME_APPLIED);
  assert_written(f, 4);
  assert_false(fake_get(&f->fake, MT_SLICE("d3"))->found);
}

static fake_fate lose_and_edit(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  if (fake->bulks != 1) return FAKE_FINE;
  fake_put(fake, "d1", "{\"theirs\":1}");
  fake_remove(fake, "d2");
  return FAKE_LOST_BEFORE;
}

static void test_lost_and_edited(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 10);
  f->fake.fate = lose_and_edit;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_OK);
  assert_int_equal(f->items[1].outcome, MT_OUTCOME_CONFLICT);
  assert_int_equal(f->items[2].outcome, MT_OUTCOME_CONFLICT);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 8);
  assert_string_equal(fake_get(&f->fake, MT_SLICE("d1"))->source, "{\"theirs\":1}");
}

/* The first copy arrives after the items were read again: it, or the second one, is refused. */
static fake_fate late_copy(void *ctx, fake_docs *fake, mt_bulk *r) {
  fixture *f = ctx;
  if (fake->bulks == 1) return FAKE_LOST_BEFORE;
  for (size_t i = 0; fake->bulks == 2 && i < r->n; i++)
    fake_put(fake, f->ids[i], f->bodies[i]); /* what the lost request does now */
  return FAKE_FINE;
}

static void test_late_copy(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 50);
  f->fake.fate = late_copy;
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  for (size_t i = 0; i < 50; i++) assert_written(f, i);
}

static fake_fate lose_all(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)fake;
  (void)r;
  return FAKE_LOST_BEFORE;
}

static void test_never_answered(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.tries = 3});
  prepare(f, 50);
  f->fake.fate = lose_all;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_UNAVAILABLE);
  assert_true(f->batch.error.ambiguous);
  assert_int_equal(f->batch.dirty, 50);
}

static fake_fate read_fails(void *ctx, fake_docs *fake) {
  (void)ctx;
  return fake->mgets < 4 ? FAKE_REFUSED : FAKE_FINE;
}

static void test_read_fails(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 50);
  f->fake.fate = lose_after;
  f->fake.read = read_fails;
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
}

static fake_fate refuse_for_a_while(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  return fake->bulks < 4 ? FAKE_REFUSED : FAKE_FINE;
}

static void test_refused(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 50);
  f->fake.fate = refuse_for_a_while;
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
  assert_int_equal(f->fake.mgets, 0); /* nothing is unknown */
}

static fake_fate no_right(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  (void)r;
  return fake->bulks == 2 ? FAKE_AUTH : FAKE_FINE;
}

static void test_no_right(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.docs = 10, .in_flight = 1});
  prepare(f, 50);
  f->fake.fate = no_right;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_AUTH);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 10);
  assert_int_equal(f->fake.bulks, 2);
}

/* All faults at once: the documents at the end are as the outcomes say. */
static fake_fate any_fate(void *ctx, fake_docs *fake, mt_bulk *r) {
  fixture *f = ctx;
  (void)fake;
  if (!rng_chance(&f->random, 40)) return FAKE_FINE;
  fake_fate fate = (fake_fate)(1 + rng_below(&f->random, FAKE_REFUSED));
  return fate == FAKE_BAD || (fate == FAKE_TOO_LARGE && r->n < 4) ? FAKE_FINE : fate;
}

static mt_write_result any_item(void *ctx, fake_docs *fake, mt_write *w) {
  fixture *f = ctx;
  (void)fake;
  (void)w;
  return rng_chance(&f->random, 5) ? MT_WRITE_BUSY : MT_WRITE_NONE;
}

static void test_any(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.docs = 40, .in_flight = 3, .tries = 30});
  for (size_t round = property_rounds(30); round > 0; round--) {
    prepare(f, 300);
    f->fake.fate = any_fate;
    f->fake.item = any_item;
    for (size_t i = 0; i < 20; i++)
      fake_put(&f->fake, f->ids[rng_below(&f->random, 300)], "{\"theirs\":1}");
    run(f);
    assert_int_equal(f->batch.error.code, MORTISE_OK);
    for (size_t i = 0; i < 300; i++) {
      const char *is = fake_get(&f->fake, f->items[i].write.id)->source;
      bool theirs = f->items[i].outcome == MT_OUTCOME_CONFLICT;
      assert_string_equal(is, theirs ? "{\"theirs\":1}" : f->bodies[i]);
    }
  }
}

/* ---- The lock ------------------------------------------------------------------------------- */

static fake_fate deadline_passes(void *ctx, fake_docs *fake, mt_bulk *r) {
  fixture *f = ctx;
  (void)r;
  if (fake->bulks == 3) atomic_store(&f->lock.session.deadline_ms, 1);
  return FAKE_FINE;
}

static void test_deadline(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.docs = 10});
  prepare(f, 100);
  f->fake.fate = deadline_passes;
  run(f);
  assert_int_equal(f->batch.error.code, MORTISE_LOCK_LOST);
  assert_int_equal(f->fake.bulks, 3);
  assert_int_equal(f->batch.counts[MT_OUTCOME_APPLIED], 30);
  assert_int_equal(f->batch.counts[MT_OUTCOME_NONE], 70);
  for (size_t i = 30; i < 100; i++)
    assert_string_equal(fake_get(&f->fake, mt_slice_of(f->ids[i]))->source, "{\"old\":true}");
  mortise_error err;
  assert_null(mt_writer_new(&f->fake.store, &env, fake_permit(&f->lock), NULL, &err));
  assert_int_equal(err.code, MORTISE_LOCK_LOST);
}

static fake_fate short_lease(void *ctx, fake_docs *fake, mt_bulk *r) {
  (void)ctx;
  int64_t left = r->req.deadline_ms - mt_loop_now(fake->store.loop);
  assert_true(r->req.deadline_ms && left <= 500);
  assert_non_null(r->req.may_send);
  return FAKE_FINE;
}

static void test_cut_to_lease(void **state) {
  fixture *f = *state;
  fake_lock_init(&f->lock, &env, 500);
  open_writer(f, (mt_writer_config){0});
  prepare(f, 10);
  f->fake.fate = short_lease;
  run(f);
  assert_all(f, MT_OUTCOME_APPLIED);
}

static void test_stop(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.docs = 10, .in_flight = 1});
  prepare(f, 100);
  f->fake.fate = refuse_for_a_while;
  mortise_error why;
  mt_error_set(&why, MORTISE_INTERRUPTED, "stopped");
  mt_writer_submit(f->w, &f->batch);
  mt_loop_step(f->loop, 0, NULL);
  mt_loop_step(f->loop, 0, NULL);
  const int sent = (int)f->fake.bulks; /* a slow machine may have tried again by now */
  mt_writer_stop(f->w, &why);
  assert_int_equal(f->done, 0);
  mt_loop_pump(f->loop, &f->batch.finished, mt_clock_boot_ms() + 500, NULL);
  assert_int_equal(f->done, 1);
  assert_int_equal(f->batch.error.code, MORTISE_INTERRUPTED);
  assert_int_equal(f->fake.bulks, sent); /* nothing more */
}

static void test_free_under_way(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){.docs = 10});
  prepare(f, 100);
  mt_writer_submit(f->w, &f->batch);
  mt_loop_step(f->loop, 0, NULL);
  mt_writer_free(f->w);
  f->w = NULL;
  for (int i = 0; i < 5; i++) mt_loop_step(f->loop, 0, NULL);
  assert_int_equal(f->done, 0);
}

static void free_inside(void *ctx, mt_write_batch *b) {
  fixture *f = ctx;
  (void)b;
  f->done++;
  mt_writer_free(f->w);
  f->w = NULL;
}

static void test_free_inside(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 10);
  f->batch.done = free_inside;
  mt_write_batch second = f->batch;
  second.n = 0;
  mt_writer_submit(f->w, &second);
  run(f);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static bool deny_one(void *ctx, size_t size) {
  (void)size;
  int *left = ctx;
  return (*left)-- != 0;
}

static void test_memory(void **state) {
  fixture *f = *state;
  for (int n = 0; n < 40; n++) {
    prepare(f, 30);
    f->fake.bulks = 0;
    f->fake.fate = lose_after;
    mortise_error err;
    mt_writer_config config = {.docs = 8, .backoff_ms = 1};
    int left = n;
    mt_mem_hook(deny_one, &left);
    f->w = mt_writer_new(&f->fake.store, &env, fake_permit(&f->lock), &config, &err);
    mortise_status status = f->w ? MORTISE_OK : err.code;
    if (f->w) mt_writer_submit(f->w, &f->batch);
    if (!status) mt_loop_pump(f->loop, &f->batch.finished, -1, NULL);
    mt_mem_hook(NULL, NULL);
    if (!status) status = f->batch.error.code;
    if (status)
      assert_int_equal(status, MORTISE_OUT_OF_MEMORY);
    else
      assert_all(f, MT_OUTCOME_APPLIED);
    mt_writer_free(f->w);
    f->w = NULL;
  }
}

/* It would be its own successor in the writer's list, also where it was initialised anew meanwhile. */
static void test_submitted_twice(void **state) {
  fixture *f = *state;
  open_writer(f, (mt_writer_config){0});
  prepare(f, 1);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGABRT, SIG_DFL);
    fclose(stderr);
    mt_writer_submit(f->w, &f->batch);
    f->batch = (mt_write_batch){.done = on_done, .ctx = f, .items = f->items, .n = 1};
    mt_writer_submit(f->w, &f->batch);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_plain),
      TEST(test_empty),
      TEST(test_submitted_twice),
      TEST(test_bytes),
      TEST(test_too_large),
      TEST(test_one_bad),
      TEST(test_all_bad),
      TEST(test_busy),
      TEST(test_always_busy),
      TEST(test_outcomes),
      TEST(test_conflict_with_own_copy),
      TEST(test_again),
      TEST(test_again_is_bounded),
      TEST(test_lost_before),
      TEST(test_lost_after),
      TEST(test_lost_and_edited),
      TEST(test_late_copy),
      TEST(test_never_answered),
      TEST(test_read_fails),
      TEST(test_refused),
      TEST(test_no_right),
      TEST(test_any),
      TEST(test_deadline),
      TEST(test_cut_to_lease),
      TEST(test_stop),
      TEST(test_free_under_way),
      TEST(test_free_inside),
      TEST(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
