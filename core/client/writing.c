/* Writers, for programs in C: a writer of core/write for a lock or a client, and its writes as operations. */
#include "base/mem.h"
#include "base/pump.h"
#include "client/handles.h"
#include "client/options.h"

#include <stddef.h>
#include <stdio.h>

struct mortise_writer {
  mortise_client *client;
  mortise_writer **list;         /* the lock's, or the client's */
  mortise_writer *before, *next; /* in it */
  mt_writer *writer;             /* NULL: it has ended, as `ended` says */
  mortise_error ended;
  size_t writes; /* operations of the client that are its */
  bool refresh;
  char index[]; /* "": none */
};

typedef struct writing_op {
  mortise_op op;
  mortise_writer *writer;
  char *items; /* the program's, `stride` bytes each */
  size_t stride;
  mt_write_batch batch;
  mt_post told; /* it is over: its `done` may free the writer, so it is called from the loop */
  mt_item own[];
} writing_op;

/* ---- Structs of another version ----------------------------------------------------------------- */

void mortise_writer_options_init_size(mortise_writer_options *o, size_t size) {
  mt_struct_give(o, &(mortise_writer_options){.size = size}, size, sizeof *o);
}

void mortise_write_init_size(mortise_write *item, size_t size) {
  mt_struct_give(item, &(mortise_write){.size = size}, size, sizeof *item);
}

/* ---- Making one ---------------------------------------------------------------------------------- */

static void link_writer(mortise_writer *w, mortise_writer **list) {
  w->list = list;
  w->before = NULL;
  w->next = *list;
  if (w->next) w->next->before = w;
  *list = w;
}

static void unlink_writer(mortise_writer *w) {
  if (w->next) w->next->before = w->before;
  *(w->before ? &w->before->next : w->list) = w->next;
}

static bool is_within(const char *what, uint64_t value, uint64_t least, uint64_t most, mortise_error *err) {
  if (!value || (value >= least && value <= most)) return true;
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a writer's %s: %llu to %llu, or 0, not %llu", what, (unsigned long long)least,
               (unsigned long long)most, (unsigned long long)value);
  return false;
}

static bool check_writer_options(const mortise_writer_options *o, mortise_error *err) {
  enum { BYTES_MIN = 1 << 10, BYTES_MAX = 1 << 30, TRIES_MAX = 100 };
  if ((unsigned)o->strength > MORTISE_UNCOMPARED) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "there is no strength %d of a writer", (int)o->strength);
    return false;
  }
  return is_within("docs", o->docs, 1, MT_WRITER_DOCS_MAX, err) &&
         is_within("bytes", o->bytes, BYTES_MIN, BYTES_MAX, err) &&
         is_within("in_flight", o->in_flight, 1, MT_WRITER_LANES, err) && is_within("tries", o->tries, 1, TRIES_MAX, err);
}

static mortise_writer *new_writer(mortise_client *c, mortise_lock *lock, const mortise_writer_options *given,
                                  mortise_error *err) {
  static const mt_strength strengths[] = {
      [MORTISE_CAS] = MT_STRENGTH_CAS, [MORTISE_STAMP] = MT_STRENGTH_STAMP, [MORTISE_UNCOMPARED] = MT_STRENGTH_NONE};
  mortise_writer_options o;
  mortise_writer_options_init(&o);
  if ((given && mt_struct_take(&o, sizeof o, given, offsetof(mortise_writer_options, stamp_field), "mortise_writer_options", err)) ||
      !check_writer_options(&o, err))
    return NULL;
  mortise_view index = mortise_view_of(o.index);
  mortise_writer *w = mt_calloc(1, sizeof *w + index.n + 1);
  if (!w) {
    mt_error_memory(err);
    return NULL;
  }
  if (index.n) memcpy(w->index, index.p, index.n);
  w->client = c;
  w->refresh = o.refresh;
  const mt_permit permit = lock ? mt_manager_permit(lock->lock) : (mt_permit){0};
  const mt_writer_config config = {.docs = o.docs,
                                   .bytes = o.bytes,
                                   .in_flight = o.in_flight,
                                   .tries = o.tries,
                                   .strength = strengths[o.strength],
                                   .stamp_field = o.stamp_field};
  w->writer = mt_writer_new(c->store, mt_env_system(), lock ? &permit : NULL, &config, err);
  if (w->writer) {
    link_writer(w, lock ? &lock->writers : &c->writers);
    return w;
  }
  mt_free(w);
  return NULL;
}

mortise_writer *mortise_lock_writer(mortise_lock *lock, const mortise_writer_options *options, mortise_error *err) {
  if (!lock) {
    mt_handle_null("lock", err);
    return NULL;
  }
  return mt_client_check(lock->client, false, err) ? NULL : new_writer(lock->client, lock, options, err);
}

