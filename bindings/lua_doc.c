/* Documents as views of the raw bytes of their `_source`: only what is read is decoded, and bytes
 * that are not changed stay as they are.
 *
 * The rule of names. In a document, `doc.id` and every name that begins with `_` belong to mortise:
 *   doc.id, doc._id, doc._index, doc._routing, doc._seq_no, doc._term, doc._version     (nil if unknown; the last, of a
 *     server, only of those that were got by id)
 *   doc:_source() -> string     the JSON text with assignments; nothing if read without its source
 *   doc:_changed() -> boolean   do assignments make it differ?
 *   doc:_changes() -> table     {[name] = JSON text, or false if removed}
 *   doc:_get(name), doc:_set(name, value)   a field of any name, even `id` and `_x`
 *   doc:_table() -> table       all of it decoded (marked as by json_decode)
 * Every other name is a field: `doc.name`, `doc["a.b"]` (a literal key "a.b" first, then a path
 * through objects). The servers reserve names with `_`, so only `id` needs care.
 *   strings are Lua strings; integers of 64 bits Lua integers, other numbers floats; null is
 *   `core.null`; an absent field nil
 *   an object is a view too: doc.a.b = 1 changes the document. It has the `_` functions; its
 *   `id` is a field
 *   an array is a read-only view: #a, a[i], ipairs(a), like objects in it; assign it as a whole
 * Assigning nil removes; core.null stores null; tables go through core.json's rules. Assigning the
 * value that is there is no change. pairs(view) follows the order of the text.
 *
 * In `mortise.core`:
 *   view(json[, {id=, index=, routing=, seq_no=, term=}]) -> document over these bytes
 *   is_view(value) -> "document", "object", "array" or nil
 * A page of documents: #page, page[i], page:close(), which frees its bytes; from then on its views
 * and running iterations over them raise an error.
 *   page:keys([versions]) -> ids, routings, seq_nos, terms[, versions]     arrays, without a view of each; false where
 *       there is none */
#include "bindings/lua_doc.h"

#include "bindings/driver.h"
#include "bindings/lua_buf.h"
#include "bindings/lua_error.h"
#include "bindings/lua_json.h"
#include "bindings/lua_options.h"
#include "bindings/lua_patch.h"
#include "bindings/lua_view.h"

#include <string.h>

static const char view_name[] = "mortise.document";
static const char page_name[] = "mortise.page";

/* ---- Pages ---------------------------------------------------------------------------------- */

static void end_page(mt_owned *owned) {
  mt_page_box *box = MT_CONTAINER(owned, mt_page_box, owned);
  box->closed = true;
  mt_page_free(box->page);
  box->page = NULL;
}

static int collect_page(lua_State *L) {
  mt_owned_end(&((mt_page_box *)lua_touserdata(L, 1))->owned);
  return 0;
}

static int close_page(lua_State *L) {
  mt_page_box *box = luaL_checkudata(L, 1, page_name);
  box->closed = true;
  if (!box->pins) mt_owned_end(&box->owned);
  return 0;
}

static void unpin(mt_page_box *box) {
  if (box && !--box->pins && box->closed) mt_owned_end(&box->owned);
}

mt_page *mt_check_page(lua_State *L, int index) {
  mt_page_box *box = luaL_checkudata(L, index, page_name);
  if (box->closed) luaL_error(L, "the page is closed");
  return box->page;
}

static int page_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mt_check_page(L, 1)->n);
  return 1;
}

static int page_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TNUMBER) {
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
  }
  lua_Integer i = luaL_checkinteger(L, 2);
  const mt_page *page = mt_check_page(L, 1);
  if (i < 1 || (size_t)i > page->n)
    lua_pushnil(L);
  else
    mt_doc_push(L, 1, &page->docs[i - 1]);
  return 1;
}

static void push_key(lua_State *L, mt_slice text) {
  if (text.p)
    lua_pushlstring(L, text.p, text.n);
  else
    lua_pushboolean(L, false);
}

