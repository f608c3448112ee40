/* Operations in their caller's memory: how their end is told, and how a thread that runs the loop
 * itself waits for it. Such a struct has
 *
 *     void (*done)(void *ctx, TYPE *op);  in: called at the end; may free the struct. NULL: pumped
 *     void *ctx;                          in
 *     bool finished;                      out: set before `done`, cleared by what submits it
 */
#ifndef MT_BASE_PUMP_H
#define MT_BASE_PUMP_H

#include "base/loop.h"

/* Last: `op` may be gone afterwards. */
#define MT_FINISH(op)                                                                              \
  do {                                                                                             \
    (op)->finished = true;                                                                         \
    if ((op)->done) (op)->done((op)->ctx, (op));                                                   \
  } while (0)

/* Steps the loop until `*finished`, or until `until_ms` on CLOCK_BOOTTIME (-1: no bound), then
 * INTERRUPTED; UNAVAILABLE where the loop fails. Whoever gets an error takes the operation back. */
mortise_status mt_loop_pump(mt_loop *loop, const bool *finished, int64_t until_ms,
                            mortise_error *err);

/* A `done(ctx)` that sets the bool at `flag`, to be pumped for. */
void mt_flag_set(void *flag);

#endif
