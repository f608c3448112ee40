#include "base/json.h"
#include "base/json_scan.h"
#include "base/utf8.h"
#include "property.h"

#include "locales.h"

#include <jansson.h>

/* ---- by hand: RFC 8259 ---- */

static bool accepts(mt_slice text) {
  mt_json root;
  mortise_error err;
  mortise_status status = mt_json_parse(text, "it", &root, &err);
  if (status) {
    assert_int_equal(status, MORTISE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "it is not JSON"));
    assert_int_equal(root.type, MT_JSON_NONE);
  }
  return status == MORTISE_OK;
}

static void valid_text_is_accepted(void **state) {
  (void)state;
  static const char *const texts[] = {"0",
                                      "-0",
                                      "1",
                                      "-1",
                                      "10",
                                      "0.0",
                                      "0e0",
                                      "1E+2",
                                      "1e-2",
                                      "-0.1e1",
                                      "123456789012345678901234567890",
                                      "1e999",
                                      "\"\"",
                                      "\"a\"",
                                      "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uFFFF\\uabcd\"",
                                      "\"\\ud800\"",
                                      "\"\\udc00\\ud800\"",
                                      "\"\x7F\"",
                                      "\"\xFF\xC0\"",
                                      "null",
                                      "true",
                                      "false",
                                      "[]",
                                      "{}",
                                      "[[]]",
                                      "{\"\":{}}",
                                      " [ 1 , 2 ] ",
                                      "\t\r\n{ \"a\" : 1 , \"a\" : 2 }\n",
                                      "[1,\"\",null,{}]",
                                      "\"\xE2\x80\xA8\""};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (!accepts(mt_slice_of(texts[i]))) fail_msg("refused: %s", texts[i]);
}

static void invalid_text_is_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      " ",
                                      "01",
                                      "-",
                                      "-01",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1.e1",
                                      "1e",
                                      "1e+",
                                      "0x1",
                                      "1 2",
                                      "1,",
                                      "NaN",
                                      "Infinity",
                                      "-Infinity",
                                      "nul",
                                      "nulll",
                                      "True",
                                      "tru",
                                      "falsy",
                                      "'a'",
                                      "\"",
                                      "\"a",
                                      "\"\\",
                                      "\"\\\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "\"\\u\"",
                                      "\"\n\"",
                                      "\"\t\"",
                                      "\"\x1F\"",
                                      "[",
                                      "]",
                                      "[1",
                                      "[1,",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "[1}",
                                      "{",
                                      "}",
                                      "{]",
                                      "{1:2}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{,}",
                                      "{\"a\" 1}",
                                      "{\"a\":1 \"b\":2}",
                                      "{\"a\":1",
                                      "{a:1}",
                                      "[]]",
                                      "{}{}",
                                      "[] x",
                                      "/* */1",
                                      "1//",
                                      "\xEF\xBB\xBF"
                                      "1",
                                      "\v1",
                                      "\xA0"
                                      "1",
                                      "[\"a\",\n4\n,1,1",
                                      "{\"a\":\"b\"}#"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (accepts(mt_slice_of(texts[i]))) fail_msg("accepted: %s", texts[i]);
  assert_false(accepts(MT_SLICE("1\0")));
  assert_false(accepts(MT_SLICE("\"\0\"")));
  assert_false(accepts((mt_slice){NULL, 0}));
}

static void every_control_is_refused_in_strings(void **state) {
  (void)state;
  /* At each place of a word of eight bytes and behind one. */
  for (int c = 0; c < 256; c++)
    for (size_t at = 1; at < 19; at++) {
      char text[20];
      memset(text, 'x', sizeof text);
      text[0] = text[19] = '"';
      text[at] = (char)c;
      assert_int_equal(accepts((mt_slice){text, 20}), c >= 0x20 && c != '"' && (c != '\\'));
    }
}

static void every_prefix_is_refused(void **state) {
  (void)state;
  mt_slice text = MT_SLICE("{\"a\":[1.5e3,\"b\\u00e9\",{\"c\":null}],\"d\":{\"e\":[true,false]}}");
  for (size_t n = 0; n < text.n; n++) {
    /* In memory of its own, so that a sanitizer sees a read past its end. */
    char *part = mt_strndup(text.p, n);
    assert_false(accepts((mt_slice){part, n}));
    mt_free(part);
  }
  assert_true(accepts(text));
}

