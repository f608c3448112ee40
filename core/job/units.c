#include "job/units.h"

#include "base/mem.h"
#include "job/relocate.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  ENTRIES_MAX = 512 << 20,
  /* bytes of all pages; the bodies and the journal take three times as much */
  IN_HAND_MAX = 8 << 20,
  BUFFER_KEPT = 2 << 20, /* bytes of a buffer that a unit keeps for its next page */
};

/* The number of a unit whose batch is not in the journal. */
static const uint64_t UNLISTED = UINT64_MAX;

/* ---- What became of a batch ----------------------------------------------------------------- */

/* With a journal, a document that someone else has changed is left to the next pass, which reads it and lists it in
 * the journal again. */
static mt_again again_journaled(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc) {
  if (mt_relocates(item)) return mt_relocate_taken(item, doc);
  return doc->found ? mt_again_itself(ctx, b, item, doc) : MT_AGAIN_DONE;
}

/* Those of the batch's documents that are as they should be. */
typedef struct batch_tally {
  uint64_t changed, deleted, unchanged;
} batch_tally;

/* Was it to be deleted, and gone before? Where a request of it had no answer, that may have deleted it. */
static bool found_nothing(const mt_item *item) {
  return item->write.kind == MT_WRITE_DELETE && item->outcome == MT_OUTCOME_ALREADY && !item->doubted;
}

static batch_tally tally_batch(const mt_write_batch *b) {
  batch_tally t = {0};
  for (size_t i = 0; i < b->n; i++) {
    mt_outcome outcome = b->items[i].outcome;
    if (outcome != MT_OUTCOME_APPLIED && outcome != MT_OUTCOME_ALREADY) continue;
    if (b->items[i].write.kind == MT_WRITE_DELETE && !found_nothing(&b->items[i]))
      t.deleted++;
    else if (outcome == MT_OUTCOME_APPLIED)
      t.changed++;
    else
      t.unchanged++;
  }
  return t;
}

static void account(mt_unit *u) {
  mt_change_result *r = u->all->result;
  const mt_write_batch *b = &u->batch;
  batch_tally t = tally_batch(b);
  r->deleted += t.deleted;
  r->changed += t.changed;
  r->unchanged += t.unchanged;
  r->conflicts += b->counts[MT_OUTCOME_CONFLICT];
  r->unknown += b->dirty;
  for (size_t i = 0; b->counts[MT_OUTCOME_REJECTED] && i < b->n; i++) {
    const mt_write *w = &b->items[i].write;
    if (b->items[i].outcome == MT_OUTCOME_REJECTED)
      mt_result_reject(r, u->docs[u->at + i]->id, w->type, w->reason);
  }
}

static void list_aside(mt_unit *u) {
  const mt_write_batch *b = &u->batch;
  if (!u->all->journal || !(b->counts[MT_OUTCOME_REJECTED] + b->counts[MT_OUTCOME_CONFLICT]))
    return;
  for (size_t i = 0; i < b->n; i++) {
    mt_outcome outcome = b->items[i].outcome;
    mt_write left = b->items[i].write;
    left.id = u->docs[u->at + i]->id;
    if (outcome == MT_OUTCOME_REJECTED || outcome == MT_OUTCOME_CONFLICT)
      mt_aside_add(&u->aside, mt_slice_of(b->index), &left, outcome == MT_OUTCOME_REJECTED);
  }
}

/* ---- Phases --------------------------------------------------------------------------------- */

static void shrink(mt_buf *b) {
  if (b->cap > BUFFER_KEPT) mt_buf_deinit(b);
}

static void free_unit(mt_unit *u) {
  mt_kept_free(&u->redone);
  shrink(&u->bodies);
  shrink(&u->entries);
  mt_buf_deinit(&u->aside);
  mt_aside_write_deinit(&u->listing);
  u->all->in_hand -= u->page->bytes.n;
  mt_page_free(u->page);
  u->page = NULL;
  u->phase = MT_UNIT_FREE;
  u->all->busy--;
}

/* Is something in its batch not done, or not known to be? */
static bool is_unfinished(const mt_write_batch *b) {
  size_t settled = 0;
  for (int i = MT_OUTCOME_APPLIED; i < MT_OUTCOMES; i++) settled += b->counts[i];
  return b->dirty || settled < b->n;
}

/* A batch that is not finished counts too, since the network may still deliver a request that the store refused,
 * and lest its documents be journaled twice: whoever goes on finishes it first. So does one for which the journal
 * could not be corrected. */
