/* The program: a host, its signals, and the commands, which are Lua (stdlib/mortise/cli.lua). */
#include "arguments.h"
#include "status.h"
#include "terminal.h"

#include <mortise/host.h>

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { INTERRUPTED = 130, UNREAD = 128 + SIGPIPE };

static mortise_host *volatile host;
static volatile sig_atomic_t signals;

/* The first lets the script give back its locks; a second one ends at once. */
static void on_signal(int number) {
  if (number == SIGTERM) mt_terminal_ending = 1;
  if (signals++ > 0) {
    mt_terminal_restore();
    mt_status_end();
    _exit(INTERRUPTED);
  }
  if (host) mortise_host_interrupt(host);
}

void mt_terminal_prompted(void) {
  signals = 0;
}

enum { PIPES_MAX = 100 }; /* writes of a script that catches the interrupt and goes on writing */

/* Nobody reads our output any more: as by the first ^C, so that locks are given back. Where that is
 * not so, it was a connection, whose write says so itself. */
static void on_pipe(int number) {
  (void)number;
  int before = errno;
  struct pollfd output = {.fd = STDOUT_FILENO};
  if (poll(&output, 1, 0) > 0 && (output.revents & POLLERR)) {
    if (mt_terminal_unread++ > PIPES_MAX) _exit(UNREAD);
    if (host) mortise_host_interrupt(host);
  }
  errno = before;
}

/* Ends as a program does that knows nothing of closed pipes. */
static int end_unread(void) {
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
  return UNREAD;
}

static void catch_signals(void) {
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  struct sigaction before;
  sigaction(SIGHUP, NULL, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL); /* nohup stays nohup */
  /* A handler, unlike SIG_IGN, is not inherited by the programs that a script starts. */
  action.sa_handler = on_pipe;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, NULL);
  sigset_t ours; /* whoever started us may have blocked them */
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGHUP);
  sigprocmask(SIG_UNBLOCK, &ours, NULL);
}

static int return_all(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* (main, arguments) -> its results. Signals are caught from here on, where an interrupt has a call
 * to reach; before, they end the program, which has nothing to give back yet. */
static int call_main(lua_State *L) {
  catch_signals();
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, return_all);
  return return_all(L, LUA_OK, 0);
}

/* (argv, argc) -> call_main, main, arguments */
static int load_cli(lua_State *L) {
  char **argv = lua_touserdata(L, 1);
  int argc = (int)lua_tointeger(L, 2);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, mt_terminal_open);
  lua_setfield(L, -2, "mortise.terminal");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mortise.cli");
  lua_call(L, 1, 1);
  lua_pushcfunction(L, call_main);
  lua_getfield(L, -2, "main");
  luaL_checkstack(L, argc, "too many arguments");
  for (int i = 1; i < argc; i++) lua_pushstring(L, argv[i]);
  return argc + 1;
}

static int fail(const char *message) {
  fprintf(stderr, "mortise: %s\n", message);
  return 1;
}

static int run(lua_State *L, int argc, char **argv) {
  mortise_error err;
  if (!lua_checkstack(L, argc + LUA_MINSTACK)) return fail("too many arguments");
  lua_pushcfunction(L, load_cli);
  lua_pushlightuserdata(L, argv);
  lua_pushinteger(L, argc);
  if (lua_pcall(L, 2, argc + 1, 0) != LUA_OK)
    return fail(lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "cannot start");
  if (mortise_host_call(host, argc, 1, &err)) {
    if (mt_terminal_unread) return UNREAD;
    fprintf(stderr, "mortise: %s: %s\n", mortise_status_name(err.code), err.message);
    return mortise_status_exit(err.code);
  }
  return lua_isinteger(L, -1) ? (int)lua_tointeger(L, -1) : 0;
}

/* May come from the heartbeat's thread. */
static void warn(void *ctx, mortise_log_level level, const char *line) {
  (void)ctx;
  if (level >= MORTISE_LOG_WARNING) mt_status_say("warning: %s", line);
}

int main(int argc, char **argv) {
  mortise_error err;
  mortise_options options;
  char **words = mt_arguments_take(argc, argv);
  if (!words) return fail("out of memory");
  mt_terminal_save();
  mortise_options_init(&options);
  options.log = warn;
  options.notice = mt_status_notice;
  mortise_host *made = mortise_host_new(&options, &err);
  if (!made) {
    free(words);
    return fail(err.message);
  }
  host = made;
  mortise_host_allow_exit(made, true); /* run.lua gives back the locks first */
  int status = run(mortise_host_state(made), argc < 1 ? 1 : argc, words);
  host =
      NULL; /* closing is bounded: a signal has nothing left to interrupt, a second one ends it */
  mortise_host_free(made);
  free(words);
  bool unwritten = fflush(stdout) != 0 || ferror(stdout);
  if (mt_terminal_unread) return end_unread();
  if (unwritten && status == 0) return fail("the output could not be written");
  return status;
}
