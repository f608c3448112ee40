/* A state of its own for a script that is not trusted. It has no client and no access to ours: what it wants of a store it
 * asks for, by a name and plain values, and who holds the sandbox does that for it, or not
 * (stdlib/mortise/sandbox.lua). In `mortise.core`:
 *   sandbox({memory=, steps=, time_ms=}, print) -> sandbox     the most it may use: bytes, and for each start steps and
 *       milliseconds (0: as long as it takes). print(line) gets what it prints
 * Its methods; `entry` is a function of the table that stdlib/mortise/sandbox/inside.lua returns, which runs in it:
 *   :start(entry, ...) -> "done", ...; or "ask", what, ...
 *   :answer(good, ...) -> the same         it goes on with the answer, or with the error
 *   :adopt(code, ...)     takes functions of the caller's own, as string.dump gives them; entry "adopt" goes on
 *   :stats() -> {memory=, memory_most=, steps=, memory_max=, steps_max=, time_max_ms=}
 *   :left() -> milliseconds of this start that are left; nothing where there is no limit
 *   :close()
 * An error of the script is raised as it is, if it is a plain value; its place is in it. A budget that is over is a
 * script_error with the field `budget`: "memory", "instructions" or "time"; no other start is possible then. */
#include "bindings/lua_sandbox.h"

#include "bindings/driver.h"
#include "bindings/interrupt.h"
#include "bindings/lua_doc.h"
#include "bindings/lua_error.h"
#include "bindings/lua_json.h"
#include "bindings/lua_options.h"
#include "bindings/sandbox_base.h"
#include "bindings/sandbox_budget.h"
#include "bindings/sandbox_copy.h"
#include "bindings/sandbox_text.h"
#include "bindings/sandbox_views.h"

#include "base/clock.h"

#include "embedded.h"

#include <stdio.h>
#include <string.h>

extern const mt_embedded mt_stdlib[];

static const char sandbox_name[] = "mortise.sandbox";
static const char entries_key; /* in its registry: what inside.lua returned */

enum {
  MEMORY_LEAST = 1 << 20,
  MEMORY_MOST = 1 << 30,
  PACKED_SPARE = 1 << 20, /* of what goes in or out, beside as much as it may have itself */
};

typedef struct sandbox_limits {
  size_t memory, steps;
  int64_t time_ms;
} sandbox_limits;

typedef struct sandbox_box {
  mt_owned owned;
  lua_State *S, *top; /* NULL: it is closed; nothing was started */
  lua_State *user;    /* who called us, for print and interrupts; of a call only */
  mt_driver *driver;
  mt_budget budget;
  mt_apart apart;
  mt_buf packed;
  bool inside; /* it runs: nothing may start, answer or close it */
} sandbox_box;

/* ---- What it calls ---------------------------------------------------------------------------- */

static bool stop_asked(void *ctx) {
  const sandbox_box *box = ctx;
  return mt_interrupt_is_pending(box->driver);
}

typedef struct printed {
  const sandbox_box *box;
  mt_slice line;
} printed;

/* In the state of the one who called: (printed) */
static int print_outside(lua_State *L) {
  const printed *p = lua_touserdata(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, p->box);
  if (lua_isnil(L, -1)) return 0;
  lua_pushlstring(L, p->line.p, p->line.n);
  lua_call(L, 1, 0);
  return 0;
}

static bool print_line(void *ctx, mt_slice line) {
  sandbox_box *box = ctx;
  lua_State *L = box->user;
  printed p = {box, line};
  if (!L || !lua_checkstack(L, 4)) return false;
  lua_pushcfunction(L, print_outside); /* neither allocates */
  lua_pushlightuserdata(L, &p);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return true;
  if (mt_interrupt_is(L)) box->budget.over = MT_BUDGET_STOPPED; /* it came just then, and is raised again outside */
  lua_pop(L, 1);
  return false;
}

/* ---- Its state -------------------------------------------------------------------------------- */

