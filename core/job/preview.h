/* What a plan shows of the documents that it would write. */
#ifndef MT_JOB_PREVIEW_H
#define MT_JOB_PREVIEW_H

#include "store/store.h"

enum {
  MT_PREVIEW_SAMPLES = 10,
  MT_PREVIEW_SOURCE_MAX = 64 << 10 /* bytes; larger ones are not shown */
};

typedef struct mt_preview {
  uint64_t bytes; /* of all bodies that would be sent */
  uint32_t n;     /* samples: the first that were found */
  mt_buf
      samples; /* {"index":, "id":, "before":, "after":}, one behind another with commas; `before` and `after` as they
                     are, unless one of them is too large; no `after`: it would be deleted */
} mt_preview;

void mt_preview_init(mt_preview *p);
void mt_preview_deinit(mt_preview *p);
/* OUT_OF_MEMORY */
mortise_status mt_preview_add(mt_preview *p, const mt_write *w, mt_slice source,
                              mortise_error *err);

#endif
