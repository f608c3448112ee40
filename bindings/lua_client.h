/* What the files about a client share: its box, which outlives its userdata while it is being
 * closed, and what depends on it. */
#ifndef MT_LUA_CLIENT_H
#define MT_LUA_CLIENT_H

#include "bindings/driver.h"
#include "bindings/lua_class.h"
#include "bindings/op.h"

#include "client/client.h"

/* Something that uses the client, and is told when that ends. */
typedef struct mt_dependent {
  struct mt_dependent *next, **slot;
  void (*drop)(struct mt_dependent *self); /* unlinked already */
  const mt_client_session *of;             /* which of its sessions, where it uses one */
} mt_dependent;

struct mt_box {
  mortise_client *client;
  mt_driver *driver;
  mt_box *next;
  mt_dependent *dependents, *locks;
  mt_op *closer;    /* waits for the end, or NULL */
  atomic_bool lost; /* set by the heartbeat's thread */
  bool closing, closed;
};

typedef struct mt_handle {
  mt_box *box; /* NULL when closed */
} mt_handle;

extern const mt_lua_class mt_client_class;
extern const luaL_Reg mt_client_functions[]; /* of the module */
MT_LJMP void mt_client_options_push(lua_State *L); /* the module's `options` */

/* Closes what was left open, bounded by the clients' own time-outs. */
void mt_client_close_all(mt_driver *d);

void mt_depend(mt_dependent **list, mt_dependent *dependent);
void mt_undepend(mt_dependent *dependent); /* again is fine */
void mt_drop_all(mt_dependent **list);
void mt_drop_of(mt_dependent **list, const mt_client_session *session);

/* The open client at `index`, up to the next call that gets L. */
MT_LJMP mt_box *mt_check_client(lua_State *L, int index);

/* ---- A request to the store ------------------------------------------------------------------ */

typedef struct mt_lua_call mt_lua_call;
struct mt_lua_call {
  mt_op op;
  mt_dependent dependent;
  mt_box *box; /* while it is under way, and up to `push` */
  mt_req *req;
  int (*push)(lua_State *L, mt_lua_call *call, int index); /* the results, when it went well */
  void (*deinit)(mt_lua_call *call);
  void *more; /* the call's own */
  union {
    mt_describe describe;
    mt_index_admin admin;
    mt_mget mget;
    mt_bulk bulk;
    mt_count count;
    mt_refresh refresh;
    mt_search search;
    mt_scan_open scan_open;
    mt_scan_next scan_next;
    mt_raw raw;
    mt_locks_admin locks_admin;
    mt_lock_list list;
    mt_lock_read lock_read;
    mt_session_read session_read;
  } r;
};

enum { MT_CALL_ANCHORS = 4 }; /* the first is the client's userdata, the others the call's */

/* A call on the client at `client`, on the stack. `req` is the member of `r` that will be used. */
MT_LJMP mt_lua_call *mt_lua_call_new(lua_State *L, int client,
                                     int (*push)(lua_State *L, mt_lua_call *call, int index),
                                     void (*deinit)(mt_lua_call *call));
/* Sets what every request has; submit it to this store next, then return mt_await. */
mt_store *mt_lua_call_start(mt_lua_call *call, mt_box *box, mt_req *req);

#endif
