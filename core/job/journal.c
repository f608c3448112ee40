#include "job/journal.h"

#include "base/hash.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum { TEXT_MAX = 1 << 30, ENTRIES_MAX = 1 << 24 };

static const char *const kinds[] = {
    [MT_JOURNAL_INDEX] = "index", [MT_JOURNAL_DELETE] = "delete", [MT_JOURNAL_MOVE] = "move"};
enum { KINDS = sizeof kinds / sizeof *kinds };

bool mt_journal_digest(mt_slice source, char out[MT_JOURNAL_DIGEST]) {
  char whole[65];
  bool good = mt_sha256_hex(source, whole);
  snprintf(out, MT_JOURNAL_DIGEST, "%.16s", whole);
  return good;
}

mt_slice mt_journal_id(char out[MT_JOURNAL_ID_MAX], const char *ns, const char *job,
                       uint64_t attempt, uint64_t number) {
  snprintf(out, MT_JOURNAL_ID_MAX, "%s:%s:%" PRIu64 ":%" PRIu64, ns, job, attempt, number);
  return mt_slice_of(out);
}

/* ---- Writing -------------------------------------------------------------------------------- */

void mt_journal_add(mt_buf *text, const mt_journal_entry *e) {
  mt_buf_adds(text, text->n ? ",{" : "{");
  if (e->kind) mt_json_add_text(text, "kind", mt_slice_of(kinds[e->kind]));
  mt_json_add_text(text, "index", e->index);
  mt_json_add_text(text, "id", e->id);
  if (e->kind == MT_JOURNAL_MOVE) mt_json_add_text(text, "to", e->to);
  if (e->routing.p) mt_json_add_text(text, "routing", e->routing);
  mt_json_add_key(text, "seq_no");
  mt_buf_addu(text, e->before.seq_no);
  mt_json_add_key(text, "term");
  mt_buf_addu(text, e->before.term);
  if (e->revision) {
    mt_json_add_key(text, "revision");
    mt_buf_addu(text, e->revision);
  }
  if (e->after[0]) mt_json_add_text(text, "after", mt_slice_of(e->after));
  if (e->unsure) mt_buf_adds(text, ",\"unsure\":true");
  if (e->source.p) {
    mt_json_add_key(text, "source");
    mt_buf_addslice(text, e->source);
  }
  mt_buf_addc(text, '}');
}

mortise_status mt_journal_encode(mt_packer **packer, const char *ns, const char *job, mt_slice text,
                                 mt_buf *out, mortise_error *err) {
  mt_buf_adds(out, "{\"kind\":\"batch\"");
  mt_json_add_text(out, "ns", mt_slice_of(ns));
  mt_json_add_text(out, "job", mt_slice_of(job));
  mt_buf_adds(out, ",\"entries\":\"");
  mortise_status status = mt_pack(packer, text, out, err);
  mt_buf_adds(out, "\"}");
  return status ? status : mt_buf_status(out, "a batch of the journal", err);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static mortise_status corrupt_batch(mortise_error *err) {
  return mt_error_set(err, MORTISE_CORRUPT_TABLE,
                      "a batch of the journal is not as a job writes it");
}

/* The buffer was made large enough for all texts beforehand, so the slices into it stay valid. */
static bool decode_text(mt_journal_batch *b, mt_json value, mt_slice *out) {
  if (value.type != MT_JSON_STRING) return false;
  if (mt_json_plain(value, out)) return true;
  size_t at = b->decoded.n;
  mt_json_text(value, &b->decoded);
  *out = (mt_slice){b->decoded.p + at, b->decoded.n - at};
  return !b->decoded.failed;
}

static bool decode_kind(mt_json value, mt_journal_kind *out) {
  if (!value.type) return true; /* INDEX is not written to the journal */
  for (size_t i = 0; i < KINDS; i++) {
    if (!mt_json_is(value, kinds[i])) continue;
    *out = (mt_journal_kind)i;
    return true;
  }
  return false;
}

static bool decode_to(mt_journal_batch *b, mt_json value, mt_journal_entry *e) {
  if (e->kind != MT_JOURNAL_MOVE) return !value.type;
  return decode_text(b, value, &e->to) && e->to.n;
}

static bool decode_entry(mt_journal_batch *b, mt_json json, mt_journal_entry *e) {
  mt_json routing = mt_json_get(json, "routing"), source = mt_json_get(json, "source");
  *e = (mt_journal_entry){0};
  mt_json_copy(mt_json_get(json, "after"), e->after, sizeof e->after);
  mt_json_uint(mt_json_get(json, "revision"), &e->revision);
  mt_json_bool(mt_json_get(json, "unsure"), &e->unsure);
  if (source.type) e->source = source.raw;
  return decode_kind(mt_json_get(json, "kind"), &e->kind) &&
         decode_text(b, mt_json_get(json, "index"), &e->index) &&
         decode_text(b, mt_json_get(json, "id"), &e->id) && e->id.n &&
         decode_to(b, mt_json_get(json, "to"), e) &&
         (!routing.type || decode_text(b, routing, &e->routing)) &&
         (!source.type || source.type == MT_JSON_OBJECT) &&
         mt_json_uint(mt_json_get(json, "seq_no"), &e->before.seq_no) &&
         mt_json_uint(mt_json_get(json, "term"), &e->before.term) && e->before.term &&
         strlen(e->after) == (e->kind == MT_JOURNAL_DELETE ? 0 : MT_JOURNAL_DIGEST - 1);
}

static mortise_status decode_entries(mt_journal_batch *b, mortise_error *err) {
  mt_json root;
  size_t cap = 0;
  if (mt_json_parse(mt_buf_slice(&b->text), "the batch", &root, NULL) || root.type != MT_JSON_ARRAY)
    return corrupt_batch(err);
  if (!mt_buf_room(&b->decoded, b->text.n)) return mt_error_memory(err);
  for (mt_json_iter it = mt_json_items(root); mt_json_next(&it);) {
    if (!mt_grow((void **)&b->entries, &cap, b->n + 1, sizeof *b->entries, ENTRIES_MAX))
      return mt_error_memory(err);
    if (!decode_entry(b, it.value, &b->entries[b->n++])) return corrupt_batch(err);
  }
  return MORTISE_OK;
}

static mortise_status unpack(mt_slice source, mt_buf *text, mortise_error *err) {
  mt_json root;
  mt_slice packed;
  mortise_error why;
  if (mt_json_parse(source, "the batch", &root, NULL) ||
      !mt_json_plain(mt_json_get(root, "entries"), &packed))
    return corrupt_batch(err);
  mt_buf_addc(text, '[');
  mortise_status status = mt_unpack(packed, text, &why);
  mt_buf_addc(text, ']');
  if (status == MORTISE_INVALID_ARGUMENT) return corrupt_batch(err);
  if (status && err) *err = why;
  return status ? status : mt_buf_status(text, "a batch of the journal", err);
}

mortise_status mt_journal_decode(mt_slice source, mt_journal_batch *out, mortise_error *err) {
  *out = (mt_journal_batch){0};
  mt_buf_init(&out->text, TEXT_MAX);
  mt_buf_init(&out->decoded, TEXT_MAX);
  mortise_status status = unpack(source, &out->text, err);
  if (!status) status = decode_entries(out, err);
  if (status) mt_journal_batch_deinit(out);
  return status;
}

void mt_journal_batch_deinit(mt_journal_batch *b) {
  mt_buf_deinit(&b->text);
  mt_buf_deinit(&b->decoded);
  mt_free(b->entries);
  *b = (mt_journal_batch){0};
}
