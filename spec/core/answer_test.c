/* What an answer must contain before it is believed: one to a batch of lock operations, and one
 * with a document. */
#include "base/mem.h"
#include "elastic/answer.h"
#include "elastic/internal.h"
#include "elastic/page.h"

#include "support/support.h"

static const char session[] = "0123456789abcdef0123456789abcdef";

static mt_lock_result result_of(mt_lock_verb verb, const char *answer) {
  mt_elastic e = {.store = {.url = "http://h:9200"}, .table = "mortise-locks"};
  mt_lock_item item = {
      .verb = verb, .place.path = MT_SLICE("/a"), .mode = MT_X, .session = session};
  mt_lock_batch r = {.ns = "default", .session = session, .items = &item, .n = 1};
  mt_table_read_batch(&e, &r, 0, mt_slice_of(answer), true);
  mt_lock_batch_deinit(&r);
  return item.result;
}

#define ANY(text) "{\"items\":[{\"update\":{" text "}}]}"
#define ITEM(text) ANY("\"_id\":\"default:/a\"," text)

static void test_a_grant_is_a_write(void **state) {
  (void)state;
  static const mt_lock_verb grants[] = {MT_LOCK_CREATE, MT_LOCK_SET, MT_LOCK_ADOPT};
  static const char *const less[] = {
      ITEM("\"status\":200"), ITEM("\"status\":200,\"result\":\"updated\""),
      ITEM("\"status\":200,\"result\":\"updated\",\"_seq_no\":5,\"_primary_term\":0"),
      ITEM("\"status\":200,\"result\":\"deleted\",\"_seq_no\":5,\"_primary_term\":1"),
      ITEM("\"status\":200,\"_seq_no\":5,\"_primary_term\":1")};
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(result_of(grants[i], ITEM("\"status\":200,\"result\":\"updated\","
                                               "\"_seq_no\":5,\"_primary_term\":1")),
                     MT_LOCK_ACKED);
    for (size_t k = 0; k < sizeof less / sizeof *less; k++)
      assert_int_equal(result_of(grants[i], less[k]), MT_LOCK_NO_ANSWER);
  }
}

static void test_a_release_is_an_answer(void **state) {
  (void)state;
  assert_int_equal(result_of(MT_LOCK_RELEASE, ITEM("\"status\":200")), MT_LOCK_NO_ANSWER);
  assert_int_equal(result_of(MT_LOCK_RELEASE, ITEM("\"status\":200,\"result\":\"noop\"")),
                   MT_LOCK_ABSENT);
  assert_int_equal(result_of(MT_LOCK_RELEASE, ITEM("\"status\":200,\"result\":\"deleted\"")),
                   MT_LOCK_NO_ANSWER);
  assert_int_equal(result_of(MT_LOCK_RELEASE, ITEM("\"status\":200,\"result\":\"deleted\","
                                                   "\"_seq_no\":5,\"_primary_term\":1")),
                   MT_LOCK_ACKED);
  assert_int_equal(result_of(MT_LOCK_CREATE, ITEM("\"status\":200,\"result\":\"noop\"")),
                   MT_LOCK_NO_ANSWER);
}

#define GRANT "\"status\":200,\"result\":\"updated\","

#define WHOLE                                                                                      \
  "{\"items\":[{\"update\":{\"_id\":\"default:/a\"," GRANT "\"_seq_no\":5,\"_primary_term\":1}}]"

