/* The declared change of a path prefix: what it touches, and that it touches nothing else. */
#include "job/transform.h"

#include "base/json_edit.h"
#include "property.h"

typedef struct row {
  const char *field, *from, *to, *source, *want; /* want NULL: unchanged; "!": set aside */
} row;

static const row rows[] = {
    {"path", "/clinton", "/projects/clinton", "{\"path\":\"/clinton/a\"}",
     "{\"path\":\"/projects/clinton/a\"}"},
    {"path", "/clinton", "/x", "{\"path\":\"/clinton\"}", "{\"path\":\"/x\"}"},
    {"path", "/clinton/", "/x/", "{\"path\":\"/clinton/\"}", "{\"path\":\"/x/\"}"},
    {"path", "/clinton", "/x", "{\"path\":\"/clintonville\"}", NULL},
    {"path", "/clinton", "/x", "{\"path\":\"/clinto\"}", NULL},
    {"path", "/clinton", "/x", "{\"path\":\"/CLINTON/a\"}", NULL},
    {"path", "/clinton", "/x", "{\"path\":\"x/clinton/a\"}", NULL},
    {"path", "/clinton", "/x", "{\"path\":null}", NULL},
    {"path", "/clinton", "/x", "{\"path\":17}", NULL},
    {"path", "/clinton", "/x", "{\"path\":\"\"}", NULL},
    {"path", "/clinton", "/x", "{}", NULL},
    {"path", "/clinton", "/x", "{\"other\":\"/clinton/a\",\"x\":{\"path\":\"/clinton/a\"}}", NULL},
    {"path", "/clinton", "/x", "{\"path\":{\"path\":\"/clinton/a\"}}", NULL},
    /* Escapes mean what they stand for; those of the rest stay as they were. */
    {"path", "/clinton", "/x", "{\"path\":\"\\/clinton\\/a\\u0041\\/\"}",
     "{\"path\":\"/x\\/a\\u0041\\/\"}"},
    {"path", "/clinton", "/x", "{\"path\":\"/\\u0063lint\\u006Fn/a\"}", "{\"path\":\"/x/a\"}"},
    {"path", "/clinton", "/x", "{\"path\":\"/clinton\\u002fa\"}", "{\"path\":\"/x\\u002fa\"}"},
    {"path", "/clinton", "/x", "{\"path\":\"/clinton\\u002ea\"}", NULL},
    {"path", "/clinton", "/x", "{\"path\":\"/clinton\\na\"}", NULL},
    {"path", "/clinton", "/x", "{\"pa\\u0074h\":\"/clinton/a\"}", "{\"pa\\u0074h\":\"/x/a\"}"},
    {"path", "/a\"b\\c", "/d\"e\\", "{\"path\":\"/a\\\"b\\\\c/\\\"\"}",
     "{\"path\":\"/d\\\"e\\\\/\\\"\"}"},
    {"path", "/a\nb", "/c", "{\"path\":\"/a\\nb/x\"}", "{\"path\":\"/c/x\"}"},
    {"path", "/a\\nb", "/c", "{\"path\":\"/a\\nb/x\"}", NULL},
    {"path", "/\xc3\xa9", "/e", "{\"path\":\"/\\u00e9/x\"}", "{\"path\":\"/e/x\"}"},
    {"path", "/\xf0\x9f\x98\x80", "/e", "{\"path\":\"/\\ud83d\\uDE00/x\"}", "{\"path\":\"/e/x\"}"},
    {"path", "/\xf0\x9f\x98\x80", "/e", "{\"path\":\"/\xf0\x9f\x98\x80/x\"}",
     "{\"path\":\"/e/x\"}"},
    {"path", "/\xc3\xa9", "/e", "{\"path\":\"/\\ud83d\"}", NULL},
    {"path", "/clinton", "/x", "{\"path\":\"/clinton/\\ud83d\\u0041\xff\"}",
     "{\"path\":\"/x/\\ud83d\\u0041\xff\"}"},
    /* Arrays, dots, several places. */
    {"path", "/a", "/b", "{\"path\":[\"/a\",\"/ab\",\"/a/c\",null,[\"/a/d\"],7]}",
     "{\"path\":[\"/b\",\"/ab\",\"/b/c\",null,[\"/b/d\"],7]}"},
    {"f.path", "/a", "/b", "{\"f\":{\"path\":\"/a/x\"}}", "{\"f\":{\"path\":\"/b/x\"}}"},
    {"f.path", "/a", "/b", "{\"f.path\":\"/a/x\"}", "{\"f.path\":\"/b/x\"}"},
    {"f.g.path", "/a", "/b", "{\"f.g\":{\"path\":\"/a/x\"}}", "{\"f.g\":{\"path\":\"/b/x\"}}"},
    {"f.g.path", "/a", "/b", "{\"f\":{\"g.path\":\"/a/x\"}}", "{\"f\":{\"g.path\":\"/b/x\"}}"},
    {"f.path", "/a", "/b", "{\"f\":[{\"path\":\"/a/x\"},{\"path\":\"/q\"},{\"path\":\"/a\"}]}",
     "{\"f\":[{\"path\":\"/b/x\"},{\"path\":\"/q\"},{\"path\":\"/b\"}]}"},
    {"f.path", "/a", "/b", "{\"f.path\":\"/a\",\"f\":{\"path\":\"/a\"},\"path\":\"/a\"}",
     "{\"f.path\":\"/b\",\"f\":{\"path\":\"/b\"},\"path\":\"/a\"}"},
    {"f.path", "/a", "/b", "{\"f\":\"/a\"}", NULL},
    /* Every other byte stays. */
    {"path", "/a", "/b",
     "{ \"z\" : 1234567890123456789 ,\"e\":[ ],\"o\":{ },\"n\":null, \"path\" : "
     "\"/a/\\u00e9\" ,\"f\":1.50e+3,\"d\":1,\"d\":2, \"a\":\"\\/\" }",
     "{ \"z\" : 1234567890123456789 ,\"e\":[ ],\"o\":{ },\"n\":null, \"path\" : "
     "\"/b/\\u00e9\" ,\"f\":1.50e+3,\"d\":1,\"d\":2, \"a\":\"\\/\" }"},
    /* Up, and to the root. */
    {"path", "/a/b", "/a", "{\"path\":\"/a/b/c\"}", "{\"path\":\"/a/c\"}"},
    {"path", "/a/b", "/a", "{\"path\":\"/a/b\"}", "{\"path\":\"/a\"}"},
    {"path", "/a/b", "/a", "{\"path\":\"/a/b/b\"}", "!"},
    {"path", "/a/b", "/a", "{\"path\":\"/a/b/b/c\"}", "!"},
    {"path", "/a/b", "/a", "{\"path\":\"/a/b/bc\"}", "{\"path\":\"/a/bc\"}"},
    {"path", "/a", "/", "{\"path\":\"/a/b\"}", "{\"path\":\"/b\"}"},
    {"path", "/a", "/", "{\"path\":\"/a\"}", "{\"path\":\"/\"}"},
    {"path", "/a", "/", "{\"path\":\"/a/a/b\"}", "!"},
    {"path", "/a", "/", "[1]", "!"},
};

