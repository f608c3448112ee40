/* libcurl's multi socket interface on the loop: libcurl says which sockets to watch and when to
 * call it again, and the loop does both. Neither callback calls back into libcurl. */
#include "base/mem.h"
#include "http/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void act(struct mt_http *http, curl_socket_t fd, int what) {
  int running;
  CURLMcode code = curl_multi_socket_action(http->multi.handle, fd, what, &running);
  http->multi.drain(http, code == CURLM_OUT_OF_MEMORY);
}

static void on_curl_timer(void *ctx) {
  struct mt_http *http = ctx;
  act(http, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timer(CURLM *handle, long wait_ms, void *ctx) {
  (void)handle;
  struct mt_http *http = ctx;
  mt_timer *timer = &http->multi.timer;
  if (wait_ms < 0)
    mt_timer_stop(http->loop, timer);
  else
    mt_timer_start(http->loop, timer, mt_loop_now(http->loop) + wait_ms, NULL); /* it is reserved */
  return 0;
}

static void sock_disarm(mt_sock *sock) {
  mt_watch_stop(sock->http->loop, &sock->watch);
  sock->armed = 0;
}

static void on_ready(void *ctx, uint32_t events) {
  mt_sock *sock = ctx;
  /* An idle connection that becomes readable is useless; mt_multi_quiet detects that before it is
   * used again. */
  if (!sock->wanted) {
    sock_disarm(sock);
    return;
  }
  int what = 0;
  if (events & EPOLLIN) what |= CURL_CSELECT_IN;
  if (events & EPOLLOUT) what |= CURL_CSELECT_OUT;
  if (events & (EPOLLERR | EPOLLHUP)) what |= CURL_CSELECT_ERR;
  act(sock->http, sock->watch.fd, what);
}

static mt_sock *sock_find(struct mt_http *http, curl_socket_t fd) {
  mt_sock *s = http->multi.socks;
  while (s && !(s->used && s->watch.fd == fd)) s = s->next;
  return s;
}

static mt_sock *sock_take(struct mt_http *http, curl_socket_t fd) {
  mt_sock *s = http->multi.socks;
  while (s && s->used) s = s->next;
  if (!s) {
    s = mt_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->next = http->multi.socks;
    http->multi.socks = s;
  }
  s->http = http;
  s->watch = (mt_watch){.ready = on_ready, .ctx = s, .fd = fd};
  s->wanted = s->armed = 0;
  s->port = s->local_port = 0;
  s->connection = s->spoilt = false;
  s->used = true;
  return s;
}

static void sock_arm(mt_sock *sock, uint32_t events) {
  if (sock->armed == events) return;
  if (mt_watch_set(sock->http->loop, &sock->watch, events, NULL) == MORTISE_OK)
    sock->armed = events;
  else /* the request ends at its deadline */
    mt_log_write(&sock->http->log, MORTISE_LOG_WARNING, "http: a socket cannot be watched");
}

/* We learn when a connection is closed, but not when the resolver's descriptors are, so they are
 * dropped at once. */
static void sock_unwanted(mt_sock *sock) {
  sock->wanted = 0;
  if (sock->armed != EPOLLIN || !sock->connection) sock_disarm(sock);
  if (!sock->connection) sock->used = false;
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known) {
  (void)easy;
  struct mt_http *http = ctx;
  mt_sock *sock = known ? known : sock_find(http, fd);
  if (what == CURL_POLL_REMOVE) {
    if (sock) sock_unwanted(sock);
    return 0;
  }
  if (!sock) sock = sock_take(http, fd);
  if (!sock) return 0; /* -1 would end the multi handle; the request ends at its deadline */
  if (!known) curl_multi_assign(http->multi.handle, fd, sock);
  sock->wanted = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
  sock_arm(sock, sock->wanted);
  return 0;
}

curl_socket_t mt_multi_opensocket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address) {
  (void)purpose;
  struct mt_http *http = ctx;
  /* Children of a script's os.execute must not inherit it. */
  int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (fd < 0) return CURL_SOCKET_BAD;
  mt_sock *sock = sock_find(http, fd);
  if (sock)
    sock_disarm(sock), sock->used = false; /* the descriptor's number is another connection's now */
  sock = sock_take(http, fd);
  if (sock) {
    sock->connection = true;
    return fd;
  }
  close(fd);
  return CURL_SOCKET_BAD;
}

int mt_multi_closesocket(void *ctx, curl_socket_t fd) {
  mt_sock *sock = sock_find(ctx, fd);
  if (sock) {
    sock_disarm(sock);
    sock->used = false;
  }
  return close(fd);
}

static uint16_t socket_port(const struct sockaddr_storage *a) {
  if (a->ss_family == AF_INET) return ntohs(((const struct sockaddr_in *)a)->sin_port);
  if (a->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)a)->sin6_port);
  return 0;
}

