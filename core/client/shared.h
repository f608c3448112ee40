/* What the clients of one loop share: the loop and its stores. A client that is given no loop has one of these alone. */
#ifndef MT_CLIENT_SHARED_H
#define MT_CLIENT_SHARED_H

#include "client/hint.h"
#include "client/pool.h"

/* Who else works in a loop, beside its clients: a host. In its owner's memory. */
typedef struct mt_guest {
  void (*turn)(void *ctx);    /* after the loop's own callbacks; may take itself out, and free itself */
  int64_t (*wait)(void *ctx); /* how long until its turn, in ms; -1: until the loop has something for it */
  void (*end)(void *ctx);     /* the loop is being freed: takes itself out */
  void *ctx;
  struct mt_guest *next;
} mt_guest;

struct mortise_loop {
  unsigned process; /* mt_process_number of the process that made it */
  mt_loop *loop;
  mt_loop *own; /* NULL: somebody else's */
  mt_pool stores;
  uint64_t address;      /* of hints: half of the ids of its sessions */
  mt_hint_socket *hints; /* NULL: nobody listens, or it cannot be had */
  mortise_client *clients; /* by `beside` */
  mt_guest *guests;
  bool stepping; /* mortise_loop_step is under way */
};

/* `loop` must outlive it; NULL makes one of its own. NULL with `err`. */
mortise_loop *mt_shared_new(mt_loop *loop, mortise_error *err);
/* After its clients. NULL is fine. */
void mt_shared_free(mortise_loop *shared);

void mt_shared_add(mortise_loop *shared, mt_guest *guest);
void mt_shared_remove(mortise_loop *shared, mt_guest *guest);

/* Is this inside of a step, where nobody may wait? mt_shared_check_wait says it as INVALID_ARGUMENT. */
bool mt_shared_busy(const mortise_loop *shared);
mortise_status mt_shared_check_wait(const mortise_loop *shared, mortise_error *err);

/* A session hears hints from now on, where the machine has any. */
void mt_shared_listen(mortise_loop *shared, mt_hearer *hearer);
void mt_shared_stop_listening(mortise_loop *shared, const mt_hearer *hearer);

/* INVALID_ARGUMENT in a forked child (mt_process_check). */
mortise_status mt_shared_check(const mortise_loop *shared, const char *what, mortise_error *err);

#endif
