/* A command that prints a secret. */
#include "access/fetch.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OUTPUT_MAX = 64 * 1024, COMMAND_MS = 30000, SLICE_MS = 100 };

extern char **environ;

typedef struct running {
  const mt_fetch *of;
  pid_t pid;
  int out;
  int64_t until_ms;
} running;

/* In a process group of its own, which can be ended as a whole. This thread blocks signals, which it would inherit. */
static int spawn_shell(const char *command, int to, pid_t *pid) {
  char *words[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)command, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int failed = posix_spawn_file_actions_init(&files);
  if (failed) return failed;
  failed = posix_spawnattr_init(&how);
  if (!failed) {
    failed = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&files, to, STDOUT_FILENO);
    if (!failed) failed = posix_spawnattr_setsigmask(&how, &none);
    if (!failed) failed = posix_spawnattr_setsigdefault(&how, &all);
    if (!failed)
      failed = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!failed) failed = posix_spawn(pid, "/bin/sh", &files, &how, words, environ);
    posix_spawnattr_destroy(&how);
  }
  posix_spawn_file_actions_destroy(&files);
  return failed;
}

static bool is_given_up(const running *r) {
  return atomic_load(r->of->stop) || mt_clock_boot_ms() >= r->until_ms;
}

/* Until the command has closed its output. False if that took too long, or was too much. */
static bool read_output(const running *r, mt_buf *out) {
  while (!is_given_up(r)) {
    struct pollfd p = {.fd = r->out, .events = POLLIN};
    if (poll(&p, 1, SLICE_MS) <= 0) continue;
    char *room = mt_buf_room(out, 4096);
    ssize_t n = room ? read(r->out, room, 4096) : -1;
    if (n < 0 && room && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    out->n += (size_t)n;
  }
  return false;
}

/* Its status, as waitpid gives it; -1 if it does not end. Where the host ignores SIGCHLD nobody knows: 0. */
static int end_of_command(const running *r) {
  const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
  for (;;) {
    int status = 0;
    pid_t got = waitpid(r->pid, &status, WNOHANG);
    if (got == r->pid) return status;
    if (got < 0 && errno != EINTR) return 0;
    if (is_given_up(r)) return -1;
    nanosleep(&pause, NULL);
  }
}

static mortise_status fail_command(mortise_error *err, const char *command, const char *how) {
  mt_error_set(err, MORTISE_UNAVAILABLE, "the command '%.200s' %s", command, how);
  err->retryable = true;
  return err->code;
}

static mortise_status await(const running *r, const char *command, mt_buf *out, mortise_error *err) {
  bool whole = read_output(r, out);
  int status = whole ? end_of_command(r) : -1;
  if (status < 0) {
    kill(-r->pid, SIGKILL);
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR) continue;
  }
  if (out->failed == MORTISE_OUT_OF_MEMORY) return mt_error_memory(err);
  if (out->failed) return fail_command(err, command, "prints more than 64 KiB");
  if (status < 0) return fail_command(err, command, "does not end");
  char how[64];
  if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
  else
    snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
  return status ? fail_command(err, command, how) : MORTISE_OK;
}

mortise_status mt_command_output(const mt_fetch *f, const char *command, mt_buf *out, mortise_error *err) {
  int pipe_ends[2];
  running r = {.of = f, .until_ms = mt_clock_boot_ms() + COMMAND_MS};
  mt_buf_init(out, OUTPUT_MAX);
  if (pipe2(pipe_ends, O_CLOEXEC)) return fail_command(err, command, strerror(errno));
  int failed = spawn_shell(command, pipe_ends[1], &r.pid);
  close(pipe_ends[1]);
  r.out = pipe_ends[0];
  mortise_status status =
      failed ? fail_command(err, command, strerror(failed)) : await(&r, command, out, err);
  close(pipe_ends[0]);
  return status;
}

bool mt_is_plain(mt_slice text, const char *but) {
  for (size_t i = 0; i < text.n; i++)
    if (text.p[i] <= ' ' || (unsigned char)text.p[i] >= 127 || strchr(but, text.p[i])) return false;
  return true;
}

mortise_status mt_fetch_command(const mt_fetch *f, mt_credentials *out, mortise_error *err) {
  mt_buf text;
  mortise_status status = mt_command_output(f, f->command, &text, err);
  mt_slice rest = mt_buf_slice(&text), line = mt_slice_cut(&rest, '\n');
  while (line.n && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' ')) line.n--;
  bool plain = line.n && line.n < sizeof out->secret && mt_is_plain(line, "");
  if (!status && !plain)
    status = fail_command(err, f->command, line.n ? "prints no secret in its first line" : "prints nothing");
  if (!status) {
    memcpy(out->secret, line.p, line.n);
    out->secret[line.n] = '\0';
  }
  mt_buf_wipe(&text);
  return status;
}
