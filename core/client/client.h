/* A client: a loop, a store, and its sessions with their lock managers. The bindings use it; mortise/client.h and
 * mortise/lock.h are its interface for programs in C. */
#ifndef MT_CLIENT_CLIENT_H
#define MT_CLIENT_CLIENT_H

#include "base/loop.h"
#include "client/session.h"
#include "lock/convert.h"

#include <mortise/write.h>

struct mortise_client {
  mortise_loop *shared;   /* with other clients, or its own */
  mortise_loop *alone;    /* its own, owned; NULL: the program's */
  mortise_client *beside; /* the next one of the loop */
  mt_loop *loop;
  mt_store *store; /* of the loop */
  char *jobs;                  /* the index of jobs and their journals, owned: TABLE-jobs */
  mt_client_session *own;      /* NULL until mt_client_manager */
  mt_client_session *sessions; /* all of them, owned; youngest first */
  uint64_t last_session;       /* number of the last one */
  mortise_options options; /* strings owned */
  mt_client_hooks hooks;
  mt_session_base base;
  mt_timer look;     /* checks whether the store answers; runs if there is a notice callback */
  int64_t silent_ms; /* since when it has not answered, as notices said; 0: it answers */
  void (*closed)(void *ctx); /* called at the end of closing; NULL: not closing */
  void *closed_ctx;
  /* Of the interface in C (handles.h); the bindings keep their own. */
  bool ending;             /* it is being closed: nothing new is begun */
  mortise_lock *locks;     /* owned, as all below */
  mortise_writer *writers; /* of no lock */
  mortise_scan *scans;
  mortise_op *ops;     /* under way */
  mortise_op *end_op;  /* to be told when it is closed; NULL: nobody */
  uint64_t last_task;  /* numbers of what was started for no task */
  mt_post lost;        /* its session is dead */
  mt_post end;         /* the next step of closing it */
};

/* `loop` must outlive it; NULL: that of `options`, or one of its own. `hooks` is copied; NULL: those of the interface in
 * C. */
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

/* ---- For programs in C --- */

/* Its hooks: on_lost of its locks. */
void mt_client_hook(mortise_client *client);
/* Starts closing, unless that is so already; the client is freed in a later step of its loop. */
void mt_client_end(mortise_client *client);
/* Ends what is under way with INTERRUPTED, then frees all that programs hold of it. */
void mt_client_end_ops(mortise_client *client);
/* INVALID_ARGUMENT where a call of the client cannot be: NULL, forked, being closed; where `waits`, in a callback. */
mortise_status mt_client_check(const mortise_client *client, bool waits, mortise_error *err);

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