static void push_known(lua_State *L, bool known, uint64_t number) {
  if (known)
    lua_pushinteger(L, (lua_Integer)number);
  else
    lua_pushboolean(L, false);
}

static void push_page_keys(lua_State *L, const mt_page *page, int n) {
  for (int i = 0; i < n; i++) lua_createtable(L, (int)page->n, 0);
  for (size_t i = 0; i < page->n; i++) {
    const mt_doc *doc = &page->docs[i];
    push_key(L, doc->id);
    push_key(L, doc->routing);
    push_known(L, doc->version.term != 0, doc->version.seq_no);
    push_known(L, doc->version.term != 0, doc->version.term);
    if (n > 4) push_known(L, doc->revision != 0, doc->revision);
    for (int at = 1 + n; at >= 2; at--) lua_rawseti(L, at, (lua_Integer)i + 1);
  }
}

static int page_keys(lua_State *L) {
  mt_check_page(L, 1);
  int n = lua_toboolean(L, 2) ? 5 : 4;
  lua_settop(L, 1);
  mt_page_box *box = lua_touserdata(L, 1);
  box->pins++;
  push_page_keys(L, box->page, n);
  unpin(box);
  return n;
}

void mt_page_push(lua_State *L, mt_page **page) {
  mt_driver *d = mt_driver_get(L);
  mt_page_box *box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = (mt_page_box){.page = NULL};
  luaL_setmetatable(L, page_name);
  mt_own(d, &box->owned, end_page);
  box->page = *page;
  *page = NULL;
}

/* ---- Making views --------------------------------------------------------------------------- */

static mt_view *new_view(lua_State *L, mt_view_kind kind) {
  mt_view *view = lua_newuserdatauv(L, sizeof *view, 2);
  *view = (mt_view){.kind = kind};
  luaL_setmetatable(L, view_name);
  return view;
}

/* Pushes false for a document that was not found. */
void mt_doc_push(lua_State *L, int page, const mt_doc *doc) {
  if (!doc->found) {
    lua_pushboolean(L, false);
    return;
  }
  page = lua_absindex(L, page);
  const mt_slice source = doc->source;
  mt_view *view = new_view(L, MT_VIEW_DOC);
  view->page = lua_touserdata(L, page);
  if (source.p) view->value = (mt_json){MT_JSON_OBJECT, source};
  view->meta = doc; /* owned by the page like the source: not read once that is closed */
  lua_pushvalue(L, page);
  lua_setiuservalue(L, -2, 1);
}

static mt_view *test_view(lua_State *L, int index) {
  return luaL_testudata(L, index, view_name);
}

/* Pushes a view of the value; the object at `owner` keeps its bytes. */
static void push_fixed(lua_State *L, mt_json value, mt_page_box *page, int owner) {
  owner = lua_absindex(L, owner);
  mt_view *view = new_view(L, MT_VIEW_FIXED);
  view->value = value;
  view->page = page;
  view->it = mt_json_items(value);
  lua_pushvalue(L, owner);
  lua_setiuservalue(L, -2, 1);
}

/* Pops a name and pushes a view of the object with that name in the document at `root`. */
static void push_inside(lua_State *L, int root) {
  root = lua_absindex(L, root);
  mt_view *view = new_view(L, MT_VIEW_INSIDE);
  view->page = ((const mt_view *)lua_touserdata(L, root))->page;
  lua_pushvalue(L, root);
  lua_setiuservalue(L, -2, 1);
  lua_rotate(L, -2, 1);
  lua_setiuservalue(L, -2, 2);
}

/* Pushes a field's value. Its full name in the document is at index `name`. */
static void push_value(lua_State *L, mt_json value, int root, int name, mt_page_box *page,
                       int owner) {
  if (mt_json_push_scalar(L, value)) return;
  if (value.type == MT_JSON_ARRAY) {
    push_fixed(L, value, page, owner);
    return;
  }
  lua_pushvalue(L, name);
  push_inside(L, root);
}

