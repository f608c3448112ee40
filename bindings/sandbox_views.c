#include "bindings/sandbox_views.h"

#include "bindings/lua_doc.h"
#include "bindings/lua_view.h"
#include "bindings/sandbox_budget.h"

/* Bytes of a document that take about as long as an instruction of Lua. */
enum { READ_BYTES = 4, ASSIGNED_BYTES = 2 };

/* An array is read in order: it goes on from the item before. */
static bool is_next_item(lua_State *L, const mt_view *view) {
  int is_integer;
  lua_Integer i = lua_tointegerx(L, 2, &is_integer);
  return is_integer && view->kind == MT_VIEW_FIXED && i > 0 && (size_t)i == view->at + 1;
}

static void charge_reading(lua_State *L) {
  const mt_view *view = mt_view_whole(L);
  if (view && !is_next_item(L, view)) mt_budget_charge(L, 1 + view->value.raw.n / READ_BYTES + view->patches);
}

static void charge_assigning(lua_State *L) {
  const mt_view *view = mt_view_whole(L);
  if (view) mt_budget_charge(L, 1 + view->value.raw.n / ASSIGNED_BYTES + view->patches);
}

static void charge_making(lua_State *L) {
  const mt_view *view = mt_view_whole(L);
  if (view) mt_budget_charge(L, 1 + mt_view_making_steps(view));
}

/* Upvalue: what it calls. */
static int call_it(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static int read_view(lua_State *L) {
  charge_reading(L);
  return call_it(L);
}

static int assign_view(lua_State *L) {
  charge_assigning(L);
  return call_it(L);
}

static int make_view(lua_State *L) {
  charge_making(L);
  return call_it(L);
}

/* Puts `fn` around the fields of the table on top. */
static void wrap_fields(lua_State *L, const char *const *names, lua_CFunction fn) {
  for (; *names; names++) {
    lua_getfield(L, -1, *names);
    lua_pushcclosure(L, fn, 1);
    lua_setfield(L, -2, *names);
  }
}

void mt_sandbox_open_views(lua_State *L) {
  static const luaL_Reg *const none[] = {NULL};
  static const char *const reads[] = {"_get", NULL}, *const assigns[] = {"_set", NULL},
                    *const makes[] = {"_source", "_table", "_changes", NULL};
  static const char *const meta_reads[] = {"__index", "__len", NULL}, *const meta_assigns[] = {"__newindex", NULL},
                    *const meta_makes[] = {"__pairs", "__tostring", NULL};
  mt_class_open(L, &mt_view_class, none);
  luaL_getmetatable(L, mt_view_class.name);
  lua_getfield(L, -1, "__index");
  lua_getupvalue(L, -1, 1); /* the methods */
  wrap_fields(L, reads, read_view);
  wrap_fields(L, assigns, assign_view);
  wrap_fields(L, makes, make_view);
  lua_pop(L, 2);
  wrap_fields(L, meta_reads, read_view);
  wrap_fields(L, meta_assigns, assign_view);
  wrap_fields(L, meta_makes, make_view);
  lua_pop(L, 1);
}
