/* What the tests of the SQLite store share: a store in a fresh folder, and seeded dice. */
#ifndef MT_SPEC_SQLITE_FIXTURE_H
#define MT_SPEC_SQLITE_FIXTURE_H

#include "sqlite/sqlite.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

extern char folder[64], file[96]; /* of the running test */

typedef struct handle {
  mt_loop *loop;
  mt_store *s;
} handle;

void seed_dice(void); /* MORTISE_TEST_SEED, or a new seed; printed */
uint64_t roll(uint64_t n);

mortise_status try_open(handle *h, const char *name, mortise_error *err);
handle open_here(const char *name); /* ends the program when it cannot */
void shut(handle *h);

mortise_status finish(handle *h, mt_req *req);
mt_write one(handle *h, const char *index, mt_write_kind kind, const char *id, const char *body);
uint64_t count_of(handle *h, const char *index, const char *query);
void create(handle *h, const char *index, const char *body);

int set_up(void **state);
int tear_down(void **state);

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
