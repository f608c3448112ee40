/* The program: a host, its signals, and the commands, which are written in Lua
 * (stdlib/mortise/cli.lua). */
#include "arguments.h"
#include "child.h"
#include "log.h"
#include "signals.h"
#include "status.h"
#include "terminal.h"
#ifdef MORTISE_MHD
#include "web_lua.h"
#endif

#include <mortise/host.h>

#include <lauxlib.h>
#include <lua.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static mortise_host *volatile host;

static void interrupt(void) {
  if (host) mortise_host_interrupt(host);
}

static void last(void) {
  mt_terminal_restore();
  mt_status_end();
}

static int return_all(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* (main, arguments) -> its results. Signals are caught from here on, when there is a call to
 * interrupt; before that they end the program, which holds nothing yet. */
static int call_main(lua_State *L) {
  mt_signals_catch(interrupt, last);
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
  lua_pushcfunction(L, mt_child_open);
  lua_setfield(L, -2, "mortise.child");
#ifdef MORTISE_MHD
  lua_pushcfunction(L, mt_web_open);
  lua_setfield(L, -2, "mortise.web");
#endif
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mortise.cli");
  lua_call(L, 1, 1);
  lua_pushcfunction(L, call_main);
  lua_getfield(L, -2, "main");
  luaL_checkstack(L, argc, "too many arguments");
  for (int i = 1; i < argc; i++) lua_pushstring(L, argv[i]);
  return argc + 1;
}

static int program_fail(const char *message) {
  fprintf(stderr, "mortise: %s\n", message);
  return 1;
}

static int run_cli(lua_State *L, int argc, char **argv) {
  mortise_error err;
  if (!lua_checkstack(L, argc + LUA_MINSTACK)) return program_fail("too many arguments");
  lua_pushcfunction(L, load_cli);
  lua_pushlightuserdata(L, argv);
  lua_pushinteger(L, argc);
  if (lua_pcall(L, 2, argc + 1, 0) != LUA_OK)
    return program_fail(lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "cannot start");
  if (mortise_host_call(host, argc, 1, &err)) {
    if (mt_signals_unread) return 1; /* main handles it */
    fprintf(stderr, "mortise: %s: %s\n", mortise_status_name(err.code), err.message);
    return mortise_status_exit(err.code);
  }
  return lua_isinteger(L, -1) ? (int)lua_tointeger(L, -1) : 0;
}

int main(int argc, char **argv) {
  mortise_error err;
  mortise_options options;
  char **words = mt_arguments_take(argc, argv);
  if (!words) return program_fail("out of memory");
  mt_terminal_save();
  mortise_options_init(&options);
  options.log = mt_log_line;
  options.notice = mt_status_notice;
  mt_status_prompt(mt_terminal_at_prompt);
  mortise_host *made = mortise_host_new(&options, &err);
  if (!made) {
    free(words);
    return program_fail(err.message);
  }
  host = made;
  mortise_host_allow_exit(made, true); /* run.lua releases the locks first */
  int status = run_cli(mortise_host_state(made), argc < 1 ? 1 : argc, words);
  host = NULL; /* closing is bounded: nothing is left to interrupt, and a second signal ends it */
  mortise_host_free(made);
  free(words);
  bool unwritten = fflush(stdout) != 0 || ferror(stdout);
  if (mt_signals_unread) return mt_signals_end_unread();
  if (unwritten && status == 0) return program_fail("the output could not be written");
  return status;
}
