/* A job's document and its journal as text: what is written is read again, and nothing else is. */
#include "job/journal.h"
#include "job/record.h"
#include "property.h"

#include "base/mem.h"

static mt_slice random_text(rng *r, char *room, size_t most) {
  size_t n = rng_below(r, most);
  for (size_t i = 0; i < n; i++)
    room[i] = rng_chance(r, 80) ? (char)('a' + rng_below(r, 26)) : "\"\\\n\x01/ "[rng_below(r, 6)];
  return (mt_slice){room, n};
}

static void whatever_is_packed_comes_back(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_packer *packer = NULL;
  mt_buf bytes, text, back;
  mt_buf_init(&bytes, 1 << 20);
  mt_buf_init(&text, 1 << 20);
  mt_buf_init(&back, 1 << 20);
  for (size_t round = 0; round < property_rounds(300); round++) {
    mt_buf_clear(&bytes);
    mt_buf_clear(&text);
    mt_buf_clear(&back);
    bool dull = rng_chance(&r, 50);
    for (size_t n = rng_below(&r, 5000); n; n--)
      mt_buf_addc(&bytes, dull ? 'x' : (char)(rng_next(&r) & 0xff));
    assert_int_equal(mt_pack(&packer, mt_buf_slice(&bytes), &text, NULL), MORTISE_OK);
    assert_int_equal(mt_unpack(mt_buf_slice(&text), &back, NULL), MORTISE_OK);
    assert_true(mt_slice_eq(mt_buf_slice(&bytes), mt_buf_slice(&back)));
    if (bytes.n > 1) { /* more than there is room for is refused */
      mt_buf small;
      mt_buf_init(&small, bytes.n - 1);
      assert_int_equal(mt_unpack(mt_buf_slice(&text), &small, NULL), MORTISE_REJECTED);
      mt_buf_deinit(&small);
    }
  }
  mt_packer_free(packer);
  mt_buf_deinit(&bytes);
  mt_buf_deinit(&text);
  mt_buf_deinit(&back);
}

static void what_was_not_packed_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"",     "=",    "====", "abc",     "abcd",
                                    "AAAA", "a===", "####", "KLUv/SAA"};
  mt_buf out;
  mt_buf_init(&out, 1000);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(mt_unpack(mt_slice_of(bad[i]), &out, NULL), MORTISE_INVALID_ARGUMENT);
  mt_buf_deinit(&out);
}

static void what_was_changed_is_not_believed(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_packer *packer = NULL;
  for (size_t round = 0; round < property_rounds(2000); round++) {
    mt_buf text, back;
    mt_buf_init(&text, 1 << 20);
    mt_buf_init(&back, 1 << 20);
    mt_slice bytes =
        MT_SLICE("a text of which nothing is to be lost, and nothing to be taken amiss");
    assert_int_equal(mt_pack(&packer, bytes, &text, NULL), MORTISE_OK);
    text.p[rng_below(&r, text.n)] = "ABCDEFabcdef0123+/"[rng_below(&r, 18)];
    bool taken = !mt_unpack(mt_buf_slice(&text), &back, NULL);
    assert_true(!taken || mt_slice_eq(mt_buf_slice(&back), bytes));
    mt_buf_deinit(&text);
    mt_buf_deinit(&back);
  }
  mt_packer_free(packer);
}

/* ---- The journal ---------------------------------------------------------------------------- */

static void add_entries(rng *r, mt_buf *text, size_t n) {
  char index[40], id[40], routing[40];
  for (size_t i = 0; i < n; i++) {
    mt_journal_entry e = {.index = random_text(r, index, sizeof index),
                          .id = random_text(r, id, sizeof id - 1),
                          .before = {rng_below(r, 1000), 1 + rng_below(r, 9)},
                          .source = MT_SLICE("{ \"a\":[ ],\"b\" : 1.50,\"c\":\"\\u00e9\"}")};
    id[e.id.n++] = 'x'; /* an id is not empty */
    if (rng_chance(r, 30)) e.routing = random_text(r, routing, sizeof routing);
    if (rng_chance(r, 30)) e.source = (mt_slice){NULL, 0};
    if (rng_chance(r, 30)) {
      e.kind = MT_JOURNAL_MOVE;
      e.to = MT_SLICE("\"else\"where");
    }
    if (rng_chance(r, 30))
      e.kind = MT_JOURNAL_DELETE;
    else
      assert_true(mt_journal_digest(MT_SLICE("{}"), e.after));
    mt_journal_add(text, &e);
  }
}

static void make_batch(rng *r, size_t n, mt_buf *text, mt_buf *doc) {
  mt_packer *packer = NULL;
  add_entries(r, text, n);
  assert_int_equal(mt_journal_encode(&packer, "default", "move-1", mt_buf_slice(text), doc, NULL),
                   MORTISE_OK);
  mt_packer_free(packer);
}

