/* Declared transforms: what each touches, that it touches nothing else, and what takes it back. */
#include "transform/query.h"
#include "transform/transform.h"

#include "transform_random.h"
#include "transform_rows.h"

static mt_transforms compiled(const char *list) {
  mt_transforms t;
  mortise_error err;
  if (mt_transforms_parse(&t, mt_slice_of(list), &err)) fail_msg("%s: %s", list, err.message);
  return t;
}

/* `want`: NULL: unchanged; "!WHY": set aside; else the new source. */
static void outcome_is(const mt_transforms *t, const char *source, const char *want) {
  mt_buf out;
  mortise_error err;
  mt_json root;
  mt_buf_init(&out, 1 << 16);
  mt_buf_adds(&out, "kept");
  mt_transformed how = mt_transforms_apply(t, mt_slice_of(source), &out, &err);
  const char *is = how == MT_CHANGED ? out.p + 4 : how == MT_ASIDE ? err.message : "";
  mt_transformed expect = !want ? MT_UNCHANGED : *want == '!' ? MT_ASIDE : MT_CHANGED;
  if (how != expect)
    fail_msg("%.*s %s: %d %s, not %s", (int)t->json.n, t->json.p, source, how, is, want);
  if (how == MT_ASIDE && !strstr(is, want + 1)) fail_msg("\"%s\" does not say %s", is, want);
  if (how == MT_ASIDE) assert_int_equal(err.code, MORTISE_REJECTED);
  if (how == MT_CHANGED) assert_string_equal(is, want);
  if (how == MT_CHANGED)
    assert_int_equal(mt_json_parse(mt_slice_of(is), "it", &root, NULL), MORTISE_OK);
  if (how != MT_CHANGED) assert_int_equal(out.n, 4);
  assert_memory_equal(out.p, "kept", 4);
  mt_buf_deinit(&out);
}

/* ---- replace_prefix ------------------------------------------------------------------------- */

typedef struct prefix_row {
  const char *field, *from, *to, *source, *want;
} prefix_row;

static const prefix_row prefixes[] = {
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

static mt_transforms compiled_prefix(const char *field, const char *from, const char *to) {
  mt_transforms t;
  mortise_error err;
  if (mt_transforms_prefix(&t, mt_slice_of(field), mt_slice_of(from), mt_slice_of(to), &err))
    fail_msg("%s", err.message);
  return t;
}

/* Changed once, nothing matches any more. */
static void test_prefixes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    const prefix_row *r = &prefixes[i];
    mt_transforms t = compiled_prefix(r->field, r->from, r->to);
    outcome_is(&t, r->source, r->want);
    if (r->want && *r->want != '!') outcome_is(&t, r->want, NULL);
    mt_transforms_deinit(&t);
  }
}

/* ---- The others ----------------------------------------------------------------------------- */

static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    mt_transforms t = compiled(rows[i].list);
    outcome_is(&t, rows[i].source, rows[i].want);
    if (t.n == 1 && rows[i].want && *rows[i].want != '!') outcome_is(&t, rows[i].want, NULL);
    mt_transforms_deinit(&t);
  }
}

static void test_twice_on_a_key(void **state) {
  (void)state;
  static const char *const lists[] = {SET("a", "1"),          DEFAULT("a", "1"), REMOVE("a"),
                                      CAST("a", "string"),    COPY("x", "a"),    RENAME("a", "x"),
                                      PREFIX("a", "/a", "/b")};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    mt_transforms t = compiled(lists[i]);
    outcome_is(&t, "{\"x\":1,\"a\":2,\"\\u0061\":3}", "!is in one object twice");
    mt_transforms_deinit(&t);
  }
  mt_transforms t = compiled(REMOVE("a.b"));
  outcome_is(&t, "{\"a\":{},\"a\":{\"b\":1}}", "!a.b is in one object twice");
  outcome_is(&t, "{\"c\":1,\"c\":2,\"a.b\":1}", "{\"c\":1,\"c\":2}");
  outcome_is(&t, "[]", "!the document has no source");
  outcome_is(&t, "", "!the document has no source");
  mt_transforms_deinit(&t);
}

