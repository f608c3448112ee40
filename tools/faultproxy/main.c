/* faultproxy --upstream HOST:PORT [--listen PORT] [--record FILE] [--seed N] [--anonymous yes]
 *            [RULE...]
 *
 * Forwards what comes to 127.0.0.1:PORT, except that rules (rule.h) make requests go wrong. More
 * rules are read from stdin, one a line, each answered by `ok` or by what is wrong with it; `clear`
 * forgets all, `quit` ends, as SIGTERM does. */
#include "proxy.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static mt_loop *loop;

static void stop(int signal) {
  (void)signal;
  over = 1;
  if (loop) mt_loop_wake(loop);
}

typedef struct control {
  fault_proxy *proxy;
  mt_watch watch;
  char line[1024];
  size_t n;
} control;

static void command(control *c) {
  mortise_error err;
  if (!strcmp(c->line, "quit"))
    over = 1;
  else if (!strcmp(c->line, "clear"))
    fault_proxy_clear(c->proxy);
  else if (*c->line && fault_proxy_rule(c->proxy, c->line, &err)) {
    puts(err.message);
    return;
  }
  puts("ok");
}

static void typed(void *ctx, uint32_t events) {
  control *c = ctx;
  (void)events;
  ssize_t n = read(c->watch.fd, c->line + c->n, sizeof c->line - 1 - c->n);
  if (n <= 0 || c->n + (size_t)n == sizeof c->line - 1) {
    mt_watch_stop(loop, &c->watch); /* rules that stand go on */
    return;
  }
  c->n += (size_t)n;
  for (char *end; (end = memchr(c->line, '\n', c->n));) {
    *end = '\0';
    command(c);
    size_t used = (size_t)(end + 1 - c->line);
    memmove(c->line, end + 1, c->n - used);
    c->n -= used;
  }
  fflush(stdout);
}

static int usage(void) {
  fputs("faultproxy --upstream HOST:PORT [--listen PORT] [--record FILE] [--seed N] [--anonymous "
        "yes] [RULE...]\n",
        stderr);
  return 2;
}

typedef struct arguments {
  fault_config config;
  int first_rule;
} arguments;

static bool read_arguments(int argc, char **argv, arguments *out) {
  int i = 1;
  for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
    const char *value = argv[i + 1];
    if (!strcmp(argv[i], "--upstream"))
      out->config.upstream = value;
    else if (!strcmp(argv[i], "--listen"))
      out->config.port = (uint16_t)strtoul(value, NULL, 10);
    else if (!strcmp(argv[i], "--seed"))
      out->config.seed = strtoull(value, NULL, 10);
    else if (!strcmp(argv[i], "--anonymous"))
      out->config.anonymous = !strcmp(value, "yes");
    else if (!strcmp(argv[i], "--record") && !out->config.record)
      out->config.record = fopen(value, "w");
    else
      return false;
    if (!strcmp(argv[i], "--record") && !out->config.record) return false;
  }
  out->first_rule = i;
  return out->config.upstream != NULL;
}

static int serve(fault_proxy *proxy) {
  control c = {.proxy = proxy, .watch = {.ready = typed, .ctx = &c}};
  mortise_error err;
  mt_watch_set(loop, &c.watch, EPOLLIN,
               NULL); /* a stdin that is not a pipe or terminal is ignored */
  printf("listening on 127.0.0.1:%u\n", fault_proxy_port(proxy));
  fflush(stdout);
  int failed = 0;
  while (!over && !failed) {
    failed = mt_loop_step(loop, -1, &err) != MORTISE_OK;
    if (failed) fprintf(stderr, "%s\n", err.message);
  }
  mt_watch_stop(loop, &c.watch);
  return failed;
}

int main(int argc, char **argv) {
  arguments a = {0};
  mortise_error err;
  if (!read_arguments(argc, argv, &a)) return usage();
  if (a.config.record) setvbuf(a.config.record, NULL, _IOLBF, 0);
  signal(SIGTERM, stop);
  signal(SIGINT, stop);
  loop = mt_loop_new(&err);
  fault_proxy *proxy = loop ? fault_proxy_new(loop, &a.config, &err) : NULL;
  bool good = proxy != NULL;
  for (int i = a.first_rule; good && i < argc; i++) good = !fault_proxy_rule(proxy, argv[i], &err);
  if (!good) fprintf(stderr, "%s\n", err.message);
  int status = good ? serve(proxy) : 1;
  fault_proxy_free(proxy);
  mt_loop_free(loop);
  if (a.config.record) fclose(a.config.record);
  return status;
}
