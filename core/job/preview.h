/* A preview: some of the documents that a plan would change, before and after the change. */
#ifndef MT_JOB_PREVIEW_H
#define MT_JOB_PREVIEW_H

#include "store/store.h"

enum {
  MT_PREVIEW_SAMPLES = 10,
  MT_PREVIEW_SOURCE_MAX = 64 << 10 /* bytes; a larger source is not shown */
};

typedef struct mt_preview {
  bool identifies; /* in: what would be written is identified; else it is only counted */
  uint64_t bytes; /* bytes of all bodies that would be sent */
  uint32_t n;     /* how many samples there are: the first documents that were found */
  /* JSON objects {"index":, "id":, "new_id": if it gets another one, "before":, "after":}, separated by commas. `before` and `after` are whole
   * sources, and both are missing if one of them is too large. A document that would be deleted has no `after`. */
  mt_buf samples;
  /* Of all documents, with what they are and what they would become: the same for two plans only if both would do
   * the same, in whatever order. Sums of each document's SHA-256, of 64 bits each. */
  uint64_t identity[2];
  mt_buf text; /* its own */
} mt_preview;

void mt_preview_init(mt_preview *p);
void mt_preview_deinit(mt_preview *p);
/* Counts a write, and keeps it if there are few samples so far. OUT_OF_MEMORY. */
mortise_status mt_preview_add(mt_preview *p, const mt_write *w, const mt_doc *doc,
                              mortise_error *err);

#endif
