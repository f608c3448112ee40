#include "job/rewrite.h"

#include "base/mem.h"

enum { BODY_MAX = 256 << 20 };

/* ---- One document --------------------------------------------------------------------------- */

mt_again mt_rewrite_fail(mt_rewrite *w, const mortise_error *e) {
  if (!w->error.code) w->error = *e;
  return MT_AGAIN_CONFLICT;
}

mt_now mt_rewrite_look(mt_rewrite *w, mt_item *item, const mt_journal_entry *e, const mt_doc *doc) {
  char digest[MT_JOURNAL_DIGEST];
  mortise_error err;
  if (!doc->found) return MT_NOW_GONE;
  item->write.if_version = doc->version;
  if (mt_version_equal(doc->version, e->before)) return MT_NOW_BEFORE;
  if (!mt_journal_digest(doc->source, digest)) {
    mt_error_memory(&err);
    mt_rewrite_fail(w, &err);
    return MT_NOW_GONE;
  }
  if (!strcmp(digest, e->after)) return MT_NOW_AFTER;
  return e->revision && doc->revision == e->revision + 1 ? MT_NOW_THEIRS : MT_NOW_OTHER;
}

mt_again mt_rewrite_as(mt_item *item, mt_write_kind kind, mt_slice body) {
  item->write.kind = kind;
  item->write.body = body;
  if (kind == MT_WRITE_CREATE) item->write.if_version = (mt_version){0, 0};
  return MT_AGAIN_WRITE;
}

mt_again mt_rewrite_taking(mt_rewrite *w, mt_item *item, mt_buf *source) {
  mortise_error err;
  mt_slice body;
  if (mt_kept_take(&w->kept, source, &body)) return mt_rewrite_as(item, MT_WRITE_INDEX, body);
  mt_error_memory(&err);
  return mt_rewrite_fail(w, &err);
}

mt_again mt_rewrite_with(mt_rewrite *w, mt_item *item, mt_slice source) {
  mt_buf copy;
  mt_buf_init(&copy, BODY_MAX);
  mt_buf_addslice(&copy, source);
  mt_again next = mt_rewrite_taking(w, item, &copy);
  mt_buf_deinit(&copy);
  return next;
}

mt_again mt_rewrite_by(mt_rewrite *w, mt_item *item, const mt_transform *t, const mt_doc *doc) {
  mortise_error err;
  mt_buf body;
  mt_error_clear(&err);
  mt_buf_init(&body, BODY_MAX);
  mt_again next = MT_AGAIN_CONFLICT;
  mt_transformed how = t->apply(t->ctx, doc, &body, &err);
  if (how == MT_CHANGED) next = mt_rewrite_taking(w, item, &body);
  if (how == MT_DELETED) next = mt_rewrite_as(item, MT_WRITE_DELETE, (mt_slice){NULL, 0});
  if (how == MT_UNCHANGED) next = MT_AGAIN_DONE;
  if (how == MT_STOP) next = mt_rewrite_fail(w, &err);
  mt_buf_deinit(&body);
  return next;
}

/* ---- Documents that get another id ---------------------------------------------------------- */

static void on_moved(void *ctx, mt_moved *m) {
  mt_rewrite *w = ctx;
  if (m->error.code) mt_rewrite_fail(w, &m->error);
  w->written += m->written;
  w->untouched += m->untouched;
  w->right += m->right;
  w->left += m->left;
  w->done(w->ctx, w);
}

static size_t count_moves(const mt_rewrite *w) {
  size_t n = 0;
  for (size_t i = 0; i < w->read.batch.n; i++)
    n += w->read.batch.entries[i].kind == MT_JOURNAL_MOVE;
  return n;
}

static void finish_rewrite(mt_rewrite *w) {
  if (w->error.code || !count_moves(w)) {
    w->done(w->ctx, w);
    return;
  }
  w->moved = (mt_moved){.done = on_moved,
                        .ctx = w,
                        .of = w->of,
                        .writer = w->writer,
                        .attempt = w->attempt,
                        .number = w->number,
                        .back = w->back,
                        .looks = w->looks,
                        .change = w->change,
                        .inverse = w->inverse,
                        .aside = &w->aside,
                        .result = w->result};
  mt_moved_start(&w->moved);
}

/* ---- The others ----------------------------------------------------------------------------- */

static const mt_journal_entry *entry_of_item(const mt_rewrite *w, const mt_item *item) {
  const mt_journal_entry *e = w->read.batch.entries;
  while (e->id.p != item->write.id.p) e++;
  return e;
}

/* Was it to be deleted, and is it? */
static bool is_deleted(mt_again what, const mt_journal_entry *e, const mt_doc *doc) {
  return what == MT_AGAIN_DONE && e->kind == MT_JOURNAL_DELETE && !doc->found;
}

static mt_again decide_again(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc) {
  mt_rewrite *w = ctx;
  (void)b;
  const mt_journal_entry *e = entry_of_item(w, item);
  mt_again what = w->decide(w, item, e, doc);
  w->deleted_late += is_deleted(what, e, doc);
  return what;
}

/* ---- The batch ------------------------------------------------------------------------------ */

