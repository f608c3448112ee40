/* What becomes of documents that others write or delete while a job's process dies over them, on every store there
 * is. */
#include "job_life.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

enum { THEIRS = 2 };

/* A function's job that has died over its first batch, whose request is still under way. */
typedef struct broken_off {
  job_fixture f;
  life l;
  char ids[THEIRS][ID_MAX], routing[THEIRS][8]; /* some of the batch's documents */
} broken_off;

/* Of the documents that these items write, or delete. */
static void choose(broken_off *b, const mt_write *items, size_t count, mt_write_kind kind) {
  size_t n = 0;
  for (size_t i = 0; i < count && n < THEIRS; i++) {
    const mt_write *w = &items[i];
    if (w->kind != kind) continue;
    snprintf(b->ids[n], ID_MAX, "%.*s", (int)w->id.n, w->id.p);
    snprintf(b->routing[n++], sizeof b->routing[0], "%.*s", (int)w->routing.n,
             w->routing.p ? w->routing.p : "");
  }
  assert_int_equal(n, THEIRS);
}

/* The job is alive, and its first batch waits. */
static void hold_first_batch(broken_off *b, mt_write_kind kind) {
  life *l = &b->l;
  life_begin(l, &b->f, MT_JOB_RUN, NEVER, LOST);
  l->rename.change.options.page = 5 * PAGE;
  l->holds = true;
  while (!l->n_held && !l->job.finished) mt_loop_step(l->mine.loop, 100, NULL);
  choose(b, l->held[0]->items, l->held[0]->n, kind);
}

static void break_off_by(broken_off *b, const mt_test_place *place, mt_test_random *random,
                         mt_write_kind kind, bool by_function) {
  job_fixture_open(&b->f, place, BY_SOURCES, random);
  b->f.by_function = by_function;
  b->f.deletes = kind == MT_WRITE_DELETE;
  life_begin(&b->l, &b->f, MT_JOB_RUN, NEVER, LATE);
  b->l.rename.change.options.page = 5 * PAGE;
  b->l.dies_writing = true;
  life_go_on(&b->l);
  choose(b, b->f.late.items, b->f.late.n, kind);
  life_end(&b->l);
}

static void break_off(broken_off *b, const mt_test_place *place, mt_test_random *random,
                      mt_write_kind kind) {
  break_off_by(b, place, random, kind, true);
}

/* Somebody writes one of those documents, or deletes it. */
static void write_theirs(broken_off *b, size_t i, const char *source) {
  mt_write w = {.kind = source ? MT_WRITE_INDEX : MT_WRITE_DELETE,
                .id = mt_slice_of(b->ids[i]),
                .routing = b->routing[i][0] ? mt_slice_of(b->routing[i]) : (mt_slice){NULL, 0},
                .body = source ? mt_slice_of(source) : (mt_slice){NULL, 0}};
  mt_bulk r = {.index = b->f.index, .items = &w, .n = 1};
  b->f.theirs.store->docs->bulk(b->f.theirs.store, &r);
  OK(&b->f, r);
  assert_int_equal(w.result, MT_WRITE_APPLIED);
}

static void expect_theirs(broken_off *b, size_t i, const char *begins) {
  mt_slice id = mt_slice_of(b->ids[i]);
  mt_slice routing = b->routing[i][0] ? mt_slice_of(b->routing[i]) : (mt_slice){NULL, 0};
  mt_mget r = {.index = b->f.index, .ids = &id, .routing = &routing, .n = 1};
  b->f.theirs.store->docs->mget(b->f.theirs.store, &r);
  OK(&b->f, r);
  mt_slice source = r.page->docs[0].source;
  MT_CHECK(begins ? mt_slice_starts(source, mt_slice_of(begins)) : !source.p, "%s: %s is %.*s",
           b->f.place->name, b->ids[i], (int)source.n, source.p);
  mt_mget_deinit(&r);
}

