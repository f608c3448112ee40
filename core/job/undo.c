#include "job/undo.h"

#include <inttypes.h>
#include <stdio.h>

static void undo_next_batch(mt_undo *u);

/* One that is not ours any more may have been restored by an earlier undoing. */
static mt_again invert(mt_rewrite *w, mt_item *item, const mt_journal_entry *e, const mt_doc *doc,
                       bool ours) {
  const mt_undo *u = w->ctx;
  if (ours && u->inverse.apply) return mt_rewrite_by(w, item, &u->inverse, doc);
  if (!ours && mt_moved_is_old(&u->forward, e, doc)) return mt_rewrite_with(w, item, doc->source);
  return MT_AGAIN_CONFLICT;
}

/* Nobody can see who deleted a document. It is created again, unless someone has created one since. */
static mt_again restore_deleted(mt_item *item, const mt_journal_entry *e, const mt_doc *doc) {
  if (!doc->found) return mt_rewrite_as(item, MT_WRITE_CREATE, e->source);
  /* Was it created again by an earlier undoing that was cut off? */
  bool ours = mt_slice_eq(doc->source, e->source);
  return ours ? mt_rewrite_as(item, MT_WRITE_INDEX, e->source) : MT_AGAIN_CONFLICT;
}

static mt_again restore_one(mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                            const mt_doc *doc) {
  mt_now now = mt_rewrite_look(w, item, e, doc);
  bool ours = now == MT_NOW_AFTER;
  if (now == MT_NOW_BEFORE) return mt_rewrite_with(w, item, doc->source);
  if (now == MT_NOW_THEIRS) return MT_AGAIN_DONE;
  if (e->kind == MT_JOURNAL_DELETE) return restore_deleted(item, e, doc);
  if (now == MT_NOW_GONE) return MT_AGAIN_CONFLICT;
  if (!e->source.p) return invert(w, item, e, doc, ours);
  if (!ours && !mt_slice_eq(doc->source, e->source)) return MT_AGAIN_CONFLICT;
  return mt_rewrite_as(item, MT_WRITE_INDEX, e->source);
}

/* Whatever others have made of it, the opposite change finds it like all that lies there: it is not left. */
static mt_again restore(mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                        const mt_doc *doc) {
  const mt_undo *u = w->ctx;
  bool found = u->record->inverse && e->kind != MT_JOURNAL_DELETE;
  mt_again what = restore_one(w, item, e, doc);
  return what == MT_AGAIN_CONFLICT && found ? MT_AGAIN_DONE : what;
}

static void finish_undo(mt_undo *u) {
  u->done(u->ctx, u);
}

/* Its batch is accounted for: those that the job had never reached are unchanged. */
static void account_restored(mt_undo *u) {
  const mt_rewrite *w = u->now;
  mt_change_result *r = u->result;
  uint64_t restored = w->written - w->untouched, rejected = r->rejected - u->rejected_before;
  uint64_t right = u->record->inverse ? 0 : w->right; /* the opposite change counts what it finds */
  r->matched += w->written + right + w->left + rejected;
  r->changed += restored;
  r->unchanged += right + w->untouched;
  r->conflicts += w->left;
  u->record->counts.restored += restored;
  u->record->counts.left += w->left + rejected;
}

static void end_batch(mt_undo *u) {
  account_restored(u);
  mt_rewrite_deinit(u->now);
  if (u->error.code) {
    finish_undo(u);
    return;
  }
  u->record->undo_number--;
  undo_next_batch(u);
}

static void on_undo_listed(void *ctx, mt_write_batch *b) {
  mt_undo *u = ctx;
  (void)b;
  mt_aside_write_status(&u->listing, &u->error);
  end_batch(u);
}

/* What is left as it is, is listed before the job's document says that this batch is undone. */
static void on_batch_restored(void *ctx, mt_rewrite *w) {
  mt_undo *u = ctx;
  char name[64];
  u->error = w->error;
  if (!u->error.code) mt_buf_status(&w->aside, "what was left", &u->error);
  if (u->error.code || !w->aside.n || u->looks) {
    end_batch(u);
    return;
  }
  snprintf(name, sizeof name, "undo:%" PRIu64 ":%" PRIu64, w->attempt, w->number);
  u->listing.done = on_undo_listed;
  u->listing.ctx = u;
  if (mt_aside_write_start(&u->listing, name, MT_UNDO_MARK, mt_buf_slice(&w->aside), &u->error))
    end_batch(u);
}

/* Moves from the end of an attempt to that of the one before. */
static void skip_finished(const mt_job_record *record, uint64_t *attempt, uint64_t *number) {
  while (*attempt && !*number)
    if (--*attempt) *number = record->batches[*attempt - 1];
}

static void read_batch_back(mt_undo *u, mt_rewrite *w, uint64_t attempt, uint64_t number,
                            bool ahead) {
  *w = (mt_rewrite){.done = on_batch_restored,
                    .ctx = u,
                    .of = u->of,
                    .writer = u->writer,
                    .attempt = attempt,
                    .number = number,
                    .ahead = ahead,
                    .looks = u->looks,
                    .decide = restore,
                    .back = true,
                    .change = u->forward,
                    .inverse = u->inverse,
                    .result = u->result};
  mt_rewrite_start(w);
}

/* The next batch is read while this one is written. */
static void read_ahead(mt_undo *u) {
  uint64_t attempt = u->record->undo_attempt, number = u->record->undo_number - 1;
  skip_finished(u->record, &attempt, &number);
  if (!attempt) return;
  u->ahead = u->now == &u->batches[0] ? &u->batches[1] : &u->batches[0];
  read_batch_back(u, u->ahead, attempt, number - 1, true);
}

static void undo_next_batch(mt_undo *u) {
  mt_job_record *record = u->record;
  mt_rewrite *read = u->ahead;
  skip_finished(record, &record->undo_attempt, &record->undo_number);
  if (!record->undo_attempt || u->stopped) {
    finish_undo(u);
    return;
  }
  u->idle = u->paused;
  if (u->idle) return;
  u->rejected_before = u->result->rejected;
  u->ahead = NULL;
  u->now = read ? read : &u->batches[0];
  if (!read) read_batch_back(u, u->now, record->undo_attempt, record->undo_number - 1, false);
  read_ahead(u);
  if (read) mt_rewrite_go(read);
}

void mt_undo_start(mt_undo *u) {
  undo_next_batch(u);
}

void mt_undo_go_on(mt_undo *u) {
  if (u->idle) undo_next_batch(u);
}

void mt_undo_deinit(mt_undo *u) {
  mt_aside_write_deinit(&u->listing);
  mt_rewrite_deinit(&u->batches[0]);
  mt_rewrite_deinit(&u->batches[1]);
}
