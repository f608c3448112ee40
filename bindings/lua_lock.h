/* A lock as a userdata, for the files that use one. */
#ifndef MT_LUA_LOCK_H
#define MT_LUA_LOCK_H

#include "bindings/lua_class.h"
#include "bindings/lua_client.h"

typedef struct mt_lock_handle {
  mt_dependent dependent;
  mt_box *box;
  mt_lock *lock; /* NULL before it is granted and once it is released */
  uint64_t task; /* its owner */
  uint64_t fence;
  mt_dependent *users; /* writers and changes under it, which end before it */
  bool told;           /* its loss was raised in its task, or will be when that resumes */
  bool woken;          /* the tasks that were waiting when it was lost were woken */
} mt_lock_handle;      /* user values: the client or session, paths, modes */

/* The lock at `index`, held as far as this process knows; raises an error if it was released. */
MT_LJMP mt_lock_handle *mt_check_lock(lua_State *L, int index);
/* `err` may be NULL. */
bool mt_lock_is_lost(const mt_lock_handle *h, mortise_error *err);
extern const mt_lua_class mt_lock_class;
extern const luaL_Reg mt_lock_functions[];  /* of the module */
extern const luaL_Reg mt_acquire_methods[]; /* of clients and sessions */
extern const luaL_Reg mt_holds_methods[];   /* of clients */

#endif
