/* A lock as a userdata, for the files that use one. */
#ifndef MT_LUA_LOCK_H
#define MT_LUA_LOCK_H

#include "bindings/lua_client.h"

typedef struct mt_lock_handle {
  mt_dependent dependent;
  mt_box *box;
  mt_lock *lock; /* NULL before it is granted and once it is released */
  uint64_t task; /* whose it is */
  uint64_t fence;
  mt_dependent *users; /* writers and changes under it: they end before it does */
  bool told;           /* its loss was raised in its task, or will be when that goes on */
  bool woken;          /* those that waited when it was lost were told */
} mt_lock_handle;      /* user values: the client, paths, modes */

/* The lock at `index`, held as far as this process knows; raises where it was released. */
MT_LJMP mt_lock_handle *mt_check_lock(lua_State *L, int index);
/* Adds to a table of methods on the stack: `writer`, of locks and of clients. */
MT_LJMP void mt_writer_methods(lua_State *L);
MT_LJMP void mt_rename_methods(lua_State *L); /* `rename`, of locks */

extern const char mt_lock_name[];

#endif