static void test_other_bytes_stay(void **state) {
  (void)state;
#define STRANGE                                                                                    \
  "{ \"big\" : 12345678901234567890123,\"e\":[ ], \"o\":{ } ,\"n\":null,\n\t\"f\":1.50e+3,"        \
  "\"s\":\"\\u00e9\\/\xFF\\ud800\""
  static const char *const strange[][3] = {
      {SET("x", " [ 2 ] "), " , \"x\" : 1 }", " , \"x\" : [ 2 ] }"},
      {SET("x", "1"), " }", ",\"x\":1 }"},
      {REMOVE("x"), " , \"x\" : 1 , \"y\" : 2 }", " , \"y\" : 2 }"},
      {RENAME("x", "z"), " , \"x\" : { } , \"y\" : 2 }", " , \"z\" : { } , \"y\" : 2 }"},
      {CAST("x", "integer"), " , \"x\" : \"1\" , \"y\" : 2 }", " , \"x\" : 1 , \"y\" : 2 }"},
      {SPLIT("x", ","), " , \"x\" : \"\\u00e9,\\/\xFF\" }",
       " , \"x\" : [\"\\u00e9\",\"\\/\xFF\"] }"},
  };
  for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
    mt_transforms t = compiled(strange[i][0]);
    char source[256], want[256];
    snprintf(source, sizeof source, "%s%s", STRANGE, strange[i][1]);
    snprintf(want, sizeof want, "%s%s", STRANGE, strange[i][2]);
    outcome_is(&t, source, want);
    mt_transforms_deinit(&t);
  }
}

/* ---- What is no list ------------------------------------------------------------------------ */

static void refused(mt_slice list, const char *why) {
  mt_transforms t;
  mortise_error err;
  assert_int_equal(mt_transforms_parse(&t, list, &err), MORTISE_INVALID_ARGUMENT);
  if (!strstr(err.message, why)) fail_msg("\"%s\" does not say \"%s\"", err.message, why);
  assert_null(t.text);
  assert_int_equal(mt_transforms_parse(&t, list, NULL), MORTISE_INVALID_ARGUMENT);
}

