/* What the files of this benchmark share. */
#ifndef MT_BENCH_RENAME_H
#define MT_BENCH_RENAME_H

#include "base/buf.h"

/* ---- raw.c: libcurl without anything of mortise's ------------------------------------------- */

typedef struct raw_stats {
  uint64_t requests, sent, received, hits, failures;
} raw_stats;

/* One request; the body of the answer in `answer` (may be NULL). Its HTTP status, 0 when none. */
long raw_call(const char *method, const char *url, mt_slice body, mt_buf *answer);
/* Posts prepared requests over `connections` threads with a connection each. */
void raw_post(const char *url, const mt_slice *requests, size_t n, int connections,
              raw_stats *stats);
/* Scrolls whole sources of all that match in `slices` threads, without reading what comes. */
void raw_scan(const char *base, const char *index, const char *query, int page, int slices,
              raw_stats *stats);

/* ---- corpus.c: the documents ---------------------------------------------------------------- */

typedef struct corpus {
  mt_buf text;        /* bulk requests, one after the other */
  mt_slice *requests; /* of 5,000 documents each */
  size_t n;
} corpus;

/* `docs` documents of files, half of them under /clinton, half under /home, /var and /srv, paths of
 * 2 to 6 parts, `words` words of contents; the same ones for the same seed. */
bool corpus_make(corpus *c, size_t docs, size_t words, uint64_t seed);
/* From a master index: prepared requests of 1,000 that index each document under its new path, with
 * its if_seq_no. */
bool corpus_renames(corpus *c, const char *base, const char *index);
void corpus_deinit(corpus *c);

#endif
