/* Of a host, for what stands on it. */
#ifndef MT_BINDINGS_HOST_H
#define MT_BINDINGS_HOST_H

#include <mortise/host.h>

/* mortise_host_start_call, with a `ctx` that `drop` frees when the run is over, told or cancelled; here too where it was not
 * started. */
mortise_run *mt_host_start_with(mortise_host *host, int nargs, mortise_ran_fn *done, void *ctx, void (*drop)(void *ctx),
                                mortise_error *err);

/* Pushes `push`'s results for `ctx` onto the host's stack, as many as `n`. */
mortise_status mt_host_push(mortise_host *host, int (*push)(struct lua_State *L), void *ctx, int n, mortise_error *err);

#endif
