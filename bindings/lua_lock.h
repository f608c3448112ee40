/* A lock as a userdata, for the files that use one. */
#ifndef MT_LUA_LOCK_H
#define MT_LUA_LOCK_H

#include "lua_client.h"

typedef struct mt_lock_handle {
  mt_dependent dependent;
  mt_box *box;
  mt_lock *lock; /* NULL before it is granted and once it is released */
  uint64_t task; /* whose it is */
  uint64_t fence;
  bool told;      /* its loss was raised */
} mt_lock_handle; /* user values: the client, paths, modes */

/* The lock at `index`, held as far as this process knows; raises where it was released. */
MT_LJMP mt_lock_handle *mt_check_lock(lua_State *L, int index);
MT_LJMP void mt_writer_open(lua_State *L); /* lua_writer.c: adds to the table on the stack */
MT_LJMP void mt_rename_open(lua_State *L); /* lua_rename.c */
MT_LJMP int mt_client_writer(lua_State *L);

#endif
