#include "bindings/sandbox_budget.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum {
  LOOK = 100,             /* instructions between two looks at the budget */
  BYTES_A_STEP = 16,      /* of bytes that are gone through */
  NEW_BYTES_A_STEP = 64,  /* of memory: what the collector will have to do for it */
  COLLECTED_A_STEP = 16,  /* of all memory, each time that it is collected */
};

static const char over_key; /* the error that is raised when it is over; it needs no memory */

/* ---- Where it is ------------------------------------------------------------------------------ */

/* Also in the allocator: this only looks, and allocates nothing. */
static void note_place(mt_budget *b, lua_State *L) {
  lua_Debug ar;
  for (int level = 0; L && lua_getstack(L, level, &ar); level++) {
    if (!lua_getinfo(L, "Sl", &ar) || ar.currentline <= 0) continue;
    if (ar.source[0] == '@' && !strncmp(ar.source, "@mortise/", 9)) continue;
    snprintf(b->where, sizeof b->where, "%s:%d", ar.short_src, ar.currentline);
    return;
  }
}

static void end_budget(mt_budget *b, mt_budget_end why, lua_State *L) {
  if (b->over) return;
  note_place(b, L);
  b->over = why;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

static void count_growth(mt_budget *b, size_t n) {
  b->grown += n;
  b->steps += b->grown / NEW_BYTES_A_STEP;
  b->grown %= NEW_BYTES_A_STEP;
}

static void *refuse_memory(mt_budget *b) {
  end_budget(b, MT_BUDGET_MEMORY, b->running);
  if (b->escape) longjmp(*b->escape, 1);
  return NULL;
}

static void unlink_block(const mt_budget_block *block) {
  *block->slot = block->next;
  if (block->next) block->next->slot = block->slot;
}

static void link_block(mt_budget *b, mt_budget_block *block) {
  block->next = b->blocks;
  block->slot = &b->blocks;
  if (block->next) block->next->slot = &block->next;
  b->blocks = block;
}

/* Lua relies on it that shrinking never fails. */
static void *resize_block(mt_budget *b, mt_budget_block *block, size_t was, size_t size) {
  if (block) unlink_block(block);
  mt_budget_block *made = mt_realloc(block, sizeof *made + size);
  if (!made && block && size <= was) made = block;
  if (made) link_block(b, made);
  if (!made && block) link_block(b, block);
  return made;
}

void *mt_budget_allocate(void *ctx, void *p, size_t was, size_t size) {
  mt_budget *b = ctx;
  mt_budget_block *block = p ? (mt_budget_block *)p - 1 : NULL;
  if (!p) was = 0; /* it is a type there */
  if (!size) {
    if (block) unlink_block(block);
    mt_free(block);
    b->memory -= was;
    return NULL;
  }
  size_t more = size > was ? size - was : 0;
  if (more > mt_budget_room(b)) return refuse_memory(b);
  block = resize_block(b, block, was, size);
  if (!block) return refuse_memory(b);
  b->memory = b->memory - was + size;
  if (b->memory > b->memory_most) b->memory_most = b->memory;
  count_growth(b, more);
  return block + 1;
}

void mt_budget_free_all(mt_budget *b) {
  while (b->blocks) {
    mt_budget_block *block = b->blocks;
    unlink_block(block);
    mt_free(block);
  }
  b->memory = 0;
}

size_t mt_budget_room(const mt_budget *b) {
  return b->memory < b->memory_max ? b->memory_max - b->memory : 0;
}

/* ---- The collector ---------------------------------------------------------------------------- */

static const char metatables_key; /* a table with weak keys: each metatable -> true */

static void push_metatables(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &metatables_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L); /* its values need no collecting, so that it takes one pass */
  lua_newtable(L);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &metatables_key);
}

/* Keys that are weak while the values are not: those the collector goes through until nothing changes. */
static void refuse_weak_keys(lua_State *L, int metatable) {
  lua_pushliteral(L, "__mode");
  const char *mode = lua_rawget(L, metatable) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  if (strchr(mode, 'k') && !strchr(mode, 'v'))
    luaL_error(L, "there are no tables with weak keys in a sandbox, but with weak values: `__mode` = \"v\" or \"kv\"");
  lua_pop(L, 1);
}

void mt_budget_note_metatable(lua_State *L, int index) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 6, NULL);
  refuse_weak_keys(L, index);
  push_metatables(L);
  lua_pushvalue(L, index);
  lua_pushboolean(L, true);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

static void check_metatables(lua_State *L) {
  luaL_checkstack(L, 8, NULL);
  push_metatables(L);
  int all = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, all); lua_pop(L, 1)) refuse_weak_keys(L, all + 1);
  lua_settop(L, all - 1);
}