static size_t room_left(void *ctx) {
  return mt_budget_room(ctx);
}

static void collect_buffers(lua_State *S, size_t held) {
  mt_budget_collect(S, held / 16);
}

/* ---- Functions that were compiled outside ------------------------------------------------------ */

static const char adopted_key; /* in its registry: a list of them */

static void push_adopted(lua_State *S, int index) {
  lua_rawgetp(S, LUA_REGISTRYINDEX, &adopted_key);
  luaL_checktype(S, -1, LUA_TTABLE);
  lua_rawgeti(S, -1, luaL_checkinteger(S, index));
  luaL_checktype(S, -1, LUA_TFUNCTION);
  lua_remove(S, -2);
}

static int inner_adopted(lua_State *S) {
  push_adopted(S, 1);
  return 1;
}

/* (i, upvalue, value) */
static int adopted_set(lua_State *S) {
  luaL_checkany(S, 3);
  push_adopted(S, 1);
  lua_pushvalue(S, 3);
  if (!lua_setupvalue(S, -2, (int)luaL_checkinteger(S, 2))) return luaL_error(S, "there is no such upvalue");
  return 0;
}

/* (i, upvalue, k, upvalue of k): they are the same */
static int adopted_join(lua_State *S) {
  int mine = (int)luaL_checkinteger(S, 2), others = (int)luaL_checkinteger(S, 4);
  push_adopted(S, 1);
  push_adopted(S, 3);
  if (!lua_getupvalue(S, -2, mine)) return luaL_error(S, "there is no such upvalue");
  lua_pop(S, 1);
  if (!lua_getupvalue(S, -1, others)) return luaL_error(S, "there is no such upvalue");
  lua_pop(S, 1);
  lua_upvaluejoin(S, -2, mine, -1, others);
  return 0;
}

/* As text it tells no address. */
static int concat_error(lua_State *S) {
  mt_sandbox_push_text(S, 1);
  mt_sandbox_push_text(S, 2);
  lua_concat(S, 2);
  return 1;
}

/* The metatables that scripts could reach: a finalizer put there would be run without any limit. */
static void guard_marks(lua_State *S, int json) {
  for (mt_json_mark mark = MT_JSON_MARK_ARRAY; mark <= MT_JSON_MARK_OBJECT; mark++) {
    lua_newtable(S);
    mt_json_set_mark(S, mark);
    lua_getmetatable(S, -1);
    lua_pushliteral(S, "the metatable is not for scripts");
    lua_setfield(S, -2, "__metatable");
    lua_pushvalue(S, json);
    lua_setfield(S, -2, "__tostring");
    lua_pop(S, 2);
  }
  lua_newtable(S);
  mt_error_set_class(S);
  lua_getmetatable(S, -1);
  lua_pushcfunction(S, concat_error);
  lua_setfield(S, -2, "__concat");
  lua_pop(S, 2);
}

/* What inside.lua finds as its argument. */
static void push_inner_core(lua_State *S) {
  static const char *const counted[] = {"json", "json_decode", "json_quote", "view", NULL};
  lua_newtable(S);
  luaL_setfuncs(S, mt_json_functions, 0);
  luaL_setfuncs(S, mt_doc_functions, 0);
  luaL_setfuncs(S, mt_error_functions, 0);
  mt_budget_count(S, counted);
  lua_getfield(S, -1, "json");
  guard_marks(S, lua_gettop(S));
  lua_pop(S, 1);
  mt_null_push(S);
  lua_setfield(S, -2, "null");
  lua_pushcfunction(S, mt_sandbox_ask);
  lua_setfield(S, -2, "ask");
  static const luaL_Reg adoption[] = {
      {"adopted", inner_adopted}, {"adopted_set", adopted_set}, {"adopted_join", adopted_join}, {NULL, NULL}};
  luaL_setfuncs(S, adoption, 0);
}

