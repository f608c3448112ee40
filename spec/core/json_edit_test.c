#include "base/json_edit.h"

#include "property.h"

#include <jansson.h>

static mt_json parsed(mt_slice text) {
  mt_json root;
  assert_int_equal(mt_json_parse(text, "it", &root, NULL), MORTISE_OK);
  return root;
}

static mt_json_edit edit(const char *name, const char *value) {
  return (mt_json_edit){mt_slice_of(name), value ? mt_slice_of(value) : (mt_slice){NULL, 0}};
}

static void outcome_is(const char *text, const mt_json_edit *edits, size_t n, const char *want) {
  mt_buf out;
  mortise_error err;
  mt_buf_init(&out, 10000);
  mt_buf_adds(&out, "kept");
  if (mt_json_apply(parsed(mt_slice_of(text)), edits, n, &out, &err)) fail_msg("%s", err.message);
  parsed((mt_slice){out.p + 4, out.n - 4});
  assert_string_equal(out.p + 4, want);
  out.p[4] = '\0';
  assert_string_equal(out.p, "kept");
  mt_buf_deinit(&out);
}

static void sets(const char *text, const char *name, const char *value, const char *want) {
  mt_json_edit e = edit(name, value);
  outcome_is(text, &e, 1, want);
}

static void removes(const char *text, const char *name, const char *want) {
  sets(text, name, NULL, want);
}

static void refuses(const char *text, const mt_json_edit *edits, size_t n, const char *why) {
  mt_buf out;
  mortise_error err;
  mt_buf_init(&out, 10000);
  assert_int_equal(mt_json_apply(parsed(mt_slice_of(text)), edits, n, &out, &err),
                   MORTISE_INVALID_ARGUMENT);
  if (!strstr(err.message, why)) fail_msg("\"%s\" does not say \"%s\"", err.message, why);
  assert_int_equal(out.n, 0);
  mt_buf_deinit(&out);
}

/* ---- finding ---- */

