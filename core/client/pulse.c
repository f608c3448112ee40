#include "client/pulse.h"

#include "base/mem.h"
#include "base/process.h"
#include "base/thread.h"
#include "client/pool.h"

/* The thread. */
typedef struct mt_heart {
  unsigned process;
  size_t users; /* pulses, and those that are being started; guarded by `mutex` */
  pthread_t thread;
  mt_loop *loop;
  mt_pool stores;
  bool stop;
} mt_heart;

struct mt_pulse {
  mt_heart *heart;
  mt_pulse_config config;
  mt_session *session;
  mt_heartbeat beat;
  mt_store *store;
  mt_timer timer;
  mt_post nudge;
  const mt_env *env;
  bool told; /* that the session is dead */
};

/* ---- The thread ----------------------------------------------------------------------------- */

/* It is held for a few instructions, and over a fork, so that a child finds it free. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mt_heart *current;   /* NULL: none runs */
static mt_heart *forked_from; /* in a child: its parent's, which it must leave alone */
static pthread_once_t watching = PTHREAD_ONCE_INIT;

static void before_fork(void) {
  pthread_mutex_lock(&mutex);
}

static void after_fork(void) {
  pthread_mutex_unlock(&mutex);
}

static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork, after_fork); /* fails only without memory */
}

static void *beat_hearts(void *ctx) {
  mt_heart *h = ctx;
  /* After a failed step retry a little later; the deadlines end this. */
  while (!h->stop)
    if (mt_loop_step(h->loop, -1, NULL)) mt_loop_step(h->loop, 100, NULL);
  return NULL;
}

static void free_heart(mt_heart *h) {
  mt_loop_free(h->loop);
  mt_free(h);
}

static mt_heart *new_heart(mortise_error *err) {
  mt_heart *h = mt_calloc(1, sizeof *h);
  if (!h) {
    mt_error_memory(err);
    return NULL;
  }
  h->process = mt_process_number();
  h->users = 1;
  h->loop = mt_loop_new(err);
  if (h->loop) {
    h->stores = (mt_pool){.loop = h->loop, .again = true};
    if (!mt_thread_start(&h->thread, beat_hearts, h)) return h;
    mt_error_set(err, MORTISE_UNAVAILABLE, "the heartbeat's thread could not be started");
  }
  free_heart(h);
  return NULL;
}

/* NULL: none runs. */
static mt_heart *join_heart(void) {
  pthread_mutex_lock(&mutex);
  if (current && current->process != mt_process_number()) {
    forked_from = current;
    current = NULL;
  }
  mt_heart *h = current;
  if (h) h->users++;
  pthread_mutex_unlock(&mutex);
  return h;
}

/* The one that runs, which may be another thread's by now. */
static mt_heart *offer_heart(mt_heart *h) {
  pthread_mutex_lock(&mutex);
  if (current)
    current->users++;
  else
    current = h;
  mt_heart *taken = current;
  pthread_mutex_unlock(&mutex);
  return taken;
}

static void stop_heart(void *ctx) {
  ((mt_heart *)ctx)->stop = true;
}

static void end_heart(mt_heart *h) {
  mt_post stop = {.run = stop_heart, .ctx = h};
  mt_loop_post(h->loop, &stop);
  pthread_join(h->thread, NULL);
  free_heart(h);
}

static mt_heart *take_heart(mortise_error *err) {
  pthread_once(&watching, watch_forks);
  mt_heart *h = join_heart();
  if (h) return h;
  mt_heart *mine = new_heart(err);
  if (!mine) return NULL;
  h = offer_heart(mine);
  if (h != mine) end_heart(mine);
  return h;
}

static void leave_heart(mt_heart *h) {
  pthread_mutex_lock(&mutex);
  bool last = --h->users == 0;
  if (last) current = NULL;
  pthread_mutex_unlock(&mutex);
  if (last) end_heart(h);
}

/* ---- Asking the thread ---------------------------------------------------------------------- */

typedef struct mt_heart_call {
  mt_pulse *pulse;
  bool (*run)(mt_pulse *p, mortise_error *err);
  mortise_error *err;
  pthread_mutex_t mutex;
  pthread_cond_t over;
  bool done, good;
} mt_heart_call;

