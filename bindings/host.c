/* mortise/host.h: an interpreter with mortise in it.
 *
 * Everything that may raise an error runs under lua_pcall here, so no error reaches lua_atpanic. */
#include "bindings/gate.h"
#include "bindings/host.h"
#include "bindings/interrupt.h"
#include "bindings/lua_error.h"
#include "bindings/lua_text.h"
#include "bindings/modules.h"
#include "bindings/pump.h"
#include "bindings/task.h"

#include "base/mem.h"
#include "base/process.h"
#include "client/options.h"

#include <lauxlib.h>

#include <string.h>

/* A script that was started. */
struct mortise_run {
  mortise_host *host;
  mt_task *task; /* in the registry, at the run's address */
  mortise_ran_fn *done;
  void *ctx;
  void (*drop)(void *ctx); /* NULL: nothing of it is ours */
  mortise_run *next;
};

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

static mortise_status tell_memory(const mortise_host *host, mortise_error *err) {
  if (!host->memory_max) return mt_error_memory(err);
  return mt_error_set(err, MORTISE_OUT_OF_MEMORY, "a script needs more than the %zu bytes that it may have in Lua",
                      host->memory_max);
}

/* Pops the error value. */
mortise_status mt_host_fail(mortise_host *host, mortise_error *err) {
  mortise_error unused;
  failure f = {host, err ? err : &unused};
  lua_State *L = host->L;
  mt_error_clear(f.err);
  if (lua_type(L, -1) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "not enough memory")) {
    lua_pop(L, 1);
    return tell_memory(host, f.err);
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

void mortise_host_set_instructions_max(mortise_host *host, uint64_t instructions) {
  if (host) mt_interrupt_limit(host->driver, instructions);
}

static void forget_error(mortise_host *host) {
  mt_free(host->traceback);
  host->traceback = NULL;
}

/* ---- What it may have ------------------------------------------------------------------------- */

/* Of a new object `before` is its type. What Lua gives back is always taken. */
static void *allocate(void *ctx, void *old, size_t before, size_t after) {
  mortise_host *host = ctx;
  size_t had = old ? before : 0;
  size_t room = host->memory < host->memory_max ? host->memory_max - host->memory : 0;
  if (after > had && host->memory_max && after - had > room) return NULL;
  void *new = host->alloc(host->alloc_ctx, old, before, after);
  if (new || !after) host->memory += after - had;
  return new;
}

void mortise_host_set_memory_max(mortise_host *host, size_t bytes) {
  if (!host) return;
  lua_State *L = host->L;
  if (!host->alloc) {
    host->memory = (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
    host->alloc = lua_getallocf(L, &host->alloc_ctx);
    lua_setallocf(L, allocate, host);
  }
  host->memory_max = bytes;
}

size_t mortise_host_memory(const mortise_host *host) {
  return host ? host->memory : 0;
}

static bool host_is_forked(const mortise_host *host, mortise_error *err) {
  return mt_process_check(host->process, "the host", err) != MORTISE_OK;
}

/* ---- What it prints ---------------------------------------------------------------------------- */

/* print(...); upvalue: the host */
static int host_print(lua_State *L) {
  const mortise_host *host = lua_touserdata(L, lua_upvalueindex(1));
  luaL_Buffer line;
  size_t n;
  int values = lua_gettop(L);
  luaL_buffinit(L, &line);
  for (int i = 1; i <= values; i++) {
    if (i > 1) luaL_addchar(&line, '\t');
    mt_text_push(L, i);
    luaL_addvalue(&line);
  }
  luaL_pushresult(&line);
  const char *text = lua_tolstring(L, -1, &n);
  if (host) host->print(host->print_ctx, text, n);
  return 0;
}

/* (host): the one before is kept for restore_print */
static int set_print(lua_State *L) {
  const mortise_host *host = lua_touserdata(L, 1);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, host) == LUA_TNIL) {
    lua_getglobal(L, "print");
    lua_rawsetp(L, LUA_REGISTRYINDEX, host);
  }
  lua_settop(L, 1);
  lua_pushcclosure(L, host_print, 1);
  lua_setglobal(L, "print");
  return 0;
}

/* (host); a function that a script has kept prints nothing any more. */
static int restore_print(lua_State *L) {
  const mortise_host *host = lua_touserdata(L, 1);
  if (lua_getglobal(L, "print") == LUA_TFUNCTION && lua_tocfunction(L, -1) == host_print) {
    lua_pushlightuserdata(L, NULL);
    if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, host);
  lua_setglobal(L, "print");
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, host);
  return 0;
}