static void test_refused(void **state) {
  (void)state;
  static const char *const lists[][2] = {
      {"", "the list of transforms is not JSON"},
      {"{}", "is no array"},
      {"[]", "is empty"},
      {"[1]", "transform 1 is no object with one member"},
      {"[{}]", "transform 1 is no object with one member"},
      {"[[1]]", "transform 1 is no object with one member"},
      {"[{\"remove\":{\"field\":\"a\"},\"set\":{}}]", "transform 1 is no object with one member"},
      {"[{\"remove\":{\"field\":\"a\"}},{\"delete\":{}}]", "transform 2: there is no `delete`"},
      {"[{\"remove\":1}]", "transform 1 (remove): its arguments are no object"},
      {"[{\"remove\":{}}]", "transform 1 (remove): `field` is missing"},
      {"[{\"remove\":{\"field\":1}}]", "transform 1 (remove): `field` is no text"},
      {"[{\"remove\":{\"field\":\"a\",\"value\":1}}]",
       "transform 1 (remove): `value` is not known"},
      {"[{\"remove\":{\"field\":\"a\",\"field\":\"a\"}}]", "`field` is given twice"},
      {REMOVE(""), "`field` is empty"},
      {REMOVE("a..b"), "`field` (a..b) has an empty part"},
      {REMOVE(".a"), "has an empty part"},
      {REMOVE("a."), "has an empty part"},
      {REMOVE("a\\ud800"), "`field` is no UTF-8 or has half a character"},
      {REMOVE("\xff"), "`field` is no UTF-8 or has half a character"},
      {REMOVE("a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a"),
       "`field` has more than 32 parts"},
      {"[{\"set\":{\"field\":\"a\"}}]", "transform 1 (set): `value` is missing"},
      {SET("a", "1e400"), "`value` has a number beyond the doubles"},
      {SET("a", "{\"b\":[{\"c\":1,\"\\u0063\":2}]}"), "`value` has a member twice"},
      {SET("a", "[\"\\ud800x\"]"), "`value` has half a character"},
      {SET("a", "[\"\xff\"]"), "`value` is no UTF-8"},
      {RENAME("a", "a"), "transform 1 (rename_field): `from` and `to` are the same field: a"},
      {RENAME("a", "a.b"), "one of `from` (a) and `to` (a.b) lies inside the other"},
      {COPY("a.b.c", "a.b"), "one of `from` (a.b.c) and `to` (a.b) lies inside the other"},
      {"[{\"copy_field\":{\"from\":\"a\"}}]", "transform 1 (copy_field): `to` is missing"},
      {CAST("a", "int"), "transform 1 (cast): `to` is none of integer, float, string, boolean"},
      {SPLIT("a", ""), "transform 1 (split): `by` is empty"},
      {"[{\"join\":{\"field\":\"a\",\"by\":null}}]", "transform 1 (join): `by` is no text"},
      {PREFIX("p", "/a", "/a/"), "`from` and `to` are the same path: /a"},
      {PREFIX("p", "/a", "/a/b"), "`to` (/a/b) lies inside `from` (/a)"},
      {PREFIX("p", "/", "/a"), "`to` (/a) lies inside `from` (/)"},
      {PREFIX("p", "a", "/b"), "`from` (a) has no \"/\" in front"},
      {PREFIX("p", "/a", ""), "`to` () has no \"/\" in front"},
      {PREFIX("p", "/a//b", "/c"), "`from` (/a//b) has an empty segment"},
      {PREFIX("p", "/a", "//"), "`to` (//) has an empty segment"},
  };
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
    refused(mt_slice_of(lists[i][0]), lists[i][1]);
}

/* Who gave no list is told of none. */
static void test_only_prefix(void **state) {
  (void)state;
  mt_transforms t;
  mortise_error err;
  assert_int_equal(mt_transforms_prefix(&t, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("/a"), &err),
                   MORTISE_INVALID_ARGUMENT);
  assert_string_equal(err.message, "`from` and `to` are the same path: /a");
  t = compiled_prefix("p", "/a/b", "/a");
  outcome_is(&t, "{\"p\":\"/a/b/b\"}", "!p would begin with `from` again");
  mt_buf out;
  mt_buf_init(&out, 100);
  mt_transforms_apply(&t, MT_SLICE("{\"p\":\"/a/b/b\"}"), &out, &err);
  assert_string_equal(err.message, "p would begin with `from` again");
  mt_buf_deinit(&out);
  mt_transforms_deinit(&t);
}

/* Whatever a list is, it is refused or it changes documents into documents. */
static void test_random_lists(void **state) {
  (void)state;
  static const char marks[] = "{}[]\",:\\0-ea.u/ \xff";
  rng r = {property_seed() + 1};
  size_t good = 0;
  mt_buf list, source, out;
  mt_buf_init(&list, 1 << 16);
  mt_buf_init(&source, 1 << 16);
  mt_buf_init(&out, 1 << 16);
  for (size_t i = property_rounds(40000); i > 0; i--) {
    mt_transforms t;
    mortise_error err;
    mt_json root;
    mt_buf_clear(&list);
    mt_buf_clear(&source);
    mt_buf_clear(&out);
    random_list(&r, &list, 1 + rng_below(&r, 3));
    for (size_t times = rng_below(&r, 3); times > 0; times--)
      list.p[rng_below(&r, list.n)] = marks[rng_below(&r, sizeof marks - 1)];
    if (mt_transforms_parse(&t, mt_buf_slice(&list), &err)) {
      assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
      continue;
    }
    good++;
    random_document(&r, &source, true);
    if (mt_transforms_apply(&t, mt_buf_slice(&source), &out, &err) == MT_CHANGED &&
        (mt_json_parse(mt_buf_slice(&out), "it", &root, &err) || root.raw.n != out.n))
      fail_msg("%s %s: %s: %s", list.p, source.p, out.p, err.message);
    mt_transforms_deinit(&t);
  }
  assert_true(good > 1000);
  mt_buf_deinit(&list);
  mt_buf_deinit(&source);
  mt_buf_deinit(&out);
}

