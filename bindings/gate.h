/* The thread that runs Lua for a driver, and how another makes it look up. */
#ifndef MT_GATE_H
#define MT_GATE_H

#include "base/error.h"

typedef struct mt_gate mt_gate;

/* `look` is called in the bound thread, maybe in a signal handler: after a kick, or for a signal that
 * somebody else sent. */
mt_gate *mt_gate_new(void (*look)(void *ctx), void *ctx, mortise_error *err);
void mt_gate_free(mt_gate *gate); /* unbound too */
/* The calling thread is its own from now on, until unbound: before the thread may end. */
bool mt_gate_bind(mt_gate *gate); /* false: it was already */
void mt_gate_unbind(mt_gate *gate);
/* Any thread, any signal handler. */
void mt_gate_kick(mt_gate *gate);
/* Lets the signal reach the calling thread; was it blocked there? */
bool mt_gate_unblock(void);
void mt_gate_block(void);

#endif
