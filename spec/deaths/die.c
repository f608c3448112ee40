/* Preloaded into mortise: it is killed at the MORTISE_DIE_AT-th of these moments, by SIGKILL:
 *
 *   before each send on a socket and after it, after each receive that brought something;
 *   before each write, cut, sync and removal of a file that the embedded store makes.
 *
 * From the MORTISE_FULL_AT-th of them on, the disk is full for the embedded store: no file of it grows any more.
 * Where MORTISE_DIE_COUNT names a file, the number of moments that there were is written to it at the end. */
/* Fortified, the C library defines some of these functions in its headers. */
#undef _FORTIFY_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The C library's headers declare these with attributes of their own. */
EXPORT ssize_t send(int fd, const void *p, size_t n, int flags);
EXPORT ssize_t recv(int fd, void *p, size_t n, int flags);
EXPORT ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at);
EXPORT ssize_t pwrite(int fd, const void *p, size_t n, off_t at);
EXPORT int ftruncate64(int fd, off64_t size);
EXPORT int fdatasync(int fd);
EXPORT int fsync(int fd);
EXPORT int unlink(const char *path);

static _Atomic long moments;
static long die_at, full_at;

static long number_of(const char *name) {
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_settings(void) {
  die_at = number_of("MORTISE_DIE_AT");
  full_at = number_of("MORTISE_FULL_AT");
}

__attribute__((destructor)) static void say_moments(void) {
  const char *name = getenv("MORTISE_DIE_COUNT");
  bool any = atomic_load(&moments) > 0; /* none in whoever started it, and is preloaded too */
  FILE *out = name && any ? fopen(name, "w") : NULL;
  if (!out) return;
  fprintf(out, "%ld\n", atomic_load(&moments));
  fclose(out);
}

static void moment(void) {
  if (atomic_fetch_add(&moments, 1) + 1 == die_at) kill(getpid(), SIGKILL);
}

ssize_t send(int fd, const void *p, size_t n, int flags) {
  moment();
  ssize_t sent = syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
  if (sent > 0) moment();
  return sent;
}

ssize_t recv(int fd, void *p, size_t n, int flags) {
  ssize_t got = syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL);
  if (got > 0) moment();
  return got;
}

static bool is_full(int fd, off64_t size) {
  struct stat now;
  if (!full_at || atomic_load(&moments) < full_at || fstat(fd, &now) || size <= now.st_size)
    return false;
  errno = ENOSPC;
  return true;
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) {
  moment();
  if (is_full(fd, at + (off64_t)n)) return -1;
  return syscall(SYS_pwrite64, fd, p, n, at);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
  return pwrite64(fd, p, n, at);
}

int ftruncate64(int fd, off64_t size) {
  moment();
  if (is_full(fd, size)) return -1;
  return (int)syscall(SYS_ftruncate, fd, size);
}

int fdatasync(int fd) {
  moment();
  return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd) {
  moment();
  return (int)syscall(SYS_fsync, fd);
}

int unlink(const char *path) {
  moment();
  return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
