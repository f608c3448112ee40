/* Interrupts a running script, for an interrupt request or a lost lease.
 *
 * A permanent hook costs half the speed, so it is set only when needed, in the thread that runs Lua
 * (gate.c), where lua_sethook may be called at any moment (as in lua.c's laction).
 *
 * The hook only counts instructions: a call hook could hit a lock's __close before it began.
 *
 * An interrupt is an error, which a script may catch. If the script then goes on for longer than
 * the host's patience, the error is raised again, repeatedly; from the second time on pcall and the
 * like do not catch it (coroutine.c). So clean-up gets one patience at each step, and a loop around
 * a pcall ends.
 *
 * Where a script's instructions are limited, the hook is there throughout. One that has used them up gets an error that
 * nothing catches, and again after each tenth of them: `__close` handlers have that much. */
#include "bindings/interrupt.h"

#include "bindings/gate.h"
#include "bindings/lua_error.h"
#include "bindings/task.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Instructions between two checks of the clock after an interrupt, and those that are counted at a time. */
enum { LOOK_COUNT = 1000 };

/* ---- Instructions --------------------------------------------------------------------------- */

/* The task that the program has started, as which its tasks count; NULL: the program itself. */
static mt_task *limited_script(mt_driver *d) {
  mt_task *task = d->instructions_max ? d->running : NULL;
  while (task && task->parent && task->parent != &d->main_task) task = task->parent;
  return task;
}

static bool is_overdrawn(const mt_driver *d, const mt_task *script) {
  enum { PART = 10, LEAST = 100 * LOOK_COUNT };
  uint64_t more = d->instructions_max / PART > LEAST ? d->instructions_max / PART : LEAST;
  return script->used > d->instructions_max + script->overdrawn * more;
}

void mt_interrupt_limit(mt_driver *d, uint64_t instructions) {
  d->instructions_max = instructions;
  snprintf(d->used_up, sizeof d->used_up, "the script has carried out the %" PRIu64 " instructions that it may", instructions);
}

void mt_interrupt_charge(mt_driver *d) {
  mt_task *script = limited_script(d);
  if (script) script->used += LOOK_COUNT;
}

/* Ends a script that has used up what it may. */
MT_LJMP static void check_instructions(lua_State *L, mt_driver *d) {
  mt_task *script = limited_script(d);
  if (!script || !is_overdrawn(d, script)) return;
  script->overdrawn++;
  mt_task_stop_tree(script, d->used_up, d->running);
  mt_error_throw(L, MORTISE_INTERRUPTED, "%s", d->used_up);
}

/* ---- The hook ------------------------------------------------------------------------------- */

static bool insists(const mt_driver *d) {
  return d->interrupted && d->again_ms != INT64_MAX;
}

void mt_interrupt_arm(mt_driver *d, lua_State *L) {
  if (!insists(d) && !d->instructions_max) return;
  /* Set again it would count anew, so that one who yields often would never be counted. */
  if (lua_gethook(L) == mt_interrupt_look && lua_gethookcount(L) == LOOK_COUNT) return;
  lua_sethook(L, mt_interrupt_look, LUA_MASKCOUNT, LOOK_COUNT);
}

static bool is_due(const mt_driver *d, uint64_t asked) {
  if (!insists(d)) return asked && asked == atomic_load(&d->call);
  return mt_clock_boot_ms() >= d->again_ms; /* another request meanwhile changes nothing */
}

bool mt_interrupt_due(mt_driver *d) {
  return is_due(d, atomic_exchange(&d->asked, 0));
}

bool mt_interrupt_is_pending(const mt_driver *d) {
  return is_due(d, atomic_load(&d->asked));
}

const char mt_interrupted_text[] = "asked to stop";

void mt_interrupt_deliver(mt_driver *d, const mt_task *running) {
  d->interrupted = true;
  d->raised++;
  d->again_ms = d->patience_ms ? mt_clock_boot_ms() + d->patience_ms : INT64_MAX;
  mt_tasks_stop(d, mt_interrupted_text, running, d->raised > 1);
}

/* Code that releases a lock or reports the outcome of a write finishes first, since an error in its
 * place would hide that it was applied. These files wait or end soon. */
