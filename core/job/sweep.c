#include "job/sweep.h"

#include "base/hash.h"

#include <stdio.h>

enum {
  POLL_FIRST_MS = 20,
  POLL_MAX_MS = 500,
  POLL_PART = 32,
  QUELL_MS = 60000,
  NAME_MAX = 1024,
  PORTION_MS = 1000, /* of a store that does it in the request itself */
};

mortise_status mt_sweep_name(char out[MT_SERVER_TASK_NAME_MAX + 1], const char *table,
                             const char *ns, const char *job, mortise_error *err) {
  char digest[65];
  mt_buf whole;
  mt_buf_init(&whole, NAME_MAX);
  mt_buf_addf(&whole, "%s:%s:%s", table, ns, job);
  bool good = !whole.failed && mt_sha256_hex(mt_buf_slice(&whole), digest);
  mt_buf_deinit(&whole);
  if (!good) return mt_error_memory(err);
  snprintf(out, MT_SERVER_TASK_NAME_MAX + 1, "mortise-job:%.40s:%.32s", job, digest);
  return MORTISE_OK;
}

static bool is_lost(const mt_permit *permit) {
  mortise_error err;
  return permit->check(permit->lock, &err) != MORTISE_OK;
}

/* ---- The store's clock ------------------------------------------------------------------------ */

static void read_clock(mt_store_clock *k, mt_store *s, const mt_session *session, mt_done_fn *done,
                       void *ctx) {
  mt_session_read_deinit(&k->read);
  k->id = session->id;
  k->read = (mt_session_read){.req = {.done = done, .ctx = ctx, .idempotent = true},
                              .ns = session->ns,
                              .ids = &k->id,
                              .n = 1};
  s->locks->session_read(s, &k->read);
}

/* When the session was last heard of; 0: that is not known. */
static int64_t heard_ms(const mt_store_clock *k) {
  const mt_session_doc *doc = k->read.docs;
  return !k->read.req.error.code && doc && doc->state == MT_SESSION_LIVE ? doc->beat_ms : 0;
}

/* ---- Ending tasks ----------------------------------------------------------------------------- */

static void find_tasks(mt_quell *q);
static void end_next_task(mt_quell *q);

static void finish_quell(mt_quell *q, const mortise_error *e) {
  if (e) q->error = *e;
  q->done(q->ctx, q);
}

static bool quell_goes_on(mt_quell *q, mt_req *req) {
  mortise_error err = req->error;
  q->request = NULL;
  if (!err.code && !q->permit->check(q->permit->lock, &err)) return true; /* else `err` says why */
  finish_quell(q, &err);
  return false;
}

static void fail_lost(mt_quell *q) {
  mortise_error err;
  mt_error_set(
      &err, MORTISE_UNAVAILABLE,
      "task %s runs on a node that has left the cluster, so it has not ended; try again when the "
      "node is back, or later, when the task's time is over",
      q->look.task);
  finish_quell(q, &err);
}

/* A lost task refuses to go on when its time is over. */
static void on_quell_clock(void *ctx, mt_req *req) {
  mt_quell *q = ctx;
  if (!quell_goes_on(q, req)) return;
  int64_t now = heard_ms(&q->clock);
  if (q->not_after_ms && now > q->not_after_ms)
    find_tasks(q);
  else
    fail_lost(q);
}

static void on_known_task(void *ctx, mt_req *req) {
  mt_quell *q = ctx;
  if (!quell_goes_on(q, req)) return;
  if (q->look.state.phase != MT_SERVER_TASK_LOST) {
    find_tasks(q);
    return;
  }
  q->request = &q->clock.read.req;
  read_clock(&q->clock, q->store, q->permit->session, on_quell_clock, q);
}

static void on_quell_timer(void *ctx) {
  find_tasks(ctx);
}

static void wait_for_tasks(mt_quell *q) {
  mortise_error err;
  mt_loop *loop = q->store->loop;
  if (mt_loop_now(loop) < q->until_ms) {
    mt_timer_start(loop, &q->timer, mt_loop_now(loop) + POLL_FIRST_MS, NULL);
    return;
  }
  mt_error_set(&err, MORTISE_UNAVAILABLE, "task %s was cancelled and has not ended yet",
               q->find.tasks[0]);
  finish_quell(q, &err);
}

static void on_task_cancelled(void *ctx, mt_req *req) {
  mt_quell *q = ctx;
  if (!quell_goes_on(q, req)) return;
  if (q->look.state.phase == MT_SERVER_TASK_LOST) {
    fail_lost(q);
    return;
  }
  q->at++;
  end_next_task(q);
}

