#include "job/moved.h"

#include "base/mem.h"

enum { MOVED_BODY_MAX = 256 << 20 };

typedef enum pair_end {
  PAIR_OPEN,    /* it is looked at (again) */
  PAIR_WRITTEN, /* it is where it belongs */
  PAIR_RIGHT,   /* nothing was left to be done */
  PAIR_LEFT,    /* it stays as others have made it */
} pair_end;

typedef struct mt_pair {
  size_t at; /* its entry */
  mt_item first, then;
  bool has_first, has_then;
  bool untouched;
  pair_end to, end; /* `to`: how it ends if its requests are acknowledged */
} mt_pair;

static void finish_moved(mt_moved *m) {
  m->done(m->ctx, m);
}

static void fail_moved(mt_moved *m, const mortise_error *e) {
  if (!m->error.code) m->error = *e;
}

/* ---- What is there -------------------------------------------------------------------------- */

typedef enum at_old { OLD_GONE, OLD_AS_READ, OLD_RESTORED, OLD_OTHER } at_old;
typedef enum at_new { NEW_GONE, NEW_MINE, NEW_OTHER } at_new;

bool mt_moved_is_old(const mt_transform *change, const mt_journal_entry *e, const mt_doc *doc) {
  char digest[MT_JOURNAL_DIGEST];
  mortise_error err;
  mt_buf made;
  if (!change->apply) return false;
  mt_error_clear(&err);
  mt_buf_init(&made, MOVED_BODY_MAX);
  bool same = change->apply(change->ctx, doc, &made, &err) == MT_CHANGED &&
              mt_journal_digest(mt_buf_slice(&made), digest) && !strcmp(digest, e->after);
  mt_buf_deinit(&made);
  return same;
}

static at_old look_at_old(const mt_moved *m, const mt_journal_entry *e, const mt_doc *doc) {
  if (!doc->found) return OLD_GONE;
  if (mt_version_equal(doc->version, e->before)) return OLD_AS_READ;
  if (e->source.p && mt_slice_eq(doc->source, e->source)) return OLD_RESTORED;
  return !e->source.p && mt_moved_is_old(&m->change, e, doc) ? OLD_RESTORED : OLD_OTHER;
}

/* Its version says nothing, since it may lie in another shard. */
static at_new look_at_new(mt_moved *m, const mt_journal_entry *e, const mt_doc *doc) {
  char digest[MT_JOURNAL_DIGEST];
  mortise_error err;
  if (!doc->found) return NEW_GONE;
  if (mt_journal_digest(doc->source, digest))
    return strcmp(digest, e->after) ? NEW_OTHER : NEW_MINE;
  mt_error_memory(&err);
  fail_moved(m, &err);
  return NEW_OTHER;
}

/* ---- What is to be written ------------------------------------------------------------------ */

static mt_item item_at(const mt_journal_entry *e, mt_slice id, mt_write_kind kind) {
  return (mt_item){.write = {.kind = kind,
                             .index = e->index,
                             .id = id,
                             .routing = e->routing,
                             .skip_pipeline = true},
                   .of_source = kind == MT_WRITE_INDEX};
}

static void write_again(mt_pair *p, const mt_journal_entry *e, mt_slice id, const mt_doc *doc) {
  p->first = item_at(e, id, MT_WRITE_INDEX);
  p->first.write.body = doc->source;
  p->first.write.if_version = doc->version;
  p->has_first = true;
}

static mt_item delete_of(const mt_journal_entry *e, mt_slice id, const mt_doc *doc) {
  mt_item item = item_at(e, id, MT_WRITE_DELETE);
  item.write.if_version = doc->version;
  return item;
}

static mt_item seal_of(const mt_journal_entry *e) {
  mt_item item = item_at(e, e->to, MT_WRITE_DELETE);
  item.write.external = 1;
  return item;
}

static void create(mt_pair *p, const mt_journal_entry *e, mt_slice id, mt_slice body) {
  p->first = item_at(e, id, MT_WRITE_CREATE);
  p->first.write.external = 1;
  p->first.write.body = body;
  p->has_first = true;
}

static void create_made(mt_moved *m, mt_pair *p, const mt_journal_entry *e, mt_slice id,
                        const mt_transform *t, const mt_doc *doc) {
  mortise_error err;
  mt_slice body;
  mt_buf made;
  mt_error_clear(&err);
  mt_buf_init(&made, MOVED_BODY_MAX);
  mt_transformed how = t->apply(t->ctx, doc, &made, &err);
  bool kept = how == MT_CHANGED && mt_kept_take(&m->bodies, &made, &body);
  mt_buf_deinit(&made);
  if (kept) {
    create(p, e, id, body);
    return;
  }
  if (how == MT_CHANGED) mt_error_memory(&err);
  if (how == MT_CHANGED || how == MT_STOP) fail_moved(m, &err);
  p->to = PAIR_LEFT;
}

