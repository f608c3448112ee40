/* A program with an event loop of its own: 256 locks under way, each started, told, released and told, on files below
 * shared ancestors. Beside it as many tasks of the lock manager, without the interface in C between. */
#include "bench.h"

#include <mortise/mortise.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { FLIGHT = 256, LOCKS = 40000, QUICK_LOCKS = 4000 };

typedef struct flight flight;

typedef struct lane {
  flight *flight;
  size_t number, turn;
  double start;
} lane;

struct flight {
  mortise_client *client;
  lane lanes[FLIGHT];
  size_t left, running, measured;
  double *us;
  sample *s;
};

static void begin_lane(lane *l);

static void lane_over(lane *l, const mortise_error *error) {
  if (error->code) {
    fprintf(stderr, "started: %s\n", error->message);
    l->flight->s->failures++;
  }
  l->flight->running--;
  begin_lane(l);
}

static void lane_released(void *ctx, const mortise_outcome *outcome) {
  lane *l = ctx;
  l->flight->us[l->flight->measured++] = now_us() - l->start;
  l->flight->s->locks++;
  lane_over(l, &outcome->error);
}

static void lane_acquired(void *ctx, const mortise_outcome *outcome) {
  mortise_error err = outcome->error;
  if (!outcome->lock || !mortise_lock_release_start(outcome->lock, lane_released, ctx, &err)) lane_over(ctx, &err);
}

static void begin_lane(lane *l) {
  flight *f = l->flight;
  char path[64];
  const char *paths = path;
  mortise_error err;
  mortise_lock_request request;
  if (!f->left) return;
  f->left--;
  snprintf(path, sizeof path, "/clinton/projects/2014/d%zu-%zu", l->number, l->turn++);
  mortise_lock_request_init(&request);
  request.paths = &paths;
  request.n = 1;
  l->start = now_us();
  if (mortise_lock_acquire_start(f->client, &request, lane_acquired, l, &err))
    f->running++;
  else
    f->s->failures++;
}

static void fly(flight *f, mortise_loop *loop, size_t locks, sample *s) {
  f->s = s;
  f->left = locks;
  f->measured = 0;
  for (size_t i = 0; i < FLIGHT; i++) begin_lane(&f->lanes[i]);
  while (f->running) {
    struct pollfd fd = {.fd = mortise_loop_fd(loop), .events = POLLIN};
    poll(&fd, 1, mortise_loop_timeout_ms(loop));
    if (mortise_loop_step(loop, NULL)) return;
  }
}

static bool started_measure(const options *o, size_t locks, double *us, sample *s) {
  static flight f;
  mortise_loop *loop = mortise_loop_new(NULL);
  options in_loop = *o;
  in_loop.loop = loop;
  mortise_client *c = loop ? open_client(&in_loop) : NULL;
  if (!c) {
    mortise_loop_free(loop);
    return false;
  }
  f = (flight){.client = c, .us = us};
  for (size_t i = 0; i < FLIGHT; i++) f.lanes[i] = (lane){.flight = &f, .number = i};
  sample warm = {0};
  meter m;
  fly(&f, loop, FLIGHT * 4, &warm);
  count_client(c, s, true);
  meter_begin(&m);
  fly(&f, loop, locks, s);
  meter_end(&m, s);
  count_client(c, s, false);
  percentiles(us, f.measured, s);
  mortise_loop_free(loop);
  return true;
}

bool started_round(const options *o, pair *out) {
  size_t locks = o->quick ? QUICK_LOCKS : LOCKS;
  double *us = calloc(locks + (size_t)FLIGHT * 4, sizeof *us);
  bool good = us && started_measure(o, locks, us, &out[0][MORTISE]) &&
              tasks_measure(o, FLIGHT, locks, us, &out[0][RAW]);
  free(us);
  return good;
}