static void test_limits(void **state) {
  (void)state;
  mt_buf b;
  mt_buf_init(&b, 1 << 20);
  mt_buf_adds(&b, "[");
  for (int i = 0; i <= MT_TRANSFORMS_MAX; i++)
    mt_buf_addf(&b, "%s{\"remove\":{\"field\":\"a\"}}", i ? "," : "");
  mt_buf_adds(&b, "]");
  refused(mt_buf_slice(&b), "257 transforms, more than 256");
  mt_buf_clear(&b);
  mt_buf_addf(&b, "[{\"remove\":{\"field\":\"%01025d\"}}]", 0);
  refused(mt_buf_slice(&b), "`field` has 1025 bytes, more than 1024");
  mt_buf_clear(&b);
  mt_buf_addf(&b, "[{\"set\":{\"field\":\"a\",\"value\":\"%0*d\"}}]", MT_TRANSFORMS_TEXT_MAX, 0);
  refused(mt_buf_slice(&b), "bytes, more than 65536");
  mt_buf_deinit(&b);
}

/* ---- Searches ------------------------------------------------------------------------------- */

static void test_query(void **state) {
  (void)state;
  mt_buf out;
  mt_json root;
  mortise_error err;
  mt_buf_init(&out, 4096);
  mt_prefix_query(&out, MT_SLICE("a.path"), MT_SLICE("/x\"\\y"), (mt_slice){NULL, 0},
                  (mt_slice){NULL, 0});
  assert_string_equal(out.p, "{\"bool\":{\"filter\":[{\"bool\":{\"should\":[{\"term\":{\"a.path\":"
                             "\"/x\\\"\\\\y\"}},{\"prefix\":{\"a.path\":\"/x\\\"\\\\y/\"}}],"
                             "\"minimum_should_match\":1}}]}}");
  mt_buf_clear(&out);
  mt_prefix_query(&out, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("p"),
                  MT_SLICE("{\"term\":{\"b\":1}}"));
  assert_int_equal(mt_json_parse(mt_buf_slice(&out), "query", &root, NULL), MORTISE_OK);
  assert_int_equal(mt_json_count(mt_json_at(root, "bool", "filter", NULL)), 2);
  mt_transforms t =
      compiled("[{\"replace_prefix\":{\"field\":\"p\",\"from\":\"/a\",\"to\":\"/b\"}},"
               "{\"replace_prefix\":{\"field\":\"q\",\"from\":\"/b\",\"to\":\"/c\"}}]");
  mt_buf_clear(&out);
  assert_int_equal(mt_transforms_query(&t, NULL, &out, &err), MORTISE_OK);
  assert_int_equal(mt_json_parse(mt_buf_slice(&out), "query", &root, NULL), MORTISE_OK);
  assert_non_null(strstr(out.p, "{\"term\":{\"q\":\"/b\"}}"));
  mt_search_name names[] = {{MT_SLICE("p.raw"), MT_SLICE("p")}, {MT_SLICE("q"), {NULL, 0}}};
  mt_buf_clear(&out);
  assert_int_equal(mt_transforms_query(&t, names, &out, &err), MORTISE_OK);
  assert_non_null(strstr(out.p, "{\"prefix\":{\"p.raw\":\"/a/\"}}"));
  assert_non_null(strstr(out.p, "{\"term\":{\"_ignored\":\"p.raw\"}}"));
  mt_transforms_deinit(&t);
  t = compiled(REMOVE("a"));
  mt_buf_clear(&out);
  assert_int_equal(mt_transforms_query(&t, NULL, &out, &err), MORTISE_UNSUPPORTED);
  assert_non_null(strstr(err.message, "transform 1 (remove)"));
  assert_int_equal(out.n, 0);
  mt_transforms_deinit(&t);
  mt_buf_deinit(&out);
  mt_buf_init(&out, 20);
  mt_prefix_query(&out, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("q"), (mt_slice){NULL, 0});
  assert_int_equal(out.failed, MORTISE_REJECTED);
  mt_buf_deinit(&out);
}

