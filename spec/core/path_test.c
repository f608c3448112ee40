#include "lock/path.h"

#include "property.h"

/* ---- the rules ---- */

static void valid_paths_pass(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"/", "/"},       {"/a", "/a"},           {"/a/", "/a"},    {"/a/b/c", "/a/b/c"},
      {"/...", "/..."}, {"/.a/..b", "/.a/..b"}, {"/ /%", "/ /%"}, {"/\xC3\xA9/~", "/\xC3\xA9/~"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    mt_slice in = mt_slice_of(rows[i][0]), out;
    assert_int_equal(mt_path_check(in, &out, NULL), MORTISE_OK);
    assert_true(mt_slice_eq(out, mt_slice_of(rows[i][1])));
    assert_ptr_equal(out.p, in.p);
  }
}

static void refused(mt_slice path, const char *rule) {
  mortise_error err;
  mt_slice out;
  assert_int_equal(mt_path_check(path, &out, &err), MORTISE_INVALID_ARGUMENT);
  if (!strstr(err.message, rule)) fail_msg("\"%s\" does not say \"%s\"", err.message, rule);
}

static void segment_is(mt_slice in, const char *want) {
  mt_buf b;
  mt_buf_init(&b, 1000);
  mt_path_add_segment(&b, in);
  assert_string_equal(b.p, want);
  mt_buf_deinit(&b);
}

static void invalid_paths_say_the_rule(void **state) {
  (void)state;
  refused(MT_SLICE(""), "in front");
  refused((mt_slice){NULL, 0}, "in front");
  refused(MT_SLICE("a/b"), "in front");
  refused(MT_SLICE("//"), "empty segment at byte 1");
  refused(MT_SLICE("/a//b"), "empty segment at byte 3");
  refused(MT_SLICE("/a//"), "empty segment at byte 3");
  refused(MT_SLICE("/."), "\".\" segment at byte 1");
  refused(MT_SLICE("/a/../b"), "\"..\" segment at byte 3");
  refused(MT_SLICE("/a/./"), "\".\" segment at byte 3");
  refused(MT_SLICE("/a\0b"), "NUL at byte 2");
  refused(MT_SLICE("/a\xFF"), "UTF-8 at byte 2");
  refused(MT_SLICE("/\xED\xA0\x80"), "UTF-8 at byte 1");
  refused(MT_SLICE("/a\xC3"), "UTF-8 at byte 2");
}