mortise_status mortise_host_set_print(mortise_host *host, void (*print)(void *ctx, const char *line, size_t n), void *ctx,
                                      mortise_error *err) {
  mt_error_clear(err);
  if (!host || !print)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the %s is NULL", host ? "function `print`" : "host");
  if (host_is_forked(host, err)) return MORTISE_INVALID_ARGUMENT;
  if (!lua_checkstack(host->L, LUA_MINSTACK)) return mt_error_memory(err);
  host->print = print;
  host->print_ctx = ctx;
  lua_pushcfunction(host->L, set_print);
  lua_pushlightuserdata(host->L, host);
  return lua_pcall(host->L, 1, 0, 0) == LUA_OK ? MORTISE_OK : mt_host_fail(host, err);
}

/* INVALID_ARGUMENT where a call that waits cannot be. */
static mortise_status check_wait(const mortise_host *host, mortise_error *err) {
  if (host->ending) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host is being freed");
  return host->options.loop ? mt_shared_check_wait(host->options.loop, err) : MORTISE_OK;
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
  if (lua_pcall(L, nargs + 1, 1, 0) != LUA_OK) return mt_host_fail(host, err);
  mt_pump_task(host->driver, lua_touserdata(L, -1));
  lua_pushcfunction(L, results);
  lua_insert(L, -2);
  return lua_pcall(L, 1, nresults, 0) == LUA_OK ? MORTISE_OK : mt_host_fail(host, err);
}

mortise_status mortise_host_call(mortise_host *host, int nargs, int nresults, mortise_error *err) {
  mt_error_clear(err);
  if (!host) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host is NULL");
  if (host_is_forked(host, err)) return MORTISE_INVALID_ARGUMENT;
  if (nargs < 0 || nargs >= lua_gettop(host->L) || nresults < LUA_MULTRET || nresults > CALL_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "a call of %d arguments and %d results, with %d values on the stack", nargs,
                        nresults, lua_gettop(host->L));
  mortise_status status = check_wait(host, err);
  if (status) return status;
  forget_error(host);
  mt_interrupt_call call = mt_interrupt_enter(host->driver);
  status = MORTISE_OUT_OF_MEMORY;
  if (lua_checkstack(host->L, LUA_MINSTACK))
    status = run_main_task(host, nargs, nresults, err);
  else
    mt_error_memory(err);
  mt_interrupt_leave(host->driver, call);
  return status;
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* (run, function, ...): its task, kept in the registry */
static int spawn_run(lua_State *L) {
  mortise_run *run = lua_touserdata(L, 1);
  run->task = mt_task_spawn(L, run->host->driver, lua_gettop(L) - 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, run);
  return 0;
}

/* Pops the function and its arguments. */
static mortise_run *start_run(mortise_host *host, int nargs, mortise_ran_fn *done, void *ctx, mortise_error *err) {
  lua_State *L = host->L;
  mortise_run *run = mt_calloc(1, sizeof *run);
  if (!run || !lua_checkstack(L, LUA_MINSTACK)) {
    mt_free(run);
    lua_pop(L, nargs + 1);
    mt_error_memory(err);
    return NULL;
  }
  *run = (mortise_run){.host = host, .done = done, .ctx = ctx};
  lua_pushcfunction(L, spawn_run);
  lua_insert(L, -(nargs + 2));
  lua_pushlightuserdata(L, run);
  lua_insert(L, -(nargs + 2));
  mt_task *outer = host->driver->running;
  host->driver->running = NULL; /* it is nobody's child, also where a script's function has started it */
  int status = lua_pcall(L, nargs + 2, 0, 0);
  host->driver->running = outer;
  if (status != LUA_OK) {
    mt_host_fail(host, err);
    mt_free(run);
    return NULL;
  }
  run->task->joined = true;
  mt_interrupt_begin(host->driver);
  run->next = host->runs;
  host->runs = run;
  return run;
}

static mortise_status check_begin(const mortise_host *host, mortise_error *err) {
  mt_error_clear(err);
  if (!host) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host is NULL");
  if (host_is_forked(host, err)) return MORTISE_INVALID_ARGUMENT;
  if (host->ending) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host is being freed");
  if (host->options.loop) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host has no loop that the program steps: mortise_options.loop");
}

static mortise_run *start_call(mortise_host *host, int nargs, mortise_ran_fn *done, void *ctx, mortise_error *err) {
  if (check_begin(host, err)) return NULL;
  if (nargs >= 0 && nargs < lua_gettop(host->L)) return start_run(host, nargs, done, ctx, err);
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a call of %d arguments, with %d values on the stack", nargs,
               lua_gettop(host->L));
  return NULL;
}

mortise_run *mortise_host_start_call(mortise_host *host, int nargs, mortise_ran_fn *done, void *ctx, mortise_error *err) {
  return start_call(host, nargs, done, ctx, err);
}