static void note_doubt(mt_unit *u) {
  mt_unit_journal *j = u->all->journal;
  const mt_write_batch *b = &u->batch;
  bool doubtful = is_unfinished(b) || u->uncorrected;
  if (!j || !doubtful || u->number == UNLISTED || j->n_doubtful == MT_JOB_UNITS_MAX) return;
  j->doubtful[j->n_doubtful++] = u->number;
  batch_tally t = tally_batch(b);
  j->doubtful_deleted += t.deleted;
  j->doubtful_changed += t.changed;
  j->doubtful_unchanged += t.unchanged;
}

static void on_listed(void *ctx, mt_write_batch *b) {
  mt_unit *u = ctx;
  mt_units *all = u->all;
  mortise_error err;
  (void)b;
  if (mt_aside_write_status(&u->listing, &err)) mt_units_fail(all, &err);
  free_unit(u);
  all->written(all->ctx);
}

/* Lists what was set aside. */
static mortise_status start_listing(mt_unit *u, mortise_error *err) {
  mt_unit_journal *j = u->all->journal;
  char name[64], mark[MT_JOB_MARK_MAX];
  mortise_status status = mt_buf_status(&u->aside, "what was set aside", err);
  if (status) return status;
  snprintf(name, sizeof name, "%" PRIu64 ":%" PRIu64, j->attempt, j->listed++);
  mt_job_mark(mark, j->attempt, u->all->result->looks);
  u->listing.done = on_listed;
  u->listing.ctx = u;
  u->listing.writer = j->lister;
  u->listing.table = j->index;
  u->listing.ns = j->ns;
  u->listing.job = j->job;
  return mt_aside_write_start(&u->listing, name, mark, mt_buf_slice(&u->aside), err);
}

/* It is done with its page. */
static void release_unit(mt_unit *u) {
  mortise_error err;
  if (u->phase == MT_UNIT_JOURNALED) note_doubt(u);
  u->phase = MT_UNIT_LISTING;
  if (!u->aside.n && !u->aside.failed) {
    free_unit(u);
    return;
  }
  if (!start_listing(u, &err)) return;
  mt_units_fail(u->all, &err);
  free_unit(u);
}

static void settle_unit(mt_unit *u) {
  account(u);
  list_aside(u);
  note_doubt(u);
  if (u->batch.error.code) mt_units_fail(u->all, &u->batch.error);
  u->at += u->batch.n;
  u->phase = MT_UNIT_PATCHED;
  if (u->at == u->n || u->all->stopped) release_unit(u);
}

static void on_cleared(void *ctx, mt_write_batch *b) {
  mt_unit *u = ctx;
  mt_units *all = u->all;
  (void)b;
  mt_relocate_conclude(&u->batch, &u->clearing);
  settle_unit(u);
  all->written(all->ctx);
}

/* Deletes what has got another id. False if there is nothing. */
static bool clear_olds(mt_unit *u) {
  mortise_error err;
  size_t n = 0;
  if (!mt_relocate_olds(&u->batch, u->docs + u->at, &u->olds, &u->olds_cap, &n)) {
    mt_error_memory(&err);
    mt_units_fail(u->all, &err);
    return false;
  }
  if (!n) return false;
  u->clearing = (mt_write_batch){
      .done = on_cleared, .ctx = u, .index = u->all->index, .items = u->olds, .n = n};
  u->phase = MT_UNIT_CLEARING;
  return u->all->sink.submit(u->all->sink.ctx, &u->clearing);
}

static bool correct_entry(mt_unit *u);
static bool was_not_done(const mt_item *item);
static bool lists_too_much(const mt_unit *u);

/* A request that had no answer may have written what a later one could not. Whoever goes on with the job finds out,
 * as of a batch of the dead: out of the journal, the function would be called for what it has made. */
static bool fails_in_doubt(mt_unit *u) {
  mortise_error err;
  const mt_item *found = NULL;
  for (size_t i = 0; u->all->known && i < u->batch.n && !found; i++)
    if (u->batch.items[i].doubted && was_not_done(&u->batch.items[i])) found = &u->batch.items[i];
  if (!found) return false;
  mt_error_set(&err, MORTISE_UNAVAILABLE,
               "a request had no answer, and then %.*s could not be written: a resume finds out "
               "whether it has been",
               (int)(found->write.id.n < 100 ? found->write.id.n : 100), found->write.id.p);
  mt_units_fail(u->all, &err);
  return true;
}

