#include "cell.h"

#include "base/mem.h"
#include "base/pump.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t now_ms(void) {
  return mt_test_ns() / 1000000;
}

void cell_fail(cell *c, const char *fmt, ...) {
  if (*c->failure) return; /* the first counts */
  va_list args;
  va_start(args, fmt);
  vsnprintf(c->failure, sizeof c->failure, fmt, args);
  va_end(args);
}

static void note(cell *c, const char *fmt, ...) MORTISE_PRINTF(2, 3);

static void note(cell *c, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fprintf(c->log_file, "%lld: ", (long long)now_ms());
  vfprintf(c->log_file, fmt, args);
  fputc('\n', c->log_file);
  va_end(args);
}

/* ---- What may never be ---------------------------------------------------------------------- */

static bool related(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  if (n > m) return related(b, a);
  return n == 1 || (!strncmp(a, b, n) && (!b[n] || b[n] == '/'));
}

static bool conflict(const char *a, bool a_shared, const char *b, bool b_shared) {
  return related(a, b) && !(a_shared && b_shared);
}

/* Checks both in turn, the first one twice: belief ends only once, so both were believed in
 * between. */
static bool both_believed(const struct claim *x, const struct claim *y) {
  if (!x->lock || !y->lock || !conflict(x->path, x->shared, y->path, y->shared)) return false;
  return !mt_lock_check(x->lock, NULL) && !mt_lock_check(y->lock, NULL) &&
         !mt_lock_check(x->lock, NULL);
}

static void check_beliefs(cell *c) {
  for (int i = 0; i < PARTIES; i++)
    for (int j = i + 1; j < PARTIES; j++)
      for (int k = 0; k < 4; k++)
        if (both_believed(&c->parties[i].claims[k / 2], &c->parties[j].claims[k % 2])) {
          c->unsafe = true;
          cell_fail(c, "%s and %s believe in incompatible locks", c->parties[i].name,
                    c->parties[j].name);
        }
}

static void check_fence(cell *c, const struct claim *claim) {
  uint64_t fence = mt_lock_fence(claim->lock);
  for (size_t i = 0; i < c->n_pasts; i++)
    if (conflict(c->pasts[i].path, c->pasts[i].shared, claim->path, claim->shared) &&
        fence <= c->pasts[i].fence) {
      c->unsafe = true;
      cell_fail(c, "fence %llu was granted after %llu", (unsigned long long)fence,
                (unsigned long long)c->pasts[i].fence);
    }
  size_t i = 0; /* of each kind the last, the largest of those that exclude each other */
  while (i < c->n_pasts &&
         (strcmp(c->pasts[i].path, claim->path) != 0 || c->pasts[i].shared != claim->shared))
    i++;
  if (i == sizeof c->pasts / sizeof *c->pasts) return;
  if (i < c->n_pasts && fence < c->pasts[i].fence) return;
  c->pasts[i] = (struct past){claim->path, claim->shared, fence};
  if (i == c->n_pasts) c->n_pasts++;
}

/* ---- Parties -------------------------------------------------------------------------------- */

static void log_line(void *ctx, mortise_log_level level, const char *line) {
  cell *c = ctx;
  fprintf(c->log_file, "%lld: log %d: %s\n", (long long)now_ms(), (int)level, line);
}

void party_open(cell *c, int who, const char *url, mt_loop *loop) {
  static const char *const names[] = {"A", "the holder", "the rival", "the sweeper"};
  party *p = &c->parties[who];
  mortise_error err = {0};
  mortise_options options;
  if (*c->failure) return;
  mortise_options_init(&options);
  options.store = url;
  options.table = c->place->table;
  options.ns = c->ns;
  options.lease_ms = LEASE;
  options.margin_ms = MARGIN;
  options.request_ms = 10000;
  options.program = names[who];
  options.log = log_line;
  options.log_ctx = c;
  *p = (party){.cell = c, .name = names[who]};
  p->client = mt_client_open(&options, loop, NULL, &err);
  p->manager = p->client ? mt_client_manager(p->client, &err) : NULL;
  if (!p->manager) cell_fail(c, "%s: %s", p->name, err.message);
}

void party_begin(party *p, const char *path, bool shared, int64_t wait_ms) {
  mt_wants wants;
  mortise_error err;
  const mortise_lock_request request = {.kind = MORTISE_LOCK_TREE,
                                        .paths = &path,
                                        .n = 1,
                                        .mode = shared ? MORTISE_SHARED : MORTISE_EXCLUSIVE,
                                        .wait_ms = wait_ms};
  if (*p->cell->failure) return;
  if (mt_wants_make(&request, &wants, &err)) {
    cell_fail(p->cell, "%s", err.message);
    return;
  }
  p->path = path;
  p->shared = shared;
  p->acquire =
      (mt_acquire){.wants = wants.wants, .n = wants.n, .wait_ms = wait_ms, .adopts = p->adopts};
  note(p->cell, "%s wants %s", p->name, path);
  mt_manager_acquire(p->manager, &p->acquire);
  mt_wants_deinit(&wants); /* the manager has copied them */
}

