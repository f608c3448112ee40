/* Lists of transforms, applied one document at a time (transform/transform.h):
 *   transformer(json) -> transformer      of a list as JSON text; raises invalid_argument
 *   :apply(text) -> "change", text, or "keep", or "reject", the reason      of a document's source */
#include "bindings/lua_transform.h"

#include "bindings/lua_buf.h"
#include "bindings/lua_error.h"
#include "bindings/lua_text.h"

#include "transform/transform.h"

static const char transformer_name[] = "mortise.transformer";

enum { TRANSFORMED_MAX = 256 << 20 };

static int collect_transformer(lua_State *L) {
  mt_transforms_deinit(lua_touserdata(L, 1));
  return 0;
}

static int core_transformer(lua_State *L) {
  mt_slice json = mt_check_slice(L, 1);
  mortise_error err;
  mt_transforms *list = lua_newuserdatauv(L, sizeof *list, 0);
  *list = (mt_transforms){0};
  luaL_setmetatable(L, transformer_name);
  if (mt_transforms_parse(list, json, &err)) mt_error_raise(L, &err);
  return 1;
}

static int transformer_apply(lua_State *L) {
  const mt_transforms *list = luaL_checkudata(L, 1, transformer_name);
  mt_slice source = mt_check_slice(L, 2);
  mortise_error err;
  mt_buf *out = mt_buf_push(L, TRANSFORMED_MAX);
  mt_transformed how = mt_transforms_apply(list, source, out, &err);
  if (how == MT_STOP) mt_error_raise(L, &err);
  mt_buf_check(L, out, "a changed document");
  if (how == MT_UNCHANGED) {
    lua_pushliteral(L, "keep");
    return 1;
  }
  lua_pushstring(L, how == MT_CHANGED ? "change" : "reject");
  if (how == MT_CHANGED)
    lua_pushlstring(L, out->p, out->n);
  else
    lua_pushstring(L, err.message);
  return 2;
}

const luaL_Reg mt_transformer_functions[] = {{"transformer", core_transformer}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"apply", transformer_apply}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", collect_transformer}, {NULL, NULL}};
const mt_lua_class mt_transformer_class = {transformer_name, methods, metamethods, NULL, NULL};