static void on_batch_written(void *ctx, mt_write_batch *b) {
  mt_unit *u = ctx;
  mt_units *all = u->all;
  if (!b->error.code && clear_olds(u)) return;
  mt_relocate_conclude(&u->batch, &u->clearing);
  u->uncorrected = lists_too_much(u);
  if (u->uncorrected && !b->error.code && !fails_in_doubt(u) && correct_entry(u)) return;
  settle_unit(u);
  all->written(all->ctx);
}

/* Takes the next documents of the page, as many as a batch may have now. */
static void take_batch(mt_unit *u) {
  mt_units *all = u->all;
  size_t most = mt_pace_batch(&all->pace), left = u->n - u->at;
  u->clearing = (mt_write_batch){0};
  u->batch = (mt_write_batch){.done = on_batch_written,
                              .ctx = u,
                              .index = all->index,
                              .items = u->items + u->at,
                              .n = left < most ? left : most};
  if (all->journal)
    u->batch.again = again_journaled;
  else if (all->transform.decides)
    u->batch.again = mt_unit_again;
  mt_pace_sent(&all->pace, u->batch.n, all->now_ms);
}

static mortise_status preview_batch(const mt_unit *u, mt_preview *preview, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; i < u->batch.n && !status; i++)
    status = mt_preview_add(preview, &u->batch.items[i].write, u->docs[u->at + i], err);
  return status;
}

static void write_batch(mt_unit *u) {
  mortise_error err;
  mt_preview *preview = u->all->preview;
  if (preview && preview_batch(u, preview, &err)) mt_units_fail(u->all, &err);
  u->phase = MT_UNIT_WRITING;
  if (!u->all->sink.submit(u->all->sink.ctx, &u->batch)) settle_unit(u);
}

/* ---- The journal ---------------------------------------------------------------------------- */

/* Does the inverse make of the new body exactly the old source? */
static bool restores(mt_unit_journal *j, const mt_doc *doc, mt_slice written) {
  mt_doc changed = *doc;
  mt_buf *back = &j->back;
  mortise_error err;
  changed.source = written;
  mt_buf_clear(back);
  mt_error_clear(&err);
  return j->inverse.apply && j->inverse.apply(j->inverse.ctx, &changed, back, &err) == MT_CHANGED &&
         !back->failed && mt_slice_eq(mt_buf_slice(back), doc->source);
}

/* Appends what is needed to undo one document. False if there is no memory. */
static bool list_entry(mt_unit_journal *j, const mt_item *item, const mt_doc *doc, mt_buf *text) {
  const mt_write *w = &item->write;
  bool deletes = w->kind == MT_WRITE_DELETE;
  bool exact = !deletes && restores(j, doc, w->body);
  if (exact && j->only_inexact) return true;
  mt_journal_entry e = {.kind = deletes ? MT_JOURNAL_DELETE : MT_JOURNAL_INDEX,
                        .index = doc->index,
                        .id = doc->id,
                        .routing = doc->routing,
                        .before = doc->version,
                        .revision = doc->revision};
  if (mt_relocates(item)) {
    e.kind = MT_JOURNAL_MOVE;
    e.to = w->id;
  }
  if (!exact) e.source = doc->source;
  if (!deletes && !mt_journal_digest(w->body, e.after)) return false;
  mt_journal_add(text, &e);
  return true;
}

static bool was_not_done(const mt_item *item) {
  return item->outcome == MT_OUTCOME_CONFLICT || item->outcome == MT_OUTCOME_REJECTED;
}

/* The journal keeps what was done, and what may have been. Undoing what was not would bring back what others have
 * deleted, or find a conflict where there is none; and a function would not be called again for it. */
static bool is_no_entry(const mt_item *item) {
  return found_nothing(item) || (was_not_done(item) && !item->doubted && !mt_relocates(item));
}

static bool lists_too_much(const mt_unit *u) {
  if (!u->all->journal || u->number == UNLISTED) return false;
  for (size_t i = 0; i < u->batch.n; i++)
    if (is_no_entry(&u->batch.items[i]) || (u->all->known && was_not_done(&u->batch.items[i])))
      return true;
  return false;
}

/* The items are the documents of the page that are to be changed, in the same order. */
static mortise_status list_entries(mt_unit *u, mt_buf *text, mortise_error *err) {
  mt_buf_clear(text);
  for (size_t i = 0; i < u->batch.n; i++) {
    if (is_no_entry(&u->batch.items[i])) continue;
    if (!list_entry(u->all->journal, &u->batch.items[i], u->docs[u->at + i], text))
      return mt_error_memory(err);
  }
  return mt_buf_status(text, "a batch of the journal", err);
}

