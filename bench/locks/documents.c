/* 100,000 document locks, taken and given back. The floor: prepared creates and deletes, 5,000 in a
 * request, on two connections. */
#include "bench.h"

#include <mortise/mortise.h>

#include <stdio.h>
#include <stdlib.h>

enum { DOCS = 100000, QUICK_DOCS = 20000, RAW_ITEMS = 5000, RAW_LINKS = 2, ID_BYTES = 24 };

/* In the order of a scan: the ids that a server makes are in no order. */
static void id_of(char out[ID_BYTES], size_t i) {
  static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
  uint64_t bits = (uint64_t)i + 1;
  for (int k = 0; k < 20; k++) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    out[k] = digits[bits >> 58];
  }
  out[20] = '\0';
}

static bool mortise_round(const options *o, char (*ids)[ID_BYTES], size_t n, pair *out) {
  mortise_error err;
  meter m;
  mortise_client *c = open_client(o);
  const char **names = calloc(n, sizeof *names);
  if (!c || !names) return false;
  for (size_t i = 0; i < n; i++) names[i] = ids[i];
  mortise_lock_request r = {
      .size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_DOCUMENT, .index = "fs", .paths = names, .n = 1, .wait_ms = -1};
  mortise_lock_release(mortise_lock_acquire(c, &r, NULL, &err), &err); /* opens the session */
  r.n = n;
  count_client(c, &out[0][MORTISE], true);
  meter_begin(&m);
  mortise_lock *lock = mortise_lock_acquire(c, &r, NULL, &err);
  meter_end(&m, &out[0][MORTISE]);
  count_client(c, &out[0][MORTISE], false);
  if (!lock) fprintf(stderr, "documents: %s\n", err.message);
  out[0][MORTISE].failures += !lock;
  count_client(c, &out[1][MORTISE], true);
  meter_begin(&m);
  out[1][MORTISE].failures += mortise_lock_release(lock, &err) != MORTISE_OK;
  meter_end(&m, &out[1][MORTISE]);
  count_client(c, &out[1][MORTISE], false);
  free(names);
  mortise_client_free(c);
  return true;
}

static bool raw_round(const options *o, char (*ids)[ID_BYTES], size_t n, pair *out) {
  size_t requests = n / RAW_ITEMS;
  mt_buf *bodies = calloc(2 * requests, sizeof *bodies);
  char path[64];
  meter m;
  if (!bodies) return false;
  for (size_t i = 0; i < n; i++) {
    mt_buf *create = &bodies[i / RAW_ITEMS], *drop = &bodies[requests + i / RAW_ITEMS];
    if (i % RAW_ITEMS == 0) {
      mt_buf_init(create, 1 << 30);
      mt_buf_init(drop, 1 << 30);
    }
    snprintf(path, sizeof path, "/_doc/fs/%s", ids[i]);
    raw_add_create(create, RAW_SESSION, i + 1, path);
    raw_add_delete(drop, path);
  }
  for (int k = 0; k < 2; k++) {
    meter_begin(&m);
    raw_all(o, bodies + (size_t)k * requests, requests, RAW_LINKS, &out[k][RAW]);
    meter_end(&m, &out[k][RAW]);
  }
  for (size_t i = 0; i < 2 * requests; i++) mt_buf_deinit(&bodies[i]);
  free(bodies);
  return true;
}

bool documents_round(const options *o, pair *out) {
  static unsigned turn;
  size_t n = o->quick ? QUICK_DOCS : DOCS;
  char(*ids)[ID_BYTES] = calloc(n, sizeof *ids);
  if (!ids) return false;
  for (size_t i = 0; i < n; i++) id_of(ids[i], i);
  bool raw_first = turn++ % 2 == 0;
  bool good = !raw_first || raw_round(o, ids, n, out);
  good = good && mortise_round(o, ids, n, out);
  if (!raw_first) good = good && raw_round(o, ids, n, out);
  for (int k = 0; k < 2; k++)
    for (int way = 0; way < WAYS; way++) out[k][way].locks += n;
  free(ids);
  return good;
}