static void a_literal_name_comes_before_a_path(void **state) {
  (void)state;
  mt_json root = parsed(
      MT_SLICE("{\"a\":{\"b\":1,\"c.d\":2},\"a.b\":3,\"x.y\":{\"z\":4},\"x\":{\"q\":5},\"\":6,"
               "\"n\":[{\"b\":7}]}"));
  static const char *const rows[][2] = {{"a.b", "3"}, {"a.c.d", "2"}, {"x.y.z", "4"},
                                        {"x.q", "5"}, {"", "6"},      {"a", "{\"b\":1,\"c.d\":2}"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_true(
        mt_slice_eq(mt_json_find(root, mt_slice_of(rows[i][0])).raw, mt_slice_of(rows[i][1])));
  static const char *const absent[] = {"b", "a.b.c", "a.", ".a", "n.b", "x.y.z.w", "."};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
    assert_int_equal(mt_json_find(root, mt_slice_of(absent[i])).type, MT_JSON_NONE);
}

/* ---- one edit ---- */

#define STRANGE                                                                                    \
  "{ \"big\" : 1234567890123456789,\"e\":[ ], \"o\":{ } "                                          \
  ",\"n\":null,\n\t\"f\":1.50e+3,\"s\":\"\\u00e9\\/\xFF\""

static void untouched_bytes_pass_through(void **state) {
  (void)state;
  sets(STRANGE ",\"x\":1 }\n", "x", " [2] ", STRANGE ",\"x\":[2] }");
  sets(STRANGE " }", "new", "true", STRANGE ",\"new\":true }");
  removes(STRANGE ",\"x\":1 }", "x", STRANGE " }");
  outcome_is(STRANGE "}", NULL, 0, STRANGE "}");
}

static void removing_takes_one_comma(void **state) {
  (void)state;
  removes("{\"a\":1,\"b\":2,\"c\":3}", "a", "{\"b\":2,\"c\":3}");
  removes("{\"a\":1,\"b\":2,\"c\":3}", "b", "{\"a\":1,\"c\":3}");
  removes("{\"a\":1,\"b\":2,\"c\":3}", "c", "{\"a\":1,\"b\":2}");
  removes("{\"a\":1}", "a", "{}");
  removes("{ \"a\" : 1 , \"b\" : 2 }", "a", "{ \"b\" : 2 }");
  removes("{ \"a\" : 1 , \"b\" : 2 }", "b", "{ \"a\" : 1 }");
  removes("{\"a\":1}", "b", "{\"a\":1}");
  removes("{\"a\":{\"b\":1}}", "a.b", "{\"a\":{}}");
  removes("{\"a\":{\"b\":1,\"c\":[]}}", "a.b", "{\"a\":{\"c\":[]}}");
  removes("{\"a\":1,\"a\":2,\"b\":3,\"a\":4}", "a", "{\"b\":3}"); /* or the next one would show */
  removes("{\"b\":3,\"a\":1,\"a\":2,\"c\":5,\"a\":4}", "a", "{\"b\":3,\"c\":5}");
  removes("{\"\\u0061\":1,\"b\":2}", "a", "{\"b\":2}");
}

static void a_new_field_goes_at_the_end(void **state) {
  (void)state;
  sets("{}", "a", "1", "{\"a\":1}");
  sets("{ }", "a", "1", "{\"a\":1 }");
  sets("{\"b\":2}", "a", "1", "{\"b\":2,\"a\":1}");
  sets("{\"b\":2}", "x.y.z", "1", "{\"b\":2,\"x\":{\"y\":{\"z\":1}}}");
  sets("{\"x\":{\"q\":0},\"b\":2}", "x.y.z", "1", "{\"x\":{\"q\":0,\"y\":{\"z\":1}},\"b\":2}");
  sets("{\"x.y\":{}}", "x.y.z", "1", "{\"x.y\":{\"z\":1}}");
  sets("{}", "a\"b\n", "1", "{\"a\\\"b\\n\":1}");
  sets("{}", "\xFF", "1", "{\"\xFF\":1}");
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  static const char *const blocked[] = {"{\"a\":1}", "{\"a\":null}", "{\"a\":[{\"b\":1}]}",
                                        "{\"a\":\"b\"}"};
  for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++) {
    mt_json_edit set = edit("a.b", "1"), drop = edit("a.b", NULL);
    refuses(blocked[i], &set, 1, "\"a\" is no object");
    refuses(blocked[i], &drop, 1, "\"a\" is no object");
  }
  static const char *const empty[] = {"", ".", "a.", ".a", "a..b"};
  for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
    mt_json_edit e = edit(empty[i], "1");
    refuses("{}", &e, 1, "empty part");
  }
  static const char *const wrong[] = {"", "x", "1 2", "{\"a\":}", "1}"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    mt_json_edit e = edit("a", wrong[i]);
    refuses("{}", &e, 1, "is not JSON");
  }
  mt_json_edit e = edit("a", "1");
  refuses("[]", &e, 1, "only an object");
}

/* ---- several ---- */

static void edits_are_made_in_order(void **state) {
  (void)state;
  const mt_json_edit edits[] = {edit("a", "1"),   edit("b", NULL), edit("x.y", "2"),
                                edit("x.z", "3"), edit("a", "[]"), edit("c", "{}")};
  outcome_is("{\"b\":0,\"c\":9}", edits, 6, "{\"c\":{},\"x\":{\"y\":2,\"z\":3},\"a\":[]}");
  const mt_json_edit undone[] = {edit("a", "1"), edit("a", NULL)};
  outcome_is("{\"b\":0}", undone, 2, "{\"b\":0}");
  const mt_json_edit all[] = {edit("a", NULL), edit("c", NULL), edit("b", NULL)};
  outcome_is("{\"a\":1,\"b\":2,\"c\":3}", all, 3, "{}");
}

static void a_field_and_one_inside_it_are_refused(void **state) {
  (void)state;
  const mt_json_edit one[] = {edit("a", "{}"), edit("a.b", "1")};
  const mt_json_edit other[] = {edit("a.b.c", "1"), edit("a.b", NULL)};
  refuses("{}", one, 2, "a field inside it");
  refuses("{\"a\":{\"b\":1}}", one, 2, "a field inside it");
  refuses("{\"a\":{\"b\":{}}}", other, 2, "a field inside it");
  /* Apart as they stand, whatever their names look like. */
  outcome_is("{\"a\":0,\"a.b\":0}", one, 2, "{\"a\":{},\"a.b\":1}");
  const mt_json_edit near[] = {edit("a", "1"), edit("ab", "2"), edit("a-b", "3")};
  outcome_is("{}", near, 3, "{\"a\":1,\"ab\":2,\"a-b\":3}");
}