/* ---- Access --------------------------------------------------------------------------------- */

static mt_view *check_view(lua_State *L) {
  mt_view *view = mt_check_self(L, view_name, "doc");
  if (view->page && view->page->closed)
    luaL_error(L, "the page of this document was closed: keep what you need of it");
  return view;
}

/* Calls a method of the view at 1 and pins its bytes meanwhile. */
static int pinned(lua_State *L, int (*method)(lua_State *L, mt_view *view)) {
  mt_view *view = check_view(L);
  mt_page_box *page = view->page;
  if (page) page->pins++;
  int n = method(L, view);
  unpin(page);
  return n;
}

/* Pushes the document of the view at 1; NULL for a fixed view, with nothing pushed. */
static mt_view *push_root(lua_State *L, const mt_view *view) {
  if (view->kind == MT_VIEW_DOC)
    lua_pushvalue(L, 1);
  else if (view->kind == MT_VIEW_INSIDE)
    lua_getiuservalue(L, 1, 1);
  else
    return NULL;
  mt_view *root = lua_touserdata(L, -1);
  if (!root->value.type)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                   "document %.200s was read without its source (a scan with source = false)",
                   lua_pushlstring(L, root->meta->id.p, root->meta->id.n));
  return root;
}

/* Pushes the full name in the document of the field whose name is at index `key`, for the view at
 * 1. */
static void push_full_name(lua_State *L, const mt_view *view, int key) {
  if (view->kind == MT_VIEW_DOC) {
    lua_pushvalue(L, key);
    return;
  }
  lua_getiuservalue(L, 1, 2);
  lua_pushliteral(L, ".");
  lua_pushvalue(L, key);
  lua_concat(L, 3);
}

static int get_in_document(lua_State *L, const mt_view *view, int key) {
  mt_view *root = push_root(L, view);
  int at = lua_gettop(L);
  push_full_name(L, view, key);
  mt_json value;
  if (mt_patch_find(L, root, at, mt_slice_at(L, at + 1),
                    &value)) /* pushes the patch's text, or nil */
    push_value(L, value, at, at + 1, NULL, lua_gettop(L));
  else
    push_value(L, mt_json_find(root->value, mt_slice_at(L, at + 1)), at, at + 1, root->page, at);
  return 1;
}

static int get_fixed(lua_State *L, mt_json value, const mt_view *view) {
  if (!mt_json_push_scalar(L, value)) push_fixed(L, value, view->page, 1);
  return 1;
}

/* Continues from the last item read, which makes a loop linear. */
static int get_item(lua_State *L, mt_view *view, lua_Integer i) {
  if (view->kind != MT_VIEW_FIXED || view->value.type != MT_JSON_ARRAY || i < 1) return 0;
  if ((size_t)i <= view->at) {
    view->it = mt_json_items(view->value);
    view->at = 0;
  }
  while (mt_json_next(&view->it))
    if (++view->at == (size_t)i) return get_fixed(L, view->it.value, view);
  view->it = mt_json_items(view->value);
  view->at = 0;
  return 0;
}

static int get_member(lua_State *L, mt_view *view, int key) {
  if (lua_type(L, key) != LUA_TSTRING) {
    int is_integer;
    lua_Integer i = lua_tointegerx(L, key, &is_integer);
    return is_integer ? get_item(L, view, i) : 0;
  }
  if (view->kind != MT_VIEW_FIXED) return get_in_document(L, view, key);
  return get_fixed(L, mt_json_find(view->value, mt_slice_at(L, key)), view);
}

static void push_slice(lua_State *L, mt_slice s) {
  if (s.p)
    lua_pushlstring(L, s.p, s.n);
  else
    lua_pushnil(L);
}

static void push_version(lua_State *L, const mt_doc *meta, uint64_t number) {
  if (meta->version.term)
    lua_pushinteger(L, (lua_Integer)number);
  else
    lua_pushnil(L);
}