static void the_error_says_where(void **state) {
  (void)state;
  mt_json root;
  mortise_error err;
  mt_json_parse(MT_SLICE("{\"a\": x}"), "the answer", &root, &err);
  assert_string_equal(err.message, "the answer is not JSON: a value is missing at byte 6");
  mt_json_parse(MT_SLICE("[1,"), "it", &root, &err);
  assert_string_equal(err.message, "it is not JSON: the text ends too early at byte 3");
}

static bool accepts_nested(size_t depth, char open, char close) {
  mt_buf b;
  mt_buf_init(&b, 10 * depth + 10);
  for (size_t i = 0; i < depth; i++) mt_buf_adds(&b, open == '{' ? "{\"a\":" : "[");
  mt_buf_adds(&b, "1");
  for (size_t i = 0; i < depth; i++) mt_buf_addc(&b, close);
  bool ok = accepts(mt_buf_slice(&b));
  mt_buf_deinit(&b);
  return ok;
}

static void depth_is_bounded(void **state) {
  (void)state;
  assert_true(accepts_nested(MT_JSON_DEPTH, '[', ']'));
  assert_true(accepts_nested(MT_JSON_DEPTH, '{', '}'));
  assert_false(accepts_nested(MT_JSON_DEPTH + 1, '[', ']'));
  assert_false(accepts_nested(MT_JSON_DEPTH + 1, '{', '}'));
  assert_false(accepts_nested(1000000, '[', ']'));
}

/* ---- by hand: reading ---- */

static mt_json parsed(const char *text) {
  mt_json root;
  assert_int_equal(mt_json_parse(mt_slice_of(text), "it", &root, NULL), MORTISE_OK);
  return root;
}

static void the_root_has_no_space_around(void **state) {
  (void)state;
  mt_json root = parsed(" \n[ 1 ]\t ");
  assert_int_equal(root.type, MT_JSON_ARRAY);
  assert_true(mt_slice_eq(root.raw, MT_SLICE("[ 1 ]")));
}

static void items_come_in_order(void **state) {
  (void)state;
  mt_json root =
      parsed("{ \"a\" : [1 , {\"x\":\"]\"}] ,\"b\\n\":\"\\\"}\", \"\":-1.5e3 , \"c\":null}");
  static const char *const keys[] = {"a", "b\\n", "", "c"};
  static const char *const raws[] = {"[1 , {\"x\":\"]\"}]", "\"\\\"}\"", "-1.5e3", "null"};
  static const mt_json_type types[] = {MT_JSON_ARRAY, MT_JSON_STRING, MT_JSON_NUMBER, MT_JSON_NULL};
  size_t i = 0;
  for (mt_json_iter it = mt_json_items(root); mt_json_next(&it); i++) {
    assert_true(it.object);
    assert_true(mt_slice_eq(it.key, mt_slice_of(keys[i])));
    assert_true(mt_slice_eq(it.value.raw, mt_slice_of(raws[i])));
    assert_int_equal(it.value.type, types[i]);
  }
  assert_int_equal(i, 4);
  assert_int_equal(mt_json_count(root), 4);
  assert_int_equal(mt_json_count(mt_json_get(root, "a")), 2);
}

