/* Where a change's batches go: to a writer, or nowhere, for a plan. */
#ifndef MT_JOB_SINK_H
#define MT_JOB_SINK_H

#include "write/writer.h"

/* The receiver of a change's writes. */
typedef struct mt_sink {
  /* True: `batch->done` will be called, from the loop. False: each item has its outcome already. */
  bool (*submit)(void *ctx, mt_write_batch *batch);
  void *ctx;
} mt_sink;

mt_sink mt_sink_writer(mt_writer *writer);
mt_sink mt_sink_plan(void); /* writes nothing, and counts each item as applied */

#endif
