/* require "truetime"() -> microseconds on CLOCK_MONOTONIC_RAW, which nobody sets and libskew.so
 * leaves alone: the clock of the histories. */
#include <lauxlib.h>
#include <time.h>

__attribute__((visibility("default"))) int luaopen_truetime(lua_State *L);

static int now(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  lua_pushinteger(L, (lua_Integer)t.tv_sec * 1000000 + t.tv_nsec / 1000);
  return 1;
}

int luaopen_truetime(lua_State *L) {
  lua_pushcfunction(L, now);
  return 1;
}