static void what_is_no_container_has_no_items(void **state) {
  (void)state;
  static const char *const texts[] = {"1", "\"[1]\"", "null", "[]", "{}", "[ ]", "{ \n}"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    assert_int_equal(mt_json_count(parsed(texts[i])), 0);
  assert_int_equal(mt_json_count((mt_json){0}), 0);
}

static void members_are_found_by_decoded_name(void **state) {
  (void)state;
  mt_json root = parsed(
      "{\"a\\u0062\":1,\"\\ud83d\\ude00\":2,\"a\\\\b\":3,\"\\/\":4,\"d\":5,\"d\":6,\"\\u0064\":7,"
      "\"ab\":8}");
  int64_t n = 0;
  assert_true(mt_json_int(mt_json_get(root, "ab"), &n) && n == 1);
  assert_true(mt_json_int(mt_json_get(root, "\xF0\x9F\x98\x80"), &n) && n == 2);
  assert_true(mt_json_int(mt_json_get(root, "a\\b"), &n) && n == 3);
  assert_true(mt_json_int(mt_json_get(root, "/"), &n) && n == 4);
  assert_true(mt_json_int(mt_json_get(root, "d"), &n) && n == 5); /* the first wins */
  static const char *const absent[] = {"a\\u0062", "a\\\\b", "\\/", "", "a", "abc", "D"};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
    assert_int_equal(mt_json_get(root, absent[i]).type, MT_JSON_NONE);
  assert_int_equal(mt_json_get(parsed("[1]"), "a").type, MT_JSON_NONE);
  assert_true(mt_json_key_is(MT_SLICE("\\u0000x"), MT_SLICE("\0x")));
  assert_false(mt_json_key_is(MT_SLICE("\\u0000x"), MT_SLICE("\0y")));
}

static void at_goes_down_through_objects(void **state) {
  (void)state;
  mt_json root = parsed("{\"hits\":{\"total\":{\"value\":12}},\"a\":[1]}");
  int64_t n = 0;
  assert_true(mt_json_int(mt_json_at(root, "hits", "total", "value", NULL), &n) && n == 12);
  assert_int_equal(mt_json_at(root, "hits", "x", "value", NULL).type, MT_JSON_NONE);
  assert_int_equal(mt_json_at(root, "a", "0", NULL).type, MT_JSON_NONE);
  assert_int_equal(mt_json_at(root, NULL).type, MT_JSON_OBJECT);
}

static void integers_are_exact(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool is_int, is_uint;
    int64_t i;
    uint64_t u;
  } rows[] = {
      {"0", true, true, 0, 0},
      {"-0", true, true, 0, 0},
      {"-1", true, false, -1, 0},
      {"1234567890123456789", true, true, 1234567890123456789, 1234567890123456789},
      {"9223372036854775807", true, true, INT64_MAX, INT64_MAX},
      {"9223372036854775808", false, true, 0, UINT64_C(9223372036854775808)},
      {"-9223372036854775808", true, false, INT64_MIN, 0},
      {"-9223372036854775809", false, false, 0, 0},
      {"18446744073709551615", false, true, 0, UINT64_MAX},
      {"18446744073709551616", false, false, 0, 0},
      {"28446744073709551616", false, false, 0, 0},
      {"100000000000000000000", false, false, 0, 0},
      {"1.0", false, false, 0, 0},
      {"1e2", false, false, 0, 0},
      {"-0.0", false, false, 0, 0},
      {"\"1\"", false, false, 0, 0},
      {"true", false, false, 0, 0},
      {"null", false, false, 0, 0},
  };
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    int64_t i = 42;
    uint64_t u = 42;
    assert_int_equal(mt_json_int(parsed(rows[k].text), &i), rows[k].is_int);
    assert_int_equal(mt_json_uint(parsed(rows[k].text), &u), rows[k].is_uint);
    assert_true(i == (rows[k].is_int ? rows[k].i : 42));
    assert_true(u == (rows[k].is_uint ? rows[k].u : 42));
  }
}

static void doubles_know_no_locale(void **state) {
  (void)state;
  for (size_t i = 0; i < TEST_LOCALES; i++) {
    use_locale(test_locales[i]);
    double d = 0;
    assert_true(mt_json_double(parsed("-1.5e1"), &d) && d > -15.1 && d < -14.9);
  }
  setlocale(LC_ALL, "C");
  double d = 7;
  assert_false(mt_json_double(parsed("1e999"), &d));
  assert_false(mt_json_double(parsed("-1e999"), &d));
  assert_false(mt_json_double(parsed("\"1\""), &d));
  assert_true(d > 6.9 && d < 7.1);
  assert_true(mt_json_double(parsed("1e-999"), &d) && d < 1e-300 && d > -1e-300);
  char text[400] = "1";
  memset(text + 1, '0', 300);
  assert_true(mt_json_double(parsed(text), &d) && d > 9e299 && d < 1.1e300);
}

static void booleans(void **state) {
  (void)state;
  bool b = false;
  assert_true(mt_json_bool(parsed("true"), &b) && b);
  assert_true(mt_json_bool(parsed("false"), &b) && !b);
  assert_false(mt_json_bool(parsed("null"), &b));
}

