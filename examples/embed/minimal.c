/* A script in a C program: it takes a tree lock, and prints who else waits for it.
 *
 *   minimal STORE PATH */
#include <mortise/host.h>
#include <stdio.h>

static const char script[] =
    "local path, owners, waiters = ..., {}, 0\n"
    "mortise.with_tree_lock(path, function(lock)\n"
    "  for _ = 1, 20 do\n" // seconds; until somebody waits
    "    mortise.sleep '1s'\n"
    "    local seen = mortise.list()\n"
    "    for _, session in ipairs(seen.sessions) do owners[session.session] = session.owner end\n"
    "    for _, place in ipairs(seen.locks) do\n"
    "      for _, waiter in ipairs(place.queue) do\n"
    "        print(owners[waiter.session].script .. ' waits for ' .. waiter.mode .. ' on ' .. place.path)\n"
    "        waiters = waiters + 1\n"
    "      end\n"
    "    end\n"
    "    if waiters > 0 then break end\n"
    "  end\n"
    "end)\n";

int main(int argc, char **argv) {
  mortise_error err;
  mortise_options options;
  if (argc != 3) return fprintf(stderr, "usage: minimal STORE PATH\n"), 2;
  mortise_options_init(&options);
  options.store = argv[1];
  mortise_host *host = mortise_host_new(&options, &err);
  if (!host) return fprintf(stderr, "minimal: %s\n", err.message), 2;
  mortise_status status =
      mortise_host_run_string(host, script, "=script", (const char *const *)argv + 2, 1, &err);
  if (status) fprintf(stderr, "minimal: %s\n", mortise_host_traceback(host));
  mortise_host_free(host);
  return mortise_status_exit(status);
}