static void carry_out(void *ctx) {
  mt_heart_call *c = ctx;
  bool good = c->run(c->pulse, c->err);
  pthread_mutex_lock(&c->mutex);
  c->good = good;
  c->done = true;
  pthread_cond_signal(&c->over);
  pthread_mutex_unlock(&c->mutex);
}

/* Waits until the thread has carried it out, which never waits itself. */
static bool in_heart(mt_pulse *p, bool (*run)(mt_pulse *p, mortise_error *err), mortise_error *err) {
  mt_heart_call c = {.pulse = p, .run = run, .err = err};
  mt_post post = {.run = carry_out, .ctx = &c};
  pthread_mutex_init(&c.mutex, NULL); /* neither can fail with default attributes */
  pthread_cond_init(&c.over, NULL);
  mt_loop_post(p->heart->loop, &post);
  pthread_mutex_lock(&c.mutex);
  while (!c.done) pthread_cond_wait(&c.over, &c.mutex);
  pthread_mutex_unlock(&c.mutex);
  pthread_cond_destroy(&c.over);
  pthread_mutex_destroy(&c.mutex);
  return c.good;
}

/* ---- A pulse, in the thread ------------------------------------------------------------------ */

/* The timer's memory is reserved. */
static void arm_pulse(mt_pulse *p) {
  int64_t due = mt_heartbeat_due(&p->beat), deadline = atomic_load(&p->session->deadline_ms);
  if (p->told)
    mt_timer_stop(p->heart->loop, &p->timer);
  else
    mt_timer_start(p->heart->loop, &p->timer, due < deadline ? due : deadline, NULL);
}

static void on_pulse(void *ctx) {
  mt_pulse *p = ctx;
  mt_heartbeat_tick(&p->beat);
  if (!p->told && mt_session_dead(p->session, p->env->now_ms(p->env->ctx))) {
    p->told = true;
    p->config.lost(p->config.ctx);
  }
  arm_pulse(p);
}

static void end_pulse(mt_pulse *p) {
  mt_heartbeat_deinit(&p->beat);
  mt_loop_unpost(p->heart->loop, &p->nudge);
  mt_timer_release(p->heart->loop, &p->timer);
  mt_pool_put(&p->heart->stores, p->store);
}

static bool begin_pulse(mt_pulse *p, mortise_error *err) {
  p->store = mt_pool_get(&p->heart->stores, p->config.options, err);
  if (!p->store || mt_timer_reserve(p->heart->loop, &p->timer, err)) {
    end_pulse(p);
    return false;
  }
  mt_heartbeat_init(&p->beat, p->session, p->store, p->env);
  p->beat.answered = on_pulse;
  p->beat.ctx = p;
  on_pulse(p);
  return true;
}

static bool finish_pulse(mt_pulse *p, mortise_error *err) {
  (void)err;
  end_pulse(p);
  return true;
}

/* ---- A pulse, from its session ---------------------------------------------------------------- */

mt_pulse *mt_pulse_start(mt_session *session, const mt_pulse_config *config, const mt_env *env,
                         mortise_error *err) {
  mt_pulse *p = mt_calloc(1, sizeof *p);
  if (!p) {
    mt_error_memory(err);
    return NULL;
  }
  *p = (mt_pulse){.config = *config, .session = session, .env = env};
  p->timer = (mt_timer){.fire = on_pulse, .ctx = p};
  p->nudge = (mt_post){.run = on_pulse, .ctx = p};
  p->heart = take_heart(err);
  if (p->heart && in_heart(p, begin_pulse, err)) {
    p->config.options = NULL;
    return p;
  }
  if (p->heart) leave_heart(p->heart);
  mt_free(p);
  return NULL;
}

void mt_pulse_nudge(mt_pulse *p) {
  if (p) mt_loop_post(p->heart->loop, &p->nudge);
}

void mt_pulse_stop(mt_pulse *p) {
  if (!p) return;
  in_heart(p, finish_pulse, NULL);
  leave_heart(p->heart);
  mt_free(p);
}
