/* Preloaded into mortise: once a question "(y/N)" was written to standard error, SIGINT comes right before the
 * MORTISE_LATE_AT-th call of a function with which a program waits for the answer or looks for it, when
 * nothing of Lua runs that could see the signal before the next. */
/* Fortified, the C library defines some of these functions in its headers. */
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
/* The real function of this name, in `into`. */
#define REAL(into, name) *(void **)&(into) = dlsym(RTLD_NEXT, name)

EXPORT size_t fwrite(const void *p, size_t size, size_t n, FILE *to);
EXPORT void clearerr(FILE *file);
EXPORT ssize_t read(int fd, void *p, size_t n);
EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout);
EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout);

static _Thread_local long left; /* until the signal comes; 0: nothing was asked, or it has come */

static void begins_to_wait(void) {
  if (left && !--left) raise(SIGINT);
}

size_t fwrite(const void *p, size_t size, size_t n, FILE *to) {
  static const char question[] = "(y/N) ";
  size_t (*real)(const void *, size_t, size_t, FILE *);
  REAL(real, "fwrite");
  size_t written = real(p, size, n, to);
  const char *at = getenv("MORTISE_LATE_AT");
  if (at && to == stderr && memmem(p, size * n, question, sizeof question - 1)) left = strtol(at, NULL, 10);
  return written;
}

/* The first thing that Lua's io.read does. */
void clearerr(FILE *file) {
  void (*real)(FILE *);
  REAL(real, "clearerr");
  begins_to_wait();
  real(file);
}

ssize_t read(int fd, void *p, size_t n) {
  ssize_t (*real)(int, void *, size_t);
  REAL(real, "read");
  begins_to_wait();
  return real(fd, p, n);
}

int poll(struct pollfd *fds, nfds_t n, int timeout) {
  int (*real)(struct pollfd *, nfds_t, int);
  REAL(real, "poll");
  begins_to_wait();
  return real(fds, n, timeout);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
  int (*real)(int, struct epoll_event *, int, int);
  REAL(real, "epoll_wait");
  begins_to_wait();
  return real(fd, events, most, timeout);
}