static void on_journaled(void *ctx, mt_write_batch *b) {
  mt_unit *u = ctx;
  mt_units *all = u->all;
  mortise_error err = b->error;
  u->phase = MT_UNIT_JOURNALED;
  if (!err.code && u->entry.outcome != MT_OUTCOME_APPLIED)
    mt_error_set(&err,
                 u->entry.outcome == MT_OUTCOME_CONFLICT ? MORTISE_CONFLICT : MORTISE_REJECTED,
                 "the journal does not take a batch: %s", u->entry.write.reason);
  if (err.code) mt_units_fail(all, &err);
  mt_units_step(all);
  all->written(all->ctx);
}

static mortise_status encode_entries(mt_unit *u, mortise_error *err) {
  mt_unit_journal *j = u->all->journal;
  mt_buf_clear(&u->entries);
  return mt_journal_encode(&j->packer, j->ns, j->job, mt_buf_slice(&j->text), &u->entries, err);
}

static void submit_entry(mt_unit *u, mt_write_kind kind, mt_version if_version,
                         void (*done)(void *ctx, mt_write_batch *b)) {
  const mt_unit_journal *j = u->all->journal;
  u->entry = (mt_item){.write = {.kind = kind,
                                 .id = mt_journal_id(u->id, j->ns, j->job, j->attempt, u->number),
                                 .body = mt_buf_slice(&u->entries),
                                 .if_version = if_version,
                                 .skip_pipeline = true},
                       .of_source = kind == MT_WRITE_INDEX};
  u->entry_batch = (mt_write_batch){.done = done,
                                    .ctx = u,
                                    .index = j->index,
                                    .items = &u->entry,
                                    .n = 1,
                                    .again = mt_again_itself};
  mt_writer_submit(j->writer, &u->entry_batch);
}

static mortise_status write_entry(mt_unit *u, mortise_error *err) {
  mortise_status status = encode_entries(u, err);
  if (status) return status;
  u->number = u->all->journal->next++;
  u->phase = MT_UNIT_JOURNALING;
  submit_entry(u, MT_WRITE_CREATE, (mt_version){0, 0}, on_journaled);
  return MORTISE_OK;
}

static void on_entry_corrected(void *ctx, mt_write_batch *b) {
  mt_unit *u = ctx;
  mt_units *all = u->all;
  mortise_error err = b->error;
  u->uncorrected = u->entry.outcome != MT_OUTCOME_APPLIED;
  if (!err.code && u->uncorrected)
    mt_error_set(&err, MORTISE_REJECTED, "the journal does not take a batch again: %s",
                 u->entry.write.reason);
  if (err.code) mt_units_fail(all, &err);
  settle_unit(u);
  all->written(all->ctx);
}

/* What was not done leaves the journal, which then says what was. */
static bool correct_entry(mt_unit *u) {
  mortise_error err;
  mortise_status status = list_entries(u, &u->all->journal->text, &err);
  if (!status) status = encode_entries(u, &err);
  if (status) {
    mt_units_fail(u->all, &err);
    return false;
  }
  submit_entry(u, MT_WRITE_INDEX, u->entry.write.version, on_entry_corrected);
  return true;
}

