/* Jobs on every store there is: killed at any request, also while they are resumed or undone, with the
 * last request of the dead lost, carried out, or carried out much later. */
#include "job_life.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Killed anywhere ------------------------------------------------------------------------ */

/* Lives until one is not killed. The last one's job is left for the caller. */
static void run_through(job_fixture *f, life *l, unsigned kills, mt_job_verb after, int most) {
  mt_job_verb verb = MT_JOB_RUN;
  for (unsigned k = 0;; k++) {
    int die_at = k < kills ? 1 + (int)mt_test_below(f->random, (size_t)most) : NEVER;
    life_begin(l, f, verb, die_at, (death)mt_test_below(f->random, FATES));
    life_go_on(l);
    const mortise_error *e = &l->job.error;
    bool missing = l->job.finished && e->code == MORTISE_NOT_FOUND && verb != MT_JOB_RUN;
    bool exists = l->job.finished && e->code == MORTISE_CONFLICT && verb == MT_JOB_RUN;
    if (l->job.finished && !missing && !exists) return;
    verb = missing ? MT_JOB_RUN : after;
    if (missing || exists) k--;
    life_end(l);
  }
}

static void check_end(job_fixture *f, life *l, mt_job_verb after) {
  const mt_job_record *r = &l->job.record;
  bool undone = after == MT_JOB_UNDO && r->state == MT_JOB_UNDONE;
  MT_CHECK(!l->job.error.code, "%s: %s", f->place->name, l->job.error.message);
  MT_CHECK(undone || r->state == MT_JOB_DONE, "%s: %s", f->place->name,
           mt_job_state_name(r->state));
  job_expect_done(f, !undone);
  if (!undone) {
    /* What a late request did is not ours, unless it is seen in time. */
    uint64_t done = r->counts.changed + r->counts.deleted + r->counts.unchanged;
    MT_CHECK(r->counts.matched == DOCS && done == DOCS,
             "%s: %" PRIu64 " of %" PRIu64 " counted as done", f->place->name, done,
             r->counts.matched);
  }
  job_bring_all(f);
  job_expect_done(f, !undone);
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
    job_fixture_open(&f, place, by, random);
    f.by_function = by_function;
    f.slow = place->elastic && mt_test_chance(random, 50);
    f.deletes = by < BY_INVERSE && mt_test_chance(random, 50);
    mt_job_verb after = mt_test_chance(random, 50) ? MT_JOB_UNDO : MT_JOB_RESUME;
    run_through(&f, &l, (unsigned)mt_test_below(random, 5), after, 60);
    check_end(&f, &l, after);
    life_end(&l);
    job_fixture_close(&f);
  }
}

static void test_killed_anywhere(const mt_test_place *place, undo_by by) {
  static const char *const names[UNDOS] = {"killed", "killed, ids", "killed, moves",
                                           "killed, inverse", "killed, server"};
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
  job_fixture_open(&f, place, by, &random);
  life_whole(&l, &f, MT_JOB_RUN);
  check_end(&f, &l, MT_JOB_RUN);
  assert_int_equal(l.job.result.changed, DOCS);
  assert_true(l.job.began);
  life_end(&l);

  life_whole(&l, &f, MT_JOB_RUN); /* an id is used once */
  assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
  assert_false(l.job.began);
  life_end(&l);

  life_whole(&l, &f, MT_JOB_RESUME); /* what is done needs no more */
  assert_int_equal(l.job.error.code, MORTISE_OK);
  assert_int_equal(l.bulks, 0);
  life_end(&l);

  life_whole(&l, &f, MT_JOB_UNDO);
  check_end(&f, &l, MT_JOB_UNDO);
  assert_int_equal(l.job.result.changed, DOCS);
  assert_string_equal(l.job.record.reason, "");
  MT_CHECK(mt_slice_eq(l.job.record.spec, MT_SLICE("{\"what\":\"a rename\"}")), "the spec is %.*s",
           (int)l.job.record.spec.n, l.job.record.spec.p);
  life_end(&l);
  job_fixture_close(&f);
}

/* What someone has changed since stays, and is counted. */
static void test_changed_by_others(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("others");
  job_fixture f;
  life l;
  job_fixture_open(&f, place, by, &random);
  life_whole(&l, &f, MT_JOB_RUN);
  life_end(&l);
  char gone[ID_MAX];
  job_id(&f, 2, "/projects/clinton", gone, sizeof gone);
  mt_write theirs[2] = {
      {.kind = MT_WRITE_INDEX, .id = MT_SLICE("d1"), .body = MT_SLICE("{\"path\":\"/elsewhere\"}")},
      {.kind = MT_WRITE_DELETE, .id = mt_slice_of(gone)}};
  mt_bulk r = {.index = f.index, .items = theirs, .n = 2};
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  life_whole(&l, &f, MT_JOB_UNDO);
  /* The opposite change looks only at what lies there now. */
  assert_int_equal(l.job.error.code, by >= BY_INVERSE ? MORTISE_OK : MORTISE_CONFLICT);
  assert_int_equal(l.job.record.state, MT_JOB_UNDONE);
  assert_int_equal(l.job.result.changed, DOCS - 2);
  assert_int_equal(l.job.result.conflicts, by >= BY_INVERSE ? 0 : 2);
  life_end(&l);
  job_fixture_close(&f);
}

