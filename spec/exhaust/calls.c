/* The system's calls that may fail: defined in the program itself, so that libcurl finds these
 * before the C library's (and the sanitizer's), which are called from here. */
#include "fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The program hides its symbols; these must be seen by the libraries. */
#define SEEN __attribute__((visibility("default")))

#define NEXT(name)                                                                                 \
  static _Atomic(__typeof__(&name)) known;                                                         \
  __typeof__(&name) next = atomic_load_explicit(&known, memory_order_relaxed);                     \
  if (!next) {                                                                                     \
    *(void **)&next = dlsym(RTLD_NEXT, #name);                                                     \
    atomic_store_explicit(&known, next, memory_order_relaxed);                                     \
  }

/* Sets errno to one of `codes`. */
static void pick(const int *codes, size_t n) {
  errno = codes[mt_fault_choice((unsigned)n)];
}

#define FAIL(...)                                                                                  \
  do {                                                                                             \
    static const int codes[] = {__VA_ARGS__};                                                      \
    pick(codes, sizeof codes / sizeof *codes);                                                     \
  } while (0)

/* ---- Sockets -------------------------------------------------------------------------------- */

enum { FDS = 4096 };
static atomic_bool is_socket[FDS];

static void note(int fd, bool value) {
  if (fd >= 0 && fd < FDS) atomic_store(&is_socket[fd], value);
}

static bool hits(int fd, const char *what) {
  return fd >= 0 && fd < FDS && atomic_load(&is_socket[fd]) && mt_fault_hits(MT_FAULT_SOCKET, what);
}

SEEN int socket(int domain, int type, int protocol) {
  NEXT(socket)
  if (mt_fault_hits(MT_FAULT_SOCKET, "socket")) {
    FAIL(EMFILE, ENFILE, ENOBUFS, EACCES);
    return -1;
  }
  int fd = next(domain, type, protocol);
  note(fd, true);
  return fd;
}

SEEN int socketpair(int domain, int type, int protocol, int pair[2]) {
  NEXT(socketpair)
  if (mt_fault_hits(MT_FAULT_SOCKET, "socketpair")) {
    FAIL(EMFILE, ENFILE, ENOBUFS);
    return -1;
  }
  return next(domain, type, protocol, pair);
}

SEEN int close(int fd) {
  NEXT(close)
  note(fd, false);
  return next(fd);
}

SEEN int connect(int fd, const struct sockaddr *to, socklen_t n) {
  NEXT(connect)
  if (hits(fd, "connect")) {
    FAIL(ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EADDRNOTAVAIL, EHOSTUNREACH, EPERM);
    return -1;
  }
  return next(fd, to, n);
}

/* Half of the failing sends have reached the other side nevertheless. */
SEEN ssize_t send(int fd, const void *p, size_t n, int flags) {
  NEXT(send)
  if (hits(fd, "send")) {
    if (mt_fault_choice(2)) next(fd, p, n, flags);
    FAIL(ECONNRESET, EPIPE, ETIMEDOUT, ENOBUFS, ENETDOWN);
    return -1;
  }
  return next(fd, p, n, flags);
}

static ssize_t fail_to_read(void) {
  if (!mt_fault_choice(4)) return 0; /* the other side has closed */
  FAIL(ECONNRESET, ETIMEDOUT, ENOMEM, EHOSTUNREACH);
  return -1;
}

SEEN ssize_t recv(int fd, void *p, size_t n, int flags) {
  NEXT(recv)
  return hits(fd, "recv") ? fail_to_read() : next(fd, p, n, flags);
}

SEEN int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict n) {
  NEXT(getsockopt)
  if (!hits(fd, "getsockopt")) return next(fd, level, name, value, n);
  if (level == SOL_SOCKET && name == SO_ERROR && mt_fault_choice(2)) {
    *(int *)value = ETIMEDOUT;
    return 0;
  }
  FAIL(ENOBUFS, ENOMEM);
  return -1;
}

SEEN int setsockopt(int fd, int level, int name, const void *value, socklen_t n) {
  NEXT(setsockopt)
  if (hits(fd, "setsockopt")) {
    FAIL(ENOMEM, ENOPROTOOPT, ENOBUFS);
    return -1;
  }
  return next(fd, level, name, value, n);
}

