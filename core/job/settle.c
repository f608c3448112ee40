#include "job/settle.h"

static void settle_next(mt_settle *s);

static void on_batch_fenced(void *ctx, mt_fence *f) {
  mt_settle *s = ctx;
  mt_job_record *r = s->record;
  uint64_t unchanged = f->again ? f->unchanged : 0; /* a function is asked about them once more */
  s->error = f->error;
  r->counts.matched += f->changed + f->deleted + unchanged;
  r->counts.changed += f->changed;
  r->counts.deleted += f->deleted;
  r->counts.unchanged += unchanged;
  r->counts.unsure += f->unsure;
  mt_fence_deinit(f);
  s->number++;
  if (s->error.code)
    s->done(s->ctx, s);
  else
    settle_next(s);
}

static void fence_batch(mt_settle *s) {
  s->fence = (mt_fence){.done = on_batch_fenced,
                        .ctx = s,
                        .of = s->of,
                        .writer = s->writer,
                        .journal = s->journal,
                        .attempt = s->record->attempts,
                        .number = s->number,
                        .again = s->change->known ? NULL : &s->change->transform};
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
  } else {
    fence_batch(s);
  }
}

void mt_settle_start(mt_settle *s) {
  s->number = s->record->batches[s->record->attempts - 1];
  settle_next(s);
}

void mt_settle_deinit(mt_settle *s) {
  mt_fence_deinit(&s->fence);
}