static void a_batch_comes_back(void **state) {
  (void)state;
  rng r = {property_seed()};
  for (size_t round = 0; round < property_rounds(200); round++) {
    size_t n = rng_below(&r, 20);
    mt_buf text, again, doc;
    mt_buf_init(&text, 1 << 20);
    mt_buf_init(&again, 1 << 20);
    mt_buf_init(&doc, 1 << 20);
    make_batch(&r, n, &text, &doc);
    mt_journal_batch b;
    assert_int_equal(mt_journal_decode(mt_buf_slice(&doc), &b, NULL), MORTISE_OK);
    assert_int_equal(b.n, n);
    for (size_t i = 0; i < n; i++) mt_journal_add(&again, &b.entries[i]);
    assert_true(mt_slice_eq(mt_buf_slice(&text), mt_buf_slice(&again)));
    mt_journal_batch_deinit(&b);
    mt_buf_deinit(&text);
    mt_buf_deinit(&again);
    mt_buf_deinit(&doc);
  }
}

/* Whatever a stranger makes of it: a clear error, or a batch, never anything undefined. */
static void a_damaged_batch_is_said(void **state) {
  (void)state;
  rng r = {property_seed()};
  for (size_t round = 0; round < property_rounds(2000); round++) {
    mt_buf text, doc;
    mortise_error err;
    mt_buf_init(&text, 1 << 20);
    mt_buf_init(&doc, 1 << 20);
    make_batch(&r, 3, &text, &doc);
    doc.p[rng_below(&r, doc.n)] = (char)(32 + rng_below(&r, 95));
    size_t n = rng_chance(&r, 20) ? rng_below(&r, doc.n) : doc.n;
    mt_journal_batch b;
    mortise_status status = mt_journal_decode((mt_slice){doc.p, n}, &b, &err);
    assert_true(status == MORTISE_OK || status == MORTISE_CORRUPT_TABLE);
    if (!status) mt_journal_batch_deinit(&b);
    mt_buf_deinit(&text);
    mt_buf_deinit(&doc);
  }
}

/* As it was written before entries had kinds. */
static void without_a_kind_it_is_an_index(void **state) {
  (void)state;
  mt_slice text = MT_SLICE("{\"index\":\"fs\",\"id\":\"a\",\"seq_no\":3,\"term\":1,\"after\":"
                           "\"0123456789abcdef\",\"source\":{}}");
  mt_packer *packer = NULL;
  mt_journal_batch b;
  mt_buf doc;
  mt_buf_init(&doc, 1 << 20);
  assert_int_equal(mt_journal_encode(&packer, "default", "move-1", text, &doc, NULL), MORTISE_OK);
  assert_int_equal(mt_journal_decode(mt_buf_slice(&doc), &b, NULL), MORTISE_OK);
  assert_int_equal(b.entries[0].kind, MT_JOURNAL_INDEX);
  mt_journal_batch_deinit(&b);
  mt_buf_deinit(&doc);
  mt_packer_free(packer);
}

/* ---- A job's document ----------------------------------------------------------------------- */

static void fill_record(mt_job_record *r, mt_job_state as) {
  mt_job_record_init(r);
  snprintf(r->ns, sizeof r->ns, "default");
  snprintf(r->id, sizeof r->id, "move-1");
  snprintf(r->session, sizeof r->session, "0123456789abcdef0123456789abcdef");
  snprintf(r->reason, sizeof r->reason, "the \"disk\" is full\n");
  r->state = as;
  r->spec = MT_SLICE("{\"index\":\"fs\",\"n\":[1, 2]}");
  for (int i = 0; i < 3; i++) assert_int_equal(mt_job_record_attempt(r, NULL), MORTISE_OK);
  r->batches[0] = 7;
  r->batches[2] = 5;
  r->also[r->n_also++] = 6;
  r->undo_attempt = 2;
  r->undo_number = 4;
  r->sweeps = true;
  snprintf(r->task, sizeof r->task, "node:12");
  r->not_after_ms = 1700000000002;
  r->swept = 3;
  r->counts.matched = 10;
  r->counts.changed = 9;
  r->counts.rejected = 1;
  r->created_ms = 1700000000000;
  r->updated_ms = 1700000000001;
}

static void a_record_comes_back(void **state) {
  (void)state;
  for (mt_job_state as = MT_JOB_RUNNING; as <= MT_JOB_UNDONE; as++) {
    mt_job_record r, back;
    mt_buf text, again;
    mt_buf_init(&text, 1 << 20);
    mt_buf_init(&again, 1 << 20);
    fill_record(&r, as);
    mt_job_record_init(&back);
    mt_job_record_encode(&r, &text);
    assert_int_equal(mt_job_record_decode(&back, mt_buf_slice(&text), (mt_version){3, 1}, NULL),
                     MORTISE_OK);
    mt_job_record_encode(&back, &again);
    assert_string_equal(text.p, again.p);
    assert_int_equal(back.version.seq_no, 3);
    mt_job_record_deinit(&r);
    mt_job_record_deinit(&back);
    mt_buf_deinit(&text);
    mt_buf_deinit(&again);
  }
}

