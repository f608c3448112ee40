/* Those who steer the job from anywhere: they write its control document. Orders are kept to by the process they were
 * meant for, soon; a pause and a cancel by no other; limits by everyone who has the job. */
#include "jobs.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  ORDERERS = 254, /* in the keys of what they do */
  ORDERS_MAX = 12,
  OBEYED_MS = 1000, /* where no request is lost */
  TRIP_MS = 10,
};

typedef enum order { PAUSE, GO_ON, THROTTLE, CANCEL, ORDERS } order;

static const char *const names[] = {"pause", "go on", "throttle", "cancel"};

/* ---- Giving them ---------------------------------------------------------------------------- */

static uint32_t pick(const jobs_sim *s, unsigned detail, uint32_t n) {
  return (uint32_t)sim_below(s->w, sim_key_of(SIM_DICE, ORDERERS, s->orders.n, detail), n);
}

static void write_orders(jobs_sim *s) {
  const jobs_orders *o = &s->orders;
  char body[512];
  snprintf(body, sizeof body,
           "{\"kind\":\"control\",\"format\":1,\"ns\":\"default\",\"job\":\"job\",\"updated\":1,"
           "\"body\":{\"n\":%" PRIu64 ",\"session\":\"%s\",\"paused\":%s,\"cancelled\":%s,"
           "\"by\":\"somebody\",\"rate\":%u,\"batch\":%u,\"concurrency\":%u}}",
           o->n, o->session, o->paused ? "true" : "false", o->cancelled ? "true" : "false",
           o->limits.rate, o->limits.batch, o->limits.concurrency);
  mt_write w = {.kind = MT_WRITE_INDEX,
                .id = MT_SLICE("default:job:control"),
                .body = mt_slice_of(body)};
  shelf_write(&s->shelf, SHELF_OTHERS, SHELF_JOBS, &w);
}

static void note_told(jobs_sim *s) {
  for (size_t i = 0; i < s->n; i++) {
    jobs_process *p = &s->processes[i];
    if (strcmp(p->session.id, s->orders.session)) continue;
    p->told_pause |= s->orders.paused;
    p->told_cancel |= s->orders.cancelled;
  }
}

static void limit(jobs_sim *s) {
  static const uint32_t rates[] = {0, 5, 20, 100};
  s->orders.limits = (mt_limits){rates[pick(s, 2, 4)], pick(s, 3, 4), pick(s, 4, 3)};
}

/* What was ordered of an earlier owner, but for limits, is forgotten. */
static void give(jobs_sim *s, order what) {
  jobs_orders *o = &s->orders;
  const char *owner = s->ended.session;
  bool same = !strcmp(o->session, owner);
  o->n++;
  o->ms = sim_now(s->w);
  o->paused = what == PAUSE || (same && o->paused && what != GO_ON);
  o->cancelled = what == CANCEL;
  snprintf(o->session, sizeof o->session, "%s", owner);
  if (what == THROTTLE) limit(s);
  s->counts.orders++;
  note_told(s);
  sim_trace(s->w, "order %" PRIu64 " to %s: %s, at most %u/s, %u a batch, %u at once", o->n, owner,
            names[what], o->limits.rate, o->limits.batch, o->limits.concurrency);
  write_orders(s);
}

static order choose_order(const jobs_sim *s, unsigned number) {
  bool waits = s->orders.paused && !strcmp(s->orders.session, s->ended.session);
  if (number == ORDERS_MAX - 1 || (waits && pick(s, 0, 3))) return GO_ON;
  order what = (order)pick(s, 1, ORDERS + 2); /* most often they throttle it */
  return what < ORDERS ? what : THROTTLE;
}

static bool is_at_work(const jobs_sim *s) {
  return s->ended.state == MT_JOB_RUNNING || s->ended.state == MT_JOB_UNDOING;
}

