/* A program that hosts the interpreter, lends it a function of its own, and lets a script rename a
 * directory under a tree lock:
 *
 *   embed STORE INDEX FROM TO */
#include <lauxlib.h>
#include <lua.h>
#include <mortise/host.h>
#include <stdio.h>

static const char script[] =
    "local index, from, to = ...\n"
    "mortise.with_tree_lock({from, to}, {wait = '30s'}, function(lock)\n"
    "  local result = mortise.rename {index = index, from = from, to = to, lock = lock}\n"
    "  report(result.changed, lock.fence)\n"
    "end)\n";

/* What the script calls as report(changed, fence). */
static int report(lua_State *L) {
  printf("%lld documents renamed under fence %lld\n", (long long)luaL_checkinteger(L, 1),
         (long long)luaL_checkinteger(L, 2));
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: embed STORE INDEX FROM TO\n");
    return 2;
  }
  mortise_error err;
  mortise_options options;
  mortise_options_init(&options);
  options.store = argv[1];
  options.program = "embed";

  mortise_host *host = mortise_host_new(&options, &err);
  if (!host) {
    fprintf(stderr, "embed: %s\n", err.message);
    return mortise_status_exit(err.code);
  }
  lua_register(mortise_host_state(host), "report", report);
  mortise_status status = mortise_host_run_string(host, script, "=embedded",
                                                  (const char *const *)argv + 2, 3, &err);
  if (status) fprintf(stderr, "embed: %s\n", mortise_host_traceback(host));
  mortise_host_free(host);
  return mortise_status_exit(status);
}