static mt_slice code_inside(void) {
  for (int i = 0; mt_stdlib[i].name; i++)
    if (!strcmp(mt_stdlib[i].name, "mortise/sandbox/inside.lua")) return (mt_slice){mt_stdlib[i].text, mt_stdlib[i].n};
  return MT_SLICE("error('mortise/sandbox/inside.lua was not compiled in')");
}

/* (sandbox) */
static int set_up_inside(lua_State *S) {
  sandbox_box *box = lua_touserdata(S, 1);
  mt_apart_set(S, &box->apart);
  mt_sandbox_open(S, print_line, box);
  mt_sandbox_open_views(S);
  if (mt_sandbox_load(S, code_inside(), "@mortise/sandbox/inside.lua") != LUA_OK) return lua_error(S);
  push_inner_core(S);
  lua_call(S, 1, 1);
  lua_rawsetp(S, LUA_REGISTRYINDEX, &entries_key);
  return 0;
}

/* What happens in the state, without a way to raise an error in ours. */
typedef struct sandbox_turn {
  sandbox_box *box;
  const char *entry; /* which is begun; NULL: it goes on, or nothing runs */
  int status;        /* Lua's */
  int n;             /* values that went in */
  bool asks;
  const char *odd; /* the type of an error that cannot be brought out */
} sandbox_turn;

/* The state cannot be used any more, nor closed: its memory was refused somewhere in it. */
static void abandon(sandbox_box *box) {
  box->S = box->top = NULL;
  box->inside = false;
  box->user = NULL;
  while (box->apart.owned) mt_owned_end(box->apart.owned);
  mt_budget_free_all(&box->budget);
}

/* -> false: it was out of memory */
static bool enter_state(sandbox_turn *t, void (*fn)(sandbox_turn *t)) {
  jmp_buf escape;
  sandbox_box *box = t->box;
  if (_setjmp(escape)) {
    box->budget.escape = NULL;
    abandon(box);
    return false;
  }
  box->budget.escape = &escape;
  fn(t);
  box->budget.escape = NULL;
  return true;
}

static void close_state(sandbox_turn *t) {
  lua_State *S = t->box->S;
  t->box->S = NULL;
  if (S) lua_close(S);
}

static void end_sandbox(mt_owned *owned) {
  sandbox_box *box = MT_CONTAINER(owned, sandbox_box, owned);
  sandbox_turn t = {.box = box};
  enter_state(&t, close_state);
  mt_buf_deinit(&box->packed);
}

static int collect_sandbox(lua_State *L) {
  mt_owned_end(&((sandbox_box *)lua_touserdata(L, 1))->owned);
  return 0;
}

/* ---- Errors ----------------------------------------------------------------------------------- */

MT_LJMP static _Noreturn void raise_budget(lua_State *L, sandbox_box *box) {
  mt_budget *b = &box->budget;
  static const char *const names[] = {"", "memory", "instructions", "time", "stopped"};
  if (b->over == MT_BUDGET_STOPPED) {
    mt_interrupt_raise(L, box->driver);
    mt_error_throw(L, MORTISE_INTERRUPTED, "%s", mt_interrupted_text);
  }
  mortise_error e;
  char what[96];
  if (b->over == MT_BUDGET_MEMORY)
    snprintf(what, sizeof what, "memory: it may have %zu bytes", b->memory_max);
  else if (b->over == MT_BUDGET_STEPS)
    snprintf(what, sizeof what, "instructions: it may carry out %llu", (unsigned long long)b->steps_max);
  else
    snprintf(what, sizeof what, "time: it may take %lld ms", (long long)b->time_max_ms);
  mt_error_set(&e, MORTISE_SCRIPT_ERROR, "%s%sthe sandbox is out of %s", b->where, b->where[0] ? ": " : "", what);
  mt_error_push(L, &e);
  lua_pushstring(L, names[b->over]);
  lua_setfield(L, -2, "budget");
  lua_error(L);
  __builtin_unreachable();
}

/* ---- In and out ------------------------------------------------------------------------------- */

