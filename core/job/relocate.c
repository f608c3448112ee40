#include "job/relocate.h"

#include "base/mem.h"

#include <stdio.h>

bool mt_relocates(const mt_item *item) {
  return item->write.external != 0;
}

mt_again mt_relocate_taken(mt_item *item, const mt_doc *doc) {
  if (!doc->found) return MT_AGAIN_CONFLICT; /* it was created, and someone has deleted it */
  snprintf(item->write.type, sizeof item->write.type, "id_taken");
  snprintf(item->write.reason, sizeof item->write.reason,
           "another document has the id that it would get, %.*s",
           (int)(item->write.id.n < 100 ? item->write.id.n : 100), item->write.id.p);
  return MT_AGAIN_REJECT;
}

static bool is_created(const mt_item *item) {
  return mt_relocates(item) && item->outcome == MT_OUTCOME_APPLIED;
}

bool mt_relocate_olds(const mt_write_batch *b, const mt_doc *const *docs, mt_item **olds,
                      size_t *cap, size_t *n) {
  *n = 0;
  for (size_t i = 0; i < b->n; i++) {
    if (!is_created(&b->items[i])) continue;
    if (!mt_grow((void **)olds, cap, *n + 1, sizeof **olds, SIZE_MAX / sizeof **olds)) return false;
    (*olds)[(*n)++] = (mt_item){.write = {.kind = MT_WRITE_DELETE,
                                          .index = docs[i]->index,
                                          .id = docs[i]->id,
                                          .routing = docs[i]->routing,
                                          .if_version = docs[i]->version}};
  }
  return true;
}

static void keep_both(mt_item *item) {
  snprintf(item->write.type, sizeof item->write.type, "conflict");
  snprintf(item->write.reason, sizeof item->write.reason,
           "someone has changed it while it was moved; %.*s has it as it was before",
           (int)(item->write.id.n < 80 ? item->write.id.n : 80), item->write.id.p);
}

void mt_relocate_conclude(mt_write_batch *b, const mt_write_batch *clearing) {
  for (size_t i = 0, k = 0; i < b->n; i++) {
    mt_item *item = &b->items[i];
    if (!is_created(item)) continue;
    mt_outcome end = k < clearing->n ? clearing->items[k++].outcome : MT_OUTCOME_NONE;
    if (end == MT_OUTCOME_APPLIED || end == MT_OUTCOME_ALREADY) continue;
    item->outcome = end;
    item->dirty = end == MT_OUTCOME_NONE;
    b->counts[MT_OUTCOME_APPLIED]--;
    b->counts[end]++;
    b->dirty += item->dirty;
    if (!item->dirty) keep_both(item);
  }
  if (clearing->error.code && !b->error.code) b->error = clearing->error;
}