/* ---- Taking back ---------------------------------------------------------------------------- */

static void test_inverse(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {PREFIX("a.p", "/a\\\"", "/b"), PREFIX("a.p", "/b", "/a\\\"")},
      {PREFIX("p", "/a", "/ab"), PREFIX("p", "/ab", "/a")},
      {RENAME("a.b", "a.c"), RENAME("a.c", "a.b")},
      {SPLIT("t", ", "), JOIN("t", ", ")},
      {JOIN("t", "\\n"), SPLIT("t", "\\n")},
      {"[{\"split\":{\"field\":\"t\",\"by\":\",\"}},{\"rename_field\":{\"from\":\"t\",\"to\":\"u\"}"
       "}]",
       "[{\"rename_field\":{\"from\":\"u\",\"to\":\"t\"}},{\"join\":{\"field\":\"t\",\"by\":\",\"}}"
       "]"},
  };
  static const char *const none[] = {
      PREFIX("p", "/a/b", "/a"), PREFIX("p", "/a", "/"), SET("a", "1"),  REMOVE("a"),
      RENAME("a", "b.c"),        RENAME("a.b", "c.b"),   COPY("a", "b"), DEFAULT("a", "1"),
      CAST("a", "string")};
  mt_transforms t, inverse;
  mortise_error err;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    t = compiled(pairs[i][0]);
    assert_int_equal(mt_transforms_inverse(&t, &inverse, &err), MORTISE_OK);
    assert_int_equal(inverse.json.n, strlen(pairs[i][1]));
    assert_memory_equal(inverse.json.p, pairs[i][1], inverse.json.n);
    mt_transforms_deinit(&inverse);
    mt_transforms_deinit(&t);
  }
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    t = compiled(none[i]);
    assert_int_equal(mt_transforms_inverse(&t, &inverse, &err), MORTISE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "has no inverse"));
    mt_transforms_deinit(&inverse);
    mt_transforms_deinit(&t);
  }
}

static void restores(const char *list, const char *source, bool want) {
  mt_transforms t = compiled(list), inverse;
  mt_buf out;
  mt_buf_init(&out, 4096);
  assert_int_equal(mt_transforms_inverse(&t, &inverse, NULL), MORTISE_OK);
  assert_int_equal(mt_transforms_apply(&t, mt_slice_of(source), &out, NULL), MT_CHANGED);
  bool is = mt_transforms_restores(&inverse, mt_slice_of(source), mt_buf_slice(&out));
  if (is != want) fail_msg("%s %s", list, source);
  mt_buf_deinit(&out);
  mt_transforms_deinit(&inverse);
  mt_transforms_deinit(&t);
}

static void test_restores(void **state) {
  (void)state;
  restores(PREFIX("p", "/a", "/b"), "{ \"p\" : [\"/a/\\u00e9\",\"/q\"] }", true);
  restores(PREFIX("p", "/a", "/b"), "{\"p\":[\"/a/x\",\"/b/x\"]}", false); /* was there before */
  restores(PREFIX("p", "/a", "/b"), "{\"p\":\"\\/a\"}", false);            /* a needless escape */
  restores(RENAME("a", "b"), "{ \"a\" : 1,\"c\":2}", true);
  restores(RENAME("a", "b"), "{\"\\u0061\":1}", false);
  restores(SPLIT("t", ","), "{\"t\":\"a,,\\u00e9\"}", true);
  restores(SPLIT("a.t", ","), "{\"a\":[{\"t\":\"x\"},{\"t\":[]}]}", false);
  restores(JOIN("t", ","), "{\"t\":[\"a\",\"\"]}", true);
  restores(JOIN("t", ","), "{\"t\":[]}", true);
  restores(JOIN("t", ","), "{\"t\":[\"a\", \"b\"]}", false); /* white space */
}

