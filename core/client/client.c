#include "client/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/pump.h"
#include "client/identity.h"
#include "client/options.h"
#include "elastic/elastic.h"
#include "job/record.h"
#include "sqlite/sqlite.h"

/* ---- The store ------------------------------------------------------------------------------ */

static mt_store *open_store(const mortise_options *o, mt_loop *loop, const mt_log *log, bool again,
                            mortise_error *err) {
  if (strncmp(o->store, "sqlite:", 7) == 0) {
    if (!o->store[7]) {
      mt_error_set(err, MORTISE_INVALID_ARGUMENT, "store: `sqlite:` names no file");
      return NULL;
    }
    mt_store *store =
        again ? mt_sqlite_open_again(loop, o->store + 7, o->request_ms, log, err)
              : mt_sqlite_open(loop, o->store + 7, o->request_ms, log, err);
    if (!store && err && err->code == MORTISE_INVALID_ARGUMENT) mt_error_prefix(err, "store");
    return store;
  }
  if (strncmp(o->store, "http://", 7) && strncmp(o->store, "https://", 8) && strncmp(o->store, "cloud:", 6)) {
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
      .api_key_command = o->api_key_command,
      .bearer_command = o->bearer_command,
      .aws = o->aws,
      .aws_region = o->aws_region,
      .ca_file = o->ca_file,
      .cert_file = o->cert_file,
      .key_file = o->key_file,
      .insecure = o->insecure,
      .proxy = o->proxy,
      .unix_socket = o->unix_socket,
      .connect_ms = o->connect_ms,
      .request_ms = o->request_ms,
      .answer_max = o->answer_max,
      .gzip_min = 8192,
  };
  return mt_elastic_open(loop, &config, o->table, log, err);
}

/* A forked child must leave the parent's client alone, even its memory: threads that do not exist
 * here may hold its mutexes, and an orderly close would close things for the parent. */
static bool client_is_forked(const mortise_client *c, mortise_error *err) {
  if (c->process == mt_process_number()) return false;
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the client cannot be used: %s", mt_process_forked);
  return true;
}

