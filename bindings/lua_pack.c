/* Text made small enough to be kept in a document's field, as journals are (base/pack.h). In `mortise.core`:
 *   pack(text) -> packed          text without characters that JSON escapes
 *   unpack(packed) -> text        invalid_argument if it was not made by pack, or was changed since */
#include "bindings/lua_pack.h"

#include "bindings/lua_buf.h"
#include "bindings/lua_error.h"
#include "bindings/lua_text.h"

#include "base/pack.h"

enum { PACK_MAX = 1 << 30 };

static int push_packed(lua_State *L, mortise_status status, const mortise_error *err, const mt_buf *b) {
  if (status) mt_error_raise(L, err);
  lua_pushlstring(L, b->p ? b->p : "", b->n);
  return 1;
}

static int core_pack(lua_State *L) {
  mt_slice text = mt_check_slice(L, 1);
  mt_buf *b = mt_buf_push(L, PACK_MAX);
  mt_packer *packer = NULL;
  mortise_error err;
  mortise_status status = mt_pack(&packer, text, b, &err);
  mt_packer_free(packer);
  return push_packed(L, status, &err, b);
}

static int core_unpack(lua_State *L) {
  mt_slice packed = mt_check_slice(L, 1);
  mt_buf *b = mt_buf_push(L, PACK_MAX);
  mortise_error err;
  mortise_status status = mt_unpack(packed, b, &err);
  return push_packed(L, status, &err, b);
}

const luaL_Reg mt_pack_functions[] = {{"pack", core_pack}, {"unpack", core_unpack}, {NULL, NULL}};