/* The next time is when there is twice as much, or half of what is left is used: a script that lives just below its
 * maximum has everything collected again and again, which costs it steps. */
static void collect_all(lua_State *L, mt_budget *b) {
  enum { LEAST = 64 << 10 };
  check_metatables(L);
  lua_gc(L, LUA_GCCOLLECT);
  size_t much = 2 * b->memory + LEAST, half = b->memory + mt_budget_room(b) / 2;
  b->collect_at = much < half ? much : half;
  b->steps += b->memory / COLLECTED_A_STEP;
}

/* ---- Steps and time --------------------------------------------------------------------------- */

static void look(lua_State *L, lua_Debug *ar) {
  (void)ar;
  mt_budget_charge(L, LOOK);
}

void mt_budget_bind(lua_State *L, mt_budget *b) {
  lua_gc(L, LUA_GCSTOP);
  *(mt_budget **)lua_getextraspace(L) = b; /* of its coroutines, too */
  b->running = L;
  lua_sethook(L, look, LUA_MASKCOUNT, LOOK);
}

mt_budget *mt_budget_of(lua_State *L) {
  return *(mt_budget **)lua_getextraspace(L);
}

void mt_budget_begin(mt_budget *b) {
  b->steps = 0;
  b->grown = 0;
  b->where[0] = '\0';
  b->deadline_ms = b->time_max_ms ? mt_clock_boot_ms() + b->time_max_ms : INT64_MAX;
}

static mt_budget_end found_over(mt_budget *b) {
  if (b->steps > b->steps_max) return MT_BUDGET_STEPS;
  if (b->is_stopped && b->is_stopped(b->ctx)) return MT_BUDGET_STOPPED;
  if (b->deadline_ms != INT64_MAX && mt_clock_boot_ms() >= b->deadline_ms) return MT_BUDGET_TIME;
  return MT_BUDGET_LEFT;
}

bool mt_budget_is_over(mt_budget *b, lua_State *L) {
  mt_budget_end why = b->over ? b->over : found_over(b);
  if (why) end_budget(b, why, L);
  return why != MT_BUDGET_LEFT;
}

MT_LJMP static _Noreturn void raise_over(lua_State *L) {
  lua_checkstack(L, 1); /* without memory there is what Lua keeps for errors */
  lua_pushlightuserdata(L, (void *)&over_key);
  lua_error(L);
  __builtin_unreachable();
}

void mt_budget_charge(lua_State *L, uint64_t steps) {
  mt_budget *b = mt_budget_of(L);
  b->steps = steps > UINT64_MAX - b->steps ? UINT64_MAX : b->steps + steps;
  if (b->memory > b->collect_at && !b->over) collect_all(L, b);
  mt_budget_end why = b->over ? b->over : found_over(b);
  if (!why) return;
  end_budget(b, why, L);
  raise_over(L);
}

void mt_budget_collect(lua_State *L, uint64_t steps) {
  mt_budget_of(L)->collect_at = 0;
  mt_budget_charge(L, steps);
}

void mt_budget_charge_bytes(lua_State *L, size_t n) {
  if (n >= BYTES_A_STEP) mt_budget_charge(L, n / BYTES_A_STEP);
}

void mt_budget_pass(lua_State *L, int status) {
  if (status != LUA_OK && status != LUA_YIELD && mt_budget_of(L)->over) raise_over(L);
}

/* ---- Functions of Lua's libraries ------------------------------------------------------------- */

static size_t bytes_from(lua_State *L, int first) {
  size_t n = 0;
  for (int i = first; i <= lua_gettop(L); i++)
    if (lua_type(L, i) == LUA_TSTRING) n += lua_rawlen(L, i);
  return n;
}

/* Upvalue: the function, which uses none itself. */
static int call_counted(lua_State *L) {
  mt_budget_charge_bytes(L, bytes_from(L, 1));
  int n = lua_tocfunction(L, lua_upvalueindex(1))(L);
  mt_budget_charge_bytes(L, bytes_from(L, lua_gettop(L) - n + 1) + (size_t)n);
  return n;
}

void mt_budget_push_counted(lua_State *L, lua_CFunction fn) {
  lua_pushcfunction(L, fn);
  lua_pushcclosure(L, call_counted, 1);
}

void mt_budget_count(lua_State *L, const char *const *names) {
  for (; *names; names++) {
    lua_getfield(L, -1, *names);
    lua_pushcclosure(L, call_counted, 1);
    lua_setfield(L, -2, *names);
  }
}
