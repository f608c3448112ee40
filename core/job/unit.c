#include "job/unit.h"

#include "base/mem.h"
#include "job/known.h"
#include "job/relocate.h"
#include "job/within.h"

#include <stdio.h>

/* ---- Patching ------------------------------------------------------------------------------- */

void mt_units_fail(const mt_units *all, const mortise_error *e) {
  all->failed(all->ctx, e);
}

static void reject_document(mt_unit *u, const mt_doc *doc, const mortise_error *e) {
  const char *type = e->type[0] ? e->type : mortise_status_name(e->code);
  mt_result_reject(u->all->result, doc->id, type, e->message);
  if (u->all->journal) mt_aside_add_left(&u->aside, doc->index, doc->id, true, type, e->message);
}

/* Is it to be changed at all? One that is gone, or no longer matches since the scan was opened, is counted. */
static bool is_wanted(const mt_units *all, const mt_doc *doc) {
  if (all->known && mt_known_skips(all->known, doc)) return false;
  if (all->within && doc->found && !mt_within_concerns(all->within, doc->source)) return false;
  all->result->unchanged += !doc->found;
  return doc->found;
}

/* The length of the id that the document gets; 0: it keeps its own. */
static size_t new_id_length(const mt_prefix *ids, const mt_doc *doc) {
  if (!ids || !mt_slice_starts(doc->id, ids->from)) return 0;
  size_t rest = doc->id.n - ids->from.n;
  return rest && doc->id.p[ids->from.n] != '/' ? 0 : ids->to.n + rest;
}

/* Appends the id that the document gets, if that is another one, and returns its length. */
static size_t add_new_id(mt_unit *u, const mt_doc *doc) {
  const mt_prefix *ids = u->all->ids;
  size_t n = new_id_length(ids, doc);
  if (!n) return 0;
  mt_buf_addslice(&u->bodies, ids->to);
  mt_buf_addslice(&u->bodies, (mt_slice){doc->id.p + ids->from.n, n - ids->to.n});
  return n;
}

/* The store would refuse it, but then it would stand in the journal. */
static bool gets_too_long_an_id(mt_unit *u, const mt_doc *doc) {
  mortise_error err;
  if (new_id_length(u->all->ids, doc) <= MT_ID_MAX) return false;
  mt_error_set(&err, MORTISE_REJECTED, "its new id would have more than %d bytes", MT_ID_MAX);
  reject_document(u, doc, &err);
  return true;
}

/* A document that gets another id is created there, once (store.h). */
static void add_item(mt_unit *u, mt_transformed how, const mt_doc *doc, size_t before) {
  size_t body = u->bodies.n - before, id = how == MT_DELETED ? 0 : add_new_id(u, doc);
  mt_write w = {.kind = how == MT_DELETED ? MT_WRITE_DELETE : MT_WRITE_INDEX,
                .index = doc->index,
                .id = doc->id,
                .routing = doc->routing,
                .body = {NULL, body},
                .if_version = doc->version,
                .skip_pipeline = true};
  if (id) {
    w.kind = MT_WRITE_CREATE;
    w.id = (mt_slice){NULL, id};
    w.if_version = (mt_version){0, 0};
    w.external = 1;
  }
  u->docs[u->n] = doc;
  u->items[u->n++] = (mt_item){.write = w, .of_source = true};
}

/* What is to become of a document is counted, or is an item; its new source stands in u->bodies from `before`
 * on. */
static void note_outcome(mt_unit *u, mt_transformed how, const mt_doc *doc, size_t before,
                         const mortise_error *err) {
  mt_units *all = u->all;
  bool changed = how == MT_CHANGED && u->bodies.n > before;
  if (changed && gets_too_long_an_id(u, doc)) {
    mt_buf_cut(&u->bodies, before);
    return;
  }
  if (!changed) mt_buf_cut(&u->bodies, before);
  if (changed || how == MT_DELETED) {
    add_item(u, how, doc, before);
  } else if (how == MT_ASIDE) {
    reject_document(u, doc, err);
  } else if (how == MT_STOP) {
    mt_units_fail(all, err);
  } else {
    all->idle++;
    all->result->unchanged += !all->idle_matches;
  }
}

/* Sets the address of each body and new id in the buffer. This is done last, because the buffer moves while it grows. */
static void place_bodies(mt_unit *u, size_t n) {
  const char *p = u->bodies.p;
  for (size_t i = 0; i < n; i++) {
    if (u->items[i].write.kind == MT_WRITE_DELETE) continue;
    u->items[i].write.body.p = p;
    p += u->items[i].write.body.n;
    if (!mt_relocates(&u->items[i])) continue;
    u->items[i].write.id.p = p;
    p += u->items[i].write.id.n;
  }
}

static mortise_status make_room_for_items(mt_unit *u, mortise_error *err) {
  const mt_page *page = u->page;
  mt_buf_clear(&u->bodies);
  u->n = u->at = u->asked = 0;
  if (!mt_grow((void **)&u->items, &u->cap, page->n, sizeof *u->items,
               SIZE_MAX / sizeof *u->items) ||
      !mt_grow((void **)&u->docs, &u->docs_cap, page->n, sizeof *u->docs,
               SIZE_MAX / sizeof *u->docs))
    return mt_error_memory(err);
  /* An estimate of what is needed, so that the buffer seldom moves. */
  if (page->bytes.n < MT_UNIT_BODIES_MAX / 2) mt_buf_room(&u->bodies, page->bytes.n + page->bytes.n / 16);
  return MORTISE_OK;
}