static void push_revision(lua_State *L, const mt_doc *meta) {
  if (meta->revision)
    lua_pushinteger(L, (lua_Integer)meta->revision);
  else
    lua_pushnil(L);
}

/* Pushes a document's own member; false if the name is none of them. */
static bool push_meta(lua_State *L, const mt_view *view, const char *name) {
  const mt_doc *meta = view->meta;
  if (!strcmp(name, "id") || !strcmp(name, "_id"))
    push_slice(L, meta->id);
  else if (!strcmp(name, "_index"))
    push_slice(L, meta->index);
  else if (!strcmp(name, "_routing"))
    push_slice(L, meta->routing);
  else if (!strcmp(name, "_seq_no"))
    push_version(L, meta, meta->version.seq_no);
  else if (!strcmp(name, "_term"))
    push_version(L, meta, meta->version.term);
  else if (!strcmp(name, "_version"))
    push_revision(L, meta);
  else
    return false;
  return true;
}

static bool is_own_name(const mt_view *view, const char *name) {
  return name[0] == '_' || (view->kind == MT_VIEW_DOC && !strcmp(name, "id"));
}

static int index_view(lua_State *L, mt_view *view) {
  if (lua_type(L, 2) == LUA_TSTRING && is_own_name(view, lua_tostring(L, 2))) {
    if (view->kind == MT_VIEW_DOC && push_meta(L, view, lua_tostring(L, 2))) return 1;
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL)
      luaL_error(L, "\"%s\" is no method of a document; a field of that name is _get(\"%s\")",
                 lua_tostring(L, 2), lua_tostring(L, 2));
    return 1;
  }
  return get_member(L, view, 2);
}

static int view_index(lua_State *L) {
  return pinned(L, index_view);
}

/* view, name, value */
static int view_assign(lua_State *L, mt_view *view) {
  if (view->kind == MT_VIEW_FIXED)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                   "an array of a document is read-only: assign the whole array to its field");
  luaL_checktype(L, 2, LUA_TSTRING);
  lua_settop(L, 3);
  mt_buf *text = NULL;
  if (!lua_isnil(L, 3)) {
    text = mt_buf_push(L, MT_VIEW_TEXT_MAX);
    mt_json_encode(L, 3, text);
    mt_buf_check(L, text, "the field");
  }
  mt_view *root = push_root(L, view);
  int at = lua_gettop(L);
  push_full_name(L, view, 2);
  mt_patch_set(L, root, at, at + 1, text ? mt_buf_slice(text) : (mt_slice){NULL, 0});
  return 0;
}

static int assign(lua_State *L, mt_view *view) {
  if (lua_type(L, 2) == LUA_TSTRING && is_own_name(view, lua_tostring(L, 2)))
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT,
                   "\"%s\" cannot be assigned; a field of that name is set by _set(\"%s\", value)",
                   lua_tostring(L, 2), lua_tostring(L, 2));
  return view_assign(L, view);
}

static int view_newindex(lua_State *L) {
  return pinned(L, assign);
}

static int get_named(lua_State *L, mt_view *view) {
  luaL_checktype(L, 2, LUA_TSTRING);
  lua_settop(L, 2);
  return get_member(L, view, 2);
}

static int view_get(lua_State *L) {
  return pinned(L, get_named);
}

static int view_set(lua_State *L) {
  return pinned(L, view_assign);
}

/* ---- The whole ------------------------------------------------------------------------------ */

/* The value of the view at 1 with assignments applied; pushes the object that keeps its bytes. */
static mt_json current(lua_State *L, const mt_view *view) {
  if (view->kind == MT_VIEW_FIXED) {
    lua_pushnil(L);
    return view->value;
  }
  mt_view *root = push_root(L, view);
  mt_json whole = mt_patch_apply(L, root, lua_gettop(L)); /* pushes one value */
  if (view->kind == MT_VIEW_DOC) return whole;
  lua_getiuservalue(L, 1, 2);
  mt_json value = mt_json_find(whole, mt_slice_at(L, -1));
  lua_pop(L, 1);
  return value;
}

