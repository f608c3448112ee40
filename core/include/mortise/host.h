/* The interpreter with mortise in it, for programs that embed scripts.
 *
 * A host belongs to the thread that runs it; two hosts in two threads do not touch each other. Only
 * mortise_host_interrupt may be called from another thread or a signal handler. */
#ifndef MORTISE_HOST_H
#define MORTISE_HOST_H

#include <mortise/mortise.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lua_State;
typedef struct mortise_host mortise_host;

/* A new interpreter with Lua's own libraries, `mortise` and `cjson`. `options` are those of the
 * default client, which is opened at its first use; NULL, or without a store: what the configuration
 * says (MORTISE_STORE, then the configuration file). Options with a store that mortise_client_open
 * would refuse are refused here, with the same error. Their `log` serves every client. Owned:
 * mortise_host_free. NULL with `err`. */
MORTISE_API mortise_host *mortise_host_new(const mortise_options *options, mortise_error *err);

/* Finishes the writers that scripts left with items in them (what that raises goes to the log), gives
 * back every lock, closes the sessions, frees all. Not from inside one of its own calls (a function
 * that a script called). NULL is fine. */
MORTISE_API void mortise_host_free(mortise_host *host);

/* Its state, to register functions of the program's own. Borrowed. NULL of NULL. */
MORTISE_API struct lua_State *mortise_host_state(mortise_host *host);

/* Opens the module in a state of the program's own, which has Lua's standard libraries: leaves the
 * table `mortise` on its stack, like luaopen_mortise. May raise, as lua_call does. Everything works
 * there; operations pump instead of yielding outside tasks. */
MORTISE_API int mortise_host_open_libs(struct lua_State *L);

/* Runs a script file ("-": standard input) or a chunk as a task, `args` as its `...` and the global
 * `arg` (NULL only where `n` is 0), and waits for it and its own tasks. SCRIPT_ERROR carries the
 * traceback in mortise_host_traceback; an error object keeps its own code. INVALID_ARGUMENT where a
 * pointer is NULL that must not be. */
MORTISE_API mortise_status mortise_host_run_file(mortise_host *host, const char *file,
                                                 const char *const *args, size_t n,
                                                 mortise_error *err);
MORTISE_API mortise_status mortise_host_run_string(mortise_host *host, const char *code,
                                                   const char *chunk_name,
                                                   const char *const *args, size_t n,
                                                   mortise_error *err);

/* Calls the function below `nargs` arguments on the host's stack as a task, like lua_call, and
 * leaves `nresults` results there (LUA_MULTRET: all); on an error none. INVALID_ARGUMENT, the stack
 * as it was, where there is not as much on it. */
MORTISE_API mortise_status mortise_host_call(mortise_host *host, int nargs, int nresults,
                                             mortise_error *err);

/* Message and traceback of the last error, "" when there was none, when it has none, or `host` is NULL.
 * Borrowed until the next call. */
MORTISE_API const char *mortise_host_traceback(const mortise_host *host);

/* Interrupts the call of mortise_host_run_... or mortise_host_call that is under way: an
 * `interrupted` error in every waiting task and in the running one, so that locks are given back.
 * It is for that call only; between calls, and while one is being raised, it does nothing. Safe in
 * a signal handler and from other threads. NULL is fine. */
MORTISE_API void mortise_host_interrupt(mortise_host *host);

/* May a script end the whole program by os.exit? It may not (`unsupported`) unless this says so:
 * os.exit gives no lock back, and closes nothing of the program's. */
MORTISE_API void mortise_host_allow_exit(mortise_host *host, bool allow);

/* For how long a script may go on after it caught an interrupt: 5000 ms unless set; 0: for ever.
 * Then it is raised again, each time after as long. From the second time on the script's pcall,
 * xpcall and coroutines do not catch it, from the third on no error at all; `__close` handlers
 * run. NULL is fine. */
MORTISE_API void mortise_host_set_patience(mortise_host *host, int64_t ms);

#ifdef __cplusplus
}
#endif

#endif
