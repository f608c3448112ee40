/* The driver hooks for lost leases: they raise the loss in the tasks of the locks and wake those
 * that wait. */
#ifndef MT_LUA_LOST_H
#define MT_LUA_LOST_H

#include "bindings/driver.h"

MT_LJMP void mt_lost_check(lua_State *L, mt_driver *d);
void mt_lost_wake(mt_driver *d);
void mt_lost_read(mt_driver *d, mortise_error *out);

#endif