static void on_rewritten(void *ctx, mt_write_batch *b) {
  mt_rewrite *w = ctx;
  if (b->error.code) mt_rewrite_fail(w, &b->error);
  w->left += b->counts[MT_OUTCOME_CONFLICT];
  for (size_t i = 0; i < b->n; i++) {
    const mt_write *write = &b->items[i].write;
    bool deletes = write->kind == MT_WRITE_DELETE;
    w->written += !deletes && b->items[i].outcome == MT_OUTCOME_APPLIED;
    w->deleted += deletes && b->items[i].outcome == MT_OUTCOME_APPLIED;
    w->right += b->items[i].outcome == MT_OUTCOME_ALREADY;
    w->untouched += !deletes && b->items[i].outcome == MT_OUTCOME_APPLIED &&
                    mt_version_equal(write->if_version, entry_of_item(w, &b->items[i])->before);
    if (b->items[i].outcome >= MT_OUTCOME_CONFLICT)
      mt_aside_add(&w->aside, (mt_slice){"", 0}, write, b->items[i].outcome == MT_OUTCOME_REJECTED);
    if (b->items[i].outcome == MT_OUTCOME_REJECTED)
      mt_result_reject(w->result, write->id, write->type, write->reason);
  }
  w->deleted += w->deleted_late;
  w->right -= w->deleted_late; /* the writer's outcome of them is ALREADY */
  finish_rewrite(w);
}

/* Does its version alone say that it is as the batch has left it (mt_batch_read's `versions`)? */
static bool needs_no_source(const mt_rewrite *w, const mt_doc *doc) {
  return w->looks && doc->found && !doc->source.p;
}

static mt_again decide_one(mt_rewrite *w, mt_item *item, const mt_journal_entry *e,
                           const mt_doc *doc) {
  if (!needs_no_source(w, doc)) return w->decide(w, item, e, doc);
  item->write.if_version = doc->version;
  return MT_AGAIN_WRITE;
}

static size_t decide_all(mt_rewrite *w) {
  size_t n = 0;
  for (size_t i = 0; i < w->read.batch.n && !w->error.code; i++) {
    const mt_journal_entry *e = &w->read.batch.entries[i];
    mt_item *item = &w->items[n];
    if (e->kind == MT_JOURNAL_MOVE) continue;
    *item = (mt_item){.write = {.kind = MT_WRITE_INDEX,
                                .index = e->index,
                                .id = e->id,
                                .routing = e->routing,
                                .skip_pipeline = true},
                      .of_source = true};
    mt_again what = decide_one(w, item, e, &w->read.docs[i]);
    n += what == MT_AGAIN_WRITE;
    bool deleted = is_deleted(what, e, &w->read.docs[i]);
    w->deleted += deleted;
    w->right += what == MT_AGAIN_DONE && !deleted;
    w->left += what == MT_AGAIN_CONFLICT;
    if (what == MT_AGAIN_CONFLICT)
      mt_aside_add_left(&w->aside, e->index, e->id, false, "conflict",
                        w->read.docs[i].found ? "someone else has changed it since"
                                              : "someone else has deleted it since");
  }
  return n;
}

static void free_items(mt_rewrite *w) {
  mt_kept_free(&w->kept);
  mt_free(w->items);
  w->items = NULL;
}

static void on_batch_read(void *ctx, mt_batch_read *r);

static void read_batch(mt_rewrite *w) {
  w->read = (mt_batch_read){.done = on_batch_read,
                            .ctx = w,
                            .of = w->of,
                            .attempt = w->attempt,
                            .number = w->number,
                            .versions = w->looks};
  mt_batch_read_start(&w->read);
}

/* What was read early may be older than what was written meanwhile. A write of such a document is a compare-and-set,
 * which fails, and it is read again. But nothing may be left unwritten because of it. */
static bool must_read_again(mt_rewrite *w, size_t n) {
  if (!w->early || w->looks || w->error.code || n + count_moves(w) == w->read.batch.n) return false;
  w->early = false;
  w->deleted = w->right = w->left = 0;
  mt_buf_clear(&w->aside);
  free_items(w);
  mt_batch_read_deinit(&w->read);
  read_batch(w);
  return true;
}

/* As on_rewritten, were all of it applied. */
static void count_wanted(mt_rewrite *w, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const mt_item *item = &w->items[i];
    bool deletes = item->write.kind == MT_WRITE_DELETE;
    w->deleted += deletes;
    w->written += !deletes;
    w->untouched +=
        !deletes && mt_version_equal(item->write.if_version, entry_of_item(w, item)->before);
  }
}

static void write_back(mt_rewrite *w) {
  mt_batch_read *r = &w->read;
  if (r->error.code) mt_rewrite_fail(w, &r->error);
  if (!w->error.code) w->items = mt_calloc(r->batch.n ? r->batch.n : 1, sizeof *w->items);
  if (!w->error.code && !w->items) mt_error_memory(&w->error);
  size_t n = w->error.code ? 0 : decide_all(w);
  if (must_read_again(w, n)) return;
  if (w->looks) count_wanted(w, n);
  if (w->error.code || !n || w->looks) {
    finish_rewrite(w);
    return;
  }
  w->batch = (mt_write_batch){
      .done = on_rewritten, .ctx = w, .items = w->items, .n = n, .again = decide_again};
  mt_writer_submit(w->writer, &w->batch);
}

static void on_batch_read(void *ctx, mt_batch_read *r) {
  mt_rewrite *w = ctx;
  (void)r;
  w->arrived = true;
  if (!w->ahead) write_back(w);
}

void mt_rewrite_start(mt_rewrite *w) {
  mt_buf_init(&w->aside, BODY_MAX);
  read_batch(w);
}

void mt_rewrite_go(mt_rewrite *w) {
  w->ahead = false;
  w->early = true;
  if (w->arrived) write_back(w);
}

void mt_rewrite_deinit(mt_rewrite *w) {
  free_items(w);
  mt_buf_deinit(&w->aside);
  mt_moved_deinit(&w->moved);
  mt_batch_read_deinit(&w->read);
  *w = (mt_rewrite){0};
}