static void then_do(mt_pair *p, mt_item item) {
  p->then = item;
  p->has_then = true;
}

/* ---- What becomes of a pair: the tables in moved.h ------------------------------------------ */

static void go_on(mt_moved *m, mt_pair *p, const mt_journal_entry *e, const mt_doc *old,
                  const mt_doc *new) {
  at_old was = look_at_old(m, e, old);
  at_new is = look_at_new(m, e, new);
  p->to = PAIR_WRITTEN;
  if (was == OLD_GONE) {
    if (is == NEW_MINE)
      write_again(p, e, e->to, new);
    else
      p->to = PAIR_RIGHT;
  } else if (was == OLD_OTHER) {
    p->to = PAIR_LEFT;
    if (is == NEW_GONE) {
      p->first = seal_of(e);
      p->has_first = true;
    }
  } else if (is == NEW_OTHER) {
    p->to = PAIR_LEFT;
    write_again(p, e, e->id, old);
  } else {
    if (is == NEW_MINE)
      write_again(p, e, e->to, new);
    else
      create_made(m, p, e, e->to, &m->change, old);
    if (p->to == PAIR_WRITTEN) then_do(p, delete_of(e, e->id, old));
  }
}

static void go_back(mt_moved *m, mt_pair *p, const mt_journal_entry *e, const mt_doc *old,
                    const mt_doc *new) {
  at_old was = look_at_old(m, e, old);
  at_new is = look_at_new(m, e, new);
  p->to = PAIR_WRITTEN;
  if (was == OLD_OTHER || (was == OLD_GONE && is != NEW_MINE)) {
    p->to = PAIR_LEFT;
    if (is != NEW_GONE) return;
    p->first = seal_of(e);
    p->has_first = true;
    return;
  }
  if (was != OLD_GONE)
    write_again(p, e, e->id, old);
  else if (e->source.p)
    create(p, e, e->id, e->source);
  else if (m->inverse.apply)
    create_made(m, p, e, e->id, &m->inverse, new);
  else
    p->to = PAIR_LEFT;
  p->untouched = is != NEW_MINE && (p->untouched || was == OLD_AS_READ);
  if (p->to == PAIR_LEFT || is == NEW_OTHER) return;
  then_do(p, is == NEW_MINE ? delete_of(e, e->to, new) : seal_of(e));
}

static void decide_pair(mt_moved *m, mt_pair *p) {
  const mt_journal_entry *e = &m->read.batch.entries[p->at];
  const mt_doc *old = &m->read.docs[p->at], *new = &m->read.docs[p->at + m->read.batch.n];
  p->has_first = p->has_then = false;
  if (m->back)
    go_back(m, p, e, old, new);
  else
    go_on(m, p, e, old, new);
}

/* ---- Their ends ----------------------------------------------------------------------------- */

static void list_left(mt_moved *m, const mt_pair *p) {
  const mt_journal_entry *e = &m->read.batch.entries[p->at];
  if (m->back)
    mt_aside_add_left(m->aside, e->index, e->id, false, "conflict",
                      "someone else has changed or deleted it since, there or at its new id");
}

static void end_pair(mt_moved *m, mt_pair *p, pair_end end) {
  p->end = end;
  m->written += end == PAIR_WRITTEN;
  m->untouched += end == PAIR_WRITTEN && p->untouched;
  m->right += end == PAIR_RIGHT;
  m->left += end == PAIR_LEFT;
  if (end == PAIR_LEFT) list_left(m, p);
}

static void reject_pair(mt_moved *m, mt_pair *p, const mt_write *w) {
  const mt_journal_entry *e = &m->read.batch.entries[p->at];
  p->end = PAIR_LEFT;
  mt_aside_add_left(m->aside, e->index, e->id, true, w->type, w->reason);
  mt_result_reject(m->result, e->id, w->type, w->reason);
}

static bool is_acknowledged(const mt_item *item) {
  return item->outcome == MT_OUTCOME_APPLIED || item->outcome == MT_OUTCOME_ALREADY;
}

/* ---- A round -------------------------------------------------------------------------------- */

static void look_again(mt_moved *m);

