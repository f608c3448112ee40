/* One tree lock at depth 4 at a time: what one caller waits for. */
#include "bench.h"

#include <mortise/mortise.h>

#include <stdio.h>

/* Small blocks in turn, so that both ways run under the same conditions. */
enum { BLOCK = 20, OPS = 1000, QUICK_OPS = 100 };

static void path_of(char *out, size_t size, size_t i) {
  snprintf(out, size, "/clinton/projects/2014/d%zu", i);
}

static void raw_block(raw_link *link, size_t from, double *us, sample *s) {
  mt_buf take[BLOCK], give[BLOCK];
  char path[64];
  meter m;
  for (size_t i = 0; i < BLOCK; i++) {
    path_of(path, sizeof path, from + i);
    mt_buf_init(&take[i], 1 << 16);
    mt_buf_init(&give[i], 1 << 16);
    raw_tree_take(&take[i], RAW_SESSION, path);
    raw_tree_give(&give[i], RAW_SESSION, path);
  }
  meter_begin(&m);
  for (size_t i = 0; i < BLOCK; i++) {
    double start = now_us();
    raw_bulk(link, mt_buf_slice(&take[i]), s);
    raw_bulk(link, mt_buf_slice(&give[i]), s);
    us[i] = now_us() - start;
  }
  meter_end(&m, s);
  s->locks += BLOCK;
  for (size_t i = 0; i < BLOCK; i++) {
    mt_buf_deinit(&take[i]);
    mt_buf_deinit(&give[i]);
  }
}

static void mortise_block(mortise_client *c, size_t from, double *us, sample *s) {
  char path[64];
  const char *paths[] = {path};
  const mortise_lock_request r = {.size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = paths, .n = 1, .wait_ms = -1};
  mortise_error err;
  meter m;
  count_client(c, s, true);
  meter_begin(&m);
  for (size_t i = 0; i < BLOCK; i++) {
    path_of(path, sizeof path, from + i);
    double start = now_us();
    mortise_lock *lock = mortise_lock_acquire(c, &r, NULL, &err);
    if (!lock || mortise_lock_release(lock, &err)) {
      fprintf(stderr, "single: %s\n", err.message);
      s->failures++;
    }
    us[i] = now_us() - start;
  }
  meter_end(&m, s);
  count_client(c, s, false);
  s->locks += BLOCK;
}

bool single_round(const options *o, pair *out) {
  static double us[WAYS][OPS + BLOCK];
  size_t ops = o->quick ? QUICK_OPS : OPS;
  mortise_client *c = open_client(o);
  if (!c) return false;
  raw_link *link = raw_open(o);
  sample warm = {0};
  raw_block(link, 0, us[RAW], &warm);
  mortise_block(c, 0, us[MORTISE], &warm);
  for (size_t i = 0; i < ops; i += BLOCK) {
    raw_block(link, i, us[RAW] + i, &out[0][RAW]);
    mortise_block(c, i, us[MORTISE] + i, &out[0][MORTISE]);
  }
  for (int way = 0; way < WAYS; way++) percentiles(us[way], ops, &out[0][way]);
  raw_close(link);
  mortise_client_free(c);
  return true;
}
