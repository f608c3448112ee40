#include "job/fence.h"

#include "base/mem.h"

enum { TEXT_MAX = 512 << 20, TRIES = 8 };

static void finish_fence(mt_fence *f, const mortise_error *e) {
  if (e) f->error = *e;
  f->done(f->ctx, f);
}

/* ---- The documents -------------------------------------------------------------------------- */

static bool is_untouched(mt_now now, const mt_journal_entry *e, const mt_doc *doc) {
  /* Another who settled this batch, and died over it, has written it as it was. */
  return now == MT_NOW_BEFORE || (now == MT_NOW_OTHER && mt_slice_eq(doc->source, e->source));
}

static mt_again fence_one(mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                          const mt_doc *doc) {
  mt_fence *f = w->ctx;
  mortise_error err;
  const mt_journal_batch *b = &w->read.batch;
  if (!f->untouched) f->untouched = mt_calloc(b->n, sizeof *f->untouched);
  if (!f->untouched) {
    mt_error_memory(&err);
    return mt_rewrite_fail(w, &err);
  }
  mt_now now = mt_rewrite_look(w, item, e, doc);
  bool *untouched = &f->untouched[e - b->entries];
  *untouched = is_untouched(now, e, doc);
  if (now == MT_NOW_GONE) return MT_AGAIN_DONE;
  if (now == MT_NOW_OTHER && !*untouched) return MT_AGAIN_CONFLICT;
  return mt_rewrite_with(w, item, doc->source);
}

/* Only an acknowledged write keeps off what the dead has sent. */
static size_t count_untouched(mt_fence *f) {
  const mt_rewrite *w = &f->rewrite;
  const mt_journal_batch *b = &w->read.batch;
  size_t n = 0;
  for (size_t i = 0; i < w->batch.n; i++) {
    const mt_item *item = &w->items[i];
    const mt_journal_entry *e = b->entries;
    while (e->id.p != item->write.id.p) e++;
    bool *untouched = &f->untouched[e - b->entries];
    *untouched &= item->outcome == MT_OUTCOME_APPLIED;
    n += *untouched;
  }
  return n;
}

/* ---- The batch ------------------------------------------------------------------------------ */

static void fence_again(mt_fence *f) {
  mt_rewrite_deinit(&f->rewrite);
  mt_free(f->untouched);
  f->untouched = NULL;
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
  finish_fence(f, err.code ? &err : NULL);
}

static mortise_status encode_rest(mt_fence *f, mortise_error *err) {
  const mt_journal_batch *b = &f->rewrite.read.batch;
  mt_buf_deinit(&f->text);
  mt_buf_deinit(&f->body);
  mt_buf_init(&f->text, TEXT_MAX);
  mt_buf_init(&f->body, TEXT_MAX);
  for (size_t i = 0; i < b->n; i++)
    if (!f->untouched[i]) mt_journal_add(&f->text, &b->entries[i]);
  mortise_status status = mt_buf_status(&f->text, "a batch of the journal", err);
  if (status) return status;
  return mt_journal_encode(&f->packer, f->of.ns, f->of.job, mt_buf_slice(&f->text), &f->body, err);
}

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

static void on_fenced(void *ctx, mt_rewrite *w) {
  mt_fence *f = ctx;
  if (w->error.code) {
    finish_fence(f, &w->error);
    return;
  }
  size_t untouched = f->untouched ? count_untouched(f) : 0;
  f->changed = w->written - untouched;
  f->deleted = w->deleted;
  f->gone = w->right;
  f->others = w->left;
  if (untouched)
    correct_journal(f);
  else
    finish_fence(f, NULL);
}

void mt_fence_start(mt_fence *f) {
  f->rewrite = (mt_rewrite){.done = on_fenced,
                            .ctx = f,
                            .of = f->of,
                            .writer = f->writer,
                            .attempt = f->attempt,
                            .number = f->number,
                            .decide = fence_one,
                            .result = f->result};
  mt_rewrite_start(&f->rewrite);
}

void mt_fence_deinit(mt_fence *f) {
  mt_rewrite_deinit(&f->rewrite);
  mt_free(f->untouched);
  mt_packer_free(f->packer);
  mt_buf_deinit(&f->text);
  mt_buf_deinit(&f->body);
  *f = (mt_fence){0};
}