const mt_view *mt_view_whole(lua_State *L) {
  const mt_view *view = test_view(L, 1);
  if (!view || view->kind != MT_VIEW_INSIDE) return view;
  lua_getiuservalue(L, 1, 1);
  view = lua_touserdata(L, -1); /* which the view keeps */
  lua_pop(L, 1);
  return view;
}

/* In a state apart it counts, before it is done. */
static void charge_apart(lua_State *L) {
  const mt_apart *apart = mt_apart_of(L);
  if (apart) apart->charge(L, mt_view_making_steps(mt_view_whole(L)));
}

bool mt_view_encode(lua_State *L, int index, mt_buf *out) {
  if (!test_view(L, index)) return false;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_pushvalue(L, index);
  lua_insert(L, 1); /* the functions here use index 1 */
  int top = lua_gettop(L);
  const mt_view *view = check_view(L);
  charge_apart(L);
  mt_page_box *page = view->page;
  if (page) page->pins++;
  mt_json value = current(L, view);
  if (value.type)
    mt_buf_addslice(out, value.raw);
  else
    mt_buf_adds(out, "null"); /* the object was removed meanwhile */
  unpin(page);
  lua_settop(L, top);
  lua_remove(L, 1);
  return true;
}

static int push_source(lua_State *L, mt_view *view) {
  if (view->kind == MT_VIEW_DOC && !view->value.type) return 0; /* read without its source */
  mt_json value = current(L, view);
  push_slice(L, value.type ? value.raw : (mt_slice){NULL, 0});
  return 1;
}

static int view_source(lua_State *L) {
  return pinned(L, push_source);
}

static int push_table(lua_State *L, mt_view *view) {
  mt_json_push(L, current(L, view));
  return 1;
}

static int view_table(lua_State *L) {
  return pinned(L, push_table);
}

static int view_changed(lua_State *L) {
  const mt_view *root = push_root(L, check_view(L));
  lua_pushboolean(L, root && root->patches > 0);
  return 1;
}

static int view_changes(lua_State *L) {
  const mt_view *root = push_root(L, check_view(L));
  lua_newtable(L);
  if (root) mt_patch_list(L, root, lua_gettop(L) - 1);
  return 1;
}

static int view_len(lua_State *L) {
  const mt_view *view = check_view(L);
  if (view->kind != MT_VIEW_FIXED || view->value.type != MT_JSON_ARRAY)
    luaL_error(L, "a document and an object have no length: only an array has");
  lua_pushinteger(L, (lua_Integer)mt_json_count(view->value));
  return 1;
}

static int view_tostring(lua_State *L) {
  const mt_view *view = luaL_checkudata(L, 1, view_name);
  if (view->page && view->page->closed)
    lua_pushliteral(L, "document (its page is closed)");
  else if (view->kind != MT_VIEW_DOC)
    return view_source(L);
  else if (view->meta->id.p)
    lua_pushfstring(L, "document %s", lua_pushlstring(L, view->meta->id.p, view->meta->id.n));
  else
    lua_pushliteral(L, "document");
  return 1;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

typedef struct view_walk {
  mt_json_iter it;
  lua_Integer i;
} view_walk;

static int push_pair(lua_State *L, mt_view *view) {
  view_walk *w = lua_touserdata(L, lua_upvalueindex(1));
  mt_view *root = push_root(L, view); /* at 2 */
  lua_settop(L, 2);
  if (!mt_json_next(&w->it)) return 0;
  mt_json value = w->it.value;
  if (w->it.object)
    mt_json_push_key(L, w->it.key);
  else
    lua_pushinteger(L, ++w->i);
  if (!root) {
    get_fixed(L, value, view);
  } else if (!mt_json_push_scalar(L, value)) {
    push_full_name(L, view, 3);
    push_value(L, value, 2, 4, root->page, lua_upvalueindex(2));
  }
  lua_pushvalue(L, 3);
  lua_pushvalue(L, -2);
  return 2;
}

/* Upvalues: the walk, what keeps its bytes, the view. */
static int next_pair(lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(3));
  return pinned(L, push_pair);
}