static void a_damaged_record_is_said(void **state) {
  (void)state;
  rng random = {property_seed()};
  for (size_t round = 0; round < property_rounds(3000); round++) {
    mt_job_record r, back;
    mortise_error err;
    mt_buf text;
    mt_buf_init(&text, 1 << 20);
    fill_record(&r, MT_JOB_RUNNING);
    mt_job_record_init(&back);
    mt_job_record_encode(&r, &text);
    text.p[rng_below(&random, text.n)] = (char)(32 + rng_below(&random, 95));
    mortise_status status =
        mt_job_record_decode(&back, mt_buf_slice(&text), (mt_version){3, 1}, &err);
    assert_true(status == MORTISE_OK || status == MORTISE_CORRUPT_TABLE);
    mt_job_record_deinit(&r);
    mt_job_record_deinit(&back);
    mt_buf_deinit(&text);
  }
}

static void what_is_over_does_not_go_on(void **state) {
  (void)state;
  assert_false(mt_job_state_may(MT_JOB_DONE, MT_JOB_RUNNING));
  assert_false(mt_job_state_may(MT_JOB_UNDOING, MT_JOB_RUNNING));
  assert_false(mt_job_state_may(MT_JOB_UNDOING, MT_JOB_DONE));
  for (mt_job_state to = MT_JOB_NONE; to <= MT_JOB_UNDONE; to++)
    assert_int_equal(mt_job_state_may(MT_JOB_UNDONE, to), to == MT_JOB_RUNNING);
  mt_job_record r;
  mt_job_record_init(&r);
  r.state = MT_JOB_UNDONE;
  assert_true(mt_job_record_may(&r, MT_JOB_RUNNING));
  r.batches = (uint64_t[]){3, 0};
  r.attempts = 2;
  assert_false(mt_job_record_may(&r, MT_JOB_RUNNING)); /* something was changed, and taken back */
  assert_true(mt_job_state_may(MT_JOB_DONE, MT_JOB_UNDOING));
  assert_true(mt_job_state_may(MT_JOB_STOPPED, MT_JOB_RUNNING));
}

static void ids_are_checked(void **state) {
  (void)state;
  char id[MT_JOB_NAME_MAX + 2];
  memset(id, 'a', sizeof id);
  assert_int_equal(mt_job_check_id((mt_slice){id, MT_JOB_NAME_MAX}, NULL), MORTISE_OK);
  assert_int_equal(mt_job_check_id((mt_slice){id, MT_JOB_NAME_MAX + 1}, NULL),
                   MORTISE_INVALID_ARGUMENT);
  static const char *const bad[] = {"", "a b", "a:b", "\xc3\xa9", "a\n", "../x/"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(mt_job_check_id(mt_slice_of(bad[i]), NULL), MORTISE_INVALID_ARGUMENT);
  assert_int_equal(mt_job_check_id((mt_slice){"a\0b", 3}, NULL), MORTISE_INVALID_ARGUMENT);
}

/* ---- Without memory ------------------------------------------------------------------------- */

static size_t left;

static bool allow(void *ctx, size_t size) {
  (void)ctx;
  (void)size;
  return left && left--;
}

static void each_allocation_may_fail(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_buf text, doc;
  mt_buf_init(&text, 1 << 20);
  mt_buf_init(&doc, 1 << 20);
  make_batch(&r, 20, &text, &doc);
  mortise_status status = MORTISE_OUT_OF_MEMORY;
  for (size_t n = 0; status == MORTISE_OUT_OF_MEMORY && n < 1000; n++) {
    mt_packer *packer = NULL;
    mt_journal_batch b = {0};
    mt_buf again;
    mt_buf_init(&again, 1 << 20);
    left = n;
    mt_mem_hook(allow, NULL);
    status = mt_journal_encode(&packer, "ns", "job", mt_buf_slice(&text), &again, NULL);
    if (!status) status = mt_journal_decode(mt_buf_slice(&doc), &b, NULL);
    mt_mem_hook(NULL, NULL);
    mt_journal_batch_deinit(&b);
    mt_packer_free(packer);
    mt_buf_deinit(&again);
  }
  assert_int_equal(status, MORTISE_OK);
  mt_buf_deinit(&text);
  mt_buf_deinit(&doc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_is_packed_comes_back),
      cmocka_unit_test(what_was_not_packed_is_refused),
      cmocka_unit_test(what_was_changed_is_not_believed),
      cmocka_unit_test(a_batch_comes_back),
      cmocka_unit_test(a_damaged_batch_is_said),
      cmocka_unit_test(without_a_kind_it_is_an_index),
      cmocka_unit_test(a_record_comes_back),
      cmocka_unit_test(a_damaged_record_is_said),
      cmocka_unit_test(what_is_over_does_not_go_on),
      cmocka_unit_test(ids_are_checked),
      cmocka_unit_test(each_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