/* ---- merging ---- */

static void merges(const char *text, const char *change, const char *want, bool want_changed) {
  mt_buf out;
  bool changed = !want_changed;
  mt_buf_init(&out, 10000);
  assert_int_equal(
      mt_json_merge(parsed(mt_slice_of(text)), parsed(mt_slice_of(change)), &out, &changed, NULL),
      MORTISE_OK);
  assert_string_equal(out.p, want);
  assert_int_equal(changed, want_changed);
  mt_buf_deinit(&out);
}

static void merging_is_the_servers_partial_update(void **state) {
  (void)state;
  merges("{\"a\":1,\"b\":2}", "{\"b\":3}", "{\"a\":1,\"b\":3}", true);
  merges("{\"a\":1}", "{\"a\":null}", "{\"a\":null}", true);
  merges("{\"a\":[1,2]}", "{\"a\":[2]}", "{\"a\":[2]}", true);
  merges("{\"a\":{\"x\":1,\"y\":2}}", "{\"a\":{\"y\":3,\"z\":4}}",
         "{\"a\":{\"x\":1,\"y\":3,\"z\":4}}", true);
  merges("{\"a\":{\"x\":1}}", "{\"a\":5}", "{\"a\":5}", true);
  merges("{\"a\":5}", "{\"a\":{\"x\":1}}", "{\"a\":{\"x\":1}}", true);
  merges("{\"a\":null}", "{\"a\":{}}", "{\"a\":{}}", true);
  merges("{}", "{\"a\":{\"b\":null},\"c\":[]}", "{\"a\":{\"b\":null},\"c\":[]}", true);
  merges("{ }", "{\"a\":1}", "{\"a\":1 }", true);
  merges("{\"a.b\":1}", "{\"a\":{\"b\":2}}", "{\"a.b\":1,\"a\":{\"b\":2}}",
         true); /* no dots here */
  merges("{\"a\":1}", "{\"b\":1,\"b\":2}", "{\"a\":1,\"b\":1}", true);
}

static void what_stays_the_same_keeps_its_bytes(void **state) {
  (void)state;
  merges("{ \"a\" : [ 1, {\"b\" :\"x y\"} ] }", "{\"a\":[1,{\"b\":\"x y\"}]}",
         "{ \"a\" : [ 1, {\"b\" :\"x y\"} ] }", false);
  merges("{\"a\":\"\\u0041\"}", "{\"a\":\"A\"}", "{\"a\":\"\\u0041\"}", false);
  merges("{\"\\u0061\":1}", "{\"a\":1}", "{\"\\u0061\":1}", false);
  merges("{\"a\":1}", "{\"\\u0061\":2}", "{\"a\":2}", true);
  merges("{\"a\":{\"b\":1}}", "{\"a\":{}}", "{\"a\":{\"b\":1}}", false);
  merges("{\"a\":1}", "{}", "{\"a\":1}", false);
  merges("{\"a\":[\"x y\"]}", "{\"a\":[\"xy\"]}", "{\"a\":[\"xy\"]}", true);
  merges("{\"a\":[\"\\\\\",\"b\"]}", "{\"a\":[ \"\\\\\" ,\"b\"]}", "{\"a\":[\"\\\\\",\"b\"]}",
         false);
  merges("{\"a\":1234567890123456789}", "{\"a\":1234567890123456788}",
         "{\"a\":1234567890123456788}", true);
  merges("{\"a\":1}", "{\"a\":1.0}", "{\"a\":1.0}", true);
}

/* ---- random documents, jansson as the oracle ---- */

static json_t *tree_of(mt_slice text) {
  json_error_t err;
  json_t *tree = json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &err);
  if (!tree) fail_msg("%s: %.*s", err.text, (int)text.n, text.p);
  return tree;
}

