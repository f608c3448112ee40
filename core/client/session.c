#include "client/session.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "client/identity.h"
#include "client/pulse.h"

/* ---- Ticks ---------------------------------------------------------------------------------- */

/* The timer's memory is reserved, so starting it cannot fail: without a tick no notice would be
 * given. */
static void arm_session(mt_client_session *s) {
  mt_loop *loop = s->base->loop;
  int64_t due = mt_manager_due(s->manager);
  if (due == INT64_MAX)
    mt_timer_stop(loop, &s->tick);
  else if (!s->tick.slot || s->tick.at_ms != due)
    mt_timer_start(loop, &s->tick, due, NULL);
}

/* When the manager finds the session dead, it stops the heartbeat, so only this reports the
 * loss. */
static void tell_if_lost(mt_client_session *s) {
  const mt_env *env = mt_env_system();
  const mt_client_hooks *hooks = s->base->hooks;
  mt_session *session = mt_manager_session(s->manager);
  if (session && hooks->lost && mt_session_dead(session, env->now_ms(env->ctx)))
    hooks->lost(hooks->ctx);
}

static void on_session_tick(void *ctx) {
  mt_client_session *s = ctx;
  tell_if_lost(s);
  mt_manager_tick(s->manager);
  arm_session(s);
}

static void due_changed(void *ctx) {
  mt_client_session *s = ctx;
  if (s->manager) arm_session(s);
}

/* ---- Hints ---------------------------------------------------------------------------------- */

static void hint_heard(void *ctx, const mt_hint *hint) {
  mt_client_session *s = ctx;
  mt_manager_hinted(s->manager, hint);
}

static bool send_hint_by_socket(void *ctx, const mt_hint *hint) {
  return mt_hint_socket_send(((mt_client_session *)ctx)->base->shared->hints, hint);
}

static void stop_listening(mt_client_session *s) {
  if (s->hearer.session) mt_shared_stop_listening(s->base->shared, &s->hearer);
  s->hearer.session = NULL;
}

/* ---- The heartbeat -------------------------------------------------------------------------- */

static void pulse_lost(void *ctx) {
  mt_client_session *s = ctx;
  const mt_client_hooks *hooks = s->base->hooks;
  mt_loop_post(s->base->loop, &s->lost);
  if (hooks->lost) hooks->lost(hooks->ctx);
}

static mortise_status heartbeat(void *ctx, bool start, mt_session *session, mortise_error *err) {
  mt_client_session *s = ctx;
  mt_pulse_stop(s->pulse);
  s->pulse = NULL;
  stop_listening(s);
  if (!start) return MORTISE_OK;
  const mt_pulse_config config = {s->base->options, pulse_lost, s};
  s->pulse = mt_pulse_start(session, &config, mt_env_system(), err);
  if (!s->pulse) return MORTISE_UNAVAILABLE;
  s->hearer = (mt_hearer){session->id, hint_heard, s};
  if (!s->base->options->no_hints) mt_shared_listen(s->base->shared, &s->hearer);
  return MORTISE_OK;
}

static void nudge(void *ctx) {
  mt_pulse_nudge(((mt_client_session *)ctx)->pulse);
}

/* ---- What the manager asks ------------------------------------------------------------------ */

static bool inherits_by_hooks(void *ctx, uint64_t holder, uint64_t task) {
  const mt_client_hooks *hooks = ((mt_client_session *)ctx)->base->hooks;
  return hooks->inherits && hooks->inherits(hooks->ctx, holder, task);
}

static bool session_knows_dead(void *ctx, const char *owner_json) {
  return mt_identity_gone(((mt_client_session *)ctx)->base->identity, owner_json);
}

/* Each manager numbers its own waits. */
static void notice(void *ctx, const mortise_notice *n) {
  const mt_client_session *s = ctx;
  const mortise_options *o = s->base->options;
  mortise_notice copy = *n;
  copy.wait |= s->number << 40;
  o->notice(o->notice_ctx, &copy);
}

/* ---- Making and ending ---------------------------------------------------------------------- */

