/* Lua's patterns, with each step of the search counted on the budget: nested repetitions take as long as it lasts. */
#ifndef MT_SANDBOX_PATTERN_H
#define MT_SANDBOX_PATTERN_H

#include "bindings/bindings.h"

extern const luaL_Reg mt_pattern_functions[]; /* find, match, gmatch, gsub */

#endif
