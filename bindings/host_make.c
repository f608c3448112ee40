/* Making a host: its options, its state, and what scripts find there. */
#include "bindings/coroutine.h"
#include "bindings/gate.h"
#include "bindings/host.h"
#include "bindings/lua_cjson.h"
#include "bindings/lua_error.h"
#include "bindings/modules.h"

#include "base/mem.h"
#include "base/process.h"
#include "client/options.h"

#include <lualib.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 5000 }; /* for a script that caught an interrupt */

/* ---- Its state -------------------------------------------------------------------------------- */

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

/* ---- What scripts find ------------------------------------------------------------------------ */

/* Removes the library with the global name `name`, also from what `require` finds. */
static void take_library(lua_State *L, const char *name) {
  lua_pushnil(L);
  lua_setglobal(L, name);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  lua_setfield(L, -2, name);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushnil(L);
  lua_setfield(L, -2, name);
  lua_pop(L, 2);
}

static void take_global(lua_State *L, const char *name) {
  lua_pushnil(L);
  lua_setglobal(L, name);
}

/* Once mortise's own files have all of them. */
static void take_libraries(lua_State *L, unsigned kept) {
  static const char *const names[] = {"package", "coroutine", "table", "io", "os", "string", "utf8", "math", "debug", "cjson"};
  _Static_assert(MORTISE_LIB_ALL == (1u << (sizeof names / sizeof *names)) - 1, "a name for each");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!(kept & (1u << i))) take_library(L, names[i]);
  if (!(kept & MORTISE_LIB_PACKAGE)) take_global(L, "require");
  if (kept & MORTISE_LIB_IO) return;
  take_global(L, "dofile");
  take_global(L, "loadfile");
}

static void set_limit(lua_State *L, const char *name, lua_Integer limit) {
  if (limit <= 0) return;
  lua_pushinteger(L, limit);
  lua_setfield(L, -2, name);
}

/* Keeps what runs a script in a sandbox, which stdlib/mortise/sandbox.lua makes. */
static void set_up_sandbox(lua_State *L, const mortise_sandbox_options *o) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mortise.sandbox");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "hosted");
  lua_createtable(L, 0, 4);
  lua_createtable(L, (int)o->allow_n, 0);
  for (size_t i = 0; i < o->allow_n; i++) {
    lua_pushstring(L, o->allow[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "allow");
  set_limit(L, "memory", (lua_Integer)o->memory_max);
  set_limit(L, "instructions", (lua_Integer)o->instructions_max);
  if (o->time_max_ms) {
    lua_pushnumber(L, (lua_Number)o->time_max_ms / 1000);
    lua_setfield(L, -2, "time");
  }
  lua_call(L, 1, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, MT_HOST_SANDBOX);
  lua_pop(L, 1);
}

typedef struct host_making {
  mortise_host *host;
  const mortise_sandbox_options *sandbox; /* or NULL */
} host_making;

/* (making) */
static int set_up_state(lua_State *L) {
  const host_making *m = lua_touserdata(L, 1);
  mortise_host *host = m->host;
  const mt_driver *before = mt_driver_peek(L);
  if (before && before->hosted) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the state has a host already");
  if (before && host->options.loop)
    mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "mortise was used in the state before: it has a loop of its own");
  host->driver = mt_driver_get(L);
  host->driver->patience_ms = PATIENCE_MS;
  host->driver->defaults = host->has_options ? &host->options : NULL;
  host->driver->hosted = true;
  if (host->options.loop) mt_driver_join(host->driver, host->options.loop);
  if (!host->attached) luaL_openlibs(L);
  mt_coroutine_track(L);
  if (!host->attached) guard_exit(L);
  mt_modules_preload(L);
  mt_cjson_preload(L);
  if (host->libraries != MORTISE_LIB_ALL) mt_modules_seclude(L);
  luaL_requiref(L, "mortise", luaopen_mortise, 1);
  if (m->sandbox) set_up_sandbox(L, m->sandbox);
  take_libraries(L, host->libraries);
  return 0;
}

/* ---- Making one ------------------------------------------------------------------------------- */

/* As luaL_newstate's: they are off until "@on". */
static void write_warning(mortise_host *host, const char *text, bool goes_on) {
  if (!host->warns_within) {
    host->warns_within = true;
    if (!goes_on && text[0] == '@') {
      if (!strcmp(text, "@on")) host->warns = true;
      if (!strcmp(text, "@off")) host->warns = false;
      host->warns_within = false;
      return;
    }
    if (host->warns) fputs("Lua warning: ", stderr);
  }
  if (host->warns) fputs(text, stderr);
  if (host->warns && !goes_on) fputc('\n', stderr);
  host->warns_within = goes_on;
}

static void host_warn(void *ctx, const char *text, int goes_on) {
  write_warning(ctx, text, goes_on);
}

