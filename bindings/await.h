/* Waiting for an operation. */
#ifndef MT_AWAIT_H
#define MT_AWAIT_H

#include "bindings/driver.h"

/* Waits for the op at `index` and returns its results: yields in a task's own coroutine and pumps
 * the loop elsewhere. The C function must return its value: `return mt_await(L, i)`. */
MT_LJMP int mt_await(lua_State *L, int index);
/* Would the caller pump, so that its siblings cannot run while it waits? */
bool mt_alone(lua_State *L, const mt_driver *d);

#endif