static void strings_are_decoded(void **state) {
  (void)state;
  mt_json s = parsed("\"\\\"\\\\\\/\\b\\f\\n\\r\\t \\u0041\\u00e9\\u20AC\\ud83d\\ude00 "
                     "\\ud800x\\udc00 \\u0000!\"");
  mt_slice want = MT_SLICE(
      "\"\\/\b\f\n\r\t A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \xED\xA0\x80x\xED\xB0\x80 \0!");
  mt_buf out;
  mt_buf_init(&out, 1000);
  assert_true(mt_json_text(s, &out));
  assert_true(mt_slice_eq(mt_buf_slice(&out), want));
  assert_false(mt_json_text(parsed("1"), &out));
  mt_buf_deinit(&out);
  mt_slice plain;
  assert_false(mt_json_plain(s, &plain));
  assert_true(mt_json_plain(parsed("\"ab\""), &plain) && mt_slice_eq(plain, MT_SLICE("ab")));
  assert_true(mt_json_plain(parsed("\"\""), &plain) && plain.n == 0 && plain.p);
  assert_false(mt_json_plain(parsed("1"), &plain));
  assert_true(mt_json_is(parsed("\"a\\u0062\""), "ab"));
  assert_false(mt_json_is(parsed("\"abc\""), "ab"));
  assert_false(mt_json_is(parsed("1"), "1"));
}

static void copies_are_cut_between_characters(void **state) {
  (void)state;
  char out[8];
  static const struct {
    const char *text;
    size_t size;
    const char *want;
  } rows[] = {
      {"\"abc\"", 8, "abc"},
      {"\"abcdefg\"", 8, "abcdefg"},
      {"\"abcdefgh\"", 8, "abcdefg"},
      {"\"abc\"", 1, ""},
      {"\"ab\xC3\xA9\"", 4, "ab"},
      {"\"ab\xC3\xA9\"", 5, "ab\xC3\xA9"},
      {"\"ab\\u00e9\"", 4, "ab"},
      {"\"\xF0\x9F\x98\x80\"", 4, ""},
      {"\"a\xE2\x82\xAC\xE2\x82\xAC\"", 6, "a\xE2\x82\xAC"},
      {"1", 8, ""},
      {"null", 8, ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_string_equal(mt_json_copy(parsed(rows[i].text), out, rows[i].size), rows[i].want);
  out[0] = 'k';
  assert_ptr_equal(mt_json_copy(parsed("\"a\""), out, 0), out);
  assert_int_equal(out[0], 'k');
}

/* ---- writing ---- */

static void strings_are_escaped_as_little_as_may_be(void **state) {
  (void)state;
  mt_buf out;
  mt_buf_init(&out, 1000);
  mt_json_add_string(&out, MT_SLICE("a\"\\/\b\f\n\r\t\x01\x1F\0\x7F\xC3\xA9\xFF"));
  assert_string_equal(out.p, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u0000\x7F\xC3\xA9\xFF\"");
  mt_buf_clear(&out);
  mt_json_add_string(&out, (mt_slice){NULL, 0});
  assert_string_equal(out.p, "\"\"");
  mt_buf_deinit(&out);
}

static void keys_bring_their_comma(void **state) {
  (void)state;
  mt_buf out;
  mt_buf_init(&out, 1000);
  mt_buf_addc(&out, '{');
  mt_json_add_key(&out, "a");
  mt_buf_addc(&out, '{');
  mt_json_add_key(&out, "b");
  mt_buf_adds(&out, "1}");
  mt_json_add_key(&out, "c");
  mt_buf_adds(&out, "[]}");
  assert_string_equal(out.p, "{\"a\":{\"b\":1},\"c\":[]}");
  mt_buf_deinit(&out);
}

static void any_bytes_come_back(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_buf text, back;
  mt_buf_init(&text, 1000);
  mt_buf_init(&back, 1000);
  for (size_t round = 0; round < property_rounds(20000); round++) {
    char bytes[40];
    mt_slice s = {bytes, rng_below(&r, sizeof bytes + 1)};
    for (size_t i = 0; i < s.n; i++)
      bytes[i] = rng_chance(&r, 60) ? 'x' : (char)(unsigned char)rng_below(&r, 256);
    mt_buf_clear(&text);
    mt_buf_clear(&back);
    mt_json_add_string(&text, s);
    mt_json root;
    assert_int_equal(mt_json_parse(mt_buf_slice(&text), "it", &root, NULL), MORTISE_OK);
    assert_true(mt_json_text(root, &back));
    assert_true(mt_slice_eq(mt_buf_slice(&back), s));
  }
  mt_buf_deinit(&text);
  mt_buf_deinit(&back);
}

/* ---- jansson as the oracle ---- */

static bool same_text(mt_json value, const char *p, size_t n) {
  mt_buf out;
  mt_buf_init(&out, value.raw.n);
  bool same = mt_json_text(value, &out) && mt_slice_eq(mt_buf_slice(&out), (mt_slice){p, n});
  mt_buf_deinit(&out);
  return same;
}

static bool same_tree(mt_json value, json_t *tree);

static bool same_array(mt_json value, json_t *tree) {
  size_t i = 0;
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it); i++)
    if (!same_tree(it.value, json_array_get(tree, i))) return false;
  return i == json_array_size(tree);
}

