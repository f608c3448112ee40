/* base/loop.h in virtual time: each process has a loop, whose timers are events of the one world. While its
 * process is stopped they wait, and when it is gone they never fire. */
#include "jobs.h"

#include <stdlib.h>

typedef struct alarm {
  mt_loop *loop;   /* NULL: stopped */
  mt_timer *timer; /* of the two, one */
  mt_post *post;
  struct alarm *next;
} alarm;

struct mt_loop {
  jobs_process *process;
  alarm *alarms; /* all that were ever set, freed with it; those that the world still has, later */
};

mt_loop *jobs_loop_new(jobs_process *process) {
  mt_loop *loop = sim_must(calloc(1, sizeof *loop));
  loop->process = process;
  return loop;
}

/* The world may still have it: it is freed when it comes. */
void mt_loop_free(mt_loop *loop) {
  for (alarm *a = loop->alarms; a; a = a->next) {
    if (a->timer) a->timer->slot = 0;
    if (a->post) a->post->next = NULL;
    a->loop = NULL;
  }
  free(loop);
}

static void forget(alarm *a) {
  alarm **at = &a->loop->alarms;
  while (*at != a) at = &(*at)->next;
  *at = a->next;
  a->loop = NULL;
}

static void ring(void *ctx) {
  alarm *a = ctx;
  if (a->loop && jobs_held_up(a->loop->process, ring, a)) return;
  mt_timer *timer = a->timer;
  mt_post post = a->post ? *a->post : (mt_post){0};
  if (a->loop) {
    if (timer) timer->slot = 0;
    if (a->post) a->post->next = NULL;
    forget(a);
    free(a);
    if (timer)
      timer->fire(timer->ctx);
    else
      post.run(post.ctx);
  } else {
    free(a);
  }
}

static alarm *set(mt_loop *loop, int64_t at_ms) {
  alarm *a = sim_must(calloc(1, sizeof *a));
  *a = (alarm){.loop = loop, .next = loop->alarms};
  loop->alarms = a;
  sim_at(loop->process->sim->w, at_ms, ring, a);
  return a;
}

int64_t mt_loop_now(mt_loop *loop) {
  return sim_now(loop->process->sim->w);
}

mortise_status mt_timer_start(mt_loop *loop, mt_timer *timer, int64_t at_ms, mortise_error *err) {
  (void)err;
  mt_timer_stop(loop, timer);
  alarm *a = set(loop, at_ms);
  a->timer = timer;
  timer->at_ms = at_ms;
  timer->slot = (size_t)(uintptr_t)a;
  return MORTISE_OK;
}

void mt_timer_stop(mt_loop *loop, mt_timer *timer) {
  (void)loop;
  if (!timer->slot) return;
  forget((alarm *)(uintptr_t)timer->slot);
  timer->slot = 0;
}

mortise_status mt_timer_reserve(mt_loop *loop, mt_timer *timer, mortise_error *err) {
  (void)err;
  mt_timer_stop(loop, timer);
  return MORTISE_OK;
}

void mt_timer_release(mt_loop *loop, mt_timer *timer) {
  mt_timer_stop(loop, timer);
}

void mt_loop_post(mt_loop *loop, mt_post *post) {
  if (post->next) return;
  post->next = post;
  set(loop, mt_loop_now(loop))->post = post;
}

void mt_loop_unpost(mt_loop *loop, mt_post *post) {
  for (alarm *a = loop->alarms; a; a = a->next) {
    if (a->post != post) continue;
    post->next = NULL;
    forget(a);
    return;
  }
}

/* Nobody waits by hand in virtual time. */
mortise_status mt_loop_step(mt_loop *loop, int64_t max_wait_ms, mortise_error *err) {
  (void)loop, (void)max_wait_ms, (void)err;
  abort();
}
