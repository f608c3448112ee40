/* Interrupts of scripts. */
#ifndef MT_INTERRUPT_H
#define MT_INTERRUPT_H

#include "bindings/driver.h"

/* Enclose a host's call, the only time when an interrupt has an effect. */
typedef struct mt_interrupt_call {
  bool outermost, bound, blocked;
} mt_interrupt_call;
mt_interrupt_call mt_interrupt_enter(mt_driver *d);
/* The calls of scripts that were started are one, which others step: from the first one's start to the last one's end. */
void mt_interrupt_begin(mt_driver *d); /* does nothing in a call */
void mt_interrupt_end(mt_driver *d);
void mt_interrupt_leave(mt_driver *d, mt_interrupt_call call);
/* From any thread or signal handler: interrupts the running call, if any. */
void mt_interrupt_ask(mt_driver *d);
/* Must an interrupt be delivered: requested, or due again since the script went on? Clears the
 * request. */
bool mt_interrupt_due(mt_driver *d);
/* Is there one to deliver, or to raise again? Clears nothing. */
bool mt_interrupt_is_pending(const mt_driver *d);
/* Delivers and raises it, if there is one. */
MT_LJMP void mt_interrupt_raise(lua_State *L, mt_driver *d);
/* Milliseconds until the interrupt is raised again; -1: never. */
int64_t mt_interrupt_patience(const mt_driver *d);
/* The Lua hook of a running coroutine while there is something to raise. */
void mt_interrupt_look(lua_State *L, lua_Debug *ar);
/* Call before running a coroutine: sets a hook that checks the clock while an interrupt may be due
 * again, and counts where instructions are limited. */
void mt_interrupt_arm(mt_driver *d, lua_State *L);
/* How many each script may carry out; 0: without limit. */
void mt_interrupt_limit(mt_driver *d, uint64_t instructions);
/* Call before the first resume of a coroutine, which counts for some instructions however few it has. */
void mt_interrupt_charge(mt_driver *d);
/* Call after catching the error on top: raises it again if it is a repeated interrupt, and from the
 * third interrupt on any error, since the interrupt may have been turned into it. */
MT_LJMP void mt_interrupt_pass(lua_State *L);
/* Is the error on top of the stack an interrupt? */
bool mt_interrupt_is(lua_State *L);
void mt_interrupt_forget(mt_driver *d);
/* Delivers to every waiting task except `running`, whose caller raises the error itself. */
void mt_interrupt_deliver(mt_driver *d, const mt_task *running);
extern const char mt_interrupted_text[];

#endif
