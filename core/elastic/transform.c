#include "elastic/transform.h"

#include "embedded.h"

extern const mt_embedded mt_elastic_scripts[];

static mt_slice text_of(const char *name) {
  const mt_embedded *s = mt_elastic_scripts;
  while (strcmp(s->name, name) != 0) s++; /* it is there: CMake says so */
  return (mt_slice){s->text, s->n};
}

void mt_elastic_add_transforms(mt_buf *out, const mt_transforms *t, bool by_query) {
  mt_buf_adds(out, "{\"lang\":\"painless\",\"source\":");
  mt_json_add_string(out, text_of("scripts/transform.painless"));
  mt_buf_addf(out, ",\"params\":{\"none\":\"%s\",\"list\":", by_query ? "noop" : "none");
  mt_buf_addslice(out, t->json);
  mt_buf_adds(out, "}}");
}