/* What was deleted comes back, unless somebody has made a document of that id since. */
static void test_deleted_comes_back(const mt_test_place *place, undo_by by) {
  if (by == BY_SERVER) return; /* what is declared deletes nothing */
  mt_test_random random = mt_test_random_for("deleted");
  job_fixture f;
  life l;
  job_fixture_open(&f, place, by, &random);
  f.deletes = true;
  life_whole(&l, &f, MT_JOB_RUN);
  check_end(&f, &l, MT_JOB_RUN);
  assert_int_equal(l.job.result.deleted, DOCS / 5);
  assert_int_equal(l.job.record.counts.deleted, DOCS / 5);
  assert_int_equal(l.job.result.changed, DOCS - DOCS / 5);
  life_end(&l);
  char id[ID_MAX];
  job_id(&f, 3, "/clinton", id, sizeof id);
  mt_write theirs = {.kind = MT_WRITE_CREATE,
                     .id = mt_slice_of(id),
                     .routing = MT_SLICE("r"),
                     .body = MT_SLICE("{\"theirs\":true}")};
  mt_bulk r = {.index = f.index, .items = &theirs, .n = 1};
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  life_whole(&l, &f, MT_JOB_UNDO);
  assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
  assert_int_equal(l.job.result.conflicts, 1);
  assert_int_equal(l.job.result.changed, DOCS - 1);
  life_end(&l);
  theirs.kind = MT_WRITE_DELETE; /* so that all is as it was but for this one */
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  char want[SOURCE_MAX];
  job_source(&f, 3, "/clinton", want, sizeof want);
  theirs.kind = MT_WRITE_CREATE;
  theirs.body = mt_slice_of(want);
  f.theirs.store->docs->bulk(f.theirs.store, &r);
  OK(&f, r);
  job_expect_done(&f, false);
  job_fixture_close(&f);
}

/* What someone changes after it was read is given to the function once more, as it is now; one that they
 * change so that it no longer matches is not. */
static void test_function_meets_others(const mt_test_place *place, undo_by by) {
  if (by != BY_SOURCES) return;
  mt_test_random random = mt_test_random_for("function meets others");
  job_fixture f;
  life l;
  job_fixture_open(&f, place, by, &random);
  f.by_function = true;
  life_begin(&l, &f, MT_JOB_RUN, NEVER, LOST);
  l.rename.change.query =
      MT_SLICE("{\"bool\":{\"must_not\":[{\"term\":{\"path\":\"/elsewhere\"}}]}}");
  l.holds = true; /* what is written before it is let go is in conflict */
  while (!l.n_held && !l.job.finished) mt_loop_step(l.mine.loop, 100, NULL);
  job_write_theirs(&f, "d1", "{\"path\":\"/clinton/theirs\"}");
  job_write_theirs(&f, "d2", "{\"path\":\"/elsewhere\"}");
  life_let_go(&l);
  life_go_on(&l);
  MT_CHECK(!l.job.error.code, "%s: %s", place->name, l.job.error.message);
  job_expect_source(&f, "d1", "{\"path\":\"/clinton/theirs\",\"made\":");
  job_expect_source(&f, "d2", "{\"path\":\"/elsewhere\"}");
  assert_int_equal(l.job.record.counts.changed + l.job.record.counts.unchanged, DOCS - 1);
  life_end(&l);

  life_whole(&l, &f, MT_JOB_UNDO); /* their change of d1 is what it was before */
  MT_CHECK(!l.job.error.code, "%s: %s", place->name, l.job.error.message);
  job_expect_source(&f, "d1", "{\"path\":\"/clinton/theirs\"}");
  job_expect_source(&f, "d2", "{\"path\":\"/elsewhere\"}");
  life_end(&l);
  job_fixture_close(&f);
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
  job_fixture_open(&f, place, by, &random);
  f.slow = true;
  life_begin(&l, &f, MT_JOB_RUN, NEVER, LOST);
  while (!l.job.finished && !is_half_way(&l)) mt_loop_step(l.mine.loop, 100, NULL);
  mt_job_cancel(&l.job);
  life_go_on(&l);
  assert_int_equal(l.job.error.code, MORTISE_INTERRUPTED);
  assert_int_equal(l.job.record.state, MT_JOB_STOPPED);
  assert_non_null(strstr(l.job.record.reason, "interrupted"));
  life_end(&l);
  life_whole(&l, &f, MT_JOB_RESUME);
  check_end(&f, &l, MT_JOB_RESUME);
  life_end(&l);
  job_fixture_close(&f);
}

