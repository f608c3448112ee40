#include "client/hint.h"

#include "base/mem.h"
#include "store/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PREFIX "mortise-hint-"
#define FORM PREFIX "1 %c %s %s %016" PRIx64 " %016" PRIx64

enum { ADDRESS_DIGITS = 16, MESSAGE_ROOM = 160, HEARERS_MAX = 1 << 20 };

struct mt_hint_socket {
  mt_loop *loop;
  mt_watch watch;
  mt_timer rest; /* while it does not listen */
  int64_t since_ms; /* when the count began */
  size_t count;
  mt_hearer **hearers; /* in the order of their ids */
  size_t n, cap;
};

/* `half`: of a session's id, the last one. */
static socklen_t address_of(const char *half, struct sockaddr_un *a) {
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, PREFIX "%s", half);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int write_hint(const mt_hint *h, char text[MESSAGE_ROOM]) {
  return snprintf(text, MESSAGE_ROOM, FORM, h->kind == MT_HINT_WAITS ? 'w' : 'g', h->to, h->from,
                  h->place, h->n);
}

/* ---- Who hears ------------------------------------------------------------------------------ */

/* Where it is among the hearers, or would be. */
static size_t hearer_at(const mt_hint_socket *s, const char *session) {
  size_t from = 0, to = s->n;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (strcmp(s->hearers[middle]->session, session) < 0)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

bool mt_hint_socket_join(mt_hint_socket *s, mt_hearer *hearer) {
  if (!mt_grow((void **)&s->hearers, &s->cap, s->n + 1, sizeof *s->hearers, HEARERS_MAX)) return false;
  size_t at = hearer_at(s, hearer->session);
  memmove(&s->hearers[at + 1], &s->hearers[at], (s->n - at) * sizeof *s->hearers);
  s->hearers[at] = hearer;
  s->n++;
  return true;
}

bool mt_hint_socket_leave(mt_hint_socket *s, const mt_hearer *hearer) {
  size_t at = hearer_at(s, hearer->session);
  if (at == s->n || s->hearers[at] != hearer) return false;
  s->n--;
  memmove(&s->hearers[at], &s->hearers[at + 1], (s->n - at) * sizeof *s->hearers);
  return true;
}

bool mt_hint_socket_is_heard(const mt_hint_socket *s) {
  return s && s->n > 0;
}

static void tell_hearer(const mt_hint_socket *s, const mt_hint *hint) {
  size_t at = hearer_at(s, hint->to);
  if (at == s->n || strcmp(s->hearers[at]->session, hint->to) != 0) return;
  s->hearers[at]->heard(s->hearers[at]->ctx, hint);
}

/* ---- Hearing -------------------------------------------------------------------------------- */

/* Anything may have been sent: only what a client writes is read. */
static bool read_hint(const char *text, mt_hint *out) {
  char kind, again[MESSAGE_ROOM];
  *out = (mt_hint){0};
  if (sscanf(text, PREFIX "1 %c %32[0-9a-f] %32[0-9a-f] %16" SCNx64 " %16" SCNx64, &kind, out->to,
             out->from, &out->place, &out->n) != 5)
    return false;
  out->kind = kind == 'w' ? MT_HINT_WAITS : MT_HINT_GONE;
  write_hint(out, again);
  return strcmp(text, again) == 0 && mt_session_valid(out->from);
}

static void listen_again(void *ctx) {
  mt_hint_socket *s = ctx;
  s->count = 0;
  s->since_ms = mt_loop_now(s->loop);
  mt_watch_set(s->loop, &s->watch, EPOLLIN, NULL); /* where it fails, hints are over */
}

/* Whoever sends too many is not listened to for a while, nor is anyone else. */
static bool has_heard_enough(mt_hint_socket *s) {
  int64_t now_ms = mt_loop_now(s->loop);
  if (now_ms - s->since_ms >= MT_HINTS_MS) {
    s->since_ms = now_ms;
    s->count = 0;
  }
  if (s->count++ < MT_HINTS_MAX + s->n) return false;
  mt_watch_stop(s->loop, &s->watch);
  mt_timer_start(s->loop, &s->rest, now_ms + MT_HINTS_MS, NULL); /* where it fails, likewise */
  return true;
}

static void hints_ready(void *ctx, uint32_t events) {
  mt_hint_socket *s = ctx;
  (void)events;
  char text[MESSAGE_ROOM];
  mt_hint hint;
  while (!has_heard_enough(s)) {
    ssize_t n = recv(s->watch.fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (n < 0) return;
    text[n] = '\0';
    if (read_hint(text, &hint)) tell_hearer(s, &hint);
  }
}

/* ---- Sending -------------------------------------------------------------------------------- */

bool mt_hint_socket_send(mt_hint_socket *s, const mt_hint *hint) {
  struct sockaddr_un to;
  char text[MESSAGE_ROOM];
  if (!s) return false;
  socklen_t size = address_of(hint->to + MT_SESSION_ID - 1 - ADDRESS_DIGITS, &to);
  int n = write_hint(hint, text);
  return sendto(s->watch.fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to,
                size) == n;
}

/* ---- Its life ------------------------------------------------------------------------------- */

mt_hint_socket *mt_hint_socket_open(mt_loop *loop, uint64_t address) {
  struct sockaddr_un own;
  char half[ADDRESS_DIGITS + 1];
  mt_hint_socket *s = mt_calloc(1, sizeof *s);
  if (!s) return NULL;
  *s = (mt_hint_socket){.loop = loop};
  s->watch = (mt_watch){.ready = hints_ready, .ctx = s};
  s->rest = (mt_timer){.fire = listen_again, .ctx = s};
  snprintf(half, sizeof half, "%016" PRIx64, address);
  socklen_t size = address_of(half, &own);
  s->watch.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s->watch.fd >= 0 && !bind(s->watch.fd, (struct sockaddr *)&own, size) &&
      !mt_watch_set(loop, &s->watch, EPOLLIN, NULL))
    return s;
  mt_hint_socket_close(s);
  return NULL;
}

void mt_hint_socket_close(mt_hint_socket *s) {
  if (!s) return;
  mt_watch_stop(s->loop, &s->watch);
  mt_timer_stop(s->loop, &s->rest);
  if (s->watch.fd >= 0) close(s->watch.fd);
  mt_free(s->hearers);
  mt_free(s);
}
