#include "client/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/pump.h"
#include "client/identity.h"
#include "client/options.h"
#include "client/pulse.h"
#include "elastic/elastic.h"
#include "sqlite/sqlite.h"

/* ---- The store ------------------------------------------------------------------------------ */

static mt_store *open_store(const mortise_options *o, mt_loop *loop, const mt_log *log,
                            mortise_error *err) {
  if (strncmp(o->store, "sqlite:", 7) == 0) {
    if (!o->store[7]) {
      mt_error_set(err, MORTISE_INVALID_ARGUMENT, "store: `sqlite:` names no file");
      return NULL;
    }
    mt_store *store = mt_sqlite_open(loop, o->store + 7, o->request_ms, log, err);
    if (!store && err && err->code == MORTISE_INVALID_ARGUMENT) mt_error_prefix(err, "store");
    return store;
  }
  if (strncmp(o->store, "http://", 7) && strncmp(o->store, "https://", 8)) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "store: %s, this is neither",
                 mt_client_option_rows[MT_AT_store].help);
    return NULL;
  }
  const mt_http_config config = {
      .nodes = o->store,
      .user = o->user,
      .password = o->password,
      .api_key = o->api_key,
      .bearer = o->bearer,
      .ca_file = o->ca_file,
      .cert_file = o->cert_file,
      .key_file = o->key_file,
      .insecure = o->insecure,
      .connect_ms = o->connect_ms,
      .request_ms = o->request_ms,
      .answer_max = o->answer_max,
      .gzip_min = 8192,
  };
  return mt_elastic_open(loop, &config, o->table, log, err);
}

/* In the child of a fork everything of the parent's stays as it is, also its memory: threads that
 * are not here may have held its locks, and what is closed in order would be closed for the parent.
 */
static bool forked(const mortise_client *c, mortise_error *err) {
  if (c->process == mt_process_number()) return false;
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client cannot be used: %s", mt_process_forked);
  return true;
}

/* ---- Opening and freeing -------------------------------------------------------------------- */

static void log_line(void *ctx, mortise_log_level level, const char *line) {
  const mortise_client *c = ctx;
  if (c->options.log) c->options.log(c->options.log_ctx, level, line);
}

mortise_client *mt_client_open(const mortise_options *options, mt_loop *loop,
                               const mt_client_hooks *hooks, mortise_error *err) {
  uint64_t probe;
  if (mt_client_options_check(options, err) || mt_random_bytes(&probe, sizeof probe, err))
    return NULL;
  mortise_client *c = mt_calloc(1, sizeof *c);
  if (!c || !mt_client_options_copy(&c->options, options)) {
    mt_error_memory(err);
    mt_client_free(c);
    return NULL;
  }
  c->process = mt_process_number();
  if (hooks) c->hooks = *hooks;
  if (c->options.margin_ms < 0) c->options.margin_ms = mt_margin_default(c->options.lease_ms);
  c->log = (mt_log){log_line, c};
  c->own_loop = loop ? NULL : mt_loop_new(err);
  c->loop = loop ? loop : c->own_loop;
  c->store = c->loop ? open_store(&c->options, c->loop, &c->log, err) : NULL;
  if (c->store) return c;
  mt_client_free(c);
  return NULL;
}

mortise_client *mortise_client_open(const mortise_options *options, mortise_error *err) {
  return mt_client_open(options, NULL, NULL, err);
}

struct mortise_lock {
  mortise_client *client;
  mt_lock *lock;               /* the manager's */
  mortise_lock *before, *next; /* of the client */
};

static void free_locks(mortise_client *c) {
  while (c->locks) {
    mortise_lock *lock = c->locks;
    c->locks = lock->next;
    mt_free(lock);
  }
}

void mt_client_free(mortise_client *c) {
  if (!c || forked(c, NULL)) return;
  free_locks(c);
  mt_manager_free(c->manager);
  mt_pulse_stop(c->pulse);
  if (c->loop) mt_timer_release(c->loop, &c->tick);
  if (c->loop) mt_timer_stop(c->loop, &c->look);
  mt_store_close(c->store);
  mt_identity_free(c->identity);
  mt_loop_free(c->own_loop);
  mt_client_options_deinit(&c->options);
  mt_free(c);
}

const mortise_options *mt_client_options(const mortise_client *c) {
  return &c->options;
}

/* ---- The manager and its heartbeat ---------------------------------------------------------- */

/* The timer is reserved: without a tick nobody would be told of anything any more. */
static void arm(mortise_client *c) {
  int64_t due = mt_manager_due(c->manager);
  if (due == INT64_MAX)
    mt_timer_stop(c->loop, &c->tick);
  else if (!c->tick.slot || c->tick.at_ms != due)
    mt_timer_start(c->loop, &c->tick, due, NULL);
}

/* The manager stops the heartbeat of a session that it finds dead: then nobody else says so. */
static void tell_if_lost(mortise_client *c) {
  const mt_env *env = mt_env_system();
  mt_session *session = mt_manager_session(c->manager);
  if (session && c->hooks.lost && mt_session_dead(session, env->now_ms(env->ctx)))
    c->hooks.lost(c->hooks.ctx);
}

