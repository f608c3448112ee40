/* Hints: what a socket hears, and that forged and flooding hints neither grant anything nor cost more than a
 * bounded number of requests. */
#include "client/hint.h"
#include "lock/attempt.h"
#include "lock_fixture.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static mt_test_place place; /* of the running group */

/* ---- The socket ----------------------------------------------------------------------------- */

#define ADDRESS_A 0x0123456789abcdefu
#define ADDRESS_B 0xfedcba9876543210u
#define ID_A "0123456789abcdef0123456789abcdef"
#define ID_B "fedcba9876543210fedcba9876543210"
#define ID_C "0000000000000000fedcba9876543210" /* with the address of B */
#define ID_D "ffffffffffffffff0000000000000000" /* with that of nobody */

typedef struct ear {
  unsigned n;
  mt_hint last;
} ear;

static void note_hint(void *ctx, const mt_hint *hint) {
  ear *e = ctx;
  e->n++;
  e->last = *hint;
}

static mt_hint hint_of(mt_hint_kind kind, const char *to, const char *from) {
  mt_hint h = {.kind = kind, .place = 0xfedcba9876543210u, .n = 7};
  snprintf(h.to, sizeof h.to, "%s", to);
  snprintf(h.from, sizeof h.from, "%s", from);
  return h;
}

static void send_text(const char *text, size_t n) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  int len = snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "mortise-hint-%.16s", ID_B);
  sendto(fd, text, n, MSG_DONTWAIT, (struct sockaddr *)&to,
         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len));
  close(fd);
}

static void test_socket(void **state) {
  (void)state;
  ear a = {0}, b = {0}, c = {0};
  mt_loop *loop = mt_loop_new(NULL);
  mt_hearer at_a = {ID_A, note_hint, &a}, at_b = {ID_B, note_hint, &b}, at_c = {ID_C, note_hint, &c};
  mt_hint_socket *one = mt_hint_socket_open(loop, ADDRESS_A);
  mt_hint_socket *two = mt_hint_socket_open(loop, ADDRESS_B);
  assert_non_null(one);
  assert_non_null(two);
  assert_null(mt_hint_socket_open(loop, ADDRESS_B)); /* it is taken */
  assert_true(mt_hint_socket_join(one, &at_a));
  assert_true(mt_hint_socket_join(two, &at_b));
  mt_hint waits = hint_of(MT_HINT_WAITS, ID_B, ID_A), wrong = hint_of(MT_HINT_GONE, ID_C, ID_A);
  assert_true(mt_hint_socket_send(one, &waits));
  mt_loop_step(loop, 100, NULL);
  assert_int_equal(b.n, 1);
  assert_memory_equal(&b.last, &waits, sizeof waits);
  assert_true(mt_hint_socket_send(one, &wrong)); /* of another session */
  static const char *const bad[] = {
      "", "mortise-hint-1", "mortise-hint-2 g " ID_B " " ID_A " fedcba9876543210 0000000000000007",
      "mortise-hint-1 x " ID_B " " ID_A " fedcba9876543210 0000000000000007",
      "mortise-hint-1 g " ID_B " " ID_A " fedcba9876543210 0000000000000007 ",
      "mortise-hint-1 g " ID_B " " ID_A " fedcba9876543210 -000000000000007",
      "mortise-hint-1 g " ID_B " 0123 fedcba9876543210 0000000000000007"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) send_text(bad[i], strlen(bad[i]));
  char noise[4096];
  memset(noise, 'a', sizeof noise);
  send_text(noise, sizeof noise);
  mt_loop_step(loop, 100, NULL);
  assert_int_equal(b.n, 1);
  assert_true(mt_hint_socket_join(two, &at_c)); /* they share it */
  assert_true(mt_hint_socket_send(one, &wrong));
  assert_true(mt_hint_socket_send(one, &waits));
  mt_loop_step(loop, 100, NULL);
  assert_int_equal(c.n, 1);
  assert_memory_equal(&c.last, &wrong, sizeof wrong);
  assert_int_equal(b.n, 2);
  assert_true(mt_hint_socket_leave(two, &at_b));
  assert_false(mt_hint_socket_leave(two, &at_b));
  assert_true(mt_hint_socket_send(one, &waits));
  assert_true(mt_hint_socket_send(one, &wrong));
  mt_loop_step(loop, 100, NULL);
  assert_int_equal(b.n, 2);
  assert_int_equal(c.n, 2);
  const mt_hint nobody = hint_of(MT_HINT_GONE, ID_D, ID_A);
  assert_false(mt_hint_socket_send(one, &nobody));
  mt_hint_socket_close(two);
  assert_false(mt_hint_socket_send(one, &waits));
  assert_false(mt_hint_socket_send(NULL, &waits));
  mt_hint_socket_close(one);
  mt_loop_free(loop);
}

