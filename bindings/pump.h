/* Resuming tasks, and waiting without a yield. */
#ifndef MT_PUMP_H
#define MT_PUMP_H

#include "bindings/driver.h"
#include "bindings/op.h"

/* Steps the loop until `op` is done, resuming only the tasks that a pump may (see pump.c). */
void mt_pump_op(mt_driver *d, mt_op *op);
/* The same until a task is done, which counts as joined. */
void mt_pump_task(mt_driver *d, mt_task *task);

/* For a driver whose loop others step: resumes what is ready now, and how long until that is due again, in ms; -1: when
 * the loop has something for it. */
void mt_pump_turn(mt_driver *d);
int64_t mt_pump_wait(const mt_driver *d);

#endif
