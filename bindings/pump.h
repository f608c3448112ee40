/* Resuming tasks, and waiting for one without a yield. */
#ifndef MT_PUMP_H
#define MT_PUMP_H

#include "bindings/driver.h"
#include "bindings/op.h"

/* Steps until `op` is done, resuming only what a pump may (see pump.c): `joined` and what it
 * started, or, outside every task, all. */
void mt_pump_op(mt_driver *d, mt_op *op);
/* The same until a task is done. It counts as joined. */
void mt_pump_task(mt_driver *d, mt_task *task);

#endif
