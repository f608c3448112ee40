#include "client/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/identity.h"
#include "client/options.h"

static char *name_jobs(const char *table) {
  mt_buf name;
  mt_buf_init(&name, 1024);
  mt_buf_addf(&name, "%s-jobs", table);
  char *text = mt_buf_take(&name, NULL);
  mt_buf_deinit(&name);
  return text;
}

/* ---- Opening and freeing -------------------------------------------------------------------- */

static bool join_loop(mortise_client *c, mt_loop *loop, mortise_error *err) {
  mortise_loop *given = loop ? NULL : c->options.loop;
  if (given && mt_shared_check(given, "the loop", err)) return false;
  c->alone = given ? NULL : mt_shared_new(loop, err);
  c->shared = given ? given : c->alone;
  if (!c->shared) return false;
  c->loop = c->shared->loop;
  c->beside = c->shared->clients;
  c->shared->clients = c;
  return true;
}

static void leave_loop(mortise_client *c) {
  if (!c->shared) return;
  mortise_client **link = &c->shared->clients;
  while (*link != c) link = &(*link)->beside;
  *link = c->beside;
  mt_shared_free(c->alone);
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
  if (hooks)
    c->hooks = *hooks;
  else
    mt_client_hook(c);
  if (c->options.margin_ms < 0) c->options.margin_ms = mt_margin_default(c->options.lease_ms);
  c->store = join_loop(c, loop, err) ? mt_pool_get(&c->shared->stores, &c->options, err) : NULL;
  if (c->store) return c;
  mt_client_free(c);
  return NULL;
}

static void free_sessions(mortise_client *c) {
  while (c->sessions) {
    mt_client_session *s = c->sessions;
    c->sessions = s->next;
    mt_client_session_free(s);
  }
}

static bool is_forked(const mortise_client *c) {
  return c->shared && mt_shared_check(c->shared, "the client", NULL);
}

void mt_client_free(mortise_client *c) {
  if (!c || is_forked(c)) return;
  mt_client_end_ops(c);
  free_sessions(c);
  if (c->loop) mt_timer_stop(c->loop, &c->look);
  if (c->loop) mt_loop_unpost(c->loop, &c->lost);
  if (c->loop) mt_loop_unpost(c->loop, &c->end);
  mt_identity_free(c->base.identity);
  if (c->shared) mt_pool_put(&c->shared->stores, c->store);
  leave_loop(c);
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

static void session_closed(void *ctx);

/* The identity of this process is determined at first use. */
static bool make_base(mortise_client *c, mortise_error *err) {
  const mortise_options *o = &c->options;
  if (c->base.identity) return true;
  c->base = (mt_session_base){.shared = c->shared,
                              .loop = c->loop,
                              .store = c->store,
                              .options = o,
                              .hooks = &c->hooks,
                              .identity = mt_identity_new(o->program, o->script, o->job, err),
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
  if (is_forked(c)) {
    done(ctx);
    return;
  }
  for (mt_client_session *s = c->sessions; s; s = s->next)
    if (!s->closing) mt_client_session_close(s, true, NULL, NULL);
  c->closed = done;
  c->closed_ctx = ctx;
  session_closed(c);
}
