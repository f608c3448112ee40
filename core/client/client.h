/* A client: a loop, a store, and its sessions with their lock managers. The bindings use it;
 * mortise/mortise.h is its synchronous interface. */
#ifndef MT_CLIENT_CLIENT_H
#define MT_CLIENT_CLIENT_H

#include "base/loop.h"
#include "client/session.h"
#include "lock/convert.h"
#include "store/store.h"

#include <mortise/mortise.h>

struct mortise_client {
  unsigned process; /* mt_process_number of the process that opened it */
  mt_loop *loop;
  mt_store *store;
  char *jobs;                  /* the index of jobs and their journals, owned: TABLE-jobs */
  mt_client_session *own;      /* NULL until mt_client_manager */
  mt_client_session *sessions; /* all of them, owned; youngest first */
  uint64_t last_session;       /* number of the last one */
  mt_loop *own_loop;           /* NULL: the caller's */
  mt_log log;
  mortise_options options; /* strings owned */
  mt_client_hooks hooks;
  mt_session_base base;
  mt_timer look;     /* checks whether the store answers; runs if there is a notice callback */
  int64_t silent_ms; /* since when it has not answered, as notices said; 0: it answers */
  void (*closed)(void *ctx); /* called at the end of closing; NULL: not closing */
  void *closed_ctx;
  mortise_lock *locks; /* of the synchronous interface, owned; the bindings keep their own */
};

/* `loop` must outlive it; NULL makes a loop of its own. `hooks` is copied. */
mortise_client *mt_client_open(const mortise_options *options, mt_loop *loop,
                               const mt_client_hooks *hooks, mortise_error *err);

/* The manager of the client's own session, made at first use without I/O. */
mt_manager *mt_client_manager(mortise_client *client, mortise_error *err);

/* One more session, of the job with this id, made as mt_client_session_make does; the client owns it. */
mt_client_session *mt_client_session_new(mortise_client *client, const char *job,
                                         mortise_error *err);
/* Frees those that were closed beside the client's own. Not from the loop's callbacks. */
void mt_client_sweep(mortise_client *client);

/* The asynchronous part of mortise_client_free: ends all sessions, of which those of jobs keep their
 * guard. mt_client_free then frees the memory. */
void mt_client_close(mortise_client *client, void (*done)(void *ctx), void *ctx);
void mt_client_free(mortise_client *client);

/* The normalised paths of a lock request with their modes. `text` owns the bytes. */
typedef struct mt_wants {
  mt_want *wants; /* owned */
  size_t n;
  mt_buf text;
} mt_wants;
mortise_status mt_wants_make(const mortise_lock_request *request, mt_wants *out,
                             mortise_error *err);
void mt_wants_deinit(mt_wants *w);
mt_mode mt_wants_mode(mortise_lock_mode mode);
/* Checks the arguments of a request or conversion: INVALID_ARGUMENT if out of range. */
mortise_status mt_wants_check(mortise_lock_mode mode, int64_t wait_ms, mortise_error *err);

/* The options in force. Borrowed. */
const mortise_options *mt_client_options(const mortise_client *client);

#endif
