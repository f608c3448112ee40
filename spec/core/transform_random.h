/* Random documents and lists whose names, paths, numbers and separators meet often. */
#ifndef MORTISE_SPEC_TRANSFORM_RANDOM_H
#define MORTISE_SPEC_TRANSFORM_RANDOM_H

#include "property.h"

#define ONE_OF(r, table) ((table)[rng_below((r), sizeof(table) / sizeof *(table))])

static const char *const field_names[] = {"a",   "b",   "c",     "a.b",   "b.c", "a.c",
                                          "c.a", "d.e", "a.b.c", "b.c.a", "d",   "\xC3\xA9"};

static inline void random_text(rng *r, mt_buf *out, bool escapes) {
  static const char *const plain[] = {"",
                                      "/a",
                                      "/a/x",
                                      "/b",
                                      "/ab",
                                      "/a/b/c",
                                      "/a/b/b",
                                      "/b/x",
                                      "x,y",
                                      ",",
                                      "a,,b",
                                      "true",
                                      "no",
                                      "12",
                                      "-7",
                                      "1.5",
                                      "1e3",
                                      "007",
                                      "2.0",
                                      "0.1",
                                      "a;b;c",
                                      "/",
                                      "\xF0\x9F\x98\x80,\xC3\xA9",
                                      "x,",
                                      "99999999999999999999",
                                      "\\n,\\\"",
                                      "\\\\"};
  static const char *const escaped[] = {"\\/a\\/x", "/\\u0061",       "x\\u002cy",
                                        "\\u0031",  "\\ud83d\\ude00", "\\u00e9,"};
  mt_buf_addc(out, '"');
  mt_buf_adds(out, escapes && rng_chance(r, 20) ? ONE_OF(r, escaped) : ONE_OF(r, plain));
  mt_buf_addc(out, '"');
}

/* Spelled as every server spells them again. */
static inline void random_leaf(rng *r, mt_buf *out, bool escapes) {
  static const char *const leaves[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "7",
                                       "-13",
                                       "[]",
                                       "{}",
                                       "1.5",
                                       "-2.25",
                                       "3.0",
                                       "0.1",
                                       "1e20",
                                       "0.00001",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "9007199254740993",
                                       "123456789.125",
                                       "1.0E-5",
                                       "1e2",
                                       "0.30000000000000004"};
  if (rng_chance(r, 55))
    random_text(r, out, escapes);
  else
    mt_buf_adds(out, ONE_OF(r, leaves));
}

static inline void random_value(rng *r, mt_buf *out, unsigned depth, bool escapes);

static inline void random_members(rng *r, mt_buf *out, unsigned depth, bool escapes) {
  static const char *const keys[] = {"a", "b", "c", "a.b", "b.c", "a.b.c", "d", "d.e", "\xC3\xA9"};
  size_t n = 0;
  mt_buf_addc(out, '{');
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (!rng_chance(r, strchr(keys[i], '.') ? 12 : 35)) continue;
    if (n++) mt_buf_addc(out, ',');
    if (rng_chance(r, 10)) mt_buf_addc(out, ' ');
    if (escapes && i == 0 && rng_chance(r, 10))
      mt_buf_adds(out, "\"\\u0061\":");
    else
      mt_buf_addf(out, "\"%s\":", keys[i]);
    if (rng_chance(r, 10)) mt_buf_addc(out, ' ');
    random_value(r, out, depth, escapes);
  }
  mt_buf_addc(out, '}');
}

static inline void random_value(rng *r, mt_buf *out, unsigned depth, bool escapes) {
  if (!depth || rng_chance(r, 50)) {
    random_leaf(r, out, escapes);
  } else if (rng_chance(r, 60)) {
    random_members(r, out, depth - 1, escapes);
  } else {
    mt_buf_addc(out, '[');
    bool texts = rng_chance(r, 50);
    for (size_t i = 0, n = rng_below(r, 4); i < n; i++) {
      if (i) mt_buf_addc(out, ',');
      if (texts)
        random_text(r, out, escapes);
      else
        random_value(r, out, depth - 1, escapes);
    }
    mt_buf_addc(out, ']');
  }
}

static inline void random_document(rng *r, mt_buf *out, bool escapes) {
  random_members(r, out, 3, escapes);
}

/* One that may be refused: a prefix inside the other, a field inside the other. */
static inline void random_transform(rng *r, mt_buf *out) {
  static const char *const paths[] = {"/a", "/b", "/a/b", "/ab", "/", "/x"};
  static const char *const types[] = {"integer", "float", "string", "boolean"};
  static const char *const separators[] = {",", ";", ",,", "\\n", "\xC3\xA9", "\\ud83d\\ude00",
                                           "x"};
  static const char *const kinds[] = {"set",  "remove", "rename_field", "copy_field",     "default",
                                      "cast", "split",  "join",         "replace_prefix", "cast"};
  const char *kind = ONE_OF(r, kinds), *field = ONE_OF(r, field_names);
  mt_buf_addf(out, "{\"%s\":{", kind);
  if (!strcmp(kind, "rename_field") || !strcmp(kind, "copy_field"))
    mt_buf_addf(out, "\"from\":\"%s\",\"to\":\"%s\"", field, ONE_OF(r, field_names));
  else
    mt_buf_addf(out, "\"field\":\"%s\"", field);
  if (!strcmp(kind, "replace_prefix"))
    mt_buf_addf(out, ",\"from\":\"%s\",\"to\":\"%s\"", ONE_OF(r, paths), ONE_OF(r, paths));
  if (!strcmp(kind, "cast")) mt_buf_addf(out, ",\"to\":\"%s\"", ONE_OF(r, types));
  if (!strcmp(kind, "split") || !strcmp(kind, "join"))
    mt_buf_addf(out, ",\"by\":\"%s\"", ONE_OF(r, separators));
  if (!strcmp(kind, "set") || !strcmp(kind, "default")) {
    mt_buf_adds(out, ",\"value\":");
    random_value(r, out, 1, true);
  }
  mt_buf_adds(out, "}}");
}

static inline void random_list(rng *r, mt_buf *out, size_t n) {
  mt_buf_addc(out, '[');
  for (size_t i = 0; i < n; i++) {
    if (i) mt_buf_addc(out, ',');
    random_transform(r, out);
  }
  mt_buf_addc(out, ']');
}

#endif