/* What a document was before: one transform, changed, and the inverse had nothing to do in it. */
static void test_random_inverses(void **state) {
  (void)state;
  rng r = {property_seed()};
  size_t seen = 0;
  mt_buf list, source, out, back;
  mt_buf_init(&list, 1 << 16);
  mt_buf_init(&source, 1 << 16);
  mt_buf_init(&out, 1 << 16);
  mt_buf_init(&back, 1 << 16);
  for (size_t i = property_rounds(60000); i > 0; i--) {
    mt_transforms t, inverse;
    mt_buf_clear(&list);
    mt_buf_clear(&source);
    mt_buf_clear(&out);
    mt_buf_clear(&back);
    random_list(&r, &list, 1);
    random_document(&r, &source, false);
    if (mt_transforms_parse(&t, mt_buf_slice(&list), NULL)) continue;
    if (!mt_transforms_inverse(&t, &inverse, NULL)) {
      mt_slice was = mt_buf_slice(&source);
      if (mt_transforms_apply(&t, was, &out, NULL) == MT_CHANGED &&
          mt_transforms_apply(&inverse, was, &back, NULL) == MT_UNCHANGED) {
        seen++;
        mt_slice is = mt_buf_slice(&out);
        if (!mt_transforms_restores(&inverse, was, is))
          fail_msg("seed %llu: %s %s", (unsigned long long)property_seed(), list.p, source.p);
      }
      mt_transforms_deinit(&inverse);
    }
    mt_transforms_deinit(&t);
  }
  assert_true(seen > 500);
  mt_buf_deinit(&list);
  mt_buf_deinit(&source);
  mt_buf_deinit(&out);
  mt_buf_deinit(&back);
}

/* ---- Depth ---------------------------------------------------------------------------------- */