/* Told to end once it has sent so many requests. Did it end before that? */
static bool is_interrupted_after(job_fixture *f, int requests) {
  life l;
  life_begin(&l, f, MT_JOB_RUN, NEVER, LOST);
  while (!l.job.finished && l.events < requests) mt_loop_step(l.mine.loop, 100, NULL);
  bool over = l.job.finished;
  mt_job_cancel(&l.job);
  life_go_on(&l);
  const mt_job_record *r = &l.job.record;
  bool interrupted = l.job.error.code == MORTISE_INTERRUPTED;
  MT_CHECK(interrupted ? r->state == MT_JOB_STOPPED || r->state == MT_JOB_UNDONE
                       : !l.job.error.code && r->state == MT_JOB_DONE,
           "%s: after %d requests it is %s: %s", f->place->name, requests,
           mt_job_state_name(r->state), l.job.error.message);
  mt_job_verb next = r->state == MT_JOB_UNDONE ? MT_JOB_RUN : MT_JOB_RESUME;
  life_end(&l);
  life_whole(&l, f, next);
  check_end(f, &l, next);
  life_end(&l);
  return over;
}

static void test_interrupted_anywhere(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("interrupted");
  bool over = false;
  for (int requests = 1; !over && requests <= (place->elastic ? 16 : 40); requests++) {
    job_fixture f;
    job_fixture_open(&f, place, by, &random);
    over = is_interrupted_after(&f, requests);
    job_fixture_close(&f);
  }
}

/* What is refused before anything was written leaves nothing to be resumed or undone. */
static void test_refused_at_start(const mt_test_place *place, undo_by by) {
  if (by == BY_SERVER) return; /* what is merged needs a journal */
  mt_test_random random = mt_test_random_for("refused");
  job_fixture f;
  life l;
  job_fixture_open(&f, place, by, &random);
  life_begin(&l, &f, MT_JOB_RUN, NEVER, LOST);
  l.rename.merge = false;
  job_write_beside(&f);
  life_go_on(&l);
  assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
  assert_int_equal(l.job.record.state, MT_JOB_UNDONE);
  assert_non_null(strstr(l.job.record.reason, "merge"));
  job_expect_done(&f, false);
  life_end(&l);

  life_begin(&l, &f, MT_JOB_RUN, NEVER, LOST); /* nothing of it was begun: it may be run again */
  life_go_on(&l);
  assert_int_equal(l.job.error.code, MORTISE_OK);
  assert_int_equal(l.job.record.attempts, 2);
  assert_int_equal(l.job.record.counts.changed, DOCS);
  job_expect_done(&f, true);
  life_end(&l);

  life_begin(&l, &f, MT_JOB_UNDO, NEVER, LOST);
  life_go_on(&l);
  assert_int_equal(l.job.record.state, MT_JOB_UNDONE);
  job_expect_done(&f, false);
  life_end(&l);

  static const mt_job_verb not_again[] = {MT_JOB_RUN, MT_JOB_RESUME}; /* what was begun is not */
  for (int i = 0; i < 2; i++) {
    life_begin(&l, &f, not_again[i], NEVER, LOST);
    life_go_on(&l);
    assert_int_equal(l.job.error.code, MORTISE_CONFLICT);
    job_expect_done(&f, false);
    life_end(&l);
  }
  job_fixture_close(&f);
}

/* Two at it: the one whose document was written by the other ends, and changes nothing any more. */
static void test_taken_over(const mt_test_place *place, undo_by by) {
  mt_test_random random = mt_test_random_for("taken over");
  job_fixture f;
  life first, second;
  job_fixture_open(&f, place, by, &random);
  life_begin(&first, &f, MT_JOB_RUN, NEVER, LOST);
  int events = by == BY_SERVER ? 5 : 12;
  while (first.events < events && !first.job.finished) mt_loop_step(first.mine.loop, 100, NULL);
  /* What is not journaled is safe because the first sends nothing any more: its lock is lost by then. So is an id
   * that is sealed, since one who still has the lock would create a document there with a later version. */
  if (by >= BY_MOVES) atomic_store(&first.lock.session.lost, true);
  life_whole(&second, &f, MT_JOB_UNDO);
  check_end(&f, &second, MT_JOB_UNDO);
  life_current = &first;
  life_go_on(&first);
  assert_true(first.job.error.code != MORTISE_OK);
  job_expect_done(&f, false);
  life_end(&second);
  life_end(&first);
  job_fixture_close(&f);
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
EVERYWHERE(interrupted_anywhere)
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
      cmocka_unit_test(everywhere_interrupted_anywhere),
      cmocka_unit_test(everywhere_taken_over),
      cmocka_unit_test(everywhere_refused_at_start),
      cmocka_unit_test(everywhere_killed_anywhere),
      cmocka_unit_test(everywhere_function_killed_anywhere),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (size_t i = 0; i < n_places; i++) mt_test_place_clean(&places[i]);
  return failed;
}