SEEN int getpeername(int fd, struct sockaddr *restrict at, socklen_t *restrict n) {
  NEXT(getpeername)
  if (hits(fd, "getpeername")) {
    FAIL(ENOTCONN, ENOBUFS);
    return -1;
  }
  return next(fd, at, n);
}

SEEN int getsockname(int fd, struct sockaddr *restrict at, socklen_t *restrict n) {
  NEXT(getsockname)
  if (hits(fd, "getsockname")) {
    FAIL(ENOBUFS, EINVAL);
    return -1;
  }
  return next(fd, at, n);
}

SEEN int poll(struct pollfd *fds, nfds_t n, int timeout) {
  NEXT(poll)
  if (n && hits(fds[0].fd, "poll")) {
    FAIL(EINTR, ENOMEM);
    return -1;
  }
  return next(fds, n, timeout);
}

/* Fails for a socket, or for a lock of the turnstile. Releasing a lock cannot really fail: it is
 * done, but reported as failed. */
static bool fcntl_fails(int fd, int command, const struct flock *lock) {
  if (command != F_OFD_SETLK) return hits(fd, "fcntl");
  return mt_fault_hits(MT_FAULT_IO, lock->l_type == F_UNLCK ? "turn unlock" : "turn lock");
}

SEEN int fcntl(int fd, int command, ...) {
  NEXT(fcntl)
  va_list args;
  va_start(args, command);
  void *given = va_arg(args, void *);
  va_end(args);
  if (!fcntl_fails(fd, command, given)) return next(fd, command, given);
  if (command != F_OFD_SETLK) {
    FAIL(EINVAL, EPERM);
  } else {
    if (((const struct flock *)given)->l_type == F_UNLCK) next(fd, command, given);
    FAIL(ENOLCK, EIO);
    if (!mt_fault_for_good() && mt_fault_choice(2)) errno = EINTR;
  }
  return -1;
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}

SEEN int open(const char *file, int flags, ...) {
  NEXT(open)
  va_list args;
  va_start(args, flags);
  mode_t mode = (mode_t)va_arg(args, int);
  va_end(args);
  if (ends_with(file, ".turn") && mt_fault_hits(MT_FAULT_IO, "turn open")) {
    FAIL(EMFILE, ENFILE, EIO, EACCES, ENOSPC);
    return -1;
  }
  return next(file, flags, mode);
}

/* ---- The loop, and threads ------------------------------------------------------------------ */

SEEN int epoll_create1(int flags) {
  NEXT(epoll_create1)
  if (mt_fault_hits(MT_FAULT_LOOP, "epoll_create1")) {
    FAIL(EMFILE, ENFILE, ENOMEM);
    return -1;
  }
  return next(flags);
}

SEEN int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event) {
  NEXT(epoll_ctl)
  if (op != EPOLL_CTL_DEL && mt_fault_hits(MT_FAULT_LOOP, "epoll_ctl")) {
    FAIL(ENOMEM, ENOSPC);
    return -1;
  }
  return next(epoll, op, fd, event);
}

/* An interrupted wait, but not for ever: no kernel does that. */
SEEN int epoll_wait(int epoll, struct epoll_event *events, int n, int timeout) {
  NEXT(epoll_wait)
  if (!mt_fault_for_good() && mt_fault_hits(MT_FAULT_LOOP, "epoll_wait")) {
    errno = EINTR;
    return -1;
  }
  return next(epoll, events, n, timeout);
}

SEEN int eventfd(unsigned count, int flags) {
  NEXT(eventfd)
  if (mt_fault_hits(MT_FAULT_LOOP, "eventfd")) {
    FAIL(EMFILE, ENFILE, ENOMEM);
    return -1;
  }
  return next(count, flags);
}

SEEN int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                        void *(*run)(void *), void *restrict ctx) {
  NEXT(pthread_create)
  return mt_fault_hits(MT_FAULT_LOOP, "pthread_create") ? EAGAIN : next(thread, attr, run, ctx);
}
