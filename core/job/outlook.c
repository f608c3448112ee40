#include "job/outlook.h"

enum { OUTLOOK_ID_MAX = 512 };

static void finish_outlook(mt_outlook *o, const mortise_error *e) {
  if (e) o->error = *e;
  o->done(o->ctx, o);
}

static void on_looked(void *ctx, mt_undo *u) {
  finish_outlook(ctx, u->error.code ? &u->error : NULL);
}

static void look_back(mt_outlook *o) {
  o->undo = (mt_undo){.done = on_looked,
                      .ctx = o,
                      .of = o->of,
                      .record = &o->record,
                      .inverse = o->inverse,
                      .forward = o->forward,
                      .looks = true,
                      .result = &o->result};
  mt_undo_start(&o->undo);
}

static void find_end(mt_outlook *o);

static void on_last_read(void *ctx, mt_batch_read *r) {
  mt_outlook *o = ctx;
  if (r->error.code) {
    finish_outlook(o, &r->error);
    return;
  }
  if (r->found) o->record.undo_number = r->number + 1;
  o->missing = r->found ? 0 : o->missing + 1;
  mt_batch_read_deinit(r);
  find_end(o);
}

/* A job that is at work, or whose process died at it, may have more batches than its document says (replay.h). */
static void find_end(mt_outlook *o) {
  if (o->missing == MT_JOB_UNITS_MAX) {
    look_back(o);
    return;
  }
  o->last = (mt_batch_read){.done = on_last_read,
                            .ctx = o,
                            .of = o->of,
                            .attempt = o->record.undo_attempt,
                            .number = o->record.undo_number + o->missing,
                            .no_documents = true};
  mt_batch_read_start(&o->last);
}

static void begin_outlook(mt_outlook *o) {
  mt_job_record *r = &o->record;
  if (r->state == MT_JOB_UNDONE || !r->attempts) {
    finish_outlook(o, NULL);
  } else if (r->undo_attempt) {
    look_back(o); /* an undoing was cut off there */
  } else {
    r->undo_attempt = r->attempts;
    r->undo_number = r->batches[r->attempts - 1];
    o->missing = r->state == MT_JOB_DONE ? MT_JOB_UNITS_MAX : 0;
    find_end(o);
  }
}

static void on_job_fetched(void *ctx, mt_req *req) {
  mt_outlook *o = ctx;
  mortise_error err = req->error;
  const mt_doc *doc = o->mget.page && o->mget.page->n == 1 ? &o->mget.page->docs[0] : NULL;
  o->fetching = false;
  if (!err.code && !doc)
    mt_error_set(&err, MORTISE_UNAVAILABLE, "another number of documents was answered");
  else if (!err.code && !doc->found)
    mt_error_set(&err, MORTISE_NOT_FOUND, "there is no job %s", o->of.job);
  else if (!err.code)
    mt_job_record_decode(&o->record, doc->source, doc->version, &err);
  mt_mget_deinit(&o->mget);
  if (err.code)
    finish_outlook(o, &err);
  else
    begin_outlook(o);
}

void mt_outlook_start(mt_outlook *o) {
  mt_job_record_init(&o->record);
  mt_buf_init(&o->id, OUTLOOK_ID_MAX);
  mt_job_record_id(&o->id, o->of.ns, o->of.job);
  o->own = mt_buf_slice(&o->id);
  o->mget = (mt_mget){.req = {.done = on_job_fetched, .ctx = o, .idempotent = true},
                      .index = o->of.table,
                      .ids = &o->own,
                      .n = 1};
  o->fetching = true;
  o->of.store->docs->mget(o->of.store, &o->mget);
}

void mt_outlook_deinit(mt_outlook *o) {
  if (o->fetching) mt_store_cancel(o->of.store, &o->mget.req);
  mt_mget_deinit(&o->mget);
  mt_batch_read_deinit(&o->last);
  mt_undo_deinit(&o->undo);
  mt_job_record_deinit(&o->record);
  mt_buf_deinit(&o->id);
  *o = (mt_outlook){0};
}