static void edit_tree(json_t *tree, const mt_json_edit *e, const char *parent, const char *name) {
  json_t *object = parent ? json_object_get(tree, parent) : tree;
  if (!e->value.p) {
    json_object_del(object, name);
    return;
  }
  if (!object) json_object_set_new(tree, parent, object = json_object());
  json_object_set_new(object, name, tree_of(e->value));
}

/* Every member that no edit names must have kept its very bytes. */
static void others_kept_their_bytes(mt_json before, mt_json after, const char *const *named,
                                    size_t n) {
  for (mt_json_iter it = mt_json_items(before); mt_json_next(&it);) {
    bool edited = false;
    for (size_t i = 0; i < n; i++) edited = edited || mt_json_key_is(it.key, mt_slice_of(named[i]));
    bool kept = false;
    for (mt_json_iter now = mt_json_items(after); !kept && mt_json_next(&now);)
      kept = mt_slice_eq(now.key, it.key) && mt_slice_eq(now.value.raw, it.value.raw);
    assert_true(edited || kept);
  }
}

static void random_edits_are_those_of_a_tree(void **state) {
  (void)state;
  static const char *const names[][3] = {/* as edited, parent, member */
                                         {"a", NULL, "a"},  {"b", NULL, "b"},
                                         {"e", NULL, "e"},  {"new", NULL, "new"},
                                         {"o.x", "o", "x"}, {"o.y", "o", "y"}};
  enum { NAMES = sizeof names / sizeof names[0] };
  rng r = {property_seed()};
  mt_buf text, out, values[4];
  mt_buf_init(&text, 1 << 20);
  mt_buf_init(&out, 1 << 20);
  for (size_t i = 0; i < 4; i++) mt_buf_init(&values[i], 1 << 20);
  for (size_t round = 0; round < property_rounds(5000); round++) {
    mt_buf_clear(&text);
    mt_buf_clear(&out);
    random_object(&r, &text, 3);
    mt_json before = parsed(mt_buf_slice(&text));
    json_t *tree = tree_of(before.raw);
    mt_json_edit edits[4];
    const char *touched[4];
    size_t n = rng_below(&r, 5);
    for (size_t i = 0; i < n; i++) {
      size_t k = rng_below(&r, NAMES);
      mt_buf_clear(&values[i]);
      random_json(&r, &values[i], 2, true);
      edits[i] =
          (mt_json_edit){mt_slice_of(names[k][0]),
                         rng_chance(&r, 40) ? (mt_slice){NULL, 0} : mt_buf_slice(&values[i])};
      touched[i] = names[k][1] ? names[k][1] : names[k][2];
      edit_tree(tree, &edits[i], names[k][1], names[k][2]);
    }
    assert_int_equal(mt_json_apply(before, edits, n, &out, NULL), MORTISE_OK);
    mt_json after = parsed(mt_buf_slice(&out));
    json_t *got = tree_of(after.raw);
    /* A parent made for an edit that a later one undid is no difference. */
    if (json_object_size(json_object_get(tree, "o")) == 0) json_object_del(tree, "o");
    if (json_object_size(json_object_get(got, "o")) == 0) json_object_del(got, "o");
    if (!json_equal(tree, got)) fail_msg("round %zu: %s became %s", round, text.p, out.p);
    others_kept_their_bytes(before, after, touched, n);
    json_decref(tree);
    json_decref(got);
  }
  for (size_t i = 0; i < 4; i++) mt_buf_deinit(&values[i]);
  mt_buf_deinit(&text);
  mt_buf_deinit(&out);
}

