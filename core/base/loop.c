#include "base/loop.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
  BATCH = 64,           /* descriptors reported in one step */
  TIMERS_MAX = 1 << 24, /* a cap against a leak, far above any use */
  SLICE_MS = 1000,      /* epoll's clock stops in suspend, ours does not: wake regularly */
};

/* The heap is ordered by time, then by when the timer was started. */
typedef struct due {
  int64_t at_ms;
  uint64_t number;
  mt_timer *timer;
} due;

/* The result of one epoll_wait while its callbacks run. A callback may pump the loop, so batches
 * may nest. */
typedef struct batch {
  struct epoll_event events[BATCH];
  int n;
  struct batch *outer;
} batch;

struct mt_loop {
  int epoll, wake;
  int64_t now_ms;
  unsigned depth; /* of mt_loop_step */
  batch *running;
  due *heap; /* timer->slot - 1 is the index here */
  size_t n, cap;
  size_t unreserved, reserved; /* unreserved timers that run; all reserved ones; room for both */
  uint64_t started;
  pthread_mutex_t mutex; /* guards what follows, and mt_post.next */
  mt_post *first, *last;
  size_t posts;
};

static bool add_wake(mt_loop *loop) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = loop};
  return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event) == 0;
}

mt_loop *mt_loop_new(mortise_error *err) {
  mt_loop *loop = mt_calloc(1, sizeof *loop);
  if (!loop) {
    mt_error_memory(err);
    return NULL;
  }
  pthread_mutex_init(&loop->mutex, NULL); /* cannot fail with default attributes */
  loop->epoll = epoll_create1(EPOLL_CLOEXEC);
  loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (loop->epoll < 0 || loop->wake < 0 || !add_wake(loop)) {
    mt_error_set(err, MORTISE_UNAVAILABLE, "cannot make an event loop: %s", strerror(errno));
    mt_loop_free(loop);
    return NULL;
  }
  return loop;
}

void mt_loop_free(mt_loop *loop) {
  if (!loop) return;
  for (size_t i = 0; i < loop->n; i++) loop->heap[i].timer->slot = 0;
  if (loop->wake >= 0) close(loop->wake);
  if (loop->epoll >= 0) close(loop->epoll);
  pthread_mutex_destroy(&loop->mutex);
  mt_free(loop->heap);
  mt_free(loop);
}

int64_t mt_loop_now(mt_loop *loop) {
  if (!loop->depth) loop->now_ms = mt_clock_boot_ms();
  return loop->now_ms;
}

/* ---- timers: a binary heap ---- */

static bool sooner(const due *a, const due *b) {
  return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->number < b->number;
}

static void place_timer(mt_loop *loop, size_t i, due entry) {
  loop->heap[i] = entry;
  entry.timer->slot = i + 1;
}

/* Moves the entry at `i` up or down to its place. */
static void settle_timer(mt_loop *loop, size_t i) {
  due entry = loop->heap[i];
  for (; i && sooner(&entry, &loop->heap[(i - 1) / 2]); i = (i - 1) / 2)
    place_timer(loop, i, loop->heap[(i - 1) / 2]);
  for (;;) {
    size_t child = 2 * i + 1;
    if (child + 1 < loop->n && sooner(&loop->heap[child + 1], &loop->heap[child])) child++;
    if (child >= loop->n || !sooner(&loop->heap[child], &entry)) break;
    place_timer(loop, i, loop->heap[child]);
    i = child;
  }
  place_timer(loop, i, entry);
}

/* Makes room for one more. */
static mortise_status make_timer_room(mt_loop *loop, mortise_error *err) {
  size_t n = loop->unreserved + loop->reserved + 1;
  if (mt_grow((void **)&loop->heap, &loop->cap, n, sizeof *loop->heap, TIMERS_MAX))
    return MORTISE_OK;
  return mt_error_memory(err);
}

mortise_status mt_timer_reserve(mt_loop *loop, mt_timer *timer, mortise_error *err) {
  if (timer->reserved) return MORTISE_OK;
  mt_timer_stop(loop, timer);
  mortise_status status = make_timer_room(loop, err);
  if (status) return status;
  timer->reserved = true;
  loop->reserved++;
  return MORTISE_OK;
}

