/* Interrupts. */
#ifndef MT_INTERRUPT_H
#define MT_INTERRUPT_H

#include "bindings/driver.h"

/* Around a host's call, which is the only time when an interrupt counts. */
typedef struct mt_interrupt_call {
  bool outermost, bound, blocked;
} mt_interrupt_call;
mt_interrupt_call mt_interrupt_enter(mt_driver *d);
void mt_interrupt_leave(mt_driver *d, mt_interrupt_call call);
/* Any thread, any signal handler: interrupts the call under way, if there is one. */
void mt_interrupt_ask(mt_driver *d);
/* Is one to be delivered: asked for, or again since the script went on? Asks once only. */
bool mt_interrupt_due(mt_driver *d);
/* Milliseconds until it is raised again; -1: never. */
int64_t mt_interrupt_patience(const mt_driver *d);
/* The hook of a coroutine that runs while there is something to raise. */
void mt_interrupt_look(lua_State *L, lua_Debug *ar);
/* This coroutine is about to run: it looks at the clock while an interrupt insists. */
void mt_interrupt_arm(mt_driver *d, lua_State *L);
/* For who has caught the error on top: raises it further where it is an interrupt that was raised
 * again, and from the third time on whatever it is, since that may be what the interrupt became. */
MT_LJMP void mt_interrupt_pass(lua_State *L);
/* Is the error on top of the stack an interrupt? */
bool mt_interrupt_is(lua_State *L);
void mt_interrupt_forget(mt_driver *d);
/* Tells every waiting task. `running` is left out: its caller raises the error itself. */
void mt_interrupt_deliver(mt_driver *d, const mt_task *running);
extern const char mt_interrupted_text[];

#endif
