/* What programs in C hold of a client: operations, locks, writers, scans. */
#ifndef MT_CLIENT_HANDLES_H
#define MT_CLIENT_HANDLES_H

#include "client/client.h"
#include "write/writer.h"

#include <mortise/write.h>

/* ---- Operations (op.c) ------------------------------------------------------------------------ */

typedef struct mt_handle_op_type {
  void (*take_back)(mortise_op *op); /* from whoever carries it out: nobody finishes it any more */
  void (*deinit)(mortise_op *op);    /* NULL: nothing */
} mt_handle_op_type;

/* First member of each operation. */
struct mortise_op {
  const mt_handle_op_type *type;
  mortise_client *client;
  mortise_done_fn *done;
  void *ctx;
  mortise_op *before, *next; /* of the client */
};

/* Zeroed, `size` bytes of which mortise_op is the first part; under way until it is told or freed. NULL with `err`. */
void *mt_handle_op_new(mortise_client *client, const mt_handle_op_type *type, size_t size, mortise_done_fn *done, void *ctx,
                       mortise_error *err);
/* Ends it and tells its outcome, where no `blockers` is nobody. */
void mt_handle_op_tell(mortise_op *op, const mortise_outcome *outcome);
void mt_handle_op_fail(mortise_op *op, const mortise_error *error);
void mt_handle_op_free(mortise_op *op);

/* MORTISE_INVALID_ARGUMENT: "the WHAT is NULL". */
mortise_status mt_handle_null(const char *what, mortise_error *err);
/* Can something be started? Only a loop that the program steps can tell it. */
mortise_status mt_handle_check_start(const mortise_client *client, mortise_error *err);

/* A call that waits: mt_waited_keep is the operation's `done`, and its `ctx` one of these. */
typedef struct mt_waited {
  bool over;
  mortise_outcome outcome;
  mortise_blockers *blockers; /* in: the caller's, or NULL */
} mt_waited;
void mt_waited_keep(void *ctx, const mortise_outcome *outcome);
/* Of a NULL op, `err` has the error already. */
mortise_status mt_waited_for(mortise_client *client, mortise_op *op, mt_waited *w, mortise_error *err);

/* ---- Locks (lock.c) --------------------------------------------------------------------------- */

struct mortise_lock {
  mortise_client *client;
  mt_lock *lock;               /* the manager's */
  mortise_lock *before, *next; /* of the client */
  mortise_writer *writers;     /* owned */
  void (*lost)(void *ctx, mortise_lock *lock); /* NULL: nobody asks, or it was told */
  void *lost_ctx;
  size_t conversions; /* operations of the client that have it as their `lock` */
  char epoch[sizeof(mt_epoch)];
};

void mt_lock_handles_free(mortise_lock **locks); /* which the store or their session gives back */

/* ---- Writers (writing.c) ---------------------------------------------------------------------- */

/* They send nothing more: what is under way of them is told `why`, in a later step. They become the client's. */
void mt_writer_handles_end(mortise_client *client, mortise_writer **writers, const mortise_error *why);
void mt_writer_handles_free(mortise_writer **writers);

/* ---- Scans (documents.c) ---------------------------------------------------------------------- */

void mt_scan_handles_free(mortise_scan **scans);

#endif