bool party_took(party *p, mortise_error *err) {
  cell *c = p->cell;
  *err = p->acquire.error;
  note(c, "%s: %s", p->name, p->acquire.lock ? "has it" : err->message);
  if (!p->acquire.lock) {
    if (!err->code || !*err->message) cell_fail(c, "%s failed without saying why", p->name);
    return false;
  }
  struct claim *claim = &p->claims[p->claims[0].lock ? 1 : 0];
  *claim = (struct claim){p->acquire.lock, p->path, p->shared};
  if (err->code) cell_fail(c, "%s got a lock and an error: %s", p->name, err->message);
  check_beliefs(c);
  check_fence(c, claim);
  return true;
}

bool party_take(party *p, const char *path, bool shared, int64_t wait_ms, mortise_error *err) {
  cell *c = p->cell;
  party_begin(p, path, shared, wait_ms);
  if (*c->failure) return false;
  if (cell_pump(c, &p->acquire.finished, wait_ms + SLACK)) return party_took(p, err);
  mt_manager_cancel(p->manager, &p->acquire);
  cell_fail(c, "%s still waits after %d ms", p->name, (int)wait_ms + SLACK);
  return false;
}

void party_begin_give(party *p) {
  struct claim *claim = &p->claims[p->claims[1].lock ? 1 : 0];
  p->release = (mt_release){.lock = claim->lock};
  note(p->cell, "%s gives back %s", p->name, claim->path);
  claim->lock = NULL;
  mt_manager_release(p->manager, &p->release);
}

mortise_status party_give(party *p) {
  cell *c = p->cell;
  if (*c->failure) return MORTISE_OK;
  party_begin_give(p);
  if (!cell_pump(c, &p->release.finished, GIVE)) {
    mt_manager_release_forget(p->manager, &p->release);
    cell_fail(c, "%s still gives back after %d ms", p->name, GIVE);
  }
  note(c, "%s gave: %s", p->name, p->release.error.code ? p->release.error.message : "fine");
  return p->release.error.code;
}

bool party_holds(const party *p) {
  for (int i = 0; i < 2; i++)
    if (p->claims[i].lock && mt_lock_check(p->claims[i].lock, NULL)) return false;
  return p->claims[0].lock != NULL;
}

void party_close(party *p) {
  cell *c = p->cell;
  if (!c || !p->client || *c->failure) return;
  p->claims[0].lock = p->claims[1].lock = NULL;
  note(c, "%s closes", p->name);
  mt_client_close(p->client, mt_flag_set, &p->closed);
  if (!cell_pump(c, &p->closed, CLOSE)) cell_fail(c, "%s does not close", p->name);
  mt_client_free(p->client);
  p->client = NULL;
}

/* ---- The rival ------------------------------------------------------------------------------ */

static void rival_take(cell *c) {
  c->rival = RIVAL_TAKING;
  party_begin(&c->parties[RIVAL], LEAF, c->row->rival_shared, RIVAL_WAIT);
}

static void rival_step(cell *c) {
  party *p = &c->parties[RIVAL];
  mortise_error err;
  switch (c->rival) {
  case RIVAL_OUT:
    if (p->client && (c->rival_now || (!c->rival_patient && fault_proxy_hits(c->proxy))))
      rival_take(c);
    return;
  case RIVAL_TAKING:
    if (!p->acquire.finished) return;
    if (!party_took(p, &err)) cell_fail(c, "the rival, without a fault, got: %s", err.message);
    c->rival = RIVAL_HOLDING;
    c->rival_until_ms = now_ms() + 150;
    return;
  case RIVAL_HOLDING:
    if (now_ms() < c->rival_until_ms) return;
    c->rival = RIVAL_GIVING;
    party_begin_give(p);
    return;
  case RIVAL_GIVING:
    if (p->release.finished) c->rival = RIVAL_DONE;
    return;
  case RIVAL_DONE:
    return;
  }
}

void await_rival(cell *c, int64_t ms) {
  int64_t end = now_ms() + ms;
  c->rival_now = true;
  while (!*c->failure && c->rival != RIVAL_DONE && now_ms() < end) cell_wait(c, 20);
  if (c->rival != RIVAL_DONE) cell_fail(c, "the rival waits longer than %lld ms", (long long)ms);
}

/* ---- Time passes ---------------------------------------------------------------------------- */

bool cell_pump(cell *c, const bool *flag, int64_t ms) {
  int64_t end = now_ms() + ms;
  while (!*c->failure && !*flag && now_ms() < end) {
    mortise_error err;
    if (mt_loop_step(c->loop, 10, &err)) cell_fail(c, "%s", err.message);
    check_beliefs(c);
    if (!*c->failure && c->rival != RIVAL_DONE && c->proxy) rival_step(c);
  }
  return *flag;
}

void cell_wait(cell *c, int64_t ms) {
  bool never = false;
  cell_pump(c, &never, ms);
}

/* ---- Afterwards ----------------------------------------------------------------------------- */

