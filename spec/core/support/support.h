/* What the C tests share: seeded random numbers, checks that say what they checked, and the stores
 * to test on: SQLite in a fresh folder, and each server in MORTISE_TEST_URLS. */
#ifndef MT_SPEC_SUPPORT_H
#define MT_SPEC_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"

/* ---- Random numbers ---------------------------------------------------------------------------
 */

typedef struct mt_test_random {
  uint64_t state;
} mt_test_random;

/* MORTISE_TEST_SEED, or a new one; printed at the first call, so that a run can be repeated. */
uint64_t mt_test_seed(void);
/* A stream of its own for each name, so that one test alone repeats what it did among others. */
mt_test_random mt_test_random_for(const char *name);
uint64_t mt_test_next(mt_test_random *r);
size_t mt_test_below(mt_test_random *r, size_t n); /* n > 0 */
bool mt_test_chance(mt_test_random *r, unsigned percent);

/* ---- Checks -----------------------------------------------------------------------------------
 */

/* Like assert_true, and prints the format when it fails. In a test's own thread only. */
#define MT_CHECK(condition, ...)                                                                   \
  do {                                                                                             \
    if (!(condition)) mt_test_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                   \
  } while (0)

__attribute__((noreturn)) void mt_test_fail(const char *file, int line, const char *condition,
                                            const char *fmt, ...) MORTISE_PRINTF(4, 5);

/* ---- Stores -----------------------------------------------------------------------------------
 */

/* Where a store is, with names nobody else uses: all indices of a test begin with `prefix`. */
typedef struct mt_test_place {
  char name[64];    /* "sqlite", "opensearch-2.19.3": for people */
  char url[256];    /* "sqlite:FILE" or the server's */
  char folder[256]; /* sqlite only */
  char table[64];   /* alias of the lock table */
  char prefix[48];
  bool elastic;
} mt_test_place;

enum { MT_TEST_PLACES = 8 };

/* SQLite (not with MORTISE_TEST_NO_SQLITE), then the servers; says on stdout why when there is
 * none. Returns how many. */
size_t mt_test_places(mt_test_place out[MT_TEST_PLACES]);
/* Removes the folder, or every index that begins with the prefix. */
void mt_test_place_clean(const mt_test_place *place);
/* The same place with another lock table and, on SQLite, another file. */
mt_test_place mt_test_place_beside(const mt_test_place *place, const char *suffix);

/* One handle with a loop of its own, for one thread. */
typedef struct mt_test_store {
  mt_loop *loop;
  mt_store *store;
} mt_test_store;

/* false, with the reason on stderr. Nothing is sent. */
bool mt_test_store_open(mt_test_store *t, const mt_test_place *place);
void mt_test_store_close(mt_test_store *t);

enum { MT_TEST_HANG_MS = 60000 };

/* Steps until the request has finished and gives its status; INTERRUPTED, and cancelled, when it
 * hangs. */
mortise_status mt_test_pump(mt_store *s, mt_req *req);

/* The lock table of the place is made; 0, or -1 after saying why not. */
int mt_test_init_table(const mt_test_place *place);

/* Runs the tests on each place in turn, which is in `place` then, and cleans it; how many failed. `setup`
 * (or NULL) comes before the first. */
int mt_test_each_place(mt_test_place *place, const char *what, const struct CMUnitTest *tests,
                       size_t n, CMFixtureFunction setup);

/* ---- Documents --------------------------------------------------------------------------------
 */

/* Steps until the request has finished; it must succeed. */
void mt_test_must(mt_store *s, mt_req *req);
/* These must succeed, too. */
void mt_test_create_index(mt_store *s, const char *index, mt_slice body);
void mt_test_drop_index(mt_store *s, const char *index);
/* One document; `routing` may be NULL. */
void mt_test_put(mt_store *s, const char *index, const char *id, const char *routing,
                 const char *source);

/* ---- Time -------------------------------------------------------------------------------------
 */

/* Nanoseconds on CLOCK_MONOTONIC. */
int64_t mt_test_ns(void);
void mt_test_sleep_ms(int64_t ms);

#endif
