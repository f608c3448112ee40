/* Two to sixteen processes, all at one path: each takes it, gives it back, and wants it again at once.
 * Measured is the wait for it. The raw way is the usual one: a `_create`, tried again each 5 to 50 ms,
 * which is not fair. The raw way of `in turn` is the floor of what is fair: each knows when its turn has
 * come, nobody joins a queue, and nothing is sent but the requests of a tree lock, one after the other. */
#include "bench.h"

#include <mortise/mortise.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { POLL_LEAST_MS = 5, POLL_MOST_MS = 50 };

static const size_t crowds[] = {2, 4, 8, 16};
enum { CROWDS = sizeof crowds / sizeof *crowds };
#define CONTENDED_PATH "/contended/by/all"
#define STRIPED_PATH "/contended"

static bool take_and_give(mortise_client *client, herd_child *me, size_t who, const char *path) {
  const char *paths[] = {path};
  const mortise_lock_request r = {
      .size = sizeof(mortise_lock_request), .kind = MORTISE_LOCK_TREE, .paths = paths, .n = 1, .wait_ms = 60000};
  mortise_error err;
  double start = now_us();
  mortise_lock *lock = mortise_lock_acquire(client, &r, NULL, &err);
  if (lock) herd_note(me, start);
  if (lock && !mortise_lock_release(lock, &err)) return true;
  fprintf(stderr, "contended, process %zu: %s\n", who, err.message);
  me->s.failures++;
  return false;
}

static bool once_at_path(mortise_client *client, herd_child *me, size_t who, size_t turn) {
  (void)turn;
  return take_and_give(client, me, who, CONTENDED_PATH);
}

static bool once_at_stripes(mortise_client *client, herd_child *me, size_t who, size_t turn) {
  (void)turn;
  return take_and_give(client, me, who, STRIPED_PATH);
}

static void contended_child(const options *o, herd *all, size_t who) {
  herd_client(o, all, who, once_at_path);
}

static void striped_child(const options *o, herd *all, size_t who) {
  herd_client(o, all, who, once_at_stripes);
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

static void turn_child(const options *o, herd *all, size_t who) {
  herd_child *me = &all->children[who];
  size_t next = (who + 1) % all->n;
  meter m;
  mt_buf take, give;
  mt_buf_init(&take, 1 << 16);
  mt_buf_init(&give, 1 << 16);
  raw_tree_take(&take, RAW_SESSION, CONTENDED_PATH);
  raw_tree_give(&give, RAW_SESSION, CONTENDED_PATH);
  raw_link *link = raw_open(o);
  herd_wait(all);
  meter_begin(&m);
  if (!who) sem_post(&all->turns[who]);
  for (double start = now_us(); now_us() < all->end_us; start = now_us()) {
    if (sem_wait(&all->turns[who])) break;
    raw_bulk(link, mt_buf_slice(&take), &me->s);
    herd_note(me, start);
    raw_bulk(link, mt_buf_slice(&give), &me->s);
    sem_post(&all->turns[next]);
  }
  sem_post(&all->turns[next]); /* it ends, too */
  meter_end(&m, &me->s);
  raw_close(link);
}

/* Rows that have the same raw way measure it once. */
static bool crowd_round(const options *o, size_t n, herd_body *body, herd_body *raw,
                        pair *with_hints, pair *no_hints) {
  options without = *o;
  without.no_hints = true;
  if (!herd_run(o, n, raw, &(*with_hints)[RAW]) || !herd_run(o, n, body, &(*with_hints)[MORTISE]) ||
      !herd_run(&without, n, body, &(*no_hints)[MORTISE]))
    return false;
  (*no_hints)[RAW] = (*with_hints)[RAW];
  return true;
}

bool contended_round(const options *o, pair *out) {
  for (size_t i = 0; i < CROWDS; i++)
    if (!crowd_round(o, crowds[i], contended_child, polling_child, &out[2 * i], &out[2 * i + 1]))
      return false;
  pair *last = &out[2 * CROWDS - 2], *striped = &out[2 * CROWDS], *in_turn = &out[2 * CROWDS + 2];
  (*in_turn)[MORTISE] = (*last)[MORTISE];
  return crowd_round(o, HERD_MAX, striped_child, polling_child, striped, striped + 1) &&
         herd_run(o, HERD_MAX, turn_child, &(*in_turn)[RAW]);
}