static void write_down(mt_unit *u) {
  mt_buf *text = &u->all->journal->text;
  mortise_error err;
  mortise_status status = list_entries(u, text, &err);
  u->number = UNLISTED;
  if (!status && !text->n) {
    write_batch(u);
    return;
  }
  if (!status) status = write_entry(u, &err);
  if (!status) return;
  mt_units_fail(u->all, &err);
  release_unit(u);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static bool is_under_way(const mt_unit *u) {
  return u->phase == MT_UNIT_PATCHING || u->phase == MT_UNIT_JOURNALING ||
         u->phase >= MT_UNIT_WRITING;
}

static bool is_in_journal(const mt_unit *u) {
  return u->phase >= MT_UNIT_JOURNALING && u->phase <= MT_UNIT_CLEARING;
}

/* A job's document can list only MT_JOB_UNITS_MAX batches that are done before an earlier one. */
static bool journal_is_full(const mt_units *all) {
  uint64_t least = all->journal->next;
  for (uint32_t i = 0; i < all->n; i++) {
    const mt_unit *u = &all->list[i];
    if (is_in_journal(u) && u->number < least) least = u->number;
  }
  return all->journal->next - least >= MT_JOB_UNITS_MAX;
}

static bool are_enough_under_way(const mt_units *all) {
  uint32_t n = 0, most = all->pace.limits.concurrency;
  for (uint32_t i = 0; i < all->n; i++) n += is_in_journal(&all->list[i]);
  return most && n >= most;
}

static bool is_gate_open(const mt_units *all) {
  return !all->paused && !are_enough_under_way(all) && !mt_units_wait_ms(all) &&
         !(all->journal && journal_is_full(all));
}

static void pass_gate(mt_unit *u) {
  take_batch(u);
  if (u->all->journal)
    write_down(u);
  else
    write_batch(u);
}

static void step_unit(mt_unit *u) {
  const mt_units *all = u->all;
  if (u->phase == MT_UNIT_READ && !all->stopped) {
    if (all->outside) return;
    mt_unit_patch(u);
  }
  if (u->phase == MT_UNIT_FREE || is_under_way(u)) return;
  if (all->stopped || u->at == u->n)
    release_unit(u);
  else if (u->phase == MT_UNIT_JOURNALED)
    write_batch(u);
  else if (is_gate_open(all))
    pass_gate(u);
}

/* ---- All of them ---------------------------------------------------------------------------- */

mortise_status mt_units_init(mt_units *all, uint32_t n, mortise_error *err) {
  all->list = mt_calloc(n, sizeof *all->list);
  if (!all->list) return mt_error_memory(err);
  all->n = n;
  for (uint32_t i = 0; i < n; i++) {
    all->list[i].all = all;
    mt_buf_init(&all->list[i].bodies, MT_UNIT_BODIES_MAX);
    mt_buf_init(&all->list[i].entries, ENTRIES_MAX);
    mt_buf_init(&all->list[i].aside, MT_UNIT_BODIES_MAX);
  }
  if (all->journal) mt_buf_init(&all->journal->text, ENTRIES_MAX);
  if (all->journal) mt_buf_init(&all->journal->back, MT_UNIT_BODIES_MAX);
  return MORTISE_OK;
}

void mt_units_deinit(mt_units *all) {
  for (uint32_t i = 0; i < all->n; i++) {
    mt_unit *u = &all->list[i];
    mt_kept_free(&u->redone);
    mt_page_free(u->page);
    mt_buf_deinit(&u->bodies);
    mt_buf_deinit(&u->entries);
    mt_buf_deinit(&u->aside);
    mt_aside_write_deinit(&u->listing);
    mt_free(u->items);
    mt_free(u->docs);
    mt_free(u->olds);
  }
  if (all->list && all->journal) {
    mt_packer_free(all->journal->packer);
    mt_buf_deinit(&all->journal->text);
    mt_buf_deinit(&all->journal->back);
    all->journal->packer = NULL;
  }
  mt_free(all->list);
  *all = (mt_units){0};
}

bool mt_units_room(const mt_units *all) {
  uint32_t most = all->most && all->most < all->n ? all->most : all->n;
  size_t each = all->busy ? all->in_hand / all->busy : 0;
  return all->busy < most && (all->busy < 2 || all->in_hand + each <= IN_HAND_MAX);
}

void mt_units_take(mt_units *all, mt_page *page) {
  mt_unit *u = all->list;
  while (u->phase != MT_UNIT_FREE) u++;
  u->page = page;
  u->phase = MT_UNIT_READ;
  all->busy++;
  all->in_hand += page->bytes.n;
}

void mt_units_step(mt_units *all) {
  all->now_ms = all->env->now_ms(all->env->ctx);
  for (uint32_t i = 0; i < all->n; i++) step_unit(&all->list[i]);
}

int64_t mt_units_wait_ms(const mt_units *all) {
  bool waits = false;
  for (uint32_t i = 0; i < all->n; i++) waits |= all->list[i].phase == MT_UNIT_PATCHED;
  return waits && !all->paused ? mt_pace_wait_ms(&all->pace, all->now_ms) : 0;
}

size_t mt_units_open(const mt_units *all, uint64_t *numbers, size_t n) {
  size_t found = 0;
  for (uint32_t i = 0; i < all->n && found < n; i++)
    if (is_in_journal(&all->list[i]) && all->list[i].number != UNLISTED)
      numbers[found++] = all->list[i].number;
  return found;
}

void mt_units_abandon(mt_units *all) {
  for (uint32_t i = 0; i < all->n; i++) {
    mt_unit *u = &all->list[i];
    if (u->phase != MT_UNIT_WRITING && u->phase != MT_UNIT_CLEARING) continue;
    mt_relocate_conclude(&u->batch, &u->clearing);
    account(u);
  }
}
