/* Edits and merges of an object: the result is JSON with the requested values. The input is lines:
 * the object, then names and values in turn; an empty value removes. */
#include "base/json_edit.h"

#include "fuzz.h"

enum { OUT_MAX = 1 << 22, EDITS = 8 };

static bool parse(mt_slice text, mt_json *out) {
  return !mt_json_parse(text, "it", out, NULL);
}

static mt_json must_parse(const mt_buf *b) {
  mt_json out;
  MUST(!b->failed && parse(mt_buf_slice(b), &out) && out.type == MT_JSON_OBJECT);
  return out;
}

/* A value that was set is found again; one that was removed is gone (if a name occurs twice, the
 * second then shows). */
static void apply_one(mt_json object, mt_json_edit edit) {
  mt_buf out;
  mt_buf_init(&out, OUT_MAX);
  if (!mt_json_apply(object, &edit, 1, &out, NULL)) {
    mt_json after = must_parse(&out), found = mt_json_find(after, edit.name);
    if (edit.value.n)
      MUST(mt_slice_eq(found.raw, edit.value));
    else
      MUST(!found.type || mt_json_count(object) > 0);
  }
  mt_buf_deinit(&out);
}

static void apply_all(mt_json object, const mt_json_edit *edits, size_t n) {
  mt_buf out;
  mt_buf_init(&out, OUT_MAX);
  mortise_status status = mt_json_apply(object, edits, n, &out, NULL);
  if (!status) must_parse(&out);
  if (!status && !n) MUST(mt_slice_eq(mt_buf_slice(&out), object.raw));
  mt_buf_deinit(&out);
}

static bool stands_before(mt_json object, mt_json_iter at) {
  mt_buf name;
  mt_buf_init(&name, OUT_MAX);
  mt_json quoted = {.type = MT_JSON_STRING, .raw = {at.key.p - 1, at.key.n + 2}};
  MUST(mt_json_text(quoted, &name));
  bool found = false;
  for (mt_json_iter it = mt_json_items(object); mt_json_next(&it) && it.key.p != at.key.p;)
    found |= mt_json_key_is(it.key, mt_buf_slice(&name));
  mt_buf_deinit(&name);
  return found;
}

/* Does an object in it have the same name twice? */
static bool says_twice(mt_json value) {
  for (mt_json_iter it = mt_json_items(value); mt_json_next(&it);)
    if ((value.type == MT_JSON_OBJECT && stands_before(value, it)) || says_twice(it.value))
      return true;
  return false;
}

/* Merging the same again changes nothing, unless it has two values for one name. */
static void merge(mt_json object, mt_json change) {
  mt_buf once, twice;
  bool changed = false, again = true;
  mt_buf_init(&once, OUT_MAX);
  mt_buf_init(&twice, OUT_MAX);
  if (!mt_json_merge(object, change, &once, &changed, NULL)) {
    mt_json after = must_parse(&once);
    if (!mt_json_merge(after, change, &twice, &again, NULL)) {
      must_parse(&twice);
      MUST(!again || says_twice(change));
    }
  }
  mt_buf_deinit(&once);
  mt_buf_deinit(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mt_slice rest = fuzz_slice(data, n);
  mt_json object, value;
  mt_json_edit edits[EDITS];
  size_t count = 0;
  if (!parse(fuzz_cut(&rest, '\n'), &object) || object.type != MT_JSON_OBJECT) return 0;
  while (rest.n && count < EDITS) {
    mt_json_edit edit = {.name = fuzz_cut(&rest, '\n')};
    mt_slice text = fuzz_cut(&rest, '\n');
    if (text.n && !parse(text, &value)) continue;
    if (text.n) edit.value = value.raw;
    edits[count++] = edit;
    apply_one(object, edit);
    if (text.n && value.type == MT_JSON_OBJECT) merge(object, value);
  }
  apply_all(object, edits, count);
  return 0;
}