mortise_run *mt_host_start_with(mortise_host *host, int nargs, mortise_ran_fn *done, void *ctx, void (*drop)(void *ctx),
                                mortise_error *err) {
  mortise_run *run = start_call(host, nargs, done, ctx, err);
  if (run)
    run->drop = drop;
  else
    drop(ctx);
  return run;
}

void mortise_run_cancel(mortise_run *run) {
  if (!run || host_is_forked(run->host, NULL)) return;
  run->done = NULL;
  if (!mt_task_is_done(run->task)) mt_task_stop(run->task, "the program has cancelled it");
}

/* Nothing of the state knows the host any more. */
static void detach(mortise_host *host) {
  lua_State *L = host->L;
  mt_driver *d = host->driver;
  if (host->alloc) lua_setallocf(L, host->alloc, host->alloc_ctx);
  if (!d) return;
  d->hosted = false;
  d->defaults = NULL;
  mt_interrupt_limit(d, 0);
  mt_interrupt_forget(d);
  if (!host->print || !lua_checkstack(L, LUA_MINSTACK)) return;
  lua_pushcfunction(L, restore_print);
  lua_pushlightuserdata(L, host);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
}

static void close_host(mortise_host *host) {
  if (host->options.loop) mt_shared_remove(host->options.loop, &host->guest);
  if (host->attached)
    detach(host);
  else if (host->L)
    lua_close(host->L);
  mt_client_options_deinit(&host->options);
  mt_free(host->traceback);
  mt_free(host);
}

/* ---- A turn ----------------------------------------------------------------------------------- */

/* Takes it out, tells what became of it, and frees it. */
static void run_over(mortise_host *host, mortise_run **link) {
  lua_State *L = host->L;
  mortise_run *run = *link;
  mortise_error error;
  int base = lua_gettop(L);
  mt_error_clear(&error);
  forget_error(host);
  *link = run->next;
  if (!host->runs) mt_interrupt_end(host->driver);
  lua_pushcfunction(L, results);
  lua_pushlightuserdata(L, run->task);
  if (lua_pcall(L, 1, LUA_MULTRET, 0) != LUA_OK) mt_host_fail(host, &error);
  if (run->done) run->done(run->ctx, host, lua_gettop(L) - base, &error);
  lua_settop(L, base);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, run); /* the key exists, so this allocates nothing */
  if (run->drop) run->drop(run->ctx);
  mt_free(run);
}

static void end_finished_runs(mortise_host *host) {
  for (mortise_run **link = &host->runs; *link;) {
    if (!mt_task_is_done((*link)->task)) {
      link = &(*link)->next;
      continue;
    }
    run_over(host, link);
    link = &host->runs; /* what was called may have started others */
  }
}

/* -> the function that ends the clients */
static int push_end(lua_State *L);

static void end_clients_later(mortise_host *host) {
  lua_State *L = host->L;
  host->ending_clients = true;
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  mt_interrupt_forget(host->driver);
  lua_pushcfunction(L, push_end);
  if (lua_pcall(L, 0, 1, 0) == LUA_OK && lua_isfunction(L, -1))
    start_run(host, 0, NULL, NULL, NULL);
  else
    lua_pop(L, 1);
}

static void host_turn(void *ctx) {
  mortise_host *host = ctx;
  mt_driver *d = host->driver;
  if (host->runs) {
    bool bound = mt_gate_bind(d->gate), blocked = mt_gate_unblock();
    mt_pump_turn(d);
    end_finished_runs(host);
    if (bound) mt_gate_unbind(d->gate);
    if (blocked) mt_gate_block();
  }
  if (!host->ending || host->runs) return;
  if (!host->ending_clients)
    end_clients_later(host);
  else
    close_host(host);
}

static int64_t host_wait(void *ctx) {
  const mortise_host *host = ctx;
  if (host->ending && !host->runs) return 0;
  return host->runs ? mt_pump_wait(host->driver) : -1;
}

/* ---- The end --------------------------------------------------------------------------------- */

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

/* Interrupts what was started, and tells what became of it. */
static void end_runs(mortise_host *host) {
  mt_interrupt_call call = mt_interrupt_enter(host->driver);
  mt_interrupt_ask(host->driver);
  while (host->runs) {
    mt_pump_task(host->driver, host->runs->task);
    run_over(host, &host->runs);
  }
  mt_interrupt_leave(host->driver, call);
}

void mortise_host_free(mortise_host *host) {
  if (!host || host->process != mt_process_number() || host->ending) return; /* it is the parent's */
  if (host->options.loop && mt_shared_busy(host->options.loop)) {
    host->ending = true;
    if (host->runs) mt_interrupt_ask(host->driver);
    return;
  }
  if (host->runs) end_runs(host);
  if (host->L) end_clients(host);
  close_host(host);
}

static void host_end(void *ctx) {
  mortise_host *host = ctx;
  host->ending = false;
  mortise_host_free(host);
}