/* An answer that is cut off after the items, or goes on after its end, is refused. */
static void test_an_answer_has_an_end(void **state) {
  (void)state;
  static const char *const good[] = {WHOLE "}", WHOLE " }\n",
                                     WHOLE ",\"took\":3,\"errors\":false}"};
  static const char *const bad[] = {
      WHOLE, WHOLE ",", WHOLE "}}", WHOLE "}x", WHOLE "},{\"items\":[]}", WHOLE ",\"took\"}"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    assert_int_equal(result_of(MT_LOCK_SET, good[i]), MT_LOCK_ACKED);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(result_of(MT_LOCK_SET, bad[i]), MT_LOCK_NO_ANSWER);
}

/* Each item must be about its own document: the id is compared, however it is written. */
static void test_an_item_is_of_its_document(void **state) {
  (void)state;
  static const char *const others[] = {
      ANY(GRANT "\"_seq_no\":5,\"_primary_term\":1"),
      ANY("\"_id\":\"default:/b\"," GRANT "\"_seq_no\":5,\"_primary_term\":1"),
      ANY("\"_id\":\"default:/\"," GRANT "\"_seq_no\":5,\"_primary_term\":1"),
      ANY("\"_id\":\"default:/aa\"," GRANT "\"_seq_no\":5,\"_primary_term\":1"),
      ANY("\"_id\":\"other:/a\"," GRANT "\"_seq_no\":5,\"_primary_term\":1"),
      ANY("\"_id\":7," GRANT "\"_seq_no\":5,\"_primary_term\":1"),
      ANY("\"_id\":null," GRANT "\"_seq_no\":5,\"_primary_term\":1"),
      ANY("\"_id\":\"default:\\u00\"," GRANT "\"_seq_no\":5,\"_primary_term\":1")};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_int_equal(result_of(MT_LOCK_SET, others[i]), MT_LOCK_NO_ANSWER);
  assert_int_equal(result_of(MT_LOCK_SET, ANY("\"_id\":\"default:\\u002fa\"," GRANT
                                              "\"_seq_no\":5,\"_primary_term\":1")),
                   MT_LOCK_ACKED);
}

/* A version that does not fit into a fence, or is not a version at all, is no grant. */
static void test_a_version_has_its_range(void **state) {
  (void)state;
  static const char *const odd[] = {
      ITEM(GRANT "\"_seq_no\":-2,\"_primary_term\":1"),
      ITEM(GRANT "\"_seq_no\":1099511627776,\"_primary_term\":1"),
      ITEM(GRANT "\"_seq_no\":5,\"_primary_term\":8388608"),
      ITEM(GRANT "\"_seq_no\":5,\"_primary_term\":18446744073709551615")};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    assert_int_equal(result_of(MT_LOCK_SET, odd[i]), MT_LOCK_NO_ANSWER);
  assert_int_equal(result_of(MT_LOCK_SET, ITEM(GRANT "\"_seq_no\":1099511627775,"
                                                     "\"_primary_term\":8388607")),
                   MT_LOCK_ACKED);
}

/* ---- documents ---- */

#define HIT "\"_index\":\"x\",\"_id\":\"1\",\"found\":true"
#define VERSION "\"_seq_no\":5,\"_primary_term\":1"
#define SOURCE "\"_source\":{\"a\":1}"

static mortise_status read_hit(const char *text, bool no_source, mt_version *version,
                               mortise_error *err) {
  mt_page *page = mt_calloc(1, sizeof *page);
  size_t cap = 0;
  mt_json hit;
  assert_non_null(page);
  mt_buf_init(&page->bytes, 4096);
  mt_buf_adds(&page->bytes, text);
  mt_buf_init(&page->text, 4096);
  assert_int_equal(mt_json_parse(mt_buf_slice(&page->bytes), "the hit", &hit, err), MORTISE_OK);
  mortise_status status = mt_page_add(page, &cap, hit, no_source, err);
  if (!status) *version = page->docs[0].version;
  mt_page_free(page);
  return status;
}

/* A member of the wrong type makes the whole answer invalid. */
static void test_a_document_is_of_its_kind(void **state) {
  (void)state;
  static const char *const odd[] = {"{" HIT "," VERSION ",\"_source\":[1,\"[,\"]}",
                                    "{" HIT "," VERSION ",\"_source\":\"{\"}",
                                    "{" HIT "," VERSION ",\"_source\":null}",
                                    "{" HIT "," VERSION ",\"_source\":7}",
                                    "{\"_index\":\"x\"," VERSION "," SOURCE "}",
                                    "{\"_index\":\"x\",\"_id\":\"\"," VERSION "," SOURCE "}",
                                    "{\"_index\":\"x\",\"_id\":1," VERSION "," SOURCE "}",
                                    "{\"_index\":{},\"_id\":\"1\"," VERSION "," SOURCE "}",
                                    "{" HIT ",\"_routing\":[]," VERSION "," SOURCE "}",
                                    "{" HIT ",\"_seq_no\":\"5\",\"_primary_term\":1," SOURCE "}",
                                    "{\"_id\":\"1\",\"found\":1}",
                                    "[]",
                                    "null"};
  mt_version v;
  mortise_error err;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    assert_int_equal(read_hit(odd[i], false, &v, &err), MORTISE_UNAVAILABLE);
  assert_int_equal(read_hit("{" HIT "," VERSION "," SOURCE "}", false, &v, &err), MORTISE_OK);
  assert_true(v.seq_no == 5 && v.term == 1);
}

static void test_a_document_without_source(void **state) {
  (void)state;
  mt_version v;
  mortise_error err;
  assert_int_equal(read_hit("{" HIT "," VERSION "}", false, &v, &err), MORTISE_UNSUPPORTED);
  assert_non_null(strstr(err.message, "document 1 of x"));
  assert_int_equal(read_hit("{" HIT "," VERSION "}", true, &v, &err), MORTISE_OK);
  assert_int_equal(read_hit("{\"_index\":\"x\",\"_id\":\"1\",\"found\":false}", false, &v, &err),
                   MORTISE_OK);
}

/* An invalid version counts as none: a write then compares with nothing. */
static void test_a_document_without_version(void **state) {
  (void)state;
  static const char *const odd[] = {"{" HIT "," SOURCE "}",
                                    "{" HIT ",\"_seq_no\":-2,\"_primary_term\":0," SOURCE "}",
                                    "{" HIT ",\"_seq_no\":-2,\"_primary_term\":1," SOURCE "}",
                                    "{" HIT ",\"_seq_no\":1099511627776,\"_primary_term\":1," SOURCE
                                    "}",
                                    "{" HIT ",\"_seq_no\":1.5,\"_primary_term\":1," SOURCE "}",
                                    "{" HIT ",\"_seq_no\":5,\"_primary_term\":8388608," SOURCE "}"};
  mt_version v;
  mortise_error err;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    assert_int_equal(read_hit(odd[i], false, &v, &err), MORTISE_OK);
    assert_true(v.seq_no == 0 && v.term == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_grant_is_a_write),
      cmocka_unit_test(test_a_release_is_an_answer),
      cmocka_unit_test(test_an_answer_has_an_end),
      cmocka_unit_test(test_an_item_is_of_its_document),
      cmocka_unit_test(test_a_version_has_its_range),
      cmocka_unit_test(test_a_document_is_of_its_kind),
      cmocka_unit_test(test_a_document_without_source),
      cmocka_unit_test(test_a_document_without_version),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
