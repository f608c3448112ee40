/* The five lock modes and Gray's compatibility matrix (Gray, Lorie, Putzolu, Traiger: Granularity
 * of Locks in a Shared Data Base, 1975). It is part of `store` because stores decide grants with
 * it. */
#ifndef MT_STORE_MODE_H
#define MT_STORE_MODE_H

#include "base/buf.h"

/* A stronger mode never has a smaller number; MT_NL is no lock at all. */
typedef enum mt_mode { MT_NL = 0, MT_IS, MT_IX, MT_S, MT_SIX, MT_X } mt_mode;

enum { MT_MODES = 6 };

const char *mt_mode_name(mt_mode mode);          /* "NL" "IS" "IX" "S" "SIX" "X" */
bool mt_mode_parse(mt_slice name, mt_mode *out); /* exact, not NL */
bool mt_mode_compatible(mt_mode a, mt_mode b);   /* may two sessions hold these at once? */
mt_mode mt_mode_join(mt_mode a, mt_mode b);      /* least upper bound: join(S, IX) = SIX */
bool mt_mode_covers(mt_mode held, mt_mode want); /* join(held, want) == held */
static inline bool mt_mode_is_intention(mt_mode mode) {
  return mode == MT_IS || mode == MT_IX;
}
mt_mode mt_mode_intention(mt_mode mode);         /* for the ancestors: IS of S and IS, else IX */

#endif
