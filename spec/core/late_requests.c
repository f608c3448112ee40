#include "late_requests.h"

#include "support/support.h"

#include "base/mem.h"

#include <stdlib.h>

#define PUMPED(s, r)                                                                               \
  MT_CHECK(mt_test_pump(s, &(r).req) == MORTISE_OK, "a late request: %s", (r).req.error.message)

static mt_slice keep_slice(mt_slice s) {
  return s.p ? (mt_slice){mt_strndup(s.p, s.n), s.n} : s;
}

late_bulk late_bulk_of(const mt_bulk *r) {
  late_bulk b = {mt_strdup(r->index ? r->index : ""), calloc(r->n, sizeof *b.items), r->n};
  for (size_t i = 0; i < r->n; i++) {
    const mt_write *w = &r->items[i];
    b.items[i] = (mt_write){.kind = w->kind,
                            .index = keep_slice(w->index),
                            .id = keep_slice(w->id),
                            .routing = keep_slice(w->routing),
                            .body = keep_slice(w->body),
                            .if_version = w->if_version,
                            .external = w->external,
                            .skip_pipeline = w->skip_pipeline};
  }
  return b;
}

void late_bulk_bring(late_bulk *b, mt_store *s) {
  if (!b->n) return;
  mt_bulk r = {.index = *b->index ? b->index : NULL, .items = b->items, .n = b->n};
  s->docs->bulk(s, &r);
  PUMPED(s, r);
  for (size_t i = 0; i < b->n; i++) {
    mt_free((char *)(uintptr_t)b->items[i].index.p);
    mt_free((char *)(uintptr_t)b->items[i].id.p);
    mt_free((char *)(uintptr_t)b->items[i].routing.p);
    mt_free((char *)(uintptr_t)b->items[i].body.p);
  }
  free(b->items);
  mt_free(b->index);
  *b = (late_bulk){0};
}

static char *copy_text(const char *s) {
  return mt_strdup(s ? s : "");
}

late_sweep late_sweep_of(const mt_update_by_query *r) {
  mortise_error err;
  late_sweep s = {.request = {.index = copy_text(r->index),
                              .query = keep_slice(r->query),
                              .name = copy_text(r->name),
                              .not_after_ms = r->not_after_ms,
                              .batch = r->batch}};
  assert_int_equal(mt_transforms_parse(&s.list, r->transforms->json, &err), MORTISE_OK);
  s.gate = (mt_gate){copy_text(r->gate->index), copy_text(r->gate->id), copy_text(r->gate->path)};
  return s;
}

void late_sweep_bring(late_sweep *w, mt_store *s) {
  mt_update_by_query *r = &w->request;
  if (!r->index) return;
  r->transforms = &w->list;
  r->gate = &w->gate;
  s->docs->update_by_query(s, r);
  PUMPED(s, *r);
  while (r->state.phase == MT_SERVER_TASK_RUNNING) {
    mt_server_task look = {.task = r->task};
    s->docs->task(s, &look);
    PUMPED(s, look);
    r->state = look.state;
  }
  mt_transforms_deinit(&w->list);
  const char *const texts[] = {r->index,      r->name,    r->query.p,
                               w->gate.index, w->gate.id, w->gate.path};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) mt_free((char *)(uintptr_t)texts[i]);
  *w = (late_sweep){0};
}
