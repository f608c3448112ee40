#include "job/preview.h"

enum { SAMPLES_MAX = MT_PREVIEW_SAMPLES * 3 * MT_PREVIEW_SOURCE_MAX };

void mt_preview_init(mt_preview *p) {
  *p = (mt_preview){0};
  mt_buf_init(&p->samples, SAMPLES_MAX);
}

void mt_preview_deinit(mt_preview *p) {
  mt_buf_deinit(&p->samples);
}

static void add_source(mt_buf *out, const char *key, mt_slice source) {
  mt_json_add_key(out, key);
  mt_buf_addslice(out, source);
}

static void add_sample(mt_buf *out, const mt_write *w, const mt_doc *doc) {
  mt_slice source = doc->source;
  mt_buf_adds(out, out->n ? ",{" : "{");
  mt_json_add_text(out, "index", w->index);
  mt_json_add_text(out, "id", doc->id);
  if (!mt_slice_eq(w->id, doc->id)) mt_json_add_text(out, "new_id", w->id);
  if (source.n <= MT_PREVIEW_SOURCE_MAX && w->body.n <= MT_PREVIEW_SOURCE_MAX) {
    add_source(out, "before", source);
    if (w->kind != MT_WRITE_DELETE) add_source(out, "after", w->body);
  }
  mt_buf_addc(out, '}');
}

mortise_status mt_preview_add(mt_preview *p, const mt_write *w, const mt_doc *doc,
                              mortise_error *err) {
  p->bytes += w->body.n;
  if (p->n == MT_PREVIEW_SAMPLES) return MORTISE_OK;
  p->n++;
  add_sample(&p->samples, w, doc);
  return mt_buf_status(&p->samples, "the samples of a plan", err);
}
