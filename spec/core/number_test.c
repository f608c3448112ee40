/* Numbers and letters under locales in which the C library writes a comma for the point, knows
 * letters above ASCII, and has another small letter for "I". */
#include "base/number.h"

#include "property.h"

#include "locales.h"

#include <ctype.h>
#include <float.h>
#include <math.h>

/* ---- doubles ---- */

static double of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static bool same(double a, double b) {
  return memcmp(&a, &b, sizeof a) == 0; /* tells -0.0 from 0.0 */
}

/* The digits of a text without its sign, point, exponent, and zeros that only place the point. */
static size_t significant(const char *text, char *digits) {
  size_t n = 0;
  for (; *text && *text != 'e'; text++)
    if (*text >= '0' && *text <= '9' && (n || *text != '0')) digits[n++] = *text;
  while (n && digits[n - 1] == '0') n--;
  digits[n] = '\0';
  return n;
}

/* A value in decimal, all its digits; and those of its neighbours of `n` digits, the value cut and
 * the next above. No other text of that length can be as near. */
typedef struct cut {
  unsigned long long digits; /* of the one below */
  double below, above;
  int half; /* < 0: the one below is nearer, > 0: the one above */
} cut;

static cut cut_to(double value, size_t n) {
  enum { ALL = 1100 };
  static char exact[ALL + 32], half[ALL];
  char text[64];
  cut c = {0};
  assert_true(snprintf(exact, sizeof exact, "%.*e", ALL, value) > ALL);
  long exponent = strtol(strchr(exact, 'e') + 1, NULL, 10) - (long)n + 1;
  memmove(exact + 1, exact + 2, ALL); /* the point goes */
  for (size_t i = 0; i < n; i++) c.digits = c.digits * 10 + (unsigned long long)(exact[i] - '0');
  snprintf(text, sizeof text, "%llue%ld", c.digits, exponent);
  c.below = strtod(text, NULL);
  snprintf(text, sizeof text, "%llue%ld", c.digits + 1, exponent);
  c.above = strtod(text, NULL);
  memset(half, '0', sizeof half);
  half[0] = '5';
  c.half = memcmp(exact + n, half, ALL - n);
  return c;
}

static void is_shortest(double value, const char *text) {
  char digits[32];
  size_t n = significant(text, digits);
  value = fabs(value);
  if (!n) return; /* zero */
  if (n > 1) {
    cut shorter = cut_to(value, n - 1);
    if (same(shorter.below, value) || same(shorter.above, value))
      fail_msg("%s: %zu digits are enough", text, n - 1);
  }
  cut c = cut_to(value, n);
  unsigned long long nearer = c.digits + (c.half > 0);
  while (nearer % 10 == 0) nearer /= 10; /* 9 and one above is 10, of one digit too */
  if (same(c.below, value) && same(c.above, value) && c.half &&
      strtoull(digits, NULL, 10) != nearer)
    fail_msg("%s: %llu is nearer", text, nearer);
}

static void round_trips(double value, const char *locale) {
  char text[MT_NUMBER_TEXT];
  double back = 0;
  use_locale(locale);
  size_t n = mt_number_text(value, text);
  if (n != strlen(text) || n >= MT_NUMBER_TEXT || strspn(text, "-+.e0123456789") != n)
    fail_msg("%a is written \"%s\" under %s", value, text, locale);
  if (!strpbrk(text, ".e")) fail_msg("%s would be read as an integer", text);
  if (!mt_number_read((mt_slice){text, n}, &back) || !same(back, value))
    fail_msg("%a is written \"%s\" and read as %a under %s", value, text, back, locale);
  setlocale(LC_ALL, "C");
  is_shortest(value, text);
}

static void doubles_are_written_shortest_and_read_back(void **state) {
  (void)state;
  rng r = {property_seed()};
  for (size_t l = 0; l < TEST_LOCALES; l++) {
    for (size_t i = property_rounds(2000); i; i--) {
      double any = of_bits(rng_next(&r));
      if (isfinite(any)) round_trips(any, test_locales[l]);
      round_trips((double)(int64_t)rng_next(&r) / 1e6, test_locales[l]);
      round_trips((double)rng_below(&r, 100000) / 1000, test_locales[l]);
      double subnormal = of_bits(rng_next(&r) >> (12 + rng_below(&r, 52)));
      round_trips(subnormal, test_locales[l]);
    }
  }
}

static void doubles_beside_powers_are_written_shortest(void **state) {
  (void)state;
  for (int e = -1074; e < 1024; e++) {
    double power = ldexp(1, e);
    round_trips(power, "de_DE.UTF-8");
    round_trips(-nextafter(power, 0), "de_DE.UTF-8");
    round_trips(nextafter(power, INFINITY), "de_DE.UTF-8");
  }
  for (int e = -323; e < 309; e++) {
    char text[16];
    snprintf(text, sizeof text, "1e%d", e);
    round_trips(strtod(text, NULL), "de_DE.UTF-8");
  }
}