static bool same_object(mt_json value, json_t *tree) {
  /* Of duplicates jansson keeps the last, mortise the first: not compared. */
  if (mt_json_count(value) != json_object_size(tree))
    return mt_json_count(value) > json_object_size(tree);
  const char *name;
  json_t *member;
  json_object_foreach(tree, name,
                      member) if (!same_tree(mt_json_get(value, name), member)) return false;
  return true;
}

static bool same_number(mt_json value, json_t *tree) {
  int64_t i;
  double d;
  if (json_is_integer(tree)) return mt_json_int(value, &i) && i == json_integer_value(tree);
  if (!mt_json_double(value, &d) || mt_json_int(value, &i)) return false;
  double want = json_real_value(tree);
  return memcmp(&d, &want, sizeof d) == 0;
}

static bool same_tree(mt_json value, json_t *tree) {
  switch (value.type) {
  case MT_JSON_NULL:
    return json_is_null(tree);
  case MT_JSON_TRUE:
    return json_is_true(tree);
  case MT_JSON_FALSE:
    return json_is_false(tree);
  case MT_JSON_NUMBER:
    return json_is_number(tree) && same_number(value, tree);
  case MT_JSON_STRING:
    return json_is_string(tree) &&
           same_text(value, json_string_value(tree), json_string_length(tree));
  case MT_JSON_ARRAY:
    return json_is_array(tree) && same_array(value, tree);
  case MT_JSON_OBJECT:
    return json_is_object(tree) && same_object(value, tree);
  default:
    return false;
  }
}

/* What jansson refuses and RFC 8259 does not: numbers out of its range, lone surrogates, a NUL in
 * a name; and bytes that are not UTF-8, which the servers keep. */
static bool refuses_more(mt_slice text, const json_error_t *err) {
  enum json_error_code code = json_error_code(err);
  return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
         code == json_error_null_character || code == json_error_invalid_utf8 ||
         strstr(err->text, "invalid Unicode") || mt_utf8_valid(text) < text.n;
}

/* Returns what is wrong, or NULL. */
static const char *disagreement(mt_slice text) {
  json_error_t theirs;
  json_t *tree = json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &theirs);
  mt_json root;
  mortise_status ours = mt_json_parse(text, "it", &root, NULL);
  const char *problem = NULL;
  if (text.n && memchr(text.p, '\0', text.n)) /* jansson passes over some of these */
    problem = ours ? NULL : "accepted a NUL";
  else if (tree && ours)
    problem = "refused what jansson accepts";
  else if (!tree && !ours && !refuses_more(text, &theirs))
    problem = "accepted what jansson refuses";
  else if (tree && !ours && !same_tree(root, tree))
    problem = "read otherwise than jansson";
  json_decref(tree);
  return problem;
}

/* One to four bytes changed, left out, doubled, or swapped for a piece from elsewhere. */
static void mutate(rng *r, char *p, size_t *n, size_t cap) {
  static const char bytes[] = "\"\\{}[]:,0-1.eE+ntu \n\x01\x7F\xC3\xA9\xED\xFF/";
  for (size_t times = 1 + rng_below(r, 4); times && *n; times--) {
    size_t at = rng_below(r, *n);
    size_t kind = rng_below(r, 4);
    if (kind == 0) {
      p[at] = bytes[rng_below(r, sizeof bytes)];
    } else if (kind == 1) {
      memmove(p + at, p + at + 1, --*n - at);
    } else if (kind == 2 && *n < cap) {
      memmove(p + at + 1, p + at, (*n)++ - at);
      p[at] = bytes[rng_below(r, sizeof bytes)];
    } else {
      p[at] = p[rng_below(r, *n)];
    }
  }
}