static bool between(mt_sock *s, int port, int local_port) {
  struct sockaddr_storage here = {0}, there = {0};
  socklen_t here_n = sizeof here, there_n = sizeof there;
  if (!s->port && !getsockname(s->watch.fd, (struct sockaddr *)&here, &here_n) &&
      !getpeername(s->watch.fd, (struct sockaddr *)&there, &there_n)) {
    s->local_port = socket_port(&here);
    s->port = socket_port(&there);
  }
  return s->port == port && s->local_port == local_port;
}

/* libcurl reports only the ports of the connection that it is about to use, not its socket. */
bool mt_multi_quiet(struct mt_http *http, int port, int local_port) {
  char byte;
  for (mt_sock *s = http->multi.socks; s; s = s->next) {
    if (!s->used || !s->connection || !between(s, port, local_port)) continue;
    if (s->spoilt) return false;
    ssize_t n = recv(s->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return false;
  }
  return true;
}

/* libcurl can close a connection only while using it, so this one is closed at its next use. */
void mt_multi_spoil(struct mt_http *http, int port, int local_port) {
  for (mt_sock *s = http->multi.socks; s; s = s->next)
    if (s->used && s->connection && between(s, port, local_port)) s->spoilt = true;
}

/* What asks for the cluster's nodes takes no connection from other requests. */
static bool set_up_multi(struct mt_http *http, CURLM *handle) {
  long connections = http->multi.connections + http->sniff.on, most = connections * (long)http->nodes.cap;
  return !curl_multi_setopt(handle, CURLMOPT_SOCKETFUNCTION, set_socket) &&
         !curl_multi_setopt(handle, CURLMOPT_SOCKETDATA, http) &&
         !curl_multi_setopt(handle, CURLMOPT_TIMERFUNCTION, set_timer) &&
         !curl_multi_setopt(handle, CURLMOPT_TIMERDATA, http) &&
         !curl_multi_setopt(handle, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) &&
         !curl_multi_setopt(handle, CURLMOPT_MAX_HOST_CONNECTIONS, connections) &&
         !curl_multi_setopt(handle, CURLMOPT_MAXCONNECTS, most);
}

mortise_status mt_multi_renew(struct mt_http *http, mortise_error *err) {
  mt_multi *m = &http->multi;
  if (m->handle) curl_multi_cleanup(m->handle);
  m->handle = NULL;
  mt_timer_stop(http->loop, &m->timer);
  CURLM *handle = curl_multi_init();
  if (!handle) return mt_error_memory(err);
  if (!set_up_multi(http, handle)) {
    curl_multi_cleanup(handle);
    return mt_error_set(err, MORTISE_UNSUPPORTED, "libcurl refuses an option");
  }
  m->handle = handle;
  return MORTISE_OK;
}

mortise_status mt_multi_init(struct mt_http *http, uint32_t connections, mt_multi_drain *drain,
                             mortise_error *err) {
  mt_multi *m = &http->multi;
  m->drain = drain;
  m->connections = (long)connections;
  m->timer = (mt_timer){.fire = on_curl_timer, .ctx = http};
  mortise_status status = mt_timer_reserve(http->loop, &m->timer, err);
  return status ? status : mt_multi_renew(http, err);
}

void mt_multi_deinit(struct mt_http *http) {
  mt_multi *m = &http->multi;
  if (m->handle) curl_multi_cleanup(m->handle);
  mt_timer_release(http->loop, &m->timer);
  for (mt_sock *s = m->socks, *next; s; s = next) {
    next = s->next;
    if (s->used) sock_disarm(s);
    mt_free(s);
  }
  *m = (mt_multi){0};
}
