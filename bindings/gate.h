/* The thread that runs Lua for a driver, and how other threads interrupt it. */
#ifndef MT_GATE_H
#define MT_GATE_H

#include "base/error.h"

typedef struct mt_gate mt_gate;

/* `look` is called in the bound thread, possibly in a signal handler: after a kick, or for a signal
 * that somebody else sent. */
mt_gate *mt_gate_new(void (*look)(void *ctx), void *ctx, mortise_error *err);
void mt_gate_free(mt_gate *gate); /* also unbinds it */
/* Binds the gate to the calling thread; unbind it before the thread ends. */
bool mt_gate_bind(mt_gate *gate); /* false: already bound */
void mt_gate_unbind(mt_gate *gate);
/* From any thread or signal handler. */
void mt_gate_kick(mt_gate *gate);
/* Unblocks the signal in the calling thread; was it blocked? */
bool mt_gate_unblock(void);
void mt_gate_block(void);

#endif