static void tick(void *ctx) {
  mortise_client *c = ctx;
  tell_if_lost(c);
  mt_manager_tick(c->manager);
  arm(c);
}

static void due_changed(void *ctx) {
  mortise_client *c = ctx;
  if (c->manager) arm(c);
}

/* ---- Telling of what takes long -------------------------------------------------------------- */

enum { LOOK_MS = 1000 };

static int64_t asked_since(mortise_client *c, int64_t now) {
  mt_session *session = mt_manager_session(c->manager);
  int64_t locks = mt_manager_asked_ms(c->manager);
  int64_t beat = session && !mt_session_dead(session, now) ? atomic_load(&session->asked_ms) : 0;
  return locks && (!beat || locks < beat) ? locks : beat;
}

static int64_t lease_left(mortise_client *c, int64_t now) {
  mt_session *session = mt_manager_session(c->manager);
  int64_t deadline = session ? atomic_load(&session->deadline_ms) : 0;
  if (!deadline) return -1;
  return deadline > now ? deadline - now : 0;
}

static void look(void *ctx) {
  mortise_client *c = ctx;
  const mt_env *env = mt_env_system();
  int64_t now = env->now_ms(env->ctx), since = asked_since(c, now);
  bool silent = since && now - since >= LOOK_MS;
  const mortise_notice n = {.kind = silent ? MORTISE_NOTICE_NO_ANSWER : MORTISE_NOTICE_ANSWERS,
                            .for_ms = now - (silent ? since : c->silent_ms),
                            .store = c->store->url,
                            .lease_ms = lease_left(c, now)};
  mt_timer_start(c->loop, &c->look, mt_loop_now(c->loop) + LOOK_MS, NULL);
  if (silent || c->silent_ms) c->options.notice(c->options.notice_ctx, &n);
  c->silent_ms = silent ? since : 0;
}

static mortise_status start_looking(mortise_client *c, mortise_error *err) {
  if (!c->options.notice) return MORTISE_OK;
  c->look = (mt_timer){.fire = look, .ctx = c};
  return mt_timer_start(c->loop, &c->look, mt_loop_now(c->loop) + LOOK_MS, err);
}

static void notice(void *ctx, const mortise_notice *n) {
  const mortise_client *c = ctx;
  c->options.notice(c->options.notice_ctx, n);
}

/* ---- Making the manager ---------------------------------------------------------------------- */

static mt_store *open_pulse_store(void *ctx, mt_loop *loop, mortise_error *err) {
  mortise_client *c = ctx;
  return open_store(&c->options, loop, &c->log, err);
}

static void wake_lost(void *ctx) {
  mortise_client *c = ctx;
  if (c->manager) tick(c);
}

static void pulse_lost(void *ctx) {
  mortise_client *c = ctx;
  mt_loop_post(c->loop, &c->lost);
  if (c->hooks.lost) c->hooks.lost(c->hooks.ctx);
}

static mortise_status heartbeat(void *ctx, bool start, mt_session *session, mortise_error *err) {
  mortise_client *c = ctx;
  mt_pulse_stop(c->pulse);
  c->pulse = NULL;
  if (!start) return MORTISE_OK;
  const mt_pulse_config config = {open_pulse_store, pulse_lost, c};
  c->pulse = mt_pulse_start(session, &config, mt_env_system(), err);
  return c->pulse ? MORTISE_OK : MORTISE_UNAVAILABLE;
}

static void nudge(void *ctx) {
  mt_pulse_nudge(((mortise_client *)ctx)->pulse);
}

static bool inherits(void *ctx, uint64_t holder, uint64_t task) {
  mortise_client *c = ctx;
  return c->hooks.inherits && c->hooks.inherits(c->hooks.ctx, holder, task);
}

static bool known_dead(void *ctx, const char *owner_json) {
  const mortise_client *c = ctx;
  return mt_identity_gone(c->identity, owner_json);
}

mt_manager *mt_client_manager(mortise_client *c, mortise_error *err) {
  if (c->manager) return c->manager;
  if (!c->identity)
    c->identity = mt_identity_new(c->options.program, c->options.script, c->options.job, err);
  if (!c->identity) return NULL;
  if (!c->tick.fire) c->tick = (mt_timer){.fire = tick, .ctx = c};
  if (mt_timer_reserve(c->loop, &c->tick, err)) return NULL;
  c->lost = (mt_post){.run = wake_lost, .ctx = c};
  const mt_manager_config config = {
      .ns = c->options.ns,
      .session = {c->identity->json, c->options.lease_ms, c->options.margin_ms},
      .wait_ms = c->options.wait_ms,
      .inherits = inherits,
      .heartbeat = heartbeat,
      .known_dead = known_dead,
      .nudge = nudge,
      .notice = c->options.notice ? notice : NULL,
      .due_changed = due_changed,
      .ctx = c,
  };
  c->manager = mt_manager_new(c->store, mt_env_system(), &config, err);
  if (!c->manager || !start_looking(c, err)) return c->manager;
  mt_manager_free(c->manager);
  c->manager = NULL;
  return NULL;
}