static mt_transformed apply(const row *r, mt_buf *out) {
  mt_replace_prefix rule;
  mortise_error err;
  mt_doc doc = {.source = mt_slice_of(r->source), .found = true};
  assert_int_equal(mt_replace_prefix_init(&rule, mt_slice_of(r->field), mt_slice_of(r->from),
                                          mt_slice_of(r->to), &err),
                   MORTISE_OK);
  mt_transform t = mt_replace_prefix_transform(&rule);
  assert_true(t.decides);
  mt_transformed how = t.apply(t.ctx, &doc, out, &err);
  mt_replace_prefix_deinit(&rule);
  return how;
}

static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const row *r = &rows[i];
    mt_buf out;
    mt_buf_init(&out, 1 << 16);
    mt_buf_adds(&out, "before");
    mt_transformed how = apply(r, &out);
    const char *want = r->want ? r->want : "";
    mt_transformed expect = !r->want ? MT_UNCHANGED : *want == '!' ? MT_ASIDE : MT_CHANGED;
    if (how != expect) fail_msg("row %zu: %s: %d, not %d", i, r->source, how, expect);
    if (how != MT_CHANGED) want = "";
    assert_int_equal(out.failed, MORTISE_OK);
    assert_string_equal(out.p + 6, want);
    mt_buf_deinit(&out);
  }
}

/* Changed once, nothing matches any more. */
static void test_twice(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    row r = rows[i];
    if (!r.want || *r.want == '!') continue;
    r.source = r.want;
    mt_buf out;
    mt_buf_init(&out, 1 << 16);
    assert_int_equal(apply(&r, &out), MT_UNCHANGED);
    mt_buf_deinit(&out);
  }
}

static void refuse(const char *field, const char *from, const char *to) {
  mt_replace_prefix rule;
  mortise_error err;
  mt_error_clear(&err);
  mortise_status status =
      mt_replace_prefix_init(&rule, mt_slice_of(field), mt_slice_of(from), mt_slice_of(to), &err);
  assert_int_equal(status, MORTISE_INVALID_ARGUMENT);
  assert_int_equal(err.code, status);
  assert_true(err.message[0]);
}

