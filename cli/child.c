/* The program that `mortise lock` runs: in a process group of its own, which has the terminal while it runs, and
 * to which signals are passed on. A watcher, a process that does nothing but wait for our end, ends that group if
 * we are killed. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

extern char **environ;

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, LOOK_MS = 20, DESCRIPTORS_MAX = 1024 };

static struct child {
  volatile sig_atomic_t group; /* its process, and its group; 0: there is none */
  pid_t watcher;
  int watch;    /* to the watcher: a byte if all is well, else its end is ours */
  int terminal; /* -1: we did not have it */
  struct sigaction before[16];
} child = {.watch = -1, .terminal = -1};

/* ---- Signals -------------------------------------------------------------------------------- */

static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};
enum { N_PASSED = sizeof passed / sizeof *passed };

/* Stopped, we keep no lock: so the program is stopped with us. */
static void pass_on(int number) {
  int before = errno;
  if (child.group) kill(-child.group, number);
  if (number == SIGTSTP) kill(getpid(), SIGSTOP);
  errno = before;
}

static void catch_signals(void) {
  struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
  sigfillset(&action.sa_mask);
  for (int i = 0; i < N_PASSED; i++) {
    sigaction(passed[i], NULL, &child.before[i]);
    if (child.before[i].sa_handler != SIG_IGN) sigaction(passed[i], &action, NULL);
  }
}

static void release_signals(void) {
  for (int i = 0; i < N_PASSED; i++) sigaction(passed[i], &child.before[i], NULL);
}

/* ---- The terminal --------------------------------------------------------------------------- */

/* Who is in the background may set it only while it ignores the signal for that. */
static void give_terminal(int terminal, pid_t group) {
  struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
  if (terminal < 0) return;
  sigaction(SIGTTOU, &ignore, &before);
  tcsetpgrp(terminal, group);
  sigaction(SIGTTOU, &before, NULL);
}

static bool has_terminal(int terminal) {
  return terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
}

static void open_terminal(void) {
  child.terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (child.terminal < 0 || has_terminal(child.terminal)) return;
  close(child.terminal);
  child.terminal = -1;
}

/* ---- The watcher ---------------------------------------------------------------------------- */

static void rest(int ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

/* In a process that has no other thread any more: only what is safe in a signal handler. */
static void keep_watch(int from, pid_t group, const char *fence_file, int grace_ms) {
  char byte;
  ssize_t n;
  setsid();
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
    if (fd != from) close(fd);
  for (int i = 0; i < N_PASSED; i++) signal(passed[i], SIG_IGN);
  do n = read(from, &byte, 1);
  while (n < 0 && errno == EINTR);
  if (n > 0) _exit(0);
  kill(-group, SIGTERM);
  kill(-group, SIGCONT);
  for (int ms = 0; ms < grace_ms && !kill(-group, 0); ms += LOOK_MS) rest(LOOK_MS);
  kill(-group, SIGKILL);
  if (fence_file) unlink(fence_file);
  _exit(0);
}

/* ---- Starting ------------------------------------------------------------------------------- */

typedef struct plan {
  char **words, **environment;
  const char *fence_file;
  int grace_ms;
} plan;

/* `go`: where a byte comes once the watcher is there; `failure`: where errno goes. */
static void run_program(const plan *p, pid_t parent, int go, int failure, const sigset_t *mask) {
  char byte;
  setpgid(0, 0);
  give_terminal(child.terminal, getpid());
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* beside the watcher, which may be killed, too */
#endif
  if (getppid() != parent || read(go, &byte, 1) != 1) _exit(NOT_FOUND);
  environ = p->environment;
  sigprocmask(SIG_SETMASK, mask, NULL);
  execvp(p->words[0], p->words);
  int number = errno;
  ssize_t n = write(failure, &number, sizeof number);
  _exit(n == sizeof number ? NOT_EXECUTABLE : NOT_FOUND);
}

enum { GO, FAILURE, WATCH, N_PIPES };

static void close_pipes(int pipes[N_PIPES][2], int n) {
  for (int i = 0; i < 2 * n; i++)
    if (pipes[i / 2][i % 2] >= 0) close(pipes[i / 2][i % 2]);
}

/* Both are forked with all signals blocked. 0, or errno; then there may be a program that has not begun. */
static int fork_both(const plan *p, int pipes[N_PIPES][2], const sigset_t *mask) {
  pid_t parent = getpid(), pid = fork();
  if (!pid) {
    close(pipes[GO][1]), close(pipes[WATCH][1]);
    run_program(p, parent, pipes[GO][0], pipes[FAILURE][1], mask);
  }
  if (pid < 0) return errno;
  setpgid(pid, pid);
  child.group = pid;
  child.watcher = fork();
  if (!child.watcher) keep_watch(pipes[WATCH][0], pid, p->fence_file, p->grace_ms);
  return child.watcher < 0 ? errno : 0;
}

/* Lets the program begin. 0, or why it does not: it is executed, or is not. */
static int let_go(int pipes[N_PIPES][2]) {
  int number = 0;
  if (write(pipes[GO][1], "", 1) != 1) return errno;
  close(pipes[FAILURE][1]);
  pipes[FAILURE][1] = -1;
  ssize_t n;
  do n = read(pipes[FAILURE][0], &number, sizeof number);
  while (n < 0 && errno == EINTR);
  return n < 0 ? errno : number;
}

/* 0, or why the program was not started. */
static int start_program(const plan *p) {
  int pipes[N_PIPES][2];
  for (int i = 0; i < N_PIPES; i++)
    if (pipe2(pipes[i], O_CLOEXEC)) {
      int number = errno;
      close_pipes(pipes, i);
      return number;
    }
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  int number = fork_both(p, pipes, &mask);
  if (!number) number = let_go(pipes);
  if (child.group) catch_signals();
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
  child.watch = pipes[WATCH][1];
  pipes[WATCH][1] = -1;
  close_pipes(pipes, N_PIPES);
  return number;
}

static const char *text_at(lua_State *L, int at) {
  luaL_checktype(L, at, LUA_TSTRING);
  return lua_tostring(L, at);
}

/* (list) -> a vector that ends with NULL, which is as long as the strings on the list are */
static char **vector_of(lua_State *L, int list, char **first) {
  lua_Integer n = luaL_len(L, list), extra = 0;
  for (char **each = first; each && *each; each++) extra++;
  char **all = lua_newuserdatauv(L, (size_t)(n + extra + 1) * sizeof *all, 0);
  for (lua_Integer i = 0; i < extra; i++) all[i] = first[i];
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, list, i);
    all[extra + i - 1] = (char *)(uintptr_t)text_at(L, -1); /* which exec takes without const */
    lua_pop(L, 1);
  }
  all[n + extra] = NULL;
  return all;
}