/* How many are listed as conflicts, whatever the job's document says of them now. */
static size_t count_listed(job_fixture *f, const char *mark) {
  char text[64];
  size_t n = 0;
  mt_refresh fresh = {.index = f->table};
  f->theirs.store->docs->refresh(f->theirs.store, &fresh);
  OK(f, fresh);
  mt_scan_open open = {.index = f->table, .slices = 1};
  f->theirs.store->docs->scan_open(f->theirs.store, &open);
  OK(f, open);
  snprintf(text, sizeof text, "\"state\":\"%s\"", mark);
  for (mt_scan_next next; true; mt_page_free(next.page)) {
    next = (mt_scan_next){.scan = open.scan};
    f->theirs.store->docs->scan_next(f->theirs.store, &next);
    OK(f, next);
    if (!next.page) break;
    for (size_t i = 0; i < next.page->n; i++) {
      static const char what[] = "\"what\":\"conflict\"";
      mt_slice s = next.page->docs[i].source;
      if (!memmem(s.p, s.n, text, strlen(text))) continue;
      for (const char *p = s.p; (p = memmem(p, (size_t)(s.p + s.n - p), what, sizeof what - 1)); p++)
        n++;
    }
  }
  f->theirs.store->docs->scan_close(f->theirs.store, open.scan);
  return n;
}

static void resume(broken_off *b) {
  life_whole(&b->l, &b->f, MT_JOB_RESUME);
  const mt_job_record *r = &b->l.job.record;
  uint64_t sum = r->counts.changed + r->counts.deleted + r->counts.unchanged + r->counts.conflicts +
                 r->counts.rejected;
  MT_CHECK(r->counts.matched == sum, "%s: %" PRIu64 " matched, %" PRIu64 " counted",
           b->f.place->name, r->counts.matched, sum);
}

/* They stay as others have left them, whoever resumes the job, and how often. */
static void expect_conflicts(broken_off *b, uint64_t conflicts, uint64_t matched) {
  for (int again = 0; again < 3; again++) {
    resume(b);
    const mt_job *j = &b->l.job;
    assert_int_equal(j->error.code, again ? MORTISE_OK : MORTISE_CONFLICT); /* it is over by then */
    assert_int_equal(j->result.conflicts, again ? 0 : conflicts);
    assert_int_equal(j->record.state, MT_JOB_DONE);
    assert_int_equal(j->record.counts.conflicts, conflicts);
    assert_int_equal(j->record.counts.matched, matched);
    assert_int_equal(count_listed(&b->f, "unsure"), conflicts);
    life_end(&b->l);
  }
}

static void expect_done(broken_off *b, uint64_t matched) {
  resume(b);
  MT_CHECK(!b->l.job.error.code, "%s: %s", b->f.place->name, b->l.job.error.message);
  assert_int_equal(b->l.job.record.state, MT_JOB_DONE);
  assert_int_equal(b->l.job.record.counts.matched, matched);
  life_end(&b->l);
}

static void end_broken_off(broken_off *b) {
  job_bring_all(&b->f);
  job_fixture_close(&b->f);
}

static void undo_with(broken_off *b, uint64_t conflicts) {
  life_whole(&b->l, &b->f, MT_JOB_UNDO);
  assert_int_equal(b->l.job.record.state, MT_JOB_UNDONE);
  MT_CHECK(b->l.job.result.conflicts == conflicts, "%s: %" PRIu64 " conflicts", b->f.place->name,
           b->l.job.result.conflicts);
  assert_int_equal(b->l.job.record.counts.left, conflicts);
  assert_int_equal(b->l.job.error.code, conflicts ? MORTISE_CONFLICT : MORTISE_OK);
  assert_int_equal(count_listed(&b->f, "undo"), conflicts);
  life_end(&b->l);
}

static const char theirs[] = "{\"path\":\"/theirs\"}";
static const char made[] = "{\"path\":\"/theirs\",\"made\":";
static const char *const twice[] = {"{\"path\":\"/first\"}", theirs};

/* ---- Changed -------------------------------------------------------------------------------- */

/* The batch's request never came, and now does nothing: on a server a document's count of writes shows that one write
 * of theirs is all there was. */
static void test_changed_before(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  break_off(&b, place, random, MT_WRITE_INDEX);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, theirs);
  if (place->elastic)
    expect_done(&b, DOCS);
  else
    expect_conflicts(&b, THEIRS, DOCS);
  job_bring_all(&b.f);
  for (size_t i = 0; i < THEIRS; i++) expect_theirs(&b, i, place->elastic ? made : theirs);
  undo_with(&b, place->elastic ? 0 : THEIRS);
  for (size_t i = 0; i < THEIRS; i++) expect_theirs(&b, i, theirs);
  end_broken_off(&b);
}

