/* Assignments to a document's fields: a sequence name, text, name, text ... in the document's
 * second user value; a removal has false as its text. No name in it is inside another: assigning
 * inside an assigned object changes that object's text, and assigning an object drops what was
 * assigned inside it. */
#include "bindings/lua_patch.h"

#include "bindings/lua_buf.h"
#include "bindings/lua_class.h"
#include "bindings/lua_error.h"

#include "base/json_edit.h"

/* Pushes name and text (false for a removal) of patch `i`, counted from 0; returns the name. */
static mt_slice push_patch(lua_State *L, int patches, size_t i) {
  lua_rawgeti(L, patches, (lua_Integer)(2 * i + 1));
  lua_rawgeti(L, patches, (lua_Integer)(2 * i + 2));
  return mt_slice_at(L, -2);
}

/* "a.b" is inside "a", unless the document has a literal key "a.b" beside "a". */
static bool is_inside_field(const mt_view *root, mt_slice inner, mt_slice outer) {
  if (inner.n <= outer.n || !mt_slice_starts(inner, outer) || inner.p[outer.n] != '.') return false;
  mt_json in = mt_json_find(root->value, inner), out = mt_json_find(root->value, outer);
  if (!in.type || !out.type) return true;
  return in.raw.p >= out.raw.p && in.raw.p < out.raw.p + out.raw.n;
}

static mt_slice rest_of(mt_slice inner, mt_slice outer) {
  return (mt_slice){inner.p + outer.n + 1, inner.n - outer.n - 1};
}

static mt_json parse_own(lua_State *L, mt_slice text) {
  mt_json value = {MT_JSON_NONE, {NULL, 0}};
  mortise_error err;
  if (text.p && mt_json_parse(text, "the field", &value, &err)) mt_error_raise(L, &err);
  return value;
}

/* The value of an object that exists only because fields inside it were assigned. */
static const mt_json empty_object = {MT_JSON_OBJECT, {"{}", 2}};

bool mt_patch_find(lua_State *L, const mt_view *root, int at, mt_slice name, mt_json *value) {
  if (!root->patches) return false;
  lua_getiuservalue(L, at, 2);
  int patches = lua_gettop(L);
  bool parts = false;
  for (size_t i = 0; i < root->patches; i++, lua_settop(L, patches)) {
    mt_slice own = push_patch(L, patches, i);
    bool same = mt_slice_eq(own, name);
    parts = parts || (lua_isstring(L, -1) && is_inside_field(root, own, name));
    if (!same && !is_inside_field(root, name, own)) continue;
    *value = parse_own(L, mt_slice_at(L, -1));
    if (!same) *value = mt_json_find(*value, rest_of(name, own));
    lua_replace(L, patches);
    lua_settop(L, patches);
    return true;
  }
  lua_pop(L, 1);
  if (!parts || mt_json_find(root->value, name).type) return false;
  *value = empty_object;
  lua_pushnil(L);
  return true;
}

static _Noreturn void changed_meanwhile(lua_State *L) {
  luaL_error(L, "the document was changed by a finalizer while it was being changed");
  __builtin_unreachable();
}

static void remove_patch(lua_State *L, mt_view *root, int patches, size_t i) {
  root->patches--;
  for (lua_Integer k = (lua_Integer)(2 * i + 1); k <= (lua_Integer)(2 * root->patches + 2); k++) {
    lua_rawgeti(L, patches, k + 2);
    lua_rawseti(L, patches, k);
  }
}

/* Changes the text of patch `i`, whose object contains `name`. */
static void set_inside(lua_State *L, mt_view *root, int patches, size_t i, mt_slice name,
                       mt_slice text) {
  size_t edits = root->edits;
  mt_slice own = push_patch(L, patches, i);
  mt_json object = lua_isstring(L, -1) ? parse_own(L, mt_slice_at(L, -1)) : empty_object;
  if (!text.p && !lua_isstring(L, -1)) return; /* already removed with everything in it */
  mt_json_edit edit = {rest_of(name, own), text};
  mt_buf *out = mt_buf_push(L, MT_VIEW_TEXT_MAX);
  mortise_error err;
  if (mt_json_apply(object, &edit, 1, out, &err)) mt_error_raise(L, &err);
  lua_pushlstring(L, out->p, out->n);
  if (root->edits++ != edits) changed_meanwhile(L);
  lua_rawseti(L, patches, (lua_Integer)(2 * i + 2));
}