static void test_a_flood_is_cut(void **state) {
  (void)state;
  ear b = {0};
  mt_loop *loop = mt_loop_new(NULL);
  mt_hearer at_b = {ID_B, note_hint, &b};
  mt_hint_socket *one = mt_hint_socket_open(loop, ADDRESS_A);
  mt_hint_socket *two = mt_hint_socket_open(loop, ADDRESS_B);
  assert_true(mt_hint_socket_join(two, &at_b));
  mt_hint gone = hint_of(MT_HINT_GONE, ID_B, ID_A);
  int64_t start = mt_test_ns(), ms = 0;
  while ((ms = (mt_test_ns() - start) / 1000000) < 300) {
    for (int i = 0; i < 200; i++) mt_hint_socket_send(one, &gone);
    mt_loop_step(loop, 0, NULL);
  }
  unsigned most = (unsigned)(ms / MT_HINTS_MS + 2) * (MT_HINTS_MAX + 1);
  MT_CHECK(b.n > 0 && b.n <= most, "%u were heard in %lld ms", b.n, (long long)ms);
  unsigned before = b.n;
  mt_loop_step(loop, 10 * MT_HINTS_MS, NULL); /* and it listens again */
  mt_hint_socket_send(one, &gone);
  for (int i = 0; i < 50 && b.n == before; i++) mt_loop_step(loop, MT_HINTS_MS, NULL);
  assert_true(b.n > before);
  mt_hint_socket_close(two);
  mt_hint_socket_close(one);
  mt_loop_free(loop);
}

/* ---- In the manager ------------------------------------------------------------------------- */

/* FNV-1a, as docs/protocol.md says. */
static uint64_t place_hash(const char *path) {
  uint64_t h = 14695981039346656037u;
  for (; *path; path++) h = (h ^ (unsigned char)*path) * 1099511628211u;
  return h ^ h >> 29;
}

static void pump_for(mt_test_client *c, size_t n, int64_t ms) {
  bool never = false;
  mt_test_pump_until(c, n, &never, ms);
}

/* Until it waits in its place in the queue. */
static void await_place(mt_test_client *c, size_t n, const mt_test_op *op) {
  while (!op->acquire.finished && !((const mt_attempt *)op->acquire.op)->kept_ms) pump_for(c, n, 1);
  MT_CHECK(!op->acquire.finished, "%s", op->acquire.error.message);
}

