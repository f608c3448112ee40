#include "elastic/transform.h"

#include "embedded.h"

extern const mt_embedded mt_elastic_scripts[];

static mt_slice script_text(const char *name) {
  const mt_embedded *s = mt_elastic_scripts;
  while (strcmp(s->name, name) != 0) s++; /* it is there: CMake says so */
  return (mt_slice){s->text, s->n};
}

static void add_transform_script(mt_buf *out, const mt_transforms *t, const char *none,
                                 int64_t not_after) {
  mt_buf_adds(out, "{\"lang\":\"painless\",\"source\":");
  mt_json_add_string(out, script_text("scripts/transform.painless"));
  mt_buf_addf(out, ",\"params\":{\"none\":\"%s\",\"list\":", none);
  mt_buf_addslice(out, t->json);
  if (not_after) mt_buf_addf(out, ",\"not_after\":%lld", (long long)not_after);
  mt_buf_adds(out, "}}");
}

void mt_elastic_add_transforms(mt_buf *out, const mt_transforms *t) {
  add_transform_script(out, t, "none", 0);
}

void mt_elastic_add_transforms_by_query(mt_buf *out, const mt_transforms *t, int64_t not_after_ms) {
  add_transform_script(out, t, "noop", not_after_ms);
}