/* The text in memory of its own size, so that a sanitizer sees any step past it. */
static void compare_exactly(const char *p, size_t n, size_t round) {
  char *exact = malloc(n ? n : 1);
  if (n) memcpy(exact, p, n);
  const char *problem = disagreement((mt_slice){exact, n});
  if (problem) {
    fprintf(stderr, "round %zu: %.*s\n", round, (int)n, p);
    fail_msg("%s", problem);
  }
  free(exact);
}

static void random_text_is_read_as_jansson_does(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_buf text;
  mt_buf_init(&text, 1 << 20);
  size_t valid = 0, rounds = property_rounds(20000);
  for (size_t round = 0; round < rounds; round++) {
    mt_buf_clear(&text);
    random_space(&r, &text);
    random_json(&r, &text, 5, rng_chance(&r, 70));
    random_space(&r, &text);
    assert_true(accepts(mt_buf_slice(&text)));
    compare_exactly(text.p, text.n, round);
    char changed[4096];
    size_t n = text.n < sizeof changed ? text.n : sizeof changed;
    memcpy(changed, text.p, n);
    mutate(&r, changed, &n, sizeof changed);
    compare_exactly(changed, n, round);
    mt_json root;
    valid += mt_json_parse((mt_slice){changed, n}, "it", &root, NULL) == MORTISE_OK;
  }
  /* Both outcomes must occur, or the mutations test nothing. */
  assert_in_range(valid, rounds / 50, rounds - rounds / 50);
  mt_buf_deinit(&text);
}

/* Steps through text as if it had been validated: nonsense is fine, reading past its end is not. */
static void walk(mt_json value, int depth) {
  char copy[16];
  int64_t i;
  double d;
  mt_json_int(value, &i);
  mt_json_double(value, &d);
  mt_json_copy(value, copy, sizeof copy);
  for (mt_json_iter it = mt_json_items(value); depth && mt_json_next(&it);) {
    mt_json_key_is(it.key, MT_SLICE("name"));
    if (it.value.raw.n >= 2) walk(it.value, depth - 1);
  }
}

static void broken_text_is_not_read_past_its_end(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_buf text;
  mt_buf_init(&text, 1 << 20);
  for (size_t round = 0; round < property_rounds(5000); round++) {
    mt_buf_clear(&text);
    random_object(&r, &text, 4);
    size_t n = 2 + rng_below(&r, text.n - 1);
    char *exact = malloc(n);
    memcpy(exact, text.p, n);
    mutate(&r, exact, &n, n);
    if (n >= 2) walk((mt_json){MT_JSON_OBJECT, {exact, n}}, 8);
    free(exact);
  }
  mt_buf_deinit(&text);
}

/* ---- where a container ends ---- */

static void both_ways_to_read_a_block_agree(void **state) {
  (void)state;
  rng r = {property_seed()};
  for (size_t round = 0; round < property_rounds(5000); round++) {
    char bytes[MT_SCAN_BLOCK];
    for (size_t i = 0; i < sizeof bytes; i++)
      bytes[i] =
          rng_chance(&r, 50) ? "{}[]\"\\;\x7f"[rng_below(&r, 8)] : (char)(rng_next(&r) & 0xff);
    mt_scan_masks fast = mt_scan_block(bytes), plain = mt_scan_block_plain(bytes);
    assert_memory_equal(&fast, &plain, sizeof fast);
  }
}

/* Brackets of either kind, between them strings with brackets, quotes and runs of backslashes. */
static void random_brackets(rng *r, mt_buf *out) {
  size_t depth = 0;
  do {
    if (rng_chance(r, 30)) {
      mt_buf_addc(out, '"');
      for (size_t n = rng_below(r, 80); n; n--) {
        const char *parts[] = {"\\\\", "\\\"", "{", "}", "]", "x", "\\n", ","};
        mt_buf_adds(out, parts[rng_chance(r, 50) ? 0 : rng_below(r, 8)]);
      }
      mt_buf_addc(out, '"');
    } else if (!depth || (out->n < 500 && rng_chance(r, 50))) {
      mt_buf_addc(out, rng_chance(r, 50) ? '{' : '[');
      depth++;
    } else {
      mt_buf_addc(out, rng_chance(r, 50) ? '}' : ']');
      depth--;
    }
  } while (depth);
}