static lua_State *new_state(mortise_host *host, const mortise_host_options *o) {
  host->attached = o->state != NULL;
  if (host->attached) return o->state;
  if (!o->allocate) return luaL_newstate();
  lua_State *L = lua_newstate(o->allocate, o->allocate_ctx);
  if (L) lua_setwarnf(L, host_warn, host);
  return L;
}

/* Checks the options by opening a client, which sends nothing until it is used. */
static bool is_openable(const mortise_options *options, mortise_error *err) {
  mortise_client *client = mortise_client_open(options, err);
  mortise_client_free(client);
  return client != NULL;
}

void mortise_sandbox_options_init_size(mortise_sandbox_options *o, size_t size) {
  mt_struct_give(o, &(mortise_sandbox_options){.size = size}, size, sizeof *o);
}

void mortise_host_options_init_size(mortise_host_options *o, size_t size) {
  mt_struct_give(o, &(mortise_host_options){.size = size, .libraries = MORTISE_LIB_ALL}, size, sizeof *o);
}

static mortise_status check_state(const mortise_host_options *o, mortise_error *err) {
  if (o->allocate || o->libraries != MORTISE_LIB_ALL)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a state of the program's own has its libraries and its allocator");
  if (!lua_checkstack(o->state, LUA_MINSTACK)) return mt_error_memory(err);
  bool is_main = lua_pushthread(o->state);
  lua_pop(o->state, 1);
  return is_main ? MORTISE_OK : mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the state is a coroutine, not a main thread");
}

static mortise_status take_sandbox(mortise_sandbox_options *out, const mortise_sandbox_options *given, mortise_error *err) {
  mortise_sandbox_options_init(out);
  mortise_status bad = mt_struct_take(out, sizeof *out, given, sizeof *out, "mortise_sandbox_options", err);
  if (bad) return bad;
  for (size_t i = 0; i < out->allow_n; i++)
    if (!out->allow || !out->allow[i]) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "rule %zu of `allow` is NULL", i);
  if (out->time_max_ms < 0 || out->instructions_max > INT64_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a limit of the sandbox is out of range");
  return MORTISE_OK;
}

/* Both structs, and what they say. */
static mortise_status take_host_options(mortise_host_options *out, mortise_options *client, const mortise_host_options *given,
                                        mortise_error *err) {
  mortise_host_options_init(out);
  mortise_status bad = given ? mt_struct_take(out, sizeof *out, given, offsetof(mortise_host_options, allocate),
                                              "mortise_host_options", err)
                             : MORTISE_OK;
  if (!bad && out->libraries & ~(unsigned)MORTISE_LIB_ALL)
    bad = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "there is no library 0x%x", out->libraries & ~(unsigned)MORTISE_LIB_ALL);
  if (!bad && out->state) bad = check_state(out, err);
  if (bad || !out->client) return bad;
  bad = mt_client_options_take(client, out->client, err);
  if (!bad && client->loop) bad = mt_shared_check(client->loop, "the loop", err);
  if (!bad && client->store && !is_openable(client, err)) bad = MORTISE_INVALID_ARGUMENT;
  return bad;
}

static bool set_up(mortise_host *host, const mortise_sandbox_options *sandbox, mortise_error *err) {
  lua_State *L = host->L;
  if (!host->attached) lua_atpanic(L, panic);
  lua_pushcfunction(L, set_up_state);
  lua_pushlightuserdata(L, &(host_making){host, sandbox});
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return true;
  mt_host_fail(host, err);
  return false;
}

mortise_host *mortise_host_make(const mortise_host_options *options, mortise_error *err) {
  mortise_host_options o;
  mortise_options client;
  mt_error_clear(err);
  if (take_host_options(&o, &client, options, err)) return NULL;
  mortise_sandbox_options sandbox;
  if (o.sandbox && take_sandbox(&sandbox, o.sandbox, err)) return NULL;
  mortise_host *host = mt_calloc(1, sizeof *host);
  if (!host) {
    mt_error_memory(err);
    return NULL;
  }
  host->process = mt_process_number();
  host->has_options = o.client != NULL;
  host->libraries = o.libraries;
  host->L = new_state(host, &o);
  if (!host->L || (o.client && !mt_client_options_copy(&host->options, &client))) {
    mt_error_memory(err);
    mortise_host_free(host);
    return NULL;
  }
  host->sandboxed = o.sandbox != NULL;
  if (!set_up(host, o.sandbox ? &sandbox : NULL, err)) {
    mortise_host_free(host);
    return NULL;
  }
  mt_gate_unbind(host->driver->gate);
  mt_host_join_loop(host);
  return host;
}

mortise_host *mortise_host_new(const mortise_options *options, mortise_error *err) {
  mortise_host_options o;
  mortise_host_options_init(&o);
  o.client = options;
  return mortise_host_make(&o, err);
}
