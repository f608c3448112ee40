/* A Lua interpreter with mortise, for programs that embed scripts.
 *
 * A host belongs to the thread that runs it, or its loop; hosts in different threads are independent. Only
 * mortise_host_interrupt may be called from another thread or a signal handler. */
#ifndef MORTISE_HOST_H
#define MORTISE_HOST_H

#include <mortise/mortise.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lua_State;
typedef struct mortise_host mortise_host;

/* What scripts find. Lua's basic functions and `mortise` are always there. */
enum {
  MORTISE_LIB_PACKAGE = 1 << 0, /* `require` and `package` */
  MORTISE_LIB_COROUTINE = 1 << 1,
  MORTISE_LIB_TABLE = 1 << 2,
  MORTISE_LIB_IO = 1 << 3, /* also `dofile` and `loadfile` */
  MORTISE_LIB_OS = 1 << 4,
  MORTISE_LIB_STRING = 1 << 5, /* strings have their methods without it, too */
  MORTISE_LIB_UTF8 = 1 << 6,
  MORTISE_LIB_MATH = 1 << 7,
  MORTISE_LIB_DEBUG = 1 << 8,
  MORTISE_LIB_CJSON = 1 << 9, /* for `require` */
  MORTISE_LIB_ALL = (1 << 10) - 1
};

/* Scripts that are not trusted, each in a state of its own (docs/sandbox.md). They get none of the host's functions, and no
 * results come back. A limit of 0 is the default. */
typedef struct mortise_sandbox_options {
  size_t size;
  const char *const *allow; /* what they may do with the store: "read INDEX", "lock PATH", ...; copied */
  size_t allow_n;
  size_t memory_max;         /* bytes, from 1 MB to 1 GB; 64 MB */
  uint64_t instructions_max; /* 1,000,000,000 */
  int64_t time_max_ms;       /* waiting included; a minute */
} mortise_sandbox_options;
#define mortise_sandbox_options_init(options) mortise_sandbox_options_init_size(options, sizeof(mortise_sandbox_options))
MORTISE_API void mortise_sandbox_options_init_size(mortise_sandbox_options *options, size_t size);

/* What is decided when a host is made; the rest may be set at any time, by the functions below. */
typedef struct mortise_host_options {
  size_t size;
  const mortise_options *client; /* for mortise_host_new; NULL: as there */
  unsigned libraries;            /* MORTISE_LIB_...; all at first */
  /* All memory of Lua, as lua_Alloc: to resize `old`, which may be NULL, from `before` to `after` bytes, of which 0 frees it. It
   * must be able to shrink and to free. NULL: the C library's */
  void *(*allocate)(void *ctx, void *old, size_t before, size_t after);
  void *allocate_ctx;
  /* The main thread of a state of the program's own, in which the host then works, beside whatever else is there; NULL: it
   * makes one. It must have Lua's standard libraries, and gets the global `mortise`, and pcall, xpcall, coroutine.resume and
   * coroutine.wrap that an interrupt can pass through. mortise_host_free leaves it open; it must be closed before the loop is
   * freed. With it `libraries` and `allocate` are not to be set. */
  struct lua_State *state;
  /* mortise_host_run_... and mortise_host_start_file and _string run each script in a sandbox. What is called by
   * mortise_host_call and mortise_host_start_call is the program's own, and is not. NULL: scripts are trusted */
  const mortise_sandbox_options *sandbox;
} mortise_host_options;
#define mortise_host_options_init(options) mortise_host_options_init_size(options, sizeof(mortise_host_options))
MORTISE_API void mortise_host_options_init_size(mortise_host_options *options, size_t size);

/* As mortise_host_new, with these. NULL is as all defaults. */
MORTISE_API mortise_host *mortise_host_make(const mortise_host_options *options, mortise_error *err);

/* Creates an interpreter with Lua's standard libraries, `mortise` and `cjson`. `options` are for
 * the default client, which is opened at its first use; if NULL or without a store, the
 * configuration decides (MORTISE_STORE, then the configuration file). Options with a store that
 * mortise_client_open would refuse are refused here with the same error. Their `log` serves every
 * client. Owned: mortise_host_free. NULL with `err`. */
MORTISE_API mortise_host *mortise_host_new(const mortise_options *options, mortise_error *err);

/* Finishes writers that scripts left with items in them (errors go to the log), releases every
 * lock, closes the sessions and frees everything. What was started ends first, as by mortise_host_interrupt. In a callback
 * of its loop it does not wait: all of that goes on in later steps. Must not be called from a function that one of
 * its scripts called. NULL is fine. */
MORTISE_API void mortise_host_free(mortise_host *host);

/* Its Lua state, in which the program may register functions. Borrowed. NULL for NULL. */
MORTISE_API struct lua_State *mortise_host_state(mortise_host *host);

/* Opens the module in the program's own state, which must have Lua's standard libraries, and leaves
 * the table `mortise` on its stack, like luaopen_mortise. May raise errors like lua_call.
 * Everything works there; outside tasks, operations pump the loop instead of yielding. */
MORTISE_API int mortise_host_open_libs(struct lua_State *L);

/* Runs a script file ("-": standard input) or a chunk as a task and waits for it and its own tasks.
 * `args` becomes its `...` and the global `arg` (may be NULL only if `n` is 0). After SCRIPT_ERROR
 * the traceback is in mortise_host_traceback; an error object keeps its own code. INVALID_ARGUMENT
 * if a pointer is NULL that must not be. */
