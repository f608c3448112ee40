/* A driver and its tasks as their parts see them, and the calls that lead up. */
#ifndef MT_DRIVER_H
#define MT_DRIVER_H

#include "bindings/bindings.h"
#include "bindings/gate.h"

#include "base/loop.h"

#include <mortise/mortise.h>

#include <stdatomic.h>

typedef struct mt_driver mt_driver;
typedef struct mt_task mt_task;
typedef struct mt_op mt_op;

/* A resource of a userdata: ended by its finalizer, or by the driver's where Lua calls none any more,
 * which is so for what finalizers make at the state's end. */
typedef struct mt_owned {
  struct mt_owned *next, **slot;
  void (*end)(struct mt_owned *self); /* unlinked already */
} mt_owned;

enum { MT_TASK_BUCKETS = 256, MT_MAIN_TASK = 1 };

typedef enum mt_task_phase {
  MT_TASK_NEW = 0, /* not resumed yet */
  MT_TASK_BODY,
  MT_TASK_ENDING,  /* its body has ended, it waits for its children */
  MT_TASK_DONE,    /* a failure that nobody has seen waits for its parent */
  MT_TASK_DROPPED, /* no task of the driver's any more */
} mt_task_phase;

/* A coroutine that the driver started; a full userdata. */
struct mt_task {
  mt_driver *driver;
  uint64_t id;
  mt_task *parent; /* outlives it: a task ends after its children */
  mt_task *children, *next_child, *prev_child;
  size_t unfinished; /* children that are not done */
  mt_task *next_in_bucket;
  mt_task *next_ready;
  lua_State *co;
  mt_op *op; /* what it waits for */
  struct mt_join *waiters;
  const char *stop;   /* to be raised at its next wait */
  uint64_t woken;     /* the last pass of mt_tasks_wake that found it waiting */
  const char *killed; /* why it ended without its own doing, or NULL */
  int nargs;          /* given to its first resume */
  int nresults;       /* on co's stack when done; of a failed one the error */
  mt_task_phase phase;
  bool ready; /* in the line of those to be resumed */
  bool failed;
  bool joined; /* someone knows how it ended, or will */
};

static inline bool mt_task_is_done(const mt_task *task) {
  return task->phase >= MT_TASK_DONE;
}

/* A wait that does not yield, on the C stack of who waits. */
typedef struct mt_pump {
  mt_op *op;
  mt_task *task; /* who waits */
  struct mt_pump *outer;
} mt_pump;

typedef struct mt_box mt_box;

/* Calls that lead up. Set when the module is opened, so before anybody can ask for an interrupt and
 * before there are clients and tasks: no call comes earlier. */
typedef struct mt_driver_hooks {
  /* The hook of the coroutine that runs when an interrupt was asked for or a lease was lost. */
  lua_Hook look;
  /* Raises LOCK_LOST, once for each lock, where the running task relies on one that is lost. */
  void (*check)(lua_State *L, mt_driver *d);
  /* Ends what tasks that rely on a lost lock wait for, whatever it is: with mt_lost_text. Once for
   * each lock. From the driver's turn only. */
  void (*wake)(mt_driver *d);
  /* The LOCK_LOST of a lock that the running task relies on. */
  void (*read)(mt_driver *d, mortise_error *out);
  /* Closes the clients that were left open, in a bounded time. */
  void (*at_end)(mt_driver *d);
} mt_driver_hooks;

/* One for each Lua state, in its registry. */
struct mt_driver {
  lua_State *main;             /* the state's main thread */
  lua_State *volatile current; /* the coroutine that runs, for the signal handler */
  lua_State *aux; /* for a look at the registry when no C function's stack is at hand */
  mt_loop *loop;
  mt_task *running;  /* NULL: no task, the program that embeds us */
  mt_task main_task; /* stands for that program */
  mt_task *buckets[MT_TASK_BUCKETS];
  mt_task *ready, *ready_last;
  mt_pump *pumps;
  mt_box *boxes; /* clients, also those that are being closed */
  const mt_driver_hooks *hooks;
  mt_owned *owned;  /* the newest first */
  unsigned process; /* mt_process_number of whose it is */
  uint64_t last_id;
  uint64_t wakes;                  /* passes of `hooks->wake` */
  const mortise_options *defaults; /* the host's, borrowed; or NULL */
  bool hosted;                     /* the state is a mortise_host's */
  uint64_t calls;                  /* of the host so far */
  _Atomic uint64_t call;           /* the number of the one under way; 0: none */
  _Atomic uint64_t asked;          /* of the call that is to be interrupted; 0: none */
  atomic_uint lost;                /* clients that lost their lease, not yet told to a script */
  int64_t patience_ms;             /* with who caught an interrupt and goes on; 0: for ever */
  int64_t again_ms;                /* when it is raised again; INT64_MAX: never */
  unsigned raised;                 /* how often it was */
  bool interrupted;                /* one was delivered */
  bool may_exit;                   /* a script may end the program */
  mt_gate *gate;                   /* owned */
};

/* The state's driver, made at the first call; raises once it is gone with its state. */
MT_LJMP mt_driver *mt_driver_get(lua_State *L);
/* Is this the child of a fork? Then nothing of the driver's, its clients and operations is closed,
 * cancelled or waited for: it is all its parent's. */
bool mt_driver_forked(const mt_driver *d);
MT_LJMP void mt_driver_check(const mt_driver *d, lua_State *L); /* raises where it is one */
mt_driver *mt_driver_peek(lua_State *L); /* NULL where there is none; raises nothing */
mt_task *mt_driver_task(mt_driver *d);   /* who runs; never NULL */

void mt_own(mt_driver *d, mt_owned *owned, void (*end)(mt_owned *self));
void mt_owned_end(mt_owned *owned); /* again is fine */

/* The table that keeps the tasks, on the stack: lightuserdata of one -> its userdata. */
void mt_driver_push_tasks(lua_State *L);
/* It is resumed in a turn to come. */
void mt_task_ready(mt_task *task);
/* Any thread, any signal handler: makes the driver look at its flags soon, by waking its loop and,
 * where Lua runs, by a hook. */
void mt_driver_kick(mt_driver *d);

#endif
