#include "job/sink.h"

static bool give_to_writer(void *ctx, mt_write_batch *batch) {
  mt_writer_submit(ctx, batch);
  return true;
}

mt_sink mt_sink_writer(mt_writer *writer) {
  return (mt_sink){give_to_writer, writer};
}

static bool count_only(void *ctx, mt_write_batch *batch) {
  (void)ctx;
  for (size_t i = 0; i < batch->n; i++) batch->items[i].outcome = MT_OUTCOME_APPLIED;
  batch->counts[MT_OUTCOME_APPLIED] = batch->n;
  return false;
}

mt_sink mt_sink_plan(void) {
  return (mt_sink){count_only, NULL};
}
