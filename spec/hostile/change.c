#include "change.h"

#include <jansson.h>
#include <stdlib.h>

enum { NODES_MAX = 512 };

typedef struct change {
  json_t *node;    /* this value, or */
  const char *key; /* the member of that name of `parent`, once more */
  const char *with;
  bool removed, doubled;
} change;

static char *long_text, *deep_text;

static const char *value_of(mt_test_random *r) {
  static const char *const values[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "-1",
                                       "1",
                                       "-2",
                                       "1.5",
                                       "1e400",
                                       "-0",
                                       "200",
                                       "201",
                                       "404",
                                       "409",
                                       "429",
                                       "500",
                                       "1099511627776",
                                       "8388608",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "9223372036854775808",
                                       "18446744073709551616",
                                       "1000000000000000000000000000000",
                                       "\"\"",
                                       "\"x\"",
                                       "\"1\"",
                                       "\"\\u0000\"",
                                       "\"\\ud800\"",
                                       "\"\\n\\u001b[2J\"",
                                       "\"/a\"",
                                       "\"default:/b\"",
                                       "\"default:@" OTHER "\"",
                                       "\"" OTHER "\"",
                                       "\"" SID "\"",
                                       "\"created\"",
                                       "\"updated\"",
                                       "\"noop\"",
                                       "\"deleted\"",
                                       "\"not_found\"",
                                       "\"X\"",
                                       "\"Y\"",
                                       "\"eq\"",
                                       "\"gte\"",
                                       "[]",
                                       "{}",
                                       "[null]",
                                       "[1]",
                                       "[[]]",
                                       "[{}]",
                                       "{\"\":{}}",
                                       "[" ENTRY(SID, "1") "]",
                                       "[" ENTRY(OTHER, "-1") "]"};
  size_t n = sizeof values / sizeof *values, at = mt_test_below(r, n + 2);
  return at < n ? values[at] : at == n ? long_text : deep_text;
}

static void collect(json_t *node, json_t **nodes, size_t *n) {
  const char *key;
  json_t *value;
  size_t i;
  if (*n < NODES_MAX) nodes[(*n)++] = node;
  if (json_is_object(node)) json_object_foreach(node, key, value) collect(value, nodes, n);
  if (json_is_array(node)) json_array_foreach(node, i, value) collect(value, nodes, n);
}

static void write_value(mt_buf *b, json_t *node, const change *c);

static void write_item(mt_buf *b, const char *key, json_t *value, const change *c) {
  for (int times = c->doubled && value == c->node ? 2 : 1; times--;) {
    if (value == c->node && c->removed) return;
    if (b->p[b->n - 1] != '{' && b->p[b->n - 1] != '[') mt_buf_addc(b, ',');
    if (key) {
      mt_json_add_string(b, mt_slice_of(key));
      mt_buf_addc(b, ':');
    }
    write_value(b, value, times || !c->doubled ? c : &(change){0});
  }
}

static void write_value(mt_buf *b, json_t *node, const change *c) {
  const char *key;
  json_t *value;
  size_t i;
  if (node == c->node && c->with) {
    mt_buf_adds(b, c->with);
  } else if (json_is_object(node)) {
    mt_buf_addc(b, '{');
    json_object_foreach(node, key, value) write_item(b, key, value, c);
    mt_buf_addc(b, '}');
  } else if (json_is_array(node)) {
    mt_buf_addc(b, '[');
    json_array_foreach(node, i, value) write_item(b, NULL, value, c);
    mt_buf_addc(b, ']');
  } else {
    char *text = json_dumps(node, JSON_ENCODE_ANY);
    mt_buf_adds(b, text);
    free(text);
  }
}

void change_value(mt_buf *out, const char *text, mt_test_random *r) {
  json_t *nodes[NODES_MAX];
  size_t n = 0;
  json_t *root = json_loads(text, JSON_DECODE_ANY, NULL);
  MT_CHECK(root, "a sound answer is none: %s", text);
  collect(root, nodes, &n);
  change c = {.node = nodes[mt_test_below(r, n)]};
  size_t how = mt_test_below(r, 6);
  c.removed = how == 0;
  c.doubled = how == 1;
  if (how > 1 || mt_test_chance(r, 50)) c.with = c.removed ? NULL : value_of(r);
  write_value(out, root, &c);
  json_decref(root);
}

void change_bytes(mt_buf *out, const char *text, mt_test_random *r) {
  mt_buf_adds(out, text);
  if (mt_test_chance(r, 50)) {
    mt_buf_cut(out, mt_test_below(r, out->n));
    return;
  }
  static const char marks[] = "{}[]\",:\\0-e\n \xff";
  for (size_t times = 1 + mt_test_below(r, 3); times--;)
    out->p[mt_test_below(r, out->n)] = marks[mt_test_below(r, sizeof marks)];
}

void change_init(void) {
  long_text = malloc(100003);
  deep_text = malloc(200001);
  MT_CHECK(long_text && deep_text, "memory");
  memset(long_text, 'a', 100002);
  long_text[0] = long_text[100001] = '"';
  long_text[100002] = '\0';
  memset(deep_text, '[', 100000);
  memset(deep_text + 100000, ']', 100000);
  deep_text[200000] = '\0';
}

void change_end(void) {
  free(long_text);
  free(deep_text);
}
