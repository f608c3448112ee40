#include "write/stamp.h"

#include "base/json_edit.h"

#include <inttypes.h>
#include <stdio.h>

static mt_json stamp_find(mt_slice source, const char *field) {
  mt_json root;
  if (mt_json_parse(source, "the source", &root, NULL)) return (mt_json){0};
  return mt_json_find(root, mt_slice_of(field));
}

mt_slice mt_stamp_of(mt_slice source, const char *field) {
  return stamp_find(source, field).raw;
}

mt_stamped mt_stamp_look(mt_slice source, const char *field, const mt_stamp *mine,
                         mt_stamp *theirs) {
  *theirs = (mt_stamp){0};
  mt_json value = stamp_find(source, field);
  if (value.type == MT_JSON_NONE || value.type == MT_JSON_NULL) return MT_STAMPED_NOT;
  mt_json epoch = mt_json_get(value, "epoch");
  if (epoch.type != MT_JSON_STRING || !mt_json_uint(mt_json_get(value, "fence"), &theirs->fence))
    return MT_STAMPED_BROKEN;
  mt_json_copy(epoch, theirs->epoch.id, sizeof theirs->epoch.id);
  if (strcmp(theirs->epoch.id, mine->epoch.id) != 0) return MT_STAMPED_FOREIGN;
  return theirs->fence > mine->fence ? MT_STAMPED_LATER : MT_STAMPED_NOT;
}

void mt_stamp_text(const mt_stamp *stamp, char out[MT_STAMP_TEXT]) {
  snprintf(out, MT_STAMP_TEXT, "{\"epoch\":\"%s\",\"fence\":%" PRIu64 "}", stamp->epoch.id,
           stamp->fence);
}

/* A script or an upsert could write something other than the document that was checked. */
static mortise_status check_update(mt_json body, mortise_error *err) {
  if (mt_json_get(body, "doc").type != MT_JSON_OBJECT)
    return mt_error_set(err, MORTISE_UNSUPPORTED, "an update by a script cannot be stamped");
  if (mt_json_get(body, "upsert").type || mt_json_get(body, "doc_as_upsert").type)
    return mt_error_set(err, MORTISE_UNSUPPORTED, "an upsert cannot be stamped: create or index");
  return MORTISE_OK;
}

mortise_status mt_stamp_body(mt_write_kind kind, mt_slice body, const char *field, mt_slice stamp,
                             mt_buf *out, mortise_error *err) {
  mt_json root, inner;
  mortise_status status = mt_json_parse(body, "the document", &root, err);
  if (status) return status;
  inner = root;
  if (kind == MT_WRITE_UPDATE) {
    status = check_update(root, err);
    inner = mt_json_get(root, "doc");
  } else if (root.type != MT_JSON_OBJECT) {
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the document is no JSON object");
  }
  if (status) return status;
  const mt_json_edit edit = {mt_slice_of(field), stamp};
  mt_buf_add(out, root.raw.p, (size_t)(inner.raw.p - root.raw.p));
  status = mt_json_apply(inner, &edit, 1, out, err);
  if (status) return status;
  const char *rest = inner.raw.p + inner.raw.n;
  mt_buf_add(out, rest, (size_t)(root.raw.p + root.raw.n - rest));
  return mt_buf_status(out, "the stamped documents", err);
}