/* Uses real-time reads: a search would need a refresh. */
static void expect_no_locks(cell *c, mt_store *store) {
  char path[128], body[256];
  snprintf(path, sizeof path, "/%s/_mget", c->place->table);
  snprintf(body, sizeof body,
           "{\"ids\":[\"%s:/\",\"%s:/p\",\"%s:/p/q\",\"%s:" LEAF "\",\"%s:" OTHER "\"]}", c->ns,
           c->ns, c->ns, c->ns, c->ns);
  mt_raw r = {.method = "POST", .path = path, .body = mt_slice_of(body)};
  store->docs->raw(store, &r);
  if (!cell_pump(c, &r.req.finished, 10000)) mt_store_cancel(store, &r.req);
  if (!r.req.finished || r.req.error.code || r.status != 200)
    cell_fail(c, "reading the table failed: %s", r.req.error.message);
  else if (strstr(r.answer, "\"found\":true"))
    cell_fail(c, "left behind: %.400s", r.answer);
  mt_raw_deinit(&r);
}

/* A later client can take every lock, one after the other, within three leases; then there is no
 * lock in the table. */
void cell_sweep(cell *c) {
  static const char *const all[] = {LEAF, "/p/q", "/p", OTHER, "/"};
  int64_t start = now_ms();
  mortise_error err;
  party_open(c, SWEEPER, c->place->url, c->loop);
  party *p = &c->parties[SWEEPER];
  for (size_t i = 0; i < sizeof all / sizeof *all && !*c->failure; i++) {
    if (!party_take(p, all[i], false, 3 * LEASE, &err))
      cell_fail(c, "nobody can take %s: %s", all[i], err.message);
    party_give(p);
  }
  c->sweep_ms = now_ms() - start;
  if (c->sweep_ms > 3 * LEASE)
    cell_fail(c, "only after %lld ms all could be taken", (long long)c->sweep_ms);
  if (!*c->failure) expect_no_locks(c, p->client->store);
}

/* The faults are over: A can continue. */
static void go_on(cell *c) {
  party *a = &c->parties[A];
  mortise_error err;
  if (!a->client) return;
  if (!party_take(a, LEAF, false, WAIT, &err))
    cell_fail(c, "A cannot go on: %s", err.message);
  else
    party_give(a);
}

void cell_await_proxy(cell *c, fault_proxy *proxy) {
  int64_t end = now_ms() + 20000;
  fault_proxy_clear(proxy);
  while (!*c->failure && fault_proxy_busy(proxy) && now_ms() < end) cell_wait(c, 10);
  if (fault_proxy_busy(proxy)) cell_fail(c, "the proxy still has requests");
}

/* ---- All ------------------------------------------------------------------------------------ */

bool cell_begin(cell *c) {
  c->log_file = open_memstream(&c->log, &c->log_n);
  c->loop = mt_loop_new(NULL);
  if (!c->log_file || !c->loop) cell_fail(c, "no memory");
  return !*c->failure;
}

static bool set_up(cell *c) {
  mortise_error err = {0};
  char rule[512];
  if (!cell_begin(c)) return false;
  const fault_config config = {
      .upstream = c->place->url, .record = c->log_file, .anonymous = c->fault->anonymous};
  c->proxy = fault_proxy_new(c->loop, &config, &err);
  snprintf(rule, sizeof rule, "%s item='%s' %s", c->row->match, c->row->item ? c->row->item : "",
           c->fault->action);
  if (!c->proxy || fault_proxy_rule(c->proxy, rule, &err)) {
    cell_fail(c, "%s", err.message);
    return false;
  }
  snprintf(rule, sizeof rule, "http://127.0.0.1:%u", fault_proxy_port(c->proxy));
  party_open(c, A, rule, c->loop);
  party_open(c, RIVAL, c->place->url, c->loop);
  return true;
}

void cell_run(cell *c) {
  if (set_up(c)) {
    c->row->scene(c);
    if (c->row->at_close) party_close(&c->parties[A]);
    if (!fault_proxy_hits(c->proxy)) cell_fail(c, "the request never came");
    await_rival(c, RIVAL_WAIT + GIVE);
    party_close(&c->parties[HOLDER]);
    party_close(&c->parties[RIVAL]);
    cell_await_proxy(c, c->proxy);
    if (!c->fault->ghosts) cell_sweep(c);
    go_on(c);
    party_close(&c->parties[A]);
    if (c->fault->ghosts) cell_sweep(c);
    if (!*c->failure) expect_no_locks(c, c->parties[SWEEPER].client->store);
    party_close(&c->parties[SWEEPER]);
  }
}

void cell_deinit(cell *c) {
  for (int i = 0; i < PARTIES; i++) mt_client_free(c->parties[i].client);
  mt_loop_free(c->dead_loop);
  fault_proxy_free(c->proxy);
  for (int i = 0; i < 3; i++) fault_proxy_free(c->storm_proxies[i]);
  mt_loop_free(c->loop);
  if (c->log_file) fclose(c->log_file);
  free(c->log); /* open_memstream's */
}