static void test_refused(void **state) {
  (void)state;
  refuse("path", "/a", "/a");
  refuse("path", "/a/", "/a");
  refuse("path", "/a", "/a/b");
  refuse("path", "/", "/a");
  refuse("path", "/", "/");
  refuse("path", "a", "/b");
  refuse("path", "/a//b", "/b");
  refuse("path", "/a", "/b/../c");
  refuse("path", "/a", "");
  refuse("path", "/a", "/\xff");
  refuse("", "/a", "/b");
  mt_replace_prefix rule;
  assert_int_equal(
      mt_replace_prefix_init(&rule, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("/ab"), NULL),
      MORTISE_OK);
  mt_replace_prefix_deinit(&rule);
}

static void test_query(void **state) {
  (void)state;
  mt_buf out;
  mt_json root;
  mt_buf_init(&out, 4096);
  mt_rename_query(&out, MT_SLICE("a.path"), MT_SLICE("/x\"\\y"), (mt_slice){NULL, 0},
                  (mt_slice){NULL, 0});
  assert_string_equal(out.p, "{\"bool\":{\"filter\":[{\"bool\":{\"should\":[{\"term\":{\"a.path\":"
                             "\"/x\\\"\\\\y\"}},{\"prefix\":{\"a.path\":\"/x\\\"\\\\y/\"}}],"
                             "\"minimum_should_match\":1}}]}}");
  mt_buf_clear(&out);
  mt_rename_query(&out, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("p"),
                  MT_SLICE("{\"term\":{\"b\":1}}"));
  assert_int_equal(mt_json_parse(mt_buf_slice(&out), "query", &root, NULL), MORTISE_OK);
  assert_int_equal(mt_json_count(mt_json_at(root, "bool", "filter", NULL)), 2);
  mt_buf_deinit(&out);
  mt_buf_init(&out, 20);
  mt_rename_query(&out, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("q"), (mt_slice){NULL, 0});
  assert_int_equal(out.failed, MORTISE_REJECTED);
  mt_buf_deinit(&out);
}

/* ---- Against strings that were decoded first ------------------------------------------------- */

static void random_path(rng *r, mt_buf *out) {
  static const char *const parts[] = {"/", "/",   "a",       "a",       "b",       "\\/", "\\u0061",
                                      "é", "\\n", "\\u00e9", "\\u002F", "\\u0062", "\\\\"};
  for (size_t n = rng_below(r, 9); n > 0; n--)
    mt_buf_adds(out, parts[rng_below(r, sizeof parts / sizeof parts[0])]);
}

static void decode(mt_slice raw, mt_buf *out) {
  assert_true(mt_json_text((mt_json){MT_JSON_STRING, raw}, out));
}

static void check_random(rng *r, const char *from, const char *to) {
  mt_buf source, out, before, after, want;
  mt_buf_init(&source, 4096);
  mt_buf_init(&out, 4096);
  mt_buf_init(&before, 4096);
  mt_buf_init(&after, 4096);
  mt_buf_init(&want, 4096);
  mt_buf_adds(&source, "{\"p\":\"");
  random_path(r, &source);
  mt_buf_adds(&source, "\"}");
  decode((mt_slice){source.p + 5, source.n - 6}, &before);
  size_t n = strlen(from);
  bool match = before.n >= n && !memcmp(before.p, from, n) && (!before.p[n] || before.p[n] == '/');
  mt_transformed how = apply(&(row){"p", from, to, source.p, NULL}, &out);
  if ((how == MT_CHANGED) != match) fail_msg("%s in %s: %d", from, source.p, how);
  if (match) {
    mt_buf_adds(&want, to);
    mt_buf_adds(&want, before.p + n);
    decode((mt_slice){out.p + 5, out.n - 6}, &after);
    assert_string_equal(after.p, want.p);
  }
  mt_buf_deinit(&source);
  mt_buf_deinit(&out);
  mt_buf_deinit(&before);
  mt_buf_deinit(&after);
  mt_buf_deinit(&want);
}

static void test_random(void **state) {
  (void)state;
  static const char *const from[] = {"/a", "/b", "/aa", "/a/b", "/é", "/a\n"};
  rng r = {property_seed()};
  for (size_t i = property_rounds(20000); i > 0; i--)
    check_random(&r, from[rng_below(&r, 6)], rng_chance(&r, 50) ? "/zz/\"y" : "/q");
}

static bool deny(void *ctx, size_t size) {
  (void)size;
  int *left = ctx;
  return (*left)-- > 0;
}

static void test_memory(void **state) {
  (void)state;
  mt_replace_prefix rule;
  mortise_error err;
  int left = 0;
  mt_mem_hook(deny, &left);
  mortise_status status =
      mt_replace_prefix_init(&rule, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("/b"), &err);
  mt_mem_hook(NULL, NULL);
  assert_int_equal(status, MORTISE_OUT_OF_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),  cmocka_unit_test(test_twice),  cmocka_unit_test(test_refused),
      cmocka_unit_test(test_query), cmocka_unit_test(test_random), cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
