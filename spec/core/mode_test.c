#include "property.h"
#include "store/mode.h"

/* The lattice of the paper, spelled as "at least as strong as". */
static bool at_least(mt_mode a, mt_mode b) {
  static const char *const below[MT_MODES] = {
      [MT_NL] = "0",  [MT_IS] = "01",     [MT_IX] = "012",
      [MT_S] = "013", [MT_SIX] = "01234", [MT_X] = "012345"};
  return strchr(below[a], '0' + (int)b) != NULL;
}

/* Each says how a hold may be used: 'r' reads all below, 'w' writes all below, 'i' reads some, 'j'
 * writes some. Two modes are compatible when no use of one conflicts with a use of the other. */
static bool uses_agree(mt_mode a, mt_mode b) {
  static const char *const uses[MT_MODES] = {"", "i", "ij", "ri", "rij", "rwij"};
  static const char *const forbids[128] = {['r'] = "jw", ['w'] = "rwij", ['i'] = "w", ['j'] = "rw"};
  for (const char *u = uses[a]; *u; u++)
    for (const char *f = forbids[(int)*u]; *f; f++)
      if (strchr(uses[b], *f)) return false;
  return true;
}

static void compatibility_is_grays_matrix(void **state) {
  (void)state;
  for (mt_mode a = MT_NL; a <= MT_X; a++)
    for (mt_mode b = MT_NL; b <= MT_X; b++) {
      assert_int_equal(mt_mode_compatible(a, b), uses_agree(a, b));
      assert_int_equal(mt_mode_compatible(a, b), mt_mode_compatible(b, a));
    }
}

static void a_stronger_mode_is_compatible_with_no_more(void **state) {
  (void)state;
  for (mt_mode a = MT_NL; a <= MT_X; a++)
    for (mt_mode b = MT_NL; b <= MT_X; b++)
      for (mt_mode c = MT_NL; c <= MT_X; c++)
        if (at_least(a, b) && mt_mode_compatible(a, c)) assert_true(mt_mode_compatible(b, c));
}

static void join_is_the_least_upper_bound(void **state) {
  (void)state;
  for (mt_mode a = MT_NL; a <= MT_X; a++)
    for (mt_mode b = MT_NL; b <= MT_X; b++) {
      mt_mode join = mt_mode_join(a, b);
      assert_true(at_least(join, a) && at_least(join, b));
      for (mt_mode c = MT_NL; c <= MT_X; c++)
        if (at_least(c, a) && at_least(c, b)) assert_true(at_least(c, join));
    }
}

static void covering_is_being_at_least_as_strong(void **state) {
  (void)state;
  for (mt_mode a = MT_NL; a <= MT_X; a++)
    for (mt_mode b = MT_NL; b <= MT_X; b++) assert_int_equal(mt_mode_covers(a, b), at_least(a, b));
}

static void a_stronger_mode_has_no_smaller_number(void **state) {
  (void)state;
  for (mt_mode a = MT_NL; a <= MT_X; a++)
    for (mt_mode b = MT_NL; b <= MT_X; b++)
      if (at_least(a, b)) assert_true(a >= b);
}

static void ancestors_take_the_intention(void **state) {
  (void)state;
  assert_int_equal(mt_mode_intention(MT_IS), MT_IS);
  assert_int_equal(mt_mode_intention(MT_S), MT_IS);
  assert_int_equal(mt_mode_intention(MT_IX), MT_IX);
  assert_int_equal(mt_mode_intention(MT_SIX), MT_IX);
  assert_int_equal(mt_mode_intention(MT_X), MT_IX);
}

static void names_are_exact(void **state) {
  (void)state;
  for (mt_mode m = MT_IS; m <= MT_X; m++) {
    mt_mode parsed = MT_NL;
    assert_true(mt_mode_parse(mt_slice_of(mt_mode_name(m)), &parsed));
    assert_int_equal(parsed, m);
  }
  static const char *const wrong[] = {"", "NL", "ix", "I", "SI", "SIXX", "X ", "shared"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    mt_mode parsed;
    assert_false(mt_mode_parse(mt_slice_of(wrong[i]), &parsed));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compatibility_is_grays_matrix),
      cmocka_unit_test(a_stronger_mode_is_compatible_with_no_more),
      cmocka_unit_test(join_is_the_least_upper_bound),
      cmocka_unit_test(covering_is_being_at_least_as_strong),
      cmocka_unit_test(a_stronger_mode_has_no_smaller_number),
      cmocka_unit_test(ancestors_take_the_intention),
      cmocka_unit_test(names_are_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
