#include "lock_fixture.h"

#include "client/breaker.h"

#include <poll.h>
#include <stdio.h>

mt_test_client mt_test_client_open(const mt_test_place *place, int64_t lease_ms) {
  mortise_error err = {0};
  mortise_options options;
  mortise_options_init(&options);
  options.store = place->url;
  options.table = place->table;
  options.program = "manager_test";
  if (lease_ms) options.lease_ms = lease_ms;
  if (lease_ms) options.margin_ms = lease_ms / 10;
  mt_test_client c = {.client = mortise_client_open(&options, &err)};
  MT_CHECK(c.client, "%s", err.message);
  c.manager = mt_client_manager(c.client, &err);
  MT_CHECK(c.manager, "%s", err.message);
  return c;
}

void mt_test_client_close(mt_test_client *c) {
  mortise_client_free(c->client);
  *c = (mt_test_client){0};
}

void mt_test_acquire(mt_test_op *op, mt_test_client *c, const char *path, bool shared,
                     uint64_t task, int64_t wait_ms) {
  mortise_error err;
  const mortise_lock_request request = {.kind = MORTISE_LOCK_TREE,
                                        .paths = &path,
                                        .n = 1,
                                        .mode = shared ? MORTISE_SHARED : MORTISE_EXCLUSIVE,
                                        .wait_ms = wait_ms};
  *op = (mt_test_op){.client = c};
  MT_CHECK(!mt_wants_make(&request, &op->wants, &err), "%s", err.message);
  op->acquire = (mt_acquire){.wants = op->wants.wants,
                             .n = op->wants.n,
                             .task = task,
                             .wait_ms = wait_ms,
                             .blockers = &op->blockers};
  mt_manager_acquire(c->manager, &op->acquire);
  mt_wants_deinit(&op->wants); /* the manager has copied them */
}

void mt_test_release(mt_test_op *op, mt_test_client *c, mt_lock *lock) {
  *op = (mt_test_op){.client = c};
  op->release = (mt_release){.lock = lock};
  mt_manager_release(c->manager, &op->release);
}

bool mt_test_pump_until(mt_test_client *clients, size_t n, const bool *flag, int64_t ms) {
  int64_t end = mt_test_ns() + ms * 1000000;
  while (!*flag && mt_test_ns() < end)
    for (size_t i = 0; i < n; i++) mt_loop_step(clients[i].client->loop, n > 1 ? 1 : 10, NULL);
  return *flag;
}

mt_lock *mt_test_take(mt_test_client *clients, size_t n, size_t who, const char *path, bool shared,
                      int64_t wait_ms, mortise_error *err) {
  mt_test_op op;
  mt_test_acquire(&op, &clients[who], path, shared, 0, wait_ms);
  if (!mt_test_pump_until(clients, n, &op.acquire.finished, 30000)) {
    mt_manager_cancel(clients[who].manager, &op.acquire);
    MT_CHECK(false, "acquiring %s hangs", path);
  }
  if (err) *err = op.acquire.error;
  clients[who].blockers = op.blockers;
  return op.acquire.lock;
}

mortise_status mt_test_give(mt_test_client *clients, size_t n, size_t who, mt_lock *lock) {
  mt_test_op op;
  mt_test_release(&op, &clients[who], lock);
  MT_CHECK(mt_test_pump_until(clients, n, &op.release.finished, 30000), "a release hangs");
  return op.release.error.code;
}

static size_t count_text(const char *text, const char *what) {
  size_t n = 0;
  for (const char *p = text; (p = strstr(p, what)); p++) n++;
  return n;
}

void mt_test_break(const mt_test_place *place, const char *session) {
  mortise_error err;
  mt_test_client c = mt_test_client_open(place, 0);
  mt_breaker *breaker = mt_breaker_start(c.client, session, false, &err);
  MT_CHECK(breaker, "%s", err.message);
  while (mt_breaker_state(breaker)->phase < MT_BREAKING_DONE) mt_loop_step(c.client->loop, 100, NULL);
  mt_breaker_free(breaker);
  mt_test_client_close(&c);
}

mortise_options mt_test_options(const mt_test_place *place, mortise_loop *loop) {
  mortise_options options;
  mortise_options_init(&options);
  options.store = place->url;
  options.table = place->table;
  options.loop = loop;
  options.wait_ms = MT_TEST_PATIENCE_MS;
  return options;
}

mortise_client *mt_test_open(const mt_test_place *place, mortise_loop *loop, int64_t lease_ms) {
  mortise_error err;
  mortise_options options = mt_test_options(place, loop);
  if (lease_ms) options.lease_ms = lease_ms;
  mortise_client *client = mortise_client_open(&options, &err);
  MT_CHECK(client, "%s", err.message);
  return client;
}

bool mt_test_poll_until(mortise_loop *loop, const bool *flag, int64_t ms, bool *stepping) {
  bool unused;
  if (!stepping) stepping = &unused;
  int64_t end = mt_test_ns() + ms * 1000000;
  while (!*flag && mt_test_ns() < end) {
    struct pollfd fd = {.fd = mortise_loop_fd(loop), .events = POLLIN};
    int wait = mortise_loop_timeout_ms(loop);
    poll(&fd, 1, wait < 0 || wait > 100 ? 100 : wait);
    mortise_error err;
    *stepping = true;
    MT_CHECK(!mortise_loop_step(loop, &err), "%s", err.message);
    *stepping = false;
  }
  return *flag;
}

void mt_test_expect_empty(const mt_test_place *place) {
  mt_test_store s;
  assert_true(mt_test_store_open(&s, place));
  for (int kind = MT_LIST_LOCKS; kind <= MT_LIST_SESSIONS; kind++) {
    mt_lock_list list = {.ns = "default", .kind = (mt_list_kind)kind};
    s.store->locks->list(s.store, &list);
    MT_CHECK(!mt_test_pump(s.store, &list.req), "%s", list.req.error.message);
    MT_CHECK(!list.listing && count_text(list.json, "\"path\"") == 0, "left behind: %s", list.json);
    MT_CHECK(count_text(list.json, "\"live\"") == 0, "left behind: %s", list.json);
    mt_lock_list_deinit(&list);
  }
  mt_test_store_close(&s);
}

mt_writer *mt_test_writer(mt_store *store, const mt_lock *lock, const mt_writer_config *config,
                          mortise_error *err) {
  mt_permit permit = lock ? mt_manager_permit(lock) : (mt_permit){0};
  return mt_writer_new(store, mt_env_system(), lock ? &permit : NULL, config, err);
}
