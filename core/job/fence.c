#include "job/fence.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum { TEXT_MAX = 512 << 20, TRIES = 8 };

static void finish_fence(mt_fence *f, const mortise_error *e) {
  if (e) f->error = *e;
  f->done(f->ctx, f);
}

/* ---- The documents -------------------------------------------------------------------------- */

typedef enum mt_fenced {
  FENCED_DONE,      /* the journal keeps it as it is */
  FENCED_UNTOUCHED, /* it leaves the journal: the batch has not changed it, or that is of no concern any more */
  FENCED_UNSURE,
} mt_fenced;

/* Of a function's. */
static mt_fenced fate_of(mt_now now, const mt_journal_entry *e, const mt_doc *doc) {
  if (e->unsure) return FENCED_UNSURE;
  if (now == MT_NOW_BEFORE || now == MT_NOW_THEIRS) return FENCED_UNTOUCHED;
  if (now != MT_NOW_OTHER) return FENCED_DONE;
  /* Another who settled this batch, and died over it, has written it as it was. */
  return mt_slice_eq(doc->source, e->source) ? FENCED_UNTOUCHED : FENCED_UNSURE;
}

static mt_again fence_function(mt_rewrite *w, mt_item *item, const mt_doc *doc, mt_fenced fate) {
  if (fate == FENCED_UNSURE) return MT_AGAIN_CONFLICT;
  return doc->found ? mt_rewrite_with(w, item, doc->source) : MT_AGAIN_DONE;
}

/* What others have changed, and still is to be changed, gets another entry when it is. */
static mt_again make_again(mt_rewrite *w, mt_item *item, const mt_doc *doc, mt_now now,
                           mt_fenced *fate) {
  const mt_fence *f = w->ctx;
  *fate = FENCED_DONE;
  if (now == MT_NOW_GONE) return MT_AGAIN_DONE;
  if (now == MT_NOW_AFTER) return mt_rewrite_with(w, item, doc->source);
  mt_again next = mt_rewrite_by(w, item, f->again, doc);
  if (now == MT_NOW_BEFORE || next != MT_AGAIN_WRITE) return next;
  *fate = FENCED_UNTOUCHED;
  return mt_rewrite_with(w, item, doc->source);
}

static mt_again fence_one(mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                          const mt_doc *doc) {
  mt_fence *f = w->ctx;
  mortise_error err;
  const mt_journal_batch *b = &w->read.batch;
  if (!f->fates) f->fates = mt_calloc(b->n, sizeof *f->fates);
  if (!f->fates) {
    mt_error_memory(&err);
    return mt_rewrite_fail(w, &err);
  }
  mt_now now = mt_rewrite_look(w, item, e, doc);
  mt_fenced *fate = &f->fates[e - b->entries];
  if (f->again) return make_again(w, item, doc, now, fate);
  *fate = fate_of(now, e, doc);
  return fence_function(w, item, doc, *fate);
}

/* Only an acknowledged write keeps off what the dead has sent, and proves what was read. */
static void doubt_unwritten(mt_fence *f) {
  const mt_rewrite *w = &f->rewrite;
  const mt_journal_entry *e = w->read.batch.entries;
  for (size_t i = 0; i < w->batch.n; i++) {
    const mt_item *item = &w->items[i];
    while (e->id.p != item->write.id.p) e++; /* they have the entries' order */
    if (item->outcome != MT_OUTCOME_APPLIED && item->outcome != MT_OUTCOME_ALREADY)
      f->fates[e - w->read.batch.entries] = f->again ? FENCED_DONE : FENCED_UNSURE;
  }
}

static size_t count_fates(const mt_fence *f, mt_fenced fate) {
  size_t n = 0;
  for (size_t i = 0; f->fates && i < f->rewrite.read.batch.n; i++) n += f->fates[i] == fate;
  return n;
}

/* ---- The list of those of which nobody can tell ---------------------------------------------- */

static void on_unsure_listed(void *ctx, mt_write_batch *b) {
  mt_fence *f = ctx;
  mortise_error err;
  (void)b;
  finish_fence(f, mt_aside_write_status(&f->listing, &err) ? &err : NULL);
}

static void list_unsure(mt_fence *f) {
  const mt_journal_batch *b = &f->rewrite.read.batch;
  char name[64];
  mortise_error err;
  mt_buf_deinit(&f->list);
  mt_buf_init(&f->list, TEXT_MAX);
  for (size_t i = 0; i < b->n; i++)
    if (f->fates[i] == FENCED_UNSURE)
      mt_aside_add_left(&f->list, b->entries[i].index, b->entries[i].id, false, "conflict",
                        "someone else has changed it, perhaps after the job had: it was being "
                        "written when the job's process ended");
  snprintf(name, sizeof name, MT_UNSURE_MARK ":%" PRIu64 ":%" PRIu64, f->attempt, f->number);
  f->listing = (mt_aside_write){.done = on_unsure_listed,
                                .ctx = f,
                                .writer = f->journal,
                                .table = f->of.table,
                                .ns = f->of.ns,
                                .job = f->of.job};
  mortise_status status = mt_buf_status(&f->list, "what is left", &err);
  if (!status)
    status = mt_aside_write_start(&f->listing, name, MT_UNSURE_MARK, mt_buf_slice(&f->list), &err);
  if (status) finish_fence(f, &err);
}

