/* mortise/host.h: an interpreter with mortise in it.
 *
 * Everything that may raise an error runs under lua_pcall here, so no error reaches lua_atpanic. */
#include "bindings/coroutine.h"
#include "bindings/driver.h"
#include "bindings/gate.h"
#include "bindings/interrupt.h"
#include "bindings/lua_cjson.h"
#include "bindings/lua_error.h"
#include "bindings/lua_text.h"
#include "bindings/modules.h"
#include "bindings/pump.h"
#include "bindings/task.h"

#include "base/mem.h"
#include "base/process.h"
#include "client/options.h"

#include <mortise/host.h>

#include <lualib.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mortise_host {
  unsigned process; /* mt_process_number of the process that made it */
  lua_State *L;
  mt_driver *driver;
  mortise_options options; /* strings owned */
  bool has_options;
  char *traceback; /* owned, or NULL */
};

enum { PATIENCE_MS = 5000 }; /* for a script that caught an interrupt */

/* ---- Errors --------------------------------------------------------------------------------- */

typedef struct failure {
  mortise_host *host;
  mortise_error *err;
} failure;

static const char *text_field(lua_State *L, int index, const char *key) {
  lua_pushstring(L, key);
  lua_rawget(L, index);
  return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}

/* (error value, failure) */
static int read_failure(lua_State *L) {
  failure *f = lua_touserdata(L, 2);
  mt_error_read(L, 1, f->err);
  const char *text = lua_pushfstring(L, "%s", mt_text_push(L, 1));
  const char *traceback = mt_error_is(L, 1) ? text_field(L, 1, "traceback") : NULL;
  if (traceback) text = lua_pushfstring(L, "%s\n%s", text, traceback);
  f->host->traceback = mt_strdup(text);
  return 0;
}

/* Pops the error value. */
static mortise_status host_fail(mortise_host *host, mortise_error *err) {
  mortise_error unused;
  failure f = {host, err ? err : &unused};
  lua_State *L = host->L;
  mt_error_clear(f.err);
  if (lua_type(L, -1) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "not enough memory")) {
    lua_pop(L, 1);
    return mt_error_memory(f.err);
  }
  lua_pushcfunction(L, read_failure);
  lua_insert(L, -2);
  lua_pushlightuserdata(L, &f);
  int status = lua_pcall(L, 2, 0, 0);
  if (status == LUA_OK) return f.err->code;
  lua_pop(L, 1);
  if (status == LUA_ERRMEM) return mt_error_memory(f.err);
  return mt_error_set(f.err, MORTISE_SCRIPT_ERROR, "(the error cannot be shown)");
}

/* ---- A host --------------------------------------------------------------------------------- */

static int panic(lua_State *L) {
  const char *message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "(no message)";
  fprintf(stderr, "mortise: an error outside of every protected call: %s\n", message);
  abort();
}

