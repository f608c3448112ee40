/* C <-> Lua: what the lua_*.c files share. No policy here: that is stdlib's.
 *
 * A binding that waits does this:
 *   ... read the arguments ...
 *   count_op *op = mt_lua_op_new(L, sizeof *op, anchors, &count_type);  -- safe values, metatable
 *   ... fill the core's request, anchor what it borrows in user values ...
 *   mt_box *box = mt_check_client(L, 1);  -- the handle, last of all that gets L
 *   mt_op_start(&op->op);  store->docs->count(store, &op->request);  -- the resource
 *   return mt_await(L, index_of_op);
 * and its completion callback says mt_op_done(&op->op). Completions never resume Lua: they mark a
 * task ready, and the driver resumes it.
 *
 * The rule of handles. Whatever gets L may run code of a script: a metamethod or, at any allocation,
 * a finalizer, which may close every handle, also the one whose call this is, and change every table.
 * So what a handle stands for (a client's box, a lock, a writer, a scan) is used from its fetch to the
 * next call that gets L, and no further: after that it is fetched again, which raises where it was
 * closed. tools/lint looks for breaches; it knows the calls that only look and allocate nothing. Results stand in the operation, which scripts do not
 * see. Only the bytes of a page are read between calls that get L: they are pinned (lua_doc.c).
 * What is borrowed of a Lua value is kept by a stack slot, an anchor or a table of our own, never by a
 * table of the script's: options are read from a copy (mt_options_read).
 *
 * MT_LJMP marks what may leave by longjmp (any Lua error): hold nothing across it that no userdata
 * owns. */
#ifndef MT_BINDINGS_H
#define MT_BINDINGS_H

#include "base/json.h"
#include "base/loop.h"

#include <mortise/host.h>

#include <lauxlib.h>
#include <lua.h>

#include <stdatomic.h>

#define MT_LJMP /* may longjmp */

typedef struct mt_driver mt_driver;
typedef struct mt_task mt_task;
typedef struct mt_op mt_op;

/* ---- Operations (await.c) ------------------------------------------------------------------- */

typedef struct mt_op_type {
  /* Takes back the core's request: afterwards its memory is ours and no completion comes. Only
   * called for one that is under way. True: something of it was applied, or may still be. */
  bool (*cancel)(mt_op *op);
  /* Pushes the results and returns their number, or raises. The op is at `index`. */
  int (*finish)(lua_State *L, mt_op *op, int index);
  /* Frees what it owns; called once, from __gc. May be NULL. */
  void (*deinit)(mt_op *op);
  /* Gives something back, in a time of its own bound: an interrupt that is raised again lets it. */
  bool gives_back;
  /* In place of `finish` for one that was taken back; raises, or tells what came of it. NULL: the
   * error is raised. */
  int (*stopped)(lua_State *L, mt_op *op, const mortise_error *why);
} mt_op_type;

/* A resource of a userdata: ended by its finalizer, or by the driver's where Lua calls none any more,
 * which is so for what finalizers make at the state's end. */
typedef struct mt_owned {
  struct mt_owned *next, **slot;
  void (*end)(struct mt_owned *self); /* unlinked already */
} mt_owned;

void mt_own(mt_driver *d, mt_owned *owned, void (*end)(mt_owned *self));
void mt_owned_end(mt_owned *owned); /* again is fine */

/* First member of every operation, which is a full userdata. */
struct mt_op {
  const mt_op_type *type;
  mt_driver *driver;
  mt_owned owned;
  mt_task *task;    /* the task that yielded for it, or NULL */
  const char *stop; /* why it was taken back, or NULL */
  bool started, done;
  bool checked; /* what was postponed was raised before it was submitted, see mt_await_check */
  bool applied; /* where `stop`: something of it was, or may be */
};

/* A zeroed operation of `size` bytes with `anchors` user values, on the stack. */
MT_LJMP void *mt_lua_op_new(lua_State *L, size_t size, int anchors, const mt_op_type *type);
/* The value at `value` stays as long as the op at `op`. */
void mt_op_anchor(lua_State *L, int op, int slot, int value);
extern const char mt_lost_text[]; /* why operations of tasks that rely on a lost lock are stopped */
/* Under way from here: the next statement submits it. */
void mt_op_start(mt_op *op);
/* For completion callbacks. */
void mt_op_done(mt_op *op);
/* Takes it back; who waits for it gets `interrupted` with this message (static storage), or where
 * that is mt_lost_text the loss of the lock. */
void mt_op_stop(mt_op *op, const char *why);
/* Waits for the op at `index` and returns its results: by a yield in a task's own coroutine, by
 * pumping elsewhere. To be returned by the C function: `return mt_await(L, i)`. */
MT_LJMP int mt_await(lua_State *L, int index);
/* Raises what was postponed for the running task: an interrupt, a cancellation, a lost lease.
 * mt_await does it too, but for an op that is `checked`: what cannot be taken back is checked
 * before it is submitted, so that the error knows of nothing that is under way. */
MT_LJMP void mt_await_check(lua_State *L, mt_driver *d);
/* Would the caller wait without letting its siblings run? */
bool mt_alone(lua_State *L, const mt_driver *d);