mortise_writer *mortise_client_writer(mortise_client *c, const mortise_writer_options *options, mortise_error *err) {
  return mt_client_check(c, false, err) ? NULL : new_writer(c, NULL, options, err);
}

/* ---- What is written ------------------------------------------------------------------------------ */

/* The program's item, of whatever version. */
static mortise_write program_item(const char *at, size_t stride) {
  mortise_write item;
  mortise_write_init(&item);
  memcpy(&item, at, stride);
  return item;
}

static bool check_program_item(const mortise_writer *w, const mortise_write *item, size_t i, mortise_error *err) {
  const char *why = NULL;
  if ((unsigned)item->kind > MORTISE_WRITE_DELETE)
    why = "its kind is none";
  else if (!item->index && !w->index[0])
    why = "neither it nor the writer has an index";
  else if (!item->id.p || !item->id.n)
    why = "it has no id";
  else if (item->kind == MORTISE_WRITE_DELETE ? item->body.p != NULL : !item->body.p)
    why = item->body.p ? "a delete has no body" : "it has no body";
  else if (item->if_seq_no && !item->if_term)
    why = "it has if_seq_no without if_term";
  if (why) mt_error_set(err, MORTISE_INVALID_ARGUMENT, "item %zu of the write: %s", i, why);
  return !why;
}

static mt_slice slice_of_view(mortise_view view) {
  return (mt_slice){view.p, view.n};
}

static mt_item own_item(const mortise_write *item) {
  static const mt_write_kind kinds[] = {[MORTISE_WRITE_CREATE] = MT_WRITE_CREATE,
                                        [MORTISE_WRITE_INDEX] = MT_WRITE_INDEX,
                                        [MORTISE_WRITE_UPDATE] = MT_WRITE_UPDATE,
                                        [MORTISE_WRITE_DELETE] = MT_WRITE_DELETE};
  return (mt_item){.write = {.kind = kinds[item->kind],
                             .index = mt_slice_of(item->index),
                             .id = slice_of_view(item->id),
                             .routing = slice_of_view(item->routing),
                             .body = slice_of_view(item->body),
                             .if_version = {item->if_seq_no, item->if_term}},
                   .of_source = item->of_source};
}

static size_t stride_of(const mortise_write *items, mortise_error *err) {
  size_t stride;
  memcpy(&stride, items, sizeof stride);
  mortise_write probe;
  mortise_write_init(&probe);
  if (mt_struct_take(&probe, sizeof probe, items, offsetof(mortise_write, of_source), "mortise_write", err)) return 0;
  return stride;
}

static bool take_items(writing_op *op, mortise_error *err) {
  for (size_t i = 0; i < op->batch.n; i++) {
    const mortise_write item = program_item(op->items + i * op->stride, op->stride);
    if (item.size != op->stride) {
      mt_error_set(err, MORTISE_INVALID_ARGUMENT, "item %zu of the write has another size than the first", i);
      return false;
    }
    if (!check_program_item(op->writer, &item, i, err)) return false;
    op->own[i] = own_item(&item);
  }
  return true;
}

static void give_result(char *at, size_t stride, const mt_item *own) {
  static const mortise_write_outcome outcomes[MT_OUTCOMES] = {
      [MT_OUTCOME_NONE] = MORTISE_WRITE_NONE,         [MT_OUTCOME_APPLIED] = MORTISE_WRITE_APPLIED,
      [MT_OUTCOME_ALREADY] = MORTISE_WRITE_ALREADY,   [MT_OUTCOME_CONFLICT] = MORTISE_WRITE_CONFLICT,
      [MT_OUTCOME_REJECTED] = MORTISE_WRITE_REJECTED,
  };
  mortise_write item = program_item(at, stride);
  item.outcome = outcomes[own->outcome];
  item.dirty = own->dirty;
  item.created = own->write.created;
  item.seq_no = own->write.version.seq_no;
  item.term = own->write.version.term;
  item.status = own->write.status;
  snprintf(item.type, sizeof item.type, "%s", own->write.type);
  snprintf(item.reason, sizeof item.reason, "%s", own->write.reason);
  memcpy(at, &item, stride);
}

static void give_results(writing_op *op) {
  for (size_t i = 0; i < op->batch.n; i++) give_result(op->items + i * op->stride, op->stride, &op->own[i]);
}

/* ---- Its end ---------------------------------------------------------------------------------------- */

static void tell_write(void *ctx) {
  writing_op *op = ctx;
  mortise_error error = op->batch.error;
  if (error.code && (op->batch.dirty || op->batch.counts[MT_OUTCOME_APPLIED])) error.ambiguous = true; /* of the whole call */
  give_results(op);
  op->writer->writes--;
  mt_handle_op_fail(&op->op, &error);
}