/* os.exit; upvalue: Lua's own os.exit. */
static int checked_exit(lua_State *L) {
  if (!mt_driver_get(L)->may_exit)
    mt_error_throw(L, MORTISE_UNSUPPORTED,
                   "os.exit would end the whole program that runs this script: return, or raise an "
                   "error");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

static void guard_exit(lua_State *L) {
  lua_getglobal(L, "os");
  lua_getfield(L, -1, "exit");
  lua_pushcclosure(L, checked_exit, 1);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}

/* (host) */
static int set_up_state(lua_State *L) {
  mortise_host *host = lua_touserdata(L, 1);
  host->driver = mt_driver_get(L);
  host->driver->patience_ms = PATIENCE_MS;
  host->driver->defaults = host->has_options ? &host->options : NULL;
  host->driver->hosted = true;
  luaL_openlibs(L);
  mt_coroutine_track(L);
  guard_exit(L);
  mt_modules_preload(L);
  mt_cjson_preload(L);
  luaL_requiref(L, "mortise", luaopen_mortise, 1);
  return 0;
}

/* Checks the options by opening a client, which sends nothing until it is used. */
static bool is_openable(const mortise_options *options, mortise_error *err) {
  mortise_client *client = mortise_client_open(options, err);
  mortise_client_free(client);
  return client != NULL;
}

mortise_host *mortise_host_new(const mortise_options *options, mortise_error *err) {
  mortise_options taken;
  mt_error_clear(err);
  if (options && mt_client_options_take(&taken, options, err)) return NULL;
  if (options && taken.store && !is_openable(&taken, err)) return NULL;
  mortise_host *host = mt_calloc(1, sizeof *host);
  if (!host) {
    mt_error_memory(err);
    return NULL;
  }
  host->process = mt_process_number();
  host->has_options = options != NULL;
  host->L = luaL_newstate();
  if (!host->L || (options && !mt_client_options_copy(&host->options, &taken))) {
    mt_error_memory(err);
    mortise_host_free(host);
    return NULL;
  }
  lua_atpanic(host->L, panic);
  lua_pushcfunction(host->L, set_up_state);
  lua_pushlightuserdata(host->L, host);
  if (lua_pcall(host->L, 1, 0, 0) != LUA_OK) {
    host_fail(host, err);
    mortise_host_free(host);
    return NULL;
  }
  mt_gate_unbind(host->driver->gate);
  return host;
}

struct lua_State *mortise_host_state(mortise_host *host) {
  return host ? host->L : NULL;
}

const char *mortise_host_traceback(const mortise_host *host) {
  return host && host->traceback ? host->traceback : "";
}

int mortise_host_open_libs(struct lua_State *L) {
  return luaopen_mortise(L);
}

void mortise_host_interrupt(mortise_host *host) {
  if (host && host->process == mt_process_number()) mt_interrupt_ask(host->driver);
}

void mortise_host_allow_exit(mortise_host *host, bool allow) {
  if (host) host->driver->may_exit = allow;
}

void mortise_host_set_patience(mortise_host *host, int64_t ms) {
  if (host) host->driver->patience_ms = ms > 0 ? ms : 0;
}

static bool host_is_forked(const mortise_host *host, mortise_error *err) {
  if (host->process == mt_process_number()) return false;
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host cannot be used: %s", mt_process_forked);
  return true;
}

/* ---- Running -------------------------------------------------------------------------------- */

/* (function, ...) -> task */
static int spawn(lua_State *L) {
  mt_task_spawn(L, mt_driver_get(L), lua_gettop(L) - 1);
  return 1;
}

/* (task) -> its results; raises its error */
static int results(lua_State *L) {
  mt_task *task = lua_touserdata(L, 1);
  int n = mt_task_results(L, task);
  return task->failed ? lua_error(L) : n;
}

enum { CALL_MAX = 1000000 }; /* LUAI_MAXSTACK */

/* Runs the function below `nargs` arguments and leaves its results on the stack. */
static mortise_status run_main_task(mortise_host *host, int nargs, int nresults,
                                    mortise_error *err) {
  lua_State *L = host->L;
  lua_pushcfunction(L, spawn);
  lua_insert(L, -(nargs + 2));
  if (lua_pcall(L, nargs + 1, 1, 0) != LUA_OK) return host_fail(host, err);
  mt_pump_task(host->driver, lua_touserdata(L, -1));
  lua_pushcfunction(L, results);
  lua_insert(L, -2);
  return lua_pcall(L, 1, nresults, 0) == LUA_OK ? MORTISE_OK : host_fail(host, err);
}

mortise_status mortise_host_call(mortise_host *host, int nargs, int nresults, mortise_error *err) {
  mt_error_clear(err);
  if (!host) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host is NULL");
  if (host_is_forked(host, err)) return MORTISE_INVALID_ARGUMENT;
  if (nargs < 0 || nargs >= lua_gettop(host->L) || nresults < LUA_MULTRET || nresults > CALL_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "a call of %d arguments and %d results, with %d values on the stack", nargs,
                        nresults, lua_gettop(host->L));
  mt_free(host->traceback);
  host->traceback = NULL;
  mt_interrupt_call call = mt_interrupt_enter(host->driver);
  mortise_status status = MORTISE_OUT_OF_MEMORY;
  if (lua_checkstack(host->L, LUA_MINSTACK))
    status = run_main_task(host, nargs, nresults, err);
  else
    mt_error_memory(err);
  mt_interrupt_leave(host->driver, call);
  return status;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* -> the function that ends the clients */
static int push_end(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "mortise.client") != LUA_TTABLE) return 0;
  return lua_getfield(L, -1, "end_quietly") == LUA_TFUNCTION;
}