/* On the main coroutine of the sandbox: (turn, values...) packs the values. */
static int pack_inside(lua_State *S) {
  const sandbox_turn *t = lua_touserdata(S, 1);
  mt_copy_pack(S, 2, lua_gettop(S) - 1, &t->box->packed);
  return 0;
}

/* (turn) -> the coroutine that is begun, with its function on it, or nothing; the values */
static int unpack_inside(lua_State *S) {
  sandbox_turn *t = lua_touserdata(S, 1);
  mt_budget_charge(S, 1); /* collects, if it is time */
  if (t->entry) {
    lua_State *top = lua_newthread(S);
    lua_rawgetp(S, LUA_REGISTRYINDEX, &entries_key);
    lua_getfield(S, -1, t->entry);
    lua_xmove(S, top, 1);
    lua_pop(S, 1);
    lua_pushvalue(S, -1);
    lua_rawsetp(S, LUA_REGISTRYINDEX, t->box);
    lua_replace(S, 1);
    t->box->top = top;
  } else {
    lua_settop(S, 0);
  }
  t->n = mt_copy_unpack(S, mt_buf_slice(&t->box->packed));
  return lua_gettop(S);
}

/* (turn, code...): functions as Lua's own string.dump gives them; a script's never get here */
static int adopt_inside(lua_State *S) {
  int n = lua_gettop(S);
  lua_createtable(S, n - 1, 0);
  for (int i = 2; i <= n; i++) {
    mt_slice code = mt_slice_at(S, i);
    if (luaL_loadbufferx(S, code.p, code.n, "=change", "b") != LUA_OK) return lua_error(S);
    lua_rawseti(S, -2, i - 1);
  }
  lua_rawsetp(S, LUA_REGISTRYINDEX, &adopted_key);
  return 0;
}

/* Runs a function of ours in the sandbox, outside of its script. What it returns, or an error, is on S. */
static void call_inside(sandbox_turn *t, lua_CFunction fn, int nargs, int nresults) {
  lua_State *S = t->box->S;
  t->box->budget.running = S;
  lua_pushcfunction(S, fn);
  lua_insert(S, -nargs - 1);
  lua_pushlightuserdata(S, t);
  lua_insert(S, -nargs - 1);
  t->status = lua_pcall(S, nargs + 1, nresults, 0);
}

/* Packs the error on top of `from`. */
static void pack_error(sandbox_turn *t, lua_State *from) {
  sandbox_box *box = t->box;
  int status = t->status;
  if (box->budget.over) return;
  t->odd = lua_typename(from, lua_type(from, -1));
  mt_buf_clear(&box->packed);
  if (from != box->S) {
    if (!lua_checkstack(box->S, 4)) return;
    lua_xmove(from, box->S, 1);
  }
  call_inside(t, pack_inside, 1, 0);
  if (t->status == LUA_OK) t->odd = NULL;
  t->status = status;
  lua_settop(box->S, 0);
}

/* The values that were packed become the arguments of top, which runs until it asks or ends; what it gives is packed. */
static void run_on(sandbox_turn *t) {
  sandbox_box *box = t->box;
  lua_State *S = box->S;
  call_inside(t, unpack_inside, 0, LUA_MULTRET);
  if (t->status != LUA_OK) {
    pack_error(t, S);
    return;
  }
  if (!lua_checkstack(box->top, t->n + 1)) {
    t->status = LUA_ERRRUN;
    t->odd = "value too many";
    return;
  }
  lua_xmove(S, box->top, t->n);
  lua_settop(S, 0);
  mt_sandbox_asking *a = mt_sandbox_asking_of(S);
  *a = (mt_sandbox_asking){.top = box->top};
  box->budget.running = box->top;
  int n = 0;
  t->status = lua_resume(box->top, S, t->n, &n);
  if (t->status != LUA_OK && t->status != LUA_YIELD) {
    pack_error(t, box->top);
    return;
  }
  t->asks = t->status == LUA_YIELD;
  a->asking = false;
  mt_buf_clear(&box->packed);
  if (!lua_checkstack(S, n + 4)) {
    t->status = LUA_ERRRUN;
    t->odd = "value too many";
    return;
  }
  lua_xmove(box->top, S, n);
  call_inside(t, pack_inside, n, 0);
  if (t->status != LUA_OK) pack_error(t, S);
}