static void write_over(void *ctx, mt_write_batch *batch) {
  (void)batch;
  writing_op *op = ctx;
  mt_loop_post(op->op.client->loop, &op->told);
}

static const mt_handle_op_type writing;

/* It sends nothing more. */
static void end_writer(mortise_writer *w, const mortise_error *why) {
  if (!w->writer) return;
  mt_writer_free(w->writer);
  w->writer = NULL;
  w->ended = *why;
  size_t left = w->writes;
  for (mortise_op *op = w->client->ops; op && left; op = op->next) {
    writing_op *self = (writing_op *)op;
    if (op->type != &writing || self->writer != w) continue;
    left--;
    if (self->batch.finished) continue;
    self->batch.error = *why;
    mt_loop_post(w->client->loop, &self->told);
  }
}

static void take_back_write(mortise_op *op) {
  writing_op *self = (writing_op *)op;
  mortise_error why;
  mt_error_set(&why, MORTISE_INTERRUPTED, "a write of this writer was cancelled, which has ended it");
  end_writer(self->writer, &why);
  mt_loop_unpost(op->client->loop, &self->told);
  give_results(self);
  self->writer->writes--;
}

static const mt_handle_op_type writing = {.take_back = take_back_write};

void mt_writer_handles_end(mortise_client *c, mortise_writer **writers, const mortise_error *why) {
  mortise_writer *next;
  for (mortise_writer *w = *writers; w; w = next) {
    next = w->next;
    end_writer(w, why);
    if (w->list == &c->writers) continue;
    unlink_writer(w);
    link_writer(w, &c->writers);
  }
}

static void free_writer(mortise_writer *w) {
  for (mortise_op *op = w->client->ops, *next; op && w->writes; op = next) {
    next = op->next;
    if (op->type == &writing && ((writing_op *)op)->writer == w) mortise_op_cancel(op);
  }
  mt_writer_free(w->writer);
  unlink_writer(w);
  mt_free(w);
}

void mt_writer_handles_free(mortise_writer **writers) {
  while (*writers) free_writer(*writers);
}

void mortise_writer_free(mortise_writer *w) {
  if (w && !mt_shared_check(w->client->shared, "the client", NULL)) free_writer(w);
}

/* ---- Writing ---------------------------------------------------------------------------------------- */

static mortise_op *begin_write(mortise_writer *w, mortise_write *items, size_t n, mortise_done_fn *done, void *ctx,
                               mortise_error *err) {
  if (!w->writer) {
    if (err) *err = w->ended;
    return NULL;
  }
  if (n > MORTISE_WRITES_MAX || (n && !items)) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, n > MORTISE_WRITES_MAX ? "a write has at most %d items" : "the items are NULL (%d at most)",
                 (int)MORTISE_WRITES_MAX);
    return NULL;
  }
  size_t stride = n ? stride_of(items, err) : sizeof *items;
  if (!stride) return NULL;
  writing_op *op = mt_handle_op_new(w->client, &writing, sizeof *op + n * sizeof *op->own, done, ctx, err);
  if (!op) return NULL;
  op->writer = w;
  op->items = (char *)items;
  op->stride = stride;
  op->told = (mt_post){.run = tell_write, .ctx = op};
  op->batch = (mt_write_batch){.done = write_over,
                               .ctx = op,
                               .index = w->index[0] ? w->index : NULL,
                               .items = op->own,
                               .n = n,
                               .refresh = w->refresh};
  if (!take_items(op, err)) {
    mt_handle_op_free(&op->op);
    return NULL;
  }
  w->writes++;
  mt_writer_submit(w->writer, &op->batch);
  return &op->op;
}

mortise_op *mortise_writer_write_start(mortise_writer *w, mortise_write *items, size_t n, mortise_done_fn *done, void *ctx,
                                       mortise_error *err) {
  if (!w || !done) {
    mt_handle_null(w ? "function `done`" : "writer", err);
    return NULL;
  }
  return mt_handle_check_start(w->client, err) ? NULL : begin_write(w, items, n, done, ctx, err);
}

mortise_status mortise_writer_write(mortise_writer *w, mortise_write *items, size_t n, mortise_error *err) {
  mt_waited waited = {0};
  mortise_error ours;
  if (!err) err = &ours;
  if (!w) return mt_handle_null("writer", err);
  mortise_status bad = mt_client_check(w->client, true, err);
  if (bad) return bad;
  return mt_waited_for(w->client, begin_write(w, items, n, mt_waited_keep, &waited, err), &waited, err);
}