/* Appends a patch; its text, or false, is at index `text`. */
static void append_patch(lua_State *L, mt_view *root, int patches, int name, int text) {
  lua_Integer at = (lua_Integer)(2 * root->patches);
  lua_pushvalue(L, text);
  lua_rawseti(L, patches, at + 2);
  lua_pushvalue(L, name);
  lua_rawseti(L, patches, at + 1);
  root->patches++;
}

/* Pushes the sequence of patches, made if there is none. */
static void push_patches(lua_State *L, int at) {
  lua_newtable(L);
  if (lua_getiuservalue(L, at, 2) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, at, 2);
  } else {
    lua_replace(L, -2);
  }
}

/* An assignment that the document cannot take must fail now, not when it is written. */
static void try_out(lua_State *L, const mt_view *root, mt_slice name, mt_slice text) {
  mt_json_edit edit = {name, text};
  mt_buf *out = mt_buf_push(L, MT_VIEW_TEXT_MAX);
  mortise_error err;
  if (mt_json_apply(root->value, &edit, 1, out, &err)) mt_error_raise(L, &err);
  lua_pop(L, 1);
}

void mt_patch_set(lua_State *L, mt_view *root, int at, int name, mt_slice text) {
  mt_slice field = mt_slice_at(L, name);
  mt_json now = mt_json_find(root->value, field);
  bool changes = text.p ? !mt_slice_eq(now.raw, text) : now.type != MT_JSON_NONE;
  if (text.p)
    lua_pushlstring(L, text.p, text.n);
  else
    lua_pushboolean(L, false);
  push_patches(L, at);
  int patches = lua_gettop(L);
  for (size_t i = 0; i < root->patches; i++, lua_settop(L, patches))
    if (is_inside_field(root, field, push_patch(L, patches, i))) {
      set_inside(L, root, patches, i, field, text);
      return;
    }
  size_t edits = root->edits;
  if (changes && text.p && !now.type) try_out(L, root, field, text);
  if (root->edits++ != edits) changed_meanwhile(L);
  for (size_t i = root->patches; i-- > 0; lua_settop(L, patches)) {
    mt_slice own = push_patch(L, patches, i);
    if (mt_slice_eq(own, field) || is_inside_field(root, own, field))
      remove_patch(L, root, patches, i);
  }
  if (changes) append_patch(L, root, patches, name, patches - 1);
}

mt_json mt_patch_apply(lua_State *L, const mt_view *root, int at) {
  if (!root->patches) {
    lua_pushvalue(L, at);
    return root->value;
  }
  lua_getiuservalue(L, at, 2);
  int patches = lua_gettop(L);
  size_t n = root->patches;
  mt_json_edit *edits = lua_newuserdatauv(L, n * sizeof *edits, 0);
  mt_buf *out = mt_buf_push(L, MT_VIEW_TEXT_MAX);
  if (root->patches < n) n = root->patches; /* a finalizer may have removed some */
  for (size_t i = 0; i < n; i++) {
    mt_slice own = push_patch(L, patches, i); /* the sequence keeps both strings */
    edits[i] = (mt_json_edit){own, lua_isstring(L, -1) ? mt_slice_at(L, -1) : (mt_slice){NULL, 0}};
    lua_pop(L, 2);
  }
  mortise_error err;
  if (mt_json_apply(root->value, edits, n, out, &err)) mt_error_raise(L, &err);
  lua_replace(L, patches);
  lua_settop(L, patches);
  return (mt_json){MT_JSON_OBJECT, mt_buf_slice(out)};
}

void mt_patch_list(lua_State *L, const mt_view *root, int at) {
  int list = lua_gettop(L);
  if (!root->patches) return;
  lua_getiuservalue(L, at, 2);
  int patches = lua_gettop(L);
  for (size_t i = 0; i < root->patches; i++) {
    push_patch(L, patches, i);
    lua_rawset(L, list);
  }
  lua_settop(L, list);
}