static void end_fence(mt_fence *f) {
  if (f->unsure)
    list_unsure(f);
  else
    finish_fence(f, NULL);
}

/* ---- The batch ------------------------------------------------------------------------------ */

static void fence_again(mt_fence *f) {
  mt_rewrite_deinit(&f->rewrite);
  mt_free(f->fates);
  f->fates = NULL;
  mt_fence_start(f);
}

static void on_corrected(void *ctx, mt_write_batch *b) {
  mt_fence *f = ctx;
  mortise_error err = b->error;
  if (!err.code && f->item.outcome == MT_OUTCOME_CONFLICT && ++f->tries < TRIES) {
    fence_again(f); /* the dead has corrected it, too */
    return;
  }
  if (!err.code && f->item.outcome != MT_OUTCOME_APPLIED)
    mt_error_set(&err, MORTISE_REJECTED, "batch %s of the journal cannot be corrected: %s", f->id,
                 f->item.write.reason);
  if (err.code)
    finish_fence(f, &err);
  else
    end_fence(f);
}

static mortise_status encode_rest(mt_fence *f, mortise_error *err) {
  const mt_journal_batch *b = &f->rewrite.read.batch;
  mt_buf_deinit(&f->text);
  mt_buf_deinit(&f->body);
  mt_buf_init(&f->text, TEXT_MAX);
  mt_buf_init(&f->body, TEXT_MAX);
  for (size_t i = 0; i < b->n; i++) {
    mt_fenced fate = f->fates ? f->fates[i] : FENCED_DONE;
    b->entries[i].unsure = fate == FENCED_UNSURE;
    if (fate != FENCED_UNTOUCHED) mt_journal_add(&f->text, &b->entries[i]);
  }
  mortise_status status = mt_buf_status(&f->text, "a batch of the journal", err);
  if (status) return status;
  return mt_journal_encode(&f->packer, f->of.ns, f->of.job, mt_buf_slice(&f->text), &f->body, err);
}

/* It is written over in any case, so that a former owner, who may know less, can correct it no more. */
static void correct_journal(mt_fence *f) {
  mortise_error err;
  if (encode_rest(f, &err)) {
    finish_fence(f, &err);
    return;
  }
  f->item =
      (mt_item){.write = {.kind = MT_WRITE_INDEX,
                          .id = mt_journal_id(f->id, f->of.ns, f->of.job, f->attempt, f->number),
                          .body = mt_buf_slice(&f->body),
                          .if_version = f->rewrite.read.version,
                          .skip_pipeline = true},
                .of_source = true};
  f->batch = (mt_write_batch){.done = on_corrected,
                              .ctx = f,
                              .index = f->of.table,
                              .items = &f->item,
                              .n = 1,
                              .again = mt_again_itself};
  mt_writer_submit(f->journal, &f->batch);
}

/* What cannot even be written as it is may be refused for a while only. */
static mortise_status check_rejected(const mt_fence *f, mortise_error *err) {
  const mt_reject *first = &f->result.rejects[0];
  if (!f->result.rejected || f->again) return MORTISE_OK;
  return mt_error_set(err, MORTISE_REJECTED,
                      "%.100s, which was being written when the job's process ended, cannot be "
                      "written again: %s",
                      first->id, first->reason);
}

static void on_fenced(void *ctx, mt_rewrite *w) {
  mt_fence *f = ctx;
  mortise_error err = w->error;
  if (!err.code) check_rejected(f, &err);
  if (err.code) {
    finish_fence(f, &err);
    return;
  }
  doubt_unwritten(f);
  f->changed = w->written - count_fates(f, FENCED_UNTOUCHED);
  f->deleted = w->deleted;
  f->unchanged = w->right;
  f->unsure = count_fates(f, FENCED_UNSURE);
  if (!w->read.found)
    end_fence(f);
  else
    correct_journal(f);
}

void mt_fence_start(mt_fence *f) {
  f->rewrite = (mt_rewrite){.done = on_fenced,
                            .ctx = f,
                            .of = f->of,
                            .writer = f->writer,
                            .attempt = f->attempt,
                            .number = f->number,
                            .decide = fence_one,
                            .change = f->again ? *f->again : (mt_transform){0},
                            .result = &f->result};
  mt_rewrite_start(&f->rewrite);
}

void mt_fence_deinit(mt_fence *f) {
  mt_rewrite_deinit(&f->rewrite);
  mt_free(f->fates);
  mt_packer_free(f->packer);
  mt_buf_deinit(&f->text);
  mt_buf_deinit(&f->body);
  mt_buf_deinit(&f->list);
  mt_aside_write_deinit(&f->listing);
  *f = (mt_fence){0};
}
