/* Sessions of a client, for the files that use one. */
#ifndef MT_LUA_SESSION_H
#define MT_LUA_SESSION_H

#include "bindings/lua_class.h"
#include "bindings/lua_client.h"

typedef struct mt_session_handle {
  mt_dependent dependent;
  mt_box *box;
  mt_client_session *session; /* NULL when closed */
} mt_session_handle;          /* user value: the client */

/* Of the session at `index`, or of the client there: its own. Raises where it is closed. */
MT_LJMP mt_box *mt_check_session(lua_State *L, int index, mt_client_session **session);
extern const mt_lua_class mt_session_class;
extern const luaL_Reg mt_session_methods[]; /* of clients */

#endif