/* Must run before the state is closed, since its finalizers can send nothing any more. */
static void end_clients(mortise_host *host) {
  if (!host->driver || !lua_checkstack(host->L, LUA_MINSTACK)) return;
  lua_pushcfunction(host->L, push_end);
  if (lua_pcall(host->L, 0, 1, 0) == LUA_OK && lua_isfunction(host->L, -1))
    mortise_host_call(host, 0, 0, NULL);
}

void mortise_host_free(mortise_host *host) {
  if (!host || host->process != mt_process_number()) return; /* it is the parent's */
  if (host->L) {
    end_clients(host);
    lua_close(host->L);
  }
  mt_client_options_deinit(&host->options);
  mt_free(host->traceback);
  mt_free(host);
}

/* ---- Scripts -------------------------------------------------------------------------------- */

enum { ARGUMENTS_MAX = 100000 };

typedef struct script {
  const char *code, *name; /* if code is NULL, the file `name` is run */
  const char *const *args;
  size_t n;
} script;

static void set_arg(lua_State *L, const script *s) {
  lua_createtable(L, (int)s->n, 1);
  lua_pushstring(L, s->name);
  lua_rawseti(L, -2, 0);
  for (size_t i = 0; i < s->n; i++) {
    lua_pushstring(L, s->args[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setglobal(L, "arg");
}

/* (script) -> chunk, arguments */
static int load(lua_State *L) {
  const script *s = lua_touserdata(L, 1);
  int status;
  set_arg(L, s);
  if (s->code)
    status = luaL_loadbufferx(L, s->code, strlen(s->code), s->name, "t");
  else
    status = luaL_loadfilex(L, strcmp(s->name, "-") ? s->name : NULL, "t");
  if (status != LUA_OK) return lua_error(L);
  luaL_checkstack(L, (int)s->n, "too many arguments");
  for (size_t i = 0; i < s->n; i++) lua_pushstring(L, s->args[i]);
  return (int)s->n + 1;
}

static const char *missing_part(const mortise_host *host, const script *s) {
  if (!host) return "the host";
  if (!s->name) return s->code ? "the chunk's name" : "the file";
  for (size_t i = 0; i < s->n; i++)
    if (!s->args || !s->args[i]) return "an argument";
  return NULL;
}

static mortise_status run_script(mortise_host *host, const script *s, mortise_error *err) {
  mt_error_clear(err);
  const char *what = missing_part(host, s);
  if (what) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is NULL", what);
  if (host_is_forked(host, err)) return MORTISE_INVALID_ARGUMENT;
  lua_State *L = host->L;
  mt_free(host->traceback);
  host->traceback = NULL;
  if (s->n > ARGUMENTS_MAX || !lua_checkstack(L, (int)s->n + LUA_MINSTACK))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "too many arguments");
  lua_pushcfunction(L, load);
  lua_pushlightuserdata(L, (void *)s);
  if (lua_pcall(L, 1, (int)s->n + 1, 0) != LUA_OK) return host_fail(host, err);
  return mortise_host_call(host, (int)s->n, 0, err);
}

mortise_status mortise_host_run_file(mortise_host *host, const char *file, const char *const *args,
                                     size_t n, mortise_error *err) {
  return run_script(host, &(script){NULL, file, args, n}, err);
}

mortise_status mortise_host_run_string(mortise_host *host, const char *code, const char *chunk_name,
                                       const char *const *args, size_t n, mortise_error *err) {
  if (!code) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the code is NULL");
  return run_script(host, &(script){code, chunk_name, args, n}, err);
}
