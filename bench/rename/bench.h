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

/* ---- ground.c: the index of the benchmarks, and what others do to it ------------------------- */

#define GROUND_MASTER "mortise-bench-master"
#define GROUND_CLONE "mortise-bench-fs"

typedef struct ground {
  const char *url;
  size_t docs, words;
  uint64_t seed;
  corpus renames;
} ground;

enum { SAMPLES_MAX = 100 };

typedef struct sample {
  double wall, user, system; /* s */
  uint64_t docs, trips, bytes, peak /* resident kB of a program, or 0 */;
  bool ok;
} sample;

typedef struct reading {
  double wall, user, system;
} reading;

long ground_call(const ground *b, const char *method, const char *path, const char *body,
                 mt_buf *answer);
/* How many documents of the clone lie below the prefix; it is refreshed first. */
uint64_t ground_count(const ground *b, const char *prefix);
/* Fills the master, and prepares the renames of its half under /clinton. */
bool ground_make(ground *b);
bool ground_fresh(ground *b); /* a clone of it, as it was */
void ground_drop(ground *b);

bool ground_ubq(ground *b, sample *s);     /* _update_by_query, by a script, two slices */
bool ground_scan(ground *b, sample *s);    /* whole sources, not parsed */
bool ground_index(ground *b, sample *s);   /* prepared bodies with if_seq_no */
bool ground_overlap(ground *b, sample *s); /* both at the same time */

/* Time and CPU of this process and of those that it has waited for. */
void ground_read(reading *r);
void ground_since(const reading *r, sample *s);
/* Of the member at this offset, a double. */
double sample_median(const sample *s, int n, size_t member);
/* Is it one of these names, separated by commas, or is there no choice? */
bool is_chosen(const char *only, const char *name);

#endif