void mt_timer_release(mt_loop *loop, mt_timer *timer) {
  mt_timer_stop(loop, timer);
  loop->reserved -= timer->reserved;
  timer->reserved = false;
}

mortise_status mt_timer_start(mt_loop *loop, mt_timer *timer, int64_t at_ms, mortise_error *err) {
  mt_timer_stop(loop, timer);
  if (!timer->reserved) {
    mortise_status status = make_timer_room(loop, err);
    if (status) return status;
    loop->unreserved++;
  }
  /* A timer that is already due counts from now, so that it sorts after all that were due before;
   * run_timers relies on this to stop at the first one started by a callback. */
  int64_t now_ms = mt_loop_now(loop);
  timer->at_ms = at_ms;
  place_timer(loop, loop->n++, (due){at_ms > now_ms ? at_ms : now_ms, loop->started++, timer});
  settle_timer(loop, loop->n - 1);
  return MORTISE_OK;
}

void mt_timer_stop(mt_loop *loop, mt_timer *timer) {
  if (!timer->slot) return;
  size_t i = timer->slot - 1;
  timer->slot = 0;
  loop->unreserved -= !timer->reserved;
  due last = loop->heap[--loop->n];
  if (i == loop->n) return;
  place_timer(loop, i, last);
  settle_timer(loop, i);
}

/* Timers that callbacks start meanwhile wait for the next step; otherwise they could starve the
 * descriptors. */
static void run_timers(mt_loop *loop) {
  uint64_t end = loop->started;
  while (loop->n && loop->heap[0].at_ms <= loop->now_ms && loop->heap[0].number < end) {
    mt_timer *timer = loop->heap[0].timer;
    mt_timer_stop(loop, timer);
    timer->fire(timer->ctx);
  }
}

/* ---- descriptors ---- */

/* Reduces the watch's unreported events, in every batch, to those in `mask`. */
static void mask_pending(mt_loop *loop, const mt_watch *watch, uint32_t mask) {
  for (batch *b = loop->running; b; b = b->outer)
    for (int i = 0; i < b->n; i++)
      if (b->events[i].data.ptr == watch) b->events[i].events &= mask;
}

mortise_status mt_watch_set(mt_loop *loop, mt_watch *watch, uint32_t events, mortise_error *err) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  int failed = epoll_ctl(loop->epoll, watch->on ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, watch->fd, &event);
  /* The descriptor was closed and its number reused before the watch was stopped. */
  if (failed && watch->on && errno == ENOENT)
    failed = epoll_ctl(loop->epoll, EPOLL_CTL_ADD, watch->fd, &event);
  if (failed)
    return mt_error_set(err, errno == ENOMEM ? MORTISE_OUT_OF_MEMORY : MORTISE_UNAVAILABLE,
                        "cannot watch a descriptor: %s", strerror(errno));
  watch->on = true;
  mask_pending(loop, watch, events | EPOLLERR | EPOLLHUP);
  return MORTISE_OK;
}

void mt_watch_stop(mt_loop *loop, mt_watch *watch) {
  if (!watch->on) return;
  watch->on = false;
  struct epoll_event unused = {0};
  epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, &unused); /* fails only if it is gone */
  mask_pending(loop, watch, 0);
}

