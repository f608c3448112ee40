#include "elastic/page.h"

#include "base/mem.h"

enum { DOCS_MAX = 1 << 20 };

mt_page *mt_page_take(mt_call *c) {
  mt_page *page = mt_calloc(1, sizeof *page);
  if (!page) return NULL;
  page->bytes = c->http.answer;
  c->http.answer = (mt_buf){.max = page->bytes.max};
  mt_buf_init(&page->text, page->bytes.n);
  return page;
}

/* Reserves room for all decoded texts at once, so that the slices never move; decoding never
 * lengthens a text. */
static bool take_plain_or_decoded(mt_page *page, mt_json value, mt_slice *out) {
  if (value.type != MT_JSON_STRING) return false;
  if (mt_json_plain(value, out)) return true;
  if (!page->text.cap && !mt_buf_room(&page->text, page->bytes.n)) return false;
  size_t at = page->text.n;
  mt_json_text(value, &page->text);
  *out = (mt_slice){page->text.p + at, page->text.n - at};
  return !page->text.failed;
}

static bool take_source_object(mt_json value, mt_slice *out) {
  *out = value.raw;
  return value.type == MT_JSON_OBJECT;
}

/* A number out of range or unassigned (-2) means that there is no version. */
static bool take_number(mt_json value, uint64_t most, uint64_t *out, bool *versioned) {
  if (!mt_json_uint(value, out) || *out > most) *versioned = false;
  return value.type == MT_JSON_NUMBER;
}

/* false: a member has the wrong type, or there is no memory. */
static bool read_hit(mt_page *page, mt_doc *doc, mt_json hit) {
  bool good = true, versioned = true;
  for (mt_json_iter it = mt_json_items(hit); good && mt_json_next(&it);) {
    if (mt_slice_eq(it.key, MT_SLICE("_index")))
      good = take_plain_or_decoded(page, it.value, &doc->index);
    else if (mt_slice_eq(it.key, MT_SLICE("_id")))
      good = take_plain_or_decoded(page, it.value, &doc->id);
    else if (mt_slice_eq(it.key, MT_SLICE("_routing")))
      good = take_plain_or_decoded(page, it.value, &doc->routing);
    else if (mt_slice_eq(it.key, MT_SLICE("_source")))
      good = take_source_object(it.value, &doc->source);
    else if (mt_slice_eq(it.key, MT_SLICE("_seq_no")))
      good = take_number(it.value, MT_SEQ_NO_MAX, &doc->version.seq_no, &versioned);
    else if (mt_slice_eq(it.key, MT_SLICE("_primary_term")))
      good = take_number(it.value, MT_TERM_MAX, &doc->version.term, &versioned);
    else if (mt_slice_eq(it.key, MT_SLICE("_version")))
      mt_json_uint(it.value, &doc->revision);
    else if (mt_slice_eq(it.key, MT_SLICE("found")))
      good = mt_json_bool(it.value, &doc->found);
  }
  if (!versioned) doc->version = (mt_version){0, 0};
  return good && doc->id.n;
}

static mortise_status no_document(const mt_page *page, const mt_doc *doc, mortise_error *err) {
  if (page->text.failed == MORTISE_OUT_OF_MEMORY) return mt_error_memory(err);
  return mt_error_set(
      err, MORTISE_UNAVAILABLE, "what answered is not understood: document %.*s of %.*s is none",
      (int)(doc->id.n < 100 ? doc->id.n : 100), doc->id.p ? doc->id.p : "",
      (int)(doc->index.n < 100 ? doc->index.n : 100), doc->index.p ? doc->index.p : "");
}

mortise_status mt_page_add(mt_page *page, size_t *cap, mt_json hit, bool no_source,
                           mortise_error *err) {
  if (!mt_grow((void **)&page->docs, cap, page->n + 1, sizeof *page->docs, DOCS_MAX))
    return mt_error_memory(err);
  mt_doc *doc = &page->docs[page->n++];
  *doc = (mt_doc){.found = true};
  if (!read_hit(page, doc, hit)) return no_document(page, doc, err);
  if (!doc->found || doc->source.p || no_source) return MORTISE_OK;
  return mt_error_set(err, MORTISE_UNSUPPORTED,
                      "document %.*s of %.*s came without its source: the index stores none",
                      (int)(doc->id.n < 100 ? doc->id.n : 100), doc->id.p,
                      (int)(doc->index.n < 100 ? doc->index.n : 100), doc->index.p);
}

static void first_failure(mt_json shards, char *out, size_t size) {
  mt_json_iter it = mt_json_items(mt_json_get(shards, "failures"));
  out[0] = '\0';
  if (mt_json_next(&it)) mt_json_copy(mt_json_at(it.value, "reason", "reason", NULL), out, size);
}

mortise_status mt_shards_check(mt_json answer, const char *what, const char *index,
                               mortise_error *err) {
  char reason[200];
  mt_json shards = mt_json_get(answer, "_shards");
  uint64_t failed = 0, total = 0;
  bool timed_out = false;
  mt_json_bool(mt_json_get(answer, "timed_out"), &timed_out);
  if (timed_out)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s %s: it timed out on the server", what, index);
  if (!mt_json_uint(mt_json_get(shards, "failed"), &failed) ||
      !mt_json_uint(mt_json_get(shards, "total"), &total))
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s %s: the answer tells nothing of its shards",
                        what, index);
  if (!failed) return MORTISE_OK;
  first_failure(shards, reason, sizeof reason);
  return mt_error_set(err, MORTISE_UNAVAILABLE, "%s %s: %llu of %llu shards failed: %s", what,
                      index, (unsigned long long)failed, (unsigned long long)total, reason);
}