static mortise_status patch_documents(mt_unit *u, mortise_error *err) {
  mt_units *all = u->all;
  mt_error_clear(err); /* once: it is not small */
  for (size_t i = 0; i < u->page->n && !all->stopped; i++) {
    const mt_doc *doc = &u->page->docs[i];
    size_t before = u->bodies.n;
    if (!is_wanted(all, doc)) continue;
    mt_transformed how = all->transform.apply(all->transform.ctx, doc, &u->bodies, err);
    note_outcome(u, how, doc, before, err);
  }
  return MORTISE_OK;
}

static void end_patching(mt_unit *u) {
  mortise_error err;
  place_bodies(u, u->n);
  u->phase = MT_UNIT_PATCHED;
  if (mt_buf_status(&u->bodies, "the new bodies of a page", &err)) mt_units_fail(u->all, &err);
}

void mt_unit_patch(mt_unit *u) {
  mortise_error err;
  mortise_status status = make_room_for_items(u, &err);
  if (!status) status = patch_documents(u, &err);
  if (status) mt_units_fail(u->all, &err);
  end_patching(u);
}

/* ---- Patching by others --------------------------------------------------------------------- */

mt_unit *mt_units_to_patch(mt_units *all) {
  mortise_error err;
  mt_unit *u = NULL;
  for (uint32_t i = 0; i < all->n && !u && !all->stopped; i++)
    if (all->list[i].phase == MT_UNIT_READ) u = &all->list[i];
  if (!u) return NULL;
  if (make_room_for_items(u, &err)) {
    mt_units_fail(all, &err);
    return NULL;
  }
  u->phase = MT_UNIT_PATCHING;
  return u;
}

const mt_doc *mt_unit_next(mt_unit *u) {
  while (u->asked < u->page->n && !u->all->stopped) {
    const mt_doc *doc = &u->page->docs[u->asked++];
    if (is_wanted(u->all, doc)) return doc;
  }
  return NULL;
}

void mt_unit_put(mt_unit *u, mt_transformed how, mt_slice body, const mortise_error *err) {
  const mt_doc *doc = &u->page->docs[u->asked - 1];
  size_t before = u->bodies.n;
  if (u->all->stopped) return;
  mortise_error local;
  if (how == MT_CHANGED && mt_slice_eq(body, doc->source)) how = MT_UNCHANGED;
  if (how == MT_CHANGED && u->all->within &&
      mt_within_check(u->all->within, doc->source, body, &local)) {
    how = MT_ASIDE;
    err = &local;
  }
  if (how == MT_CHANGED) mt_buf_addslice(&u->bodies, body);
  note_outcome(u, how, doc, before, err);
}

void mt_unit_patched(mt_unit *u) {
  end_patching(u);
}

/* ---- Documents that others have changed meanwhile ------------------------------------------- */

static mt_again redo_changed(mt_unit *u, mt_item *item, const mt_doc *doc, mt_buf *body) {
  mortise_error err;
  if (!mt_kept_take(&u->redone, body, &item->write.body)) {
    mt_error_memory(&err);
    mt_units_fail(u->all, &err);
    return MT_AGAIN_CONFLICT;
  }
  item->write.kind = MT_WRITE_INDEX;
  item->write.if_version = doc->version;
  u->all->result->redone++;
  return MT_AGAIN_WRITE;
}

static mt_again redo_deleted(mt_unit *u, mt_item *item, const mt_doc *doc) {
  item->write.kind = MT_WRITE_DELETE;
  item->write.body = (mt_slice){NULL, 0};
  item->write.if_version = doc->version;
  u->all->result->redone++;
  return MT_AGAIN_WRITE;
}

mt_again mt_unit_again(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc) {
  mt_unit *u = ctx;
  mt_transform t = u->all->transform;
  mortise_error err;
  mt_buf body;
  (void)b;
  if (!doc->found) return MT_AGAIN_DONE;
  mt_error_clear(&err);
  mt_buf_init(&body, MT_UNIT_BODIES_MAX);
  mt_again next = MT_AGAIN_CONFLICT;
  switch (t.apply(t.ctx, doc, &body, &err)) {
  case MT_CHANGED:
    next = redo_changed(u, item, doc, &body);
    break;
  case MT_DELETED:
    next = redo_deleted(u, item, doc);
    break;
  case MT_UNCHANGED:
    item->write.kind = MT_WRITE_INDEX; /* it is there: it does not count as deleted */
    next = MT_AGAIN_DONE;
    break;
  case MT_ASIDE:
    snprintf(item->write.type, sizeof item->write.type, "%s",
             err.type[0] ? err.type : mortise_status_name(err.code));
    snprintf(item->write.reason, sizeof item->write.reason, "%.159s", err.message);
    next = MT_AGAIN_REJECT;
    break;
  case MT_STOP:
    mt_units_fail(u->all, &err);
  }
  mt_buf_deinit(&body);
  return next;
}
