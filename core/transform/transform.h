/* Declared changes of one document: a list of transforms, which has one meaning in the three places where
 * it runs: in C on the bytes of the source, as a script on the servers (elastic/scripts/
 * transform.painless) and as an SQL function in the embedded store (which calls the C).
 *
 *   [{"replace_prefix": {"field": "path", "from": "/a", "to": "/b"}}, {"cast": {"field": "n", "to": "integer"}}]
 *
 * Fields. A name is split at its dots, and means what the servers index under it: {"a": {"b": 1}},
 * {"a.b": 1} and {"a": [{"b": 1}, {"b": 2}]} all have "a.b". Each such value is a place of the field.
 * A field is missing where it has no place; null is a value.
 *
 * Three things may come of a document: it is changed, or unchanged, or set aside, since one transform
 * of the list cannot be done, and then none of them is. One after the other, each sees what the one
 * before it made.
 *
 * | transform      | members            | at each place, or once                                       |
 * | -------------- | ------------------ | ------------------------------------------------------------ |
 * | replace_prefix | field, from, to    | text that is the path `from`, or begins with `from`/, has `to` |
 * |                |                    | instead; elements of arrays too; other values stay           |
 * | remove         | field              | the member goes; an object that is left empty stays          |
 * | cast           | field, to          | null stays, of an array each element is cast (table below)   |
 * | split          | field, by          | text becomes an array of the texts between `by`, "" becomes  |
 * |                |                    | []; null and arrays stay; else aside                         |
 * | join           | field, by          | an array of texts becomes one, [] becomes ""; null and text  |
 * |                |                    | stay; else aside, as is what a split would not give back: an |
 * |                |                    | element with `by` in it or running into it, and [""]         |
 * | set            | field, value       | once: the value is replaced, or added (below)                |
 * | default        | field, value       | once: the same where the field is missing or null            |
 * | copy_field     | from, to           | once: `to` gets the value; one that has another is aside     |
 * | rename_field   | from, to           | once: `to` gets the value, `from` goes; `to` is there: aside |
 *
 * - Where the field is missing, nothing happens but to `set` and `default`.
 * - "Once" wants at most one place, and not in an array: else aside.
 * - A field is added at the end of the deepest object on its way (names of objects tried from the
 *   shortest), its missing objects with it; where something else stands on its way, null too: aside.
 * - rename_field replaces only the key where the object stays the same and the new key has as many dots,
 *   so that {"a": {"b": 1}} keeps its order; else the field is removed and added.
 * - Equal is what has the same type and value, whatever the order of members: {"set": 1} leaves 1,
 *   and changes 1.0. An integer is a number without fraction and exponent.
 * - An object that has a key on a field's way twice is aside.
 * - Paths begin with "/", and have no empty segment; a "/" at the end is dropped. `to` may not lie
 *   inside `from`; a text which would match again is aside ("/a/b" to "/a" of "/a/b/b").
 *
 * | cast to | of       | gives                                                                        |
 * | ------- | -------- | ---------------------------------------------------------------------------- |
 * | integer | integer  | itself, within 64 bits with sign                                             |
 * |         | float    | the whole number that it is                                                  |
 * |         | string   | what the number that it spells gives: as JSON spells them, 63 bytes at most  |
 * | float   | float    | itself                                                                       |
 * |         | integer  | the same number, where a double has it exactly                               |
 * |         | string   | as above; of digits that are no integer's, the nearest double                |
 * | string  | string   | itself                                                                       |
 * |         | integer  | its digits                                                                   |
 * |         | float    | its decimals, "1.5", "100.0": up to 15 digits, 0 or from 0.0001 to below 1e15 |
 * |         | boolean  | "true", "false"                                                              |
 * | boolean | boolean  | itself                                                                       |
 * |         | string   | of "true" and "false"                                                        |
 *
 * All else is aside. A float beyond the doubles is none.
 *
 * What is the same in all three places is the value. In C every byte that is not changed stays; a
 * server writes the document anew, with other white space and floats as its doubles. */
#ifndef MT_TRANSFORM_TRANSFORM_H
#define MT_TRANSFORM_TRANSFORM_H

#include "base/json.h"

typedef enum mt_transformed {
  MT_UNCHANGED = 0, /* nothing was appended */
  MT_CHANGED,       /* the whole new source was appended */
  MT_ASIDE,         /* this document cannot be changed: `err` says why; it is set aside, listed */
  MT_STOP,          /* the whole change ends with `err` */
} mt_transformed;

enum {
  MT_TRANSFORMS_MAX = 256,
  MT_TRANSFORMS_TEXT_MAX = 64 << 10,
  MT_FIELD_NAME_MAX = 1024, /* bytes of a field's name */
  MT_FIELD_PARTS_MAX = 32,  /* of a field's name, between its dots */
};

/* A compiled list. It is not changed by use, so that threads may share one. */
typedef struct mt_transforms {
  mt_slice json; /* the list as it was given, into `text` */
  struct mt_step *steps;
  size_t n;
  char *text; /* all that the steps point into */
} mt_transforms;

/* Compiles a JSON array of transforms. INVALID_ARGUMENT says which transform is wrong, and what is.
 * Copies what it is given. On failure there is nothing to deinit. */
mortise_status mt_transforms_parse(mt_transforms *t, mt_slice json, mortise_error *err);
/* The list of one replace_prefix. */
mortise_status mt_transforms_prefix(mt_transforms *t, mt_slice field, mt_slice from, mt_slice to,
                                    mortise_error *err);
void mt_transforms_deinit(mt_transforms *t); /* also of one that is zero */

/* Is transform `i` a replace_prefix? Then its parts, decoded, without a "/" at the end of a path. */
typedef struct mt_prefix {
  mt_slice field, from, to; /* into the list */
} mt_prefix;
bool mt_transforms_is_prefix(const mt_transforms *t, size_t i, mt_prefix *out);

/* Appends the changed source. `source` is validated JSON without white space around. A failed
 * `out` is the caller's to notice; MT_STOP is never returned. */
mt_transformed mt_transforms_apply(const mt_transforms *t, mt_slice source, mt_buf *out,
                                   mortise_error *err);

/* The list that takes back: the inverses in the other order. UNSUPPORTED where a transform has none:
 * replace_prefix has one unless `from` lies inside `to`, rename_field one where only the last part of
 * the name is another, split and join are each other's; the others forget what was there.
 *
 * Of one transform it makes the old value again from each document that the transform changed and that
 * the inverse, before, would not have changed (say one that had "/a/x" and "/b/x" when /a became /b);
 * and the old bytes, unless a key or text that went was spelled with needless escapes, or a joined array
 * with white space. So an index can be taken back as a whole only where the inverse would have changed
 * no document of it. Of several transforms, and of bytes, mt_transforms_restores says it. */
mortise_status mt_transforms_inverse(const mt_transforms *t, mt_transforms *out,
                                     mortise_error *err);

/* Does `inverse` make the bytes of `source` again from `changed`? It is tried. */
bool mt_transforms_restores(const mt_transforms *inverse, mt_slice source, mt_slice changed);

#endif
