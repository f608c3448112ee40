/* The transform that a job makes of its list. */
#include "job/transform.h"

#include "property.h"

/* Applied once: what is as the list makes it is left as it is. */
static void test_once(void **state) {
  static const struct {
    const char *list, *source, *made; /* NULL: it is as it was */
    mt_transformed how;
  } rows[] = {
      {"[{\"cast\":{\"field\":\"n\",\"to\":\"integer\"}}]", "{\"n\":\"1\"}", "{\"n\":1}",
       MT_CHANGED},
      {"[{\"cast\":{\"field\":\"n\",\"to\":\"integer\"}}]", "{\"n\":1}", NULL, MT_UNCHANGED},
      {"[{\"cast\":{\"field\":\"n\",\"to\":\"integer\"}}]", "{\"n\":\"x\"}", NULL, MT_ASIDE},
      {"[{\"set\":{\"field\":\"n\",\"value\":1}},{\"set\":{\"field\":\"n\",\"value\":2}}]",
       "{\"n\":3}", "{\"n\":2}", MT_CHANGED},
      {"[{\"set\":{\"field\":\"n\",\"value\":1}},{\"set\":{\"field\":\"n\",\"value\":2}}]",
       "{\"n\":2}", NULL, MT_UNCHANGED},
      {"[{\"rename_field\":{\"from\":\"n\",\"to\":\"m\"}},{\"default\":{\"field\":\"n\",\"value\":"
       "1}}]",
       "{\"n\":2}", NULL, MT_ASIDE},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mt_transforms list;
    mortise_error err;
    mt_buf out;
    mt_buf_init(&out, 1 << 20);
    mt_buf_adds(&out, "before");
    assert_int_equal(mt_transforms_parse(&list, mt_slice_of(rows[i].list), &err), MORTISE_OK);
    mt_transform t = mt_transform_once(&list);
    const mt_doc doc = {.source = mt_slice_of(rows[i].source), .found = true};
    assert_true(t.decides);
    assert_int_equal(t.apply(t.ctx, &doc, &out, &err), rows[i].how);
    mt_buf_addc(&out, '\0');
    assert_int_equal(strncmp(out.p, "before", 6), 0);
    assert_string_equal(out.p + 6, rows[i].made ? rows[i].made : "");
    mt_buf_deinit(&out);
    mt_transforms_deinit(&list);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
