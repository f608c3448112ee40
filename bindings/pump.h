/* Resuming tasks, and waiting without a yield. */
#ifndef MT_PUMP_H
#define MT_PUMP_H

#include "bindings/driver.h"
#include "bindings/op.h"

/* Steps the loop until `op` is done, resuming only the tasks that a pump may (see pump.c). */
void mt_pump_op(mt_driver *d, mt_op *op);
/* The same until a task is done, which counts as joined. */
void mt_pump_task(mt_driver *d, mt_task *task);

#endif
