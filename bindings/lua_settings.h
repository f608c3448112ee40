/* Files of settings, for the module. */
#ifndef MT_LUA_SETTINGS_H
#define MT_LUA_SETTINGS_H

#include "bindings/bindings.h"

MT_LJMP int mt_settings_open(lua_State *L); /* adds read_file, ... to the table on the stack */

#endif
