#include "http_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNS_MAX = 256, BODY_MAX = 64 << 20 };

struct test_conn {
  test_server *server;
  pthread_t thread;
  int fd;
  unsigned number;
  SSL *ssl;
};

struct test_server {
  int fd;
  uint16_t port;
  SSL_CTX *tls;
  test_handler *handler;
  void *ctx;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t stopped;
  bool stop;
  unsigned requests, n;
  test_conn conns[CONNS_MAX];
};

static void must(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "test server: %s: %s\n", what, strerror(errno));
  abort();
}

static ssize_t receive(test_conn *c, void *p, size_t n) {
  return c->ssl ? SSL_read(c->ssl, p, (int)n) : recv(c->fd, p, n, 0);
}

void test_send(test_conn *c, const void *p, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t k = c->ssl ? SSL_write(c->ssl, (const char *)p + done, (int)(n - done))
                       : send(c->fd, (const char *)p + done, n - done, MSG_NOSIGNAL);
    if (k <= 0) return;
    done += (size_t)k;
  }
}

void test_sendf(test_conn *c, const char *fmt, ...) {
  char text[16384];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  must(n >= 0 && (size_t)n < sizeof text, "a text too long");
  test_send(c, text, (size_t)n);
}

void test_answer(test_conn *c, int status, const char *json) {
  test_sendf(c,
             "HTTP/1.1 %d Word\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             status, strlen(json), json);
}

void test_sleep(test_conn *c, int ms) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += ms / 1000;
  until.tv_nsec += ms % 1000 * 1000000L;
  if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
  pthread_mutex_lock(&c->server->mutex);
  while (!c->server->stop &&
         !pthread_cond_timedwait(&c->server->stopped, &c->server->mutex, &until)) {
  }
  pthread_mutex_unlock(&c->server->mutex);
}

void test_reset(test_conn *c) {
  struct linger now = {.l_onoff = 1};
  setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

bool test_has(const test_request *req, const char *line) {
  return strcasestr(req->head, line) != NULL;
}

/* Reads byte by byte up to the blank line: slow, but never a byte too many. */
static bool read_head(test_conn *c, test_request *req) {
  size_t n = 0;
  while (n + 1 < sizeof req->head && receive(c, req->head + n, 1) == 1) {
    req->head[++n] = '\0';
    if (req->head[0] < ' ') { /* TLS, where none is spoken: what real servers answer */
      test_answer(c, 400, "{}");
      return false;
    }
    if (n >= 4 && !memcmp(req->head + n - 4, "\r\n\r\n", 4)) return true;
  }
  return false;
}

static void read_body(test_conn *c, test_request *req) {
  const char *length = strcasestr(req->head, "\r\nContent-Length:");
  req->n = length ? strtoul(length + 17, NULL, 10) : 0;
  must(req->n <= BODY_MAX, "a body too large");
  req->body = calloc(1, req->n + 1);
  must(req->body, "memory");
  size_t n = 0;
  for (ssize_t k; n < req->n && (k = receive(c, req->body + n, req->n - n)) > 0;) n += (size_t)k;
  req->whole = n == req->n;
  req->n = n;
}

static bool serve_one(test_conn *c) {
  test_request *req = calloc(1, sizeof *req);
  must(req, "memory");
  bool more = read_head(c, req);
  if (more) {
    read_body(c, req);
    pthread_mutex_lock(&c->server->mutex);
    if (req->whole) c->server->requests++;
    req->number = c->server->requests;
    pthread_mutex_unlock(&c->server->mutex);
    req->connection = c->number;
    more = c->server->handler(c, req, c->server->ctx) && req->whole;
  }
  free(req->body);
  free(req);
  return more;
}

/* Closes as careful servers do, so that the alert arrives rather than a reset. */
static void linger(test_conn *c) {
  char unread[4096];
  shutdown(c->fd, SHUT_WR);
  while (recv(c->fd, unread, sizeof unread, 0) > 0) {
  }
}

static void *serve(void *ctx) {
  test_conn *c = ctx;
  bool fine = true;
  if (c->server->tls) {
    c->ssl = SSL_new(c->server->tls);
    must(c->ssl && SSL_set_fd(c->ssl, c->fd), "TLS");
    fine = SSL_accept(c->ssl) == 1;
    if (!fine) linger(c);
  }
  while (fine && serve_one(c)) {
  }
  if (c->ssl) SSL_free(c->ssl);
  pthread_mutex_lock(&c->server->mutex);
  close(c->fd);
  c->fd = -1;
  pthread_mutex_unlock(&c->server->mutex);
  return NULL;
}

static void *listen_on(void *ctx) {
  test_server *s = ctx;
  /* OpenSSL writes without MSG_NOSIGNAL; the threads of connections inherit this. */
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, NULL);
  for (;;) {
    int fd = accept(s->fd, NULL, NULL), one = 1;
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0) return NULL;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pthread_mutex_lock(&s->mutex);
    bool stop = s->stop;
    if (!stop) {
      must(s->n < CONNS_MAX, "too many connections");
      test_conn *c = &s->conns[s->n++];
      *c = (test_conn){.server = s, .fd = fd, .number = s->n};
      must(!pthread_create(&c->thread, NULL, serve, c), "a thread");
    }
    pthread_mutex_unlock(&s->mutex);
    if (!stop) continue;
    close(fd);
    return NULL;
  }
}

static int bind_to(uint16_t port, uint16_t *out) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  must(fd >= 0, "socket");
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  must(!bind(fd, (struct sockaddr *)&at, sizeof at), "bind");
  socklen_t n = sizeof at;
  must(!getsockname(fd, (struct sockaddr *)&at, &n), "getsockname");
  *out = ntohs(at.sin_port);
  return fd;
}

uint16_t test_free_port(void) {
  uint16_t port;
  close(bind_to(0, &port));
  return port;
}

test_server *test_server_start(uint16_t port, SSL_CTX *tls, test_handler *handler, void *ctx) {
  test_server *s = calloc(1, sizeof *s);
  must(s, "memory");
  s->tls = tls;
  s->handler = handler;
  s->ctx = ctx;
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->stopped, NULL);
  s->fd = bind_to(port, &s->port);
  must(!listen(s->fd, 64), "listen");
  must(!pthread_create(&s->thread, NULL, listen_on, s), "a thread");
  return s;
}

void test_server_stop(test_server *s) {
  if (!s) return;
  pthread_mutex_lock(&s->mutex);
  s->stop = true;
  pthread_cond_broadcast(&s->stopped);
  for (unsigned i = 0; i < s->n; i++)
    if (s->conns[i].fd >= 0) shutdown(s->conns[i].fd, SHUT_RDWR);
  pthread_mutex_unlock(&s->mutex);
  shutdown(s->fd, SHUT_RDWR);
  pthread_join(s->thread, NULL);
  for (unsigned i = 0; i < s->n; i++) pthread_join(s->conns[i].thread, NULL);
  close(s->fd);
  pthread_cond_destroy(&s->stopped);
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

uint16_t test_server_port(const test_server *s) {
  return s->port;
}

static unsigned locked(test_server *s, const unsigned *value) {
  pthread_mutex_lock(&s->mutex);
  unsigned copy = *value;
  pthread_mutex_unlock(&s->mutex);
  return copy;
}

unsigned test_server_requests(test_server *s) {
  return locked(s, &s->requests);
}

unsigned test_server_connections(test_server *s) {
  return locked(s, &s->n);
}