/* One holds, another waits, and hears all the time that its turn has come. */
static void test_forged_hints_grant_nothing(void **state) {
  (void)state;
  mt_test_client c[2] = {mt_test_client_open(&place, 0), mt_test_client_open(&place, 0)};
  mt_test_op waits;
  mortise_error err;
  mt_lock *lock = mt_test_take(c, 2, 0, "/forged", false, 1000, &err);
  MT_CHECK(lock, "%s", err.message);
  mt_test_acquire(&waits, &c[1], "/forged", false, 0, 30000);
  pump_for(c, 2, 500);
  await_place(c, 2, &waits);
  uint64_t before = mt_manager_get_stats(c[1].manager).batches;
  mt_hint gone = {.kind = MT_HINT_GONE, .place = place_hash("/forged")};
  memcpy(gone.to, mt_manager_session(c[1].manager)->id, sizeof gone.to);
  memcpy(gone.from, mt_manager_session(c[0].manager)->id, sizeof gone.from);
  int64_t start = mt_test_ns();
  while (mt_test_ns() - start < 2000000000) {
    for (int i = 0; i < 10; i++) mt_manager_hinted(c[1].manager, &gone);
    for (size_t i = 0; i < 2; i++) mt_loop_step(c[i].client->loop, 1, NULL);
  }
  uint64_t writes = mt_manager_get_stats(c[1].manager).batches - before;
  assert_false(waits.acquire.finished);
  MT_CHECK(writes >= 1 && writes <= 24, "%llu writes in two seconds", (unsigned long long)writes);
  mt_test_give(c, 2, 0, lock);
  assert_true(mt_test_pump_until(c, 2, &waits.acquire.finished, 20000));
  MT_CHECK(waits.acquire.lock, "%s", waits.acquire.error.message);
  mt_test_give(c, 2, 1, waits.acquire.lock);
  for (size_t i = 0; i < 2; i++) mt_test_client_close(&c[i]);
  mt_test_expect_empty(&place);
}

/* Whoever waits gets it from who gives it back, round after round, each in its turn. */
static void test_hand_off(void **state) {
  (void)state;
  enum { CLIENTS = 4, ROUNDS = 5 };
  mt_test_client c[CLIENTS];
  mt_test_op ops[CLIENTS];
  mortise_error err;
  for (size_t i = 0; i < CLIENTS; i++) {
    c[i] = mt_test_client_open(&place, 0);
    mt_lock *warm = mt_test_take(c, i + 1, i, "/hand/off", false, 5000, &err);
    MT_CHECK(warm, "%s", err.message);
    mt_test_give(c, i + 1, i, warm);
  }
  mt_lock *lock = mt_test_take(c, CLIENTS, 0, "/hand/off", false, 1000, &err);
  for (size_t turn = 1; turn < CLIENTS * ROUNDS; turn++) {
    size_t next = turn % CLIENTS, last = (turn + CLIENTS - 1) % CLIENTS;
    if (turn == 1)
      for (size_t i = 1; i < CLIENTS; i++) {
        mt_test_acquire(&ops[i], &c[i], "/hand/off", false, 0, 30000);
        await_place(c, CLIENTS, &ops[i]); /* so that they have an order */
      }
    mt_test_give(c, CLIENTS, last, lock);
    mt_test_acquire(&ops[last], &c[last], "/hand/off", false, 0, 30000);
    assert_true(mt_test_pump_until(c, CLIENTS, &ops[next].acquire.finished, 20000));
    lock = ops[next].acquire.lock;
    MT_CHECK(lock, "%s", ops[next].acquire.error.message);
    pump_for(c, CLIENTS, 50);
  }
  for (size_t i = 0; i < CLIENTS; i++) mt_manager_cancel(c[i].manager, &ops[i].acquire);
  mt_test_give(c, CLIENTS, (CLIENTS * ROUNDS - 1) % CLIENTS, lock);
  for (size_t i = 0; i < CLIENTS; i++) mt_test_client_close(&c[i]);
  mt_test_expect_empty(&place);
}

static int init_hint_table(void **state) {
  (void)state;
  return mt_test_init_table(&place);
}

int main(void) {
  static const struct CMUnitTest alone[] = {
      cmocka_unit_test(test_socket),
      cmocka_unit_test(test_a_flood_is_cut),
  };
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forged_hints_grant_nothing),
      cmocka_unit_test(test_hand_off),
  };
  int failed = cmocka_run_group_tests_name("hints", alone, NULL, NULL);
  return failed + mt_test_each_place(&place, "hints", tests, sizeof tests / sizeof tests[0],
                                     init_hint_table);
}