static void end_next_task(mt_quell *q) {
  if (q->at == q->find.n) {
    wait_for_tasks(q);
    return;
  }
  q->look = (mt_server_task){
      .req = {.done = on_task_cancelled, .ctx = q}, .task = q->find.tasks[q->at], .cancel = true};
  q->request = &q->look.req;
  q->store->docs->task(q->store, &q->look);
}

static void on_tasks_found(void *ctx, mt_req *req) {
  mt_quell *q = ctx;
  if (!quell_goes_on(q, req)) return;
  q->at = 0;
  if (q->find.n)
    end_next_task(q);
  else
    finish_quell(q, NULL);
}

static void find_tasks(mt_quell *q) {
  mt_server_task_find_deinit(&q->find);
  q->find = (mt_server_task_find){.req = {.done = on_tasks_found, .ctx = q}, .name = q->name};
  q->request = &q->find.req;
  q->store->docs->task_find(q->store, &q->find);
}

mortise_status mt_quell_start(mt_quell *q, mortise_error *err) {
  mt_loop *loop = q->store->loop;
  q->timer = (mt_timer){.fire = on_quell_timer, .ctx = q};
  if (mt_timer_reserve(loop, &q->timer, err)) return MORTISE_OUT_OF_MEMORY;
  q->reserved = true;
  q->until_ms = mt_loop_now(loop) + QUELL_MS;
  if (!q->task || !q->task[0]) {
    find_tasks(q);
    return MORTISE_OK;
  }
  q->look =
      (mt_server_task){.req = {.done = on_known_task, .ctx = q}, .task = q->task, .cancel = true};
  q->request = &q->look.req;
  q->store->docs->task(q->store, &q->look);
  return MORTISE_OK;
}

void mt_quell_deinit(mt_quell *q) {
  if (q->request) mt_store_cancel(q->store, q->request);
  if (q->reserved) mt_timer_release(q->store->loop, &q->timer);
  mt_server_task_find_deinit(&q->find);
  mt_session_read_deinit(&q->clock.read);
  *q = (mt_quell){0};
}

/* ---- One sweep ---------------------------------------------------------------------------------- */

static void end_sweep(mt_sweep *w, const mortise_error *e) {
  if (e && !w->error.code) w->error = *e;
  w->active = false;
  if (w->reserved) mt_timer_stop(w->store->loop, &w->timer);
  w->done(w->ctx, w);
}

static void on_sweep_quelled(void *ctx, mt_quell *q) {
  mt_sweep *w = ctx;
  mortise_error err = q->error;
  mt_quell_deinit(q);
  w->unsure = err.code != MORTISE_OK;
  end_sweep(w, err.code ? &err : NULL);
}

/* There may be a task that has not told its id, or one that does not answer. */
static void end_by_name(mt_sweep *w) {
  mortise_error err;
  w->unsure = true;
  w->quell = (mt_quell){.done = on_sweep_quelled,
                        .ctx = w,
                        .store = w->store,
                        .permit = w->permit,
                        .task = w->task,
                        .not_after_ms = w->not_after_ms};
  snprintf(w->quell.name, sizeof w->quell.name, "%s", w->name);
  if (mt_quell_start(&w->quell, &err)) end_sweep(w, &err);
}

static void look_at_task(mt_sweep *w);

static void on_sweep_timer(void *ctx) {
  look_at_task(ctx);
}

/* It has ended for half a pause on the average when that is seen, so a pause is a small part of the time so far. */
static void wait_for_task(mt_sweep *w) {
  mt_loop *loop = w->store->loop;
  int64_t now = mt_loop_now(loop), pause = (now - w->begun_ms) / POLL_PART;
  if (pause < POLL_FIRST_MS) pause = POLL_FIRST_MS;
  if (pause > POLL_MAX_MS) pause = POLL_MAX_MS;
  mt_timer_start(loop, &w->timer, now + pause, NULL);
}

/* Its time is over at three quarters of what is left of the lease, so that it is cancelled before its script
 * refuses. */
static bool is_sweep_over(const mt_sweep *w) {
  return w->stopping || is_lost(w->permit) || mt_loop_now(w->store->loop) >= w->renew_ms;
}