static size_t end_byte_by_byte(const char *p, size_t n) {
  size_t depth = 0;
  bool string = false;
  for (size_t i = 0; i < n; i++) {
    if (string && p[i] == '\\')
      i++;
    else if (p[i] == '"')
      string = !string;
    else if (!string && (p[i] == '{' || p[i] == '['))
      depth++;
    else if (!string && (p[i] == '}' || p[i] == ']') && !--depth)
      return i + 1;
  }
  return n;
}

static void a_container_ends_at_its_own_bracket(void **state) {
  (void)state;
  rng r = {property_seed()};
  mt_buf text;
  mt_buf_init(&text, 1 << 20);
  for (size_t round = 0; round < property_rounds(5000); round++) {
    mt_buf_clear(&text);
    mt_buf_addc(&text, '[');
    random_brackets(&r, &text);
    mt_buf_adds(&text, "]]{\"}");
    size_t n = 1 + rng_below(&r, text.n);
    char *exact = malloc(n);
    assert_non_null(exact);
    memcpy(exact, text.p, n);
    assert_int_equal(mt_scan_container(exact, exact + n) - exact, end_byte_by_byte(exact, n));
    free(exact);
  }
  mt_buf_deinit(&text);
}

static void utf8_is_as_the_rfc_has_it(void **state) {
  (void)state;
  /* Every code point's encoding by the rule, and no other sequence of one to three bytes. */
  size_t valid = 0;
  for (unsigned first = 0; first < 256; first++)
    for (unsigned second = 0; second < 256; second++)
      for (unsigned third = 0; third < 256; third++) {
        char bytes[3] = {(char)first, (char)second, (char)third};
        valid += mt_utf8_char(bytes, 3) == 3;
      }
  assert_int_equal(valid, 0x10000 - 0x800 - 0x800); /* no surrogates, none that fit two bytes */
  for (unsigned code = 0; code < 0x110000; code++) {
    char text[32], bytes[8];
    if (code >= 0xD800 && code < 0xE000) continue;
    unsigned high = 0xD800 + ((code - 0x10000) >> 10), low = 0xDC00 + (code & 0x3FF);
    snprintf(text, sizeof text, code < 0x10000 ? "\"\\u%04x\"" : "\"\\u%04x\\u%04x\"",
             code < 0x10000 ? code : high, low);
    mt_json value = {MT_JSON_STRING, mt_slice_of(text)};
    mt_json_copy(value, bytes, sizeof bytes);
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    assert_int_equal(mt_utf8_char(bytes, n), n);
    assert_int_equal(mt_utf8_char(bytes, n - 1 ? n - 1 : 1), n - 1 ? 0 : 1);
  }
  assert_int_equal(mt_utf8_char("\xC0\x80", 2), 0);
  assert_int_equal(mt_utf8_char("\xF4\x90\x80\x80", 4), 0);
  assert_int_equal(mt_utf8_char("\xF0\x8F\xBF\xBF", 4), 0);
  assert_int_equal(mt_utf8_valid(MT_SLICE("a\xC3\xA9\xFFz")), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(valid_text_is_accepted),
      cmocka_unit_test(invalid_text_is_refused),
      cmocka_unit_test(every_control_is_refused_in_strings),
      cmocka_unit_test(every_prefix_is_refused),
      cmocka_unit_test(the_error_says_where),
      cmocka_unit_test(depth_is_bounded),
      cmocka_unit_test(the_root_has_no_space_around),
      cmocka_unit_test(items_come_in_order),
      cmocka_unit_test(what_is_no_container_has_no_items),
      cmocka_unit_test(members_are_found_by_decoded_name),
      cmocka_unit_test(at_goes_down_through_objects),
      cmocka_unit_test(integers_are_exact),
      cmocka_unit_test(doubles_know_no_locale),
      cmocka_unit_test(booleans),
      cmocka_unit_test(strings_are_decoded),
      cmocka_unit_test(copies_are_cut_between_characters),
      cmocka_unit_test(strings_are_escaped_as_little_as_may_be),
      cmocka_unit_test(keys_bring_their_comma),
      cmocka_unit_test(any_bytes_come_back),
      cmocka_unit_test(random_text_is_read_as_jansson_does),
      cmocka_unit_test(broken_text_is_not_read_past_its_end),
      cmocka_unit_test(both_ways_to_read_a_block_agree),
      cmocka_unit_test(a_container_ends_at_its_own_bracket),
      cmocka_unit_test(utf8_is_as_the_rfc_has_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
