/* Waiting for an operation. */
#ifndef MT_AWAIT_H
#define MT_AWAIT_H

#include "bindings/driver.h"

/* Waits for the op at `index` and returns its results: by a yield in a task's own coroutine, by
 * pumping elsewhere. To be returned by the C function: `return mt_await(L, i)`. */
MT_LJMP int mt_await(lua_State *L, int index);
/* Would the caller wait without letting its siblings run? */
bool mt_alone(lua_State *L, const mt_driver *d);

#endif