/* ---- Closing -------------------------------------------------------------------------------- */

void mt_client_close(mortise_client *c, void (*done)(void *ctx), void *ctx) {
  if (!c->manager || forked(c, NULL)) {
    done(ctx);
    return;
  }
  int64_t now = mt_loop_now(c->loop);
  mt_manager_close(c->manager, now + c->options.request_ms, done, ctx);
}

void mortise_client_free(mortise_client *c) {
  if (!c || forked(c, NULL)) return;
  bool closed = false;
  mt_client_close(c, mt_flag_set, &closed);
  mt_loop_pump(c->loop, &closed, -1, NULL);
  mt_client_free(c);
}

/* ---- The synchronous face ------------------------------------------------------------------- */

static mortise_status is_null(const char *what, mortise_error *err) {
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the %s is NULL", what);
}

mortise_status mortise_client_init_tables(mortise_client *c, mortise_error *err) {
  if (!c) return is_null("client", err);
  if (forked(c, err)) return MORTISE_INVALID_ARGUMENT;
  mt_locks_admin init = {0};
  c->store->locks->init(c->store, &init);
  mortise_status status = mt_store_wait(c->store, &init.req, -1);
  if (err) *err = init.req.error;
  mt_locks_admin_deinit(&init);
  return status;
}

static void link_lock(mortise_lock *lock) {
  mortise_client *c = lock->client;
  lock->next = c->locks;
  if (lock->next) lock->next->before = lock;
  c->locks = lock;
}

static void unlink_lock(mortise_lock *lock) {
  if (lock->next) lock->next->before = lock->before;
  *(lock->before ? &lock->before->next : &lock->client->locks) = lock->next;
}

mortise_lock *mortise_lock_acquire(mortise_client *c, const mortise_lock_request *request,
                                   mortise_blockers *blockers, mortise_error *err) {
  mt_wants wants;
  if (blockers) *blockers = (mortise_blockers){0};
  if (!c) {
    is_null("client", err);
    return NULL;
  }
  if (forked(c, err)) return NULL;
  mortise_lock *lock = mt_calloc(1, sizeof *lock);
  mt_manager *m = mt_client_manager(c, err);
  if (!lock || !m || mt_wants_make(request, &wants, err)) {
    if (!lock) mt_error_memory(err);
    mt_free(lock);
    return NULL;
  }
  mt_acquire a = {.wants = wants.wants,
                  .n = wants.n,
                  .wait_ms = request->wait_ms,
                  .blocks_siblings = true,
                  .blockers = blockers};
  mt_manager_acquire(m, &a);
  if (mt_loop_pump(c->loop, &a.finished, -1, &a.error)) mt_manager_cancel(m, &a);
  mt_wants_deinit(&wants);
  lock->client = c;
  lock->lock = a.lock;
  if (err) *err = a.error;
  if (a.lock) {
    link_lock(lock);
    return lock;
  }
  mt_free(lock);
  return NULL;
}

mortise_status mortise_lock_convert(mortise_lock *lock, mortise_lock_mode mode, int64_t wait_ms,
                                    mortise_blockers *blockers, mortise_error *err) {
  if (blockers) *blockers = (mortise_blockers){0};
  if (!lock) return is_null("lock", err);
  mortise_status bad = mt_wants_check(mode, wait_ms, err);
  if (bad) return bad;
  if (forked(lock->client, err)) return MORTISE_INVALID_ARGUMENT;
  mt_convert c = {.lock = lock->lock,
                  .mode = mt_wants_mode(mode),
                  .wait_ms = wait_ms,
                  .blocks_siblings = true,
                  .blockers = blockers};
  mt_manager *m = lock->client->manager;
  mt_manager_convert(m, &c);
  if (mt_loop_pump(lock->client->loop, &c.finished, -1, &c.error)) mt_manager_convert_cancel(m, &c);
  if (err) *err = c.error;
  return c.error.code;
}

mortise_status mortise_lock_release(mortise_lock *lock, mortise_error *err) {
  mt_error_clear(err);
  if (!lock) return MORTISE_OK;
  if (forked(lock->client, NULL)) return mt_lock_check(lock->lock, err);
  mt_release r = {.lock = lock->lock};
  mt_manager *m = lock->client->manager;
  mt_loop *loop = lock->client->loop;
  mt_manager_release(m, &r);
  unlink_lock(lock);
  mt_free(lock);
  if (mt_loop_pump(loop, &r.finished, -1, &r.error)) mt_manager_release_forget(m, &r);
  if (err) *err = r.error;
  return r.error.code;
}

mortise_status mortise_lock_check(const mortise_lock *lock, mortise_error *err) {
  return lock ? mt_lock_check(lock->lock, err) : is_null("lock", err);
}

int64_t mortise_lock_remaining_ms(const mortise_lock *lock) {
  return lock ? mt_lock_remaining_ms(lock->lock) : 0;
}

uint64_t mortise_lock_fence(const mortise_lock *lock) {
  return lock ? mt_lock_fence(lock->lock) : 0;
}

const char *mortise_version(void) {
  return MORTISE_VERSION;
}