static void test_deep(void **state) {
  (void)state;
  mt_buf b;
  mt_buf_init(&b, 1 << 16);
  mt_buf_adds(&b, "{\"a\":");
  for (int i = 0; i < MT_JSON_DEPTH; i++) mt_buf_adds(&b, "[");
  for (int i = 0; i < MT_JSON_DEPTH; i++) mt_buf_adds(&b, "]");
  mt_buf_adds(&b, "}");
  mt_transforms t = compiled(CAST("a", "string"));
  outcome_is(&t, b.p, NULL);
  mt_transforms_deinit(&t);
  mt_buf_cut(&b, 5);
  for (int i = 0; i <= MT_JSON_DEPTH; i++) mt_buf_adds(&b, "[");
  for (int i = 0; i <= MT_JSON_DEPTH; i++) mt_buf_adds(&b, "]");
  mt_buf_adds(&b, "}");
  static const char *const lists[] = {CAST("a", "string"), REMOVE("a.b")};
  for (size_t i = 0; i < 2; i++) {
    t = compiled(lists[i]);
    outcome_is(&t, b.p, "!is nested too deep");
    mt_transforms_deinit(&t);
  }
  mt_buf_deinit(&b);
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
  mt_transforms t = compiled_prefix("p", from, to);
  mt_transformed how = mt_transforms_apply(&t, mt_buf_slice(&source), &out, NULL);
  mt_transforms_deinit(&t);
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

static void test_random_paths(void **state) {
  (void)state;
  static const char *const from[] = {"/a", "/b", "/aa", "/a/b", "/é", "/a\n"};
  rng r = {property_seed()};
  for (size_t i = property_rounds(20000); i > 0; i--)
    check_random(&r, from[rng_below(&r, 6)], rng_chance(&r, 50) ? "/zz/\"y" : "/q");
}

/* ---- Memory --------------------------------------------------------------------------------- */

static mortise_status parse_all(void *ctx) {
  mt_transforms t, inverse;
  (void)ctx;
  mortise_status status = mt_transforms_parse(
      &t,
      MT_SLICE("[{\"replace_prefix\":{\"field\":\"p\",\"from\":\"/a\",\"to\":\"/b\"}},"
               "{\"split\":{\"field\":\"t\",\"by\":\",\"}},"
               "{\"rename_field\":{\"from\":\"a\",\"to\":\"b\"}}]"),
      NULL);
  if (status) return status;
  status = mt_transforms_inverse(&t, &inverse, NULL);
  if (!status) mt_transforms_deinit(&inverse);
  mt_transforms_deinit(&t);
  if (status) return status;
  status = mt_transforms_prefix(&t, MT_SLICE("p"), MT_SLICE("/a"), MT_SLICE("/b"), NULL);
  if (!status) mt_transforms_deinit(&t);
  return status;
}

static mortise_status apply_some(void *ctx) {
  mt_transforms *t = ctx;
  mt_buf out;
  mortise_error err;
  mt_error_clear(&err);
  mt_buf_init(&out, 1 << 16);
  mt_transformed how = mt_transforms_apply(
      t, MT_SLICE("{\"a\":1,\"t\":\"x,y\",\"p\":\"/a/and/so/on/until/it/is/long/enough\"}"), &out,
      &err);
  mortise_status status = out.failed ? out.failed : err.code;
  if (!status) assert_int_equal(how, MT_CHANGED);
  mt_buf_deinit(&out);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  assert_true(each_allocation_told(parse_all, NULL));
  static const char *const lists[] = {
      RENAME("a", "b.c"), SPLIT("t", ","),
      "[{\"rename_field\":{\"from\":\"a\",\"to\":\"b.c\"}},{\"split\":{\"field\":\"t\",\"by\":\","
      "\"}},"
      "{\"replace_prefix\":{\"field\":\"p\",\"from\":\"/a\",\"to\":\"/b\"}},"
      "{\"set\":{\"field\":\"x\",\"value\":1}}]"};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    mt_transforms t = compiled(lists[i]);
    assert_true(each_allocation_told(apply_some, &t));
    mt_transforms_deinit(&t);
  }
}

/* The caller is told by its buffer. */
static void test_too_large(void **state) {
  (void)state;
  static const char *const lists[] = {
      SET("x", "\"long enough\""),
      "[{\"set\":{\"field\":\"x\",\"value\":\"long enough\"}},{\"remove\":{\"field\":\"y\"}}]"};
  for (size_t i = 0; i < 2; i++) {
    mt_transforms t = compiled(lists[i]);
    mt_buf out;
    mt_buf_init(&out, 8);
    mt_transforms_apply(&t, MT_SLICE("{}"), &out, NULL);
    assert_int_equal(out.failed, MORTISE_REJECTED);
    mt_buf_deinit(&out);
    mt_transforms_deinit(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prefixes),       cmocka_unit_test(test_rows),
      cmocka_unit_test(test_twice_on_a_key), cmocka_unit_test(test_other_bytes_stay),
      cmocka_unit_test(test_refused),        cmocka_unit_test(test_only_prefix),
      cmocka_unit_test(test_random_lists),   cmocka_unit_test(test_limits),
      cmocka_unit_test(test_query),          cmocka_unit_test(test_inverse),
      cmocka_unit_test(test_restores),       cmocka_unit_test(test_random_inverses),
      cmocka_unit_test(test_deep),           cmocka_unit_test(test_random_paths),
      cmocka_unit_test(test_memory),         cmocka_unit_test(test_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