MORTISE_API mortise_status mortise_host_run_file(mortise_host *host, const char *file,
                                                 const char *const *args, size_t n,
                                                 mortise_error *err);
MORTISE_API mortise_status mortise_host_run_string(mortise_host *host, const char *code,
                                                   const char *chunk_name,
                                                   const char *const *args, size_t n,
                                                   mortise_error *err);

/* Calls the function below `nargs` arguments on the host's stack as a task, like lua_call, and
 * leaves `nresults` results there (LUA_MULTRET: all), or none after an error. INVALID_ARGUMENT,
 * with the stack unchanged, if the stack has too few values. */
MORTISE_API mortise_status mortise_host_call(mortise_host *host, int nargs, int nresults,
                                             mortise_error *err);

/* ---- In the caller's loop ------------------------------------------------------------------------------------------
 *
 * A host whose options name a `loop` (client.h) belongs to that loop's thread. Scripts that are started there go on from
 * mortise_loop_step, many at once, of one host or of several beside one another, each until it waits; a script that
 * computes holds up the others, as does one that waits where Lua cannot yield, such as in a metamethod or a finalizer. The
 * calls that wait, above, are INVALID_ARGUMENT in a callback of the loop.
 */
typedef struct mortise_run mortise_run;

/* Called once, from mortise_loop_step, when the script and its tasks have ended; or when the host is freed. `error`: code
 * MORTISE_OK, or why not. The script's `nresults` results are on top of the host's stack, for the call. It may start
 * others, cancel, and free the host. */
typedef void mortise_ran_fn(void *ctx, mortise_host *host, int nresults, const mortise_error *error);

/* As mortise_host_run_..., without waiting; nothing of the script runs yet. NULL with `err`, and `done`, which may be NULL,
 * is not called: INVALID_ARGUMENT, OUT_OF_MEMORY, or what is wrong with the script's text. The global `arg` is that of
 * the last one: scripts that run at once take `...`. */
MORTISE_API mortise_run *mortise_host_start_file(mortise_host *host, const char *file, const char *const *args, size_t n,
                                                 mortise_ran_fn *done, void *ctx, mortise_error *err);
MORTISE_API mortise_run *mortise_host_start_string(mortise_host *host, const char *code, const char *chunk_name,
                                                   const char *const *args, size_t n, mortise_ran_fn *done, void *ctx,
                                                   mortise_error *err);
/* The function below `nargs` arguments on the host's stack, which it pops. */
MORTISE_API mortise_run *mortise_host_start_call(mortise_host *host, int nargs, mortise_ran_fn *done, void *ctx,
                                                 mortise_error *err);

/* Ends it without a call of its `done`; `run` is gone. The script gets an `interrupted` error where it waits, or at its next
 * wait, and gives back its locks in later steps. mortise_host_interrupt interrupts all of a host's. NULL is fine. */
MORTISE_API void mortise_run_cancel(mortise_run *run);

/* Message and traceback of the last error; "" if there was no error, it has none, or `host` is
 * NULL. Borrowed until the next call. */
MORTISE_API const char *mortise_host_traceback(const mortise_host *host);

/* Interrupts the running call of mortise_host_run_... or mortise_host_call: raises an `interrupted`
 * error in every waiting task and in the running one, so that locks are released. It affects only
 * that call, and does nothing between calls or while an interrupt is being raised. Safe in a signal
 * handler and from other threads. NULL is fine. */
MORTISE_API void mortise_host_interrupt(mortise_host *host);

/* Whether a script may end the whole program with os.exit. By default it may not (`unsupported`),
 * since os.exit releases no locks and closes nothing of the program. */
MORTISE_API void mortise_host_allow_exit(mortise_host *host, bool allow);

/* How long a script may continue after it caught an interrupt: 5000 ms by default; 0: without
 * limit. Then the interrupt is raised again, repeatedly after the same time. From the second one
 * on, the script's pcall, xpcall and coroutines do not catch it; from the third on they catch no
 * error at all. `__close` handlers still run. NULL is fine. */
MORTISE_API void mortise_host_set_patience(mortise_host *host, int64_t ms);

/* How many bytes the host's scripts may have in Lua, what they have now included; 0: without limit. What would need more is
 * an OUT_OF_MEMORY that they may catch, with everything that is held given back as after any error. The library's own
 * buffers are not counted; each has a bound of its own. NULL is fine. */
MORTISE_API void mortise_host_set_memory_max(mortise_host *host, size_t bytes);
/* The bytes that its scripts have in Lua, once a limit was set; 0 before. */
MORTISE_API size_t mortise_host_memory(const mortise_host *host);

/* How many of Lua's instructions each script that is run or started may carry out, with its tasks and coroutines; 0: without
 * limit. Counted in thousands; it makes a script that computes about a quarter slower. One that has used them up is ended by an `interrupted`
 * error that no pcall, coroutine or handler of it catches; its locks are given back, and its `__close` handlers have a tenth of
 * them, each time. What C functions do is not counted (string.rep, string.find), nor what finalizers do. NULL is fine. */
MORTISE_API void mortise_host_set_instructions_max(mortise_host *host, uint64_t instructions);

/* Replaces the global `print`: it gets a line of `n` bytes, without a newline or a NUL after it, and must not use the host. */
MORTISE_API mortise_status mortise_host_set_print(mortise_host *host, void (*print)(void *ctx, const char *line, size_t n),
                                                  void *ctx, mortise_error *err);

#ifdef __cplusplus
}
#endif

#endif