static void random_merges_are_those_of_a_tree(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_buf text, change, out;
  mt_buf_init(&text, 1 << 20);
  mt_buf_init(&change, 1 << 20);
  mt_buf_init(&out, 1 << 20);
  size_t unchanged = 0;
  for (size_t round = 0; round < property_rounds(5000); round++) {
    mt_buf_clear(&text);
    mt_buf_clear(&change);
    mt_buf_clear(&out);
    random_object(&r, &text, 3);
    if (rng_chance(&r, 20))
      mt_buf_addslice(&change, mt_buf_slice(&text));
    else
      random_object(&r, &change, 3);
    json_t *tree = tree_of(mt_buf_slice(&text)), *patch = tree_of(mt_buf_slice(&change));
    json_t *before = json_deep_copy(tree);
    bool changed;
    assert_int_equal(mt_json_merge(parsed(mt_buf_slice(&text)), parsed(mt_buf_slice(&change)), &out,
                                   &changed, NULL),
                     MORTISE_OK);
    json_object_update_recursive(tree, patch);
    json_t *got = tree_of(mt_buf_slice(&out));
    if (!json_equal(tree, got)) fail_msg("round %zu: %s + %s = %s", round, text.p, change.p, out.p);
    /* "No change" is never wrong, and then no byte differs. */
    if (!changed)
      assert_true(json_equal(before, got) && mt_slice_eq(mt_buf_slice(&out), mt_buf_slice(&text)));
    unchanged += !changed;
    json_decref(tree);
    json_decref(patch);
    json_decref(before);
    json_decref(got);
  }
  assert_true(unchanged > property_rounds(5000) / 6);
  mt_buf_deinit(&text);
  mt_buf_deinit(&change);
  mt_buf_deinit(&out);
}

/* ---- memory and caps ---- */

static mortise_status try_apply(void *ctx) {
  const mt_json_edit edits[] = {edit("a", "[1,2,3]"), edit("x.y", "2"), edit("b", NULL),
                                edit("z", "\"long enough to grow\"")};
  mt_buf out;
  (void)ctx;
  mt_buf_init(&out, 1000);
  mt_json root = {
      MT_JSON_OBJECT,
      MT_SLICE("{\"a\":1,\"b\":[\"some more bytes than a first allocation has room for\"]}")};
  mortise_status status = mt_json_apply(root, edits, 4, &out, NULL);
  mt_buf_deinit(&out);
  return status;
}

static mortise_status try_merge(void *ctx) {
  mt_buf out;
  bool changed;
  (void)ctx;
  mt_buf_init(&out, 1000);
  mt_json root = {
      MT_JSON_OBJECT,
      MT_SLICE("{\"\\u0061\":{\"b\\n\":1},\"c\":\"some more bytes than fit at first\"}")};
  mt_json change = {
      MT_JSON_OBJECT,
      MT_SLICE("{\"a\":{\"\\u0062\\n\":2,\"x\":[1,2,3,4,5,6,7,8]},\"d\":{},\"e\":1,\"f\":1,"
               "\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1}")};
  mortise_status status = mt_json_merge(root, change, &out, &changed, NULL);
  mt_buf_deinit(&out);
  return status;
}

static void each_failed_allocation_is_told(void **state) {
  (void)state;
  assert_true(each_allocation_told(try_apply, NULL));
  assert_true(each_allocation_told(try_merge, NULL));
}

static void the_cap_of_the_outcome_holds(void **state) {
  (void)state;
  mt_json root = parsed(MT_SLICE("{\"a\":1}"));
  mt_json_edit e = edit("b", "22");
  for (size_t max = 0; max < 20; max++) {
    mt_buf out;
    bool changed;
    mt_buf_init(&out, max);
    assert_int_equal(mt_json_apply(root, &e, 1, &out, NULL),
                     max < 14 ? MORTISE_REJECTED : MORTISE_OK);
    mt_buf_clear(&out);
    assert_int_equal(mt_json_merge(root, parsed(MT_SLICE("{\"b\":22}")), &out, &changed, NULL),
                     max < 14 ? MORTISE_REJECTED : MORTISE_OK);
    mt_buf_deinit(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_literal_name_comes_before_a_path),
      cmocka_unit_test(untouched_bytes_pass_through),
      cmocka_unit_test(removing_takes_one_comma),
      cmocka_unit_test(a_new_field_goes_at_the_end),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(edits_are_made_in_order),
      cmocka_unit_test(a_field_and_one_inside_it_are_refused),
      cmocka_unit_test(merging_is_the_servers_partial_update),
      cmocka_unit_test(what_stays_the_same_keeps_its_bytes),
      cmocka_unit_test(random_edits_are_those_of_a_tree),
      cmocka_unit_test(random_merges_are_those_of_a_tree),
      cmocka_unit_test(each_failed_allocation_is_told),
      cmocka_unit_test(the_cap_of_the_outcome_holds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