static void drain_eventfd(int fd) {
  uint64_t count;
  while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

/* Level-triggered: an event that an inner batch reports is removed from the outer ones, which are
 * older; if it is still true, it is reported again. */
static void run_watches(mt_loop *loop, batch *b) {
  b->outer = loop->running;
  loop->running = b;
  for (int i = 0; i < b->n; i++) {
    uint32_t events = b->events[i].events;
    mt_watch *watch = b->events[i].data.ptr;
    if (!events || b->events[i].data.ptr == loop) continue;
    mask_pending(loop, watch, 0);
    watch->ready(watch->ctx, events);
  }
  loop->running = b->outer;
}

/* ---- work of other threads ---- */

/* The last post in the queue points to itself, so that NULL means not queued. */
void mt_loop_post(mt_loop *loop, mt_post *post) {
  pthread_mutex_lock(&loop->mutex);
  if (!post->next) {
    post->next = post;
    if (loop->last)
      loop->last->next = post;
    else
      loop->first = post;
    loop->last = post;
    /* Wake under the mutex: once the post has run, the loop may be freed, and this thread must be
     * done with it. */
    if (loop->posts++ == 0) mt_loop_wake(loop);
  }
  pthread_mutex_unlock(&loop->mutex);
}

void mt_loop_unpost(mt_loop *loop, mt_post *post) {
  pthread_mutex_lock(&loop->mutex);
  mt_post *before = NULL, *at = post->next ? loop->first : NULL;
  for (; at && at != post; at = at->next) before = at;
  if (at) {
    mt_post *after = at->next == at ? NULL : at->next;
    if (!after) loop->last = before;
    if (!before) loop->first = after;
    if (before) before->next = after ? after : before;
    loop->posts--;
    post->next = NULL;
  }
  pthread_mutex_unlock(&loop->mutex);
}

void mt_loop_wake(mt_loop *loop) {
  int saved = errno;
  uint64_t one = 1;
  /* EAGAIN: the counter is full, so the loop will wake. */
  while (write(loop->wake, &one, sizeof one) < 0 && errno == EINTR) {
  }
  errno = saved;
}

static size_t posted(mt_loop *loop) {
  pthread_mutex_lock(&loop->mutex);
  size_t n = loop->posts;
  pthread_mutex_unlock(&loop->mutex);
  return n;
}

static bool take_post(mt_loop *loop, mt_post *out) {
  pthread_mutex_lock(&loop->mutex);
  mt_post *post = loop->first;
  if (post) {
    *out = *post;
    loop->first = post->next == post ? NULL : post->next;
    if (!loop->first) loop->last = NULL;
    loop->posts--;
    post->next = NULL; /* may be posted again from here on */
  }
  pthread_mutex_unlock(&loop->mutex);
  return post != NULL;
}

/* Runs as many as are queued now; what they post waits for the next step. */
static void run_posts(mt_loop *loop) {
  mt_post post;
  for (size_t n = posted(loop); n && take_post(loop, &post); n--) post.run(post.ctx);
}

/* ---- the step ---- */

/* Milliseconds that this step may still wait; -1: no limit. */
static int64_t left_to_wait(const mt_loop *loop, int64_t until_ms) {
  int64_t at_ms = loop->n ? loop->heap[0].at_ms : INT64_MAX;
  if (until_ms < at_ms) at_ms = until_ms;
  if (at_ms == INT64_MAX) return -1;
  return at_ms > loop->now_ms ? at_ms - loop->now_ms : 0;
}

int mt_loop_fd(const mt_loop *loop) {
  return loop->epoll;
}

int64_t mt_loop_timeout(mt_loop *loop) {
  if (!loop->depth) loop->now_ms = mt_clock_boot_ms();
  return posted(loop) ? 0 : left_to_wait(loop, INT64_MAX);
}

bool mt_loop_running(const mt_loop *loop) {
  return loop->depth > 0;
}

static int wait_for_events(mt_loop *loop, batch *b, int64_t max_wait_ms) {
  loop->now_ms = mt_clock_boot_ms();
  int64_t until_ms = max_wait_ms < 0 || max_wait_ms > INT64_MAX - loop->now_ms
                         ? INT64_MAX
                         : loop->now_ms + max_wait_ms;
  if (posted(loop)) until_ms = loop->now_ms;
  int64_t left;
  do {
    left = left_to_wait(loop, until_ms);
    int slice = left < 0 ? -1 : left > SLICE_MS ? SLICE_MS : (int)left;
    b->n = epoll_wait(loop->epoll, b->events, BATCH, slice);
    loop->now_ms = mt_clock_boot_ms();
  } while (b->n == 0 && left > 0 && left_to_wait(loop, until_ms) > 0);
  return b->n;
}

mortise_status mt_loop_step(mt_loop *loop, int64_t max_wait_ms, mortise_error *err) {
  batch b;
  if (wait_for_events(loop, &b, max_wait_ms) < 0) {
    if (errno != EINTR)
      return mt_error_set(err, MORTISE_UNAVAILABLE, "cannot wait for events: %s", strerror(errno));
    b.n = 0;
  }
  for (int i = 0; i < b.n; i++)
    if (b.events[i].data.ptr == loop) drain_eventfd(loop->wake);
  loop->depth++;
  run_watches(loop, &b);
  run_timers(loop);
  run_posts(loop);
  loop->depth--;
  return MORTISE_OK;
}
