/* Files of settings and secrets. */
#ifndef MT_LUA_SETTINGS_H
#define MT_LUA_SETTINGS_H

#include "bindings/bindings.h"

extern const luaL_Reg mt_settings_functions[]; /* of the module */

#endif
