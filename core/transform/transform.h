/* Declared changes of one document: a list of transforms. It means the same wherever it runs: in C on
 * the bytes of the source, on the servers as a script (elastic/scripts/transform.painless), and in the
 * embedded store as an SQL function that calls the C.
 *
 *   [{"replace_prefix": {"field": "path", "from": "/a", "to": "/b"}}, {"cast": {"field": "n", "to": "integer"}}]
 *
 * Fields. A name is split at its dots and means what the servers index under it: "a.b" is in
 * {"a": {"b": 1}}, in {"a.b": 1} and in {"a": [{"b": 1}, {"b": 2}]}. Each such value is a place of the
 * field. A field without a place is missing; null is a value.
 *
 * Results. A document is changed, unchanged or set aside. It is set aside if one transform of the list
 * cannot be done; then none of them is. Each transform sees the result of the one before it.
 *
 * | transform      | members         | what it does                                                    |
 * | -------------- | --------------- | --------------------------------------------------------------- |
 * | replace_prefix | field, from, to | at each place: in text that is the path `from` or begins with   |
 * |                |                 | `from`/, replaces `from` by `to`; also in elements of arrays;   |
 * |                |                 | other values stay                                               |
 * | remove         | field           | removes each place; an object left empty stays                  |
 * | cast           | field, to       | at each place: converts as in the table below; null stays; in   |
 * |                |                 | an array, converts each element                                 |
 * | split          | field, by       | at each place: text becomes the array of the texts between `by`,|
 * |                |                 | "" becomes []; null and arrays stay; else set aside             |
 * | join           | field, by       | at each place: an array of texts becomes one text, [] becomes   |
 * |                |                 | ""; null and text stay; else set aside, also if a split would   |
 * |                |                 | not give the array back                                         |
 * | set            | field, value    | replaces the value or adds the field                            |
 * | default        | field, value    | the same, only if the field is missing or null                  |
 * | copy_field     | from, to        | adds `to` with the value of `from`; set aside if `to` has       |
 * |                |                 | another value                                                   |
 * | rename_field   | from, to        | adds `to` with the value of `from` and removes `from`; set      |
 * |                |                 | aside if `to` is there                                          |
 *
 * - If the field is missing, nothing happens, except for `set` and `default`.
 * - The last four need a field with one place at most, and not in an array; else the document is set
 *   aside.
 * - A field is added at the end of the deepest object on its way, with its missing parent objects. To
 *   find that object, names are tried from the shortest on. If anything else than an object is on the
 *   way, even null, the document is set aside.
 * - rename_field replaces only the key if the object stays the same and the new key has as many dots, so
 *   {"a": {"b": 1}} keeps its order. Otherwise it removes the field and adds the new one.
 * - Values are equal if they have the same type and value, whatever the order of members: setting 1
 *   leaves 1 and changes 1.0. An integer is a number without fraction and exponent.
 * - An object that has a key on a field's way twice sets its document aside.
 * - Paths begin with "/" and have no empty segment; a "/" at the end is dropped. `to` must not lie
 *   inside `from`. A text that would match again is set aside: "/a/b/b" when "/a/b" becomes "/a".
 *
 * | cast to | from    | result                                                                       |
 * | ------- | ------- | ---------------------------------------------------------------------------- |
 * | integer | integer | unchanged, if it fits into 64 bits with sign                                 |
 * |         | float   | the integer of the same value                                                |
 * |         | string  | the number in it, spelled as in JSON in at most 63 bytes, then as above      |
 * | float   | float   | unchanged                                                                    |
 * |         | integer | the double of exactly the same value                                         |
 * |         | string  | as above; a number that is no integer becomes the nearest double             |
 * | string  | string  | unchanged                                                                    |
 * |         | integer | its digits                                                                   |
 * |         | float   | its decimals, as "1.5" or "100.0", if 15 digits are enough and it is 0, or   |
 * |         |         | at least 0.0001 and below 1e15                                               |
 * |         | boolean | "true" or "false"                                                            |
 * | boolean | boolean | unchanged                                                                    |
 * |         | string  | of "true" and "false"                                                        |
 *
 * Everything else is set aside, as is a float beyond the doubles.
 *
 * Only values are the same everywhere. The C keeps every byte that it does not change; a server writes
 * the document anew, with other white space and with floats rounded to doubles. */
