/* What a client and a host cost inside a program: memory, descriptors and threads of each, with a lock that it holds on an
 * embedded store. Alone, and in a loop that they share.
 *
 *   bench_embed [FOLDER]     /tmp, where a store is made and removed
 *
 * Each row is measured in a process of its own, from one that holds its lock to all that do. */
#include <mortise/host.h>
#include <mortise/mortise.h>

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1000 };

typedef struct use {
  double kb;
  int descriptors, threads;
} use;

static int entries(const char *folder) {
  int n = -2;
  DIR *d = opendir(folder);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static use use_now(void) {
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return (use){(double)pages * (double)sysconf(_SC_PAGESIZE) / 1024, entries("/proc/self/fd"), entries("/proc/self/task")};
}

static void fail(const mortise_error *err) {
  fprintf(stderr, "bench_embed: %s\n", err->message);
  exit(1);
}

static mortise_options options;

/* ---- Each that holds its lock ------------------------------------------------------------------ */

static int held;

static void had_lock(void *ctx, const mortise_outcome *outcome) {
  (void)ctx;
  if (!outcome->lock) fail(&outcome->error);
  held++;
}

static void step_until_held(int n) {
  while (held < n) {
    struct pollfd fd = {.fd = mortise_loop_fd(options.loop), .events = POLLIN};
    poll(&fd, 1, mortise_loop_timeout_ms(options.loop));
    mortise_loop_step(options.loop, NULL);
  }
}

static mortise_lock_request request_for(const char *const *path) {
  mortise_lock_request request;
  mortise_lock_request_init(&request);
  request.paths = path;
  request.n = 1;
  return request;
}

static void client_alone(const char *path) {
  mortise_error err;
  const mortise_lock_request request = request_for(&path);
  mortise_client *client = mortise_client_open(&options, &err);
  if (!client || !mortise_lock_acquire(client, &request, NULL, &err)) fail(&err);
}

static void client_in_loop(const char *path) {
  mortise_error err;
  const mortise_lock_request request = request_for(&path);
  mortise_client *client = mortise_client_open(&options, &err);
  if (!client || !mortise_lock_acquire_start(client, &request, had_lock, NULL, &err)) fail(&err);
}

static const char script[] = "lock = mortise.acquire {tree = ...}";

static void host_alone(const char *path) {
  mortise_error err;
  mortise_host *host = mortise_host_new(&options, &err);
  if (!host || mortise_host_run_string(host, script, "=script", &path, 1, &err)) fail(&err);
}

static void script_over(void *ctx, mortise_host *host, int n, const mortise_error *error) {
  (void)ctx;
  (void)host;
  (void)n;
  if (error->code) fail(error);
  held++;
}

static void host_in_loop(const char *path) {
  mortise_error err;
  mortise_host *host = mortise_host_new(&options, &err);
  if (!host || !mortise_host_start_string(host, script, "=script", &path, 1, script_over, NULL, &err)) fail(&err);
}

static const struct {
  const char *name;
  void (*begin)(const char *path);
  bool in_loop;
  int n;
} rows[] = {{"client", client_alone, false, 100},
            {"client in a loop", client_in_loop, true, MOST},
            {"host", host_alone, false, 100},
            {"host in a loop", host_in_loop, true, 300}};

static void measure(size_t row) {
  mortise_error err;
  use first = {0};
  if (rows[row].in_loop && !(options.loop = mortise_loop_new(&err))) fail(&err);
  for (int i = 0; i < rows[row].n; i++) {
    char path[32];
    snprintf(path, sizeof path, "/embed/%zu/%d", row, i);
    rows[row].begin(path);
    if (rows[row].in_loop) step_until_held(i + 1);
    if (i == 0) first = use_now();
  }
  const use all = use_now();
  double others = rows[row].n - 1;
  printf("%-18s %5d %10.1f kB each %8.2f descriptors each, %d of all %8.2f threads each, %d of all\n", rows[row].name,
         rows[row].n, (all.kb - first.kb) / others, (all.descriptors - first.descriptors) / others, all.descriptors,
         (all.threads - first.threads) / others, all.threads);
  fflush(stdout);
  _exit(0); /* the locks end with the store */
}

int main(int argc, char **argv) {
  char folder[256], store[512], command[300];
  int failed = 0;
  snprintf(folder, sizeof folder, "%.200s/mortise-embed-XXXXXX", argc > 1 ? argv[1] : "/tmp");
  if (!mkdtemp(folder)) return fprintf(stderr, "bench_embed: no folder can be made in %s\n", folder), 1;
  snprintf(store, sizeof store, "sqlite:%s/store", folder);
  mortise_options_init(&options);
  options.store = store;
  options.lease_ms = 600000;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int status = 1;
    pid_t pid = fork();
    if (!pid) measure(i);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) failed = 1;
  }
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) || failed;
}
