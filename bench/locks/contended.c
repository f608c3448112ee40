/* Two to sixteen processes, all at one path: each takes it, gives it back, and wants it again at once.
 * Measured is the wait for it. The raw way is the usual one: a `_create`, tried again each 5 to 50 ms,
 * which is not fair. */
#include "bench.h"

#include <mortise/mortise.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { POLL_LEAST_MS = 5, POLL_MOST_MS = 50 };

static const size_t crowds[] = {2, 4, 8, 16};
enum { CROWDS = sizeof crowds / sizeof *crowds };
#define CONTENDED_PATH "/contended"

static bool take_and_give(mortise_client *client, herd_child *me, size_t who, size_t turn) {
  (void)turn;
  static const char *paths[] = {CONTENDED_PATH};
  const mortise_lock_request r = {
      .kind = MORTISE_LOCK_TREE, .paths = paths, .n = 1, .wait_ms = 60000};
  mortise_error err;
  double start = now_us();
  mortise_lock *lock = mortise_lock_acquire(client, &r, NULL, &err);
  if (lock) herd_note(me, start);
  if (lock && !mortise_lock_release(lock, &err)) return true;
  fprintf(stderr, "contended, process %zu: %s\n", who, err.message);
  me->s.failures++;
  return false;
}

static void contended_child(const options *o, herd *all, size_t who) {
  herd_client(o, all, who, take_and_give);
}

static void polling_child(const options *o, herd *all, size_t who) {
  herd_child *me = &all->children[who];
  unsigned dice = (unsigned)who + 1;
  meter m;
  mt_buf take, give;
  mt_buf_init(&take, 1 << 16);
  mt_buf_init(&give, 1 << 16);
  raw_add_create(&take, RAW_SESSION, 1, CONTENDED_PATH);
  raw_add_delete(&give, CONTENDED_PATH);
  raw_link *link = raw_open(o);
  herd_wait(all);
  meter_begin(&m);
  while (now_us() < all->end_us) {
    double start = now_us();
    bool had;
    while (!(had = raw_try(link, mt_buf_slice(&take), &me->s)) && now_us() < all->end_us)
      usleep(1000 * (POLL_LEAST_MS + (unsigned)rand_r(&dice) % (POLL_MOST_MS - POLL_LEAST_MS + 1)));
    if (!had) break;
    herd_note(me, start);
    raw_bulk(link, mt_buf_slice(&give), &me->s);
  }
  meter_end(&m, &me->s);
  raw_close(link);
}

bool contended_round(const options *o, pair *out) {
  options without = *o;
  without.no_hints = true;
  for (size_t i = 0; i < CROWDS; i++) {
    pair *with_hints = &out[2 * i], *no_hints = &out[2 * i + 1];
    if (!herd_run(o, crowds[i], polling_child, &(*with_hints)[RAW]) ||
        !herd_run(o, crowds[i], contended_child, &(*with_hints)[MORTISE]) ||
        !herd_run(&without, crowds[i], contended_child, &(*no_hints)[MORTISE]))
      return false;
    (*no_hints)[RAW] = (*with_hints)[RAW];
  }
  return true;
}