static void adopt_packed(sandbox_turn *t) {
  call_inside(t, unpack_inside, 0, LUA_MULTRET);
  if (t->status == LUA_OK) call_inside(t, adopt_inside, t->n, 0);
  if (t->status != LUA_OK) pack_error(t, t->box->S);
}

static void make_state(sandbox_turn *t) {
  sandbox_box *box = t->box;
  box->S = lua_newstate(mt_budget_allocate, &box->budget);
  if (!box->S) {
    box->budget.over = MT_BUDGET_MEMORY;
    return;
  }
  mt_budget_bind(box->S, &box->budget);
  lua_pushcfunction(box->S, set_up_inside);
  lua_pushlightuserdata(box->S, box);
  t->status = lua_pcall(box->S, 1, 0, 0);
  if (t->status != LUA_OK) pack_error(t, box->S);
}

/* Raises the error that was packed. */
MT_LJMP static _Noreturn void raise_packed(lua_State *L, const sandbox_turn *t) {
  if (t->odd) mt_error_throw(L, MORTISE_SCRIPT_ERROR, "(the error is a %s)", t->odd);
  mt_copy_unpack(L, mt_buf_slice(&t->box->packed));
  if (lua_type(L, -1) == LUA_TSTRING) {
    mortise_error e;
    mt_error_read(L, -1, &e);
    mt_error_push(L, &e);
    lua_pushvalue(L, -2); /* all of the text */
    lua_setfield(L, -2, "message");
  }
  lua_error(L);
  __builtin_unreachable();
}

/* Of the sandbox at 1. Raises what goes wrong in it. */
MT_LJMP static void do_inside(lua_State *L, sandbox_turn *t, void (*fn)(sandbox_turn *t)) {
  sandbox_box *box = t->box;
  box->driver = mt_driver_get(L);
  mt_driver_check(box->driver, L);
  lua_getiuservalue(L, 1, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, box); /* print_outside finds it there */
  box->user = L;
  box->inside = true;
  enter_state(t, fn);
  box->inside = false;
  box->user = NULL;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, box);
  if (box->budget.over) raise_budget(L, box);
  if (t->status != LUA_OK && t->status != LUA_YIELD) raise_packed(L, t);
}

/* ---- The methods ------------------------------------------------------------------------------ */

static sandbox_box *check_sandbox(lua_State *L) {
  sandbox_box *box = mt_check_self(L, sandbox_name, "sandbox");
  if (box->budget.over) raise_budget(L, box);
  if (!box->S) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the sandbox is closed");
  if (box->inside) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the sandbox is running");
  return box;
}

/* Packs the arguments from index `first` on. */
static void pack_arguments(lua_State *L, sandbox_box *box, int first) {
  mt_buf_clear(&box->packed);
  mt_copy_pack(L, first, lua_gettop(L) - first + 1, &box->packed);
}

static int run_packed(lua_State *L, sandbox_box *box, const char *entry) {
  sandbox_turn t = {.box = box, .entry = entry};
  do_inside(L, &t, run_on);
  lua_pushstring(L, t.asks ? "ask" : "done");
  return 1 + mt_copy_unpack(L, mt_buf_slice(&box->packed));
}

static int start_sandbox(lua_State *L) {
  sandbox_box *box = check_sandbox(L);
  const char *entry = mt_check_string(L, 2);
  pack_arguments(L, box, 3);
  mt_budget_begin(&box->budget);
  return run_packed(L, box, entry);
}

