/* The module `cjson`. */
#ifndef MT_LUA_CJSON_H
#define MT_LUA_CJSON_H

#include "bindings/bindings.h"

/* Preloads `cjson`, made independent of the locale (lua_cjson.c). */
MT_LJMP void mt_cjson_preload(lua_State *L);

#endif
