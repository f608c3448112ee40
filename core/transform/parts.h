/* What the files of this folder share: a step of a list, and how places are found and changed. */
#ifndef MT_TRANSFORM_PARTS_H
#define MT_TRANSFORM_PARTS_H

#include "transform/transform.h"

typedef enum mt_step_kind {
  MT_STEP_REPLACE_PREFIX,
  MT_STEP_SET,
  MT_STEP_REMOVE,
  MT_STEP_RENAME_FIELD,
  MT_STEP_COPY_FIELD,
  MT_STEP_DEFAULT,
  MT_STEP_CAST,
  MT_STEP_SPLIT,
  MT_STEP_JOIN,
  MT_STEP_KINDS,
} mt_step_kind;

extern const char *const mt_step_names[MT_STEP_KINDS];

typedef enum mt_cast { MT_CAST_INTEGER, MT_CAST_FLOAT, MT_CAST_STRING, MT_CAST_BOOLEAN } mt_cast;

/* A field's name, decoded, and where its parts end. */
typedef struct mt_name {
  mt_slice text;
  uint16_t ends[MT_FIELD_PARTS_MAX];
  uint16_t n;
} mt_name;

/* Parts `from` to `to` of a name, both included, counted from 0. */
static inline mt_slice mt_name_parts(const mt_name *name, size_t from, size_t to) {
  size_t start = from ? name->ends[from - 1] + 1u : 0;
  return (mt_slice){name->text.p + start, name->ends[to] - start};
}

typedef struct mt_list_step {
  mt_step_kind kind;
  mt_cast cast;
  mt_name field;       /* or `from` of a rename or copy */
  mt_name target;      /* `to` of a rename or copy */
  mt_slice from, to;   /* the paths of replace_prefix, decoded, without a "/" at their end */
  mt_slice to_raw;     /* `to` as the inside of a JSON string; empty for "/" */
  mt_slice below;      /* of `from` below `to`, where `to` is above it; else {NULL, 0} */
  mt_slice by, by_raw; /* decoded, and as the inside of a JSON string */
  mt_json value;
} mt_list_step;

/* mt_transforms_parse, with t->only. */
mortise_status mt_transforms_compile(mt_transforms *t, mt_slice json, bool only,
                                     mortise_error *err);

/* ---- Texts (text.c) -----------------------------------------------------------------------------
 * [p, end) is the raw inside of a JSON string; `text` is decoded. */

/* The place behind `text`, if the string begins with it; else NULL. */
const char *mt_text_after(const char *p, const char *end, mt_slice text);
/* The place of the first `text` in the string, and in `*behind` the place behind it; else NULL. */
const char *mt_text_find(const char *p, const char *end, mt_slice text, const char **behind);
/* Have they the same type and value, whatever the order of members? Recurses as deep as both are. */
bool mt_same_value(mt_json a, mt_json b);
bool mt_is_integer(mt_json number); /* no fraction, no exponent */

/* ---- Places (place.c) -------------------------------------------------------------------------- */

typedef struct mt_member {
  mt_json object; /* the one that has the member */
  mt_slice key;   /* raw */
  mt_json value;
  const char *before; /* the end of the member before it; NULL: it is the first */
  size_t part;        /* of the name, at which the key begins */
  bool in_array;
} mt_member;

/* Calls `visit` for each place, in the order of the document, until it returns a reason to set the
 * document aside. Returns that reason, or one of its own, or NULL. */
typedef const char *mt_member_fn(void *ctx, const mt_member *place);
const char *mt_each_place(mt_json root, const mt_name *name, mt_member_fn *visit, void *ctx);

/* Finds the only place, if there is one (`*found`). Returns a reason if there are several or it is in an
 * array. */
const char *mt_one_place(mt_json root, const mt_name *name, mt_member *out, bool *found);

/* The object to which a missing field is added. */
typedef struct mt_spot {
  mt_json object;
  size_t part; /* of the name, from which it is missing */
} mt_spot;
const char *mt_find_spot(mt_json root, const mt_name *name, mt_spot *out);

/* ---- Patches (place.c): a document that is copied with changes, in its order --------------------- */

typedef struct mt_patch {
  mt_buf *out;
  const char *copied; /* the source up to here is in `out` */
  bool changed;
} mt_patch;

/* Copies up to `from` and continues at `to`; what the caller then appends replaces the bytes between. */
void mt_patch_skip(mt_patch *p, const char *from, const char *to);
void mt_patch_remove(mt_patch *p, const mt_member *place);
void mt_patch_add(mt_patch *p, const mt_spot *spot, const mt_name *name, mt_slice value);

/* ---- Transforms (value.c, field.c) ---------------------------------------------------------------- */

typedef struct mt_work_on {
  const mt_list_step *step;
  mt_json root;
  mt_patch patch;
  const mt_name *whose; /* out: the field that a reason is about */
} mt_work_on;

/* Each returns a reason to set the document aside, or NULL. */
typedef const char *mt_step_fn(mt_work_on *w);
mt_step_fn mt_do_replace_prefix, mt_do_cast, mt_do_split, mt_do_join;
mt_step_fn mt_do_set, mt_do_remove, mt_do_rename_field, mt_do_copy_field, mt_do_default;

static inline const char *mt_end_of(mt_json value) {
  return value.raw.p + value.raw.n;
}

/* The raw text of a string, without its quotes. */
static inline mt_slice mt_inside(mt_json string) {
  return (mt_slice){string.raw.p + 1, string.raw.n - 2};
}

#endif