static void doubles_by_hand(void **state) {
  (void)state;
  static const struct {
    double value;
    const char *text;
  } rows[] = {
      {0, "0.0"},
      {-0.0, "-0.0"},
      {1.5, "1.5"},
      {5, "5.0"},
      {-2.25, "-2.25"},
      {0.1, "0.1"},
      {1e15, "1e+15"},
      {123456789012345, "123456789012345.0"},
      {9007199254740993.0, "9007199254740992.0"},
      {5e-324, "5e-324"},
      {5.684341886080802e-14, "5.684341886080802e-14"},
      {DBL_MAX, "1.7976931348623157e+308"},
      {DBL_MIN, "2.2250738585072014e-308"},
      {INFINITY, ""},
      {-INFINITY, ""},
      {NAN, ""},
  };
  for (size_t l = 0; l < TEST_LOCALES; l++) {
    use_locale(test_locales[l]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
      char text[MT_NUMBER_TEXT];
      assert_int_equal(mt_number_text(rows[i].value, text), strlen(rows[i].text));
      assert_string_equal(text, rows[i].text);
    }
  }
}

static void what_is_read(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double value; /* 42: none */
  } rows[] = {
      {"1.5", 1.5},  {"-1.5e1", -15}, {"1.", 1},     {"007", 7},    {"1E+2", 100}, {"-0", -0.0},
      {"1e-999", 0}, {"", 42},        {"-", 42},     {"1,5", 42},   {".5", 42},    {"+1", 42},
      {" 1", 42},    {"1 ", 42},      {"0x10", 42},  {"1e", 42},    {"1e+", 42},   {"inf", 42},
      {"nan", 42},   {"1e999", 42},   {"1.5.5", 42}, {"1e5.5", 42}, {"1_000", 42}, {"--1", 42},
  };
  for (size_t l = 0; l < TEST_LOCALES; l++) {
    use_locale(test_locales[l]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
      double value = 42;
      bool is = mt_number_read(mt_slice_of(rows[i].text), &value);
      if (is != !same(rows[i].value, 42) || !same(value, rows[i].value))
        fail_msg("\"%s\" is read as %a", rows[i].text, value);
    }
    assert_true(localeconv()->decimal_point[0] == (l ? ',' : '.')); /* still the caller's */
  }
}

static bool no_memory(void *ctx, size_t size) {
  (void)ctx;
  (void)size;
  return false;
}

static void a_long_number_needs_memory(void **state) {
  (void)state;
  char text[301];
  double value = 42;
  memset(text, '1', sizeof text);
  assert_true(mt_number_read((mt_slice){text, 300}, &value) && value > 1e299 && value < 1.2e299);
  mt_mem_hook(no_memory, NULL);
  assert_false(mt_number_read((mt_slice){text, 300}, &value));
  assert_true(mt_number_read((mt_slice){text, 63}, &value));
  mt_mem_hook(NULL, NULL);
}

/* ---- letters ---- */

static void letters_are_those_of_ascii(void **state) {
  (void)state;
  for (size_t l = 0; l < TEST_LOCALES; l++) {
    use_locale(test_locales[l]);
    for (int c = 0; c < 256; c++) {
      int want = c >= 'A' && c <= 'Z' ? c + 32 : c;
      assert_int_equal((unsigned char)mt_lower((char)c), want);
    }
    assert_true(mt_slice_like(MT_SLICE("CONTENT-Disposition:"), MT_SLICE("Content-DISPOSITION:")));
    assert_false(mt_slice_like(MT_SLICE("I"), MT_SLICE("\xFD")));
    assert_false(mt_slice_like(MT_SLICE("\xC4"), MT_SLICE("\xE4")));
    assert_false(mt_slice_like(MT_SLICE("a"), MT_SLICE("ab")));
    assert_true(mt_slice_like((mt_slice){0}, MT_SLICE("")));
  }
}

/* The tests above would prove nothing if the locales were missing. */
static void times_and_sizes_are_whole_numbers_of_a_unit(void **state) {
  (void)state;
  static const struct {
    int64_t value;
    const char *text;
  } times[] = {{0, "0s"},     {1, "1ms"},     {1500, "1500ms"}, {30000, "30s"},
               {60000, "1m"}, {90000, "90s"}, {3600000, "1h"},  {31622400000, "366d"}},
    sizes[] = {{0, "0"}, {1023, "1023"}, {1024, "1KiB"}, {64 << 20, "64MiB"}, {3LL << 30, "3GiB"}};
  char text[MT_NUMBER_TEXT];
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    mt_time_text(times[i].value, text);
    assert_string_equal(text, times[i].text);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    mt_size_text(sizes[i].value, text);
    assert_string_equal(text, sizes[i].text);
  }
}

static void the_locales_do_what_they_are_for(void **state) {
  (void)state;
  char text[16];
  use_locale("de_DE.UTF-8");
  snprintf(text, sizeof text, "%g", 1.5);
  assert_string_equal(text, "1,5");
  use_locale("tr_TR.ISO-8859-9");
  assert_int_equal(tolower('I'), 0xFD);
  use_locale("de_DE.ISO-8859-1");
  assert_true(isalpha(0xE4));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_locales_do_what_they_are_for),
      cmocka_unit_test(doubles_are_written_shortest_and_read_back),
      cmocka_unit_test(doubles_beside_powers_are_written_shortest),
      cmocka_unit_test(doubles_by_hand),
      cmocka_unit_test(what_is_read),
      cmocka_unit_test(a_long_number_needs_memory),
      cmocka_unit_test(letters_are_those_of_ascii),
      cmocka_unit_test(times_and_sizes_are_whole_numbers_of_a_unit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
