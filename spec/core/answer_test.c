/* What the answer to a batch of lock operations must say before it is believed. */
#include "elastic/answer.h"
#include "elastic/internal.h"

#include "support/support.h"

static const char session[] = "0123456789abcdef0123456789abcdef";

static mt_lock_result result_of(mt_lock_verb verb, const char *answer) {
  mt_elastic e = {.store = {.url = "http://h:9200"}, .table = "mortise-locks"};
  mt_lock_item item = {.verb = verb, .path = MT_SLICE("/a"), .mode = MT_X, .session = session};
  mt_lock_batch r = {.ns = "default", .session = session, .items = &item, .n = 1};
  mt_table_read_batch(&e, &r, mt_slice_of(answer));
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
                   MT_LOCK_ACKED);
}

#define GRANT "\"status\":200,\"result\":\"updated\","

/* Each item's own document: by its id, however that is written. */
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

/* What has no room in a fence, or is no version at all, is no grant. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_grant_is_a_write),
      cmocka_unit_test(test_a_release_is_an_answer),
      cmocka_unit_test(test_an_item_is_of_its_document),
      cmocka_unit_test(test_a_version_has_its_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