/* It came, and they have changed what it had made, or it did not, and they wrote twice. */
static void test_changed_after(const mt_test_place *place, mt_test_random *random) {
  for (int came = 0; came < 2; came++) {
    broken_off b;
    break_off(&b, place, random, MT_WRITE_INDEX);
    if (came) job_bring_all(&b.f);
    for (int n = came; n < 2; n++)
      for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, twice[n]);
    expect_conflicts(&b, THEIRS, DOCS);
    job_bring_all(&b.f);
    for (size_t i = 0; i < THEIRS; i++) expect_theirs(&b, i, theirs);
    undo_with(&b, THEIRS);
    end_broken_off(&b);
  }
}

/* What nobody can tell of any more stays a conflict, also if it is gone by then. */
static void test_changed_then_deleted(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  break_off(&b, place, random, MT_WRITE_INDEX);
  job_bring_all(&b.f);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, theirs);
  life_begin(&b.l, &b.f, MT_JOB_RESUME, NEVER, LOST); /* dies when its list is written */
  b.l.dies_listing = true;
  life_go_on(&b.l);
  life_end(&b.l);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, NULL);
  expect_conflicts(&b, THEIRS, DOCS);
  end_broken_off(&b);
}

/* Undone at once: what the batch has provably never changed is no conflict. */
static void test_undone_at_once(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  break_off(&b, place, random, MT_WRITE_INDEX);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, theirs);
  undo_with(&b, place->elastic ? 0 : THEIRS);
  job_bring_all(&b.f);
  for (size_t i = 0; i < THEIRS; i++) expect_theirs(&b, i, theirs);
  end_broken_off(&b);
}

/* ---- Deleted -------------------------------------------------------------------------------- */

/* The batch was to delete what they have changed. */
static void test_to_be_deleted(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  break_off(&b, place, random, MT_WRITE_DELETE);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, theirs);
  if (place->elastic)
    expect_done(&b, DOCS);
  else
    expect_conflicts(&b, THEIRS, DOCS);
  job_bring_all(&b.f);
  for (size_t i = 0; i < THEIRS; i++) expect_theirs(&b, i, place->elastic ? NULL : theirs);
  undo_with(&b, place->elastic ? 0 : THEIRS);
  for (size_t i = 0; i < THEIRS; i++) expect_theirs(&b, i, theirs);
  end_broken_off(&b);
}

/* Nobody can see who deleted a document while the batch was under way: it counts as the job's, since undoing must not
 * lose what the job has deleted. */
static void test_deleted_meanwhile(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  break_off(&b, place, random, MT_WRITE_DELETE);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, NULL);
  expect_done(&b, DOCS);
  undo_with(&b, 0);
  job_expect_done(&b.f, false);
  end_broken_off(&b);
}

/* A deletion that finds nothing is not the job's: it is neither counted nor taken back. */
static void test_deleted_before(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  job_fixture_open(&b.f, place, BY_SOURCES, random);
  b.f.by_function = b.f.deletes = true;
  hold_first_batch(&b, MT_WRITE_DELETE);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, NULL);
  life_let_go(&b.l);
  life_go_on(&b.l);
  MT_CHECK(!b.l.job.error.code, "%s: %s", place->name, b.l.job.error.message);
  assert_int_equal(b.l.job.result.deleted, DOCS / 5 - THEIRS);
  assert_int_equal(b.l.job.record.counts.deleted, DOCS / 5 - THEIRS);
  assert_int_equal(b.l.job.record.counts.matched, DOCS);
  life_end(&b.l);
  undo_with(&b, 0);
  for (size_t i = 0; i < THEIRS; i++) expect_theirs(&b, i, NULL);
  end_broken_off(&b);
}

/* ---- A change that can be made again --------------------------------------------------------- */

static const char in_tree[] = "{\"path\":\"/clinton/theirs\"}";
static const char moved[] = "{\"path\":\"/projects/clinton/theirs\"}";

