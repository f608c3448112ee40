/* Of a host, for what stands on it. */
#ifndef MT_BINDINGS_HOST_H
#define MT_BINDINGS_HOST_H

#include "bindings/driver.h"

#include "client/shared.h"

#include <mortise/host.h>

struct mortise_host {
  unsigned process; /* mt_process_number of the process that made it */
  lua_State *L;
  mt_driver *driver;
  mortise_options options; /* strings owned */
  bool has_options;
  char *traceback; /* owned, or NULL */
  lua_Alloc alloc; /* Lua's own, once it is limited */
  void *alloc_ctx;
  size_t memory, memory_max; /* in bytes; 0: without limit */
  unsigned libraries;
  bool attached; /* the state is the program's */
  bool sandboxed; /* scripts are not trusted; in its registry, at MT_HOST_SANDBOX, is what runs one */
  bool warns, warns_within; /* of write_warning */
  void (*print)(void *ctx, const char *line, size_t n); /* of mortise_host_set_print */
  void *print_ctx;
  mt_guest guest;  /* of options.loop */
  mortise_run *runs; /* under way, owned */
  bool ending;     /* freed in a callback: it ends in later turns */
  bool ending_clients;
};

#define MT_HOST_SANDBOX "mortise.host.sandbox"

/* Pops the error value, which becomes the host's traceback. */
mortise_status mt_host_fail(mortise_host *host, mortise_error *err);
/* Takes turns in the loop of its options, if they have one. */
void mt_host_join_loop(mortise_host *host);

/* mortise_host_start_call, with a `ctx` that `drop` frees when the run is over, told or cancelled; here too where it was not
 * started. */
mortise_run *mt_host_start_with(mortise_host *host, int nargs, mortise_ran_fn *done, void *ctx, void (*drop)(void *ctx),
                                mortise_error *err);

/* Pushes `push`'s results for `ctx` onto the host's stack, as many as `n`. */
mortise_status mt_host_push(mortise_host *host, int (*push)(struct lua_State *L), void *ctx, int n, mortise_error *err);

#endif
