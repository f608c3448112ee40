#include "store/mode.h"

static const char *const names[MT_MODES] = {"NL", "IS", "IX", "S", "SIX", "X"};

/* Row and column in the enum's order. */
static const bool compatible[MT_MODES][MT_MODES] = {
    /* NL */ {true, true, true, true, true, true},
    /* IS */ {true, true, true, true, true, false},
    /* IX */ {true, true, true, false, false, false},
    /* S */ {true, true, false, true, false, false},
    /* SIX */ {true, true, false, false, false, false},
    /* X */ {true, false, false, false, false, false},
};

const char *mt_mode_name(mt_mode mode) {
  return (unsigned)mode < MT_MODES ? names[mode] : "?";
}

bool mt_mode_parse(mt_slice name, mt_mode *out) {
  for (mt_mode m = MT_IS; m <= MT_X; m++) {
    if (!mt_slice_eq(name, mt_slice_of(names[m]))) continue;
    *out = m;
    return true;
  }
  return false;
}

bool mt_mode_compatible(mt_mode a, mt_mode b) {
  return compatible[a][b];
}

mt_mode mt_mode_join(mt_mode a, mt_mode b) {
  /* The only two modes of which neither covers the other. */
  if ((a == MT_S && b == MT_IX) || (a == MT_IX && b == MT_S)) return MT_SIX;
  return a > b ? a : b;
}

bool mt_mode_covers(mt_mode held, mt_mode want) {
  return mt_mode_join(held, want) == held;
}

mt_mode mt_mode_intention(mt_mode mode) {
  return mode == MT_S || mode == MT_IS ? MT_IS : MT_IX;
}
