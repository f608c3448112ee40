/* A client: a loop, a store, and its sessions with their lock managers, put together. This is what
 * the bindings stand on; mortise/mortise.h is its synchronous face. */
#ifndef MT_CLIENT_CLIENT_H
#define MT_CLIENT_CLIENT_H

#include "base/loop.h"
#include "client/session.h"
#include "lock/convert.h"
#include "store/store.h"

#include <mortise/mortise.h>

/* What a host adds to a client. All may be NULL. */
typedef struct mt_client_hooks {
  bool (*inherits)(void *ctx, uint64_t holder, uint64_t task); /* as in mt_manager_config */
  void (*lost)(void *ctx); /* a session was lost; from the loop or a heartbeat's thread, or both */
  void *ctx;
} mt_client_hooks;

struct mortise_client {
  unsigned process; /* mt_process_number of who opened it */
  mt_loop *loop;
  mt_store *store;
  mt_client_session *own;      /* NULL until mt_client_manager */
  mt_client_session *sessions; /* all of them, owned; the youngest first */
  uint64_t last_session;       /* counts them */
  mt_loop *own_loop;   /* NULL: the caller's */
  mt_log log;
  mortise_options options; /* strings owned */
  mt_client_hooks hooks;
  struct mt_identity *identity; /* of this process */
  mt_timer look;     /* whether the store answers; runs where someone wants to be told */
  int64_t silent_ms; /* since when it does not, as someone was told; 0: it does */
  void (*closed)(void *ctx); /* of the closing; NULL: it is not asked for */
  void *closed_ctx;
  mortise_lock *locks; /* of the synchronous face, owned; the bindings keep their own */
};

/* On a loop of the caller's (the host's), which must outlive it; NULL makes one of its own. `hooks`
 * is copied. */
mortise_client *mt_client_open(const mortise_options *options, mt_loop *loop,
                               const mt_client_hooks *hooks, mortise_error *err);

/* The manager of the client's own session, made at first use (no I/O). */
mt_manager *mt_client_manager(mortise_client *client, mortise_error *err);

/* Asynchronous end of all sessions: as mortise_client_free up to the freeing, which is
 * mt_client_free. */
void mt_client_close(mortise_client *client, void (*done)(void *ctx), void *ctx);
void mt_client_free(mortise_client *client);

/* The paths that a lock request means, normalised, with modes. `text` owns the bytes. */
typedef struct mt_wants {
  mt_want *wants; /* owned */
  size_t n;
  mt_buf text;
} mt_wants;
mortise_status mt_wants_make(const mortise_lock_request *request, mt_wants *out,
                             mortise_error *err);
void mt_wants_deinit(mt_wants *w);
mt_mode mt_wants_mode(mortise_lock_mode mode);
/* Those of a request, of a conversion: INVALID_ARGUMENT where out of range. */
mortise_status mt_wants_check(mortise_lock_mode mode, int64_t wait_ms, mortise_error *err);

/* ---- For its sessions ------------------------------------------------------------------------ */

/* Another handle of the same store, on another loop. Any thread's. */
mt_store *mt_client_open_store(mortise_client *client, mt_loop *loop, mortise_error *err);
/* This process, found out at first use. NULL with `err`. */
struct mt_identity *mt_client_identity(mortise_client *client, mortise_error *err);
/* From now on someone who wants to be told is told when the store does not answer. */
mortise_status mt_client_look(mortise_client *client, mortise_error *err);
/* One of them has ended. */
void mt_client_session_closed(mortise_client *client);

/* The namespace, defaults and time-outs in force. Borrowed. */
const mortise_options *mt_client_options(const mortise_client *client);

#endif
