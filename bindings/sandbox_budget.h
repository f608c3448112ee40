/* What a script that is not trusted may use up: memory, steps, time. There is one budget for each Lua state of a
 * sandbox, and all that runs in it draws on it: its instructions, what the functions of its libraries do, its
 * coroutines and metamethods. Once it is over, nothing in that state catches anything any more.
 *
 * Lua's collector never runs by itself here, since there are tables (of weak keys, in an unlucky order) for which it would
 * take hours, and nothing could stop it: mt_budget_charge collects, when it has seen that there are none. For the same
 * reason memory that is refused must not reach Lua, which would collect: the state is left by a longjmp, and all its
 * memory is freed at once.
 *
 * A step is about an instruction of Lua. Functions in C count theirs by mt_budget_charge: one for what takes about
 * as long. */
#ifndef MT_SANDBOX_BUDGET_H
#define MT_SANDBOX_BUDGET_H

#include "bindings/bindings.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mt_budget_end {
  MT_BUDGET_LEFT = 0,
  MT_BUDGET_MEMORY,
  MT_BUDGET_STEPS,
  MT_BUDGET_TIME,
  MT_BUDGET_STOPPED, /* the program that runs it was asked to stop */
} mt_budget_end;

/* Precedes each block of memory. */
typedef struct mt_budget_block {
  struct mt_budget_block *next, **slot;
} mt_budget_block;

typedef struct mt_budget {
  size_t memory_max, memory, memory_most; /* bytes; memory_most is the most it has had at a time */
  size_t collect_at;                      /* bytes with which it is to be collected */
  mt_budget_block *blocks;
  jmp_buf *escape; /* where to leave the state; it must not be used afterwards, nor closed */
  uint64_t steps_max, steps;
  int64_t time_max_ms, deadline_ms; /* of mt_clock_boot_ms */
  mt_budget_end over;
  char where[128];                  /* "file:line" where it was when it was over, or "" */
  bool (*is_stopped)(void *ctx);    /* is it asked to stop? */
  void *ctx;
  lua_State *running; /* the coroutine of the state that runs */
  size_t grown;       /* bytes that were allocated and are not yet a step */
} mt_budget;

/* An allocator for lua_newstate; `ctx` is the budget, in which the maxima are set. While a call is made to the state,
 * `escape` must be set. */
void *mt_budget_allocate(void *ctx, void *p, size_t was, size_t size);
/* Frees all that a state has which was left by `escape`. */
void mt_budget_free_all(mt_budget *b);
/* Of a state that was just made with it. */
void mt_budget_bind(lua_State *L, mt_budget *b);
mt_budget *mt_budget_of(lua_State *L);
/* A new call begins: all steps, and all of the time. */
void mt_budget_begin(mt_budget *b);

/* What may become a metatable of the script's is told here, before it does. Raises an error for weak keys. */
MT_LJMP void mt_budget_note_metatable(lua_State *L, int index);
/* Raises an error once the budget is over. Collects, if it is time. */
MT_LJMP void mt_budget_charge(lua_State *L, uint64_t steps);
/* The same, and collects in any case. */
MT_LJMP void mt_budget_collect(lua_State *L, uint64_t steps);
/* For bytes that are read or written one by one. */
MT_LJMP void mt_budget_charge_bytes(lua_State *L, size_t n);
/* Is it over, or is it now, while `L` waits? Raises nothing. */
bool mt_budget_is_over(mt_budget *b, lua_State *L);
/* Call after Lua's status of a protected call: raises again what must not be caught. */
MT_LJMP void mt_budget_pass(lua_State *L, int status);
/* Bytes that it may still allocate. */
size_t mt_budget_room(const mt_budget *b);

/* Pushes a function that calls `fn`, which uses no upvalues, and counts for the strings that it is given and
 * returns. */
MT_LJMP void mt_budget_push_counted(lua_State *L, lua_CFunction fn);
/* Replaces these functions of the table on top by such ones; NULL ends the names. */
MT_LJMP void mt_budget_count(lua_State *L, const char *const *names);

#endif
