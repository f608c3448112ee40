/* The union of ancestors of a million paths at depth 8, against one pass of memcmp over the same
 * bytes. Prints one line for people and one of JSON. */
#include "lock/path.h"
#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATHS = 1000000, RUNS = 7, ROOM = 96 };

static int by_bytes(const void *a, const void *b) {
  return mt_slice_cmp(*(const mt_slice *)a, *(const mt_slice *)b);
}

/* Six to a directory at the top, about ten files in each at the bottom; names with a '-' so that
 * byte order is not the tree's. */
static mt_slice make_path(char *out, unsigned i) {
  unsigned d = i / 10;
  int n =
      snprintf(out, ROOM, "/home/team-%u/p%u%s/src%u/mod-%u/part%u/d%u/file%u.txt", d % 6,
               d / 6 % 6, d % 5 ? "" : "-old", d / 36 % 6, d / 216 % 6, d / 1296 % 6, d / 7776, i);
  return (mt_slice){out, (size_t)n};
}

static int64_t best_compare(const mt_slice *paths, size_t *sink) {
  int64_t best = INT64_MAX;
  for (int run = 0; run < RUNS; run++) {
    int64_t start = mt_clock_boot_us();
    for (size_t i = 1; i < PATHS; i++) *sink += mt_slice_cmp(paths[i - 1], paths[i]) < 0;
    int64_t took = mt_clock_boot_us() - start;
    if (took < best) best = took;
  }
  return best;
}

static int64_t best_ancestors(const mt_slice *paths, size_t *found) {
  int64_t best = INT64_MAX;
  for (int run = 0; run < RUNS; run++) {
    mt_slice *out;
    int64_t start = mt_clock_boot_us();
    if (mt_path_ancestors(paths, PATHS, &out, found, NULL)) return -1;
    int64_t took = mt_clock_boot_us() - start;
    mt_free(out);
    if (took < best) best = took;
  }
  return best;
}

int main(void) {
  char *text = malloc((size_t)PATHS * ROOM);
  mt_slice *paths = malloc(PATHS * sizeof *paths);
  if (!text || !paths) return 1;
  size_t bytes = 0, found = 0, sink = 0;
  for (unsigned i = 0; i < PATHS; i++) {
    paths[i] = make_path(text + (size_t)i * ROOM, i);
    bytes += paths[i].n;
  }
  qsort(paths, PATHS, sizeof *paths, by_bytes);
  int64_t raw = best_compare(paths, &sink), ours = best_ancestors(paths, &found);
  free(text);
  free(paths);
  if (ours < 0 || sink == 0) return 1;
  double ratio = (double)ours / (double)(raw ? raw : 1);
  printf("%d paths of depth 8, %zu bytes: %zu ancestors in %.1f ms; one memcmp pass %.1f ms; %.2f "
         "times\n",
         PATHS, bytes, found, (double)ours / 1e3, (double)raw / 1e3, ratio);
  printf("{\"bench\":\"path_ancestors\",\"paths\":%d,\"bytes\":%zu,\"ancestors\":%zu,\"us\":%lld,"
         "\"memcmp_us\":%lld,\"ratio\":%.3f}\n",
         PATHS, bytes, found, (long long)ours, (long long)raw, ratio);
  return 0;
}
