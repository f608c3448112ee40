#include "shelf.h"

#include "world.h"

#include <stdio.h>
#include <stdlib.h>

void shelf_init(shelf *s) {
  *s = (shelf){.docs = {.name = SHELF_DOCS}, .jobs = {.name = SHELF_JOBS}};
}

static void clear(shelf_index *x) {
  for (size_t i = 0; i < x->n; i++) {
    free(x->docs[i].id);
    if (x->docs[i].seen.source != x->docs[i].now.source) free(x->docs[i].seen.source);
    free(x->docs[i].now.source);
  }
  free(x->docs);
}

void shelf_deinit(shelf *s) {
  clear(&s->docs);
  clear(&s->jobs);
}

shelf_index *shelf_find(shelf *s, const char *index) {
  return strcmp(index, SHELF_JOBS) ? &s->docs : &s->jobs;
}

static char *text_of(mt_slice s) {
  char *p = sim_must(malloc(s.n + 1));
  if (s.n) memcpy(p, s.p, s.n);
  p[s.n] = '\0';
  return p;
}

static uint64_t hash_of(mt_slice id) {
  uint64_t h = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < id.n; i++) h = (h ^ (unsigned char)id.p[i]) * UINT64_C(1099511628211);
  return h;
}

static shelf_doc *lookup(const shelf_index *x, mt_slice id) {
  uint64_t hash = hash_of(id);
  for (size_t i = x->n; i-- > 0;)
    if (x->docs[i].hash == hash && mt_slice_eq(mt_slice_of(x->docs[i].id), id)) return &x->docs[i];
  return NULL;
}

const shelf_doc *shelf_get(const shelf_index *x, mt_slice id) {
  return lookup(x, id);
}

static shelf_doc *place(shelf_index *x, mt_slice id) {
  shelf_doc *d = lookup(x, id);
  if (d) return d;
  if (x->n == x->cap)
    x->docs = sim_must(realloc(x->docs, (x->cap = x->cap ? 2 * x->cap : 64) * sizeof *x->docs));
  x->docs[x->n] = (shelf_doc){.id = text_of(id), .hash = hash_of(id)};
  return &x->docs[x->n++];
}

static mt_write_result may_be_written(const shelf_doc *d, const mt_write *w) {
  bool found = d && d->now.source;
  if (w->kind == MT_WRITE_UPDATE) return found ? MT_WRITE_NOOP : MT_WRITE_MISSING; /* of nothing */
  if (w->kind == MT_WRITE_CREATE && found && !w->external) return MT_WRITE_CONFLICT;
  if (w->external && d && d->external >= w->external) return MT_WRITE_CONFLICT;
  if (w->if_version.term && (!found || !mt_version_equal(d->now.version, w->if_version)))
    return MT_WRITE_CONFLICT;
  if (w->kind == MT_WRITE_DELETE && !found) return MT_WRITE_MISSING;
  return MT_WRITE_APPLIED;
}

static void refuse(mt_write *w, int status, const char *type) {
  w->status = status;
  snprintf(w->type, sizeof w->type, "%s", type);
  snprintf(w->reason, sizeof w->reason, "%s, says the server", type);
}

void shelf_write(shelf *s, unsigned who, const char *index, mt_write *w) {
  shelf_index *x = shelf_find(s, index);
  w->result = may_be_written(lookup(x, w->id), w);
  bool deletes = w->kind == MT_WRITE_DELETE;
  if (w->result == MT_WRITE_APPLIED && !deletes && s->rejects(s->ctx, x->name, w->id.p, w->body))
    w->result = MT_WRITE_REJECTED;
  if (w->result == MT_WRITE_REJECTED) refuse(w, 400, "mapper_parsing_exception");
  if (w->result == MT_WRITE_CONFLICT) refuse(w, 409, "version_conflict_engine_exception");
  bool seals = w->result == MT_WRITE_MISSING && deletes && w->external;
  if (w->result != MT_WRITE_APPLIED && !seals) {
    const shelf_doc *there = lookup(x, w->id);
    w->standing = there ? there->external : 0;
    return;
  }
  shelf_doc *d = place(x, w->id);
  d->external = w->external ? w->external : d->external + 1;
  if (seals) return;
  shelf_state before = d->now;
  d->now = (shelf_state){deletes ? NULL : text_of(w->body), {x->seq++, 1}, d->external};
  w->version = d->now.version;
  s->written(s->ctx, &(shelf_written){x->name, d->id, who, before.source, d->now.source,
                                      before.version, d->now.version});
  if (before.source != d->seen.source) free(before.source);
}

void shelf_refresh(shelf_index *x) {
  for (size_t i = 0; i < x->n; i++) {
    shelf_doc *d = &x->docs[i];
    if (d->seen.source == d->now.source) continue;
    free(d->seen.source);
    d->seen = d->now;
  }
}