static int answer_sandbox(lua_State *L) {
  sandbox_box *box = check_sandbox(L);
  if (!box->top || lua_status(box->top) != LUA_YIELD)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the sandbox has asked for nothing");
  if (mt_budget_is_over(&box->budget, box->top)) raise_budget(L, box); /* the answer took too long */
  pack_arguments(L, box, 2);
  return run_packed(L, box, NULL);
}

/* (sandbox, code...) */
static int adopt_functions(lua_State *L) {
  sandbox_box *box = check_sandbox(L);
  for (int i = 2; i <= lua_gettop(L); i++) luaL_checktype(L, i, LUA_TSTRING);
  pack_arguments(L, box, 2);
  sandbox_turn t = {.box = box};
  do_inside(L, &t, adopt_packed);
  return 0;
}

static int sandbox_stats(lua_State *L) {
  const sandbox_box *box = mt_check_self(L, sandbox_name, "sandbox");
  const mt_budget b = box->budget;
  lua_newtable(L);
  mt_set_count(L, "memory", b.memory);
  mt_set_count(L, "memory_most", b.memory_most);
  mt_set_count(L, "memory_max", b.memory_max);
  mt_set_count(L, "steps", b.steps);
  mt_set_count(L, "steps_max", b.steps_max);
  mt_set_integer(L, "time_max_ms", b.time_max_ms);
  return 1;
}

static int sandbox_left(lua_State *L) {
  const sandbox_box *box = mt_check_self(L, sandbox_name, "sandbox");
  if (box->budget.deadline_ms == INT64_MAX) return 0;
  int64_t left = box->budget.deadline_ms - mt_clock_boot_ms();
  lua_pushinteger(L, left > 0 ? left : 0);
  return 1;
}

static int close_sandbox(lua_State *L) {
  sandbox_box *box = mt_check_self(L, sandbox_name, "sandbox");
  if (box->inside) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the sandbox is running");
  return collect_sandbox(L);
}

static int core_sandbox(lua_State *L) {
  static const mt_option rows[] = {MT_SIZE_OPTION(sandbox_limits, memory, MEMORY_LEAST, MEMORY_MOST),
                                   MT_SIZE_OPTION(sandbox_limits, steps, 1, INT64_MAX),
                                   MT_INT_OPTION(sandbox_limits, time_ms, 0, MORTISE_TIME_MAX_MS), MT_NO_OPTION};
  sandbox_limits o = {64 << 20, 100 * 1000 * 1000, 60 * 1000};
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2); /* the options, print */
  mt_options_read(L, 1, rows, &o, "sandbox");
  mt_driver *d = mt_driver_get(L);
  sandbox_box *box = lua_newuserdatauv(L, sizeof *box, 1);
  memset(box, 0, sizeof *box);
  luaL_setmetatable(L, sandbox_name);
  mt_own(d, &box->owned, end_sandbox);
  box->driver = d;
  mt_buf_init(&box->packed, o.memory + PACKED_SPARE);
  box->apart = (mt_apart){NULL, room_left, collect_buffers, mt_budget_charge, &box->budget};
  box->budget = (mt_budget){.memory_max = o.memory, .collect_at = o.memory / 2, .steps_max = o.steps, .time_max_ms = o.time_ms,
                            .is_stopped = stop_asked, .ctx = box};
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, 1);
  mt_budget_begin(&box->budget);
  lua_replace(L, 1);
  sandbox_turn t = {.box = box};
  do_inside(L, &t, make_state);
  lua_settop(L, 1);
  return 1;
}

const luaL_Reg mt_sandbox_functions[] = {{"sandbox", core_sandbox}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"start", start_sandbox},
                                   {"answer", answer_sandbox},
                                   {"adopt", adopt_functions},
                                   {"stats", sandbox_stats},
                                   {"left", sandbox_left},
                                   {"close", close_sandbox},
                                   {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", collect_sandbox}, {"__close", close_sandbox}, {NULL, NULL}};
const mt_lua_class mt_sandbox_class = {sandbox_name, methods, metamethods, NULL, NULL};
