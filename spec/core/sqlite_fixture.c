#include "sqlite_fixture.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char folder[64], file[96];
static uint64_t dice;

uint64_t roll(uint64_t n) {
  dice = dice * 6364136223846793005u + 1442695040888963407u;
  return (dice >> 33) % n;
}

mortise_status try_open(handle *h, const char *name, mortise_error *err) {
  h->loop = mt_loop_new(err);
  h->s = h->loop ? mt_sqlite_open(h->loop, name, 20000, NULL, err) : NULL;
  if (h->s) return MORTISE_OK;
  mt_loop_free(h->loop);
  return err->code;
}

void shut(handle *h) {
  mt_store_close(h->s);
  mt_loop_free(h->loop);
}

/* In a child a failed assertion cannot be reported: it exits. */
handle open_here(const char *name) {
  handle h;
  mortise_error err;
  if (!try_open(&h, name, &err)) return h;
  fprintf(stderr, "open: %s\n", err.message);
  abort();
}

mortise_status finish(handle *h, mt_req *req) {
  return mt_store_wait(h->s, req, -1);
}

mt_write one(handle *h, const char *index, mt_write_kind kind, const char *id, const char *body) {
  mt_write w = {.kind = kind, .id = mt_slice_of(id), .body = mt_slice_of(body)};
  mt_bulk r = {.index = index, .items = &w, .n = 1};
  h->s->docs->bulk(h->s, &r);
  if (finish(h, &r.req)) fprintf(stderr, "bulk: %s\n", r.req.error.message);
  return w;
}

uint64_t count_of(handle *h, const char *index, const char *query) {
  mt_count r = {.index = index, .query = mt_slice_of(query)};
  h->s->docs->count(h->s, &r);
  if (finish(h, &r.req)) fail_msg("%s: %s", query, r.req.error.message);
  return r.count;
}

void create(handle *h, const char *index, const char *body) {
  mt_index_admin r = {.index = index, .body = mt_slice_of(body)};
  h->s->docs->index_create(h->s, &r);
  assert_int_equal(finish(h, &r.req), MORTISE_OK);
}

int set_up(void **state) {
  (void)state;
  strcpy(folder, "/tmp/mortise-sqlite-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(file, sizeof file, "%s/store", folder);
  return 0;
}

int tear_down(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) ? -1 : 0;
}

void seed_dice(void) {
  const char *seed = getenv("MORTISE_TEST_SEED");
  dice = seed ? strtoull(seed, NULL, 0) : (uint64_t)mt_clock_boot_us();
  printf("# MORTISE_TEST_SEED=0x%llx\n", (unsigned long long)dice);
  fflush(stdout);
}
