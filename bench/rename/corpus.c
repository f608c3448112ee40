#include "bench.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>

enum { REQUEST_DOCS = 5000, RENAME_DOCS = 1000 };

static const size_t text_max = (size_t)8 << 30;

typedef struct random {
  uint64_t state;
} random_state;

static uint64_t draw(random_state *r) { /* splitmix64 */
  uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static unsigned below(random_state *r, unsigned n) {
  return (unsigned)(draw(r) % n);
}

/* Word number `i`: pronounceable, always the same. */
static void add_word(mt_buf *out, unsigned i) {
  static const char first[] = "bcdfghjklmnpqrstvwxz", second[] = "aeiou";
  for (i += 20 * 5; i; i /= 100) {
    mt_buf_addc(out, first[i % 20]);
    mt_buf_addc(out, second[i / 20 % 5]);
  }
}

static void add_path(mt_buf *out, random_state *r, size_t number) {
  static const char *const others[] = {"/home", "/var", "/srv"};
  mt_buf_adds(out, number % 2 ? others[number / 2 % 3] : "/clinton");
  for (unsigned parts = below(r, 5); parts > 0; parts--) {
    mt_buf_addc(out, '/');
    add_word(out, below(r, 2000));
  }
  mt_buf_addf(out, "/%zu-", number);
  add_word(out, below(r, 5000));
  mt_buf_adds(out, ".txt");
}

static void add_document(mt_buf *out, random_state *r, size_t number, size_t words) {
  static const char id_digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  char id[21] = "";
  for (size_t i = 0; i < 20; i++) id[i] = id_digits[below(r, 64)];
  mt_buf_addf(out, "{\"index\":{\"_id\":\"%s\"}}\n{\"path\": \"", id);
  add_path(out, r, number);
  mt_buf_addf(
      out,
      "\", \"name\": \"%zu.txt\", \"size\": %u, \"mtime\": \"20%02u-%02u-%02uT%02u:%02u:%02uZ\"",
      number, 1 + below(r, 1 << 20), 15 + below(r, 11), 1 + below(r, 12), 1 + below(r, 27),
      below(r, 24), below(r, 60), below(r, 60));
  mt_buf_adds(out, ", \"contents\": \"");
  for (size_t i = 0; i < words; i++) {
    if (i) mt_buf_addc(out, ' ');
    add_word(out, below(r, 3000));
  }
  mt_buf_adds(out, "\"}\n");
}

/* The buffer moves while it grows: requests are kept as ends, and turned into slices last. */
static bool finish(corpus *c, size_t *ends) {
  c->requests = mt_calloc(c->n + 1, sizeof *c->requests);
  for (size_t i = 0; c->requests && i < c->n; i++) {
    size_t start = i ? ends[i - 1] : 0;
    c->requests[i] = (mt_slice){c->text.p + start, ends[i] - start};
  }
  mt_free(ends);
  return c->requests && !c->text.failed;
}

bool corpus_make(corpus *c, size_t docs, size_t words, uint64_t seed) {
  random_state r = {seed};
  *c = (corpus){.n = 0};
  mt_buf_init(&c->text, text_max);
  size_t *ends = mt_calloc(docs / REQUEST_DOCS + 1, sizeof *ends);
  for (size_t i = 0; ends && i < docs; i++) {
    add_document(&c->text, &r, i, words);
    if ((i + 1) % REQUEST_DOCS == 0 || i + 1 == docs) ends[c->n++] = c->text.n;
  }
  return ends && finish(c, ends);
}

void corpus_deinit(corpus *c) {
  mt_buf_deinit(&c->text);
  mt_free(c->requests);
}

/* ---- Prepared renames ----------------------------------------------------------------------- */

static void add_rename(mt_buf *out, mt_json hit) {
  static const char from[] = "\"path\": \"/clinton";
  mt_slice id, source = mt_json_get(hit, "_source").raw;
  int64_t seq_no = 0, term = 0;
  mt_json_plain(mt_json_get(hit, "_id"), &id);
  mt_json_int(mt_json_get(hit, "_seq_no"), &seq_no);
  mt_json_int(mt_json_get(hit, "_primary_term"), &term);
  mt_buf_addf(out, "{\"index\":{\"_id\":\"%.*s\",\"if_seq_no\":%lld,\"if_primary_term\":%lld}}\n",
              (int)id.n, id.p, (long long)seq_no, (long long)term);
  const char *at = memmem(source.p, source.n, from, sizeof from - 1);
  size_t before = at ? (size_t)(at - source.p) + 9 : 0;
  mt_buf_add(out, source.p, before);
  mt_buf_adds(out, "/projects");
  mt_buf_add(out, source.p + before, source.n - before);
  mt_buf_addc(out, '\n');
}

/* One page; its hits appended. How many, and the next request's body. */
static size_t add_page(corpus *c, const char *url, mt_buf *body) {
  mt_buf answer;
  mt_json root;
  char scroll[4096];
  size_t hits = 0;
  mt_buf_init(&answer, (size_t)256 << 20);
  if (raw_call("POST", url, mt_buf_slice(body), &answer) == 200 &&
      !mt_json_parse(mt_buf_slice(&answer), "a page", &root, NULL)) {
    mt_json_iter it = mt_json_items(mt_json_at(root, "hits", "hits", NULL));
    for (; mt_json_next(&it); hits++) add_rename(&c->text, it.value);
    mt_buf_clear(body);
    mt_buf_addf(body, "{\"scroll\":\"1m\",\"scroll_id\":\"%s\"}",
                mt_json_copy(mt_json_get(root, "_scroll_id"), scroll, sizeof scroll));
  }
  mt_buf_deinit(&answer);
  return hits;
}

bool corpus_renames(corpus *c, const char *base, const char *index) {
  char url[512];
  mt_buf body;
  size_t *ends = NULL, cap = 0;
  *c = (corpus){.n = 0};
  mt_buf_init(&c->text, text_max);
  mt_buf_init(&body, 1 << 20);
  mt_buf_addf(&body,
              "{\"size\":%d,\"query\":{\"prefix\":{\"path\":\"/clinton/\"}},\"sort\":[\"_doc\"],"
              "\"seq_no_primary_term\":true}",
              RENAME_DOCS);
  snprintf(url, sizeof url, "%s/%s/_search?scroll=1m", base, index);
  while (add_page(c, url, &body)) {
    if (!mt_grow((void **)&ends, &cap, c->n + 1, sizeof *ends, SIZE_MAX / sizeof *ends)) break;
    ends[c->n++] = c->text.n;
    snprintf(url, sizeof url, "%s/_search/scroll", base);
  }
  mt_buf_deinit(&body);
  return finish(c, ends);
}