/* With their neighbours, which are characters like others. */
static void what_commands_is_refused_and_escaped(void **state) {
  (void)state;
  static const struct {
    const char *text, *escaped; /* NULL: as it is */
  } rows[] = {{"\x01", "%01"},
              {"\n", "%0A"},
              {"\x1B", "%1B"},
              {"\x1F", "%1F"},
              {" ", NULL},
              {"~", NULL},
              {"\x7F", "%7F"},
              {"\xC2\x80", "%C2%80"},
              {"\xC2\x9F", "%C2%9F"},
              {"\xC2\xA0", NULL},
              {"\xD8\x9B", NULL},
              {"\xD8\x9C", "%D8%9C"},
              {"\xE2\x80\x8D", NULL},
              {"\xE2\x80\x8E", "%E2%80%8E"},
              {"\xE2\x80\x8F", "%E2%80%8F"},
              {"\xE2\x80\x90", NULL},
              {"\xE2\x80\xA7", NULL},
              {"\xE2\x80\xA8", "%E2%80%A8"},
              {"\xE2\x80\xAE", "%E2%80%AE"},
              {"\xE2\x80\xAF", NULL},
              {"\xE2\x81\xA5", NULL},
              {"\xE2\x81\xA6", "%E2%81%A6"},
              {"\xE2\x81\xA9", "%E2%81%A9"},
              {"\xE2\x81\xAA", NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char path[32];
    mt_slice out;
    snprintf(path, sizeof path, "/a/b%sc", rows[i].text);
    assert_int_equal(mt_path_check_form(mt_slice_of(path), &out, NULL), MORTISE_OK);
    if (rows[i].escaped)
      refused(mt_slice_of(path), "at byte 4");
    else
      assert_int_equal(mt_path_check(mt_slice_of(path), &out, NULL), MORTISE_OK);
    segment_is(mt_slice_of(rows[i].text), rows[i].escaped ? rows[i].escaped : rows[i].text);
  }
}

static void the_bounds_are_exact(void **state) {
  (void)state;
  static char p[MT_PATH_MAX + 2];
  mt_slice out;
  memset(p, 'x', sizeof p);
  p[0] = '/';
  assert_int_equal(mt_path_check((mt_slice){p, MT_PATH_MAX}, &out, NULL), MORTISE_OK);
  refused((mt_slice){p, MT_PATH_MAX + 1}, "4097 bytes");
  p[MT_PATH_MAX] = '/'; /* a trailing slash does not count */
  assert_int_equal(mt_path_check((mt_slice){p, MT_PATH_MAX + 1}, &out, NULL), MORTISE_OK);
  assert_int_equal(out.n, MT_PATH_MAX);
  for (size_t i = 0; i < sizeof p; i++) p[i] = i % 2 ? 'x' : '/';
  size_t deepest = 2 * (size_t)MT_PATH_DEPTH;
  assert_int_equal(mt_path_check((mt_slice){p, deepest}, &out, NULL), MORTISE_OK);
  assert_int_equal(mt_path_depth(out), MT_PATH_DEPTH);
  assert_int_equal(mt_path_check((mt_slice){p, deepest + 1}, &out, NULL), MORTISE_OK);
  refused((mt_slice){p, deepest + 2}, "128");
}

static void parents_and_ancestors(void **state) {
  (void)state;
  assert_true(mt_slice_eq(mt_path_parent(MT_SLICE("/a/b")), MT_SLICE("/a")));
  assert_true(mt_slice_eq(mt_path_parent(MT_SLICE("/a")), MT_SLICE("/")));
  assert_null(mt_path_parent(MT_SLICE("/")).p);
  assert_true(mt_path_is_ancestor(MT_SLICE("/"), MT_SLICE("/a")));
  assert_true(mt_path_is_ancestor(MT_SLICE("/a"), MT_SLICE("/a/b/c")));
  assert_false(mt_path_is_ancestor(MT_SLICE("/"), MT_SLICE("/")));
  assert_false(mt_path_is_ancestor(MT_SLICE("/a"), MT_SLICE("/a")));
  assert_false(mt_path_is_ancestor(MT_SLICE("/clinton"), MT_SLICE("/clintonville")));
  assert_false(mt_path_is_ancestor(MT_SLICE("/a/b"), MT_SLICE("/a")));
  assert_int_equal(mt_path_depth(MT_SLICE("/")), 0);
  assert_int_equal(mt_path_depth(MT_SLICE("/a")), 1);
  assert_int_equal(mt_path_depth(MT_SLICE("/a/b")), 2);
}

/* ---- segments ---- */

static void segments_escape_what_they_must(void **state) {
  (void)state;
  segment_is(MT_SLICE("plain \xC3\xA9.txt"), "plain \xC3\xA9.txt");
  segment_is(MT_SLICE("a/b%c"), "a%2Fb%25c");
  segment_is(MT_SLICE("."), "%2E");
  segment_is(MT_SLICE(".."), "%2E%2E");
  segment_is(MT_SLICE("..."), "...");
  segment_is(MT_SLICE(".a"), ".a");
  segment_is(MT_SLICE(""), "%");
  segment_is((mt_slice){NULL, 0}, "%");
  segment_is(MT_SLICE("a\0\xFF\xC3"), "a%00%FF%C3");
}

static size_t decode(mt_slice s, char *out) {
  size_t n = 0;
  if (mt_slice_eq(s, MT_SLICE("%"))) return 0;
  for (size_t i = 0; i < s.n; i++) {
    unsigned byte = (unsigned char)s.p[i];
    if (byte == '%') {
      assert_int_equal(sscanf(s.p + i + 1, "%2X", &byte), 1);
      i += 2;
    }
    out[n++] = (char)byte;
  }
  return n;
}

/* The escaping is injective because each result can be decoded. */
static void any_bytes_make_one_segment_of_their_own(void **state) {
  (void)state;
  static const char bytes[] = "/%.2EFa\xC3\xA9\xED\xA0\xF0\xFF\xE2\x80\xAE\n"; /* and its NUL */
  rng r = {property_seed()};
  mt_buf b;
  mt_buf_init(&b, 1000);
  for (size_t round = 0; round < property_rounds(100000); round++) {
    char raw[8], back[32];
    mt_slice in = {raw, rng_below(&r, sizeof raw)}, out;
    for (size_t i = 0; i < in.n; i++) raw[i] = bytes[rng_below(&r, sizeof bytes)];
    mt_buf_clear(&b);
    mt_buf_addc(&b, '/');
    mt_path_add_segment(&b, in);
    assert_int_equal(mt_path_check(mt_buf_slice(&b), &out, NULL), MORTISE_OK);
    assert_int_equal(out.n, b.n);
    assert_int_equal(mt_path_depth(out), 1);
    size_t n = decode((mt_slice){b.p + 1, b.n - 1}, back);
    assert_true(mt_slice_eq((mt_slice){back, n}, in));
  }
  mt_buf_deinit(&b);
}

/* ---- the union of ancestors ---- */

static int by_bytes(const void *a, const void *b) {
  return mt_slice_cmp(*(const mt_slice *)a, *(const mt_slice *)b);
}

static size_t sort_and_drop_doubles(mt_slice *s, size_t n) {
  size_t kept = 0;
  qsort(s, n, sizeof *s, by_bytes);
  for (size_t i = 0; i < n; i++)
    if (!kept || !mt_slice_eq(s[kept - 1], s[i])) s[kept++] = s[i];
  return kept;
}

static size_t naive_ancestors(const mt_slice *paths, size_t n, mt_slice *out) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++)
    for (mt_slice a = mt_path_parent(paths[i]); a.p; a = mt_path_parent(a)) out[found++] = a;
  return sort_and_drop_doubles(out, found);
}