static char *name_jobs(const char *table) {
  mt_buf name;
  mt_buf_init(&name, 1024);
  mt_buf_addf(&name, "%s-jobs", table);
  char *text = mt_buf_take(&name, NULL);
  mt_buf_deinit(&name);
  return text;
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
  if (c && mt_client_options_copy(&c->options, options)) c->jobs = name_jobs(c->options.table);
  if (!c || !c->jobs) {
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
  c->store = c->loop ? open_store(&c->options, c->loop, &c->log, false, err) : NULL;
  if (c->store) return c;
  mt_client_free(c);
  return NULL;
}

mortise_client *mortise_client_open(const mortise_options *options, mortise_error *err) {
  mortise_options taken;
  return mt_client_options_take(&taken, options, err) ? NULL : mt_client_open(&taken, NULL, NULL, err);
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

static void free_sessions(mortise_client *c) {
  while (c->sessions) {
    mt_client_session *s = c->sessions;
    c->sessions = s->next;
    mt_client_session_free(s);
  }
}

void mt_client_free(mortise_client *c) {
  if (!c || client_is_forked(c, NULL)) return;
  free_locks(c);
  free_sessions(c);
  if (c->loop) mt_timer_stop(c->loop, &c->look);
  mt_store_close(c->store);
  mt_identity_free(c->base.identity);
  mt_loop_free(c->own_loop);
  mt_client_options_deinit(&c->options);
  mt_free(c->jobs);
  mt_free(c);
}

const mortise_options *mt_client_options(const mortise_client *c) {
  return &c->options;
}

/* ---- Telling of what takes long -------------------------------------------------------------- */

enum { LOOK_MS = 1000 };

static int64_t asked_since(const mortise_client *c, int64_t now) {
  int64_t first = 0;
  for (mt_client_session *s = c->sessions; s; s = s->next) {
    int64_t since = mt_client_session_asked_ms(s, now);
    if (since && (!first || since < first)) first = since;
  }
  return first;
}

static int64_t lease_left(const mortise_client *c, int64_t now) {
  int64_t least = -1;
  for (mt_client_session *s = c->sessions; s; s = s->next) {
    int64_t left = mt_client_session_left_ms(s, now);
    if (left >= 0 && (least < 0 || left < least)) least = left;
  }
  return least;
}

static void look_for_answers(void *ctx) {
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

static mortise_status start_look(mortise_client *c, mortise_error *err) {
  if (!c->options.notice || c->look.fire) return MORTISE_OK;
  c->look = (mt_timer){.fire = look_for_answers, .ctx = c};
  mortise_status status = mt_timer_start(c->loop, &c->look, mt_loop_now(c->loop) + LOOK_MS, err);
  if (status) c->look.fire = NULL;
  return status;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static mt_store *open_another(void *ctx, mt_loop *loop, mortise_error *err) {
  const mortise_client *c = ctx;
  return open_store(&c->options, loop, &c->log, true, err);
}

static void session_closed(void *ctx);

/* The identity of this process is determined at first use. */
static bool make_base(mortise_client *c, mortise_error *err) {
  const mortise_options *o = &c->options;
  if (c->base.identity) return true;
  c->base = (mt_session_base){.loop = c->loop,
                              .store = c->store,
                              .options = o,
                              .hooks = &c->hooks,
                              .identity = mt_identity_new(o->program, o->script, o->job, err),
                              .open_store = open_another,
                              .closed = session_closed,
                              .ctx = c};
  return c->base.identity;
}

mt_client_session *mt_client_session_new(mortise_client *c, const char *job, mortise_error *err) {
  if (!make_base(c, err) || start_look(c, err)) return NULL;
  mt_client_session *s = mt_client_session_make(&c->base, c->last_session, job, err);
  if (!s) return NULL;
  c->last_session++;
  s->next = c->sessions;
  c->sessions = s;
  return s;
}

void mt_client_sweep(mortise_client *c) {
  for (mt_client_session **link = &c->sessions; *link;) {
    mt_client_session *s = *link;
    if (!s->closed || s == c->own) {
      link = &s->next;
      continue;
    }
    *link = s->next;
    mt_client_session_free(s);
  }
}

mt_manager *mt_client_manager(mortise_client *c, mortise_error *err) {
  if (!c->own) c->own = mt_client_session_new(c, NULL, err);
  return c->own ? c->own->manager : NULL;
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void session_closed(void *ctx) {
  mortise_client *c = ctx;
  if (!c->closed) return;
  for (const mt_client_session *s = c->sessions; s; s = s->next)
    if (!s->closed) return;
  void (*closed)(void *ctx) = c->closed;
  c->closed = NULL;
  closed(c->closed_ctx);
}

void mt_client_close(mortise_client *c, void (*done)(void *ctx), void *ctx) {
  if (client_is_forked(c, NULL)) {
    done(ctx);
    return;
  }
  for (mt_client_session *s = c->sessions; s; s = s->next)
    if (!s->closing) mt_client_session_close(s, true, NULL, NULL);
  c->closed = done;
  c->closed_ctx = ctx;
  session_closed(c);
}

void mortise_client_free(mortise_client *c) {
  if (!c || client_is_forked(c, NULL)) return;
  bool closed = false;
  mt_client_close(c, mt_flag_set, &closed);
  mt_loop_pump(c->loop, &closed, -1, NULL);
  mt_client_free(c);
}

/* ---- The synchronous face ------------------------------------------------------------------- */

static mortise_status is_null(const char *what, mortise_error *err) {
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the %s is NULL", what);
}

/* The index that holds jobs; there already is fine. */
static mortise_status init_jobs(mortise_client *c, mortise_error *err) {
  mt_index_admin create = {.index = c->jobs, .body = mt_job_table()};
  c->store->docs->index_create(c->store, &create);
  mortise_status status = mt_store_wait(c->store, &create.req, -1);
  if (status == MORTISE_CONFLICT) return MORTISE_OK;
  if (err) *err = create.req.error;
  return status;
}

mortise_status mortise_client_init_tables(mortise_client *c, uint32_t stripes, mortise_error *err) {
  if (!c) return is_null("client", err);
  if (client_is_forked(c, err)) return MORTISE_INVALID_ARGUMENT;
  mt_locks_admin init = {.wanted = stripes};
  c->store->locks->init(c->store, &init);
  mortise_status status = mt_store_wait(c->store, &init.req, -1);
  if (err) *err = init.req.error;
  mt_locks_admin_deinit(&init);
  return status ? status : init_jobs(c, err);
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
  mortise_lock_request taken;
  if (blockers) *blockers = (mortise_blockers){0};
  if (!c) {
    is_null("client", err);
    return NULL;
  }
  if (client_is_forked(c, err) || mt_client_request_take(&taken, request, err)) return NULL;
  mortise_lock *lock = mt_calloc(1, sizeof *lock);
  mt_manager *m = mt_client_manager(c, err);
  if (!lock || !m || mt_wants_make(&taken, &wants, err)) {
    if (!lock) mt_error_memory(err);
    mt_free(lock);
    return NULL;
  }
  mt_acquire a = {.wants = wants.wants,
                  .n = wants.n,
                  .wait_ms = taken.wait_ms,
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
  if (client_is_forked(lock->client, err)) return MORTISE_INVALID_ARGUMENT;
  mt_convert c = {.lock = lock->lock,
                  .mode = mt_wants_mode(mode),
                  .wait_ms = wait_ms,
                  .blocks_siblings = true,
                  .blockers = blockers};
  mt_manager *m = mt_lock_manager(lock->lock);
  mt_manager_convert(m, &c);
  if (mt_loop_pump(lock->client->loop, &c.finished, -1, &c.error)) mt_manager_convert_cancel(m, &c);
  if (err) *err = c.error;
  return c.error.code;
}

mortise_status mortise_lock_release(mortise_lock *lock, mortise_error *err) {
  mt_error_clear(err);
  if (!lock) return MORTISE_OK;
  if (client_is_forked(lock->client, NULL)) return mt_lock_check(lock->lock, err);
  mt_release r = {.lock = lock->lock};
  mt_manager *m = mt_lock_manager(lock->lock);
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

int mortise_version_number(void) {
  return MORTISE_VERSION_NUMBER;
}

const char *mortise_version(void) {
  return MORTISE_VERSION;
}