static void on_task_seen(void *ctx, mt_req *req) {
  mt_sweep *w = ctx;
  mortise_error err = req->error;
  w->request = NULL;
  if (err.code && (err.code != MORTISE_UNAVAILABLE || is_lost(w->permit))) {
    end_by_name(w);
  } else if (err.code || w->look.state.phase == MT_SERVER_TASK_RUNNING) {
    if (!err.code) w->state = w->look.state;
    if (!err.code && w->progress) w->progress(w->ctx, w);
    wait_for_task(w);
  } else if (w->look.state.phase == MT_SERVER_TASK_LOST) {
    end_by_name(w);
  } else {
    w->state = w->look.state;
    w->unsure = false;
    w->again = !w->state.complete && w->look.cancel && !w->stopping;
    end_sweep(w, NULL);
  }
}

static void look_at_task(mt_sweep *w) {
  w->look = (mt_server_task){
      .req = {.done = on_task_seen, .ctx = w}, .task = w->task, .cancel = is_sweep_over(w)};
  w->request = &w->look.req;
  w->store->docs->task(w->store, &w->look);
}

static void on_sweep_begun(void *ctx, mt_req *req) {
  mt_sweep *w = ctx;
  w->request = NULL;
  w->state = w->start.state;
  snprintf(w->task, sizeof w->task, "%s", w->start.task);
  if (req->error.code) { /* a task may begin, now or much later: only a closed gate keeps it out */
    w->unsure = req->error.ambiguous;
    end_sweep(w, &req->error);
  } else if (!w->task[0]) { /* done in the request */
    w->unsure = false;
    w->again = !w->state.complete && !strcmp(w->state.type, "time");
    end_sweep(w, NULL);
  } else {
    wait_for_task(w);
  }
}

/* May run on a store's thread. */
static bool may_begin(void *ctx) {
  const mt_sweep *w = ctx;
  return !mt_session_dead(w->permit->session, w->env->now_ms(w->env->ctx));
}

static void on_sweep_clock(void *ctx, mt_req *req) {
  mt_sweep *w = ctx;
  const mt_session *session = w->permit->session;
  mortise_error err = req->error;
  w->request = NULL;
  if (err.code || w->stopping || w->permit->check(w->permit->lock, &err)) {
    end_sweep(w, err.code ? &err : NULL);
    return;
  }
  int64_t left = w->permit->remaining_ms(w->permit->lock), heard = heard_ms(&w->clock);
  if (heard) w->not_after_ms = heard + session->lease_ms - session->margin_ms;
  w->renew_ms = mt_loop_now(w->store->loop) + left * 3 / 4;
  w->unsure = true;
  w->start = (mt_update_by_query){.req = {.done = on_sweep_begun,
                                          .ctx = w,
                                          .may_send = may_begin,
                                          .may_send_ctx = w,
                                          .deadline_ms = mt_loop_now(w->store->loop) + left},
                                  .index = w->index,
                                  .query = w->query,
                                  .transforms = w->transforms,
                                  .slices = w->slices,
                                  .batch = w->page,
                                  .name = w->name,
                                  .gate = &w->gate,
                                  .not_after_ms = w->not_after_ms,
                                  .most_ms = PORTION_MS};
  w->request = &w->start.req;
  w->store->docs->update_by_query(w->store, &w->start);
}

mortise_status mt_sweep_start(mt_sweep *w, mortise_error *err) {
  if (!w->reserved) {
    w->timer = (mt_timer){.fire = on_sweep_timer, .ctx = w};
    if (mt_timer_reserve(w->store->loop, &w->timer, err)) return MORTISE_OUT_OF_MEMORY;
    w->reserved = true;
  }
  w->state = (mt_server_task_state){0};
  w->task[0] = '\0';
  w->not_after_ms = 0;
  w->again = w->stopping = false;
  w->begun_ms = mt_loop_now(w->store->loop);
  w->active = true;
  mt_error_clear(&w->error);
  w->request = &w->clock.read.req;
  read_clock(&w->clock, w->store, w->permit->session, on_sweep_clock, w);
  return MORTISE_OK;
}

void mt_sweep_stop(mt_sweep *w) {
  if (!w->active || w->stopping) return;
  w->stopping = true;
  if (!w->request && w->task[0])
    mt_timer_start(w->store->loop, &w->timer, mt_loop_now(w->store->loop), NULL);
}

void mt_sweep_deinit(mt_sweep *w) {
  if (!w->store) return;
  if (w->request) mt_store_cancel(w->store, w->request);
  mt_quell_deinit(&w->quell);
  if (w->reserved) mt_timer_release(w->store->loop, &w->timer);
  mt_session_read_deinit(&w->clock.read);
  w->request = NULL;
  w->active = w->reserved = false;
}