static void ancestors_are(const mt_slice *paths, size_t n) {
  mt_slice *want = calloc(n * MT_PATH_DEPTH + 1, sizeof *want), *got;
  size_t n_want = naive_ancestors(paths, n, want), n_got;
  assert_int_equal(mt_path_ancestors(paths, n, &got, &n_got, NULL), MORTISE_OK);
  assert_int_equal(n_got, n_want);
  for (size_t i = 0; i < n_got; i++) assert_true(mt_slice_eq(got[i], want[i]));
  mt_free(got);
  free(want);
}

static void ancestors_by_hand(void **state) {
  (void)state;
  const mt_slice tricky[] = {MT_SLICE("/"),       MT_SLICE("/a"),     MT_SLICE("/a-/x"),
                             MT_SLICE("/a--/x"),  MT_SLICE("/a-b/x"), MT_SLICE("/a-b/y"),
                             MT_SLICE("/a/b-/c"), MT_SLICE("/a/b/c"), MT_SLICE("/a0/x")};
  size_t n = sizeof tricky / sizeof tricky[0];
  mt_slice sorted[sizeof tricky / sizeof tricky[0]];
  memcpy(sorted, tricky, sizeof tricky);
  qsort(sorted, n, sizeof *sorted, by_bytes);
  for (size_t from = 0; from <= n; from++)
    for (size_t to = from; to <= n; to++) ancestors_are(sorted + from, to - from);
}

static void disorder_is_refused(void **state) {
  (void)state;
  const mt_slice rows[][2] = {{MT_SLICE("/b"), MT_SLICE("/a")},
                              {MT_SLICE("/a/b"), MT_SLICE("/a-b")},
                              {MT_SLICE("/ab"), MT_SLICE("/a")},
                              {MT_SLICE("/\xC3\xA9"), MT_SLICE("/z")}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    mt_slice *out;
    size_t n;
    assert_int_equal(mt_path_ancestors(rows[i], 2, &out, &n, NULL), MORTISE_INVALID_ARGUMENT);
    assert_null(out);
  }
}

enum { PATHS = 60 };

/* Few names, many of them a beginning of another, with bytes on both sides of '/'. */
static size_t random_path(rng *r, char *out) {
  static const char *const names[] = {"a",  "a-", "a--", "a-b",      "a!",
                                      "a0", "ab", "b",   "\xC3\xA9", "a\x01"};
  size_t depth = rng_below(r, 7), n = 0;
  for (size_t i = 0; i < depth; i++)
    n += (size_t)sprintf(out + n, "/%s", names[rng_below(r, sizeof names / sizeof names[0])]);
  if (!n) out[n++] = '/';
  return n;
}

static void ancestors_are_those_of_the_naive_way(void **state) {
  (void)state;
  rng r = {property_seed()};
  for (size_t round = 0; round < property_rounds(5000); round++) {
    char text[PATHS][64];
    mt_slice paths[PATHS];
    size_t n = rng_below(&r, PATHS + 1);
    for (size_t i = 0; i < n; i++) paths[i] = (mt_slice){text[i], random_path(&r, text[i])};
    qsort(paths, n, sizeof *paths, by_bytes); /* doubles stay */
    ancestors_are(paths, n);
  }
}

static mortise_status try_ancestors(void *ctx) {
  mt_slice *out;
  size_t n;
  mortise_status status = mt_path_ancestors(ctx, 50, &out, &n, NULL);
  mt_free(out);
  return status;
}

static void each_failed_allocation_is_told(void **state) {
  (void)state;
  char text[50][16];
  mt_slice paths[50];
  for (size_t i = 0; i < 50; i++) {
    sprintf(text[i], "/%02zu/x/y", i);
    paths[i] = mt_slice_of(text[i]);
  }
  assert_true(each_allocation_told(try_ancestors, paths));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(valid_paths_pass),
      cmocka_unit_test(invalid_paths_say_the_rule),
      cmocka_unit_test(what_commands_is_refused_and_escaped),
      cmocka_unit_test(the_bounds_are_exact),
      cmocka_unit_test(parents_and_ancestors),
      cmocka_unit_test(segments_escape_what_they_must),
      cmocka_unit_test(any_bytes_make_one_segment_of_their_own),
      cmocka_unit_test(ancestors_by_hand),
      cmocka_unit_test(disorder_is_refused),
      cmocka_unit_test(ancestors_are_those_of_the_naive_way),
      cmocka_unit_test(each_failed_allocation_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