#ifndef MT_TRANSFORM_TRANSFORM_H
#define MT_TRANSFORM_TRANSFORM_H

#include "base/json.h"

typedef enum mt_transformed {
  MT_UNCHANGED = 0, /* nothing was appended */
  MT_CHANGED,       /* the whole new source was appended */
  MT_DELETED,       /* the document is to be deleted; no list says so, but a function may */
  MT_ASIDE, /* this document cannot be changed; `err` says why. It is set aside and listed */
  MT_STOP,  /* the whole change ends with `err` */
} mt_transformed;

enum {
  MT_TRANSFORMS_MAX = 256,
  MT_TRANSFORMS_TEXT_MAX = 64 << 10,
  MT_FIELD_NAME_MAX = 1024, /* bytes of a field's name */
  MT_FIELD_PARTS_MAX = 32,  /* of a field's name, between its dots */
};

/* A compiled list. Using it does not change it, so threads may share one. */
typedef struct mt_transforms {
  mt_slice json; /* the list as it was given, into `text` */
  struct mt_list_step *steps;
  size_t n;
  char *text; /* all that the steps point into */
  bool only;  /* there is one by construction, so messages name neither its number nor its kind */
} mt_transforms;

/* Compiles a JSON array of transforms. INVALID_ARGUMENT says which transform is wrong and why. Copies
 * what it is given. On failure there is nothing to deinit. */
mortise_status mt_transforms_parse(mt_transforms *t, mt_slice json, mortise_error *err);
/* The list of one replace_prefix, whose messages do not say that it is a list. */
mortise_status mt_transforms_prefix(mt_transforms *t, mt_slice field, mt_slice from, mt_slice to,
                                    mortise_error *err);
/* The list of one for each of `n` fields. */
mortise_status mt_transforms_prefixes(mt_transforms *t, const mt_slice *fields, size_t n,
                                      mt_slice from, mt_slice to, mortise_error *err);
void mt_transforms_deinit(mt_transforms *t); /* also of one that is zero */
/* The names of all transforms there are; NULL behind the last. */
const char *mt_transform_name(size_t i);

/* Is transform `i` a replace_prefix? Then its parts, decoded, without a "/" at the end of a path. */
typedef struct mt_prefix {
  mt_slice field, from, to; /* into the list */
} mt_prefix;
bool mt_transforms_is_prefix(const mt_transforms *t, size_t i, mt_prefix *out);

/* Appends the changed source. `source` is validated JSON without white space around. A failed
 * `out` is the caller's to notice; MT_STOP is never returned. */
mt_transformed mt_transforms_apply(const mt_transforms *t, mt_slice source, mt_buf *out,
                                   mortise_error *err);

/* The list that undoes: the inverses in reverse order. UNSUPPORTED if a transform has none.
 * replace_prefix has one unless `from` lies inside `to`; rename_field has one if only the last part of
 * the name differs; split and join are each other's. The others forget what was there.
 *
 * The inverse of one transform restores the value of each document that the transform changed, if the
 * inverse would not have changed that document before. (With /a to /b, it would have changed one that
 * had "/a/x" and "/b/x".) It restores the bytes too, unless a key or text was spelled with needless
 * escapes or a joined array had white space. So a whole index can be restored only if the inverse would
 * have changed none of its documents before. For lists of several transforms, and for bytes, use
 * mt_transforms_restores. */
mortise_status mt_transforms_inverse(const mt_transforms *t, mt_transforms *out,
                                     mortise_error *err);

/* Tries it: does `inverse` turn `changed` into exactly the bytes of `source`? */
bool mt_transforms_restores(const mt_transforms *inverse, mt_slice source, mt_slice changed);

#endif
