#include "job/keeper.h"

#include "base/must.h"
#include "job/journal.h"

#include <stdio.h>

enum { CHECKPOINT_MS = 1000, RECORD_MAX = 32 << 20 };

/* What was asked for is done: the caller may ask again, or free the keeper. */
static void on_asked_done(void *ctx) {
  mt_keeper *k = ctx;
  void (*then)(void *) = k->then;
  k->then = NULL;
  then(k->then_ctx);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static void on_record_read(void *ctx, mt_req *req) {
  mt_keeper *k = ctx;
  const mt_page *page = k->mget.page;
  k->reading = false;
  k->error = req->error;
  if (!k->error.code && (!page || page->n != 1 || !page->docs[0].found))
    mt_error_set(&k->error, MORTISE_NOT_FOUND, "there is no job %s", k->job);
  if (!k->error.code)
    mt_job_record_decode(k->record, page->docs[0].source, page->docs[0].version, &k->error);
  mt_mget_deinit(&k->mget);
  on_asked_done(k);
}

void mt_keeper_read(mt_keeper *k, void (*then)(void *ctx), void *ctx) {
  MT_MUST(!k->then);
  k->then = then;
  k->then_ctx = ctx;
  k->ids[0] = mt_buf_slice(&k->id);
  k->mget = (mt_mget){.req = {.done = on_record_read, .ctx = k, .idempotent = true},
                      .index = k->table,
                      .ids = k->ids,
                      .n = 1};
  k->reading = true;
  k->store->docs->mget(k->store, &k->mget);
}

/* ---- Writing -------------------------------------------------------------------------------- */

static void on_record_written(void *ctx, mt_write_batch *b) {
  mt_keeper *k = ctx;
  bool first = k->item.write.kind == MT_WRITE_CREATE;
  k->error = b->error;
  k->outcome = k->item.outcome;
  if (!k->error.code && k->outcome == MT_OUTCOME_CONFLICT)
    mt_error_set(&k->error, first ? MORTISE_CONFLICT : MORTISE_LOCK_LOST,
                 first ? "there is a job %s already" : "job %s was taken over by another process",
                 k->job);
  else if (!k->error.code && k->outcome != MT_OUTCOME_APPLIED)
    mt_error_set(&k->error, MORTISE_REJECTED, "the document of job %s cannot be written: %s",
                 k->job, k->item.write.reason);
  if (!k->error.code) k->record->version = k->item.write.version;
  k->writing = false;
  k->written(k->written_ctx);
}

static mortise_status encode_record(mt_keeper *k) {
  mt_job_record *r = k->record;
  snprintf(r->session, sizeof r->session, "%s", k->permit->session->id);
  r->by = k->permit->owner;
  r->updated_ms = k->wall_ms ? k->wall_ms() : 0;
  if (!r->created_ms) r->created_ms = r->updated_ms;
  mt_job_record_note(r);
  mt_buf_clear(&k->body);
  mt_job_record_encode(r, &k->body);
  return mt_buf_status(&k->body, "a job's document", &k->error);
}

static void write_record(mt_keeper *k, void (*then)(void *ctx), void *ctx) {
  MT_MUST(!k->writing);
  k->written = then;
  k->written_ctx = ctx;
  k->outcome = MT_OUTCOME_NONE;
  if (encode_record(k)) {
    then(ctx);
    return;
  }
  k->item = (mt_item){
      .write = {.kind = k->record->version.term ? MT_WRITE_INDEX : MT_WRITE_CREATE,
                .id = mt_buf_slice(&k->id),
                .body = mt_buf_slice(&k->body),
                .if_version = k->record->version,
                .skip_pipeline = true},
      .of_source = true,
  };
  k->batch = (mt_write_batch){.done = on_record_written,
                              .ctx = k,
                              .index = k->table,
                              .items = &k->item,
                              .n = 1,
                              .again = mt_again_itself};
  k->writing = true;
  mt_writer_submit(k->writer, &k->batch);
}

static void write_asked(mt_keeper *k) {
  write_record(k, on_asked_done, k);
}

void mt_keeper_write(mt_keeper *k, void (*then)(void *ctx), void *ctx) {
  MT_MUST(!k->then);
  k->then = then;
  k->then_ctx = ctx;
  if (!k->busy) write_asked(k);
}

/* ---- Checkpoints ---------------------------------------------------------------------------- */

/* A write that was asked for meanwhile takes the place of whatever follows. If another process has the job, it is
 * spared. */
static void on_checkpoint(void *ctx) {
  mt_keeper *k = ctx;
  k->busy = false;
  if (k->then) {
    if (k->error.code == MORTISE_LOCK_LOST)
      on_asked_done(k);
    else
      write_asked(k);
    return;
  }
  if (k->again && !k->error.code) {
    mt_keeper_checkpoint(k);
    return;
  }
  if (!k->error.code && !k->resting) mt_keeper_tick(k);
  k->kept(k->ctx);
}

void mt_keeper_checkpoint(mt_keeper *k) {
  if (k->resting || k->then) return;
  k->again = k->busy;
  if (k->busy) return;
  mt_timer_stop(k->store->loop, &k->tick);
  k->note(k->ctx);
  k->busy = true;
  write_record(k, on_checkpoint, k);
}

static void on_tick(void *ctx) {
  mt_keeper_checkpoint(ctx);
}

void mt_keeper_tick(mt_keeper *k) {
  mt_loop *loop = k->store->loop;
  int64_t every = k->every_ms ? k->every_ms : CHECKPOINT_MS;
  mt_timer_start(loop, &k->tick, mt_loop_now(loop) + every, NULL);
}

void mt_keeper_rest(mt_keeper *k) {
  k->resting = true;
  k->again = false;
  mt_timer_stop(k->store->loop, &k->tick);
}

/* ---- Its life ------------------------------------------------------------------------------- */

mortise_status mt_keeper_init(mt_keeper *k, mortise_error *err) {
  mt_buf_init(&k->body, RECORD_MAX);
  mt_buf_init(&k->id, MT_JOURNAL_ID_MAX);
  mt_job_record_id(&k->id, k->ns, k->job);
  k->tick = (mt_timer){.fire = on_tick, .ctx = k};
  mortise_status status = mt_buf_status(&k->id, "a job's id", err);
  if (!status) status = mt_timer_reserve(k->store->loop, &k->tick, err);
  k->reserved = !status;
  return status;
}

void mt_keeper_deinit(mt_keeper *k) {
  if (k->reading) mt_store_cancel(k->store, &k->mget.req);
  mt_mget_deinit(&k->mget);
  if (k->reserved) mt_timer_release(k->store->loop, &k->tick);
  mt_buf_deinit(&k->body);
  mt_buf_deinit(&k->id);
}