static int start_pairs(lua_State *L, mt_view *view) {
  lua_settop(L, 1);
  mt_json value = current(L, view);
  int keeper = lua_gettop(L);
  view_walk *w = lua_newuserdatauv(L, sizeof *w, 0);
  *w = (view_walk){.it = mt_json_items(value)};
  lua_pushvalue(L, keeper);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, next_pair, 3);
  return 1;
}

static int view_pairs(lua_State *L) {
  return pinned(L, start_pairs);
}

/* ---- the module's functions ----------------------------------------------------------------- */

static mt_slice meta_string(lua_State *L, const char *key) {
  lua_getfield(L, 2, key);
  if (!lua_isnil(L, -1)) luaL_checktype(L, -1, LUA_TSTRING);
  return mt_slice_at(L, -1); /* stays on the stack and is anchored below */
}

static uint64_t meta_number(lua_State *L, const char *key) {
  lua_getfield(L, 2, key);
  lua_Integer value = luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  return (uint64_t)value;
}

static void read_meta(lua_State *L, mt_doc *doc) {
  if (lua_isnoneornil(L, 2)) return;
  luaL_checktype(L, 2, LUA_TTABLE);
  doc->id = meta_string(L, "id");
  doc->index = meta_string(L, "index");
  doc->routing = meta_string(L, "routing");
  doc->version = (mt_version){meta_number(L, "seq_no"), meta_number(L, "term")};
}

/* The mt_doc is in a block of its own, whose user values keep the text and strings. */
static int core_view(lua_State *L) {
  luaL_checktype(L, 1, LUA_TSTRING);
  lua_settop(L, 2);
  mt_json root;
  mortise_error err;
  if (mt_json_parse(mt_slice_at(L, 1), "the document", &root, &err)) mt_error_raise(L, &err);
  if (root.type != MT_JSON_OBJECT)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "a document is a JSON object");
  mt_doc *doc = lua_newuserdatauv(L, sizeof *doc, 4);
  *doc = (mt_doc){.source = root.raw, .found = true};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 3, 1);
  read_meta(L, doc);
  for (int i = 4; i <= lua_gettop(L); i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, 3, i - 2);
  }
  mt_view *view = new_view(L, MT_VIEW_DOC);
  view->value = root;
  view->meta = doc;
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static int core_is_view(lua_State *L) {
  luaL_checkany(L, 1);
  const mt_view *view = test_view(L, 1);
  if (!view)
    lua_pushnil(L);
  else if (view->kind == MT_VIEW_DOC)
    lua_pushliteral(L, "document");
  else if (view->kind == MT_VIEW_FIXED && view->value.type == MT_JSON_ARRAY)
    lua_pushliteral(L, "array");
  else
    lua_pushliteral(L, "object");
  return 1;
}

const luaL_Reg mt_doc_functions[] = {{"view", core_view}, {"is_view", core_is_view}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"_source", view_source},
                                   {"_changed", view_changed},
                                   {"_changes", view_changes},
                                   {"_get", view_get},
                                   {"_set", view_set},
                                   {"_table", view_table},
                                   {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__newindex", view_newindex},
                                       {"__len", view_len},
                                       {"__pairs", view_pairs},
                                       {"__tostring", view_tostring},
                                       {NULL, NULL}};
const mt_lua_class mt_view_class = {view_name, methods, metamethods, view_index, mt_view_encode};

static const luaL_Reg page_methods[] = {{"close", close_page}, {"keys", page_keys}, {NULL, NULL}};
static const luaL_Reg page_metamethods[] = {
    {"__len", page_len}, {"__gc", collect_page}, {"__close", close_page}, {NULL, NULL}};
const mt_lua_class mt_page_class = {page_name, page_methods, page_metamethods, page_index, NULL};
