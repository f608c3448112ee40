#include "bindings/lua_buf.h"

#include "bindings/driver.h"
#include "bindings/lua_class.h"
#include "bindings/lua_error.h"

typedef struct buffer {
  mt_owned owned;
  mt_buf buf;
} buffer;

static void end_buffer(mt_owned *owned) {
  mt_buf_deinit(&MT_CONTAINER(owned, buffer, owned)->buf);
}

static int collect_buffer(lua_State *L) {
  mt_owned_end(&((buffer *)lua_touserdata(L, 1))->owned);
  return 0;
}

/* What the buffers of a state apart have, of which its allocator does not know; all that it owns are buffers. */
static size_t held_apart(const mt_apart *apart) {
  size_t held = 0;
  for (mt_owned *each = apart->owned; each; each = each->next) held += MT_CONTAINER(each, buffer, owned)->buf.cap;
  return held;
}

/* -> the most that a buffer may have there */
static size_t room_apart(lua_State *L, mt_apart *apart, size_t max) {
  enum { COLLECT_AT = 1 << 20 };
  size_t held = held_apart(apart);
  if (held > COLLECT_AT) {
    apart->collect(L, held);
    held = held_apart(apart);
  }
  size_t room = apart->room(apart->ctx);
  room = room > held ? room - held : 0;
  return max < room ? max : room;
}

mt_buf *mt_buf_push(lua_State *L, size_t max) {
  static const luaL_Reg metamethods[] = {{"__gc", collect_buffer}, {NULL, NULL}};
  mt_apart *apart = mt_apart_of(L);
  mt_driver *d = apart ? NULL : mt_driver_get(L);
  if (apart) max = room_apart(L, apart, max);
  buffer *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->owned.slot = NULL;
  mt_buf_init(&b->buf, max);
  mt_class(L, "mortise.buffer", metamethods);
  lua_setmetatable(L, -2);
  if (apart)
    mt_own_apart(apart, &b->owned, end_buffer);
  else
    mt_own(d, &b->owned, end_buffer);
  return &b->buf;
}

void mt_buf_check(lua_State *L, const mt_buf *b, const char *what) {
  mortise_error err;
  if (mt_buf_status(b, what, &err)) mt_error_raise(L, &err);
}