static void end_child(void) {
  if (!child.group) return;
  give_terminal(child.terminal, getpgrp());
  release_signals();
  if (child.terminal >= 0) close(child.terminal);
  if (child.watcher > 0) {
    while (write(child.watch, "", 1) < 0 && errno == EINTR) continue;
    while (waitpid(child.watcher, NULL, 0) < 0 && errno == EINTR) continue;
  }
  close(child.watch);
  child.group = 0, child.watcher = 0, child.watch = -1, child.terminal = -1;
}

static int child_start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  if (child.group) return luaL_error(L, "a program runs already");
  plan p = {.fence_file = lua_isnoneornil(L, 3) ? NULL : text_at(L, 3), .grace_ms = (int)luaL_checkinteger(L, 4)};
  lua_settop(L, 4);
  p.words = vector_of(L, 1, NULL);
  p.environment = vector_of(L, 2, environ);
  luaL_argcheck(L, p.words[0], 1, "no command");
  open_terminal();
  int number = start_program(&p);
  if (!number) {
    lua_pushinteger(L, child.group);
    return 1;
  }
  if (child.group) {
    kill(-child.group, SIGKILL); /* it runs, where only the watcher is missing */
    waitpid(child.group, NULL, 0);
  }
  end_child();
  lua_pushnil(L);
  lua_pushinteger(L, number == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
  lua_pushstring(L, strerror(number));
  return 3;
}

/* ---- While it runs -------------------------------------------------------------------------- */

static int push_how(lua_State *L, const char *what, int number) {
  lua_pushstring(L, what);
  lua_pushinteger(L, number);
  return 2;
}

static int child_poll(lua_State *L) {
  int status;
  pid_t pid = child.group ? waitpid(child.group, &status, WNOHANG | WUNTRACED) : 0;
  if (pid <= 0) return 0;
  if (WIFSTOPPED(status)) return push_how(L, "stopped", WSTOPSIG(status));
  if (WIFSIGNALED(status)) return push_how(L, "killed", WTERMSIG(status));
  return push_how(L, "exited", WEXITSTATUS(status));
}

static int child_signal(lua_State *L) {
  static const char *const names[] = {"TERM", "KILL", "CONT", NULL};
  static const int numbers[] = {SIGTERM, SIGKILL, SIGCONT};
  int number = numbers[luaL_checkoption(L, 1, NULL, names)];
  if (child.group) kill(-child.group, number);
  return 0;
}

static int child_is_gone(lua_State *L) {
  lua_pushboolean(L, !child.group || (kill(-child.group, 0) && errno == ESRCH));
  return 1;
}

static int child_suspend(lua_State *L) {
  (void)L;
  if (child.terminal < 0) return 0; /* nobody's job: who stopped it lets it go on */
  give_terminal(child.terminal, getpgrp());
  kill(0, SIGSTOP); /* a shell stops and lets go on whole groups */
  if (has_terminal(child.terminal)) give_terminal(child.terminal, child.group);
  kill(-child.group, SIGCONT);
  return 0;
}

static int child_finish(lua_State *L) {
  (void)L;
  end_child();
  return 0;
}

int mt_child_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", child_start},     {"poll", child_poll},
                                       {"signal", child_signal},   {"is_gone", child_is_gone},
                                       {"suspend", child_suspend}, {"finish", child_finish},
                                       {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