/* ---- Tasks and their driver (task.c) -------------------------------------------------------- */

enum { MT_TASK_BUCKETS = 256, MT_MAIN_TASK = 1 };

typedef enum mt_task_phase {
  MT_TASK_NEW = 0, /* not resumed yet */
  MT_TASK_BODY,
  MT_TASK_ENDING,  /* its body has ended, it waits for its children */
  MT_TASK_DONE,    /* a failure that nobody has seen waits for its parent */
  MT_TASK_DROPPED, /* no task of the driver's any more */
} mt_task_phase;

/* A coroutine that the driver started; a full userdata. */
extern const char mt_task_name[];
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

/* Calls that lead up, to who knows clients and locks. There while there is a client; of the first
 * three each only where one is `lost`. */
typedef struct mt_driver_hooks {
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
  mt_box *boxes;    /* clients, also those that are being closed */
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
  mt_driver *outer;                /* bound to the same thread before this one */
  struct mt_interrupt *gate;       /* owned; see interrupt.c */
};

/* The state's driver, made at the first call; raises once it is gone with its state. */
MT_LJMP mt_driver *mt_driver_get(lua_State *L);
/* Is this the child of a fork? Then nothing of the driver's, its clients and operations is closed,
 * cancelled or waited for: it is all its parent's. */
bool mt_driver_forked(const mt_driver *d);
MT_LJMP void mt_driver_check(const mt_driver *d, lua_State *L); /* raises where it is one */
mt_driver *mt_driver_peek(lua_State *L); /* NULL where there is none; raises nothing */
mt_task *mt_driver_task(mt_driver *d);   /* who runs; never NULL */

/* Makes a task of the function below `nargs` arguments, all taken off the stack; pushes it. */
MT_LJMP mt_task *mt_task_spawn(lua_State *L, mt_driver *d, int nargs);
/* Waits for it, running what a pump may. It counts as joined. */
void mt_task_drive(mt_driver *d, mt_task *task);
/* Someone knows how it ended, or will: its failure is not its parent's any more. */
void mt_task_seen(mt_task *task);
/* Pushes the results of a finished task and returns their number; of a failed one the error. */
MT_LJMP int mt_task_results(lua_State *L, mt_task *task);
void mt_task_stop(mt_task *task, const char *why);
void mt_task_ready(mt_task *task);
/* Ends what the tasks below `holder` wait for just now and, unless it was told, what `holder`
 * waits for. Was `holder` among them, now or earlier in the same pass? */
bool mt_tasks_wake(mt_driver *d, uint64_t holder, bool told, const char *why);
/* Does a hold of task `holder` stand for `task` too: the same, or one above it? `ctx` the driver.
 */
bool mt_task_inherits(void *ctx, uint64_t holder, uint64_t task);

/* Steps until `op` is done, resuming only what a pump may (see task.c): `joined` and what it
 * started, or, outside every task, all. */
void mt_driver_pump(mt_driver *d, mt_op *op);
mt_task *mt_join_target(const mt_op *op); /* whom a join waits for; NULL for other ops */
void mt_join_wake(mt_task *task);         /* completes the joins of a finished task */

/* ---- Interrupts (interrupt.c) --------------------------------------------------------------- */

mortise_status mt_interrupt_init(mt_driver *d, mortise_error *err);
void mt_interrupt_deinit(mt_driver *d);
/* The calling thread runs this driver from now on, until unbound: before the thread may end. */
bool mt_interrupt_bind(mt_driver *d); /* false: it did already */
void mt_interrupt_unbind(mt_driver *d);
/* Around a host's call, which is the only time when an interrupt counts. */
typedef struct mt_interrupt_call {
  bool outermost, bound, blocked;
} mt_interrupt_call;
mt_interrupt_call mt_interrupt_enter(mt_driver *d);
void mt_interrupt_leave(mt_driver *d, mt_interrupt_call call);
/* Any thread, any signal handler: interrupts the call under way, if there is one. */
void mt_interrupt_ask(mt_driver *d);
/* Is one to be delivered: asked for, or again since the script went on? Asks once only. */
bool mt_interrupt_due(mt_driver *d);
/* Milliseconds until it is raised again; -1: never. */
int64_t mt_interrupt_patience(const mt_driver *d);
/* This coroutine is about to run: it looks at the clock while an interrupt insists. */
void mt_interrupt_arm(mt_driver *d, lua_State *L);
/* For who has caught the error on top: raises it further where it is an interrupt that was raised
 * again, and from the third time on whatever it is, since that may be what the interrupt became. */
MT_LJMP void mt_interrupt_pass(lua_State *L);
/* Is the error on top of the stack an interrupt? */
bool mt_interrupt_is(lua_State *L);
void mt_interrupt_forget(mt_driver *d);
/* Any thread, any signal handler: makes the driver look at its flags soon, by waking its loop and,
 * where Lua runs, by a hook. */
void mt_interrupt_kick(mt_driver *d);
/* Tells every waiting task. `running` is left out: its caller raises the error itself. */
void mt_interrupt_deliver(mt_driver *d, const mt_task *running);
extern const char mt_interrupted_text[];

#endif
