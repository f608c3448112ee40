#include "job/aside.h"

#include "base/json.h"

#include <stdio.h>

enum { ASIDE_MAX = 64 << 20 };

void mt_aside_add_left(mt_buf *list, mt_slice index, mt_slice id, bool rejected, const char *type,
                       const char *reason) {
  mt_buf_adds(list, list->n ? ",{\"what\":" : "{\"what\":");
  mt_json_add_string(list, rejected ? MT_SLICE("rejected") : MT_SLICE("conflict"));
  mt_json_add_key(list, "index");
  mt_json_add_string(list, index);
  mt_json_add_key(list, "id");
  mt_json_add_string(list, id);
  mt_json_add_text(list, "type", mt_slice_of(type));
  mt_json_add_text(list, "reason", mt_slice_of(reason));
  mt_buf_addc(list, '}');
}

void mt_aside_add(mt_buf *list, mt_slice index, const mt_write *w, bool rejected) {
  if (rejected || w->type[0])
    mt_aside_add_left(list, w->index.p ? w->index : index, w->id, rejected, w->type, w->reason);
  else
    mt_aside_add_left(list, w->index.p ? w->index : index, w->id, false, "conflict",
                      "someone else has changed it");
}

static void encode_aside(mt_aside_write *a, const char *mark, mt_slice list) {
  mt_buf *out = &a->body;
  mt_buf_adds(out, "{\"kind\":\"aside\"");
  mt_json_add_text(out, "ns", mt_slice_of(a->ns));
  mt_json_add_text(out, "job", mt_slice_of(a->job));
  mt_json_add_text(out, "state", mt_slice_of(mark));
  mt_buf_adds(out, ",\"body\":{\"list\":[");
  mt_buf_addslice(out, list);
  mt_buf_adds(out, "]}}");
}

mortise_status mt_aside_write_start(mt_aside_write *a, const char *name, const char *mark,
                                    mt_slice list, mortise_error *err) {
  mt_buf_deinit(&a->body);
  mt_buf_init(&a->body, ASIDE_MAX);
  encode_aside(a, mark, list);
  mortise_status status = mt_buf_status(&a->body, "what a job sets aside", err);
  if (status) return status;
  snprintf(a->id, sizeof a->id, "%s:%s:aside:%s", a->ns, a->job, name);
  a->item = (mt_item){.write = {.kind = MT_WRITE_INDEX,
                                .id = mt_slice_of(a->id),
                                .body = mt_buf_slice(&a->body),
                                .skip_pipeline = true}};
  a->batch = (mt_write_batch){
      .done = a->done, .ctx = a->ctx, .index = a->table, .items = &a->item, .n = 1};
  mt_writer_submit(a->writer, &a->batch);
  return MORTISE_OK;
}

mortise_status mt_aside_write_status(const mt_aside_write *a, mortise_error *err) {
  if (a->batch.error.code) {
    *err = a->batch.error;
    return err->code;
  }
  if (a->item.outcome == MT_OUTCOME_APPLIED) return MORTISE_OK;
  return mt_error_set(err, MORTISE_REJECTED, "what the job sets aside cannot be listed: %s",
                      a->item.write.reason);
}

void mt_aside_write_deinit(mt_aside_write *a) {
  mt_buf_deinit(&a->body);
}