/* A pair in conflict was written by somebody meanwhile, for example by a late request. */
static void end_pair_round(mt_moved *m) {
  bool open = false;
  for (size_t i = 0; i < m->n; i++) {
    if (m->pairs[i].end) continue;
    if (m->rounds >= MT_AGAIN_MAX) end_pair(m, &m->pairs[i], PAIR_LEFT);
    open |= !m->pairs[i].end;
  }
  if (open && !m->error.code)
    look_again(m);
  else
    finish_moved(m);
}

/* Sends the first or second requests of all open pairs; false if there are none. */
static bool send_items(mt_moved *m, bool first, void (*done)(void *ctx, mt_write_batch *b)) {
  size_t n = 0;
  for (size_t i = 0; i < m->n; i++) {
    const mt_pair *p = &m->pairs[i];
    if (!p->end && (first ? p->has_first : p->has_then)) m->items[n++] = first ? p->first : p->then;
  }
  if (!n) return false;
  m->batch = (mt_write_batch){.done = done, .ctx = m, .items = m->items, .n = n};
  mt_writer_submit(m->writer, &m->batch);
  return true;
}

static bool pair_batch_failed(mt_moved *m) {
  if (!m->batch.error.code) return false;
  fail_moved(m, &m->batch.error);
  finish_moved(m);
  return true;
}

static void on_then(void *ctx, mt_write_batch *b) {
  mt_moved *m = ctx;
  if (pair_batch_failed(m)) return;
  for (size_t i = 0, k = 0; i < m->n; i++) {
    mt_pair *p = &m->pairs[i];
    if (p->end || !p->has_then) continue;
    const mt_item *item = &b->items[k++];
    if (is_acknowledged(item)) end_pair(m, p, p->to);
    if (item->outcome == MT_OUTCOME_REJECTED) reject_pair(m, p, &item->write);
  }
  end_pair_round(m);
}

static void send_then(mt_moved *m) {
  if (!send_items(m, false, on_then)) end_pair_round(m);
}

static void on_first(void *ctx, mt_write_batch *b) {
  mt_moved *m = ctx;
  if (pair_batch_failed(m)) return;
  for (size_t i = 0, k = 0; i < m->n; i++) {
    mt_pair *p = &m->pairs[i];
    if (p->end || !p->has_first) continue;
    const mt_item *item = &b->items[k++];
    if (item->outcome == MT_OUTCOME_REJECTED) reject_pair(m, p, &item->write);
    if (item->outcome == MT_OUTCOME_CONFLICT) p->has_then = false;
    if (is_acknowledged(item) && !p->has_then) end_pair(m, p, p->to);
  }
  send_then(m);
}

static void on_pairs_read(void *ctx, mt_batch_read *r) {
  mt_moved *m = ctx;
  if (r->error.code) fail_moved(m, &r->error);
  if (!m->error.code && !m->pairs) {
    m->pairs = mt_calloc(r->batch.n ? r->batch.n : 1, sizeof *m->pairs);
    m->items = mt_calloc(r->batch.n ? r->batch.n : 1, sizeof *m->items);
    if (!m->pairs || !m->items) mt_error_memory(&m->error);
    for (size_t i = 0; !m->error.code && i < r->batch.n; i++)
      if (r->batch.entries[i].kind == MT_JOURNAL_MOVE) m->pairs[m->n++].at = i;
  }
  for (size_t i = 0; i < m->n && !m->error.code; i++)
    if (!m->pairs[i].end) decide_pair(m, &m->pairs[i]);
  if (m->error.code) {
    finish_moved(m);
    return;
  }
  for (size_t i = 0; i < m->n; i++) {
    mt_pair *p = &m->pairs[i];
    if (!p->end && (m->looks || !p->has_first)) end_pair(m, p, p->to);
  }
  if (m->looks || !send_items(m, true, on_first)) end_pair_round(m);
}

static void look_again(mt_moved *m) {
  m->rounds++;
  mt_kept_free(&m->bodies);
  mt_batch_read_deinit(&m->read);
  m->read = (mt_batch_read){.done = on_pairs_read,
                            .ctx = m,
                            .of = m->of,
                            .attempt = m->attempt,
                            .number = m->number,
                            .pairs = true};
  mt_batch_read_start(&m->read);
}

void mt_moved_start(mt_moved *m) {
  look_again(m);
}

void mt_moved_deinit(mt_moved *m) {
  mt_kept_free(&m->bodies);
  mt_batch_read_deinit(&m->read);
  mt_free(m->pairs);
  mt_free(m->items);
  *m = (mt_moved){0};
}
