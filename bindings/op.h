/* Operations: what takes time, as a userdata. */
#ifndef MT_OP_H
#define MT_OP_H

#include "bindings/driver.h"

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

/* First member of every operation, which is a full userdata. */
struct mt_op {
  const mt_op_type *type;
  mt_driver *driver;
  mt_owned owned;
  mt_task *task;    /* the task that yielded for it, or NULL */
  const char *stop; /* why it was taken back, or NULL */
  bool started, done;
  bool checked; /* what was postponed was raised before it was submitted, see mt_task_check */
  bool applied; /* where `stop`: something of it was, or may be */
};

/* A zeroed operation of `size` bytes with `anchors` user values, on the stack. */
MT_LJMP void *mt_lua_op_new(lua_State *L, size_t size, int anchors, const mt_op_type *type);
/* The value at `value` stays as long as the op at `op`. */
void mt_op_anchor(lua_State *L, int op, int slot, int value);
/* Under way from here: the next statement submits it. */
void mt_op_start(mt_op *op);
/* For completion callbacks. */
void mt_op_done(mt_op *op);
/* Takes it back; who waits for it gets `interrupted` with this message (static storage), or where
 * that is mt_lost_text the loss of the lock. */
void mt_op_stop(mt_op *op, const char *why);
extern const char mt_lost_text[];
/* The error of one that was taken back, or of a task that is to be stopped, for `why`. */
void mt_op_read_stop(mt_driver *d, const char *why, mortise_error *out);

#endif
