/* The driver: one thread's event loop over epoll. Timers, file descriptors, and work posted by
 * other threads. A loop belongs to the thread that runs it; only mt_loop_post and mt_loop_wake may
 * be called from elsewhere. Callbacks may add and remove timers and descriptors, never free the
 * loop. */
#ifndef MT_BASE_LOOP_H
#define MT_BASE_LOOP_H

#include "base/error.h"

typedef struct mt_loop mt_loop;

mt_loop *mt_loop_new(mortise_error *err); /* owned; NULL with `err` */
void mt_loop_free(mt_loop *loop);         /* work still posted is dropped without being run */

/* The time when the running callbacks were woken, in milliseconds of CLOCK_BOOTTIME. */
int64_t mt_loop_now(mt_loop *loop);

/* Waits for at most `max_wait_ms` (-1: until the next timer), then runs what is due. EINTR ends the
 * wait early. */
mortise_status mt_loop_step(mt_loop *loop, int64_t max_wait_ms, mortise_error *err);

/* For whoever waits in another way, and then calls mt_loop_step(loop, 0, err): a descriptor that is readable when there
 * is something to do, and how long until a timer is due (-1: there is none). */
int mt_loop_fd(const mt_loop *loop);
int64_t mt_loop_timeout(mt_loop *loop);
/* Is this one of its callbacks? */
bool mt_loop_running(const mt_loop *loop);

/* A timer in the caller's memory. A zeroed one is stopped; a started one fires once, at `at_ms` of
 * mt_loop_now. */
typedef struct mt_timer {
  void (*fire)(void *ctx);
  void *ctx;
  int64_t at_ms;
  size_t slot;   /* the loop's; 0: stopped */
  bool reserved; /* the loop's */
} mt_timer;

/* Starts or moves it. OUT_OF_MEMORY leaves it stopped; this never happens to a reserved timer. */
mortise_status mt_timer_start(mt_loop *loop, mt_timer *timer, int64_t at_ms, mortise_error *err);
void mt_timer_stop(mt_loop *loop, mt_timer *timer);
/* Reserves its room in the loop, so that starting it needs no memory, until mt_timer_release, which
 * also stops it. */
mortise_status mt_timer_reserve(mt_loop *loop, mt_timer *timer, mortise_error *err);
void mt_timer_release(mt_loop *loop, mt_timer *timer);

/* A watched descriptor in the caller's memory; `events` are EPOLLIN | EPOLLOUT. */
typedef struct mt_watch {
  void (*ready)(void *ctx, uint32_t events);
  void *ctx;
  int fd;
  bool on;             /* the loop's */
} mt_watch;

mortise_status mt_watch_set(mt_loop *loop, mt_watch *watch, uint32_t events, mortise_error *err);
void mt_watch_stop(mt_loop *loop, mt_watch *watch);

/* Work for the loop's thread, in the caller's memory until it has run. Any thread may post it;
 * posts run once each, in order. Zero it before the first post. Posting it while it is queued does
 * nothing; from the start of its `run` it may be posted again or freed. */
typedef struct mt_post {
  void (*run)(void *ctx);
  void *ctx;
  struct mt_post *next; /* the loop's */
} mt_post;

void mt_loop_post(mt_loop *loop, mt_post *post);
/* Cancels a post that has not run yet and returns its memory to the caller. Only on the loop's thread. */
void mt_loop_unpost(mt_loop *loop, mt_post *post);
/* Ends a wait in mt_loop_step. Callable from any thread and from a signal handler. */
void mt_loop_wake(mt_loop *loop);

#endif
