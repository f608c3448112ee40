#include "client/pulse.h"

#include "base/mem.h"
#include "base/thread.h"

struct mt_pulse {
  mt_pulse_config config;
  const mt_env *env;
  mt_session *session;
  mt_loop *loop;
  mt_store *store;
  mt_heartbeat heart;
  pthread_t thread;
  _Atomic bool stop;
};

static void *beat(void *ctx) {
  mt_pulse *p = ctx;
  bool told = false;
  while (!atomic_load(&p->stop)) {
    mt_heartbeat_tick(&p->heart);
    int64_t now = p->env->now_ms(p->env->ctx);
    bool dead = mt_session_dead(p->session, now);
    if (dead && !told && p->config.lost) p->config.lost(p->config.ctx);
    told |= dead;
    int64_t due = mt_heartbeat_due(&p->heart);
    int64_t deadline = atomic_load(&p->session->deadline_ms);
    if (deadline < due) due = deadline;
    int64_t wait = dead ? -1 : due > now ? due - now : 0;
    /* After a failed step retry a little later; the deadline ends this. */
    if (mt_loop_step(p->loop, wait, NULL)) mt_loop_step(p->loop, 100, NULL);
  }
  return NULL;
}

static void pulse_free(mt_pulse *p) {
  mt_heartbeat_deinit(&p->heart);
  mt_store_close(p->store);
  mt_loop_free(p->loop);
  mt_free(p);
}

mt_pulse *mt_pulse_start(mt_session *session, const mt_pulse_config *config, const mt_env *env,
                         mortise_error *err) {
  mt_pulse *p = mt_calloc(1, sizeof *p);
  if (!p) {
    mt_error_memory(err);
    return NULL;
  }
  p->config = *config;
  p->env = env;
  p->session = session;
  p->loop = mt_loop_new(err);
  p->store = p->loop ? config->open_store(config->ctx, p->loop, err) : NULL;
  if (p->store) {
    mt_heartbeat_init(&p->heart, session, p->store, env);
    if (!mt_thread_start(&p->thread, beat, p)) return p;
    mt_error_set(err, MORTISE_UNAVAILABLE, "the heartbeat's thread could not be started");
  }
  pulse_free(p);
  return NULL;
}

void mt_pulse_nudge(mt_pulse *p) {
  if (p) mt_loop_wake(p->loop);
}

void mt_pulse_stop(mt_pulse *p) {
  if (!p) return;
  atomic_store(&p->stop, true);
  mt_loop_wake(p->loop);
  pthread_join(p->thread, NULL);
  pulse_free(p);
}
