/* A driver and its tasks as their parts see them, and the hooks to higher parts. */
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

/* A resource of a userdata: ended by its finalizer, or by the driver's for userdata that finalizers
 * make at the state's end, whose own finalizers Lua does not call any more. */
typedef struct mt_owned {
  struct mt_owned *next, **slot;
  void (*end)(struct mt_owned *self); /* it is already unlinked */
} mt_owned;

enum { MT_TASK_BUCKETS = 256, MT_MAIN_TASK = 1 };

typedef enum mt_task_phase {
  MT_TASK_NEW = 0, /* not resumed yet */
  MT_TASK_BODY,
  MT_TASK_ENDING,  /* its body has ended, and it waits for its children */
  MT_TASK_DONE,    /* kept only for a failure that nobody has seen, for its parent */
  MT_TASK_DROPPED, /* no longer known to the driver */
} mt_task_phase;

/* A coroutine that the driver started; a full userdata. */
struct mt_task {
  mt_driver *driver;
  uint64_t id;
  mt_task *parent; /* outlives it, since a task ends after its children */
  mt_task *children, *next_child, *prev_child;
  size_t unfinished; /* children that are not done */
  mt_task *next_in_bucket;
  mt_task *next_ready;
  lua_State *co;
  mt_op *op; /* what it waits for */
  struct mt_join *waiters;
  const char *stop;   /* why to stop it at its next wait, or NULL */
  uint64_t woken;     /* number of the last mt_tasks_wake that found it waiting */
  const char *killed; /* why it was ended from outside, or NULL */
  int nargs;          /* for its first resume */
  int nresults;       /* on co's stack when done; after a failure only the error */
  mt_task_phase phase;
  bool ready; /* in the list of tasks to resume */
  bool failed;
  bool joined; /* somebody handles its result, or will */
  uint64_t used;      /* instructions of the script that it is, with its tasks, where they are limited (interrupt.c) */
  unsigned overdrawn; /* how often the script was told that it has used them up */
};

static inline bool mt_task_is_done(const mt_task *task) {
  return task->phase >= MT_TASK_DONE;
}

/* A wait that pumps instead of yielding; lives on the waiter's C stack. */
typedef struct mt_pump {
  mt_op *op;
  mt_task *task; /* the waiting task */
  struct mt_pump *outer;
} mt_pump;

typedef struct mt_box mt_box;

/* Calls to higher parts. Set when the module is opened, before there can be interrupts, clients or
 * tasks. */
typedef struct mt_driver_hooks {
  /* The Lua hook to set on the running coroutine after an interrupt was requested or a lease
   * lost. */
  lua_Hook look;
  /* Raises LOCK_LOST, once for each lock, if the running task relies on a lost lock. */
  void (*check)(lua_State *L, mt_driver *d);
  /* Ends the waits of tasks that rely on a lost lock, with mt_lost_text; once for each lock. Called
   * only from the driver's turn. */
  void (*wake)(mt_driver *d);
  /* Reads the LOCK_LOST error of a lock that the running task relies on. */
  void (*read)(mt_driver *d, mortise_error *out);
  /* Closes clients that are still open, in bounded time. */
  void (*at_end)(mt_driver *d);
} mt_driver_hooks;

/* One for each Lua state, in its registry. */
struct mt_driver {
  lua_State *main;             /* the state's main thread */
  lua_State *volatile current; /* the running coroutine, for the signal handler */
  lua_State *aux;              /* for registry access where no C function's stack is available */
  mt_loop *loop;
  struct mortise_loop *shared; /* whose loop it is, with others; NULL: its own */
  mt_task *running;  /* NULL: not a task but the embedding program */
  mt_task main_task; /* stands for that program */
  mt_task *buckets[MT_TASK_BUCKETS];
  mt_task *ready, *ready_last;
  mt_pump *pumps;
  mt_box *boxes; /* clients, including those being closed */
  const mt_driver_hooks *hooks;
  mt_owned *owned;  /* newest first */
  unsigned process; /* mt_process_number of its owner */
  uint64_t last_id;
  uint64_t wakes;                  /* passes of `hooks->wake` */
  const mortise_options *defaults; /* the host's, borrowed; or NULL */
  bool hosted;                     /* the state is a mortise_host's */
  uint64_t calls;                  /* number of host calls so far */
  _Atomic uint64_t call;           /* number of the running call; 0: none */
  _Atomic uint64_t asked;          /* number of the call to interrupt; 0: none */
  atomic_uint lost;                /* clients that lost their lease, until they are freed */
  int64_t patience_ms;             /* time for a script that caught an interrupt; 0: no limit */
  int64_t again_ms;                /* when the interrupt is raised again; INT64_MAX: never */
  unsigned raised;                 /* how often it was raised */
  bool interrupted;                /* an interrupt was delivered */
  bool may_exit;                   /* a script may end the program */
  uint64_t instructions_max;       /* of each script that the program runs; 0: no limit */
  char used_up[96];                /* what one is told that has used them up */
  mt_gate *gate;                   /* owned */
};

/* The state's driver, made at the first call; raises an error once the state is being closed. */
MT_LJMP mt_driver *mt_driver_get(lua_State *L);
/* From now on it works in that loop, which must outlive it. Before anything was begun in its own. */
void mt_driver_join(mt_driver *d, struct mortise_loop *shared);
/* Is this a forked child? Then the driver, its clients and operations belong to the parent: nothing
 * is closed, cancelled or waited for. */
bool mt_driver_forked(const mt_driver *d);
MT_LJMP void mt_driver_check(const mt_driver *d, lua_State *L); /* raises in a forked child */
mt_driver *mt_driver_peek(lua_State *L); /* NULL if there is none; never raises */
/* Of a state that gets no driver, of which mt_driver_get raises an error. */
typedef struct mt_apart {
  mt_owned *owned;           /* newest first */
  size_t (*room)(void *ctx); /* how many bytes it may still have, in Lua and in buffers */
  /* Its buffers hold that much: counts for it, and collects what nothing refers to. */
  void (*collect)(lua_State *L, size_t held);
  void (*charge)(lua_State *L, uint64_t steps); /* counts for what is about to be done */
  void *ctx;
} mt_apart;
MT_LJMP void mt_apart_set(lua_State *L, mt_apart *apart); /* which outlives the state */
mt_apart *mt_apart_of(lua_State *L);                       /* NULL: there may be a driver; never raises */
mt_task *mt_driver_task(mt_driver *d);   /* the running one; never NULL */

void mt_own(mt_driver *d, mt_owned *owned, void (*end)(mt_owned *self));
void mt_own_apart(mt_apart *apart, mt_owned *owned, void (*end)(mt_owned *self));
void mt_owned_end(mt_owned *owned); /* may be called again */

/* Pushes the table that keeps tasks alive: lightuserdata of a task -> its userdata. */
void mt_driver_push_tasks(lua_State *L);
/* Queues the task to be resumed in a later turn. */
void mt_task_ready(mt_task *task);
/* From any thread or signal handler: makes the driver check its flags soon, by waking its loop and,
 * if Lua is running, by a hook. */
void mt_driver_kick(mt_driver *d);

#endif
