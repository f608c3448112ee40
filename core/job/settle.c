#include "job/settle.h"

static void settle_next(mt_settle *s);

/* Finishes a document of a batch that the former attempt had under way. If that attempt has written it, it is
 * written once more as it is, because only an acknowledgement proves a write. If not, it is written now, so that
 * a late request of that attempt fails. If others have changed it, the job's search will find it if need be. */
static mt_again finish_one(mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                           const mt_doc *doc) {
  const mt_transform *t = &((mt_settle *)w->ctx)->change->transform;
  mt_now now = mt_rewrite_look(w, item, e, doc);
  if (now == MT_NOW_GONE) return MT_AGAIN_DONE;
  if (now == MT_NOW_AFTER) return mt_rewrite_with(w, item, doc->source);
  mt_again next = mt_rewrite_by(w, item, t, doc);
  return next == MT_AGAIN_WRITE && now == MT_NOW_OTHER ? MT_AGAIN_CONFLICT : next;
}

static void end_settled_batch(mt_settle *s, const mortise_error *e) {
  s->number++;
  s->error = *e;
  if (s->error.code)
    s->done(s->ctx, s);
  else
    settle_next(s);
}

static void on_finished(void *ctx, mt_rewrite *w) {
  mt_settle *s = ctx;
  mt_job_record *r = s->record;
  mortise_error err = w->error;
  r->counts.matched += w->written + w->deleted + w->right;
  r->counts.changed += w->written;
  r->counts.deleted += w->deleted;
  r->counts.unchanged += w->right;
  mt_rewrite_deinit(w);
  end_settled_batch(s, &err);
}

static void finish_batch(mt_settle *s) {
  s->rewrite = (mt_rewrite){.done = on_finished,
                            .ctx = s,
                            .of = s->of,
                            .writer = s->writer,
                            .attempt = s->record->attempts,
                            .number = s->number,
                            .decide = finish_one,
                            .change = s->change->transform,
                            .result = s->result};
  mt_rewrite_start(&s->rewrite);
}

static void on_batch_fenced(void *ctx, mt_fence *f) {
  mt_settle *s = ctx;
  mt_job_record *r = s->record;
  mortise_error err = f->error;
  r->counts.matched += f->changed + f->deleted;
  r->counts.changed += f->changed;
  r->counts.deleted += f->deleted;
  s->others += f->others;
  mt_fence_deinit(f);
  end_settled_batch(s, &err);
}

static void fence_batch(mt_settle *s) {
  s->fence = (mt_fence){.done = on_batch_fenced,
                        .ctx = s,
                        .of = s->of,
                        .writer = s->writer,
                        .journal = s->journal,
                        .attempt = s->record->attempts,
                        .number = s->number,
                        .result = s->result};
  mt_fence_start(&s->fence);
}

static bool is_noted(const mt_job_record *r, uint64_t number) {
  for (size_t i = 0; i < r->n_also; i++)
    if (r->also[i] == number) return true;
  return false;
}

static void settle_next(mt_settle *s) {
  mt_job_record *r = s->record;
  while (s->number < s->end && is_noted(r, s->number)) s->number++;
  if (s->number == s->end) {
    r->batches[r->attempts - 1] = s->end;
    s->done(s->ctx, s);
  } else if (s->change->known) {
    fence_batch(s);
  } else {
    finish_batch(s);
  }
}

void mt_settle_start(mt_settle *s) {
  s->number = s->record->batches[s->record->attempts - 1];
  settle_next(s);
}

void mt_settle_deinit(mt_settle *s) {
  mt_rewrite_deinit(&s->rewrite);
  mt_fence_deinit(&s->fence);
}
