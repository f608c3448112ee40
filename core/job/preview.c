#include "job/preview.h"

#include "base/hash.h"

#include <stdlib.h>

enum { SAMPLES_MAX = MT_PREVIEW_SAMPLES * 3 * MT_PREVIEW_SOURCE_MAX, TEXT_MAX = 1 << 30 };

void mt_preview_init(mt_preview *p) {
  *p = (mt_preview){0};
  mt_buf_init(&p->samples, SAMPLES_MAX);
  mt_buf_init(&p->text, TEXT_MAX);
}

void mt_preview_deinit(mt_preview *p) {
  mt_buf_deinit(&p->samples);
  mt_buf_deinit(&p->text);
}

/* With its length, so that no other parts make the same text. */
static void add_part(mt_buf *text, mt_slice part) {
  mt_buf_addu(text, part.n);
  mt_buf_addc(text, ':');
  mt_buf_addslice(text, part);
}

static mortise_status identify(mt_preview *p, const mt_write *w, const mt_doc *doc,
                               mortise_error *err) {
  char hex[65];
  mt_buf *text = &p->text;
  mt_buf_clear(text);
  mt_buf_addc(text, w->kind == MT_WRITE_DELETE ? 'd' : 'w');
  const mt_slice parts[] = {w->index, doc->id, w->id, doc->routing, doc->source, w->body};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) add_part(text, parts[i]);
  mortise_status status = mt_buf_status(text, "a document of a plan", err);
  if (status) return status;
  if (!mt_sha256_hex(mt_buf_slice(text), hex)) return mt_error_memory(err);
  hex[32] = '\0';
  p->identity[1] += strtoull(hex + 16, NULL, 16);
  hex[16] = '\0';
  p->identity[0] += strtoull(hex, NULL, 16);
  return MORTISE_OK;
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
  mortise_status status = p->identifies ? identify(p, w, doc, err) : MORTISE_OK;
  if (status) return status;
  if (p->n == MT_PREVIEW_SAMPLES) return MORTISE_OK;
  p->n++;
  add_sample(&p->samples, w, doc);
  return mt_buf_status(&p->samples, "the samples of a plan", err);
}
