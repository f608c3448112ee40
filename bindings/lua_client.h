/* Shared by the files about clients: the box, which outlives the userdata while the client is being
 * closed, and the list of what depends on it. */
#ifndef MT_LUA_CLIENT_H
#define MT_LUA_CLIENT_H

#include "bindings/driver.h"
#include "bindings/lua_class.h"
#include "bindings/op.h"

#include "client/client.h"

/* Something that uses the client and is called when the client ends. */
typedef struct mt_dependent {
  struct mt_dependent *next, **slot;
  void (*drop)(struct mt_dependent *self); /* it is already unlinked */
  const mt_client_session *of;             /* which of its sessions, where it uses one */
} mt_dependent;

struct mt_box {
  mortise_client *client;
  mt_driver *driver;
  mt_box *next;
  mt_dependent *dependents, *locks;
  mt_op *closer;    /* waits until it is closed, or NULL */
  atomic_bool lost; /* set by the heartbeat's thread */
  bool closing, closed;
};

typedef struct mt_handle {
  mt_box *box; /* NULL: closed */
} mt_handle;

extern const mt_lua_class mt_client_class;
extern const luaL_Reg mt_client_functions[]; /* of the module */
MT_LJMP void mt_client_options_push(lua_State *L); /* the module's `options` */

/* Closes clients that are still open, within their own time-outs. */
void mt_client_close_all(mt_driver *d);

void mt_depend(mt_dependent **list, mt_dependent *dependent);
void mt_undepend(mt_dependent *dependent); /* may be called again */
void mt_drop_all(mt_dependent **list);
void mt_drop_of(mt_dependent **list, const mt_client_session *session);

/* The open client at `index`, valid until the next call that takes L. */
MT_LJMP mt_box *mt_check_client(lua_State *L, int index);

/* ---- A request to the store ------------------------------------------------------------------ */

typedef struct mt_lua_call mt_lua_call;
struct mt_lua_call {
  mt_op op;
  mt_dependent dependent;
  mt_box *box; /* while it is in flight and until `push` */
  mt_req *req;
  int (*push)(lua_State *L, mt_lua_call *call, int index); /* pushes the results after success */
  void (*deinit)(mt_lua_call *call);
  void *more; /* for the specific call */
  union {
    mt_describe describe;
    mt_index_admin admin;
    mt_aliases aliases;
    mt_alias_move alias_move;
    mt_mget mget;
    mt_bulk bulk;
    mt_count count;
    mt_refresh refresh;
    mt_search search;
    mt_shards shards;
    mt_intervals intervals;
    mt_range range;
    mt_scan_open scan_open;
    mt_scan_next scan_next;
    mt_raw raw;
    mt_locks_admin locks_admin;
    mt_lock_list list;
    mt_lock_read lock_read;
    mt_session_read session_read;
    mt_session_purge session_purge;
    mt_server_task task;
    mt_server_task_find task_find;
  } r;
};

enum { MT_CALL_ANCHORS = 5 }; /* the first is the client's userdata, the others are for the call */

/* Pushes a call on the client at index `client`. */
MT_LJMP mt_lua_call *mt_lua_call_new(lua_State *L, int client,
                                     int (*push)(lua_State *L, mt_lua_call *call, int index),
                                     void (*deinit)(mt_lua_call *call));
/* The same on the client at 1, for a method of that many arguments, which are all kept alive and below it. */
MT_LJMP mt_lua_call *mt_lua_call_of(lua_State *L, int arguments,
                                    int (*push)(lua_State *L, mt_lua_call *call, int index),
                                    void (*deinit)(mt_lua_call *call));
/* Fills the common part of the request `req`, a member of `call->r`; submit it to the returned
 * store next, then return mt_await. */
mt_store *mt_lua_call_start(mt_lua_call *call, mt_box *box, mt_req *req);

#endif
