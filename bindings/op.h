/* Operations: asynchronous work as a userdata. */
#ifndef MT_OP_H
#define MT_OP_H

#include "bindings/driver.h"

typedef struct mt_op_type {
  /* Cancels the core's request; afterwards its memory is ours and no completion comes. Only called
   * for one in progress. True: some of it was applied, or may still be. */
  bool (*cancel)(mt_op *op);
  /* Pushes the results and returns their number, or raises an error. The op is at `index`. */
  int (*finish)(lua_State *L, mt_op *op, int index);
  /* Frees what it owns; called once, from __gc. May be NULL. */
  void (*deinit)(mt_op *op);
  /* It gives something back in bounded time, so a repeated interrupt does not stop it. */
  bool gives_back;
  /* Called instead of `finish` for a cancelled one: raises an error or returns what happened. NULL:
   * the error is raised. */
  int (*stopped)(lua_State *L, mt_op *op, const mortise_error *why);
} mt_op_type;

/* First member of every operation, which is a full userdata. */
struct mt_op {
  const mt_op_type *type;
  mt_driver *driver;
  mt_owned owned;
  mt_task *task;    /* the task that yielded to wait for it, or NULL */
  const char *stop; /* why it was cancelled, or NULL */
  bool started, done;
  bool checked; /* postponed errors were raised before it was submitted (mt_task_check) */
  bool applied; /* if `stop`: some of it was applied, or may be */
  /* Its caller must know what became of it: it is waited for also when its task is stopped, which is told afterwards.
   * Only an interrupt that is raised again cancels it. */
  bool whole;
};

/* Pushes a zeroed operation of `size` bytes with `anchors` user values. */
MT_LJMP void *mt_lua_op_new(lua_State *L, size_t size, int anchors, const mt_op_type *type);
/* Keeps the value at `value` for as long as the op at `op` lives. */
void mt_op_anchor(lua_State *L, int op, int slot, int value);
/* Marks it as started; the next statement must submit it. */
void mt_op_start(mt_op *op);
/* Called by completion callbacks. */
void mt_op_done(mt_op *op);
/* Cancels it; its waiter gets `interrupted` with this message (static storage), or the loss of the
 * lock if that is mt_lost_text. */
void mt_op_stop(mt_op *op, const char *why);
extern const char mt_lost_text[];
/* Reads the error for an op that was cancelled, or a task to be stopped, for the reason `why`. */
void mt_op_read_stop(mt_driver *d, const char *why, mortise_error *out);

#endif