static mt_manager *new_manager(mt_client_session *s, const char *job, mortise_error *err) {
  const mortise_options *o = s->base->options;
  const mt_manager_config config = {
      .ns = o->ns,
      .job = s->guards ? job : NULL,
      .session = {s->owner, o->lease_ms, o->margin_ms, s->base->shared->address},
      .wait_ms = o->wait_ms,
      .inherits = inherits_by_hooks,
      .heartbeat = heartbeat,
      .known_dead = session_knows_dead,
      .nudge = nudge,
      .notice = o->notice ? notice : NULL,
      .hint = send_hint_by_socket,
      .due_changed = due_changed,
      .ctx = s,
  };
  return mt_manager_new(s->base->store, mt_env_system(), &config, err);
}

/* The id is in every entry of the job, and is shown within lines of messages. */
static mortise_status check_session_job(const char *job, mortise_error *err) {
  mt_slice s = mt_slice_of(job);
  bool good = s.n > 0 && s.n <= MORTISE_JOB_MAX && mt_utf8_valid(s) == s.n;
  for (size_t i = 0; good && i < s.n; i++) good = !mt_utf8_command(s.p + i, s.n - i);
  if (good) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                      "a job's id is 1 to %d bytes of UTF-8 without control characters",
                      MORTISE_JOB_MAX);
}

static bool make_session(mt_client_session *s, const char *job, mortise_error *err) {
  const mt_session_base *base = s->base;
  const mortise_options *o = base->options;
  s->owner = mt_identity_owner(base->identity, o->program, o->script, job ? job : o->job, err);
  if (!s->owner || mt_timer_reserve(base->loop, &s->tick, err)) return false;
  s->manager = new_manager(s, job, err);
  return s->manager != NULL;
}

mt_client_session *mt_client_session_make(const mt_session_base *base, uint64_t number,
                                          const char *job, mortise_error *err) {
  if (job && check_session_job(job, err)) return NULL;
  mt_client_session *s = mt_calloc(1, sizeof *s);
  if (!s) {
    mt_error_memory(err);
    return NULL;
  }
  *s = (mt_client_session){.base = base, .number = number, .guards = job};
  s->tick = (mt_timer){.fire = on_session_tick, .ctx = s};
  s->lost = (mt_post){.run = on_session_tick, .ctx = s};
  if (make_session(s, job, err)) return s;
  mt_client_session_free(s);
  return NULL;
}

static void finished(void *ctx) {
  mt_client_session *s = ctx;
  const mt_session_base *base = s->base;
  s->closed = true;
  if (s->done) s->done(s->ctx);
  base->closed(base->ctx);
}

void mt_client_session_close(mt_client_session *s, bool keep_guard, void (*done)(void *ctx),
                             void *ctx) {
  s->closing = true;
  s->done = done;
  s->ctx = ctx;
  int64_t deadline = mt_loop_now(s->base->loop) + s->base->options->request_ms;
  if (keep_guard && s->guards)
    mt_manager_leave(s->manager, deadline, finished, s);
  else
    mt_manager_close(s->manager, deadline, finished, s);
}

void mt_client_session_forget(mt_client_session *s) {
  s->done = NULL;
}

void mt_client_session_free(mt_client_session *s) {
  if (!s) return;
  mt_manager_free(s->manager);
  mt_pulse_stop(s->pulse);
  stop_listening(s);
  mt_timer_release(s->base->loop, &s->tick);
  mt_loop_unpost(s->base->loop, &s->lost);
  mt_free(s->owner);
  mt_free(s);
}

/* ---- What it says --------------------------------------------------------------------------- */

int64_t mt_client_session_asked_ms(const mt_client_session *s, int64_t now) {
  mt_session *session = mt_manager_session(s->manager);
  int64_t locks = mt_manager_asked_ms(s->manager);
  int64_t beat = session && !mt_session_dead(session, now) ? atomic_load(&session->asked_ms) : 0;
  return locks && (!beat || locks < beat) ? locks : beat;
}

int64_t mt_client_session_left_ms(const mt_client_session *s, int64_t now) {
  mt_session *session = mt_manager_session(s->manager);
  int64_t deadline = session ? atomic_load(&session->deadline_ms) : 0;
  if (!deadline) return -1;
  return deadline > now ? deadline - now : 0;
}
