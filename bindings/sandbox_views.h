/* Documents in a sandbox: reading and changing them counts by how long they are, and how much of them was assigned, before it
 * is done. */
#ifndef MT_SANDBOX_VIEWS_H
#define MT_SANDBOX_VIEWS_H

#include "bindings/bindings.h"

MT_LJMP void mt_sandbox_open_views(lua_State *L); /* makes the class */

#endif