void mt_host_join_loop(mortise_host *host) {
  host->guest = (mt_guest){.turn = host_turn, .wait = host_wait, .end = host_end, .ctx = host};
  if (host->options.loop) mt_shared_add(host->options.loop, &host->guest);
}

/* ---- Scripts -------------------------------------------------------------------------------- */

enum { ARGUMENTS_MAX = 100000 };

typedef struct script {
  const mortise_host *host;
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

/* Pushes what runs the script in a sandbox. */
static void push_sandboxed(lua_State *L, const script *s) {
  lua_getfield(L, LUA_REGISTRYINDEX, MT_HOST_SANDBOX);
  lua_pushstring(L, s->code);
  lua_pushstring(L, s->name);
  lua_getglobal(L, "print");
  lua_call(L, 3, 1);
}

static void push_trusted(lua_State *L, const script *s) {
  int status;
  set_arg(L, s);
  if (s->code)
    status = luaL_loadbufferx(L, s->code, strlen(s->code), s->name, "t");
  else
    status = luaL_loadfilex(L, strcmp(s->name, "-") ? s->name : NULL, "t");
  if (status != LUA_OK) lua_error(L);
}

/* (script) -> chunk, arguments */
static int load(lua_State *L) {
  const script *s = lua_touserdata(L, 1);
  if (s->host->sandboxed)
    push_sandboxed(L, s);
  else
    push_trusted(L, s);
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

/* Leaves the chunk and its arguments on the host's stack. */
static mortise_status push_script(mortise_host *host, const script *s, mortise_error *err) {
  lua_State *L = host->L;
  forget_error(host);
  if (s->n > ARGUMENTS_MAX || !lua_checkstack(L, (int)s->n + LUA_MINSTACK))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "too many arguments");
  lua_pushcfunction(L, load);
  lua_pushlightuserdata(L, (void *)s);
  return lua_pcall(L, 1, (int)s->n + 1, 0) == LUA_OK ? MORTISE_OK : mt_host_fail(host, err);
}

static mortise_status check_script(const mortise_host *host, const script *s, mortise_error *err) {
  mt_error_clear(err);
  const char *what = missing_part(host, s);
  if (what) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is NULL", what);
  return host_is_forked(host, err) ? MORTISE_INVALID_ARGUMENT : MORTISE_OK;
}

mortise_status mt_host_push(mortise_host *host, int (*push)(lua_State *L), void *ctx, int n, mortise_error *err) {
  if (!host) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host is NULL");
  if (host_is_forked(host, err)) return MORTISE_INVALID_ARGUMENT;
  if (host->ending) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the host is being freed");
  forget_error(host);
  if (!lua_checkstack(host->L, n + LUA_MINSTACK)) return mt_error_memory(err);
  lua_pushcfunction(host->L, push);
  lua_pushlightuserdata(host->L, ctx);
  return lua_pcall(host->L, 1, n, 0) == LUA_OK ? MORTISE_OK : mt_host_fail(host, err);
}

static mortise_status run_script(mortise_host *host, const script *s, mortise_error *err) {
  mortise_status status = check_script(host, s, err);
  if (!status) status = check_wait(host, err);
  if (!status) status = push_script(host, s, err);
  return status ? status : mortise_host_call(host, (int)s->n, 0, err);
}

static mortise_run *start_script(mortise_host *host, const script *s, mortise_ran_fn *done, void *ctx,
                                 mortise_error *err) {
  if (check_script(host, s, err) || check_begin(host, err) || push_script(host, s, err)) return NULL;
  return start_run(host, (int)s->n, done, ctx, err);
}

mortise_status mortise_host_run_file(mortise_host *host, const char *file, const char *const *args,
                                     size_t n, mortise_error *err) {
  return run_script(host, &(script){host, NULL, file, args, n}, err);
}

mortise_status mortise_host_run_string(mortise_host *host, const char *code, const char *chunk_name,
                                       const char *const *args, size_t n, mortise_error *err) {
  if (!code) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the code is NULL");
  return run_script(host, &(script){host, code, chunk_name, args, n}, err);
}

mortise_run *mortise_host_start_file(mortise_host *host, const char *file, const char *const *args, size_t n,
                                     mortise_ran_fn *done, void *ctx, mortise_error *err) {
  return start_script(host, &(script){host, NULL, file, args, n}, done, ctx, err);
}

mortise_run *mortise_host_start_string(mortise_host *host, const char *code, const char *chunk_name,
                                       const char *const *args, size_t n, mortise_ran_fn *done, void *ctx,
                                       mortise_error *err) {
  if (code) return start_script(host, &(script){host, code, chunk_name, args, n}, done, ctx, err);
  mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the code is NULL");
  return NULL;
}