static void expect_all_theirs(broken_off *b, const char *source) {
  for (size_t i = 0; i < THEIRS; i++) expect_theirs(b, i, source);
}

/* What was changed by others before it was moved is what they have made of it, once that is undone: no conflict. */
static void test_moved_after_others(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  break_off_by(&b, place, random, MT_WRITE_INDEX, false);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, in_tree);
  expect_done(&b, DOCS);
  expect_all_theirs(&b, moved);
  undo_with(&b, 0);
  expect_all_theirs(&b, in_tree);
  end_broken_off(&b);
}

/* The same without a death: the job's first write of them was in conflict. */
static void test_moved_beside_others(const mt_test_place *place, mt_test_random *random) {
  broken_off b;
  job_fixture_open(&b.f, place, BY_SOURCES, random);
  hold_first_batch(&b, MT_WRITE_INDEX);
  for (size_t i = 0; i < THEIRS; i++) write_theirs(&b, i, in_tree);
  life_let_go(&b.l);
  life_go_on(&b.l);
  MT_CHECK(!b.l.job.error.code, "%s: %s", place->name, b.l.job.error.message);
  life_end(&b.l);
  expect_all_theirs(&b, moved);
  undo_with(&b, 0);
  expect_all_theirs(&b, in_tree);
  end_broken_off(&b);
}

/* ---- Renamed back --------------------------------------------------------------------------- */

/* Without a journal of all documents it lists those whose bytes renaming back does not restore. What others have made of
 * them since is renamed back like all that lies there, so nothing is left as it is. */
static void test_renamed_back(const mt_test_place *place, mt_test_random *random) {
  static const char there[] = "{\"path\":\"/projects/clinton/theirs\"}";
  enum { ESCAPED = 5, GONE = 16 };
  broken_off b;
  job_fixture_open(&b.f, place, BY_INVERSE, random);
  life_whole(&b.l, &b.f, MT_JOB_RUN);
  assert_true(b.l.job.record.inverse && b.l.job.record.batches[0]);
  life_end(&b.l);
  snprintf(b.ids[0], ID_MAX, "d%d", ESCAPED);
  snprintf(b.ids[1], ID_MAX, "d%d", GONE);
  b.routing[0][0] = b.routing[1][0] = '\0';
  write_theirs(&b, 0, there);
  write_theirs(&b, 1, NULL);
  undo_with(&b, 0);
  expect_theirs(&b, 0, "{\"path\":\"/clinton/theirs\"}");
  expect_theirs(&b, 1, NULL);
  end_broken_off(&b);
}

/* ---- Every place ---------------------------------------------------------------------------- */

static mt_test_place places[MT_TEST_PLACES];
static size_t n_places;

#define EVERYWHERE(what)                                                                           \
  static void everywhere_##what(void **state) {                                                    \
    (void)state;                                                                                   \
    mt_test_random random = mt_test_random_for(#what);                                             \
    for (size_t i = 0; i < n_places; i++) test_##what(&places[i], &random);                        \
  }
EVERYWHERE(changed_before)
EVERYWHERE(changed_after)
EVERYWHERE(changed_then_deleted)
EVERYWHERE(undone_at_once)
EVERYWHERE(to_be_deleted)
EVERYWHERE(deleted_meanwhile)
EVERYWHERE(deleted_before)
EVERYWHERE(moved_after_others)
EVERYWHERE(moved_beside_others)
EVERYWHERE(renamed_back)

int main(void) {
  n_places = mt_test_places(places);
  for (size_t i = 0; i < n_places; i++)
    if (mt_test_init_table(&places[i])) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everywhere_changed_before),
      cmocka_unit_test(everywhere_changed_after),
      cmocka_unit_test(everywhere_changed_then_deleted),
      cmocka_unit_test(everywhere_undone_at_once),
      cmocka_unit_test(everywhere_to_be_deleted),
      cmocka_unit_test(everywhere_deleted_meanwhile),
      cmocka_unit_test(everywhere_deleted_before),
      cmocka_unit_test(everywhere_moved_after_others),
      cmocka_unit_test(everywhere_moved_beside_others),
      cmocka_unit_test(everywhere_renamed_back),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (size_t i = 0; i < n_places; i++) mt_test_place_clean(&places[i]);
  return failed;
}
