#include "lock/look.h"

#include "base/json.h"
#include "base/mem.h"
#include "store/table.h"

enum {
  LOOK_MS = 1000, /* a read that takes longer is of no use */
  ENTRIES_MAX = 1 << 16,
  PATH_ROOM = 4 * 4096,
};

static mt_place place_of(const mt_wait *w) {
  return w->lock->parts[w->at].place;
}

/* ---- The answer ----------------------------------------------------------------------------- */

static mt_json document_of(mt_json list, mt_place place) {
  mt_buf text;
  mt_place one;
  mt_json found = {0};
  mt_buf_init(&text, PATH_ROOM);
  for (mt_json_iter it = mt_json_items(list); !found.type && mt_json_next(&it);) {
    mt_buf_clear(&text);
    bool same = mt_place_read_json(it.value, &text, &one) && mt_place_equal(one, place);
    if (same) found = it.value;
  }
  mt_buf_deinit(&text);
  return found;
}

static bool read_list(mt_looks *l, mt_json list, bool queued, size_t *n) {
  for (mt_json_iter it = mt_json_items(list); mt_json_next(&it); ++*n) {
    if (!mt_grow((void **)&l->entries, &l->cap, *n + 1, sizeof *l->entries, ENTRIES_MAX))
      return false;
    mt_entry_read_json(it.value, queued, &l->entries[*n]);
  }
  return true;
}

/* Where there is no document, nobody holds anything. */
static bool read_lock_document(mt_looks *l, mt_json doc, mt_lock_document *out) {
  size_t holders = 0, all;
  if (!read_list(l, mt_json_get(doc, "holders"), false, &holders)) return false;
  all = holders;
  if (!read_list(l, mt_json_get(doc, "queue"), true, &all)) return false;
  *out = (mt_lock_document){l->entries, l->entries ? l->entries + holders : NULL, holders,
                            all - holders};
  return true;
}

static void show_wait(mt_wait *w, bool good, mt_json list) {
  mt_manager *m = w->manager;
  mt_lock_document doc;
  if (w->look != MT_LOOK_SENT) return;
  w->look = MT_LOOK_NONE;
  good = good && w->number && read_lock_document(m->looks, document_of(list, place_of(w)), &doc);
  m->hooks->looked(w, good ? &doc : NULL);
}

static void have_looked(void *ctx, mt_req *req) {
  mt_manager *m = ctx;
  mt_looks *l = m->looks;
  mt_json list = {0};
  bool good = !req->error.code &&
              !mt_json_parse(mt_slice_of(l->read.json), "the locks", &list, NULL);
  l->busy = false;
  for (mt_wait *w = m->waits->first; w; w = w->next) show_wait(w, good, list);
  mt_lock_read_deinit(&l->read);
  mt_manager_soon(m);
}

/* ---- Asking --------------------------------------------------------------------------------- */

void mt_look_want(mt_wait *w) {
  w->look = MT_LOOK_WANTED;
}

/* Copies the places, since an acquisition may end while they are read. */
static size_t gather_places(mt_manager *m) {
  mt_looks *l = m->looks;
  size_t bytes = 0, n = 0;
  for (const mt_wait *w = m->waits->first; w; w = w->next)
    if (w->look == MT_LOOK_WANTED) bytes += place_of(w).path.n;
  mt_free(l->text);
  l->text = bytes ? mt_alloc(bytes) : NULL;
  if (!l->text) return 0;
  bytes = 0;
  for (mt_wait *w = m->waits->first; w && n < MT_LOOK_PLACES; w = w->next) {
    if (w->look != MT_LOOK_WANTED) continue;
    mt_place place = place_of(w);
    memcpy(l->text + bytes, place.path.p, place.path.n);
    l->places[n++] = (mt_place){{l->text + bytes, place.path.n}, place.stripe};
    bytes += place.path.n;
    w->look = MT_LOOK_SENT;
  }
  return n;
}

void mt_looks_flush(mt_manager *m) {
  mt_looks *l = m->looks;
  size_t n = l->busy || m->phase != MT_OPEN ? 0 : gather_places(m);
  if (!n) return;
  l->busy = true;
  l->read = (mt_lock_read){.req = {.done = have_looked,
                                   .ctx = m,
                                   .idempotent = true,
                                   .deadline_ms = mt_manager_now(m) + LOOK_MS},
                           .ns = m->ns,
                           .places = l->places,
                           .n = n};
  m->store->locks->lock_read(m->store, &l->read);
}

void mt_looks_deinit(mt_manager *m) {
  mt_looks *l = m->looks;
  if (l->busy) mt_store_cancel(m->store, &l->read.req);
  mt_lock_read_deinit(&l->read);
  mt_free(l->text);
  mt_free(l->entries);
}