static void order_something(void *ctx) {
  jobs_sim *s = ctx;
  unsigned number = s->ordered++;
  sim_key key = sim_key_of(SIM_DICE, ORDERERS, number, 9);
  if (s->calm || number == ORDERS_MAX) return;
  if (is_at_work(s) &&
      sim_happens(s->w, sim_key_of(SIM_OPERATION, ORDERERS, number, 0), s->profile.orders))
    give(s, choose_order(s, number));
  int64_t most = number % 3 ? 700 : 100;
  sim_at(s->w, sim_now(s->w) + sim_between(s->w, key, 1, most), order_something, s);
}

void jobs_orders_begin(jobs_sim *s) {
  if (s->profile.orders) order_something(s);
}

/* A pause that was meant for an earlier owner stays: nobody else heeds it. */
void jobs_orders_end(jobs_sim *s) {
  bool waits = s->orders.paused && !strcmp(s->orders.session, s->ended.session);
  if (waits && is_at_work(s)) give(s, GO_ON);
}

/* ---- Keeping to them ------------------------------------------------------------------------ */

/* Has it had the time to read the orders as they stand, while it changes documents? */
static bool must_know(const jobs_process *p) {
  const jobs_sim *s = p->sim;
  int64_t since = p->began_ms > s->orders.ms ? p->began_ms : s->orders.ms;
  bool undisturbed = p->began_ms && !p->stopped_until && !s->profile.fault_level;
  return undisturbed && sim_now(s->w) - since > OBEYED_MS;
}

/* Does whatever it does now come after it has read them? */
static bool keeps(const jobs_process *p) {
  const jobs_sim *s = p->sim;
  const jobs_heard *h = &p->heard;
  if (!s->orders.n || s->profile.fault_level || p->stopped_until) return false;
  return must_know(p) || (h->n == s->orders.n && sim_now(s->w) - h->ms > TRIP_MS);
}

void jobs_orders_record(jobs_process *p, const mt_job_record *r) {
  jobs_sim *s = p->sim;
  if (!strncmp(r->waits, "paused by", 9) && !p->told_pause)
    jobs_fail(s, "it waits, and nobody has told it to");
  if (r->orders > s->orders.n) jobs_fail(s, "it has read orders that nobody gave");
  if (r->state == MT_JOB_RUNNING && must_know(p) && r->orders < s->orders.n)
    jobs_fail(s, "it has not read its orders");
  if (r->orders != s->orders.n || p->heard.n == r->orders || s->orders.ms < p->born_ms) return;
  p->heard.n = r->orders;
  p->heard.ms = sim_now(s->w);
}

static void check_rate(jobs_process *p) {
  jobs_sim *s = p->sim;
  const jobs_heard *h = &p->heard;
  uint32_t rate = s->orders.limits.rate;
  if (!rate || h->sent_under != s->orders.n) return;
  int64_t least = (int64_t)(h->sent * 1000 / rate);
  if (sim_now(s->w) - h->sent_ms < least - TRIP_MS) jobs_fail(s, "it is faster than it may be");
}

void jobs_orders_batch(jobs_process *p, size_t documents) {
  jobs_sim *s = p->sim;
  const mt_limits *limits = &s->orders.limits;
  uint64_t open[MT_JOB_UNITS_MAX];
  bool known = keeps(p);
  if (known) {
    size_t n = mt_change_open_batches(&p->rename.change, open, MT_JOB_UNITS_MAX);
    if (s->orders.paused && !strcmp(s->orders.session, p->session.id))
      jobs_fail(s, "it is paused, and writes");
    if (limits->batch && documents > limits->batch) jobs_fail(s, "a batch is larger than it may be");
    if (limits->rate && documents > limits->rate) jobs_fail(s, "a batch is of more than a second");
    if (limits->concurrency && n > limits->concurrency)
      jobs_fail(s, "more batches are under way than may be");
    check_rate(p);
  }
  p->heard.sent_under = known ? s->orders.n : 0;
  p->heard.sent_ms = sim_now(s->w);
  p->heard.sent = documents;
}