static bool must_end(lua_State *L, lua_Debug *ar) {
  static const char *const files[] = {"@mortise/lock.lua", "@mortise/documents.lua",
                                      "@mortise/writer.lua", "@mortise/rename.lua",
                                      "@mortise/job.lua", "@mortise/job_spec.lua",
                                      "@mortise/tune.lua"};
  if (!lua_getinfo(L, "S", ar)) return false;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (!strcmp(ar->source, files[i])) return true;
  return false;
}

void mt_interrupt_raise(lua_State *L, mt_driver *d) {
  if (!mt_interrupt_due(d)) return;
  mt_interrupt_deliver(d, mt_driver_task(d));
  mt_interrupt_arm(d, L);
  mt_error_throw(L, MORTISE_INTERRUPTED, "%s", mt_interrupted_text);
}

void mt_interrupt_look(lua_State *L, lua_Debug *ar) {
  mt_driver *d = mt_driver_peek(L);
  if (d && lua_gethookcount(L) == LOOK_COUNT) mt_interrupt_charge(d);
  if (must_end(L, ar)) return;
  lua_sethook(L, NULL, 0, 0);
  if (!d || !d->loop) return;
  mt_interrupt_raise(L, d);
  mt_interrupt_arm(d, L);
  check_instructions(L, d);
  if (atomic_load(&d->lost)) d->hooks->check(L, d);
}

int64_t mt_interrupt_patience(const mt_driver *d) {
  if (!insists(d)) return -1;
  int64_t now = mt_clock_boot_ms();
  return now < d->again_ms ? d->again_ms - now : 0;
}

void mt_interrupt_forget(mt_driver *d) {
  d->interrupted = false;
  d->raised = 0;
  d->again_ms = INT64_MAX;
}

bool mt_interrupt_is(lua_State *L) {
  if (!mt_error_is(L, -1)) return false;
  lua_pushliteral(L, "code");
  lua_rawget(L, -2);
  const char *code = lua_tostring(L, -1);
  bool is = code && !strcmp(code, mortise_status_name(MORTISE_INTERRUPTED));
  lua_pop(L, 1);
  return is;
}

void mt_interrupt_pass(lua_State *L) {
  mt_driver *d = lua_checkstack(L, 4) ? mt_driver_peek(L) : NULL;
  if (!d) return;
  const mt_task *script = limited_script(d);
  if (script && script->overdrawn) {
    if (mt_interrupt_is(L)) lua_error(L);
    mt_error_throw(L, MORTISE_INTERRUPTED, "%s", d->used_up);
  }
  if (!insists(d) || d->raised < 2) return;
  if (mt_interrupt_is(L)) lua_error(L);
  if (d->raised > 2) mt_error_throw(L, MORTISE_INTERRUPTED, "%s", mt_interrupted_text);
}

/* ---- Around a host's call ------------------------------------------------------------------- */

void mt_interrupt_begin(mt_driver *d) {
  if (atomic_load(&d->call)) return;
  mt_interrupt_forget(d); /* drops an earlier call's interrupt */
  atomic_store(&d->call, ++d->calls);
}

void mt_interrupt_end(mt_driver *d) {
  atomic_store(&d->call, 0);
}

mt_interrupt_call mt_interrupt_enter(mt_driver *d) {
  mt_interrupt_call call = {.outermost = !atomic_load(&d->call)};
  call.bound = mt_gate_bind(d->gate);
  if (!call.outermost) return call;
  call.blocked = mt_gate_unblock();
  mt_interrupt_begin(d);
  return call;
}

void mt_interrupt_leave(mt_driver *d, mt_interrupt_call call) {
  if (call.outermost) mt_interrupt_end(d);
  if (call.bound) mt_gate_unbind(d->gate);
  if (call.blocked) mt_gate_block();
}

/* Interrupts only the current call. A late request for an earlier call replaces no newer one, since
 * call numbers grow. */
void mt_interrupt_ask(mt_driver *d) {
  uint64_t call = atomic_load(&d->call), asked = atomic_load(&d->asked);
  while (asked < call && !atomic_compare_exchange_weak(&d->asked, &asked, call)) {
  }
  if (call) mt_driver_kick(d);
}
