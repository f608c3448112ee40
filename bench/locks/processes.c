/* Sixteen processes, each with a session of its own, each on files of its own below shared
 * ancestors: every lock writes the same four documents. The raw way sends again, at once, only what
 * got a version conflict. */
#include "bench.h"

#include <mortise/mortise.h>

#include <stdio.h>

enum { PROCESSES = HERD_MAX };

static bool one_lock(mortise_client *client, herd_child *me, size_t who, size_t turn) {
  char path[64];
  const char *paths[] = {path};
  const mortise_lock_request r = {.size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = paths, .n = 1, .wait_ms = -1};
  mortise_error err;
  snprintf(path, sizeof path, "/clinton/projects/2014/d%zu-%zu", who, turn);
  double start = now_us();
  mortise_lock *lock = mortise_lock_acquire(client, &r, NULL, &err);
  bool good = lock && !mortise_lock_release(lock, &err);
  if (good) herd_note(me, start);
  if (good) return true;
  fprintf(stderr, "process %zu: %s\n", who, err.message);
  me->s.failures++;
  return false;
}

static void mortise_child(const options *o, herd *all, size_t who) {
  herd_client(o, all, who, one_lock);
}

static void raw_child(const options *o, herd *all, size_t who) {
  herd_child *me = &all->children[who];
  char session[40], path[64];
  meter m;
  mt_buf take, give;
  mt_buf_init(&take, 1 << 16);
  mt_buf_init(&give, 1 << 16);
  snprintf(session, sizeof session, "%032zx", who + 1);
  raw_link *link = raw_open(o);
  herd_wait(all);
  meter_begin(&m);
  for (size_t turn = 1; now_us() < all->end_us; turn++) {
    snprintf(path, sizeof path, "/clinton/projects/2014/d%zu-%zu", who, turn);
    mt_buf_clear(&take);
    mt_buf_clear(&give);
    raw_tree_take(&take, session, path);
    raw_tree_give(&give, session, path);
    double start = now_us();
    raw_bulk(link, mt_buf_slice(&take), &me->s);
    raw_bulk(link, mt_buf_slice(&give), &me->s);
    herd_note(me, start);
  }
  meter_end(&m, &me->s);
  raw_close(link);
}

bool processes_round(const options *o, pair *out) {
  return herd_run(o, PROCESSES, raw_child, &out[0][RAW]) &&
         herd_run(o, PROCESSES, mortise_child, &out[0][MORTISE]);
}
